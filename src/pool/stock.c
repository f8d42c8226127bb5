/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The boxes of a shape that wait. A rehearsed one answers at once and has a megabyte of its own for
 * that, so only those that are claimed next are rehearsed; the rest is a reserve for bursts, with
 * next to no memory. A box that was made in a hurry belongs to the reserve, too.
 *
 * In the array the reserve comes first, and in both parts the oldest.
 */

#include <poll.h>
#include <string.h>

#include "pool/pool_impl.h"

static unsigned hot(const struct shape *s)
{
	return s->n_ready - s->n_reserve;
}

bool stock_wants_rehearsed(const struct shape *s)
{
	return hot(s) + s->n_starting < STOCK_HOT_MAX;
}

void stock_put(struct shape *s, uint32_t index, bool rehearsed)
{
	unsigned at = rehearsed ? s->n_ready : s->n_reserve;

	memmove(s->ready + at + 1, s->ready + at, (s->n_ready - at) * sizeof(*s->ready));
	s->ready[at] = index;
	s->n_ready++;
	s->n_reserve += !rehearsed;
}

void stock_remove(struct shape *s, uint32_t index)
{
	for (unsigned i = 0; i < s->n_ready; i++) {
		if (s->ready[i] != index)
			continue;
		memmove(s->ready + i, s->ready + i + 1, (s->n_ready - i - 1) * sizeof(*s->ready));
		s->n_ready--;
		s->n_reserve -= i < s->n_reserve;
		return;
	}
}

struct box *stock_take(struct pool *p, struct shape *s)
{
	while (s->n_ready) {
		struct box *b = &p->boxes[s->ready[--s->n_ready]];
		struct pollfd init = { .fd = b->pidfd, .events = POLLIN };

		s->n_reserve -= s->n_reserve > s->n_ready;
		if (poll(&init, 1, 0) <= 0)
			return b;
		box_kill(p, b);
	}
	return NULL;
}

uint64_t stock_oldest_ns(const struct pool *p, const struct shape *s)
{
	uint64_t oldest = UINT64_MAX;

	if (s->n_ready)
		oldest = p->boxes[s->ready[0]].since_ns;
	if (hot(s) && p->boxes[s->ready[s->n_reserve]].since_ns < oldest)
		oldest = p->boxes[s->ready[s->n_reserve]].since_ns;
	return oldest;
}

/* One at a time, and while nobody waits at all: the order that follows is for a rehearsed one. */
static bool is_stale(const struct pool *p, const struct shape *s, unsigned target, uint64_t now)
{
	return s->n_reserve && !p->queued.n && !s->n_starting && hot(s) < STOCK_HOT_MAX &&
	       hot(s) < target && now >= s->claimed_ns + STOCK_CALM_NS;
}

void stock_expire(struct pool *p, struct shape *s, unsigned target, uint64_t now)
{
	struct box *b = s->n_ready ? &p->boxes[s->ready[0]] : NULL;

	if (!b)
		return;
	if (is_stale(p, s, target, now) ||
	    (s->n_ready > target && now >= b->since_ns + s->config.idle_ms * UINT64_C(1000000)))
		box_kill(p, b);
}
