/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Boxes whose run is over and whose result is out. One that ends takes about as much processor time
 * as the run of a short program did, and whoever had that run may come again at once. So they wait
 * for a quiet moment, next to boxes that wait for code. The runner in them waits, too, and there is
 * no other process; one that said it was over and goes on has these few milliseconds more. They do
 * not wait where that helps nobody: when a request wants a box that is not there yet, or when they
 * become many.
 */

#include "base/fd.h"
#include "pool/pool_impl.h"

void spent_add(struct pool *p, struct box *b)
{
	b->state = WARM_SPENT;
	b->since_ns = clock_ns();
	b->next = p->spent;
	p->spent = (uint32_t)(b - p->boxes) + 1;
	if (!p->n_spent++)
		p->spent_ns = b->since_ns;
	if (!p->shapes[b->shape].n_ready) /* the next one has to wait for a box anyway */
		p->spent_ns = 0;
}

bool spent_is_due(const struct pool *p, uint64_t now)
{
	return p->n_spent && (p->queued.n || p->n_spent >= SPENT_MAX ||
	                      now >= p->spent_ns + SPENT_NS || now >= p->claimed_ns + CALM_NS);
}

void spent_end(struct pool *p)
{
	while (p->spent) {
		struct box *b = &p->boxes[p->spent - 1];

		p->spent = b->next;
		p->n_spent--;
		box_close_streams(b);
		box_kill(p, b);
		/* Its end would wake us, before the launcher's word. */
		b->control = fd_close(b->control);
	}
}
