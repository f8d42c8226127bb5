/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One request in a box that waits: its files are placed, its streams attached, the code sent. It
 * is over when the program says so or its process ended, whichever comes first; the box is killed
 * after that, while the result is already on its way. A run that had to be stopped is over when
 * everything of it is gone.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/workspace.h"
#include "pool/pool_impl.h"
#include "route/route.h"

#define READ_CHUNK     65536
#define READS_PER_TURN 16 /* of all streams together, so that floods do not hold up others */

static uint32_t index_of(const struct pool *p, const struct box *b)
{
	return (uint32_t)(b - p->boxes);
}

/* ---- claim ----------------------------------------------------------------------------- */

/*
 * Output wakes us for every line, and each time the program waits: a short one is better left
 * alone, the pipes hold what it writes. After LISTEN_AFTER ms we read as it comes.
 */
static int observe_streams(struct pool *p, struct pool_call *c, struct box *b)
{
	uint32_t i = index_of(p, b);
	int r = 0;

	if (c->req->language == LANGUAGE_PYTHON && !(b->prepared && b->prepared->streams))
		r = pool_observe(p, b->report, EPOLLIN, TAG_REPORT, i);
	if (!c->req->stdin_data.n)
		b->in = fd_close(b->in);
	else if (r >= 0)
		r = pool_observe(p, b->in, EPOLLOUT, TAG_IN, i);
	return r;
}

static void listen_now(struct pool *p, struct pool_call *c)
{
	struct box *b = &p->boxes[c->box];

	if (c->listening)
		return;
	c->listening = true;
	p->unheard--;
	if (b->out >= 0)
		(void)pool_observe(p, b->out, EPOLLIN, TAG_OUT, c->box);
	if (b->errout >= 0)
		(void)pool_observe(p, b->errout, EPOLLIN, TAG_ERR, c->box);
}

void call_listen(struct pool *p, struct pool_call *c, uint64_t now)
{
	if (c->state == CALL_RUNNING && now - c->go_ns >= (uint64_t)LISTEN_AFTER * 1000000)
		listen_now(p, c);
}

static int attach(struct pool *p, struct pool_call *c, struct box *b, struct err *err)
{
	int theirs[LAUNCH_FDS], r;
	bool streams_there = b->report >= 0;

	for (int i = 0; i < LAUNCH_FDS; i++)
		theirs[i] = b->prepared ? fd_take(&b->prepared->theirs[i]) : FD_NONE;
	r = prepare_script(p, b, c->req);
	r = workspace_place(b->workspace, c->req, route_script(c->req), r == 0, b->code_uid, err);
	if (r >= 0 && !streams_there)
		r = prepare_streams(b, theirs);
	if (r < 0) {
		launcher_close(theirs);
		return err->code ? r : err_set(err, ERR_SETUP, -r, "make the run's streams");
	}
	if (r >= 0)
		r = observe_streams(p, c, b);
	c->go_ns = clock_ns();
	if (r >= 0)
		r = message_send(p, c, b, theirs);
	launcher_close(theirs);
	return r < 0 ? err_set(err, ERR_SETUP, -r, "hand the run to the box") : 0;
}

void call_claim(struct pool *p, struct pool_call *c, struct box *b)
{
	struct err err = { 0 };

	b->call = c;
	c->box = index_of(p, b);
	b->state = WARM_RUNNING;
	b->since_ns = c->claim_ns = clock_ns();
	if (c->ret_claim_ns)
		*c->ret_claim_ns = c->claim_ns;
	if (c->state == CALL_QUEUED)
		queue_del(p, c);
	c->state = CALL_RUNNING;
	call_list_add(&p->running, c);
	p->unheard++;
	p->shapes[b->shape].claimed++;
	p->shapes[b->shape].claimed_ns = p->claimed_ns = b->since_ns;
	c->workspace = FD_NONE;
	report_init(&c->report);
	output_init(&c->out, c->req->limits.output_bytes);
	output_init(&c->errout, c->req->limits.output_bytes);
	c->res->receipt = b->receipt;
	c->res->receipt.level_required = c->req->level;
	if (attach(p, c, b, &err) < 0) {
		c->go_ns = 0;
		call_fail(p, c, RUN_SETUP_FAILED, &err);
	}
}

/* ---- streams --------------------------------------------------------------------------- */

static void take_output(struct pool_call *c, struct output *to, const char *p, size_t n)
{
	output_add(to, p, n);
	if (c->listener)
		c->listener(c->listener_data, to == &c->errout, p, n);
}

static void read_stream(struct pool_call *c, int *fd, struct output *to, int reads)
{
	static char chunk[READ_CHUNK];

	for (int i = 0; i < reads && *fd >= 0; i++) {
		ssize_t n = read(*fd, chunk, sizeof(chunk));

		if (n > 0)
			take_output(c, to, chunk, (size_t)n);
		else if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		else {
			to->error = n < 0 ? -errno : 0;
			*fd = fd_close(*fd);
		}
	}
}

static void write_stdin(struct pool_call *c, struct box *b)
{
	const struct str *data = &c->req->stdin_data;
	ssize_t n = write(b->in, data->p + c->stdin_at, data->n - c->stdin_at);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->stdin_at += (size_t)n;
	if (n <= 0 || c->stdin_at >= data->n)
		b->in = fd_close(b->in);
}

void call_on_stream(struct pool *p, struct pool_call *c, enum pool_tag tag)
{
	struct box *b = &p->boxes[c->box];
	int reads = MAX2(READS_PER_TURN / (int)MAX2(p->running.n, 1u), 1);

	if (tag == TAG_OUT)
		read_stream(c, &b->out, &c->out, reads);
	else if (tag == TAG_ERR)
		read_stream(c, &b->errout, &c->errout, reads);
	else if (b->in >= 0)
		write_stdin(c, b);
}

/* ---- the end --------------------------------------------------------------------------- */

/* What is there now: whoever is left in the box may write for ever. */
static void read_rest(struct pool_call *c, int *fd, struct output *to)
{
	int there = 0;

	if (*fd >= 0 && ioctl(*fd, FIONREAD, &there) < 0)
		to->error = -errno;
	else if (there > 0)
		read_stream(c, fd, to, there / READ_CHUNK + 1);
}

/* Everything is known of the box, and it goes away; what it left is the call's. */
static void leave(struct pool *p, struct pool_call *c, struct box *b, bool gone)
{
	read_rest(c, &b->out, &c->out);
	read_rest(c, &b->errout, &c->errout);
	usage_subtract(b, &c->usage, &c->exit_report);
	c->workspace = fd_take(&b->workspace);
	c->state = CALL_AFTER;
	b->call = NULL;
	if (gone)
		box_close_streams(b);
	else
		spent_add(p, b);
	if (!c->parsing)
		call_complete(p, c);
}

void call_fail(struct pool *p, struct pool_call *c, enum run_state state, const struct err *err)
{
	struct box *b = c->box == NO_BOX ? NULL : &p->boxes[c->box];

	c->failed = true;
	c->failed_state = state;
	c->failed_err = *err;
	if (c->state == CALL_QUEUED)
		c->workspace = FD_NONE;
	else
		c->state = CALL_AFTER;
	if (b && b->call == c) {
		b->call = NULL;
		box_close_streams(b);
		box_kill(p, b);
	}
	if (!c->parsing)
		call_complete(p, c);
}

/* The program is over. What it wrote is in the pipes; what it used is still on record. */
static void finish_live(struct pool *p, struct pool_call *c)
{
	struct box *b = &p->boxes[c->box];
	struct box_report ignored; /* init counted it all */
	struct statvfs st;
	bool alone = false;

	c->end_ns = clock_ns();
	/*
	 * What other processes of it still write would be read half done, and a file that is copied
	 * out must not change meanwhile: then everything has to be gone first. So when the box is
	 * going already: the launcher has the numbers.
	 */
	if (!c->exited && c->report.exit_code && fstatvfs(b->workspace, &st) == 0)
		c->exit_report.disk_full = st.f_bavail == 0 || st.f_ffree == 0;
	if (c->n_fetch || c->prepare_always ||
	    !usage_read(p, b, &c->usage, c->exited ? &ignored : &c->exit_report, &alone) ||
	    (!c->exited && !alone)) {
		c->state = CALL_KILLED;
		box_kill(p, b);
		return;
	}
	leave(p, c, b, false);
}

/* 1: bytes were taken; 0: there are none, or the end; -EINPROGRESS: a thread reads them. */
static int read_report(struct pool *p, struct pool_call *c, struct box *b)
{
	static char chunk[READ_CHUNK];
	ssize_t n = read(b->report, chunk, sizeof(chunk));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		b->report = fd_close(b->report);
		return 0;
	}
	if (call_parse(p, c, chunk, (size_t)n))
		return 1;
	(void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, b->report, NULL); /* until it has read */
	return -EINPROGRESS;
}

void call_on_report(struct pool *p, struct pool_call *c)
{
	struct box *b = &p->boxes[c->box];

	if (c->parsing || b->report < 0)
		return;
	if (c->text.len) {
		message_more(c, b); /* how it ends is heard from init */
		return;
	}
	if (read_report(p, c, b) > 0 && c->report.done && c->state == CALL_RUNNING)
		finish_live(p, c);
}

/* Its process ended; what it said before that may still be on its way. */
static void finish_exited(struct pool *p, struct pool_call *c)
{
	struct box *b = &p->boxes[c->box];
	int there = 0, r = 1;

	if (b->report >= 0)
		(void)ioctl(b->report, FIONREAD, &there);
	for (int i = 0; i <= there / READ_CHUNK && b->report >= 0 && !c->report.done && r > 0; i++)
		r = read_report(p, c, b);
	if (c->parsing)
		return;
	c->report.done = false; /* how it really ended is what counts */
	finish_live(p, c);
}

void call_on_exit(struct pool *p, struct pool_call *c, const struct box_report *rep)
{
	c->exited = true;
	c->exit_report = *rep;
	if (c->state == CALL_RUNNING && !c->parsing)
		finish_exited(p, c);
}

void call_parsed(struct pool *p, struct pool_call *c)
{
	struct box *b = &p->boxes[c->box];

	c->parsing = false;
	if (c->state == CALL_AFTER) {
		call_complete(p, c);
	} else if (c->state == CALL_RUNNING && c->exited) {
		finish_exited(p, c);
	} else if (c->state == CALL_RUNNING && c->report.done) {
		finish_live(p, c);
	} else if (c->state == CALL_RUNNING && b->report >= 0) {
		(void)pool_observe(p, b->report, EPOLLIN, TAG_REPORT, c->box);
	}
}

void call_on_end(struct pool *p, struct pool_call *c, const struct launch_usage *usage)
{
	const struct launch_usage seen =
		c->usage; /* while it was alive; without cgroups it is more */

	c->usage = *usage;
	c->usage.cpu_ns = MAX2(usage->cpu_ns, seen.cpu_ns);
	c->usage.memory_peak = MAX2(usage->memory_peak, seen.memory_peak);
	c->usage.pids_peak = MAX2(usage->pids_peak, seen.pids_peak);
	if (!c->end_ns)
		c->end_ns = clock_ns();
	if (p->lost) {
		c->failed = true;
		c->failed_state = RUN_LOST;
		(void)err_set(&c->failed_err, ERR_INTERNAL, EPIPE, "the launcher died");
	}
	leave(p, c, &p->boxes[c->box], true);
}

/* ---- time ------------------------------------------------------------------------------ */

static void stop(struct pool *p, struct pool_call *c)
{
	c->state = CALL_KILLED;
	c->end_ns = clock_ns();
	box_kill(p, &p->boxes[c->box]);
	p->boxes[c->box].call = c; /* it waits for the end */
}

/* The launcher is stuck: whoever waits for the result does not wait for it. */
static void give_up(struct pool *p, struct pool_call *c)
{
	struct box *b = &p->boxes[c->box];

	if (c->parsing)
		return;
	call_set_error(c, ERR_INTERNAL, "the box does not end");
	leave(p, c, b, true);
}

void call_tick(struct pool *p, struct pool_call *c, uint64_t now)
{
	uint64_t ran_ms = (now - c->go_ns) / 1000000;
	struct launch_call watch = { .kind = LAUNCH_WATCH, .id = p->boxes[c->box].id };

	if (c->state == CALL_KILLED && (now - c->end_ns) / 1000000 >= KILL_MS)
		give_up(p, c);
	if (c->state != CALL_RUNNING)
		return;
	if (ran_ms >= c->req->limits.timeout_ms || c->cancelled) {
		c->timed_out = !c->cancelled;
		stop(p, c);
	} else if (!c->watched && ran_ms >= WATCH_AFTER) {
		c->watched = launcher_call(&p->launcher, &watch, NULL) >= 0;
	}
}

void call_free(struct pool_call *c)
{
	output_done(&c->out);
	output_done(&c->errout);
	report_free(&c->report);
	buf_done(&c->text);
	free(c);
}
