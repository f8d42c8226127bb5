/* SPDX-License-Identifier: Apache-2.0 */

/* A box that was made, until nothing of it is left: watched, killed, reaped, its cgroup removed. */

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "launch/box.h"
#include "launch/watch.h"
#include "sys/syscalls.h"

#define REMOVE_WAIT_MS 1000

/* The pid is ours until we wait for it, so it is as good as the pidfd where that is refused. */
static void kill_init(const struct box *b)
{
	if (sys_pidfd_kill(b->pidfd, SIGKILL) < 0)
		(void)kill(b->pid, SIGKILL);
}

void box_abandon(struct box *b)
{
	if (b->pidfd >= 0) {
		kill_init(b);
		(void)waitpid(b->pid, NULL, 0);
		b->pidfd = fd_close(b->pidfd);
	}
	if (b->in_cgroup)
		(void)cgroup_remove(&b->cgroup, REMOVE_WAIT_MS);
}

void box_kill(struct box *b)
{
	kill_init(b);
	if (b->in_cgroup)
		(void)cgroup_kill(&b->cgroup);
}

static void keep_max(uint64_t *max, uint64_t v)
{
	if (v > *max)
		*max = v;
}

/* Without a cgroup the peaks are what the samples saw. */
static void watch_by_sampling(struct box *b, int proc_fd)
{
	struct watch_usage u;

	watch_tree(proc_fd, b->pid, b->memory_limit, &u);
	keep_max(&b->usage.memory_peak, u.memory_bytes);
	keep_max(&b->usage.cpu_ns, u.cpu_ns);
	keep_max(&b->usage.pids_peak, u.tasks);
	if (u.cpu_ns > b->cpu_limit_ns)
		b->usage.cpu_exceeded = 1;
	if (u.memory_bytes > b->memory_limit)
		b->usage.memory_exceeded = 1;
}

void box_watch(struct box *b, int proc_fd)
{
	struct cgroup_usage u = { 0 };

	if (b->in_cgroup)
		cgroup_read_usage(&b->cgroup, &u);
	if (b->memory_limit)
		watch_by_sampling(b, proc_fd);
	if (u.cpu_ns > b->cpu_limit_ns)
		b->usage.cpu_exceeded = 1;
	/* v1's OOM killer takes one process; the box is over all the same. */
	if (u.oom_kills || b->usage.cpu_exceeded || b->usage.memory_exceeded)
		box_kill(b);
}

static uint64_t rusage_ns(const struct rusage *ru)
{
	uint64_t sec = (uint64_t)ru->ru_utime.tv_sec + (uint64_t)ru->ru_stime.tv_sec;
	uint64_t usec = (uint64_t)ru->ru_utime.tv_usec + (uint64_t)ru->ru_stime.tv_usec;

	return sec * 1000000000u + usec * 1000u;
}

void box_end(struct box *b)
{
	struct cgroup_usage u = { 0 };
	struct rusage ru = { 0 };

	(void)wait4(b->pid, NULL, 0, &ru);
	b->pidfd = fd_close(b->pidfd);
	if (b->in_cgroup)
		cgroup_read_usage(&b->cgroup, &u);
	keep_max(&b->usage.cpu_ns, u.cpu_ns ? u.cpu_ns : rusage_ns(&ru));
	keep_max(&b->usage.memory_peak,
	         u.memory_peak ? u.memory_peak : (uint64_t)ru.ru_maxrss * 1024);
	keep_max(&b->usage.pids_peak, u.pids_peak);
	b->usage.oom_kills = u.oom_kills;
	if (b->usage.cpu_ns > b->cpu_limit_ns)
		b->usage.cpu_exceeded = 1;
	if (b->in_cgroup && cgroup_remove(&b->cgroup, REMOVE_WAIT_MS) < 0)
		b->usage.residue = 1;
}
