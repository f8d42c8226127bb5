/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory runs out in the ledger, SQLite included: at the nth allocation, for every n, once or from
 * then on. SQLite can do without some allocations, so a call may succeed; what it may not do is say
 * something else than the file: what was acknowledged is there, nothing else is, and a sound ledger
 * is never called unsound.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ledger/ledger.h"

#define ROUNDS_MAX 20000
#define ROWS       3

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static struct {
	bool armed, persistent;
	unsigned countdown, failed;
	long live;
} fault;

static bool fails(void)
{
	if (!fault.armed)
		return false;
	if (fault.countdown > 1) {
		fault.countdown--;
		return false;
	}
	if (fault.failed && !fault.persistent)
		return false;
	fault.failed++;
	errno = ENOMEM;
	return true;
}

static void *counted(void *p)
{
	fault.live += p != NULL;
	return p;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
	if (fails())
		return NULL;
	return p ? __real_realloc(p, n) : counted(__real_realloc(p, n));
}

void __wrap_free(void *p)
{
	fault.live -= p != NULL;
	__real_free(p);
}

static char dir[] = "/dev/shm/alloc-ledger-XXXXXX";
static uint64_t recorded; /* rows that were acknowledged */

static int append_group(struct err *err)
{
	struct ledger *l = NULL;
	uint8_t digest[SHA256_SIZE];
	int r = ledger_open(dir, &l, err);

	for (unsigned i = 0; r == 0 && i < ROWS; i++) {
		uint64_t text[] = { recorded, i };

		r = ledger_body(l, text, sizeof(text), digest, err);
		if (r == 0)
			r = ledger_append(l, &(struct ledger_event){ .job = "j", .kind = "state" },
			                  err);
	}
	if (r == 0)
		r = ledger_commit(l, LEDGER_PROCESS, err);
	ledger_close(l);
	if (r == 0)
		recorded += ROWS;
	return r;
}

static int verify(struct err *err)
{
	struct ledger_report report;
	struct ledger *l = NULL;
	int r = ledger_open(dir, &l, err);

	if (r == 0)
		r = ledger_verify(l, &report, err);
	ledger_close(l);
	if (r == 0 && (!report.ok || report.rows != recorded))
		return err_set(err, ERR_IO, EUCLEAN, "%llu rows of %llu: %.150s",
		               (unsigned long long)report.rows, (unsigned long long)recorded,
		               report.why);
	return r;
}

static int take_row(void *data, const struct ledger_row *row)
{
	ledger_row_to_json(row, data);
	return 0;
}

static int read_all(struct err *err)
{
	CLEANUP_BUF struct buf b = BUF_INIT(16 * MIB);
	struct ledger *l = NULL;
	int r = ledger_open(dir, &l, err);

	if (r == 0)
		r = ledger_each(l, &(struct ledger_filter){ .job = "j", .limit = 9 }, take_row, &b,
		                err);
	ledger_close(l);
	return r < 0 ? r : buf_finish(&b);
}

static unsigned tests, failures;

static void report_case(bool ok, const char *name, const char *why)
{
	printf("%sok %u - %s\n", ok ? "" : "not ", ++tests, name);
	if (!ok)
		printf("# %s\n", why);
	failures += !ok;
}

/* False when there is nothing more to try. */
static bool try_one(int (*call)(struct err *err), unsigned n, bool persistent, char why[400],
                    bool *ret_ok)
{
	long before = fault.live;
	struct err err = { 0 };
	int r;

	fault.countdown = n;
	fault.persistent = persistent;
	fault.failed = 0;
	fault.armed = true;
	r = call(&err);
	fault.armed = false;
	*ret_ok = false;
	(void)snprintf(why, 400, "allocation %u: %d, %ld leaked: %s", n, r, fault.live - before,
	               err.msg);
	if (fault.live != before || (r != 0 && r != -ENOMEM) || (r != 0 && !fault.failed))
		return false;
	r = verify(&err);
	(void)snprintf(why, 400, "allocation %u, afterwards: %s", n, err.msg);
	*ret_ok = r == 0;
	return r == 0 && fault.failed;
}

static void torture_call(const char *name, int (*call)(struct err *err), bool persistent)
{
	char why[400] = "";
	bool ok = true;
	unsigned n = 1;

	while (n < ROUNDS_MAX && try_one(call, n, persistent, why, &ok))
		n++;
	printf("# %s: %u allocations\n", name, n - 1);
	report_case(ok && n > 10 && n < ROUNDS_MAX, name, why);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

int main(void)
{
	struct err err = { 0 };

	if (!mkdtemp(dir) || append_group(&err) < 0) {
		printf("Bail out! %s\n", err.msg);
		return 1;
	}
	printf("1..6\n");
	torture_call("append, once", append_group, false);
	torture_call("append, from then on", append_group, true);
	torture_call("verify, once", verify, false);
	torture_call("verify, from then on", verify, true);
	torture_call("read, once", read_all, false);
	torture_call("read, from then on", read_all, true);
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return failures ? 1 : 0;
}
