/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A pool without a launcher, with one shape: for rules that only look at its boxes. */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/fd.h"
#include "pool/pool_impl.h"

static inline struct pool *bare_pool(unsigned boxes, enum warm_state state)
{
	struct pool *p = calloc(1, sizeof(*p));

	cr_assert(p);
	p->launcher.sock = FD_NONE;
	p->boxes_max = boxes;
	p->boxes = calloc(boxes, sizeof(*p->boxes));
	p->shapes[0].ready = calloc(boxes, sizeof(*p->shapes[0].ready));
	cr_assert(p->boxes && p->shapes[0].ready);
	p->n_shapes = 1;
	for (unsigned i = 0; i < boxes; i++) {
		struct box *b = &p->boxes[i];

		b->state = state;
		b->control = b->workspace = b->pidfd = FD_NONE;
		b->in = b->out = b->errout = b->report = FD_NONE;
		b->since_ns = i;
	}
	return p;
}

static inline void bare_pool_free(struct pool *p)
{
	free(p->shapes[0].ready);
	free(p->boxes);
	free(p);
}
