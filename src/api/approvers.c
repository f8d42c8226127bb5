/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The WebSocket of those who wait for questions. Whoever asked, in this process or another:
 * questions and answers are rows of the ledger, and that is where they are seen. Each approver gets
 * first what waited when it came, then the rows since, and then the news with all the others; what
 * it has no room for stays in the record until it has.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/impl.h"
#include "pipeline/kept.h"

#define MESSAGE_MAX   (16 * MIB)
#define APPROVERS_MAX 256

struct approver {
	struct api *api;
	struct ws *ws;
	struct principal who;
	struct pass pass;
	bool closed;
	char (*ids)[EXECUTION_ID_SIZE]; /* what waited when it came; NULL: it has had them */
	size_t n, at;
	uint64_t seq; /* the last row it was told of */
	bool live;    /* it has all up to the tail */
	struct approver *next;
};

/* ---- one question ---- */

/* "approval":{..},"code":..,"summary":{..} */
int approval_detail(struct api *api, const struct approval *a, const char *key_prefix,
                    struct buf *out, struct err *err)
{
	CLEANUP_BUF struct buf code = BUF_INIT(REQUEST_CODE_MAX);
	CLEANUP_BUF struct buf summary = BUF_INIT(APPROVAL_SUMMARY_MAX);
	int r = confirm_texts(pipeline_ledger(api->pl), a->id, &code, &summary, err);

	if (r < 0)
		return r;
	buf_puts(out, key_prefix);
	approval_to_json(a, out);
	buf_puts(out, ",\"code\":");
	json_put_string(out, code.data, code.len);
	buf_puts(out, ",\"summary\":");
	if (summary.len)
		buf_put(out, summary.data, summary.len);
	else
		buf_puts(out, "null");
	buf_putc(out, '}');
	return buf_finish(out);
}

/* ---- the socket ---- */

static void send_buf(struct approver *p, struct buf *b)
{
	struct blob *blob = buf_finish(b) < 0 ? NULL : blob_new(b->data, b->len);

	if (blob && !p->closed)
		p->closed = ws_send(p->ws, blob) < 0;
	blob_unref(blob);
}

static void put_ref(struct buf *b, const char *type, const char *ref)
{
	buf_printf(b, "{\"type\":\"%s\",\"ref\":", type);
	if (*ref)
		json_put_cstr(b, ref);
	else
		buf_puts(b, "null");
}

static void shut_out(struct approver *p)
{
	ws_close(p->ws, 1008, PASS_OVER);
	p->closed = true;
}

static void on_message(void *data, struct ws *w, struct str text)
{
	struct approver *p = data;
	CLEANUP_ARENA struct arena arena = ARENA_INIT(4 * MIB);
	CLEANUP_BUF struct buf b = BUF_INIT(64 * KIB);
	struct answer a = { 0 };
	struct approval after;
	struct err err = { 0 };
	int r;

	(void)w;
	p->api->tokens_ms = 0; /* a yes has consequences: as the file is now */
	if (!pass_holds(p->api, &p->pass)) {
		shut_out(p);
		return;
	}
	r = answer_read(text, true, &arena, &a, &err);
	if (r >= 0)
		r = answer_decide(p->api, &p->who, &a, a.id, &after, &err);
	if (r >= 0) {
		put_ref(&b, "answered", a.ref);
		buf_puts(&b, ",\"approval\":");
		approval_to_json(&after, &b);
		buf_putc(&b, '}');
	} else {
		CLEANUP_BUF struct buf e = BUF_INIT(4 * KIB);

		error_to_json(&err, err.code == ERR_INTERNAL || err.code == ERR_IO, &e);
		put_ref(&b, "error", a.ref);
		buf_putc(&b, ',');
		buf_put(&b, e.len ? e.data + 1 : "}", e.len ? e.len - 1 : 1); /* its first brace */
	}
	send_buf(p, &b);
}

static void approver_free(struct approver *p)
{
	struct approver **at = &p->api->approvers;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	p->api->n_approvers--;
	free(p->ids);
	free(p);
}

static void on_closed(void *data, struct ws *w)
{
	(void)w;
	approver_free(data);
}

static void say_hello(struct approver *p)
{
	CLEANUP_BUF struct buf b = BUF_INIT(1 * KIB);

	buf_puts(&b, "{\"type\":\"hello\",\"actor\":");
	json_put_cstr(&b, p->who.actor);
	buf_putc(&b, '}');
	send_buf(p, &b);
}

static int note_id(void *data, const struct approval *a)
{
	struct approver *p = data;

	(void)snprintf(p->ids[p->n], EXECUTION_ID_SIZE, "%s", a->id);
	return ++p->n == APPROVALS_WAITING_MAX;
}

/* The row first: what is asked between the two is told twice rather than never. */
static void take_place(struct api *api, struct approver *p)
{
	p->seq = events_newest(api);
	(void)confirm_each_waiting(pipeline_ledger(api->pl), note_id, p, NULL);
	if (!events_wanted(api))
		events_start(api);
	p->next = api->approvers;
	api->approvers = p;
	api->n_approvers++;
}

static struct approver *approver_new(struct api *api, struct call *c)
{
	struct approver *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->api = api;
	p->who = c->who;
	p->pass = call_pass(c, SCOPE_APPROVE);
	p->ids = calloc(APPROVALS_WAITING_MAX, sizeof(*p->ids));
	if (p->ids)
		return p;
	free(p);
	return NULL;
}

void route_approvers(struct api *api, struct call *c)
{
	static const struct ws_handler handler = { on_message, on_closed };
	struct approver *p = api->n_approvers < APPROVERS_MAX ? approver_new(api, c) : NULL;

	if (!p || http_upgrade(c->http, &handler, p, &p->ws) < 0) {
		if (p)
			free(p->ids);
		free(p);
		answer_busy(c, 1000, "too many approvers");
		return;
	}
	c->http = NULL;
	call_end(c);
	pipeline_turn(api->pl);
	take_place(api, p);
	say_hello(p);
}

/* ---- news ---- */

static bool is_question(const struct ledger_row *row)
{
	return streq(row->name, "approval.requested");
}

static bool is_over(const char *name)
{
	static const char *const names[] = { "approval.allowed", "approval.denied",
		                             "approval.expired", "approval.withdrawn",
		                             "approval.revoked" };

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (streq(name, names[i]))
			return true;
	return false;
}

static bool id_of(const struct ledger_row *row, char ret[EXECUTION_ID_SIZE])
{
	static const char key[] = "{\"approval\":\"";
	const char *p = row->detail.p;

	if (row->detail.n < sizeof(key) + EXECUTION_ID_SIZE || !str_has_prefix(p, key))
		return false;
	(void)snprintf(ret, EXECUTION_ID_SIZE, "%s", p + sizeof(key) - 1);
	return true;
}

/* Half of what may wait: answers must have room as well. One that is larger goes alone. */
static bool has_room(const struct approver *p, size_t n)
{
	size_t waiting = ws_waiting(p->ws);

	return !waiting || waiting + n <= p->api->config.http.stream_bytes / 2;
}

static void broadcast(struct api *api, uint64_t seq, struct buf *b)
{
	struct blob *blob = buf_finish(b) < 0 ? NULL : blob_new(b->data, b->len);

	for (struct approver *p = api->approvers; p; p = p->next) {
		if (p->closed || !p->live || seq <= p->seq)
			continue;
		p->live = blob && has_room(p, blob->n);
		p->seq = p->live ? seq : seq - 1;
		if (p->live)
			p->closed = ws_send(p->ws, blob) < 0;
	}
	blob_unref(blob);
}

static void observe(struct api *api, const struct approval *a, bool question)
{
	CLEANUP_BUF struct buf summary = BUF_INIT(APPROVAL_SUMMARY_MAX);
	const struct api_observer *o = &api->config.observer;

	if (!o->approval)
		return;
	if (question)
		(void)confirm_texts(pipeline_ledger(api->pl), a->id, NULL, &summary, NULL);
	o->approval(o->data, question ? "approval.requested" : "approval.settled", a,
	            (struct str){ summary.data, summary.len });
}

static int put_request(struct api *api, const struct approval *a, struct buf *b)
{
	return approval_detail(api, a, "{\"type\":\"request\",\"approval\":", b, NULL);
}

/* What a row means to approvers; false: nothing. */
static bool read_news(struct api *api, const struct ledger_row *row, struct approval *ret)
{
	char id[EXECUTION_ID_SIZE];

	return (is_question(row) || is_over(row->name)) && id_of(row, id) &&
	       confirm_look(pipeline_ledger(api->pl), id, ret, NULL) >= 0;
}

static int put_news(struct api *api, const struct ledger_row *row, const struct approval *a,
                    struct buf *b)
{
	if (is_question(row))
		return put_request(api, a, b);
	buf_puts(b, "{\"type\":\"settled\",\"approval\":");
	approval_to_json(a, b);
	buf_putc(b, '}');
	return buf_finish(b);
}

void approvers_row(struct api *api, const struct ledger_row *row)
{
	CLEANUP_BUF struct buf b = BUF_INIT(MESSAGE_MAX);
	struct approval a;

	if (!read_news(api, row, &a))
		return;
	if (api->approvers && put_news(api, row, &a, &b) >= 0)
		broadcast(api, row->seq, &b);
	observe(api, &a, is_question(row));
}

/* ---- what one of them has not had ---- */

/* false: it waits until there is room. */
static bool send_if_room(struct approver *p, struct buf *b)
{
	if (!has_room(p, b->len))
		return false;
	send_buf(p, b);
	return true;
}

/* One of those that waited when it came, if it still does. */
static bool send_waiting(struct approver *p)
{
	CLEANUP_BUF struct buf b = BUF_INIT(MESSAGE_MAX);
	struct approval a;

	if (confirm_look(pipeline_ledger(p->api->pl), p->ids[p->at], &a, NULL) >= 0 &&
	    a.state == APPROVAL_WAITING && put_request(p->api, &a, &b) >= 0 && !send_if_room(p, &b))
		return false;
	p->at++;
	return true;
}

static int on_missed_row(void *data, const struct ledger_row *row)
{
	struct approver *p = data;
	CLEANUP_BUF struct buf b = BUF_INIT(MESSAGE_MAX);
	struct approval a;

	if (read_news(p->api, row, &a) && put_news(p->api, row, &a, &b) >= 0 &&
	    !send_if_room(p, &b))
		return 1;
	p->seq = row->seq;
	return p->closed;
}

/* Only to one that has read all it was sent. */
static void feed(struct approver *p)
{
	struct ledger_filter f = { .kind = "approval", .limit = CATCH_UP_ROWS };
	struct api *api = p->api;

	while (p->ids && p->at < p->n && !p->closed)
		if (!send_waiting(p))
			return;
	free(TAKE_PTR(p->ids));
	f.after_seq = p->seq;
	if (p->closed || ledger_each(pipeline_ledger(api->pl), &f, on_missed_row, p, NULL) < 0)
		return;
	if (p->seq != f.after_seq || ws_waiting(p->ws))
		return; /* there may be more */
	p->seq = MAX2(p->seq, api->tail_seq);
	p->live = true;
}

void approvers_feed(struct api *api)
{
	for (struct approver *p = api->approvers; p; p = p->next) {
		if (p->closed || p->live || ws_waiting(p->ws))
			continue; /* the loop turns when its socket takes more */
		feed(p);
		api->moved |= !p->live;
	}
}

void approvers_check_passes(struct api *api)
{
	for (struct approver *p = api->approvers; p; p = p->next)
		if (!p->closed && !pass_holds(api, &p->pass))
			shut_out(p);
}

/* ---- after a restart, at the end ---- */

static int retell(void *data, const struct approval *a)
{
	observe(data, a, true);
	return 0;
}

void approvers_retell(struct api *api)
{
	if (api->config.observer.approval)
		(void)confirm_each_waiting(pipeline_ledger(api->pl), retell, api, NULL);
}

void approvers_close(struct api *api)
{
	while (api->approvers)
		approver_free(api->approvers);
}
