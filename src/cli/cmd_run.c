/* SPDX-License-Identifier: Apache-2.0 */

/* brig run: options -> request -> the pipeline -> output, files, exit status. */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/remote_run.h"
#include "cli/run_options.h"
#include "model/result.h"
#include "pipeline/pipeline.h"

#define EXIT_TIMED_OUT 124
#define EXIT_FAILED    125
#define EXIT_REFUSED   126
#define EXIT_KILLED    137
#define EXIT_CANCELLED 130
#define EXIT_USAGE     2
#define WARM_MS        20000 /* to a box that waits; a zygote loads in it */

static void ignore(void *data, struct job *job)
{
	(void)data;
	(void)job;
}

static void set_fetch(const struct run_options *o, struct jail_fetch *fetch, struct job *job)
{
	for (size_t i = 0; i < o->n_outs; i++)
		fetch[i] = (struct jail_fetch){ o->outs[i].box, o->outs[i].host };
	job->io.fetch = fetch;
	job->io.n_fetch = o->n_outs;
}

/* A box is made for it, and only for it. */
static int execute(const struct run_options *o, const struct run_variant *v, struct run_io *io,
                   struct job *job)
{
	struct err *err = &job->result.error;
	struct executor_jail ex = { .base.ops = &executor_jail_ops,
		                    .launcher = v->launcher,
		                    .without = v->without };
	struct jail_fetch fetch[RUN_PAIRS_MAX];
	struct flow flow = { 0 };
	int r = io->cancel = open_cancel(err);

	if (r >= 0)
		r = flow_open(&flow, &o->flow, !o->json, &ex.base, err);
	if (r < 0)
		return r;
	job->request = o->req;
	job->done = ignore;
	job->io = (struct jail_io){ .out = o->json ? NULL : &io->sinks[0],
		                    .err = o->json ? NULL : &io->sinks[1],
		                    .cancel_fd = io->cancel };
	set_fetch(o, fetch, job);
	pipeline_submit(flow.pipeline, job);
	pipeline_wait(flow.pipeline, job, io->cancel);
	flow_close(&flow);
	return 0;
}

/* Live, up to the limit; what came after it is told at the end, as execute() does. */
struct live {
	struct run_io *io;
	const struct job *job;
	struct buf waiting[2]; /* for a reader that is slower than the code */
	size_t shown[2];       /* of what waits */
	uint64_t taken[2];     /* of the stream, shown or waiting */
	bool over;
};

static void note_over(void *data, struct job *job)
{
	(void)job;
	((struct live *)data)->over = true;
}

/* The limit is the judged request's: a policy may have lowered it. */
static void show(void *data, bool is_stderr, const char *bytes, size_t n)
{
	struct live *live = data;
	uint64_t max = live->job->effective.limits.output_bytes, *taken = &live->taken[is_stderr];

	n = (size_t)MIN2(n, max - MIN2(max, *taken));
	buf_put(&live->waiting[is_stderr], bytes, n);
	*taken += n;
}

static size_t n_waiting(const struct live *live, int i)
{
	return live->io->sinks[i].fd < 0 ? 0 : live->waiting[i].len - live->shown[i];
}

/* As much as the reader takes. */
static void flush_live(struct live *live)
{
	for (int i = 0; i < 2; i++) {
		ssize_t w = 1;

		while (w > 0 && n_waiting(live, i)) {
			w = sink_write(&live->io->sinks[i], live->waiting[i].data + live->shown[i],
			               n_waiting(live, i));
			live->shown[i] += w > 0 ? (size_t)w : 0;
		}
		if (live->shown[i] == live->waiting[i].len)
			live->shown[i] = live->waiting[i].len = 0;
	}
}

static void turn_until(struct pipeline *pl, struct job *job, struct live *live)
{
	const struct sink *sinks = live->io->sinks;

	while (!live->over) {
		struct pollfd p[] = { { pipeline_fd(pl), POLLIN, 0 },
			              { live->io->cancel, POLLIN, 0 },
			              { -1, POLLOUT, 0 },
			              { -1, POLLOUT, 0 } };

		pipeline_turn(pl);
		flush_live(live);
		if (live->over)
			break;
		for (int i = 0; i < 2; i++)
			p[2 + i].fd = n_waiting(live, i) ? sinks[i].fd : -1;
		(void)poll(p, ELEMENTSOF(p), job->state == JOB_RUNNING ? PIPELINE_TICK_MS : 1000);
		if (p[1].revents || sinks[0].error || sinks[1].error)
			pipeline_cancel(pl, job);
	}
}

/* All that waits, how much is missing, the end. */
static void show_rest(struct live *live, const struct result *res)
{
	const uint64_t dropped[] = { res->out_dropped, res->err_dropped };
	const struct buf *kept[] = { &res->out, &res->errout };
	int cancel = live->io->cancel;

	for (int i = 0; i < 2; i++) {
		struct sink *s = &live->io->sinks[i];

		if (n_waiting(live, i))
			(void)sink_write_all(s, live->waiting[i].data + live->shown[i],
			                     n_waiting(live, i), cancel);
		if (dropped[i])
			sink_finish(s, i ? "stderr" : "stdout",
			            kept[i]->len + dropped[i] - live->taken[i], kept[i], cancel);
	}
}

struct warm {
	struct pool *pool;
	int cancel;
};

/* The box of a warm run: made when the run is confirmed, and complete before it gets anything. */
static int make_waiting_box(void *data, const struct request *req, struct err *err)
{
	struct pool_shape shape = { .like = *req, .min = 1, .max = 1 };
	const struct warm *w = data;
	size_t index;
	int r;

	shape.like.n_args = shape.like.n_env = 0;
	r = pool_add_shape(w->pool, &shape, &index, err);
	if (r >= 0)
		r = pool_wait_ready(w->pool, index, 1, WARM_MS, w->cancel, err);
	if (r >= 0)
		pool_resize(w->pool, index, 0, 0); /* one is enough */
	return r;
}

static void run_warm(const struct run_options *o, struct pipeline *pl, struct run_io *io,
                     struct job *job)
{
	static struct live live;
	struct jail_fetch fetch[RUN_PAIRS_MAX];

	live.io = io;
	live.job = job;
	live.waiting[0] = live.waiting[1] = BUF_INIT(o->req.limits.output_bytes);
	job->request = o->req;
	job->done = note_over;
	job->data = &live;
	set_fetch(o, fetch, job);
	if (!o->json) {
		job->listen = show;
		job->listen_data = &live;
	}
	pipeline_submit(pl, job);
	turn_until(pl, job, &live);
	if (!o->json)
		show_rest(&live, &job->result);
	buf_done(&live.waiting[0]);
	buf_done(&live.waiting[1]);
}

/* As execute(), in a box that was complete before it was asked for anything. */
static int execute_warm(const struct run_options *o, const struct run_variant *v, struct run_io *io,
                        struct job *job)
{
	const struct pool_config config = { .launcher = v->launcher, .without = v->without };
	struct executor_pool ex = { .base.ops = &executor_pool_ops, .need = make_waiting_box };
	struct err *err = &job->result.error;
	struct flow flow = { 0 };
	int r = io->cancel = open_cancel(err);
	struct warm warm;

	if (r >= 0)
		r = pool_open(&config, &ex.pool, err);
	if (r < 0)
		return r;
	warm = (struct warm){ ex.pool, io->cancel };
	ex.data = &warm;
	r = flow_open(&flow, &o->flow, !o->json, &ex.base, err);
	if (r >= 0)
		run_warm(o, flow.pipeline, io, job);
	pool_close(ex.pool);
	flow_close(&flow);
	return r;
}

/* What the launcher did not understand is not the caller's usage. */
static int setup_status(enum err_code code)
{
	int status = code == ERR_NONE ? EXIT_FAILED : err_code_exit(code);

	return status == EXIT_USAGE ? EXIT_FAILED : status;
}

int run_status(const struct result *res)
{
	switch (res->state) {
	case RUN_FINISHED:
		/* A program that ended well while brig could not do its part (--out) did not end
		 * well. */
		return res->exit_code == 0 && res->error.code != ERR_NONE ? EXIT_FAILED
		                                                          : res->exit_code;
	case RUN_OUTPUT_LIMIT:
		return res->exit_code == 0 && res->not_fetched ? EXIT_FAILED : res->exit_code;
	case RUN_FAILED:
	case RUN_DISK_LIMIT:
		return res->exit_code;
	case RUN_TIMED_OUT:
		return EXIT_TIMED_OUT;
	case RUN_KILLED:
		return 128 + res->signal;
	case RUN_OOM:
		return EXIT_KILLED;
	case RUN_CANCELLED:
		return EXIT_CANCELLED;
	case RUN_REJECTED:
		return res->error.code == ERR_INVALID ? EXIT_USAGE : err_code_exit(res->error.code);
	case RUN_DENIED:
	case RUN_EXPIRED:
		return EXIT_REFUSED;
	case RUN_SETUP_FAILED:
		return setup_status(res->error.code);
	case RUN_LOST:
	case RUN_STATE_COUNT:
		return EXIT_FAILED;
	}
	return EXIT_FAILED;
}

/* `remote`: as the daemon gave it; empty: there was none, or it gave none. */
static int print_json(const struct result *res, const struct buf *remote, struct run_io *io)
{
	CLEANUP_BUF struct buf b = BUF_INIT(RESULT_JSON_MAX);
	int r = 0;

	if (remote->len)
		buf_put(&b, remote->data, remote->len);
	else
		r = result_to_json(res, &b);
	buf_putc(&b, '\n');
	if (r >= 0)
		r = buf_finish(&b);
	sink_open(&io->sinks[0], STDOUT_FILENO);
	return r < 0 ? r : sink_write_all(&io->sinks[0], b.data, b.len, io->cancel);
}

static int print_receipt(const struct result *res, const struct buf *remote)
{
	CLEANUP_BUF struct buf b = BUF_INIT(64 * KIB);
	int r;

	if (remote->len)
		remote_receipt(remote, &b);
	else if (receipt_to_json(&res->receipt, &b) >= 0)
		buf_putc(&b, '\n');
	r = buf_finish(&b);
	return r < 0 ? r : write_all(STDERR_FILENO, b.data, b.len);
}

/* The first that something went wrong with; 0: all was written. */
static int output_error(const struct run_io *io)
{
	return io->sinks[0].error ? io->sinks[0].error : io->sinks[1].error;
}

static int tell(const struct run_options *o, struct run_io *io, const struct job *job,
                const struct buf *remote)
{
	const struct result *res = &job->result;

	if (o->json && print_json(res, remote, io) < 0 && !output_error(io)) {
		(void)fprintf(stderr, "brig: the result could not be written\n");
		return EXIT_FAILED;
	}
	close_cancel(&io->cancel, output_error(io) ? EXIT_FAILED : run_status(res));
	if (output_error(io) == EINTR)
		return output_lost(EINTR); /* the errors' reader may be the one who does not read */
	if (*job->lowered && !o->json)
		(void)fprintf(stderr, "brig: the policy set other bounds: %s\n", job->lowered);
	if (!o->json && res->error.code != ERR_NONE)
		complain(&res->error);
	if (o->receipt && res->receipt.verified && print_receipt(res, remote) < 0)
		return EXIT_FAILED;
	return output_error(io) ? output_lost(output_error(io)) : run_status(res);
}

/* In the daemon, when there is one: 1 and all is in job->result. 0: here. */
static int execute_remotely(const struct run_options *o, const struct run_variant *v,
                            struct run_io *io, struct job *job, struct buf *ret_json)
{
	struct err *err = &job->result.error;
	struct client c;
	int r = v->launcher || v->without ? 0 : remote_find(o, &c, err);

	if (r <= 0) {
		job->result.state = err->code == ERR_INVALID ? RUN_REJECTED : RUN_SETUP_FAILED;
		return r < 0 ? 1 : 0;
	}
	r = remote_run(o, &c, io, &job->result, ret_json);
	client_done(&c);
	return r != -EILSEQ;
}

int run_main(int argc, char **argv, const struct run_variant *v)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP_BUF struct buf remote = BUF_INIT(0);
	static struct run_options o; /* large, and only one */
	static struct job job;
	struct run_io io = { { SINK_NONE, SINK_NONE }, FD_NONE };
	struct result *res = &job.result;
	int status, r;

	job_init(&job);
	r = execution_id_new(res->execution_id);
	if (r < 0) {
		(void)fprintf(stderr, "brig: no random numbers: %s\n", strerror(-r));
		return EXIT_FAILED;
	}
	r = run_options_parse(argc, argv, &arena, &o, &res->error);
	res->receipt.level_required = o.req.level;
	if (r >= 0 && o.help)
		return fputs(run_help, stdout) < 0 ? EXIT_FAILED : 0;
	if (r >= 0)
		r = load_request(&o, &arena, &res->error);
	for (int i = 0; i < 2 && !o.json; i++)
		sink_open(&io.sinks[i], STDOUT_FILENO + i);
	if (r < 0)
		res->state = RUN_REJECTED;
	else if (execute_remotely(&o, v, &io, &job, &remote) > 0)
		; /* res tells */
	else if ((o.warm ? execute_warm(&o, v, &io, &job) : execute(&o, v, &io, &job)) < 0)
		res->state = RUN_SETUP_FAILED;
	status = tell(&o, &io, &job, &remote);
	sink_close(&io.sinks[0]);
	sink_close(&io.sinks[1]);
	job_free_fields(&job);
	return status;
}

int cmd_run(int argc, char **argv)
{
	return run_main(argc, argv, &(struct run_variant){ 0 });
}
