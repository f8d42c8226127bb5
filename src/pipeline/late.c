/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ends that could not be recorded: the disk is full, or another process holds the ledger. The
 * record says of such a job that it runs or waits, and a restart would call it lost although its
 * caller was told how it ended. So what its last rows need stays here and is tried again until it
 * is written. While the ledger is only held, which passes, the caller of a daemon is not told
 * before TELL_MS.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/impl.h"

#define LATE_MAX   1024
#define LATE_BYTES (64 * MIB) /* of output and results; what comes then is recorded without */
#define LATE_TURN  64         /* of one turn */
#define RETRY_MS   1000
#define SOON_MS    100 /* somebody waits for the answer */
#define TELL_MS    5000

/* What is left of a job whose caller has been told. */
struct late {
	struct job job; /* first */
	char caller[ACTOR_SIZE], session[REQUEST_NAME_MAX + 1];
	size_t bytes;
};

static void late_free(struct pipeline *pl, struct job *job)
{
	struct late *late = (struct late *)job;

	pl->late_bytes -= late->bytes;
	job_free_fields(job);
	free(late);
}

static void copy_buf(struct buf *to, const struct buf *from)
{
	*to = BUF_INIT(from->len);
	buf_put(to, from->data, from->len);
}

static void copy_files(struct result *to, const struct result *from)
{
	to->files = from->n_files ? calloc(from->n_files, sizeof(*to->files)) : NULL;
	for (size_t i = 0; to->files && i < from->n_files; i++) {
		struct result_file *f = &to->files[to->n_files];

		*f = from->files[i];
		f->path = strdup(f->path);
		to->n_files += f->path != NULL;
	}
}

/* The result as it is kept is written now: most of what it is made of goes with the caller. */
static void copy_result(struct job *to, struct job *from, size_t *ret_bytes, size_t room)
{
	const struct result *res = &from->result;
	CLEANUP_BUF struct buf small = BUF_INIT(KEPT_REST_MAX);
	const struct buf *kept = kept_text(from, from->state, &small);
	size_t n = res->out.len + res->errout.len + (kept ? kept->len : 0);

	to->result = *res;
	to->result.out = to->result.errout = to->result.outputs = BUF_INIT(0);
	to->result.value = NULL;
	to->result.exception = (struct exception){ 0 };
	to->result.risk = NULL;
	to->result.files = NULL;
	to->result.n_files = 0;
	copy_files(&to->result, res);
	if (n > room) {
		to->result.out_dropped += res->out.len;
		to->result.err_dropped += res->errout.len;
		return;
	}
	copy_buf(&to->result.out, &res->out);
	copy_buf(&to->result.errout, &res->errout);
	if (kept)
		copy_buf(&to->json, kept);
	to->digested = from->digested;
	memcpy(to->out_digest, from->out_digest, sizeof(to->out_digest));
	memcpy(to->err_digest, from->err_digest, sizeof(to->err_digest));
	*ret_bytes = n;
}

void late_add(struct pipeline *pl, struct job *job)
{
	struct late *late = job->recorded == JOB_NONE || pl->late.n >= LATE_MAX
	                            ? NULL
	                            : calloc(1, sizeof(*late));
	struct job *to;

	if (!late)
		return;
	to = &late->job;
	job_init(to);
	memcpy(to->id, job->id, sizeof(to->id));
	(void)snprintf(late->caller, sizeof(late->caller), "%s", job_caller(pl, job));
	to->caller = late->caller;
	if (job->request.session_id) {
		(void)snprintf(late->session, sizeof(late->session), "%s", job->request.session_id);
		to->request.session_id = late->session;
	}
	to->state = job->state;
	to->recorded = job->recorded;
	to->approval = job->approval;
	to->cancelled = job->cancelled;
	to->keep = job_is_kept(job);
	to->written = true;
	copy_result(to, job, &late->bytes, LATE_BYTES - MIN2(pl->late_bytes, LATE_BYTES));
	pl->late_bytes += late->bytes;
	job_list_add(&pl->late, to);
	pl->late_ms = clock_ms();
}

bool late_hold(struct pipeline *pl, struct job *job, const struct err *err)
{
	if (!pl->config.stays || job->recorded == JOB_NONE || err->code != ERR_UNAVAILABLE)
		return false;
	job->tell_ms = clock_ms() + TELL_MS;
	job_list_add(&pl->late, job);
	pl->late_untold++;
	return true;
}

static int write_end(struct pipeline *pl, struct job *job, struct err *err)
{
	enum job_state end = job->state;
	int r;

	job->state = job->recorded;
	r = job_record(pl, job, end, err);
	job->state = end;
	if (r >= 0)
		r = ledger_commit(pl->ledger, LEDGER_PROCESS, err);
	if (r < 0)
		ledger_abort(pl->ledger);
	return r;
}

static void tell(struct pipeline *pl, struct job *job)
{
	job->tell_ms = 0;
	pl->late_untold--;
	job->done(job->data, job);
}

static void leave(struct pipeline *pl, struct job *job)
{
	if (job->tell_ms)
		tell(pl, job);
	else
		late_free(pl, job);
}

/* Its own fault, which no wait mends. */
static bool is_hopeless(const struct err *err)
{
	return err->code == ERR_LIMIT || err->code == ERR_INVALID;
}

static void try_all(struct pipeline *pl, size_t most)
{
	for (size_t i = MIN2(pl->late.n, most); i > 0 && !ledger_in_group(pl->ledger); i--) {
		struct job *job = job_list_take(&pl->late);
		struct err err = { 0 };

		if (write_end(pl, job, &err) >= 0 || is_hopeless(&err)) {
			leave(pl, job);
			continue;
		}
		job_list_add(&pl->late, job);
		return;
	}
}

/* They have waited long enough; what is left of them stays in the list. */
static void tell_waiting(struct pipeline *pl, uint64_t now)
{
	struct err err = { 0 };
	struct job *next;

	(void)err_set(&err, ERR_UNAVAILABLE, EBUSY, "another process holds the ledger");
	for (struct job *job = pl->late.head; job && pl->late_untold; job = next) {
		next = job->next;
		if (!job->tell_ms || job->tell_ms > now)
			continue;
		job_list_remove(&pl->late, job);
		job_lose(pl, job, &err);
		tell(pl, job);
	}
}

void late_turn(struct pipeline *pl)
{
	uint64_t now = clock_ms();

	if (!pl->late.n || ledger_in_group(pl->ledger) ||
	    now - pl->late_ms < (pl->late_untold ? SOON_MS : RETRY_MS))
		return;
	try_all(pl, LATE_TURN);
	tell_waiting(pl, now);
	pl->late_ms = clock_ms();
}

void pipeline_last_try(struct pipeline *pl)
{
	if (!pl || !pl->late.n)
		return;
	ledger_set_patience(pl->ledger, PIPELINE_PATIENCE_MS);
	try_all(pl, LATE_MAX);
	tell_waiting(pl, UINT64_MAX);
}

void late_done(struct pipeline *pl)
{
	struct job *job;

	pipeline_last_try(pl);
	while ((job = job_list_take(&pl->late)))
		late_free(pl, job);
}
