/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The memory watcher of boxes that have no memory cgroup. Orphans of a box are children of its
 * init, so the tree below init is the whole box. Sampling is no hard limit: the receipt says so.
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

static uint64_t resident(pid_t pid)
{
	char path[64], text[128];
	const char *p = text;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	if (read_file(path, text, sizeof(text)) <= 0)
		return 0;
	(void)take_number(&p); /* the total size */
	return take_number(&p) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t watch_memory(pid_t root)
{
	static pid_t queue[WATCH_PIDS_MAX];
	static char text[WATCH_PIDS_MAX * 8];
	size_t head = 0, tail = 0;
	uint64_t sum = 0;

	queue[tail++] = root;
	while (head < tail) {
		pid_t pid = queue[head++];
		char path[64];

		sum += resident(pid);
		(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
		if (read_file(path, text, sizeof(text)) <= 0)
			continue;
		for (const char *p = text; *p >= '0' && *p <= '9' && tail < WATCH_PIDS_MAX;)
			queue[tail++] = (pid_t)take_number(&p);
	}
	return sum;
}
