/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk below the ledger fails: the nth read, write, sync, truncation, mapping or opening, for
 * every n, once or from then on. The call must say so as an error of ours or succeed in full; when
 * the disk works again, the same handle and a new one find a sound ledger, with all that was
 * acknowledged and nothing that was refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "disk.h"
#include "disk_dir.h"

#define TEMPLATE_ROWS 12
#define NTH_MAX       400
#define NOT_MORE      UINT64_MAX
#define LONG_BODY     (70 * KIB)
#define GROUP_ROWS    4 /* three, and one that names the last body */

static char dir[] = "/dev/shm/io-ledger-XXXXXX";
static struct buf files[4];
static const char *const names[] = { "ledger.db", "ledger.db-wal", "ledger.key", "ledger.head" };
static struct ledger *led;
static char why[600];
static unsigned may_fail; /* so many syncs, without an error */

/* What a call did to the record. */
struct outcome {
	int r;
	uint64_t rows; /* that it acknowledged */
	struct err err;
};

static bool wrong(const char *what, int r, const struct err *err)
{
	(void)snprintf(why, sizeof(why), "%s (%d, %s): %s", what, r, err_code_name(err->code),
	               err->msg);
	return false;
}

/* ---- the ledger ---- */

/* Every tenth has a body of which only a part is kept; it takes more than one write. */
static int add_group(unsigned salt, enum ledger_durability how, struct err *err)
{
	static uint8_t text[LONG_BODY];
	uint8_t digest[SHA256_SIZE];
	int r = 0;

	memset(text, (int)('a' + salt % 26), sizeof(text));
	for (unsigned i = 0; r == 0 && i < GROUP_ROWS - 1; i++) {
		text[0] = (uint8_t)('A' + i);
		r = ledger_body(led, text, salt % 10 + i ? 5000 * (i == 1) + i : LONG_BODY, digest,
		                err);
		if (r == 0)
			r = ledger_append(
				led, &(struct ledger_event){ .job = "j", .kind = "state" }, err);
	}
	text[0] = 'Z';
	if (r == 0)
		r = ledger_body(led, text, 40, digest, err);
	return r < 0 ? r : ledger_commit(led, how, err);
}

static bool open_it(struct err *err)
{
	*err = (struct err){ 0 };
	return ledger_open(dir, &led, err) == 0;
}

static void close_it(void)
{
	ledger_close(led);
	led = NULL;
}

static int make_template(struct err *err)
{
	int r = open_it(err) ? 0 : -1;

	for (unsigned i = 0; r == 0 && i < TEMPLATE_ROWS / GROUP_ROWS; i++)
		r = add_group(i, LEDGER_PROCESS, err);
	close_it();
	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		r = load_file(dir, names[i], &files[i]) ? r : -1;
	return r;
}

static bool restore(bool empty)
{
	remove_dir(dir);
	if (mkdir(dir, 0700) < 0)
		return false;
	for (size_t i = 0; !empty && i < ELEMENTSOF(names); i++)
		if (!store_file(dir, names[i], files[i].data, files[i].len))
			return false;
	return true;
}

/* ---- what is tried; each begins with what is there when it is called ---- */

static struct outcome try_open(void)
{
	struct outcome o = { 0 };

	o.r = ledger_open(dir, &led, &o.err);
	if (o.r == 0)
		o.r = add_group(19, LEDGER_PROCESS, &o.err);
	o.rows = o.r == 0 ? GROUP_ROWS : 0;
	return o;
}

static struct outcome try_append(void)
{
	struct outcome o = { 0 };

	o.r = add_group(22, LEDGER_PROCESS, &o.err);
	o.rows = o.r == 0 ? GROUP_ROWS : 0;
	return o;
}

static struct outcome try_append_long(void)
{
	struct outcome o = { 0 };

	o.r = add_group(10, LEDGER_PROCESS, &o.err);
	o.rows = o.r == 0 ? GROUP_ROWS : 0;
	return o;
}

/* Pages that do not stay in memory get into the log before the commit, some of them twice. */
static struct outcome try_append_large(void)
{
	(void)sqlite3_exec(ledger_db(led), "PRAGMA cache_size=1", NULL, NULL, NULL);
	return try_append_long();
}

/* A group that only could not be synced is recorded; but a sync that failed is told. A checkpoint
 * that did not work out is tried again later: then one that failed once is no error. */
static struct outcome try_disk(void)
{
	struct outcome o = { 0 };

	o.r = add_group(22, LEDGER_DISK, &o.err);
	if (o.r == 0 && disk_fault.op == DISK_SYNC && disk_fault.failed > may_fail) {
		o.r = 1;
		(void)err_set(&o.err, ERR_INTERNAL, 0, "a sync that failed is not told");
	}
	o.rows = o.r == 0 || strstr(o.err.msg, "fsync") ? GROUP_ROWS : 0;
	return o;
}

static struct outcome try_checkpoint(void)
{
	struct outcome o;

	(void)sqlite3_wal_autocheckpoint(ledger_db(led), 1);
	may_fail = 1;
	o = try_disk();
	may_fail = 0;
	return o;
}

/* All of the template goes and one row comes. */
static struct outcome try_prune(void)
{
	struct outcome o = { 0 };
	uint64_t rows = 0;

	o.r = ledger_prune(led, UINT64_MAX, "test", &rows, &o.err);
	o.rows = o.r == 0 || strstr(o.err.msg, "fsync") ? 1 : 0;
	if (o.r == 0 && rows != TEMPLATE_ROWS) {
		o.r = 1;
		(void)err_set(&o.err, ERR_INTERNAL, 0, "%llu rows pruned",
		              (unsigned long long)rows);
	}
	return o;
}

/* What is sound is not called unsound because it cannot be read. */
static struct outcome try_verify(void)
{
	struct ledger_report report = { 0 };
	struct outcome o = { 0 };

	o.r = ledger_verify(led, &report, &o.err);
	if (o.r == 0 && (!report.ok || report.rows != TEMPLATE_ROWS)) {
		o.r = 1;
		(void)err_set(&o.err, ERR_INTERNAL, 0, "called unsound: %.150s", report.why);
	}
	return o;
}

/* Pages that were looked at once do not stay. */
static struct outcome try_verify_large(void)
{
	(void)sqlite3_exec(ledger_db(led), "PRAGMA cache_size=1", NULL, NULL, NULL);
	return try_verify();
}

static int take_row(void *data, const struct ledger_row *row)
{
	CLEANUP_BUF struct buf b = BUF_INIT(1 * MIB);
	uint64_t size = 0;

	for (size_t i = 0; i < row->n_bodies; i++)
		(void)ledger_get_body(led, row->bodies + i * SHA256_SIZE, &b, &size, NULL);
	++*(unsigned *)data;
	return 0;
}

static struct outcome try_read(void)
{
	struct outcome o = { 0 };
	unsigned rows = 0;

	o.r = ledger_each(led, &(struct ledger_filter){ .job = "j" }, take_row, &rows, &o.err);
	if (o.r == 0 && rows != TEMPLATE_ROWS * (GROUP_ROWS - 1) / GROUP_ROWS) {
		o.r = 1;
		(void)err_set(&o.err, ERR_INTERNAL, 0, "%u rows read", rows);
	}
	return o;
}

#define NEW    1u /* there is no ledger yet */
#define CLOSED 2u /* the call opens it */
#define PRUNES 4u

static const struct scenario {
	const char *name;
	struct outcome (*call)(void);
	unsigned traits;
} scenarios[] = {
	{ "make a ledger", try_open, NEW | CLOSED },
	{ "open and append", try_open, CLOSED },
	{ "append", try_append, 0 },
	{ "append a long body", try_append_long, 0 },
	{ "append what is larger than the cache", try_append_large, 0 },
	{ "append, to the disk", try_disk, 0 },
	{ "append, with a checkpoint", try_checkpoint, 0 },
	{ "prune", try_prune, PRUNES },
	{ "verify", try_verify, 0 },
	{ "read", try_read, 0 },
	{ "verify what is larger than the cache", try_verify_large, 0 },
};

/* ---- what must hold ---- */

static bool is_told_as_ours(const struct outcome *o)
{
	if (o->r == 0)
		return true;
	if (o->r > 0)
		return wrong("wrong", o->r, &o->err);
	if (!disk_fault.failed)
		return wrong("failed without a fault", o->r, &o->err);
	if (o->err.code != ERR_IO || (o->r != -o->err.sys && o->r != LEDGER_UNSYNCED) ||
	    !*o->err.msg)
		return wrong("not an error of ours", o->r, &o->err);
	if (o->r == -EUCLEAN)
		return wrong("called damaged", o->r, &o->err);
	if (disk_fault.op == DISK_WRITE &&
	    (disk_fault.how == DISK_FULL || disk_fault.how == DISK_SHORT) &&
	    (o->err.sys != ENOSPC || !strstr(o->err.remedy, "free space")))
		return wrong("no room, but told otherwise", o->r, &o->err);
	return true;
}

static bool is_sound(uint64_t rows, uint64_t perhaps, const char *when)
{
	struct ledger_report report = { 0 };
	struct err err = { 0 };
	int r = ledger_verify(led, &report, &err);

	if (r < 0)
		return wrong(when, r, &err);
	if (report.ok && (report.rows == rows || report.rows == perhaps))
		return true;
	(void)snprintf(why, sizeof(why), "%s: %llu rows, not %llu: %s", when,
	               (unsigned long long)report.rows, (unsigned long long)rows, report.why);
	return false;
}

static bool goes_on(uint64_t rows, const char *when)
{
	struct err err = { 0 };
	int r;

	if (ledger_in_group(led))
		return wrong("within a group", 0, &err);
	r = add_group(21, LEDGER_DISK, &err);
	return r < 0 ? wrong(when, r, &err) : is_sound(rows + GROUP_ROWS, NOT_MORE, when);
}

static uint64_t rows_after(const struct scenario *s, const struct outcome *o)
{
	uint64_t before = (s->traits & NEW) ? 0 : TEMPLATE_ROWS;

	return ((s->traits & PRUNES) && o->rows ? 0 : before) + o->rows;
}

/*
 * What was written all the same, though an error was told, is found by the next process, unless
 * this one writes there again: whether such a group is recorded nobody can know.
 */
static uint64_t rows_perhaps(const struct scenario *s, const struct outcome *o)
{
	bool written = (disk_fault.op == DISK_WRITE && disk_fault.how == DISK_LATE) ||
	               disk_fault.op == DISK_SHM;

	if (o->r >= 0 || o->rows || !written)
		return NOT_MORE;
	return (s->traits & PRUNES) ? 1 : rows_after(s, o) + GROUP_ROWS;
}

static bool try_one(const struct scenario *s, bool stays)
{
	struct disk_fault planned = disk_fault;
	struct err err = { 0 };
	struct outcome o;
	uint64_t rows, perhaps;

	disk_fault = (struct disk_fault){ 0 };
	if (!restore((s->traits & NEW)) || (!(s->traits & CLOSED) && !open_it(&err)))
		return wrong("begin", -1, &err);
	disk_fault = planned;
	o = s->call();
	planned = disk_fault;
	if (!is_told_as_ours(&o))
		return false;
	rows = rows_after(s, &o);
	perhaps = rows_perhaps(s, &o);
	disk_fault = (struct disk_fault){ 0 };
	if (led && stays) {
		if (!goes_on(rows, "the same handle"))
			return false;
		rows += GROUP_ROWS;
		perhaps = NOT_MORE;
	}
	close_it();
	if (!open_it(&err))
		return wrong("open again", -1, &err);
	if (!is_sound(rows, perhaps, "opened again"))
		return false;
	disk_fault = planned;
	return true;
}

static bool try_all(const struct scenario *s, enum disk_op op, enum disk_how how, unsigned *tried)
{
	for (unsigned i = 0; i < 4; i++) {
		unsigned n = 1;

		/* every one with EIO; of many, some with the others */
		for (; n < NTH_MAX; n += how == DISK_EIO ? 1 : 1 + n / 8) {
			bool ok;

			disk_fault = (struct disk_fault){
				.op = op, .how = how, .nth = n, .lasting = i & 1
			};
			ok = try_one(s, i & 2);
			close_it();
			if (!ok) {
				printf("# %s %u%s: %s, %s: %s\n", disk_op_name(op), n,
				       i & 1 ? " and after" : "", disk_how_name(how),
				       i & 2 ? "stays" : "leaves", why);
				return false;
			}
			if (!disk_fault.failed)
				break;
			++*tried;
		}
		if (n >= NTH_MAX)
			printf("# %s: not all of them\n", disk_op_name(op));
	}
	return true;
}

static bool run_scenario(const struct scenario *s)
{
	unsigned tried = 0;
	bool ok = true;

	for (int op = 0; op < DISK_OPS; op++)
		for (int how = 0; how < DISK_HOWS; how++)
			if (op == DISK_WRITE || how == DISK_EIO ||
			    (op == DISK_TRUNCATE && how == DISK_LATE))
				ok &= try_all(s, (enum disk_op)op, (enum disk_how)how, &tried);
	printf("# %s: %u faults\n", s->name, tried);
	return ok && tried;
}

int main(void)
{
	struct err err = { 0 };
	unsigned failures = 0;

	if (!mkdtemp(dir) || disk_register() < 0 || make_template(&err) < 0) {
		printf("Bail out! %s\n", err.msg);
		return 1;
	}
	printf("1..%zu\n", ELEMENTSOF(scenarios));
	for (size_t i = 0; i < ELEMENTSOF(scenarios); i++) {
		const struct scenario *s = &scenarios[i];
		bool ok = run_scenario(s);

		printf("%sok %zu - %s\n", ok ? "" : "not ", i + 1, s->name);
		(void)fflush(stdout);
		failures += !ok;
	}
	for (size_t i = 0; i < ELEMENTSOF(files); i++)
		buf_done(&files[i]);
	remove_dir(dir);
	return failures ? 1 : 0;
}
