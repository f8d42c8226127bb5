/* SPDX-License-Identifier: Apache-2.0 */
#include "apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon.h"
#include "sys/file.h"

#define REPORT_MS 60000

/* ---- those that measure ---------------------------------------------------------------- */

int start_child(struct child *ret, void (*work)(void *data, uint64_t until, int to), void *data,
                uint64_t until)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fflush(stdout);
	ret->pid = fork();
	if (ret->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(data, until, fds[1]);
		_exit(0);
	}
	(void)close(fds[1]);
	ret->from = fds[0];
	if (ret->pid > 0)
		return 0;
	(void)close(fds[0]);
	return -EAGAIN;
}

/* To its end: a report may come in pieces. */
static int hear(const struct child *c, void *p, size_t n)
{
	uint64_t deadline = clock_ms() + REPORT_MS, now;
	struct pollfd fd = { c->from, POLLIN, 0 };
	size_t got = 0;

	while (got < n && (now = clock_ms()) < deadline) {
		ssize_t k;

		if (poll(&fd, 1, (int)(deadline - now)) <= 0)
			continue;
		k = read(c->from, (char *)p + got, n - got);
		if (k <= 0)
			return -EPIPE;
		got += (size_t)k;
	}
	return got == n ? 0 : -ETIMEDOUT;
}

int end_child(struct child *c, void *p, size_t n)
{
	int r = hear(c, p, n);

	if (r < 0)
		(void)kill(c->pid, SIGKILL);
	(void)waitpid(c->pid, NULL, 0);
	(void)close(c->from);
	return r;
}

void write_all(int fd, const void *p, size_t n)
{
	size_t sent = 0;

	while (sent < n) {
		ssize_t k = write(fd, (const char *)p + sent, n - sent);

		if (k <= 0)
			return;
		sent += (size_t)k;
	}
}

/* ---- what the others cost -------------------------------------------------------------- */

/* Of one process and its threads, dead ones included. */
static double process_us(pid_t pid)
{
	char path[64], text[1024];
	const char *p;
	unsigned long long user = 0, kernel = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (pid <= 0 || file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	p = strrchr(text, ')');
	for (int i = 0; p && i < 12; i++) /* ") S PARENT ..." to utime and stime */
		p = strchr(p + 1, ' ');
	if (p) {
		char *end;

		user = strtoull(p, &end, 10);
		kernel = strtoull(end, NULL, 10);
	}
	return (double)(user + kernel) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static double rusage_us(int who)
{
	struct rusage ru = { 0 };

	(void)getrusage(who, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e6 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

struct cost cost_now(pid_t brigd)
{
	return (struct cost){ .all = cpu_us() - rusage_us(RUSAGE_SELF) - rusage_us(RUSAGE_CHILDREN),
		              .brigd = process_us(brigd),
		              .launcher = process_us(launcher_of(brigd)) };
}

void cost_add(struct cost *sum, const struct cost *from, const struct cost *to)
{
	sum->all += to->all - from->all;
	sum->brigd += to->brigd - from->brigd;
	sum->launcher += to->launcher - from->launcher;
}
