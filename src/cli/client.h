/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The command as a client of brigd: where it is, who we are, one call at a time over a connection
 * of its own. What comes back is bounded, and its texts are masked before they are shown.
 */

#include <stdbool.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/err.h"
#include "base/fd.h"
#include "cli/reply.h"
#include "sys/socket_path.h"

#define CLIENT_WHERE_SIZE 256
#define CLIENT_BODY_MAX   (16 * MIB) /* of answers that are no result and no output */

/* clang-format off */
#define CLIENT_HELP                                                                                \
	"      --host WHERE     the daemon: unix:/path, http://127.0.0.1:7070, or none\n"           \
	"                       ($BRIG_HOST; else the daemon's own socket when it answers)\n"
/* clang-format on */

enum client_kind {
	CLIENT_NONE = 0,
	CLIENT_UNIX,
	CLIENT_TCP,
};

struct client {
	enum client_kind kind;
	bool asked;                    /* named by --host or $BRIG_HOST */
	char where[CLIENT_WHERE_SIZE]; /* for people and for --host */
	char path[SOCKET_PATH_SIZE];
	char name[128], port[6]; /* of TCP */
	char token[TOKEN_SIZE];  /* "": none */
	unsigned silence_ms;     /* that the daemon may keep */
	int fd;                  /* connected, and not used yet; FD_NONE: none */
	int cancel;              /* readable: nobody waits any more (-EINTR); FD_NONE: never */
};

/*
 * `host`: of --host, NULL: not given. `embedded`: something was asked for that only works without a
 * daemon, so the default one is not tried; nor is it when the environment names a state directory
 * or a policy. 1: there is one; 0: without. Whether one that was named answers is seen by a call.
 */
int client_find(const char *host, bool embedded, struct client *ret, struct err *err);
/* The same, when it does not work without. */
int client_need(const char *host, struct client *ret, struct err *err);
void client_done(struct client *c);
/* The socket that is tried when none is named. */
int client_default_socket(char ret[SOCKET_PATH_SIZE], struct err *err);

struct client_call {
	const char *method;
	const char *path; /* below /api/v1, with the query */
	const char *key;  /* Idempotency-Key; NULL: none */
	struct str body;  /* JSON; p NULL: none */
	uint64_t wait_ms; /* that the daemon was told it may take */
	size_t max;       /* of the answer's body; 0: CLIENT_BODY_MAX */
	bool once;        /* not again when the connection breaks */
};

/*
 * Connects, asks, reads all of the answer. Tries again when the connection breaks (once) and when
 * the daemon is busy (three times, when it says). An answer of 400 and above is an error with the
 * daemon's words. On success reply_free_fields(ret).
 */
int client_call(struct client *c, const struct client_call *call, struct reply *ret,
                struct err *err);

/* Server-sent events. */
struct client_stream {
	int fd;
	struct reply reply;
	struct event_reader events;
};

#define CLIENT_STREAM_INIT ((struct client_stream){ .fd = FD_NONE })

int client_stream_open(struct client *c, const char *path, uint64_t after, size_t max,
                       struct client_stream *ret, struct err *err);
/* Reads what is there without waiting. 0; -ENODATA: it is over; other errors: it broke. */
int client_stream_read(struct client_stream *s);
/* 1: *ret; 0: none is complete; < 0: it is wrong. */
int client_stream_event(struct client_stream *s, struct event *ret);
void client_stream_close(struct client_stream *s);

/* client_wire.c: one exchange, no second try. */
int wire_connect(struct client *c, struct err *err);
int wire_send(struct client *c, int fd, const struct client_call *call, uint64_t after,
              struct err *err);
/* Until the state is `until` or later: REPLY_LENGTH means that the head is there. */
int wire_receive(struct client *c, int fd, uint64_t wait_ms, bool head_only, struct reply *r,
                 struct err *err);

/* "brig: text" on a terminal's last line, in place of what was there; NULL: takes it away. */
void progress(const char *fmt, ...) PRINTF_LIKE(1, 2);
void progress_clear(void);
