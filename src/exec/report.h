/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the runner in a box says about the run: rich outputs, the last value, an exception, that it
 * is over. User code can write to this channel as well, so all of it is data about that run and
 * nothing more: bounded, parsed strictly, never a path, a limit or a command.
 *
 * Frames: a length of four bytes, little-endian, then one JSON object.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/result.h"

#define REPORT_FRAME_MAX (64 * MIB)

struct report {
	struct buf bytes; /* of a frame that is not complete */
	size_t n_outputs;
	size_t taken; /* bytes of frames */
	bool ready;   /* a warmed program waits */
	bool done;
	int exit_code;             /* of done */
	bool broken;               /* something that is no frame: the rest is ignored */
	bool too_many, unreadable; /* outputs that were dropped */
};

void report_init(struct report *r);
void report_free(struct report *r);
/* Takes bytes as they come; what complete frames say goes into *res. */
void report_add(struct report *r, const char *p, size_t n, struct result *res);
/* The same in two parts: takes bytes; how many of them are complete frames; what these say. */
void report_put(struct report *r, const char *p, size_t n);
size_t report_waiting(const struct report *r);
void report_take(struct report *r, struct result *res);
/* What is to be said of outputs that were dropped; NULL: none were. */
const char *report_dropped(const struct report *r);
/* One frame around `json`, ready to be written. */
int report_frame(struct buf *out, const char *json, size_t n);
