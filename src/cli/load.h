/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reading what the command line names, into a request. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/run_options.h"
#include "exec/sink.h"

/* "brig: what" and, below it, the remedy; on standard error. */
void complain(const struct err *err);
/* All of a descriptor, bounded while reading, whatever its size says. */
int read_all(int fd, uint64_t max, const char *what, struct arena *a, struct str *ret,
             struct err *err);
/* A regular file. ret_executable may be NULL. */
int read_path(const char *path, uint64_t max, struct arena *a, struct str *ret,
              bool *ret_executable, struct err *err);
int write_all(int fd, const char *p, size_t n);
/* Says why output could not be written (0: nobody knows), unless its reader left: the status. */
int output_lost(int sys);
/* Code, files and standard input of the options, and request_check(). */
int load_request(struct run_options *o, struct arena *a, struct err *err);
/* Ctrl-C and friends become readable instead of deadly: the run is stopped and cleaned up. */
int open_cancel(struct err *err);
/* When the result is out and nothing is left to clean up: what came until then is forgotten, and
 * what comes now ends brig at once, with the status that the result has. Closes it. */
void close_cancel(int *fd, int status);

/* Where a run's output goes, and what ends the run. */
struct run_io {
	struct sink sinks[2]; /* stdout, stderr */
	int cancel; /* of open_cancel(), once there is something to end; FD_NONE: not yet */
};
