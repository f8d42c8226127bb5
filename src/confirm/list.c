/* SPDX-License-Identifier: Apache-2.0 */

/* Reading: lists, texts, and the comparison with the record. */

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
			"(state NOT IN (?2, ?3) OR (expires_us < ?1 AND until_us < ?1))",
			&s, err);
	if (r >= 0) {
		(void)sqlite3_bind_int64(s, 1, (int64_t)before_us);
		(void)sqlite3_bind_int(s, 2, APPROVAL_WAITING);
		(void)sqlite3_bind_int(s, 3, APPROVAL_ALLOWED);
		r = approvals_step(l, s, err);
	}
	if (r >= 0)
		r = ledger_commit(l, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(l);
	return r;
}

/* The value of "key":"…" in a detail that approval_row_event() wrote. */
static bool detail_text(struct str detail, const char *key, char *ret, size_t n)
{
	char mark[32];
	const char *at, *end;

	(void)snprintf(mark, sizeof(mark), "\"%s\":\"", key);
	at = memmem(detail.p, detail.n, mark, strlen(mark));
	if (!at)
		return false;
	at += strlen(mark);
	end = memchr(at, '"', (size_t)(detail.p + detail.n - at));
	if (!end || (size_t)(end - at) >= n)
		return false;
	memcpy(ret, at, (size_t)(end - at));
	ret[end - at] = '\0';
	return true;
}

/* One approval, and what the ledger's last event of it says. */
struct pair {
	struct approval a;
	char state[16], digest[SHA256_HEX_SIZE];
	bool found;
};

struct pairs {
	struct pair *v;
	size_t n;
	uint64_t first_us; /* the oldest row that is left */
};

static int gather(void *data, const struct approval *a)
{
	struct pairs *p = data;

	if (p->n < APPROVALS_LISTED_MAX)
		p->v[p->n++].a = *a;
	return 0;
}

static int hear(void *data, const struct ledger_row *row)
{
	struct pairs *p = data;
	char id[EXECUTION_ID_SIZE];

	if (!detail_text(row->detail, "approval", id, sizeof(id)))
		return 0;
	for (size_t i = 0; i < p->n; i++) {
		struct pair *k = &p->v[i];

		if (streq(id, k->a.id))
			k->found = detail_text(row->detail, "state", k->state, sizeof(k->state)) &&
			           detail_text(row->detail, "digest", k->digest, sizeof(k->digest));
	}
	return 0;
}

static int note_first(void *data, const struct ledger_row *row)
{
	((struct pairs *)data)->first_us = row->time_us;
	return 1;
}

static const char *compare(const struct pair *k, uint64_t first_us)
{
	const struct approval *a = &k->a;
	char hex[SHA256_HEX_SIZE];
	/* Its time is over, and nobody has come by since. */
	bool overdue = a->state == APPROVAL_EXPIRED &&
	               (streq(k->state, "waiting") || streq(k->state, "allowed"));

	sha256_hex(a->digest, hex);
	if (!k->found) /* its events may have been pruned */
		return a->created_us < first_us ? NULL
		                                : "an approval that the ledger does not know";
	if (!overdue && !streq(k->state, approval_state_name(a->state)))
		return "an approval in another state than the ledger says";
	return streq(k->digest, hex) ? NULL : "an approval for another digest than the ledger says";
}

const char *confirm_verify(struct ledger *l, char ret_id[EXECUTION_ID_SIZE])
{
	CLEANUP_FREE struct pair *v = calloc(APPROVALS_LISTED_MAX, sizeof(*v));
	struct pairs p = { .v = v };
	const char *why = NULL;

	*ret_id = '\0';
	if (!v)
		return "no memory to compare the approvals";
	if (confirm_each(l, true, gather, &p, NULL) < 0)
		return "the approvals could not be read";
	if (ledger_each(l, &(struct ledger_filter){ .limit = 1 }, note_first, &p, NULL) < 0 ||
	    ledger_each(l, &(struct ledger_filter){ .kind = "approval" }, hear, &p, NULL) < 0)
		return "the ledger could not be read";
	for (size_t i = 0; i < p.n && !why; i++) {
		why = compare(&v[i], p.first_us);
		if (why)
			(void)snprintf(ret_id, EXECUTION_ID_SIZE, "%s", v[i].a.id);
	}
	return why;
}
