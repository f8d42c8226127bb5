/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Boxes that are complete before anybody asks. A box serves one run and is then destroyed; new ones
 * are made in the background. An empty pool makes the caller wait for a fresh box, never for less
 * isolation. A request whose level, network or limits no waiting box has gets a fresh box too.
 *
 * No waiting inside, and one thread unless pool_threads() is called: everything happens in
 * pool_turn(), which may be called whenever pool_fd() is readable, and at least every POOL_TICK_MS
 * while something is under way.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "exec/jail.h"
#include "model/request.h"
#include "model/result.h"

#define POOL_SHAPES_MAX 8
#define POOL_TICK_MS    10

/* One kind of box that waits. */
struct pool_shape {
	struct request like;  /* language, level, network, limits, environment; args: modules that
	                         a zygote loads beforehand */
	unsigned min, max;    /* how many wait: at least, and when they are in demand */
	unsigned idle_ms;     /* one above the minimum ends after so long; 0: 300 s */
	unsigned zygote_uses; /* a zygote is replaced after so many forks; 0: 10 000 */
	unsigned zygote_ms;   /* and after so long; 0: 10 min */
};

struct pool_config {
	const char *launcher; /* path; NULL: the installed one */
	const struct pool_shape *shapes;
	size_t n_shapes;
	unsigned boxes_max;   /* alive at once; 0: LAUNCH_BOXES_MAX */
	unsigned queue_max;   /* requests that wait for a box; 0: 1024 */
	unsigned acquire_ms;  /* how long one waits; 0: 10 s */
	unsigned running_max; /* runs at once, others wait; 0: as many as there are boxes */
	uint32_t without;     /* LAYER_BITs to leave out: for the ablation tests, 0 elsewhere */
};

struct pool_stats {
	unsigned ready, starting, running, ending, queued;
	uint64_t hits;   /* a box was waiting */
	uint64_t misses; /* the caller waited for one */
	uint64_t failed; /* boxes that did not become ready */
	uint64_t made, zygotes;
	uint64_t refill_us; /* of the last box, from order to ready */
	uint64_t oldest_ms; /* the age of the oldest that waits */
	unsigned target;    /* how many should wait now */
};

struct pool;
struct pool_call;
typedef void pool_done(void *data, struct result *res);

int pool_open(const struct pool_config *config, struct pool **ret, struct err *err);
/* Kills what is left and waits until it is gone; calls under way get their result first. */
void pool_close(struct pool *p);

/* Readable when pool_turn() has something to do. */
int pool_fd(const struct pool *p);
/* One round; waits at most timeout_ms (-1: as long as nothing is due). */
int pool_turn(struct pool *p, int timeout_ms);

/*
 * Runs the request; `done` is called in a later pool_turn(), once, with *res complete. Request and
 * result must live until then. -errno: refused at once, *err says why, `done` is never called.
 */
int pool_submit(struct pool *p, const struct request *req, struct result *res, pool_done *done,
                void *data, struct pool_call **ret, struct err *err);
/* Files to copy out of the box when the run is over; the list must live until then. */
void pool_fetch(struct pool_call *call, const struct jail_fetch *fetch, size_t n);
/* Output as it comes, beside what the result keeps; to be set before the next pool_turn(). */
typedef void pool_output(void *data, bool is_stderr, const char *bytes, size_t n);
void pool_listen(struct pool_call *call, pool_output *output, void *data);
/*
 * What the caller makes of a large result, by the thread that completes it. `always`: of any, with
 * everything in the box gone and its workspace open (FD_NONE: there is none).
 */
typedef void pool_prepare_fn(void *data, struct result *res, int workspace);
void pool_prepare(struct pool_call *call, pool_prepare_fn *prepare, void *data, bool always);
/* Does it still wait for a box? */
bool pool_is_queued(const struct pool_call *call);
/* *ret_ns is set when it gets its box, to clock_ns(); it must live until then. */
void pool_note_claim(struct pool_call *call, uint64_t *ret_ns);
/* The run is stopped; its result comes as usual. */
void pool_cancel(struct pool *p, struct pool_call *call);
/*
 * Is something under way that wants a turn every POOL_TICK_MS? A box whose run is over, too: it is
 * ended by a later turn than the one that hands the result out.
 */
bool pool_is_busy(const struct pool *p);
/* Submits and turns until it is done. */
void pool_run(struct pool *p, const struct request *req, struct result *res);

/* So many threads for what takes long after a run; without them pool_turn() does it all. */
int pool_threads(struct pool *p, unsigned n, struct err *err);
/* To be called before pool_close(): what they have begun is finished first. */
void pool_end_threads(struct pool *p);
/* One more kind of box; *ret is its index. */
int pool_add_shape(struct pool *p, const struct pool_shape *config, size_t *ret, struct err *err);
/* Until as many boxes of the shape wait, or the time is over; cancel_fd readable (FD_NONE: never):
 * -ECANCELED. */
int pool_wait_ready(struct pool *p, size_t shape, unsigned n, unsigned timeout_ms, int cancel_fd,
                    struct err *err);
void pool_stats(struct pool *p, size_t shape, struct pool_stats *ret);
/* The launcher died: nothing runs in this pool any more. */
bool pool_is_lost(const struct pool *p);
/* Other bounds from now on, as in the configuration; what runs or waits is not touched. */
void pool_bound(struct pool *p, unsigned running_max, unsigned queue_max, unsigned acquire_ms);
/* How many wait, from now on. */
void pool_resize(struct pool *p, size_t shape, unsigned min, unsigned max);
