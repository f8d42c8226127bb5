/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes to the daemon and back: every wait has an end, and Ctrl-C ends it sooner. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "cli/client.h"

#define CONNECT_MS    5000
#define SLOWEST_BYTES 64 /* per millisecond of an answer that is under way */
#define CHUNK         65536
#define HEAD_MAX      (4 * KIB)

/* 0: it is ready; -ETIMEDOUT, -EINTR: Ctrl-C. */
static int wait_ready(const struct client *c, int fd, short events, uint64_t deadline)
{
	for (;;) {
		struct pollfd p[] = { { fd, events, 0 }, { c->cancel, POLLIN, 0 } };
		uint64_t now = clock_ms();
		int r;

		if (now >= deadline)
			return -ETIMEDOUT;
		r = poll(p, ELEMENTSOF(p), (int)MIN2(deadline - now, (uint64_t)60000));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0 && p[1].revents)
			return -EINTR;
		if (r > 0 && p[0].revents)
			return 0;
	}
}

static int finish_connect(const struct client *c, int fd, const struct sockaddr *to, socklen_t n)
{
	int e = 0, r;
	socklen_t size = sizeof(e);

	if (connect(fd, to, n) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EINTR && errno != EAGAIN)
		return -errno;
	if (errno == EAGAIN) /* a unix socket whose queue is full: nothing to poll for */
		return -EAGAIN;
	r = wait_ready(c, fd, POLLOUT, clock_ms() + CONNECT_MS);
	if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size) < 0)
		r = -errno;
	return r < 0 ? r : -e;
}

static int connect_unix(const struct client *c)
{
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int r = -EAGAIN;

	if (fd < 0)
		return -errno;
	_Static_assert(sizeof(to.sun_path) == SOCKET_PATH_SIZE, "as the kernel has it");
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", c->path);
	for (uint64_t end = clock_ms() + CONNECT_MS; r == -EAGAIN && clock_ms() < end;) {
		r = finish_connect(c, fd, (const struct sockaddr *)&to, sizeof(to));
		if (r == -EAGAIN)
			(void)poll(NULL, 0, 10);
	}
	return r < 0 ? r : fd_take(&fd);
}

static int connect_to(const struct client *c, const struct addrinfo *a)
{
	CLEANUP_FD int fd =
		socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	int on = 1, r;

	if (fd < 0)
		return -errno;
	/* A stream may be silent for long: a daemon that is no longer there is noticed by this. */
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	r = finish_connect(c, fd, a->ai_addr, a->ai_addrlen);
	return r < 0 ? r : fd_take(&fd);
}

static int connect_tcp(const struct client *c, struct err *err)
{
	const struct addrinfo like = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	int e = getaddrinfo(c->name, c->port, &like, &list), r = -EHOSTUNREACH;

	if (e) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no address of %s: %s", c->name,
		              gai_strerror(e));
		return err_remedy(err, -ENXIO, "say --host http://ADDRESS:PORT");
	}
	for (const struct addrinfo *a = list; a && r < 0 && r != -EINTR; a = a->ai_next)
		r = connect_to(c, a);
	freeaddrinfo(list);
	return r;
}

int wire_connect(struct client *c, struct err *err)
{
	int r;

	if (c->fd >= 0)
		return fd_take(&c->fd);
	r = c->kind == CLIENT_UNIX ? connect_unix(c) : connect_tcp(c, err);
	if (r >= 0 || r == -EINTR || r == -ENXIO)
		return r;
	(void)err_set(err, ERR_IO, -r, "no daemon answers at %s", c->where);
	return err_remedy(err, r, "start one with \"brig serve\", or say --host none");
}

static int send_bytes(const struct client *c, int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
		int r;

		if (w >= 0) {
			p += w;
			n -= (size_t)w;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		r = wait_ready(c, fd, POLLOUT, clock_ms() + c->silence_ms);
		if (r < 0)
			return r;
	}
	return 0;
}

static int broken(const struct client *c, int r, struct err *err)
{
	if (r == -EINTR)
		return err_set(err, ERR_IO, EINTR, "the daemon was asked");
	if (r == -ETIMEDOUT) {
		(void)err_set(err, ERR_IO, ETIMEDOUT, "the daemon at %s is silent", c->where);
		return err_remedy(err, r, "see its log; BRIG_TIMEOUT says how long to wait");
	}
	if (r == -EPROTO) {
		(void)err_set(err, ERR_IO, EPROTO, "the answer of %s is not complete or no HTTP",
		              c->where);
		return err_remedy(err, r, "is it brigd that listens there?");
	}
	if (r == -EFBIG) {
		(void)err_set(err, ERR_LIMIT, EFBIG, "the answer of %s", c->where);
		return err_remedy(err, r, "is it brigd that listens there?");
	}
	return err_set(err, ERR_IO, -r, "the connection to %s", c->where);
}

int wire_send(struct client *c, int fd, const struct client_call *call, uint64_t after,
              struct err *err)
{
	CLEANUP_BUF struct buf head = BUF_INIT(HEAD_MAX);
	int r;

	buf_printf(&head, "%s /api/v1%s HTTP/1.1\r\nHost: ", call->method, call->path);
	if (c->kind == CLIENT_UNIX)
		buf_puts(&head, "localhost");
	else
		buf_printf(&head, strchr(c->name, ':') ? "[%s]:%s" : "%s:%s", c->name, c->port);
	buf_printf(&head, "\r\nUser-Agent: brig/%s\r\nConnection: close\r\n", BRIG_VERSION);
	if (*c->token)
		buf_printf(&head, "Authorization: Bearer %s\r\n", c->token);
	if (call->key)
		buf_printf(&head, "Idempotency-Key: %s\r\n", call->key);
	if (after)
		buf_printf(&head, "Last-Event-ID: %" PRIu64 "\r\n", after);
	if (call->body.p)
		buf_printf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
		           call->body.n);
	buf_puts(&head, "\r\n");
	r = buf_finish(&head);
	if (r >= 0)
		r = send_bytes(c, fd, head.data, head.len);
	if (r >= 0 && call->body.p)
		r = send_bytes(c, fd, call->body.p, call->body.n);
	/* It may have answered before it had all, and closed: the answer tells why. */
	if (r == -EPIPE || r == -ECONNRESET)
		return 0;
	return r < 0 ? broken(c, r, err) : 0;
}

static bool have_enough(const struct reply *r, bool head_only)
{
	return r->state == REPLY_DONE || (head_only && r->state >= REPLY_LENGTH);
}

int wire_receive(struct client *c, int fd, uint64_t wait_ms, bool head_only, struct reply *r,
                 struct err *err)
{
	uint64_t deadline = clock_ms() + wait_ms + c->silence_ms;
	char chunk[CHUNK];
	int e = 0;

	while (e == 0 && !have_enough(r, head_only)) {
		ssize_t n = recv(fd, chunk, sizeof(chunk), 0);

		if (n > 0) {
			e = reply_feed(r, chunk, (size_t)n);
			deadline += (uint64_t)n / SLOWEST_BYTES;
		} else if (n == 0) {
			e = reply_eof(r);
		} else if (errno == EAGAIN) {
			e = wait_ready(c, fd, POLLIN, deadline);
		} else if (errno != EINTR) {
			e = -errno;
		}
	}
	return e < 0 ? broken(c, e, err) : 0;
}
