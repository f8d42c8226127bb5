/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>

#include "base/json.h"

static const struct json_bounds roomy = { .bytes = 1 * MIB, .depth = 32, .values = 10000 };

static int open_text(struct json_reader *in, const char *text, struct err *err)
{
	return json_reader_init(in, "doc", text, strlen(text), &roomy, err);
}

#define FFFD "\xef\xbf\xbd"

Test(json_write, bytes_become_json_strings)
{
	static const struct {
		const char *name;
		struct str in;
		const char *out;
	} cases[] = {
		{ "empty", STR(""), "" },
		{ "plain", STR("hello world"), "hello world" },
		{ "quote and backslash", STR("\"\\"), "\\\"\\\\" },
		{ "slash stays", STR("a/b"), "a/b" },
		{ "usual controls", STR("\n\r\t"), "\\n\\r\\t" },
		{ "NUL", STR("a\0b"), "a\\u0000b" },
		{ "escape", STR("\x1b[0m"), "\\u001b[0m" },
		{ "backspace and DEL", STR("\b\x7f"), "\\u0008\\u007f" },
		{ "two bytes", STR("\xc3\xa9"), "\xc3\xa9" },
		{ "three bytes", STR("\xe2\x82\xac"), "\xe2\x82\xac" },
		{ "four bytes", STR("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80" },
		{ "first and last of each length",
		  STR("\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
		  "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
		{ "around the surrogates", STR("\xed\x9f\xbf\xee\x80\x80"),
		  "\xed\x9f\xbf\xee\x80\x80" },
		{ "lone continuation", STR("a\x80z"), "a" FFFD "z" },
		{ "lone lead at the end", STR("a\xe2"), "a" FFFD },
		{ "cut sequence: one per byte", STR("\xe2\x82"), FFFD FFFD },
		{ "cut by plain text", STR("\xf0\x9f\x98z"), FFFD FFFD FFFD "z" },
		{ "overlong slash", STR("\xc0\xaf"), FFFD FFFD },
		{ "overlong two", STR("\xc1\xbf"), FFFD FFFD },
		{ "overlong three", STR("\xe0\x9f\xbf"), FFFD FFFD FFFD },
		{ "overlong four", STR("\xf0\x8f\xbf\xbf"), FFFD FFFD FFFD FFFD },
		{ "surrogate", STR("\xed\xa0\x80"), FFFD FFFD FFFD },
		{ "above U+10FFFF", STR("\xf4\x90\x80\x80"), FFFD FFFD FFFD FFFD },
		{ "five byte form", STR("\xf8\x88\x80\x80\x80"), FFFD FFFD FFFD FFFD FFFD },
		{ "fe and ff", STR("\xfe\xff"), FFFD FFFD },
		{ "good after bad", STR("\xe2\xc3\xa9"), FFFD "\xc3\xa9" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(1000), want = BUF_INIT(1000);

		json_put_string(&b, cases[i].in.p, cases[i].in.n);
		buf_printf(&want, "\"%s\"", cases[i].out);
		cr_expect_str_eq(b.data, want.data, "%s: %s", cases[i].name, b.data);
	}
}

/* The fast path looks at eight bytes at a time: every byte value at every place in the eight. */
Test(json_write, every_byte_is_treated_alike_at_every_alignment)
{
	for (unsigned c = 0; c < 256; c++) {
		CLEANUP_BUF struct buf alone = BUF_INIT(100);
		char byte = (char)c;

		json_put_string(&alone, &byte, 1);
		for (size_t at = 0; at < 17; at++) {
			CLEANUP_BUF struct buf b = BUF_INIT(1000), want = BUF_INIT(1000);
			char text[24];

			memset(text, 'x', sizeof(text));
			text[at] = byte;
			json_put_string(&b, text, sizeof(text));
			buf_putc(&want, '"');
			buf_put(&want, text, at);
			buf_put(&want, alone.data + 1, alone.len - 2);
			buf_put(&want, text + at + 1, sizeof(text) - at - 1);
			buf_putc(&want, '"');
			cr_assert_str_eq(b.data, want.data, "byte 0x%02x at %zu", c, at);
		}
	}
}

/* What is written is read back: the writer's own idea of UTF-8 against jansson's. */
Test(json_write, all_two_and_three_byte_texts_are_valid_json)
{
	static const char tails[] = { 'a',    '\x7f', '\x80', '\x8f', '\x90',
		                      '\x9f', '\xa0', '\xbf', '\xc0', '\xff' };

	for (unsigned lead = 0; lead < 256; lead++) {
		CLEANUP_BUF struct buf b = BUF_INIT(1 * MIB);
		struct json_reader in = { 0 };
		struct err e = { 0 };

		buf_putc(&b, '[');
		for (size_t i = 0; i < sizeof(tails); i++) {
			for (size_t k = 0; k < sizeof(tails); k++) {
				const char text[] = { (char)lead, tails[i], tails[k], '\x80' };

				json_put_string(&b, text, sizeof(text));
				buf_putc(&b, ',');
			}
		}
		buf_puts(&b, "0]");
		cr_assert(open_text(&in, b.data, &e) == 0, "lead 0x%02x: %s", lead, e.msg);
		json_reader_done(&in);
	}
}

Test(json_write, the_maximum_of_the_buffer_holds)
{
	CLEANUP_BUF struct buf b = BUF_INIT(10);
	char text[64];

	memset(text, '\n', sizeof(text));
	json_put_string(&b, text, sizeof(text));
	cr_expect(buf_finish(&b) == -EFBIG);
}

Test(json_read, broken_documents_are_refused)
{
	static const struct {
		const char *name, *text, *msg;
	} cases[] = {
		{ "empty", "", "not valid JSON" },
		{ "blank", "  ", "not valid JSON" },
		{ "cut", "{\"a\":", "not valid JSON" },
		{ "trailing text", "{} x", "not valid JSON" },
		{ "two documents", "{}{}", "not valid JSON" },
		{ "comment", "{/**/}", "not valid JSON" },
		{ "trailing comma", "{\"a\":1,}", "not valid JSON" },
		{ "single quotes", "{'a':1}", "not valid JSON" },
		{ "NaN", "{\"a\":NaN}", "not valid JSON" },
		{ "leading zero", "{\"a\":01}", "not valid JSON" },
		{ "huge integer", "{\"a\":99999999999999999999}", "not valid JSON" },
		{ "huge real", "{\"a\":1e999}", "not valid JSON" },
		{ "bad escape", "{\"a\":\"\\x\"}", "not valid JSON" },
		{ "lone surrogate", "{\"a\":\"\\ud800\"}", "not valid JSON" },
		{ "bad UTF-8", "{\"a\":\"\xff\"}", "not valid JSON" },
		{ "raw newline in string", "{\"a\":\"\n\"}", "not valid JSON" },
		{ "byte order mark", "\xef\xbb\xbf{}", "not valid JSON" },
		{ "NUL in a key", "{\"a\\u0000b\":1}", "not valid JSON" },
		{ "duplicate key", "{\"a\":1,\"a\":1}", "duplicate" },
		{ "duplicate key below", "{\"b\":[{\"a\":1,\"a\":1}]}", "duplicate" },
		{ "duplicate by escape", "{\"a\":1,\"\\u0061\":1}", "duplicate" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct json_reader in = { 0 };
		struct err e = { 0 };

		cr_expect(open_text(&in, cases[i].text, &e) < 0, "%s", cases[i].name);
		cr_expect(e.code == ERR_INVALID, "%s", cases[i].name);
		cr_expect(strstr(e.msg, cases[i].msg), "%s: %s", cases[i].name, e.msg);
		cr_expect(str_has_prefix(e.msg, "doc: "), "%s: %s", cases[i].name, e.msg);
		cr_expect(in.root == NULL);
	}
}

Test(json_read, the_bounds_hold)
{
	static const struct json_bounds tight = { .bytes = 20, .depth = 2, .values = 5 };
	static const struct {
		const char *text, *msg; /* NULL: taken */
	} cases[] = {
		{ "{\"a\":[1,2]}", NULL },
		{ "{\"a\":\"[[[[[[[\"}", NULL },
		{ "{\"a\":\",,,\\\",,,\"}", NULL },
		{ "[[[]]]", "nested deeper than 2" },
		{ "[1,2,3,4,5,6]", "more than 5 values" },
		{ "[                    ]", "22 bytes of JSON, at most 20" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct json_reader in = { 0 };
		struct err e = { 0 };
		int r = json_reader_init(&in, "doc", cases[i].text, strlen(cases[i].text), &tight,
		                         &e);

		cr_expect((r == 0) == !cases[i].msg, "%s: %s", cases[i].text, e.msg);
		cr_expect(!cases[i].msg || strstr(e.msg, cases[i].msg), "%s", e.msg);
		json_reader_done(&in);
	}
}

Test(json_read, depth_is_bounded_even_when_more_is_asked_for)
{
	static const struct json_bounds deep = { .bytes = 1 * MIB, .depth = 5000, .values = 10000 };
	struct json_reader in = { 0 };
	struct err e = { 0 };
	char text[2 * 33];

	memset(text, '[', 33);
	memset(text + 33, ']', 33);
	cr_expect(json_reader_init(&in, "doc", text, sizeof(text), &deep, &e) < 0);
	cr_expect(strstr(e.msg, "deeper than 32"), "%s", e.msg);
	cr_expect(json_reader_init(&in, "doc", text + 1, sizeof(text) - 2, &deep, &e) == 0);
	json_reader_done(&in);
}

Test(json_read, errors_name_the_path)
{
	static const struct {
		const char *text, *msg;
	} cases[] = {
		{ "[]", "doc: must be an object" },
		{ "{\"o\":1}", "o: must be an object" },
		{ "{\"o\":{\"u\":\"x\"}}", "o.u: must be an integer" },
		{ "{\"o\":{\"u\":1.0}}", "o.u: must be an integer" },
		{ "{\"o\":{\"u\":-1}}", "o.u: must not be negative" },
		{ "{\"o\":{\"u\":null}}", "o.u: must be an integer" },
		{ "{\"o\":{\"u\":true}}", "o.u: must be an integer" },
		{ "{\"o\":{\"m\":\"1\"}}", "o.m: must be a number" },
		{ "{\"o\":{\"m\":-0.5}}", "o.m: must not be negative" },
		{ "{\"o\":{\"m\":1e300}}", "o.m: is too large" },
		{ "{\"o\":{\"b\":1}}", "o.b: must be true or false" },
		{ "{\"o\":{\"x\":1}}", "o.x: unknown field" },
		{ "{\"O\":{}}", "O: unknown field" },
		{ "{\"a\\nb\":1}", "a?b: unknown field" },
		{ "{\"l\":{}}", "l: must be an array" },
		{ "{\"l\":[\"a\",2]}", "l[1]: must be a string" },
		{ "{\"l\":[\"a\",\"b\",\"c\",\"d\"]}", "l: 4 elements, at most 3" },
		{ "{\"l\":[\"123456\"]}", "l[0]: 6 bytes, at most 5" },
		{ "{\"l\":[\"a\\u0000\"]}", "l[0]: must not hold a NUL" },
		{ "{\"l\":[\"a\", null]}", "l[1]: must be a string" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct json_reader in = { 0 };
		struct err e = { 0 };
		struct json_node root, o, l, n;
		struct str s;
		uint64_t u;
		size_t count;
		bool b;

		cr_assert(open_text(&in, cases[i].text, &e) == 0, "%s", e.msg);
		root = json_root(&in);
		if (json_node_object(&root)) {
			o = json_member(&root, "o");
			if (json_node_object(&o)) {
				n = json_member(&o, "u");
				(void)json_node_u64(&n, &u);
				n = json_member(&o, "m");
				(void)json_node_milli(&n, &u);
				n = json_member(&o, "b");
				(void)json_node_bool(&n, &b);
				json_node_end(&o);
			}
			l = json_member(&root, "l");
			if (json_node_array(&l, 3, &count)) {
				for (size_t k = 0; k < count; k++) {
					n = json_element(&l, k);
					(void)json_node_text(&n, 5, &s);
				}
			}
			json_node_end(&root);
		}
		cr_expect(json_reader_finish(&in) < 0, "%s", cases[i].text);
		cr_expect(str_has_prefix(e.msg, cases[i].msg), "%s: %s", cases[i].text, e.msg);
		json_reader_done(&in);
	}
}

Test(json_read, a_null_is_answered_with_a_remedy)
{
	struct json_reader in = { 0 };
	struct err e = { 0 };
	struct json_node root, n;
	uint64_t u;

	cr_assert(open_text(&in, "{\"u\":null}", &e) == 0);
	root = json_root(&in);
	n = json_member(&root, "u");
	cr_expect(!json_node_u64(&n, &u));
	cr_expect(strstr(e.remedy, "leave the field out"));
	json_reader_done(&in);
}

Test(json_read, unknown_fields_are_answered_with_the_known_ones)
{
	struct json_reader in = { 0 };
	struct err e = { 0 };
	struct json_node root;

	cr_assert(open_text(&in, "{\"timeout\":1}", &e) == 0);
	root = json_root(&in);
	(void)json_member(&root, "timeout_ms");
	(void)json_member(&root, "code");
	json_node_end(&root);
	cr_expect_str_eq(e.remedy, "known: timeout_ms code");
	json_reader_done(&in);
}

Test(json_read, the_first_error_stays_and_later_fields_are_absent)
{
	struct json_reader in = { 0 };
	struct err e = { 0 };
	struct json_node root, a, b;
	uint64_t u = 7;

	cr_assert(open_text(&in, "{\"a\":\"x\",\"b\":null,\"c\":5}", &e) == 0);
	root = json_root(&in);
	a = json_member(&root, "a");
	b = json_member(&root, "b");
	cr_expect(!json_node_u64(&a, &u));
	cr_expect(!json_node_u64(&b, &u));
	a = json_member(&root, "c");
	cr_expect(!json_node_u64(&a, &u));
	cr_expect(u == 7);
	json_node_end(&root);
	cr_expect_str_eq(e.msg, "a: must be an integer");
	cr_expect_str_eq(e.remedy, "");
	cr_expect(json_reader_finish(&in) == -EINVAL);
	json_reader_done(&in);
}

Test(json_read, an_error_pointer_is_not_needed)
{
	struct json_reader in = { 0 };
	struct json_node root;

	cr_expect(open_text(&in, "{", NULL) < 0);
	cr_assert(open_text(&in, "{\"a\":1}", NULL) == 0);
	root = json_root(&in);
	json_node_end(&root);
	cr_expect(json_reader_finish(&in) < 0);
	json_reader_done(&in);
}

Test(json_read, numbers_become_thousandths_rounded)
{
	static const struct {
		const char *text;
		uint64_t milli;
	} cases[] = {
		{ "[0.5]", 500 }, { "[2]", 2000 }, { "[0.29]", 290 }, { "[1.0005]", 1001 },
		{ "[0]", 0 },     { "[1e-9]", 0 }, { "[0.1]", 100 },  { "[64.125]", 64125 },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct json_reader in = { 0 };
		struct json_node root, n;
		uint64_t v = 0;

		cr_assert(open_text(&in, cases[i].text, NULL) == 0);
		root = json_root(&in);
		n = json_element(&root, 0);
		cr_expect(json_node_milli(&n, &v));
		cr_expect(v == cases[i].milli, "%s is %" PRIu64, cases[i].text, v);
		json_reader_done(&in);
	}
}

Test(json_read, bytes_may_hold_nul_where_asked)
{
	struct json_reader in = { 0 };
	struct json_node root, n;
	struct str s;

	cr_assert(open_text(&in, "[\"a\\u0000b\"]", NULL) == 0);
	root = json_root(&in);
	n = json_element(&root, 0);
	cr_expect(json_node_bytes(&n, 3, &s));
	cr_expect(s.n == 3 && memcmp(s.p, "a\0b", 4) == 0);
	json_reader_done(&in);
}

Test(json_read, base64_is_decoded_strictly)
{
	static const struct {
		const char *text;
		struct str out; /* p NULL: refused */
	} cases[] = {
		{ "", STR("") },
		{ "Zg==", STR("f") },
		{ "Zm8=", STR("fo") },
		{ "Zm9v", STR("foo") },
		{ "Zm9vYg==", STR("foob") },
		{ "AP/+", STR("\0\xff\xfe") },
		{ "AAAA", STR("\0\0\0") },
		{ "Zg", { NULL, 0 } },
		{ "Zg=", { NULL, 0 } },
		{ "Z===", { NULL, 0 } },
		{ "====", { NULL, 0 } },
		{ "=", { NULL, 0 } },
		{ "Zh==", { NULL, 0 } }, /* bits that nobody asked for */
		{ "Zm9=", { NULL, 0 } },
		{ "Zm9v\\n", { NULL, 0 } },
		{ " m9v", { NULL, 0 } },
		{ "Zg==Zg==", { NULL, 0 } },
		{ "_-__", { NULL, 0 } },
		{ "Zm\\u0000v", { NULL, 0 } },
		{ "AAAAAAAAAAAAAAAA", { NULL, 0 } }, /* 12 bytes, 10 allowed */
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(1000);
		CLEANUP_BUF struct buf text = BUF_INIT(100);
		struct json_reader in = { 0 };
		struct json_node root, n;
		struct str s = { 0 };

		buf_printf(&text, "[\"%s\"]", cases[i].text);
		cr_assert(open_text(&in, text.data, NULL) == 0, "%s", cases[i].text);
		root = json_root(&in);
		n = json_element(&root, 0);
		cr_expect(json_node_base64(&n, 10, &a, &s) == (cases[i].out.p != NULL), "%s",
		          cases[i].text);
		cr_expect(s.n == cases[i].out.n &&
		                  memcmp(s.p ? s.p : "", cases[i].out.p ? cases[i].out.p : "",
		                         s.n) == 0,
		          "%s", cases[i].text);
		json_reader_done(&in);
	}
}

Test(json_read, base64_beyond_the_arena_is_a_limit_not_a_wrong_request)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(0);
	struct json_reader in = { 0 };
	struct json_node root, n;
	struct err e = { 0 };
	struct str s;

	cr_assert(open_text(&in, "[\"Zm9v\"]", &e) == 0);
	root = json_root(&in);
	n = json_element(&root, 0);
	cr_expect(!json_node_base64(&n, 10, &a, &s));
	cr_expect(e.code == ERR_LIMIT);
	cr_expect(json_reader_finish(&in) == -ENOMEM);
	json_reader_done(&in);
}

Test(json_read, entries_of_a_map_are_walked_once_each)
{
	struct json_reader in = { 0 };
	struct json_node root, n;
	unsigned seen = 0;
	size_t count;
	void *iter = NULL;
	uint64_t v;

	cr_assert(open_text(&in, "{\"a\":1,\"b\":2,\"c\":4}", NULL) == 0);
	root = json_root(&in);
	cr_expect(json_node_map(&root, 3, &count) && count == 3);
	while (json_next_entry(&root, &iter, &n)) {
		cr_assert(json_node_u64(&n, &v));
		seen += (unsigned)v;
	}
	cr_expect(seen == 7);
	cr_expect(!json_node_map(&root, 2, &count));
	json_reader_done(&in);
}
