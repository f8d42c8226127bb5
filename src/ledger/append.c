/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of rows. A group is one transaction of SQLite: it is there as a whole or not at all.
 * The write lock makes the end of the chain ours from begin to commit.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "ledger/ledger_impl.h"

static int step_once(struct ledger *l, enum stmt_id id, const char *what, struct err *err)
{
	struct sqlite3_stmt *stmt = NULL;
	int r = ledger_stmt(l, id, &stmt, err);

	if (r < 0)
		return r;
	if (sqlite3_step(stmt) != SQLITE_DONE)
		r = ledger_db_error(l, err, what);
	(void)sqlite3_reset(stmt);
	return r;
}

bool ledger_in_group(const struct ledger *l)
{
	return l->in_group;
}

void ledger_abort(struct ledger *l)
{
	/* after some errors SQLite has rolled back already */
	if (l->in_group && !sqlite3_get_autocommit(l->db))
		(void)step_once(l, STMT_ROLLBACK, "roll back", NULL);
	l->in_group = l->grew = l->replace_head = false;
	l->n_refs = 0;
}

static int fail(struct ledger *l, int r)
{
	ledger_abort(l);
	return r;
}

/* SQLite ends a transaction by itself after some errors, also of statements that are not ours. What
 * were appended then would be no part of a group. */
static int still_open(struct ledger *l, struct err *err)
{
	if (!sqlite3_get_autocommit(l->db))
		return 0;
	return fail(l, err_set(err, ERR_IO, EIO, "ledger: an earlier error has ended the group"));
}

/* ---- the end of the chain ---- */

static int read_tail(struct ledger *l, struct err *err)
{
	struct sqlite3_stmt *stmt = NULL;
	int rc, r = ledger_stmt(l, STMT_TAIL, &stmt, err);

	if (r < 0)
		return r;
	l->tail = (struct link){ 0 };
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 1) == SHA256_SIZE) {
		l->tail.seq = (uint64_t)sqlite3_column_int64(stmt, 0);
		memcpy(l->tail.hash, sqlite3_column_blob(stmt, 1), SHA256_SIZE);
	} else if (rc == SQLITE_ROW) {
		r = err_set(err, ERR_IO, EUCLEAN, "ledger: its last row is damaged");
	} else if (rc != SQLITE_DONE) {
		r = ledger_db_error(l, err, "read its end");
	}
	(void)sqlite3_reset(stmt);
	return r;
}

static int record_loss(struct ledger *l, const struct link *head, struct err *err)
{
	char detail[256], hex[SHA256_HEX_SIZE];
	const struct ledger_event e = { .kind = KIND_LEDGER,
		                        .name = NAME_TAIL_LOST,
		                        .actor = "brig",
		                        .detail = { detail, 0 } };
	struct ledger_event lost = e;

	sha256_hex(head->hash, hex);
	lost.detail.n = (size_t)snprintf(
		detail, sizeof(detail),
		"{\"found_seq\":%llu,\"head_seq\":%llu,\"head_hash\":\"%s\"}",
		(unsigned long long)l->tail.seq, (unsigned long long)head->seq, hex);
	l->replace_head = true;
	return ledger_append(l, &lost, err);
}

/* A head that is ahead of the chain is never written: rows are gone. */
static int check_head(struct ledger *l, struct err *err)
{
	struct link head;
	int r = head_read(l, &head, err);

	if (r < 0 || head.seq < l->tail.seq)
		return r;
	if (head.seq == l->tail.seq && memcmp(head.hash, l->tail.hash, SHA256_SIZE) == 0)
		return 0;
	return record_loss(l, &head, err);
}

int ledger_begin(struct ledger *l, struct err *err)
{
	int r;

	if (l->in_group)
		return still_open(l, err);
	r = step_once(l, STMT_BEGIN, "begin", err);
	if (r < 0)
		return r;
	l->in_group = true;
	r = wal_mend(l->db);
	if (r < 0)
		(void)err_set(err, ERR_IO, -r, "ledger: write the log again");
	if (r == 0)
		r = read_tail(l, err);
	if (r == 0)
		r = check_head(l, err);
	return r < 0 ? fail(l, r) : 0;
}

/* ---- rows ---- */

static uint64_t now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static int check_event(const struct ledger_row *row, struct err *err)
{
	const char *const words[] = { row->job, row->session, row->kind, row->name, row->actor };
	const struct str *d = &row->detail;

	for (size_t i = 0; i < ELEMENTSOF(words); i++) {
		size_t n = strnlen(words[i], LEDGER_WORD_MAX + 1);

		if (n > LEDGER_WORD_MAX || !chain_is_line(words[i], n))
			return err_set(err, ERR_INVALID, EINVAL,
			               "a row's words must be lines of at most %d bytes of UTF-8",
			               LEDGER_WORD_MAX);
	}
	if (d->n > LEDGER_DETAIL_MAX)
		return err_set(err, ERR_LIMIT, EFBIG, "a row's detail: at most %llu bytes",
		               LEDGER_DETAIL_MAX);
	if (d->n < 2 || d->p[0] != '{' || d->p[d->n - 1] != '}' || !chain_is_line(d->p, d->n))
		return err_set(err, ERR_INVALID, EINVAL,
		               "a row's detail must be a JSON object in one line");
	return 0;
}

static int bind_row(struct sqlite3_stmt *s, const struct ledger_row *row)
{
	int rc = sqlite3_bind_int64(s, 1, (sqlite3_int64)row->seq);

	rc |= sqlite3_bind_int64(s, 2, (sqlite3_int64)row->time_us);
	rc |= sqlite3_bind_text(s, 3, row->job, -1, SQLITE_STATIC);
	rc |= sqlite3_bind_text(s, 4, row->session, -1, SQLITE_STATIC);
	rc |= sqlite3_bind_text(s, 5, row->kind, -1, SQLITE_STATIC);
	rc |= sqlite3_bind_text(s, 6, row->name, -1, SQLITE_STATIC);
	rc |= sqlite3_bind_text(s, 7, row->actor, -1, SQLITE_STATIC);
	rc |= sqlite3_bind_text(s, 8, row->detail.p, (int)row->detail.n, SQLITE_STATIC);
	rc |= sqlite3_bind_blob(s, 9, row->bodies, (int)(row->n_bodies * SHA256_SIZE),
	                        SQLITE_STATIC);
	rc |= sqlite3_bind_blob(s, 10, row->hash, SHA256_SIZE, SQLITE_STATIC);
	return rc;
}

static int insert(struct ledger *l, const struct ledger_row *row, struct err *err)
{
	struct sqlite3_stmt *stmt = NULL;
	int r = ledger_stmt(l, STMT_APPEND, &stmt, err);

	if (r < 0)
		return r;
	if (bind_row(stmt, row) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_DONE)
		r = ledger_db_error(l, err, "append a row");
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

int ledger_append(struct ledger *l, const struct ledger_event *e, struct err *err)
{
	uint8_t hash[SHA256_SIZE];
	struct ledger_row row;
	int r = ledger_begin(l, err);

	if (r < 0)
		return r;
	row = (struct ledger_row){
		.seq = l->tail.seq + 1,
		.time_us = now_us(),
		.job = or_empty(e->job),
		.session = or_empty(e->session),
		.kind = or_empty(e->kind),
		.name = or_empty(e->name),
		.actor = or_empty(e->actor),
		.detail = e->detail.p ? e->detail : STR("{}"),
		.bodies = l->refs[0],
		.n_bodies = l->n_refs,
		.hash = hash,
	};
	r = check_event(&row, err);
	if (r < 0)
		return fail(l, r);
	chain_hash(l->tail.hash, &row, hash);
	r = insert(l, &row, err);
	if (r < 0)
		return fail(l, r);
	l->tail.seq = row.seq;
	memcpy(l->tail.hash, hash, sizeof(hash));
	l->n_refs = 0;
	l->grew = true;
	return 0;
}

/* ---- bodies ---- */

static int name_bodies(struct ledger *l, struct err *err)
{
	return ledger_append(
		l, &(struct ledger_event){ .kind = "body", .name = "kept", .actor = "brig" }, err);
}

static int insert_body(struct ledger *l, const void *p, size_t n, const uint8_t digest[SHA256_SIZE],
                       struct err *err)
{
	size_t kept = MIN2(n, LEDGER_BODY_MAX), seal_n = n > kept ? SHA256_SIZE : 0;
	uint8_t seal[SHA256_SIZE];
	struct sqlite3_stmt *s = NULL;
	int rc, r = ledger_stmt(l, STMT_BODY, &s, err);

	if (r < 0)
		return r;
	if (seal_n)
		chain_seal(l->key, digest, n, p, kept, seal);
	rc = sqlite3_bind_blob(s, 1, digest, SHA256_SIZE, SQLITE_STATIC);
	rc |= sqlite3_bind_int64(s, 2, (sqlite3_int64)n);
	rc |= sqlite3_bind_blob(s, 3, n ? p : "", (int)kept, SQLITE_STATIC);
	rc |= sqlite3_bind_blob(s, 4, seal, (int)seal_n, SQLITE_STATIC);
	if (rc != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
		r = ledger_db_error(l, err, "keep a body");
	(void)sqlite3_reset(s);
	(void)sqlite3_clear_bindings(s);
	return r;
}

int ledger_body_of(struct ledger *l, const void *p, size_t n, const uint8_t digest[SHA256_SIZE],
                   struct err *err)
{
	int r = ledger_begin(l, err);

	if (r < 0)
		return r;
	if (l->n_refs == LEDGER_REFS_MAX) {
		r = name_bodies(l, err);
		if (r < 0)
			return r;
	}
	r = insert_body(l, p, n, digest, err);
	if (r < 0)
		return fail(l, r);
	memcpy(l->refs[l->n_refs++], digest, SHA256_SIZE);
	return 0;
}

int ledger_body(struct ledger *l, const void *p, size_t n, uint8_t ret[SHA256_SIZE],
                struct err *err)
{
	uint8_t digest[SHA256_SIZE];
	int r;

	sha256(p, n, digest);
	r = ledger_body_of(l, p, n, digest, err);
	if (r >= 0)
		memcpy(ret, digest, sizeof(digest));
	return r;
}

/* ---- the end of a group ---- */

/* The WAL holds all since the last checkpoint, and a checkpoint syncs what it moved. */
static int sync_wal(struct ledger *l, struct err *err)
{
	struct sqlite3_file *wal = NULL;

	if (sqlite3_file_control(l->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) != SQLITE_OK ||
	    !wal || !wal->pMethods)
		return err_set(err, ERR_IO, EIO, "ledger: it has no WAL to sync");
	if (wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) != SQLITE_OK)
		return err_set(err, ERR_IO, EIO, "ledger: fsync");
	return 0;
}

static void count_commit(struct ledger *l)
{
	if (l->commits < LEDGER_STAYS && ++l->commits == LEDGER_STAYS)
		(void)sqlite3_wal_autocheckpoint(l->db, LEDGER_WAL_PAGES_LONG);
}

static int commit(struct ledger *l, struct err *err)
{
	int r;

	wal_gather(l->db);
	r = step_once(l, STMT_COMMIT, "commit", err);
	wal_gathered(l->db, r == 0);
	return r;
}

int ledger_commit(struct ledger *l, enum ledger_durability how, struct err *err)
{
	int r;

	if (!l->in_group)
		return 0;
	r = still_open(l, err);
	if (r == 0 && l->n_refs)
		r = name_bodies(l, err);
	if (r == 0)
		r = commit(l, err);
	if (r < 0)
		return fail(l, r);
	l->in_group = false;
	count_commit(l);
	if (l->grew)
		head_write(l);
	l->grew = l->replace_head = false;
	return how == LEDGER_DISK && sync_wal(l, err) < 0 ? LEDGER_UNSYNCED : 0;
}
