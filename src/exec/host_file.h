/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file of --out on the host: replaced as a whole or not at all. */

#include <limits.h>

#include "base/err.h"
#include "base/fd.h"

struct host_file {
	int fd; /* to write to */
	const char *path;
	char temp[PATH_MAX];
};

/* Could one be made there now? Nothing is left of the try. */
int host_file_try(const char *path, struct err *err);
/* A file beside it; host_file_end() must follow. */
int host_file_begin(struct host_file *f, const char *path, struct err *err);
/* r < 0: what was written is forgotten, and the error is -r's. Looks at the path once more. */
int host_file_end(struct host_file *f, int r, struct err *err);
