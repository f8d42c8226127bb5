/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Inside src/pool only. */

#include "base/arena.h"
#include "base/clock.h"
#include "exec/launcher.h"
#include "exec/output.h"
#include "exec/report.h"
#include "exec/verify.h"
#include "model/launch_msg.h"
#include "model/plan.h"
#include "pool/pool.h"
#include "sys/cgroup.h"

#define SETUP_MS     10000 /* from the order to a box that is ready */
#define KILL_MS      5000  /* from the kill to its end */
#define LISTEN_AFTER 2     /* ms of running, then output is read as it comes */
#define WATCH_AFTER  20    /* ms of running, then the launcher looks after the limits */
#define NO_BOX       UINT32_MAX
#define CLEAN_UP_MS  3000                /* for the last task of a box whose launcher died */
#define RETRY_NS     UINT64_C(200000000) /* after a failure, and so on for each in a row */

enum warm_state {
	WARM_FREE = 0,
	WARM_STARTING, /* ordered */
	WARM_WARMING,  /* verified; a program in it gets ready to be asked */
	WARM_READY,
	WARM_RUNNING,
	WARM_SPENT,  /* its run is over */
	WARM_ENDING, /* killed, or ending by itself */
};

/* What is known of a box until it was looked at. */
struct starting {
	struct box_facts facts;
	bool started, code_ready, init_ready;
};

#define PREPARED_MAX  32                  /* boxes that have more than they need to wait */
#define STOCK_HOT_MAX 32                  /* boxes of a shape that are rehearsed */
#define STOCK_CALM_NS UINT64_C(200000000) /* after a claim, before the reserve is renewed */

struct prepared {
	int theirs[LAUNCH_FDS]; /* the box's ends */
	bool streams;           /* they are there, and the report is observed */
	int script;             /* its empty file, open for writing */
	int usage[CGROUP_USAGE_FDS], io;
};

struct box {
	uint64_t id; /* index + generation * LAUNCH_BOXES_MAX */
	enum warm_state state;
	uint32_t shape;
	const struct plan *plan;
	struct arena *own; /* a plan for one request only; NULL: the shape's */
	struct pool_call *call;
	struct starting *starting;
	int control, workspace;
	int pidfd; /* of its init: a launcher that is stuck must not keep it alive */
	int in, out, errout, report; /* our ends; of a run, or given when it was ordered */
	pid_t code_pid;
	uint32_t code_uid; /* to make its files as; 0: as ourselves */
	bool kill_sent;
	bool rehearsed;
	uint64_t since_ns;          /* in this state */
	struct launch_usage before; /* until it was claimed */
	uint64_t tasks_before;
	struct box_report io_before;
	struct report *warming;
	struct prepared *prepared;
	char cgroup[24];
	uint32_t prev, next; /* in the list of its state (STARTING, WARMING) */
	struct receipt receipt;
};

/* AFTER: the box is no longer its own, the result is not complete. */
enum call_state { CALL_QUEUED = 0, CALL_RUNNING, CALL_KILLED, CALL_AFTER, CALL_OVER };

/* Something that takes long. done() follows run() in the thread that turns. */
struct pool_work {
	struct pool_work *next;
	struct pool_call *call;
	void (*run)(struct pool_call *c);
	void (*done)(struct pool *p, struct pool_call *c);
};
struct works;

struct pool_call {
	struct pool_call *prev, *next;
	enum call_state state;
	const struct request *req;
	struct result *res;
	pool_done *done;
	void *data;
	uint32_t shape, box;
	bool private_plan, ordered; /* a box for it alone */
	bool cancelled, timed_out, exited, watched, listening;
	struct report report;
	struct output out, errout;
	struct box_report exit_report;
	struct launch_usage usage;
	uint64_t submit_ns, claim_ns, go_ns, end_ns;
	uint64_t *ret_claim_ns; /* NULL: nobody asks */
	size_t stdin_at;
	struct buf text; /* what a shell that waits is told */
	size_t text_at;
	pool_output *listener;
	void *listener_data;
	const struct jail_fetch *fetch;
	size_t n_fetch;
	/* after.c */
	struct pool_work work;
	bool parsing; /* a thread has `report` and *res */
	bool failed;  /* what follows was decided by call_fail() */
	enum run_state failed_state;
	struct err failed_err;
	int workspace; /* from the end of the run on */
	struct workspace_walk *walk;
	pool_prepare_fn *prepare;
	void *prepare_data;
	bool prepare_always;
};

struct call_list {
	struct pool_call *first, *last;
	unsigned n;
};

struct shape {
	struct pool_shape config;
	struct plan plan;
	bool zygote;       /* its boxes are forked */
	bool kept;         /* the launcher knows the plan, and the zygote is ready */
	bool asked;        /* for a (new) zygote */
	unsigned failures; /* of the zygote, in a row */
	unsigned spoilt;   /* boxes in a row that did not become ready */
	uint64_t zygote_ns, retry_ns;
	uint64_t forks;
	uint32_t *ready;    /* indexes of boxes; the last is taken first */
	unsigned n_reserve; /* the first of those: see stock.c */
	unsigned n_ready, n_starting;
	unsigned n_queued; /* calls that take any box of it */
	double demand;     /* claims in a tick of 100 ms, smoothed */
	unsigned claimed;  /* in this tick */
	uint64_t claimed_ns;
	struct pool_stats stats;
	struct err error; /* of the last box that failed */
};

struct pool {
	struct launcher launcher;
	struct arena arena;
	int epoll;
	struct shape shapes[POOL_SHAPES_MAX];
	size_t n_shapes;
	struct box *boxes;
	uint32_t *free; /* indexes */
	unsigned n_free, boxes_max, queue_max, acquire_ms, running_max;
	unsigned n_private; /* of the queued: no waiting box is like them */
	unsigned n_ordered; /* of those: have a box of their own under way */
	uint32_t starting;  /* list of boxes under way, NO_BOX: none */
	struct call_list queued, running, over;
	unsigned n_ending, n_prepared;
	struct works *works; /* NULL: no threads */
	uint32_t spent;      /* list of boxes whose run is over: 1 + index, 0: none */
	unsigned n_spent;
	uint64_t spent_ns;          /* since when there are some */
	uint64_t claimed_ns;        /* the last box, of any shape */
	unsigned unheard;           /* runs whose output is not read as it comes */
	struct cgroup_host cgroups; /* parents only, for reading usage */
	uint64_t tick_ns, demand_ns;
	uint32_t without;
	bool lost;    /* the launcher is gone */
	bool freed;   /* a run ended: another may start */
	bool closing; /* no new boxes */
	bool blocked; /* the launcher's socket is full: kills wait */
};

/* loop.c */
enum pool_tag { TAG_LAUNCHER = 0, TAG_CONTROL, TAG_REPORT, TAG_OUT, TAG_ERR, TAG_IN, TAG_WORK };
int pool_observe(struct pool *p, int fd, uint32_t events, enum pool_tag tag, uint32_t index);

/* box.c */
int box_order(struct pool *p, uint32_t shape, const struct plan *own_plan, struct arena *own,
              struct pool_call *call, struct err *err);
void box_started(struct pool *p, const struct launch_reply *reply, int *pidfd);
void box_failed(struct pool *p, const struct launch_reply *reply);
/* The zygote is gone: boxes that wait for its fork wait in vain. */
void box_orphans(struct pool *p, uint32_t shape);
void box_ended(struct pool *p, const struct launch_reply *reply);
void box_on_control(struct pool *p, uint32_t index);
void box_on_report(struct pool *p, uint32_t index);
/* Ends it whatever it does; its slot is free when the launcher says so. */
void box_kill(struct pool *p, struct box *b);
void box_release(struct pool *p, struct box *b);
void box_close_streams(struct box *b);
struct box *box_of(struct pool *p, uint64_t id);

/* spent.c */
#define CALM_NS   UINT64_C(5000000) /* after a claim, before boxes are ended and made again */
#define SPENT_MAX 8
#define SPENT_NS  UINT64_C(20000000) /* at most, while somebody turns and claims */
/* The run is over, and nothing runs in the box. It is killed when that is due. */
void spent_add(struct pool *p, struct box *b);
bool spent_is_due(const struct pool *p, uint64_t now);
void spent_end(struct pool *p);

/* stock.c: the boxes that wait */
bool stock_wants_rehearsed(const struct shape *s);
void stock_put(struct shape *s, uint32_t index, bool rehearsed);
void stock_remove(struct shape *s, uint32_t index);
/* The newest. One that died is not given, although the launcher's word is not here yet. */
struct box *stock_take(struct pool *p, struct shape *s);
uint64_t stock_oldest_ns(const struct pool *p, const struct shape *s);
/* Ends one that has waited too long, or is to be made again. */
void stock_expire(struct pool *p, struct shape *s, unsigned target, uint64_t now);

/* usage.c */
/* What the box used until now is not its run's. */
void usage_note(struct pool *p, struct box *b);
/*
 * Processor, memory, I/O of a live box, and whether no more tasks are in it than were when it was
 * ready, as far as can be told. false: it is going already.
 */
bool usage_read(struct pool *p, struct box *b, struct launch_usage *ret, struct box_report *io,
                bool *ret_alone);
/* Takes away what was noted. */
void usage_subtract(const struct box *b, struct launch_usage *u, struct box_report *io);

/* prepare.c */
int prepare_streams(struct box *b, int theirs[LAUNCH_FDS]);
void prepare_box(struct pool *p, struct box *b);
/* Writes the code into the file that is there; -ENOENT: it has to be placed. */
int prepare_script(struct pool *p, struct box *b, const struct request *req);
void prepare_drop(struct pool *p, struct box *b);

/* message.c: tells the run to what waits in the box. */
int message_send(struct pool *p, struct pool_call *c, struct box *b, const int theirs[LAUNCH_FDS]);
/* The rest, when the box has room for it; its own end tells how that went. */
void message_more(struct pool_call *c, struct box *b);

/* run.c */
void call_claim(struct pool *p, struct pool_call *c, struct box *b);
void call_on_report(struct pool *p, struct pool_call *c);
void call_on_stream(struct pool *p, struct pool_call *c, enum pool_tag tag);
void call_on_exit(struct pool *p, struct pool_call *c, const struct box_report *rep);
void call_on_end(struct pool *p, struct pool_call *c, const struct launch_usage *usage);
void call_fail(struct pool *p, struct pool_call *c, enum run_state state, const struct err *err);
/* Output as it comes, when the run takes long enough for that. */
void call_listen(struct pool *p, struct pool_call *c, uint64_t now);
void call_tick(struct pool *p, struct pool_call *c, uint64_t now);
void call_free(struct pool_call *c);

/* after.c: from the end of the run to its result. */
void call_set_error(struct pool_call *c, enum err_code code, const char *text);
/* Everything about the box is known; what it wrote and left is looked at now, or in a thread. */
void call_complete(struct pool *p, struct pool_call *c);
void call_give_back(struct pool *p, struct pool_call *c);
/* Frames that came; false: a thread reads them, and call_parsed() follows. */
bool call_parse(struct pool *p, struct pool_call *c, const char *bytes, size_t n);
void call_parsed(struct pool *p, struct pool_call *c); /* run.c */

/* work.c */
void work_put(struct pool *p, struct pool_work *w);
void works_reap(struct pool *p);

/* pool.c */
void call_list_add(struct call_list *l, struct pool_call *c);
void call_list_del(struct call_list *l, struct pool_call *c);
void queue_del(struct pool *p, struct pool_call *c);
void pool_tick(struct pool *p, uint64_t now);

/* refill.c */
#define FAILURES_MAX   3 /* of a zygote in a row, then requests are told */
#define PLAN_ARENA_MAX (4 * MIB)
/* How many of a shape should wait; how many runs may start now. */
unsigned pool_target(const struct shape *s);
unsigned pool_room(const struct pool *p);
/* A box became ready, ended, or failed: give, and order what is missing. */
void pool_feed(struct pool *p, struct shape *s);
/* Has the launcher remember the plan and, for Python, load a (new) zygote; says so in s->asked. */
void shape_ask(struct pool *p, struct shape *s);
/* When the zygote is used up or gone; the old one serves until then. */
void shape_renew(struct pool *p, struct shape *s, uint64_t now);
void shape_failed(struct pool *p, uint32_t shape, const struct err *err);
