/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Making one box, from outside it; life.c has the rest of its life. Order: cgroup with its limits,
 * device nodes, clone3 into all namespaces but the network's, id maps and cgroup membership while
 * the child waits, then its release. A failure at any point kills the child before it was released
 * and removes the cgroup.
 */

#include "launch/box.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/file.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

#define REOPEN_TRIES 8

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static const struct {
	uint32_t layer;
	uint64_t flag;
} namespaces[] = {
	{ LAYER_BIT(USER_NS), CLONE_NEWUSER }, { LAYER_BIT(MOUNT_NS), CLONE_NEWNS },
	{ LAYER_BIT(PID_NS), CLONE_NEWPID },   { LAYER_BIT(IPC_NS), CLONE_NEWIPC },
	{ LAYER_BIT(UTS_NS), CLONE_NEWUTS },   { LAYER_BIT(TIME_NS), CLONE_NEWTIME },
};

static const struct {
	uint32_t layer;
	unsigned controller;
} limit_layers[] = {
	{ LAYER_BIT(CG_MEMORY), CGROUP_BIT(MEMORY) },
	{ LAYER_BIT(CG_PIDS), CGROUP_BIT(PIDS) },
	{ LAYER_BIT(CG_CPU), CGROUP_BIT(CPU) },
};

/* What the cgroup holds; a required controller that is missing refuses the run. */
static int cgroup_layers(const struct cgroup_host *host, const struct plan *plan, uint32_t *ret,
                         struct err *err)
{
	for (size_t i = 0; i < ELEMENTSOF(limit_layers); i++) {
		uint32_t layer = limit_layers[i].layer;
		unsigned need = limit_layers[i].controller;

		if (host->mode == CGROUP_V1 && need == CGROUP_BIT(CPU))
			need |= CGROUP_BIT(CPUACCT); /* what it used is counted there */
		if ((host->usable & need) == need) {
			*ret |= layer & plan->layers;
			continue;
		}
		if (!(plan->required & layer))
			continue;
		(void)err_set(err, ERR_UNSUPPORTED, 0, "no cgroup can limit the box (%s)",
		              host->why);
		return err_remedy(
			err, -EOPNOTSUPP,
			"run as root, or under: systemd-run --user --scope -p Delegate=yes; "
			"or accept less: --level degraded-ok");
	}
	return 0;
}

static int make_cgroup(struct box_host *bh, const struct plan *plan, uint32_t slot, struct box *b,
                       uint32_t *layers, struct err *err)
{
	struct cgroup_host *host = &bh->cgroups;
	const struct cgroup_limits limits = {
		.memory_bytes = plan->memory_bytes,
		.pids = plan->pids + 1, /* init is not the caller's */
		.cpu_milli = plan->cpu_milli,
	};
	const struct cgroup_env env = { .mountinfo = "/proc/self/mountinfo",
		                        .self_cgroup = "/proc/self/cgroup",
		                        .privileged = geteuid() == 0 };
	int r = cgroup_layers(host, plan, layers, err);

	if (r < 0 || !*layers)
		return r;
	r = -ENOENT;
	for (int i = 0; i < REOPEN_TRIES && r == -ENOENT; i++) {
		if (i > 0) { /* another launcher ended and took the empty parent along */
			if (bh->shared_root)
				break; /* the host's files are out of our sight */
			cgroup_host_close(host);
			cgroup_host_open(&env, host);
		}
		r = cgroup_create(host, slot, plan->host_id_slots, &limits, &b->cgroup, err);
	}
	if (r < 0)
		return r;
	b->in_cgroup = true;
	if (b->cgroup.swap_off)
		*layers |= LAYER_BIT(CG_SWAP) & plan->layers;
	else if (plan->required & LAYER_BIT(CG_SWAP))
		return err_set(err, ERR_UNSUPPORTED, 0, "swap of the box cannot be limited");
	return 0;
}

/* clone(2) and pidfd_open(2) where clone3 is refused, as in some containers. */
static int old_clone(uint64_t flags, int *ret_pidfd)
{
	long pid =
		syscall(SYS_clone, (unsigned long)(flags & ~CLONE_NEWTIME) | SIGCHLD, 0, 0, 0, 0);

	if (pid <= 0)
		return sys_ret(pid);
	*ret_pidfd = sys_pidfd_open((int)pid);
	if (*ret_pidfd < 0) {
		(void)kill((pid_t)pid, SIGKILL);
		(void)waitpid((pid_t)pid, NULL, 0);
		return *ret_pidfd;
	}
	return (int)pid;
}

static int clone_box(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
	int pidfd = FD_NONE;
	struct clone_args args = {
		.flags = flags | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	int pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = sys_clone3(&args);
	if (pid == -ENOSYS || (pid == -EINVAL && flags & CLONE_NEWTIME))
		return cgroup_fd >= 0 ? -ENOSYS : old_clone(flags, ret_pidfd);
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}

static int write_proc(int proc_fd, pid_t pid, const char *file, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%d/%s", (int)pid, file);
	return file_write(proc_fd, path, text);
}

/* Root of a user namespace that does not have the boxes' ids. */
static int too_few_ids(int r, struct err *err)
{
	(void)err_set(err, ERR_UNSUPPORTED, -r, "this root has no ids for boxes (a container?)");
	return err_remedy(err, r,
	                  "run brig as an ordinary user, or map more ids into the container");
}

/* No id of the box is 0, inside or outside; unprivileged there is one id, our own. */
static int write_maps(const struct box_host *host, pid_t pid, const struct plan *plan,
                      const struct launch_reply *ids, struct err *err)
{
	bool privileged = host->privileged;
	int proc = host->proc_fd;
	char map[96];
	int r = 0;

	if (privileged)
		(void)snprintf(
			map, sizeof(map), "%" PRIu32 " %" PRIu32 " 1\n%" PRIu32 " %" PRIu32 " 1\n",
			plan->init_id, ids->host_init_uid, plan->code_id, ids->host_code_uid);
	else
		(void)snprintf(map, sizeof(map), "%" PRIu32 " %" PRIu32 " 1\n", plan->code_id,
		               (uint32_t)geteuid());
	r = write_proc(proc, pid, "uid_map", map);
	if (r >= 0 && !privileged) {
		r = write_proc(proc, pid, "setgroups", "deny");
		(void)snprintf(map, sizeof(map), "%" PRIu32 " %" PRIu32 " 1\n", plan->code_id,
		               (uint32_t)getegid());
	}
	if (r >= 0)
		r = write_proc(proc, pid, "gid_map", map);
	if (r == -EPERM && privileged) {
		(void)err_set(err, ERR_UNSUPPORTED, -r, "map ids %" PRIu32 " and the next",
		              ids->host_init_uid);
		return err_remedy(err, r,
		                  "this root has too few ids (a container?): run brig as an "
		                  "ordinary user in it, or map more ids into it");
	}
	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "map the box's ids");
	return 0;
}

/* So that the code can reopen /dev/stdout; only pipes are handed over, never a host's file. */
static int own_stdio(const int fds[LAUNCH_FDS], uint32_t uid)
{
	for (int i = LAUNCH_FD_STDIN; i <= LAUNCH_FD_STDERR; i++) {
		struct stat st;

		if (fds[i] < 0)
			continue;
		if (fstat(fds[i], &st) < 0)
			return -errno;
		if (S_ISFIFO(st.st_mode) && fchown(fds[i], uid, uid) < 0)
			return -errno;
	}
	return 0;
}

static int spawn(const struct plan *plan, struct box_setup *s, struct box *b, int release_fd,
                 uint32_t *layers, struct err *err)
{
	bool v2 = b->in_cgroup && b->cgroup.host->mode == CGROUP_V2;
	uint64_t flags = 0;
	int pid;

	for (size_t i = 0; i < ELEMENTSOF(namespaces); i++)
		if (plan->layers & namespaces[i].layer)
			flags |= namespaces[i].flag;
	if (s->adopted && !s->network_there && plan->layers & LAYER_BIT(NET_NS))
		flags |= CLONE_NEWNET;
	s->unshare_cgroup_ns = b->in_cgroup && !v2;
	if (!s->unshare_cgroup_ns && plan->layers & LAYER_BIT(CGROUP_NS))
		flags |= CLONE_NEWCGROUP;
	s->in_cgroup = v2;
	pid = clone_box(flags, v2 ? b->cgroup.dirs[CGROUP_MEMORY] : FD_NONE, &b->pidfd);
	if (pid == -ENOSYS && v2) { /* attach by hand; the namespace then follows the attach */
		s->in_cgroup = false;
		s->unshare_cgroup_ns = true;
		v2 = false;
		flags &= ~(uint64_t)CLONE_NEWCGROUP;
		pid = clone_box(flags, FD_NONE, &b->pidfd);
	}
	if (pid == 0) {
		(void)close(release_fd);
		setup_main(s);
	}
	if (pid < 0) {
		(void)err_set(err, pid == -EPERM || pid == -ENOSPC ? ERR_UNSUPPORTED : ERR_SETUP,
		              -pid, "create the namespaces");
		return err_remedy(err, pid, "see \"brig doctor\"");
	}
	b->pid = pid;
	*layers |= plan->layers & (LAYER_BIT(USER_NS) | LAYER_BIT(MOUNT_NS) | LAYER_BIT(PID_NS) |
	                           LAYER_BIT(IPC_NS) | LAYER_BIT(UTS_NS));
	if (!s->unshare_cgroup_ns)
		*layers |= plan->layers & LAYER_BIT(CGROUP_NS);
	if (s->network_there || flags & CLONE_NEWNET)
		*layers |= plan->layers & LAYER_BIT(NET_NS);
	if (b->in_cgroup && !v2 && !s->n_cgroup_fds)
		return cgroup_attach(&b->cgroup, pid, err);
	return 0;
}

/* Of a launcher that stays: from its store. Else the box makes its own. */
static int spawn_in_network(struct box_host *host, struct box_setup *s, struct box *b,
                            int release_fd, uint32_t *layers, struct err *err)
{
	int r;

	if (host->net_home < 0 || !(s->plan->layers & LAYER_BIT(NET_NS)))
		return spawn(s->plan, s, b, release_fd, layers, err);
	r = net_enter(host, s->plan->loopback, err);
	if (r < 0)
		return r;
	s->network_there = true;
	r = spawn(s->plan, s, b, release_fd, layers, err);
	net_leave(host);
	return r;
}

/* v1, and whoever is forked elsewhere: they enter by themselves. */
static int open_cgroup(const struct box_order *o, struct box_setup *s, struct box *b,
                       struct err *err)
{
	int r;

	if (!b->in_cgroup || (b->cgroup.host->mode == CGROUP_V2 && o->zygote_sock < 0))
		return 0;
	r = cgroup_open_self(&b->cgroup, s->cgroup_fds);
	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "open the box's cgroup");
	s->n_cgroup_fds = (size_t)r;
	return 0;
}

static void close_cgroup(struct box_setup *s)
{
	for (size_t i = 0; i < s->n_cgroup_fds; i++)
		s->cgroup_fds[i] = fd_close(s->cgroup_fds[i]);
}

static int prepare_dev(struct box_host *host, const struct plan *plan, uint32_t *layers,
                       struct err *err)
{
	int fd;

	if (!host->privileged || !(plan->layers & LAYER_BIT(DEV_NODES)))
		return FD_NONE;
	fd = host->spare_dev >= 0 ? fd_take(&host->spare_dev) : dev_make_nodes(err);
	host->dev_failed = fd < 0;
	if (fd < 0 && plan->required & LAYER_BIT(DEV_NODES))
		return fd;
	if (fd >= 0)
		*layers |= LAYER_BIT(DEV_NODES);
	return fd < 0 ? FD_NONE : fd;
}

static void fill_reply(struct launch_reply *reply, const struct cgroup_host *host,
                       const struct box *b, uint32_t layers)
{
	reply->pid = b->pid;
	reply->layers = layers;
	if (b->in_cgroup) {
		(void)snprintf(reply->cgroup, sizeof(reply->cgroup), "%s %.120s/%s",
		               host->mode == CGROUP_V2 ? "v2" : "v1", host->path, b->cgroup.name);
		(void)snprintf(reply->cgroup_name, sizeof(reply->cgroup_name), "%s",
		               b->cgroup.name);
	} else {
		(void)snprintf(reply->cgroup, sizeof(reply->cgroup), "%.150s", host->why);
	}
}

/* Ids of the box outside; the pipes of its stdio are the code's then. */
static int choose_ids(const struct box_host *host, const struct box_setup *s, const struct box *b,
                      struct launch_reply *reply, struct err *err)
{
	uint32_t slot = b->in_cgroup ? b->cgroup.slot : s->slot;
	int r;

	if (!host->privileged) {
		reply->host_init_uid = reply->host_code_uid = (uint32_t)geteuid();
		return 0;
	}
	reply->host_init_uid = s->plan->host_id_base + 2 * slot;
	reply->host_code_uid = reply->host_init_uid + 1;
	r = own_stdio(s->fds, reply->host_code_uid);
	if (r == -EINVAL)
		return too_few_ids(r, err);
	return r < 0 ? err_set(err, ERR_SETUP, -r, "hand over stdio") : 0;
}

/* Before or behind init's mounting, as it comes: it waits for the rest inside. */
static int order_fork(const struct box_order *o, const struct box_setup *s, struct box *b,
                      int wait_fd, struct err *err)
{
	struct zygote_call call = { .has_plan = o->send_plan,
		                    .network_there = s->network_there,
		                    .pace = o->pace };
	int fds[SOCK_FDS_MAX], n = ZYGOTE_FD_CGROUP, r;

	fds[ZYGOTE_FD_INIT] = b->pidfd;
	fds[ZYGOTE_FD_CONTROL] = s->fds[LAUNCH_FD_CONTROL];
	fds[ZYGOTE_FD_WAIT] = wait_fd;
	for (size_t i = 0; i < s->n_cgroup_fds; i++)
		fds[n++] = s->cgroup_fds[i];
	call.n_cgroup = (uint32_t)s->n_cgroup_fds;
	if (o->send_plan)
		fds[n++] = s->fds[LAUNCH_FD_PLAN];
	r = sock_send(o->zygote_sock, &call, sizeof(call), fds, (size_t)n);
	if (r == -ECONNRESET) /* the same, of one that died with an order unread */
		r = -EPIPE;
	return r < 0 ? err_set(err, ERR_SETUP, -r, "talk to the zygote") : 0;
}

/* Both ends of what init and the code's process tell each other; the zygote's child has one. */
static int pair_with_zygote(struct box_setup *s, int *ret_theirs, struct err *err)
{
	int pair[2], r = sock_pair(pair);

	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "socket pair");
	s->adopted = true;
	s->to_code = s->from_code = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

static int start(struct box_host *host, const struct box_order *o, struct box_setup *s,
                 struct box *b, struct launch_reply *reply, struct err *err)
{
	CLEANUP_FD int sync_read = FD_NONE, release = FD_NONE, dev = FD_NONE;
	CLEANUP_FD int ours = FD_NONE, theirs = FD_NONE;
	const struct plan *plan = o->plan;
	uint32_t layers = 0;
	int sync_pipe[2], r;

	r = make_cgroup(host, plan, s->slot, b, &layers, err);
	if (r < 0)
		return r;
	if (!(layers & LAYER_BIT(CG_MEMORY))) {
		b->memory_limit = plan->memory_bytes;
		s->scratch_max = plan->memory_bytes; /* nobody counts its pages */
	}
	r = open_cgroup(o, s, b, err);
	if (r >= 0)
		r = choose_ids(host, s, b, reply, err);
	if (r >= 0 && o->zygote_sock >= 0) {
		r = pair_with_zygote(s, &theirs, err);
		ours = r < 0 ? FD_NONE : s->to_code;
	}
	if (r < 0)
		return r;
	s->dev_fd = dev = prepare_dev(host, plan, &layers, err);
	if (dev < 0 && dev != FD_NONE)
		return dev;
	if (pipe2(sync_pipe, O_CLOEXEC) < 0)
		return err_set(err, ERR_SETUP, errno, "pipe");
	s->sync_fd = sync_read = sync_pipe[0];
	release = sync_pipe[1];
	r = spawn_in_network(host, s, b, release, &layers, err);
	if (r >= 0)
		r = write_maps(host, b->pid, plan, reply, err);
	if (r < 0)
		return r;
	if (write(release, "", 1) != 1)
		return err_set(err, ERR_SETUP, errno, "release the box");
	if (s->adopted)
		r = order_fork(o, s, b, theirs, err);
	if (r < 0)
		return r;
	fill_reply(reply, &host->cgroups, b, layers);
	return 0;
}

int box_start(struct box_host *host, const struct box_order *o, struct box *ret,
              struct launch_reply *reply, struct err *err)
{
	struct box_setup s = { .plan = o->plan,
		               .privileged = host->privileged,
		               .shared_root = host->shared_root,
		               .slot = o->slot % o->plan->host_id_slots };
	struct box b = { .pidfd = FD_NONE, .cpu_limit_ns = o->plan->cpu_ms * 1000000 };
	int r;

	memcpy(s.fds, o->fds, sizeof(s.fds));
	r = start(host, o, &s, &b, reply, err);
	close_cgroup(&s);
	if (r < 0) {
		box_abandon(&b);
		return r;
	}
	if (b.in_cgroup)
		cgroup_park(&b.cgroup);
	*ret = b;
	return 0;
}
