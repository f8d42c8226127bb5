/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/desk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/doc.h"
#include "cli/question.h"

#define ID_CHARACTERS "0123456789abcdefghijklmnopqrstuvwxyz"

static int get(const struct desk *d, const char *path, struct reply *reply, struct json_reader *in,
               struct err *err)
{
	const struct client_call call = { .method = "GET", .path = path, .max = QUESTION_MAX };
	int r = client_call(d->client, &call, reply, err);

	if (r < 0)
		return r;
	r = doc_parse((struct str){ reply->body.data, reply->body.len }, in, err);
	reply_free_fields(reply); /* the document has copies */
	return r;
}

static int remote_each(const struct desk *d, bool all, approval_fn *fn, void *data, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	struct reply reply;
	json_t *item;
	size_t i;
	int r = get(d, all ? "/approvals?all=true" : "/approvals", &reply, &in, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(in.root, "approvals"), i, item)
	{
		struct approval a;

		r = doc_approval(item, &a, err);
		if (r < 0 || fn(data, &a))
			break;
	}
	return r;
}

int desk_each(const struct desk *d, bool all, approval_fn *fn, void *data, struct err *err)
{
	return d->ledger ? confirm_each(d->ledger, all, fn, data, err)
	                 : remote_each(d, all, fn, data, err);
}

struct search {
	const char *prefix;
	char id[EXECUTION_ID_SIZE];
	size_t n;
};

static int match_one(void *data, const struct approval *a)
{
	struct search *s = data;

	if (str_has_prefix(a->id, s->prefix)) {
		memcpy(s->id, a->id, sizeof(s->id));
		s->n++;
	}
	return 0;
}

int desk_find(const struct desk *d, const char *prefix, char ret[EXECUTION_ID_SIZE],
              struct err *err)
{
	struct search s = { .prefix = prefix };
	int r;

	if (d->ledger)
		return confirm_find(d->ledger, prefix, ret, err);
	r = remote_each(d, true, match_one, &s, err);
	if (r < 0)
		return r;
	if (!*prefix || prefix[strspn(prefix, ID_CHARACTERS)] || s.n == 0) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no approval \"%.40s\"", prefix);
		return err_remedy(err, -ENOENT, "see \"brig approvals ls --all\"");
	}
	if (s.n > 1) {
		(void)err_set(err, ERR_INVALID, 0, "\"%.40s\" is the beginning of %zu approvals",
		              prefix, s.n);
		return err_remedy(err, -EINVAL, "give more of it");
	}
	memcpy(ret, s.id, EXECUTION_ID_SIZE);
	return 0;
}

static int remote_one(const struct desk *d, const char *id, struct json_reader *in, struct err *err)
{
	struct reply reply;
	char path[64];

	(void)snprintf(path, sizeof(path), "/approvals/%.*s", EXECUTION_ID_SIZE, id);
	return get(d, path, &reply, in, err);
}

int desk_look(const struct desk *d, const char *id, struct approval *ret, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	int r;

	if (d->ledger)
		return confirm_look(d->ledger, id, ret, err);
	r = remote_one(d, id, &in, err);
	return r < 0 ? r : doc_approval(in.root, ret, err);
}

int desk_texts(const struct desk *d, const char *id, struct buf *code, struct buf *summary,
               struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	struct str text;
	int r;

	if (d->ledger)
		return confirm_texts(d->ledger, id, code, summary, err);
	r = remote_one(d, id, &in, err);
	if (r < 0)
		return r;
	text = doc_bytes(in.root, "code");
	if (!json_is_object(json_object_get(in.root, "summary")))
		return err_set(err, ERR_IO, EPROTO, "the daemon's answer is no approval");
	if (code)
		buf_put(code, text.p, text.n);
	if (summary)
		doc_put(json_object_get(in.root, "summary"), summary);
	if ((code && code->error) || (summary && summary->error))
		return err_set(err, ERR_LIMIT, EFBIG, "the text of approval %s", id);
	return 0;
}

static void put_answer(const struct confirm_answer *x, struct buf *out)
{
	char hex[SHA256_HEX_SIZE];

	buf_printf(out, "{\"decision\":\"%s\"", x->allow ? "allow" : "deny");
	if (x->allow)
		buf_printf(out, ",\"scope\":\"%s\"",
		           x->scope == REMEMBER_NOTHING ? "once" : remember_name(x->scope));
	if (x->allow && x->remember_ms)
		buf_printf(out, ",\"remember_ms\":%" PRIu64, x->remember_ms);
	if (x->reason) {
		buf_puts(out, ",\"reason\":");
		json_put_cstr(out, x->reason);
	}
	if (x->digest) {
		sha256_hex(x->digest, hex);
		buf_printf(out, ",\"digest\":\"%s\"", hex);
	}
	if (x->code) {
		buf_puts(out, ",\"code\":");
		json_put_string(out, x->code->p, x->code->n);
	}
	buf_putc(out, '}');
}

static int remote_change(const struct desk *d, const char *method, const char *id,
                         const struct buf *body, struct approval *ret, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	char path[64];
	struct client_call call = { .method = method, .path = path, .once = true };
	struct reply reply;
	int r;

	(void)snprintf(path, sizeof(path), "/approvals/%.*s", EXECUTION_ID_SIZE, id);
	if (body)
		call.body = (struct str){ body->data, body->len };
	r = client_call(d->client, &call, &reply, err);
	if (r < 0)
		return r;
	r = doc_parse((struct str){ reply.body.data, reply.body.len }, &in, err);
	reply_free_fields(&reply);
	return r < 0 ? r : doc_approval(in.root, ret, err);
}

int desk_answer(const struct desk *d, const struct confirm_answer *x, struct approval *ret,
                struct err *err)
{
	CLEANUP_BUF struct buf body = BUF_INIT(8 * MIB);

	if (d->ledger)
		return confirm_answer(d->ledger, x, ret, err);
	put_answer(x, &body);
	if (body.error)
		return err_set(err, ERR_LIMIT, -body.error, "the answer");
	return remote_change(d, "POST", x->id, &body, ret, err);
}

int desk_revoke(const struct desk *d, const char *id, const char *actor, struct approval *ret,
                struct err *err)
{
	int r;

	if (!d->ledger)
		return remote_change(d, "DELETE", id, NULL, ret, err);
	r = confirm_revoke(d->ledger, id, actor, err);
	return r < 0 ? r : confirm_look(d->ledger, id, ret, err);
}

void desk_options(const struct desk *d, char *ret, size_t n)
{
	if (d->ledger)
		(void)snprintf(ret, n, "--state-dir %s", ledger_dir(d->ledger));
	else
		(void)snprintf(ret, n, "--host %s", d->client->where);
}
