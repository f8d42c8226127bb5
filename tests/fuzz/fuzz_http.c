/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from a client. The first byte tells how many go at once; the path of a request tells
 * the handler when and how to answer.
 */
#include "fuzz.h"
#include "http_fuzz.h"

static struct http_request *waiting;
static struct http_stream *stream;
static size_t known; /* requests that began and have no answer */

/* Every accessor, so that a sanitizer sees what it gives. */
static void look_at(const struct http_request *r)
{
	char text[32];
	size_t sum = strlen(http_method(r)) + strlen(http_path(r)) + strlen(http_peer(r)->text);

	MUST(http_path(r)[0] == '/' && form_is_token(http_method(r), strlen(http_method(r))));
	MUST(http_header_count(r, "Host") == 1 && http_header(r, "host"));
	MUST(http_header_count(r, "Content-Length") + http_header_count(r, "Transfer-Encoding") <=
	     1);
	for (size_t i = 0; http_query_name(r, i, text, sizeof(text)) != -ENOENT; i++)
		sum += i;
	for (size_t i = 0; i < http_body(r).n; i++)
		sum += (unsigned char)http_body(r).p[i];
	sum += (size_t)(http_query(r, "a", text, sizeof(text)) == 1 && strlen(text));
	sum += (size_t)http_wants_ws(r);
	MUST(http_body(r).n <= 4096 && http_body(r).p[http_body(r).n] == '\0');
	(void)sum;
}

static void say(struct http_request *r)
{
	struct buf b = BUF_INIT(4096);

	known--;
	buf_puts(&b, "{}");
	http_answer(r, 200, "application/json", NULL, 0, &b);
}

static void on_begin(void *data, struct http_request *r)
{
	(void)data;
	look_at(r);
	known++;
	if (http_path(r)[1] == 'e')
		say(r);
	else if (http_path(r)[1] == 's')
		http_body_limit(r, 3);
}

static void on_stream_gone(void *data, struct http_stream *s)
{
	MUST(data == &stream && s == stream);
	stream = NULL;
}

static void on_text(void *data, struct ws *w, struct str text)
{
	MUST(utf8_is_valid(text.p, text.n));
	(void)data;
	(void)w;
}

static void on_closed(void *data, struct ws *w)
{
	(void)data;
	(void)w;
}

static void open_stream(struct http_request *r)
{
	struct blob *b = blob_new("event\n", 6);

	MUST(b && http_stream_open(r, "text/plain", on_stream_gone, &stream, &stream) == 0);
	known--;
	(void)http_stream_put(stream, b);
	blob_unref(b);
}

static void on_whole(void *data, struct http_request *r)
{
	static const struct ws_handler h = { on_text, on_closed };
	struct ws *w;

	(void)data;
	look_at(r);
	if (http_path(r)[1] == 'l' && !waiting)
		waiting = r;
	else if (http_path(r)[1] == 't' && !stream)
		open_stream(r);
	else if (http_wants_ws(r) == 1 && http_upgrade(r, &h, NULL, &w) == 0)
		known--;
	else
		say(r);
}

static void on_gone(void *data, struct http_request *r)
{
	(void)data;
	known--;
	if (r == waiting)
		waiting = NULL;
}

static void on_refusal(void *data, unsigned status, struct buf *ret_body)
{
	(void)data;
	MUST(status >= 400 && status < 600);
	buf_puts(ret_body, "{}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_handler handler = { on_begin, on_whole, on_gone, on_refusal,
		                                     NULL };
	int fd;

	if (size < 1)
		return 0;
	server_start(&handler);
	fd = dial();
	send_pieces(fd, data + 1, size - 1, data[0] ? (size_t)data[0] * 4 : 1);
	if (waiting && data[0] & 1) {
		say(TAKE_PTR(waiting));
		turn(fd);
	}
	if (stream && data[0] & 1)
		http_stream_end(TAKE_PTR(stream));
	hang_up(fd);
	MUST(!known && !waiting && !stream);
	return 0;
}
