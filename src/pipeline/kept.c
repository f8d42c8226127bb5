/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/kept.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "ledger/stmt.h"
#include "pipeline/impl.h"

#define ORPHANS_MAX 10000
#define COLUMNS     "id, caller, key, language, session, state, time_us, approval, digest, body, result"

static const char *const tables_sql[] = {
	"CREATE TABLE IF NOT EXISTS kept("
	"id TEXT PRIMARY KEY, caller TEXT NOT NULL, key TEXT NOT NULL, digest BLOB, "
	"language TEXT NOT NULL, session TEXT NOT NULL, state TEXT NOT NULL, "
	"time_us INTEGER NOT NULL, owner TEXT NOT NULL, approval TEXT NOT NULL, body BLOB, "
	"result BLOB)",
	"CREATE UNIQUE INDEX IF NOT EXISTS kept_key ON kept(caller, key) WHERE key <> ''",
	"CREATE INDEX IF NOT EXISTS kept_time ON kept(time_us)",
	"CREATE INDEX IF NOT EXISTS kept_open ON kept(state) WHERE state = ''",
};

static uint64_t now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int fail(struct pipeline *pl, struct err *err)
{
	return ledger_db_error(pl->ledger, err, "kept results");
}

static int prepare(struct pipeline *pl, const char *sql, sqlite3_stmt **ret, struct err *err)
{
	if (*ret || sqlite3_prepare_v2(ledger_db(pl->ledger), sql, -1, ret, NULL) == SQLITE_OK)
		return 0;
	return fail(pl, err);
}

static void bind_text(sqlite3_stmt *s, int i, const char *text)
{
	(void)sqlite3_bind_text(s, i, text ? text : "", -1, SQLITE_STATIC);
}

/* For statements that are kept: the texts bound are the caller's, and must not stay. */
static int step_once(struct pipeline *pl, sqlite3_stmt *s, struct err *err)
{
	int rc = sqlite3_step(s), r = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : fail(pl, err);

	(void)sqlite3_reset(s);
	(void)sqlite3_clear_bindings(s);
	return r;
}

int kept_table(struct pipeline *pl, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(tables_sql) && r >= 0; i++) {
		CLEANUP_STMT sqlite3_stmt *s = NULL;

		r = prepare(pl, tables_sql[i], &s, err);
		if (r >= 0)
			r = step_once(pl, s, err);
	}
	return r;
}

void kept_done(struct pipeline *pl)
{
	(void)sqlite3_finalize(pl->kept_find);
	(void)sqlite3_finalize(pl->kept_insert);
	(void)sqlite3_finalize(pl->kept_update);
}

static int find_key(struct pipeline *pl, const char *caller, const char *key,
                    const uint8_t digest[SHA256_SIZE], char ret_id[EXECUTION_ID_SIZE],
                    struct err *err)
{
	sqlite3_stmt *s;
	int rc, r = prepare(
			pl,
			"SELECT id, digest FROM kept WHERE caller = ?1 AND key = ?2 AND key <> ''",
			&pl->kept_find, err);

	if (r < 0)
		return r;
	s = pl->kept_find;
	bind_text(s, 1, caller);
	bind_text(s, 2, key);
	rc = sqlite3_step(s);
	if (rc == SQLITE_ROW) {
		bool same = sqlite3_column_bytes(s, 1) == SHA256_SIZE &&
		            memcmp(sqlite3_column_blob(s, 1), digest, SHA256_SIZE) == 0;

		(void)snprintf(ret_id, EXECUTION_ID_SIZE, "%s",
		               (const char *)sqlite3_column_text(s, 0));
		r = same ? 1 : -EEXIST;
	} else if (rc != SQLITE_DONE) {
		r = fail(pl, err);
	}
	(void)sqlite3_reset(s);
	(void)sqlite3_clear_bindings(s);
	return r;
}

static int conflict(const char *id, struct err *err)
{
	(void)err_set(err, ERR_CONFLICT, 0,
	              "the idempotency key stands for execution %s of another request", id);
	return err_remedy(err, -EEXIST, "use a new key for a new request");
}

int kept_find_key(struct pipeline *pl, const char *caller, const char *key,
                  const uint8_t digest[SHA256_SIZE], char ret_id[EXECUTION_ID_SIZE],
                  struct err *err)
{
	char id[EXECUTION_ID_SIZE] = "";
	int r = find_key(pl, caller, key, digest, id, err);

	if (r == -EEXIST)
		return conflict(id, err);
	if (r > 0)
		memcpy(ret_id, id, sizeof(id));
	return r;
}

/* With the write lock: between this and the row nobody else can take the key. */
int kept_check_key(struct pipeline *pl, const struct job *job, struct err *err)
{
	const char *key = job->request.idempotency_key;
	uint8_t digest[SHA256_SIZE];
	char id[EXECUTION_ID_SIZE] = "";
	int r;

	if (!key || !pl->ledger)
		return 0;
	r = ledger_begin(pl->ledger, err);
	if (r < 0)
		return r;
	request_digest_key(&job->request, digest);
	r = find_key(pl, job_caller(pl, job), key, digest, id, err);
	if (r == -EEXIST)
		return conflict(id, err);
	if (r <= 0)
		return r;
	(void)err_set(err, ERR_CONFLICT, 0, "execution %s was made with this key", id);
	return err_remedy(err, -EEXIST, "its result is what this would have given");
}

int kept_add(struct pipeline *pl, struct job *job, struct err *err)
{
	const struct request *req = &job->request;
	uint8_t digest[SHA256_SIZE];
	sqlite3_stmt *s;
	int r;

	if (!job_is_kept(job) || job->code.len) /* edited code: the row is there */
		return 0;
	r = prepare(pl,
	            "INSERT INTO kept(id, caller, key, digest, language, session, state, time_us, "
	            "owner, approval) VALUES(?1, ?2, ?3, ?4, ?5, ?6, '', ?7, ?8, '')",
	            &pl->kept_insert, err);
	if (r < 0)
		return r;
	s = pl->kept_insert;
	bind_text(s, 1, job->id);
	bind_text(s, 2, job_caller(pl, job));
	bind_text(s, 3, req->idempotency_key);
	request_digest_key(req, digest);
	(void)sqlite3_bind_blob(s, 4, digest, sizeof(digest), SQLITE_STATIC);
	bind_text(s, 5, language_name(req->language));
	bind_text(s, 6, req->session_id);
	(void)sqlite3_bind_int64(s, 7,
	                         (sqlite3_int64)(job->created_us ? job->created_us : now_us()));
	bind_text(s, 8, pl->owner);
	return step_once(pl, s, err);
}

int kept_wait(struct pipeline *pl, struct job *job, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r;

	if (!job_is_kept(job) || !job->body.p)
		return 0;
	r = prepare(pl, "UPDATE kept SET approval = ?2, body = ?3, owner = ?4 WHERE id = ?1", &s,
	            err);
	if (r < 0)
		return r;
	bind_text(s, 1, job->id);
	bind_text(s, 2, job->approval.id);
	(void)sqlite3_bind_blob(s, 3, job->body.p, (int)job->body.n, SQLITE_STATIC);
	bind_text(s, 4, pl->owner);
	return step_once(pl, s, err);
}

/* One that is too large goes without its output, and says so. */
static int write_small(const struct job *job, struct buf *out)
{
	struct result small = job->result;

	small.out_dropped += small.out.len;
	small.err_dropped += small.errout.len;
	small.out = small.errout = small.outputs = BUF_INIT(0);
	small.value = NULL;
	return result_to_json(&small, out);
}

/* The executor's side may have written it already, and larger than is kept. */
static int write_result(struct job *job, enum job_state state, struct buf *small)
{
	if (state == JOB_FINISHED && job->json.len)
		return job->json.len > KEPT_RESULT_MAX ? write_small(job, small) : 0;
	buf_done(&job->json);
	job->json = BUF_INIT(KEPT_RESULT_MAX);
	if (result_to_json(&job->result, &job->json) >= 0)
		return 0;
	buf_done(&job->json); /* whoever wants all of it writes it anew */
	return write_small(job, small);
}

const struct buf *kept_text(struct job *job, enum job_state state, struct buf *small)
{
	if (!job_is_kept(job))
		return NULL;
	if (state != JOB_FINISHED)
		job->result.state = job_unrun_state(state);
	if (!job->written && write_result(job, state, small) < 0)
		return NULL;
	return small->len ? small : &job->json;
}

int kept_end(struct pipeline *pl, struct job *job, enum job_state state, struct err *err)
{
	CLEANUP_BUF struct buf small = BUF_INIT(KEPT_REST_MAX);
	const struct buf *kept = kept_text(job, state, &small);
	sqlite3_stmt *s;
	int r;

	if (!job_is_kept(job))
		return 0;
	if (!kept)
		return err_set(err, ERR_INTERNAL, ENOMEM, "the result");
	r = prepare(pl,
	            "UPDATE kept SET state = ?2, result = ?3, body = NULL, approval = '' "
	            "WHERE id = ?1",
	            &pl->kept_update, err);
	if (r < 0)
		return r;
	s = pl->kept_update;
	bind_text(s, 1, job->id);
	bind_text(s, 2, run_state_name(job->result.state));
	(void)sqlite3_bind_blob(s, 3, kept->data, (int)kept->len, SQLITE_STATIC);
	return step_once(pl, s, err);
}

int kept_end_orphan(struct pipeline *pl, const char *id, const char *state, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = prepare(pl,
	                "UPDATE kept SET state = ?2, body = NULL, approval = '' "
	                "WHERE id = ?1 AND state = ''",
	                &s, err);

	if (r < 0)
		return r;
	bind_text(s, 1, id);
	bind_text(s, 2, state);
	return step_once(pl, s, err);
}

static const char *text_at(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text : "";
}

static struct str bytes_at(sqlite3_stmt *s, int column)
{
	const char *p = sqlite3_column_blob(s, column);

	return (struct str){ p, (size_t)sqlite3_column_bytes(s, column) };
}

static void read_kept(sqlite3_stmt *s, struct kept *ret)
{
	*ret = (struct kept){ .id = text_at(s, 0),
		              .caller = text_at(s, 1),
		              .key = text_at(s, 2),
		              .language = text_at(s, 3),
		              .session = text_at(s, 4),
		              .state = text_at(s, 5),
		              .time_us = (uint64_t)sqlite3_column_int64(s, 6),
		              .approval = text_at(s, 7) };
	if (sqlite3_column_bytes(s, 8) == SHA256_SIZE)
		ret->digest = sqlite3_column_blob(s, 8);
	ret->body = bytes_at(s, 9);
	ret->result = bytes_at(s, 10);
}

/* How many were shown. */
static int each(struct pipeline *pl, sqlite3_stmt *s, kept_fn *fn, void *data, struct err *err)
{
	int rc, n = 0;

	while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
		struct kept k;

		read_kept(s, &k);
		n++;
		if (fn(data, &k))
			return n;
	}
	return rc == SQLITE_DONE ? n : fail(pl, err);
}

int kept_get(struct pipeline *pl, const char *id, kept_fn *fn, void *data, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = prepare(pl, "SELECT " COLUMNS " FROM kept WHERE id = ?1 AND language <> ''", &s,
	                err);

	if (r < 0)
		return r;
	bind_text(s, 1, id);
	return each(pl, s, fn, data, err);
}

int kept_each(struct pipeline *pl, uint64_t before_us, unsigned limit, kept_fn *fn, void *data,
              struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = prepare(
		pl,
		"SELECT id, caller, key, language, session, state, time_us, approval, NULL, "
		"NULL, NULL FROM kept WHERE time_us < ?1 AND language <> '' "
		"ORDER BY time_us DESC LIMIT ?2",
		&s, err);

	if (r < 0)
		return r;
	(void)sqlite3_bind_int64(s, 1, before_us ? (sqlite3_int64)before_us : INT64_MAX);
	(void)sqlite3_bind_int64(s, 2, (sqlite3_int64)MIN2(limit, (unsigned)KEPT_LIST_MAX));
	return each(pl, s, fn, data, err);
}

int kept_each_waiting(struct pipeline *pl, kept_fn *fn, void *data, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = prepare(pl,
	                "SELECT " COLUMNS ", owner FROM kept WHERE state = '' AND approval <> '' "
	                "AND body IS NOT NULL ORDER BY time_us",
	                &s, err);
	int rc = SQLITE_DONE;

	if (r < 0)
		return r;
	while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
		struct kept k;

		if (!owner_is_gone(text_at(s, 11)))
			continue;
		read_kept(s, &k);
		if (fn(data, &k))
			return 0;
	}
	return rc == SQLITE_DONE ? 0 : fail(pl, err);
}

bool kept_can_resume(struct pipeline *pl, const char *id)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;

	if (prepare(pl, "SELECT 1 FROM kept WHERE id = ?1 AND state = '' AND body IS NOT NULL", &s,
	            NULL) < 0)
		return false;
	bind_text(s, 1, id);
	return sqlite3_step(s) == SQLITE_ROW;
}

/* Neither over nor under way: the process died between the two. */
static int next_lost(struct pipeline *pl, char id[EXECUTION_ID_SIZE], struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int rc, r = prepare(pl,
	                    "SELECT id, owner FROM kept WHERE state = '' AND id > ?1 AND id NOT IN "
	                    "(SELECT id FROM open_job) ORDER BY id",
	                    &s, err);

	if (r < 0)
		return r;
	(void)sqlite3_bind_text(s, 1, id, -1, SQLITE_TRANSIENT);
	while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
		if (!owner_is_gone(text_at(s, 1)))
			continue;
		(void)snprintf(id, EXECUTION_ID_SIZE, "%s", text_at(s, 0));
		return 1;
	}
	return rc == SQLITE_DONE ? 0 : fail(pl, err);
}

int kept_recover(struct pipeline *pl, struct err *err)
{
	char id[EXECUTION_ID_SIZE] = "";
	int r = 0;

	for (int i = 0; i < ORPHANS_MAX; i++) {
		r = next_lost(pl, id, err);
		if (r <= 0)
			break;
		r = ledger_begin(pl->ledger, err);
		if (r >= 0)
			r = kept_end_orphan(pl, id, "lost", err);
		if (r < 0)
			break;
	}
	if (r >= 0)
		return ledger_commit(pl->ledger, LEDGER_PROCESS, err);
	ledger_abort(pl->ledger);
	return r;
}

static int insert_claim(struct pipeline *pl, const char *caller, const char *key,
                        const uint8_t digest[SHA256_SIZE], struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	char id[EXECUTION_ID_SIZE];
	int r = execution_id_new(id);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "random numbers");
	r = prepare(pl,
	            "INSERT INTO kept(id, caller, key, digest, language, session, state, time_us, "
	            "owner, approval) VALUES(?1, ?2, ?3, ?4, '', '', 'claimed', ?5, '', '')",
	            &s, err);
	if (r < 0)
		return r;
	bind_text(s, 1, id);
	bind_text(s, 2, caller);
	bind_text(s, 3, key);
	(void)sqlite3_bind_blob(s, 4, digest, SHA256_SIZE, SQLITE_STATIC);
	(void)sqlite3_bind_int64(s, 5, (sqlite3_int64)now_us());
	return step_once(pl, s, err);
}

int kept_claim(struct pipeline *pl, const char *caller, const char *key,
               const uint8_t digest[SHA256_SIZE], struct err *err)
{
	char id[EXECUTION_ID_SIZE] = "";
	int r = find_key(pl, caller, key, digest, id, err);

	if (r == 0) {
		r = insert_claim(pl, caller, key, digest, err);
		return r < 0 ? r : 1;
	}
	return r == -EEXIST ? conflict(id, err) : r > 0 ? 0 : r;
}

int kept_prune(struct pipeline *pl, uint64_t before_us, struct err *err)
{
	CLEANUP_STMT sqlite3_stmt *s = NULL;
	int r = ledger_begin(pl->ledger, err);

	if (r < 0)
		return r;
	r = prepare(pl, "DELETE FROM kept WHERE time_us < ?1 AND state <> ''", &s, err);
	if (r >= 0) {
		(void)sqlite3_bind_int64(s, 1, (sqlite3_int64)before_us);
		r = step_once(pl, s, err);
	}
	if (r >= 0)
		r = ledger_commit(pl->ledger, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(pl->ledger);
	return r;
}
