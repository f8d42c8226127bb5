/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounded capture of one output stream. Everything up to `limit` is kept; past it the first half
 * stays (head) and the second half becomes a ring of the newest bytes (tail). The producer is
 * drained for ever and never waits for us.
 */

#include <stdint.h>

#include "base/buf.h"

struct output {
	uint64_t limit;
	uint64_t total;  /* bytes produced */
	struct buf kept; /* [0, limit/2) head, [limit/2, limit) ring once full */
	size_t ring_at;  /* where the oldest byte of the ring lies, once full */
	int error;       /* reading it failed: there may have been more */
};

void output_init(struct output *o, uint64_t limit);
void output_add(struct output *o, const char *p, size_t n);
uint64_t output_dropped(const struct output *o);
/* Moves head and tail, in order, into *ret. */
int output_finish(struct output *o, struct buf *ret);
void output_done(struct output *o);
