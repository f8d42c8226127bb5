/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* brig run, in a daemon. */

#include "cli/client.h"
#include "cli/doc.h"
#include "cli/load.h"
#include "cli/run_options.h"
#include "model/result.h"

/* 1: *ret is the daemon to take; 0: it runs here. */
int remote_find(const struct run_options *o, struct client *ret, struct err *err);
/*
 * Output comes as it is made. *res holds what the exit status needs, *json all of the result, empty
 * when there is none; an error is in res->error. -EILSEQ: the request cannot be sent (nothing was).
 */
int remote_run(const struct run_options *o, struct client *c, struct run_io *io, struct result *res,
               struct buf *json);
/* remote_out.c: the files of --out; what goes wrong is in res->error, and in the result. */
void remote_fetch(const struct run_options *o, struct client *c, const char *id, struct result *res,
                  struct buf *json);
/* The receipt of a result as JSON, in a line. */
void remote_receipt(const struct buf *json, struct buf *out);
