/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What brigd and brig-send say to each other, on a stream socket (fd 3 of brig-send). Both are of
 * one build on one machine: the structs go as they are.
 *
 *   brigd     -> brig-send   struct send_head; the URL and n_headers lines "Name: value", each
 *                            ended by NUL; body_n bytes. It is posted.
 *   brig-send -> brigd       struct send_answer, one for each, in any order.
 */

#include <stdint.h>

#define SEND_SOCKET_FD     3
#define SEND_FRAME_MAX     1048576u /* the head included */
#define SEND_TRANSFERS_MAX 64       /* at once; brigd has no more unanswered ones */
#define SEND_HEADERS_MAX   16
#define SEND_TIMEOUT_MAX   600000u

struct send_head {
	uint32_t size; /* of the frame: this, the texts and the body */
	uint32_t timeout_ms;
	uint64_t id;
	uint32_t n_headers;
	uint32_t body_n;
};

struct send_answer {
	uint64_t id;
	uint32_t status;        /* of HTTP; 0: none came */
	uint32_t retry_after_s; /* 0: not said */
	char error[112];        /* why none came; printable, for people */
};
