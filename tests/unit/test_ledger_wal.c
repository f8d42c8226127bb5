/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of a commit are written together: all of them, in time, and nothing of another. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ledger_case.h"

TestSuite(ledger_wal, .init = setup, .fini = teardown, .timeout = 60);

#define SPILLING 60 /* bodies of 64 KiB: more than SQLite keeps in memory */

static void add_rows(unsigned n, size_t size)
{
	static char detail[64 * 1024];

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(detail, sizeof(detail), "{\"x\":\"%0*u\"}", (int)size, i);
		cr_assert(add("job", "decided", detail) == 0, "%s", err.msg);
	}
}

static void add_bodies(unsigned n, unsigned from)
{
	static char body[LEDGER_BODY_MAX];
	uint8_t digest[SHA256_SIZE];

	for (unsigned i = 0; i < n; i++) {
		memset(body, (int)('a' + i % 26), sizeof(body));
		(void)snprintf(body, sizeof(body), "%u", from + i);
		cr_assert(ledger_body(led, body, sizeof(body), digest, &err) == 0, "%s", err.msg);
	}
}

/* Calls of write() and the like by this process so far. */
static unsigned long writes(void)
{
	CLEANUP_FD int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	char text[512], *at;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	unsigned long found = 0;

	if (n <= 0)
		cr_skip_test("no /proc/self/io");
	text[n] = 0;
	at = strstr(text, "syscw: ");
	cr_assert(at && sscanf(at, "syscw: %lu", &found) == 1); // NOLINT(cert-err34-c)
	return found;
}

Test(ledger_wal, commit_of_many_pages_is_few_writes)
{
	unsigned long before;

	fill(1);
	add_rows(20, 3000);
	before = writes();
	commit();
	cr_assert(writes() - before <= 4, "%lu", writes() - before);
	assert_sound(21);
}

Test(ledger_wal, all_of_a_commit_is_in_the_file_when_it_returns)
{
	struct ledger *other = NULL;
	unsigned n = 0;

	for (unsigned i = 1; i <= 70; i++) { /* also just as many pages as are gathered */
		add_rows(i, 3000);
		commit();
	}
	cr_assert(ledger_open(dir, &other, &err) == 0, "%s", err.msg);
	cr_assert(ledger_each(other, &(struct ledger_filter){ 0 }, count_row, &n, &err) == 0);
	ledger_close(other);
	cr_assert(n == 70 * 71 / 2, "%u", n);
	assert_sound(70 * 71 / 2);
}

Test(ledger_wal, group_larger_than_the_cache_is_whole)
{
	fill(3);
	add_bodies(SPILLING, 0);
	add_rows(50, 3000);
	add_bodies(SPILLING, 1000);
	add_rows(1, 1);
	commit();
	fill(3);
	again();
	cr_assert(verify().ok, "%s", verify().why);
	cr_assert(verify().bodies == 2 * SPILLING + 1, "%llu", (unsigned long long)verify().bodies);
}

/* What the first one spilled lies where the second one writes next. Nobody knows when SQLite begins
 * to spill, so that it is tried with more and more. */
Test(ledger_wal, group_that_was_spilled_and_dropped_harms_no_other_writer)
{
	struct ledger *first = led, *second = NULL;
	unsigned rows = 0;

	cr_assert(ledger_open(dir, &second, &err) == 0, "%s", err.msg);
	for (unsigned bodies = 20; bodies < 40; bodies++) {
		led = first;
		add_bodies(bodies, 0);
		ledger_abort(first);
		led = second;
		add_rows(40, 3000);
		commit();
		led = first;
		add_rows(1, 1);
		commit();
		rows += 41;
		assert_sound(rows);
	}
	ledger_close(second);
	again();
	assert_sound(rows);
}

static void limit_files(rlim_t size)
{
	struct rlimit limit;

	cr_assert(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = size;
	cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

Test(ledger_wal, commit_that_cannot_be_written_leaves_nothing)
{
	struct stat st;
	char wal[128];

	path_of("ledger.db-wal", wal);
	(void)signal(SIGXFSZ, SIG_IGN);
	for (unsigned pages = 0; pages < 8; pages++) { /* none, some of them, all but the last */
		fill(1);
		cr_assert(stat(wal, &st) == 0);
		add_rows(6, 3000);
		limit_files((rlim_t)st.st_size + pages * 4120 / 2);
		cr_assert(ledger_commit(led, LEDGER_PROCESS, &err) < 0);
		cr_assert(!ledger_in_group(led));
		limit_files(RLIM_INFINITY);
		assert_sound(pages + 1);
	}
	again();
	fill(1);
	assert_sound(9);
}
