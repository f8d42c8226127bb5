/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon below its sockets: api, pipeline and ledger as they are, on a state directory of its
 * own, and an executor that runs nothing. What the code "prints" is the code itself.
 */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "api/impl.h"
#include "base/clock.h"
#include "base/fd.h"
#include "exec/output.h"

#define HELD_MAX  16
#define PRINT_MAX (512 * KIB)
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s (line %d)\n", #condition, __LINE__);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* net/impl.h has it; the two impl.h do not go together. */
int http_server_adopt(struct http_server *s, int fd);

static uv_loop_t loop;
static struct api *api;
static struct pipeline *pl;
static char state_dir[256], policy_path[300], token[TOKEN_SIZE];

/* ---- the executor ---- */

/* A run whose code has the word "hold" in it lasts until it is told to end. */
struct held {
	struct job *job; /* NULL: free */
	struct output out[2];
};

static struct held held[HELD_MAX];

static bool has_word(struct str s, const char *word)
{
	return s.p && s.n && memmem(s.p, s.n, word, strlen(word));
}

static void print(struct held *h, int stream, struct str text)
{
	size_t times = has_word(text, "lots") ? 4096 : has_word(text, "much") ? 64 : 1;

	for (size_t i = 0; text.n && i < times && i * text.n < PRINT_MAX; i++) {
		output_add(&h->out[stream], text.p, text.n);
		if (h->job->listen)
			h->job->listen(h->job->listen_data, stream, text.p, text.n);
	}
}

static void fake_end(struct held *h)
{
	struct job *job = TAKE_PTR(h->job);
	struct result *res = &job->result;

	res->out_dropped = output_dropped(&h->out[0]);
	res->err_dropped = output_dropped(&h->out[1]);
	MUST(output_finish(&h->out[0], &res->out) >= 0);
	MUST(output_finish(&h->out[1], &res->errout) >= 0);
	output_done(&h->out[0]);
	output_done(&h->out[1]);
	res->state = job->cancelled                             ? RUN_CANCELLED
	             : has_word(job->effective.code, "explode") ? RUN_KILLED
	                                                        : RUN_FINISHED;
	res->has_exit_code = res->state == RUN_FINISHED;
	pipeline_ended(pl, job);
}

static int fake_start(struct executor *base, struct job *job, struct err *err)
{
	struct held *h = NULL;

	(void)base;
	for (size_t i = 0; i < HELD_MAX && !h; i++)
		h = held[i].job ? NULL : &held[i];
	if (!h || has_word(job->effective.code, "nobox"))
		return err_set(err, ERR_SETUP, ENOMEM, "no box");
	h->job = job;
	for (int i = 0; i < 2; i++)
		output_init(&h->out[i], job->effective.limits.output_bytes);
	print(h, 0, job->effective.code);
	print(h, 1, job->effective.stdin_data);
	if (!has_word(job->effective.code, "hold"))
		fake_end(h);
	return 0;
}

static void fake_end_all(bool only_cancelled)
{
	for (size_t i = 0; i < HELD_MAX; i++)
		if (held[i].job && (held[i].job->cancelled || !only_cancelled))
			fake_end(&held[i]);
}

/* A job of ours has no pool_call, so the pipeline leaves it to turn(). */
static void fake_cancel(struct executor *base, struct job *job)
{
	(void)base;
	(void)job;
	MUST(false);
}

static int fake_fd(const struct executor *base)
{
	(void)base;
	return FD_NONE;
}

static void fake_turn(struct executor *base, int timeout_ms)
{
	(void)base;
	(void)timeout_ms;
	fake_end_all(true);
}

static const struct executor_ops fake_ops = { "fake",      TIER_JAIL, EXEC_CAP_CODE, fake_start,
	                                      fake_cancel, fake_fd,   fake_turn };
static struct executor fake = { .ops = &fake_ops };

/* ---- its state ---- */

static const char policy_text[] =
	"version: 1\n"
	"name: fuzz\n"
	"default: allow\n"
	"approval: { expires: 8h, self: true, remember: digest, remember_for: 8h, pending: 64 }\n"
	"rules:\n"
	"  - { name: no-eval, match: { risk: critical }, verdict: deny }\n"
	"  - { name: ask, match: { risk: high }, verdict: confirm }\n";

static void make_state(void)
{
	const char *base = getenv("TMPDIR");
	struct token like = { .name = "fuzz", .scopes = SCOPE_RUN }, made;
	struct tokens *tokens;
	FILE *f;

	if (!base)
		base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	(void)snprintf(state_dir, sizeof(state_dir), "%s/fuzz-brig-api-XXXXXX", base);
	MUST(mkdtemp(state_dir));
	(void)snprintf(policy_path, sizeof(policy_path), "%s/policy.yaml", state_dir);
	f = fopen(policy_path, "we");
	MUST(f && fputs(policy_text, f) >= 0 && fclose(f) == 0);
	MUST(tokens_open(state_dir, &tokens, NULL) >= 0);
	MUST(tokens_add(tokens, &like, token, &made, NULL) >= 0);
	tokens_close(tokens);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

/* ---- the whole ---- */

/* It is for what brigd itself did wrong: nothing that a client sends makes it so. */
static void on_log(void *data, const char *line)
{
	(void)data;
	(void)fprintf(stderr, "brigd would log: %s\n", line);
	abort();
}

static void on_approval(void *data, const char *event, const struct approval *a, struct str summary)
{
	(void)data;
	MUST(*event && *a->id && (!summary.n || summary.p[0] == '{'));
}

static void daemon_start(void)
{
	const struct api_config settings = {
		.loop = &loop,
		.http = { .body_bytes = 64 * KIB,
		          .ws_message_bytes = 16 * KIB,
		          .stream_bytes = 64 * KIB },
		.state_dir = state_dir,
		.running_max = 2,
		.queue_max = 2,
		.keep_results = 8,
		.keep_hours = 24,
		.keep_bytes = 1 * MIB,
		.observer = { .approval = on_approval, .log = on_log },
	};
	struct pipeline_config config = { .state_dir = state_dir,
		                          .policy = policy_path,
		                          .floor_policy = policy_path,
		                          .caller = "fuzz",
		                          .executors = { &fake },
		                          .n_executors = 1 };
	struct err err = { 0 };

	make_state();
	if (!loop.data)
		MUST(uv_loop_init(&loop) == 0);
	loop.data = &loop;
	MUST(api_open(&settings, &api, &err) >= 0);
	if (pipeline_open(&config, &pl, &err) < 0)
		(void)fprintf(stderr, "pipeline: %s\n", err.msg);
	MUST(pl && api_serve(api, pl, NULL, &err) >= 0);
}

/* Whatever the clients did: the record is sound. */
static void check_record(void)
{
	struct ledger_report report;
	struct err err = { 0 };
	char id[EXECUTION_ID_SIZE];
	const char *why = NULL;

	pipeline_turn(pl);
	MUST(ledger_verify(pipeline_ledger(pl), &report, &err) >= 0);
	if (report.ok)
		why = confirm_verify(pipeline_ledger(pl), id);
	if (!report.ok || why)
		(void)fprintf(stderr, "record: %s\n", why ? why : report.why);
	MUST(report.ok && !why);
}

static void daemon_stop(void)
{
	if (!api)
		return;
	check_record();
	api_close(TAKE_PTR(api));
	for (size_t i = 0; i < HELD_MAX; i++) { /* their jobs went with the api */
		if (TAKE_PTR(held[i].job)) {
			output_done(&held[i].out[0]);
			output_done(&held[i].out[1]);
		}
	}
	pipeline_close(TAKE_PTR(pl));
	MUST(uv_run(&loop, UV_RUN_DEFAULT) == 0); /* threads may still be at it */
	(void)nftw(state_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void daemon_exit(void)
{
	daemon_stop();
	(void)uv_loop_close(&loop);
}
