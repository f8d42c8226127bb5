/* SPDX-License-Identifier: Apache-2.0 */

/* The files of cgroup v1. A host may be hybrid: these are then the ones that hold the limits. */

#include <errno.h>

#include "sys/cgroup.h"

#define PERIOD_US                                                                                  \
	100000 /* the kernel's default; 0.01 processors are then 1 ms, the least it takes */

#define SOCKETS_SHARE 16        /* of the memory, for socket buffers beside it */
#define SOCKETS_LEAST (1 * MIB) /* a few connections in full speed */

static int set_memory(struct cgroup *cg, uint64_t bytes)
{
	int dir = cgroup_dir(cg, CGROUP_MEMORY);
	int r = cgroup_write(dir, "memory.limit_in_bytes", bytes);

	if (r < 0)
		return r;
	/* memsw exists only with swap accounting; swappiness 0 alone still swaps under pressure. */
	r = cgroup_write(dir, "memory.memsw.limit_in_bytes", bytes);
	cg->swap_off = r == 0 || cgroup_host_swapless();
	if (!cg->swap_off)
		(void)cgroup_write(dir, "memory.swappiness", 0);
	/* Buffers of TCP and UDP are not in the first. Who comes to this limit waits. */
	return cgroup_write(dir, "memory.kmem.tcp.limit_in_bytes",
	                    MAX2(bytes / SOCKETS_SHARE, SOCKETS_LEAST));
}

static int set_limits(struct cgroup *cg, const struct cgroup_limits *l, struct err *err)
{
	int r = 0;

	if (cgroup_dir(cg, CGROUP_MEMORY) >= 0) {
		r = set_memory(cg, l->memory_bytes);
		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "set the limits of memory");
	}
	if (cgroup_dir(cg, CGROUP_PIDS) >= 0) {
		r = cgroup_write(cgroup_dir(cg, CGROUP_PIDS), "pids.max", l->pids);
		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "set pids.max");
	}
	if (cgroup_dir(cg, CGROUP_CPU) >= 0) {
		r = cgroup_write(cgroup_dir(cg, CGROUP_CPU), "cpu.cfs_quota_us",
		                 l->cpu_milli * PERIOD_US / 1000);
		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "set cpu.cfs_quota_us");
	}
	return 0;
}

static uint64_t read_cpu(const struct cgroup *cg)
{
	uint64_t ns = 0;

	(void)cgroup_get(cg, CGROUP_CPUACCT, "cpuacct.usage", NULL, &ns);
	return ns;
}

static void read_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
	(void)cgroup_get(cg, CGROUP_MEMORY, "memory.oom_control", "oom_kill", &ret->oom_kills);
	(void)cgroup_get(cg, CGROUP_MEMORY, "memory.max_usage_in_bytes", NULL, &ret->memory_peak);
	(void)cgroup_get(cg, CGROUP_PIDS, "pids.peak", NULL, &ret->pids_peak);
	ret->cpu_ns = read_cpu(cg);
}

/* v1 has no cgroup.kill; the death of the pid namespace's init takes every member along. */
static int kill_all(const struct cgroup *cg)
{
	(void)cg;
	return 0;
}

const struct cgroup_ops cgroup_ops_v1 = { set_limits, read_usage, read_cpu, kill_all };
