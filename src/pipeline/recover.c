/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Jobs that are under way have a row in `open_job`, with the process that owns them. Whoever opens
 * the pipeline ends those whose owner is gone: running ones are lost (the box died with its
 * launcher, but how far the code came is not known); questions stay until they expire, since
 * somebody may still answer them and the asker may come back. Nothing is ever run again.
 */

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "ledger/stmt.h"
#include "pipeline/impl.h"

#define RECOVER_MAX 10000 /* rows looked at in one go */

static const char table_sql[] = "CREATE TABLE IF NOT EXISTS open_job("
				"id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL, "
				"state TEXT NOT NULL, approval TEXT NOT NULL) WITHOUT ROWID";

static int bind_and_step(struct pipeline *pl, const char *sql, const char *const *texts, size_t n,
                         struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(ledger_db(pl->ledger), sql, -1, &s, NULL) != SQLITE_OK)
		return ledger_db_error(pl->ledger, err, "open jobs");
	for (size_t i = 0; i < n; i++)
		(void)sqlite3_bind_text(s, (int)i + 1, texts[i], -1, SQLITE_STATIC);
	return sqlite3_step(s) == SQLITE_DONE ? 0 : ledger_db_error(pl->ledger, err, "open jobs");
}

/* The same with a statement that is kept: these two are on every job's way. */
static int step_kept(struct pipeline *pl, sqlite3_stmt **s, const char *sql,
                     const char *const *texts, size_t n, struct err *err)
{
	int r = ledger_begin(pl->ledger, err);

	if (r < 0)
		return r;
	if (!*s && sqlite3_prepare_v3(ledger_db(pl->ledger), sql, -1, SQLITE_PREPARE_PERSISTENT, s,
	                              NULL) != SQLITE_OK)
		return ledger_db_error(pl->ledger, err, "open jobs");
	for (size_t i = 0; i < n; i++)
		(void)sqlite3_bind_text(*s, (int)i + 1, texts[i], -1, SQLITE_STATIC);
	r = sqlite3_step(*s) == SQLITE_DONE ? 0 : ledger_db_error(pl->ledger, err, "open jobs");
	(void)sqlite3_reset(*s);
	(void)sqlite3_clear_bindings(*s); /* the texts are the caller's */
	return r;
}

int open_job_add(struct pipeline *pl, const struct job *job, enum job_state state, struct err *err)
{
	const char *session = job->request.session_id;
	const char *const texts[] = { job->id, session ? session : "", pl->owner,
		                      job_state_name(state), job->approval.id };

	return step_kept(pl, &pl->add_open,
	                 "INSERT OR REPLACE INTO open_job(id, session, owner, state, approval) "
	                 "VALUES(?1, ?2, ?3, ?4, ?5)",
	                 texts, ELEMENTSOF(texts), err);
}

int open_job_remove(struct pipeline *pl, const struct job *job, struct err *err)
{
	const char *id = job->id;

	return step_kept(pl, &pl->remove_open, "DELETE FROM open_job WHERE id = ?1", &id, 1, err);
}

void pipeline_recover_done(struct pipeline *pl)
{
	(void)sqlite3_finalize(pl->add_open);
	(void)sqlite3_finalize(pl->remove_open);
}

struct orphan {
	char id[EXECUTION_ID_SIZE], session[REQUEST_NAME_MAX + 1], state[16];
	char approval[EXECUTION_ID_SIZE];
};

static void copy(sqlite3_stmt *s, int column, char *ret, size_t n)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	(void)snprintf(ret, n, "%s", text ? text : "");
}

/* What becomes of it; NULL: nothing yet. */
static const char *end_of(struct pipeline *pl, const struct orphan *o)
{
	struct approval a;

	if (!streq(o->state, "waiting"))
		return "lost";
	if (confirm_look(pl->ledger, o->approval, &a, NULL) < 0)
		return "lost";
	if (a.state == APPROVAL_WAITING && streq(a.job, o->id))
		return NULL;
	if (a.state == APPROVAL_ALLOWED && kept_can_resume(pl, o->id))
		return NULL;
	/* A "yes" is for whoever asks the same again; that is another job. */
	return a.state == APPROVAL_DENIED    ? "denied"
	       : a.state == APPROVAL_EXPIRED ? "expired"
	                                     : "lost";
}

static int end_orphan(struct pipeline *pl, const struct orphan *o, struct err *err)
{
	const char *end = end_of(pl, o), *id = o->id;
	char detail[128];
	int r;

	if (!end)
		return 0;
	(void)snprintf(detail, sizeof(detail), "{\"was\":\"%s\",\"cause\":\"its process died\"}",
	               o->state);
	r = ledger_append(pl->ledger,
	                  &(struct ledger_event){ .job = o->id,
	                                          .session = *o->session ? o->session : NULL,
	                                          .kind = "state",
	                                          .name = end,
	                                          .actor = "recovery",
	                                          .detail = str_of(detail) },
	                  err);
	if (r >= 0)
		r = kept_end_orphan(pl, o->id, end, err);
	return r < 0 ? r : bind_and_step(pl, "DELETE FROM open_job WHERE id = ?1", &id, 1, err);
}

/* One that comes after `last`, without an owner. 1: *ret is it. */
static int next_orphan(struct pipeline *pl, struct orphan *ret, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	char owner[OWNER_SIZE];
	int r;

	if (sqlite3_prepare_v2(ledger_db(pl->ledger),
	                       "SELECT id, session, owner, state, approval FROM open_job "
	                       "WHERE id > ?1 ORDER BY id",
	                       -1, &s, NULL) != SQLITE_OK)
		return ledger_db_error(pl->ledger, err, "open jobs");
	(void)sqlite3_bind_text(s, 1, ret->id, -1, SQLITE_TRANSIENT);
	while ((r = sqlite3_step(s)) == SQLITE_ROW) {
		copy(s, 2, owner, sizeof(owner));
		if (!owner_is_gone(owner))
			continue;
		copy(s, 0, ret->id, sizeof(ret->id));
		copy(s, 1, ret->session, sizeof(ret->session));
		copy(s, 3, ret->state, sizeof(ret->state));
		copy(s, 4, ret->approval, sizeof(ret->approval));
		return 1;
	}
	return r == SQLITE_DONE ? 0 : ledger_db_error(pl->ledger, err, "open jobs");
}

static bool has_table(struct pipeline *pl)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;

	return sqlite3_prepare_v2(ledger_db(pl->ledger), "SELECT 1 FROM open_job, kept LIMIT 1", -1,
	                          &s, NULL) == SQLITE_OK;
}

static int make_table(struct pipeline *pl, struct err *err)
{
	int r = ledger_begin(pl->ledger, err);

	if (r >= 0)
		r = bind_and_step(pl, table_sql, NULL, 0, err);
	if (r >= 0)
		r = kept_table(pl, err);
	return r < 0 ? r : ledger_commit(pl->ledger, LEDGER_PROCESS, err);
}

int pipeline_recover(struct pipeline *pl, struct err *err)
{
	struct orphan o = { 0 };
	int r = has_table(pl) ? 0 : make_table(pl, err);

	/* First without the write lock: there is seldom anything to do. */
	if (r >= 0)
		r = next_orphan(pl, &o, err);
	if (r == 0)
		return kept_recover(pl, err);
	if (r < 0)
		return r;
	o = (struct orphan){ 0 };
	r = ledger_begin(pl->ledger, err);
	for (int i = 0; r >= 0 && i < RECOVER_MAX; i++) {
		r = next_orphan(pl, &o, err);
		if (r <= 0)
			break;
		r = end_orphan(pl, &o, err);
	}
	if (r >= 0)
		r = ledger_commit(pl->ledger, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(pl->ledger);
	return r < 0 ? r : kept_recover(pl, err);
}

/* The process that had it is gone: from now on it is ours. */
static int take_over(struct pipeline *pl, struct job *job, struct err *err)
{
	int r = ledger_begin(pl->ledger, err);

	if (r >= 0)
		r = open_job_add(pl, job, JOB_WAITING, err);
	if (r >= 0)
		r = kept_wait(pl, job, err);
	if (r >= 0)
		r = confirm_adopt(pl->ledger, job->approval.id, err);
	if (r >= 0)
		r = ledger_commit(pl->ledger, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(pl->ledger);
	return r;
}

int pipeline_resume(struct pipeline *pl, struct job *job, const char *id, const char *approval,
                    struct err *err)
{
	int r;

	(void)snprintf(job->id, sizeof(job->id), "%s", id);
	memcpy(job->result.execution_id, job->id, sizeof(job->id));
	pipeline_preview(pl, job);
	r = confirm_look(pl->ledger, approval, &job->approval, err);
	if (r < 0)
		return r;
	request_digest(&job->effective, job->digest, job->rest);
	/* Another policy, other bounds: what was asked is not what would run. */
	if (memcmp(job->rest, job->approval.rest, sizeof(job->rest)) != 0)
		return err_set(err, ERR_CONFLICT, ESTALE,
		               "the policy has changed since the question was asked");
	r = pipeline_need_bell(pl, err);
	if (r >= 0)
		r = take_over(pl, job, err);
	if (r < 0)
		return r;
	job->state = job->recorded = JOB_WAITING;
	job_list_add(&pl->held, job);
	pl->looked_ms = 0;
	return 0;
}

int pipeline_abandon(struct pipeline *pl, const char *id, const char *approval, const char *why,
                     struct err *err)
{
	CLEANUP_BUF struct buf detail = BUF_INIT(2 * KIB);
	int r = confirm_withdraw(pl->ledger, approval, "recovery", err);

	buf_puts(&detail, "{\"was\":\"waiting\",\"cause\":");
	json_put_cstr(&detail, why);
	buf_putc(&detail, '}');
	if (r >= 0)
		r = ledger_append(pl->ledger,
		                  &(struct ledger_event){ .job = id,
		                                          .kind = "state",
		                                          .name = "lost",
		                                          .actor = "recovery",
		                                          .detail = { detail.data, detail.len } },
		                  err);
	if (r >= 0)
		r = kept_end_orphan(pl, id, "lost", err);
	if (r >= 0)
		r = bind_and_step(pl, "DELETE FROM open_job WHERE id = ?1", &id, 1, err);
	if (r >= 0)
		r = ledger_commit(pl->ledger, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(pl->ledger);
	return r;
}
