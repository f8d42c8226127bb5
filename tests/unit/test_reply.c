/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/reply.h"

/* All of it in pieces of `step` bytes; then the end. */
static int feed(struct reply *r, const char *text, size_t step)
{
	size_t n = strlen(text);
	int e = 0;

	for (size_t at = 0; at < n && e == 0; at += step)
		e = reply_feed(r, text + at, MIN2(step, n - at));
	return e < 0 ? e : reply_eof(r);
}

Test(reply, every_form_gives_the_same_body_in_pieces_of_any_size)
{
	static const char *const forms[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200\nContent-Length: 5\n\nhello",
		"HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\ntransfer-encoding:  Chunked "
		"\r\n\r\n1\r\nh\r\n004;a=b\r\nello\r\n"
		"0\r\nX: y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello more",
	};

	for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
		for (size_t step = 1; step < 60; step++) {
			struct reply r;

			reply_init(&r, 100);
			cr_assert_eq(feed(&r, forms[i], step), 0, "form %zu in %zu", i, step);
			cr_assert_eq(r.status, 200);
			cr_assert_str_eq(r.body.data, "hello", "form %zu in %zu", i, step);
			reply_free_fields(&r);
		}
	}
}

Test(reply, what_is_wrong_is_an_error)
{
	static const struct {
		const char *text;
		int wanted;
	} rows[] = {
		{ "", -EPROTO },
		{ "HTTP/2 200 OK\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 20 OK\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 2000 OK\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nhello",
		  -EPROTO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
		  -EPROTO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
		  -EPROTO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
		  -EPROTO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n",
		  -EPROTO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", -EPROTO },
		{ "HTTP/1.1 101 Switching\r\n\r\n", -EPROTO },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", -EFBIG },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", -EFBIG },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct reply r;

		reply_init(&r, 100);
		cr_assert_eq(feed(&r, rows[i].text, 7), rows[i].wanted, "%s", rows[i].text);
		reply_free_fields(&r);
	}
}

Test(reply, a_head_without_end_is_bounded)
{
	struct reply r;
	int e;

	reply_init(&r, 100);
	e = reply_feed(&r, "HTTP/1.1 200 OK\r\n", 17);
	for (int i = 0; i < 100000 && e == 0; i++)
		e = reply_feed(&r, "A: b\r\n", 6);
	cr_assert_eq(e, -EFBIG);
	reply_free_fields(&r);
}

Test(reply, chunks_without_end_are_bounded)
{
	struct reply r;
	int e;

	reply_init(&r, 100);
	e = reply_feed(&r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 47);
	for (int i = 0; i < 1000 && e == 0; i++)
		e = reply_feed(&r, "1\r\na\r\n", 6);
	cr_assert_eq(e, -EFBIG);
	cr_assert_leq(r.body.len, 100);
	reply_free_fields(&r);
}

Test(reply, our_headers_are_read)
{
	struct reply r;

	reply_init(&r, 100);
	cr_assert_eq(feed(&r,
	                  "HTTP/1.1 200 OK\r\nBrig-Next-Offset: 17\r\nBRIG-DONE: true\r\n"
	                  "Brig-Dropped: 3\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n",
	                  1000),
	             0);
	cr_assert(r.has_next_offset && r.output_done);
	cr_assert_eq(r.next_offset, 17);
	cr_assert_eq(r.dropped, 3);
	cr_assert_eq(r.retry_after_s, 9);
	reply_free_fields(&r);
}

/* "name#id=data;" of each event, in pieces of `step` bytes. */
static void read_events(const char *text, size_t step, char *ret, size_t n)
{
	CLEANUP_BUF struct buf body = BUF_INIT(4096);
	struct event_reader e;
	struct event ev;
	size_t at = 0;

	event_reader_init(&e, 64);
	ret[0] = '\0';
	for (size_t i = 0; i < strlen(text); i += step) {
		buf_put(&body, text + i, MIN2(step, strlen(text) - i));
		while (event_next(&e, &body, &ev) > 0)
			at += (size_t)snprintf(ret + at, n - at, "%s#%d=%.*s;", ev.name, (int)ev.id,
			                       (int)ev.data.n, ev.data.p);
	}
	event_reader_free_fields(&e);
}

Test(events, are_read_in_pieces_of_any_size)
{
	static const char text[] =
		": a comment\n\nid: 1\nevent: state\ndata: {}\n\n"
		"data:two\r\ndata: lines\r\n\r\nevent: nothing\n\n"
		"id: 9\nevent: result\ndata: end\nunknown: x\n\ndata: not complete\n";
	char got[256];

	for (size_t step = 1; step < sizeof(text); step++) {
		read_events(text, step, got, sizeof(got));
		cr_assert_str_eq(got, "state#1={};#1=two\nlines;result#9=end;", "in %zu", step);
	}
}

Test(events, one_that_is_too_long_is_an_error)
{
	CLEANUP_BUF struct buf body = BUF_INIT(4096);
	struct event_reader e;
	struct event ev;

	event_reader_init(&e, 8);
	buf_puts(&body, "data: 123456789\n\n");
	cr_assert_eq(event_next(&e, &body, &ev), -EFBIG);
	event_reader_free_fields(&e);
}
