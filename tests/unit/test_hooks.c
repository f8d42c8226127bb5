/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "daemon/hooks.h"
#include "daemon/otlp.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

/* The number is of Python's hmac module. */
Test(hooks, the_signature_is_the_hmac_of_time_and_body)
{
	char text[HOOK_SIGNED_SIZE];

	cr_assert(hook_sign(STR("0123456789abcdef"), 1700000000, STR("{\"a\":1}"), text) == 0);
	cr_expect_str_eq(text, "t=1700000000,v1="
	                       "9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23");
}

Test(hooks, a_body_beyond_the_bound_is_not_signed)
{
	static char large[HOOK_BODY_MAX + 64];
	char text[HOOK_SIGNED_SIZE];

	memset(large, 'x', sizeof(large));
	cr_expect(hook_sign(STR("s"), 1, (struct str){ large, sizeof(large) }, text) == -EFBIG);
}

Test(hooks, the_wait_doubles_from_a_second_to_five_minutes)
{
	static const struct {
		unsigned failures;
		uint64_t ms;
	} cases[] = { { 1, 1000 },    { 2, 2000 },
		      { 3, 4000 },    { 4, 8000 },
		      { 8, 128000 },  { 9, 256000 },
		      { 10, 300000 }, { 11, 300000 },
		      { 64, 300000 }, { 4000000000u, 300000 } };

	for (size_t i = 0; i < ELEMENTSOF(cases); i++)
		cr_expect(backoff_ms(cases[i].failures, 0) == cases[i].ms, "%u failures: %llu ms",
		          cases[i].failures, (unsigned long long)backoff_ms(cases[i].failures, 0));
}

Test(hooks, chance_adds_at_most_a_quarter_and_never_passes_the_bound)
{
	bool differ = false;

	for (uint32_t random = 0; random < 4096; random += 7) {
		uint64_t ms = backoff_ms(3, random);

		cr_expect(ms >= 4000 && ms <= 5000);
		differ = differ || ms != 4000;
		cr_expect(backoff_ms(20, random) == BACKOFF_MAX_MS);
	}
	cr_expect(differ);
}

Test(hooks, what_the_receiver_asks_for_is_waited_within_five_minutes)
{
	uint64_t ms = backoff_after_ms(1, 60);

	cr_expect(ms == 60000);
	cr_expect(backoff_after_ms(1, 4000000000u) == BACKOFF_MAX_MS);
	ms = backoff_after_ms(3, 1);
	cr_expect(ms >= 4000, "not sooner than without it");
}

Test(hooks, only_what_may_pass_is_tried_again)
{
	static const unsigned again[] = { 0, 100, 301, 302, 408, 429, 500, 502, 503, 599 };
	static const unsigned never[] = { 200, 202, 204, 299, 400, 401, 403, 404, 410, 413, 422 };

	for (size_t i = 0; i < ELEMENTSOF(again); i++)
		cr_expect(hook_is_retried(again[i]), "%u", again[i]);
	for (size_t i = 0; i < ELEMENTSOF(never); i++)
		cr_expect(!hook_is_retried(never[i]), "%u", never[i]);
}

Test(hooks, the_same_event_has_the_same_id_and_another_has_another)
{
	char a[HOOK_ID_SIZE], b[HOOK_ID_SIZE];

	hook_delivery_id("approval.requested", "x", "waiting", a);
	cr_expect(strlen(a) == HOOK_ID_SIZE - 1);
	hook_delivery_id("approval.requested", "x", "waiting", b);
	cr_expect_str_eq(a, b);
	hook_delivery_id("approval.settled", "x", "waiting", b);
	cr_expect_str_neq(a, b);
	hook_delivery_id("approval.requested", "y", "waiting", b);
	cr_expect_str_neq(a, b);
	hook_delivery_id("approval.requested", "x", "allowed", b);
	cr_expect_str_neq(a, b);
	hook_delivery_id("approval.requestedx", "", "waiting", b);
	cr_expect_str_neq(a, b);
}

static json_t *parsed(const struct buf *b)
{
	json_t *o;

	cr_assert(buf_finish(b) == 0);
	o = json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(o != NULL, "%s", b->data);
	return o;
}

static const char *text_of(json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

Test(hooks, a_question_is_told_with_its_summary)
{
	CLEANUP_BUF struct buf body = BUF_INIT(HOOK_BODY_MAX);
	struct approval a = { .id = "the-id", .state = APPROVAL_WAITING };
	json_t *o;

	hook_approval_body("d", "approval.requested", &a, STR("{\"x\":[1]}"), &body);
	o = parsed(&body);
	cr_expect_str_eq(text_of(o, "id"), "d");
	cr_expect_str_eq(text_of(o, "event"), "approval.requested");
	cr_expect(strlen(text_of(o, "time")) == 20);
	cr_expect_str_eq(text_of(json_object_get(o, "approval"), "id"), "the-id");
	cr_expect(json_is_array(json_object_get(json_object_get(o, "summary"), "x")));
	json_decref(o);
}

Test(hooks, a_summary_that_is_no_json_or_too_large_is_null)
{
	static char large[HOOK_BODY_MAX];
	const struct str bad[] = { STR(""),
		                   STR("{"),
		                   STR("{},\"id\":1"),
		                   STR("{\"a\":1,\"a\":2}"),
		                   { large, sizeof(large) } };
	struct approval a = { .id = "the-id" };

	memset(large, ' ', sizeof(large));
	large[0] = '{';
	large[sizeof(large) - 1] = '}';
	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		CLEANUP_BUF struct buf body = BUF_INIT(HOOK_BODY_MAX);
		json_t *o;

		hook_approval_body("d", "approval.requested", &a, bad[i], &body);
		o = parsed(&body);
		cr_expect(json_is_null(json_object_get(o, "summary")), "case %zu", i);
		json_decref(o);
	}
}

Test(hooks, the_end_of_a_run_is_told_without_its_output)
{
	CLEANUP_BUF struct buf body = BUF_INIT(HOOK_BODY_MAX);
	struct result r;
	json_t *o, *e;

	result_init(&r);
	r.state = RUN_FAILED;
	r.has_exit_code = true;
	r.exit_code = 3;
	r.usage.cpu_ms = 12;
	(void)snprintf(r.execution_id, sizeof(r.execution_id), "the-run");
	buf_puts(&r.out, "secret-output");
	hook_execution_body("d", &r, &body);
	o = parsed(&body);
	e = json_object_get(o, "execution");
	cr_expect_str_eq(text_of(e, "execution_id"), "the-run");
	cr_expect_str_eq(text_of(e, "state"), "failed");
	cr_expect(json_is_false(json_object_get(e, "success")));
	cr_expect(json_integer_value(json_object_get(e, "exit_code")) == 3);
	cr_expect(json_integer_value(json_object_get(json_object_get(e, "usage"), "cpu_ms")) == 12);
	cr_expect(!strstr(body.data, "secret-output"));
	json_decref(o);
	result_done(&r);
}

static int secret(const char *content, size_t n, mode_t mode, char ret[HOOK_SECRET_MAX],
                  size_t *ret_n)
{
	char path[] = "/tmp/ut-brig-secret-XXXXXX";
	int fd = mkstemp(path), r;
	struct err err;

	cr_assert(fd >= 0 && write(fd, content, n) == (ssize_t)n && fchmod(fd, mode) == 0);
	(void)close(fd);
	r = hook_secret_read(path, ret, ret_n, &err);
	(void)unlink(path);
	return r;
}

Test(hooks, a_secret_has_its_bounds_and_loses_its_newline)
{
	static char text[HOOK_SECRET_MAX + 8];
	char got[HOOK_SECRET_MAX];
	size_t n = 0;

	memset(text, 's', sizeof(text));
	cr_expect(secret("0123456789abcdef\n", 17, 0600, got, &n) == 0 && n == 16);
	cr_expect(secret("0123456789abcdef\r\n", 18, 0400, got, &n) == 0 && n == 16);
	cr_expect(secret("0123456789abcde\n", 16, 0600, got, &n) < 0, "15 bytes");
	cr_expect(secret(text, HOOK_SECRET_MAX, 0600, got, &n) == 0 && n == HOOK_SECRET_MAX);
	cr_expect(secret(text, HOOK_SECRET_MAX + 1, 0600, got, &n) < 0);
	cr_expect(secret(text, sizeof(text), 0600, got, &n) < 0);
	cr_expect(secret("", 0, 0600, got, &n) < 0);
}

Test(hooks, a_secret_that_others_can_read_is_refused)
{
	char got[HOOK_SECRET_MAX];
	size_t n;

	cr_expect(secret("0123456789abcdef", 16, 0640, got, &n) == -EPERM);
	cr_expect(secret("0123456789abcdef", 16, 0604, got, &n) == -EPERM);
	cr_expect(hook_secret_read("/dev/null", got, &n, NULL) < 0, "not a file");
	cr_expect(hook_secret_read("/nonexistent", got, &n, NULL) == -ENOENT);
}

Test(hooks, urls_are_http_in_one_line)
{
	static const char *const good[] = { "http://a", "https://a:1/b?c" };
	static const char *const bad[] = {
		"",          "ftp://a", "file:///etc/passwd", "http://a\nb", "http://a\x7f",
		" http://a", "HTTP://a"
	};
	static char large[4096];

	for (size_t i = 0; i < ELEMENTSOF(good); i++)
		cr_expect(sender_takes_url(good[i]), "%s", good[i]);
	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		cr_expect(!sender_takes_url(bad[i]), "%s", bad[i]);
	memset(large, 'a', sizeof(large) - 1);
	memcpy(large, "http://", 7);
	cr_expect(!sender_takes_url(large));
}

Test(otlp, a_traceparent_gives_trace_and_parent)
{
	struct trace_ids ids = { 0 };

	cr_assert(traceparent_parse("00-" TRACE "-" PARENT "-01", &ids));
	cr_expect(ids.has_parent && ids.trace[0] == 0x0a && ids.trace[15] == 0x9c);
	cr_expect(ids.parent[0] == 0xb7 && ids.parent[7] == 0x31);
	cr_expect(traceparent_parse("00-" TRACE "-" PARENT "-00", &ids));
}

Test(otlp, a_traceparent_that_is_not_to_the_letter_is_ignored)
{
	static const char *const bad[] = {
		"",
		"00",
		"00-" TRACE "-" PARENT "-0",
		"00-" TRACE "-" PARENT "-011",
		"00-" TRACE "-" PARENT "-01 ",
		" 00-" TRACE "-" PARENT "-01",
		"01-" TRACE "-" PARENT "-01",
		"ff-" TRACE "-" PARENT "-01",
		"00-" TRACE "-" PARENT "-0g",
		"00-" TRACE "-" PARENT "-0A",
		"00_" TRACE "-" PARENT "-01",
		"00-" TRACE "_" PARENT "-01",
		"00-" TRACE "-" PARENT "_01",
		"00-0AF7651916cd43dd8448eb211c80319c-" PARENT "-01",
		"00-00000000000000000000000000000000-" PARENT "-01",
		"00-" TRACE "-0000000000000000-01",
		"00-" TRACE "-b7ad6b716920333-01-",
		"00-" TRACE "-" PARENT "-01-more",
	};
	struct trace_ids ids = { .trace = { 7 } };

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		cr_expect(!traceparent_parse(bad[i], &ids), "\"%s\"", bad[i]);
	cr_expect(!traceparent_parse(NULL, &ids));
	cr_expect(ids.trace[0] == 7 && !ids.has_parent, "untouched");
}

static struct job job;
static struct span spans[OTLP_SPANS_MAX];
static struct span_seed seed = { .trace = { 1, 2 }, .id = { { 10 }, { 11 }, { 12 }, { 13 } } };

static void job_at(enum job_state s, uint64_t ns)
{
	job.step_ns[s] = ns;
	job.state = s;
}

static void finished_job(void)
{
	job_at(JOB_RECEIVED, 100);
	job_at(JOB_ANALYSED, 110);
	job_at(JOB_DECIDED, 130);
	job_at(JOB_CONFIRMED, 160);
	job_at(JOB_ROUTED, 200);
	job_at(JOB_RUNNING, 210);
	job_at(JOB_FINISHED, 900);
	job.result.state = RUN_FINISHED;
	job.findings.level = RISK_LOW;
	job.decision.verdict = VERDICT_ALLOW;
}

Test(otlp, a_job_is_a_span_and_one_for_each_step)
{
	static const struct {
		const char *name;
		uint64_t start, end;
	} steps[] = { { "brig.execute", 1100, 1900 }, { "analyse", 1100, 1110 },
		      { "decide", 1110, 1130 },       { "confirm", 1130, 1160 },
		      { "route", 1160, 1200 },        { "execute", 1200, 1900 } };
	size_t n;

	finished_job();
	n = spans_of_job(&job, NULL, &seed, 5000, 6000, spans);
	cr_assert(n == ELEMENTSOF(steps));
	for (size_t i = 0; i < n; i++) {
		cr_expect_str_eq(spans[i].name, steps[i].name);
		cr_expect(spans[i].start_ns == steps[i].start, "%s", steps[i].name);
		cr_expect(spans[i].end_ns == steps[i].end, "%s", steps[i].name);
		cr_expect(spans[i].trace[0] == 1 && spans[i].has_parent == (i > 0));
		cr_expect(i == 0 || memcmp(spans[i].parent, spans[0].id, 8) == 0);
	}
}

Test(otlp, a_clock_that_is_behind_counts_back)
{
	finished_job();
	cr_assert(spans_of_job(&job, NULL, &seed, 5000, 4950, spans) > 0);
	cr_expect(spans[0].start_ns == 50 && spans[0].end_ns == 850);
}

Test(otlp, a_job_goes_on_in_the_trace_of_its_caller)
{
	finished_job();
	cr_assert(spans_of_job(&job, "00-" TRACE "-" PARENT "-01", &seed, 0, 0, spans) > 1);
	cr_expect(spans[0].trace[0] == 0x0a && spans[1].trace[0] == 0x0a);
	cr_expect(spans[0].has_parent && spans[0].parent[0] == 0xb7);
}

Test(otlp, a_denied_job_ends_with_the_step_that_denied_it)
{
	size_t n;

	job_at(JOB_RECEIVED, 100);
	job_at(JOB_ANALYSED, 110);
	job_at(JOB_DECIDED, 130);
	job_at(JOB_WAITING, 140);
	job_at(JOB_EXPIRED, 999);
	job.result.state = RUN_EXPIRED;
	n = spans_of_job(&job, NULL, &seed, 0, 0, spans);
	cr_assert(n == 4);
	cr_expect_str_eq(spans[3].name, "confirm");
	cr_expect(spans[3].start_ns == 130 && spans[3].end_ns == 999);
	cr_expect(spans[0].failed);
}

Test(otlp, code_that_an_approver_changed_is_seen_twice_and_the_wait_is_shown)
{
	size_t n;

	finished_job();
	job.step_ns[JOB_WAITING] = 40;
	n = spans_of_job(&job, NULL, &seed, 0, 0, spans);
	cr_assert(n == 7);
	cr_expect(spans[0].start_ns == 40);
	cr_expect_str_eq(spans[1].name, "confirm");
	cr_expect(spans[1].start_ns == 40 && spans[1].end_ns == 100);
}

Test(otlp, a_failure_without_a_time_ends_now)
{
	job_at(JOB_RECEIVED, 100);
	job_at(JOB_FAILED, 0);
	cr_assert(spans_of_job(&job, NULL, &seed, 700, 700, spans) == 2);
	cr_expect(spans[0].end_ns == 700 && spans[1].end_ns == 700);
}

Test(otlp, spans_are_otlp_json)
{
	CLEANUP_BUF struct buf out = BUF_INIT(OTLP_BODY_MAX);
	json_t *o, *s;
	size_t n;

	finished_job();
	job.result.has_exit_code = true;
	(void)snprintf(job.result.execution_id, sizeof(job.result.execution_id), "x\"y");
	n = spans_of_job(&job, "00-" TRACE "-" PARENT "-01", &seed, 0, 0, spans);
	spans_begin(&out);
	for (size_t i = 0; i < n; i++)
		spans_put(&out, &spans[i], i == 0);
	spans_end(&out);
	o = parsed(&out);
	s = json_array_get(json_object_get(o, "resourceSpans"), 0);
	s = json_array_get(json_object_get(s, "scopeSpans"), 0);
	cr_assert(json_array_size(json_object_get(s, "spans")) == n);
	s = json_array_get(json_object_get(s, "spans"), 0);
	cr_expect_str_eq(text_of(s, "traceId"), TRACE);
	cr_expect_str_eq(text_of(s, "parentSpanId"), PARENT);
	cr_expect_str_eq(text_of(s, "spanId"), "0a00000000000000");
	cr_expect_str_eq(text_of(s, "startTimeUnixNano"), "100");
	cr_expect(json_array_size(json_object_get(s, "attributes")) == 6);
	json_decref(o);
}
