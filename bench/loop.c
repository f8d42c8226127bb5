/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <errno.h>

#include "base/clock.h"
#include "base/macro.h"

#define STUCK_MS 60000 /* no run takes that long here */
#define EACH_NS  UINT64_C(100000000)

struct slot {
	struct loop *loop;
	struct request req;
	struct result res;
	bool busy, over;
};

static void note(void *data, struct result *res)
{
	struct slot *s = data;

	(void)res;
	s->over = true;
}

static int submit(struct slot *s, struct err *err)
{
	result_init(&s->res);
	s->over = false;
	s->busy = true;
	return pool_submit(s->loop->boxes->pool, &s->req, &s->res, note, s, NULL, err);
}

static void take_result(struct slot *s)
{
	struct err err = { 0 };
	struct loop *l = s->loop;

	if (result_check(&s->res, l->output, &err) >= 0)
		l->done++;
	else if (!l->failed++)
		l->error = err;
	result_done(&s->res);
	s->busy = false;
}

static bool may_start(const struct loop *l, uint64_t started)
{
	return (!l->until_ns || clock_ns() < l->until_ns) && (!l->most || started < l->most);
}

/* Takes what is done and fills up. Returns how many are under way, or -errno. */
static int serve(struct loop *l, struct slot *slots, uint64_t *started, struct err *err)
{
	int busy = 0, r;

	for (unsigned i = 0; i < l->concurrent; i++) {
		struct slot *s = &slots[i];

		if (s->busy && s->over)
			take_result(s);
		if (!s->busy && may_start(l, *started)) {
			r = submit(s, err);
			if (r < 0) {
				s->busy = false;
				return r;
			}
			++*started;
		}
		busy += s->busy;
	}
	return busy;
}

static int turn_all(struct loop *l, struct slot *slots, struct err *err)
{
	uint64_t started = 0, seen = 0, begin = clock_ns(), moved = begin, told = begin;
	int busy;

	while ((busy = serve(l, slots, &started, err)) > 0) {
		uint64_t now = clock_ns();

		if (pool_turn(l->boxes->pool, POOL_TICK_MS) < 0)
			return err_set(err, ERR_INTERNAL, EPIPE, "the launcher is gone");
		if (l->done + l->failed != seen) {
			seen = l->done + l->failed;
			moved = now;
		}
		if ((now - moved) / 1000000 > STUCK_MS)
			return err_set(err, ERR_INTERNAL, ETIMEDOUT, "%d runs do not end", busy);
		if (l->each_ms && now - told >= EACH_NS) {
			told = now;
			l->each_ms(l->data, seen);
		}
	}
	l->ns = clock_ns() - begin;
	return busy;
}

int loop_run(struct loop *l, struct err *err)
{
	CLEANUP_FREE struct slot *slots = calloc(l->concurrent, sizeof(*slots));

	if (!slots)
		return err_set(err, ERR_INTERNAL, ENOMEM, "the loop");
	for (unsigned i = 0; i < l->concurrent; i++) {
		slots[i].loop = l;
		slots[i].req = l->boxes->like;
		slots[i].req.code = str_of(l->code);
	}
	return turn_all(l, slots, err);
}
