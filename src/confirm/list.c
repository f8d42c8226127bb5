/* SPDX-License-Identifier: Apache-2.0 */

/* Reading: lists and texts; and what goes when the record is cut. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "confirm/impl.h"

/* `sql` is what follows the columns: ?1 waiting, ?2 allowed, ?3 rows at most. */
static int each(struct ledger *l, const char *sql, int limit, bool all, approval_fn *fn, void *data,
                struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	struct approval_row row;
	struct moment now;
	char text[700];
	int r = approvals_ready(l, err);

	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "SELECT %s FROM approval %s LIMIT ?3",
	               approval_row_columns, sql);
	r = approvals_prepare(l, text, &s, err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_int(s, 1, APPROVAL_WAITING);
	(void)sqlite3_bind_int(s, 2, APPROVAL_ALLOWED);
	(void)sqlite3_bind_int(s, 3, limit);
	moment_now(&now);
	while ((r = approvals_step(l, s, err)) == 1) {
		approval_row_read(s, &row);
		/* Nobody has come by since its time was over. */
		if (approval_row_has_lapsed(&row, &now))
			row.a.state = APPROVAL_EXPIRED;
		if ((all || row.a.state != APPROVAL_EXPIRED) && (r = fn(data, &row.a)) != 0)
			return r;
	}
	return r;
}

int confirm_each(struct ledger *l, bool all, approval_fn *fn, void *data, struct err *err)
{
	return each(l,
	            all ? "ORDER BY created_us DESC, id"
	                : "WHERE state IN (?1, ?2) ORDER BY created_us DESC, id",
	            APPROVALS_LISTED_MAX, all, fn, data, err);
}

/* Without a bound: many may have lapsed that nobody has looked at since. */
int confirm_each_waiting(struct ledger *l, approval_fn *fn, void *data, struct err *err)
{
	return each(l, "WHERE state = ?1 ORDER BY created_us, id", -1, false, fn, data, err);
}

int confirm_find(struct ledger *l, const char *prefix, char ret[EXECUTION_ID_SIZE], struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int found = 0, r = approvals_ready(l, err);

	if (r >= 0)
		r = approvals_prepare(
			l, "SELECT id FROM approval WHERE substr(id, 1, ?2) = ?1 LIMIT 2", &s, err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, prefix, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 2, (int)strlen(prefix));
	while ((r = approvals_step(l, s, err)) == 1 && ++found)
		(void)snprintf(ret, EXECUTION_ID_SIZE, "%s", sqlite3_column_text(s, 0));
	if (r < 0 || (found == 1 && *prefix))
		return r < 0 ? r : 0;
	(void)err_set(err, ERR_NOT_FOUND, ENOENT,
	              found ? "several approvals begin with \"%.40s\"" : "no approval \"%.40s\"",
	              prefix);
	return err_remedy(err, -ENOENT, "\"brig approvals ls\" lists them");
}

int confirm_texts(struct ledger *l, const char *id, struct buf *code, struct buf *summary,
                  struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = approvals_ready(l, err);

	if (r >= 0)
		r = approvals_prepare(l, "SELECT code, summary FROM approval WHERE id = ?1", &s,
		                      err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
	r = approvals_step(l, s, err);
	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, ENOENT, "no approval \"%.40s\"", id);
	if (r < 0)
		return r;
	if (code)
		buf_put(code, sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0));
	if (summary)
		buf_put(summary, sqlite3_column_blob(s, 1), (size_t)sqlite3_column_bytes(s, 1));
	return 0;
}

/* Those that confirm_prune() leaves and that wait or stand. */
static int keep_rows(struct ledger *l, uint64_t before_us, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	struct approval_known known;
	struct approval_row row;
	char sql[700];
	int r;

	(void)snprintf(sql, sizeof(sql),
	               "SELECT %s FROM approval WHERE created_us < ?1 AND state IN (?2, ?3)",
	               approval_row_columns);
	r = approvals_prepare(l, sql, &s, err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_int64(s, 1, (int64_t)before_us);
	(void)sqlite3_bind_int(s, 2, APPROVAL_WAITING);
	(void)sqlite3_bind_int(s, 3, APPROVAL_ALLOWED);
	while ((r = approvals_step(l, s, err)) == 1) {
		approval_row_read(s, &row);
		r = approval_known(l, &row.a, &known, err);
		row.answered_us = known.answered_us;
		/* what the record does not know is not made known by this */
		if (r >= 0 && known.agrees && known.time_us < before_us)
			r = approval_row_event(l, &row, "approval.kept", "brig", NULL, err);
		if (r < 0)
			return r;
	}
	return r;
}

int confirm_keep(struct ledger *l, uint64_t *before_us, struct err *err)
{
	struct moment now;
	int r = approvals_ready(l, err);

	moment_now(&now);
	*before_us = MIN2(*before_us, now.real_us);
	if (r >= 0)
		r = ledger_begin(l, err);
	if (r >= 0)
		r = keep_rows(l, *before_us, err);
	if (r >= 0)
		r = ledger_commit(l, LEDGER_DISK, err);
	if (r < 0)
		ledger_abort(l);
	return r;
}

int confirm_prune(struct ledger *l, uint64_t before_us, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = approvals_ready(l, err);

	if (r >= 0)
		r = ledger_begin(l, err);
	if (r >= 0)
		r = approvals_prepare(
			l,
			"DELETE FROM approval WHERE created_us < ?1 AND "
			"(state NOT IN (?2, ?3) OR (expires_us < ?1 AND until_us < ?1 "
			"AND NOT (state = ?3 AND scope = ?4)))", /* a session has no end */
			&s, err);
	if (r >= 0) {
		(void)sqlite3_bind_int64(s, 1, (int64_t)before_us);
		(void)sqlite3_bind_int(s, 2, APPROVAL_WAITING);
		(void)sqlite3_bind_int(s, 3, APPROVAL_ALLOWED);
		(void)sqlite3_bind_int(s, 4, REMEMBER_SESSION);
		r = approvals_step(l, s, err);
	}
	if (r >= 0)
		r = ledger_commit(l, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(l);
	return r;
}
