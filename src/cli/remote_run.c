/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote_run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/follow.h"
#include "cli/question.h"

#define FAST_MS     50 /* a run this short needs no second request */
#define QUIET_MS    1000
#define ASK_MS      1000        /* that the daemon may wait for the end of what was cancelled */
#define END_MS      15000       /* from Ctrl-C to the end of the run */
#define JSON_EXTRA  (192 * MIB) /* of a result beside stdout and stderr */
#define ESCAPED_MAX 6           /* bytes of JSON for one of output */

struct remote {
	const struct run_options *o;
	struct run_io *io;
	struct follow follow;
	struct desk desk;
	struct channel *terminal;
	char caller[ACTOR_SIZE];
	char asked[EXECUTION_ID_SIZE]; /* that was put to somebody */
	uint64_t begin_ms, cancelled_ms;
};

/* What the daemon's owner has settled is not the caller's to choose, nor who says yes. */
int remote_find(const struct run_options *o, struct client *ret, struct err *err)
{
	const struct flow_options *f = &o->flow;
	const char *policy = getenv("BRIG_POLICY");
	const char *only = f->policy                   ? "--policy"
	                   : f->state_dir              ? "--state-dir"
	                   : f->no_record              ? "--no-record"
	                   : f->confirm != CONFIRM_ASK ? "--confirm"
	                   : policy && *policy         ? "BRIG_POLICY"
	                                               : NULL;
	int r = client_find(o->host, only != NULL, ret, err);

	if (r <= 0 || !only)
		return r;
	client_done(ret);
	(void)err_set(err, ERR_UNSUPPORTED, 0, "%s: not in a daemon", only);
	return err_remedy(err, -EOPNOTSUPP, "leave it out, or say --host none");
}

/* ---- somebody is asked ---- */

static void ask(struct remote *m)
{
	struct approval a;
	struct err err = { 0 };

	memcpy(m->asked, m->follow.approval, sizeof(m->asked));
	progress_clear();
	if (desk_look(&m->desk, m->asked, &a, &err) < 0) {
		/* Who may run need not be one who may see approvals. */
		(void)fprintf(stderr, "brig: approval %s waits for an answer\n", m->asked);
		return;
	}
	if (!m->terminal)
		notice_at(&m->desk, &a);
	else if (prompt_ask_at(m->terminal, &m->desk, &a, &err) < 0)
		complain(&err);
}

/* The question that is on the terminal was answered, here or elsewhere. */
static void settle(struct remote *m)
{
	struct approval a;

	if (m->terminal && desk_look(&m->desk, m->asked, &a, NULL) >= 0)
		m->terminal->ops->settled(m->terminal, &a);
	m->asked[0] = '\0';
}

static void look_at_state(struct remote *m)
{
	const char *waits = m->follow.over ? "" : m->follow.approval;

	if (*m->asked && !streq(m->asked, waits))
		settle(m);
	if (*waits && !*m->asked)
		ask(m);
}

static void show_progress(const struct remote *m)
{
	const struct follow *f = &m->follow;
	unsigned long long s = (clock_ms() - m->begin_ms) / 1000;

	if (clock_ms() - m->begin_ms < QUIET_MS)
		return;
	if (*m->asked && !m->terminal)
		progress("waiting for an approval ... %llu s", s);
	else if (streq(f->state, "received"))
		progress("waiting for a box ... %llu s", s);
	else if (streq(f->state, "running") && !f->offset[1] && !isatty(STDOUT_FILENO))
		progress("running ... %llu s", s); /* where it cannot mix with the output */
}

/* ---- from the request to the result ---- */

static void drain(int fd)
{
	char signals[1024];

	while (read(fd, signals, sizeof(signals)) > 0)
		;
}

/* Ctrl-C, or nobody takes the output any more: the run is ended, and its end waited for. */
static int cancel(struct remote *m, struct err *err)
{
	char path[64];
	const struct client_call call = { .method = "DELETE", .path = path, .max = m->follow.max };
	struct reply r;
	int e;

	drain(m->follow.client->cancel);
	if (m->cancelled_ms && !m->follow.broken) {
		(void)err_set(err, ERR_IO, EINTR, "the run is being ended");
		return -ECANCELED;
	}
	if (m->cancelled_ms)
		return 0;
	m->cancelled_ms = clock_ms();
	(void)snprintf(path, sizeof(path), "/executions/%s", m->follow.id);
	e = client_call(m->follow.client, &call, &r, err);
	if (e >= 0)
		reply_free_fields(&r);
	return e;
}

static int turn(struct remote *m, struct err *err)
{
	struct follow *f = &m->follow;
	struct pollfd p[] = { { follow_fd(f), POLLIN, 0 },
		              { f->client->cancel, POLLIN, 0 },
		              { m->terminal ? m->terminal->ops->fd(m->terminal) : -1, POLLIN, 0 } };
	int r = 0;

	(void)poll(p, ELEMENTSOF(p), 250);
	if (p[1].revents || (f->broken && !m->cancelled_ms))
		r = cancel(m, err);
	if (r >= 0 && p[2].revents)
		(void)prompt_turn_at(m->terminal, &m->desk, err);
	if (r >= 0 && f->broken && m->cancelled_ms)
		r = follow_ask(f, ASK_MS, err); /* its events are full of what nobody takes */
	else if (r >= 0 && (p[0].revents || follow_fd(f) < 0))
		r = follow_read(f, err);
	else if (r >= 0)
		r = follow_tick(f, err);
	if (r >= 0 && m->cancelled_ms && clock_ms() - m->cancelled_ms > END_MS)
		r = err_set(err, ERR_IO, ETIMEDOUT, "the run was cancelled and did not end");
	return r;
}

static int follow_to_end(struct remote *m, struct err *err)
{
	struct follow *f = &m->follow;
	int r = 0;

	look_at_state(m);
	if (!f->over)
		r = follow_open(f, err);
	/* Ctrl-C ends whatever waited; the next turn acts on it. */
	while ((r >= 0 || r == -EINTR) && !f->over) {
		if (r < 0)
			*err = (struct err){ 0 };
		look_at_state(m);
		show_progress(m);
		r = turn(m, err);
	}
	progress_clear();
	if (r >= 0)
		look_at_state(m);
	return r;
}

/*
 * The key makes one execution of however many times it is sent. Ctrl-C while the daemon thinks: the
 * run may have been started, so it is asked for again, to be cancelled.
 */
static int submit(struct remote *m, const struct buf *body, struct err *err)
{
	char key[EXECUTION_ID_SIZE];
	struct client_call call = { .method = "POST",
		                    .key = key,
		                    .body = { body->data, body->len },
		                    .max = m->follow.max };
	struct client *c = m->follow.client;
	struct reply r;
	int e = execution_id_new(key);

	if (e < 0)
		return err_set(err, ERR_INTERNAL, -e, "no random numbers");
	call.path = m->o->n_outs ? "/executions?wait=50&files=true" : "/executions?wait=50";
	call.wait_ms = FAST_MS;
	e = client_call(c, &call, &r, err);
	if (e == -EINTR) {
		drain(c->cancel);
		*err = (struct err){ 0 };
		call.path = "/executions";
		e = client_call(c, &call, &r, err);
		m->follow.broken = true; /* nobody wants its output: it is cancelled */
	}
	if (e < 0)
		return e;
	e = follow_take(&m->follow, &r, err);
	reply_free_fields(&r);
	return e;
}

static int finish(struct remote *m, struct result *res, struct buf *json, struct err *err)
{
	const struct buf *b = &m->follow.result;
	CLEANUP_DOC struct json_reader in = { 0 };
	int r = doc_parse((struct str){ b->data, b->len }, &in, err);

	if (r >= 0)
		r = doc_result(in.root, res, err);
	if (r >= 0)
		r = follow_show_rest(&m->follow, in.root, err);
	if (r >= 0) {
		*json = m->follow.result;
		m->follow.result = BUF_INIT(0);
		remote_fetch(m->o, m->follow.client, m->follow.id, res, json);
	}
	return r;
}

static enum run_state refused_as(const struct err *err)
{
	if (err->code == ERR_INVALID || err->code == ERR_LIMIT || err->code == ERR_CONFLICT ||
	    err->code == ERR_BUSY)
		return RUN_REJECTED;
	if (err->sys == EINTR)
		return RUN_CANCELLED;
	if (err->code == ERR_DENIED || err->code == ERR_FORBIDDEN || err->code == ERR_UNAUTHORIZED)
		return RUN_DENIED;
	return RUN_SETUP_FAILED;
}

static int carry_out(struct remote *m, const struct buf *body, struct result *res, struct buf *json,
                     struct err *err)
{
	struct follow *f = &m->follow;
	int r;

	flow_caller(m->caller);
	m->begin_ms = clock_ms();
	m->desk.client = f->client;
	if (!m->o->json) {
		f->sinks[0] = &m->io->sinks[0];
		f->sinks[1] = &m->io->sinks[1];
		m->terminal = prompt_open(m->caller);
	}
	r = submit(m, body, err);
	if (r >= 0)
		r = follow_to_end(m, err);
	if (r >= 0)
		r = finish(m, res, json, err);
	if (r < 0 && *f->id && !f->over && !*err->remedy)
		(void)err_remedy(err, r, "the run may go on: brig wait %s; brig cancel %s", f->id,
		                 f->id);
	prompt_close(m->terminal);
	return r;
}

int remote_run(const struct run_options *o, struct client *c, struct run_io *io, struct result *res,
               struct buf *json)
{
	CLEANUP_BUF struct buf body = BUF_INIT(REQUEST_JSON_MAX);
	struct remote m = { .o = o, .io = io };
	struct request req = o->req;
	struct err err = { 0 };
	int r;

	req.labels = (const char **)o->flow.labels;
	req.n_labels = o->flow.n_labels;
	r = request_to_json(&req, &body, &err);
	if (r == -EILSEQ && !c->asked)
		return r;
	if (r >= 0)
		r = io->cancel = open_cancel(&err);
	c->cancel = io->cancel;
	follow_init(&m.follow, c, 2ULL * ESCAPED_MAX * o->req.limits.output_bytes + JSON_EXTRA);
	if (r >= 0)
		r = carry_out(&m, &body, res, json, &err);
	follow_done(&m.follow);
	c->cancel = FD_NONE;
	if (r < 0) {
		res->error = err;
		res->state = refused_as(&err);
	}
	return r < 0 ? 0 : r;
}

void remote_receipt(const struct buf *json, struct buf *out)
{
	CLEANUP_DOC struct json_reader in = { 0 };

	if (doc_parse((struct str){ json->data, json->len }, &in, NULL) < 0)
		return;
	doc_put(json_object_get(in.root, "receipt"), out);
	buf_putc(out, '\n');
}
