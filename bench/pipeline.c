/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the flow costs beside the box: risk, policy, record and commits, step by step, for a snippet
 * of about 300 bytes. First with an executor that does nothing, so that only the flow is measured,
 * then a warm Python box with and without the flow.
 *
 *     bench/pipeline [--launcher PATH] [RUNS]        (default 2000)
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "boxes.h"
#include "pipeline/pipeline.h"

#define RUNS_MAX 100000
#define IN_ROW   6 /* runs without a rest between them, each kind twice */
#define BOXES    (IN_ROW + 1)

static const char snippet[] = "from collections import defaultdict\n"
			      "def group(words):\n"
			      "    by = defaultdict(list)\n"
			      "    for w in words:\n"
			      "        by[len(w)].append(w)\n"
			      "    return {k: sorted(v) for k, v in by.items()}\n"
			      "text = 'the quick brown fox jumps over the lazy dog'\n"
			      "for size, found in group(text.split()).items():\n"
			      "    print(size, found)  # %06u\n";

static int null_start(struct executor *ex, struct job *job, struct err *err)
{
	(void)err;
	job->result.state = RUN_FINISHED;
	job->result.has_exit_code = true;
	buf_puts(&job->result.out, "3 ['dog', 'fox', 'the', 'the']\n");
	pipeline_ended(ex->pipeline, job);
	return 0;
}

static void null_cancel(struct executor *ex, struct job *job)
{
	(void)ex;
	(void)job;
}

static int null_fd(const struct executor *ex)
{
	(void)ex;
	return FD_NONE;
}

static void null_turn(struct executor *ex, int timeout_ms)
{
	(void)ex;
	(void)timeout_ms;
}

static const struct executor_ops null_ops = { "null",      TIER_JAIL, EXEC_CAP_CODE, null_start,
	                                      null_cancel, null_fd,   null_turn };

static void ignore(void *data, struct job *job)
{
	(void)data;
	(void)job;
}

/* Nanoseconds of each run, and of each step between two states. */
struct series {
	uint64_t *total, *step[JOB_STATE_COUNT];
	size_t n;
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double p50(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return (double)v[n / 2] / 1000;
}

static double p99(const uint64_t *sorted, size_t n)
{
	return (double)sorted[n - 1 - n / 100] / 1000;
}

static void series_init(struct series *s, size_t n)
{
	s->n = n;
	s->total = calloc(n, sizeof(uint64_t));
	for (int i = 0; i < JOB_STATE_COUNT; i++)
		s->step[i] = calloc(n, sizeof(uint64_t));
}

static void series_done(struct series *s)
{
	free(s->total);
	for (int i = 0; i < JOB_STATE_COUNT; i++)
		free(s->step[i]);
}

/* `fresh`: every run has other code, so that nothing is found in the cache. */
static void run_one(struct pipeline *pl, bool fresh, unsigned i, struct series *s)
{
	static struct job job;
	static unsigned serial;
	char code[512];
	int n = snprintf(code, sizeof(code), snippet, fresh ? ++serial : 0);
	uint64_t begin, last;

	job_init(&job);
	job.done = ignore;
	job.request.language = LANGUAGE_PYTHON;
	job.request.code = (struct str){ code, (size_t)n };
	begin = last = clock_ns();
	pipeline_submit(pl, &job);
	pipeline_wait(pl, &job, FD_NONE);
	s->total[i] = clock_ns() - begin;
	for (int state = JOB_RECEIVED; state <= JOB_FINISHED; state++) {
		if (!job.step_ns[state])
			continue;
		s->step[state][i] = job.step_ns[state] - last;
		last = job.step_ns[state];
	}
	job_free_fields(&job);
}

static void print_steps(const struct series *s)
{
	for (int state = JOB_RECEIVED; state <= JOB_FINISHED; state++)
		if (state != JOB_WAITING)
			(void)printf(" %s %.1f", job_state_name((enum job_state)state),
			             p50(s->step[state], s->n));
	(void)printf("\n");
}

static double measure_flow(const char *name, const struct pipeline_config *config, bool fresh,
                           size_t n)
{
	struct series s;
	struct pipeline *pl;
	struct err err = { 0 };
	double middle;

	if (pipeline_open(config, &pl, &err) < 0) {
		(void)fprintf(stderr, "pipeline: %s\n", err.msg);
		exit(1);
	}
	series_init(&s, n);
	for (unsigned i = 0; i < n; i++)
		run_one(pl, fresh, i, &s);
	middle = p50(s.total, n);
	(void)printf("%-34s p50 %7.1f us  p99 %7.1f us |", name, middle, p99(s.total, n));
	print_steps(&s);
	series_done(&s);
	pipeline_close(pl);
	return middle;
}

static int one_box(void *data, const struct request *req, struct err *err)
{
	struct pool_shape shape = { .like = *req, .min = BOXES, .max = BOXES };
	static bool made;
	size_t index;
	int r = made ? 0 : pool_add_shape(data, &shape, &index, err);

	if (!made && r >= 0)
		r = pool_wait_ready(data, index, BOXES, 20000, FD_NONE, err);
	made = true;
	return r;
}

/*
 * As in `latency`: the boxes of the runs before are gone and new ones wait, so that what is
 * measured is the run and not the making of boxes beside it; before each run, or before each row of
 * runs. The first run makes the pool's shape.
 */
static void settle(struct pool *pool, unsigned i, unsigned row)
{
	struct err err = { 0 };

	if (i > 0 && i % row == 0 && settle_pool(pool, &err) < 0) {
		(void)fprintf(stderr, "pipeline: %s\n", err.msg);
		exit(1);
	}
}

static void run_bare(struct pool *pool, unsigned i, struct series *s)
{
	struct request req;
	struct result res;
	char code[512];
	uint64_t begin;

	request_init(&req);
	req.language = LANGUAGE_PYTHON;
	req.code = (struct str){ code, (size_t)snprintf(code, sizeof(code), snippet, i) };
	result_init(&res);
	begin = clock_ns();
	pool_run(pool, &req, &res);
	s->total[i] = clock_ns() - begin;
	if (res.state != RUN_FINISHED)
		exit(1);
	result_done(&res);
}

static void print_warm(struct series *bare, struct series flow[2], unsigned row)
{
	double plain = p50(bare->total, bare->n);

	(void)printf("warm python, %s\n", row > 1 ? "in a row" : "boxes are made between the runs");
	(void)printf("  no flow                          p50 %7.1f us\n", plain);
	for (int seen = 0; seen < 2; seen++) {
		double with = p50(flow[seen].total, flow[seen].n);

		(void)printf("  flow, %-26s p50 %7.1f us  (+%.1f) |",
		             seen ? "code seen before" : "new code", with, with - plain);
		print_steps(&flow[seen]);
	}
}

/* The same box with and without the flow around it, by turns. */
static void compare_warm(struct pool *pool, struct pipeline *pl, size_t n, unsigned row)
{
	struct series flow[2], bare;

	series_init(&flow[0], n);
	series_init(&flow[1], n);
	series_init(&bare, n);
	for (unsigned i = 0; i < 3 * n; i++) {
		settle(pool, i, row);
		switch ((i + i / 3) % 3) { /* each comes first, second and third as often */
		case 0:
			run_one(pl, true, i / 3, &flow[0]);
			break;
		case 1:
			run_one(pl, false, i / 3, &flow[1]);
			break;
		default:
			run_bare(pool, i / 3, &bare);
		}
	}
	print_warm(&bare, flow, row);
	series_done(&bare);
	series_done(&flow[0]);
	series_done(&flow[1]);
}

static void measure_warm(const char *dir, const char *launcher, size_t n)
{
	struct pool_config pool_config = { .launcher = launcher };
	struct executor_pool ex = { .base.ops = &executor_pool_ops, .need = one_box };
	struct pipeline_config config = { .state_dir = dir,
		                          .policy = "permissive",
		                          .executors = { &ex.base },
		                          .n_executors = 1 };
	struct err err = { 0 };
	struct pipeline *pl;

	if (pool_open(&pool_config, &ex.pool, &err) < 0) {
		(void)fprintf(stderr, "pipeline: no pool: %s\n", err.msg);
		return;
	}
	ex.data = ex.pool;
	if (pipeline_open(&config, &pl, &err) < 0)
		exit(1);
	compare_warm(ex.pool, pl, n, 1);
	compare_warm(ex.pool, pl, n, IN_ROW);
	pool_close(ex.pool);
	pipeline_close(pl);
}

int main(int argc, char **argv)
{
	struct executor null = { .ops = &null_ops };
	char dir[] = "/tmp/brig-bench-XXXXXX";
	struct pipeline_config config = {
		.state_dir = dir, .policy = "permissive", .executors = { &null }, .n_executors = 1
	};
	const char *launcher = NULL;
	uint64_t n = 2000;

	if (argc > 2 && strcmp(argv[1], "--launcher") == 0) {
		launcher = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc > 1 && (parse_u64(argv[1], &n) < 0 || n < 10 || n > RUNS_MAX))
		return 2;
	if (!mkdtemp(dir))
		return 1;
	(void)printf(
		"flow alone, %zu bytes of Python, %llu runs; steps: p50 us to reach the state\n",
		sizeof(snippet) - 1, (unsigned long long)n);
	(void)measure_flow("new code", &config, true, n);
	(void)measure_flow("code seen before", &config, false, n);
	config.no_record = true;
	(void)measure_flow("new code, no record", &config, true, n);
	(void)measure_flow("code seen before, no record", &config, false, n);
	measure_warm(dir, launcher, n);
	(void)fflush(stdout);
	return execlp("rm", "rm", "-rf", dir, (char *)NULL);
}
