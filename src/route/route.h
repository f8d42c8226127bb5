/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* STEP 4: request -> plan, every limit, mount and rule explicit. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "model/plan.h"
#include "model/request.h"

#define WORKSPACE "/workspace"

/*
 * What the box is made of: the programs it can see. `host` is the only image yet: the host's /usr,
 * read-only, and a synthetic /etc.
 */
struct image {
	const char *id;
	/* Adds the file-system steps and Landlock rules that show the image. */
	int (*add)(struct arena *a, struct plan *plan, struct err *err);
	/* Finds the program in the image's view; the path is as seen in the box. */
	int (*find)(const char *program, const char **ret_path);
};

extern const struct image image_host;

/*
 * The plan lives in the arena; code and files are not copied. -errno with ERR_UNSUPPORTED when no
 * executor has the tier, ERR_NOT_FOUND when the interpreter is missing.
 */
int route_plan(const struct request *req, const struct image *image, struct arena *a,
               struct plan *ret, struct err *err);

/*
 * The plan of boxes that wait for a request of this kind: language, level, network, limits and
 * environment as in `req`, whose args are the modules to load beforehand. No code, no files.
 */
int route_warm(const struct request *req, const struct image *image, struct arena *a,
               struct plan *ret, struct err *err);
/*
 * The same for a launcher that has the image already, of a plan that it keeps: without the files
 * that runners are, 100 KiB which nobody would read.
 */
int route_warm_again(const struct request *req, const struct image *image, struct arena *a,
                     struct plan *ret, struct err *err);
/* The name of the request's script below /workspace. */
const char *route_script(const struct request *req);
/* Program, arguments and environment of a request that is run in a box of `warm`; nothing else. */
int route_command(const struct request *req, const struct plan *warm, struct arena *a,
                  struct plan *ret, struct err *err);
/* The same for a bash that waits in a box of `warm`, as shell source ended by NUL. */
int route_shell(const struct request *req, const struct plan *warm, struct buf *out);

/* Appends to the plan's lists; -E2BIG with err when a bound is reached. */
int plan_add_fs(struct plan *p, struct fs_op op, struct err *err);
int plan_add_rule(struct plan *p, const char *path, enum plan_access access, struct err *err);
