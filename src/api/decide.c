/* SPDX-License-Identifier: Apache-2.0 */

/* An answer that came over the wire: read strictly, and given for whoever sent it. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/impl.h"

#define REMEMBER_MAX (365ULL * 24 * 3600 * 1000)

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

	if (json_node_text(&ref, ANSWER_REF_SIZE - 1, &s))
		(void)snprintf(a->ref, sizeof(a->ref), "%s", s.p);
	if (!json_node_text(&type, 16, &s) || !streq(s.p, "answer"))
		(void)json_node_fail(&type, "must be \"answer\"");
	if (json_node_text(&id, ROUTE_ARG_SIZE - 1, &s))
		(void)snprintf(a->id, sizeof(a->id), "%s", s.p);
	else
		(void)json_node_fail(&id, "is needed");
}

int answer_read(struct str json, bool message, struct arena *arena, struct answer *ret,
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

int answer_decide(struct api *api, const struct principal *who, const struct answer *a,
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
	if (x.allow && actor_is_own_token(now.asker, who->actor))
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
