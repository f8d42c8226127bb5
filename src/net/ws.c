/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSockets. Frames are read by wslay; messages, control frames and the closing are ours, because
 * here is where the bounds are: one message at a time, a few pongs, one text of what is wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <wslay/wslay.h>

#include "net/impl.h"

#define CLOSE_MS    3000
#define TURN_BYTES  (256 * KIB) /* read from one peer before the others have their turn */
#define PONGS_MAX   16
#define CONTROL_MAX 125
#define PINGS_MAX   2
#define KEEP_BYTES  (16 * KIB) /* of memory for the next message */

enum ws_state {
	WS_OPENING = 0, /* the answer to the handshake is not out yet */
	WS_OPEN,
	WS_CLOSING, /* our close frame is queued; the peer's is waited for */
	WS_FAILED,  /* the peer breaks the rules: what it sends is dropped */
	WS_CLOSED,  /* both frames are there: over when ours is out */
};

struct ws {
	struct line line;
	struct ws_handler handler;
	void *data;
	wslay_frame_context_ptr frame;
	char *early; /* bytes that came behind the handshake */
	size_t early_n, early_at;
	enum ws_state state;
	uint64_t heard_ms, close_ms;
	unsigned pings; /* not answered */
	size_t budget;
	uint64_t seen; /* bytes of the frame */
	bool in_frame, in_message, end_of_file;
	struct buf message;
	size_t control_n;
	char control[CONTROL_MAX + 1];
};

static struct ws *ws_of(struct line *l)
{
	return CONTAINER(l, struct ws, line);
}

static ssize_t read_early(struct ws *w, uint8_t *p, size_t n)
{
	size_t left = MIN2(n, w->early_n - w->early_at);

	memcpy(p, w->early + w->early_at, left);
	w->early_at += left;
	if (w->early_at == w->early_n)
		free(TAKE_PTR(w->early));
	return (ssize_t)left;
}

/* For wslay: what is 0 or less means "not now". */
static ssize_t on_recv(uint8_t *p, size_t n, int flags, void *data)
{
	struct ws *w = data;
	ssize_t got;

	(void)flags;
	if (w->early)
		return read_early(w, p, n);
	n = MIN2(n, w->budget);
	if (!n)
		return 0;
	got = recv(w->line.watch.fd, p, n, MSG_DONTWAIT);
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		w->end_of_file = true;
	if (got <= 0)
		return 0;
	w->budget -= (size_t)got;
	w->line.s->counts.bytes_in += (size_t)got;
	w->heard_ms = server_now(w->line.s);
	w->pings = 0;
	return got;
}

static int put_control(struct ws *w, unsigned opcode, const char *p, size_t n)
{
	char head[2] = { (char)(0x80 | opcode), (char)n };
	struct blob *b = n ? blob_new(p, n) : NULL;
	int r;

	if (n && !b)
		return -ENOMEM;
	r = line_add(&w->line, head, sizeof(head), b, 0);
	blob_unref(b);
	return r;
}

static void put_close(struct ws *w, unsigned code, const char *reason, enum ws_state state)
{
	char text[CONTROL_MAX + 1];
	int n = snprintf(text + 2, sizeof(text) - 2, "%s", reason ? reason : "");

	if (w->state != WS_OPEN && w->state != WS_OPENING)
		return;
	text[0] = (char)(code >> 8);
	text[1] = (char)code;
	w->close_ms = server_now(w->line.s);
	w->state = state;
	if (put_control(w, WSLAY_CONNECTION_CLOSE, text,
	                code ? MIN2((size_t)n, CONTROL_MAX - 2) + 2 : 0) < 0)
		line_over(&w->line);
}

static void fail(struct ws *w, unsigned code, const char *reason)
{
	put_close(w, code, reason, WS_FAILED);
	w->state = WS_FAILED;
}

/* The peer may say these; the others are for use inside programs. */
static bool is_close_code(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static void on_close_frame(struct ws *w)
{
	unsigned code = (unsigned)(uint8_t)w->control[0] << 8 | (uint8_t)w->control[1];

	if (w->control_n && !is_close_code(code)) {
		fail(w, WSLAY_CODE_PROTOCOL_ERROR, "close code");
		return;
	}
	if (w->control_n && !utf8_is_valid(w->control + 2, w->control_n - 2)) {
		fail(w, WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA, "close reason");
		return;
	}
	put_close(w, w->control_n ? code : 0, NULL, WS_CLOSED);
	w->state = WS_CLOSED;
	line_due(&w->line);
}

/* Of a flood of pings only some are answered: the last ones go unanswered, which is allowed. */
static void on_ping(struct ws *w)
{
	if (w->state != WS_OPEN || w->line.pongs >= PONGS_MAX)
		return;
	if (put_control(w, WSLAY_PONG, w->control, w->control_n) < 0)
		return;
	w->line.pongs++;
	CONTAINER(w->line.last, struct piece, next)->pong = true;
}

static void on_control(struct ws *w, unsigned opcode)
{
	w->control[w->control_n] = '\0';
	if (opcode == WSLAY_CONNECTION_CLOSE)
		on_close_frame(w);
	else if (opcode == WSLAY_PING)
		on_ping(w);
}

static void on_message(struct ws *w)
{
	struct buf m = w->message;

	w->in_message = false;
	if (!utf8_is_valid(m.data, m.len)) {
		fail(w, WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA, "not UTF-8");
		return;
	}
	if (w->state == WS_OPEN)
		w->handler.message(w->data, w, (struct str){ m.data ? m.data : "", m.len });
	if (w->message.cap > KEEP_BYTES)
		buf_done(&w->message);
	w->message.len = 0;
}

/* 0, or the code to close with. */
static unsigned check_frame(const struct ws *w, const struct wslay_frame_iocb *f)
{
	if (!f->mask || f->rsv)
		return WSLAY_CODE_PROTOCOL_ERROR;
	switch (f->opcode) {
	case WSLAY_CONNECTION_CLOSE:
		return f->payload_length == 1 ? WSLAY_CODE_PROTOCOL_ERROR : 0;
	case WSLAY_PING:
	case WSLAY_PONG:
		return 0;
	case WSLAY_BINARY_FRAME:
		return w->in_message ? WSLAY_CODE_PROTOCOL_ERROR : WSLAY_CODE_UNSUPPORTED_DATA;
	case WSLAY_TEXT_FRAME:
	case WSLAY_CONTINUATION_FRAME:
		if (w->in_message != (f->opcode == WSLAY_CONTINUATION_FRAME))
			return WSLAY_CODE_PROTOCOL_ERROR;
		return f->payload_length > w->message.max - w->message.len
		               ? WSLAY_CODE_MESSAGE_TOO_BIG
		               : 0;
	default:
		return WSLAY_CODE_PROTOCOL_ERROR;
	}
}

static const char *reason_of(unsigned code)
{
	switch (code) {
	case WSLAY_CODE_UNSUPPORTED_DATA:
		return "text only";
	case WSLAY_CODE_MESSAGE_TOO_BIG:
		return "message too big";
	default:
		return "protocol error";
	}
}

static void on_part(struct ws *w, const struct wslay_frame_iocb *f)
{
	bool control = wslay_is_ctrl_frame(f->opcode);

	if (control) {
		memcpy(w->control + w->control_n, f->data, f->data_length);
		w->control_n += f->data_length;
	} else {
		w->in_message = true;
		buf_put(&w->message, f->data, f->data_length);
		if (buf_finish(&w->message) < 0) {
			fail(w, WSLAY_CODE_INTERNAL_SERVER_ERROR, "no memory");
			return;
		}
	}
	w->seen += f->data_length;
	if (w->seen < f->payload_length)
		return;
	w->in_frame = false;
	if (control)
		on_control(w, f->opcode);
	else if (f->fin)
		on_message(w);
}

static void start_frame(struct ws *w, const struct wslay_frame_iocb *f)
{
	unsigned code = check_frame(w, f);

	w->in_frame = true;
	w->seen = 0;
	w->control_n = 0;
	if (code)
		fail(w, code, reason_of(code));
}

/* One step of wslay's. False: nothing more now. */
static bool read_part(struct ws *w)
{
	struct wslay_frame_iocb f;
	ssize_t n = wslay_frame_recv(w->frame, &f);

	if (n == WSLAY_ERR_WANT_READ)
		return false;
	if (n < 0) {
		fail(w, WSLAY_CODE_PROTOCOL_ERROR, "protocol error");
		return false;
	}
	if (!w->in_frame)
		start_frame(w, &f);
	if (w->state != WS_FAILED)
		on_part(w, &f);
	return true;
}

static void drop_bytes(struct ws *w)
{
	uint8_t sink[4096];

	while (!w->end_of_file && on_recv(sink, sizeof(sink), 0, w) > 0)
		;
}

static void ws_readable(struct line *l)
{
	struct ws *w = ws_of(l);

	w->budget = TURN_BYTES;
	while ((w->state == WS_OPEN || w->state == WS_CLOSING) && read_part(w))
		;
	if (w->state == WS_FAILED || w->state == WS_CLOSED)
		drop_bytes(w);
	if (w->end_of_file)
		line_over(l);
}

static void ws_tick(struct line *l, uint64_t now_ms)
{
	struct ws *w = ws_of(l);
	unsigned ping_ms = l->s->limits.ws_ping_ms;

	if (w->state == WS_OPENING)
		return;
	if (w->state != WS_OPEN) {
		if (now_ms - w->close_ms > CLOSE_MS)
			line_over(l);
		return;
	}
	if (now_ms - w->heard_ms <= (uint64_t)ping_ms * (w->pings + 1))
		return;
	if (w->pings >= PINGS_MAX || put_control(w, WSLAY_PING, NULL, 0) < 0)
		line_over(l);
	w->pings++;
}

/* The peer closes the connection after the frames; when it began, we may. */
static void ws_flushed(struct line *l)
{
	if (ws_of(l)->state == WS_CLOSED)
		l->over = true;
}

static void ws_end(struct line *l)
{
	struct ws *w = ws_of(l);

	w->handler.closed(w->data, w);
	l->s->counts.websockets--;
	line_done(l);
	wslay_frame_context_free(w->frame);
	buf_done(&w->message);
	free(w->early);
	free(w);
}

static void ws_leave(struct line *l)
{
	ws_close(ws_of(l), WSLAY_CODE_GOING_AWAY, "going away");
}

struct ws *ws_new(struct http_server *s, const struct ws_handler *h, void *data)
{
	static const struct wslay_frame_callbacks callbacks = { .recv_callback = on_recv };
	struct ws *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	if (wslay_frame_context_init(&w->frame, &callbacks, w) != 0) {
		free(w);
		return NULL;
	}
	line_init(&w->line, s);
	w->line.readable = ws_readable;
	w->line.tick = ws_tick;
	w->line.flushed = ws_flushed;
	w->line.end = ws_end;
	w->line.leave = ws_leave;
	w->handler = *h;
	w->data = data;
	w->message = BUF_INIT(s->limits.ws_message_bytes);
	s->counts.websockets++;
	return w;
}

void ws_opened(struct ws *w, int fd, struct peer_use *use, const void *early, size_t early_n)
{
	struct http_server *s = w->line.s;

	w->heard_ms = server_now(s);
	if (w->state == WS_OPENING)
		w->state = WS_OPEN;
	if (early_n) {
		w->early = malloc(early_n);
		if (w->early) {
			memcpy(w->early, early, early_n);
			w->early_n = early_n;
		}
	}
	if (fd < 0 || line_open(&w->line, fd, use) < 0 || (early_n && !w->early)) {
		peer_release(s, w->line.use ? NULL : use);
		line_over(&w->line);
		return;
	}
	if (w->early)
		ws_readable(&w->line);
}

void ws_never(struct ws *w)
{
	line_over(&w->line);
}

size_t ws_waiting(const struct ws *w)
{
	return w->line.queued;
}

int ws_send(struct ws *w, struct blob *b)
{
	char head[10] = { (char)0x81 };
	size_t head_n = b->n < 126 ? 2 : b->n < 65536 ? 4 : 10;
	int r;

	if (w->state != WS_OPEN && w->state != WS_OPENING)
		return -EPIPE;
	head[1] = (char)(head_n == 2 ? b->n : head_n == 4 ? 126 : 127);
	for (size_t i = 2; i < head_n; i++)
		head[i] = (char)((uint64_t)b->n >> (8 * (head_n - 1 - i)));
	r = line_put(&w->line, head, head_n, b, 0);
	if (r == -ENOBUFS || r == -ENOMEM) {
		line_drop_unsent(&w->line);
		ws_close(w, WSLAY_CODE_POLICY_VIOLATION, "too slow");
		return -ENOBUFS;
	}
	return r;
}

void ws_close(struct ws *w, unsigned code, const char *reason)
{
	put_close(w, code, reason, WS_CLOSING);
}
