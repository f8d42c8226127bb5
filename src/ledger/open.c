/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database: made, opened, and its errors told.
 *
 * A short-lived process must not pay for a checkpoint when it leaves: closing leaves the WAL as it
 * is, and whoever commits when it has grown to LEDGER_WAL_PAGES moves it into the database.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ledger/ledger_impl.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

#define BUSY_FIRST_NS 50000
#define BUSY_LAST_NS  5000000
#define BUSY_REST     4               /* times its patience, whoever waited in vain does not wait */
#define VALUE_MAX     (16 * (int)MIB) /* of one row, tables of other modules included */

const struct schema_part ledger_schema[] = {
	{ "table", "event",
	  "CREATE TABLE event(seq INTEGER PRIMARY KEY,time_us INTEGER NOT NULL,job TEXT NOT NULL,"
	  "session TEXT NOT NULL,kind TEXT NOT NULL,name TEXT NOT NULL,actor TEXT NOT NULL,"
	  "detail TEXT NOT NULL,bodies BLOB NOT NULL,hash BLOB NOT NULL)STRICT" },
	{ "index", "event_job", "CREATE INDEX event_job ON event(job)WHERE job<>''" },
	{ "index", "event_session",
	  "CREATE INDEX event_session ON event(session)WHERE session<>''" },
	{ "table", "body",
	  "CREATE TABLE body(id INTEGER PRIMARY KEY,digest BLOB NOT NULL,size INTEGER NOT NULL,"
	  "kept BLOB NOT NULL,seal BLOB NOT NULL)STRICT" },
	{ "index", "body_digest", "CREATE UNIQUE INDEX body_digest ON body(digest)" },
	{ "table", "cut",
	  "CREATE TABLE cut(id INTEGER PRIMARY KEY CHECK(id=1),last_seq INTEGER NOT NULL,"
	  "last_hash BLOB NOT NULL,signature BLOB NOT NULL)STRICT" },
	{ NULL, NULL, NULL },
};

static const char *const stmt_sql[STMT_COUNT] = {
	[STMT_BEGIN] = "BEGIN IMMEDIATE",
	[STMT_COMMIT] = "COMMIT",
	[STMT_ROLLBACK] = "ROLLBACK",
	[STMT_TAIL] = "SELECT seq,hash FROM event ORDER BY seq DESC LIMIT 1",
	[STMT_APPEND] = "INSERT INTO event VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
	[STMT_BODY] = "INSERT OR IGNORE INTO body(digest,size,kept,seal)VALUES(?1,?2,?3,?4)",
};

/* ---- errors ---- */

static int busy_error(struct err *err, const char *what)
{
	int r = err_set(err, ERR_UNAVAILABLE, EBUSY,
	                "%s: another process has held the ledger for too long", what);

	return err_remedy(err, r, "try again; \"fuser\" on ledger.db names who holds it");
}

static int db_error(struct sqlite3 *db, struct err *err, const char *what)
{
	int rc = db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM;
	int sys = db ? sqlite3_system_errno(db) : ENOMEM;
	const char *why = db ? sqlite3_errmsg(db) : "out of memory";

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return err_set(err, ERR_INTERNAL, ENOMEM, "ledger: %s", what);
	case SQLITE_BUSY:
	case SQLITE_PROTOCOL: /* somebody who makes the WAL does not get on */
		return busy_error(err, what);
	case SQLITE_FULL:
		return err_remedy(err, err_set(err, ERR_IO, ENOSPC, "ledger: %s", what),
		                  "free space where the state directory is");
	case SQLITE_READONLY:
		return err_remedy(err, err_set(err, ERR_IO, EROFS, "ledger: %s", what),
		                  "the state directory must be writable");
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_remedy(
			err, err_set(err, ERR_IO, EUCLEAN, "ledger: %s: %s", what, why),
			"\"brig ledger verify\" says more; restore ledger.db from a copy");
	default:
		return err_set(err, ERR_IO, sys > 0 ? sys : EIO, "ledger: %s: %s", what, why);
	}
}

int ledger_db_error(struct ledger *l, struct err *err, const char *what)
{
	return db_error(l->db, err, what);
}

/* ---- statements ---- */

static int prepare(struct sqlite3 *db, const char *sql, unsigned flags, struct sqlite3_stmt **ret,
                   struct err *err)
{
	struct sqlite3_stmt *stmt = NULL;

	if (sqlite3_prepare_v3(db, sql, -1, flags, &stmt, NULL) != SQLITE_OK)
		return db_error(db, err, "prepare a statement");
	*ret = stmt;
	return 0;
}

int ledger_prepare(struct ledger *l, const char *sql, struct sqlite3_stmt **ret, struct err *err)
{
	return prepare(l->db, sql, 0, ret, err);
}

int ledger_stmt(struct ledger *l, enum stmt_id id, struct sqlite3_stmt **ret, struct err *err)
{
	int r = 0;

	if (!l->stmts[id])
		r = prepare(l->db, stmt_sql[id], SQLITE_PREPARE_PERSISTENT, &l->stmts[id], err);
	if (r == 0)
		*ret = l->stmts[id];
	return r;
}

static int exec_sql(struct sqlite3 *db, const char *sql, const char *what, struct err *err)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(db, err, what);
}

int ledger_exec(struct ledger *l, const char *sql, const char *what, struct err *err)
{
	return exec_sql(l->db, sql, what, err);
}

int ledger_number(struct ledger *l, const char *sql, int64_t *ret, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int r = ledger_prepare(l, sql, &stmt, err);

	if (r < 0)
		return r;
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return ledger_db_error(l, err, "read the ledger");
	*ret = sqlite3_column_int64(stmt, 0);
	return 0;
}

/* ---- making ---- */

static int fill_new(struct sqlite3 *db, struct err *err)
{
	/* nothing is moved within the file when rows are pruned: their room is used again */
	int r = exec_sql(
		db,
		"PRAGMA page_size=4096;PRAGMA auto_vacuum=NONE;PRAGMA application_id=" STRING(
			LEDGER_APP_ID) ";"
				       "PRAGMA user_version=" STRING(LEDGER_VERSION) ";BEGIN",
		"make it", err);

	for (size_t i = 0; r == 0 && ledger_schema[i].name; i++)
		r = exec_sql(db, ledger_schema[i].sql, "make it", err);
	if (r == 0)
		r = exec_sql(db, "COMMIT;PRAGMA journal_mode=WAL", "make it", err);
	return r;
}

/* Nobody knows the file yet. Closing it leaves no WAL. */
static int make_db(const char *path, struct err *err)
{
	struct sqlite3 *db = NULL;
	int r;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		r = db_error(db, err, "make it");
	else
		r = fill_new(db, err);
	(void)sqlite3_close(db);
	return r;
}

/* ---- opening ---- */

/* SQLite's own begins at 1 ms: ages for a group of 20 µs. */
static int wait_busy(void *data, int count)
{
	struct timespec pause = { .tv_nsec = BUSY_FIRST_NS };
	struct ledger *l = data;
	uint64_t now = clock_ms();

	if (l->patience_ms < LEDGER_BUSY_MS &&
	    now - l->gave_up_ms < (uint64_t)BUSY_REST * l->patience_ms)
		return 0;
	if (count == 0)
		l->busy_since_ms = now;
	else if (now - l->busy_since_ms >= l->patience_ms) {
		l->gave_up_ms = now;
		return 0;
	}
	pause.tv_nsec = MIN2(pause.tv_nsec << MIN2(count, 10), BUSY_LAST_NS);
	(void)nanosleep(&pause, NULL);
	return 1;
}

static int check_version(struct ledger *l, struct err *err)
{
	int64_t app = 0, version = 0;
	int r = ledger_number(l, "PRAGMA application_id", &app, err);

	if (r == 0)
		r = ledger_number(l, "PRAGMA user_version", &version, err);
	if (r < 0)
		return r;
	if (app != LEDGER_APP_ID || version < 1)
		return err_remedy(
			err, err_set(err, ERR_IO, EUCLEAN, "%s/ledger.db is no ledger", l->dir),
			"move it away, or name another state directory");
	if (version > LEDGER_VERSION)
		return err_remedy(err,
		                  err_set(err, ERR_UNSUPPORTED, ENOTSUP,
		                          "%s/ledger.db has version %lld; this brig knows %d",
		                          l->dir, (long long)version, LEDGER_VERSION),
		                  "use the newer brig that wrote it");
	return 0;
}

/* The file may have been written by anyone who once had it: its schema is not trusted. */
static int configure(struct ledger *l, struct err *err)
{
	static const struct {
		int what, on;
	} flags[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },        { SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1 }, { SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
	};
	int keep = 1;

	for (size_t i = 0; i < ELEMENTSOF(flags); i++)
		if (sqlite3_db_config(l->db, flags[i].what, flags[i].on, NULL) != SQLITE_OK)
			return ledger_db_error(l, err, "configure it");
	(void)sqlite3_limit(l->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	(void)sqlite3_limit(l->db, SQLITE_LIMIT_ATTACHED, 0);
	(void)sqlite3_busy_handler(l->db, wait_busy, l);
	(void)sqlite3_file_control(l->db, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
	(void)sqlite3_wal_autocheckpoint(l->db, LEDGER_WAL_PAGES);
	return ledger_exec(l,
	                   "PRAGMA cell_size_check=ON;PRAGMA mmap_size=0;PRAGMA temp_store=MEMORY;"
	                   "PRAGMA secure_delete=ON;PRAGMA journal_size_limit=4194304;"
	                   "PRAGMA synchronous=NORMAL",
	                   "configure it", err);
}

static int open_db(struct ledger *l, struct err *err)
{
	CLEANUP_FREE char *path = ledger_path(l, "ledger.db");
	int r;

	if (!path)
		return err_set(err, ERR_INTERNAL, ENOMEM, "ledger");
	if (sqlite3_open_v2(path, &l->db,
	                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
	                    wal_vfs()) != SQLITE_OK)
		return ledger_db_error(l, err, "open it");
	r = configure(l, err);
	return r < 0 ? r : check_version(l, err);
}

static void ledger_freep(struct ledger **l)
{
	ledger_close(*l);
}

int ledger_open(const char *dir, struct ledger **ret, struct err *err)
{
	CLEANUP(ledger_freep) struct ledger *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(err, ERR_INTERNAL, ENOMEM, "ledger");
	l->dir_fd = l->head_fd = FD_NONE;
	l->patience_ms = LEDGER_BUSY_MS;
	l->dir = malloc(strlen(dir) + 1);
	if (!l->dir)
		/* cppcheck-suppress memleak */
		return err_set(err, ERR_INTERNAL, ENOMEM, "ledger");
	memcpy(l->dir, dir, strlen(dir) + 1);
	r = ledger_files_dir(dir, &l->dir_fd, err);
	if (r == 0)
		r = ledger_files_make(l, make_db, err);
	if (r == 0)
		r = ledger_files_open(l, err);
	if (r == 0)
		r = open_db(l, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(l);
	return 0;
}

void ledger_close(struct ledger *l)
{
	if (!l)
		return;
	ledger_abort(l);
	for (size_t i = 0; i < STMT_COUNT; i++)
		(void)sqlite3_finalize(l->stmts[i]);
	(void)sqlite3_close_v2(l->db); /* v2: other modules may still hold statements */
	fd_closep(&l->dir_fd);
	fd_closep(&l->head_fd);
	explicit_bzero(l->key, sizeof(l->key));
	free(l->dir);
	free(l);
}

void ledger_set_patience(struct ledger *l, unsigned ms)
{
	l->patience_ms = ms;
}

const char *ledger_dir(const struct ledger *l)
{
	return l->dir;
}

struct sqlite3 *ledger_db(struct ledger *l)
{
	return l->db;
}
