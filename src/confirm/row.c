/* SPDX-License-Identifier: Apache-2.0 */

/* One row per question, in the ledger's file. The events of the ledger are the record; this table
 * is how things stand, and confirm_verify() compares the two. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "confirm/impl.h"

static const char table_sql[] =
	"CREATE TABLE IF NOT EXISTS approval("
	"id TEXT PRIMARY KEY, job TEXT NOT NULL, session TEXT NOT NULL, asker TEXT NOT NULL, "
	"owner TEXT NOT NULL, boot TEXT NOT NULL, digest BLOB NOT NULL, rest BLOB NOT NULL, "
	"state INTEGER NOT NULL, created_us INTEGER NOT NULL, expires_us INTEGER NOT NULL, "
	"expires_boot INTEGER NOT NULL, remember INTEGER NOT NULL, remember_ms INTEGER NOT NULL, "
	"self INTEGER NOT NULL, scope INTEGER NOT NULL, until_us INTEGER NOT NULL, "
	"until_boot INTEGER NOT NULL, edited INTEGER NOT NULL, answered_by TEXT NOT NULL, "
	"reason TEXT NOT NULL, language INTEGER NOT NULL, summary TEXT NOT NULL, code BLOB NOT "
	"NULL)";
static const char index_sql[] = "CREATE INDEX IF NOT EXISTS approval_digest ON approval(digest)";

const char approval_row_columns[] =
	"id, job, session, asker, owner, boot, digest, rest, state, created_us, expires_us, "
	"expires_boot, remember, remember_ms, self, scope, until_us, until_boot, edited, "
	"answered_by, reason";

int approvals_prepare(struct ledger *l, const char *sql, sqlite3_stmt **ret, struct err *err)
{
	if (sqlite3_prepare_v2(ledger_db(l), sql, -1, ret, NULL) != SQLITE_OK)
		return ledger_db_error(l, err, "approvals");
	return 0;
}

int approvals_step(struct ledger *l, sqlite3_stmt *s, struct err *err)
{
	switch (sqlite3_step(s)) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return ledger_db_error(l, err, "approvals");
	}
}

static int run(struct ledger *l, const char *sql, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = approvals_prepare(l, sql, &s, err);

	return r < 0 ? r : approvals_step(l, s, err);
}

int approvals_ready(struct ledger *l, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	bool own_group = !ledger_in_group(l); /* then it ends here: who only looks writes nothing */
	int r;

	/* Asking is cheap; making it needs the write lock. */
	if (sqlite3_prepare_v2(ledger_db(l), "SELECT 1 FROM approval LIMIT 1", -1, &s, NULL) ==
	    SQLITE_OK)
		return 0;
	r = ledger_begin(l, err);
	if (r >= 0)
		r = run(l, table_sql, err);
	if (r >= 0)
		r = run(l, index_sql, err);
	if (r >= 0 && own_group)
		r = ledger_commit(l, LEDGER_PROCESS, err);
	if (r < 0 && own_group)
		ledger_abort(l);
	return r;
}

static void get_text(sqlite3_stmt *s, int i, char *ret, size_t n)
{
	const char *text = (const char *)sqlite3_column_text(s, i);

	(void)snprintf(ret, n, "%s", text ? text : "");
}

static uint64_t get_u64(sqlite3_stmt *s, int i)
{
	return (uint64_t)sqlite3_column_int64(s, i);
}

static void get_digest(sqlite3_stmt *s, int i, uint8_t ret[SHA256_SIZE])
{
	const void *p = sqlite3_column_blob(s, i);

	memset(ret, 0, SHA256_SIZE);
	if (p && sqlite3_column_bytes(s, i) == SHA256_SIZE)
		memcpy(ret, p, SHA256_SIZE);
}

/* A number out of its range reads as zero, which permits nothing. */
static unsigned get_choice(sqlite3_stmt *s, int i, unsigned count)
{
	uint64_t v = get_u64(s, i);

	return v < count ? (unsigned)v : 0;
}

void approval_row_read(sqlite3_stmt *s, struct approval_row *ret)
{
	struct approval *a = &ret->a;

	*ret = (struct approval_row){ 0 };
	get_text(s, 0, a->id, sizeof(a->id));
	get_text(s, 1, a->job, sizeof(a->job));
	get_text(s, 2, a->session, sizeof(a->session));
	get_text(s, 3, a->asker, sizeof(a->asker));
	get_text(s, 4, ret->owner, sizeof(ret->owner));
	get_text(s, 5, ret->boot_id, sizeof(ret->boot_id));
	get_digest(s, 6, a->digest);
	get_digest(s, 7, a->rest);
	a->state = (enum approval_state)get_choice(s, 8, APPROVAL_STATE_COUNT);
	a->created_us = get_u64(s, 9);
	a->expires_us = get_u64(s, 10);
	ret->expires_boot_ms = get_u64(s, 11);
	a->remember = (enum remember)get_choice(s, 12, REMEMBER_COUNT);
	a->remember_ms = get_u64(s, 13);
	a->self = get_u64(s, 14) == 1;
	a->scope = (enum remember)get_choice(s, 15, REMEMBER_COUNT);
	a->until_us = get_u64(s, 16);
	ret->until_boot_ms = get_u64(s, 17);
	a->edited = get_u64(s, 18) != 0;
	get_text(s, 19, a->answered_by, sizeof(a->answered_by));
	get_text(s, 20, a->reason, sizeof(a->reason));
}

int approval_row_get(struct ledger *l, const char *id, struct approval_row *ret, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	char sql[640];
	int r = approvals_ready(l, err);

	(void)snprintf(sql, sizeof(sql), "SELECT %s FROM approval WHERE id = ?1",
	               approval_row_columns);
	if (r >= 0)
		r = approvals_prepare(l, sql, &s, err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
	r = approvals_step(l, s, err);
	if (r == 1)
		approval_row_read(s, ret);
	if (r == 0) {
		(void)err_set(err, ERR_NOT_FOUND, ENOENT, "no approval \"%.40s\"", id);
		return err_remedy(err, -ENOENT, "\"brig approvals ls --all\" lists them");
	}
	return r < 0 ? r : 0;
}

int approval_row_update(struct ledger *l, const struct approval_row *row, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	const struct approval *a = &row->a;
	int r = approvals_prepare(
		l,
		"UPDATE approval SET state = ?2, digest = ?3, scope = ?4, until_us = ?5, "
		"until_boot = ?6, edited = ?7, answered_by = ?8, reason = ?9, job = ?10, "
		"owner = ?11, boot = ?12 WHERE id = ?1",
		&s, err);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, a->id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 2, a->state);
	(void)sqlite3_bind_blob(s, 3, a->digest, SHA256_SIZE, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 4, a->scope);
	(void)sqlite3_bind_int64(s, 5, (int64_t)a->until_us);
	(void)sqlite3_bind_int64(s, 6, (int64_t)row->until_boot_ms);
	(void)sqlite3_bind_int(s, 7, a->edited);
	(void)sqlite3_bind_text(s, 8, a->answered_by, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 9, a->reason, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 10, a->job, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 11, row->owner, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 12, row->boot_id, -1, SQLITE_STATIC);
	return approvals_step(l, s, err);
}

int approval_row_event(struct ledger *l, const struct approval_row *row, const char *name,
                       const char *actor, const char *why, struct err *err)
{
	CLEANUP_BUF struct buf b = BUF_INIT(8 * KIB);
	const struct approval *a = &row->a;
	char hex[SHA256_HEX_SIZE];
	int r;

	sha256_hex(a->digest, hex);
	buf_printf(&b, "{\"approval\":\"%s\",\"digest\":\"%s\",\"state\":\"%s\",\"scope\":\"%s\"",
	           a->id, hex, approval_state_name(a->state), remember_name(a->scope));
	if (a->until_us) {
		buf_puts(&b, ",\"until\":");
		json_put_time(&b, a->until_us);
	}
	buf_puts(&b, ",\"asker\":");
	json_put_cstr(&b, a->asker);
	if (*a->answered_by) {
		buf_puts(&b, ",\"by\":");
		json_put_cstr(&b, a->answered_by);
	}
	if (a->edited)
		buf_puts(&b, ",\"edited\":true");
	if (row->answered_us)
		buf_printf(&b, ",\"answered_us\":%llu", (unsigned long long)row->answered_us);
	if (why && *why) {
		buf_puts(&b, ",\"why\":");
		json_put_cstr(&b, why);
	}
	buf_putc(&b, '}');
	r = buf_finish(&b);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "approval event");
	return ledger_append(l,
	                     &(struct ledger_event){ .job = a->job,
	                                             .session = *a->session ? a->session : NULL,
	                                             .kind = "approval",
	                                             .name = name,
	                                             .actor = actor,
	                                             .detail = { b.data, b.len } },
	                     err);
}
