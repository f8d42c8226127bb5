/* SPDX-License-Identifier: Apache-2.0 */
#include "pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "pool/pool_impl.h"
#include "route/route.h"

#define DEMAND_NS UINT64_C(100000000) /* how often the demand is looked at */

/* ---- lists ----------------------------------------------------------------------------- */

void call_list_add(struct call_list *l, struct pool_call *c)
{
	c->next = NULL;
	c->prev = l->last;
	if (l->last)
		l->last->next = c;
	else
		l->first = c;
	l->last = c;
	l->n++;
}

void call_list_del(struct call_list *l, struct pool_call *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		l->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		l->last = c->prev;
	l->n--;
}

static void queue_add(struct pool *p, struct pool_call *c)
{
	call_list_add(&p->queued, c);
	if (c->private_plan)
		p->n_private++;
	else
		p->shapes[c->shape].n_queued++;
}

void queue_del(struct pool *p, struct pool_call *c)
{
	call_list_del(&p->queued, c);
	p->n_ordered -= c->ordered;
	if (c->private_plan)
		p->n_private--;
	else
		p->shapes[c->shape].n_queued--;
}

/* ---- time ------------------------------------------------------------------------------ */

static void check_starting(struct pool *p, uint64_t now)
{
	for (uint32_t i = p->starting, next; i != NO_BOX; i = next) {
		struct box *b = &p->boxes[i];
		struct launch_reply late = { .id = b->id };

		next = b->next;
		if ((now - b->since_ns) / 1000000 < SETUP_MS)
			continue;
		(void)err_set(&late.err, ERR_SETUP, ETIMEDOUT, "the box was not ready in %d s",
		              SETUP_MS / 1000);
		(void)launcher_kill(&p->launcher, b->id);
		box_failed(p, &late);
		return; /* the list may have changed; the next tick goes on */
	}
}

static void check_calls(struct pool *p, uint64_t now)
{
	struct err err = { 0 };
	struct pool_call *next;

	(void)err_set(&err, ERR_LIMIT, ETIMEDOUT, "no box became free in %u ms", p->acquire_ms);
	for (struct pool_call *c = p->queued.first; c; c = next) {
		next = c->next;
		if (c->cancelled)
			call_fail(p, c, RUN_CANCELLED, &(struct err){ 0 });
		else if (!c->ordered && (now - c->submit_ns) / 1000000 >= p->acquire_ms)
			call_fail(p, c, RUN_SETUP_FAILED, &err);
	}
	for (struct pool_call *c = p->running.first; c; c = next) {
		next = c->next;
		call_tick(p, c, now);
	}
}

static void send_kills(struct pool *p)
{
	if (!p->blocked)
		return;
	p->blocked = false;
	for (uint32_t i = 0; i < p->boxes_max && !p->blocked; i++)
		if (p->boxes[i].state == WARM_ENDING && !p->boxes[i].kill_sent)
			box_kill(p, &p->boxes[i]);
}

void pool_tick(struct pool *p, uint64_t now)
{
	bool demand = now >= p->demand_ns;

	if (demand)
		p->demand_ns = now + DEMAND_NS;
	if (spent_is_due(p, now))
		spent_end(p);
	send_kills(p);
	check_starting(p, now);
	check_calls(p, now);
	for (size_t i = 0; i < p->n_shapes; i++) {
		struct shape *s = &p->shapes[i];

		if (demand) { /* up at once, down slowly */
			s->demand = s->claimed > s->demand ? s->claimed : s->demand * 0.95;
			s->claimed = 0;
		}
		shape_renew(p, s, now);
		stock_expire(p, s, pool_target(s), now);
		pool_feed(p, s);
	}
}

/* ---- requests -------------------------------------------------------------------------- */

/* Does a box that waits have what the request asks for? Wall time and output are not the box's. */
static bool fits(const struct request *like, const struct request *req)
{
	struct limits a = like->limits, b = req->limits;

	a.timeout_ms = b.timeout_ms = 0;
	a.output_bytes = b.output_bytes = 0;
	return like->level == req->level && like->network == req->network &&
	       memcmp(&a, &b, sizeof(a)) == 0;
}

static int find_shape(const struct pool *p, const struct request *req, uint32_t *ret,
                      bool *ret_fits)
{
	bool found = false;

	for (uint32_t i = 0; i < p->n_shapes; i++) {
		const struct request *like = &p->shapes[i].config.like;

		if (like->language != req->language)
			continue;
		*ret_fits = fits(like, req);
		*ret = i;
		found = true;
		if (*ret_fits)
			break;
	}
	return found ? 0 : -ENOENT;
}

static int check_room(struct pool *p, const struct shape *s, struct err *err)
{
	if (p->closing || p->lost)
		return err_set(err, ERR_INTERNAL, EPIPE, "the pool is closed");
	if (!s->kept && s->failures >= FAILURES_MAX) {
		*err = s->error;
		return -EIO;
	}
	if (p->queued.n >= p->queue_max) {
		(void)err_set(err, ERR_LIMIT, EAGAIN, "%u requests wait already", p->queue_max);
		return err_remedy(err, -EAGAIN, "try again in a second");
	}
	return 0;
}

static struct pool_call *new_call(const struct request *req, struct result *res, pool_done *done,
                                  void *data)
{
	struct pool_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->req = req;
	c->res = res;
	c->done = done;
	c->data = data;
	c->box = NO_BOX;
	c->submit_ns = clock_ns();
	report_init(&c->report);
	return c;
}

int pool_submit(struct pool *p, const struct request *req, struct result *res, pool_done *done,
                void *data, struct pool_call **ret, struct err *err)
{
	struct box *b;
	struct pool_call *c;
	struct shape *s;
	uint32_t shape;
	bool fit = false;
	int r = find_shape(p, req, &shape, &fit);

	if (r < 0) {
		(void)err_set(err, ERR_UNSUPPORTED, 0, "the pool has no boxes for %s",
		              language_name(req->language));
		return -EOPNOTSUPP;
	}
	s = &p->shapes[shape];
	r = check_room(p, s, err);
	if (r < 0)
		return r;
	if (!*res->execution_id && execution_id_new(res->execution_id) < 0)
		return err_set(err, ERR_INTERNAL, errno, "random numbers");
	c = new_call(req, res, done, data);
	if (!c)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a request");
	c->shape = shape;
	c->private_plan = !fit;
	queue_add(p, c);
	b = fit && pool_room(p) ? stock_take(p, s) : NULL;
	if (b) {
		s->stats.hits++;
		call_claim(p, c, b);
	} else {
		s->stats.misses++;
		pool_feed(p, s);
	}
	if (ret)
		*ret = c;
	return 0;
}

void pool_fetch(struct pool_call *call, const struct jail_fetch *fetch, size_t n)
{
	call->fetch = fetch;
	call->n_fetch = n;
}

void pool_listen(struct pool_call *call, pool_output *output, void *data)
{
	call->listener = output;
	call->listener_data = data;
}

bool pool_is_queued(const struct pool_call *call)
{
	return call->state == CALL_QUEUED;
}

void pool_note_claim(struct pool_call *call, uint64_t *ret_ns)
{
	if (call->claim_ns)
		*ret_ns = call->claim_ns;
	else
		call->ret_claim_ns = ret_ns;
}

void pool_cancel(struct pool *p, struct pool_call *call)
{
	(void)p;
	call->cancelled = true; /* the next tick sees it */
}

static void note_done(void *data, struct result *res)
{
	(void)res;
	*(bool *)data = true;
}

void pool_run(struct pool *p, const struct request *req, struct result *res)
{
	bool over = false;

	if (pool_submit(p, req, res, note_done, &over, NULL, &res->error) < 0) {
		res->state = RUN_SETUP_FAILED;
		return;
	}
	while (!over && pool_turn(p, -1) >= 0)
		;
}

/* ---- open, close ----------------------------------------------------------------------- */

int pool_add_shape(struct pool *p, const struct pool_shape *config, size_t *ret, struct err *err)
{
	struct shape *s = &p->shapes[p->n_shapes % POOL_SHAPES_MAX];
	int r;

	if (p->n_shapes == POOL_SHAPES_MAX)
		return err_set(err, ERR_LIMIT, E2BIG, "%d kinds of boxes at most", POOL_SHAPES_MAX);
	s->config = *config;
	s->config.idle_ms = config->idle_ms ? config->idle_ms : 300000;
	s->config.zygote_uses = config->zygote_uses ? config->zygote_uses : 10000;
	s->config.zygote_ms = config->zygote_ms ? config->zygote_ms : 600000;
	if (s->config.max < s->config.min)
		s->config.max = s->config.min;
	s->zygote = config->like.language == LANGUAGE_PYTHON;
	s->ready = calloc(p->boxes_max, sizeof(*s->ready));
	if (!s->ready)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a pool");
	r = route_warm(&s->config.like, &image_host, &p->arena, &s->plan, err);
	if (r < 0)
		return r;
	s->plan.layers &= ~p->without;
	s->plan.required &= ~p->without;
	*ret = p->n_shapes++;
	shape_ask(p, s);
	if (!s->asked)
		*err = s->error;
	return s->asked ? 0 : -EIO;
}

static int open_with(struct pool *p, const struct pool_config *config, struct err *err)
{
	size_t index;
	int r;

	p->boxes = calloc(p->boxes_max, sizeof(*p->boxes));
	p->free = calloc(p->boxes_max, sizeof(*p->free));
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!p->boxes || !p->free || p->epoll < 0)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a pool");
	for (unsigned i = 0; i < p->boxes_max; i++)
		p->free[p->n_free++] = p->boxes_max - 1 - i;
	r = launcher_start(&p->launcher, config->launcher, err);
	if (r < 0)
		return r;
	if (fcntl(p->launcher.sock, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, ERR_INTERNAL, errno, "the launcher's socket");
	r = pool_observe(p, p->launcher.sock, EPOLLIN, TAG_LAUNCHER, 0);
	for (size_t i = 0; i < config->n_shapes && r >= 0; i++)
		r = pool_add_shape(p, &config->shapes[i], &index, err);
	return r;
}

int pool_open(const struct pool_config *config, struct pool **ret, struct err *err)
{
	struct pool *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a pool");
	p->epoll = p->launcher.sock = FD_NONE;
	p->starting = NO_BOX;
	p->arena = ARENA_INIT(POOL_SHAPES_MAX * PLAN_ARENA_MAX);
	p->boxes_max = config->boxes_max && config->boxes_max < LAUNCH_BOXES_MAX ? config->boxes_max
	                                                                         : LAUNCH_BOXES_MAX;
	p->without = config->without;
	pool_bound(p, config->running_max, config->queue_max, config->acquire_ms);
	cgroup_host_none(&p->cgroups);
	r = config->n_shapes <= POOL_SHAPES_MAX
	            ? open_with(p, config, err)
	            : err_set(err, ERR_INVALID, EINVAL, "%d shapes at most", POOL_SHAPES_MAX);
	if (r < 0) {
		pool_close(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void cancel_all(struct pool *p)
{
	uint64_t deadline = clock_ms() + KILL_MS;

	for (struct pool_call *c = p->queued.first; c; c = c->next)
		c->cancelled = true;
	for (struct pool_call *c = p->running.first; c; c = c->next)
		c->cancelled = true;
	while ((p->queued.n || p->running.n || p->over.n) && clock_ms() < deadline &&
	       pool_turn(p, POOL_TICK_MS) >= 0)
		;
}

void pool_close(struct pool *p)
{
	if (!p)
		return;
	p->closing = true;
	if (p->epoll >= 0 && p->launcher.sock >= 0)
		cancel_all(p);
	launcher_stop(&p->launcher); /* it ends every box before it leaves */
	for (unsigned i = 0; p->boxes && i < p->boxes_max; i++) {
		struct box *b = &p->boxes[i];

		if (b->state == WARM_FREE)
			continue;
		if (*b->cgroup) /* it may have been killed while it did that */
			cgroup_remove_orphan(&p->cgroups, b->cgroup, CLEAN_UP_MS);
		box_release(p, b);
	}
	for (size_t i = 0; i < POOL_SHAPES_MAX; i++)
		free(p->shapes[i].ready);
	cgroup_host_close(&p->cgroups);
	(void)fd_close(p->epoll);
	arena_done(&p->arena);
	free(p->boxes);
	free(p->free);
	free(p);
}

int pool_fd(const struct pool *p)
{
	return p->epoll;
}

int pool_wait_ready(struct pool *p, size_t shape, unsigned n, unsigned timeout_ms, int cancel_fd,
                    struct err *err)
{
	const struct shape *s = &p->shapes[shape];
	uint64_t deadline = clock_ms() + timeout_ms;

	while (s->n_ready < n) {
		int r = pool_turn(p, POOL_TICK_MS);

		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "the launcher is gone");
		if (s->spoilt || s->failures >= FAILURES_MAX) {
			*err = s->error;
			return -EIO;
		}
		if (poll(&(struct pollfd){ cancel_fd, POLLIN, 0 }, 1, 0) > 0)
			return -ECANCELED;
		if (clock_ms() >= deadline) {
			*err = s->error;
			if (err->code == ERR_NONE)
				(void)err_set(err, ERR_LIMIT, ETIMEDOUT, "%u of %u boxes are ready",
				              s->n_ready, n);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

void pool_stats(struct pool *p, size_t shape, struct pool_stats *ret)
{
	const struct shape *s = &p->shapes[shape];

	*ret = s->stats;
	ret->ready = s->n_ready;
	ret->starting = s->n_starting;
	ret->running = p->running.n;
	ret->queued = p->queued.n;
	ret->ending = p->n_ending + p->n_spent;
	ret->target = pool_target(s);
	if (s->n_ready)
		ret->oldest_ms = (clock_ns() - stock_oldest_ns(p, s)) / 1000000;
}

bool pool_is_lost(const struct pool *p)
{
	return p->lost;
}

void pool_bound(struct pool *p, unsigned running_max, unsigned queue_max, unsigned acquire_ms)
{
	p->running_max = running_max;
	p->queue_max = queue_max ? queue_max : 1024;
	p->acquire_ms = acquire_ms ? acquire_ms : 10000;
}

void pool_resize(struct pool *p, size_t shape, unsigned min, unsigned max)
{
	p->shapes[shape].config.min = min;
	p->shapes[shape].config.max = max < min ? min : max;
}
