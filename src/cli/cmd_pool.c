/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig pool: fills a pool of warm boxes, runs a small program in some of them and shows what they
 * cost and how fast they answer, beside the same program without any protection. It is the pool
 * that `brig batch` and, later, a daemon use.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/words.h"
#include "pool/pool.h"
#include "route/route.h"

#define SIZE_MAX_BOXES 4096
#define RUNS_MAX       10000
#define FILL_MS        60000
#define BENCH_RUNS     500

static const char pool_help[] =
	"Usage: brig pool [OPTIONS] [LANGUAGE...]\n"
	"       brig bench [OPTIONS] [LANGUAGE...]   (500 runs instead of 50)\n"
	"\n"
	"Fills a pool of warm boxes of each language (default: all that are installed), runs a\n"
	"small program in them, and shows size, age, refill time, hits and misses, and how long "
	"the\n"
	"program took, beside the bare interpreter without any protection.\n"
	"\n"
	"      --size N   boxes that wait (default 8)\n"
	"      --runs N   runs to measure (default 50)\n"
	"      --level L  strict, standard or degraded-ok\n"
	"      --json     one JSON object\n"
	"  -h, --help     this text\n";

static const struct {
	enum language language;
	const char *code, *answer;
	const char *bare[4];
} programs[] = {
	{ LANGUAGE_PYTHON, "print(1)\n", "1\n", { "python3", "-c", "print(1)" } },
	{ LANGUAGE_JAVASCRIPT, "console.log(1)\n", "1\n", { "node", "-e", "console.log(1)" } },
	{ LANGUAGE_SHELL, "echo 1\n", "1\n", { "bash", "-c", "echo 1" } },
};

struct measure {
	enum language language;
	bool done;
	unsigned failed;
	uint64_t fill_us;
	uint64_t bare_us[3], warm_us[3]; /* p50, p95, p99 */
	struct pool_stats stats;
	struct err error;
};

struct options {
	unsigned size, runs;
	enum level level;
	bool json;
	uint32_t languages; /* bits; 0: all */
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void percentiles(uint64_t *us, size_t n, uint64_t ret[3])
{
	if (!n)
		return;
	qsort(us, n, sizeof(*us), compare);
	ret[0] = us[n / 2];
	ret[1] = us[n * 95 / 100];
	ret[2] = us[n * 99 / 100];
}

/* The interpreter as anybody would start it, its output collected. */
static int run_bare(const char *const *argv)
{
	static char *const env[] = { (char *)"PATH=/usr/local/bin:/usr/bin:/bin",
		                     (char *)"LANG=C.UTF-8", NULL };
	posix_spawn_file_actions_t fa;
	int out[2], status = -1;
	char bytes[64];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, out[1], STDOUT_FILENO);
	if (posix_spawn(&pid, argv[0], &fa, NULL, (char *const *)argv, env) != 0)
		pid = -1;
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)close(out[1]);
	while (pid > 0 && read(out[0], bytes, sizeof(bytes)) > 0)
		;
	(void)close(out[0]);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	return status == 0 ? 0 : -EIO;
}

static void time_bare(const char *const *argv, unsigned runs, struct measure *m)
{
	CLEANUP_FREE uint64_t *us = calloc(runs, sizeof(*us));
	size_t n = 0;

	for (unsigned k = 0; us && k < runs; k++) {
		uint64_t start = clock_ns();

		if (run_bare(argv) == 0)
			us[n++] = (clock_ns() - start) / 1000;
	}
	percentiles(us, n, m->bare_us);
}

/* The very program that runs in the boxes, not what PATH says. */
static void measure_bare(size_t i, unsigned runs, struct measure *m)
{
	const char *argv[ELEMENTSOF(programs[i].bare)];

	memcpy(argv, programs[i].bare, sizeof(argv));
	if (image_host.find(argv[0], &argv[0]) >= 0)
		time_bare(argv, runs, m);
}

static void measure_warm(struct pool *p, size_t i, const struct request *like, unsigned runs,
                         struct measure *m)
{
	CLEANUP_FREE uint64_t *us = calloc(runs, sizeof(*us));
	size_t n = 0;

	for (unsigned k = 0; us && k < runs; k++) {
		struct request req = *like;
		struct result res;
		uint64_t start;

		if (pool_wait_ready(p, 0, 1, FILL_MS, FD_NONE, &m->error) < 0)
			return;
		result_init(&res);
		req.code = str_of(programs[i].code);
		start = clock_ns();
		pool_run(p, &req, &res);
		if (res.state == RUN_FINISHED && streq(res.out.data, programs[i].answer))
			us[n++] = (clock_ns() - start) / 1000;
		else
			m->failed++;
		result_done(&res);
	}
	percentiles(us, n, m->warm_us);
}

static void measure_one(size_t i, const struct options *o, struct measure *m)
{
	struct pool_shape shape = { .min = o->size, .max = o->size };
	const struct pool_config config = { .shapes = &shape, .n_shapes = 1 };
	uint64_t start = clock_ns();
	struct pool *p;

	m->language = programs[i].language;
	request_init(&shape.like);
	shape.like.language = programs[i].language;
	shape.like.level = o->level;
	if (pool_open(&config, &p, &m->error) < 0)
		return;
	if (pool_wait_ready(p, 0, o->size, FILL_MS, FD_NONE, &m->error) >= 0) {
		m->fill_us = (clock_ns() - start) / 1000;
		pool_stats(p, 0, &m->stats);
		measure_bare(i, o->runs, m);
		measure_warm(p, i, &shape.like, o->runs, m);
		m->stats.oldest_ms = 0;
		pool_stats(p, 0, &m->stats);
		m->done = true;
	}
	pool_close(p);
}

static void print_table(const struct measure *m, size_t n)
{
	(void)printf("%-11s %6s %9s %9s %6s %6s %6s  %21s  %21s  %6s\n", "language", "ready",
	             "filled ms", "refill us", "hits", "misses", "failed", "warm p50/p95/p99 us",
	             "bare p50/p95/p99 us", "bare/w");
	for (size_t i = 0; i < n; i++) {
		char warm[40], bare[40];

		if (!m[i].done) {
			(void)printf("%-11s %s\n", language_name(m[i].language), m[i].error.msg);
			continue;
		}
		(void)snprintf(warm, sizeof(warm), "%" PRIu64 "/%" PRIu64 "/%" PRIu64,
		               m[i].warm_us[0], m[i].warm_us[1], m[i].warm_us[2]);
		(void)snprintf(bare, sizeof(bare), "%" PRIu64 "/%" PRIu64 "/%" PRIu64,
		               m[i].bare_us[0], m[i].bare_us[1], m[i].bare_us[2]);
		(void)printf("%-11s %6u %9.1f %9" PRIu64 " %6" PRIu64 " %6" PRIu64 " %6u"
		             "  %21s  %21s  %6.1f\n",
		             language_name(m[i].language), m[i].stats.ready,
		             (double)m[i].fill_us / 1000, m[i].stats.refill_us, m[i].stats.hits,
		             m[i].stats.misses, m[i].failed, warm, bare,
		             m[i].warm_us[0] ? (double)m[i].bare_us[0] / (double)m[i].warm_us[0]
		                             : 0);
	}
}

static void print_times(const char *name, const uint64_t us[3])
{
	(void)printf(",\"%s\":{\"p50\":%" PRIu64 ",\"p95\":%" PRIu64 ",\"p99\":%" PRIu64 "}", name,
	             us[0], us[1], us[2]);
}

static void print_json(const struct measure *m, size_t n)
{
	(void)printf("{\"pools\":[");
	for (size_t i = 0; i < n; i++) {
		const struct pool_stats *s = &m[i].stats;

		(void)printf("%s{\"language\":\"%s\",\"ok\":%s,\"ready\":%u,\"fill_us\":%" PRIu64
		             ",\"refill_us\":%" PRIu64 ",\"oldest_ms\":%" PRIu64
		             ",\"hits\":%" PRIu64 ",\"misses\":%" PRIu64 ",\"made\":%" PRIu64
		             ",\"failed\":%u",
		             i ? "," : "", language_name(m[i].language),
		             m[i].done ? "true" : "false", s->ready, m[i].fill_us, s->refill_us,
		             s->oldest_ms, s->hits, s->misses, s->made, m[i].failed);
		print_times("warm_us", m[i].warm_us);
		print_times("bare_us", m[i].bare_us);
		(void)printf("}");
	}
	(void)printf("]}\n");
}

static int usage(struct err *err, const char *word, const char *text)
{
	return option_wrong("pool", word, text, err);
}

/* 1: the value was taken; 0: it has none; else an error. */
static int take_word(struct options *o, const struct option_word *w, struct err *err)
{
	bool size = streq(w->name, "--size"), runs = streq(w->name, "--runs");
	enum language language;
	uint64_t n;

	if (streq(w->name, "--json"))
		return o->json = true, 0;
	if (size || runs || streq(w->name, "--level")) {
		if (!w->value)
			return usage(err, w->name, "needs a value");
		if (!size && !runs)
			return level_from_name(w->value, &o->level) < 0
			               ? usage(err, w->name, "strict, standard or degraded-ok")
			               : 1;
		if (parse_u64(w->value, &n) < 0 || n < 1 || n > (size ? SIZE_MAX_BOXES : RUNS_MAX))
			return usage(err, w->name,
			             size ? "a number from 1 to 4096" : "a number from 1 to 10000");
		*(size ? &o->size : &o->runs) = (unsigned)n;
		return 1;
	}
	if (language_from_name(w->word, &language) < 0)
		return usage(err, w->word, w->word[0] == '-' ? "no such option" : "no language");
	o->languages |= 1u << language;
	return 0;
}

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		struct option_word w = option_word(argc, argv, i);
		int r = take_word(o, &w, err);

		if (r < 0)
			return r;
		if (r == 0 && w.joined)
			return usage(err, w.word, "takes no value");
		i += r > 0 && !w.joined;
	}
	return 0;
}

int cmd_pool(int argc, char **argv)
{
	struct options o = { .size = 8, .runs = 50, .level = LEVEL_STANDARD };
	struct measure m[ELEMENTSOF(programs)];
	bool all_done = true;
	struct err err = { 0 };
	size_t n = 0;

	if (streq(argv[0], "bench"))
		o.runs = BENCH_RUNS;
	for (int i = 1; i < argc; i++)
		if (streq(argv[i], "--help") || streq(argv[i], "-h"))
			return fputs(pool_help, stdout) < 0 ? 125 : 0;
	if (parse(argc, argv, &o, &err) < 0) {
		complain(&err);
		return 2;
	}
	for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
		if (o.languages && !(o.languages & 1u << programs[i].language))
			continue;
		m[n] = (struct measure){ 0 };
		measure_one(i, &o, &m[n]);
		/* A language that was not asked for by name may be missing on this host. */
		all_done &= m[n].done || (!o.languages && m[n].error.code == ERR_NOT_FOUND);
		n++;
	}
	if (o.json)
		print_json(m, n);
	else
		print_table(m, n);
	return all_done ? 0 : 125;
}
