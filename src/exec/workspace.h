/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The box's /workspace after the box is gone: a directory fd that nobody else can reach any more.
 * Even so every file is opened beneath it, without following links, and checked after opening.
 */

#include "base/err.h"
#include "model/request.h"
#include "model/result.h"

/*
 * Before the run, in a box in which nobody is active yet: the script (unless it is there already)
 * and the request's files, made as `uid` when that is not 0.
 */
int workspace_place(int dir_fd, const struct request *req, const char *script, bool script_there,
                    uid_t uid, struct err *err);
/* An empty file, open for writing. */
int workspace_create(int dir_fd, const char *path, uid_t uid);
/* What changed against the files that the request placed. Bounded; iterative; never follows. */
int workspace_changes(int dir_fd, const struct request *req, const char *script,
                      struct result *res);
/*
 * The same in steps, each of about so many microseconds; true: it is complete. The request, the
 * script's name and the result must live until then; an unfinished walk adds nothing more when it
 * is freed.
 */
struct workspace_walk;
struct workspace_walk *workspace_walk_new(int dir_fd, const struct request *req, const char *script,
                                          struct result *res); /* NULL: no memory */
bool workspace_walk_step(struct workspace_walk *w, uint64_t cost);
void workspace_walk_free(struct workspace_walk *w);
/* Whoever closes the last descriptor of it frees its memory: does that take long? */
bool workspace_is_large(int dir_fd);
/* All of one regular file, if it is no larger than `out` may be. */
int workspace_read(int dir_fd, const char *box_path, struct buf *out, struct err *err);
/* Copies one regular file out, as exec/host_file.h says. */
int workspace_fetch(int dir_fd, const char *box_path, const char *host_path, struct err *err);
