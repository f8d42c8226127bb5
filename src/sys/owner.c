/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define DAEMON "brigd"

static bool is_daemon;

static int read_small(const char *path, char *ret, size_t n)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, ret, n - 1);

	if (got < 0)
		return -errno;
	ret[got] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

const char *boot_id(void)
{
	static char id[BOOT_ID_SIZE];

	if (!*id && read_small("/proc/sys/kernel/random/boot_id", id, sizeof(id)) < 0)
		(void)snprintf(id, sizeof(id), "unknown");
	return id;
}

/*
 * Field 22 of /proc/PID/stat; the name before it may hold anything, so from the last ')'. One that
 * nobody has waited for is dead all the same.
 */
static int start_time(const char *pid, uint64_t *ret)
{
	char path[64], text[1024], *at;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	if (read_small(path, text, sizeof(text)) < 0)
		return -ESRCH;
	at = strrchr(text, ')');
	if (at && (str_has_prefix(at, ") Z") || str_has_prefix(at, ") X")))
		return -ESRCH;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %" SCNu64, ret) == 1 ? 0 : -EIO;
}

/* The number of a process means something in its own namespace only. */
static void pid_namespace(char *ret, size_t n)
{
	ssize_t got = readlink("/proc/self/ns/pid", ret, n - 1);

	ret[got < 0 ? 0 : got] = '\0';
}

void owner_is_daemon(void)
{
	is_daemon = true;
}

void owner_self(char ret[OWNER_SIZE])
{
	uint64_t start = 0;
	char ns[32];

	(void)start_time("self", &start);
	pid_namespace(ns, sizeof(ns));
	(void)snprintf(ret, OWNER_SIZE, "%d %" PRIu64 " %s %s%s", (int)getpid(), start, boot_id(),
	               ns, is_daemon ? " " DAEMON : "");
}

/* Of the daemons of a state directory only the one that holds its lock is alive. */
static bool is_older_daemon(const char *owner, const char *mark)
{
	char self[OWNER_SIZE];

	owner_self(self);
	return is_daemon && streq(mark, DAEMON) && !streq(owner, self);
}

bool owner_is_gone(const char *owner)
{
	uint64_t start, now = 0;
	char boot[BOOT_ID_SIZE], ns[32], ours[32], text[16], mark[8] = "";
	int pid;

	if (sscanf(owner, "%d %" SCNu64 " %39s %31s %7s", &pid, &start, boot, ns, mark) < 4)
		return true;
	if (!streq(boot, boot_id()) || is_older_daemon(owner, mark))
		return true;
	pid_namespace(ours, sizeof(ours));
	if (!streq(ns, ours))
		return false; /* cannot be known from here */
	(void)snprintf(text, sizeof(text), "%d", pid);
	return start_time(text, &now) < 0 || now != start;
}

bool ids_are_real(void)
{
	char map[128];
	unsigned inside, outside, count;

	return read_small("/proc/self/uid_map", map, sizeof(map)) == 0 &&
	       sscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count == UINT32_MAX;
}
