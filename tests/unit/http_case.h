/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server on a loop of its own, a handler that does what the path says, and clients that are raw
 * sockets. Everything in one thread: whoever waits turns the loop. A wait ends after WAIT_MS with
 * what there is, and the test fails on that.
 */

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/impl.h"

#define WAIT_MS 20000
#define UNUSED  __attribute__((unused))

static uv_loop_t loop;
static struct http_server *server;
static struct http_request *waiting; /* of /later */
static struct http_stream *stream;   /* of /stream */
static struct ws *socket_of_test;    /* of /ws */
static int n_begun, n_whole, n_gone, n_stream_gone, n_ws_closed, n_messages;
static char seen[256]; /* what the handler saw last */

static void say(struct http_request *r, unsigned status, const char *text)
{
	struct buf b = BUF_INIT(64 * KIB);

	buf_puts(&b, text);
	http_answer(r, status, "text/plain", NULL, 0, &b);
}

static void on_begin(void *data, struct http_request *r)
{
	(void)data;
	n_begun++;
	if (streq(http_path(r), "/early"))
		say(r, 403, "early");
	if (streq(http_path(r), "/small"))
		http_body_limit(r, 10);
}

static void on_stream_gone(void *data, struct http_stream *s)
{
	cr_assert(data == &stream && s == stream);
	n_stream_gone++;
	stream = NULL;
}

static void on_text(void *data, struct ws *w, struct str text)
{
	struct blob *b = blob_new(text.p, text.n);

	cr_assert(data == &socket_of_test && w == socket_of_test && b);
	n_messages++;
	if (streq(b->data, "close"))
		ws_close(w, 1000, "bye");
	else
		(void)ws_send(w, b);
	blob_unref(b);
}

static void on_ws_closed(void *data, struct ws *w)
{
	cr_assert(data == &socket_of_test && w == socket_of_test);
	n_ws_closed++;
	socket_of_test = NULL;
}

static void answer_big(struct http_request *r)
{
	struct buf b = BUF_INIT(16 * MIB);

	for (int i = 0; i < 80000; i++)
		buf_puts(
			&b,
			"0123456789012345678901234567890123456789012345678901234567890123456789\n");
	http_answer(r, 200, "text/plain", NULL, 0, &b);
}

static void on_whole(void *data, struct http_request *r)
{
	static const struct ws_handler h = { on_text, on_ws_closed };
	const char *path = http_path(r);

	(void)data;
	n_whole++;
	(void)snprintf(seen, sizeof(seen), "%s %s %zu %.40s", http_method(r), path, http_body(r).n,
	               http_body(r).p);
	if (streq(path, "/later"))
		waiting = r;
	else if (streq(path, "/big"))
		answer_big(r);
	else if (streq(path, "/stream"))
		cr_assert(http_stream_open(r, "text/event-stream", on_stream_gone, &stream,
		                           &stream) == 0);
	else if (!streq(path, "/ws"))
		say(r, 200, seen);
	else if (http_wants_ws(r) != 1 || http_upgrade(r, &h, &socket_of_test, &socket_of_test) < 0)
		say(r, 400, "no upgrade");
}

static void on_gone(void *data, struct http_request *r)
{
	(void)data;
	if (r == waiting)
		waiting = NULL;
	n_gone++;
}

static void on_refusal(void *data, unsigned status, struct buf *ret_body)
{
	(void)data;
	buf_printf(ret_body, "{\"refused\":%u}", status);
}

static const struct http_handler handler = { on_begin, on_whole, on_gone, on_refusal, NULL };

static void open_with(const struct http_limits *limits)
{
	struct err err;

	cr_assert(uv_loop_init(&loop) == 0);
	cr_assert(http_server_open(&loop, limits, &handler, &server, &err) == 0);
}

UNUSED static void open_server(void)
{
	const struct http_limits limits = { 0 };

	open_with(&limits);
}

static void shut_server(void)
{
	http_server_close(server);
	server = NULL;
	(void)uv_run(&loop, UV_RUN_DEFAULT);
}

static void close_server(void)
{
	if (server)
		shut_server();
	cr_assert(uv_loop_close(&loop) == 0, "handles were left");
}

static void turn(void)
{
	(void)uv_run(&loop, UV_RUN_NOWAIT);
}

/* Turns until the condition holds. */
#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		uint64_t end_ = clock_ms() + WAIT_MS;                                              \
		while (!(condition) && clock_ms() < end_) {                                        \
			turn();                                                                    \
			(void)usleep(200);                                                         \
		}                                                                                  \
		cr_assert(condition, "in vain: " #condition);                                      \
	} while (0)

/* A client; the server has the other end. */
static int dial(void)
{
	int pair[2];

	cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	cr_assert(http_server_adopt(server, pair[1]) == 0);
	return pair[0];
}

/* As much as the server takes. */
static void put(int fd, const char *p, size_t n)
{
	uint64_t end = clock_ms() + WAIT_MS;

	while (n && clock_ms() < end) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return;
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
		}
		turn();
	}
}

static void puts_to(int fd, const char *text)
{
	put(fd, text, strlen(text));
}

/* Appends what comes, until `enough` is in it or the server closes. False: neither happened. */
static bool get(int fd, struct buf *out, const char *enough)
{
	uint64_t end = clock_ms() + WAIT_MS;

	while (clock_ms() < end) {
		char part[65536];
		ssize_t n = recv(fd, part, sizeof(part), MSG_DONTWAIT);

		if (n > 0)
			buf_put(out, part, (size_t)n);
		if (enough && out->len &&
		    memmem(out->data, out->len, enough, strlen(enough)) != NULL)
			return true;
		if (n == 0 || (n < 0 && errno != EAGAIN))
			return !enough;
		turn();
		if (n < 0)
			(void)usleep(100);
	}
	return false;
}

/* Sends and expects, on a new connection that the server then closes or not. */
UNUSED static void expect_closed(const char *request, size_t n, const char *begins)
{
	CLEANUP_BUF struct buf b = BUF_INIT(64 * MIB);
	int fd = dial();

	put(fd, request, n);
	cr_expect(get(fd, &b, NULL), "not closed: %.60s", request);
	cr_expect(b.len && str_has_prefix(b.data, begins), "%.60s: %.200s", request,
	          b.len ? b.data : "nothing");
	(void)close(fd);
}

UNUSED static void expect_open(const char *request, const char *holds)
{
	CLEANUP_BUF struct buf b = BUF_INIT(64 * MIB);
	int fd = dial();

	puts_to(fd, request);
	cr_expect(get(fd, &b, holds), "%.60s: %.300s", request, b.len ? b.data : "nothing");
	(void)close(fd);
}
