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
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "launch/init_image.h"
#include "model/plan_wire.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

#define SWEEP_AGE_S 10 /* a live box has a task within milliseconds */
#define SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct launcher {
	struct cgroup_host cgroups;
	int init_fd;
	struct box boxes[LAUNCH_BOXES_MAX];
	size_t n_boxes; /* the first n are in use */
	bool once;      /* leave after the last box */
	bool swept;
	struct plan_store store;
};

static struct launcher launcher; /* static: a million bytes that are touched only when used */

/* brig-init lives in this program's data; a sealed memfd of it cannot be changed by anybody. */
static int make_init_fd(struct err *err)
{
	CLEANUP_FD int fd = sys_ret(syscall(SYS_memfd_create, "brig-init", 0x3u));
	size_t done = 0;

	if (fd < 0)
		return err_set(err, ERR_SETUP, -fd, "memfd for init");
	while (done < init_image_len) {
		ssize_t n = write(fd, init_image + done, init_image_len - done);

		if (n <= 0)
			return err_set(err, ERR_SETUP, n < 0 ? errno : EIO, "write init's image");
		done += (size_t)n;
	}
	if (fchmod(fd, 0555) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return err_set(err, ERR_SETUP, errno, "seal init's image");
	return fd_take(&fd);
}

struct mapping {
	void *p;
	size_t n;
};

static void unmap(struct mapping *m)
{
	if (m->p)
		(void)munmap(m->p, m->n);
}

/* Sealed first, mapped after: nobody can change the bytes between check and use. */
static int map_plan(int fd, struct mapping *ret, struct err *err)
{
	struct stat st;
	void *p;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_set(err, ERR_INVALID, EPROTO, "the plan is not sealed");
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "fstat the plan");
	if (st.st_size <= 0 || (uint64_t)st.st_size > PLAN_BYTES_MAX)
		return err_set(err, ERR_LIMIT, EFBIG, "plan of %lld bytes", (long long)st.st_size);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED)
		return err_set(err, ERR_INTERNAL, errno, "map the plan");
	*ret = (struct mapping){ p, (size_t)st.st_size };
	return 0;
}

static int start_box(struct launcher *l, const struct launch_call *call, struct sock_msg *msg,
                     struct launch_reply *reply)
{
	CLEANUP(unmap) struct mapping bytes = { 0 };
	struct box *b = &l->boxes[l->n_boxes];
	struct err *err = &reply->err;
	struct plan plan;
	int r;

	if (msg->n_fds != LAUNCH_FDS)
		return err_set(err, ERR_INVALID, EPROTO, "a launch needs %d descriptors",
		               LAUNCH_FDS);
	if (l->n_boxes == LAUNCH_BOXES_MAX)
		return err_set(err, ERR_LIMIT, EAGAIN, "%d boxes are alive", LAUNCH_BOXES_MAX);
	r = map_plan(msg->fds[LAUNCH_FD_PLAN], &bytes, err);
	if (r < 0)
		return r;
	r = plan_decode(bytes.p, bytes.n, &l->store, &plan, err);
	if (r < 0)
		return r;
	r = box_start(&l->cgroups, &plan, call->slot, msg->fds, l->init_fd, b, reply, err);
	if (r < 0)
		return r;
	b->id = call->id;
	l->n_boxes++;
	l->once = call->once;
	return b->pidfd;
}

static int answer_start(struct launcher *l, const struct launch_call *call, struct sock_msg *msg)
{
	struct launch_reply reply = { .id = call->id };
	int pidfd = start_box(l, call, msg, &reply);

	reply.kind = pidfd < 0 ? LAUNCH_FAILED : LAUNCH_STARTED;
	return sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), &pidfd, pidfd < 0 ? 0 : 1);
}

static void kill_box(struct launcher *l, uint64_t id)
{
	for (size_t i = 0; i < l->n_boxes; i++)
		if (l->boxes[i].id == id)
			box_kill(&l->boxes[i]);
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
	r = -EPROTO;
	if (msg.len == sizeof(call) && call.kind == LAUNCH_START)
		r = answer_start(l, &call, &msg);
	else if (msg.len == sizeof(call) && call.kind == LAUNCH_KILL)
		r = (kill_box(l, call.id), 0);
	sock_msg_close(&msg);
	return r;
}

static void finish_box(struct launcher *l, size_t i)
{
	struct launch_reply reply = { .kind = LAUNCH_ENDED, .id = l->boxes[i].id };

	box_end(&l->boxes[i]);
	reply.usage = l->boxes[i].usage;
	l->boxes[i] = l->boxes[--l->n_boxes];
	(void)sock_send(LAUNCH_SOCKET_FD, &reply, sizeof(reply), NULL, 0);
}

/* While the first box sets itself up we have nothing to do. */
static void sweep_once(struct launcher *l)
{
	if (!l->swept)
		cgroup_host_sweep(&l->cgroups, SWEEP_AGE_S);
	l->swept = true;
}

static int serve(struct launcher *l)
{
	static struct pollfd polls[LAUNCH_BOXES_MAX + 1];

	for (;;) {
		size_t n = l->n_boxes;
		int r;

		polls[0] = (struct pollfd){ .fd = LAUNCH_SOCKET_FD, .events = POLLIN };
		for (size_t i = 0; i < n; i++)
			polls[i + 1] = (struct pollfd){ .fd = l->boxes[i].pidfd, .events = POLLIN };
		r = poll(polls, n + 1, n ? WATCH_MS : -1);
		if (r < 0 && errno != EINTR)
			return -errno;
		for (size_t i = n; i-- > 0;) { /* downward: finish_box() moves the last one in */
			if (polls[i + 1].revents)
				finish_box(l, i);
			else
				box_watch(&l->boxes[i]);
		}
		if (l->once && n && !l->n_boxes)
			return 1;
		if (r > 0 && polls[0].revents) {
			r = serve_socket(l);
			if (r != 0)
				return r;
			sweep_once(l);
		}
	}
}

static void end_all(struct launcher *l)
{
	for (size_t i = 0; i < l->n_boxes; i++)
		box_kill(&l->boxes[i]);
	for (size_t i = 0; i < l->n_boxes; i++)
		box_end(&l->boxes[i]);
	cgroup_host_remove(&l->cgroups);
}

int main(void)
{
	struct launcher *l = &launcher;
	struct launch_reply failure = { .kind = LAUNCH_FAILED };
	const struct cgroup_env env = { .mountinfo = "/proc/self/mountinfo",
		                        .self_cgroup = "/proc/self/cgroup",
		                        .privileged = geteuid() == 0 };
	int r;

	/* A terminal's Ctrl-C reaches the whole foreground group; the caller decides what it means.
	 */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(0);
	if (chdir("/") < 0) /* no box starts from a directory of the caller */
		return 1;
	if (env.privileged) /* an ordinary user's launcher must be able to write its child's id maps
	                     */
		(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	cgroup_host_open(&env, &l->cgroups);
	l->init_fd = make_init_fd(&failure.err);
	if (l->init_fd < 0) {
		(void)sock_send(LAUNCH_SOCKET_FD, &failure, sizeof(failure), NULL, 0);
		return 1;
	}
	r = serve(l);
	end_all(l);
	return r == 1 ? 0 : 1;
}
