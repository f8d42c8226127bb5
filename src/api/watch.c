/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One execution, watched: its output by offset, and its events. An event is a place in a list that
 * only grows, so a reader that comes back goes on where it was; the bytes are those of the output.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/impl.h"
#include "base/clock.h"
#include "base/parse.h"

#define RESULT_PIECE (256 * KIB) /* of a result, in one turn */

/* ---- the list ---- */

static void add_event(struct execution *ex, struct ex_event e)
{
	size_t cap = ex->cap_events ? ex->cap_events * 2 : 16;
	struct ex_event *grown;

	if (ex->n_events == ex->cap_events) {
		grown = ex->n_events < EVENTS_MAX ? realloc(ex->events, cap * sizeof(*grown))
		                                  : NULL;
		if (!grown)
			return; /* the output itself is there, by offset */
		ex->events = grown;
		ex->cap_events = cap;
	}
	ex->events[ex->n_events++] = e;
}

static void note_state(struct execution *ex)
{
	enum ex_phase phase = ex->job ? ex_phase(ex) : ex->told;

	if (phase == ex->told)
		return;
	ex->told = phase;
	add_event(ex, (struct ex_event){ .kind = EX_STATE, .offset = (uint64_t)phase });
}

/* How much of it ends with a whole character; all of it when there is none to wait for. */
static size_t whole_characters(const char *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)p[n - back];
		size_t needs = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return needs > back ? n - back : n;
	}
	return n;
}

/* Bytes that are not kept cannot be told; the result says how many they were. */
static void note_output(struct execution *ex)
{
	for (uint8_t i = 0; i < 2; i++) {
		const struct buf *b = &ex->out[i];

		while (ex->told_total[i] < b->len) {
			size_t left = b->len - (size_t)ex->told_total[i];
			size_t n = MIN2(left, (size_t)OUTPUT_CHUNK);
			struct ex_event e = { .kind = EX_OUTPUT,
				              .stream = i,
				              .offset = ex->told_total[i] };

			if (ex->job || n < left) /* more will come */
				n = whole_characters(b->data + ex->told_total[i], n);
			if (!n)
				break;
			e.length = (uint32_t)n;
			add_event(ex, e);
			ex->told_total[i] += n;
		}
	}
}

/* ---- watchers ---- */

/* A result may be large: it goes in pieces, as fast as it is read. False: there is more of it. */
static bool put_result(struct watcher *w, struct buf *out)
{
	const struct shared_json *result = w->ex->result;
	size_t left = result ? result->text.len - w->at : 0, n = MIN2(left, (size_t)RESULT_PIECE);

	if (!w->at)
		buf_puts(out, "event: result\ndata: ");
	if (n)
		buf_put(out, result->text.data + w->at, n);
	w->at += n;
	if (n < left)
		return false;
	w->at = 0;
	return true;
}

/* False: there is more of this one. */
static bool put_event(struct watcher *w, struct buf *out)
{
	const struct execution *ex = w->ex;
	size_t i = w->next;
	static const char *const streams[] = { "stdout", "stderr" };
	const struct ex_event *e = &ex->events[i];
	uint64_t next, dropped;
	struct str s;

	if (!w->at)
		buf_printf(out, "id: %zu\n", i + 1);
	switch ((enum ex_event_kind)e->kind) {
	case EX_STATE:
		buf_puts(out, "event: state\ndata: ");
		ex_status_then(ex, (enum ex_phase)e->offset, out);
		break;
	case EX_OUTPUT:
		s = ex_output(ex, e->stream, e->offset, e->length, &next, &dropped);
		buf_printf(out,
		           "event: output\ndata: {\"stream\":\"%s\",\"offset\":%" PRIu64
		           ",\"text\":",
		           streams[e->stream & 1], e->offset);
		json_put_string(out, s.p, s.n);
		buf_putc(out, '}');
		break;
	case EX_RESULT:
		if (!put_result(w, out))
			return false;
		break;
	}
	buf_puts(out, "\n\n");
	return true;
}

static void watcher_free(struct watcher *w)
{
	struct watcher **at = &w->ex->watchers;

	while (*at && *at != w)
		at = &(*at)->next_watcher;
	if (*at)
		*at = w->next_watcher;
	w->ex->api->n_watchers--;
	free(w);
}

static void watcher_gone(void *data, struct http_stream *s)
{
	(void)s;
	watcher_free(data);
}

/* Some of what it has not had; false: it is gone. */
static bool feed(struct watcher *w)
{
	const struct execution *ex = w->ex;
	struct blob *b = NULL;
	struct buf out = BUF_INIT(JSON_ANSWER_MAX);
	int r = 0;

	while (w->next < ex->n_events && out.len < 4 * OUTPUT_CHUNK && put_event(w, &out))
		w->next++;
	if (buf_finish(&out) >= 0 && out.len)
		b = blob_new(out.data, out.len);
	if (b)
		r = http_stream_put(w->stream, b);
	else if (out.len)
		http_stream_end(w->stream);
	if (r < 0 || (out.len && !b)) {
		watcher_free(w);
		w = NULL;
	} else {
		w->beat_ms = clock_ms();
	}
	blob_unref(b);
	buf_done(&out);
	return w != NULL;
}

/* As fast as each of them reads; at the end of the list of one that is over it ends. */
static void feed_all(struct execution *ex)
{
	struct watcher *next;

	for (struct watcher *w = ex->watchers; w; w = next) {
		next = w->next_watcher;
		if (w->next < ex->n_events && (http_stream_waiting(w->stream) || !feed(w)))
			continue;
		if (!ex->job && w->next == ex->n_events) {
			http_stream_end(w->stream);
			watcher_free(w);
		}
	}
}

void ex_note(struct api *api, struct execution *ex)
{
	uint64_t now = clock_ms();

	(void)api;
	if (!ex->watchers)
		return; /* whoever comes later gets it in larger pieces */
	note_state(ex);
	if (!ex->job || now - ex->told_ms >= OUTPUT_EVENT_MS) {
		ex->told_ms = now;
		note_output(ex);
	}
	if (!ex->job && (!ex->n_events || ex->events[ex->n_events - 1].kind != EX_RESULT))
		add_event(ex, (struct ex_event){ .kind = EX_RESULT });
	feed_all(ex);
}

void ex_note_all(struct api *api)
{
	unsigned left = api->n_watchers;

	for (struct execution *ex = api->ex.newest; ex && left; ex = ex->older) {
		if (!ex->watchers)
			continue;
		for (struct watcher *w = ex->watchers; w; w = w->next_watcher)
			left -= left > 0;
		ex_note(api, ex);
	}
}

void ex_end_watchers(struct execution *ex)
{
	while (ex->watchers) {
		http_stream_end(ex->watchers->stream);
		watcher_free(ex->watchers);
	}
}

static void beat(struct watcher *w, uint64_t now)
{
	struct blob *b = blob_new(": \n\n", 4);

	w->beat_ms = now;
	if (b && http_stream_put(w->stream, b) < 0)
		watcher_free(w);
	blob_unref(b);
}

void ex_heartbeat(struct api *api, uint64_t now)
{
	for (struct execution *ex = api->ex.newest; ex && api->n_watchers; ex = ex->older) {
		struct watcher *next;

		for (struct watcher *w = ex->watchers; w; w = next) {
			next = w->next_watcher;
			if (now - w->beat_ms >= HEARTBEAT_MS)
				beat(w, now);
		}
	}
}

void ex_check_passes(struct api *api)
{
	for (struct execution *ex = api->ex.newest; ex && api->n_watchers; ex = ex->older) {
		struct watcher *next;

		for (struct watcher *w = ex->watchers; w; w = next) {
			next = w->next_watcher;
			if (pass_holds(api, &w->pass))
				continue;
			http_stream_end(w->stream);
			watcher_free(w);
		}
	}
}

static bool take_after(struct call *c, uint64_t *ret)
{
	const char *id = http_header(c->http, "Last-Event-ID");

	if (!query_u64(c, "after", UINT64_MAX / 2, ret))
		return false;
	if (id && parse_u64(id, ret) < 0) {
		answer_error(c, ERR_INVALID, NULL, "Last-Event-ID: must be a number");
		return false;
	}
	return true;
}

void route_watch(struct api *api, struct call *c)
{
	struct execution *ex = ex_visible(c, c->match.args[0]);
	struct watcher *w;
	uint64_t after = 0;

	if (!ex) {
		answer_error(c, ERR_NOT_FOUND, NULL, "no such execution");
		return;
	}
	if (!take_after(c, &after))
		return;
	w = api->n_watchers < LISTENERS_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (!w || http_stream_open(c->http, "text/event-stream", watcher_gone, w, &w->stream) < 0) {
		free(w);
		answer_busy(c, 1000, "too many listeners");
		return;
	}
	w->pass =
		call_pass(c, streq(ex->caller, c->who.actor) ? SCOPE_RUN | SCOPE_READ : SCOPE_READ);
	c->http = NULL;
	call_end(c);
	w->ex = ex;
	w->next = (size_t)MIN2(after, ex->n_events);
	w->beat_ms = clock_ms();
	w->next_watcher = ex->watchers;
	ex->watchers = w;
	api->n_watchers++;
	ex_note(api, ex);
}

/* ---- output ---- */

static bool take_stream(struct call *c, int *ret)
{
	char name[16];

	if (!query_text(c, "stream", name, sizeof(name)))
		return false;
	if (*name && !streq(name, "stdout") && !streq(name, "stderr")) {
		answer_error(c, ERR_INVALID, NULL, "stream: must be stdout or stderr");
		return false;
	}
	*ret = streq(name, "stderr");
	return true;
}

void route_output(struct api *api, struct call *c)
{
	struct execution *ex = ex_visible(c, c->match.args[0]);
	char next_text[24], dropped_text[24];
	struct http_header h[] = { { "Brig-Next-Offset", next_text },
		                   { "Brig-Dropped", dropped_text },
		                   { "Brig-Done", "false" },
		                   { "Content-Disposition", "attachment" } };
	uint64_t offset = 0, next, dropped;
	struct buf b = BUF_INIT(OUTPUT_ANSWER_MAX);
	struct str s;
	int stream = 0;

	(void)api;
	if (!ex) {
		answer_error(c, ERR_NOT_FOUND, NULL, "no such execution");
		return;
	}
	if (!take_stream(c, &stream) || !query_u64(c, "offset", UINT64_MAX / 2, &offset))
		return;
	s = ex_output(ex, stream, offset, OUTPUT_ANSWER_MAX, &next, &dropped);
	buf_put(&b, s.p, s.n);
	(void)snprintf(next_text, sizeof(next_text), "%" PRIu64, next);
	(void)snprintf(dropped_text, sizeof(dropped_text), "%" PRIu64, dropped);
	if (!ex->job && next >= ex->total[stream])
		h[2].value = "true";
	answer_with(c, 200, "application/octet-stream", h, ELEMENTSOF(h), &b);
}
