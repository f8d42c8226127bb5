/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of one box as the pool sees it: ordered, complete, looked at from outside, waiting,
 * claimed, gone. A waiting box costs three descriptors here: its control socket, its workspace and
 * the pidfd of its init.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "pool/pool_impl.h"
#include "sys/file.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

static uint32_t index_of(const struct pool *p, const struct box *b)
{
	return (uint32_t)(b - p->boxes);
}

struct box *box_of(struct pool *p, uint64_t id)
{
	uint64_t index = id % LAUNCH_BOXES_MAX;
	struct box *b = index < p->boxes_max ? &p->boxes[index] : NULL;

	return b && b->state != WARM_FREE && b->id == id ? b : NULL;
}

static void set_state(struct box *b, enum warm_state state)
{
	b->state = state;
	b->since_ns = clock_ns();
}

/* ---- the list of those under way ------------------------------------------------------- */

static void list_add(struct pool *p, struct box *b)
{
	uint32_t i = index_of(p, b);

	b->prev = NO_BOX;
	b->next = p->starting;
	if (b->next != NO_BOX)
		p->boxes[b->next].prev = i;
	p->starting = i;
	p->shapes[b->shape].n_starting++;
}

static void list_del(struct pool *p, struct box *b)
{
	if (b->prev != NO_BOX)
		p->boxes[b->prev].next = b->next;
	else
		p->starting = b->next;
	if (b->next != NO_BOX)
		p->boxes[b->next].prev = b->prev;
	p->shapes[b->shape].n_starting--;
}

static bool under_way(const struct box *b)
{
	return b->state == WARM_STARTING || b->state == WARM_WARMING;
}

/* ---- ends ------------------------------------------------------------------------------ */

void box_close_streams(struct box *b)
{
	b->in = fd_close(b->in);
	b->out = fd_close(b->out);
	b->errout = fd_close(b->errout);
	b->report = fd_close(b->report);
}

static void free_own(struct box *b)
{
	if (b->own)
		arena_done(b->own);
	free(b->own);
	b->own = NULL;
}

static void free_warming(struct box *b)
{
	if (b->warming)
		report_free(b->warming);
	free(b->warming);
	b->warming = NULL;
}

void box_release(struct pool *p, struct box *b)
{
	if (under_way(b))
		list_del(p, b);
	if (b->state == WARM_ENDING)
		p->n_ending--;
	box_close_streams(b);
	b->control = fd_close(b->control);
	b->workspace = fd_close(b->workspace);
	b->pidfd = fd_close(b->pidfd);
	free(b->starting);
	b->starting = NULL;
	b->call = NULL;
	free_warming(b);
	free_own(b);
	prepare_drop(p, b);
	b->state = WARM_FREE;
	b->id += LAUNCH_BOXES_MAX;
	p->free[p->n_free++] = index_of(p, b);
}

void box_kill(struct pool *p, struct box *b)
{
	if (under_way(b))
		list_del(p, b);
	if (b->state == WARM_READY)
		stock_remove(&p->shapes[b->shape], index_of(p, b));
	if (b->state != WARM_ENDING) {
		set_state(b, WARM_ENDING);
		p->n_ending++;
	}
	/* With init everything in its pid namespace dies; the launcher sees that by itself. */
	if (!b->kill_sent)
		b->kill_sent = (b->pidfd >= 0 && sys_pidfd_kill(b->pidfd, SIGKILL) >= 0) ||
		               launcher_kill(&p->launcher, b->id) >= 0;
	if (!b->kill_sent)
		p->blocked = true; /* pool_tick() tries again */
}

/* That is nobody's fault, and passes. */
static bool zygote_gone(const struct shape *s, const struct err *err)
{
	return s->zygote && (!s->kept || err->sys == EPIPE || err->sys == ESRCH);
}

/* It never became ready: whoever waits for it is told. */
static void spoil(struct pool *p, struct box *b, const struct err *err, bool gone)
{
	struct pool_call *call = b->call;
	struct shape *s = &p->shapes[b->shape];

	b->call = NULL;
	s->stats.failed++;
	s->spoilt++;
	s->retry_ns = clock_ns() + RETRY_NS * MIN2(s->spoilt, 50u);
	s->error = *err;
	if (gone)
		box_release(p, b);
	else
		box_kill(p, b);
	if (!call) /* the one that waits longest, so that nobody waits for ever */
		for (call = p->queued.first;
		     call && (p->shapes + call->shape != s || call->private_plan);)
			call = call->next;
	if (call && call->state == CALL_QUEUED && zygote_gone(s, err)) {
		call->box = NO_BOX; /* another box, from the next zygote; the wait has its bound */
		p->n_ordered -= call->ordered;
		call->ordered = false;
	} else if (call && call->state == CALL_QUEUED) {
		call_fail(p, call, RUN_SETUP_FAILED, err);
	}
	pool_feed(p, s);
}

void box_orphans(struct pool *p, uint32_t shape)
{
	for (uint32_t i = p->starting, next; i != NO_BOX; i = next) {
		struct box *b = &p->boxes[i];

		next = b->next;
		if (b->shape != shape || !b->starting || b->starting->code_ready)
			continue;
		if (b->call) { /* it gets another one, from the next zygote */
			b->call->box = NO_BOX;
			p->n_ordered -= b->call->ordered;
			b->call->ordered = false;
			b->call = NULL;
		}
		box_kill(p, b);
	}
}

void box_failed(struct pool *p, const struct launch_reply *reply)
{
	struct box *b = box_of(p, reply->id);

	if (b)
		spoil(p, b, &reply->err, true);
}

/* How it ended may still lie in the control socket: the launcher's word came another way. */
static void read_last_words(struct box *b, struct pool_call *call)
{
	struct box_report rep;
	struct sock_msg msg;

	while (b->control >= 0 &&
	       sock_recv(b->control, &rep, sizeof(rep), MSG_DONTWAIT, &msg) >= 0 && msg.len) {
		if (msg.len == sizeof(rep) && rep.kind == BOX_EXITED && !call->report.done) {
			call->exited = true;
			call->exit_report = rep;
		}
		sock_msg_close(&msg);
	}
}

/* The same of one that did not get ready: why, if it said so. */
static void read_failure(struct box *b, struct err *err)
{
	struct box_report rep;
	struct sock_msg msg;

	while (b->control >= 0 &&
	       sock_recv(b->control, &rep, sizeof(rep), MSG_DONTWAIT, &msg) >= 0 && msg.len) {
		if (msg.len == sizeof(rep) && rep.kind == BOX_FAILED)
			*err = rep.err;
		sock_msg_close(&msg);
	}
}

void box_ended(struct pool *p, const struct launch_reply *reply)
{
	struct box *b = box_of(p, reply->id);
	struct pool_call *call = b ? b->call : NULL;
	struct shape *s = b ? &p->shapes[b->shape] : NULL;
	struct err err = { 0 };

	if (!b)
		return;
	if (under_way(b)) {
		(void)err_set(&err, ERR_SETUP, 0, "the box ended before it was ready");
		read_failure(b, &err);
		spoil(p, b, &err, true);
		return;
	}
	if (b->state == WARM_SPENT)
		spent_end(p);
	if (b->state == WARM_READY)
		stock_remove(s, index_of(p, b));
	if (call) {
		read_last_words(b, call);
		b->call = NULL;
		call_on_end(p, call, &reply->usage);
	}
	box_release(p, b);
	pool_feed(p, s);
}

/* ---- beginnings ------------------------------------------------------------------------ */

static struct box *take_slot(struct pool *p)
{
	struct box *b;

	if (!p->n_free)
		return NULL;
	b = &p->boxes[p->free[--p->n_free]];
	if (!b->id) /* never used: memory that nobody has touched yet */
		b->id = LAUNCH_BOXES_MAX + index_of(p, b);
	b->control = b->workspace = b->pidfd = b->in = b->out = b->errout = b->report = FD_NONE;
	b->kill_sent = false;
	b->cgroup[0] = '\0';
	b->code_uid = 0;
	b->starting = calloc(1, sizeof(*b->starting));
	if (!b->starting)
		p->n_free++;
	return b->starting ? b : NULL;
}

static int make_control(struct box *b, int theirs[LAUNCH_FDS])
{
	int pair[2], r = sock_pair(pair);

	if (r < 0)
		return r;
	b->control = pair[0];
	theirs[LAUNCH_FD_CONTROL] = pair[1];
	return sock_pass_credentials(b->control);
}

static int send_order(struct pool *p, struct box *b, const struct plan *own_plan, struct err *err)
{
	const struct shape *s = &p->shapes[b->shape];
	struct launch_call call = { .kind = LAUNCH_START,
		                    .id = b->id,
		                    .plan = own_plan ? 0 : b->shape + 1,
		                    .zygote = s->zygote ? b->shape + 1 : 0,
		                    .pace = p->queued.n                ? PACE_HURRY
		                            : stock_wants_rehearsed(s) ? PACE_REHEARSE
		                                                       : PACE_RESERVE };
	int theirs[LAUNCH_FDS], r;

	b->rehearsed = call.pace == PACE_REHEARSE || !s->zygote;
	for (int i = 0; i < LAUNCH_FDS; i++)
		theirs[i] = FD_NONE;
	if (getrandom(&call.slot, sizeof(call.slot), 0) != sizeof(call.slot))
		return err_set(err, ERR_INTERNAL, errno, "random numbers");
	/* Known before it is there: whoever outlives the launcher can remove it. */
	cgroup_name(call.slot % b->plan->host_id_slots, b->cgroup, sizeof(b->cgroup));
	r = make_control(b, theirs);
	if (r >= 0 && !s->zygote)
		r = prepare_streams(b, theirs); /* it cannot be given any later */
	if (r >= 0 && own_plan)
		r = theirs[LAUNCH_FD_PLAN] = launcher_seal(own_plan, err);
	if (r >= 0)
		r = launcher_call(&p->launcher, &call, theirs);
	launcher_close(theirs);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "order a box");
	return pool_observe(p, b->control, EPOLLIN, TAG_CONTROL, index_of(p, b));
}

int box_order(struct pool *p, uint32_t shape, const struct plan *own_plan, struct arena *own,
              struct pool_call *call, struct err *err)
{
	struct box *b = take_slot(p);
	int r;

	if (!b)
		return err_set(err, ERR_LIMIT, EAGAIN, "%u boxes are alive", p->boxes_max);
	b->shape = shape;
	b->plan = own_plan ? own_plan : &p->shapes[shape].plan;
	b->own = own;
	b->call = call; /* told when it comes to nothing */
	set_state(b, WARM_STARTING);
	list_add(p, b);
	r = send_order(p, b, own_plan, err);
	if (r < 0) {
		b->own = NULL; /* stays the caller's */
		box_release(p, b);
		return r;
	}
	p->shapes[shape].forks++;
	if (call)
		call->box = index_of(p, b);
	return 0;
}

/* ---- ready ----------------------------------------------------------------------------- */

static void become_ready(struct pool *p, struct box *b)
{
	struct shape *s = &p->shapes[b->shape];
	struct pool_call *call = b->call;

	s->stats.refill_us = (clock_ns() - b->since_ns) / 1000;
	s->stats.made++;
	s->spoilt = 0;
	free_warming(b);
	if (!call && b->rehearsed)
		prepare_box(p, b);
	usage_note(p, b);
	list_del(p, b);
	set_state(b, WARM_READY);
	if (call) {
		b->call = NULL;
		call_claim(p, call, b);
		return;
	}
	stock_put(s, index_of(p, b), b->rehearsed);
	pool_feed(p, s);
}

/* A program in the box is told to start; it says when it is warm. */
static void let_warm(struct pool *p, struct box *b)
{
	const char go = BOX_GO;
	struct err err = { 0 };

	b->warming = calloc(1, sizeof(*b->warming));
	if (b->warming)
		report_init(b->warming);
	if (!b->warming || send(b->control, &go, 1, MSG_NOSIGNAL) != 1 ||
	    pool_observe(p, b->report, EPOLLIN, TAG_REPORT, index_of(p, b)) < 0) {
		(void)err_set(&err, ERR_SETUP, errno, "release the box");
		spoil(p, b, &err, false);
		return;
	}
	b->state = WARM_WARMING;
}

/* Everybody said ready: look, exactly as at a box that was made for one run. */
static void maybe_verify(struct pool *p, struct box *b)
{
	struct starting *st = b->starting;
	struct err err = { 0 };
	int r;

	if (!st->started || !st->code_ready || !st->init_ready)
		return;
	verify_prepare();
	receipt_start(b->plan, p->shapes[b->shape].config.like.level, &b->receipt);
	st->facts.launcher_pid = p->launcher.pid;
	r = verify_box(b->plan, &st->facts, &b->receipt, &err);
	b->code_pid = st->facts.code_pid;
	b->code_uid = geteuid() == 0 ? st->facts.started.host_code_uid : 0;
	(void)snprintf(b->cgroup, sizeof(b->cgroup), "%s", st->facts.started.cgroup_name);
	free(st);
	b->starting = NULL;
	if (r < 0)
		spoil(p, b, &err, false);
	else if (b->report >= 0)
		let_warm(p, b);
	else
		become_ready(p, b);
}

void box_started(struct pool *p, const struct launch_reply *reply, int *pidfd)
{
	struct box *b = box_of(p, reply->id);

	if (!b || b->state != WARM_STARTING)
		return;
	b->pidfd = fd_take(pidfd);
	b->starting->started = true;
	b->starting->facts.started = *reply;
	maybe_verify(p, b);
}

static void on_setup_report(struct pool *p, struct box *b, const struct box_report *rep,
                            struct sock_msg *msg)
{
	struct starting *st = b->starting;

	if (rep->kind == BOX_FAILED) {
		spoil(p, b, &rep->err, false);
		return;
	}
	if (rep->kind == BOX_CODE_READY && !st->code_ready && msg->n_fds == 1) {
		st->code_ready = true;
		st->facts.code_ready = *rep;
		st->facts.code_pid = msg->pid;
		b->workspace = fd_take(&msg->fds[0]);
	}
	if (rep->kind == BOX_INIT_READY) {
		st->init_ready = true;
		st->facts.init_ready = *rep;
		st->facts.init_pid = msg->pid;
	}
	maybe_verify(p, b);
}

void box_on_control(struct pool *p, uint32_t index)
{
	struct box *b = &p->boxes[index];
	struct box_report rep;
	struct sock_msg msg;
	int r = sock_recv(b->control, &rep, sizeof(rep), MSG_DONTWAIT, &msg);

	if (r == -EAGAIN)
		return;
	if (r < 0 || msg.len == 0) { /* both of its processes are gone; the launcher will say so */
		b->control = fd_close(b->control);
		return;
	}
	if (msg.len != sizeof(rep))
		rep.kind = BOX_NONE;
	if (b->state == WARM_STARTING && b->starting)
		on_setup_report(p, b, &rep, &msg);
	else if (b->state == WARM_RUNNING && b->call && rep.kind == BOX_EXITED)
		call_on_exit(p, b->call, &rep);
	else if (b->state == WARM_RUNNING && b->call && rep.kind == BOX_FAILED)
		call_fail(p, b->call, RUN_SETUP_FAILED, &rep.err);
	sock_msg_close(&msg);
}

/* Only "ready" counts here; nothing of a user's has been in this box. */
void box_on_report(struct pool *p, uint32_t index)
{
	struct box *b = &p->boxes[index];
	struct result scratch;
	struct err err = { 0 };
	char bytes[256];
	ssize_t n = read(b->report, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	result_init(&scratch);
	if (n > 0)
		report_add(b->warming, bytes, (size_t)n, &scratch);
	result_done(&scratch);
	if (b->warming->ready) {
		become_ready(p, b);
	} else if (n <= 0 || b->warming->broken) {
		(void)err_set(&err, ERR_SETUP, 0, "the program did not get warm");
		spoil(p, b, &err, false);
	}
}
