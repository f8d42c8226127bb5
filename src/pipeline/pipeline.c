/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The whole flow on one screen: states, what happens on entering each, and where it may go from
 * there. job_move() is the only place where a state changes, and it appends to the ledger first.
 * Rows gather in one group; commit() ends it before anything that the rows announce happens: code
 * runs, a person is asked, a caller is told.
 */

#include "pipeline/pipeline.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "pipeline/impl.h"

#define LOOK_MS 1000  /* held jobs expire although no bell rings */
#define NAP_MS  10000 /* and nobody misses a bell for longer */
#define TO(s)   (1u << JOB_##s)
#define OUT     (TO(CANCELLED) | TO(FAILED))

/* clang-format off */
static const struct {
	const char *name;
	int (*enter)(struct pipeline *pl, struct job *job); /* NULL: waits for an event, or final */
	uint32_t next;
} states[JOB_STATE_COUNT] = {
	[JOB_NONE]      = { "none",      NULL,         TO(RECEIVED) | OUT },
	[JOB_RECEIVED]  = { "received",  step_analyse, TO(ANALYSED) | OUT },
	[JOB_ANALYSED]  = { "analysed",  step_decide,  TO(DECIDED) | TO(DENIED) | OUT },
	[JOB_DECIDED]   = { "decided",   step_confirm, TO(CONFIRMED) | TO(WAITING) | TO(DENIED) | OUT },
	[JOB_WAITING]   = { "waiting",   NULL,         TO(CONFIRMED) | TO(RECEIVED) | TO(DECIDED) | TO(DENIED) | TO(EXPIRED) | OUT },
	[JOB_CONFIRMED] = { "confirmed", step_route,   TO(ROUTED) | OUT },
	[JOB_ROUTED]    = { "routed",    step_execute, TO(RUNNING) | OUT },
	[JOB_RUNNING]   = { "running",   NULL,         TO(FINISHED) | OUT },
	[JOB_FINISHED]  = { "finished",  NULL, 0 },
	[JOB_DENIED]    = { "denied",    NULL, 0 },
	[JOB_EXPIRED]   = { "expired",   NULL, 0 },
	[JOB_CANCELLED] = { "cancelled", NULL, 0 },
	[JOB_FAILED]    = { "failed",    NULL, 0 },
};

/* What the caller sees of a job that ended without having run. */
static const enum run_state unrun[JOB_STATE_COUNT] = {
	[JOB_DENIED] = RUN_DENIED,
	[JOB_EXPIRED] = RUN_EXPIRED,
	[JOB_CANCELLED] = RUN_CANCELLED,
	[JOB_FAILED] = RUN_SETUP_FAILED,
};
/* clang-format on */

enum run_state job_unrun_state(enum job_state s)
{
	return unrun[s];
}

const char *job_state_name(enum job_state s)
{
	return (unsigned)s < JOB_STATE_COUNT ? states[s].name : "none";
}

bool job_is_final(const struct job *job)
{
	return job->state != JOB_NONE && states[job->state].next == 0;
}

/* Recorded, then moved. A job whose move cannot be recorded fails without a record. */
static int job_move(struct pipeline *pl, struct job *job, enum job_state next)
{
	struct err err = { 0 };
	int r;

	if (!(states[job->state].next & 1u << next))
		return err_set(&job->result.error, ERR_INTERNAL, EPROTO, "no way from %s to %s",
		               states[job->state].name, states[next].name);
	r = job_record(pl, job, next, &err);
	if (r < 0) {
		pl->broken = err;
		job->result.error = err;
		return err_wrap(&job->result.error, r, "record");
	}
	job->state = next;
	job->step_ns[next] = clock_ns();
	return 0;
}

static void job_over(struct pipeline *pl, struct job *job)
{
	if (job->state != JOB_FINISHED)
		job->result.state = unrun[job->state];
	job_list_add(&pl->over, job);
}

/* Whatever went wrong: nothing runs. */
static void job_fail(struct pipeline *pl, struct job *job)
{
	struct err why = job->result.error;

	/* What cannot be recorded is not tried again: the wait for a lock was long enough. */
	if (pl->broken.code != ERR_NONE || job_move(pl, job, JOB_FAILED) < 0)
		job->state = JOB_FAILED;
	job->result.error = why;
	job_over(pl, job);
}

/*
 * A step may write to the ledger, and what cannot be written ends the group, with the rows of
 * others in it: those must not be taken for recorded.
 */
static int take_step(struct pipeline *pl, struct job *job,
                     int (*step)(struct pipeline *pl, struct job *job))
{
	bool had_rows = pl->ledger && ledger_in_group(pl->ledger);
	int r = step(pl, job);

	if (r < 0 && had_rows && !ledger_in_group(pl->ledger)) {
		pl->broken = job->result.error;
		if (pl->broken.code == ERR_NONE)
			(void)err_set(&pl->broken, ERR_IO, EIO, "the group of rows was lost");
	}
	return r;
}

/* From state to state until one waits or is final. */
static void job_advance(struct pipeline *pl, struct job *job)
{
	while (states[job->state].enter) {
		int r = job->cancelled ? JOB_CANCELLED
		                       : take_step(pl, job, states[job->state].enter);

		if (r >= 0)
			r = job_move(pl, job, (enum job_state)r);
		if (r < 0) {
			job_fail(pl, job);
			return;
		}
	}
	if (job->state == JOB_RUNNING)
		job_list_add(&pl->to_run, job);
	else if (job->state == JOB_WAITING)
		job_list_add(&pl->asking, job);
	else
		job_over(pl, job);
}

void pipeline_submit(struct pipeline *pl, struct job *job)
{
	int r = *job->id ? 0 : execution_id_new(job->id);

	job->result.receipt.level_required = job->request.level;
	job->effective = job->request;
	memcpy(job->result.execution_id, job->id, sizeof(job->id));
	if (r < 0)
		(void)err_set(&job->result.error, ERR_INTERNAL, -r, "no random numbers");
	if (r >= 0)
		r = kept_check_key(pl, job, &job->result.error);
	if (r < 0 || job_move(pl, job, JOB_RECEIVED) < 0)
		job_fail(pl, job);
	else
		job_advance(pl, job);
}

/*
 * The end of a group: all that was announced in it may happen now, or none of it. A row that could
 * not be written takes the whole group with it, whosever it was.
 */
static int commit(struct pipeline *pl, struct err *err)
{
	enum ledger_durability how = pl->asking.n || pl->durable ? LEDGER_DISK : LEDGER_PROCESS;
	int r = 0;

	if (!pl->ledger)
		return 0;
	if (pl->broken.code != ERR_NONE) {
		*err = pl->broken;
		r = -EIO;
	} else {
		r = ledger_commit(pl->ledger, how, err);
	}
	if (r < 0)
		ledger_abort(pl->ledger);
	pl->broken = (struct err){ 0 };
	pl->durable = false;
	return r;
}

void job_lose(struct pipeline *pl, struct job *job, const struct err *err)
{
	struct err why = *err;

	(void)err_wrap(&why, -EIO, "record");
	/* The code may have run: then the result stands, with the error beside it. */
	if (job->state != JOB_FINISHED) {
		job->state = JOB_FAILED;
		job->result.state = RUN_SETUP_FAILED;
		job->result.error = why;
	}
	late_add(pl, job);
	job->result.error = why;
	buf_done(&job->json); /* it tells another story */
}

static void lose_all(struct pipeline *pl, const struct err *err)
{
	struct job_list over = pl->over;
	struct job *job, *next;

	job_list_init(&pl->over);
	while ((job = job_list_take(&pl->to_run)) || (job = job_list_take(&pl->asking))) {
		job_lose(pl, job, err);
		job_list_add(&pl->over, job);
	}
	for (job = over.head; job; job = next) {
		next = job->next;
		if (late_hold(pl, job, err))
			continue;
		job_lose(pl, job, err);
		job_list_add(&pl->over, job);
	}
}

/* The rows of these are there: what becomes of them has to follow. */
static void note_recorded(struct pipeline *pl)
{
	for (struct job *job = pl->to_run.head; job; job = job->next)
		job->recorded = JOB_RUNNING;
	for (struct job *job = pl->asking.head; job; job = job->next)
		job->recorded = JOB_WAITING;
}

/*
 * The group is in the record, but the disk, which has to have a question or a yes that is used up,
 * did not take it. Nothing that it announced happens, and the record is told so.
 */
static int take_back(struct pipeline *pl, struct err *err)
{
	struct job *job;

	while ((job = job_list_take(&pl->to_run)) || (job = job_list_take(&pl->asking))) {
		job->result.error = *err;
		(void)err_wrap(&job->result.error, -EIO, "record");
		job_fail(pl, job);
	}
	*err = (struct err){ 0 };
	return commit(pl, err);
}

static void start(struct pipeline *pl, struct job *job)
{
	int r = job->cancelled ? -ECANCELED
	                       : job->executor->ops->start(job->executor, job, &job->result.error);

	if (r >= 0)
		return;
	job->cancelled = job->cancelled || r == -ECANCELED; /* before anything ran */
	if (job->cancelled && job_move(pl, job, JOB_CANCELLED) >= 0)
		job_over(pl, job);
	else
		job_fail(pl, job);
}

void pipeline_ended(struct pipeline *pl, struct job *job)
{
	/* A box that could not be made ran nothing. */
	enum job_state next = job->result.state == RUN_SETUP_FAILED ? JOB_FAILED : JOB_FINISHED;
	struct err ours = { 0 };

	if (job_record(pl, job, next, &ours) < 0)
		pl->broken = ours;
	job->state = next;
	job->step_ns[next] = clock_ns();
	job_list_add(&pl->over, job);
}

/* The question is durable: somebody may see it. */
static void tell_channels(struct pipeline *pl, struct job *job)
{
	job_list_add(&pl->held, job);
	for (size_t i = 0; i < pl->config.n_channels; i++) {
		struct channel *c = pl->config.channels[i];

		/* A channel that fails reaches nobody; another may, or the question expires. */
		(void)c->ops->ask(c, pl->ledger, &job->approval, &job->result.error);
	}
	job->result.error = (struct err){ 0 };
}

/* Its answer can be written down? Somebody may hold the ledger for a moment. */
static bool can_settle(struct pipeline *pl, struct job *job, int r)
{
	struct err err = { 0 };

	if (r < 0)
		err = job->result.error;
	else
		(void)ledger_begin(pl->ledger, &err);
	if (err.code != ERR_UNAVAILABLE)
		return true;
	job->result.error = (struct err){ 0 };
	return false;
}

/* False: it has to wait, as all others have. */
static bool settle(struct pipeline *pl, struct job *job)
{
	int r;

	if (pl->leave_held && !job->cancelled)
		return true;
	r = job->cancelled ? JOB_CANCELLED : take_step(pl, job, step_answered);
	if (r == JOB_WAITING)
		return true;
	if (!can_settle(pl, job, r))
		return false;
	job_list_remove(&pl->held, job);
	for (size_t i = 0; i < pl->config.n_channels; i++)
		pl->config.channels[i]->ops->settled(pl->config.channels[i], &job->approval);
	if (r >= 0)
		r = job_move(pl, job, (enum job_state)r);
	if (r < 0)
		job_fail(pl, job);
	else
		job_advance(pl, job);
	return true;
}

void pipeline_leave_held(struct pipeline *pl)
{
	pl->leave_held = true;
}

static void look_at_held(struct pipeline *pl)
{
	struct pollfd p = { pl->epoll, POLLIN, 0 };
	bool rang = pl->held.n && poll(&p, 1, 0) > 0;

	if (!pl->held.n || (!rang && clock_ms() - pl->looked_ms < LOOK_MS))
		return;
	pl->looked_ms = clock_ms();
	bell_drain(pl->bell);
	for (size_t i = 0; rang && i < pl->config.n_channels; i++)
		(void)pl->config.channels[i]->ops->turn(pl->config.channels[i], pl->ledger, NULL);
	for (struct job *job = pl->held.head, *next; job; job = next) {
		next = job->next;
		if (!settle(pl, job))
			break;
	}
}

/* One group: commit, then do what it announced. False when there was nothing. */
static bool flush(struct pipeline *pl)
{
	struct job_list to_run, asking, over;
	struct err err = { 0 };
	struct job *job;
	int r;

	if (!pipeline_is_busy(pl))
		return false;
	r = commit(pl, &err);
	if (r >= 0 || r == LEDGER_UNSYNCED)
		note_recorded(pl);
	if (r == LEDGER_UNSYNCED)
		r = take_back(pl, &err);
	if (r < 0)
		lose_all(pl, &err);
	/* Taken off first: what follows may queue more. */
	job_list_init(&to_run);
	job_list_init(&asking);
	job_list_init(&over);
	while ((job = job_list_take(&pl->asking)))
		job_list_add(&asking, job);
	while ((job = job_list_take(&pl->to_run)))
		job_list_add(&to_run, job);
	while ((job = job_list_take(&pl->over)))
		job_list_add(&over, job);
	/* Channels first: an answer is a group of its own, and no other is open now. */
	while ((job = job_list_take(&asking)))
		tell_channels(pl, job);
	while ((job = job_list_take(&over)))
		job->done(job->data, job);
	while ((job = job_list_take(&to_run)))
		start(pl, job);
	return true;
}

bool pipeline_is_busy(const struct pipeline *pl)
{
	return pl->to_run.n || pl->asking.n || pl->over.n;
}

static void turn(struct pipeline *pl, int timeout_ms)
{
	if (pl->busy)
		return;
	pl->busy = true;
	while (flush(pl))
		;
	for (size_t i = 0; i < pl->config.n_executors; i++) {
		struct executor *ex = pl->config.executors[i];

		ex->ops->turn(ex, timeout_ms);
	}
	while (flush(pl))
		;
	look_at_held(pl);
	while (flush(pl))
		;
	late_turn(pl);
	while (flush(pl))
		;
	pl->busy = false;
}

void pipeline_turn(struct pipeline *pl)
{
	turn(pl, 0);
}

void pipeline_cancel(struct pipeline *pl, struct job *job)
{
	if (job_is_final(job) || job->cancelled)
		return;
	job->cancelled = true;
	if (job->state == JOB_RUNNING && job->call)
		job->executor->ops->cancel(job->executor, job);
	else
		pl->looked_ms = 0;
}

/* A held job sleeps until it is answered or expires. */
static int wait_ms(const struct job *job)
{
	struct timespec now;
	int64_t left_ms;

	if (job->state != JOB_WAITING)
		return PIPELINE_TICK_MS;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	left_ms = (int64_t)(job->approval.expires_us / 1000) -
	          ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	return (int)MIN2(MAX2(left_ms + 1, (int64_t)PIPELINE_TICK_MS), (int64_t)NAP_MS);
}

void pipeline_wait(struct pipeline *pl, struct job *job, int cancel_fd)
{
	/* Nobody but the executor can have news: wait there, it is the shortest way. */
	bool alone = cancel_fd < 0 && pl->config.n_executors == 1;

	for (;;) {
		struct pollfd p[] = { { pl->epoll, POLLIN, 0 }, { cancel_fd, POLLIN, 0 } };

		turn(pl, alone && !pl->held.n ? PIPELINE_TICK_MS : 0);
		if (job_is_final(job) && !pipeline_is_busy(pl))
			return;
		if (alone && !pl->held.n)
			continue;
		(void)poll(p, 2, wait_ms(job));
		if (p[1].revents) {
			cancel_fd = FD_NONE;
			pipeline_cancel(pl, job);
		}
	}
}
