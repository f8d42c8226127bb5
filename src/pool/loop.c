/* SPDX-License-Identifier: Apache-2.0 */

/* Events of the pool: who is told what. */

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "pool/pool_impl.h"
#include "sys/sock.h"

#define EVENTS_MAX       64
#define REPLIES_PER_TURN 64 /* of the launcher, so that runs are not kept waiting */

int pool_observe(struct pool *p, int fd, uint32_t events, enum pool_tag tag, uint32_t index)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)tag << 32 | index };

	return epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void launcher_gone(struct pool *p)
{
	struct launch_reply ended = { .kind = LAUNCH_ENDED };

	if (p->lost)
		return;
	spent_end(p);
	p->lost = true;
	(void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->launcher.sock, NULL);
	/* Its boxes die by their parent-death signal, or (before it was armed) because nobody is
	 * there to talk to; what it can no longer remove, we do. */
	for (uint32_t i = 0; i < p->boxes_max; i++)
		if (p->boxes[i].state != WARM_FREE)
			(void)shutdown(p->boxes[i].control, SHUT_WR);
	for (uint32_t i = 0; i < p->boxes_max; i++) {
		struct box *b = &p->boxes[i];

		if (b->state == WARM_FREE)
			continue;
		if (*b->cgroup)
			cgroup_remove_orphan(&p->cgroups, b->cgroup, CLEAN_UP_MS);
		ended.id = b->id;
		box_ended(p, &ended);
	}
	(void)err_set(&ended.err, ERR_INTERNAL, EPIPE, "the launcher died");
	while (p->queued.first)
		call_fail(p, p->queued.first, RUN_SETUP_FAILED, &ended.err);
}

_Static_assert(LAUNCH_CGROUPS == CGROUP_CONTROLLERS, "one slot for each hierarchy");

/* Where to read what a box uses; the same each time, so the first is kept. */
static void take_groups(struct pool *p, const struct launch_groups *g, struct sock_msg *msg)
{
	size_t n = 0;

	if (p->cgroups.mode != CGROUP_NONE)
		return;
	p->cgroups.mode = (enum cgroup_mode)g->mode;
	p->cgroups.usable = g->usable;
	for (unsigned i = 0; i < LAUNCH_CGROUPS; i++) {
		p->cgroups.shared[i] = g->shared[i];
		if (g->has & 1u << i && n < msg->n_fds)
			p->cgroups.parents[i] = fd_take(&msg->fds[n++]);
	}
}

static void on_kept(struct pool *p, const struct launch_reply *reply, struct sock_msg *msg)
{
	struct shape *s = &p->shapes[reply->plan % POOL_SHAPES_MAX];

	take_groups(p, &reply->groups, msg);
	s->kept = true;
	s->asked = false;
	s->failures = 0;
	s->forks = 0;
	s->zygote_ns = clock_ns();
	s->stats.zygotes += s->zygote;
	pool_feed(p, s);
}

static void on_reply(struct pool *p, const struct launch_reply *reply, struct sock_msg *msg)
{
	switch ((enum launch_kind)reply->kind) {
	case LAUNCH_STARTED:
		box_started(p, reply, &msg->fds[0]);
		break;
	case LAUNCH_FAILED:
		if (reply->id)
			box_failed(p, reply); /* or late, of one that was given up */
		else
			shape_failed(p, reply->plan, &reply->err);
		break;
	case LAUNCH_ENDED:
		box_ended(p, reply);
		break;
	case LAUNCH_KEPT:
		on_kept(p, reply, msg);
		break;
	case LAUNCH_ZYGOTE_LOST:
		shape_failed(p, reply->plan, &reply->err);
		break;
	case LAUNCH_NONE:
	case LAUNCH_START:
	case LAUNCH_KILL:
	case LAUNCH_KEEP:
	case LAUNCH_WATCH:
		break;
	}
}

static void on_launcher(struct pool *p)
{
	for (int i = 0; i < REPLIES_PER_TURN && !p->lost; i++) {
		struct launch_reply reply;
		struct sock_msg msg;
		int r = launcher_recv_msg(&p->launcher, &reply, &msg);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			launcher_gone(p);
			return;
		}
		on_reply(p, &reply, &msg);
		sock_msg_close(
			&msg); /* a box's pidfd too: thousands wait, the launcher ends them */
	}
}

static void handle(struct pool *p, uint64_t event)
{
	uint32_t index = (uint32_t)event;
	struct box *b = &p->boxes[index % p->boxes_max];
	enum pool_tag tag = (enum pool_tag)(event >> 32);

	switch (tag) {
	case TAG_LAUNCHER:
		on_launcher(p);
		break;
	case TAG_CONTROL:
		box_on_control(p, index);
		break;
	case TAG_REPORT:
		if (b->state == WARM_WARMING)
			box_on_report(p, index);
		else if (b->state == WARM_RUNNING)
			call_on_report(p, b->call);
		break;
	case TAG_OUT:
	case TAG_ERR:
	case TAG_IN:
		if (b->state == WARM_RUNNING && b->call)
			call_on_stream(p, b->call, tag);
		break;
	case TAG_WORK:
		works_reap(p);
		break;
	}
}

/* Results are handed out at the end of a turn, when nothing of ours is half done. */
static void hand_out(struct pool *p)
{
	while (p->over.first) {
		struct pool_call *c = p->over.first;
		pool_done *done = c->done;
		void *data = c->data;
		struct result *res = c->res;

		call_list_del(&p->over, c);
		call_free(c);
		done(data, res);
	}
}

bool pool_is_busy(const struct pool *p)
{
	return p->queued.n || p->running.n || p->starting != NO_BOX || p->n_ending || p->n_spent ||
	       p->blocked;
}

static int wait_ms(const struct pool *p, int timeout_ms)
{
	int due = p->over.first     ? 0
	          : p->unheard      ? LISTEN_AFTER
	          : pool_is_busy(p) ? POOL_TICK_MS
	                            : 1000;

	return timeout_ms >= 0 && timeout_ms < due ? timeout_ms : due;
}

int pool_turn(struct pool *p, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t now;
	int n;

	if (p->n_spent && spent_is_due(p, clock_ns())) /* what the last turn gave out is out */
		spent_end(p);
	n = epoll_wait(p->epoll, events, EVENTS_MAX, wait_ms(p, timeout_ms));
	if (n < 0 && errno != EINTR)
		return -errno;
	for (int i = 0; i < n; i++)
		handle(p, events[i].data.u64);
	if (p->freed && p->queued.n)
		for (size_t i = 0; i < p->n_shapes; i++)
			pool_feed(p, &p->shapes[i]);
	p->freed = false;
	now = clock_ns();
	for (struct pool_call *c = p->running.first; c && p->unheard; c = c->next)
		call_listen(p, c, now);
	hand_out(p);
	if (now >= p->tick_ns) { /* it may end boxes, and no result waits for that */
		p->tick_ns = now + (uint64_t)POOL_TICK_MS * 1000000;
		pool_tick(p, now);
		hand_out(p); /* of those whose time is up */
	}
	return p->lost && !pool_is_busy(p) ? -EPIPE : 0;
}
