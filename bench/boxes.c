/* SPDX-License-Identifier: Apache-2.0 */
#include "boxes.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "measure.h"

#define READY_MS 20000 /* numpy and pandas take their time on a busy machine */

enum level bench_level(void)
{
	return geteuid() == 0 ? LEVEL_STANDARD : LEVEL_DEGRADED_OK;
}

void bench_request(struct request *ret, enum language language, enum network network,
                   const char *code)
{
	request_init(ret);
	ret->language = language;
	ret->network = network;
	ret->level = bench_level();
	ret->code = str_of(code);
}

/* A run that waits for its box shows that zygote and pool are there. */
static int wait_first(struct boxes *b, unsigned min, struct err *err)
{
	static const char *const nothing[LANGUAGE_COUNT] = { [LANGUAGE_PYTHON] = "pass\n",
		                                             [LANGUAGE_JAVASCRIPT] = "0\n",
		                                             [LANGUAGE_SHELL] = ":\n" };

	if (min)
		return pool_wait_ready(b->pool, 0, min, READY_MS, FD_NONE, err);
	return boxes_run(b, nothing[b->like.language], "", err);
}

int boxes_open(struct boxes *b, const struct boxes_config *config, struct err *err)
{
	struct pool_shape shape = { .min = config->min, .max = config->max };
	struct pool_config pool = { .launcher = option_launcher(),
		                    .shapes = &shape,
		                    .n_shapes = 1,
		                    .acquire_ms = READY_MS };
	int r;

	bench_request(&b->like, config->language, config->network, "");
	shape.like = b->like;
	shape.like.args = config->modules;
	shape.like.n_args = config->n_modules;
	r = pool_open(&pool, &b->pool, err);
	if (r < 0) {
		b->pool = NULL;
		return r;
	}
	r = wait_first(b, config->min, err);
	if (r < 0)
		boxes_close(b);
	return r;
}

void boxes_close(struct boxes *b)
{
	pool_close(b->pool);
	b->pool = NULL;
}

int result_check(const struct result *res, const char *output, struct err *err)
{
	size_t n = strlen(output);

	if (res->state != RUN_FINISHED || !res->has_exit_code || res->exit_code != 0) {
		(void)err_set(err, ERR_INTERNAL, EIO, "%s: %.160s", run_state_name(res->state),
		              res->error.code    ? res->error.msg
		              : res->errout.data ? res->errout.data
		                                 : "no message");
		return -EIO;
	}
	if (res->out.len != n || (n && memcmp(res->out.data, output, n) != 0))
		return err_set(err, ERR_INTERNAL, EBADMSG, "wrong output: %zu bytes, not %zu",
		               res->out.len, n);
	if (!res->receipt.verified)
		return err_set(err, ERR_INTERNAL, EPROTO, "the box was not verified");
	return 0;
}

int boxes_run(struct boxes *b, const char *code, const char *output, struct err *err)
{
	CLEANUP(result_done) struct result res;
	struct request req = b->like;

	result_init(&res);
	req.code = str_of(code);
	pool_run(b->pool, &req, &res);
	return result_check(&res, output, err);
}

int boxes_settle(struct boxes *b, struct err *err)
{
	return settle_pool(b->pool, err);
}

int settle_pool(struct pool *pool, struct err *err)
{
	uint64_t deadline = clock_ms() + READY_MS;
	struct pool_stats s;

	for (;;) {
		pool_stats(pool, 0, &s);
		if (!s.ending && !s.starting && s.ready >= s.target)
			return 0;
		if (clock_ms() >= deadline)
			return err_set(err, ERR_LIMIT, ETIMEDOUT,
			               "%u ready of %u, %u starting, %u ending", s.ready, s.target,
			               s.starting, s.ending);
		if (pool_turn(pool, POOL_TICK_MS) < 0)
			return err_set(err, ERR_INTERNAL, EPIPE, "the launcher is gone");
	}
}

void boxes_idle(struct boxes *b, unsigned ms)
{
	uint64_t until = clock_ms() + ms, now;

	while ((now = clock_ms()) < until)
		if (pool_turn(b->pool, (int)(until - now)) < 0)
			return;
}
