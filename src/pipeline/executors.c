/* SPDX-License-Identifier: Apache-2.0 */

/* The executors there are: a fresh box per job, and boxes of a pool. */

#include <errno.h>

#include "base/fd.h"
#include "exec/launcher.h"
#include "pipeline/pipeline.h"
#include "route/route.h"

static int jail_start(struct executor *base, struct job *job, struct err *err)
{
	struct executor_jail *ex = (struct executor_jail *)base;
	struct launcher l = { .sock = FD_NONE, .once = true };
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	struct plan plan;
	int r = launcher_start(&l, ex->launcher, err); /* it gets ready while we plan */

	if (r >= 0)
		r = route_plan(&job->effective, &image_host, &arena, &plan, err);
	if (r < 0) {
		launcher_stop(&l);
		return r;
	}
	plan.layers &= ~ex->without;
	plan.required &= ~ex->without;
	jail_run(&l, &job->effective, &plan, &job->io, &job->result);
	launcher_stop(&l);
	pipeline_ended(base->pipeline, job);
	return 0;
}

/* While it runs, io.cancel_fd is what stops it. */
static void jail_cancel(struct executor *base, struct job *job)
{
	(void)base;
	(void)job;
}

static int jail_fd(const struct executor *base)
{
	(void)base;
	return FD_NONE;
}

static void jail_turn(struct executor *base, int timeout_ms)
{
	(void)base;
	(void)timeout_ms;
}

const struct executor_ops executor_jail_ops = { "jail",      TIER_JAIL, EXEC_CAP_CODE, jail_start,
	                                        jail_cancel, jail_fd,   jail_turn };

static void on_done(void *data, struct result *res)
{
	struct job *job = data;

	(void)res;
	job->call = NULL;
	pipeline_ended(job->executor->pipeline, job);
}

static int pool_start(struct executor *base, struct job *job, struct err *err)
{
	struct executor_pool *ex = (struct executor_pool *)base;
	int r = ex->need ? ex->need(ex->data, &job->effective, err) : 0;

	if (r >= 0)
		r = pool_submit(ex->pool, &job->effective, &job->result, on_done, job, &job->call,
		                err);
	if (r < 0)
		return r;
	pool_fetch(job->call, job->io.fetch, job->io.n_fetch);
	pool_note_claim(job->call, &job->claim_ns);
	if (job->listen)
		pool_listen(job->call, job->listen, job->listen_data);
	return 0;
}

static void pool_stop(struct executor *base, struct job *job)
{
	pool_cancel(((struct executor_pool *)base)->pool, job->call);
}

static int pool_wait_fd(const struct executor *base)
{
	return pool_fd(((const struct executor_pool *)base)->pool);
}

static void pool_move(struct executor *base, int timeout_ms)
{
	(void)pool_turn(((struct executor_pool *)base)->pool, timeout_ms);
}

const struct executor_ops executor_pool_ops = { "pool",    TIER_JAIL,    EXEC_CAP_CODE, pool_start,
	                                        pool_stop, pool_wait_fd, pool_move };
