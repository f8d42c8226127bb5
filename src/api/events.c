/* SPDX-License-Identifier: Apache-2.0 */

/*
 * GET /events: the rows of the ledger as they are written, by this process or another. A row's
 * number is the event's id, so a listener that was away reads on from the record itself.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/impl.h"
#include "base/clock.h"
#include "base/parse.h"

#define WORD_SIZE 64

struct listener {
	struct api *api;
	struct http_stream *stream; /* or */
	struct ws *ws;
	struct pass pass;
	char job[WORD_SIZE], kind[WORD_SIZE], name[WORD_SIZE];
	uint64_t seq; /* the last row it had */
	bool live;    /* it has all up to the tail */
	bool closed;  /* a WebSocket on its way out */
	uint64_t beat_ms;
	struct listener *next;
};

static void listener_free(struct listener *l)
{
	struct listener **at = &l->api->listeners;

	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	l->api->n_listeners--;
	free(l);
}

static void stream_gone(void *data, struct http_stream *s)
{
	(void)s;
	listener_free(data);
}

static void ws_message(void *data, struct ws *w, struct str text)
{
	(void)data;
	(void)text;
	ws_close(w, 1008, "nothing is expected here");
}

static void ws_closed(void *data, struct ws *w)
{
	(void)w;
	listener_free(data);
}

/* One row in the two forms, made when the first listener wants it. */
struct shown_row {
	struct blob *sse, *ws;
};

static void show_row(const struct ledger_row *row, bool sse, struct blob **ret)
{
	CLEANUP_BUF struct buf b = BUF_INIT(256 * KIB);

	if (*ret)
		return;
	if (sse)
		buf_printf(&b, "id: %" PRIu64 "\nevent: %s\ndata: ", row->seq, row->kind);
	ledger_row_to_json(row, &b);
	if (sse)
		buf_puts(&b, "\n\n");
	if (buf_finish(&b) >= 0)
		*ret = blob_new(b.data, b.len);
}

static bool wants(const struct listener *l, const struct ledger_row *row)
{
	return (!*l->job || streq(l->job, row->job)) && (!*l->kind || streq(l->kind, row->kind)) &&
	       (!*l->name || streq(l->name, row->name));
}

/* false: it is gone. */
static bool tell(struct listener *l, const struct ledger_row *row, struct shown_row *shown)
{
	struct blob **b = l->stream ? &shown->sse : &shown->ws;
	int r = 0;

	l->seq = row->seq;
	if (l->closed || !wants(l, row))
		return true;
	show_row(row, l->stream != NULL, b);
	if (!*b)
		return true;
	if (!l->stream) {
		l->closed = ws_send(l->ws, *b) < 0; /* closed() follows */
		return true;
	}
	r = http_stream_put(l->stream, *b);
	l->beat_ms = clock_ms();
	if (r < 0)
		listener_free(l);
	return r >= 0;
}

static int on_new_row(void *data, const struct ledger_row *row)
{
	struct api *api = data;
	struct shown_row shown = { NULL, NULL };
	struct listener *next;

	api->tail_seq = row->seq;
	for (struct listener *l = api->listeners; l; l = next) {
		next = l->next;
		if (l->live && l->seq < row->seq) /* what it read itself may be ahead of the tail */
			(void)tell(l, row, &shown);
	}
	blob_unref(shown.sse);
	blob_unref(shown.ws);
	if (streq(row->kind, "approval"))
		approvers_row(api, row);
	return 0;
}

struct catch_up {
	struct listener *l; /* NULL: it went away */
};

static int on_old_row(void *data, const struct ledger_row *row)
{
	struct catch_up *k = data;
	struct shown_row shown = { NULL, NULL };

	if (!tell(k->l, row, &shown))
		k->l = NULL;
	blob_unref(shown.sse);
	blob_unref(shown.ws);
	return k->l == NULL;
}

/* A piece of what it missed; at the tail it is like the others. */
static void catch_up(struct api *api, struct listener *l)
{
	struct ledger_filter f = { .after_seq = l->seq, .limit = CATCH_UP_ROWS };
	struct catch_up k = { l };
	uint64_t before = l->seq;

	if (l->stream ? http_stream_waiting(l->stream) : ws_waiting(l->ws))
		return; /* it reads slower than we do */
	if (*l->job)
		f.job = l->job;
	if (ledger_each(pipeline_ledger(api->pl), &f, on_old_row, &k, NULL) < 0 || !k.l)
		return;
	if (l->seq == before || l->seq >= api->tail_seq) {
		l->seq = MAX2(l->seq, api->tail_seq);
		l->live = true;
	}
}

static int note_last(void *data, const struct ledger_row *row)
{
	*(uint64_t *)data = row->seq;
	return 1;
}

bool events_wanted(const struct api *api)
{
	return api->listeners || api->approvers || api->config.observer.approval;
}

void events_tail(struct api *api)
{
	struct ledger_filter f = { .after_seq = api->tail_seq, .limit = TAIL_ROWS };
	struct ledger *ledger = pipeline_ledger(api->pl);
	struct listener *next;
	uint64_t now = clock_ms();

	if (!events_wanted(api))
		api->moved = false;
	if (!events_wanted(api) || (!api->moved && now - api->tail_ms < TAIL_MS))
		return;
	api->tail_ms = now;
	api->moved = false;
	(void)ledger_each(ledger, &f, on_new_row, api, NULL);
	api->moved = api->tail_seq - f.after_seq >= TAIL_ROWS; /* there may be more */
	for (struct listener *l = api->listeners; l; l = next) {
		next = l->next;
		if (l->live || l->closed)
			continue;
		catch_up(api, l);
		api->moved = true; /* it is not done yet: soon again */
	}
}

uint64_t events_newest(struct api *api)
{
	struct ledger_filter f = { .limit = 1, .newest_first = true };
	uint64_t seq = api->tail_seq;

	(void)ledger_each(pipeline_ledger(api->pl), &f, note_last, &seq, NULL);
	return seq;
}

void events_start(struct api *api)
{
	api->tail_seq = events_newest(api);
}

void events_check_passes(struct api *api)
{
	struct listener *next;

	for (struct listener *l = api->listeners; l; l = next) {
		next = l->next;
		if (l->closed || pass_holds(api, &l->pass))
			continue;
		if (l->stream) {
			http_stream_end(l->stream);
			listener_free(l);
		} else {
			ws_close(l->ws, 1008, PASS_OVER);
			l->closed = true;
		}
	}
}

void events_heartbeat(struct api *api, uint64_t now)
{
	struct blob *b = NULL;
	struct listener *next;

	for (struct listener *l = api->listeners; l; l = next) {
		next = l->next;
		if (!l->stream || now - l->beat_ms < HEARTBEAT_MS)
			continue;
		b = b ? b : blob_new(": \n\n", 4);
		l->beat_ms = now;
		if (b && http_stream_put(l->stream, b) < 0)
			listener_free(l);
	}
	blob_unref(b);
}

/* A WebSocket is told to have closed when the server closes. */
void events_close(struct api *api)
{
	struct listener *next;

	for (struct listener *l = api->listeners; l; l = next) {
		next = l->next;
		if (!l->stream)
			continue;
		http_stream_end(l->stream);
		listener_free(l);
	}
}

static bool open_listener(struct call *c, struct listener *l)
{
	static const struct ws_handler handler = { ws_message, ws_closed };

	if (http_wants_ws(c->http) > 0)
		return http_upgrade(c->http, &handler, l, &l->ws) >= 0;
	return http_stream_open(c->http, "text/event-stream", stream_gone, l, &l->stream) >= 0;
}

static bool take_place(struct call *c, struct listener *l, bool *ret_resumes)
{
	const char *id = http_header(c->http, "Last-Event-ID");
	uint64_t after = UINT64_MAX;

	if (!query_u64(c, "after", UINT64_MAX / 2, &after))
		return false;
	if (id && (parse_u64(id, &after) < 0 || after > UINT64_MAX / 2)) {
		answer_error(c, ERR_INVALID, NULL, "Last-Event-ID: must be a number");
		return false;
	}
	*ret_resumes = after != UINT64_MAX;
	l->seq = after;
	return true;
}

void route_events(struct api *api, struct call *c)
{
	struct listener *l = api->n_listeners < LISTENERS_MAX ? calloc(1, sizeof(*l)) : NULL;
	bool resumes = false;

	if (!l) {
		answer_busy(c, 1000, "too many listeners");
		return;
	}
	if (!query_text(c, "job", l->job, sizeof(l->job)) ||
	    !query_text(c, "kind", l->kind, sizeof(l->kind)) ||
	    !query_text(c, "name", l->name, sizeof(l->name)) || !take_place(c, l, &resumes)) {
		free(l);
		return;
	}
	l->api = api;
	l->pass = call_pass(c, SCOPE_READ);
	if (!open_listener(c, l)) {
		free(l);
		answer_busy(c, 1000, "too many listeners");
		return;
	}
	c->http = NULL;
	call_end(c);
	if (!events_wanted(api)) /* nobody looked for a while: what happens next begins now */
		events_start(api);
	l->live = !resumes || l->seq >= api->tail_seq;
	if (l->live)
		l->seq = api->tail_seq;
	l->beat_ms = clock_ms();
	l->next = api->listeners;
	api->listeners = l;
	api->n_listeners++;
	api->moved = true;
}
