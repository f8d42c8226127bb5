/* SPDX-License-Identifier: Apache-2.0 */
#include "http_case.h"

#define HOST      "Host: x\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"
#define SHAKE                                                                                      \
	"GET /ws HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"    \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

TestSuite(http_stream, .init = open_server, .fini = close_server);
TestSuite(http_ws, .init = open_server, .fini = close_server);

static int put_text(const char *text)
{
	struct blob *b = blob_new(text, strlen(text));
	int r = http_stream_put(stream, b);

	blob_unref(b);
	return r;
}

static int open_stream(const char *request)
{
	int fd = dial();

	puts_to(fd, request);
	UNTIL(stream);
	return fd;
}

Test(http_stream, pieces_are_chunks_and_the_end_is_one)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_stream(GET("/stream"));

	cr_expect_eq(put_text("data: 1\n\n"), 0);
	cr_expect_eq(put_text(""), 0, "an empty one is not the end");
	cr_expect(get(fd, &b, "9\r\ndata: 1\n\n\r\n"));
	cr_expect(str_has_prefix(b.data, "HTTP/1.1 200 OK\r\n"));
	cr_expect(strstr(b.data, "Content-Type: text/event-stream\r\n") != NULL);
	cr_expect(strstr(b.data, "Transfer-Encoding: chunked\r\n") != NULL);
	cr_expect_eq(put_text("x"), 0);
	http_stream_end(stream);
	cr_expect(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "\r\n1\r\nx\r\n0\r\n\r\n") != NULL);
	cr_expect_eq(n_stream_gone, 0);
	UNTIL(server->counts.streams == 0 && server->counts.connections == 0);
	(void)close(fd);
}

Test(http_stream, old_client_gets_it_without_chunks)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_stream("GET /stream HTTP/1.0\r\n" HOST "\r\n");

	cr_expect_eq(put_text("abc"), 0);
	http_stream_end(stream);
	cr_expect(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "\r\n\r\nabc") != NULL);
	cr_expect(strstr(b.data, "chunked") == NULL);
	(void)close(fd);
}

Test(http_stream, reader_that_leaves_is_told_of_once)
{
	int fd = open_stream(GET("/stream"));

	(void)close(fd);
	UNTIL(n_stream_gone);
	UNTIL(server->counts.connections == 0);
	cr_expect_eq(n_stream_gone, 1);
	cr_expect_eq(server->counts.streams, 0u);
	cr_expect_eq(n_gone, 0);
}

Test(http_stream, reader_that_shuts_its_sending_side_has_left)
{
	int fd = open_stream(GET("/stream"));

	(void)shutdown(fd, SHUT_WR);
	UNTIL(n_stream_gone);
	(void)close(fd);
}

Test(http_stream, slow_reader_is_dropped_at_the_bound)
{
	char *large = calloc(1, 100000);
	struct blob *b = blob_new(large, 100000);
	int fd = open_stream(GET("/stream")), r = 0, n = 0;

	for (; n < 100 && r == 0; n++) {
		r = http_stream_put(stream, b);
		turn();
	}
	cr_expect_eq(r, -ENOBUFS);
	cr_expect(n > 10 && n < 40, "%d", n);
	UNTIL(server->counts.streams == 0);
	cr_expect_eq(b->refs, 1u, "the queue is freed");
	cr_expect_eq(n_stream_gone, 0);
	blob_unref(b);
	free(large);
	(void)close(fd);
}

Test(http_stream, large_pieces_arrive_in_order_at_a_slow_reader)
{
	CLEANUP_BUF struct buf got = BUF_INIT(4 * MIB), want = BUF_INIT(4 * MIB);
	int fd = open_stream(GET("/stream"));
	char part[30001] = { 0 };

	for (int i = 0; i < 20; i++) {
		memset(part, 'a' + i, sizeof(part) - 1);
		cr_assert_eq(put_text(part), 0);
		buf_printf(&want, "%zx\r\n", sizeof(part) - 1);
		buf_puts(&want, part);
		buf_puts(&want, "\r\n");
	}
	buf_puts(&want, "0\r\n\r\n");
	http_stream_end(stream);
	cr_expect(get(fd, &got, NULL));
	cr_assert(buf_finish(&want) == 0 && got.len > want.len);
	cr_expect(memcmp(got.data + got.len - want.len, want.data, want.len) == 0);
	cr_expect(memcmp(got.data + got.len - want.len - 4, "\r\n\r\n", 4) == 0);
	(void)close(fd);
}

Test(http_stream, late_request_becomes_a_stream)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, GET("/later"));
	UNTIL(waiting && server->requests);
	cr_assert_eq(http_stream_open(waiting, "text/plain", on_stream_gone, &stream, &stream), 0);
	cr_expect_eq(put_text("abc"), 0);
	cr_expect(get(fd, &b, "3\r\nabc\r\n"));
	(void)close(fd);
	UNTIL(n_stream_gone);
	cr_expect_eq(n_gone, 0);
}

Test(http_stream, server_ends_streams_and_tells_of_it)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_stream(GET("/stream"));

	cr_expect_eq(put_text("abc"), 0);
	http_server_end_streams(server);
	cr_expect_eq(n_stream_gone, 1);
	cr_expect(get(fd, &b, NULL));
	cr_expect(strstr(b.data, "3\r\nabc\r\n0\r\n\r\n") != NULL);
	(void)close(fd);
}

Test(http_stream, closing_the_server_tells_of_it)
{
	int fd = open_stream(GET("/stream"));

	shut_server();
	cr_expect_eq(n_stream_gone, 1);
	(void)close(fd);
}

/* A masked frame. */
static void put_frame(struct buf *out, unsigned first, const char *p, size_t n)
{
	static const char mask[] = "abcd";

	buf_putc(out, (char)first);
	if (n < 126) {
		buf_putc(out, (char)(0x80 | n));
	} else {
		buf_putc(out, (char)(0x80 | 127));
		for (int i = 7; i >= 0; i--)
			buf_putc(out, (char)((uint64_t)n >> (8 * i)));
	}
	buf_put(out, mask, 4);
	for (size_t i = 0; i < n; i++)
		buf_putc(out, (char)(p[i] ^ mask[i % 4]));
}

static int open_ws(void)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, SHAKE "\r\n");
	cr_assert(get(fd, &b, "\r\n\r\n"));
	cr_assert(str_has_prefix(b.data, "HTTP/1.1 101 "));
	cr_assert(socket_of_test);
	return fd;
}

static void send_frame(int fd, unsigned first, const char *p, size_t n)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * MIB);

	put_frame(&b, first, p, n);
	put(fd, b.data, b.len);
}

/* Without NULs in it. */
static void expect_frames(int fd, const char *frames)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * MIB);

	cr_expect(get(fd, &b, frames), "%.80s", b.data ? b.data : "nothing");
}

Test(http_ws, handshake_is_answered)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, SHAKE "Sec-WebSocket-Protocol: a, brig.v1\r\n\r\n");
	cr_assert(get(fd, &b, "\r\n\r\n"));
	cr_expect(strstr(b.data, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") != NULL);
	cr_expect(strstr(b.data, "Sec-WebSocket-Protocol: brig.v1\r\n") != NULL);
	cr_expect(strstr(b.data, "Extensions") == NULL);
	(void)close(fd);
	UNTIL(n_ws_closed == 1);
	UNTIL(server->counts.connections == 0);
	cr_expect_eq(server->counts.websockets, 0u);
}

Test(http_ws, wrong_handshake_is_no_upgrade)
{
#define LINE(method) method " /ws HTTP/1.1\r\n" HOST
#define UP           "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define V            "Sec-WebSocket-Version: 13\r\n"
#define KEY          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	static const char *const wrong[] = {
		LINE("GET") UP KEY "\r\n",
		LINE("GET") UP V "\r\n",
		LINE("GET") UP V V KEY "\r\n",
		LINE("GET") UP V KEY KEY "\r\n",
		LINE("POST") UP V KEY "\r\n",
		LINE("GET") "Upgrade: websocket\r\n" V KEY "\r\n",
		LINE("GET") UP V "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n\r\n",
		LINE("GET") UP V "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n\r\n",
		LINE("GET") UP V "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n\r\n",
		LINE("GET") UP V "Sec-WebSocket-Key: dGhl*HNhbXBsZSBub25jZQ==\r\n\r\n",
		LINE("GET") "Upgrade: h2c\r\nConnection: Upgrade\r\n" V KEY "\r\n",
		"GET /ws HTTP/1.0\r\n" HOST UP V KEY "\r\n",
	};

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
		expect_open(wrong[i], "no upgrade");
	cr_expect_null(socket_of_test);
}

Test(http_ws, other_version_is_told_ours)
{
	static const char text[] = LINE("GET") UP KEY "Sec-WebSocket-Version: 8\r\n\r\n";
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	puts_to(fd, text);
	cr_expect(get(fd, &b, NULL));
	cr_expect(str_has_prefix(b.data, "HTTP/1.1 426 "));
	cr_expect(strstr(b.data, "Sec-WebSocket-Version: 13\r\n") != NULL);
	(void)close(fd);
}

Test(http_ws, message_arrives_and_is_answered)
{
	int fd = open_ws();

	send_frame(fd, 0x81, "h\xc3\xa9llo", 6);
	expect_frames(fd, "\x81\x06h\xc3\xa9llo");
	(void)close(fd);
}

Test(http_ws, frame_behind_the_handshake_is_not_lost)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = dial();

	buf_puts(&b, SHAKE "\r\n");
	put_frame(&b, 0x81, "early", 5);
	put(fd, b.data, b.len);
	expect_frames(fd, "\x81\x05"
	                  "early");
	(void)close(fd);
}

Test(http_ws, fragments_are_one_message_with_a_ping_between)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_ws();

	put_frame(&b, 0x01, "\xe2", 1);
	put_frame(&b, 0x89, "p", 1);
	put_frame(&b, 0x00, "\x82", 1);
	put_frame(&b, 0x80, "\xac", 1);
	put(fd, b.data, b.len);
	expect_frames(fd, "\x8a\x01p\x81\x03\xe2\x82\xac");
	cr_expect_eq(n_messages, 1);
	(void)close(fd);
}

struct broken {
	const char *frames; /* as sent */
	size_t n;
	const char *close; /* the code */
};
#define BROKEN(frames, code)                                                                       \
	{                                                                                          \
		frames, sizeof(frames) - 1, code                                                   \
	}

Test(http_ws, broken_rules_are_answered_with_their_code)
{
	static const struct broken broken[] = {
		BROKEN("\x81\x03"
		       "abc",
		       "\x03\xea"), /* not masked */
		BROKEN("\xc1\x81"
		       "abcdx",
		       "\x03\xea"), /* RSV1 */
		BROKEN("\x83\x81"
		       "abcdx",
		       "\x03\xea"), /* reserved */
		BROKEN("\x8b\x81"
		       "abcdx",
		       "\x03\xea"), /* reserved */
		BROKEN("\x09\x81"
		       "abcdx",
		       "\x03\xea"), /* fragmented ping */
		BROKEN("\x89\xfe\x00\x7e"
		       "abcd",
		       "\x03\xea"), /* long ping */
		BROKEN("\x81\xfe\x00\x05"
		       "abcdvwxyz",
		       "\x03\xea"), /* length in more bytes than needed */
		BROKEN("\x81\xff\x80\0\0\0\0\0\0\0"
		       "abcd",
		       "\x03\xea"), /* 2^63 */
		BROKEN("\x81\xff\x40\0\0\0\0\0\0\0"
		       "abcdx",
		       "\x03\xf1"), /* 2^62 */
		BROKEN("\x80\x81"
		       "abcdx",
		       "\x03\xea"), /* goes on with nothing */
		BROKEN("\x01\x81"
		       "abcd\x11\x81\x81"
		       "abcd\x11",
		       "\x03\xea"), /* one within another */
		BROKEN("\x82\x81"
		       "abcdx",
		       "\x03\xeb"), /* binary */
		BROKEN("\x81\x81"
		       "abcd\x9e",
		       "\x03\xef"), /* 0xff */
		BROKEN("\x81\x82"
		       "abcd\x83\xe0",
		       "\x03\xef"), /* cut short */
		BROKEN("\x88\x81"
		       "abcdx",
		       "\x03\xea"), /* half a code */
		BROKEN("\x88\x82"
		       "abcd\x62\x8f",
		       "\x03\xea"), /* 1005 */
		BROKEN("\x88\x83"
		       "abcd\x62\x8a\x9c",
		       "\x03\xef"), /* 1000, and 0xff */
	};

	for (size_t i = 0; i < ELEMENTSOF(broken); i++) {
		CLEANUP_BUF struct buf b = BUF_INIT(4096);
		int fd = open_ws();

		put(fd, broken[i].frames, broken[i].n);
		cr_expect(get(fd, &b, broken[i].close), "%zu: no %02x%02x", i,
		          (unsigned char)broken[i].close[0], (unsigned char)broken[i].close[1]);
		cr_expect(b.len > 3 && (unsigned char)b.data[0] == 0x88 &&
		                  memcmp(b.data + 2, broken[i].close, 2) == 0,
		          "%zu", i);
		(void)close(fd);
		UNTIL(!socket_of_test);
	}
	cr_expect_eq(n_messages, 0);
}

Test(http_ws, peer_closes)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_ws();

	send_frame(fd, 0x88,
	           "\x03\xe8"
	           "bye",
	           5);
	cr_expect(get(fd, &b, NULL), "and so do we");
	cr_expect(b.len == 4 && memcmp(b.data, "\x88\x02\x03\xe8", 4) == 0);
	UNTIL(n_ws_closed == 1);
	(void)close(fd);
}

Test(http_ws, we_close)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_ws();

	send_frame(fd, 0x81, "close", 5);
	cr_expect(get(fd, &b,
	              "\x88\x05\x03\xe8"
	              "bye"));
	cr_expect_eq(n_ws_closed, 0, "the peer's close is waited for");
	send_frame(fd, 0x88, "\x03\xe8", 2);
	cr_expect(get(fd, &b, NULL));
	UNTIL(n_ws_closed == 1);
	(void)close(fd);
}

Test(http_ws, peer_that_does_not_close_is_dropped)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd = open_ws();

	send_frame(fd, 0x81, "close", 5);
	cr_expect(get(fd, &b, NULL));
	cr_expect_eq(n_ws_closed, 1);
	(void)close(fd);
}

Test(http_ws, message_has_a_bound_however_it_is_cut)
{
	CLEANUP_BUF struct buf b = BUF_INIT(16 * MIB);
	int fd;

	close_server();
	open_with(&(struct http_limits){ .ws_message_bytes = 10000 });
	fd = open_ws();
	put_frame(&b, 0x01, "a", 1);
	for (int i = 0; i < 11000; i++)
		put_frame(&b, 0x00, "b", 1);
	put(fd, b.data, b.len);
	expect_frames(fd, "\x03\xf1message too big");
	cr_expect(socket_of_test || n_ws_closed);
	(void)close(fd);
}

Test(http_ws, flood_of_pings_has_a_bound)
{
	CLEANUP_BUF struct buf b = BUF_INIT(16 * MIB);
	char text[125];
	int fd = open_ws();
	size_t most = 0;

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 2000; i++)
		put_frame(&b, 0x89, text, sizeof(text));
	for (size_t at = 0; at < b.len;) {
		ssize_t n = send(fd, b.data + at, b.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		at += n > 0 ? (size_t)n : 0;
		turn();
		most = MAX2(most, ((struct line *)socket_of_test)->queued);
	}
	cr_expect(most < 8000, "%zu", most);
	(void)close(fd);
}

Test(http_ws, silent_peer_is_asked_and_dropped)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	int fd;

	close_server();
	open_with(&(struct http_limits){ .ws_ping_ms = 100 });
	fd = open_ws();
	cr_expect(get(fd, &b, NULL));
	cr_expect(b.len == 4 && memcmp(b.data, "\x89\0\x89\0", 4) == 0, "two pings");
	cr_expect_eq(n_ws_closed, 1);
	(void)close(fd);
}

Test(http_ws, slow_reader_is_closed_with_1008)
{
	char *large = calloc(1, 100000);
	struct blob *b;
	int fd = open_ws(), r = 0, n = 0;

	memset(large, 'x', 100000);
	b = blob_new(large, 100000);
	for (; n < 100 && r == 0; n++) {
		r = ws_send(socket_of_test, b);
		turn();
	}
	cr_expect_eq(r, -ENOBUFS);
	cr_expect(n > 10 && n < 40, "%d", n);
	cr_expect_eq(ws_send(socket_of_test, b), -EPIPE);
	expect_frames(fd, "\x03\xf0too slow");
	cr_expect_eq(n_ws_closed, 0);
	(void)close(fd);
	UNTIL(n_ws_closed == 1);
	cr_expect_eq(b->refs, 1u);
	blob_unref(b);
	free(large);
}

Test(http_ws, server_ends_them_with_1001)
{
	int fd = open_ws();

	http_server_end_streams(server);
	expect_frames(fd, "\x03\xe9going away");
	(void)close(fd);
	UNTIL(n_ws_closed == 1);
}

Test(http_ws, closing_the_server_tells_of_it)
{
	int fd = open_ws();

	shut_server();
	cr_expect_eq(n_ws_closed, 1);
	(void)close(fd);
}

Test(http_parts, sha1_is_sha1)
{
	static const struct {
		const char *text, *digest;
	} cases[] = {
		{ "", "\xda\x39\xa3\xee\x5e\x6b\x4b\x0d\x32\x55\xbf\xef\x95\x60\x18\x90\xaf\xd8\x07"
		      "\x09" },
		{ "abc", "\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0"
		         "\xd8\x9d" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "\x84\x98\x3e\x44\x1c\x3b\xd2\x6e\xba\xae\x4a\xa1\xf9\x51\x29\xe5\xe5\x46\x70"
		  "\xf1" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		uint8_t digest[SHA1_SIZE];

		sha1(cases[i].text, strlen(cases[i].text), digest);
		cr_expect(memcmp(digest, cases[i].digest, SHA1_SIZE) == 0, "%zu", i);
	}
}

Test(http_parts, utf8_is_checked)
{
	static const char *const good[] = { "",
		                            "a",
		                            "\xc3\xa9",
		                            "\xe2\x82\xac",
		                            "\xf0\x9f\x98\x80",
		                            "\xed\x9f\xbf",
		                            "\xf4\x8f\xbf\xbf" };
	static const char *const bad[] = { "\x80",
		                           "\xc3",
		                           "\xc0\x80",
		                           "\xc1\xbf",
		                           "\xe0\x80\x80",
		                           "\xed\xa0\x80",
		                           "\xf0\x80\x80\x80",
		                           "\xf4\x90\x80\x80",
		                           "\xf5\x80\x80\x80",
		                           "\xff",
		                           "\xe2\x82",
		                           "a\xe2\x28\xa1" };

	for (size_t i = 0; i < ELEMENTSOF(good); i++)
		cr_expect(utf8_is_valid(good[i], strlen(good[i])), "good %zu", i);
	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		cr_expect_not(utf8_is_valid(bad[i], strlen(bad[i])), "bad %zu", i);
}
