/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/pipeline share. */

#include "pipeline/kept.h"
#include "pipeline/pipeline.h"
#include "sys/owner.h"

struct job_list {
	struct job *head, **tail;
	size_t n;
};

struct pipeline {
	struct pipeline_config config;
	struct ledger *ledger; /* NULL: no record */
	struct risk *risk;
	struct policy *policies[PIPELINE_POLICIES_MAX];
	size_t n_policies;
	char caller[ACTOR_SIZE], owner[OWNER_SIZE];
	int bell;               /* FD_NONE until a job waits */
	int epoll;              /* bell and channels */
	bool leave_held;        /* they are the next process's */
	struct job_list to_run; /* RUNNING is recorded, not committed */
	struct job_list held;   /* WAITING */
	struct job_list asking; /* WAITING, not committed, nobody told */
	struct job_list over;   /* final, not committed */
	struct job_list late;   /* final, could not be committed */
	size_t late_bytes, late_untold;
	uint64_t late_ms;                            /* when those were last tried */
	uint64_t looked_ms;                          /* when the held jobs were last looked at */
	struct sqlite3_stmt *add_open, *remove_open; /* of recover.c */
	struct sqlite3_stmt *kept_find, *kept_insert, *kept_update; /* of kept.c */
	struct err broken; /* why the group cannot be committed; ERR_NONE: it can */
	bool durable;      /* the group uses up an approval: that must not come back */
	bool busy;         /* in pipeline_turn(): done() may submit */
};

static inline const char *job_caller(const struct pipeline *pl, const struct job *job)
{
	return job->caller ? job->caller : pl->caller;
}

/* What the caller sees of a job that ended in this state without having run. */
enum run_state job_unrun_state(enum job_state s);

bool job_is_kept(const struct job *job);
void job_list_init(struct job_list *l);
void job_list_add(struct job_list *l, struct job *job);
struct job *job_list_take(struct job_list *l);
void job_list_remove(struct job_list *l, struct job *job);

/* steps.c: what happens on entering a state. The next state, or -errno with job->result.error. */
int step_analyse(struct pipeline *pl, struct job *job);
int step_decide(struct pipeline *pl, struct job *job);
int step_confirm(struct pipeline *pl, struct job *job);
int step_route(struct pipeline *pl, struct job *job);
int step_execute(struct pipeline *pl, struct job *job);
/* What a held job became by somebody's answer; JOB_WAITING: nothing yet. */
int step_answered(struct pipeline *pl, struct job *job);

/* open.c: the watch on answers, made for the first question. */
int pipeline_need_bell(struct pipeline *pl, struct err *err);

/* pipeline.c: its rows cannot be written, and its caller is told so. */
void job_lose(struct pipeline *pl, struct job *job, const struct err *err);
/* late.c: what the record says of it comes later, if it says anything yet. */
void late_add(struct pipeline *pl, struct job *job);
/* The same, and the caller waits for it; false: not for this error. */
bool late_hold(struct pipeline *pl, struct job *job, const struct err *err);
void late_turn(struct pipeline *pl);
void late_done(struct pipeline *pl);

/* record.c: one row per move, before it happens. */
int job_record(struct pipeline *pl, struct job *job, enum job_state next, struct err *err);
/* recover.c: jobs that are neither over nor alive. */
int open_job_add(struct pipeline *pl, const struct job *job, enum job_state state, struct err *err);
int open_job_remove(struct pipeline *pl, const struct job *job, struct err *err);
int pipeline_recover(struct pipeline *pl, struct err *err);
void pipeline_recover_done(struct pipeline *pl);
/* kept.c: the row of a job that is kept, and its end, in the group of the move. */
int kept_table(struct pipeline *pl, struct err *err);
/* -EEXIST with ERR_CONFLICT: the key stands for another execution. */
int kept_check_key(struct pipeline *pl, const struct job *job, struct err *err);
int kept_wait(struct pipeline *pl, struct job *job, struct err *err);
/* Is its text there, so that it can go on? */
bool kept_can_resume(struct pipeline *pl, const char *id);
int kept_recover(struct pipeline *pl, struct err *err);
int kept_add(struct pipeline *pl, struct job *job, struct err *err);
/* The result as it is kept; NULL: it is not, or no memory. */
const struct buf *kept_text(struct job *job, enum job_state state, struct buf *small);
int kept_end(struct pipeline *pl, struct job *job, enum job_state state, struct err *err);
/* What a dead process left without an end gets this one. */
int kept_end_orphan(struct pipeline *pl, const char *id, const char *state, struct err *err);
void kept_done(struct pipeline *pl);
