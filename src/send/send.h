/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * brig-send: the one program of brig that speaks HTTP and TLS to others. It is told what to post on
 * its socket and says there how it went; it has no files, no state, and no other word to say.
 */

#include <stdbool.h>
#include <stddef.h>

#include "model/send_msg.h"

/* A frame taken apart; points into the inbox. */
struct send_frame {
	struct send_head head;
	const char *url;
	const char *headers[SEND_HEADERS_MAX];
	const char *body;
};

struct inbox {
	char data[SEND_FRAME_MAX];
	size_t n;
};

/* 1: more came, 0: nothing there, -EPIPE: the end, or another error. */
int inbox_fill(struct inbox *in, int sock);
/* 1: *ret is the first frame, 0: it is not whole yet, -EPROTO: it is none. */
int inbox_frame(const struct inbox *in, struct send_frame *ret);
/* Done with the first frame. */
void inbox_drop(struct inbox *in, const struct send_frame *frame);

int transfers_open(void);
bool transfers_full(void);
/* Starts one; what cannot even start is answered like one that failed. */
void transfer_start(const struct send_frame *frame, struct send_answer *ret, bool *ret_failed);
/* Moves all of them. */
void transfers_perform(void);
/* One that is over; false: none is. */
bool transfers_next(struct send_answer *ret);
/* Until something can be moved, or the socket has something to say; `listen`: also data. */
void transfers_wait(int sock, bool listen, int timeout_ms);
