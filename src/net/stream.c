/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "net/impl.h"

#define HEAD_MAX 4096

struct http_stream {
	struct line line;
	http_stream_gone *gone; /* NULL: the owner has done with it */
	void *data;
	bool chunked;
};

static void stream_end(struct line *l)
{
	struct http_stream *s = CONTAINER(l, struct http_stream, line);

	if (s->gone)
		s->gone(s->data, s);
	l->s->counts.streams--;
	line_done(l);
	free(s);
}

/* It was ended, and all is out. */
static void stream_flushed(struct line *l)
{
	if (!CONTAINER(l, struct http_stream, line)->gone)
		l->over = true;
}

static void stream_finish(struct http_stream *s)
{
	s->gone = NULL;
	if (s->chunked && line_add(&s->line, "0\r\n\r\n", 5, NULL, 0) < 0)
		line_over(&s->line);
	line_due(&s->line);
}

static void stream_leave(struct line *l)
{
	struct http_stream *s = CONTAINER(l, struct http_stream, line);

	if (!s->gone)
		return;
	s->gone(s->data, s);
	stream_finish(s);
}

static int put_head(struct http_stream *s, const char *type)
{
	CLEANUP_BUF struct buf head = BUF_INIT(HEAD_MAX);
	struct blob *b;
	int r = -ENOMEM;

	buf_printf(&head, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n", type);
	answer_put_common(&head);
	buf_puts(&head, "X-Accel-Buffering: no\r\nConnection: close\r\n");
	buf_puts(&head, s->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
	if (buf_finish(&head) < 0)
		return buf_finish(&head);
	b = blob_new(head.data, head.len);
	if (b)
		r = line_put(&s->line, NULL, 0, b, 0);
	blob_unref(b);
	return r;
}

static void stream_free(struct http_stream *s)
{
	line_done(&s->line);
	free(s);
}

int http_stream_open(struct http_request *r, const char *type, http_stream_gone *gone, void *data,
                     struct http_stream **ret)
{
	struct http_stream *s = calloc(1, sizeof(*s));
	int err, fd;

	if (!s)
		return -ENOMEM;
	line_init(&s->line, r->s);
	s->line.flushed = stream_flushed;
	s->line.end = stream_end;
	s->line.leave = stream_leave;
	s->gone = gone;
	s->data = data;
	s->chunked = !r->http10;
	err = put_head(s, type);
	fd = err < 0 ? FD_NONE : fcntl(r->conn->fd, F_DUPFD_CLOEXEC, 0);
	if (err == 0)
		err = fd < 0 ? -errno : line_open(&s->line, fd, r->conn->use);
	if (err < 0) {
		stream_free(s);
		return err;
	}
	r->conn->use = NULL;
	r->s->counts.streams++;
	r->s->counts.answered++;
	r->answered = true; /* without an answer for MHD: it lets go of the connection */
	r->dead = true;
	request_resume(r);
	*ret = s;
	return 0;
}

int http_stream_put(struct http_stream *s, struct blob *b)
{
	char size[20];
	int n = snprintf(size, sizeof(size), "%zx\r\n", b->n), r;

	if (!b->n)
		return 0; /* as a chunk it would be the end */
	r = s->chunked ? line_put(&s->line, size, (size_t)n, b, 2)
	               : line_put(&s->line, NULL, 0, b, 0);
	if (r == 0 || s->line.over)
		return 0; /* gone() follows */
	s->gone = NULL;
	line_over(&s->line);
	return -ENOBUFS;
}

size_t http_stream_waiting(const struct http_stream *s)
{
	return s->line.queued;
}

void http_stream_end(struct http_stream *s)
{
	stream_finish(s);
}
