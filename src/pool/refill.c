/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How many boxes wait, who gets one, and when the zygotes that they come from are made anew. The
 * number follows the demand; making boxes must not take the processors from code that runs.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pool/pool_impl.h"
#include "route/route.h"

#define STARTING_QUEUE 8 /* boxes under way while somebody waits for one */
#define STARTING_IDLE  4 /* while nobody does */
#define STARTING_BUSY  1 /* while code runs that must not be starved */

/* ---- boxes ----------------------------------------------------------------------------- */

/* As many as were claimed in the last fifth of a second, between the shape's bounds. */
unsigned pool_target(const struct shape *s)
{
	unsigned want = (unsigned)(s->demand * 2 + 0.5);

	if (want < s->config.min)
		return s->config.min;
	return want > s->config.max ? s->config.max : want;
}

static unsigned starting_max(const struct pool *p, unsigned queued)
{
	if (queued)
		return STARTING_QUEUE;
	return p->running.n ? STARTING_BUSY : STARTING_IDLE;
}

/* How many runs may start now. */
unsigned pool_room(const struct pool *p)
{
	unsigned taken = p->running.n + p->n_ordered;

	if (!p->running_max)
		return p->boxes_max;
	return taken < p->running_max ? p->running_max - taken : 0;
}

static void order_missing(struct pool *p, struct shape *s)
{
	unsigned queued = MIN2(s->n_queued, pool_room(p));
	unsigned want = queued + pool_target(s);
	unsigned most = starting_max(p, queued);

	/* Whoever just came for a box may come again: not beside his run, while there are others.
	 */
	if (!queued && s->n_ready > pool_target(s) / 4 && clock_ns() - s->claimed_ns < CALM_NS)
		return;
	/* What fails again and again is tried again now and then, not all the time. */
	if (s->spoilt && !queued && clock_ns() < s->retry_ns)
		return;
	while (s->kept && !p->closing && !p->lost && s->n_starting < most &&
	       s->n_ready + s->n_starting < want && p->n_free) {
		struct err err = { 0 };

		if (box_order(p, (uint32_t)(s - p->shapes), NULL, NULL, NULL, &err) < 0) {
			s->error = err;
			return; /* the tick tries again */
		}
	}
}

static struct pool_call *next_queued(const struct pool *p, const struct shape *s)
{
	if (!s->n_queued)
		return NULL;
	for (struct pool_call *c = p->queued.first; c; c = c->next)
		if (&p->shapes[c->shape] == s && !c->private_plan)
			return c;
	return NULL;
}

/* A box of its own, by the same zygote. */
static int order_private(struct pool *p, struct pool_call *c, struct err *err)
{
	struct shape *s = &p->shapes[c->shape];
	struct arena *a = calloc(1, sizeof(*a));
	struct plan *plan = NULL;
	struct request like = *c->req;
	int r;

	if (!a)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a plan");
	a->max = PLAN_ARENA_MAX;
	like.n_args = 0;
	like.env = s->config.like.env;
	like.n_env = s->config.like.n_env;
	plan = arena_alloc(a, sizeof(*plan));
	r = plan ? route_warm_again(&like, &image_host, a, plan, err) : -ENOMEM;
	if (r >= 0) {
		plan->layers &= ~p->without;
		plan->required &= ~p->without;
		r = box_order(p, c->shape, plan, a, c, err);
	}
	if (r < 0) {
		arena_done(a);
		free(a);
	}
	return r;
}

/* Those whose limits no waiting box has; they wait for the zygote, too. */
static void feed_private(struct pool *p, struct shape *s)
{
	struct pool_call *next;

	for (struct pool_call *c = p->queued.first; c && pool_room(p); c = next) {
		struct err err = { 0 };

		next = c->next;
		if (&p->shapes[c->shape] != s || !c->private_plan || c->ordered)
			continue;
		c->ordered = true;
		p->n_ordered++;
		if (order_private(p, c, &err) < 0)
			call_fail(p, c, RUN_SETUP_FAILED, &err);
	}
}

void pool_feed(struct pool *p, struct shape *s)
{
	struct pool_call *c;
	struct box *b;

	if (p->n_private && s->kept && !p->closing && !p->lost)
		feed_private(p, s);
	while (s->n_ready && pool_room(p) && (c = next_queued(p, s)) && (b = stock_take(p, s)))
		call_claim(p, c, b);
	order_missing(p, s);
}

/* ---- zygotes --------------------------------------------------------------------------- */

void shape_ask(struct pool *p, struct shape *s)
{
	struct err err = { 0 };
	uint32_t index = (uint32_t)(s - p->shapes);

	s->asked = launcher_keep(&p->launcher, index, &s->plan, s->zygote, &err) >= 0;
	if (!s->asked)
		s->error = err;
}

void shape_failed(struct pool *p, uint32_t shape, const struct err *err)
{
	struct shape *s = &p->shapes[shape % POOL_SHAPES_MAX];
	struct pool_call *c;

	s->error = *err;
	s->failures++;
	s->asked = false;
	s->kept = false;
	s->retry_ns = clock_ns() + RETRY_NS * (s->failures - 1);
	box_orphans(p, shape % POOL_SHAPES_MAX);
	while (s->failures >= FAILURES_MAX && (c = next_queued(p, s)))
		call_fail(p, c, RUN_SETUP_FAILED, err);
}

/* A new one is asked for when the old one is used up or gone; the old one serves until then. */
void shape_renew(struct pool *p, struct shape *s, uint64_t now)
{
	bool worn = s->forks >= s->config.zygote_uses ||
	            (now - s->zygote_ns) / 1000000 >= s->config.zygote_ms;

	if (p->closing || p->lost || s->asked)
		return;
	if ((s->zygote && s->kept && worn) || (!s->kept && now >= s->retry_ns))
		shape_ask(p, s);
}
