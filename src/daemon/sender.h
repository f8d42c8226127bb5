/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * brigd's side of brig-send: starts it at the first need and again when it dies. An order is
 * answered exactly once, whatever becomes of brig-send; it may have been sent more than once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "model/send_msg.h"

#define SENDER_DEATHS_MAX 3 /* of brig-send under one order, which then counts as failed */

struct sender;
/* Not called from inside sender_send(); may call it, but not sender_close(). */
typedef void sender_done(void *data, uint64_t id, const struct send_answer *answer);
/* What an operator should know, one line; never a URL, for it may hold a secret. */
typedef void sender_log(void *data, const char *line);

struct order_text {
	const char *url;
	unsigned timeout_ms;
	const char *const *headers; /* "Name: value" */
	size_t n_headers;           /* at most SEND_HEADERS_MAX */
	struct str body;
};

struct sender_counts {
	uint64_t answered, starts; /* starts of brig-send: all but the first are restarts */
	unsigned waiting;          /* orders without an answer */
};

/* program NULL: the brig-send that was installed with this one. It must be there. */
int sender_open(uv_loop_t *loop, const char *program, sender_log *log, void *log_data,
                struct sender **ret, struct err *err);
/* Nothing is answered any more. Freed in a later turn of the loop. NULL: nothing. */
void sender_close(struct sender *s);
/* -ENOBUFS: SEND_TRANSFERS_MAX orders are waiting already; -EINVAL: a wrong URL or header;
 * -EFBIG: too large. */
int sender_send(struct sender *s, const struct order_text *text, sender_done *done, void *data,
                uint64_t *ret_id);
/* http:// or https://, bounded, without control characters. */
bool sender_takes_url(const char *url);
/* Orders of this `data` have nobody to be told any more. */
void sender_forget(struct sender *s, const void *data);
void sender_counts(const struct sender *s, struct sender_counts *ret);
/* For the log of those who use it. */
void sender_say(struct sender *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* How long to wait after the nth failure (from 1): 1 s, 2 s, 4 s ... 5 min, and up to a quarter
 * more by `random`; never more than 5 min. */
#define BACKOFF_MAX_MS 300000u
uint64_t backoff_ms(unsigned failures, uint32_t random);
/* The same, but at least what the other side asked for, within 5 min. */
uint64_t backoff_after_ms(unsigned failures, uint32_t retry_after_s);
