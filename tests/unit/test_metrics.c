/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "api/metrics.h"
#include "base/str.h"

#define MS UINT64_C(1000000)

static struct metrics *m;
static struct metric_gauges gauges;
static struct job job;
static struct buf out;

static int start(struct executor *ex, struct job *j, struct err *err)
{
	(void)ex, (void)j, (void)err;
	return 0;
}

static const struct executor_ops ops = { .name = "none", .tier = TIER_JAIL, .start = start };
static struct executor executor = { .ops = &ops };

static void set_up(void)
{
	cr_assert(metrics_new(&m) == 0);
	out = BUF_INIT(1 * MIB);
	job_init(&job);
}

static void tear_down(void)
{
	job_free_fields(&job);
	buf_done(&out);
	metrics_free(m);
}

TestSuite(metrics, .init = set_up, .fini = tear_down);

static const char *text(void)
{
	out.len = 0;
	metrics_write(m, &gauges, &out);
	cr_assert(buf_finish(&out) == 0);
	return out.data;
}

/* The value of the sample, as text; "" when there is none. */
static const char *sample(const char *name)
{
	static char value[64];
	size_t n = strlen(name);

	for (const char *line = text(); *line; line = strchr(line, '\n') + 1) {
		if (strncmp(line, name, n) == 0 && line[n] == ' ') {
			(void)snprintf(value, sizeof(value), "%.*s",
			               (int)strcspn(line + n + 1, "\n"), line + n + 1);
			return value;
		}
	}
	return "";
}

static void expect(const char *name, const char *value)
{
	const char *is = sample(name);

	cr_expect(streq(is, value), "%s is \"%s\", not \"%s\"", name, is, value);
}

/* A job that ran, a millisecond for each step, 1 s in the box. */
static void ran(enum run_state state)
{
	uint64_t t = 5000 * MS;

	job.request.language = LANGUAGE_PYTHON;
	job.effective = job.request;
	for (int s = JOB_RECEIVED; s <= JOB_RUNNING; s++)
		if (s != JOB_WAITING)
			job.step_ns[s] = t += MS;
	job.state = JOB_FINISHED;
	job.step_ns[JOB_FINISHED] = t + 1000 * MS;
	job.findings.level = RISK_LOW;
	job.decision.verdict = VERDICT_ALLOW;
	job.executor = &executor;
	job.result.state = state;
	job.result.usage.wall_ms = 900;
}

/* ---- the form ---- */

Test(metrics, every_family_has_help_and_type_once_and_before_its_samples)
{
	char family[128] = "", seen[8192] = " ", key[132];

	for (const char *line = text(); *line; line = strchr(line, '\n') + 1) {
		char name[128];

		if (sscanf(line, "# HELP %127s ", name) == 1) {
			(void)snprintf(family, sizeof(family), "%s", name);
			(void)snprintf(key, sizeof(key), " %s ", name);
			cr_expect(!strstr(seen, key), "%s twice", name);
			(void)snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s ",
			               name);
		} else if (sscanf(line, "# TYPE %127s ", name) == 1) {
			cr_expect_str_eq(name, family);
		} else {
			cr_expect(strncmp(line, family, strlen(family)) == 0, "%.60s under %s",
			          line, family);
		}
	}
	cr_expect(strlen(seen) > 500);
}

Test(metrics, the_text_ends_with_a_line_end)
{
	const char *t = text();

	cr_expect(t[strlen(t) - 1] == '\n');
}

Test(metrics, a_full_buffer_is_an_error_and_no_crash)
{
	struct buf small = BUF_INIT(1000);

	metrics_write(m, &gauges, &small);
	cr_expect(buf_finish(&small) == -EFBIG);
	buf_done(&small);
}

/* ---- histograms ---- */

Test(metrics, buckets_are_cumulative)
{
	metric_observe(m, METRIC_HTTP, 50000);      /* in the first: at most */
	metric_observe(m, METRIC_HTTP, 50001);      /* not any more */
	metric_observe(m, METRIC_HTTP, 60000 * MS); /* in the last */
	metric_observe(m, METRIC_HTTP, 60001 * MS); /* in none */
	expect("brig_http_request_seconds_bucket{le=\"0.00005\"}", "1");
	expect("brig_http_request_seconds_bucket{le=\"0.0001\"}", "2");
	expect("brig_http_request_seconds_bucket{le=\"30\"}", "2");
	expect("brig_http_request_seconds_bucket{le=\"60\"}", "3");
	expect("brig_http_request_seconds_bucket{le=\"+Inf\"}", "4");
	expect("brig_http_request_seconds_count", "4");
	expect("brig_http_request_seconds_sum", "120.001100001");
}

Test(metrics, bounds_of_buckets_grow)
{
	const char *line = text();
	double last = 0;
	int n = 0;

	while ((line = strstr(line, "brig_turn_seconds_bucket{le=\""))) {
		double le = strtod(line + strlen("brig_turn_seconds_bucket{le=\""), NULL);

		cr_expect(le > last, "%f after %f", le, last);
		last = le;
		line++;
		n++;
	}
	cr_expect(n > 10);
}

Test(metrics, a_histogram_that_does_not_exist_is_ignored)
{
	metric_observe(m, METRIC_HISTOGRAM_COUNT, 1);
	metric_observe(m, (enum metric_histogram)(-1), 1);
	expect("brig_http_request_seconds_count", "0");
}

/* ---- HTTP ---- */

Test(metrics, answers_count_by_status)
{
	metric_http(m, 200);
	metric_http(m, 200);
	metric_http(m, 599);
	metric_http(m, 0);
	metric_http(m, 600);
	expect("brig_http_responses_total{status=\"200\"}", "2");
	expect("brig_http_responses_total{status=\"599\"}", "1");
	expect("brig_http_responses_total{status=\"other\"}", "2");
}

Test(metrics, rejections_count_by_a_known_word_only)
{
	metric_rejected(m, "busy");
	metric_rejected(m, "quota");
	metric_rejected(m, "quota");
	metric_rejected(m, "a\"b\nc");
	expect("brig_rejected_total{why=\"busy\"}", "1");
	expect("brig_rejected_total{why=\"quota\"}", "2");
	expect("brig_rejected_total{why=\"auth\"}", "0");
	expect("brig_rejected_total{why=\"other\"}", "1");
	cr_expect(!strstr(text(), "a\"b"));
}

/* ---- jobs ---- */

Test(metrics, a_run_counts_by_state_language_and_tier)
{
	ran(RUN_FINISHED);
	metric_job(m, &job);
	metric_job(m, &job);
	expect("brig_executions_total{state=\"finished\",language=\"python\",tier=\"jail\"}", "2");
	expect("brig_risk_total{level=\"low\"}", "2");
	expect("brig_verdicts_total{verdict=\"allow\"}", "2");
	expect("brig_verdicts_total{verdict=\"deny\"}", "0");
	expect("brig_execution_seconds_sum", "1.800000000");
}

Test(metrics, each_step_has_its_own_time)
{
	ran(RUN_FINISHED);
	job.step_ns[JOB_DECIDED] += MS / 2;
	metric_job(m, &job);
	expect("brig_step_analyse_seconds_sum", "0.001000000");
	expect("brig_step_decide_seconds_sum", "0.001500000");
	expect("brig_step_confirm_seconds_sum", "0.000500000");
	expect("brig_step_route_seconds_sum", "0.001000000");
	expect("brig_queue_seconds_sum", "0.005000000");
	expect("brig_run_seconds_sum", "1.005000000");
	expect("brig_claim_seconds_count", "0");
}

Test(metrics, a_wait_for_a_box_is_measured_and_part_of_the_queue)
{
	ran(RUN_FINISHED);
	job.claim_ns = job.step_ns[JOB_RUNNING] + 20 * MS;
	metric_job(m, &job);
	expect("brig_claim_seconds_sum", "0.020000000");
	expect("brig_queue_seconds_sum", "0.025000000");
}

Test(metrics, a_step_that_was_not_reached_is_not_measured)
{
	ran(RUN_DENIED);
	job.state = JOB_DENIED;
	job.executor = NULL;
	job.decision.verdict = VERDICT_DENY;
	job.step_ns[JOB_CONFIRMED] = job.step_ns[JOB_ROUTED] = job.step_ns[JOB_RUNNING] = 0;
	job.step_ns[JOB_FINISHED] = 0;
	job.step_ns[JOB_DENIED] = job.step_ns[JOB_DECIDED] + MS;
	metric_job(m, &job);
	expect("brig_executions_total{state=\"denied\",language=\"python\",tier=\"none\"}", "1");
	expect("brig_verdicts_total{verdict=\"deny\"}", "1");
	expect("brig_step_confirm_seconds_count", "0");
	expect("brig_step_route_seconds_count", "0");
	expect("brig_queue_seconds_count", "0");
	expect("brig_execution_seconds_count", "0");
	expect("brig_run_seconds_sum", "0.003000000");
}

Test(metrics, a_job_that_was_never_judged_has_no_verdict)
{
	job.state = JOB_FAILED;
	job.step_ns[JOB_RECEIVED] = MS;
	job.step_ns[JOB_FAILED] = 2 * MS;
	job.result.state = RUN_SETUP_FAILED;
	metric_job(m, &job);
	expect("brig_executions_total{state=\"setup_failed\",language=\"none\",tier=\"none\"}",
	       "1");
	expect("brig_verdicts_total{verdict=\"deny\"}", "0");
	expect("brig_risk_total{level=\"unknown\"}", "0");
}

Test(metrics, what_the_policys_bounds_refuse_is_a_denial)
{
	job.state = JOB_DENIED;
	job.step_ns[JOB_RECEIVED] = MS;
	job.step_ns[JOB_ANALYSED] = 2 * MS;
	job.step_ns[JOB_DENIED] = 3 * MS;
	job.findings.level = RISK_HIGH;
	job.decision.verdict = VERDICT_ALLOW;
	job.result.state = RUN_DENIED;
	metric_job(m, &job);
	expect("brig_verdicts_total{verdict=\"deny\"}", "1");
	expect("brig_verdicts_total{verdict=\"allow\"}", "0");
	expect("brig_risk_total{level=\"high\"}", "1");
}

Test(metrics, limits_are_told_by_the_end_state)
{
	static const enum run_state states[] = { RUN_OOM, RUN_OUTPUT_LIMIT, RUN_DISK_LIMIT,
		                                 RUN_FINISHED, RUN_KILLED };

	for (size_t i = 0; i < ELEMENTSOF(states); i++) {
		ran(states[i]);
		metric_job(m, &job);
	}
	expect("brig_limits_hit_total{limit=\"memory\"}", "1");
	expect("brig_limits_hit_total{limit=\"output\"}", "1");
	expect("brig_limits_hit_total{limit=\"disk\"}", "1");
	expect("brig_limits_hit_total{limit=\"timeout\"}", "0");
	expect("brig_limits_hit_total{limit=\"cpu\"}", "0");
}

Test(metrics, wall_time_and_processor_time_are_told_apart)
{
	ran(RUN_TIMED_OUT);
	job.effective.limits.timeout_ms = 900;
	metric_job(m, &job);
	job.effective.limits.timeout_ms = 30000;
	metric_job(m, &job);
	metric_job(m, &job);
	expect("brig_limits_hit_total{limit=\"timeout\"}", "1");
	expect("brig_limits_hit_total{limit=\"cpu\"}", "2");
}

static void approved(enum approval_state state, bool asked)
{
	ran(RUN_FINISHED);
	(void)snprintf(job.approval.id, sizeof(job.approval.id), "x");
	job.approval.state = state;
	job.step_ns[JOB_WAITING] = asked ? job.step_ns[JOB_DECIDED] : 0;
	metric_job(m, &job);
}

Test(metrics, approvals_count_by_what_became_of_them)
{
	approved(APPROVAL_USED, true);
	approved(APPROVAL_ALLOWED, true);
	approved(APPROVAL_USED, false);
	approved(APPROVAL_DENIED, true);
	approved(APPROVAL_EXPIRED, true);
	approved(APPROVAL_WAITING, true);
	expect("brig_approvals_total{outcome=\"allowed\"}", "2");
	expect("brig_approvals_total{outcome=\"standing\"}", "1");
	expect("brig_approvals_total{outcome=\"denied\"}", "1");
	expect("brig_approvals_total{outcome=\"expired\"}", "1");
	expect("brig_approvals_total{outcome=\"withdrawn\"}", "1");
}

Test(metrics, a_run_without_an_approval_counts_as_none)
{
	ran(RUN_FINISHED);
	metric_job(m, &job);
	expect("brig_approvals_total{outcome=\"withdrawn\"}", "0");
	expect("brig_approvals_total{outcome=\"allowed\"}", "0");
}

Test(metrics, waiting_for_a_person_is_measured_also_when_it_ends_there)
{
	ran(RUN_EXPIRED);
	job.state = JOB_EXPIRED;
	job.step_ns[JOB_WAITING] = job.step_ns[JOB_DECIDED];
	job.step_ns[JOB_CONFIRMED] = 0;
	job.step_ns[JOB_EXPIRED] = job.step_ns[JOB_DECIDED] + 7000 * MS;
	metric_job(m, &job);
	expect("brig_step_confirm_seconds_sum", "7.000000000");
}

Test(metrics, values_out_of_range_count_somewhere_safe)
{
	ran((enum run_state)99);
	job.request.language = (enum language)99;
	job.findings.level = (enum risk_level)99;
	job.decision.verdict = (enum verdict)99;
	metric_job(m, &job);
	expect("brig_executions_total{state=\"lost\",language=\"none\",tier=\"jail\"}", "1");
	job.state = (enum job_state)99;
	metric_job(m, &job);
	expect("brig_executions_total{state=\"lost\",language=\"none\",tier=\"jail\"}", "1");
}

/* ---- gauges ---- */

Test(metrics, gauges_are_written_as_given)
{
	gauges = (struct metric_gauges){ .running = 1,
		                         .queued = 2,
		                         .waiting = 3,
		                         .kept = 4,
		                         .connections = 5,
		                         .bytes_in = UINT64_MAX,
		                         .rss_bytes = 7,
		                         .loop_lag_max_us = 1500000 };
	expect("brig_executions{state=\"running\"}", "1");
	expect("brig_executions{state=\"queued\"}", "2");
	expect("brig_executions{state=\"waiting\"}", "3");
	expect("brig_executions{state=\"kept\"}", "4");
	expect("brig_http_connections", "5");
	expect("brig_http_received_bytes_total", "18446744073709551615");
	expect("process_resident_memory_bytes", "7");
	expect("brig_loop_lag_max_seconds", "1.500000000");
	expect("brig_build_info{version=\"" BRIG_VERSION "\"}", "1");
}

Test(metrics, the_pool_is_told_by_language)
{
	gauges = (struct metric_gauges){ .n_pool = 2 };
	gauges.pool[0].language = "python";
	gauges.pool[0].s = (struct pool_stats){ .ready = 3, .hits = 10, .refill_us = 2500 };
	gauges.pool[1].language = "shell";
	gauges.pool[1].s = (struct pool_stats){ .starting = 1, .oldest_ms = 1500 };
	expect("brig_pool_boxes{language=\"python\",state=\"ready\"}", "3");
	expect("brig_pool_boxes{language=\"shell\",state=\"starting\"}", "1");
	expect("brig_pool_hits_total{language=\"python\"}", "10");
	expect("brig_pool_refill_seconds{language=\"python\"}", "0.002500000");
	expect("brig_pool_oldest_seconds{language=\"shell\"}", "1.500000000");
}

Test(metrics, shapes_of_one_language_are_one_series)
{
	const char *first, *key = "brig_pool_boxes{language=\"python\",state=\"ready\"} ";

	gauges = (struct metric_gauges){ .n_pool = 2 };
	for (size_t i = 0; i < 2; i++) {
		gauges.pool[i].language = "python";
		gauges.pool[i].s = (struct pool_stats){ .ready = 3, .refill_us = 1000 * (i + 1) };
	}
	expect("brig_pool_boxes{language=\"python\",state=\"ready\"}", "6");
	expect("brig_pool_refill_seconds{language=\"python\"}", "0.002000000");
	first = strstr(text(), key);
	cr_assert(first != NULL);
	cr_expect(!strstr(first + 1, key));
}

Test(metrics, more_shapes_than_there_is_room_for_are_left_out)
{
	gauges = (struct metric_gauges){ .n_pool = 1000 };
	for (size_t i = 0; i < POOL_SHAPES_MAX; i++)
		gauges.pool[i].language = "python";
	gauges.pool[0].s.ready = 1;
	expect("brig_pool_boxes{language=\"python\",state=\"ready\"}", "1");
}
