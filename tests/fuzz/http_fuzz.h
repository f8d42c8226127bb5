/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server that lives as long as the program, and one client for each input. When the client has
 * gone nothing of it may be left.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/impl.h"

#define TURNS_MAX 2000
#define HEADER_MS 50
#define GONE_MS   5000
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static uv_loop_t loop;
static struct http_server *server;

static void server_start(const struct http_handler *handler)
{
	const struct http_limits limits = { .body_bytes = 4096,
		                            .header_ms = HEADER_MS,
		                            .ws_message_bytes = 4096,
		                            .stream_bytes = 65536 };

	if (server)
		return;
	MUST(uv_loop_init(&loop) == 0);
	MUST(http_server_open(&loop, &limits, handler, &server, NULL) == 0);
}

static int dial(void)
{
	int pair[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	MUST(http_server_adopt(server, pair[1]) == 0);
	return pair[0];
}

static void drop_answers(int fd)
{
	char sink[4096];

	while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

static void turn(int fd)
{
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	drop_answers(fd);
}

static void send_pieces(int fd, const uint8_t *p, size_t n, size_t step)
{
	for (size_t at = 0; at < n; at += step) {
		(void)!send(fd, p + at, MIN2(step, n - at), MSG_DONTWAIT | MSG_NOSIGNAL);
		turn(fd);
	}
	turn(fd);
}

/*
 * MHD does not always see that a client is gone which hangs up after its request line; the time for
 * the header ends it then.
 */
static void hang_up(int fd)
{
	uint64_t until = clock_ms() + GONE_MS;
	struct http_counts c;
	int turns = 0;

	(void)close(fd);
	do {
		(void)uv_run(&loop, UV_RUN_NOWAIT);
		http_server_counts(server, &c);
	} while ((c.connections || c.websockets || c.streams) &&
	         (++turns < TURNS_MAX || clock_ms() < until));
	MUST(!c.connections && !c.requests && !c.streams && !c.websockets);
	MUST(!server->bodies && !server->lines && !server->parked && !server->requests);
}
