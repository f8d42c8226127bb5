/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig-launch: the only program that makes boxes.
 *
 * Theory of operation. The caller (brig, brigd) starts it with a sequenced-packet socket on fd 3
 * and nothing else open but stdio. It is single-threaded and loops: a plan comes in as a sealed
 * memfd with the box's stdio and control socket; a box goes out as a pidfd. It knows no policy, no
 * JSON, no user code: every decision is in the plan. It reports a box's end only when nothing of
 * the box is left. When the socket closes (the caller is gone, however it died) every box is killed
 * and removed before it exits; when it is killed itself, its boxes die by their parent-death
 * signal.
 *
 * Started for one run it makes that box and leaves. One that stays is first told a plan to keep:
 * from then on its root is that plan's image (template.c), and zygotes of kept plans are its
 * children.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "launch/box.h"
#include "launch/keep.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

#define SWEEP_AGE_S 10 /* a live box has a task within milliseconds */

#define AHEAD_MS       1       /* of quiet; what was begun just now shall have the processors */
#define TIMER_SLACK_NS 50000ul /* the kernel's default */
#define EVENTS_MAX     64

struct launcher {
	struct box_host host;
	int epoll;
	size_t n_boxes, n_watched;
	uint64_t look_at_ms; /* when the watched are looked at next */
	bool once;           /* leave after the last box */
	bool swept;
	struct zygote zygotes[ZYGOTES_MAX];
	/* The large ones last: what a launcher of one run touches lies close together. */
	struct box boxes[LAUNCH_BOXES_MAX];              /* by id, modulo */
	uint32_t watched[LAUNCH_BOXES_MAX];              /* the first n_watched: indexes of boxes */
	struct kept_plan kept[LAUNCH_PLANS_MAX], single; /* single: of the call at hand */
};

static struct launcher launcher; /* static: millions of bytes that are touched only when used */

/* What an event is about; the index goes into the lower half. */
enum tag { TAG_CALLER = 0, TAG_BOX, TAG_ZYGOTE, TAG_ZYGOTE_END };

static int observe(struct launcher *l, int fd, enum tag tag, size_t index)
{
	struct epoll_event ev = { .events = EPOLLIN,
		                  .data.u64 = (uint64_t)tag << 32 | (uint32_t)index };

	return sys_ret(epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev));
}

static size_t index_of(uint64_t id)
{
	return (size_t)(id % LAUNCH_BOXES_MAX);
}

static struct box *find_box(struct launcher *l, uint64_t id)
{
	struct box *b = &l->boxes[index_of(id)];

	return b->pid && b->id == id ? b : NULL;
}

static void watch(struct launcher *l, struct box *b)
{
	if (b->watched)
		return;
	b->watched = true;
	if (!l->n_watched)
		l->look_at_ms = clock_ms() + WATCH_MS;
	l->watched[l->n_watched++] = (uint32_t)(b - l->boxes);
}

static void unwatch(struct launcher *l, struct box *b)
{
	size_t i = 0;

	if (!b->watched)
		return;
	while (l->watched[i] != (uint32_t)(b - l->boxes))
		i++;
	l->watched[i] = l->watched[--l->n_watched];
}

static struct zygote *zygote_of(struct launcher *l, uint32_t plan)
{
	for (size_t i = 0; i < ZYGOTES_MAX; i++) {
		struct zygote *z = &l->zygotes[i];

		if (z->pid && z->plan == plan && z->ready && !z->leaving)
			return z;
	}
	return NULL;
}

/* The plan of a START: attached, or kept. */
static int plan_of(struct launcher *l, const struct launch_call *call, const int fds[LAUNCH_FDS],
                   const struct plan **ret, struct err *err)
{
	int r;

	if (call->plan == 0) {
		if (fds[LAUNCH_FD_PLAN] < 0)
			return err_set(err, ERR_INVALID, EPROTO, "no plan");
		r = plan_map(fds[LAUNCH_FD_PLAN], &l->single, err);
		*ret = &l->single.plan;
		return r;
	}
	if (call->plan > LAUNCH_PLANS_MAX || !l->kept[call->plan - 1].used)
		return err_set(err, ERR_INVALID, ENOENT, "no plan %u is kept", call->plan);
	*ret = &l->kept[call->plan - 1].plan;
	return 0;
}

static int choose_zygote(struct launcher *l, const struct launch_call *call, int *ret_sock,
                         struct err *err)
{
	struct zygote *z = call->zygote ? zygote_of(l, call->zygote - 1) : NULL;

	*ret_sock = z ? z->sock : FD_NONE;
	if (call->zygote && !z)
		return err_set(err, ERR_SETUP, ESRCH, "the zygote is not there");
	return 0;
}

static int start_box(struct launcher *l, const struct launch_call *call, const int fds[LAUNCH_FDS],
                     struct launch_reply *reply)
{
	struct box *b = &l->boxes[index_of(call->id)];
	struct box_order order = { .slot = call->slot,
		                   .fds = fds,
		                   .send_plan = call->zygote && call->plan != call->zygote,
		                   .pace = call->pace };
	struct err *err = &reply->err;
	int r;

	if (fds[LAUNCH_FD_CONTROL] < 0)
		return err_set(err, ERR_INVALID, EPROTO, "a launch needs a control socket");
	if (b->pid)
		return err_set(err, ERR_LIMIT, EAGAIN, "the id is in use; %d boxes at most",
		               LAUNCH_BOXES_MAX);
	r = choose_zygote(l, call, &order.zygote_sock, err);
	if (r >= 0)
		r = plan_of(l, call, fds, &order.plan, err);
	if (r >= 0)
		r = box_start(&l->host, &order, b, reply, err);
	plan_unmap(&l->single);
	if (r < 0)
		return r;
	b->id = call->id;
	l->n_boxes++;
	l->once = call->once;
	if (call->watch)
		watch(l, b);
	r = observe(l, b->pidfd, TAG_BOX, index_of(call->id));
	if (r < 0) {
		box_kill(b);
		box_end(b);
		unwatch(l, b);
		b->pid = 0;
		l->n_boxes--;
		return err_set(err, ERR_SETUP, -r, "watch over the box");
	}
	return b->pidfd;
}

static int answer_start(struct launcher *l, const struct launch_call *call,
                        const int fds[LAUNCH_FDS])
{
	struct launch_reply reply = { .id = call->id };
	int pidfd = start_box(l, call, fds, &reply);

	reply.kind = pidfd < 0 ? LAUNCH_FAILED : LAUNCH_STARTED;
	return sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), &pidfd, pidfd < 0 ? 0 : 1);
}

static int add_zygote(struct launcher *l, uint32_t plan, struct err *err)
{
	size_t i = 0;
	int r;

	while (i < ZYGOTES_MAX && l->zygotes[i].pid)
		i++;
	if (i == ZYGOTES_MAX)
		return err_set(err, ERR_LIMIT, EAGAIN, "too many zygotes");
	r = zygote_start(&l->host, &l->kept[plan], plan, &l->zygotes[i], err);
	if (r < 0)
		return r;
	r = observe(l, l->zygotes[i].sock, TAG_ZYGOTE, i);
	if (r >= 0)
		r = observe(l, l->zygotes[i].pidfd, TAG_ZYGOTE_END, i);
	if (r >= 0)
		return 0;
	zygote_stop(&l->zygotes[i]);
	return err_set(err, ERR_SETUP, -r, "watch over the zygote");
}

/* A plan that is there already is only given a new zygote. */
static int keep_plan(struct launcher *l, const struct launch_call *call, const int fds[LAUNCH_FDS],
                     struct err *err)
{
	struct kept_plan *k = &l->kept[call->plan % LAUNCH_PLANS_MAX];
	int r = 0;

	if (call->plan >= LAUNCH_PLANS_MAX || (!k->used && fds[LAUNCH_FD_PLAN] < 0))
		return err_set(err, ERR_INVALID, EPROTO, "no plan to keep");
	if (!k->used) {
		k->fd = fcntl(fds[LAUNCH_FD_PLAN], F_DUPFD_CLOEXEC, 0);
		if (k->fd < 0)
			return err_set(err, ERR_SETUP, errno, "keep the plan");
		r = plan_map(k->fd, k, err);
		if (r >= 0 && !l->host.shared_root)
			r = template_make(&l->host, &k->plan, err);
		if (r < 0) {
			k->fd = fd_close(k->fd);
			return r;
		}
		k->used = true;
	}
	return call->zygote ? add_zygote(l, call->plan, err) : 0;
}

_Static_assert(LAUNCH_CGROUPS == CGROUP_CONTROLLERS, "one slot for each hierarchy");

static int say_kept(struct launcher *l, uint32_t plan)
{
	const struct cgroup_host *h = &l->host.cgroups;
	struct launch_reply reply = { .kind = LAUNCH_KEPT, .plan = plan };
	int fds[LAUNCH_CGROUPS];
	size_t n = 0;

	reply.groups.mode = h->mode;
	reply.groups.usable = h->usable;
	for (unsigned i = 0; i < LAUNCH_CGROUPS; i++) {
		reply.groups.shared[i] = h->shared[i];
		if (h->parents[i] < 0)
			continue;
		reply.groups.has |= 1u << i;
		fds[n++] = h->parents[i];
	}
	return sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), fds, n);
}

static int answer_keep(struct launcher *l, const struct launch_call *call,
                       const int fds[LAUNCH_FDS])
{
	struct launch_reply reply = { .kind = LAUNCH_FAILED, .id = call->id, .plan = call->plan };

	if (keep_plan(l, call, fds, &reply.err) >= 0) /* a zygote says when it is ready */
		return call->zygote ? 0 : say_kept(l, call->plan);
	return sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), NULL, 0);
}

/* The attached descriptors at their places; -EPROTO when the count is wrong. */
static int sort_fds(const struct launch_call *call, const struct sock_msg *msg, int ret[LAUNCH_FDS])
{
	size_t n = 0;

	for (unsigned i = 0; i < LAUNCH_FDS; i++) {
		ret[i] = FD_NONE;
		if (!(call->fds & 1u << i))
			continue;
		if (n == msg->n_fds)
			return -EPROTO;
		ret[i] = msg->fds[n++];
	}
	return n == msg->n_fds ? 0 : -EPROTO;
}

static int obey(struct launcher *l, const struct launch_call *call, const struct sock_msg *msg)
{
	struct box *b = find_box(l, call->id);
	int fds[LAUNCH_FDS];
	int r = sort_fds(call, msg, fds);

	if (r < 0)
		return r;
	switch (call->kind) {
	case LAUNCH_START:
		return answer_start(l, call, fds);
	case LAUNCH_KEEP:
		return answer_keep(l, call, fds);
	case LAUNCH_KILL:
		if (b)
			box_kill(b);
		return 0;
	case LAUNCH_WATCH:
		if (b)
			watch(l, b);
		return 0;
	default:
		return -EPROTO;
	}
}

/* When nobody waits for us: a box that is being made needs every processor. */
static void sweep_once(struct launcher *l)
{
	if (!l->swept)
		cgroup_host_sweep(&l->host.cgroups, SWEEP_AGE_S);
	l->swept = true;
}

/* Ahead of the next box, while nobody waits for us. When it fails that box makes its own. */
static void stock_dev(struct box_host *host)
{
	host->spare_dev = dev_make_nodes(NULL);
	host->dev_failed = host->spare_dev < 0;
}

static bool dev_wanted(const struct launcher *l)
{
	return l->host.privileged && l->host.spare_dev < 0 && !l->host.dev_failed && !l->once;
}

/* One thing at a time: somebody may come. */
static void do_ahead(struct launcher *l)
{
	if (dev_wanted(l))
		stock_dev(&l->host);
	else if (net_wanted(&l->host))
		net_store_one(&l->host);
	else
		sweep_once(l);
}

/* Returns 0 to go on, 1 when the caller is gone, -errno when it talks nonsense. */
static int serve_socket(struct launcher *l)
{
	struct launch_call call;
	struct sock_msg msg;
	int r = sock_recv(LAUNCH_SOCKET_FD, &call, sizeof(call), 0, &msg);

	if (r < 0)
		return r;
	if (msg.len == 0)
		return 1;
	r = msg.len == sizeof(call) ? obey(l, &call, &msg) : -EPROTO;
	sock_msg_close(&msg);
	return r;
}

/* Returns 1 when there is nothing more to do. */
static int finish_box(struct launcher *l, size_t i)
{
	struct launch_reply reply = { .kind = LAUNCH_ENDED, .id = l->boxes[i].id };

	if (!l->boxes[i].pid)
		return 0;
	/* Others hold the same open pidfd, so closing ours would not end the events. */
	(void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->boxes[i].pidfd, NULL);
	box_end(&l->boxes[i]);
	reply.usage = l->boxes[i].usage;
	unwatch(l, &l->boxes[i]);
	l->boxes[i].pid = 0;
	l->n_boxes--;
	(void)sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), NULL, 0);
	return l->once && !l->n_boxes;
}

/* Its predecessor ends when it sees its socket closed. */
static int zygote_ready(struct launcher *l, struct zygote *z)
{
	struct zygote *old = zygote_of(l, z->plan);
	char c;

	if (recv(z->sock, &c, 1, MSG_DONTWAIT) != 1) { /* its end is another event */
		(void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, z->sock, NULL);
		return 0;
	}
	if (old) {
		old->leaving = true;
		old->sock = fd_close(old->sock);
	}
	z->ready = true;
	return say_kept(l, z->plan);
}

static int zygote_ended(struct zygote *z)
{
	struct launch_reply reply = { .kind = LAUNCH_ZYGOTE_LOST, .plan = z->plan };
	bool expected = z->leaving;

	if (!z->pid)
		return 0;
	zygote_stop(z);
	if (expected)
		return 0;
	(void)err_set(&reply.err, ERR_SETUP, 0, "the zygote of plan %u ended", z->plan);
	return sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), NULL, 0);
}

static int handle(struct launcher *l, uint64_t event)
{
	size_t i = (uint32_t)event;

	switch ((enum tag)(event >> 32)) {
	case TAG_CALLER:
		return serve_socket(l);
	case TAG_BOX:
		return finish_box(l, i);
	case TAG_ZYGOTE:
		return zygote_ready(l, &l->zygotes[i]);
	case TAG_ZYGOTE_END:
		return zygote_ended(&l->zygotes[i]);
	}
	return -EPROTO;
}

static int wait_ms(const struct launcher *l)
{
	uint64_t now;
	int ahead = dev_wanted(l) || net_wanted(&l->host) ? AHEAD_MS : -1;

	if (!l->n_watched)
		return ahead < 0 && l->n_boxes && !l->swept ? WATCH_MS : ahead;
	now = clock_ms();
	if (now >= l->look_at_ms)
		return 0;
	return ahead < 0 ? (int)(l->look_at_ms - now) : MIN2(ahead, (int)(l->look_at_ms - now));
}

/* By the clock and not after every event: a box that was just begun has used nothing. */
static void look_at_watched(struct launcher *l)
{
	if (!l->n_watched || clock_ms() < l->look_at_ms)
		return;
	for (size_t i = 0; i < l->n_watched; i++)
		box_watch(&l->boxes[l->watched[i]], l->host.proc_fd);
	l->look_at_ms = clock_ms() + WATCH_MS;
}

/* Returns 1 when the work is done or the caller is gone. */
static int serve(struct launcher *l)
{
	struct epoll_event events[EVENTS_MAX];
	int r = observe(l, LAUNCH_SOCKET_FD, TAG_CALLER, 0);

	while (r == 0) {
		int n = epoll_wait(l->epoll, events, EVENTS_MAX, wait_ms(l));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			do_ahead(l);
		for (int i = 0; i < n && r == 0; i++)
			r = handle(l, events[i].data.u64);
		look_at_watched(l);
	}
	return r;
}

static void end_all(struct launcher *l)
{
	for (size_t i = 0; i < LAUNCH_BOXES_MAX && l->n_boxes; i++)
		if (l->boxes[i].pid)
			box_kill(&l->boxes[i]);
	for (size_t i = 0; i < ZYGOTES_MAX; i++)
		zygote_stop(&l->zygotes[i]);
	for (size_t i = 0; i < LAUNCH_BOXES_MAX && l->n_boxes; i++) {
		if (!l->boxes[i].pid)
			continue;
		box_end(&l->boxes[i]);
		l->n_boxes--;
	}
	sweep_once(l);
	cgroup_host_remove(&l->host.cgroups);
}

/* What we are for the kernel and for our caller's terminal. */
static int settle_in(bool privileged)
{
	if (fcntl(LAUNCH_SELF_FD, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	(void)prctl(PR_SET_NAME, "brig-launch", 0, 0, 0);
	(void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* not our caller's */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);         /* of zygotes, see zygote_stop() */
	/* A terminal's Ctrl-C reaches the whole foreground group; the caller decides what it means.
	 */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(0);
	if (chdir("/") < 0) /* no box starts from a directory of the caller */
		return -errno;
	/* An ordinary user's launcher must be able to write its child's id maps. */
	if (privileged)
		(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return 0;
}

static int open_host(struct launcher *l, struct err *err)
{
	const struct cgroup_env env = { .mountinfo = "/proc/self/mountinfo",
		                        .self_cgroup = "/proc/self/cgroup",
		                        .privileged = l->host.privileged };

	cgroup_host_open(&env, &l->host.cgroups);
	l->host.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	l->host.spare_dev = l->host.net_home = FD_NONE;
	for (size_t i = 0; i < NET_STORE; i++)
		l->host.net_store[i] = FD_NONE;
	l->host.net_last = true;
	stock_dev(&l->host);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->host.proc_fd < 0 || l->epoll < 0)
		return err_set(err, ERR_SETUP, errno, "open /proc");
	return 0;
}

/* No box is made by us: every order is told why, until the caller goes. */
static _Noreturn void refuse_all(const struct err *err)
{
	struct launch_reply failure = { .kind = LAUNCH_FAILED, .err = *err };
	struct launch_call call;
	struct sock_msg msg;

	while (sock_recv(LAUNCH_SOCKET_FD, &call, sizeof(call), 0, &msg) >= 0 &&
	       msg.len == sizeof(call)) {
		sock_msg_close(&msg);
		failure.id = call.id;
		failure.plan = call.plan;
		if (sock_send(LAUNCH_SOCKET_FD, &failure, sizeof(failure), NULL, 0) < 0)
			break;
	}
	_exit(1);
}

int main(int argc, char **argv)
{
	struct launcher *l = &launcher;
	struct err err = { 0 };
	int r;

	l->host.privileged = geteuid() == 0;
	if (argc == 3 && streq(argv[0], INIT_NAME))
		init_exec_main(argv);
	if (settle_in(l->host.privileged) < 0)
		return 1;
	r = launcher_confine(&err);
	if (r >= 0)
		r = open_host(l, &err);
	if (r < 0)
		refuse_all(&err);
	r = serve(l);
	end_all(l);
	return r == 1 ? 0 : 1;
}
