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
/* Copies one regular file out; the host file is replaced as a whole or not at all. */
int workspace_fetch(int dir_fd, const char *box_path, const char *host_path, struct err *err);
