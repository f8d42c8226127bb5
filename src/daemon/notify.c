/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

#define WAIT_S     1 /* for a manager whose queue is full, where the message matters */
#define STATUS_MAX 200

static int address(struct sockaddr_un *ret, socklen_t *ret_n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t n = path ? strlen(path) : 0;

	if (n < 2 || (*path != '/' && *path != '@') || n >= sizeof(at.sun_path))
		return -ENOENT;
	memcpy(at.sun_path, path, n);
	if (*path == '@')
		at.sun_path[0] = '\0'; /* abstract: no file, and no NUL at the end */
	*ret = at;
	*ret_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (*path == '/'));
	return 0;
}

static void tell(const char *text, int flags)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	CLEANUP_FD int fd = FD_NONE;
	struct sockaddr_un at;
	socklen_t n;

	if (address(&at, &n) < 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | flags, (const struct sockaddr *)&at, n);
}

void notify_ready(void)
{
	tell("READY=1", 0);
}

void notify_stopping(void)
{
	tell("STOPPING=1", 0);
}

void notify_reloading(void)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
	               (unsigned long long)(clock_ns() / 1000));
	tell(text, 0);
}

/* A line break would begin another assignment. */
void notify_status(const char *text)
{
	char line[STATUS_MAX + sizeof("STATUS=")];

	(void)snprintf(line, sizeof(line), "STATUS=%.*s", STATUS_MAX, text);
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	tell(line, MSG_DONTWAIT);
}

uint64_t notify_watchdog_usec(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t n = 0, whose = (uint64_t)getpid();

	if (!usec || parse_u64(usec, &n) < 0 || (pid && parse_u64(pid, &whose) < 0))
		return 0;
	return whose == (uint64_t)getpid() ? n : 0;
}

void notify_alive(void)
{
	tell("WATCHDOG=1", MSG_DONTWAIT);
}
