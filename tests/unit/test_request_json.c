/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "cli/doc.h"

static void fill(struct request *r)
{
	static const char *args[] = { "a", "--b", "\xc3\xa4\"\\\n" };
	static const char *env[] = { "A=", "B=x=y" };
	static struct request_file files[] = {
		{ "f/one", { "\0\xff", 2 }, true },
		{ "two", { "", 0 }, false },
		{ "three", { "abc", 3 }, false },
		{ "four", { "abcd", 4 }, false },
	};

	request_init(r);
	r->language = LANGUAGE_SHELL;
	r->code = STR("echo \"\xe2\x82\xac\"\n");
	r->name = "x.sh";
	r->level = LEVEL_DEGRADED_OK;
	r->network = NETWORK_NONE;
	r->tier = TIER_JAIL;
	r->session_id = "s:1";
	r->stdin_data = (struct str){ "in\0put", 6 };
	r->args = args;
	r->n_args = ELEMENTSOF(args);
	r->env = env;
	r->n_env = ELEMENTSOF(env);
	r->files = files;
	r->n_files = ELEMENTSOF(files);
	r->labels = args;
	r->n_labels = 1;
	r->limits.timeout_ms = 1234;
	r->limits.cpu_milli = 1005;
	r->limits.pids = 7;
}

Test(request_json, what_is_written_is_read_back_with_the_same_digest)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf out = BUF_INIT(REQUEST_JSON_MAX);
	uint8_t digest[2][32], rest[2][32];
	struct request r, back;
	struct err err = { 0 };

	fill(&r);
	cr_assert_eq(request_to_json(&r, &out, &err), 0, "%s", err.msg);
	cr_assert_eq(request_from_json(out.data, out.len, &arena, &back, &err), 0, "%s", err.msg);
	request_digest(&r, digest[0], rest[0]);
	request_digest(&back, digest[1], rest[1]);
	cr_assert_arr_eq(digest[0], digest[1], 32);
	cr_assert_eq(back.limits.cpu_milli, 1005);
	cr_assert_eq(back.stdin_data.n, 6);
	cr_assert(back.n_labels == 1 && streq(back.labels[0], r.labels[0]));
	cr_assert_str_eq(back.name, "x.sh");
}

Test(request_json, defaults_are_read_back_as_defaults)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf out = BUF_INIT(REQUEST_JSON_MAX);
	struct request r, back;
	struct err err = { 0 };

	request_init(&r);
	r.language = LANGUAGE_PYTHON;
	r.code = STR("1");
	cr_assert_eq(request_to_json(&r, &out, &err), 0);
	cr_assert_eq(request_from_json(out.data, out.len, &arena, &back, &err), 0, "%s", err.msg);
	cr_assert_eq(memcmp(&r.limits, &back.limits, sizeof(r.limits)), 0);
}

Test(request_json, what_is_not_utf8_is_refused_by_name)
{
	CLEANUP_BUF struct buf out = BUF_INIT(REQUEST_JSON_MAX);
	struct request r;
	struct err err = { 0 };

	fill(&r);
	r.stdin_data = STR("a\xff");
	cr_assert_eq(request_to_json(&r, &out, &err), -EILSEQ);
	cr_assert(str_has_prefix(err.msg, "stdin:"), "%s", err.msg);
}

Test(request_json, a_replacement_character_of_the_caller_is_text)
{
	CLEANUP_BUF struct buf out = BUF_INIT(REQUEST_JSON_MAX);
	struct request r;
	struct err err = { 0 };

	fill(&r);
	r.code = STR("echo \xef\xbf\xbd");
	cr_assert_eq(request_to_json(&r, &out, &err), 0);
	out.len = 0;
	r.code = STR("echo \xef\xbf\xbd\xff");
	cr_assert_eq(request_to_json(&r, &out, &err), -EILSEQ);
}

Test(doc, an_error_of_the_daemon_is_masked_and_bounded)
{
	struct reply r = { .status = 400, .body = BUF_INIT(64 * KIB) };
	struct err err = { 0 };

	buf_puts(&r.body, "{\"error\":{\"code\":\"invalid\",\"cause\":\"\\u001b[2J");
	for (int i = 0; i < 1000; i++)
		buf_puts(&r.body, "\\u202e");
	buf_puts(&r.body, "\",\"remedy\":\"%s%n\"}}");
	cr_assert_lt(doc_error(&r, &err), 0);
	cr_assert_eq(err.code, ERR_INVALID);
	cr_assert(str_has_prefix(err.msg, "\\x1b[2J\\u202e"), "%s", err.msg);
	cr_assert_str_eq(err.remedy, "%s%n");
	reply_free_fields(&r);
}

Test(doc, an_approval_without_a_proper_id_is_none)
{
	static const char *const ids[] = { "", "../../../../../../../../xx",
		                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ" };
	struct approval a;

	for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
		CLEANUP_DOC struct json_reader in = { 0 };
		CLEANUP_BUF struct buf b = BUF_INIT(4 * KIB);
		struct err err = { 0 };

		buf_printf(&b, "{\"id\":\"%s\",\"state\":\"waiting\",\"digest\":\"%064d\"}", ids[i],
		           0);
		cr_assert_eq(doc_parse((struct str){ b.data, b.len }, &in, &err), 0);
		cr_assert_lt(doc_approval(in.root, &a, &err), 0, "%s", ids[i]);
	}
}
