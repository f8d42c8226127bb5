/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A pool with one kind of box, as the benchmarks use it. */

#include "model/request.h"
#include "model/result.h"
#include "pool/pool.h"

struct boxes {
	struct pool *pool;
	struct request like;
};

struct boxes_config {
	enum language language;
	enum network network;
	const char **modules; /* loaded before anybody asks */
	size_t n_modules;
	unsigned min, max; /* that wait; min 0: every run waits for a fresh box */
};

/* The level that this user can have: root's is standard. */
enum level bench_level(void);
void bench_request(struct request *ret, enum language language, enum network network,
                   const char *code);

/* Until the zygote is there and `min` boxes wait. */
int boxes_open(struct boxes *b, const struct boxes_config *config, struct err *err);
void boxes_close(struct boxes *b);
/* One run; anything but a verified box, success and exactly these bytes is an error. */
int boxes_run(struct boxes *b, const char *code, const char *output, struct err *err);
int result_check(const struct result *res, const char *output, struct err *err);
/* Until all that ends has ended and as many wait as the pool wants. */
int boxes_settle(struct boxes *b, struct err *err);
int settle_pool(struct pool *pool, struct err *err);
/* Lets the pool do what it has to do for so long. */
void boxes_idle(struct boxes *b, unsigned ms);
