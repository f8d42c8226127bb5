/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Old rows go, oldest first, in one group. A signed stub keeps the number and the hash of the last
 * of them, so that the rest is still a chain; a row says who did it. Rows are checked before they
 * go: pruning must not be a way to get rid of damage.
 */
#include <errno.h>
#include <stdio.h>

#include "ledger/ledger_impl.h"

struct prune {
	struct ledger *l;
	struct link at;    /* the last row that goes */
	uint64_t last_seq; /* what it shall be */
	struct sqlite3_stmt *mark;
};

/* The rows before the first that is young enough. The clock may have been set back meanwhile: then
 * some that are older stay. */
static int find_end(struct prune *p, uint64_t before_us, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int r = ledger_prepare(p->l, "SELECT min(seq) FROM event WHERE time_us>=?1", &stmt, err);

	if (r < 0)
		return r;
	if (sqlite3_bind_int64(stmt, 1, (sqlite3_int64)MIN2(before_us, INT64_MAX)) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_ROW)
		return ledger_db_error(p->l, err, "look for old rows");
	if (sqlite3_column_type(stmt, 0) == SQLITE_NULL)
		p->last_seq = p->l->tail.seq;
	else
		p->last_seq = (uint64_t)sqlite3_column_int64(stmt, 0) - 1;
	return 0;
}

/* For each body that the row names. */
static int mark_bodies(struct prune *p, const struct ledger_row *row, struct err *err)
{
	for (size_t i = 0; i < row->n_bodies; i++) {
		int rc = sqlite3_bind_blob(p->mark, 1, row->bodies + i * SHA256_SIZE, SHA256_SIZE,
		                           SQLITE_STATIC);

		if (rc == SQLITE_OK)
			rc = sqlite3_step(p->mark);
		(void)sqlite3_reset(p->mark);
		if (rc != SQLITE_DONE)
			return ledger_db_error(p->l, err, "note a body");
	}
	return 0;
}

typedef int prune_row_fn(struct prune *p, const struct ledger_row *row, struct err *err);

static int walk(struct prune *p, const char *rows_sql, const char *mark_sql, prune_row_fn *fn,
                struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL, *mark = NULL;
	int rc = SQLITE_DONE, r = ledger_prepare(p->l, rows_sql, &stmt, err);

	if (r == 0)
		r = ledger_prepare(p->l, mark_sql, &mark, err);
	if (r < 0)
		return r;
	if (sqlite3_bind_int64(stmt, 1, (sqlite3_int64)p->last_seq) != SQLITE_OK)
		return ledger_db_error(p->l, err, "read rows");
	p->mark = mark;
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct ledger_row row;

		if (ledger_row_read(stmt, &row) < 0)
			return err_set(err, ERR_IO, EUCLEAN, "ledger: a damaged row");
		r = fn(p, &row, err);
	}
	if (r == 0 && rc != SQLITE_DONE)
		r = ledger_db_error(p->l, err, "read rows");
	return r;
}

static int check_and_mark(struct prune *p, const struct ledger_row *row, struct err *err)
{
	char why[120];

	if (!ledger_follows(&p->at, row, why, sizeof(why)))
		return err_remedy(err, err_set(err, ERR_IO, EUCLEAN, "ledger: not pruned: %s", why),
		                  "see \"brig ledger verify\"; keep the ledger as evidence");
	return mark_bodies(p, row, err);
}

static int write_cut(struct prune *p, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	uint8_t signature[SHA256_SIZE];
	int rc, r = ledger_prepare(p->l,
	                           "INSERT OR REPLACE INTO cut(id,last_seq,last_hash,signature)"
	                           "VALUES(1,?1,?2,?3)",
	                           &stmt, err);

	if (r < 0)
		return r;
	chain_cut(p->l->key, &p->at, signature);
	rc = sqlite3_bind_int64(stmt, 1, (sqlite3_int64)p->at.seq);
	rc |= sqlite3_bind_blob(stmt, 2, p->at.hash, SHA256_SIZE, SQLITE_STATIC);
	rc |= sqlite3_bind_blob(stmt, 3, signature, SHA256_SIZE, SQLITE_STATIC);
	if (rc != SQLITE_OK || sqlite3_step(stmt) != SQLITE_DONE)
		return ledger_db_error(p->l, err, "write the stub");
	return 0;
}

static int delete_rows(struct prune *p, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int r = ledger_prepare(p->l, "DELETE FROM event WHERE seq<=?1", &stmt, err);

	if (r < 0)
		return r;
	if (sqlite3_bind_int64(stmt, 1, (sqlite3_int64)p->last_seq) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_DONE)
		return ledger_db_error(p->l, err, "remove rows");
	return 0;
}

static int append_note(struct prune *p, uint64_t rows, const char *actor, struct err *err)
{
	char detail[256], hex[SHA256_HEX_SIZE];
	int n;

	sha256_hex(p->at.hash, hex);
	n = snprintf(detail, sizeof(detail),
	             "{\"rows\":%llu,\"last_seq\":%llu,\"last_hash\":\"%s\"}",
	             (unsigned long long)rows, (unsigned long long)p->at.seq, hex);
	return ledger_append(p->l,
	                     &(struct ledger_event){ .kind = "prune",
	                                             .name = "pruned",
	                                             .actor = actor,
	                                             .detail = { detail, (size_t)n } },
	                     err);
}

static int remove_all(struct prune *p, struct err *err)
{
	int r = walk(p, "SELECT " LEDGER_COLUMNS " FROM event WHERE seq<=?1 ORDER BY seq",
	             "INSERT OR IGNORE INTO temp.gone VALUES(?1)", check_and_mark, err);

	if (r == 0)
		r = delete_rows(p, err);
	if (r == 0) /* what younger rows name stays */
		r = walk(p,
		         "SELECT " LEDGER_COLUMNS
		         " FROM event WHERE seq>?1 AND length(bodies)>0 ORDER BY seq",
		         "DELETE FROM temp.gone WHERE digest=?1", mark_bodies, err);
	if (r == 0)
		r = ledger_exec(p->l,
		                "DELETE FROM body WHERE digest IN (SELECT digest FROM temp.gone)",
		                "remove bodies", err);
	return r == 0 ? write_cut(p, err) : r;
}

static int prune_group(struct prune *p, uint64_t before_us, const char *actor, uint64_t *ret_rows,
                       struct err *err)
{
	uint64_t first;
	int r = ledger_begin(p->l, err);

	if (r == 0)
		r = ledger_start(p->l, &p->at, err);
	if (r == 0)
		r = find_end(p, before_us, err);
	if (r < 0)
		return r;
	first = p->at.seq;
	if (p->last_seq > first) {
		r = remove_all(p, err);
		if (r == 0)
			r = append_note(p, p->at.seq - first, actor, err);
	}
	if (r == 0)
		r = ledger_commit(p->l, LEDGER_DISK, err);
	if (r == 0)
		*ret_rows = p->at.seq - first;
	return r;
}

int ledger_prune(struct ledger *l, uint64_t before_us, const char *actor, uint64_t *ret_rows,
                 struct err *err)
{
	struct prune p = { .l = l };
	int r;

	if (l->in_group)
		return err_set(err, ERR_INTERNAL, EBUSY, "ledger: prune within a group");
	r = ledger_exec(l, "CREATE TEMP TABLE gone(digest BLOB PRIMARY KEY)WITHOUT ROWID",
	                "prune it", err);
	if (r < 0)
		return r;
	r = prune_group(&p, before_us, actor, ret_rows, err);
	ledger_abort(l);
	(void)sqlite3_exec(l->db, "DROP TABLE temp.gone", NULL, NULL, NULL);
	/* what was removed must not stay readable in the WAL; who reads just now delays it */
	if (r == 0)
		(void)sqlite3_wal_checkpoint_v2(l->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL,
		                                NULL);
	return r;
}
