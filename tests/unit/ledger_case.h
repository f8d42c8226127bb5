/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A ledger in memory for each test, and ways to fill, check and spoil it. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "ledger/ledger.h"

static char dir[64];
static struct ledger *led;
static struct err err;

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline void setup(void)
{
	(void)snprintf(dir, sizeof(dir), "/dev/shm/test-ledger-XXXXXX");
	cr_assert(mkdtemp(dir));
	err = (struct err){ 0 };
	cr_assert(ledger_open(dir, &led, &err) == 0, "%s", err.msg);
}

static inline void teardown(void)
{
	ledger_close(led);
	led = NULL;
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int add(const char *job, const char *name, const char *detail)
{
	const struct ledger_event e = { .job = job,
		                        .session = "s",
		                        .kind = "state",
		                        .name = name,
		                        .actor = "test",
		                        .detail = str_of(detail) };

	return ledger_append(led, &e, &err);
}

static inline void commit(void)
{
	cr_assert(ledger_commit(led, LEDGER_PROCESS, &err) == 0, "%s", err.msg);
}

/* n rows, every third with a body, in groups of four. */
static inline void fill(unsigned n)
{
	uint8_t digest[SHA256_SIZE];
	char text[200];

	for (unsigned i = 0; i < n; i++) {
		int len = snprintf(text, sizeof(text), "print(%u) # %0*u", i, (int)(i * 7 % 90), i);

		if (i % 3 == 0)
			cr_assert(ledger_body(led, text, (size_t)len, digest, &err) == 0);
		(void)snprintf(text, sizeof(text), "{\"n\":%u,\"x\":\"%0*u\"}", i,
		               (int)(i * 5 % 70), i);
		cr_assert(add("job", "decided", text) == 0, "%s", err.msg);
		if (i % 4 == 3)
			commit();
	}
	commit();
}

static inline void again(void)
{
	ledger_close(led);
	led = NULL;
	err = (struct err){ 0 };
	cr_assert(ledger_open(dir, &led, &err) == 0, "%s", err.msg);
}

static inline struct ledger_report verify(void)
{
	struct ledger_report report = { 0 };

	cr_assert(ledger_verify(led, &report, &err) == 0, "%s", err.msg);
	return report;
}

static inline void assert_sound(uint64_t rows)
{
	struct ledger_report report = verify();

	cr_assert(report.ok, "%s", report.why);
	cr_assert(report.rows == rows, "%llu rows", (unsigned long long)report.rows);
}

static inline void assert_unsound(const char *why)
{
	struct ledger_report report = verify();

	cr_assert(!report.ok);
	cr_assert(strstr(report.why, why), "\"%s\" not in \"%s\"", why, report.why);
}

/* As somebody with the file would. */
static inline void meddle(const char *sql)
{
	char path[128], *why = NULL;
	sqlite3 *db = NULL;

	(void)snprintf(path, sizeof(path), "%s/ledger.db", dir);
	cr_assert(sqlite3_open(path, &db) == SQLITE_OK);
	cr_assert(sqlite3_exec(db, sql, NULL, NULL, &why) == SQLITE_OK, "%s", why);
	(void)sqlite3_close(db);
}

static inline void path_of(const char *name, char ret[128])
{
	(void)snprintf(ret, 128, "%s/%s", dir, name);
}

static inline int count_row(void *data, const struct ledger_row *row)
{
	(void)row;
	++*(unsigned *)data;
	return 0;
}

static inline unsigned count(const struct ledger_filter *f)
{
	unsigned n = 0;

	cr_assert(ledger_each(led, f, count_row, &n, &err) == 0, "%s", err.msg);
	return n;
}

static inline unsigned count_all(void)
{
	return count(&(struct ledger_filter){ 0 });
}
