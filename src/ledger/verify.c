/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the record as it was written? The chain, its end, the bodies that rows name, what SQLite says
 * of the file, and that nobody put anything of his own into it.
 *
 * What is wrong goes into the report, the first of it; errors are for what could not be looked at.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "ledger/ledger_impl.h"

struct verify {
	struct ledger *l;
	struct ledger_report *report;
	struct link head; /* read before the rows: it cannot be newer than they are */
	struct sqlite3_stmt *find_body;
};

static void bad(struct ledger_report *report, uint64_t seq, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void bad(struct ledger_report *report, uint64_t seq, const char *fmt, ...)
{
	va_list ap;

	if (!report->ok)
		return;
	report->ok = false;
	report->bad_seq = seq;
	va_start(ap, fmt);
	(void)vsnprintf(report->why, sizeof(report->why), fmt, ap);
	va_end(ap);
}

/* ---- the file ---- */

static const char *text_of(struct sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	return text ? text : "";
}

/* integrity_check tells in words, too, that it was kept from looking: no sign of damage. */
static bool is_unread(const char *text)
{
	static const char key[] = "error code=";
	const char *p = strstr(text, key);
	unsigned long long code = p ? strtoull(p + sizeof(key) - 1, NULL, 10) & 0xff : 0;

	return code == SQLITE_IOERR || code == SQLITE_NOMEM || strstr(text, "failed to get page");
}

static int check_pragma(struct verify *v, const char *sql, const char *want, const char *what,
                        struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int r = ledger_prepare(v->l, sql, &stmt, err);

	if (r < 0)
		return r;
	if (sqlite3_step(stmt) != SQLITE_ROW)
		return ledger_db_error(v->l, err, what);
	if (is_unread(text_of(stmt, 0)))
		return err_set(err, ERR_IO, EIO, "ledger: it cannot be read: %.150s",
		               text_of(stmt, 0));
	if (!streq(text_of(stmt, 0), want))
		bad(v->report, 0, "%s: %.150s", what, text_of(stmt, 0));
	return 0;
}

/* Tables of src/confirm and src/pipeline live in the same file. */
static bool is_neighbour(struct sqlite3_stmt *stmt)
{
	const char *type = text_of(stmt, 0), *table = text_of(stmt, 2);

	return (streq(type, "table") || streq(type, "index")) &&
	       (streq(table, "approval") || streq(table, "open_job") || streq(table, "kept"));
}

static bool is_ours(struct sqlite3_stmt *stmt)
{
	for (const struct schema_part *p = ledger_schema; p->name; p++)
		if (streq(p->name, text_of(stmt, 1)))
			return streq(p->type, text_of(stmt, 0)) && streq(p->sql, text_of(stmt, 3));
	return false;
}

static int check_schema(struct verify *v, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	size_t ours = 0, wanted = 0;
	int rc, r = ledger_prepare(v->l, "SELECT type,name,tbl_name,sql FROM sqlite_schema", &stmt,
	                           err);

	if (r < 0)
		return r;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		if (is_ours(stmt))
			ours++;
		else if (!is_neighbour(stmt))
			bad(v->report, 0,
			    "the database holds a %.20s \"%.60s\" that brig did not make",
			    text_of(stmt, 0), text_of(stmt, 1));
	}
	if (rc != SQLITE_DONE)
		return ledger_db_error(v->l, err, "read its schema");
	while (ledger_schema[wanted].name)
		wanted++;
	if (ours != wanted)
		bad(v->report, 0, "a table or index of the database is missing");
	return 0;
}

/* ---- rows ---- */

int ledger_start(struct ledger *l, struct link *ret, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	uint8_t signature[SHA256_SIZE];
	struct link at = { 0 };
	int rc, r = ledger_prepare(l, "SELECT last_seq,last_hash,signature FROM cut", &stmt, err);

	if (r < 0)
		return r;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		at.seq = (uint64_t)sqlite3_column_int64(stmt, 0);
		if (sqlite3_column_bytes(stmt, 1) == SHA256_SIZE)
			memcpy(at.hash, sqlite3_column_blob(stmt, 1), SHA256_SIZE);
		chain_cut(l->key, &at, signature);
		if (sqlite3_column_bytes(stmt, 2) != SHA256_SIZE ||
		    memcmp(sqlite3_column_blob(stmt, 2), signature, SHA256_SIZE) != 0)
			return err_set(
				err, ERR_IO, EUCLEAN,
				"ledger: the stub of the pruned rows is not signed by its key");
	} else if (rc != SQLITE_DONE) {
		return ledger_db_error(l, err, "read where it begins");
	}
	*ret = at;
	return 0;
}

bool ledger_follows(struct link *at, const struct ledger_row *row, char *why, size_t why_n)
{
	uint8_t hash[SHA256_SIZE];

	if (row->seq != at->seq + 1) {
		(void)snprintf(why, why_n, "row %llu follows row %llu: rows between are missing",
		               (unsigned long long)row->seq, (unsigned long long)at->seq);
		return false;
	}
	chain_hash(at->hash, row, hash);
	if (memcmp(hash, row->hash, SHA256_SIZE) != 0) {
		(void)snprintf(why, why_n,
		               "row %llu does not match its hash: it, or one before, was changed",
		               (unsigned long long)row->seq);
		return false;
	}
	at->seq = row->seq;
	memcpy(at->hash, hash, SHA256_SIZE);
	return true;
}

static void note_loss(struct verify *v, const struct ledger_row *row)
{
	static const struct json_bounds bounds = { .bytes = LEDGER_DETAIL_MAX,
		                                   .depth = 2,
		                                   .values = 8 };
	uint64_t found = 0, head = 0;
	struct json_node root, a, b;
	struct json_reader in;

	if (json_reader_init(&in, "detail", row->detail.p, row->detail.n, &bounds, NULL) == 0) {
		root = json_root(&in);
		a = json_member(&root, "found_seq");
		b = json_member(&root, "head_seq");
		if (json_node_u64(&a, &found) && json_node_u64(&b, &head) && head > found)
			v->report->lost += head - found;
		json_reader_done(&in);
	}
	bad(v->report, row->seq, "before row %llu, %llu rows were lost or cut off, as it says",
	    (unsigned long long)row->seq, (unsigned long long)v->report->lost);
}

static int check_named_bodies(struct verify *v, const struct ledger_row *row, struct err *err)
{
	for (size_t i = 0; i < row->n_bodies; i++) {
		int rc = sqlite3_bind_blob(v->find_body, 1, row->bodies + i * SHA256_SIZE,
		                           SHA256_SIZE, SQLITE_STATIC);

		if (rc == SQLITE_OK)
			rc = sqlite3_step(v->find_body);
		(void)sqlite3_reset(v->find_body);
		if (rc == SQLITE_DONE)
			bad(v->report, row->seq, "a body that row %llu names is missing",
			    (unsigned long long)row->seq);
		else if (rc != SQLITE_ROW)
			return ledger_db_error(v->l, err, "look for a body");
	}
	return 0;
}

/* A break ends the walk: what comes after it means nothing. */
static int check_row(struct verify *v, const struct ledger_row *row, struct link *at,
                     struct err *err)
{
	char why[120];

	if (!ledger_follows(at, row, why, sizeof(why))) {
		bad(v->report, row->seq, "%s", why);
		return 0;
	}
	if (at->seq == v->head.seq && memcmp(at->hash, v->head.hash, SHA256_SIZE) != 0)
		bad(v->report, at->seq, "row %llu is not the one that ledger.head knows",
		    (unsigned long long)at->seq);
	if (streq(row->kind, KIND_LEDGER) && streq(row->name, NAME_TAIL_LOST))
		note_loss(v, row);
	if (!v->report->rows++)
		v->report->first_seq = row->seq;
	v->report->last_seq = row->seq;
	return check_named_bodies(v, row, err);
}

static int walk_rows(struct verify *v, struct link *at, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int rc, r = ledger_prepare(v->l, "SELECT " LEDGER_COLUMNS " FROM event ORDER BY seq", &stmt,
	                           err);

	if (r < 0)
		return r;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		uint64_t before = at->seq;
		struct ledger_row row;

		if (ledger_row_read(stmt, &row) < 0)
			bad(v->report, before + 1, "the row after %llu is damaged",
			    (unsigned long long)before);
		else
			r = check_row(v, &row, at, err);
		if (r < 0 || at->seq == before)
			return r;
	}
	return rc == SQLITE_DONE ? 0 : ledger_db_error(v->l, err, "read rows");
}

static int check_rows(struct verify *v, struct err *err)
{
	struct link at = { 0 };
	int r = ledger_start(v->l, &at, err);

	if (r < 0)
		return r;
	v->report->pruned = at.seq;
	r = ledger_prepare(v->l, "SELECT 1 FROM body WHERE digest=?1", &v->find_body, err);
	if (r == 0)
		r = walk_rows(v, &at, err);
	(void)sqlite3_finalize(TAKE_PTR(v->find_body));
	if (r == 0 && at.seq < v->head.seq)
		bad(v->report, at.seq,
		    "it ends at row %llu, but ledger.head knows row %llu: the newest rows are gone",
		    (unsigned long long)at.seq, (unsigned long long)v->head.seq);
	return r;
}

/* ---- bodies ---- */

static bool body_is_right(struct verify *v, struct sqlite3_stmt *stmt)
{
	const void *digest = sqlite3_column_blob(stmt, 0), *kept = sqlite3_column_blob(stmt, 2);
	const void *seal = sqlite3_column_blob(stmt, 3);
	size_t kept_n = (size_t)sqlite3_column_bytes(stmt, 2);
	int seal_n = sqlite3_column_bytes(stmt, 3);
	uint64_t size = (uint64_t)sqlite3_column_int64(stmt, 1);
	uint8_t sum[SHA256_SIZE];

	if (sqlite3_column_bytes(stmt, 0) != SHA256_SIZE)
		return false;
	if (size <= LEDGER_BODY_MAX) {
		sha256(kept, kept_n, sum);
		return kept_n == size && seal_n == 0 && memcmp(sum, digest, SHA256_SIZE) == 0;
	}
	if (kept_n != LEDGER_BODY_MAX || seal_n != SHA256_SIZE)
		return false;
	chain_seal(v->l->key, digest, size, kept, kept_n, sum);
	return memcmp(sum, seal, SHA256_SIZE) == 0;
}

static int check_bodies(struct verify *v, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int rc, r = ledger_prepare(v->l, "SELECT digest,size,kept,seal,id FROM body", &stmt, err);

	if (r < 0)
		return r;
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		if (!body_is_right(v, stmt))
			bad(v->report, 0, "body %lld does not match its digest: it was changed",
			    (long long)sqlite3_column_int64(stmt, 4));
		v->report->bodies++;
	}
	return rc == SQLITE_DONE ? 0 : ledger_db_error(v->l, err, "read bodies");
}

/* ---- all of it ---- */

static int check_file(struct verify *v, struct err *err)
{
	int r = check_pragma(v, "PRAGMA journal_mode", "wal", "its journal mode was changed", err);

	return r < 0 ? r
	             : check_pragma(v, "PRAGMA integrity_check(1)", "ok", "the database is damaged",
	                            err);
}

typedef int check_fn(struct verify *v, struct err *err);

static int run_checks(struct verify *v, struct err *err)
{
	/* rows before the file as a whole: they know better what is wrong */
	static check_fn *const checks[] = { check_schema, check_rows, check_bodies, check_file };

	for (size_t i = 0; i < ELEMENTSOF(checks); i++) {
		struct err why = { 0 };
		int r = checks[i](v, &why);

		if (r == -EUCLEAN) {
			bad(v->report, 0, "%.190s", why.msg);
		} else if (r < 0) {
			if (err)
				*err = why;
			return r;
		}
	}
	return 0;
}

int ledger_verify(struct ledger *l, struct ledger_report *ret, struct err *err)
{
	struct ledger_report report = { .ok = true };
	struct verify v = { .l = l, .report = &report };
	struct err why = { 0 };
	int r;

	if (l->in_group)
		return err_set(err, ERR_INTERNAL, EBUSY, "ledger: verify within a group");
	if (head_read(l, &v.head, &why) < 0)
		bad(&report, 0, "%.190s", why.msg);
	/* one view of all of it, whatever others append meanwhile */
	r = ledger_exec(l, "BEGIN", "read it", err);
	if (r < 0)
		return r;
	r = run_checks(&v, err);
	(void)sqlite3_exec(l->db, "ROLLBACK", NULL, NULL, NULL);
	if (r < 0)
		return r;
	*ret = report;
	return 0;
}
