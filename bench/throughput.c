/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sustained runs in a second of Python's print(1): bare processes, and fresh warm boxes, whose
 * output is collected and which are torn down. A closed loop: so many are under way all the time.
 * Every row is a set of worker processes of its own, bound to its processors with all that they
 * start; a worker has one pool with one launcher.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macro.h"
#include "contest.h"
#include "loop.h"

#define CODE        "print(1)"
#define OUTPUT      "1\n"
#define WORKERS_MAX 4
#define READY_MS    120000

static uint64_t seconds = 10, few, break_output;

struct row {
	const char *name;
	bool bare;
	enum network network;
	unsigned cores, workers, concurrent; /* of each worker */
	bool apart;                          /* each worker has a processor of its own */
	bool few;                            /* part of a short run */
};

/* What a worker tells at the end. */
struct report {
	uint64_t done, failed, ns;
	struct err error;
};

struct worker {
	pid_t pid;
	int to, from;
};

struct outcome {
	struct report sum;
	double rate, cpu_ms, kib_per_s;
};

/* ---- in a worker ----------------------------------------------------------------------- */

static int bind_to(const struct row *row, unsigned index)
{
	cpu_set_t all, some;
	unsigned seen = 0;

	CPU_ZERO(&some);
	if (sched_getaffinity(0, sizeof(all), &all) < 0)
		return -errno;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		if (row->apart ? seen == index % row->cores : seen < row->cores)
			CPU_SET(cpu, &some);
		seen++;
	}
	return sched_setaffinity(0, sizeof(some), &some) < 0 ? -errno : 0;
}

static const char *expected(void)
{
	return break_output ? "these bytes never come\n" : OUTPUT;
}

/* Says that it is ready, and waits for the go. */
static int meet(int to_parent, int from_parent)
{
	char byte = 0;

	return write(to_parent, &byte, 1) == 1 && read(from_parent, &byte, 1) == 1 ? 0 : -EPIPE;
}

static int work_bare(struct report *rep, int out, int in)
{
	char python[256];
	const char *const argv[] = { python, "-c", CODE, NULL };
	const struct spawn s = { .argv = argv, .mount_ns = FD_NONE };
	uint64_t begin, until;
	int r = find_program("python3", python, sizeof(python));

	if (r < 0 || meet(out, in) < 0)
		return -ENOENT;
	begin = clock_ns();
	until = begin + seconds * 1000000000;
	while (clock_ns() < until) {
		struct err err = { 0 };

		if (spawn_check(&s, expected(), &err) >= 0)
			rep->done++;
		else if (!rep->failed++)
			rep->error = err;
	}
	rep->ns = clock_ns() - begin;
	return 0;
}

static int work_boxes(const struct row *row, struct report *rep, int out, int in)
{
	unsigned wait = row->concurrent < 8 ? 8 : row->concurrent;
	const struct boxes_config config = {
		.language = LANGUAGE_PYTHON, .network = row->network, .min = wait, .max = wait
	};
	struct boxes b = { 0 };
	struct loop l = {
		.boxes = &b, .code = CODE, .output = expected(), .concurrent = row->concurrent
	};
	uint64_t begin;
	int r = boxes_open(&b, &config, &rep->error);

	if (r >= 0)
		r = meet(out, in);
	if (r >= 0) {
		l.until_ns = clock_ns() + seconds * 1000000000;
		r = loop_run(&l, &rep->error);
	}
	begin = clock_ns();
	if (r >= 0) /* the teardown belongs to it, and as many boxes have to wait as before */
		r = boxes_settle(&b, &rep->error);
	rep->done = l.done;
	rep->failed = l.failed + (r < 0);
	rep->ns = l.ns + clock_ns() - begin;
	if (l.error.code)
		rep->error = l.error;
	if (write(out, rep, sizeof(*rep)) == sizeof(*rep))
		(void)!read(in, &(char){ 0 }, 1); /* until its processor time was read */
	boxes_close(&b);
	return r;
}

static int be_worker(const struct row *row, unsigned index, int out, int in)
{
	struct report rep = { 0 };
	int r = bind_to(row, index);

	if (r < 0)
		return r;
	if (!row->bare)
		return work_boxes(row, &rep, out, in);
	r = work_bare(&rep, out, in);
	if (write(out, &rep, sizeof(rep)) == sizeof(rep))
		(void)!read(in, &(char){ 0 }, 1);
	return r;
}

/* ---- their parent ---------------------------------------------------------------------- */

static int start_worker(const struct row *row, unsigned index, struct worker *ret)
{
	int up[2], down[2];

	if (pipe2(up, O_CLOEXEC) < 0 || pipe2(down, O_CLOEXEC) < 0)
		return -errno;
	(void)fflush(stdout);
	ret->pid = fork();
	if (ret->pid < 0)
		return -errno;
	if (ret->pid == 0) {
		(void)close(up[0]);
		(void)close(down[1]);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(be_worker(row, index, up[1], down[0]) < 0 ? 1 : 0);
	}
	(void)close(up[1]);
	(void)close(down[0]);
	ret->from = up[0];
	ret->to = down[1];
	return 0;
}

static int hear(const struct worker *w, void *p, size_t n, uint64_t ms)
{
	struct pollfd fd = { w->from, POLLIN, 0 };

	if (poll(&fd, 1, (int)ms) != 1)
		return -ETIMEDOUT;
	return read(w->from, p, n) == (ssize_t)n ? 0 : -EPIPE;
}

static void tell(const struct worker *w)
{
	(void)!write(w->to, "", 1);
}

static void end_worker(struct worker *w, bool kill_it)
{
	if (w->pid <= 0)
		return;
	if (kill_it)
		(void)kill(w->pid, SIGKILL);
	tell(w); /* closing alone would not do: the other workers have a copy */
	(void)fd_close(w->to);
	(void)fd_close(w->from);
	(void)waitpid(w->pid, NULL, 0);
}

static void add_report(struct outcome *out, const struct report *rep)
{
	out->sum.done += rep->done;
	out->sum.failed += rep->failed;
	if (rep->ns)
		out->rate += (double)rep->done * 1e9 / (double)rep->ns;
	if (!out->sum.error.code)
		out->sum.error = rep->error;
}

/* After a quarter of the time the pool has its size: from there on memory should be flat. */
static int watch(struct worker *w, unsigned n, struct outcome *out)
{
	double cpu = cpu_us(), before;
	struct report rep;
	int r = 0;

	for (unsigned i = 0; i < n; i++)
		tell(&w[i]);
	(void)usleep((useconds_t)(seconds * 250000));
	before = (double)mem_available_kib();
	(void)usleep((useconds_t)(seconds * 700000));
	out->kib_per_s = (before - (double)mem_available_kib()) / ((double)seconds * 0.7);
	for (unsigned i = 0; i < n && r >= 0; i++) {
		r = hear(&w[i], &rep, sizeof(rep), READY_MS);
		if (r >= 0)
			add_report(out, &rep);
	}
	if (out->sum.done)
		out->cpu_ms = (cpu_us() - cpu) / 1000 / (double)out->sum.done;
	return r;
}

static int measure_row(const struct row *row, struct outcome *out)
{
	struct worker w[WORKERS_MAX] = { 0 };
	unsigned n = 0;
	char byte;
	int r = 0;

	*out = (struct outcome){ 0 };
	for (; n < row->workers && r >= 0; n++)
		r = start_worker(row, n, &w[n]);
	for (unsigned i = 0; i < n && r >= 0; i++)
		r = hear(&w[i], &byte, 1, READY_MS);
	if (r >= 0)
		r = watch(w, n, out);
	for (unsigned i = 0; i < n; i++)
		end_worker(&w[i], r < 0);
	return r;
}

/* ---- the table ------------------------------------------------------------------------- */

static size_t print_row(const struct row *row, struct outcome *bare)
{
	struct outcome o;
	int r = measure_row(row, &o);

	(void)printf("| %s | %u | %u | %u |", row->name, row->cores, row->workers,
	             row->workers * row->concurrent);
	if (r < 0) {
		(void)printf(" 0 | 1 | broken: %s | | | |\n", strerror(-r));
		return 1;
	}
	if (row->bare && o.rate > bare->rate)
		*bare = o;
	(void)printf(" %llu | %llu | %.1f | %.2f | ", (unsigned long long)o.sum.done,
	             (unsigned long long)o.sum.failed, o.rate,
	             bare->rate > 0 ? o.rate / bare->rate : 0);
	if (row->bare || cpu_is_complete())
		(void)printf("%.2f | %.0f |\n", o.cpu_ms, o.kib_per_s);
	else
		(void)printf("- | %.0f |\n", o.kib_per_s);
	if (o.sum.failed)
		(void)fprintf(stderr, "%s: %s\n", row->name, o.sum.error.msg);
	(void)fflush(stdout);
	return o.sum.failed;
}

#define LOOP NETWORK_LOOPBACK
#define NONE NETWORK_NONE

static const struct row one_core[] = {
	{ "bare", true, LOOP, 1, 1, 1, false },
	{ "brig warm", false, LOOP, 1, 1, 8, false },
	{ "brig warm, network none", false, NONE, 1, 1, 8, false },
};

static const struct row two_cores[] = {
	{ "bare", true, LOOP, 2, 1, 1, false },
	{ "bare", true, LOOP, 2, 2, 1, false, true },
	{ "brig warm", false, LOOP, 2, 1, 1, false },
	{ "brig warm", false, LOOP, 2, 1, 2, false },
	{ "brig warm", false, LOOP, 2, 1, 8, false, true },
	{ "brig warm", false, LOOP, 2, 1, 64, false },
	{ "brig warm, two pools", false, LOOP, 2, 2, 4, false },
	{ "brig warm, two pools, one on each core", false, LOOP, 2, 2, 4, true, true },
	{ "brig warm, two pools, one on each core", false, LOOP, 2, 2, 32, true },
	{ "brig warm, network none", false, NONE, 2, 1, 8, false },
	{ "brig warm, network none, two pools, one on each core", false, NONE, 2, 2, 4, true },
};

static size_t print_rows(const struct row *rows, size_t n)
{
	struct outcome bare = { 0 };
	size_t failed = 0;

	for (size_t i = 0; i < n && !stop_asked(); i++)
		if (!few || rows[i].few)
			failed += print_row(&rows[i], &bare);
	return failed;
}

int main(int argc, char **argv)
{
	const struct option_row options[] = {
		{ "seconds", &seconds, 3600, "for each row" },
		{ "few", &few, 0, "the most important rows only" },
		{ "break", &break_output, 0, "expect other bytes: every run must fail" },
	};
	size_t failed;

	if (options_parse(argc, argv, options, ELEMENTSOF(options)) < 0)
		return 2;
	stop_on_signal();
	cpu_start();
	(void)printf(
		"\n| Python print(1) | cores | processes | concurrent | runs | failed | runs/s | "
		"x best bare so far | CPU ms | memory KiB/s |\n"
		"|---|---|---|---|---|---|---|---|---|---|\n");
	failed = print_rows(one_core, ELEMENTSOF(one_core));
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		failed += print_rows(two_cores, ELEMENTSOF(two_cores));
	else
		(void)printf("\nThis machine has one processor: no rows for two.\n");
	cpu_stop();
	return failed || stop_asked() ? 1 : 0;
}
