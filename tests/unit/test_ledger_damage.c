/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever is done to the files of a ledger is noticed, or changes nothing that is recorded. */
#include <sys/mount.h>

#include "ledger_case.h"

TestSuite(ledger_damage, .init = setup, .fini = teardown, .timeout = 120);

#define FILE_BYTES_MAX (1 * (size_t)MIB)

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define STRIDE 37 /* each try is many times slower */
#else
#define STRIDE 1
#endif

/* ---- rows ---- */

Test(ledger_damage, changes_by_sql)
{
	static const struct {
		const char *what, *sql, *why;
	} cases[] = {
		{ "a detail", "UPDATE event SET detail='{}' WHERE seq=7", "row 7 does not match" },
		{ "a name", "UPDATE event SET name='allowed' WHERE seq=1", "row 1 does not match" },
		{ "a time", "UPDATE event SET time_us=time_us+1 WHERE seq=12", "row 12 does not" },
		{ "an actor", "UPDATE event SET actor='you' WHERE seq=3", "row 3 does not match" },
		{ "a hash", "UPDATE event SET hash=zeroblob(32) WHERE seq=5", "row 5 does not" },
		{ "named bodies", "UPDATE event SET bodies=x'' WHERE seq=1", "row 1 does not" },
		{ "one gone", "DELETE FROM event WHERE seq=4", "rows between are missing" },
		{ "the first gone", "DELETE FROM event WHERE seq=1", "rows between are missing" },
		{ "the last gone", "DELETE FROM event WHERE seq=12", "newest rows are gone" },
		{ "all gone", "DELETE FROM event", "newest rows are gone" },
		{ "two swapped",
		  "UPDATE event SET seq=-1 WHERE seq=5;UPDATE event SET seq=5 WHERE seq=6;"
		  "UPDATE event SET seq=6 WHERE seq=-1",
		  "row 5 does not match" },
		{ "one copied to the end",
		  "INSERT INTO event SELECT "
		  "13,time_us,job,session,kind,name,actor,detail,bodies,hash "
		  "FROM event WHERE seq=12",
		  "row 13 does not match" },
		{ "a body changed", "UPDATE body SET kept=x'00' WHERE id=2",
		  "body 2 does not match" },
		{ "a size changed", "UPDATE body SET size=size+1 WHERE id=1", "body 1 does not" },
		{ "a body sealed", "UPDATE body SET seal=x'00' WHERE id=1", "body 1 does not" },
		{ "a body gone", "DELETE FROM body WHERE id=1", "row 1 names is missing" },
		{ "a false stub",
		  "DELETE FROM event WHERE seq<4;INSERT INTO cut SELECT 1,3,hash,zeroblob(32) FROM "
		  "event "
		  "WHERE seq=4",
		  "not signed by its key" },
		{ "a table", "CREATE TABLE mine(a)", "table \"mine\" that brig did not make" },
		{ "a trigger",
		  "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event; END",
		  "trigger \"t\"" },
		{ "a trigger on a neighbour",
		  "CREATE TABLE approval(a);CREATE TRIGGER t AFTER INSERT ON approval BEGIN DELETE "
		  "FROM "
		  "event; END",
		  "trigger \"t\"" },
		{ "a view", "CREATE VIEW v AS SELECT 1", "view \"v\"" },
		{ "an index", "CREATE INDEX i ON event(name)", "index \"i\"" },
		{ "an index gone", "DROP INDEX event_job", "is missing" },
		{ "rollback journal", "PRAGMA journal_mode=DELETE", "journal mode was changed" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct ledger_report report;

		teardown();
		setup();
		fill(12);
		ledger_close(led);
		led = NULL;
		meddle(cases[i].sql);
		again();
		report = verify();
		cr_assert(!report.ok, "%s: not noticed", cases[i].what);
		cr_assert(strstr(report.why, cases[i].why), "%s: %s", cases[i].what, report.why);
	}
}

Test(ledger_damage, tables_of_neighbours_are_allowed)
{
	fill(3);
	meddle("CREATE TABLE approval(id TEXT PRIMARY KEY,a);CREATE INDEX approval_a ON "
	       "approval(a);"
	       "CREATE TABLE open_job(a)");
	again();
	assert_sound(3);
}

Test(ledger_damage, long_body_changed_within_what_is_kept)
{
	CLEANUP_FREE char *text = calloc(1, 200000);
	uint8_t digest[SHA256_SIZE];

	cr_assert(ledger_body(led, text, 200000, digest, &err) == 0);
	commit();
	assert_sound(1);
	meddle("UPDATE body SET size=199999");
	assert_unsound("body 1 does not match");
	meddle("UPDATE body SET size=200000");
	assert_sound(1);
	meddle("UPDATE body SET kept=CAST(x'41'||substr(kept,2) AS BLOB)");
	assert_unsound("body 1 does not match");
}

Test(ledger_damage, damaged_rows_are_not_pruned_away)
{
	uint64_t rows = 0;

	fill(10);
	meddle("UPDATE event SET name='other' WHERE seq=4");
	again();
	cr_assert(ledger_prune(led, UINT64_MAX, "test", &rows, &err) == -EUCLEAN);
	cr_assert(strstr(err.msg, "row 4") && rows == 0 && count_all() == 10);
}

Test(ledger_damage, cut_tail_is_recorded_by_the_next_group)
{
	fill(10);
	meddle("DELETE FROM event WHERE seq>7");
	again();
	assert_unsound("newest rows are gone");
	fill(2);
	cr_assert(count(&(struct ledger_filter){ .kind = "ledger", .name = "tail_lost" }) == 1);
	assert_unsound("before row 8, 3 rows were lost");
	cr_assert(verify().lost == 3 && verify().bad_seq == 8);
	fill(2);
	cr_assert(count(&(struct ledger_filter){ .kind = "ledger" }) == 1); /* once */
}

Test(ledger_damage, replaced_tail_is_noticed_by_the_next_group)
{
	fill(10);
	meddle("UPDATE event SET hash=zeroblob(32) WHERE seq=10");
	again();
	fill(1);
	cr_assert(count(&(struct ledger_filter){ .kind = "ledger" }) == 1);
}

/* ---- each byte ---- */

struct dump {
	struct sha256 h;
};

static int dump_row(void *data, const struct ledger_row *row)
{
	struct dump *d = data;
	CLEANUP_BUF struct buf b = BUF_INIT(LEDGER_DETAIL_MAX * 2);

	ledger_row_to_json(row, &b);
	sha256_put_field(&d->h, b.data, b.len);
	for (size_t i = 0; i < row->n_bodies; i++) {
		CLEANUP_BUF struct buf body = BUF_INIT(LEDGER_BODY_MAX);
		uint64_t size = 0;

		if (ledger_get_body(led, row->bodies + i * SHA256_SIZE, &body, &size, NULL) < 0)
			return 1;
		sha256_put_u64(&d->h, size);
		sha256_put_field(&d->h, body.data, body.len);
	}
	return 0;
}

/* All rows and all bodies. */
static int dump(uint8_t ret[SHA256_SIZE])
{
	struct dump d;
	int r;

	sha256_init(&d.h);
	r = ledger_each(led, &(struct ledger_filter){ 0 }, dump_row, &d, NULL);
	sha256_finish(&d.h, ret);
	return r;
}

static size_t load(const char *name, uint8_t **ret)
{
	uint8_t *bytes = malloc(FILE_BYTES_MAX);
	char path[128];
	CLEANUP_FD int fd = FD_NONE;
	ssize_t n;

	path_of(name, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, bytes, FILE_BYTES_MAX);
	cr_assert(n >= 0 && n < (ssize_t)FILE_BYTES_MAX, "%s", name);
	*ret = bytes;
	return (size_t)n;
}

static void store(const char *name, const uint8_t *bytes, size_t n)
{
	char path[128];
	CLEANUP_FD int fd = FD_NONE;

	path_of(name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
}

/* True: refused, found unsound, or nothing of the record is different. */
static bool noticed(const uint8_t right[SHA256_SIZE], unsigned *harmless)
{
	struct ledger_report report = { 0 };
	uint8_t now[SHA256_SIZE];
	bool same;

	if (ledger_open(dir, &led, NULL) < 0)
		return true;
	if (ledger_verify(led, &report, NULL) < 0 || !report.ok) {
		ledger_close(TAKE_PTR(led));
		return true;
	}
	same = dump(now) == 0 && memcmp(now, right, SHA256_SIZE) == 0;
	ledger_close(TAKE_PTR(led));
	*harmless += same;
	return same;
}

static void checkpoint(void)
{
	cr_assert(sqlite3_wal_checkpoint_v2(ledger_db(led), NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
	                                    NULL) == SQLITE_OK);
}

/* Within a long run of zeros, which is room that pages do not use, one byte in 16 is tried. */
static bool in_free_room(const uint8_t *bytes, size_t n, size_t at)
{
	static const uint8_t zeros[64];

	return at % 16 && at >= 32 && at + 32 <= n && memcmp(bytes + at - 32, zeros, 64) == 0;
}

/* Reading changes neither database nor log, so one byte is put back after each turn. */
static void flip_each(const char *name, double most_harmless)
{
	CLEANUP_FREE uint8_t *bytes = NULL;
	uint8_t right[SHA256_SIZE];
	unsigned harmless = 0;
	char path[128];
	size_t n;

	cr_assert(verify().ok && dump(right) == 0);
	ledger_close(TAKE_PTR(led));
	n = load(name, &bytes);
	cr_assert(n > 0);
	path_of(name, path);
	for (size_t i = 0; i < n; i += STRIDE) {
		uint8_t flipped = bytes[i] ^ (uint8_t)(1u << (i % 8));
		CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

		if (in_free_room(bytes, n, i))
			continue;
		cr_assert(pwrite(fd, &flipped, 1, (off_t)i) == 1);
		cr_assert(noticed(right, &harmless), "%s: bit %zu of byte %zu", name, i % 8, i);
		cr_assert(pwrite(fd, &bytes[i], 1, (off_t)i) == 1);
	}
	cr_assert((double)harmless * STRIDE <= most_harmless * (double)n, "%u of %zu bytes",
	          harmless, n);
	again();
	assert_sound(verify().rows); /* all was put back */
}

Test(ledger_damage, each_byte_of_the_database)
{
	fill(40);
	checkpoint();
	flip_each("ledger.db", 0.8); /* the rest is free space within pages */
}

/* Damage ends what SQLite takes from the log. Pages that were written again later do not count. */
Test(ledger_damage, each_byte_of_the_log)
{
	fill(4);
	fill(4);
	flip_each("ledger.db-wal", 0);
}

Test(ledger_damage, each_byte_of_the_head)
{
	fill(40);
	flip_each("ledger.head", 0);
}

Test(ledger_damage, each_byte_of_the_key)
{
	fill(40);
	flip_each("ledger.key", 0);
}

Test(ledger_damage, log_cut_at_any_frame)
{
	CLEANUP_FREE uint8_t *db = NULL, *wal = NULL;
	size_t db_n, wal_n;

	fill(40);
	ledger_close(TAKE_PTR(led));
	db_n = load("ledger.db", &db);
	wal_n = load("ledger.db-wal", &wal);
	for (size_t n = 0; n < wal_n; n += 515) {
		store("ledger.db", db, db_n);
		store("ledger.db-wal", wal, n);
		again();
		assert_unsound("newest rows are gone");
		ledger_close(TAKE_PTR(led));
	}
}

Test(ledger_damage, database_cut_anywhere)
{
	CLEANUP_FREE uint8_t *db = NULL;
	uint8_t right[SHA256_SIZE];
	unsigned harmless = 0;
	size_t n;

	fill(40);
	checkpoint();
	cr_assert(dump(right) == 0);
	ledger_close(TAKE_PTR(led));
	n = load("ledger.db", &db);
	for (size_t cut = 0; cut < n; cut += 509) {
		store("ledger.db", db, cut);
		cr_assert(noticed(right, &harmless) && harmless == 0, "cut at %zu", cut);
	}
}

/* ---- files ---- */

static void assert_refused(enum err_code code, const char *why)
{
	err = (struct err){ 0 };
	cr_assert(ledger_open(dir, &led, &err) < 0);
	cr_assert(err.code == code && strstr(err.msg, why), "%s: %s", err_code_name(err.code),
	          err.msg);
	cr_assert(err.remedy[0], "no remedy: %s", err.msg);
}

static void spoil(const char *name)
{
	char path[128];

	fill(4);
	ledger_close(TAKE_PTR(led));
	path_of(name, path);
	cr_assert(unlink(path) == 0);
}

Test(ledger_damage, missing_database)
{
	spoil("ledger.db");
	assert_refused(ERR_IO, "is missing");
}

Test(ledger_damage, missing_database_and_log)
{
	char path[128];

	spoil("ledger.db");
	path_of("ledger.db-wal", path);
	cr_assert(unlink(path) == 0);
	assert_refused(ERR_IO, "says that it held rows");
}

Test(ledger_damage, missing_key)
{
	spoil("ledger.key");
	assert_refused(ERR_IO, "ledger.key");
}

Test(ledger_damage, missing_head)
{
	spoil("ledger.head");
	assert_refused(ERR_IO, "ledger.head");
}

Test(ledger_damage, empty_files)
{
	static const char *const names[] = { "ledger.db", "ledger.key", "ledger.head" };

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		teardown();
		setup();
		fill(4);
		ledger_close(TAKE_PTR(led));
		store(names[i], NULL, 0);
		assert_refused(ERR_IO, "is empty");
	}
}

Test(ledger_damage, newer_version)
{
	fill(4);
	ledger_close(TAKE_PTR(led));
	meddle("PRAGMA user_version=2");
	assert_refused(ERR_UNSUPPORTED, "version 2");
	meddle("PRAGMA user_version=1");
	again();
	assert_sound(4);
}

Test(ledger_damage, database_of_another_program)
{
	ledger_close(TAKE_PTR(led));
	meddle("PRAGMA application_id=1");
	assert_refused(ERR_IO, "is no ledger");
}

Test(ledger_damage, no_database_at_all)
{
	ledger_close(TAKE_PTR(led));
	store("ledger.db", (const uint8_t *)"hello", 5);
	assert_refused(ERR_IO, "ledger");
}

Test(ledger_damage, files_that_others_may_write)
{
	static const char *const names[] = { "ledger.db", "ledger.key", "ledger.head" };

	ledger_close(TAKE_PTR(led));
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		char path[128];

		path_of(names[i], path);
		cr_assert(chmod(path, i ? 0620 : 0770) == 0);
		assert_refused(ERR_DENIED, "can be written by others");
		cr_assert(chmod(path, i ? 0600 : 0700) == 0);
	}
	again();
}

Test(ledger_damage, link_in_place_of_the_key)
{
	char path[128], other[128];

	ledger_close(TAKE_PTR(led));
	path_of("ledger.key", path);
	path_of("elsewhere", other);
	cr_assert(rename(path, other) == 0 && symlink(other, path) == 0);
	assert_refused(ERR_DENIED, "not a regular file");
}

Test(ledger_damage, files_of_another_user)
{
	static const char *const names[] = { "ledger.db", "ledger.key", "ledger.head" };

	if (geteuid() != 0)
		cr_skip("only root can give files away");
	ledger_close(TAKE_PTR(led));
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		char path[128];

		path_of(names[i], path);
		cr_assert(chown(path, 12345, 12345) == 0);
		assert_refused(ERR_DENIED, "belongs to another user");
		cr_assert(chown(path, 0, 0) == 0);
	}
}

/* ---- no room, no right to write ---- */

static bool mounted(const char *options)
{
	ledger_close(TAKE_PTR(led));
	if (geteuid() != 0)
		return false;
	(void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	cr_assert(mkdir(dir, 0700) == 0);
	return mount("ledger", dir, "tmpfs", 0, options) == 0;
}

static void unmounted(void)
{
	ledger_close(TAKE_PTR(led));
	(void)umount2(dir, MNT_DETACH);
}

Test(ledger_damage, full_disk_is_an_error_and_passes)
{
	unsigned rows = 0;

	if (!mounted("size=256k,mode=700"))
		cr_skip("needs a small file system");
	cr_assert(ledger_open(dir, &led, &err) == 0, "%s", err.msg);
	while (add("j", "x", "{\"text\":\"0123456789012345678901234567890123456789\"}") == 0 &&
	       ledger_commit(led, LEDGER_PROCESS, &err) == 0)
		cr_assert(++rows < 100000);
	cr_assert(err.code == ERR_IO && err.sys == ENOSPC, "%s", err.msg);
	cr_assert(strstr(err.remedy, "free space") && !ledger_in_group(led));
	cr_assert(count_all() == rows);
	assert_sound(rows);
	cr_assert(mount("ledger", dir, "tmpfs", MS_REMOUNT, "size=8m,mode=700") == 0);
	err = (struct err){ 0 };
	cr_assert(add("j", "x", "{}") == 0, "%s", err.msg);
	commit();
	assert_sound(rows + 1);
	again();
	assert_sound(rows + 1);
	unmounted();
}

Test(ledger_damage, no_room_to_make_one)
{
	if (!mounted("size=8k,mode=700"))
		cr_skip("needs a small file system");
	cr_assert(ledger_open(dir, &led, &err) < 0 && err.code == ERR_IO, "%s", err.msg);
	cr_assert(mount("ledger", dir, "tmpfs", MS_REMOUNT, "size=8m,mode=700") == 0);
	again();
	fill(2);
	assert_sound(2);
	unmounted();
}

Test(ledger_damage, read_only_directory)
{
	if (!mounted("size=8m,mode=700"))
		cr_skip("needs a file system");
	again();
	fill(2);
	ledger_close(TAKE_PTR(led));
	cr_assert(mount("ledger", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=8m,mode=700") == 0);
	assert_refused(ERR_IO, "ledger.head");
	unmounted();
}
