/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define BREAKS_MAX  5
#define BREAK_MS    200        /* and so much more each time */
#define QUIET_MS    30000      /* of events; then it is asked */
#define OUTPUT_MAX  (64 * MIB) /* one answer of raw output */
#define FETCHES_MAX (1u << 20)
#define REPLACED    "\xef\xbf\xbd" /* in the place of a byte that is not UTF-8 */

static const char *const stream_names[] = { "stdout", "stderr" };

void follow_init(struct follow *f, struct client *c, size_t max)
{
	*f = (struct follow){
		.client = c, .max = max, .result = BUF_INIT(max), .stream = CLIENT_STREAM_INIT
	};
}

void follow_done(struct follow *f)
{
	client_stream_close(&f->stream);
	buf_done(&f->result);
}

int follow_fd(const struct follow *f)
{
	return f->stream.fd;
}

/* ---- output ---- */

/* Whoever reads it may be slow; Ctrl-C ends waiting for him. */
static void show(struct follow *f, int which, const char *p, size_t n)
{
	struct sink *s = f->sinks[which];

	if (!n || !s || f->broken)
		return;
	progress_clear();
	f->broken = sink_write_all(s, p, n, f->client->cancel) < 0;
}

static void show_dropped(struct follow *f, int which, uint64_t bytes)
{
	char mark[80];
	int n = snprintf(mark, sizeof(mark), "\n[brig: %" PRIu64 " bytes of %s dropped]\n", bytes,
	                 stream_names[which]);

	show(f, which, mark, (size_t)n);
}

static bool is_exact(struct str text)
{
	return text.n < 3 || !memmem(text.p, text.n, REPLACED, 3);
}

int follow_fetch(struct follow *f, int which, bool *ret_done, struct err *err)
{
	char path[128];
	const struct client_call call = { .method = "GET", .path = path, .max = OUTPUT_MAX };
	struct reply r;
	int e;

	(void)snprintf(path, sizeof(path), "/executions/%s/output?stream=%s&offset=%" PRIu64, f->id,
	               stream_names[which], f->offset[which]);
	e = client_call(f->client, &call, &r, err);
	if (e < 0)
		return e;
	if (r.dropped)
		show_dropped(f, which, r.dropped);
	show(f, which, r.body.data, r.body.len);
	f->offset[which] = r.has_next_offset ? MAX2(r.next_offset, f->offset[which])
	                                     : f->offset[which] + r.body.len;
	*ret_done = r.output_done;
	e = r.body.len > 0;
	reply_free_fields(&r);
	return e;
}

static int fetch_all(struct follow *f, int which, struct err *err)
{
	bool done;
	int r = 1;

	for (unsigned i = 0; r > 0 && i < FETCHES_MAX && !f->broken; i++)
		r = follow_fetch(f, which, &done, err);
	return r < 0 ? r : 0;
}

static int on_output(struct follow *f, json_t *o, struct err *err)
{
	struct str text = doc_bytes(o, "text");
	int which = streq(doc_text(o, "stream"), "stderr");
	uint64_t at = doc_number(o, "offset");
	bool done;
	int r;

	if (!f->sinks[which] || !text.n)
		return 0;
	if (is_exact(text) && at == f->offset[which]) {
		show(f, which, text.p, text.n);
		f->offset[which] += text.n;
		return 0;
	}
	if (is_exact(text) && at + text.n <= f->offset[which])
		return 0; /* we have it */
	r = follow_fetch(f, which, &done, err);
	return r < 0 ? r : 0;
}

/* All of it when the daemon has forgotten the bytes themselves. */
static int show_text(struct follow *f, int which, struct str text)
{
	if (text.n > f->offset[which])
		show(f, which, text.p + f->offset[which], text.n - (size_t)f->offset[which]);
	return 0;
}

int follow_show_rest(struct follow *f, json_t *result, struct err *err)
{
	json_t *truncated = json_object_get(result, "truncated");
	int r = 0;

	for (int i = 0; i < 2 && r >= 0; i++) {
		struct str text = doc_bytes(result, stream_names[i]);

		if (!f->sinks[i])
			continue;
		if (is_exact(text) && !doc_number(truncated, stream_names[i]))
			r = show_text(f, i, text);
		else
			r = fetch_all(f, i, err);
		if (r == -ENOENT) {
			*err = (struct err){ 0 };
			r = show_text(f, i, text);
		}
	}
	return r;
}

/* ---- state ---- */

static void take_status(struct follow *f, json_t *o)
{
	(void)snprintf(f->state, sizeof(f->state), "%s", doc_text(o, "state"));
	(void)snprintf(f->approval, sizeof(f->approval), "%s",
	               streq(f->state, "waiting") ? doc_text(o, "approval_id") : "");
	if (f->approval[strspn(f->approval, "0123456789abcdefghijklmnopqrstuvwxyz")])
		f->approval[0] = '\0'; /* it becomes part of a path */
}

static int take_result(struct follow *f, struct str text, struct err *err)
{
	f->result.len = 0;
	buf_put(&f->result, text.p, text.n);
	if (f->result.error)
		return err_set(err, ERR_LIMIT, -f->result.error, "the result");
	f->over = true;
	return 0;
}

static int take_id(struct follow *f, json_t *o, struct err *err)
{
	const char *id = doc_text(o, "execution_id");

	if (strlen(id) != EXECUTION_ID_SIZE - 1 ||
	    id[strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz")])
		return err_set(err, ERR_IO, EPROTO, "the daemon's answer names no execution");
	(void)snprintf(f->id, sizeof(f->id), "%s", id);
	return 0;
}

int follow_take(struct follow *f, const struct reply *r, struct err *err)
{
	const struct str text = { r->body.data, r->body.len };
	CLEANUP_DOC struct json_reader in = { 0 };
	int e = doc_parse(text, &in, err);

	if (e >= 0)
		e = take_id(f, in.root, err);
	if (e < 0)
		return e;
	if (!json_object_get(in.root, "done")) /* a status has it, a result has not */
		return take_result(f, text, err);
	take_status(f, in.root);
	return 0;
}

int follow_ask(struct follow *f, uint64_t wait_ms, struct err *err)
{
	char path[80];
	const struct client_call call = {
		.method = "GET", .path = path, .wait_ms = wait_ms, .max = f->max
	};
	struct reply r;
	int e;

	(void)snprintf(path, sizeof(path), "/executions/%s?wait=%" PRIu64, f->id, wait_ms);
	e = client_call(f->client, &call, &r, err);
	if (e < 0)
		return e;
	e = follow_take(f, &r, err);
	reply_free_fields(&r);
	return e;
}

/* ---- events ---- */

static int on_event(struct follow *f, const struct event *ev, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	int r;

	f->event = MAX2(f->event, ev->id);
	f->breaks = 0;
	if (streq(ev->name, "result"))
		return take_result(f, ev->data, err);
	r = doc_parse(ev->data, &in, err);
	if (r < 0)
		return r;
	if (streq(ev->name, "state"))
		take_status(f, in.root);
	else if (streq(ev->name, "output"))
		return on_output(f, in.root, err);
	return 0;
}

static int take_events(struct follow *f, struct err *err)
{
	struct event ev;
	int r = 0;

	while (!f->over && (r = client_stream_event(&f->stream, &ev)) > 0) {
		r = on_event(f, &ev, err);
		if (r < 0)
			return r;
	}
	return r < 0 ? err_set(err, ERR_LIMIT, -r, "an event of the daemon") : 0;
}

int follow_open(struct follow *f, struct err *err)
{
	char path[80];
	int r;

	(void)snprintf(path, sizeof(path), "/executions/%s/events", f->id);
	client_stream_close(&f->stream);
	f->heard_ms = clock_ms();
	r = client_stream_open(f->client, path, f->event, f->max, &f->stream, err);
	return r < 0 ? r : take_events(f, err);
}

static int give_up(struct follow *f, int r, struct err *err)
{
	(void)err_wrap(err, r, "the daemon was lost, and the run may go on");
	return err_remedy(err, r, "when it is back: brig wait %s; brig logs %s", f->id, f->id);
}

/* Again, from where we were; it may have ended meanwhile. */
static int resume(struct follow *f, struct err *err)
{
	int r;

	client_stream_close(&f->stream);
	do {
		struct pollfd p = { f->client->cancel, POLLIN, 0 };

		*err = (struct err){ 0 };
		if (f->breaks && poll(&p, 1, (int)(f->breaks * BREAK_MS)) > 0)
			return 0; /* Ctrl-C: whoever called looks for that */
		r = follow_ask(f, 0, err);
		if (r >= 0 && !f->over)
			r = follow_open(f, err);
	} while (r < 0 && r != -ENOENT && r != -EINTR && ++f->breaks <= BREAKS_MAX);
	f->breaks++; /* a stream that ends at once each time is none either */
	if (r >= 0 && f->breaks > BREAKS_MAX && !f->over)
		r = err_set(err, ERR_IO, EPROTO, "its events end before the run does");
	return r < 0 && r != -EINTR ? give_up(f, r, err) : 0;
}

int follow_read(struct follow *f, struct err *err)
{
	int e = f->stream.fd < 0 ? -ENODATA : client_stream_read(&f->stream);
	int r = take_events(f, err);

	f->heard_ms = clock_ms();
	return r < 0 || f->over || e >= 0 ? r : resume(f, err);
}

int follow_tick(struct follow *f, struct err *err)
{
	int r;

	if (clock_ms() - f->heard_ms < QUIET_MS)
		return 0;
	f->heard_ms = clock_ms();
	r = follow_ask(f, 0, err);
	return r < 0 && r != -EINTR ? resume(f, err) : 0;
}

int follow_wait(struct follow *f, struct err *err)
{
	int r = 0;

	while (r >= 0 && !f->over && !f->broken) {
		struct pollfd p[] = { { f->stream.fd, POLLIN, 0 },
			              { f->client->cancel, POLLIN, 0 } };

		(void)poll(p, ELEMENTSOF(p), 1000);
		if (p[1].revents)
			return err_set(err, ERR_IO, EINTR, "waiting for %s", f->id);
		if (p[0].revents || f->stream.fd < 0)
			r = follow_read(f, err);
		else
			r = follow_tick(f, err);
	}
	return r;
}
