/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A closed loop: so many requests are under way all the time, each checked when it is done. */

#include "boxes.h"
#include "measure.h"

#define LOOP_CONCURRENT_MAX 256

struct loop {
	struct boxes *boxes;
	const char *code, *output;
	unsigned concurrent;
	uint64_t until_ns;                          /* no new request after it; 0: never */
	uint64_t most;                              /* requests; 0: any number */
	void (*each_ms)(void *data, uint64_t done); /* about every 100 ms; may be NULL */
	void *data;
	/* the result */
	uint64_t done, failed, ns;
	struct err error; /* of the first failure */
};

/* -errno: the pool broke; failed runs are only counted. */
int loop_run(struct loop *l, struct err *err);
