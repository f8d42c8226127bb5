/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request, from its line to its answer. MHD calls request_line() when the request line is there,
 * request_call() when the header is, with each part of the body, and when all is there; and again
 * whenever a suspended one was resumed.
 */
#include <errno.h>
#include <strings.h>

#include "net/impl.h"

static void request_free(struct http_request *r)
{
	r->s->bodies -= r->body.len;
	r->s->counts.requests--;
	if (r->response)
		MHD_destroy_response(r->response);
	buf_done(&r->body);
	free(r->path);
	free(r);
}

static void unpark(struct http_request *r)
{
	struct http_request **at = &r->s->parked;

	while (*at && *at != r)
		at = &(*at)->parked_next;
	if (*at)
		*at = r->parked_next;
	r->parked = false;
}

/* MHD has done with it, whatever became of it. */
void request_drop(struct conn *c)
{
	struct http_request *r = TAKE_PTR(c->request);
	struct http_server *s = c->s;

	if (!r)
		return;
	if (r->parked)
		unpark(r);
	if (r->ws)
		ws_never(TAKE_PTR(r->ws));
	if (r->begun && !r->answered)
		s->handler.gone(s->handler.data, r);
	request_free(r);
}

/*
 * MHD would go on to make a field of every parameter, and is lost when there are more than it has
 * room for. It is shown an empty query.
 */
static void hide_query(const char *uri)
{
	char *mark = strchr(uri, '?');

	if (mark)
		mark[1] = '\0';
}

void *request_line(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct http_server *s = cls;
	struct conn *c = conn_of(mhd);
	struct http_request *r = calloc(1, sizeof(*r));
	char *mark;

	conn_set_pace(c, PACE_HEADER);
	if (!r)
		return NULL;
	request_drop(c);
	*r = (struct http_request){ .s = s, .conn = c, .mhd = mhd };
	r->body = BUF_INIT(s->limits.body_bytes);
	r->body_max = s->limits.body_bytes;
	r->path = strdup(uri);
	if (!r->path) {
		free(r);
		return NULL;
	}
	r->target_n = strlen(r->path);
	mark = strchr(r->path, '?');
	if (mark) {
		*mark = '\0';
		r->query = mark + 1;
	}
	hide_query(uri);
	c->request = r;
	s->counts.requests++;
	return r;
}

/* What the handler, or the form, left to be said. */
static enum MHD_Result queue_answer(struct http_request *r)
{
	struct MHD_Response *response = TAKE_PTR(r->response);
	enum MHD_Result queued;

	conn_set_pace(r->conn, PACE_ANSWER);
	queued = MHD_queue_response(r->mhd, r->status, response);
	MHD_destroy_response(response);
	return queued;
}

/* Refused here while the handler knows of it. */
static void forget(struct http_request *r)
{
	if (r->begun && !r->answered)
		r->s->handler.gone(r->s->handler.data, r);
	r->answered = true;
}

static unsigned too_large(const struct http_request *r)
{
	if (r->declared > r->body_max)
		return MHD_HTTP_CONTENT_TOO_LARGE;
	if (r->declared > r->s->limits.bodies_bytes - r->s->bodies)
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	return 0;
}

static enum MHD_Result begin(struct http_request *r, const char *url, const char *method,
                             const char *version)
{
	unsigned status;

	r->method = method;
	r->phase = PHASE_BODY;
	status = form_check(r, url, version);
	if (status)
		return answer_refuse(r, status);
	conn_set_pace(r->conn, r->has_body ? PACE_BODY : PACE_NONE);
	r->begun = true;
	r->s->handler.begin(r->s->handler.data, r);
	if (r->dead)
		return MHD_NO;
	if (r->answered) {
		r->conn->linger = r->has_body;
		/* Without a body the connection can go on: MHD calls again at once. */
		return r->has_body ? queue_answer(r) : MHD_YES;
	}
	status = too_large(r);
	if (!status)
		return MHD_YES;
	forget(r);
	return answer_refuse(r, status);
}

/* The client still sends: MHD cannot answer now. */
static enum MHD_Result refuse_midway(struct http_request *r, unsigned status)
{
	forget(r);
	r->s->counts.refused++;
	r->conn->linger = true;
	answer_refuse_raw(r->conn, status);
	return MHD_NO;
}

static enum MHD_Result take_body(struct http_request *r, const char *p, size_t n)
{
	struct http_server *s = r->s;

	s->moves++;
	s->counts.bytes_in += n;
	if (r->answered)
		return MHD_YES; /* what comes now is dropped */
	if (n > r->body_max || r->body.len > r->body_max - n)
		return refuse_midway(r, MHD_HTTP_CONTENT_TOO_LARGE);
	if (n > s->limits.bodies_bytes - s->bodies)
		return refuse_midway(r, MHD_HTTP_SERVICE_UNAVAILABLE);
	buf_put(&r->body, p, n);
	if (buf_finish(&r->body) < 0)
		return refuse_midway(r, MHD_HTTP_SERVICE_UNAVAILABLE);
	s->bodies += n;
	return MHD_YES;
}

/*
 * It waits for its answer. Suspended in MHD only after this run: a connection that is suspended
 * within a callback is read from when it is resumed, and one whose client has shut down its sending
 * side would be closed without its answer.
 */
static void park(struct http_request *r)
{
	if (r->parked || r->suspended)
		return;
	r->parked = true;
	r->parked_next = r->s->parked;
	r->s->parked = r;
}

static enum MHD_Result settle(struct http_request *r)
{
	if (r->response)
		return queue_answer(r);
	if (r->dead || r->answered)
		return MHD_NO;
	park(r);
	return MHD_YES;
}

static enum MHD_Result whole(struct http_request *r)
{
	r->phase = PHASE_WHOLE;
	conn_set_pace(r->conn, PACE_NONE);
	if (!r->answered)
		r->s->handler.whole(r->s->handler.data, r);
	return settle(r);
}

enum MHD_Result request_call(void *cls, struct MHD_Connection *mhd, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_n, void **context)
{
	struct http_server *s = cls;
	struct http_request *r = *context;
	size_t n = *upload_n;

	(void)mhd;
	if (!r || s->closing || r->dead)
		return MHD_NO;
	switch (r->phase) {
	case PHASE_LINE:
		return begin(r, url, method, version);
	case PHASE_BODY:
		*upload_n = 0;
		return n ? take_body(r, upload, n) : whole(r);
	case PHASE_WHOLE:
		return settle(r);
	}
	return MHD_NO;
}

static void on_hangup(struct watch *w, uint32_t events)
{
	struct conn *c = CONTAINER(w, struct conn, hangup);

	(void)events;
	c->request->dead = true;
	request_resume(c->request);
}

static void link_waiting(struct http_request *r)
{
	r->prev = NULL;
	r->next = r->s->requests;
	if (r->next)
		r->next->prev = r;
	r->s->requests = r;
}

static void unlink_waiting(struct http_request *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		r->s->requests = r->next;
	if (r->next)
		r->next->prev = r->prev;
}

/* A client that only has nothing more to say is not gone: no EPOLLRDHUP. */
void request_suspend_parked(struct http_server *s)
{
	struct http_request *r;

	while ((r = s->parked)) {
		unpark(r);
		if (r->answered || r->dead) {
			server_dirty(s);
			continue;
		}
		MHD_suspend_connection(r->mhd);
		r->suspended = true;
		link_waiting(r);
		(void)watch_start(s, &r->conn->hangup, r->conn->fd, 0, on_hangup);
	}
}

void request_resume(struct http_request *r)
{
	server_dirty(r->s);
	r->s->moves++;
	if (!r->suspended)
		return;
	watch_stop(r->s, &r->conn->hangup);
	unlink_waiting(r);
	r->suspended = false;
	MHD_resume_connection(r->mhd);
}

/* MHD does not stop while any is suspended. */
void request_end_all(struct http_server *s)
{
	while (s->requests) {
		s->requests->dead = true;
		request_resume(s->requests);
	}
}

void request_completed(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code)
{
	struct conn *c = conn_of(mhd);

	(void)cls;
	(void)code;
	*context = NULL;
	conn_set_pace(c, PACE_IDLE);
	request_drop(c);
}

const char *http_method(const struct http_request *r)
{
	return r->method;
}

const char *http_path(const struct http_request *r)
{
	return r->path;
}

const char *http_header(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

struct counting {
	const char *name;
	size_t n;
};

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
	struct counting *c = cls;

	(void)kind;
	(void)value;
	c->n += strcasecmp(key, c->name) == 0;
	return MHD_YES;
}

size_t http_header_count(const struct http_request *r, const char *name)
{
	struct counting c = { .name = name };

	(void)MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, count_header, &c);
	return c.n;
}

const struct http_peer *http_peer(const struct http_request *r)
{
	return &r->conn->peer;
}

struct str http_body(const struct http_request *r)
{
	return (struct str){ r->body.data ? r->body.data : "", r->body.len };
}

void http_body_take(struct http_request *r, struct buf *ret)
{
	r->s->bodies -= r->body.len;
	*ret = r->body;
	r->body = BUF_INIT(r->body_max);
}

void http_body_limit(struct http_request *r, size_t bytes)
{
	r->body_max = MIN2(bytes, r->body_max);
}

void http_set_data(struct http_request *r, void *data)
{
	r->data = data;
}

void *http_data(const struct http_request *r)
{
	return r->data;
}
