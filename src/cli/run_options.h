/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The words of `brig run`, parsed and checked; nothing is read or opened here. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "cli/flow.h"
#include "model/request.h"

#define RUN_PAIRS_MAX 256

/* A:B of --file (host, box) and --out (box, host). */
struct run_pair {
	const char *host;
	const char *box; /* relative to /workspace */
};

struct run_options {
	struct request req; /* language, limits, env, args, level, network filled in */
	struct flow_options flow;
	const char *code; /* -c; NULL: from the file */
	const char *path; /* the script, "-" for stdin; NULL with -c */
	const char *stdin_path;
	const char *host; /* of the daemon; NULL: not said */
	struct run_pair files[RUN_PAIRS_MAX];
	size_t n_files;
	struct run_pair outs[RUN_PAIRS_MAX];
	size_t n_outs;
	bool json;
	bool receipt;
	bool warm; /* in a box that waits */
	bool help;
};

/* Strings point into argv or the arena. argv[0] is "run". */
int run_options_parse(int argc, char **argv, struct arena *a, struct run_options *ret,
                      struct err *err);
extern const char run_help[];
