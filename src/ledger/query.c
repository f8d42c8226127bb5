/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: rows by a filter, bodies by their digest. */
#include <errno.h>

#include "base/json.h"
#include "ledger/ledger_impl.h"

#define SQL_MAX 1024

/* ---- one row ---- */

static bool read_text(struct sqlite3_stmt *s, int column, const char **ret)
{
	const char *text;

	if (sqlite3_column_type(s, column) != SQLITE_TEXT)
		return false;
	text = (const char *)sqlite3_column_text(s, column);
	if (!text || strlen(text) != (size_t)sqlite3_column_bytes(s, column))
		return false;
	*ret = text;
	return true;
}

static bool read_blob(struct sqlite3_stmt *s, int column, const uint8_t **ret, size_t *ret_n)
{
	if (sqlite3_column_type(s, column) != SQLITE_BLOB)
		return false;
	*ret = sqlite3_column_blob(s, column);
	*ret_n = (size_t)sqlite3_column_bytes(s, column);
	return true;
}

int ledger_row_read(struct sqlite3_stmt *stmt, struct ledger_row *ret)
{
	struct ledger_row row = { 0 };
	size_t hash_n = 0, bodies_n = 0;

	if (sqlite3_column_type(stmt, 0) != SQLITE_INTEGER ||
	    sqlite3_column_type(stmt, 1) != SQLITE_INTEGER)
		return -EUCLEAN;
	row.seq = (uint64_t)sqlite3_column_int64(stmt, 0);
	row.time_us = (uint64_t)sqlite3_column_int64(stmt, 1);
	if (!read_text(stmt, 2, &row.job) || !read_text(stmt, 3, &row.session) ||
	    !read_text(stmt, 4, &row.kind) || !read_text(stmt, 5, &row.name) ||
	    !read_text(stmt, 6, &row.actor) || !read_text(stmt, 7, &row.detail.p) ||
	    !read_blob(stmt, 8, &row.bodies, &bodies_n) || !read_blob(stmt, 9, &row.hash, &hash_n))
		return -EUCLEAN;
	if (hash_n != SHA256_SIZE || bodies_n % SHA256_SIZE)
		return -EUCLEAN;
	row.detail.n = strlen(row.detail.p);
	row.n_bodies = bodies_n / SHA256_SIZE;
	*ret = row;
	return 0;
}

/* ---- rows ---- */

/* Constants only; the values are bound. The terms "<>''" let the partial indices be used. */
static int filter_sql(const struct ledger_filter *f, struct buf *sql)
{
	buf_puts(sql, "SELECT " LEDGER_COLUMNS " FROM event WHERE seq>?1");
	if (f->job)
		buf_puts(sql, *f->job ? " AND job=?2 AND job<>''" : " AND job=?2");
	if (f->session)
		buf_puts(sql, *f->session ? " AND session=?3 AND session<>''" : " AND session=?3");
	if (f->kind)
		buf_puts(sql, " AND kind=?4");
	if (f->name)
		buf_puts(sql, " AND name=?5");
	buf_puts(sql, f->newest_first ? " ORDER BY seq DESC" : " ORDER BY seq");
	if (f->limit)
		buf_puts(sql, " LIMIT ?6");
	return buf_finish(sql);
}

static int bind_filter(struct sqlite3_stmt *s, const struct ledger_filter *f)
{
	int rc = sqlite3_bind_int64(s, 1, (sqlite3_int64)MIN2(f->after_seq, INT64_MAX));

	if (f->job)
		rc |= sqlite3_bind_text(s, 2, f->job, -1, SQLITE_STATIC);
	if (f->session)
		rc |= sqlite3_bind_text(s, 3, f->session, -1, SQLITE_STATIC);
	if (f->kind)
		rc |= sqlite3_bind_text(s, 4, f->kind, -1, SQLITE_STATIC);
	if (f->name)
		rc |= sqlite3_bind_text(s, 5, f->name, -1, SQLITE_STATIC);
	if (f->limit)
		rc |= sqlite3_bind_int64(s, 6, (sqlite3_int64)MIN2(f->limit, INT64_MAX));
	return rc;
}

int ledger_each(struct ledger *l, const struct ledger_filter *f, ledger_row_fn *fn, void *data,
                struct err *err)
{
	CLEANUP_BUF struct buf sql = BUF_INIT(SQL_MAX);
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int rc = SQLITE_DONE, r = filter_sql(f, &sql);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "ledger: a query");
	r = ledger_prepare(l, sql.data, &stmt, err);
	if (r < 0)
		return r;
	if (bind_filter(stmt, f) != SQLITE_OK)
		return ledger_db_error(l, err, "a query");
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct ledger_row row;

		if (ledger_row_read(stmt, &row) < 0)
			return err_remedy(err,
			                  err_set(err, ERR_IO, EUCLEAN, "ledger: a damaged row"),
			                  "\"brig ledger verify\" says where");
		if (fn(data, &row))
			return 0;
	}
	return rc == SQLITE_DONE ? 0 : ledger_db_error(l, err, "read rows");
}

/* ---- bodies ---- */

int ledger_get_body(struct ledger *l, const uint8_t digest[SHA256_SIZE], struct buf *out,
                    uint64_t *ret_size, struct err *err)
{
	CLEANUP_STMT struct sqlite3_stmt *stmt = NULL;
	int rc, r = ledger_prepare(l, "SELECT size,kept FROM body WHERE digest=?1", &stmt, err);

	if (r < 0)
		return r;
	if (sqlite3_bind_blob(stmt, 1, digest, SHA256_SIZE, SQLITE_STATIC) != SQLITE_OK)
		return ledger_db_error(l, err, "a query");
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_DONE)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "ledger: this body is not kept");
	if (rc != SQLITE_ROW)
		return ledger_db_error(l, err, "read a body");
	if (sqlite3_column_bytes(stmt, 1))
		buf_put(out, sqlite3_column_blob(stmt, 1), (size_t)sqlite3_column_bytes(stmt, 1));
	r = buf_finish(out);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "ledger: read a body");
	*ret_size = (uint64_t)sqlite3_column_int64(stmt, 0);
	return 0;
}

/* ---- for others ---- */

static void put_member(struct buf *out, const char *key, const char *value)
{
	buf_printf(out, ",\"%s\":", key);
	json_put_cstr(out, value);
}

/* The detail comes last and byte by byte as it was recorded: what follows the first ,"detail": up
 * to the last brace is what was hashed. */
void ledger_row_to_json(const struct ledger_row *row, struct buf *out)
{
	char hex[SHA256_HEX_SIZE];

	buf_printf(out, "{\"seq\":%llu,\"time_us\":%llu", (unsigned long long)row->seq,
	           (unsigned long long)row->time_us);
	put_member(out, "job", row->job);
	put_member(out, "session", row->session);
	put_member(out, "kind", row->kind);
	put_member(out, "name", row->name);
	put_member(out, "actor", row->actor);
	buf_puts(out, ",\"bodies\":[");
	for (size_t i = 0; i < row->n_bodies; i++) {
		sha256_hex(row->bodies + i * SHA256_SIZE, hex);
		buf_printf(out, "%s\"%s\"", i ? "," : "", hex);
	}
	sha256_hex(row->hash, hex);
	buf_printf(out, "],\"hash\":\"%s\",\"detail\":", hex);
	buf_put(out, row->detail.p, row->detail.n);
	buf_putc(out, '}');
}
