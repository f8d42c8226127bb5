/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Webhooks: questions, their answers and the ends of runs, told to configured URLs.
 *
 * At least once, in no promised order: a delivery has an id that is the same whenever the same
 * event is told, also after a restart, so that a receiver can tell what it has seen. Nothing is
 * kept on disk: after a restart the caller tells the questions that still wait once more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "daemon/config.h"
#include "daemon/sender.h"
#include "model/approval.h"
#include "model/result.h"

#define HOOKS_QUEUE_MAX  1024       /* deliveries */
#define HOOKS_BYTES_MAX  (32 * MIB) /* of their bodies */
#define HOOK_BODY_MAX    (256 * KIB)
#define HOOK_FLYING_MAX  4 /* of one webhook at once */
#define HOOK_SECRET_MIN  16
#define HOOK_SECRET_MAX  1024
#define HOOK_ID_SIZE     33
#define HOOK_SIGNED_SIZE 128
#define HOOK_EXECUTION   "execution.ended"

struct hooks;

struct hooks_counts {
	unsigned queued;             /* not delivered yet */
	uint64_t delivered, retried; /* retried: attempts that will be made again */
	uint64_t refused, given_up;  /* refused: answered so that a retry is useless */
	uint64_t dropped;            /* the queue was full */
};

/* Reads the secrets. `sender` may be NULL when no webhook is configured. */
int hooks_open(uv_loop_t *loop, const struct daemon_config *config, struct sender *sender,
               struct hooks **ret, struct err *err);
/* What is not delivered is not. Before sender_close(). NULL: nothing. */
void hooks_close(struct hooks *h);
/* event: "approval.requested", "approval.settled"; summary: JSON, may be empty. */
void hooks_approval(struct hooks *h, const char *event, const struct approval *a,
                    struct str summary);
/* Ids, state and usage; not the output. */
void hooks_execution(struct hooks *h, const struct result *r);
void hooks_counts(const struct hooks *h, struct hooks_counts *ret);
bool hooks_is_idle(const struct hooks *h); /* nothing is left to deliver */

/* hook_text.c: what is told, and the proof of who tells it. */
void hook_delivery_id(const char *event, const char *id, const char *state, char ret[HOOK_ID_SIZE]);
void hook_approval_body(const char *delivery, const char *event, const struct approval *a,
                        struct str summary, struct buf *out);
void hook_execution_body(const char *delivery, const struct result *r, struct buf *out);
/* "t=UNIX,v1=HEX", HEX being HMAC-SHA256(secret, "UNIX." body). */
int hook_sign(struct str secret, uint64_t unix_s, struct str body, char ret[HOOK_SIGNED_SIZE]);
/* A regular file of ours that nobody else can read; newlines at its end do not count. */
int hook_secret_read(const char *path, char ret[HOOK_SECRET_MAX], size_t *ret_n, struct err *err);
/* Is it worth another attempt? status 0: no answer came. */
bool hook_is_retried(unsigned status);
