/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Approvals over the wire: list, look, decide; and the WebSocket of those who wait for questions.
 * Whoever asked, in this process or another: questions and answers are rows of the ledger, and that
 * is where they are seen. The first valid answer counts; src/confirm says which that is.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/impl.h"
#include "pipeline/kept.h"

#define MESSAGE_MAX   (16 * MIB)
#define REF_MAX       128
#define APPROVERS_MAX 256
#define REMEMBER_MAX  (365ULL * 24 * 3600 * 1000)

struct approver {
	struct api *api;
	struct ws *ws;
	struct principal who;
	bool closed;
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

/* ---- an answer ---- */

struct answer {
	struct confirm_answer x;
	struct str code;
	uint8_t digest[SHA256_SIZE];
	char reason[APPROVAL_REASON_SIZE], id[ROUTE_ARG_SIZE];
	char ref[REF_MAX];
};

static bool hex_digest(const char *hex, uint8_t ret[SHA256_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	if (strlen(hex) != (size_t)SHA256_SIZE * 2)
		return false;
	for (size_t i = 0; i < SHA256_SIZE; i++) {
		const char *high = strchr(digits, hex[2 * i]),
			   *low = strchr(digits, hex[2 * i + 1]);

		if (!high || !low)
			return false;
		ret[i] = (uint8_t)((high - digits) << 4 | (low - digits));
	}
	return true;
}

static void read_decision(struct json_node *root, struct answer *a)
{
	struct json_node n = json_member(root, "decision");
	struct str s = { NULL, 0 };

	if (!json_node_text(&n, 16, &s)) {
		(void)json_node_fail(&n, "is needed: allow or deny");
		return;
	}
	a->x.allow = streq(s.p, "allow");
	if (!a->x.allow && !streq(s.p, "deny"))
		(void)json_node_fail(&n, "must be allow or deny");
}

static void read_scope(struct json_node *root, struct answer *a)
{
	struct json_node n = json_member(root, "scope"), ms = json_member(root, "remember_ms");
	struct str s = { NULL, 0 };
	uint64_t value;

	if (json_node_text(&n, 16, &s) && !streq(s.p, "once") &&
	    (remember_from_name(s.p, &a->x.scope) < 0 || a->x.scope == REMEMBER_NOTHING))
		(void)json_node_fail(&n, "must be once, session or digest");
	if (json_node_u64(&ms, &value)) {
		if (!value || value > REMEMBER_MAX || a->x.scope != REMEMBER_DIGEST)
			(void)json_node_fail(&ms, "is for the scope digest, and at most a year");
		a->x.remember_ms = value;
	}
	if (!a->x.allow && (s.p || a->x.remember_ms))
		(void)json_node_fail(&n, "is for an allow");
}

static void read_rest(struct json_node *root, struct answer *a, struct arena *arena)
{
	struct json_node reason = json_member(root, "reason"), digest = json_member(root, "digest"),
			 code = json_member(root, "code");
	struct str s = { NULL, 0 };

	if (json_node_text(&reason, sizeof(a->reason) - 1, &s)) {
		(void)snprintf(a->reason, sizeof(a->reason), "%s", s.p);
		a->x.reason = a->reason;
	}
	if (json_node_text(&digest, 80, &s)) {
		if (!hex_digest(s.p, a->digest))
			(void)json_node_fail(&digest, "must be 64 hexadecimal digits");
		a->x.digest = a->digest;
	}
	if (json_node_text(&code, REQUEST_CODE_MAX, &s)) {
		a->code = (struct str){ arena_dup(arena, s.p, s.n), s.n };
		a->x.code = &a->code;
		if (!a->x.allow)
			(void)json_node_fail(&code, "is for an allow");
	}
}

/* Of a message: what it is, whose, and what the approver calls it. */
static void read_message(struct json_node *root, struct answer *a)
{
	struct json_node type = json_member(root, "type"), id = json_member(root, "id"),
			 ref = json_member(root, "ref");
	struct str s = { NULL, 0 };

	if (json_node_text(&ref, REF_MAX - 1, &s))
		(void)snprintf(a->ref, sizeof(a->ref), "%s", s.p);
	if (!json_node_text(&type, 16, &s) || !streq(s.p, "answer"))
		(void)json_node_fail(&type, "must be \"answer\"");
	if (json_node_text(&id, ROUTE_ARG_SIZE - 1, &s))
		(void)snprintf(a->id, sizeof(a->id), "%s", s.p);
	else
		(void)json_node_fail(&id, "is needed");
}

static int read_answer(struct str json, bool message, struct arena *arena, struct answer *ret,
                       struct err *err)
{
	static const struct json_bounds bounds = { 2 * MIB, 4, 64 };
	struct json_reader in;
	struct json_node root;
	int r = json_reader_init(&in, "answer", json.p, json.n, &bounds, err);

	if (r < 0)
		return r;
	root = json_root(&in);
	(void)json_node_object(&root);
	if (message)
		read_message(&root, ret);
	read_decision(&root, ret);
	read_scope(&root, ret);
	read_rest(&root, ret, arena);
	json_node_end(&root);
	r = json_reader_finish(&in);
	json_reader_done(&in);
	if (r >= 0 && ret->x.code && !ret->code.p)
		r = err_set(err, ERR_INTERNAL, ENOMEM, "the answer");
	return r;
}

/* Also of two tokens of one name, of which one was made when the other was gone. */
static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "#");

	return n == strcspn(b, "#") && memcmp(a, b, n) == 0;
}

static int decide(struct api *api, const struct principal *who, const struct answer *a,
                  const char *id, struct approval *ret, struct err *err)
{
	struct ledger *l = pipeline_ledger(api->pl);
	struct confirm_answer x = a->x;
	struct approval now;
	int r;

	pipeline_turn(api->pl); /* an answer is a group of its own */
	r = confirm_look(l, id, &now, err);
	if (r < 0)
		return r;
	/* Whatever the policy says of people: an agent is not its own supervisor. */
	if (x.allow && str_has_prefix(who->actor, "token:") && same_name(now.asker, who->actor))
		return err_remedy(err,
		                  err_set(err, ERR_FORBIDDEN, 0,
		                          "a token does not approve what it asked for itself"),
		                  "somebody else answers");
	if (x.scope == REMEMBER_DIGEST && !x.remember_ms)
		x.remember_ms = now.remember_ms; /* as long as the policy permits */
	x.id = now.id;
	x.actor = who->actor;
	x.remote = true;
	r = confirm_answer(l, &x, ret, err);
	api->moved = true;
	return r;
}

int approval_decide(struct api *api, const struct principal *who, const char *id, struct str json,
                    struct approval *ret, struct err *err)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(4 * MIB);
	struct answer a = { 0 };
	int r = read_answer(json, false, &arena, &a, err);

	return r < 0 ? r : decide(api, who, &a, id, ret, err);
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

static void on_message(void *data, struct ws *w, struct str text)
{
	struct approver *p = data;
	CLEANUP_ARENA struct arena arena = ARENA_INIT(4 * MIB);
	CLEANUP_BUF struct buf b = BUF_INIT(64 * KIB);
	struct answer a = { 0 };
	struct approval after;
	struct err err = { 0 };
	int r = read_answer(text, true, &arena, &a, &err);

	(void)w;
	if (r >= 0)
		r = decide(p->api, &p->who, &a, a.id, &after, &err);
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
	free(p);
}

static void on_closed(void *data, struct ws *w)
{
	(void)w;
	approver_free(data);
}

static int send_question(void *data, const struct approval *a)
{
	struct approver *p = data;
	CLEANUP_BUF struct buf b = BUF_INIT(MESSAGE_MAX);

	if (approval_detail(p->api, a, "{\"type\":\"request\",\"approval\":", &b, NULL) >= 0)
		send_buf(p, &b);
	return p->closed;
}

static void say_hello(struct approver *p)
{
	CLEANUP_BUF struct buf b = BUF_INIT(1 * KIB);

	buf_puts(&b, "{\"type\":\"hello\",\"actor\":");
	json_put_cstr(&b, p->who.actor);
	buf_putc(&b, '}');
	send_buf(p, &b);
}

void route_approvers(struct api *api, struct call *c)
{
	static const struct ws_handler handler = { on_message, on_closed };
	struct approver *p = api->n_approvers < APPROVERS_MAX ? calloc(1, sizeof(*p)) : NULL;

	if (!p || http_upgrade(c->http, &handler, p, &p->ws) < 0) {
		free(p);
		answer_busy(c, 1000, "too many approvers");
		return;
	}
	p->api = api;
	p->who = c->who;
	c->http = NULL;
	call_end(c);
	pipeline_turn(api->pl);
	events_tail(api); /* what is told to all so far, before it is one of them */
	if (!api->approvers && !api->listeners)
		events_start(api);
	p->next = api->approvers;
	api->approvers = p;
	api->n_approvers++;
	say_hello(p);
	(void)confirm_each(pipeline_ledger(api->pl), false, send_question, p, NULL);
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

static void broadcast(struct api *api, struct buf *b)
{
	struct blob *blob = buf_finish(b) < 0 ? NULL : blob_new(b->data, b->len);

	for (struct approver *p = api->approvers; blob && p; p = p->next)
		if (!p->closed)
			p->closed = ws_send(p->ws, blob) < 0;
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

void approvers_row(struct api *api, const struct ledger_row *row)
{
	CLEANUP_BUF struct buf b = BUF_INIT(MESSAGE_MAX);
	bool question = is_question(row);
	char id[EXECUTION_ID_SIZE];
	struct approval a;

	if ((!question && !is_over(row->name)) || !id_of(row, id) ||
	    confirm_look(pipeline_ledger(api->pl), id, &a, NULL) < 0)
		return;
	if (question) {
		if (approval_detail(api, &a, "{\"type\":\"request\",\"approval\":", &b, NULL) < 0)
			return;
	} else {
		buf_puts(&b, "{\"type\":\"settled\",\"approval\":");
		approval_to_json(&a, &b);
		buf_putc(&b, '}');
	}
	broadcast(api, &b);
	observe(api, &a, question);
}

static int retell(void *data, const struct approval *a)
{
	observe(data, a, true);
	return 0;
}

void approvers_retell(struct api *api)
{
	if (api->config.observer.approval)
		(void)confirm_each(pipeline_ledger(api->pl), false, retell, api, NULL);
}

void approvers_close(struct api *api)
{
	while (api->approvers)
		approver_free(api->approvers);
}
