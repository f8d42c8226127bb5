/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From the end of a run to its result: how it ended, what it wrote, what it left in the workspace.
 * All of that is as large as the code made it, so whatever is not small is done in a thread. The
 * workspace is the call's own by then: the box may go meanwhile.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "exec/workspace.h"
#include "pool/pool_impl.h"
#include "route/route.h"

#define SMALL_BYTES (64 * KIB) /* of output, that are read and written in a moment */
#define SMALL_FRAME (16 * KIB) /* so with frames: a value may have two bytes */
#define WALK_COST   500        /* so with what is in the workspace */

void call_set_error(struct pool_call *c, enum err_code code, const char *text)
{
	if (c->res->error.code == ERR_NONE)
		(void)err_set(&c->res->error, code, 0, "%s", text);
}

/* ---- how it ended ---------------------------------------------------------------------- */

/* A runner that could not say so in time has left with the status that it had said. */
static bool was_interrupted(const struct pool_call *c)
{
	int status = c->exit_report.wait_status, code = 128 + SIGINT;

	return c->report.exit_code == code && c->res->exception.type &&
	       streq(c->res->exception.type, "KeyboardInterrupt") &&
	       (c->report.done || (c->exited && WIFEXITED(status) && WEXITSTATUS(status) == code));
}

static enum run_state exit_state(struct pool_call *c)
{
	int status = c->exit_report.wait_status;

	if (was_interrupted(c)) {
		c->res->signal = SIGINT; /* what an interpreter that nobody stops dies of */
		return RUN_KILLED;
	}
	if (c->report.done) {
		c->res->has_exit_code = true;
		c->res->exit_code = c->report.exit_code;
	} else if (!c->exited) {
		return RUN_KILLED; /* by brig itself, mostly: that is no signal of the program's */
	} else if (WIFSIGNALED(status)) {
		c->res->signal = WTERMSIG(status);
		return RUN_KILLED;
	} else {
		c->res->has_exit_code = true;
		c->res->exit_code = WEXITSTATUS(status);
	}
	return c->res->exit_code == 0 ? RUN_FINISHED : RUN_FAILED;
}

/* The first that applies, from the most certain cause to the least. */
static enum run_state end_state(struct pool_call *c)
{
	enum run_state s = exit_state(c);

	if (c->usage.oom_kills || c->usage.memory_exceeded) {
		call_set_error(c, ERR_LIMIT, "the memory limit was reached");
		return RUN_OOM;
	}
	if (c->timed_out || c->usage.cpu_exceeded) {
		call_set_error(c, ERR_LIMIT,
		               c->timed_out ? "the wall time limit was reached"
		                            : "the processor time limit was reached");
		return RUN_TIMED_OUT;
	}
	if (c->cancelled && !c->exited && !c->report.done)
		return RUN_CANCELLED;
	if (s == RUN_FAILED && c->exit_report.disk_full) {
		call_set_error(c, ERR_LIMIT, "the disk or inode limit was reached");
		return RUN_DISK_LIMIT;
	}
	if (s == RUN_FINISHED && (output_dropped(&c->out) || output_dropped(&c->errout))) {
		call_set_error(c, ERR_LIMIT,
		               "the output limit was reached; the middle was dropped");
		return RUN_OUTPUT_LIMIT;
	}
	if (s == RUN_KILLED && !c->exited && !c->report.done) {
		c->res->signal = SIGKILL;
		call_set_error(c, ERR_INTERNAL, "the box was killed from outside");
	}
	return s;
}

static void fill_result(struct pool_call *c)
{
	struct result *res = c->res;
	uint64_t end = c->end_ns ? c->end_ns : clock_ns();
	const char *dropped = report_dropped(&c->report);

	res->state = end_state(c);
	if (dropped && !res->exception.type) /* why it failed is more */
		call_set_error(c, ERR_LIMIT, dropped);
	res->out_dropped = output_dropped(&c->out);
	res->err_dropped = output_dropped(&c->errout);
	res->usage = (struct usage){
		.wall_ms = (end - c->go_ns) / 1000000,
		.cpu_ms = c->usage.cpu_ns / 1000000,
		.peak_memory_bytes = c->usage.memory_peak,
		.pids_peak = c->usage.pids_peak ? c->usage.pids_peak : 1, /* nobody counted */
		.read_bytes = c->exit_report.read_bytes,
		.written_bytes = c->exit_report.written_bytes,
	};
}

/* ---- what it wrote and left ------------------------------------------------------------ */

static void fetch_files(struct pool_call *c)
{
	for (size_t i = 0; i < c->n_fetch && c->workspace >= 0; i++) {
		struct err err;

		if (workspace_fetch(c->workspace, c->fetch[i].box_path, c->fetch[i].host_path,
		                    &err) < 0)
			(void)result_not_fetched(c->res, &err);
	}
}

static void end_walk(struct pool_call *c)
{
	workspace_walk_free(c->walk);
	c->walk = NULL;
}

/* In any thread. */
static void finish_result(struct pool_call *c)
{
	if (c->walk)
		(void)workspace_walk_step(c->walk, UINT64_MAX);
	end_walk(c);
	fetch_files(c);
	if (output_finish(&c->out, &c->res->out) < 0 ||
	    output_finish(&c->errout, &c->res->errout) < 0)
		call_set_error(c, ERR_INTERNAL, "out of memory for the output");
	if (c->out.error || c->errout.error)
		call_set_error(c, ERR_INTERNAL, "the output could not be read to its end");
	output_done(&c->out);
	output_done(&c->errout);
	report_free(&c->report);
}

static void finish_large(struct pool_call *c)
{
	finish_result(c);
	if (c->prepare)
		c->prepare(c->prepare_data, c->res, c->workspace);
	c->workspace = fd_close(c->workspace);
}

/* Also looks at the beginning of the workspace, which mostly is all of it. */
static bool is_small(struct pool_call *c)
{
	if (c->out.kept.len + c->errout.kept.len + c->report.taken > SMALL_BYTES || c->n_fetch ||
	    c->prepare_always)
		return false;
	if (c->walk && !workspace_walk_step(c->walk, WALK_COST))
		return false;
	end_walk(c);
	return c->workspace < 0 || !workspace_is_large(c->workspace);
}

static void complete_failed(struct pool *p, struct pool_call *c)
{
	c->res->state = c->failed_state;
	if (c->res->error.code == ERR_NONE)
		c->res->error = c->failed_err;
	c->workspace = fd_close(c->workspace);
	call_give_back(p, c);
}

void call_complete(struct pool *p, struct pool_call *c)
{
	if (c->failed) {
		complete_failed(p, c);
		return;
	}
	fill_result(c);
	if (c->workspace >= 0) {
		c->walk = workspace_walk_new(c->workspace, c->req, route_script(c->req), c->res);
		if (!c->walk)
			c->res->files_truncated = true;
	}
	if (is_small(c)) {
		finish_result(c);
		c->workspace = fd_close(c->workspace);
		call_give_back(p, c);
		return;
	}
	c->work = (struct pool_work){ .call = c, .run = finish_large, .done = call_give_back };
	work_put(p, &c->work);
}

void call_give_back(struct pool *p, struct pool_call *c)
{
	if (c->state != CALL_QUEUED && !c->listening)
		p->unheard--;
	if (c->state == CALL_QUEUED)
		queue_del(p, c);
	else
		call_list_del(&p->running, c);
	p->freed = true;
	c->state = CALL_OVER;
	call_list_add(&p->over, c);
}

void pool_prepare(struct pool_call *call, pool_prepare_fn *prepare, void *data, bool always)
{
	call->prepare_always = always;
	call->prepare = prepare;
	call->prepare_data = data;
}

/* ---- what it says meanwhile ------------------------------------------------------------ */

static void parse(struct pool_call *c)
{
	report_take(&c->report, c->res);
}

bool call_parse(struct pool *p, struct pool_call *c, const char *bytes, size_t n)
{
	size_t waiting;

	if (!c->report.bytes.len && n <= SMALL_FRAME) {
		report_add(&c->report, bytes, n, c->res);
		return true;
	}
	report_put(&c->report, bytes, n);
	waiting = report_waiting(&c->report);
	if (waiting <= SMALL_FRAME || !p->works) {
		if (waiting)
			report_take(&c->report, c->res);
		return true;
	}
	c->parsing = true;
	c->work = (struct pool_work){ .call = c, .run = parse, .done = call_parsed };
	work_put(p, &c->work);
	return false;
}
