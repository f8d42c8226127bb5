/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Very many idle warm Python boxes: what one costs, how fast they are made, whether a claim takes
 * longer when there are more, and whether every one answers in the end.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "boxes.h"
#include "census.h"
#include "measure.h"

#define CREATE_MS 600000
#define QUIET_MS  20000

static uint64_t number = 1000, claims = 100, none;

struct stage {
	unsigned boxes;
	double rate, available_kib, pss_kib;
	struct samples claims;
};

/* ---- one stage: so many boxes ----------------------------------------------------------- */

static double pss_of_boxes(void)
{
	struct family f = { 0 };
	double sum = 0;

	if (family_find(&f) < 0)
		return 0;
	for (size_t i = 0; i < f.n; i++)
		if (f.in_box[i])
			sum += (double)pss_kib(f.pids[i]);
	family_done(&f);
	return sum;
}

static int grow(struct boxes *b, unsigned from, struct stage *s, struct err *err)
{
	uint64_t begin = clock_ns();
	int r;

	pool_resize(b->pool, 0, s->boxes, s->boxes);
	r = pool_wait_ready(b->pool, 0, s->boxes, CREATE_MS, FD_NONE, err);
	s->rate = (double)(s->boxes - from) * 1e9 / (double)(clock_ns() - begin);
	return r;
}

/* Each claim takes one that waits, and a new one is made before the next. */
static int measure_claims(struct boxes *b, struct samples *s, struct err *err)
{
	int r = 0;

	for (uint64_t i = 0; i < claims && r >= 0; i++) {
		struct err why = { 0 };
		uint64_t begin = clock_ns();

		if (boxes_run(b, "print(1)", "1\n", &why) >= 0)
			samples_add(s, clock_ns() - begin);
		else
			samples_fail(s, &why);
		r = boxes_settle(b, err);
	}
	return r;
}

static int do_stage(struct boxes *b, unsigned from, double available, struct stage *s,
                    struct err *err)
{
	int r = grow(b, from, s, err);

	if (r < 0)
		return r;
	boxes_idle(b, 1000); /* what the kernel frees later */
	s->available_kib = (available - (double)mem_available_kib()) / s->boxes;
	s->pss_kib = pss_of_boxes() / s->boxes;
	return measure_claims(b, &s->claims, err);
}

static void print_stage(struct stage *s)
{
	(void)printf("| %u | %.1f | %.0f | %.0f | %zu | %zu | %.3f | %.3f | %.3f |\n", s->boxes,
	             s->rate, s->available_kib, s->pss_kib, s->claims.n, s->claims.failed,
	             samples_percentile(&s->claims, 50) / 1000,
	             samples_percentile(&s->claims, 95) / 1000,
	             samples_percentile(&s->claims, 99) / 1000);
	(void)fflush(stdout);
}

/* 10, 100, 1000 and the number itself. */
static int do_stages(struct boxes *b, size_t *ret_failed, struct err *err)
{
	const unsigned steps[] = { 10, 100, 1000, (unsigned)number };
	double available;
	unsigned from = 0;
	int r = 0;

	boxes_idle(b, 1000);
	available = (double)mem_available_kib();
	(void)printf("\n| idle boxes | made/s | all-in KiB each | Pss KiB each | claims | failed | "
	             "p50 ms | p95 ms | p99 ms |\n|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ELEMENTSOF(steps) && r >= 0; i++) {
		struct stage s = { .boxes = steps[i] };

		if (s.boxes <= from || s.boxes > number)
			continue;
		r = do_stage(b, from, available, &s, err);
		if (r >= 0)
			print_stage(&s);
		*ret_failed += s.claims.failed;
		from = s.boxes;
		samples_done(&s.claims);
	}
	return r;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* No new ones; each that is there is asked something that only it is asked. */
static int ask_all(struct boxes *b, size_t *ret_failed, struct err *err)
{
	struct pool_stats before, after;
	uint64_t begin = clock_ns(), answered = 0;
	char code[64], output[32];

	pool_stats(b->pool, 0, &before);
	pool_resize(b->pool, 0, 0, 0);
	for (uint64_t i = 0; i < number; i++) {
		(void)snprintf(code, sizeof(code), "print(%" PRIu64 " * 7 + 1)", i);
		(void)snprintf(output, sizeof(output), "%" PRIu64 "\n", i * 7 + 1);
		answered += boxes_run(b, code, output, err) >= 0;
	}
	pool_stats(b->pool, 0, &after);
	(void)printf("\n%" PRIu64 " of %" PRIu64 " boxes answered, %" PRIu64
	             " from those that waited, in %.1f s\n",
	             answered, number, after.hits - before.hits,
	             (double)(clock_ns() - begin) / 1e9);
	*ret_failed += number - answered;
	*ret_failed += after.hits - before.hits != number;
	return 0;
}

/* Everything of ours is gone; others may run boxes of their own meanwhile. */
static bool is_gone(const struct census *before)
{
	uint64_t deadline = clock_ms() + QUIET_MS;
	struct census after;

	do {
		(void)usleep(200000);
		census_take(&after);
		after.rss = 0; /* the allocator may keep what it has */
	} while (census_grew(before, &after) && clock_ms() < deadline);
	if (census_grew(before, &after))
		census_print(before, &after);
	return !census_grew(before, &after);
}

int main(int argc, char **argv)
{
	const struct option_row options[] = {
		{ "boxes", &number, 8000, "alive at once" },
		{ "claims", &claims, 100000, "at each stage" },
		{ "network-none", &none, 0, "boxes without a loopback" },
	};
	struct boxes_config config = { .language = LANGUAGE_PYTHON, .network = NETWORK_LOOPBACK };
	struct census before;
	struct boxes b = { 0 };
	struct err err = { 0 };
	size_t failed = 0;
	int r;

	if (options_parse(argc, argv, options, ELEMENTSOF(options)) < 0)
		return 2;
	if (none)
		config.network = NETWORK_NONE;
	census_take(&before);
	r = boxes_open(&b, &config, &err);
	if (r >= 0)
		r = do_stages(&b, &failed, &err);
	if (r >= 0)
		r = ask_all(&b, &failed, &err);
	boxes_close(&b);
	if (r < 0)
		(void)printf("\nbroken: %s\n", err.msg);
	else if (failed)
		(void)printf("\n%zu failed, the last: %s\n", failed, err.msg);
	if (!is_gone(&before)) {
		(void)printf("\nsomething was left behind\n");
		failed++;
	}
	return r < 0 || failed ? 1 : 0;
}
