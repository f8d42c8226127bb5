/* SPDX-License-Identifier: Apache-2.0 */
/* What a box says about its run: anything at all can come. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>

#include "base/json.h"
#include "exec/report.h"

#define CLEANUP_JSON CLEANUP(json_decrefp)
#define HEADER       4

static struct report rep;
static struct result res;

static void setup(void)
{
	report_init(&rep);
	result_init(&res);
}

static void teardown(void)
{
	report_free(&rep);
	result_done(&res);
}

TestSuite(report, .init = setup, .fini = teardown, .timeout = 60);

/* As after teardown and setup, for the next row of a table. */
static void again(void)
{
	teardown();
	setup();
}

static void add(const char *json, size_t n)
{
	CLEANUP_BUF struct buf b = BUF_INIT(n + HEADER);

	cr_assert(report_frame(&b, json, n) == 0);
	report_add(&rep, b.data, b.len, &res);
}

static void add_text(const char *json)
{
	add(json, strlen(json));
}

/* A length that need not be true, and no more. */
static void add_header(uint32_t n)
{
	const char header[HEADER] = { (char)n, (char)(n >> 8), (char)(n >> 16), (char)(n >> 24) };

	report_add(&rep, header, sizeof(header), &res);
}

/* The outputs as a result shows them; the caller releases them. */
static json_t *outputs(void)
{
	CLEANUP_BUF struct buf b = BUF_INIT(RESULT_OUTPUTS_MAX + 2);
	json_t *j;

	buf_putc(&b, '[');
	buf_put(&b, res.outputs.data, res.outputs.len);
	buf_putc(&b, ']');
	cr_assert(buf_finish(&b) == 0);
	j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(j, "%.200s", b.data);
	return j;
}

static void expect_nothing(const char *what)
{
	cr_expect(!rep.done && !rep.ready && rep.n_outputs == 0, "%.60s", what);
	cr_expect(!res.outputs.len && !res.value && !res.exception.type, "%.60s", what);
}

Test(report, a_frame_is_four_bytes_of_length_and_the_text)
{
	static char text[0x10203];
	CLEANUP_BUF struct buf b = BUF_INIT(MIB), small = BUF_INIT(5);

	memset(text, 'x', sizeof(text));
	cr_assert(report_frame(&b, text, sizeof(text)) == 0);
	cr_expect(b.len == HEADER + sizeof(text));
	cr_expect(memcmp(b.data, "\x03\x02\x01\x00xx", 6) == 0);
	cr_assert(report_frame(&b, "", 0) == 0);
	cr_expect(memcmp(b.data + b.len - 5, "x\0\0\0\0", 5) == 0);
	cr_expect(report_frame(&small, "{}", 2) == -EFBIG);
}

/* Everything that a run can say. */
static void put_stream(struct buf *out)
{
	static const char *const frames[] = {
		"{\"ready\":true}",
		"{\"output\":{\"text/plain\":\"one\"}}",
		"{\"output\":{\"text/plain\":\"two\"}}",
		("{\"done\":{\"exit\":3,\"value\":\"v\",\"error\":{\"type\":\"T\",\"message\":"
		 "\"m\","
		 "\"traceback\":\"t\\nb\",\"line\":7}}}"),
	};

	for (size_t i = 0; i < ELEMENTSOF(frames); i++)
		cr_assert(report_frame(out, frames[i], strlen(frames[i])) == 0);
}

static void expect_stream(size_t first, size_t step)
{
	static const char *const text = "{\"text/plain\":\"one\"},{\"text/plain\":\"two\"}";

	cr_assert(rep.done && rep.ready && !rep.broken, "%zu, then %zu", first, step);
	cr_expect(rep.exit_code == 3 && rep.n_outputs == 2);
	cr_expect_str_eq(res.outputs.data, text, "%zu, then %zu", first, step);
	cr_expect_str_eq(res.value, "v");
	cr_expect_str_eq(res.exception.type, "T");
	cr_expect_str_eq(res.exception.message, "m");
	cr_expect_str_eq(res.exception.traceback, "t\nb");
	cr_expect(res.exception.line == 7);
}

Test(report, a_stream_may_be_cut_anywhere)
{
	CLEANUP_BUF struct buf b = BUF_INIT(KIB);
	const char *stream;
	size_t n;

	put_stream(&b);
	stream = b.data;
	n = b.len;
	for (size_t cut = 0; cut <= n; cut++) {
		report_add(&rep, stream, cut, &res);
		cr_expect(rep.done == (cut == n), "done after %zu of %zu", cut, n);
		report_add(&rep, stream + cut, n - cut, &res);
		expect_stream(cut, n - cut);
		again();
	}
	for (size_t step = 1; step < 40; step++) {
		for (size_t i = 0; i < n; i += step)
			report_add(&rep, stream + i, MIN2(step, n - i), &res);
		expect_stream(0, step);
		again();
	}
}

Test(report, no_bytes_change_nothing)
{
	report_add(&rep, "", 0, &res);
	report_add(&rep, "\x02", 1, &res);
	report_add(&rep, "", 0, &res);
	cr_expect(!rep.broken && rep.bytes.len == 1);
	expect_nothing("no bytes");
}

Test(report, a_length_is_believed_up_to_the_bound)
{
	static const struct {
		uint32_t length;
		bool broken;
	} rows[] = {
		{ 0, true }, /* nothing is no object */
		{ 1, false },
		{ REPORT_FRAME_MAX - 1, false },
		{ REPORT_FRAME_MAX, false },
		{ REPORT_FRAME_MAX + 1, true },
		{ INT32_MAX, true },
		{ UINT32_MAX, true },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		add_header(rows[i].length);
		cr_expect(rep.broken == rows[i].broken, "%u", rows[i].length);
		cr_expect(rep.bytes.cap < 64 * KIB, "%u: room for a promise", rows[i].length);
		expect_nothing("a header");
		again();
	}
}

Test(report, a_length_that_lies_takes_nothing)
{
	static const char done[] = "{\"done\":{\"exit\":0}}";

	add_header(sizeof(done)); /* one more than there is */
	report_add(&rep, done, sizeof(done) - 1, &res);
	cr_expect(!rep.broken);
	expect_nothing("too long");
	again();
	add_header(sizeof(done) - 2);
	report_add(&rep, done, sizeof(done) - 1, &res);
	cr_expect(rep.broken);
	expect_nothing("too short");
}

/* Spaces make the largest frame; it comes in pieces, as from a socket. */
Test(report, the_largest_frame_is_taken)
{
	static const char text[] = "{\"done\":{\"exit\":9}}";
	static char piece[MIB];
	size_t left = REPORT_FRAME_MAX;

	add_header(REPORT_FRAME_MAX);
	memset(piece, ' ', sizeof(piece));
	memcpy(piece, text, sizeof(text) - 1);
	for (; left; left -= sizeof(piece)) {
		cr_assert(!rep.done && !rep.broken);
		report_add(&rep, piece, sizeof(piece), &res);
		memset(piece, ' ', sizeof(text));
	}
	cr_expect(rep.done && !rep.broken && rep.exit_code == 9);
}

static const char *const no_frames[] = {
	" ",
	"null",
	"true",
	"0",
	"\"done\"",
	"[]",
	"[{\"done\":{}}]",
	"{",
	"}",
	"{}}",
	"{}{}",
	"{} x",
	"{\"done\":{}",
	"{'done':{}}",
	"{done:{}}",
	"{\"done\":{},}",
	"{\"done\" {}}",
	"{\"done\":{}}\xef\xbb\xbf",
	"\xef\xbb\xbf{\"done\":{}}",
	"{\"done\":{},\"done\":{}}",
	"{\"done\":{\"exit\":0,\"exit\":1}}",
	"{\"done\":{\"exit\":9223372036854775808}}",
	"{\"\\u0000done\":{}}",
	"{\"done\":{\"value\":\"\\ud800\"}}",
	"{\"done\":{\"value\":\"\\udc00\\ud800\"}}",
	"{\"done\":{\"value\":\"\xff\"}}",
	"{\"done\":{\"value\":\"\xc0\xaf\"}}",
	"{\"done\":{\"value\":\"\xed\xa0\x80\"}}",
	"{\"done\":{\"value\":\"\xf4\x90\x80\x80\"}}",
	"{\"done\":{\"value\":\"\xe2\x82\"}}",
	"{\"done\":{\"value\":\"a\nb\"}}",
	"{\"\xff\":1}",
};

Test(report, after_what_is_no_frame_nothing_is_heard)
{
	for (size_t i = 0; i < ELEMENTSOF(no_frames); i++) {
		add_text(no_frames[i]);
		cr_expect(rep.broken, "%s", no_frames[i]);
		add_text("{\"ready\":true}");
		add_text("{\"output\":{\"text/plain\":\"x\"}}");
		add_text("{\"done\":{\"exit\":0,\"value\":\"v\"}}");
		cr_expect(rep.bytes.len == 0, "%s: kept", no_frames[i]);
		expect_nothing(no_frames[i]);
		again();
	}
}

/* A runner passes on what a program shows. */
static const char *const bad_outputs[] = {
	"{\"output\":{\"a\":\"x\",\"a\":\"y\"}}",
	"{\"output\":{\"a\":[{\"b\":1,\"b\":2}]}}",
	"{\"output\":{\"a\":NaN}}",
	"{\"output\":{\"a\":-Infinity}}",
	"{\"output\":{\"a\":1e999}}",
	"{\"output\":{\"a\":01}}",
	"{\"output\":{\"a\":1180591620717411303424}}",
	"{\"output\":{\"a\\u0000\":1}}",
	"{\"output\":{\"a\":\"\\ud800\"}}",
	"{\"output\":",
};

Test(report, an_output_that_cannot_be_read_is_dropped_and_the_rest_heard)
{
	for (size_t i = 0; i < ELEMENTSOF(bad_outputs); i++) {
		add_text(bad_outputs[i]);
		cr_expect(!rep.broken && rep.unreadable, "%s", bad_outputs[i]);
		cr_expect(report_dropped(&rep) != NULL);
		expect_nothing(bad_outputs[i]);
		add_text("{\"output\":{\"text/plain\":\"x\"}}");
		add_text("{\"done\":{\"exit\":3,\"value\":\"v\"}}");
		cr_expect(rep.n_outputs == 1 && rep.done && rep.exit_code == 3, "%s",
		          bad_outputs[i]);
		again();
	}
	cr_expect(!report_dropped(&rep));
}

/* Else its text would not be what lies between the first colon and the last brace. */
Test(report, an_output_has_no_other_member_beside_it)
{
	static const char *const rows[] = {
		"{\"output\":{},\"x\":[1]}",
		"{\"a:b\":1,\"output\":{\"text/plain\":\"x\"}}",
		"{\"output\":{\"text/plain\":\"x\"},\"ready\":null}",
		"{\"done\":null,\"output\":{\"text/plain\":\"x\"}}",
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		add_text(rows[i]);
		cr_expect(!rep.broken && rep.n_outputs == 0 && res.outputs.len == 0, "%s", rows[i]);
	}
}

/* In the result it is one level deeper than in the frame. */
Test(report, an_output_is_no_deeper_than_a_result_may_be)
{
	for (unsigned depth = JSON_DEPTH_MAX - 4; depth < JSON_DEPTH_MAX; depth++) {
		static const struct json_bounds of_a_result = { .bytes = KIB,
			                                        .depth = JSON_DEPTH_MAX,
			                                        .values = KIB };
		CLEANUP_BUF struct buf b = BUF_INIT(KIB), whole = BUF_INIT(KIB);
		struct json_reader in;

		buf_puts(&b, "{\"output\":{\"a\":");
		for (unsigned k = 0; k < depth; k++)
			buf_putc(&b, '[');
		for (unsigned k = 0; k < depth; k++)
			buf_putc(&b, ']');
		buf_puts(&b, "}}");
		add(b.data, b.len);
		if (rep.n_outputs) {
			buf_puts(&whole, "{\"outputs\":[");
			buf_put(&whole, res.outputs.data, res.outputs.len);
			buf_puts(&whole, "]}");
			cr_assert(json_reader_init(&in, "it", whole.data, whole.len, &of_a_result,
			                           NULL) == 0,
			          "%u", depth);
			json_reader_done(&in);
		}
		cr_expect(rep.unreadable == (rep.n_outputs == 0), "%u", depth);
		again();
	}
}

Test(report, all_frames_together_have_a_bound)
{
	rep.taken = RESULT_OUTPUTS_MAX + REPORT_FRAME_MAX - 7;
	add_text("{\"x\":1}");
	cr_expect(!rep.broken, "the last one");
	add_text("{\"x\":1}");
	cr_expect(rep.broken);
}

Test(report, after_what_is_no_frame_the_same_piece_is_not_heard)
{
	static const char *const piece[] = { "rubbish", "{\"ready\":true}", "{\"done\":{}}" };
	CLEANUP_BUF struct buf b = BUF_INIT(KIB);

	for (size_t i = 0; i < ELEMENTSOF(piece); i++)
		cr_assert(report_frame(&b, piece[i], strlen(piece[i])) == 0);
	report_add(&rep, b.data, b.len, &res);
	cr_expect(rep.broken);
	expect_nothing("rubbish first");
}

Test(report, a_nul_between_the_words_is_no_frame)
{
	static const char text[] = "{\"done\":{}}\0";

	add(text, sizeof(text) - 1);
	cr_expect(rep.broken);
	again();
	add("{\"done\"\0:{}}", 12);
	cr_expect(rep.broken);
	expect_nothing("a NUL");
}

/* Deeper than the stack may allow; the closing half is there, so that only depth is wrong. */
Test(report, deep_nesting_is_refused)
{
	static const char *const pairs[] = { "[]", "{}" };

	for (size_t i = 0; i < ELEMENTSOF(pairs); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(8 * MIB);
		const unsigned depth = 200000;

		buf_puts(&b, "{\"output\":{\"a\":");
		for (unsigned k = 0; k < depth; k++)
			buf_puts(&b, i ? "{\"a\":" : "[");
		buf_puts(&b, "1");
		for (unsigned k = 0; k < depth; k++)
			buf_putc(&b, pairs[i][1]);
		buf_puts(&b, "}}");
		cr_assert(buf_finish(&b) == 0);
		add(b.data, b.len);
		cr_expect(rep.unreadable && !rep.broken, "%s", pairs[i]);
		expect_nothing(pairs[i]);
		again();
	}
}

Test(report, an_object_without_meaning_says_nothing)
{
	static const char *const rows[] = {
		"{}",
		"{\"hello\":1}",
		"{\"Done\":{\"exit\":0},\"READY\":true}",
		"{\"ready\":1}",
		"{\"ready\":\"true\"}",
		"{\"ready\":false}",
		"{\"ready\":null,\"done\":null,\"output\":null}",
		"{\"output\":\"text\"}",
		"{\"output\":[{\"text/plain\":\"x\"}]}",
		"{\"output\":1}",
		"{\"done\":[]}",
		"{\"done\":true}",
		"{\"done\":\"exit\"}",
		"{\"done\":0}",
		"{\"exit\":0,\"value\":\"v\",\"error\":{\"type\":\"T\"}}",
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++)
		add_text(rows[i]);
	cr_expect(!rep.broken);
	expect_nothing("no meaning");
	add_text("{\"done\":{\"exit\":1}}");
	cr_expect(rep.done && rep.exit_code == 1);
}

Test(report, an_exit_status_is_one_byte_as_the_kernel_s)
{
	static const struct {
		const char *exit;
		int code; /* -1: anything that a status can be */
	} rows[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "255", 255 },
		{ "256", 0 },
		{ "259", 3 },
		{ "-1", 255 },
		{ "9223372036854775807", 255 },
		{ "-9223372036854775808", 0 },
		{ "2.5", -1 },
		{ "true", -1 },
		{ "null", -1 },
		{ "\"7\"", -1 },
		{ "[]", -1 },
		{ "{}", -1 },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(KIB);

		buf_printf(&b, "{\"done\":{\"exit\":%s}}", rows[i].exit);
		add(b.data, b.len);
		cr_expect(rep.done == (rows[i].code >= 0), "%s", rows[i].exit);
		cr_expect(rep.exit_code >= 0 && rep.exit_code <= 255, "%s", rows[i].exit);
		cr_expect(rows[i].code < 0 || rep.exit_code == rows[i].code, "%s: %d", rows[i].exit,
		          rep.exit_code);
		again();
	}
}

Test(report, a_value_is_text_or_none)
{
	static const struct {
		const char *json, *value;
	} rows[] = {
		{ "\"\"", "" },
		{ "\"42\"", "42" },
		{ "\"\\u20ac \\ud83d\\ude00 \\\"\"", "\xe2\x82\xac \xf0\x9f\x98\x80 \"" },
		{ "null", NULL },
		{ "42", NULL },
		{ "true", NULL },
		{ "[\"x\"]", NULL },
		{ "{\"x\":\"y\"}", NULL },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(KIB);

		buf_printf(&b, "{\"done\":{\"exit\":0,\"value\":%s}}", rows[i].json);
		add(b.data, b.len);
		cr_expect(rep.done && !rep.broken);
		cr_expect(!res.value == !rows[i].value, "%s", rows[i].json);
		cr_expect(!res.value || streq(res.value, rows[i].value), "%s", res.value);
		again();
	}
}

Test(report, an_exception_s_line_is_a_line_or_unknown)
{
	static const struct {
		const char *json;
		int line;
	} rows[] = {
		{ "1", 1 },          { "9999999", 9999999 },
		{ "10000000", 0 },   { "0", 0 },
		{ "-1", 0 },         { "4294967297", 0 },
		{ "2147483648", 0 }, { "3.0", 0 },
		{ "\"3\"", 0 },      { "null", 0 },
		{ "[3]", 0 },        { "9223372036854775807", 0 },
		{ "true", 0 },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(KIB);

		buf_printf(&b, "{\"done\":{\"exit\":1,\"error\":{\"type\":\"T\",\"line\":%s}}}",
		           rows[i].json);
		add(b.data, b.len);
		cr_assert(res.exception.type, "%s", rows[i].json);
		cr_expect(res.exception.line == rows[i].line, "%s: %d", rows[i].json,
		          res.exception.line);
		again();
	}
}

/* Whoever prints an exception relies on all three texts. */
Test(report, an_exception_has_all_its_texts_whatever_was_said)
{
	static const char *const rows[] = {
		"{}",
		"{\"type\":1,\"message\":null,\"traceback\":[]}",
		"{\"type\":{\"type\":\"x\"},\"message\":true,\"traceback\":2.5}",
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(KIB);

		buf_printf(&b, "{\"done\":{\"exit\":1,\"error\":%s}}", rows[i]);
		add(b.data, b.len);
		cr_assert(res.exception.type && res.exception.message && res.exception.traceback);
		cr_expect_str_eq(res.exception.type, "");
		cr_expect_str_eq(res.exception.message, "");
		cr_expect_str_eq(res.exception.traceback, "");
		again();
	}
}

Test(report, what_is_no_object_is_no_exception)
{
	static const char *const rows[] = { "null", "\"ValueError\"", "[]", "true", "1" };

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(KIB);

		buf_printf(&b, "{\"done\":{\"exit\":1,\"error\":%s}}", rows[i]);
		add(b.data, b.len);
		cr_expect(rep.done && rep.exit_code == 1);
		cr_expect(!res.exception.type && !res.exception.message, "%s", rows[i]);
		again();
	}
}

Test(report, done_is_the_last_word)
{
	static const char *const piece[] = {
		"{\"done\":{\"exit\":1,\"value\":\"first\"}}",
		"{\"output\":{\"text\":\"late\"}}",
		"{\"ready\":true}",
		"no frame",
	};
	CLEANUP_BUF struct buf b = BUF_INIT(KIB);
	size_t kept;

	for (size_t i = 0; i < ELEMENTSOF(piece); i++)
		cr_assert(report_frame(&b, piece[i], strlen(piece[i])) == 0);
	report_add(&rep, b.data, b.len, &res);
	kept = rep.bytes.len;
	add_text("{\"output\":{\"text\":\"late\"}}");
	add_text("{\"ready\":true}");
	add_text("{\"done\":{\"exit\":0,\"value\":\"second\",\"error\":{\"type\":\"T\"}}}");
	cr_expect(rep.bytes.len == kept, "what nobody will read is not kept");
	cr_expect(rep.done && !rep.broken && !rep.ready);
	cr_expect(rep.exit_code == 1 && rep.n_outputs == 0 && res.outputs.len == 0);
	cr_expect_str_eq(res.value, "first");
	cr_expect(!res.exception.type);
}

Test(report, one_frame_says_one_thing)
{
	add_text("{\"ready\":true,\"output\":{\"text/plain\":\"x\"}}");
	cr_expect(rep.ready && !rep.done && rep.n_outputs == 0 && !rep.broken);
	add_text("{\"done\":{\"exit\":2},\"output\":{\"text/plain\":\"x\"}}");
	cr_expect(rep.done && rep.exit_code == 2 && rep.n_outputs == 0);
}

Test(report, a_nul_in_a_text_is_a_blank)
{
	add_text("{\"done\":{\"exit\":0,\"value\":\"a\\u0000b\"}}");
	cr_assert(rep.done && res.value);
	cr_expect_str_eq(res.value, "a b");
}

Test(report, an_output_is_kept_as_it_was_said)
{
	static const char bundle[] =
		"{\"text/plain\":\"<\\u20ac>\\n\\\"\\\\\",\"image/png\":\"AAEC\","
		"\"application/json\":{\"b\":[1,-2.5,true,null,{}],\"a\":\"\"}}";
	CLEANUP_BUF struct buf b = BUF_INIT(KIB);
	CLEANUP_JSON json_t *want = json_loads(bundle, 0, NULL);
	CLEANUP_JSON json_t *got = NULL;

	buf_puts(&b, "{\"output\": ");
	buf_puts(&b, bundle);
	buf_puts(&b, " }");
	add(b.data, b.len);
	add_text("{\"output\":{}}");
	got = outputs();
	cr_assert(json_array_size(got) == 2);
	cr_expect(json_equal(json_array_get(got, 0), want));
	cr_expect(json_object_size(json_array_get(got, 1)) == 0);
	cr_expect(strstr(res.outputs.data, "text/plain") < strstr(res.outputs.data, "image/png"));
}

Test(report, outputs_are_counted)
{
	CLEANUP_JSON json_t *j = NULL;
	json_t *last;

	for (int i = 0; i < 1001; i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(KIB);

		buf_printf(&b, "{\"output\":{\"n\":%d}}", i);
		add(b.data, b.len);
	}
	cr_expect(rep.n_outputs == 1000 && !rep.broken);
	j = outputs();
	cr_expect(json_array_size(j) == 1000);
	last = json_array_get(j, 999);
	cr_expect(json_integer_value(json_object_get(last, "n")) == 999, "the first are kept");
	add_text("{\"done\":{\"exit\":0}}");
	cr_expect(rep.done, "too many outputs are no reason to hear no more");
	cr_expect(report_dropped(&rep) && res.error.code == ERR_NONE, "the caller says so");
}

/* {"a":"xxx"} of `n` bytes. */
static void put_bundle(struct buf *out, size_t n)
{
	CLEANUP_FREE char *text = malloc(n);

	cr_assert(text && n >= 8);
	memset(text, 'x', n);
	buf_puts(out, "{\"a\":\"");
	buf_put(out, text, n - 8);
	buf_puts(out, "\"}");
	cr_assert(buf_finish(out) == 0);
}

static void add_output(size_t n)
{
	CLEANUP_BUF struct buf b = BUF_INIT(REPORT_FRAME_MAX);

	buf_puts(&b, "{\"output\":");
	put_bundle(&b, n);
	buf_putc(&b, '}');
	add(b.data, b.len);
}

/* As if one output had come that leaves `room` bytes. */
static size_t fill_outputs(size_t room)
{
	put_bundle(&res.outputs, RESULT_OUTPUTS_MAX - room);
	rep.n_outputs = 1;
	return res.outputs.len;
}

Test(report, outputs_have_a_bound_in_bytes)
{
	size_t before = fill_outputs(100000);

	add_output(100000); /* with its comma one byte too many */
	cr_expect(res.outputs.len == before && rep.n_outputs == 1);
	add_output(99999);
	cr_expect(res.outputs.len == RESULT_OUTPUTS_MAX && rep.n_outputs == 2);
	add_text("{\"output\":{}}");
	cr_expect(res.outputs.len == RESULT_OUTPUTS_MAX && rep.n_outputs == 2);
	cr_expect(memcmp(res.outputs.data + before, ",{\"a\":\"x", 8) == 0);
	cr_expect(buf_finish(&res.outputs) == 0 && !rep.broken, "no error sticks");
	add_text("{\"done\":{\"exit\":0}}");
	cr_expect(rep.done);
}

/* What is dropped must not use up the count, nor leave a comma. */
Test(report, an_output_that_is_too_large_leaves_room_for_small_ones)
{
	size_t before = fill_outputs(1000);

	add_output(2000);
	add_output(3 * MIB);
	add_output(8);
	cr_expect(rep.n_outputs == 2);
	cr_expect_str_eq(res.outputs.data + before, ",{\"a\":\"\"}");
}

Test(report, freeing_half_a_frame_twice_does_no_harm)
{
	report_add(&rep, "\x10\0\0\0{\"do", 8, &res);
	cr_expect(rep.bytes.len == 8);
	report_free(&rep);
	report_free(&rep);
	cr_expect(!rep.bytes.data);
}

Test(report, largest_frame_then_another)
{
	static char piece[MIB];
	CLEANUP_BUF struct buf last = BUF_INIT(2 * MIB);

	add_header(REPORT_FRAME_MAX);
	memset(piece, ' ', sizeof(piece));
	memcpy(piece, "{\"output\":{\"a\":\"b\"}}", 20);
	for (size_t i = 0; i < 63; i++) {
		report_add(&rep, piece, sizeof(piece), &res);
		memset(piece, ' ', 20);
	}
	buf_put(&last, piece, sizeof(piece));
	cr_assert(report_frame(&last, "{\"done\":{\"exit\":0}}", 19) == 0);
	report_add(&rep, last.data, last.len, &res);
	cr_expect(!rep.broken && rep.done && rep.n_outputs == 1);
}

Test(report, in_two_parts_it_is_the_same)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	static const char one[] = "{\"output\":{\"text/plain\":\"1\"}}";
	static const char last[] = "{\"done\":{\"exit\":7}}";
	size_t first;

	cr_assert(report_frame(&b, one, strlen(one)) == 0);
	first = b.len;
	cr_assert(report_frame(&b, last, strlen(last)) == 0);
	report_put(&rep, b.data, first - 1);
	cr_expect(report_waiting(&rep) == 0 && !res.outputs.len);
	report_put(&rep, b.data + first - 1, b.len - first); /* all but the last byte */
	cr_expect(report_waiting(&rep) == first);
	report_take(&rep, &res);
	cr_expect(res.outputs.len && !rep.done && report_waiting(&rep) == 0);
	report_put(&rep, b.data + b.len - 1, 1);
	cr_expect(report_waiting(&rep) == b.len - first);
	report_take(&rep, &res);
	cr_expect(rep.done && rep.exit_code == 7 && !rep.broken);
	cr_expect(rep.taken == strlen(one) + strlen(last));
}

Test(report, a_length_beyond_the_bound_is_there_to_be_refused)
{
	static const char header[] = { 0, 0, 0, (char)0xff };

	report_put(&rep, header, sizeof(header));
	cr_expect(report_waiting(&rep) > 0, "else nobody would look at it");
	report_take(&rep, &res);
	cr_expect(rep.broken);
}
