/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/api share. */

#include "api/api.h"
#include "api/metrics.h"
#include "api/routes.h"
#include "base/json.h"

#define CALL_BODY_MAX     (256 * KIB) /* of routes that take no large one */
#define WAIT_MS_MAX       300000
#define HASH_SIZE         4096
#define EVENTS_MAX        40000      /* of one execution that can be replayed */
#define OUTPUT_EVENT_MS   20         /* pieces of output that come faster are one */
#define OUTPUT_CHUNK      (64 * KIB) /* of one event; of one answer 1 MiB */
#define OUTPUT_ANSWER_MAX (1 * MIB)
#define HEARTBEAT_MS      15000
#define LISTENERS_MAX     8192
#define CATCH_UP_ROWS     200 /* of one listener in one turn */
#define TAIL_ROWS         500 /* new rows that are told in one turn */
#define TAIL_MS           250 /* how soon what other processes recorded is seen */
#define TRACEPARENT_SIZE  56
#define WORKS_MAX         4 /* slow things at once, in threads of their own */
#define JSON_ANSWER_MAX   (64 * MIB)
#define EXPORT_ROWS       10000
#define FILES_KEPT_MAX    256 /* of an execution, when they are asked for; their bytes: */
#define FILES_KEPT_BYTES  (64 * MIB)
#define ANSWER_REF_SIZE   128
#define WAITING_BYTES_MAX (128 * MIB) /* of requests that wait for a person */
#define WAITING_RETRY_MS  10000       /* somebody has to answer first */

struct execution;
struct listener;
struct approver;
struct work;

/* By what a stream or a socket was opened: it ends when that does not count any more. */
struct pass {
	char key[16]; /* of the principal */
	uint32_t scopes;
};

#define PASS_OVER "the token does not count any more"

/* One HTTP request. Freed by its answer, or when the client is gone. */
struct call {
	struct api *api;
	struct http_request *http; /* NULL: gone while somebody works for it */
	struct route_match match;
	struct principal who;
	bool known; /* who is set */
	bool in_work;
	uint64_t start_ns;
	/* waits for the end of an execution */
	struct execution *waits;
	struct call *next_waiter;
	uint64_t until_ms; /* 0: as long as it takes */
	bool wants_result; /* however long: a status will not do */
	bool replayed;
	bool keep; /* the result of what it starts stays */
};

/* One thing that happened to an execution; its id is its place, from 1. */
struct ex_event {
	uint8_t kind; /* enum ex_event_kind */
	uint8_t stream;
	uint32_t length;
	uint64_t offset; /* of output; of a state: enum ex_phase */
};

/* How far one is that is under way, as it is told. */
enum ex_phase { EX_NOT_TOLD = 0, EX_RECEIVED, EX_WAITING, EX_QUEUED, EX_RUNNING, EX_PHASE_COUNT };

enum ex_event_kind { EX_STATE = 0, EX_OUTPUT, EX_RESULT };

struct watcher {
	struct execution *ex;
	struct pass pass;
	struct http_stream *stream;
	size_t next; /* the event it gets next, from 0 */
	size_t at;   /* of the result: what it has had of it */
	uint64_t beat_ms;
	struct watcher *next_watcher;
};

/* A result as JSON: of an execution, and of the answers that are being sent. One thread. */
struct shared_json {
	struct api *api;
	unsigned refs;
	struct buf text;
};

struct kept_file {
	char *path;
	struct shared_json *data; /* NULL: see why */
	struct err *why;          /* NULL: no memory */
};

struct execution {
	struct api *api;
	char id[EXECUTION_ID_SIZE];
	char caller[ACTOR_SIZE], quota_key[16], session[REQUEST_NAME_MAX + 1];
	char traceparent[TRACEPARENT_SIZE];
	enum language language;
	uint64_t created_us, done_ms;
	struct job *job; /* NULL: over */
	struct arena arena;
	struct buf body;
	/* of one that is over */
	enum run_state end;
	bool unrecorded; /* it did not run because that could not be recorded */
	struct shared_json *result;
	char approval[EXECUTION_ID_SIZE];
	/* output: [0, n) as it came; after the end perhaps the last bytes, too: `tail` from there
	 */
	struct buf out[2], tail[2];
	size_t tail_from[2];
	uint64_t total[2]; /* bytes it wrote */
	size_t counted;    /* what it is in executions.bytes */
	/* what it left, when that was asked for; a thread's while the job is being completed */
	bool keep_files;
	struct kept_file *files;
	size_t n_files;
	/* events */
	struct ex_event *events;
	size_t n_events, cap_events;
	enum ex_phase told; /* the last one that is an event */
	uint64_t told_total[2], told_ms;
	struct watcher *watchers;
	struct call *waiters;
	struct execution *next_hash, *older, *newer;
};

struct executions {
	struct execution *hash[HASH_SIZE];
	struct execution *newest, *oldest;
	uint64_t last_us; /* created_us of the newest there was */
	unsigned n_live, n_waiting, n_over;
	size_t bytes;         /* of those that are over */
	size_t waiting_bytes; /* of requests that wait for a person; now and then too many */
};

struct api {
	struct api_config config;
	struct http_server *http;
	struct pipeline *pl;
	struct pool *pool;
	enum language shapes[POOL_SHAPES_MAX];
	size_t n_shapes;
	struct tokens *tokens;
	char tokens_error[sizeof(((struct err *)0)->msg)]; /* as the log has it; "": none */
	struct quotas *quotas;
	struct metrics *metrics;
	struct executions ex;
	struct listener *listeners;
	unsigned n_listeners;
	struct approver *approvers;
	unsigned n_approvers;
	uint64_t tail_seq, tail_ms; /* the last row that was told, and when it was looked for */
	bool moved;                 /* rows were written since */
	bool draining;
	bool record_fails; /* the log has been told */
	struct work *works;
	size_t parsing;                        /* bytes of requests that threads read */
	unsigned n_works, n_watchers, n_timed; /* calls that wait until a time */
	uint64_t started_ms, turn_ns, lag_us, pruned_ms, tokens_ms;
	struct buf doctor; /* the last answer */
	uint64_t doctor_ms;
};

/* answer.c; each of these ends the call */
void answer_json(struct call *c, unsigned status, struct buf *body);
void answer_with(struct call *c, unsigned status, const char *type, const struct http_header *h,
                 size_t n, struct buf *body);
void answer_shared(struct call *c, const char *type, const struct http_header *h, size_t n,
                   struct shared_json *body);
void answer_err(struct call *c, const struct err *err);
void answer_error(struct call *c, enum err_code code, const char *remedy, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
void answer_busy(struct call *c, uint32_t retry_ms, const char *why);
void error_to_json(const struct err *err, bool hide, struct buf *out);
void call_end(struct call *c);
/* The client left; the call stays as long as a thread works for it. */
void call_gone(struct call *c);

/* dispatch.c */
extern const struct http_handler api_handler;
bool call_may(const struct call *c, uint32_t scopes); /* has one of these */
struct pass call_pass(const struct call *c, uint32_t scopes);
/* A look at the tokens' file, at most every 100 ms. */
bool pass_holds(struct api *api, const struct pass *p);
/* Query parameters: false when the call has been answered with what is wrong. */
bool query_u64(struct call *c, const char *name, uint64_t max, uint64_t *ret);
/* "limit" of a list, from 1. */
bool query_limit(struct call *c, uint64_t max, uint64_t *ret);
bool query_text(struct call *c, const char *name, char *ret, size_t n);
bool query_bool(struct call *c, const char *name, bool *ret);

/* result.c */
/* Frees it, in a thread when that takes long. */
void trash_buf(struct api *api, struct buf *b);
/* Takes the text; NULL: no memory. */
struct shared_json *shared_new(struct api *api, struct buf *text);
void shared_unref(struct shared_json *s); /* NULL: nothing */
/* What the job gave; takes what was written of it before. NULL: no memory. */
void files_free(struct execution *ex);
size_t files_bytes(const struct execution *ex);
struct shared_json *result_shared(struct api *api, struct job *job);

/* executions.c */
struct execution *ex_find(struct api *api, const char *id);
/* The same, if the caller may see it. */
struct execution *ex_visible(struct call *c, const char *id);
struct execution *ex_new(struct api *api, const char *caller, const char *quota_key);
int ex_submit(struct api *api, struct execution *ex);
/* One that was not submitted. */
void ex_discard(struct execution *ex);
void ex_resume_all(struct api *api);
/* Of one that has a job. */
enum ex_phase ex_phase(const struct execution *ex);
const char *ex_state(const struct execution *ex);
void ex_status(const struct execution *ex, struct buf *out);
/* While it was under way. */
void ex_status_then(const struct execution *ex, enum ex_phase phase, struct buf *out);
void ex_drop_old(struct api *api);
void ex_free_all(struct api *api);
void ex_wait(struct call *c, struct execution *ex);
void ex_unwait(struct call *c);
void ex_check_waiters(struct api *api);
/* Bytes from `offset`; what follows them; whether some were dropped in between. */
struct str ex_output(const struct execution *ex, int stream, uint64_t offset, size_t max,
                     uint64_t *ret_next, uint64_t *ret_dropped);
void answer_result(struct call *c, struct execution *ex);
void answer_status(struct call *c, struct execution *ex, unsigned status);

/* watch.c */
void ex_note(struct api *api, struct execution *ex); /* events since last time */
void ex_note_all(struct api *api);
void ex_end_watchers(struct execution *ex);
void ex_heartbeat(struct api *api, uint64_t now);
/* Ends the streams whose readers may not read any more. */
void ex_check_passes(struct api *api);

/* events.c */
void events_start(struct api *api); /* from the newest row on */
void events_tail(struct api *api);
bool events_wanted(const struct api *api); /* does anybody follow the tail? */
uint64_t events_newest(struct api *api);
void events_check_passes(struct api *api);
void events_heartbeat(struct api *api, uint64_t now);
void events_close(struct api *api);
/* approvers.c */
void approvers_row(struct api *api, const struct ledger_row *row);
/* What some of them have not had, as fast as each of them reads. */
void approvers_feed(struct api *api);
void approvers_check_passes(struct api *api);
/* After a restart: the observer hears of the questions that still wait. */
void approvers_retell(struct api *api);
void approvers_close(struct api *api);
int approval_detail(struct api *api, const struct approval *a, const char *key_prefix,
                    struct buf *out, struct err *err);

/* decide.c: an answer to a question */
struct answer {
	struct confirm_answer x;
	struct str code;
	uint8_t digest[SHA256_SIZE];
	char reason[APPROVAL_REASON_SIZE];
	char id[ROUTE_ARG_SIZE], ref[ANSWER_REF_SIZE]; /* of a message */
};
/* A message also says what it is, whose, and what the approver calls it. */
int answer_read(struct str json, bool message, struct arena *arena, struct answer *ret,
                struct err *err);
int answer_decide(struct api *api, const struct principal *who, const struct answer *a,
                  const char *id, struct approval *ret, struct err *err);

/* waiting.c: what waits for a person, in memory */
void waiting_count(struct api *api);
void waiting_add(struct api *api, const struct execution *ex); /* was just submitted */
/* false: the call has been answered. */
bool waiting_has_room(struct call *c, struct execution *ex);

/* work.c: something slow for a call, in a thread; fn writes JSON */
typedef int work_fn(void *data, struct buf *out, struct err *err);
void call_work(struct call *c, work_fn *fn, void *data, struct buf *keep, uint64_t *keep_ms);
/*
 * The same for something that is no answer yet: then() goes on with the call, whose client may be
 * gone (http is NULL), or which is NULL itself when the api is; data is its own. Bounded by who
 * calls it. -ENOMEM: neither is called.
 */
typedef void work_then(struct call *c, void *data, int r, struct err *err);
int call_work_then(struct call *c, work_fn *fn, work_then *then, void *data);
/* The api goes, what is under way is for nobody; all clients are gone. */
void works_leave(struct api *api);

/* The routes. */
#define ROUTE_FN(name) void route_##name(struct api *api, struct call *c)
ROUTE_FN(execute);
ROUTE_FN(create);
ROUTE_FN(list);
ROUTE_FN(show);
ROUTE_FN(cancel);
ROUTE_FN(output);
ROUTE_FN(files);
ROUTE_FN(watch);
ROUTE_FN(approvals);
ROUTE_FN(approval);
ROUTE_FN(decide);
ROUTE_FN(revoke);
ROUTE_FN(approvers);
ROUTE_FN(risk);
ROUTE_FN(policy);
ROUTE_FN(policy_check);
ROUTE_FN(pool);
ROUTE_FN(doctor);
ROUTE_FN(ledger);
ROUTE_FN(ledger_verify);
ROUTE_FN(ledger_export);
ROUTE_FN(events);
ROUTE_FN(health);
ROUTE_FN(ready);
ROUTE_FN(capabilities);
ROUTE_FN(metrics);
ROUTE_FN(openapi);
