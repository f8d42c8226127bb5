/* SPDX-License-Identifier: Apache-2.0 */

/* Approvals by plain requests. */

#include <errno.h>
#include <string.h>

#include "api/impl.h"
#include "pipeline/kept.h"

struct listing {
	struct call *call;
	struct buf out;
	unsigned n;
};

/* Whoever may only run sees the questions of his own runs. */
static bool may_see(const struct call *c, const struct approval *a)
{
	return call_may(c, SCOPE_APPROVE | SCOPE_READ) || streq(a->asker, c->who.actor);
}

static int list_one(void *data, const struct approval *a)
{
	struct listing *l = data;

	if (!may_see(l->call, a))
		return 0;
	if (l->n++)
		buf_putc(&l->out, ',');
	approval_to_json(a, &l->out);
	return 0;
}

void route_approvals(struct api *api, struct call *c)
{
	struct listing l = { .call = c, .out = BUF_INIT(JSON_ANSWER_MAX) };
	struct err err = { 0 };
	bool all = false;

	if (!query_bool(c, "all", &all))
		return;
	pipeline_turn(api->pl);
	buf_puts(&l.out, "{\"approvals\":[");
	if (confirm_each(pipeline_ledger(api->pl), all, list_one, &l, &err) < 0) {
		buf_done(&l.out);
		answer_err(c, &err);
		return;
	}
	buf_puts(&l.out, "]}");
	answer_json(c, 200, &l.out);
}

static bool look(struct api *api, struct call *c, struct approval *ret)
{
	struct err err = { 0 };

	pipeline_turn(api->pl); /* looking may expire it: a group of its own */
	if (confirm_look(pipeline_ledger(api->pl), c->match.args[0], ret, &err) >= 0 &&
	    may_see(c, ret))
		return true;
	if (err.code == ERR_NONE || err.code == ERR_NOT_FOUND)
		answer_error(c, ERR_NOT_FOUND, NULL, "no such approval");
	else
		answer_err(c, &err);
	return false;
}

void route_approval(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(JSON_ANSWER_MAX), one = BUF_INIT(JSON_ANSWER_MAX);
	struct err err = { 0 };
	struct approval a;

	if (!look(api, c, &a))
		return;
	if (approval_detail(api, &a, "", &one, &err) < 0) {
		buf_done(&one);
		answer_err(c, &err);
		return;
	}
	/* {..},"code":..} becomes one object. */
	approval_to_json(&a, &b);
	b.len--;
	buf_put(&b, one.data + b.len + 1, one.len - b.len - 1);
	buf_done(&one);
	answer_json(c, 200, &b);
}

static void answer_approval(struct call *c, const struct approval *a)
{
	struct buf b = BUF_INIT(64 * KIB);

	approval_to_json(a, &b);
	answer_json(c, 200, &b);
}

/* The key that an answer takes when it counts. */
struct claim {
	struct api *api;
	const char *caller, *key; /* key NULL: none */
	uint8_t digest[SHA256_SIZE];
};

static int read_key(struct call *c, struct claim *ret, struct err *err)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * MIB);
	struct str body = http_body(c->http);

	*ret = (struct claim){
		c->api, c->who.actor, http_header(c->http, "Idempotency-Key"), { 0 }
	};
	if (!ret->key)
		return 0;
	if (!*ret->key || strlen(ret->key) > REQUEST_NAME_MAX)
		return err_set(err, ERR_INVALID, 0, "Idempotency-Key: 1 to %d characters",
		               REQUEST_NAME_MAX);
	buf_puts(&b, c->match.args[0]);
	buf_putc(&b, '\n');
	buf_put(&b, body.p, body.n);
	if (buf_finish(&b) < 0)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a key");
	sha256(b.data, b.len, ret->digest);
	return 0;
}

/* 1: it was answered so before, under this key. */
static int find_key(const struct claim *k, struct err *err)
{
	char id[EXECUTION_ID_SIZE];

	return k->key ? kept_find_key(k->api->pl, k->caller, k->key, k->digest, id, err) : 0;
}

static int take_key(void *data, struct err *err)
{
	const struct claim *k = data;
	int r = kept_claim(k->api->pl, k->caller, k->key, k->digest, err);

	return r < 0 ? r : 0;
}

void route_decide(struct api *api, struct call *c)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(4 * MIB);
	struct answer answer = { 0 };
	struct err err = { 0 };
	struct claim key = { 0 };
	struct approval a;
	int r;

	if (!look(api, c, &a))
		return;
	r = answer_read(http_body(c->http), false, &arena, &answer, &err);
	if (r >= 0)
		r = read_key(c, &key, &err);
	if (r >= 0)
		r = find_key(&key, &err);
	if (r == 0) {
		answer.x.with = key.key ? take_key : NULL;
		answer.x.data = &key;
		r = answer_decide(api, &c->who, &answer, a.id, &a, &err);
	}
	if (r < 0)
		answer_err(c, &err);
	else
		answer_approval(c, &a);
}

void route_revoke(struct api *api, struct call *c)
{
	struct err err = { 0 };
	struct approval a;
	int r;

	if (!look(api, c, &a))
		return;
	if (a.state == APPROVAL_REVOKED) {
		answer_approval(c, &a);
		return;
	}
	r = confirm_revoke(pipeline_ledger(api->pl), a.id, c->who.actor, &err);
	api->moved = true;
	if (r >= 0)
		r = confirm_look(pipeline_ledger(api->pl), a.id, &a, &err);
	if (r < 0)
		answer_err(c, &err);
	else
		answer_approval(c, &a);
}
