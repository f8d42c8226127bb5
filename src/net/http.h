/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/1.1 on a libuv loop, by libmicrohttpd. One thread, nothing blocks.
 *
 * Here a request is held to its form, its size and its pace; what it means is the handler's. Every
 * request is answered once: at once or later. A client that goes away before that is told of by
 * gone(), and its request must not be touched after.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "net/blob.h"

struct uv_loop_s;
struct http_server;
struct http_request;
struct http_stream;
struct ws;

/* Who is at the other end. */
struct http_peer {
	bool local; /* a unix socket: the ids are the kernel's word */
	uid_t uid;
	pid_t pid;
	unsigned port; /* of ours that it came to; 0: a unix socket */
	char text[64]; /* "unix:1000" or "127.0.0.1:4711", for the log */
};

struct http_limits {               /* 0: the default */
	unsigned connections;      /* at once: 10 500 */
	unsigned per_peer;         /* of one address or uid: 10 300 */
	size_t header_bytes;       /* request line and headers: 16 KiB */
	size_t body_bytes;         /* 16 MiB; begin() may lower it for a request */
	size_t bodies_bytes;       /* of all requests together: 256 MiB */
	unsigned idle_ms;          /* between requests, and to the first line: 60 s */
	unsigned header_ms;        /* from the request line to the last header: 5 s */
	unsigned body_bytes_per_s; /* slower than this (after 5 s) is closed: 1 KiB */
	unsigned write_ms;         /* an answer of which the client takes nothing: 30 s */
	size_t stream_bytes;       /* that wait for a slow reader of a stream: 1 MiB */
	size_t ws_message_bytes;   /* 1 MiB */
	unsigned ws_ping_ms;       /* a silent peer is asked, and dropped: 30 s */
};

struct http_handler {
	/*
	 * The headers are there, the body is not. May answer (then the body is not read, and the
	 * connection closes after the answer), or lower the bound of the body.
	 */
	void (*begin)(void *data, struct http_request *r);
	/* All of it is there. Answers now or later. */
	void (*whole)(void *data, struct http_request *r);
	/* Not answered, and the client is gone. */
	void (*gone)(void *data, struct http_request *r);
	/* The form is wrong; what to say (JSON). `status` is 400, 408, 413, 431, ... */
	void (*refusal)(void *data, unsigned status, struct buf *ret_body);
	void *data;
};

struct http_header {
	const char *name, *value;
};

int http_server_open(struct uv_loop_s *loop, const struct http_limits *limits,
                     const struct http_handler *handler, struct http_server **ret, struct err *err);
/* Takes the listening socket (unix or TCP); closed by http_server_close(). */
int http_server_listen(struct http_server *s, int fd, struct err *err);
/* No new connections; answers carry "Connection: close" from now on. */
void http_server_drain(struct http_server *s);
/* Streams and WebSockets end (a WebSocket with 1001). */
void http_server_end_streams(struct http_server *s);
/* Everything ends. */
void http_server_close(struct http_server *s);
/* Sends what the answers given since the last turn left to send, without waiting for the loop. */
void http_server_flush(struct http_server *s);

struct http_counts {
	unsigned connections, requests, streams, websockets;
	uint64_t accepted, refused, answered; /* refused: over a bound, or of a wrong form */
	uint64_t bytes_in, bytes_out;
};
void http_server_counts(const struct http_server *s, struct http_counts *ret);

const char *http_method(const struct http_request *r);
/* The path as it was sent, not decoded, without the query. */
const char *http_path(const struct http_request *r);
/* The decoded value of a query parameter into ret (an empty string when it has no value). 1: there,
 * 0: not there, -EINVAL: there twice, badly encoded, with a NUL or longer than n - 1. */
int http_query(const struct http_request *r, const char *name, char *ret, size_t n);
/* The i-th parameter's name, decoded; -ENOENT after the last. */
int http_query_name(const struct http_request *r, size_t i, char *ret, size_t n);
/* The first header of that name (case does not matter); NULL: none. */
const char *http_header(const struct http_request *r, const char *name);
size_t http_header_count(const struct http_request *r, const char *name);
const struct http_peer *http_peer(const struct http_request *r);
struct str http_body(const struct http_request *r);
void http_body_limit(struct http_request *r, size_t bytes);
/* The handler's own. */
void http_set_data(struct http_request *r, void *data);
void *http_data(const struct http_request *r);

/*
 * Answers. The body is taken (and emptied); NULL: none. The common headers (Content-Type,
 * Content-Length, X-Content-Type-Options: nosniff, Cache-Control: no-store,
 * Content-Security-Policy: default-src 'none'; sandbox) are added here; `type` NULL: no body. When
 * there is no memory the connection is closed.
 */
void http_answer(struct http_request *r, unsigned status, const char *type,
                 const struct http_header *headers, size_t n_headers, struct buf *body);

/* The same with a body that is somebody else's: `release` is called once, when it is not needed any
 * more, perhaps before this returns. */
void http_answer_shared(struct http_request *r, unsigned status, const char *type,
                        const struct http_header *headers, size_t n_headers, struct str body,
                        void (*release)(void *data), void *data);
/* The body is the caller's now, and http_body() is empty. */
void http_body_take(struct http_request *r, struct buf *ret);

/* An answer without an end: status 200, chunked, sent as it comes. */
typedef void http_stream_gone(void *data, struct http_stream *s);
int http_stream_open(struct http_request *r, const char *type, http_stream_gone *gone, void *data,
                     struct http_stream **ret);
/* -ENOBUFS: the reader is too slow; the stream has been ended, and gone() is not called. When
 * nothing waits, a piece of any size is taken. */
int http_stream_put(struct http_stream *s, struct blob *b);
/* Bytes that the reader has not taken. */
size_t http_stream_waiting(const struct http_stream *s);
/* What waits is sent first; s must not be used after. gone() is not called. */
void http_stream_end(struct http_stream *s);

/* WebSocket (RFC 6455), by wslay. */
struct ws_handler {
	void (*message)(void *data, struct ws *w, struct str text); /* UTF-8 */
	/* The connection is over; w is gone after this. Also follows ws_close(). */
	void (*closed)(void *data, struct ws *w);
};
/* Is it a correct request to upgrade? false: it asks for none; -EINVAL: it is a wrong one. */
int http_wants_ws(const struct http_request *r);
/* Instead of an answer, from begin() or whole(). Binary messages close with 1003. */
int http_upgrade(struct http_request *r, const struct ws_handler *h, void *data, struct ws **ret);
/* One text message. -ENOBUFS: too slow; it is being closed (1008), closed() follows later. */
int ws_send(struct ws *w, struct blob *b);
size_t ws_waiting(const struct ws *w);
void ws_close(struct ws *w, unsigned code, const char *reason);
