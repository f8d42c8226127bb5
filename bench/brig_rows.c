/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig's own rows: with nothing prepared, with a launcher that stays, and from the pool. A box is
 * fresh in all of them, with a network namespace of its own; it is verified before the code runs,
 * its output is collected, and it is destroyed after the run.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/macro.h"
#include "boxes.h"
#include "contest.h"
#include "exec/jail.h"
#include "route/route.h"

#define WAITING 4 /* boxes; not more in demand, so that the refill costs the same all the time */
#define IN_ROW  6 /* boxes for a turn in a row, and one that still waits then */

/* ---- by the jail: cold, and with a resident launcher ------------------------------------- */

#define CGROUP_LAYERS                                                                              \
	(LAYER_BIT(CG_MEMORY) | LAYER_BIT(CG_SWAP) | LAYER_BIT(CG_PIDS) | LAYER_BIT(CG_CPU))

/* route_plan(), or one of those for a launcher that stays. */
typedef int plan_fn(const struct request *req, const struct image *image, struct arena *a,
                    struct plan *ret, struct err *err);

/* A plan of the entry's program. */
static int make_plan(const struct entry *e, const struct request *req, plan_fn *route,
                     struct arena *a, struct plan *ret, struct err *err)
{
	int r = route(req, &image_host, a, ret, err);
	const char **argv = arena_array(a, 2, sizeof(*argv));

	if (r < 0)
		return r;
	if (!argv)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a plan");
	if (e->what->exec) { /* the program itself, as the others have it */
		argv[0] = e->program;
		ret->exec = e->program;
		ret->argv = argv;
		ret->n_argv = 1;
	}
	return 0;
}

static int jail_once(struct launcher *l, const struct entry *e, plan_fn *route, uint32_t without,
                     struct err *err)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(4 * MIB);
	CLEANUP(result_done) struct result res;
	const struct jail_io io = { .cancel_fd = FD_NONE };
	struct request req;
	struct plan plan;
	int r;

	result_init(&res);
	bench_request(&req, e->what->language, NETWORK_LOOPBACK, e->what->code);
	r = make_plan(e, &req, route, &a, &plan, err);
	if (r < 0)
		return r;
	plan.layers &= ~without;
	plan.required &= ~without;
	jail_run(l, &req, &plan, &io, &res);
	return result_check(&res, e->what->output, err);
}

static int cold(struct entry *e, uint32_t without, struct err *err)
{
	struct launcher l = { .sock = FD_NONE, .once = true };
	int r = launcher_start(&l, option_launcher(), err);

	if (r >= 0)
		r = jail_once(&l, e, route_plan, without, err);
	launcher_stop(&l);
	return r;
}

static int cold_run(struct entry *e, struct err *err)
{
	return cold(e, 0, err);
}

/* Shows what the host's cgroups cost: see "time to enter a cgroup" of brig doctor. */
static int cold_run_no_cgroup(struct entry *e, struct err *err)
{
	return cold(e, CGROUP_LAYERS, err);
}

/* As the pool's: it keeps a plan, and with it the root that boxes have in common. */
static int keep_root(struct launcher *l, const struct entry *e, struct err *err)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(4 * MIB);
	struct launch_reply reply;
	struct sock_msg msg;
	struct request req;
	struct plan plan;
	int r;

	bench_request(&req, e->what->language, NETWORK_LOOPBACK, e->what->code);
	r = make_plan(e, &req, route_warm, &a, &plan, err);
	if (r >= 0)
		r = launcher_keep(l, 0, &plan, false, err);
	if (r < 0)
		return r;
	r = launcher_recv_msg(l, &reply, &msg);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the launcher is gone");
	sock_msg_close(&msg);
	if (reply.kind == LAUNCH_KEPT)
		return 0;
	*err = reply.err;
	return -EIO;
}

static int resident_setup(struct entry *e, struct err *err)
{
	struct launcher *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a launcher");
	l->sock = FD_NONE;
	e->state = l;
	r = launcher_start(l, option_launcher(), err);
	return r < 0 ? r : keep_root(l, e, err);
}

static int resident_run(struct entry *e, struct err *err)
{
	return jail_once(e->state, e, route_warm_again, 0, err);
}

static void resident_teardown(struct entry *e)
{
	if (e->state)
		launcher_stop(e->state);
	free(e->state);
	e->state = NULL;
}

/* ---- from the pool --------------------------------------------------------------------- */

static int open_pool(struct entry *e, enum network network, unsigned min, unsigned max,
                     struct err *err)
{
	struct boxes *b = calloc(1, sizeof(*b));
	const struct boxes_config config = { .language = e->what->language,
		                             .network = network,
		                             .modules = (const char **)e->what->modules,
		                             .n_modules = e->what->n_modules,
		                             .min = min,
		                             .max = max };

	if (!b)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a pool");
	e->state = b;
	return boxes_open(b, &config, err);
}

static int warm_setup(struct entry *e, struct err *err)
{
	return open_pool(e, NETWORK_LOOPBACK, WAITING, WAITING, err);
}

static int row_setup(struct entry *e, struct err *err)
{
	return open_pool(e, NETWORK_LOOPBACK, IN_ROW, IN_ROW, err);
}

static int warm_none_setup(struct entry *e, struct err *err)
{
	return open_pool(e, NETWORK_NONE, WAITING, WAITING, err);
}

/* Nobody waits: every request orders its own box. */
static int demand_setup(struct entry *e, struct err *err)
{
	return open_pool(e, NETWORK_LOOPBACK, 0, 0, err);
}

static int demand_none_setup(struct entry *e, struct err *err)
{
	return open_pool(e, NETWORK_NONE, 0, 0, err);
}

static int pool_row_run(struct entry *e, struct err *err)
{
	return boxes_run(e->state, e->what->code, e->what->output, err);
}

static int pool_row_rest(struct entry *e, struct err *err)
{
	return boxes_settle(e->state, err);
}

static void pool_row_idle(struct entry *e, unsigned ms)
{
	boxes_idle(e->state, ms);
}

static void pool_row_teardown(struct entry *e)
{
	if (e->state)
		boxes_close(e->state);
	free(e->state);
	e->state = NULL;
}

#define POOL_ROW(label, set_up)                                                                    \
	.name = (label), .full = true, .killed = true, .setup = (set_up), .run = pool_row_run,     \
	.rest = pool_row_rest, .idle = pool_row_idle, .teardown = pool_row_teardown

const struct contestant brig_contestants[] = {
	{ .name = "brig, cold", .run = cold_run },
	{ .name = "brig, cold, without cgroups", .exec_only = true, .run = cold_run_no_cgroup },
	{ .name = "brig, launcher stays, box on demand",
	  .full = true,
	  .killed = true,
	  .exec_only = true,
	  .setup = resident_setup,
	  .run = resident_run,
	  .teardown = resident_teardown },
	{ POOL_ROW("brig, pool empty, box on demand", demand_setup) },
	{ POOL_ROW("brig, pool empty, network none", demand_none_setup) },
	{ POOL_ROW("brig, warm, hot", warm_setup) },
	{ POOL_ROW("brig, warm, hot, network none", warm_none_setup) },
	{ POOL_ROW("brig, warm, five in a row", row_setup), .in_a_row = true },
	{ POOL_ROW("brig, warm, 50 ms idle", warm_setup), .idle_ms = 50 },
};

const size_t brig_contestants_n = ELEMENTSOF(brig_contestants);
