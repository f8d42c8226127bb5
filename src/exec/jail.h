/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * STEP 5: plan -> result, in a box of namespaces. One run per call: send the plan, wait for the box
 * to say that it is complete, check it from outside, say go, carry its streams until it is gone.
 */

#include "exec/launcher.h"
#include "exec/sink.h"
#include "model/request.h"
#include "model/result.h"

/* A file to fetch from the box after the run. */
struct jail_fetch {
	const char *box_path; /* relative to /workspace */
	const char *host_path;
};

struct jail_io {
	struct sink *out, *err; /* live copies of the streams; NULL: capture only */
	int cancel_fd;          /* readable: stop the run; FD_NONE: never */
	const struct jail_fetch *fetch;
	size_t n_fetch;
};

/* Always leaves a complete *res (result_init() was called); never user code without a check. */
void jail_run(struct launcher *l, const struct request *req, const struct plan *plan,
              const struct jail_io *io, struct result *res);
