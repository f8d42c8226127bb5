/* SPDX-License-Identifier: Apache-2.0 */

/* The files of cgroup v2: one directory holds every controller. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "sys/cgroup.h"
#include "sys/file.h"

#define PERIOD_US 100000 /* 0.01 processors are then 1 ms, the least that the kernel takes */

static int set_memory(struct cgroup *cg, uint64_t bytes, struct err *err)
{
	int dir = cg->dirs[CGROUP_MEMORY];
	int r = cgroup_write(dir, "memory.max", bytes);

	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "set memory.max");
	/* The whole box dies on OOM, not a random member of it. */
	r = cgroup_write(dir, "memory.oom.group", 1);
	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "set memory.oom.group");
	r = cgroup_write(dir, "memory.swap.max", 0);
	cg->swap_off = r == 0 || cgroup_host_swapless();
	(void)cgroup_write(dir, "memory.zswap.max", 0);
	return 0;
}

static int set_cpu(struct cgroup *cg, uint64_t cpu_milli)
{
	char text[48];

	(void)snprintf(text, sizeof(text), "%" PRIu64 " %d", cpu_milli * PERIOD_US / 1000,
	               PERIOD_US);
	return file_write(cg->dirs[CGROUP_MEMORY], "cpu.max", text);
}

static int set_limits(struct cgroup *cg, const struct cgroup_limits *l, struct err *err)
{
	unsigned usable = cg->host->usable;
	int dir = cg->dirs[CGROUP_MEMORY];
	int r;

	if (usable & CGROUP_BIT(MEMORY)) {
		r = set_memory(cg, l->memory_bytes, err);
		if (r < 0)
			return r;
	}
	if (usable & CGROUP_BIT(PIDS)) {
		r = cgroup_write(dir, "pids.max", l->pids);
		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "set pids.max");
	}
	if (usable & CGROUP_BIT(CPU)) {
		r = set_cpu(cg, l->cpu_milli);
		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "set cpu.max");
	}
	(void)cgroup_write(dir, "cgroup.max.descendants", 0);
	return 0;
}

static uint64_t read_cpu(const struct cgroup *cg)
{
	uint64_t usec = 0;

	(void)cgroup_get(cg, CGROUP_MEMORY, "cpu.stat", "usage_usec", &usec);
	return usec * 1000;
}

static void read_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
	(void)cgroup_get(cg, CGROUP_MEMORY, "memory.peak", NULL, &ret->memory_peak); /* 5.19 */
	(void)cgroup_get(cg, CGROUP_MEMORY, "memory.events", "oom_kill", &ret->oom_kills);
	(void)cgroup_get(cg, CGROUP_MEMORY, "pids.peak", NULL, &ret->pids_peak); /* 6.3 */
	ret->cpu_ns = read_cpu(cg);
}

static int kill_all(const struct cgroup *cg)
{
	int r = cgroup_put(cg, CGROUP_MEMORY, "cgroup.kill", 1);

	return r == -ENOENT ? 0 : r; /* 5.14 */
}

const struct cgroup_ops cgroup_ops_v2 = { set_limits, read_usage, read_cpu, kill_all };
