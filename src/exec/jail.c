/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "exec/output.h"
#include "exec/verify.h"
#include "exec/workspace.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

#define SETUP_MS       10000 /* to a complete, verified box */
#define KILL_MS        5000  /* from the kill to "everything is gone" */
#define READ_CHUNK     65536
#define LIVE_WAITING   65536 /* bytes that wait for a slow reader before the code does */
#define READS_PER_TURN 16    /* so that one flooding stream cannot starve the clock */

/* One output stream: captured, and copied on live when somebody listens. */
struct stream {
	int from;
	struct sink *live; /* NULL: nobody */
	struct output output;
	uint64_t live_sent; /* bytes handed to `waiting` */
	char waiting[LIVE_WAITING];
	size_t waiting_at, waiting_n;
};

enum phase { PHASE_SETUP = 0, PHASE_RUNNING, PHASE_ENDING, PHASE_OVER };

struct run {
	struct launcher *l;
	const struct request *req;
	const struct plan *plan;
	const struct jail_io *io;
	struct result *res;
	uint64_t id;
	struct box_fds fds;
	int workspace;
	enum phase phase;
	bool started, code_ready, init_ready, exited, ended, cancelled, timed_out;
	struct box_facts facts;
	struct box_report exit_report;
	struct launch_usage usage;
	uint64_t go_ns, end_ns, deadline_ms;
	size_t stdin_at;
	struct stream out, err;
};

/* ---- ends ------------------------------------------------------------------------------ */

static void kill_box(struct run *r)
{
	if (r->phase >= PHASE_ENDING)
		return;
	r->phase = PHASE_ENDING;
	r->deadline_ms = clock_ms() + KILL_MS;
	/* Both ways: the launcher may be stuck, and we may not be allowed to. */
	if (r->fds.pidfd >= 0)
		(void)sys_pidfd_kill(r->fds.pidfd, SIGKILL);
	(void)launcher_kill(r->l, r->id);
}

static void setup_failed(struct run *r)
{
	r->res->state = RUN_SETUP_FAILED;
	kill_box(r);
}

static void launcher_lost(struct run *r)
{
	(void)err_set(&r->res->error, ERR_INTERNAL, EPIPE, "the launcher died");
	r->res->state = r->go_ns ? RUN_LOST : RUN_SETUP_FAILED;
	r->ended = true; /* its boxes die by their parent-death signal */
	r->phase = PHASE_OVER;
	/* But for one that had not armed it when the launcher died: it waits for our word. */
	(void)shutdown(r->fds.control, SHUT_WR);
	launcher_clean_up(&r->fds);
}

/* ---- set-up ---------------------------------------------------------------------------- */

/* Everybody said ready: look, then let it go. Nothing of the user's ran before this line. */
static void release(struct run *r)
{
	const char go = BOX_GO;

	if (verify_box(r->plan, &r->facts, &r->res->receipt, &r->res->error) < 0) {
		setup_failed(r);
		return;
	}
	r->go_ns = clock_ns();
	/* The millisecond that has begun is not the program's. */
	r->deadline_ms = clock_ms() + 1 + r->req->limits.timeout_ms;
	r->phase = PHASE_RUNNING;
	if (send(r->fds.control, &go, 1, MSG_NOSIGNAL) != 1) {
		(void)err_set(&r->res->error, ERR_SETUP, errno, "release the box");
		r->go_ns = 0;
		setup_failed(r);
	}
}

static void maybe_release(struct run *r)
{
	if (r->phase == PHASE_SETUP && r->started && r->code_ready && r->init_ready)
		release(r);
}

static void on_report(struct run *r, const struct box_report *rep, struct sock_msg *msg)
{
	switch ((enum box_kind)rep->kind) {
	case BOX_FAILED:
		if (r->res->error.code == ERR_NONE) /* the first names the cause */
			r->res->error = rep->err;
		r->go_ns = 0; /* also when exec itself failed: the program never started */
		setup_failed(r);
		break;
	case BOX_CODE_READY:
		if (r->code_ready || msg->n_fds != 1)
			break;
		r->code_ready = true;
		r->facts.code_ready = *rep;
		r->facts.code_pid = msg->pid;
		r->workspace = fd_take(&msg->fds[0]);
		break;
	case BOX_INIT_READY:
		r->init_ready = true;
		r->facts.init_ready = *rep;
		r->facts.init_pid = msg->pid;
		break;
	case BOX_EXITED:
		r->exited = true;
		r->exit_report = *rep;
		r->end_ns = clock_ns();
		break;
	case BOX_NONE:
		break;
	}
	maybe_release(r);
}

static void on_control(struct run *r)
{
	struct box_report rep;
	struct sock_msg msg;
	int e = sock_recv(r->fds.control, &rep, sizeof(rep), MSG_DONTWAIT, &msg);

	if (e == -EAGAIN)
		return;
	if (e < 0 || msg.len == 0) {
		r->fds.control = fd_close(r->fds.control);
		return;
	}
	if (msg.len == sizeof(rep))
		on_report(r, &rep, &msg);
	sock_msg_close(&msg);
}

static void on_launcher(struct run *r)
{
	struct launch_reply reply;
	int pidfd, e = launcher_recv(r->l, &reply, &pidfd);

	if (e < 0) {
		launcher_lost(r);
		return;
	}
	if (reply.kind == LAUNCH_STARTED && reply.id == r->id) {
		r->started = true;
		r->facts.started = reply;
		r->fds.pidfd = fd_take(&pidfd);
		maybe_release(r);
	} else if (reply.kind == LAUNCH_FAILED) {
		r->res->error = reply.err;
		r->res->state = RUN_SETUP_FAILED;
		r->ended = true;
	} else if (reply.kind == LAUNCH_ENDED && reply.id == r->id) {
		r->usage = reply.usage;
		r->ended = true;
	}
	(void)fd_close(pidfd);
}

/* ---- streams --------------------------------------------------------------------------- */

static bool is_shown(const struct stream *s)
{
	return s->live && s->live->fd >= 0;
}

/* Live copies stop at the limit; finish_live() shows the end of what came after. */
static void queue_live(struct stream *s, const char *p, size_t n)
{
	uint64_t room = s->output.limit > s->live_sent ? s->output.limit - s->live_sent : 0;

	if (!is_shown(s))
		return;
	n = MIN2(n, room);
	if (s->waiting_at) {
		memmove(s->waiting, s->waiting + s->waiting_at, s->waiting_n - s->waiting_at);
		s->waiting_n -= s->waiting_at;
		s->waiting_at = 0;
	}
	memcpy(s->waiting + s->waiting_n, p, n); /* fits: wants_read() keeps a chunk free */
	s->waiting_n += n;
	s->live_sent += n;
}

static bool has_waiting(const struct stream *s)
{
	return is_shown(s) && s->waiting_n > s->waiting_at;
}

static bool wants_read(const struct stream *s)
{
	return s->from >= 0 && !has_waiting(s);
}

static void write_live(struct stream *s)
{
	ssize_t w = sink_write(s->live, s->waiting + s->waiting_at, s->waiting_n - s->waiting_at);

	if (w > 0)
		s->waiting_at += (size_t)w;
	if (s->waiting_at == s->waiting_n)
		s->waiting_at = s->waiting_n = 0;
}

/* However long it takes the reader. */
static void write_rest(struct stream *s, int cancel_fd)
{
	if (has_waiting(s))
		(void)sink_write_all(s->live, s->waiting + s->waiting_at,
		                     s->waiting_n - s->waiting_at, cancel_fd);
	s->waiting_at = s->waiting_n = 0;
}

static void read_stream(struct stream *s)
{
	static char chunk[READ_CHUNK]; /* not on the stack: a caller's limit may be small */

	for (int i = 0; i < READS_PER_TURN && wants_read(s); i++) {
		ssize_t n = read(s->from, chunk, sizeof(chunk));

		if (n > 0) {
			output_add(&s->output, chunk, (size_t)n);
			queue_live(s, chunk, (size_t)n);
		} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
			s->output.error = n < 0 ? -errno : 0;
			s->from = FD_NONE; /* closed with the box's descriptors */
		} else {
			return;
		}
	}
}

static void write_stdin(struct run *r)
{
	const struct str *data = &r->req->stdin_data;

	if (r->stdin_at < data->n) {
		ssize_t n = write(r->fds.in, data->p + r->stdin_at, data->n - r->stdin_at);

		if (n > 0)
			r->stdin_at += (size_t)n;
		else if (errno == EAGAIN || errno == EINTR)
			return;
		else
			r->stdin_at = data->n; /* nobody reads it */
	}
	if (r->stdin_at >= data->n)
		r->fds.in = fd_close(r->fds.in);
}

/* ---- the loop -------------------------------------------------------------------------- */

enum { P_LAUNCHER, P_CONTROL, P_CANCEL, P_OUT, P_ERR, P_IN, P_LIVE_OUT, P_LIVE_ERR, P_COUNT };

static void want(struct pollfd *p, int fd, short events, bool wanted)
{
	*p = (struct pollfd){ .fd = wanted ? fd : -1, .events = events };
}

static int poll_timeout(const struct run *r)
{
	uint64_t now = clock_ms();
	uint64_t left = r->deadline_ms > now ? r->deadline_ms - now : 0;

	return left > INT_MAX ? INT_MAX : (int)left;
}

static void on_deadline(struct run *r)
{
	switch (r->phase) {
	case PHASE_SETUP:
		(void)err_set(&r->res->error, ERR_SETUP, ETIMEDOUT, "the box was not ready in %d s",
		              SETUP_MS / 1000);
		setup_failed(r);
		break;
	case PHASE_RUNNING:
		r->timed_out = !r->exited;
		kill_box(r);
		break;
	case PHASE_ENDING:
		(void)err_set(&r->res->error, ERR_INTERNAL, ETIMEDOUT, "the box does not end");
		r->phase = PHASE_OVER;
		break;
	case PHASE_OVER:
		break;
	}
}

static void on_cancel(struct run *r)
{
	r->cancelled = true;
	if (!r->exited)
		kill_box(r);
}

static void want_live(struct pollfd *p, const struct stream *s)
{
	bool wanted = has_waiting(s);

	want(p, wanted ? s->live->fd : -1, POLLOUT, wanted);
}

/* A pipeline whose reader left is over, as for any other program. */
static bool is_lost(const struct stream *s)
{
	return s->live && s->live->error;
}

static void turn(struct run *r)
{
	struct pollfd p[P_COUNT];
	bool running = r->phase >= PHASE_RUNNING;

	want(&p[P_LAUNCHER], r->l->sock, POLLIN, !r->ended);
	want(&p[P_CONTROL], r->fds.control, POLLIN, r->fds.control >= 0);
	want(&p[P_CANCEL], r->io->cancel_fd, POLLIN, r->io->cancel_fd >= 0 && !r->cancelled);
	want(&p[P_OUT], r->out.from, POLLIN, wants_read(&r->out));
	want(&p[P_ERR], r->err.from, POLLIN, wants_read(&r->err));
	want(&p[P_IN], r->fds.in, POLLOUT, running && r->fds.in >= 0);
	want_live(&p[P_LIVE_OUT], &r->out);
	want_live(&p[P_LIVE_ERR], &r->err);
	if (poll(p, P_COUNT, poll_timeout(r)) < 0 && errno != EINTR)
		launcher_lost(r);
	if (p[P_CONTROL].revents)
		on_control(r);
	if (p[P_OUT].revents)
		read_stream(&r->out);
	if (p[P_ERR].revents)
		read_stream(&r->err);
	if (p[P_IN].revents)
		write_stdin(r);
	if (p[P_LIVE_OUT].revents)
		write_live(&r->out);
	if (p[P_LIVE_ERR].revents)
		write_live(&r->err);
	if (p[P_CANCEL].revents || ((is_lost(&r->out) || is_lost(&r->err)) && !r->cancelled))
		on_cancel(r);
	if (p[P_LAUNCHER].revents)
		on_launcher(r);
	if (!r->ended && clock_ms() >= r->deadline_ms)
		on_deadline(r);
}

/* What was not written until now is not waited for. */
static void end_if_empty(struct stream *s)
{
	int n = s->from < 0 ? 1 : poll(&(struct pollfd){ s->from, POLLIN, 0 }, 1, 0);

	if (n > 0 || (n < 0 && errno == EINTR))
		return;
	s->output.error = n < 0 ? -errno : 0;
	s->from = FD_NONE;
}

/* Everything is dead: what is still in the pipes is all there will ever be. */
static void drain(struct run *r)
{
	struct stream *const streams[] = { &r->out, &r->err };

	while (r->fds.control >= 0 && !r->exited &&
	       poll(&(struct pollfd){ r->fds.control, POLLIN, 0 }, 1, 0) > 0)
		on_control(r);
	if (!r->end_ns)
		r->end_ns = clock_ns(); /* the reader's time is not the program's */
	for (size_t i = 0; i < ELEMENTSOF(streams); i++) {
		struct stream *s = streams[i];

		while (s->from >= 0 || has_waiting(s)) {
			write_rest(s, r->io->cancel_fd);
			end_if_empty(s);
			read_stream(s);
		}
	}
}

/* ---- the result ------------------------------------------------------------------------ */

static void set_error(struct run *r, enum err_code code, const char *text)
{
	if (r->res->error.code == ERR_NONE)
		(void)err_set(&r->res->error, code, 0, "%s", text);
}

static enum run_state exit_state(struct run *r)
{
	int status = r->exit_report.wait_status;

	if (WIFSIGNALED(status)) {
		r->res->signal = WTERMSIG(status);
		return RUN_KILLED;
	}
	r->res->has_exit_code = true;
	r->res->exit_code = WEXITSTATUS(status);
	return r->res->exit_code == 0 ? RUN_FINISHED : RUN_FAILED;
}

/* The first that applies, from the most certain cause to the least. */
static enum run_state end_state(struct run *r)
{
	enum run_state s;

	if (!r->go_ns) {
		if (!r->cancelled)
			set_error(r, ERR_SETUP, "the box ended before it was ready");
		return r->cancelled ? RUN_CANCELLED : RUN_SETUP_FAILED;
	}
	if (r->res->state == RUN_LOST)
		return RUN_LOST;
	s = r->exited ? exit_state(r) : RUN_KILLED;
	if (r->usage.oom_kills || r->usage.memory_exceeded) {
		set_error(r, ERR_LIMIT, "the memory limit was reached");
		return RUN_OOM;
	}
	if (r->timed_out) {
		set_error(r, ERR_LIMIT, "the wall time limit was reached");
		return RUN_TIMED_OUT;
	}
	if (r->usage.cpu_exceeded) {
		set_error(r, ERR_LIMIT, "the processor time limit was reached");
		return RUN_TIMED_OUT;
	}
	if (r->cancelled && !r->exited)
		return RUN_CANCELLED;
	if (!r->exited) {
		r->res->signal = SIGKILL;
		set_error(r, ERR_INTERNAL, "the box was killed from outside");
	}
	if (s == RUN_FAILED && r->exit_report.disk_full) {
		set_error(r, ERR_LIMIT, "the disk or inode limit was reached");
		return RUN_DISK_LIMIT;
	}
	if (s == RUN_FINISHED &&
	    (output_dropped(&r->out.output) || output_dropped(&r->err.output))) {
		set_error(r, ERR_LIMIT, "the output limit was reached; the middle was dropped");
		return RUN_OUTPUT_LIMIT;
	}
	return s;
}

/* What was not shown live: how much is missing, then the end. */
static void finish_live(const struct stream *s, const struct buf *kept, const char *name,
                        int cancel_fd)
{
	if (is_shown(s))
		sink_finish(s->live, name, s->output.total - s->live_sent, kept, cancel_fd);
}

static void fetch_files(struct run *r)
{
	for (size_t i = 0; i < r->io->n_fetch; i++) {
		const struct jail_fetch *f = &r->io->fetch[i];
		struct err err;

		if (workspace_fetch(r->workspace, f->box_path, f->host_path, &err) < 0)
			(void)result_not_fetched(r->res, &err);
	}
}

static void finish(struct run *r)
{
	struct result *res = r->res;

	res->state = end_state(r);
	res->out_dropped = output_dropped(&r->out.output);
	res->err_dropped = output_dropped(&r->err.output);
	if (output_finish(&r->out.output, &res->out) < 0 ||
	    output_finish(&r->err.output, &res->errout) < 0)
		set_error(r, ERR_INTERNAL, "out of memory for the output");
	if (r->out.output.error || r->err.output.error)
		set_error(r, ERR_INTERNAL, "the output could not be read to its end");
	finish_live(&r->out, &res->out, "stdout", r->io->cancel_fd);
	finish_live(&r->err, &res->errout, "stderr", r->io->cancel_fd);
	res->usage = (struct usage){
		.wall_ms = r->go_ns ? (r->end_ns - r->go_ns) / 1000000 : 0,
		.cpu_ms = r->usage.cpu_ns / 1000000,
		.peak_memory_bytes = r->usage.memory_peak,
		.pids_peak = r->usage.pids_peak,
		.read_bytes = r->exit_report.read_bytes,
		.written_bytes = r->exit_report.written_bytes,
	};
	if (r->workspace >= 0 && r->go_ns) {
		(void)workspace_changes(r->workspace, r->req, r->plan->script, res);
		fetch_files(r);
	}
}

static void carry(struct run *r)
{
	r->deadline_ms = clock_ms() + SETUP_MS;
	while (!r->ended && r->phase != PHASE_OVER)
		turn(r);
	drain(r);
}

void jail_run(struct launcher *l, const struct request *req, const struct plan *plan,
              const struct jail_io *io, struct result *res)
{
	CLEANUP_FREE struct run *r = calloc(1, sizeof(*r));

	if (!r) {
		(void)err_set(&res->error, ERR_INTERNAL, ENOMEM, "run");
		return;
	}
	r->l = l;
	r->req = req;
	r->plan = plan;
	r->io = io;
	r->res = res;
	r->workspace = FD_NONE;
	box_fds_init(&r->fds);
	receipt_start(plan, req->level, &res->receipt);
	if (launcher_send(l, plan, &r->id, &r->fds, &res->error) < 0)
		return;
	verify_prepare();
	output_init(&r->out.output, req->limits.output_bytes);
	output_init(&r->err.output, req->limits.output_bytes);
	r->out.from = r->fds.out;
	r->err.from = r->fds.errout;
	r->out.live = io->out;
	r->err.live = io->err;
	carry(r);
	finish(r);
	output_done(&r->out.output);
	output_done(&r->err.output);
	box_fds_close(&r->fds);
	(void)fd_close(r->workspace);
}
