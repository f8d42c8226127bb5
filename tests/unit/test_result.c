/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>

#include "base/str.h"
#include "exec/verify.h"
#include "model/result.h"

#define CLEANUP_RESULT CLEANUP(result_done)
#define CLEANUP_JSON   CLEANUP(json_decrefp)

/* Parses what was written; the caller releases it. */
static json_t *as_json(const struct result *r)
{
	CLEANUP_BUF struct buf b = BUF_INIT(RESULT_JSON_MAX);
	json_error_t why;
	json_t *j;

	cr_assert(result_to_json(r, &b) == 0);
	j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
	cr_assert(j, "%s: %s", why.text, b.data);
	return j;
}

static void check_keys(json_t *object, const char *const *keys, size_t n)
{
	const char *key;
	json_t *value;
	size_t i = 0;

	json_object_foreach(object, key, value)
	{
		cr_expect(i < n && streq(key, keys[i]), "key %zu is %s", i, key);
		i++;
	}
	cr_expect(i == n);
}

Test(result, the_keys_are_exactly_the_documented_ones_in_order)
{
	static const char *const keys[] = {
		"execution_id", "state",   "success", "exit_code",   "signal",  "stdout",
		"stderr",       "outputs", "value",   "error",       "files",   "usage",
		"truncated",    "tier",    "risk",    "approval_id", "receipt",
	};
	static const char *const usage[] = {
		"wall_ms",   "cpu_ms",     "peak_memory_bytes",
		"pids_peak", "read_bytes", "written_bytes",
	};
	static const char *const files[] = { "created", "modified", "deleted", "truncated" };
	static const char *const receipt[] = {
		"level_required", "level_achieved",  "verified", "image",
		"launcher",       "seccomp_profile", "layers",
	};
	static const char *const layer[] = { "name", "required", "enforced", "detail" };
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *layers;

	result_init(&r);
	j = as_json(&r);
	check_keys(j, keys, ELEMENTSOF(keys));
	check_keys(json_object_get(j, "usage"), usage, ELEMENTSOF(usage));
	check_keys(json_object_get(j, "files"), files, ELEMENTSOF(files));
	check_keys(json_object_get(j, "receipt"), receipt, ELEMENTSOF(receipt));
	layers = json_object_get(json_object_get(j, "receipt"), "layers");
	cr_assert(json_array_size(layers) == LAYER_COUNT);
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		json_t *l = json_array_get(layers, i);

		check_keys(l, layer, ELEMENTSOF(layer));
		cr_expect_str_eq(json_string_value(json_object_get(l, "name")),
		                 layer_name((enum layer_id)i));
	}
}

Test(result, a_fresh_result_claims_nothing)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *receipt;

	result_init(&r);
	j = as_json(&r);
	receipt = json_object_get(j, "receipt");
	cr_expect_str_eq(json_string_value(json_object_get(j, "state")), "setup_failed");
	cr_expect(json_is_false(json_object_get(j, "success")));
	cr_expect(json_is_null(json_object_get(j, "exit_code")));
	cr_expect(json_is_null(json_object_get(j, "signal")));
	cr_expect(json_is_null(json_object_get(j, "error")));
	cr_expect(json_is_null(json_object_get(j, "value")));
	cr_expect(json_is_null(json_object_get(j, "risk")));
	cr_expect(json_is_null(json_object_get(j, "approval_id")));
	cr_expect(json_is_array(json_object_get(j, "outputs")));
	cr_expect_str_eq(json_string_value(json_object_get(j, "tier")), "jail");
	cr_expect_str_eq(json_string_value(json_object_get(receipt, "level_achieved")), "none");
	cr_expect_str_eq(json_string_value(json_object_get(receipt, "level_required")), "strict");
	cr_expect(json_is_false(json_object_get(receipt, "verified")));
}

Test(result, only_finished_is_success)
{
	for (unsigned s = 0; s < RUN_STATE_COUNT; s++)
		cr_expect(run_state_is_success((enum run_state)s) == (s == RUN_FINISHED), "%s",
		          run_state_name((enum run_state)s));
	cr_expect(!run_state_is_success(RUN_STATE_COUNT));
}

Test(result, states_have_unique_names_and_a_corrupt_one_is_lost)
{
	for (unsigned s = 0; s < RUN_STATE_COUNT; s++)
		for (unsigned t = 0; t < s; t++)
			cr_expect(!streq(run_state_name((enum run_state)s),
			                 run_state_name((enum run_state)t)));
	cr_expect_str_eq(run_state_name(RUN_TIMED_OUT), "timed_out");
	cr_expect_str_eq(run_state_name((enum run_state)99), "lost");
}

Test(result, exit_zero_is_a_number_not_null)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;

	result_init(&r);
	r.state = RUN_FINISHED;
	r.has_exit_code = true;
	j = as_json(&r);
	cr_expect(json_is_true(json_object_get(j, "success")));
	cr_expect(json_is_integer(json_object_get(j, "exit_code")));
	cr_expect(json_integer_value(json_object_get(j, "exit_code")) == 0);
}

Test(result, a_program_that_merely_failed_has_no_error)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;

	result_init(&r);
	r.state = RUN_FAILED;
	r.has_exit_code = true;
	r.exit_code = 3;
	j = as_json(&r);
	cr_expect(json_is_null(json_object_get(j, "error")));
	cr_expect(json_integer_value(json_object_get(j, "exit_code")) == 3);
}

Test(result, an_error_has_code_cause_and_remedy)
{
	static const char *const keys[] = { "code", "cause", "remedy" };
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *e;

	result_init(&r);
	(void)err_set(&r.error, ERR_SETUP, EPERM, "mount \"%s\"", "/proc");
	(void)err_remedy(&r.error, 0, "run brig doctor");
	(void)snprintf(r.error.step, sizeof(r.error.step), "mounts");
	j = as_json(&r);
	e = json_object_get(j, "error");
	check_keys(e, keys, ELEMENTSOF(keys));
	cr_expect_str_eq(json_string_value(json_object_get(e, "code")), "setup_failed");
	cr_expect_str_eq(json_string_value(json_object_get(e, "cause")),
	                 "mounts: mount \"/proc\": Operation not permitted");
	cr_expect_str_eq(json_string_value(json_object_get(e, "remedy")), "run brig doctor");
}

Test(result, output_is_any_bytes)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *out;

	result_init(&r);
	buf_put(&r.out, "a\0\xff\"\n", 5);
	buf_puts(&r.errout, "\xe2\x82\xac");
	r.out_dropped = 12;
	r.err_dropped = UINT64_C(5000000000);
	r.signal = 9;
	j = as_json(&r);
	out = json_object_get(j, "stdout");
	cr_expect(json_string_length(out) == 7);
	cr_expect(memcmp(json_string_value(out), "a\0\xef\xbf\xbd\"\n", 7) == 0);
	cr_expect_str_eq(json_string_value(json_object_get(j, "stderr")), "\xe2\x82\xac");
	cr_expect(json_integer_value(json_object_get(j, "signal")) == 9);
	out = json_object_get(j, "truncated");
	cr_expect(json_integer_value(json_object_get(out, "stdout")) == 12);
	cr_expect(json_integer_value(json_object_get(out, "stderr")) == 5000000000);
}

Test(result, files_are_listed_by_kind_of_change)
{
	static const struct {
		const char *path;
		uint64_t size;
		enum file_change change;
	} files[] = {
		{ "new.txt", 5, FILE_CREATED },
		{ "dir/bad\xff", 0, FILE_CREATED },
		{ "old.txt", 7, FILE_MODIFIED },
		{ "gone", 0, FILE_DELETED },
	};
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *f, *created;

	result_init(&r);
	r.files = calloc(ELEMENTSOF(files), sizeof(*r.files));
	cr_assert(r.files);
	for (size_t i = 0; i < ELEMENTSOF(files); i++)
		r.files[r.n_files++] = (struct result_file){ strdup(files[i].path), files[i].size,
			                                     files[i].change };
	r.files_truncated = true;
	j = as_json(&r);
	f = json_object_get(j, "files");
	created = json_object_get(f, "created");
	cr_expect(json_array_size(created) == 2);
	cr_expect(json_array_size(json_object_get(f, "modified")) == 1);
	cr_expect(json_array_size(json_object_get(f, "deleted")) == 1);
	cr_expect(json_is_true(json_object_get(f, "truncated")));
	cr_expect_str_eq(json_string_value(json_object_get(json_array_get(created, 1), "path")),
	                 "dir/bad\xef\xbf\xbd");
	cr_expect(json_integer_value(json_object_get(json_array_get(created, 0), "size")) == 5);
}

Test(result, the_receipt_says_what_held)
{
	CLEANUP_BUF struct buf b = BUF_INIT(64 * KIB);
	CLEANUP_JSON json_t *j = NULL;
	struct receipt rc = {
		.level_required = LEVEL_STANDARD,
		.level_achieved = LEVEL_STRICT,
		.verified = true,
		.image = "host",
		.launcher = "0.1.0",
		.seccomp_profile = "abc",
		.layers[LAYER_SECCOMP] = { true, true, "mode 2" },
	};
	json_t *layer;

	cr_assert(receipt_to_json(&rc, &b) == 0);
	j = json_loadb(b.data, b.len, 0, NULL);
	cr_assert(j);
	cr_expect_str_eq(json_string_value(json_object_get(j, "level_required")), "standard");
	cr_expect_str_eq(json_string_value(json_object_get(j, "level_achieved")), "strict");
	cr_expect(json_is_true(json_object_get(j, "verified")));
	cr_expect_str_eq(json_string_value(json_object_get(j, "image")), "host");
	layer = json_array_get(json_object_get(j, "layers"), LAYER_SECCOMP);
	cr_expect(json_is_true(json_object_get(layer, "enforced")));
	cr_expect_str_eq(json_string_value(json_object_get(layer, "detail")), "mode 2");
}

Test(result, a_full_buffer_is_an_error_not_half_a_document)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_BUF struct buf b = BUF_INIT(200);

	result_init(&r);
	cr_expect(result_to_json(&r, &b) == -EFBIG);
}

Test(result, execution_ids_are_26_characters_of_the_alphabet_and_differ)
{
	char a[EXECUTION_ID_SIZE], b[EXECUTION_ID_SIZE];

	for (unsigned i = 0; i < 200; i++) {
		cr_assert(execution_id_new(a) == 0);
		cr_assert(execution_id_new(b) == 0);
		cr_assert(strlen(a) == 26);
		cr_assert(strspn(a, "0123456789abcdefghjkmnpqrstvwxyz") == 26, "%s", a);
		cr_assert(!streq(a, b));
	}
}

Test(result, done_may_be_called_twice)
{
	struct result r;

	result_init(&r);
	buf_puts(&r.out, "x");
	result_done(&r);
	result_done(&r);
	cr_expect(r.n_files == 0);
}

/* ---- what the program itself said ------------------------------------------------------- */

static void set_exception(struct result *r, const char *type, const char *message, int line)
{
	r->state = RUN_FAILED;
	r->has_exit_code = true;
	r->exit_code = 1;
	r->exception = (struct exception){ .type = strdup(type),
		                           .message = strdup(message),
		                           .traceback = strdup("Traceback\n"),
		                           .line = line };
}

static const char *text_at(json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return s ? s : "(no string)";
}

Test(result, an_exception_is_an_error_with_more_keys)
{
	static const char *const keys[] = { "code",    "cause",     "remedy", "type",
		                            "message", "traceback", "line" };
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *e;

	result_init(&r);
	set_exception(&r, "ValueError", "\"x\" is\nno \xe2\x82\xac\xff", 7);
	j = as_json(&r);
	e = json_object_get(j, "error");
	check_keys(e, keys, ELEMENTSOF(keys));
	cr_expect_str_eq(text_at(e, "code"), "exception");
	cr_expect_str_eq(text_at(e, "cause"), "ValueError: \"x\" is\nno \xe2\x82\xac\xef\xbf\xbd");
	cr_expect_str_eq(text_at(e, "remedy"), "");
	cr_expect_str_eq(text_at(e, "type"), "ValueError");
	cr_expect_str_eq(text_at(e, "message"), "\"x\" is\nno \xe2\x82\xac\xef\xbf\xbd");
	cr_expect_str_eq(text_at(e, "traceback"), "Traceback\n");
	cr_expect(json_integer_value(json_object_get(e, "line")) == 7);
	cr_expect(json_is_false(json_object_get(j, "success")));
	cr_expect(json_object_size(j) == 17, "no key of the result itself");
}

Test(result, a_line_that_is_not_known_is_null)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;

	result_init(&r);
	set_exception(&r, "", "", 0);
	j = as_json(&r);
	cr_expect(json_is_null(json_object_get(json_object_get(j, "error"), "line")));
	cr_expect_str_eq(text_at(json_object_get(j, "error"), "cause"), ": ");
}

/* It would hide that brig failed. */
Test(result, brig_s_own_error_comes_before_the_program_s)
{
	static const char *const keys[] = { "code", "cause", "remedy" };
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;

	result_init(&r);
	set_exception(&r, "ValueError", "x", 7);
	(void)err_set(&r.error, ERR_LIMIT, 0, "the memory limit was reached");
	j = as_json(&r);
	check_keys(json_object_get(j, "error"), keys, ELEMENTSOF(keys));
	cr_expect_str_eq(text_at(json_object_get(j, "error"), "code"), "limit");
}

/* The cause is cut, also in the middle of a character; the texts are not. */
Test(result, a_long_exception_is_cut_in_its_cause_only)
{
	CLEANUP_FREE char *message = malloc(3 * 100000 + 1);
	json_t *e;

	cr_assert(message);
	for (size_t i = 0; i < 100000; i++)
		memcpy(message + 3 * i, "\xe2\x82\xac", 4);
	for (size_t shift = 0; shift < 3; shift++) {
		CLEANUP_RESULT struct result r;
		CLEANUP_JSON json_t *j = NULL;

		result_init(&r);
		set_exception(&r, &"TTT"[shift], message, 1);
		j = as_json(&r);
		e = json_object_get(j, "error");
		cr_expect(json_string_length(json_object_get(e, "message")) == 300000);
		cr_expect(json_string_length(json_object_get(e, "cause")) < 300);
		cr_expect(str_has_prefix(text_at(e, "cause") + 3 - shift, ": \xe2\x82\xac"));
	}
}

Test(result, a_value_is_text_even_when_it_is_empty)
{
	static const struct {
		const char *value, *shown;
	} rows[] = {
		{ "", "" }, { "null", "null" }, { "'\"\n'", "'\"\n'" }, { "\xc3", "\xef\xbf\xbd" }
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_RESULT struct result r;
		CLEANUP_JSON json_t *j = NULL;

		result_init(&r);
		r.value = strdup(rows[i].value);
		j = as_json(&r);
		cr_expect(json_is_string(json_object_get(j, "value")));
		cr_expect_str_eq(text_at(j, "value"), rows[i].shown);
	}
}

Test(result, outputs_are_shown_in_order_as_they_are)
{
	CLEANUP_RESULT struct result r;
	CLEANUP_JSON json_t *j = NULL;
	json_t *o;

	result_init(&r);
	buf_puts(&r.outputs, "{\"text/plain\":\"a\"},{\"application/json\":{\"x\":[1,null]}},{}");
	j = as_json(&r);
	o = json_object_get(j, "outputs");
	cr_assert(json_array_size(o) == 3);
	cr_expect_str_eq(text_at(json_array_get(o, 0), "text/plain"), "a");
	cr_expect(json_is_object(json_object_get(json_array_get(o, 1), "application/json")));
	cr_expect(json_is_null(json_object_get(j, "value")));
}

Test(result, outputs_have_room_for_their_bound_and_no_more)
{
	static char chunk[MIB];
	CLEANUP_RESULT struct result r;

	result_init(&r);
	for (size_t n = 0; n < RESULT_OUTPUTS_MAX; n += sizeof(chunk))
		buf_put(&r.outputs, chunk, sizeof(chunk));
	cr_expect(buf_finish(&r.outputs) == 0);
	buf_putc(&r.outputs, 'x');
	cr_expect(buf_finish(&r.outputs) == -EFBIG);
}

Test(result, what_the_program_said_is_forgotten_once)
{
	struct result r;

	result_init(&r);
	set_exception(&r, "T", "m", 1);
	r.value = strdup("v");
	buf_puts(&r.outputs, "{}");
	result_done(&r);
	cr_expect(!r.value && !r.outputs.data && !r.outputs.len);
	cr_expect(!r.exception.type && !r.exception.message && !r.exception.traceback);
	result_done(&r);
}

Test(result, a_receipt_starts_with_nothing_enforced)
{
	struct plan plan = { .required = LAYER_BIT(SECCOMP) | LAYER_BIT(ROOT_RO),
		             .seccomp_id = "0123abcd" };
	struct receipt rc = { 0 };

	receipt_start(&plan, LEVEL_STANDARD, &rc);
	cr_expect(rc.level_required == LEVEL_STANDARD && rc.level_achieved == LEVEL_COUNT);
	cr_expect(!rc.verified);
	cr_expect_str_eq(rc.seccomp_profile, "0123abcd");
	cr_expect_str_eq(rc.image, "host");
	cr_expect(str_has_prefix(rc.launcher, "brig-launch "));
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		bool required = i == LAYER_SECCOMP || i == LAYER_ROOT_RO;

		cr_expect(rc.layers[i].required == required, "%s", layer_name((enum layer_id)i));
		cr_expect(!rc.layers[i].enforced);
		cr_expect_str_eq(rc.layers[i].detail, "not verified");
	}
}

Test(result, receipt_start_on_a_used_receipt)
{
	struct plan plan = { .seccomp_id = "x" };
	struct receipt rc = { .verified = true, .layers[LAYER_SECCOMP].enforced = true };

	receipt_start(&plan, LEVEL_STANDARD, &rc);
	cr_expect(!rc.verified && !rc.layers[LAYER_SECCOMP].enforced);
}
