/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of the daemon's benchmark. Each prints its table and counts what failed. */

#include "service.h"

#define HELLO_CODE   "print(\"hello\")"
#define HELLO_OUTPUT "hello\n"
#define HELLO_JSON   "\"stdout\":\"hello\\n\""

#define BOXES_MIN 8
#define BOXES_MAX 64

/* Of one process, in KiB; anon: what is no file. */
struct memory {
	uint64_t rss, anon;
};

struct bench {
	const char *brigd, *python;
	uint64_t samples;          /* of each row */
	uint64_t slice_ms, slices; /* of each of the two that take turns */
	uint64_t clients;
	uint64_t connections, listeners; /* whose memory is measured */
	uint64_t break_output;           /* expect other bytes: every run must fail */
	struct memory boxes, launcher;   /* BOXES_MIN wait, nobody has asked yet */
	struct memory loaded;            /* after the other parts; rss 0: there were none */
	size_t failed;                   /* runs, answers, parts */
};

/* A bare process, and its output. */
int bare_hello(const struct bench *b, struct err *err);
/* What an answer must contain. */
const char *expected_json(const struct bench *b);
/* Counts it and says so. */
void bench_fail(struct bench *b, const char *what, const struct err *err);

void measure_latency(struct bench *b, struct service *s);
void measure_sustained(struct bench *b, struct service *s);
/* Starts a brigd of its own. */
void measure_memory(struct bench *b);

struct memory memory_of(pid_t pid);
/* The launcher that this brigd started; 0: there is none. */
pid_t launcher_of(pid_t brigd);
