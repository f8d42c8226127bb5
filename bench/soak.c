/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Very many warm runs, some of which leave processes and files behind on purpose; then everything
 * is counted again. Nothing may have grown.
 */

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macro.h"
#include "census.h"
#include "loop.h"

#define WARM_UP  500 /* runs after which memory has its size */
#define POINTS   20  /* of the slope */
#define QUIET_MS 10000

static uint64_t runs = 2000, concurrent = 4;

/* A tenth leaves a process, a thread and files; the box's end is theirs too. */
static const char code[] =
	"import os, threading, time\n"
	"if os.getrandom(1)[0] % 10 == 0:\n"
	"    open('left', 'w').write('x' * 10000)\n"
	"    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
	"    if os.fork() == 0:\n"
	"        os.close(1)\n"
	"        os.close(2)\n"
	"        time.sleep(60)\n"
	"print(1)\n";

/* The same number of boxes must wait, or it would be them that are counted. */
static int count_quietly(struct boxes *b, const struct census *before, struct census *ret,
                         struct err *err)
{
	uint64_t deadline = clock_ms() + QUIET_MS;
	int r;

	do {
		boxes_idle(b, 300);
		r = boxes_settle(b, err);
		if (r < 0)
			return r;
		census_take(ret);
	} while (before && census_grew(before, ret) && clock_ms() < deadline);
	return 0;
}

static int run_batch(struct boxes *b, uint64_t n, struct loop *sum, struct err *err)
{
	struct loop l = { .boxes = b,
		          .code = code,
		          .output = "1\n",
		          .concurrent = (unsigned)concurrent,
		          .most = n };
	int r = loop_run(&l, err);

	sum->done += l.done;
	sum->ns += l.ns;
	if (l.failed && !sum->failed)
		sum->error = l.error;
	sum->failed += l.failed;
	return r;
}

/* KiB for each 1000 runs, by least squares over (runs, memory available) after each batch. */
struct slope {
	double n, x, y, xx, xy;
};

static void slope_add(struct slope *s, double x, double y)
{
	s->n++;
	s->x += x;
	s->y += y;
	s->xx += x * x;
	s->xy += x * y;
}

static double slope_of(const struct slope *s)
{
	double d = s->n * s->xx - s->x * s->x;

	return d > 0 ? (s->n * s->xy - s->x * s->y) / d * 1000 : 0;
}

static int run_all(struct boxes *b, struct loop *sum, struct slope *own, struct slope *host,
                   struct err *err)
{
	uint64_t batch = runs / POINTS + 1;
	int r = 0;

	for (uint64_t n = 0; n < runs && r >= 0; n += batch) {
		r = run_batch(b, MIN2(batch, runs - n), sum, err);
		slope_add(own, (double)n, (double)rss_self_kib());
		slope_add(host, (double)n, -(double)mem_available_kib());
	}
	return r;
}

static int soak(struct boxes *b, struct loop *sum, struct err *err)
{
	struct slope own = { 0 }, host = { 0 };
	struct census before, after;
	int r = run_batch(b, WARM_UP, sum, err);

	if (r >= 0)
		r = count_quietly(b, NULL, &before, err);
	if (r >= 0)
		r = run_all(b, sum, &own, &host, err);
	if (r >= 0)
		r = count_quietly(b, &before, &after, err);
	if (r < 0)
		return r;
	(void)printf("\n%" PRIu64 " runs, %" PRIu64 " at once: %" PRIu64 " failed, %.1f runs/s; "
	             "memory for each 1000 runs: ours %.1f KiB, the whole machine's %.1f KiB\n",
	             runs, concurrent, sum->failed, (double)sum->done * 1e9 / (double)sum->ns,
	             slope_of(&own), slope_of(&host));
	census_print(&before, &after);
	return census_grew(&before, &after);
}

int main(int argc, char **argv)
{
	const struct option_row options[] = {
		{ "runs", &runs, 100000000, "to do" },
		{ "concurrent", &concurrent, LOOP_CONCURRENT_MAX, "under way at once" },
	};
	const struct boxes_config config = {
		.language = LANGUAGE_PYTHON, .network = NETWORK_LOOPBACK, .min = 8, .max = 8
	};
	struct loop sum = { 0 };
	struct boxes b = { 0 };
	struct err err = { 0 };
	int r;

	if (options_parse(argc, argv, options, ELEMENTSOF(options)) < 0)
		return 2;
	r = boxes_open(&b, &config, &err);
	if (r >= 0)
		r = soak(&b, &sum, &err);
	boxes_close(&b);
	if (r < 0)
		(void)printf("\nbroken: %s\n", err.msg);
	if (sum.failed)
		(void)printf("\nthe first failure: %s\n", sum.error.msg);
	return r || sum.failed ? 1 : 0;
}
