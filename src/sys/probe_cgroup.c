/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroups: which hierarchies there are, and whether a child of our place in them can really be
 * given limits. Our place is where boxes go: our own cgroup, or the top of v2 for root. For each
 * controller a scratch child is made, its limit written and read back, and the child removed
 * again. On v2 a controller may have to be switched on for children first; that is undone too, as
 * is the move of this process into a leaf, which v2 asks for before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"

#define ATTACH_QUIET_US 30000
#define ATTACH_SLOW_NS  3000000u
#define REMOVE_TRIES    100

struct limit {
	enum probe_id id;
	const char *controller;
	const char *v1_file, *v1_value;
	const char *v2_file, *v2_value;
};

static const struct limit limits[] = {
	{ PROBE_CG_MEMORY, "memory", "memory.limit_in_bytes", "67108864", "memory.max",
	  "67108864" },
	{ PROBE_CG_PIDS, "pids", "pids.max", "16", "pids.max", "16" },
	{ PROBE_CG_CPU, "cpu", "cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000" },
};

/* ---- scratch children ---- */

static void scratch_name(char name[static 40], const char *suffix)
{
	(void)snprintf(name, 40, "brig-probe-%d%s", (int)getpid(), suffix);
}

static int scratch_make(int own_fd, const char *suffix)
{
	char name[40];

	scratch_name(name, suffix);
	if (mkdirat(own_fd, name, 0755) < 0)
		return -errno;
	return sys_ret(openat(own_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static void scratch_remove(int own_fd, const char *suffix)
{
	char name[40];

	scratch_name(name, suffix);
	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (unlinkat(own_fd, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			return;
		(void)usleep(2000); /* those that left are not quite gone */
	}
}

static int read_at(int dir_fd, const char *name, char *text, size_t size)
{
	CLEANUP_FD int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		return -errno;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return 0;
}

static int set_and_check(int dir_fd, const char *file, const char *value)
{
	char text[64];
	int r = file_write(dir_fd, file, value);

	if (r >= 0)
		r = read_at(dir_fd, file, text, sizeof(text));
	if (r < 0)
		return r;
	return streq(text, value) ? 0 : -EIO;
}

/* The limit, and for memory the one on swap. */
static int try_limit(int own_fd, bool v2, const struct limit *l, int *ret_swap)
{
	CLEANUP_FD int dir = scratch_make(own_fd, "");
	int r = dir;

	if (r < 0)
		return r;
	r = set_and_check(dir, v2 ? l->v2_file : l->v1_file, v2 ? l->v2_value : l->v1_value);
	if (r >= 0 && l->id == PROBE_CG_MEMORY)
		*ret_swap = v2 ? set_and_check(dir, "memory.swap.max", "0")
		               : set_and_check(dir, "memory.memsw.limit_in_bytes", l->v1_value);
	scratch_remove(own_fd, "");
	return r;
}

/* ---- v2: controllers must be switched on for children ---- */

static bool is_alone(int own_fd)
{
	char text[64], self[16];

	(void)snprintf(self, sizeof(self), "%d", (int)getpid());
	return read_at(own_fd, "cgroup.procs", text, sizeof(text)) >= 0 && streq(text, self);
}

/* Only an empty cgroup may hand controllers down. */
static int enable_from_leaf(int own_fd, const char *on)
{
	CLEANUP_FD int leaf = scratch_make(own_fd, "-leaf");
	int r = leaf;

	if (r < 0)
		return r;
	r = file_write(leaf, "cgroup.procs", "0");
	if (r >= 0)
		r = file_write(own_fd, "cgroup.subtree_control", on);
	return r;
}

static void leave_leaf(int own_fd)
{
	(void)file_write(own_fd, "cgroup.procs", "0");
	scratch_remove(own_fd, "-leaf");
}

static int try_limit_v2(int own_fd, const struct limit *l, int *ret_swap)
{
	char has[512], on[24], off[24];
	bool moved = false;
	int r = read_at(own_fd, "cgroup.controllers", has, sizeof(has));

	if (r < 0)
		return r;
	if (!probe_list_has(has, l->controller, " "))
		return -EOPNOTSUPP;
	r = read_at(own_fd, "cgroup.subtree_control", has, sizeof(has));
	if (r < 0)
		return r;
	if (probe_list_has(has, l->controller, " "))
		return try_limit(own_fd, true, l, ret_swap);

	(void)snprintf(on, sizeof(on), "+%s", l->controller);
	(void)snprintf(off, sizeof(off), "-%s", l->controller);
	r = file_write(own_fd, "cgroup.subtree_control", on);
	if (r == -EBUSY && is_alone(own_fd)) {
		moved = true;
		r = enable_from_leaf(own_fd, on);
	}
	if (r >= 0) {
		r = try_limit(own_fd, true, l, ret_swap);
		(void)file_write(own_fd, "cgroup.subtree_control", off);
	}
	if (moved)
		leave_leaf(own_fd);
	return r;
}

/* ---- the items ---- */

/* How to get a cgroup of one's own to divide. */
static void put_delegation(struct probe_ctx *c, enum probe_id id, const struct probe_place *p)
{
	if (!p->v2 && geteuid() != 0 && strlen(p->path) < 100)
		probe_remedy(c, id, "as root: install -d -o %u %.100s/brig", (unsigned)geteuid(),
		             p->path);
	else if (p->v2 && access("/run/systemd/system", F_OK) == 0)
		probe_remedy(c, id, "systemd-run %s--scope -p Delegate=yes brig ...",
		             geteuid() ? "--user " : "");
	else
		probe_remedy(c, id, "run brig as root, in a cgroup of its own");
}

static void explain(struct probe_ctx *c, enum probe_id id, int r, const struct probe_place *p)
{
	if (r == -EROFS) {
		probe_set(c, id, PROBE_MISSING, "%.100s is read-only", p->mount);
		probe_remedy(c, id, "mount -o remount,rw %.100s", p->mount);
		return;
	}
	if (r == -EBUSY)
		probe_set(c, id, PROBE_MISSING, "this cgroup has other processes in it");
	else if (r == -EOPNOTSUPP)
		probe_set(c, id, PROBE_MISSING, "the controller is not given to this cgroup");
	else if (r == -EACCES || r == -EPERM)
		probe_set(c, id, PROBE_MISSING, "this cgroup is not ours to divide");
	else
		probe_set(c, id, PROBE_MISSING, "%s", strerror(-r));
	if (r == -EOPNOTSUPP && geteuid() == 0)
		probe_remedy(c, id, "boot with cgroup_no_v1=all cgroup_enable=memory");
	else
		put_delegation(c, id, p);
}

static void probe_swap(struct probe_ctx *c, int memory, int swap)
{
	if (memory >= 0 && swap >= 0) {
		probe_set(c, PROBE_CG_SWAP, PROBE_OK, "swap of a box can be forbidden");
	} else if (memory < 0) {
		probe_set(c, PROBE_CG_SWAP, PROBE_MISSING, "needs the memory limit");
	} else {
		probe_set(c, PROBE_CG_SWAP, PROBE_MISSING, "no limit on swap: %s", strerror(-swap));
		probe_remedy(c, PROBE_CG_SWAP, "boot with swapaccount=1");
	}
}

static void probe_limits(struct probe_ctx *c, bool use_v1, const struct probe_place *v2)
{
	for (size_t i = 0; i < ELEMENTSOF(limits); i++) {
		const struct limit *l = &limits[i];
		CLEANUP(probe_place_done) struct probe_place v1 = PROBE_PLACE_INIT;
		const struct probe_place *p = use_v1 ? &v1 : v2;
		int swap = -ENOENT, r = -ENOENT;

		if (use_v1)
			(void)probe_find_place(l->controller, &v1);
		if (p->fd < 0) {
			probe_set(c, l->id, PROBE_MISSING, "no hierarchy has this controller");
			probe_remedy(c, l->id, "mount -t cgroup2 none /sys/fs/cgroup");
		} else {
			r = p->v2 ? try_limit_v2(p->fd, l, &swap)
			          : try_limit(p->fd, false, l, &swap);
			if (r >= 0)
				probe_set(c, l->id, PROBE_OK, "set and read back (%s)",
				          p->v2 ? "v2" : "v1");
			else
				explain(c, l->id, r, p);
		}
		if (l->id == PROBE_CG_MEMORY)
			probe_swap(c, r, swap);
	}
}

static int wait_for_parent(int go_fd)
{
	char byte;

	return read(go_fd, &byte, 1) < 0 ? -errno : 0;
}

/* Nanoseconds that moving a fresh child into the cgroup took, after some quiet. */
static int time_attach(int dir_fd, uint64_t *ret_ns)
{
	CLEANUP_FD int go_read = FD_NONE;
	CLEANUP_FD int go_write = FD_NONE;
	uint64_t began;
	char text[16];
	int go[2], r;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	go_read = go[0];
	go_write = go[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		(void)close(go_write);
		_exit(-wait_for_parent(go_read)); /* also when the parent dies */
	}
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	(void)usleep(ATTACH_QUIET_US);
	began = clock_ns();
	r = file_write(dir_fd, "cgroup.procs", text);
	*ret_ns = clock_ns() - began;
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

static uint64_t middle_of(const uint64_t v[static 3])
{
	uint64_t low = MIN2(v[0], v[1]), high = v[0] + v[1] - low;

	return v[2] < low ? low : MIN2(high, v[2]);
}

static void probe_attach(struct probe_ctx *c, const struct probe_place *p,
                         const struct probe_place *v2)
{
	CLEANUP_FD int dir = scratch_make(p->fd, "");
	uint64_t samples[3] = { 0 }, ns;
	int r = dir;

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(samples); i++)
		r = time_attach(dir, &samples[i]);
	if (dir >= 0)
		scratch_remove(p->fd, "");
	if (r < 0) {
		probe_set(c, PROBE_CG_ATTACH, PROBE_WARN, "not timed: %s", strerror(-r));
		return;
	}
	ns = middle_of(samples);
	probe_set(c, PROBE_CG_ATTACH, ns > ATTACH_SLOW_NS ? PROBE_WARN : PROBE_OK,
	          "%.2f ms after 30 ms of quiet", (double)ns / 1e6);
	if (ns > ATTACH_SLOW_NS && v2->fd >= 0)
		probe_remedy(c, PROBE_CG_ATTACH, "mount -o remount,favordynmods %.100s", v2->mount);
	else if (ns > ATTACH_SLOW_NS)
		probe_remedy(c, PROBE_CG_ATTACH, "mount -t cgroup2 -o favordynmods none DIRECTORY");
}

/* What only v2 has; on a hybrid host it works without any controller. */
static void probe_v2(struct probe_ctx *c, const struct probe_place *v2)
{
	CLEANUP_FD int dir = v2->fd < 0 ? -ENOENT : scratch_make(v2->fd, "");
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int pid;

	if (v2->fd < 0) {
		probe_set(c, PROBE_INTO_CGROUP, PROBE_WARN, "no v2 hierarchy");
		probe_set(c, PROBE_CG_KILL, PROBE_WARN, "no v2 hierarchy");
		return;
	}
	if (dir < 0) {
		explain(c, PROBE_INTO_CGROUP, dir, v2);
		explain(c, PROBE_CG_KILL, dir, v2);
	} else {
		args.cgroup = (uint64_t)dir;
		pid = sys_clone3(&args);
		if (pid == 0)
			_exit(0);
		while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		probe_result(c, PROBE_INTO_CGROUP, pid, "works", "Linux 5.7 or newer");
		probe_result(c, PROBE_CG_KILL, file_write(dir, "cgroup.kill", "1"), "works",
		             "Linux 5.14 or newer");
		scratch_remove(v2->fd, "");
	}
	/* A box can do without both. */
	if (c->report->items[PROBE_INTO_CGROUP].state == PROBE_MISSING)
		c->report->items[PROBE_INTO_CGROUP].state = PROBE_WARN;
	if (c->report->items[PROBE_CG_KILL].state == PROBE_MISSING)
		c->report->items[PROBE_CG_KILL].state = PROBE_WARN;
}

void probe_cgroups(struct probe_ctx *c)
{
	CLEANUP(probe_place_done) struct probe_place v2 = PROBE_PLACE_INIT;
	CLEANUP(probe_place_done) struct probe_place v1 = PROBE_PLACE_INIT;

	(void)probe_find_place(NULL, &v2);
	(void)probe_find_place("memory", &v1); /* whoever has it has the others */
	if (v1.fd >= 0 && v2.fd >= 0) {
		probe_set(c, PROBE_CGROUP, PROBE_OK, "hybrid: limits by v1; v2 at %s", v2.mount);
	} else if (v1.fd >= 0) {
		probe_set(c, PROBE_CGROUP, PROBE_OK, "v1");
	} else if (v2.fd >= 0) {
		probe_set(c, PROBE_CGROUP, PROBE_OK, "v2 at %s", v2.mount);
	} else {
		probe_set(c, PROBE_CGROUP, PROBE_MISSING, "none");
		probe_remedy(c, PROBE_CGROUP, "mount -t cgroup2 none /sys/fs/cgroup");
	}
	probe_limits(c, v1.fd >= 0, &v2);
	probe_v2(c, &v2);
	if (v1.fd >= 0 || v2.fd >= 0)
		probe_attach(c, v1.fd >= 0 ? &v1 : &v2, &v2);
	else
		probe_set(c, PROBE_CG_ATTACH, PROBE_WARN, "not timed: no cgroup to enter");
}
