/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Executions as the API sees them: under way, and over but not yet forgotten. What is older or was
 * before a restart is in pipeline/kept.h. A client that leaves does not end its execution.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/impl.h"
#include "base/clock.h"
#include "pipeline/kept.h"

/* FNV-1a: ids are random, and ours. */
static unsigned hash_of(const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return h % HASH_SIZE;
}

struct execution *ex_find(struct api *api, const char *id)
{
	struct execution *ex = api->ex.hash[hash_of(id)];

	while (ex && !streq(ex->id, id))
		ex = ex->next_hash;
	return ex;
}

struct execution *ex_visible(struct call *c, const char *id)
{
	struct execution *ex = ex_find(c->api, id);

	return ex && (call_may(c, SCOPE_READ) || streq(ex->caller, c->who.actor)) ? ex : NULL;
}

static uint64_t real_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* ---- making ---- */

static void on_output(void *data, bool is_stderr, const char *bytes, size_t n)
{
	struct execution *ex = data;
	struct buf *b = &ex->out[is_stderr];

	if (ex->total[is_stderr] == b->len)
		buf_put(b, bytes, MIN2(n, b->max - b->len));
	ex->total[is_stderr] += n;
}

static void on_done(void *data, struct job *job);

struct execution *ex_new(struct api *api, const char *caller, const char *quota_key)
{
	struct execution *ex = calloc(1, sizeof(*ex));

	if (!ex)
		return NULL;
	ex->job = malloc(sizeof(*ex->job));
	if (!ex->job) {
		free(ex);
		return NULL;
	}
	job_init(ex->job);
	ex->arena = ARENA_INIT(REQUEST_ARENA_MAX);
	(void)snprintf(ex->caller, sizeof(ex->caller), "%s", caller);
	(void)snprintf(ex->quota_key, sizeof(ex->quota_key), "%s", quota_key);
	ex->job->caller = ex->caller;
	ex->job->done = on_done;
	ex->job->data = ex;
	ex->job->listen = on_output;
	ex->job->listen_data = ex;
	ex->body = BUF_INIT(REQUEST_JSON_MAX);
	ex->job->io.cancel_fd = -1;
	ex->tail[0] = ex->tail[1] = BUF_INIT(0);
	ex->api = api;
	return ex;
}

void ex_discard(struct execution *ex)
{
	if (!ex)
		return;
	job_free_fields(ex->job);
	free(ex->job);
	buf_done(&ex->body);
	arena_done(&ex->arena);
	free(ex);
}

/*
 * Where it is linked, not where it was read, and no two alike: the list is by time, and whoever
 * reads it goes on at one. One that is resumed has its old time; those come in order.
 */
static void set_time(struct api *api, struct execution *ex)
{
	ex->created_us = MAX2(ex->created_us ? ex->created_us : real_us(), api->ex.last_us + 1);
	api->ex.last_us = ex->job->created_us = ex->created_us;
}

static void link_new(struct api *api, struct execution *ex)
{
	unsigned h = hash_of(ex->id);

	set_time(api, ex);
	ex->next_hash = api->ex.hash[h];
	api->ex.hash[h] = ex;
	ex->older = api->ex.newest;
	if (ex->older)
		ex->older->newer = ex;
	else
		api->ex.oldest = ex;
	api->ex.newest = ex;
}

static void unlink_one(struct api *api, struct execution *ex)
{
	struct execution **at = &api->ex.hash[hash_of(ex->id)];

	while (*at && *at != ex)
		at = &(*at)->next_hash;
	if (*at)
		*at = ex->next_hash;
	*(ex->newer ? &ex->newer->older : &api->ex.newest) = ex->older;
	*(ex->older ? &ex->older->newer : &api->ex.oldest) = ex->newer;
}

static void set_request(struct execution *ex)
{
	const struct request *req = &ex->job->request;

	ex->language = req->language;
	(void)snprintf(ex->session, sizeof(ex->session), "%s",
	               req->session_id ? req->session_id : "");
	ex->out[0] = ex->out[1] = BUF_INIT(req->limits.output_bytes);
	ex->job->body = (struct str){ ex->body.data, ex->body.len };
}

/* Its place among the others. */
static void prepare(struct api *api, struct execution *ex)
{
	memcpy(ex->id, ex->job->id, sizeof(ex->id));
	link_new(api, ex);
	api->ex.n_live++;
}

int ex_submit(struct api *api, struct execution *ex)
{
	int r = execution_id_new(ex->job->id);

	if (r < 0)
		return r;
	set_request(ex);
	prepare(api, ex);
	api->moved = true;
	pipeline_submit(api->pl, ex->job);
	return 0;
}

/* ---- the end ---- */

static size_t bytes_of(const struct execution *ex)
{
	size_t n = sizeof(*ex) + ex->cap_events * sizeof(*ex->events);

	if (ex->result)
		n += ex->result->text.cap;
	n += files_bytes(ex);
	for (int i = 0; i < 2; i++)
		n += ex->out[i].cap + ex->tail[i].cap;
	return n;
}

static void ex_free(struct api *api, struct execution *ex)
{
	if (ex->job) {
		job_free_fields(ex->job);
		free(ex->job);
	} else {
		api->ex.n_over--;
		api->ex.bytes -= ex->counted;
	}
	unlink_one(api, ex);
	ex_end_watchers(ex);
	for (int i = 0; i < 2; i++) {
		trash_buf(api, &ex->out[i]);
		trash_buf(api, &ex->tail[i]);
	}
	shared_unref(ex->result);
	files_free(ex);
	buf_done(&ex->body);
	arena_done(&ex->arena);
	free(ex->events);
	free(ex);
}

void ex_free_all(struct api *api)
{
	while (api->ex.newest)
		ex_free(api, api->ex.newest);
}

/* The oldest that are over, when there are too many; not those that somebody is reading. */
void ex_drop_old(struct api *api)
{
	struct execution *next;

	for (struct execution *ex = api->ex.oldest; ex; ex = next) {
		next = ex->newer;
		if (api->ex.n_over <= api->config.keep_results &&
		    api->ex.bytes <= api->config.keep_bytes)
			return;
		if (!ex->job && !ex->watchers && !ex->waiters)
			ex_free(api, ex);
	}
}

/*
 * The streams as they are kept: all of it, or the beginning that was heard live and the last bytes
 * that the result has.
 */
static void keep_output(struct execution *ex, int i, struct buf *kept, uint64_t dropped)
{
	struct buf *to = dropped ? &ex->tail[i] : &ex->out[i];

	ex->total[i] = kept->len + dropped;
	ex->tail_from[i] = dropped ? kept->len / 2 : 0;
	trash_buf(ex->api, to);
	*to = *kept;
	*kept = BUF_INIT(0);
}

static void tell_waiters(struct execution *ex)
{
	struct call *c;

	while ((c = ex->waiters))
		answer_result(c, ex); /* unlinks it */
}

static bool is_recorded(const struct job *job)
{
	return !str_has_prefix(job->result.error.msg, "record: ");
}

/* Once, not for each: a full disk is full for all. */
static void note_record(struct api *api, const struct job *job)
{
	bool fails = !is_recorded(job);

	if (fails == api->record_fails || !api->config.observer.log)
		return;
	api->record_fails = fails;
	api->config.observer.log(api->config.observer.data,
	                         fails ? job->result.error.msg
	                               : "record: executions are recorded again");
}

static void on_done(void *data, struct job *job)
{
	struct execution *ex = data;
	struct api *api = ex->api;

	ex->result = result_shared(api, job);
	ex->end = job->result.state;
	/* What was accepted is known, whatever became of its end. */
	ex->unrecorded = job->recorded == JOB_NONE && job->result.state == RUN_SETUP_FAILED &&
	                 !is_recorded(job);
	memcpy(ex->approval, job->result.approval_id, sizeof(ex->approval));
	metric_job(api->metrics, job);
	note_record(api, job);
	if (api->config.observer.ended)
		api->config.observer.ended(api->config.observer.data, job, ex->traceparent);
	keep_output(ex, 0, &job->result.out, job->result.out_dropped);
	keep_output(ex, 1, &job->result.errout, job->result.err_dropped);
	trash_buf(api, &job->result.outputs);
	job_free_fields(job);
	free(job);
	ex->job = NULL;
	arena_done(&ex->arena);
	buf_done(&ex->body);
	ex->done_ms = clock_ms();
	api->ex.n_live--;
	api->ex.n_over++;
	api->moved = true;
	quota_give_run(api->quotas, ex->quota_key);
	tell_waiters(ex);
	ex_note(api, ex);
	ex->counted = bytes_of(ex);
	api->ex.bytes += ex->counted;
}

/* ---- waiting ---- */

void ex_wait(struct call *c, struct execution *ex)
{
	c->waits = ex;
	c->api->n_timed += c->until_ms != 0;
	c->next_waiter = ex->waiters;
	ex->waiters = c;
}

void ex_unwait(struct call *c)
{
	struct call **at;

	if (!c->waits)
		return;
	at = &c->waits->waiters;
	while (*at && *at != c)
		at = &(*at)->next_waiter;
	if (*at)
		*at = c->next_waiter;
	c->waits = NULL;
	c->api->n_timed -= c->until_ms != 0;
}

void ex_check_waiters(struct api *api)
{
	uint64_t now = clock_ms();

	for (struct execution *ex = api->ex.newest; ex && api->n_timed; ex = ex->older) {
		struct call *next;

		for (struct call *c = ex->waiters; c; c = next) {
			next = c->next_waiter;
			if (c->until_ms && now >= c->until_ms)
				answer_status(c, ex, c->wants_result ? 200 : 202);
		}
	}
}

/* ---- what it looks like ---- */

static const char *const phase_names[EX_PHASE_COUNT] = {
	[EX_RECEIVED] = "received",
	[EX_WAITING] = "waiting",
	[EX_QUEUED] = "queued",
	[EX_RUNNING] = "running",
};

enum ex_phase ex_phase(const struct execution *ex)
{
	const struct job *job = ex->job;

	if (job->state == JOB_WAITING)
		return EX_WAITING;
	if (job->state < JOB_RUNNING)
		return EX_RECEIVED;
	if (job->state == JOB_RUNNING && job->call && pool_is_queued(job->call))
		return EX_QUEUED;
	return EX_RUNNING; /* what is final is so when its end is recorded */
}

const char *ex_state(const struct execution *ex)
{
	return ex->job ? phase_names[ex_phase(ex)] : run_state_name(ex->end);
}

static void put_nullable(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, ",\"%s\":", key);
	if (*text)
		json_put_cstr(out, text);
	else
		buf_puts(out, "null");
}

static void put_status(const struct execution *ex, const char *state, bool done, struct buf *out)
{
	const char *approval = ex->job ? ex->job->approval.id : ex->approval;

	buf_printf(out, "{\"execution_id\":\"%s\",\"state\":\"%s\",\"done\":%s,\"language\":\"%s\"",
	           ex->id, state, done ? "true" : "false", language_name(ex->language));
	put_nullable(out, "caller", ex->caller);
	buf_puts(out, ",\"created\":");
	json_put_time(out, ex->created_us);
	put_nullable(out, "approval_id", approval);
	put_nullable(out, "session_id", ex->session);
	buf_putc(out, '}');
}

void ex_status(const struct execution *ex, struct buf *out)
{
	put_status(ex, ex_state(ex), !ex->job, out);
}

void ex_status_then(const struct execution *ex, enum ex_phase phase, struct buf *out)
{
	put_status(ex, phase_names[phase], /* done= */ false, out);
}

#define LOCATION_SIZE (sizeof(API_PREFIX) + 12 + EXECUTION_ID_SIZE)

static size_t name_it(const struct call *c, const struct execution *ex,
                      char location[LOCATION_SIZE], struct http_header ret[3])
{
	(void)snprintf(location, LOCATION_SIZE, API_PREFIX "/executions/%s", ex->id);
	ret[0] = (struct http_header){ "Location", location };
	ret[1] = (struct http_header){ "Brig-Execution-Id", ex->id };
	ret[2] = (struct http_header){ "Brig-Replayed", "true" };
	return c->replayed ? 3 : 2;
}

void answer_status(struct call *c, struct execution *ex, unsigned status)
{
	struct buf b = BUF_INIT(4 * KIB);
	char location[LOCATION_SIZE];
	struct http_header h[3];
	size_t n = name_it(c, ex, location, h);

	ex_unwait(c);
	ex_status(ex, &b);
	answer_with(c, status, "application/json", h, n, &b);
}

void answer_result(struct call *c, struct execution *ex)
{
	char location[LOCATION_SIZE];
	struct http_header h[3];
	size_t n = name_it(c, ex, location, h);

	ex_unwait(c);
	if (ex->unrecorded) {
		answer_error(c, ERR_UNAVAILABLE,
		             "try again; if it lasts, see to the disk of the state directory and "
		             "who holds its ledger.db",
		             "the record cannot be written; nothing ran");
		return;
	}
	if (ex->result)
		answer_shared(c, "application/json", h, n, ex->result);
	else
		answer_error(c, ERR_INTERNAL, NULL, "out of memory");
}

struct str ex_output(const struct execution *ex, int stream, uint64_t offset, size_t max,
                     uint64_t *ret_next, uint64_t *ret_dropped)
{
	const struct buf *head = &ex->out[stream], *tail = &ex->tail[stream];
	size_t from = ex->tail_from[stream], kept = tail->len - from;
	uint64_t tail_at = ex->total[stream] - kept;
	struct str s = { NULL, 0 };

	*ret_dropped = 0;
	if (offset < head->len) {
		s = (struct str){ head->data + offset, MIN2(max, head->len - offset) };
	} else if (kept && offset < ex->total[stream]) {
		if (offset < tail_at) {
			*ret_dropped = tail_at - offset;
			offset = tail_at;
		}
		s = (struct str){ tail->data + from + (offset - tail_at),
			          MIN2(max, ex->total[stream] - offset) };
	}
	*ret_next = offset + s.n;
	return s;
}

/* ---- after a restart ---- */

struct resumed {
	struct api *api;
	struct execution *ex;
	char approval[EXECUTION_ID_SIZE];
	char (*ids)[EXECUTION_ID_SIZE];
	size_t n;
};

static int note_waiting(void *data, const struct kept *k)
{
	struct resumed *r = data;

	(void)snprintf(r->ids[r->n], EXECUTION_ID_SIZE, "%s", k->id);
	return ++r->n == APPROVALS_WAITING_MAX;
}

static int copy_kept(void *data, const struct kept *k)
{
	struct resumed *r = data;

	r->ex = ex_new(r->api, k->caller, "");
	if (!r->ex)
		return 1;
	buf_put(&r->ex->body, k->body.p, k->body.n);
	r->ex->created_us = k->time_us;
	(void)snprintf(r->ex->job->id, EXECUTION_ID_SIZE, "%s", k->id);
	(void)snprintf(r->approval, sizeof(r->approval), "%s", k->approval);
	return 1;
}

static int resume_one(struct resumed *r, const char *id, struct err *err)
{
	struct execution *ex;
	int n = kept_get(r->api->pl, id, copy_kept, r, err);

	if (n <= 0 || !r->ex)
		return n < 0 ? n : -ENOENT;
	ex = r->ex;
	prepare(r->api, ex);
	if (buf_finish(&ex->body) < 0)
		return -ENOMEM;
	n = request_from_json(ex->body.data, ex->body.len, &ex->arena, &ex->job->request, err);
	if (n < 0)
		return n;
	ex->job->keep = true;
	set_request(ex);
	return pipeline_resume(r->api->pl, ex->job, id, r->approval, err);
}

/* Ids first: what goes on writes to the table that is being read. */
void ex_resume_all(struct api *api)
{
	struct resumed r = { .api = api };
	struct err err = { 0 };

	r.ids = calloc(APPROVALS_WAITING_MAX, sizeof(*r.ids));
	if (!r.ids || kept_each_waiting(api->pl, note_waiting, &r, &err) < 0)
		r.n = 0;
	for (size_t i = 0; i < r.n; i++) {
		r.ex = NULL;
		if (resume_one(&r, r.ids[i], &err) >= 0 || !r.ex)
			continue;
		if (api->config.observer.log)
			api->config.observer.log(api->config.observer.data, err.msg);
		(void)pipeline_abandon(api->pl, r.ids[i], r.approval, err.msg, NULL);
		api->ex.n_live--;
		ex_free(api, r.ex);
	}
	free(r.ids);
}
