/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The daemon while it runs: what it holds, and in which order that is made and let go. */

#include <stdbool.h>
#include <uv.h>

#include "api/api.h"
#include "base/err.h"
#include "daemon/config.h"
#include "daemon/hooks.h"
#include "daemon/otlp.h"
#include "daemon/sender.h"

enum drain_stage {
	DRAIN_NO = 0,
	DRAIN_RUNS,   /* what runs may end, nothing new begins */
	DRAIN_CANCEL, /* what still runs is stopped */
	DRAIN_FLUSH,  /* the last answers go out */
	DRAIN_OVER,
};

struct brigd {
	int argc;
	char **argv;
	struct daemon_config config, first; /* first: as it was before any reload */
	bool reloaded;
	char state_dir[4096], socket[4096], brig[4096];
	int lock;
	uv_loop_t loop;
	uv_check_t check;
	uv_timer_t tick;
	uv_poll_t pipeline_poll;
	uv_signal_t signals[3]; /* TERM, INT, HUP */
	struct api *api;
	struct pipeline *pl;
	struct executor_pool executor;
	struct executor_ops executor_ops;
	struct channel automatic;
	enum language shapes[POOL_SHAPES_MAX];
	size_t n_shapes;
	uint32_t languages; /* that have boxes */
	struct sender *sender;
	struct hooks *hooks;
	struct otlp *otlp;
	uint64_t swept_ms, second_ms, alive_ms, watchdog_ms;
	bool fast; /* the tick comes every PIPELINE_TICK_MS */
	enum drain_stage drain;
	uint64_t drain_until_ms;
};

/* Everything up to the point where requests are answered. On failure brigd_close() is due, too. */
int brigd_open(struct brigd *d, struct err *err);
/* Until it was told to stop and has. */
void brigd_run(struct brigd *d);
void brigd_close(struct brigd *d);

/* drain.c */
void brigd_stop(struct brigd *d); /* SIGTERM; once more: at once */
void brigd_drain_step(struct brigd *d);
