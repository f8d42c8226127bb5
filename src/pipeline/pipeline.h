/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The flow: request -> risk -> policy -> confirm -> route -> execute -> result, each move in the
 * ledger before it happens. Everything that executes goes through here.
 *
 * One thread, no waiting inside: jobs move in pipeline_submit() and pipeline_turn(); the latter is
 * to be called when pipeline_fd() is readable and at least every PIPELINE_TICK_MS while a job is
 * under way. Rows of the jobs that move in one turn are committed together.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "confirm/confirm.h"
#include "exec/jail.h"
#include "ledger/ledger.h"
#include "model/approval.h"
#include "model/decision.h"
#include "model/findings.h"
#include "model/request.h"
#include "model/result.h"
#include "policy/policy.h"
#include "pool/pool.h"
#include "risk/risk.h"

#define PIPELINE_TICK_MS       10
#define PIPELINE_CHANNELS_MAX  4
#define PIPELINE_POLICIES_MAX  2
#define PIPELINE_EXECUTORS_MAX 4
#define PIPELINE_HELD_MAX      1024 /* jobs that wait for a person */
#define PIPELINE_PATIENCE_MS   50   /* of a daemon, for a ledger that another process holds */

enum job_state {
	JOB_NONE = 0,
	JOB_RECEIVED,
	JOB_ANALYSED,
	JOB_DECIDED,
	JOB_WAITING, /* for a person */
	JOB_CONFIRMED,
	JOB_ROUTED,
	JOB_RUNNING,
	/* final: */
	JOB_FINISHED, /* the code ran; how it ended is in the result */
	JOB_DENIED,
	JOB_EXPIRED,
	JOB_CANCELLED, /* before it ran */
	JOB_FAILED,    /* no user code ran */
	JOB_STATE_COUNT,
};

struct pipeline;
struct executor;
struct job;
typedef void job_done_fn(void *data, struct job *job);

/* One request on its way. A step writes its own fields and no others. */
struct job {
	/* the caller's, before pipeline_submit() */
	struct request request; /* strings and bytes live until done() */
	struct jail_io io;      /* live output and files to fetch; cancel_fd as in exec/jail.h */
	pool_output *listen;    /* output as it comes, from a warm box; NULL: none */
	void *listen_data;
	job_done_fn *done; /* called once, in pipeline_turn() or pipeline_submit() */
	void *data;
	const char *caller; /* NULL: the pipeline's; so with the labels */
	const char *const *labels;
	size_t n_labels;
	struct str body; /* the request's text, for pipeline_resume(); p == NULL: it cannot be */
	uint64_t created_us; /* of the row that is kept; 0: when it is made */
	bool keep;           /* the result stays, see kept.h; so with an idempotency key */

	char id[EXECUTION_ID_SIZE];
	enum job_state state;
	struct findings findings;            /* analyse */
	struct decision decision;            /* decide */
	struct request effective;            /* decide: the request within the policy's bounds */
	char lowered[DECISION_CHANGES_SIZE]; /* decide: what they changed; "": nothing */
	uint8_t digest[SHA256_SIZE], rest[SHA256_SIZE]; /* confirm: of `effective` */
	struct approval approval;                       /* confirm; id "": none */
	struct executor *executor;                      /* route */
	struct result result; /* execute; complete when done() is called */

	/* the pipeline's */
	struct job *next; /* in the queue it is in */
	struct buf code;  /* what an approver put in place of the request's code */
	struct buf json;  /* the result as it was kept, or as the executor's side wrote it */
	bool digested;    /* the executor's side has made these, of a large output */
	uint8_t out_digest[SHA256_SIZE], err_digest[SHA256_SIZE];
	struct pool_call *call;
	bool cancelled;
	bool written;            /* json is what is kept of the result */
	enum job_state recorded; /* RUNNING, WAITING: so says the record; NONE: nothing yet */
	uint64_t tell_ms;        /* its end waits for the record, so long; 0: it does not */
	uint64_t step_ns[JOB_STATE_COUNT]; /* when it entered the state; for the bench */
	uint64_t claim_ns;                 /* when it got a box of a pool; 0: never */
};

/* What can carry out a job. All members are mandatory. */
#define EXEC_CAP_CODE    (1u << 0)
#define EXEC_CAP_BROWSER (1u << 1)
#define EXEC_CAP_FILES   (1u << 2)

struct executor_ops {
	const char *name;
	enum tier tier;
	uint32_t caps;
	/*
	 * Carries out job->effective. pipeline_ended() follows exactly once, possibly before this
	 * returns. On failure it does not, and no user code ran.
	 */
	int (*start)(struct executor *ex, struct job *job, struct err *err);
	/* Asks a started job to stop; pipeline_ended() still follows. */
	void (*cancel)(struct executor *ex, struct job *job);
	/* Readable when turn() has something to do; FD_NONE: never. */
	int (*fd)(const struct executor *ex);
	/* Moves what is started; waits at most timeout_ms, and not at all when nothing is. */
	void (*turn)(struct executor *ex, int timeout_ms);
};

struct executor {
	const struct executor_ops *ops;
	struct pipeline *pipeline;
};

/* A box of its own for each job, made when it is asked for; start() returns when it is over. */
struct executor_jail {
	struct executor base;
	const char *launcher; /* NULL: the installed one */
	uint32_t without;     /* LAYER_BITs to leave out: for the ablation tests, 0 elsewhere */
};
/* Boxes of a pool; shapes are made by `need` when it is not NULL. */
struct executor_pool {
	struct executor base;
	struct pool *pool;
	int (*need)(void *data, const struct request *req, struct err *err);
	void *data;
};
extern const struct executor_ops executor_jail_ops, executor_pool_ops;

struct pipeline_config {
	const char *state_dir; /* NULL: ledger_default_dir() */
	bool stays;            /* a daemon: nobody may hold it up, see PIPELINE_PATIENCE_MS */
	bool no_record;        /* no ledger, so no approvals either: what needs one is denied */
	const char *policy;    /* a built-in or a file; NULL: "permissive" */
	/* A policy that holds whatever `policy` says; NULL: /etc/brig/policy.yaml when it exists.
	 */
	const char *floor_policy;
	const char *caller; /* "cli:0"; NULL: "lib:UID" */
	const char *const *labels;
	size_t n_labels;
	struct channel *channels[PIPELINE_CHANNELS_MAX];
	size_t n_channels;
	struct executor *executors[PIPELINE_EXECUTORS_MAX]; /* the first that can is taken */
	size_t n_executors;
};

/* Also ends what processes that died had left open: see recover.c. */
int pipeline_open(const struct pipeline_config *config, struct pipeline **ret, struct err *err);
/* Jobs under way must be over; those that wait for a person are left waiting. */
void pipeline_close(struct pipeline *pl);
/* Before the callers go: whoever waits for the record is told, and ends that could not be recorded
 * are tried once more. */
void pipeline_last_try(struct pipeline *pl);
int pipeline_fd(const struct pipeline *pl);
struct ledger *pipeline_ledger(struct pipeline *pl); /* NULL: no record */

/* done() tells all there is to tell, also of a refusal. The job lives until then. */
void job_init(struct job *job);
void job_free_fields(struct job *job);
void pipeline_submit(struct pipeline *pl, struct job *job);
/* Moves what can be moved; does not wait. */
void pipeline_turn(struct pipeline *pl);
/* Before it runs: it will not. While it runs: the executor stops it. done() follows. */
void pipeline_cancel(struct pipeline *pl, struct job *job);
/* Turns until the job is over; a readable cancel_fd (FD_NONE: none) cancels it once. */
void pipeline_wait(struct pipeline *pl, struct job *job, int cancel_fd);
bool job_is_final(const struct job *job);
const char *job_state_name(enum job_state s);
/* Is there something to do without waiting for anybody? */
bool pipeline_is_busy(const struct pipeline *pl);
/* From now on no job that waits for an answer goes on by one: another process will take it up. */
void pipeline_leave_held(struct pipeline *pl);

/*
 * A job of a process that is gone whose question still stands (kept.h has its id and its text): it
 * waits on, under its old id. -errno: it cannot; pipeline_abandon() then ends it as lost.
 */
int pipeline_resume(struct pipeline *pl, struct job *job, const char *id, const char *approval,
                    struct err *err);
int pipeline_abandon(struct pipeline *pl, const char *id, const char *approval, const char *why,
                     struct err *err);
/* Analysis and decision alone: nothing is recorded, nothing runs. */
void pipeline_preview(struct pipeline *pl, struct job *job);
/* The i-th policy in force; NULL after the last. */
const struct policy *pipeline_policy(const struct pipeline *pl, size_t i);
/* Reads the policies again (NULL: the default one); on failure the old ones stay. The text must
 * outlive the pipeline. */
int pipeline_reload(struct pipeline *pl, const char *policy, struct err *err);
/* The executor has another descriptor than at pipeline_open(). */
int pipeline_watch(struct pipeline *pl, struct executor *ex, struct err *err);

/* For executors: job->result is complete. */
void pipeline_ended(struct pipeline *pl, struct job *job);
