/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a run used: read when its box is ready and when it is over, while the box is alive. The
 * files are those that prepare.c has open; a box without them is asked by name.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/pool_impl.h"
#include "sys/file.h"

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void read_io(const struct box *b, struct box_report *io)
{
	char path[64], text[512];
	ssize_t n = b->prepared && b->prepared->io >= 0
	                    ? pread(b->prepared->io, text, sizeof(text) - 1, 0)
	                    : -1;

	if (n > 0) {
		text[n] = '\0';
	} else {
		(void)snprintf(path, sizeof(path), "/proc/%d/io", (int)b->code_pid);
		if (file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
			return;
	}
	io->read_bytes = number_after(text, "rchar: ");
	io->written_bytes = number_after(text, "wchar: ");
}

/* Without a cgroup: the code's process, and of its children those that it has waited for. */
static void read_process(pid_t pid, struct launch_usage *ret)
{
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK), ticks[4] = { 0 };
	char path[64], text[2048];
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read(AT_FDCWD, path, text, sizeof(text)) > 0 && (p = strrchr(text, ')')) &&
	    sscanf(p,
	           ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %" SCNu64
	           " %" SCNu64,
	           &ticks[0], &ticks[1], &ticks[2], &ticks[3]) == 4)
		ret->cpu_ns = (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * tick_ns;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read(AT_FDCWD, path, text, sizeof(text)) > 0)
		ret->memory_peak = number_after(text, "VmHWM:") * 1024;
}

static void group_of(struct pool *p, const struct box *b, struct cgroup *ret)
{
	*ret = (struct cgroup){ .host = &p->cgroups, .parked = true };
	(void)snprintf(ret->name, sizeof(ret->name), "%s", b->cgroup);
}

/* Processor time and tasks are all that is subtracted or compared later. */
static void note_groups(struct pool *p, struct box *b)
{
	struct cgroup_usage u = { 0 };
	struct cgroup cg;

	if (b->prepared)
		cgroup_usage_read(p->cgroups.mode, b->prepared->usage, &u, &b->tasks_before);
	if (!u.cpu_ns || !b->tasks_before) {
		group_of(p, b, &cg);
		u.cpu_ns = cgroup_read_cpu(&cg);
		(void)cgroup_get(&cg, CGROUP_PIDS, "pids.current", NULL, &b->tasks_before);
	}
	b->before.cpu_ns = u.cpu_ns;
}

void usage_note(struct pool *p, struct box *b)
{
	b->before = (struct launch_usage){ 0 };
	b->tasks_before = 0;
	b->io_before.read_bytes = b->io_before.written_bytes = 0;
	if (*b->cgroup)
		note_groups(p, b);
	else
		read_process(b->code_pid, &b->before);
	read_io(b, &b->io_before);
}

static void read_groups(struct pool *p, const struct box *b, struct cgroup_usage *ret,
                        uint64_t *ret_tasks)
{
	struct cgroup cg;

	if (b->prepared) {
		cgroup_usage_read(p->cgroups.mode, b->prepared->usage, ret, ret_tasks);
		return;
	}
	group_of(p, b, &cg);
	cgroup_read_usage(&cg, ret);
	(void)cgroup_get(&cg, CGROUP_PIDS, "pids.current", NULL, ret_tasks);
}

/*
 * On v1 the launcher removes one directory after the other, memory's first: without that one the
 * box would seem to have had no OOM kill.
 */
static bool is_whole(const struct cgroup_host *host, const struct cgroup_usage *u)
{
	bool has_peak = host->mode == CGROUP_V1 && host->usable & CGROUP_BIT(MEMORY);

	return u->cpu_ns && (u->memory_peak || !has_peak);
}

bool usage_read(struct pool *p, struct box *b, struct launch_usage *ret, struct box_report *io,
                bool *ret_alone)
{
	struct cgroup_usage u = { 0 };
	uint64_t tasks = 0;

	if (*b->cgroup) {
		read_groups(p, b, &u, &tasks);
		if (!is_whole(&p->cgroups, &u))
			return false;
	}
	*ret_alone = tasks && (tasks <= 2 || tasks <= b->tasks_before);
	*ret = (struct launch_usage){ .cpu_ns = u.cpu_ns,
		                      .memory_peak = u.memory_peak,
		                      .pids_peak = u.pids_peak,
		                      .oom_kills = u.oom_kills };
	if (!*b->cgroup)
		read_process(b->code_pid, ret);
	read_io(b, io);
	return true;
}

void usage_subtract(const struct box *b, struct launch_usage *u, struct box_report *io)
{
	u->cpu_ns -= MIN2(u->cpu_ns, b->before.cpu_ns);
	io->read_bytes -= MIN2(io->read_bytes, b->io_before.read_bytes);
	io->written_bytes -= MIN2(io->written_bytes, b->io_before.written_bytes);
}
