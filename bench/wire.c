/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"

#define PREFIX "/api/v1"

/* ---- requests -------------------------------------------------------------------------- */

int wire_request(const struct wire_address *to, const char *path, const char *body,
                 struct wire_request *ret, struct err *err)
{
	char host[32] = "localhost", length[96] = "";
	int n;

	if (!to->path)
		(void)snprintf(host, sizeof(host), "127.0.0.1:%u", to->port);
	if (body)
		(void)snprintf(length, sizeof(length),
		               "Content-Type: application/json\r\nContent-Length: %zu\r\n",
		               strlen(body));
	n = snprintf(ret->text, sizeof(ret->text),
	             "%s " PREFIX "%s HTTP/1.1\r\nHost: %s\r\n%s%s%s%s\r\n%s",
	             body ? "POST" : "GET", path, host, to->token ? "Authorization: Bearer " : "",
	             to->token ? to->token : "", to->token ? "\r\n" : "", length, body ? body : "");
	if (n < 0 || (size_t)n >= sizeof(ret->text))
		return err_set(err, ERR_INTERNAL, EMSGSIZE, "a request for %s", path);
	ret->n = (size_t)n;
	return 0;
}

/* ---- connections ----------------------------------------------------------------------- */

static int connect_unix(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if ((size_t)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return fd_take(&fd);
}

static int connect_tcp(unsigned port)
{
	const struct sockaddr_in a = { .sin_family = AF_INET,
		                       .sin_port = htons((uint16_t)port),
		                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	return fd_take(&fd);
}

int wire_open(const struct wire_address *to, struct wire *w, struct err *err)
{
	int fd = to->path ? connect_unix(to->path) : connect_tcp(to->port);

	w->n = w->head = 0;
	w->fd = FD_NONE;
	if (fd < 0)
		return err_set(err, ERR_IO, -fd, "connect to brigd");
	w->fd = fd;
	return 0;
}

void wire_close(struct wire *w)
{
	w->fd = fd_close(w->fd);
}

/* Blocks: a request is small, and brigd reads. */
int wire_send(struct wire *w, const struct wire_request *r, struct err *err)
{
	size_t sent = 0;

	w->n = w->head = w->length = 0;
	w->stream = false;
	while (sent < r->n) {
		ssize_t n = send(w->fd, r->text + sent, r->n - sent, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return err_set(err, ERR_IO, errno, "send a request");
		sent += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* ---- answers --------------------------------------------------------------------------- */

/* The head ends with an empty line; the names of headers are as brigd writes them. */
static int read_head(struct wire *w, struct err *err)
{
	static const char start[] = "HTTP/1.1 ", length[] = "\r\nContent-Length: ";
	char *end = strstr(w->data, "\r\n\r\n"), *at;

	if (!end)
		return 0;
	if (!str_has_prefix(w->data, start))
		return err_set(err, ERR_IO, EPROTO, "an answer that is not HTTP");
	w->status = (unsigned)strtoul(w->data + sizeof(start) - 1, NULL, 10);
	w->head = (size_t)(end - w->data) + 4;
	end[2] = '\0'; /* what is searched ends with the head */
	at = strstr(w->data, length);
	w->stream = strstr(w->data, "\r\nTransfer-Encoding: chunked\r\n") != NULL;
	if (at)
		w->length = strtoul(at + sizeof(length) - 1, NULL, 10);
	end[2] = '\r';
	if (!at == !w->stream || w->length > WIRE_ANSWER_MAX - w->head)
		return err_set(err, ERR_IO, EPROTO, "status %u without a length, or too long",
		               w->status);
	return 1;
}

int wire_receive(struct wire *w, struct err *err)
{
	ssize_t n = recv(w->fd, w->data + w->n, WIRE_ANSWER_MAX - w->n, 0);
	int r = 1;

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		return err_set(err, ERR_IO, errno, "receive an answer");
	if (n == 0)
		return err_set(err, ERR_IO, EPIPE,
		               "the connection ended, or an answer is too long");
	w->n += (size_t)n;
	w->data[w->n] = '\0';
	if (!w->head)
		r = read_head(w, err);
	if (r <= 0 || w->stream)
		return r;
	if (w->n > w->head + w->length)
		return err_set(err, ERR_IO, EPROTO, "more than the answer came");
	return w->n == w->head + w->length;
}

int wire_wait(const struct wire *w, uint64_t deadline_ms)
{
	struct pollfd p = { w->fd, POLLIN, 0 };
	uint64_t now;

	while ((now = clock_ms()) < deadline_ms)
		if (poll(&p, 1, (int)(deadline_ms - now)) > 0)
			return 1;
	return 0;
}

int wire_ask(struct wire *w, const struct wire_request *r, struct err *err)
{
	uint64_t deadline = clock_ms() + WIRE_MS;
	int got = wire_send(w, r, err);

	while (got >= 0) {
		if (!wire_wait(w, deadline))
			return err_set(err, ERR_IO, ETIMEDOUT, "no answer");
		got = wire_receive(w, err);
		if (got > 0)
			return 0;
	}
	return got;
}

const char *wire_body(const struct wire *w)
{
	return w->data + w->head;
}

int wire_expect(const struct wire *w, const char *const *texts, struct err *err)
{
	if (w->status != 200)
		return err_set(err, ERR_INTERNAL, EBADMSG, "status %u: %.160s", w->status,
		               wire_body(w));
	for (; *texts; texts++)
		if (!strstr(wire_body(w), *texts))
			return err_set(err, ERR_INTERNAL, EBADMSG, "no %.40s in %.120s", *texts,
			               wire_body(w));
	return 0;
}
