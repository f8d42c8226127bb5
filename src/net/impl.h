/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside src/net.
 *
 * libmicrohttpd (MHD) reads requests and sends answers that have an end. A stream or a WebSocket
 * takes the socket away from it: from then on it is a line, with a queue and a bound of its own.
 * MHD's epoll descriptor is one handle of the loop, the epoll descriptor of everything else here
 * (listeners, lines, requests that wait for their answer) another.
 *
 * Callbacks come from MHD_run() and from watch_dispatch(); while one of them is on the stack
 * nothing is flushed and no line is freed (server_turn() does both, when they have returned).
 */

#include <microhttpd.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/fd.h"
#include "net/http.h"

#define LISTENERS_MAX  16
#define BATCH          64 /* events or new connections in one go */
#define HEADERS_MAX    100
#define TARGET_MAX     8192
#define REFUSAL_MAX    (16 * KIB)
#define POOL_EXTRA     (6 * KIB) /* MHD's own needs beside the header: fields, the answer's header */
#define BODY_GRACE_MS  5000
#define LINGER_MS      2000
#define LINGERING_MAX  256
#define ACCEPT_REST_MS 100
#define SPINS_MAX      64 /* runs of MHD that moved nothing */
#define PEER_BUCKETS   256

/* A descriptor in the server's own epoll. */
struct watch {
	int fd; /* FD_NONE: not watched */
	uint32_t events;
	void (*ready)(struct watch *w, uint32_t events);
};

#define CONTAINER(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

struct listener {
	struct watch watch; /* .fd is ours */
	struct http_server *s;
};

/* How many connections one address or uid has. */
struct peer_use {
	struct peer_use *next;
	bool local;
	uint8_t key[16];
	unsigned n;
};

/* What a connection is waited for, and so how long. Each has a list, the oldest first. */
enum pace {
	PACE_NONE = 0, /* waits for the handler, or is MHD's to clean up */
	PACE_IDLE,     /* the next request line */
	PACE_HEADER,   /* the rest of the header */
	PACE_BODY,
	PACE_ANSWER, /* the client, to take it */
	PACE_COUNT,
};

/* One that MHD has. */
struct conn {
	struct conn *prev, *next; /* of its pace */
	struct http_server *s;
	struct http_request *request;
	struct peer_use *use; /* NULL: a line has it now */
	struct http_peer peer;
	struct watch hangup; /* while a request waits for its answer */
	uint64_t since_ms;
	int fd;     /* MHD's */
	int unsent; /* bytes that the kernel held when last looked */
	enum pace pace;
	bool linger; /* the client may still be sending what nobody reads */
};

struct conn_list {
	struct conn *first, *last;
};

enum phase {
	PHASE_LINE = 0, /* there is a request line */
	PHASE_BODY,     /* begin() was called */
	PHASE_WHOLE,    /* whole() was called */
};

struct http_request {
	struct http_server *s;
	struct conn *conn;
	struct MHD_Connection *mhd;
	struct http_request *parked_next;
	struct http_request *prev, *next; /* while suspended */
	struct MHD_Response *response;    /* to be queued */
	struct ws *ws;                    /* to be opened when the answer is out */
	void *data;
	const char *method;
	char *path, *query; /* path: as sent, cut at the '?'; query: behind it, or NULL */
	size_t target_n;    /* of both, as sent */
	struct buf body;
	size_t body_max;
	uint64_t declared; /* Content-Length */
	unsigned status;
	enum phase phase;
	bool http10, has_body;
	bool begun;     /* the handler knows it */
	bool answered;  /* and is done with it */
	bool dead;      /* its connection must go */
	bool parked;    /* to be suspended after this run */
	bool suspended; /* in MHD */
};

/* A part of what a line has to send: a few bytes of framing, a blob, and CR LF when tail is 2. */
struct piece {
	struct piece *next;
	struct blob *blob; /* NULL: none */
	uint8_t head_n, tail_n;
	bool pong;
	char head[22];
};

/* A socket taken from MHD. */
struct line {
	struct line *prev, *next;
	struct line *due_next;
	struct http_server *s;
	struct peer_use *use;
	struct watch watch; /* .fd is the socket, ours */
	struct piece *first, **last;
	size_t queued;       /* bytes, framing included */
	size_t sent;         /* of the first piece */
	uint64_t blocked_ms; /* since when the peer takes nothing; 0: it does */
	unsigned pongs;      /* in the queue */
	bool due;            /* in the server's list of lines to look at */
	bool over;           /* to be freed */
	void (*readable)(struct line *l);
	void (*tick)(struct line *l, uint64_t now_ms);
	void (*flushed)(struct line *l); /* the queue is empty */
	void (*end)(struct line *l);     /* tells the owner, and frees */
	void (*leave)(struct line *l);   /* the server wants it to end */
};

enum server_handle {
	HANDLE_MHD = 0, /* uv_poll on MHD's epoll */
	HANDLE_OWN,     /* uv_poll on ours */
	HANDLE_PREPARE, /* before the loop sleeps */
	HANDLE_TICK,    /* deadlines */
	HANDLE_AGAIN,   /* MHD has more to do at once */
	HANDLE_REST,    /* no descriptors left: accept later */
	HANDLE_COUNT,
};

struct http_server {
	struct http_limits limits;
	struct http_handler handler;
	struct http_counts counts;
	struct MHD_Daemon *mhd;
	union uv_any_handle handles[HANDLE_COUNT];
	unsigned open_handles;
	int epoll_fd, spare_fd;
	struct listener listeners[LISTENERS_MAX];
	size_t n_listeners;
	struct epoll_event batch[BATCH];
	int batch_n, batch_at;
	struct peer_use *peers[PEER_BUCKETS];
	struct conn_list paces[PACE_COUNT];
	struct conn *adopting;         /* MHD_add_connection() is on the stack for it */
	struct http_request *requests; /* that wait for their answer */
	struct http_request *parked;   /* those of them that MHD does not know as such yet */
	struct line *lines, *due;
	size_t bodies; /* bytes of all */
	unsigned lingering;
	uint64_t moves; /* grows whenever something happens in MHD */
	unsigned spins;
	unsigned busy; /* callbacks on the stack */
	bool dirty;    /* MHD must run */
	bool draining, closing;
};

/* server.c */
uint64_t server_now(const struct http_server *s);
void server_dirty(struct http_server *s);
void server_turn(struct http_server *s);
void server_watch_tick(struct http_server *s);

/* watch.c */
int watch_start(struct http_server *s, struct watch *w, int fd, uint32_t events,
                void (*ready)(struct watch *w, uint32_t events));
void watch_change(struct http_server *s, struct watch *w, uint32_t events);
void watch_stop(struct http_server *s, struct watch *w);
void watch_dispatch(struct http_server *s);

/* listen.c; adopt takes the connected socket, also on failure. */
int http_server_adopt(struct http_server *s, int fd);
void listen_pause(struct http_server *s, bool pause);
void listen_stop(struct http_server *s);
void peer_release(struct http_server *s, struct peer_use *use);

/* pace.c */
void conn_set_pace(struct conn *c, enum pace pace);
void conn_kill(struct conn *c);
void pace_tick(struct http_server *s);

/* conn.c: MHD's notifications */
void conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                 enum MHD_ConnectionNotificationCode code);
struct conn *conn_of(struct MHD_Connection *mhd);
void linger_start(struct conn *c);

/* form.c: 0, or the status to refuse with */
unsigned form_check(struct http_request *r, const char *url, const char *version);
bool form_is_token(const char *p, size_t n);

/* request.c */
void *request_line(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result request_call(void *cls, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_n, void **context);
void request_completed(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code);
void request_drop(struct conn *c);
void request_suspend_parked(struct http_server *s);
void request_end_all(struct http_server *s);
/* An answer (or none: dead) is there; MHD must call again. */
void request_resume(struct http_request *r);

/* answer.c */
enum MHD_Result answer_refuse(struct http_request *r, unsigned status);
/* Past MHD, which cannot answer in the midst of a request. */
void answer_refuse_raw(struct conn *c, unsigned status);
void answer_put_common(struct buf *out);
const char *answer_reason(unsigned status);

/* line.c */
void line_init(struct line *l, struct http_server *s);
int line_open(struct line *l, int fd, struct peer_use *use);
int line_add(struct line *l, const char *head, size_t head_n, struct blob *b, size_t tail_n);
int line_put(struct line *l, const char *head, size_t head_n, struct blob *b, size_t tail_n);
void line_drop_unsent(struct line *l);
void line_due(struct line *l);
void line_over(struct line *l);
void line_flush(struct line *l);
void line_tick(struct line *l, uint64_t now_ms);
void line_done(struct line *l);

/* ws.c */
struct ws *ws_new(struct http_server *s, const struct ws_handler *h, void *data);
void ws_opened(struct ws *w, int fd, struct peer_use *use, const void *early, size_t early_n);
void ws_never(struct ws *w); /* its connection went before it was open */
/* upgrade.c: 426 when another version of the protocol is asked for, else 0 */
unsigned upgrade_check_version(const struct http_request *r);

/* utf8.c */
bool utf8_is_valid(const char *p, size_t n);

#define SHA1_SIZE 20
void sha1(const void *p, size_t n, uint8_t ret[SHA1_SIZE]);
