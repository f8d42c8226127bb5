/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of the ledger share. The formats are told in docs/internals/ledger.md. */

#include <sqlite3.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger/ledger.h"
#include "ledger/stmt.h"

#define LEDGER_VERSION 1
#define LEDGER_APP_ID  0x62726967 /* "brig" */
#define LEDGER_BUSY_MS 5000       /* for a lock of another process */
/* The WAL is moved into the database at this many pages of 4 KiB. Who opens the ledger alone has to
 * read all of it, so processes that come and go keep it short; one that stays has the time. */
#define LEDGER_WAL_PAGES      128
#define LEDGER_WAL_PAGES_LONG 1024
#define LEDGER_STAYS          64 /* commits that make a process one that stays */
#define LEDGER_REFS_MAX       64 /* bodies that one row names */

#define KEY_SIZE  32
#define HEAD_SIZE (8 + 8 + SHA256_SIZE + SHA256_SIZE) /* magic, seq, hash, HMAC of these */

#define KIND_LEDGER    "ledger" /* the ledger about itself */
#define NAME_TAIL_LOST "tail_lost"

enum stmt_id {
	STMT_BEGIN = 0,
	STMT_COMMIT,
	STMT_ROLLBACK,
	STMT_TAIL,
	STMT_APPEND,
	STMT_BODY,
	STMT_COUNT,
};

/* A place in the chain: a row's number and hash; seq 0 is before the first. */
struct link {
	uint64_t seq;
	uint8_t hash[SHA256_SIZE];
};

struct ledger {
	struct sqlite3 *db;
	struct sqlite3_stmt *stmts[STMT_COUNT]; /* NULL: not needed so far */
	char *dir;
	int dir_fd, head_fd;
	uint8_t key[KEY_SIZE];
	uint8_t head[HEAD_SIZE]; /* as last read and found right */
	uint64_t busy_since_ms, gave_up_ms;
	unsigned patience_ms;
	unsigned commits; /* up to LEDGER_STAYS */

	/* of the group */
	bool in_group;
	bool grew;         /* has rows */
	bool replace_head; /* the head names rows that are gone */
	struct link tail;
	uint8_t refs[LEDGER_REFS_MAX][SHA256_SIZE]; /* bodies for the next row */
	size_t n_refs;
};

/* flock(2): src/sys/file.h hides the header that declares it. */
static inline int lock_file(int fd, int how)
{
	return (int)syscall(SYS_flock, fd, how);
}

/* ---- files.c ---- */

/* The directory, made when it is not there; its descriptor. */
int ledger_files_dir(const char *dir, int *ret_fd, struct err *err);
/* Makes key, head and database when this is a new ledger. `make_db` builds the named one. */
typedef int ledger_make_db_fn(const char *path, struct err *err);
int ledger_files_make(struct ledger *l, ledger_make_db_fn *make_db, struct err *err);
/* As SQLite wants it; caller frees. */
char *ledger_path(const struct ledger *l, const char *name);
/* Refuses files that others own or may write; reads the key, opens the head. */
int ledger_files_open(struct ledger *l, struct err *err);

/* ---- head.c ---- */

void head_encode(const uint8_t key[KEY_SIZE], const struct link *at, uint8_t ret[HEAD_SIZE]);
int head_read(struct ledger *l, struct link *ret, struct err *err);
/* Never goes back, unless the group found rows gone. A failure leaves an older head. */
void head_write(struct ledger *l);

/* ---- walfile.c ---- */

/* The name of SQLite's files as brig wants them; NULL: SQLite has none. */
const char *wal_vfs(void);
/* Behind a BEGIN: a log that could not be synced is made such that it can be tried again. */
int wal_mend(struct sqlite3 *db);
/* Around a COMMIT: its pages are written together. */
void wal_gather(struct sqlite3 *db);
void wal_gathered(struct sqlite3 *db, bool committed);

/* ---- open.c ---- */

int ledger_stmt(struct ledger *l, enum stmt_id id, struct sqlite3_stmt **ret, struct err *err);
/* Prepares; for statements that are used once. */
int ledger_prepare(struct ledger *l, const char *sql, struct sqlite3_stmt **ret, struct err *err);
int ledger_exec(struct ledger *l, const char *sql, const char *what, struct err *err);
/* The one integer that the statement gives. */
int ledger_number(struct ledger *l, const char *sql, int64_t *ret, struct err *err);
/* What sqlite_schema must hold; NULL after the last. */
struct schema_part {
	const char *type, *name, *sql;
};
extern const struct schema_part ledger_schema[];

/* ---- chain.c ---- */

/* The hash of a row that follows `prev`. */
void chain_hash(const uint8_t prev[SHA256_SIZE], const struct ledger_row *row,
                uint8_t ret[SHA256_SIZE]);
/* Signs what stands for a body of which only a part is kept. */
void chain_seal(const uint8_t key[KEY_SIZE], const uint8_t digest[SHA256_SIZE], uint64_t size,
                const void *kept, size_t kept_n, uint8_t ret[SHA256_SIZE]);
/* Signs the end of what was pruned: rows 1 to last->seq are gone, rightly. */
void chain_cut(const uint8_t key[KEY_SIZE], const struct link *last, uint8_t ret[SHA256_SIZE]);
/* Well-formed UTF-8 without control characters below U+0020. */
bool chain_is_line(const char *p, size_t n);

/* ---- query.c ---- */

/* Columns of LEDGER_COLUMNS, in this order. -EUCLEAN: they are not of the right types. */
#define LEDGER_COLUMNS "seq,time_us,job,session,kind,name,actor,detail,bodies,hash"
int ledger_row_read(struct sqlite3_stmt *stmt, struct ledger_row *ret);

/* ---- verify.c ---- */

/* Where the rows begin: after what was pruned, or at nothing. -EUCLEAN: the stub is not ours. */
int ledger_start(struct ledger *l, struct link *ret, struct err *err);
/* Does the row follow `at`, and is its hash right? Then `at` moves on; else `why` says what is not.
 */
bool ledger_follows(struct link *at, const struct ledger_row *row, char *why, size_t why_n);
