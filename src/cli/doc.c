/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/shown.h"

#define DOC_VALUES_MAX (1u << 20)

int doc_parse(struct str text, struct json_reader *ret, struct err *err)
{
	const struct json_bounds bounds = { .bytes = text.n,
		                            .depth = JSON_DEPTH_MAX,
		                            .values = DOC_VALUES_MAX };
	struct err why = { 0 };
	int r = json_reader_init(ret, "answer", text.p ? text.p : "", text.n, &bounds, &why);

	if (r >= 0 && json_is_object(ret->root))
		return 0;
	if (r >= 0)
		json_reader_done(ret);
	*ret = (struct json_reader){ 0 };
	if (why.code == ERR_INTERNAL)
		return err_set(err, ERR_INTERNAL, ENOMEM, "the daemon's answer");
	/* Not the parser's words: they quote the text. */
	(void)err_set(err, ERR_IO, EPROTO, "the daemon's answer is not the JSON it should be");
	return err_remedy(err, -EPROTO, "is it brigd that listens there?");
}

void doc_free(struct json_reader *in)
{
	json_reader_done(in);
}

const char *doc_text(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

struct str doc_bytes(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return (struct str){ json_string_value(v), json_string_length(v) };
}

uint64_t doc_number(json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

bool doc_true(json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

uint64_t doc_time_us(json_t *o, const char *key)
{
	struct tm tm = { 0 };
	time_t t;

	if (!strptime(doc_text(o, key), "%Y-%m-%dT%H:%M:%S", &tm))
		return 0;
	t = timegm(&tm);
	return t > 0 ? (uint64_t)t * 1000000u : 0;
}

void doc_put(json_t *o, struct buf *out)
{
	char *text = json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY);

	if (text)
		buf_puts(out, text);
	else
		out->error = -ENOMEM;
	free(text);
}

/* Into a field of struct err, as it may be shown. */
static void put_masked(char *to, size_t size, const char *text)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * KIB);

	shown_word(&b, (struct str){ text, strnlen(text, size) }, size);
	(void)snprintf(to, size, "%s", b.data && !b.error ? b.data : "");
}

static enum err_code code_of(const char *name, unsigned status)
{
	for (int i = ERR_NONE + 1; i < ERR_CODE_COUNT; i++)
		if (streq(name, err_code_name((enum err_code)i)))
			return (enum err_code)i;
	return status == 401 ? ERR_UNAUTHORIZED : status == 429 ? ERR_BUSY : ERR_INTERNAL;
}

static void read_error(json_t *o, unsigned status, struct err *err)
{
	char cause[sizeof(err->msg)];

	put_masked(cause, sizeof(cause), doc_text(o, "cause"));
	(void)err_set(err, code_of(doc_text(o, "code"), status), 0, "%s", cause);
	if (err)
		put_masked(err->remedy, sizeof(err->remedy), doc_text(o, "remedy"));
}

int doc_error(const struct reply *r, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	json_t *o = NULL;

	if (doc_parse((struct str){ r->body.data, r->body.len }, &in, NULL) >= 0)
		o = json_object_get(in.root, "error");
	read_error(o, r->status, err);
	if (err && !json_is_object(o)) {
		(void)err_set(err, code_of("", r->status), 0, "the daemon answered %u", r->status);
		err->remedy[0] = '\0';
	}
	if (r->status == 401)
		(void)err_remedy(err, 0,
		                 "set BRIG_TOKEN or BRIG_TOKEN_FILE; \"brig token new NAME "
		                 "--scope run,read\" makes a token");
	return r->status == 404 ? -ENOENT : r->status == 409 ? -EALREADY : -EREMOTEIO;
}

static int state_of(const char *name, enum run_state *ret)
{
	for (int i = 0; i < RUN_STATE_COUNT; i++) {
		if (streq(name, run_state_name((enum run_state)i))) {
			*ret = (enum run_state)i;
			return 0;
		}
	}
	return -EINVAL;
}

int doc_result(json_t *o, struct result *ret, struct err *err)
{
	json_t *error = json_object_get(o, "error"), *code = json_object_get(o, "exit_code");
	json_t *truncated = json_object_get(o, "truncated");
	enum run_state state;

	if (state_of(doc_text(o, "state"), &state) < 0)
		return err_set(err, ERR_IO, EPROTO, "the daemon's answer is no result");
	result_init(ret);
	ret->state = state;
	(void)snprintf(ret->execution_id, sizeof(ret->execution_id), "%s",
	               doc_text(o, "execution_id"));
	ret->has_exit_code = json_is_integer(code);
	ret->exit_code = (int)(json_integer_value(code) & 0xff);
	ret->signal = (int)(doc_number(o, "signal") & 0x7f);
	ret->out_dropped = doc_number(truncated, "stdout");
	ret->err_dropped = doc_number(truncated, "stderr");
	ret->receipt.verified = doc_true(json_object_get(o, "receipt"), "verified");
	/* "exception" is the program's own error, which it has told itself. */
	if (json_is_object(error) && !streq(doc_text(error, "code"), "exception"))
		read_error(error, 0, &ret->error);
	return 0;
}

static enum approval_state approval_state_of(const char *name)
{
	for (int i = APPROVAL_NONE + 1; i < APPROVAL_STATE_COUNT; i++)
		if (streq(name, approval_state_name((enum approval_state)i)))
			return (enum approval_state)i;
	return APPROVAL_NONE;
}

int doc_approval(json_t *o, struct approval *ret, struct err *err)
{
	struct approval a = { .state = approval_state_of(doc_text(o, "state")),
		              .created_us = doc_time_us(o, "created"),
		              .expires_us = doc_time_us(o, "expires"),
		              .until_us = doc_time_us(o, "until"),
		              .remember_ms = doc_number(o, "remember_ms"),
		              .self = doc_true(o, "self"),
		              .edited = doc_true(o, "edited") };
	const struct {
		char *to;
		size_t size;
		const char *key;
	} texts[] = {
		{ a.id, sizeof(a.id), "id" },
		{ a.job, sizeof(a.job), "job" },
		{ a.session, sizeof(a.session), "session" },
		{ a.asker, sizeof(a.asker), "asker" },
		{ a.answered_by, sizeof(a.answered_by), "answered_by" },
		{ a.reason, sizeof(a.reason), "reason" },
	};

	for (size_t i = 0; i < ELEMENTSOF(texts); i++)
		(void)snprintf(texts[i].to, texts[i].size, "%s", doc_text(o, texts[i].key));
	(void)remember_from_name(doc_text(o, "may_remember"), &a.remember);
	(void)remember_from_name(doc_text(o, "remembered"), &a.scope);
	if (a.state == APPROVAL_NONE || strlen(a.id) != EXECUTION_ID_SIZE - 1 ||
	    strspn(a.id, "0123456789abcdefghijklmnopqrstuvwxyz") != EXECUTION_ID_SIZE - 1 ||
	    sha256_from_hex(doc_text(o, "digest"), a.digest) < 0)
		return err_set(err, ERR_IO, EPROTO, "the daemon's answer is no approval");
	*ret = a;
	return 0;
}
