/* SPDX-License-Identifier: Apache-2.0 */

/* Executions: start, look, wait, list, cancel. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/impl.h"
#include "base/clock.h"
#include "base/parse.h"
#include "pipeline/kept.h"

#define LIST_DEFAULT 100
#define LIST_MAX     1000
#define RETRY_MS     1000
#define PARSE_BYTES  (64 * KIB)  /* of a request that is read in a moment */
#define PARSING_MAX  (256 * MIB) /* of those that threads have */

/* ---- start ---- */

/* The key may come as a header, in the body, or as both if they agree. */
static bool take_key(struct call *c, struct execution *ex)
{
	const char *header = http_header(c->http, "Idempotency-Key");
	struct request *req = &ex->job->request;

	if (!header)
		return true;
	if (http_header_count(c->http, "Idempotency-Key") != 1 || !*header ||
	    strlen(header) > REQUEST_NAME_MAX) {
		answer_error(c, ERR_INVALID, NULL, "Idempotency-Key: one, of 1 to %d characters",
		             REQUEST_NAME_MAX);
		return false;
	}
	for (const char *p = header; *p; p++) {
		if (*p > ' ' && *p < 0x7f)
			continue;
		answer_error(c, ERR_INVALID, NULL, "Idempotency-Key: only printable ASCII");
		return false;
	}
	if (req->idempotency_key && !streq(req->idempotency_key, header)) {
		answer_error(c, ERR_INVALID, NULL, "idempotency_key: is another than the header's");
		return false;
	}
	req->idempotency_key = arena_strdup(&ex->arena, header);
	if (!req->idempotency_key)
		answer_error(c, ERR_INTERNAL, NULL, "out of memory");
	return req->idempotency_key != NULL;
}

struct kept_answer {
	struct call *call;
	uint32_t scopes; /* with which others' are the caller's, too */
	struct buf out;
	bool done, own;
};

/* One that ended with its process, or without one, has no result: this is what is known of it. */
static void put_unknown(const struct kept *k, struct buf *out)
{
	static const struct {
		enum run_state state;
		enum err_code code;
		const char *cause, *remedy;
	} ends[] = {
		{ RUN_LOST, ERR_INTERNAL, "the daemon died while it ran",
		  "how far it came is not known; run it again if that is safe" },
		{ RUN_DENIED, ERR_DENIED, "denied while no daemon ran",
		  "\"brig approvals show\" and the ledger say by whom and why" },
		{ RUN_EXPIRED, ERR_EXPIRED, "nobody answered in time", "ask again" },
	};
	struct result res;

	result_init(&res);
	(void)snprintf(res.execution_id, sizeof(res.execution_id), "%s", k->id);
	for (int i = 0; i < RUN_STATE_COUNT; i++)
		if (streq(run_state_name((enum run_state)i), k->state))
			res.state = (enum run_state)i;
	for (size_t i = 0; i < ELEMENTSOF(ends); i++) {
		if (ends[i].state != res.state)
			continue;
		(void)err_set(&res.error, ends[i].code, 0, "%s", ends[i].cause);
		(void)err_remedy(&res.error, 0, "%s", ends[i].remedy);
	}
	res.receipt.level_achieved = LEVEL_COUNT;
	(void)result_to_json(&res, out);
	result_done(&res);
}

static const char *kept_state(const struct kept *k)
{
	return *k->state ? k->state : *k->approval ? "waiting" : "received";
}

static void put_kept_status(const struct kept *k, struct buf *out)
{
	buf_printf(out,
	           "{\"execution_id\":\"%s\",\"state\":\"%s\",\"done\":%s,\"language\":\"%s\",",
	           k->id, kept_state(k), *k->state ? "true" : "false", k->language);
	buf_puts(out, "\"caller\":");
	json_put_cstr(out, k->caller);
	buf_puts(out, ",\"created\":");
	json_put_time(out, k->time_us);
	buf_printf(out, *k->approval ? ",\"approval_id\":\"%s\"" : ",\"approval_id\":null%s",
	           k->approval);
	buf_puts(out, ",\"session_id\":");
	if (*k->session)
		json_put_cstr(out, k->session);
	else
		buf_puts(out, "null");
	buf_putc(out, '}');
}

static int read_kept(void *data, const struct kept *k)
{
	struct kept_answer *a = data;

	a->own = call_may(a->call, a->scopes) || streq(k->caller, a->call->who.actor);
	a->done = *k->state != '\0';
	if (a->done && k->result.n)
		buf_put(&a->out, k->result.p, k->result.n);
	else if (a->done)
		put_unknown(k, &a->out);
	else
		put_kept_status(k, &a->out);
	return 1;
}

/* From before a restart, or forgotten here. */
static void answer_kept(struct call *c, const char *id, uint32_t scopes)
{
	struct kept_answer a = { .call = c, .scopes = scopes, .out = BUF_INIT(JSON_ANSWER_MAX) };
	struct http_header h[] = { { "Brig-Execution-Id", id }, { "Brig-Replayed", "true" } };
	struct err err = { 0 };
	int r = kept_get(c->api->pl, id, read_kept, &a, &err);

	if (r > 0 && a.own) {
		answer_with(c, 200, "application/json", h, c->replayed ? 2 : 1, &a.out);
		return;
	}
	buf_done(&a.out);
	if (r < 0)
		answer_err(c, &err);
	else
		answer_error(c, ERR_NOT_FOUND, NULL, "no such execution");
}

static void answer_or_wait(struct call *c, struct execution *ex)
{
	if (!ex->job)
		answer_result(c, ex);
	else if (c->until_ms && clock_ms() >= c->until_ms)
		answer_status(c, ex, c->wants_result ? 200 : 202);
	else
		ex_wait(c, ex);
}

/* 1: the key stands for this very request, and the call goes on with what it gave. */
static bool is_replay(struct call *c, struct execution *ex)
{
	const struct request *req = &ex->job->request;
	uint8_t digest[SHA256_SIZE];
	char id[EXECUTION_ID_SIZE];
	struct execution *first;
	struct err err = { 0 };
	int r;

	if (!req->idempotency_key)
		return false;
	request_digest_key(req, digest);
	r = kept_find_key(c->api->pl, c->who.actor, req->idempotency_key, digest, id, &err);
	if (r == 0)
		return false;
	c->replayed = true;
	first = r > 0 ? ex_find(c->api, id) : NULL;
	if (r < 0)
		answer_err(c, &err);
	else if (first)
		answer_or_wait(c, first);
	else
		answer_kept(c, id, SCOPE_READ);
	return true;
}

static bool has_room(struct call *c)
{
	struct api *api = c->api;
	unsigned most = api->config.running_max + api->config.queue_max;
	uint32_t retry = 0;

	if (api_under_way(api) >= most)
		waiting_count(api); /* the last count may be a second old */
	if (api_under_way(api) >= most) {
		answer_busy(c, RETRY_MS, "too many executions are under way");
		return false;
	}
	if (quota_take_run(api->quotas, &c->who, clock_ms(), &retry) < 0) {
		answer_busy(c, retry, "more runs than the quota permits");
		return false;
	}
	return true;
}

static void take_trace(struct call *c, struct execution *ex)
{
	const char *t = http_header(c->http, "traceparent");

	if (t && strlen(t) < sizeof(ex->traceparent))
		(void)snprintf(ex->traceparent, sizeof(ex->traceparent), "%s", t);
}

/* A question that outlives the daemon needs the request's text. */
static bool keep_body(struct call *c, struct execution *ex)
{
	struct str body = http_body(c->http);

	ex->job->keep = true;
	if (!ex->body.len) /* else it was taken */
		buf_put(&ex->body, body.p, body.n);
	if (buf_finish(&ex->body) >= 0)
		return true;
	answer_error(c, ERR_INTERNAL, NULL, "out of memory");
	return false;
}

/* The request is read. */
static void submit(struct call *c, struct execution *ex)
{
	struct api *api = c->api;
	bool keep;

	if (!take_key(c, ex) || is_replay(c, ex)) {
		ex_discard(ex);
		return;
	}
	keep = c->keep || ex->job->request.idempotency_key;
	if ((keep && !keep_body(c, ex)) || !waiting_has_room(c, ex) || !has_room(c)) {
		ex_discard(ex);
		return;
	}
	if (!keep)
		buf_done(&ex->body);
	take_trace(c, ex);
	ex_wait(c, ex); /* it may be over before this returns */
	if (ex_submit(api, ex) < 0) {
		quota_give_run(api->quotas, c->who.key);
		ex_unwait(c);
		answer_error(c, ERR_INTERNAL, NULL, "no random numbers");
		ex_discard(ex);
		return;
	}
	waiting_add(api, ex);
}

static int parse(struct execution *ex, struct str body, struct err *err)
{
	return request_from_json(body.p, body.n, &ex->arena, &ex->job->request, err);
}

static int parse_in_thread(void *data, struct buf *out, struct err *err)
{
	struct execution *ex = data;

	(void)out;
	return parse(ex, (struct str){ ex->body.data, ex->body.len }, err);
}

static void parsed(struct call *c, void *data, int r, struct err *err)
{
	struct execution *ex = data;

	if (c)
		c->api->parsing -= ex->body.len;
	if (c && c->http && r >= 0 && !c->api->draining) {
		submit(c, ex);
		return;
	}
	ex_discard(ex);
	if (c && !c->http)
		call_end(c); /* nothing was started */
	else if (c && r < 0)
		answer_err(c, err);
	else if (c)
		answer_error(c, ERR_UNAVAILABLE, NULL, "brigd is stopping");
}

static void start(struct call *c)
{
	struct execution *ex = ex_new(c->api, c->who.actor, c->who.key);
	struct err err = { 0 };

	if (!ex) {
		answer_error(c, ERR_INTERNAL, NULL, "out of memory");
		return;
	}
	if (!query_bool(c, "files", &ex->keep_files)) {
		ex_discard(ex);
		return;
	}
	if (http_body(c->http).n <= PARSE_BYTES) {
		parsed(c, ex, parse(ex, http_body(c->http), &err), &err);
	} else if (c->api->parsing > PARSING_MAX) {
		ex_discard(ex);
		answer_busy(c, RETRY_MS, "too many large requests at once");
	} else {
		http_body_take(c->http, &ex->body);
		c->api->parsing += ex->body.len;
		if (call_work_then(c, parse_in_thread, parsed, ex) < 0)
			parsed(c, ex, err_set(&err, ERR_INTERNAL, ENOMEM, "a request"), &err);
	}
}

void route_execute(struct api *api, struct call *c)
{
	(void)api;
	c->wants_result = true;
	start(c);
}

void route_create(struct api *api, struct call *c)
{
	uint64_t wait_ms = 0;

	(void)api;
	if (!query_u64(c, "wait", WAIT_MS_MAX, &wait_ms))
		return;
	/* Told at the end of the turn at the earliest: when it is recorded. */
	c->until_ms = clock_ms() + wait_ms;
	c->keep = true;
	start(c);
}

/* ---- look ---- */

void route_show(struct api *api, struct call *c)
{
	struct execution *ex = ex_visible(c, c->match.args[0]);
	uint64_t wait_ms = 0;

	(void)api;
	if (!query_u64(c, "wait", WAIT_MS_MAX, &wait_ms))
		return;
	if (!ex) {
		answer_kept(c, c->match.args[0], SCOPE_READ);
		return;
	}
	c->wants_result = true;
	c->until_ms = clock_ms() + wait_ms;
	answer_or_wait(c, ex);
}

void route_cancel(struct api *api, struct call *c)
{
	struct execution *ex = ex_find(api, c->match.args[0]);

	if (ex && !streq(ex->caller, c->who.actor) && !call_may(c, SCOPE_ADMIN)) {
		answer_error(c, ERR_NOT_FOUND, NULL, "no such execution");
		return;
	}
	if (!ex) { /* over, if it was ever there */
		answer_kept(c, c->match.args[0], SCOPE_ADMIN);
		return;
	}
	if (ex->job)
		pipeline_cancel(api->pl, ex->job);
	api->moved = true;
	answer_status(c, ex, 200);
}

/* Those in memory and those on disk, as one list by time. */
struct listing {
	struct call *call;
	struct execution *at; /* the next of those in memory */
	struct buf out;
	char state[24];
	uint64_t limit, n, before_us;
	uint64_t seen_us; /* the last row on disk, listed or not */
};

static void put_separator(struct listing *l, uint64_t time_us)
{
	if (l->n++)
		buf_putc(&l->out, ',');
	l->before_us = time_us;
}

static bool may_list(const struct listing *l, const char *caller, const char *state)
{
	return (call_may(l->call, SCOPE_READ) || streq(caller, l->call->who.actor)) &&
	       (!*l->state || streq(l->state, state));
}

/* Of those in memory all that are newer than that. */
static void list_newer(struct listing *l, uint64_t time_us)
{
	for (; l->at && l->n < l->limit && l->at->created_us >= time_us; l->at = l->at->older) {
		if (l->before_us && l->at->created_us >= l->before_us)
			continue;
		if (!may_list(l, l->at->caller, ex_state(l->at)))
			continue;
		put_separator(l, l->at->created_us);
		ex_status(l->at, &l->out);
	}
}

static int list_kept(void *data, const struct kept *k)
{
	struct listing *l = data;

	l->seen_us = k->time_us;
	list_newer(l, k->time_us);
	if (l->n >= l->limit)
		return 1;
	if (!ex_find(l->call->api, k->id) && may_list(l, k->caller, kept_state(k))) {
		put_separator(l, k->time_us);
		put_kept_status(k, &l->out);
	}
	return l->n >= l->limit;
}

static bool is_state(const char *name)
{
	static const char *const live[] = { "", "received", "waiting", "queued", "running" };

	for (size_t i = 0; i < ELEMENTSOF(live); i++)
		if (streq(name, live[i]))
			return true;
	for (int i = 0; i < RUN_STATE_COUNT; i++)
		if (streq(name, run_state_name((enum run_state)i)))
			return true;
	return false;
}

void route_list(struct api *api, struct call *c)
{
	struct listing l = { .call = c, .out = BUF_INIT(JSON_ANSWER_MAX), .limit = LIST_DEFAULT };
	struct err err = { 0 };
	int rows;

	if (!query_limit(c, LIST_MAX, &l.limit) ||
	    !query_u64(c, "after", UINT64_MAX / 2, &l.before_us) ||
	    !query_text(c, "state", l.state, sizeof(l.state)))
		return;
	if (!is_state(l.state)) {
		answer_error(c, ERR_INVALID, NULL, "state: is not known");
		return;
	}
	l.at = api->ex.newest;
	buf_puts(&l.out, "{\"executions\":[");
	rows = kept_each(api->pl, l.before_us, KEPT_LIST_MAX, list_kept, &l, &err);
	if (rows < 0) {
		buf_done(&l.out);
		answer_err(c, &err);
		return;
	}
	/* A page of others' rows is not the end of one's own. */
	if (l.n < l.limit && rows == KEPT_LIST_MAX) {
		list_newer(&l, l.seen_us);
		if (l.n < l.limit)
			l.before_us = l.seen_us;
	} else {
		list_newer(&l, 0);
	}
	if (l.n == l.limit || rows == KEPT_LIST_MAX)
		buf_printf(&l.out, "],\"next\":\"%" PRIu64 "\"}", l.before_us);
	else
		buf_puts(&l.out, "],\"next\":null}");
	answer_json(c, 200, &l.out);
}
