/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The watcher of boxes that have no cgroup. Orphans of a box are children of its init, so the tree
 * below init is the whole box. Sampling is no hard limit: the receipt says so.
 */

#include "launch/watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define WATCH_PIDS_MAX 8192

static ssize_t read_file(const char *path, char *text, size_t size)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	return n;
}

static uint64_t take_number(const char **p)
{
	uint64_t v = 0;

	for (; **p >= '0' && **p <= '9'; (*p)++)
		v = v * 10 + (uint64_t)(**p - '0');
	while (**p == ' ')
		(*p)++;
	return v;
}

/* Fields of /proc/<pid>/stat as counted in proc(5); the name, field 2, may hold anything. */
enum { STAT_AFTER_NAME = 3, STAT_UTIME = 14, STAT_CSTIME = 17, STAT_THREADS = 20, STAT_RSS = 24 };

static void add_process(pid_t pid, struct watch_usage *u)
{
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	char path[64], text[1024];
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_file(path, text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')))
		return;
	p += 2;
	for (int field = STAT_AFTER_NAME; *p && field <= STAT_RSS; field++) {
		const char *at = p;
		uint64_t v = take_number(&at);

		if (field >= STAT_UTIME && field <= STAT_CSTIME) /* own, and of reaped children */
			u->cpu_ns += v * tick_ns;
		else if (field == STAT_THREADS)
			u->tasks += v;
		else if (field == STAT_RSS)
			u->memory_bytes += v * (uint64_t)sysconf(_SC_PAGESIZE);
		p += strcspn(p, " ");
		p += *p == ' ';
	}
}

/* Shared pages counted once. Costs a walk of the page tables: asked only near the limit. */
static uint64_t proportional(pid_t pid)
{
	char path[64], text[1024];
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	if (read_file(path, text, sizeof(text)) <= 0 || !(p = strstr(text, "\nPss:")))
		return 0;
	p += strcspn(p, "0123456789");
	return take_number(&p) * 1024;
}

void watch_tree(pid_t root, uint64_t memory_limit, struct watch_usage *ret)
{
	static pid_t queue[WATCH_PIDS_MAX];
	static char text[WATCH_PIDS_MAX * 8];
	size_t head = 0, tail = 0;

	memset(ret, 0, sizeof(*ret));
	queue[tail++] = root;
	while (head < tail) {
		pid_t pid = queue[head++];
		char path[64];

		add_process(pid, ret);
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
		if (read_file(path, text, sizeof(text)) <= 0)
			continue;
		for (const char *p = text; *p >= '0' && *p <= '9' && tail < WATCH_PIDS_MAX;)
			queue[tail++] = (pid_t)take_number(&p);
	}
	if (ret->memory_bytes <= memory_limit)
		return;
	ret->memory_bytes = 0;
	for (size_t i = 0; i < tail; i++)
		ret->memory_bytes += proportional(queue[i]);
}
