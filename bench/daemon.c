/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brigd from outside, by a client of its own over connections that stay: how long one run takes
 * beside a bare process, how many there are in a second, and what brigd costs when nothing happens.
 *
 *     bench/daemon --brigd out/bin/brigd [OPTION...]
 *
 * It starts brigd itself, on a temporary state directory. An answer counts only when it is the
 * result of a verified box in which the code finished and printed exactly what it should; anything
 * else is a failure and makes the benchmark fail.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macro.h"
#include "contest.h"
#include "daemon.h"

#define FILES      8192 /* descriptors, brigd's too */
#define FILES_REST 512  /* beside the connections that are measured */
#define NEVER      "these bytes never come\n"

static uint64_t only_latency, only_sustained, only_memory;

int bare_hello(const struct bench *b, struct err *err)
{
	const char *const argv[] = { b->python, "-c", HELLO_CODE, NULL };
	const struct spawn s = { .argv = argv, .mount_ns = FD_NONE };

	return spawn_check(&s, b->break_output ? NEVER : HELLO_OUTPUT, err);
}

const char *expected_json(const struct bench *b)
{
	return b->break_output ? NEVER : HELLO_JSON;
}

void bench_fail(struct bench *b, const char *what, const struct err *err)
{
	b->failed++;
	(void)printf("\nFAILED: %s: %s\n", what, err->msg);
	(void)fflush(stdout);
}

/* ---- what it works with ---------------------------------------------------------------- */

static int allow_files(const struct bench *b, struct err *err)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return err_set(err, ERR_INTERNAL, errno, "the limit of descriptors");
	l.rlim_cur = MIN2(l.rlim_max, FILES);
	if (l.rlim_cur < b->connections + b->listeners + FILES_REST)
		return err_set(err, ERR_LIMIT, EMFILE, "%llu descriptors are too few",
		               (unsigned long long)l.rlim_cur);
	if (setrlimit(RLIMIT_NOFILE, &l) < 0)
		return err_set(err, ERR_INTERNAL, errno, "the limit of descriptors");
	return 0;
}

/* "--brigd PATH" is taken out of the words; the rest are numbers and switches. */
static int take_brigd(int *argc, char **argv, struct bench *b)
{
	int n = 1;

	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--brigd") == 0 && i + 1 < *argc)
			b->brigd = argv[++i];
		else
			argv[n++] = argv[i];
	}
	*argc = n;
	if (strchr(b->brigd, '/') && access(b->brigd, X_OK) == 0)
		return 0;
	(void)fprintf(stderr, "daemon: no program \"%s\": --brigd PATH names it, with a slash\n",
	              b->brigd);
	return -EINVAL;
}

static int parse(int argc, char **argv, struct bench *b)
{
	const struct option_row rows[] = {
		{ "samples", &b->samples, 100000, "runs of each row of the latency" },
		{ "slice-ms", &b->slice_ms, 60000,
		  "milliseconds of a slice of the sustained part" },
		{ "slices", &b->slices, 1000, "of bare and of brigd, by turns" },
		{ "clients", &b->clients, 1024, "that ask at a time" },
		{ "connections", &b->connections, 5000, "idle ones, whose memory is measured" },
		{ "listeners", &b->listeners, 2000, "to events, whose memory is measured" },
		{ "latency", &only_latency, 0, "this part, not all" },
		{ "sustained", &only_sustained, 0, "this part, not all" },
		{ "memory", &only_memory, 0, "this part, not all" },
		{ "break", &b->break_output, 0, "expect other bytes: every run must fail" },
	};

	if (take_brigd(&argc, argv, b) < 0)
		return -EINVAL;
	return options_parse(argc, argv, rows, ELEMENTSOF(rows));
}

/* ---- all of it ------------------------------------------------------------------------- */

static void under_load(struct bench *b, struct service *s, bool all)
{
	if (all || only_latency)
		measure_latency(b, s);
	if ((all || only_sustained) && !stop_asked())
		measure_sustained(b, s);
	if (all || only_latency || only_sustained)
		b->loaded = memory_of(s->pid);
}

static void measure_all(struct bench *b)
{
	const struct service_config config = {
		.brigd = b->brigd, .min = BOXES_MIN, .max = BOXES_MAX, .eager = true
	};
	bool all = !only_latency && !only_sustained && !only_memory;
	struct err err = { 0 };
	struct service s;
	int r = service_open(&s, &config, &err);

	if (r < 0) {
		bench_fail(b, "start", &err);
	} else {
		b->boxes = memory_of(s.pid);
		b->launcher = memory_of(launcher_of(s.pid));
		under_load(b, &s, all);
	}
	err = (struct err){ 0 };
	if (service_close(&s, &err) < 0)
		bench_fail(b, "end", &err);
	if (r >= 0 && (all || only_memory) && !stop_asked())
		measure_memory(b);
}

int main(int argc, char **argv)
{
	struct bench b = { .brigd = "out/bin/brigd",
		           .samples = 300,
		           .slice_ms = 5000,
		           .slices = 4,
		           .clients = 64,
		           .connections = 1000,
		           .listeners = 200 };
	struct err err = { 0 };
	char python[256];

	if (parse(argc, argv, &b) < 0)
		return 2;
	if (find_program("python3", python, sizeof(python)) < 0) {
		(void)fprintf(stderr, "daemon: no python3 here\n");
		return 1;
	}
	b.python = python;
	stop_on_signal();
	cpu_start();
	if (allow_files(&b, &err) < 0)
		bench_fail(&b, "set-up", &err);
	else
		measure_all(&b);
	cpu_stop();
	if (b.failed)
		(void)printf("\n%zu failed\n", b.failed);
	return b.failed || stop_asked() ? 1 : 0;
}
