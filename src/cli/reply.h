/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An HTTP/1.1 answer, taken apart as it comes. Nothing here reads or waits. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define REPLY_LINE_MAX (8 * KIB)  /* one line of the head, or of a chunk's size */
#define REPLY_HEAD_MAX (64 * KIB) /* all lines that are no body */

enum reply_state {
	REPLY_STATUS = 0,
	REPLY_HEADER,
	REPLY_LENGTH,     /* the body, as long as was said */
	REPLY_CLOSE,      /* the body, as long as it comes */
	REPLY_CHUNK_SIZE, /* the body, in chunks */
	REPLY_CHUNK,
	REPLY_CHUNK_END,
	REPLY_TRAILER,
	REPLY_DONE,
};

struct reply {
	enum reply_state state;
	unsigned status;
	bool chunked, has_length;
	uint64_t left;     /* of the body or the chunk */
	size_t line_bytes; /* so far, of REPLY_HEAD_MAX */
	struct buf line;   /* that is not complete */
	struct buf body;
	/* Headers that mean something to us. */
	char type[64];
	uint64_t retry_after_s, next_offset, dropped;
	bool has_next_offset, output_done, replayed;
};

void reply_init(struct reply *r, size_t body_max);
void reply_free_fields(struct reply *r);
/* 0, -EPROTO: that is no HTTP; -EFBIG: more than the bound; -ENOMEM. */
int reply_feed(struct reply *r, const char *p, size_t n);
/* The other end closed: 0 when all of it is here, else -EPROTO. */
int reply_eof(struct reply *r);

/* One of the events in a body that is a stream of them; the views end with the next call. */
struct event {
	uint64_t id; /* 0: none */
	char name[32];
	struct str data;
};

struct event_reader {
	size_t at;    /* of the first byte of the body that was not looked at */
	size_t taken; /* bytes of the body that are no longer needed */
	bool given;   /* what is below was given out */
	struct buf data;
	uint64_t id;
	char name[32];
};

void event_reader_init(struct event_reader *e, size_t data_max);
void event_reader_free_fields(struct event_reader *e);
/* 1: *ret; 0: not yet; -EFBIG, -ENOMEM. Takes what it read out of the body. */
int event_next(struct event_reader *e, struct buf *body, struct event *ret);
