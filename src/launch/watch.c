/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The watcher of boxes that have no cgroup. Orphans of a box are children of its init, so the tree
 * below init is the whole box. Sampling is no hard limit: the receipt says so.
 */

#include "launch/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/file.h"

#define WATCH_PIDS_MAX 8192

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

static uint64_t add_process(int proc_fd, pid_t pid, struct watch_usage *u)
{
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	char path[64], text[1024];
	uint64_t resident = 0;
	const char *p;

	(void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
	if (file_read(proc_fd, path, text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')))
		return 0;
	p += 2;
	for (int field = STAT_AFTER_NAME; *p && field <= STAT_RSS; field++) {
		const char *at = p;
		uint64_t v = take_number(&at);

		if (field >= STAT_UTIME && field <= STAT_CSTIME) /* own, and of reaped children */
			u->cpu_ns += v * tick_ns;
		else if (field == STAT_THREADS)
			u->tasks += v;
		else if (field == STAT_RSS)
			resident = v * (uint64_t)sysconf(_SC_PAGESIZE);
		p += strcspn(p, " ");
		p += *p == ' ';
	}
	u->memory_bytes += resident;
	return resident;
}

/*
 * Shared pages counted once. Costs a walk of the page tables: asked only over the limit. A process
 * that cannot be looked into counts in full, as far as it still has memory.
 */
static uint64_t proportional(int proc_fd, pid_t pid)
{
	char path[64], text[1024];
	struct watch_usage ignored = { 0 };
	const char *p;

	(void)snprintf(path, sizeof(path), "%d/smaps_rollup", (int)pid);
	if (file_read(proc_fd, path, text, sizeof(text)) <= 0 || !(p = strstr(text, "\nPss:")))
		return add_process(proc_fd, pid, &ignored);
	p += strcspn(p, "0123456789");
	return take_number(&p) * 1024;
}

struct queue {
	pid_t pids[WATCH_PIDS_MAX];
	size_t head, tail;
};

static void add_children_of_task(int proc_fd, struct queue *q, pid_t pid, const char *tid)
{
	static char text[WATCH_PIDS_MAX * 8];
	char path[96];

	(void)snprintf(path, sizeof(path), "%d/task/%.16s/children", (int)pid, tid);
	if (file_read(proc_fd, path, text, sizeof(text)) <= 0)
		return;
	for (const char *p = text; *p >= '0' && *p <= '9' && q->tail < WATCH_PIDS_MAX;)
		q->pids[q->tail++] = (pid_t)take_number(&p);
}

/* A child belongs to the thread that forked it. */
static void add_children(int proc_fd, struct queue *q, pid_t pid)
{
	char path[64];
	DIR *d;
	int fd;

	(void)snprintf(path, sizeof(path), "%d/task", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		(void)fd_close(fd);
		return;
	}
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		if (e->d_name[0] != '.')
			add_children_of_task(proc_fd, q, pid, e->d_name);
	(void)closedir(d);
}

void watch_tree(int proc_fd, pid_t root, uint64_t memory_limit, struct watch_usage *ret)
{
	static struct queue q;

	memset(ret, 0, sizeof(*ret));
	q.head = q.tail = 0;
	q.pids[q.tail++] = root;
	while (q.head < q.tail) {
		pid_t pid = q.pids[q.head++];

		(void)add_process(proc_fd, pid, ret);
		add_children(proc_fd, &q, pid);
	}
	if (ret->memory_bytes <= memory_limit)
		return;
	ret->memory_bytes = 0;
	for (size_t i = 0; i < q.tail; i++)
		ret->memory_bytes += proportional(proc_fd, q.pids[i]);
}
