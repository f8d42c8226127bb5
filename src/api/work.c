/* SPDX-License-Identifier: Apache-2.0 */

/* What takes longer than a turn may, in a thread of libuv's: at most WORKS_MAX at once. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "api/impl.h"
#include "base/clock.h"
#include "base/fd.h"

#define DOCTOR_MS      60000 /* how long an answer of it is good for */
#define DOCTOR_RUN_MS  30000
#define DOCTOR_OUT_MAX (1 * MIB)

struct work {
	uv_work_t req;
	struct work *next;
	struct call *call; /* NULL: the api is gone */
	work_fn *fn;
	work_then *then; /* NULL: `out` is the answer */
	void *data;      /* freed at the end */
	struct buf out, *keep;
	uint64_t *keep_ms;
	struct err err;
	int r;
};

static void in_thread(uv_work_t *req)
{
	struct work *w = req->data;

	w->r = w->fn(w->data, &w->out, &w->err);
	if (w->r >= 0 && buf_finish(&w->out) < 0)
		w->r = err_set(&w->err, ERR_INTERNAL, ENOMEM, "an answer");
}

static void work_free(struct work *w)
{
	buf_done(&w->out);
	free(w->data);
	free(w);
}

void works_leave(struct api *api)
{
	struct work *w;

	while ((w = api->works)) {
		api->works = w->next;
		w->call->in_work = false;
		call_end(TAKE_PTR(w->call));
	}
}

static void unlink_work(struct api *api, struct work *w)
{
	struct work **at = &api->works;

	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
	api->n_works -= !w->then;
}

static void after(uv_work_t *req, int status)
{
	struct work *w = req->data;
	struct call *c = w->call;

	if (!c) {
		if (w->then)
			w->then(NULL, TAKE_PTR(w->data), -ECANCELED, &w->err);
		work_free(w);
		return;
	}
	unlink_work(c->api, w);
	c->in_work = false;
	if (w->then) {
		w->then(c, w->data, status < 0 ? status : w->r, &w->err);
		free(TAKE_PTR(w));
		return;
	}
	if (w->r >= 0 && w->keep && status >= 0) {
		buf_done(w->keep);
		*w->keep = BUF_INIT(w->out.max);
		buf_put(w->keep, w->out.data, w->out.len);
		*w->keep_ms = clock_ms();
	}
	if (!c->http) {
		call_end(c);
	} else if (w->r < 0 || status < 0) {
		answer_err(c, &w->err);
	} else {
		answer_json(c, 200, &w->out);
	}
	work_free(w);
}

static void queue(struct call *c, struct work *w)
{
	struct api *api = c->api;

	w->req.data = w;
	c->in_work = true;
	w->next = api->works;
	api->works = w;
	if (uv_queue_work(api->config.loop, &w->req, in_thread, after) < 0) {
		w->r = err_set(&w->err, ERR_INTERNAL, ENOMEM, "a thread");
		after(&w->req, 0);
	}
}

void call_work(struct call *c, work_fn *fn, void *data, struct buf *keep, uint64_t *keep_ms)
{
	struct api *api = c->api;
	struct work *w = api->n_works < WORKS_MAX ? calloc(1, sizeof(*w)) : NULL;

	if (!w) {
		free(data);
		answer_busy(c, 1000, "too much of this is under way");
		return;
	}
	*w = (struct work){ .call = c, .fn = fn, .data = data, .out = BUF_INIT(JSON_ANSWER_MAX) };
	w->keep = keep;
	w->keep_ms = keep_ms;
	api->n_works++;
	queue(c, w);
}

int call_work_then(struct call *c, work_fn *fn, work_then *then, void *data)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct work){ .call = c, .fn = fn, .then = then, .data = data };
	queue(c, w);
	return 0;
}

/* ---- the record ---- */

static void put_report(struct buf *out, const struct ledger_report *r)
{
	buf_printf(out,
	           "{\"ok\":%s,\"rows\":%llu,\"bodies\":%llu,\"first_seq\":%llu,\"last_seq\":%llu,"
	           "\"pruned\":%llu,\"lost\":%llu,\"bad_seq\":%llu,\"why\":",
	           r->ok ? "true" : "false", (unsigned long long)r->rows,
	           (unsigned long long)r->bodies, (unsigned long long)r->first_seq,
	           (unsigned long long)r->last_seq, (unsigned long long)r->pruned,
	           (unsigned long long)r->lost, (unsigned long long)r->bad_seq);
	if (r->ok)
		buf_puts(out, "null");
	else
		json_put_cstr(out, r->why);
	buf_putc(out, '}');
}

/* With a connection of its own: SQLite's are for one thread. */
static int verify(void *data, struct buf *out, struct err *err)
{
	struct ledger_report report = { 0 };
	struct ledger *l = NULL;
	const char *why;
	char id[EXECUTION_ID_SIZE];
	int r = ledger_open(data, &l, err);

	if (r >= 0)
		r = ledger_verify(l, &report, err);
	if (r >= 0) {
		why = report.ok ? confirm_verify(l, id) : NULL;
		if (why) {
			report.ok = false;
			(void)snprintf(report.why, sizeof(report.why), "%s", why);
		}
		put_report(out, &report);
	}
	ledger_close(l);
	return r;
}

void route_ledger_verify(struct api *api, struct call *c)
{
	char *dir = strdup(ledger_dir(pipeline_ledger(api->pl)));

	if (!dir)
		answer_error(c, ERR_INTERNAL, NULL, "out of memory");
	else
		call_work(c, verify, dir, NULL, NULL);
}

/* ---- the doctor: it forks and makes namespaces, which the daemon does not ---- */

static int spawn(const char *program, int out, pid_t *ret)
{
	char *const argv[] = { (char *)program, (char *)"doctor", (char *)"--json", NULL };
	posix_spawn_file_actions_t fa;
	int r = posix_spawn_file_actions_init(&fa);

	if (r)
		return -r;
	r = posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&fa, out, 1);
	if (!r)
		r = posix_spawn(ret, program, &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	return -r;
}

static int read_all(int fd, struct buf *out)
{
	uint64_t deadline = clock_ms() + DOCTOR_RUN_MS;
	char chunk[4096];

	while (clock_ms() < deadline && out->len < DOCTOR_OUT_MAX) {
		struct pollfd p = { fd, POLLIN, 0 };
		ssize_t n = poll(&p, 1, 200) > 0 ? read(fd, chunk, sizeof(chunk)) : -1;

		if (n == 0)
			return 0;
		if (n > 0)
			buf_put(out, chunk, (size_t)n);
	}
	return -ETIMEDOUT;
}

static int examine(void *data, struct buf *out, struct err *err)
{
	CLEANUP_FD int read_end = FD_NONE, write_end = FD_NONE;
	int ends[2], r;
	pid_t pid = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "a pipe");
	read_end = ends[0];
	write_end = ends[1];
	r = spawn(data, write_end, &pid);
	write_end = fd_close(write_end);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "start the doctor");
	r = read_all(read_end, out);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the doctor") : 0;
}

void route_doctor(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(DOCTOR_OUT_MAX);
	char *program;

	if (api->doctor.len && clock_ms() - api->doctor_ms < DOCTOR_MS) {
		buf_put(&b, api->doctor.data, api->doctor.len);
		answer_json(c, 200, &b);
		return;
	}
	program = api->config.brig ? strdup(api->config.brig) : NULL;
	if (!program)
		answer_error(c, ERR_INTERNAL, NULL, "the command brig is not there");
	else
		call_work(c, examine, program, &api->doctor, &api->doctor_ms);
}
