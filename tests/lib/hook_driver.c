/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Webhooks and traces without a daemon, for tests:
 *
 *     hook_driver BRIG-SEND [otlp URL] [hook URL SECRET-FILE|- ATTEMPTS TIMEOUT-MS]...
 *
 * Commands come on stdin, a line each; answers and log lines go to stdout, a JSON object each. The
 * end of stdin ends it.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "daemon/hooks.h"
#include "daemon/otlp.h"

static struct sender *sender;
static struct hooks *hooks;
static struct otlp *otlp;
static uv_poll_t input;
static char line[4096];
static size_t line_n;

static void log_line(void *data, const char *text)
{
	CLEANUP_BUF struct buf out = BUF_INIT(64 * KIB);

	(void)data;
	buf_puts(&out, "{\"log\":");
	json_put_cstr(&out, text);
	buf_puts(&out, "}\n");
	(void)fwrite(out.data, 1, out.len, stdout);
	(void)fflush(stdout);
}

static void do_approval(const char *event, const char *id, const char *summary)
{
	struct approval a = { .state = streq(event, "approval.settled") ? APPROVAL_ALLOWED
		                                                        : APPROVAL_WAITING };

	(void)snprintf(a.id, sizeof(a.id), "%s", id);
	(void)snprintf(a.asker, sizeof(a.asker), "uid:1");
	hooks_approval(hooks, event, &a, str_of(summary));
}

static void do_executions(const char *prefix, uint64_t n)
{
	struct result r;

	result_init(&r);
	r.state = RUN_FINISHED;
	r.has_exit_code = true;
	r.usage.wall_ms = 7;
	buf_puts(&r.out, "the-output");
	for (uint64_t i = 0; i < n; i++) {
		(void)snprintf(r.execution_id, sizeof(r.execution_id), "%.6s%06" PRIu64, prefix, i);
		hooks_execution(hooks, &r);
	}
	result_done(&r);
}

static void do_jobs(uint64_t n, const char *traceparent)
{
	static struct job job;

	memset(&job, 0, sizeof(job));
	result_init(&job.result);
	job.state = JOB_FINISHED;
	job.request.language = LANGUAGE_PYTHON;
	job.findings.level = RISK_LOW;
	job.decision.verdict = VERDICT_ALLOW;
	job.result.state = RUN_FINISHED;
	for (int s = JOB_RECEIVED; s <= JOB_FINISHED; s++)
		job.step_ns[s] = s == JOB_WAITING ? 0 : clock_ns();
	(void)snprintf(job.result.execution_id, sizeof(job.result.execution_id), "the-job");
	for (uint64_t i = 0; i < n; i++)
		otlp_job(otlp, &job, *traceparent ? traceparent : NULL);
	result_done(&job.result);
}

static void do_counts(void)
{
	struct sender_counts s;
	struct hooks_counts h;
	struct otlp_counts o = { 0 };

	sender_counts(sender, &s);
	hooks_counts(hooks, &h);
	if (otlp)
		otlp_counts(otlp, &o);
	(void)printf("{\"starts\":%" PRIu64 ",\"waiting\":%u,\"queued\":%u,\"delivered\":%" PRIu64
	             ",\"retried\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"given_up\":%" PRIu64
	             ",\"dropped\":%" PRIu64 ",\"spans\":%" PRIu64 ",\"spans_dropped\":%" PRIu64
	             ",\"spans_queued\":%u,\"batches_retried\":%" PRIu64 "}\n",
	             s.starts, s.waiting, h.queued, h.delivered, h.retried, h.refused, h.given_up,
	             h.dropped, o.sent, o.dropped, o.queued, o.retried);
	(void)fflush(stdout);
}

static void do_line(char *text)
{
	const char *word[4] = { "", "", "", "" };
	uint64_t n = 0;
	char *rest = text, *at;

	for (size_t i = 0; i < ELEMENTSOF(word) && (at = strsep(&rest, "\t")); i++)
		word[i] = at;
	if (streq(word[0], "approval"))
		do_approval(word[1], word[2], word[3]);
	else if (streq(word[0], "executions") && parse_u64(word[2], &n) >= 0)
		do_executions(word[1], n);
	else if (streq(word[0], "jobs") && parse_u64(word[1], &n) >= 0)
		do_jobs(n, word[2]);
	else if (streq(word[0], "flush"))
		otlp_flush(otlp);
	else if (streq(word[0], "counts"))
		do_counts();
}

static void finish(void)
{
	uv_close((uv_handle_t *)&input, NULL);
	hooks_close(hooks);
	otlp_close(otlp);
	sender_close(sender);
}

static void on_input(uv_poll_t *p, int status, int events)
{
	ssize_t n = read(0, line + line_n, sizeof(line) - 1 - line_n);
	char *end;

	(void)p;
	(void)events;
	if (status < 0 || n <= 0) {
		finish();
		return;
	}
	line_n += (size_t)n;
	line[line_n] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		do_line(line);
		line_n -= (size_t)(end + 1 - line);
		memmove(line, end + 1, line_n + 1);
	}
}

static int configure(int argc, char **argv, struct daemon_config *c)
{
	int i = 2;

	while (i < argc) {
		if (streq(argv[i], "otlp") && i + 1 < argc) {
			c->otlp = argv[i + 1];
			i += 2;
		} else if (streq(argv[i], "hook") && i + 4 < argc &&
		           c->n_webhooks < CONFIG_WEBHOOKS_MAX) {
			struct config_webhook *w = &c->webhooks[c->n_webhooks++];
			uint64_t attempts = 0, timeout = 0;

			(void)parse_u64(argv[i + 3], &attempts);
			(void)parse_u64(argv[i + 4], &timeout);
			w->url = argv[i + 1];
			w->secret_file = streq(argv[i + 2], "-") ? NULL : argv[i + 2];
			w->approvals = w->executions = true;
			w->attempts = (unsigned)attempts;
			w->timeout_ms = (unsigned)timeout;
			i += 5;
		} else {
			return -1;
		}
	}
	return argc >= 2 ? 0 : -1;
}

int main(int argc, char **argv)
{
	static struct daemon_config config;
	struct err err = { 0 };
	uv_loop_t loop;
	int r;

	if (configure(argc, argv, &config) < 0 || uv_loop_init(&loop) < 0)
		return 2;
	r = sender_open(&loop, argv[1], log_line, NULL, &sender, &err);
	if (r >= 0)
		r = hooks_open(&loop, &config, sender, &hooks, &err);
	if (r >= 0)
		r = otlp_open(&loop, &config, sender, &otlp, &err);
	if (r < 0) {
		log_line(NULL, err.msg);
		return 1;
	}
	(void)uv_poll_init(&loop, &input, 0);
	(void)uv_poll_start(&input, UV_READABLE, on_input);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop) < 0 ? 3 : 0;
}
