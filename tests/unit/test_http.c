/* SPDX-License-Identifier: Apache-2.0 */
#include "http_case.h"

#define HOST               "Host: x\r\n"
#define GET(path)          "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define POST(fields, body) "POST /p HTTP/1.1\r\n" HOST fields "\r\n" body

TestSuite(http, .init = open_server, .fini = close_server);

static size_t count(const struct buf *b, const char *what)
{
	size_t n = 0;

	for (const char *p = b->data; p && (p = strstr(p, what)); p++)
		n++;
	return n;
}

Test(http, request_is_answered)
{
	expect_open(GET("/x"), "\r\n\r\nGET /x 0 ");
	cr_expect_eq(n_begun, 1);
	cr_expect_eq(n_whole, 1);
	cr_expect_eq(n_gone, 0);
}

Test(http, answer_has_the_common_headers)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, GET("/x"));
	cr_assert(get(fd, &b, "GET /x"));
	cr_expect(strstr(b.data, "X-Content-Type-Options: nosniff\r\n") != NULL);
	cr_expect(strstr(b.data, "Cache-Control: no-store\r\n") != NULL);
	cr_expect(strstr(b.data, "Content-Security-Policy: default-src 'none'; sandbox\r\n") !=
	          NULL);
	cr_expect(strstr(b.data, "Content-Type: text/plain\r\n") != NULL);
	(void)close(fd);
}

Test(http, body_arrives_whole)
{
	expect_open(POST("Content-Length: 5\r\n", "hello"), "POST /p 5 hello");
}

Test(http, chunked_body_arrives_whole)
{
	expect_open(
		POST("Transfer-Encoding: Chunked\r\n", "5\r\nhello\r\n2;x=y\r\n, \r\n0\r\n\r\n"),
		"POST /p 7 hello, ");
}

Test(http, body_in_single_bytes_arrives_whole)
{
	static const char text[] = POST("Content-Length: 5\r\n", "hello");
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	for (size_t i = 0; i + 1 < sizeof(text); i++)
		put(fd, text + i, 1);
	cr_expect(get(fd, &b, "POST /p 5 hello"));
	(void)close(fd);
}

Test(http, continue_is_said_when_asked_for)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, POST("Content-Length: 5\r\nExpect: 100-continue\r\n", ""));
	cr_expect(get(fd, &b, "HTTP/1.1 100 Continue\r\n\r\n"));
	puts_to(fd, "hello");
	cr_expect(get(fd, &b, "POST /p 5 hello"));
	(void)close(fd);
}

Test(http, pipelined_requests_are_answered_in_order)
{
	CLEANUP_BUF struct buf b = BUF_INIT(65536);
	int fd = dial();

	puts_to(fd, GET("/1") POST("Content-Length: 2\r\n", "ab") GET("/later") GET("/4"));
	UNTIL(waiting);
	cr_expect_eq(n_whole, 3, "the fourth waits for the third");
	say(waiting, 200, "third");
	cr_assert(get(fd, &b, "GET /4 0"));
	cr_expect_eq(count(&b, "HTTP/1.1 200 OK"), 4u);
	cr_expect(strstr(b.data, "GET /1") < strstr(b.data, "POST /p"));
	cr_expect(strstr(b.data, "POST /p") < strstr(b.data, "third"));
	cr_expect(strstr(b.data, "third") < strstr(b.data, "GET /4"));
	(void)close(fd);
}

Test(http, late_answer_goes_out_with_a_flush)
{
	char part[4096];
	int fd = dial();
	ssize_t n;

	puts_to(fd, GET("/later"));
	UNTIL(waiting && server->requests);
	say(waiting, 201, "late");
	http_server_flush(server);
	n = recv(fd, part, sizeof(part) - 1, MSG_DONTWAIT);
	cr_assert(n > 0, "not in the same turn");
	part[n] = '\0';
	cr_expect(str_has_prefix(part, "HTTP/1.1 201 Created"));
	cr_expect(strstr(part, "\r\n\r\nlate") != NULL);
	(void)close(fd);
}

Test(http, client_that_shut_its_sending_side_gets_its_answer)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, GET("/later"));
	(void)shutdown(fd, SHUT_WR);
	UNTIL(waiting && server->requests);
	for (int i = 0; i < 20; i++)
		turn();
	cr_assert(waiting, "it is not gone");
	say(waiting, 200, "late");
	cr_expect(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "\r\n\r\nlate") != NULL);
	(void)close(fd);
}

Test(http, client_that_leaves_is_told_of_once)
{
	int fd = dial();

	puts_to(fd, GET("/later"));
	UNTIL(waiting && server->requests);
	(void)close(fd);
	UNTIL(n_gone);
	UNTIL(server->counts.connections == 0);
	cr_expect_eq(n_gone, 1);
	cr_expect_eq(server->counts.requests, 0u);
}

Test(http, client_that_leaves_within_its_body_is_told_of)
{
	int fd = dial();

	puts_to(fd, POST("Content-Length: 50\r\n", "hello"));
	UNTIL(n_begun);
	(void)close(fd);
	UNTIL(n_gone);
	cr_expect_eq(n_whole, 0);
	cr_expect_eq(server->bodies, 0u);
}

Test(http, early_answer_spares_the_body_and_ends_the_connection)
{
	static const char text[] = "POST /early HTTP/1.1\r\n" HOST "Content-Length: 99\r\n\r\nab";

	expect_closed(text, strlen(text), "HTTP/1.1 403 ");
	cr_expect_eq(n_whole, 0);
	cr_expect_eq(n_gone, 0);
}

Test(http, early_answer_without_a_body_keeps_the_connection)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, GET("/early") GET("/x"));
	cr_expect(get(fd, &b, "GET /x 0"));
	cr_expect_eq(n_whole, 1);
	(void)close(fd);
}

Test(http, head_comes_without_its_body)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, "HEAD /x HTTP/1.1\r\n" HOST "\r\n" GET("/y"));
	cr_assert(get(fd, &b, "GET /y 0"));
	cr_expect(strstr(b.data, "HEAD /x") == NULL);
	(void)close(fd);
}

struct wrong {
	const char *text;
	size_t n;
	const char *answer;
};
#define WRONG(text, status)                                                                        \
	{                                                                                          \
		text, sizeof(text) - 1, "HTTP/1.1 " status " "                                     \
	}

static const struct wrong wrongs[] = {
	/* two readers must not see two requests */
	WRONG(POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "400"),
	WRONG(POST("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), "400"),
	WRONG(POST("Content-Length: 5\r\ncontent-length: 6\r\n", "hello"), "400"),
	WRONG(POST("Content-Length: +5\r\n", "hello"), "400"),
	WRONG(POST("Content-Length: 5 \r\n", "hello"), "400"),
	WRONG(POST("Content-Length: 0x5\r\n", "hello"), "400"),
	WRONG(POST("Content-Length: 5, 5\r\n", "hello"), "400"),
	WRONG(POST("Content-Length:\r\n", "hello"), "400"),
	WRONG(POST("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: identity\r\n", "0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: chunked \r\n", "0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
	      "400"),
	WRONG("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
	WRONG(POST("Transfer-Encoding: chunked\r\n", "5g\r\nhello\r\n0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: chunked\r\n", "5 \r\nhello\r\n0\r\n\r\n"), "400"),
	WRONG(POST("Transfer-Encoding: chunked\r\n", "5\r\nhelloX0\r\n\r\n"), "400"),
	/* lines and fields */
	WRONG("GET / HTTP/1.1\nHost: x\n\n", "400"),
	WRONG("GET / HTTP/1.1\nHost: x\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\nHost: x\nAbc: b\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\nHost: x\r\n\n", "400"),
	WRONG("GET / HTTP/1.1\r\nHost: x\r\nA:\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n A: b\r\n" HOST "\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A(: b\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "abc\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A: b\0c\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A: b\0\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\n" HOST "A: b\x7f\r\n\r\n", "400"),
	/* the request line */
	WRONG("GET /\r\n\r\n", "400"),
	WRONG("GET / HTTP/0.9\r\n" HOST "\r\n", "505"),
	WRONG("GET / HTTP/1.2\r\n" HOST "\r\n", "505"),
	WRONG("GET / HTTP/2.0\r\n" HOST "\r\n", "505"),
	WRONG("GET / http/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET  / HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /  HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET / HTTP/1.1 \r\n" HOST "\r\n", "400"),
	WRONG("GET /a b HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /a\tb HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /a\0b HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /?\xe9 HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /a#b HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET /a\\b HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("GET http://x/ HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("CONNECT x:80 HTTP/1.1\r\n" HOST "\r\n", "405"),
	WRONG("G(T / HTTP/1.1\r\n" HOST "\r\n", "400"),
	WRONG("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ / HTTP/1.1\r\n" HOST "\r\n", "400"),
	/* Host, and what we do not do */
	WRONG("GET / HTTP/1.1\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.0\r\n\r\n", "400"),
	WRONG("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "400"),
	WRONG(POST("Content-Encoding: gzip\r\nContent-Length: 5\r\n", "hello"), "415"),
	WRONG(POST("Expect: 200-ok\r\nContent-Length: 5\r\n", "hello"), "417"),
	/* sizes */
	WRONG(POST("Content-Length: 16777217\r\n", "hello"), "413"),
	WRONG(POST("Content-Length: 1099511627776\r\n", "hello"), "413"),
	WRONG(POST("Content-Length: 99999999999999999999999999\r\n", "hello"), "413"),
	WRONG(POST("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\nhello"), "413"),
	WRONG("POST /small HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n", "413"),
	WRONG("POST /small HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
	      "6\r\nabcdef\r\n6\r\nabcdef\r\n",
	      "413"),
};

Test(http, wrong_form_is_refused_and_closed)
{
	for (size_t i = 0; i < ELEMENTSOF(wrongs); i++)
		expect_closed(wrongs[i].text, wrongs[i].n, wrongs[i].answer);
	cr_expect_eq(n_whole, 0);
	cr_expect_eq(n_begun, n_gone, "%d begun, %d gone", n_begun, n_gone);
	cr_expect_eq(server->bodies, 0u);
}

Test(http, refusal_says_what_the_handler_says)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, "GET / HTTP/1.1\r\n\r\n");
	cr_assert(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "Connection: close\r\n") != NULL);
	cr_expect(strstr(b.data, "\r\n\r\n{\"refused\":400}") != NULL);
	(void)close(fd);
}

static void expect_repeated(const char *before, const char *what, size_t n, const char *after,
                            const char *begins)
{
	CLEANUP_BUF struct buf b = BUF_INIT(16 * MIB);

	buf_puts(&b, before);
	for (size_t i = 0; i < n; i++)
		buf_puts(&b, what);
	buf_puts(&b, after);
	cr_assert(buf_finish(&b) == 0);
	expect_closed(b.data, b.len, begins);
}

Test(http, too_much_header_is_refused)
{
	expect_repeated("GET / HTTP/1.1\r\n" HOST, "A: b\r\n", 100000, "\r\n", "HTTP/1.1 431 ");
	expect_repeated("GET / HTTP/1.1\r\n" HOST, "A: b\r\n", HEADERS_MAX, "\r\n",
	                "HTTP/1.1 431 ");
	expect_repeated("GET / HTTP/1.1\r\n" HOST "A: ", "x", 1 << 20, "\r\n\r\n", "HTTP/1.1 431 ");
	expect_repeated("GET / HTTP/1.1\r\n" HOST "A: ", "x", 16 << 10, "\r\n\r\n",
	                "HTTP/1.1 431 ");
	expect_repeated("GET /", "x", 1 << 20, " HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 414 ");
	expect_repeated("GET /", "x", TARGET_MAX, " HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 414 ");
	cr_expect_eq(n_begun, 0);
}

Test(http, as_much_header_as_allowed_is_taken)
{
	CLEANUP_BUF struct buf b = BUF_INIT(65536);

	buf_puts(&b, "GET / HTTP/1.1\r\n" HOST "A: ");
	for (int i = 0; i < 16000; i++)
		buf_putc(&b, 'x');
	buf_puts(&b, "\r\n\r\n");
	expect_open(b.data, "GET / 0");
	b.len = 0;
	buf_puts(&b, "GET /?");
	for (int i = 0; i < 4000; i++)
		buf_puts(&b, "a&");
	buf_puts(&b, " HTTP/1.1\r\n" HOST "\r\n");
	expect_open(b.data, "GET / 0");
}

Test(http, endless_chunk_extension_is_no_endless_work)
{
	CLEANUP_BUF struct buf b = BUF_INIT(MIB);
	int fd = dial();
	uint64_t turns = 0, end;

	buf_puts(&b, POST("Transfer-Encoding: chunked\r\n", "5;"));
	for (int i = 0; i < 30000; i++)
		buf_putc(&b, 'x');
	for (size_t at = 0; at < b.len; at += 1000) {
		(void)!send(fd, b.data + at, MIN2((size_t)1000, b.len - at), MSG_NOSIGNAL);
		turn();
	}
	end = clock_ms() + 300;
	while (clock_ms() < end) {
		(void)uv_run(&loop, UV_RUN_ONCE);
		turns++;
	}
	cr_expect(turns < 1000, "%lu turns in 300 ms", (unsigned long)turns);
	(void)close(fd);
}

Test(http, bodies_of_all_are_bounded)
{
	static const char begun[] =
		POST("Content-Length: 60\r\n", "0123456789012345678901234567890123456789");
	int fd;

	close_server();
	open_with(&(struct http_limits){ .bodies_bytes = 100 });
	fd = dial();
	puts_to(fd, begun);
	UNTIL(server->bodies == 40);
	expect_closed(POST("Content-Length: 61\r\n", ""),
	              strlen(POST("Content-Length: 61\r\n", "")), "HTTP/1.1 503 ");
	(void)close(fd);
	UNTIL(server->bodies == 0);
	expect_open(POST("Content-Length: 3\r\n", "abc"), "POST /p 3 abc");
}
