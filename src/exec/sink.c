/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/sink.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"

#define POLLED_CHUNK 4096 /* a pipe that polls writable takes this much without blocking */
#define LAST_MS      500  /* from the word to end, for a reader that is only slow */

/* The master's side of a terminal: to open it again makes another terminal. */
static bool is_master(const struct stat *st)
{
	return st->st_rdev == makedev(5, 2);
}

static bool may_block(int fd, const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || (S_ISCHR(st->st_mode) && isatty(fd));
}

/* What is not open for writing is not opened so here: it would be somebody's other end. */
static int open_again(int fd, const struct stat *st)
{
	int flags = fcntl(fd, F_GETFL);
	char path[32];

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || is_master(st))
		return FD_NONE;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void sink_open(struct sink *s, int fd)
{
	struct stat st;
	int own;

	*s = (struct sink){ .fd = fd };
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	if (S_ISSOCK(st.st_mode))
		s->kind = SINK_SOCKET;
	if (!may_block(fd, &st))
		return;
	own = open_again(fd, &st);
	s->kind = own < 0 ? SINK_POLLED : SINK_OWN;
	if (own >= 0)
		s->fd = own;
}

void sink_close(struct sink *s)
{
	if (s->kind == SINK_OWN)
		(void)fd_close(s->fd);
	s->fd = FD_NONE;
}

static int fail(struct sink *s, int sys)
{
	s->error = sys == ECONNRESET ? EPIPE : sys; /* in both the reader went away */
	sink_close(s);
	return -s->error;
}

ssize_t sink_write(struct sink *s, const char *p, size_t n)
{
	struct pollfd room = { s->fd, POLLOUT, 0 };
	ssize_t w;

	if (s->fd < 0)
		return s->error ? -s->error : -EBADF;
	if (s->kind == SINK_POLLED) {
		if (poll(&room, 1, 0) <= 0)
			return 0;
		n = MIN2(n, (size_t)POLLED_CHUNK);
	}
	w = s->kind == SINK_SOCKET ? send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL)
	                           : write(s->fd, p, n);
	if (w >= 0)
		return w;
	return errno == EINTR || errno == EAGAIN ? 0 : fail(s, errno);
}

static int ms_left(const struct sink *s)
{
	uint64_t now = clock_ms();

	if (!s->until_ms)
		return -1;
	return s->until_ms > now ? (int)(s->until_ms - now) : 0;
}

static int wait_for_room(struct sink *s, int cancel_fd)
{
	struct pollfd p[] = { { s->fd, POLLOUT, 0 }, { s->until_ms ? -1 : cancel_fd, POLLIN, 0 } };
	int r = poll(p, ELEMENTSOF(p), ms_left(s));

	if (r < 0)
		return errno == EINTR ? 0 : fail(s, errno);
	if (p[1].revents)
		s->until_ms = clock_ms() + LAST_MS;
	return s->until_ms && ms_left(s) == 0 ? fail(s, EINTR) : 0;
}

int sink_write_all(struct sink *s, const char *p, size_t n, int cancel_fd)
{
	while (n) {
		ssize_t w = sink_write(s, p, n);

		if (w == 0)
			w = wait_for_room(s, cancel_fd);
		if (w < 0)
			return (int)w;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

void sink_finish(struct sink *s, const char *name, uint64_t unseen, const struct buf *kept,
                 int cancel_fd)
{
	size_t tail = (size_t)MIN2(unseen, kept->len - kept->len / 2);
	char mark[80];
	int n, r = 0;

	if (unseen > tail) {
		n = snprintf(mark, sizeof(mark), "\n[brig: %" PRIu64 " bytes of %s dropped]\n",
		             unseen - tail, name);
		r = sink_write_all(s, mark, (size_t)n, cancel_fd);
	}
	if (r >= 0)
		(void)sink_write_all(s, kept->data + kept->len - tail, tail, cancel_fd);
}
