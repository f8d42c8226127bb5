/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <strings.h>

#include "net/impl.h"

static const struct http_header common[] = {
	{ "X-Content-Type-Options", "nosniff" },
	{ "Cache-Control", "no-store" },
	{ "Content-Security-Policy", "default-src 'none'; sandbox" },
};

/* For answers that MHD does not send. */
void answer_put_common(struct buf *out)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[40];

	if (gmtime_r(&now, &tm) && strftime(date, sizeof(date), "%a, %d %b %Y %T GMT", &tm))
		buf_printf(out, "Date: %s\r\n", date);
	for (size_t i = 0; i < ELEMENTSOF(common); i++)
		buf_printf(out, "%s: %s\r\n", common[i].name, common[i].value);
}

static bool given(const struct http_header *headers, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcasecmp(headers[i].name, name) == 0)
			return true;
	return false;
}

/* A header of the handler's goes before the common one of that name. */
static bool add_headers(const struct http_server *s, struct MHD_Response *response,
                        const char *type, const struct http_header *headers, size_t n)
{
	bool ok = !type || MHD_add_response_header(response, "Content-Type", type) == MHD_YES;

	for (size_t i = 0; i < ELEMENTSOF(common) && ok; i++)
		if (!given(headers, n, common[i].name))
			ok = MHD_add_response_header(response, common[i].name, common[i].value) ==
			     MHD_YES;
	for (size_t i = 0; i < n && ok; i++)
		ok = MHD_add_response_header(response, headers[i].name, headers[i].value) ==
		     MHD_YES;
	if (ok && s->draining)
		ok = MHD_add_response_header(response, "Connection", "close") == MHD_YES;
	return ok;
}

static struct MHD_Response *with_headers(const struct http_server *s, struct MHD_Response *response,
                                         const char *type, const struct http_header *headers,
                                         size_t n)
{
	if (!response || add_headers(s, response, type, headers, n))
		return response;
	MHD_destroy_response(response);
	return NULL;
}

/* Takes the body. NULL: no memory. */
static struct MHD_Response *make(const struct http_server *s, const char *type,
                                 const struct http_header *headers, size_t n, struct buf *body)
{
	size_t len = body ? body->len : 0;
	CLEANUP_FREE char *data = len ? buf_detach(body) : NULL;
	struct MHD_Response *response;

	if (len && !data)
		return NULL;
	response = MHD_create_response_from_buffer(len, data ? data : (void *)(uintptr_t) "",
	                                           data ? MHD_RESPMEM_MUST_FREE
	                                                : MHD_RESPMEM_PERSISTENT);
	if (!response)
		return NULL;
	data = NULL;
	return with_headers(s, response, type, headers, n);
}

static void send_made(struct http_request *r, unsigned status, size_t len)
{
	r->answered = true;
	r->status = status;
	r->dead = !r->response;
	r->s->counts.answered += !r->dead;
	r->s->counts.bytes_out += len;
	request_resume(r);
}

void http_answer(struct http_request *r, unsigned status, const char *type,
                 const struct http_header *headers, size_t n_headers, struct buf *body)
{
	size_t len = body ? body->len : 0;

	if (!r->answered && (!body || buf_finish(body) == 0))
		r->response = make(r->s, type, headers, n_headers, body);
	if (body)
		buf_done(body);
	if (r->answered)
		return;
	send_made(r, status, len);
}

void http_answer_shared(struct http_request *r, unsigned status, const char *type,
                        const struct http_header *headers, size_t n_headers, struct str body,
                        void (*release)(void *data), void *data)
{
	struct MHD_Response *response = NULL;

	if (!r->answered)
		response = MHD_create_response_from_buffer_with_free_callback_cls(
			body.n, (void *)(uintptr_t)body.p, release, data);
	if (!response)
		release(data);
	if (r->answered)
		return;
	r->response = with_headers(r->s, response, type, headers, n_headers);
	send_made(r, status, body.n);
}

enum MHD_Result answer_refuse(struct http_request *r, unsigned status)
{
	static const struct http_header version = { "Sec-WebSocket-Version", "13" };
	CLEANUP_BUF struct buf body = BUF_INIT(REFUSAL_MAX);
	struct http_server *s = r->s;
	enum MHD_Result queued;

	r->answered = true;
	r->conn->linger = r->conn->linger || r->has_body;
	s->counts.refused++;
	if (s->handler.refusal)
		s->handler.refusal(s->handler.data, status, &body);
	if (buf_finish(&body) < 0)
		return MHD_NO;
	r->response =
		make(s, "application/json", &version, status == MHD_HTTP_UPGRADE_REQUIRED, &body);
	if (!r->response)
		return MHD_NO;
	conn_set_pace(r->conn, PACE_ANSWER);
	queued = MHD_queue_response(r->mhd, status, r->response);
	MHD_destroy_response(TAKE_PTR(r->response));
	return queued;
}

const char *answer_reason(unsigned status)
{
	const char *text = MHD_get_reason_phrase_for(status);

	return text ? text : "Unknown";
}

/* As much as the kernel takes at once: it goes to somebody who misbehaves. */
void answer_refuse_raw(struct conn *c, unsigned status)
{
	CLEANUP_BUF struct buf body = BUF_INIT(REFUSAL_MAX), text = BUF_INIT(2 * REFUSAL_MAX);
	struct http_server *s = c->s;

	if (s->handler.refusal)
		s->handler.refusal(s->handler.data, status, &body);
	if (buf_finish(&body) < 0)
		return;
	buf_printf(&text, "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n", status,
	           answer_reason(status));
	answer_put_common(&text);
	buf_printf(&text, "Content-Length: %zu\r\nConnection: close\r\n\r\n", body.len);
	buf_put(&text, body.data, body.len);
	if (buf_finish(&text) == 0)
		(void)send(c->fd, text.data, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}
