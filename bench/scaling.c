/* SPDX-License-Identifier: Apache-2.0 */

/* What a run costs against what is preloaded, how many files it brings, how many boxes wait. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/str.h"
#include "boxes.h"
#include "contest.h"
#include "measure.h"

#define FILES_MOST 250
#define FILE_BYTES 1024
#define WAITING    4
#define CREATE_MS  600000

static uint64_t samples = 100, most_boxes = 2000;

/* ---- one measurement -------------------------------------------------------------------- */

static int time_run(struct boxes *b, const struct request *req, const char *output,
                    struct samples *s, struct err *err)
{
	CLEANUP(result_done) struct result res;
	struct err why = { 0 };
	uint64_t begin = clock_ns(), end;

	result_init(&res);
	pool_run(b->pool, req, &res);
	end = clock_ns();
	if (result_check(&res, output, &why) >= 0)
		samples_add(s, end - begin);
	else
		samples_fail(s, &why);
	return boxes_settle(b, err);
}

static int time_runs(struct boxes *b, const char *code, const char *output, struct samples *s,
                     struct err *err)
{
	struct request req = b->like;
	int r = 0;

	req.code = str_of(code);
	for (uint64_t i = 0; i < samples && r >= 0; i++)
		r = time_run(b, &req, output, s, err);
	return r;
}

static size_t print_times(struct samples *s)
{
	size_t failed = s->failed;

	(void)printf(" %zu | %zu | %.3f | %.3f |", s->n, failed, samples_percentile(s, 50) / 1000,
	             samples_percentile(s, 95) / 1000);
	if (failed)
		(void)fprintf(stderr, "scaling: %s\n", s->error.msg);
	samples_done(s);
	return failed;
}

static int open_python(struct boxes *b, const char **modules, size_t n, unsigned waiting,
                       struct err *err)
{
	const struct boxes_config config = { .language = LANGUAGE_PYTHON,
		                             .network = NETWORK_LOOPBACK,
		                             .modules = modules,
		                             .n_modules = n,
		                             .min = waiting,
		                             .max = waiting };

	return boxes_open(b, &config, err);
}

/* ---- preload ---------------------------------------------------------------------------- */

#define MODULES_MAX 4

static const struct preload {
	const char *modules[MODULES_MAX];
} preloads[] = {
	{ { NULL } },
	{ { "asyncio", "email", "http.client" } },
	{ { "numpy" } },
	{ { "numpy", "pandas" } },
};

/* Resident memory of the largest process that is in no box: the zygote. */
static uint64_t zygote_kib(void)
{
	struct family f = { 0 };
	uint64_t most = 0;
	char path[64];

	if (family_find(&f) < 0)
		return 0;
	for (size_t i = 0; i < f.n; i++) {
		uint64_t kib;

		(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)f.pids[i]);
		kib = f.in_box[i] ? 0 : number_in(path, "VmRSS:");
		most = kib > most ? kib : most;
	}
	family_done(&f);
	return most;
}

static void print_names(const char **modules, size_t n)
{
	(void)printf("| %s", n ? "" : "nothing");
	for (size_t i = 0; i < n; i++)
		(void)printf("%s%s", i ? ", " : "", modules[i]);
	(void)printf(" | %" PRIu64 " |", zygote_kib());
}

static int preload_row(const struct preload *p, size_t *failed, struct err *err)
{
	const char *modules[MODULES_MAX];
	struct samples s = { 0 };
	struct boxes b = { 0 };
	size_t n = 0;
	int r;

	while (n < MODULES_MAX && p->modules[n]) {
		modules[n] = p->modules[n];
		n++;
	}
	for (unsigned waiting = 0; waiting <= WAITING; waiting += WAITING) {
		r = open_python(&b, modules, n, waiting, err);
		if (r < 0)
			return r;
		if (!waiting)
			print_names(modules, n);
		r = time_runs(&b, "print(1)", "1\n", &s, err);
		*failed += print_times(&s);
		boxes_close(&b);
		if (r < 0)
			return r;
	}
	(void)printf("\n");
	return 0;
}

static int do_preloads(size_t *failed, struct err *err)
{
	int r = 0;

	(void)printf(
		"\n| preloaded | zygote KiB resident | n, pool empty | failed | p50 ms | p95 ms | "
		"n, warm | failed | p50 ms | p95 ms "
		"|\n|---|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ELEMENTSOF(preloads) && r >= 0; i++)
		r = preload_row(&preloads[i], failed, err);
	return r;
}

/* ---- files ------------------------------------------------------------------------------ */

static int files_row(struct boxes *b, unsigned n, size_t *failed, struct err *err)
{
	static struct request_file files[FILES_MOST];
	static char paths[FILES_MOST][16], data[FILE_BYTES];
	struct request req = b->like;
	struct samples s = { 0 };
	char output[16];
	int r = 0;

	(void)memset(data, 'x', sizeof(data));
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "file-%u", i);
		files[i] =
			(struct request_file){ .path = paths[i], .data = { data, sizeof(data) } };
	}
	req.files = files;
	req.n_files = n;
	req.code = STR("import os\nprint(len([f for f in os.listdir('.') if f[:5] == 'file-']))");
	(void)snprintf(output, sizeof(output), "%u\n", n);
	for (uint64_t i = 0; i < samples && r >= 0; i++)
		r = time_run(b, &req, output, &s, err);
	(void)printf("| %u |", n);
	*failed += print_times(&s);
	(void)printf("\n");
	return r;
}

static int do_files(size_t *failed, struct err *err)
{
	static const unsigned numbers[] = { 0, 1, 10, 50, 100, FILES_MOST };
	struct boxes b = { 0 };
	int r = open_python(&b, NULL, 0, WAITING, err);

	(void)printf("\n| files of 1 KiB placed | n | failed | p50 ms | p95 ms "
	             "|\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < ELEMENTSOF(numbers) && r >= 0; i++)
		r = files_row(&b, numbers[i], failed, err);
	boxes_close(&b);
	return r;
}

/* ---- boxes ------------------------------------------------------------------------------ */

static int do_boxes(size_t *failed, struct err *err)
{
	static const unsigned numbers[] = { 1, 10, 100, 500, 1000, 2000 };
	struct boxes b = { 0 };
	int r = open_python(&b, NULL, 0, 1, err);

	(void)printf(
		"\n| boxes that wait | n | failed | p50 ms | p95 ms |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < ELEMENTSOF(numbers) && r >= 0 && numbers[i] <= most_boxes; i++) {
		struct samples s = { 0 };

		pool_resize(b.pool, 0, numbers[i], numbers[i]);
		r = pool_wait_ready(b.pool, 0, numbers[i], CREATE_MS, FD_NONE, err);
		if (r >= 0)
			r = time_runs(&b, "print(1)", "1\n", &s, err);
		(void)printf("| %u |", numbers[i]);
		*failed += print_times(&s);
		(void)printf("\n");
	}
	boxes_close(&b);
	return r;
}

int main(int argc, char **argv)
{
	const struct option_row options[] = {
		{ "samples", &samples, 100000, "of each row" },
		{ "boxes", &most_boxes, 2000, "that wait, at most" },
	};
	struct err err = { 0 };
	size_t failed = 0;
	int r;

	if (options_parse(argc, argv, options, ELEMENTSOF(options)) < 0)
		return 2;
	r = do_preloads(&failed, &err);
	if (r >= 0)
		r = do_files(&failed, &err);
	if (r >= 0)
		r = do_boxes(&failed, &err);
	if (r < 0)
		(void)printf("\nbroken: %s\n", err.msg);
	return r < 0 || failed ? 1 : 0;
}
