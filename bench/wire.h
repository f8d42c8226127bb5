/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client of brigd with as little of its own as possible: one connection that stays, one request
 * at a time. It knows the answers that brigd gives, and refuses all others.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define WIRE_ANSWER_MAX  65535
#define WIRE_REQUEST_MAX 2048
#define WIRE_MS          30000 /* for an answer */

/* Where brigd listens, and what a request to it looks like. */
struct wire_address {
	const char *path;  /* of a unix socket; NULL: TCP */
	unsigned port;     /* of 127.0.0.1 */
	const char *token; /* NULL: none is needed */
};

struct wire {
	int fd;
	unsigned status;                /* of the answer */
	size_t n;                       /* bytes that are there */
	size_t head, length;            /* of the head, 0: not whole yet; of the body */
	bool stream;                    /* the body has no end */
	char data[WIRE_ANSWER_MAX + 1]; /* data[n] is 0 */
};

struct wire_request {
	char text[WIRE_REQUEST_MAX];
	size_t n;
};

/* `path` is below the API's prefix; body NULL: GET, otherwise POST of JSON. */
int wire_request(const struct wire_address *to, const char *path, const char *body,
                 struct wire_request *ret, struct err *err);
int wire_open(const struct wire_address *to, struct wire *w, struct err *err);
void wire_close(struct wire *w);
/* Forgets the last answer. */
int wire_send(struct wire *w, const struct wire_request *r, struct err *err);
/* Reads once. 1: the answer is whole (of a stream: its head), 0: not yet. */
int wire_receive(struct wire *w, struct err *err);
/* Sends and waits until the answer is whole. */
int wire_ask(struct wire *w, const struct wire_request *r, struct err *err);
/* Waits until there is something to read: 1; 0: nothing came. */
int wire_wait(const struct wire *w, uint64_t deadline_ms);
const char *wire_body(const struct wire *w);
/* An error unless the status is 200 and each of the texts (NULL at the end) is in the body. */
int wire_expect(const struct wire *w, const char *const *texts, struct err *err);
