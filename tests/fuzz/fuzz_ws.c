/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes behind a good handshake. The first byte tells how many go at once. Messages are UTF-8
 * and within their bound; when the client has gone the WebSocket is closed, once.
 */
#include "fuzz.h"
#include "http_fuzz.h"

static const char shake[] =
	"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

static struct ws *socket_of_input;

static void on_text(void *data, struct ws *w, struct str text)
{
	struct blob *b = blob_new(text.p, text.n);

	(void)data;
	MUST(b && w == socket_of_input && text.n <= 4096 && utf8_is_valid(text.p, text.n));
	MUST(text.p[text.n] == '\0');
	if (text.n && text.p[0] == 'x')
		ws_close(w, 1000, "as you say");
	else
		(void)ws_send(w, b);
	blob_unref(b);
}

static void on_closed(void *data, struct ws *w)
{
	(void)data;
	MUST(w == socket_of_input);
	socket_of_input = NULL;
}

static void on_begin(void *data, struct http_request *r)
{
	(void)data;
	(void)r;
}

static void on_whole(void *data, struct http_request *r)
{
	static const struct ws_handler h = { on_text, on_closed };

	(void)data;
	MUST(http_upgrade(r, &h, NULL, &socket_of_input) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_handler handler = { .begin = on_begin,
		                                     .whole = on_whole,
		                                     .gone = on_begin };
	int fd;

	if (size < 1)
		return 0;
	server_start(&handler);
	fd = dial();
	send_pieces(fd, (const uint8_t *)shake, sizeof(shake) - 1, sizeof(shake));
	MUST(socket_of_input);
	send_pieces(fd, data + 1, size - 1, data[0] ? (size_t)data[0] * 4 : 1);
	hang_up(fd);
	MUST(!socket_of_input);
	return 0;
}
