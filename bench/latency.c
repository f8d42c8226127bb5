/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long one run takes, from the request to its output in our hands: bare, in a brig box, and in
 * every other sandbox that is installed. The contestants take turns in random order in one run, so
 * that what the machine does meanwhile hits them alike; compare ratios inside one table.
 *
 * A turn is a few runs: hot, back to back after one that is not counted; or idle, each after a
 * quiet moment. Between runs everybody may finish what is under way, and that is not timed: a pool
 * ends the box of the run before and makes another. Where it says "in a row", that comes after the
 * last run of the turn, as for somebody who has several requests.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "contest.h"

#define BURST       4  /* counted runs of a turn */
#define TRY_OUT     3  /* runs before the first that counts */
#define HOPELESS    20 /* failures without one success */
#define ENTRIES_MAX 32
#define SETTLE_MS   100 /* for what the kernel does after an end */

static uint64_t samples = 500, budget_ms = 60000, least = 20, cpu_runs = 50, only, row, no_peers,
		break_output;

/* ---- one run --------------------------------------------------------------------------- */

static int rest(struct entry *e, struct err *err)
{
	return e->who->rest ? e->who->rest(e, err) : 0;
}

static void measure(struct entry *e, bool keep)
{
	struct err err = { 0 };
	uint64_t start = clock_ns(), end;
	int r = e->who->run(e, &err);

	end = clock_ns();
	if (r >= 0 && keep)
		samples_add(&e->samples, end - start);
	if (r >= 0 && !e->who->in_a_row)
		r = rest(e, &err);
	if (r < 0)
		samples_fail(&e->samples, &err);
}

static bool wants_more(const struct entry *e)
{
	if (stop_asked() || (!e->samples.n && e->samples.failed >= HOPELESS))
		return false;
	return !e->error.code && !e->absent && e->samples.n + e->samples.failed < e->wanted;
}

static void take_turn(struct entry *e)
{
	struct err err = { 0 };

	if (!e->who->idle_ms)
		measure(e, false);
	for (int i = 0; i < BURST && wants_more(e); i++) {
		if (e->who->idle_ms)
			e->who->idle(e, e->who->idle_ms);
		measure(e, true);
	}
	if (e->who->in_a_row && rest(e, &err) < 0)
		samples_fail(&e->samples, &err);
}

/* ---- who takes part -------------------------------------------------------------------- */

static bool fits(const struct contestant *c, const struct workload *w)
{
	if (c->exec_only && !w->exec)
		return false;
	return !c->shell_only || (w->language == LANGUAGE_SHELL && !w->exec);
}

/* The runs before the first that counts; they tell how many samples there is time for. */
static void try_out(struct entry *e)
{
	uint64_t start = clock_ns(), each, runs = MIN2(samples, TRY_OUT);
	struct err err = { 0 };
	int r = 0;

	for (uint64_t i = 0; i < runs && r >= 0; i++) {
		r = e->who->run(e, &err);
		if (r >= 0)
			r = rest(e, &err);
	}
	if (r < 0) {
		e->error = err;
		return;
	}
	each = (clock_ns() - start) / runs + 1;
	e->wanted = samples;
	if (!e->who->full && each * samples > budget_ms * 1000000)
		e->wanted = budget_ms * 1000000 / each;
	if (e->wanted < least)
		e->wanted = MIN2(samples, least);
}

static void enter(struct entry *e)
{
	char program[256];

	if (e->who->needs && find_program(e->who->needs, program, sizeof(program)) < 0) {
		e->absent = true;
		return;
	}
	if (find_program(e->what->argv[0], e->program, sizeof(e->program)) < 0) {
		(void)err_set(&e->error, ERR_NOT_FOUND, 0, "no %s here", e->what->argv[0]);
		return;
	}
	if (!e->who->setup || e->who->setup(e, &e->error) >= 0)
		try_out(e);
	if (e->error.code && !e->who->needs) /* a peer may refuse this host; we may not */
		samples_fail(&e->samples, &e->error);
}

static size_t add_all(struct entry *entries, size_t n, const struct workload *w,
                      const struct contestant *list, size_t n_list)
{
	for (size_t i = 0; i < n_list && n < ENTRIES_MAX; i++) {
		if (!fits(&list[i], w))
			continue;
		entries[n] = (struct entry){ .who = &list[i], .what = w, .cpu_ms = -1 };
		enter(&entries[n++]);
	}
	return n;
}

/* ---- the contest ----------------------------------------------------------------------- */

static void run_all(struct entry *entries, size_t n)
{
	size_t order[ENTRIES_MAX];
	bool more = true;

	while (more) {
		more = false;
		shuffle(order, n);
		for (size_t i = 0; i < n; i++) {
			struct entry *e = &entries[order[i]];

			if (wants_more(e)) {
				take_turn(e);
				more = true;
			}
		}
	}
}

/* Alone, since nobody can say whose processor time it was otherwise. */
static void measure_cpu(struct entry *e)
{
	uint64_t runs = MIN2(e->wanted, cpu_runs);
	struct err err = { 0 };
	double before;

	if (stop_asked() || e->error.code || e->absent || e->samples.failed || e->who->cpu_hidden ||
	    (e->who->killed && !cpu_is_complete()))
		return;
	(void)usleep(SETTLE_MS * 1000);
	before = cpu_us();
	for (uint64_t i = 0; i < runs; i++)
		if (e->who->run(e, &err) < 0 || rest(e, &err) < 0) {
			samples_fail(&e->samples, &err);
			return;
		}
	(void)usleep(SETTLE_MS * 1000);
	e->cpu_ms = (cpu_us() - before) / 1000 / (double)runs;
}

static void print_entry(struct entry *e, double bare)
{
	double p50 = samples_percentile(&e->samples, 50);

	if (e->absent || e->error.code || !e->samples.n) {
		const struct err *why = e->error.code ? &e->error : &e->samples.error;

		(void)printf("| %s | 0 | %zu | %s | | | | |\n", e->who->name, e->samples.failed,
		             e->absent ? "not installed" : why->msg);
		return;
	}
	(void)printf("| %s | %zu | %zu | %.3f | %.3f | %.3f | ", e->who->name, e->samples.n,
	             e->samples.failed, p50 / 1000, samples_percentile(&e->samples, 95) / 1000,
	             samples_percentile(&e->samples, 99) / 1000);
	if (bare > 0 && p50 < bare)
		(void)printf("1/%.1f | ", bare / p50);
	else
		(void)printf("%.2f | ", bare > 0 ? p50 / bare : 0);
	if (e->cpu_ms >= 0)
		(void)printf("%.2f |\n", e->cpu_ms);
	else
		(void)printf("- |\n");
}

static size_t print_table(struct entry *entries, size_t n)
{
	size_t failed = 0;
	double bare = samples_percentile(&entries[0].samples, 50);

	(void)printf("\n| %s | n | failed | p50 ms | p95 ms | p99 ms | x bare | CPU ms |\n"
	             "|---|---|---|---|---|---|---|---|\n",
	             entries[0].what->name);
	for (size_t i = 0; i < n; i++)
		print_entry(&entries[i], bare);
	for (size_t i = 0; i < n; i++) {
		if (!entries[i].who->needs) /* ours, not a peer's */
			failed += entries[i].samples.failed;
		if (entries[i].samples.failed)
			(void)printf("\n%s: %zu failed, the first: %s\n", entries[i].who->name,
			             entries[i].samples.failed, entries[i].samples.error.msg);
	}
	return failed;
}

static size_t contest(struct workload *w)
{
	static struct entry entries[ENTRIES_MAX];
	size_t n = add_all(entries, 0, w, peer_contestants, no_peers ? 3 : peer_contestants_n);
	size_t failed;

	if (row)
		n = add_all(entries, n, w, brig_contestants + row - 1, 1);
	else
		n = add_all(entries, n, w, brig_contestants, brig_contestants_n);
	if (break_output) /* shows that a wrong answer is noticed */
		w->output = "these bytes never come\n";
	run_all(entries, n);
	for (size_t i = 0; i < n; i++)
		measure_cpu(&entries[i]);
	failed = print_table(entries, n);
	(void)fflush(stdout);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].who->teardown)
			entries[i].who->teardown(&entries[i]);
		samples_done(&entries[i].samples);
	}
	return failed;
}

int main(int argc, char **argv)
{
	const struct option_row rows[] = {
		{ "samples", &samples, 100000, "of each contestant" },
		{ "budget", &budget_ms, 3600000, "milliseconds for a slow contestant" },
		{ "least", &least, 100000, "samples of a slow contestant" },
		{ "cpu-runs", &cpu_runs, 100000, "alone, for the processor time" },
		{ "only", &only, workloads_n, "this workload, from 1; 0: all" },
		{ "row", &row, brig_contestants_n, "of brig's rows this one, from 1; 0: all" },
		{ "no-peers", &no_peers, 0, "bare and brig only" },
		{ "break", &break_output, 0, "expect other bytes: every run must fail" },
	};
	size_t failed = 0;

	if (options_parse(argc, argv, rows, ELEMENTSOF(rows)) < 0)
		return 2;
	stop_on_signal();
	cpu_start();
	for (size_t i = 0; i < workloads_n && !stop_asked(); i++) {
		struct workload w = workloads[i];

		if (!only || only == i + 1)
			failed += contest(&w);
	}
	cpu_stop();
	return failed || stop_asked() ? 1 : 0;
}
