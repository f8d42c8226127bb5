/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "model/plan_wire.h"
#include "sys/cgroup.h"
#include "sys/sock.h"
#include "sys/spread.h"

#define CLEAN_UP_MS 3000
#define COPY_MAX    (1 << 20)
#define SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

void box_fds_init(struct box_fds *f)
{
	f->pidfd = f->control = f->in = f->out = f->errout = FD_NONE;
}

void box_fds_close(struct box_fds *f)
{
	f->pidfd = fd_close(f->pidfd);
	f->control = fd_close(f->control);
	f->in = fd_close(f->in);
	f->out = fd_close(f->out);
	f->errout = fd_close(f->errout);
}

/* ../libexec/brig/brig-launch of our own binary: an installation can be moved as a whole. */
int launcher_find(char *path, size_t size, struct err *err)
{
	char self[PATH_MAX - 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "find this program");
	self[n] = '\0';
	for (int i = 0; i < 2; i++) {
		slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
	}
	(void)snprintf(path, size, "%s/libexec/brig/brig-launch", self);
	if (access(path, X_OK) < 0) {
		(void)err_set(err, ERR_INTERNAL, errno, "no launcher at %.160s", path);
		return err_remedy(err, -ENOENT, "install brig again: make install");
	}
	return 0;
}

static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0)
			return -errno;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* In the kernel: a buffer of our own would be many pages that nobody has touched yet. */
static int copy_into(int from, int to)
{
	for (;;) {
		ssize_t n = sendfile(to, from, NULL, COPY_MAX);

		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
}

/*
 * The launcher's processes live on as pid 1 of boxes: what runs there must be no file that anybody
 * can reach and change through /proc/1/exe.
 */
static int sealed_program(const char *path)
{
	CLEANUP_FD int from = open(path, O_RDONLY | O_CLOEXEC), to = FD_NONE;
	int r;

	if (from < 0)
		return -errno;
	to = memfd_create("brig-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0)
		return -errno;
	r = copy_into(from, to);
	if (r < 0)
		return r;
	if (fchmod(to, 0555) < 0 || fcntl(to, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return fcntl(to, F_DUPFD_CLOEXEC, 10);
}

/* Nothing but the socket, the program and stderr is inherited, and no environment. */
static int spawn(int program, int sock, pid_t *ret_pid)
{
	char *const argv[] = { (char *)"brig-launch", NULL };
	char *const env[] = { NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	r = posix_spawn_file_actions_init(&fa);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		(void)posix_spawn_file_actions_destroy(&fa);
		return -r;
	}
	r = posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDWR, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&fa, 0, 1);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&fa, sock, LAUNCH_SOCKET_FD);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&fa, program, LAUNCH_SELF_FD);
	if (!r)
		r = posix_spawn_file_actions_addclosefrom_np(&fa, LAUNCH_SELF_FD + 1);
	if (!r)
		r = posix_spawnattr_setsigmask(&attr, &none);
	if (!r)
		r = posix_spawnattr_setsigdefault(&attr, &all);
	if (!r)
		r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (!r)
		r = posix_spawn(ret_pid, "/proc/self/fd/4", &fa, &attr, argv, env);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&fa);
	return -r;
}

/*
 * A pool has three descriptors for each box that waits. And the kernel lets nobody pass descriptors
 * while those of his user that are on their way are more than this, whoever sent them: an ordinary
 * user's boxes are that user.
 */
static void raise_nofile(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == l.rlim_max)
		return;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

int launcher_start(struct launcher *l, const char *path, struct err *err)
{
	CLEANUP_FD int ours = FD_NONE, theirs = FD_NONE, program = FD_NONE;
	char found[PATH_MAX];
	int pair[2], r;

	if (!path) {
		r = launcher_find(found, sizeof(found), err);
		if (r < 0)
			return r;
		path = found;
	}
	raise_nofile();
	r = sock_pair(pair);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "socket pair");
	ours = pair[0];
	/* Above every number that the child is about to fill. */
	theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
	(void)close(pair[1]);
	if (theirs < 0)
		return err_set(err, ERR_INTERNAL, errno, "move a descriptor");
	program = sealed_program(path);
	if (program < 0)
		return err_set(err, ERR_INTERNAL, -program, "copy %.140s into a memfd", path);
	r = spawn(program, theirs, &l->pid);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "start %.160s", path);
	spread_child(l->pid); /* we go on planning */
	l->sock = fd_take(&ours);
	l->next_id = 1;
	return 0;
}

void launcher_stop(struct launcher *l)
{
	l->sock = fd_close(l->sock);
	if (l->pid > 0)
		while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
			;
	l->pid = 0;
}

/* The plan's bytes, which nobody can change any more. */
int launcher_seal(const struct plan *plan, struct err *err)
{
	CLEANUP_BUF struct buf bytes = BUF_INIT(PLAN_BYTES_MAX);
	CLEANUP_FD int fd = FD_NONE;
	int r = plan_encode(plan, &bytes);

	if (r < 0)
		return err_set(err, ERR_LIMIT, -r, "write the plan");
	fd = memfd_create("brig-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "memfd for the plan");
	r = write_all(fd, bytes.data, bytes.len);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "write the plan");
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "seal the plan");
	return fd_take(&fd);
}

void launcher_close(int fds[LAUNCH_FDS])
{
	for (int i = 0; i < LAUNCH_FDS; i++)
		fds[i] = fd_close(fds[i]);
}

int launcher_pipes(struct box_fds *ours, int theirs[LAUNCH_FDS])
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	theirs[LAUNCH_FD_STDIN] = p[0];
	ours->in = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	ours->out = p[0];
	theirs[LAUNCH_FD_STDOUT] = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	ours->errout = p[0];
	theirs[LAUNCH_FD_STDERR] = p[1];
	if (fcntl(ours->in, F_SETFL, O_NONBLOCK) < 0 || fcntl(ours->out, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(ours->errout, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

static int make_pipes(struct box_fds *ours, int theirs[LAUNCH_FDS])
{
	int p[2], r = launcher_pipes(ours, theirs);

	if (r >= 0)
		r = sock_pair(p);
	if (r < 0)
		return r;
	ours->control = p[0];
	theirs[LAUNCH_FD_CONTROL] = p[1];
	return sock_pass_credentials(ours->control);
}

int launcher_call(struct launcher *l, struct launch_call *call, const int fds[LAUNCH_FDS])
{
	int attached[LAUNCH_FDS];
	size_t n = 0;

	call->fds = 0;
	for (unsigned i = 0; fds && i < LAUNCH_FDS; i++) {
		if (fds[i] < 0)
			continue;
		call->fds |= 1u << i;
		attached[n++] = fds[i];
	}
	return sock_send(l->sock, call, sizeof(*call), attached, n);
}

int launcher_keep(struct launcher *l, uint32_t index, const struct plan *plan, bool zygote,
                  struct err *err)
{
	struct launch_call call = { .kind = LAUNCH_KEEP, .plan = index, .zygote = zygote };
	int fds[LAUNCH_FDS], r = 0;

	for (int i = 0; i < LAUNCH_FDS; i++)
		fds[i] = FD_NONE;
	if (plan)
		r = fds[LAUNCH_FD_PLAN] = launcher_seal(plan, err);
	if (r < 0)
		return r;
	r = launcher_call(l, &call, fds);
	launcher_close(fds);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "talk to the launcher") : 0;
}

int launcher_send(struct launcher *l, const struct plan *plan, uint64_t *ret_id,
                  struct box_fds *ret_fds, struct err *err)
{
	int theirs[LAUNCH_FDS] = { FD_NONE, FD_NONE, FD_NONE, FD_NONE, FD_NONE, FD_NONE };
	struct launch_call call = {
		.kind = LAUNCH_START, .id = l->next_id, .once = l->once, .watch = 1
	};
	struct box_fds ours;
	int r;

	box_fds_init(&ours);
	if (getrandom(&call.slot, sizeof(call.slot), 0) != sizeof(call.slot))
		return err_set(err, ERR_INTERNAL, errno, "random numbers");
	call.slot %= plan->host_id_slots;
	ours.slot = call.slot;
	r = theirs[LAUNCH_FD_PLAN] = launcher_seal(plan, err);
	if (r < 0)
		return r;
	r = make_pipes(&ours, theirs);
	if (r >= 0)
		r = launcher_call(l, &call, theirs);
	launcher_close(theirs);
	if (r < 0) {
		box_fds_close(&ours);
		return err_set(err, ERR_INTERNAL, -r, "talk to the launcher");
	}
	l->next_id++;
	*ret_id = call.id;
	*ret_fds = ours;
	return 0;
}

void launcher_clean_up(const struct box_fds *box)
{
	const struct cgroup_env env = { .mountinfo = "/proc/self/mountinfo",
		                        .self_cgroup = "/proc/self/cgroup",
		                        .privileged = geteuid() == 0 };
	struct cgroup_host host;
	char name[24];

	cgroup_host_open(&env, &host);
	cgroup_name(box->slot, name, sizeof(name));
	cgroup_remove_orphan(&host, name, CLEAN_UP_MS);
	cgroup_host_remove(&host);
}

int launcher_kill(struct launcher *l, uint64_t id)
{
	struct launch_call call = { .kind = LAUNCH_KILL, .id = id };

	return sock_send(l->sock, &call, sizeof(call), NULL, 0);
}

int launcher_recv_msg(struct launcher *l, struct launch_reply *ret, struct sock_msg *msg)
{
	int r = sock_recv(l->sock, ret, sizeof(*ret), 0, msg);

	/* It left before it read our last word; what it had said is still there, behind the error.
	 */
	if (r == -ECONNRESET)
		r = sock_recv(l->sock, ret, sizeof(*ret), 0, msg);
	if (r == -ECONNRESET)
		return -EPIPE;
	if (r < 0)
		return r;
	if (msg->len != sizeof(*ret)) {
		sock_msg_close(msg);
		return msg->len ? -EPROTO : -EPIPE;
	}
	return 0;
}

int launcher_recv(struct launcher *l, struct launch_reply *ret, int *ret_pidfd)
{
	struct sock_msg msg;
	int r = launcher_recv_msg(l, ret, &msg);

	*ret_pidfd = FD_NONE;
	if (r < 0)
		return r;
	if (msg.n_fds)
		*ret_pidfd = fd_take(&msg.fds[0]);
	sock_msg_close(&msg);
	return 0;
}
