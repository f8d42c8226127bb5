/* SPDX-License-Identifier: Apache-2.0 */

/* The asker's side: is there a standing answer, and if not, a question. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "confirm/impl.h"

#define SEEN_MAX 10000 /* rows of one digest that are looked at, newest first */
#define SLACK_MS 1000  /* between an answer and its row */

/* Does this allow cover a run in `session` now? */
static bool covers(const struct approval_row *row, const struct moment *now, const char *session)
{
	const struct approval *a = &row->a;

	if (approval_row_has_lapsed(row, now))
		return false;
	switch (a->scope) {
	case REMEMBER_NOTHING:
		return streq(a->session, session ? session : "");
	case REMEMBER_SESSION:
		return *a->session && session && streq(a->session, session);
	case REMEMBER_DIGEST:
		return true;
	case REMEMBER_COUNT:
		break;
	}
	return false;
}

/* Rows of one digest and state; `fits` says which. 1: *ret is it. */
static int find_row(struct ledger *l, const uint8_t digest[SHA256_SIZE], enum approval_state state,
                    bool (*fits)(const struct approval_row *, const void *), const void *data,
                    struct approval_row *ret, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	char sql[700];
	int r;

	(void)snprintf(sql, sizeof(sql),
	               "SELECT %s FROM approval WHERE digest = ?1 AND state = ?2 "
	               "ORDER BY created_us DESC",
	               approval_row_columns);
	r = approvals_prepare(l, sql, &s, err);
	if (r < 0)
		return r;
	(void)sqlite3_bind_blob(s, 1, digest, SHA256_SIZE, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 2, state);
	for (int i = 0; i < SEEN_MAX && (r = approvals_step(l, s, err)) == 1; i++) {
		approval_row_read(s, ret);
		if (fits(ret, data))
			return 1;
	}
	return r < 0 ? r : 0;
}

struct seeker {
	struct moment now;
	const char *session, *asker; /* of the run that is judged */
	const struct decision *decision;
	struct ledger *ledger;
};

static bool is_standing(const struct approval_row *row, const void *data)
{
	const struct seeker *k = data;

	if (row->a.scope > k->decision->remember)
		return false;
	if (!k->decision->self_approve && (actor_is_same(row->a.asker, row->a.answered_by) ||
	                                   actor_is_same(k->asker, row->a.answered_by)))
		return false;
	if (actor_is_own_token(k->asker, row->a.answered_by))
		return false;
	return covers(row, &k->now, k->session);
}

/* A policy that remembers for a shorter time than the one that asked counts from the answer. */
static bool is_recent(const struct approval_row *row, uint64_t answered_us, const struct seeker *k)
{
	uint64_t most_ms = k->decision->remember_ms, granted_ms, from_boot_ms;

	if (row->a.scope != REMEMBER_DIGEST)
		return true;
	if (!answered_us || row->a.until_us < answered_us)
		return false;
	granted_ms = (row->a.until_us - answered_us) / 1000;
	from_boot_ms = row->until_boot_ms - MIN2(granted_ms, row->until_boot_ms);
	/* The record has no time of the boot clock: one that would lie ahead was put there. */
	if (streq(k->now.boot_id, row->boot_id) && from_boot_ms > k->now.boot_ms + SLACK_MS)
		return false;
	return !moment_passed(&k->now, row->boot_id, from_boot_ms + most_ms,
	                      answered_us + most_ms * 1000);
}

/* A session belongs to whoever asked in it: another one may call his own by the same name. */
static bool is_his_session(const struct approval_row *row, const struct seeker *k)
{
	return row->a.scope != REMEMBER_SESSION || streq(row->a.asker, k->asker) ||
	       (strchr(k->asker, ':') && actor_is_same(row->a.asker, k->asker));
}

static bool counts(const struct approval_row *row, const void *data)
{
	const struct seeker *k = data;
	struct approval_known known;

	return is_standing(row, data) && is_his_session(row, k) &&
	       approval_known(k->ledger, &row->a, &known, NULL) >= 0 && known.agrees &&
	       is_recent(row, known.answered_us, k);
}

int confirm_use(struct ledger *l, const uint8_t digest[SHA256_SIZE], const struct decision *d,
                const char *asker, const char *session, const char *job, struct approval *ret,
                struct err *err)
{
	struct seeker k = { .session = session, .asker = asker, .decision = d, .ledger = l };
	struct approval_row row;
	int r = approvals_ready(l, err);

	moment_now(&k.now);
	if (r >= 0)
		r = ledger_begin(l, err); /* nobody else may use the same one */
	if (r >= 0)
		r = find_row(l, digest, APPROVAL_ALLOWED, counts, &k, &row, err);
	if (r <= 0)
		return r;
	if (row.a.scope == REMEMBER_NOTHING) {
		row.a.state = APPROVAL_USED;
		(void)snprintf(row.a.job, sizeof(row.a.job), "%s", job);
		r = approval_row_update(l, &row, err);
		if (r < 0)
			return r;
	}
	(void)snprintf(row.a.job, sizeof(row.a.job), "%s", job);
	r = approval_row_event(l, &row, "approval.used", "brig", NULL, err);
	if (r < 0)
		return r;
	*ret = row.a;
	return 1;
}

static bool is_orphan(const struct approval_row *row, const void *data)
{
	const struct seeker *k = data;

	return streq(row->a.asker, k->asker) &&
	       streq(row->a.session, k->session ? k->session : "") &&
	       !approval_row_has_lapsed(row, &k->now) && owner_is_gone(row->owner);
}

/* The same process asks again after its first incarnation died: the question stands. */
static int take_over(struct ledger *l, const struct confirm_question *q, const struct moment *now,
                     struct approval_row *row, struct err *err)
{
	const struct seeker k = { .now = *now, .session = q->session, .asker = q->asker };
	int r = find_row(l, q->digest, APPROVAL_WAITING, is_orphan, &k, row, err);

	if (r <= 0)
		return r;
	owner_self(row->owner);
	(void)snprintf(row->a.job, sizeof(row->a.job), "%s", q->job);
	r = approval_row_update(l, row, err);
	if (r >= 0)
		r = approval_row_event(l, row, "approval.taken_over", q->asker, NULL, err);
	return r < 0 ? r : 1;
}

int confirm_adopt(struct ledger *l, const char *id, struct err *err)
{
	struct approval_row row;
	int r = ledger_begin(l, err);

	if (r >= 0)
		r = approval_row_get(l, id, &row, err);
	if (r < 0)
		return r;
	owner_self(row.owner);
	r = approval_row_update(l, &row, err);
	return r < 0 ? r : approval_row_event(l, &row, "approval.taken_over", "brig", NULL, err);
}

static int too_many(unsigned n, struct err *err)
{
	(void)err_set(err, ERR_LIMIT, EBUSY, "%u questions wait for an answer already", n);
	return err_remedy(err, -EBUSY, "have some answered: \"brig approvals ls\"");
}

/* A session has the policy's number; all of them together, whatever they call themselves, ours. */
static int check_pending(struct ledger *l, const struct confirm_question *q,
                         const struct moment *now, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = approvals_prepare(
		l,
		"SELECT count(*), total(session = ?2 AND asker = ?3) FROM approval "
		"WHERE state = ?1 AND expires_us > ?4",
		&s, err);

	if (r < 0)
		return r;
	(void)sqlite3_bind_int(s, 1, APPROVAL_WAITING);
	(void)sqlite3_bind_text(s, 2, q->session ? q->session : "", -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 3, q->asker, -1, SQLITE_STATIC);
	(void)sqlite3_bind_int64(s, 4, (int64_t)now->real_us);
	r = approvals_step(l, s, err);
	if (r < 0)
		return r;
	if (sqlite3_column_int64(s, 0) >= APPROVALS_WAITING_MAX)
		return too_many(APPROVALS_WAITING_MAX, err);
	if (sqlite3_column_int64(s, 1) >= (int64_t)q->decision->pending_max)
		return too_many(q->decision->pending_max, err);
	return 0;
}

static int insert(struct ledger *l, const struct confirm_question *q,
                  const struct approval_row *row, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	const struct approval *a = &row->a;
	int r = approvals_prepare(
		l,
		"INSERT INTO approval VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
		"?12, ?13, ?14, ?15, 0, 0, 0, 0, '', '', ?16, ?17, ?18)",
		&s, err);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, a->id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 2, a->job, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 3, a->session, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 4, a->asker, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 5, row->owner, -1, SQLITE_STATIC);
	(void)sqlite3_bind_text(s, 6, row->boot_id, -1, SQLITE_STATIC);
	(void)sqlite3_bind_blob(s, 7, a->digest, SHA256_SIZE, SQLITE_STATIC);
	(void)sqlite3_bind_blob(s, 8, a->rest, SHA256_SIZE, SQLITE_STATIC);
	(void)sqlite3_bind_int(s, 9, a->state);
	(void)sqlite3_bind_int64(s, 10, (int64_t)a->created_us);
	(void)sqlite3_bind_int64(s, 11, (int64_t)a->expires_us);
	(void)sqlite3_bind_int64(s, 12, (int64_t)row->expires_boot_ms);
	(void)sqlite3_bind_int(s, 13, a->remember);
	(void)sqlite3_bind_int64(s, 14, (int64_t)a->remember_ms);
	(void)sqlite3_bind_int(s, 15, a->self);
	(void)sqlite3_bind_int(s, 16, q->language);
	(void)sqlite3_bind_text(s, 17, q->summary.p, (int)q->summary.n, SQLITE_STATIC);
	(void)sqlite3_bind_blob(s, 18, q->code.p, (int)q->code.n, SQLITE_STATIC);
	return approvals_step(l, s, err);
}

static int make_row(const struct confirm_question *q, const struct moment *now,
                    struct approval_row *row, struct err *err)
{
	const struct decision *d = q->decision;
	struct approval *a = &row->a;
	int r;

	*row = (struct approval_row){ .expires_boot_ms = now->boot_ms + d->expires_ms,
		                      .a = { .state = APPROVAL_WAITING,
		                             .created_us = now->real_us,
		                             .expires_us = now->real_us + d->expires_ms * 1000,
		                             .remember = d->remember,
		                             .remember_ms = d->remember_ms,
		                             .self = d->self_approve } };
	r = execution_id_new(a->id);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "no random numbers");
	(void)snprintf(a->job, sizeof(a->job), "%s", q->job);
	(void)snprintf(a->session, sizeof(a->session), "%s", q->session ? q->session : "");
	(void)snprintf(a->asker, sizeof(a->asker), "%s", q->asker);
	(void)snprintf(row->boot_id, sizeof(row->boot_id), "%s", now->boot_id);
	memcpy(a->digest, q->digest, SHA256_SIZE);
	memcpy(a->rest, q->rest, SHA256_SIZE);
	owner_self(row->owner);
	return 0;
}

int confirm_ask(struct ledger *l, const struct confirm_question *q, struct approval *ret,
                struct err *err)
{
	struct approval_row row;
	struct moment now;
	int r = approvals_ready(l, err);

	moment_now(&now);
	if (r >= 0)
		r = ledger_begin(l, err);
	if (r >= 0)
		r = take_over(l, q, &now, &row, err);
	if (r == 0) {
		r = check_pending(l, q, &now, err);
		if (r >= 0)
			r = make_row(q, &now, &row, err);
		if (r >= 0)
			r = insert(l, q, &row, err);
		if (r >= 0)
			r = approval_row_event(l, &row, "approval.requested", q->asker,
			                       q->decision->reason, err);
	}
	if (r < 0)
		return r;
	*ret = row.a;
	return 0;
}
