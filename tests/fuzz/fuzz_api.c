/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may send to the daemon, down to the ledger. The first byte tells what the rest is
 * (enum mode). In the rest "@" and a letter stand for what nobody can guess: see put_name(). Every
 * answer is looked at, none may be brigd's own failure; when the clients have gone nothing of them
 * is left.
 */
#include "fuzz.h"

#include <ctype.h>
#include <sys/socket.h>

#include "api_answers.h"
#include "api_fuzz.h"

#define GENERATION  250 /* inputs; then all begins anew */
#define CLIENTS_MAX 12
#define TEXT_MAX    (256 * KIB)
#define GOT_MAX     (4 * MIB)
#define PIECE       (16 * KIB)
#define SETTLE_RUNS 200
#define GONE_RUNS   5000

enum mode {
	MODE_RAW = 0, /* bytes of one connection; so is whatever is not listed here */
	MODE_EXECUTE, /* a body, with all that belongs to it */
	MODE_DECIDE,
	MODE_APPROVER, /* messages of an approver, one a line */
	MODE_GET,      /* path and query */
	MODE_DELETE,
	MODE_RISK,
	MODE_POLICY,
	MODE_CREATE,   /* with a key */
	MODE_LISTENER, /* bytes behind the handshake of /events */
	MODE_SCRIPT,   /* see script_line() */
};

struct client {
	int fd;
	bool deaf; /* reads nothing */
	struct buf got;
};

static struct client clients[CLIENTS_MAX];
static size_t n_clients;
static bool ends;                        /* the daemon does, at once */
static bool drained;                     /* and when it has taken leave of all */
static bool has_head;                    /* an answer to HEAD cannot be told from others */
static char standing[EXECUTION_ID_SIZE]; /* an execution that waits for a person */

/* ---- clients ---- */

static struct client *dial(void)
{
	struct client *c = &clients[n_clients];
	int pair[2];

	MUST(n_clients < CLIENTS_MAX);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	MUST(http_server_adopt(api_http(api), pair[1]) == 0);
	*c = (struct client){ .fd = pair[0], .got = BUF_INIT(GOT_MAX) };
	n_clients++;
	return c;
}

static bool listen_to(struct client *c)
{
	char chunk[4096];
	ssize_t n;
	bool any = false;

	while (c->fd >= 0 && !c->deaf && (n = recv(c->fd, chunk, sizeof(chunk), 0)) > 0) {
		buf_put(&c->got, chunk, (size_t)n);
		any = true;
	}
	return any;
}

/* One turn of the daemon. */
static bool turn(void)
{
	bool any = false;

	(void)api_busy(api);
	(void)uv_run(&loop, api->n_works ? UV_RUN_ONCE : UV_RUN_NOWAIT);
	api_turn(api);
	for (size_t i = 0; i < n_clients; i++)
		any |= listen_to(&clients[i]);
	return any;
}

/* Until nothing comes any more. */
static void settle(void)
{
	int quiet = 0;

	for (int i = 0; i < SETTLE_RUNS && quiet < 3; i++)
		quiet = turn() || api->n_works ? 0 : quiet + 1;
}

static void send_all(struct client *c, struct str s, size_t step)
{
	for (size_t at = 0; at < s.n; at += step) {
		(void)!send(c->fd, s.p + at, MIN2(step, s.n - at), MSG_NOSIGNAL);
		(void)turn();
	}
}

static void send_buf_all(struct client *c, const struct buf *b)
{
	send_all(c, (struct str){ b->data, b->len }, PIECE);
	if (!ends)
		settle();
}

static void hang_up(struct client *c)
{
	(void)listen_to(c);
	c->fd = fd_close(c->fd);
	if (buf_finish(&c->got) >= 0 && !has_head)
		check_answers((struct str){ c->got.data, c->got.len });
	buf_done(&c->got);
}

static void hang_up_all(void)
{
	for (size_t i = 0; i < n_clients; i++)
		hang_up(&clients[i]);
	n_clients = 0;
}

static bool somebody_is_there(void)
{
	struct http_counts c;

	http_server_counts(api_http(api), &c);
	return c.connections || c.requests || c.streams || c.websockets || api->n_works;
}

/* ---- what is there ---- */

static void put_request(struct buf *b, const char *method, struct str path, const char *headers,
                        const struct str *body)
{
	buf_printf(b, "%s " API_PREFIX, method);
	buf_put(b, path.p, path.n);
	buf_printf(b, " HTTP/1.1\r\nHost: brig\r\n%s", headers);
	if (body) {
		buf_printf(b, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
		           body->n);
		buf_put(b, body->p, body->n);
	} else {
		buf_puts(b, "\r\n");
	}
}

/* Each time another code: an answer to the one before must not count for it. */
static void ask_anew(void)
{
	static unsigned count;
	CLEANUP_BUF struct buf b = BUF_INIT(4 * KIB);
	char text[128];
	struct str body = { text, 0 };
	struct client *c = dial();

	body.n = (size_t)snprintf(text, sizeof(text),
	                          "{\"language\":\"python\",\"code\":\"import os # %u\"}", ++count);
	put_request(&b, "POST", STR("/executions"), "", &body);
	send_buf_all(c, &b);
	hang_up_all();
	MUST(api->ex.newest && api->ex.newest->job && api->ex.newest->job->state == JOB_WAITING);
	memcpy(standing, api->ex.newest->id, sizeof(standing));
}

static struct execution *need_standing(void)
{
	struct execution *ex = ex_find(api, standing);

	if (!ex || !ex->job || ex->job->state != JOB_WAITING) {
		ask_anew();
		ex = ex_find(api, standing);
	}
	MUST(ex && ex->job && *ex->job->approval.id);
	return ex;
}

static const char *id_of_over(void)
{
	for (const struct execution *ex = api->ex.newest; ex; ex = ex->older)
		if (!ex->job)
			return ex->id;
	return "none";
}

/* The Execution that waits, its Approval, its Hash; the Last one, one that is Done; a Token. */
static void put_name(struct buf *b, char letter)
{
	const struct execution *ex = ex_find(api, standing);

	if (letter == 'E')
		buf_puts(b, standing);
	else if (letter == 'A')
		buf_puts(b, ex && ex->job ? ex->job->approval.id : "none");
	else if (letter == 'H')
		for (size_t i = 0; i < SHA256_SIZE; i++)
			buf_printf(b, "%02x", ex && ex->job ? ex->job->digest[i] : 0);
	else if (letter == 'L')
		buf_puts(b, api->ex.newest ? api->ex.newest->id : "none");
	else if (letter == 'D')
		buf_puts(b, id_of_over());
	else if (letter == 'T')
		buf_puts(b, token);
	else
		buf_printf(b, "@%c", letter);
}

static void put_named(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '@' && i + 1 < s.n && s.p[i + 1])
			put_name(b, s.p[++i]);
		else
			buf_putc(b, s.p[i]);
	}
}

/* ---- inputs ---- */

#define SHAKE                                                                                      \
	"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"               \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static struct str until(struct str *rest, char c)
{
	const char *end = rest->n ? memchr(rest->p, c, rest->n) : NULL;
	struct str s = { rest->p, end ? (size_t)(end - rest->p) : rest->n };

	rest->n -= s.n + (end != NULL);
	rest->p += s.n + (end != NULL);
	return s;
}

static void put_text_frame(struct buf *b, struct str s)
{
	static const unsigned char mask[4] = { 0x5a, 0xc3, 0x11, 0x80 };

	buf_putc(b, (char)0x81);
	if (s.n < 126) {
		buf_putc(b, (char)(0x80 | s.n));
	} else {
		s.n = MIN2(s.n, (size_t)UINT16_MAX);
		buf_putc(b, (char)(0x80 | 126));
		buf_putc(b, (char)(s.n >> 8));
		buf_putc(b, (char)s.n);
	}
	buf_put(b, mask, sizeof(mask));
	for (size_t i = 0; i < s.n; i++)
		buf_putc(b, (char)(s.p[i] ^ mask[i % 4]));
}

static void run_approver(struct client *c, struct str text)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * KIB);

	put_request(&b, "GET", STR("/approvals/ws"), SHAKE, NULL);
	send_buf_all(c, &b);
	for (int i = 0; text.n && i < 64; i++) {
		CLEANUP_BUF struct buf frame = BUF_INIT(2 * TEXT_MAX);

		put_text_frame(&frame, until(&text, '\n'));
		send_buf_all(c, &frame);
	}
}

static void run_listener(struct client *c, struct str text)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * KIB);

	put_request(&b, "GET", STR("/events?after=0"), SHAKE, NULL);
	send_buf_all(c, &b);
	send_all(c, text, PIECE);
}

static void run_request(struct client *c, const char *method, struct str path, const char *headers,
                        const struct str *body)
{
	CLEANUP_BUF struct buf b = BUF_INIT(2 * TEXT_MAX);

	put_request(&b, method, path, headers, body);
	send_buf_all(c, &b);
}

/* "METHOD path[ body]" of a new client */
static void script_request(char kind, struct str line)
{
	char method[16];
	struct client *c;
	struct str word = until(&line, ' '), path = until(&line, ' ');

	if (n_clients == CLIENTS_MAX || !path.n)
		return;
	c = dial();
	c->deaf = kind == '-';
	(void)snprintf(method, sizeof(method), "%.*s", (int)word.n, word.p);
	run_request(c, *method ? method : "GET", path, kind == 'w' ? SHAKE : "",
	            line.n ? &line : NULL);
}

static void script_message(struct str text)
{
	CLEANUP_BUF struct buf frame = BUF_INIT(2 * TEXT_MAX);

	put_text_frame(&frame, text);
	if (n_clients)
		send_buf_all(&clients[n_clients - 1], &frame);
}

/* As the daemon does it. There is no way back from here. */
static void take_leave(void)
{
	drained = true;
	api_drain(api);
	http_server_drain(api_http(api));
	http_server_end_streams(api_http(api));
}

/*
 * "+", "-", "w" and a request: of one who listens, who does not, who wants a WebSocket. "m": a
 * message of the last client. Digit: that client goes. "e": what runs ends; "c": is cancelled. "t":
 * time passes. "r": it reads its policy again. "d": it drains; "D": to the last stream. "q" and
 * perhaps a request: it ends while they are all there.
 */
static void script_line(struct str line)
{
	CLEANUP_BUF struct buf named = BUF_INIT(2 * TEXT_MAX);
	struct str rest;
	char kind;

	put_named(&named, line);
	if (buf_finish(&named) < 0 || !named.len)
		return;
	kind = named.data[0];
	rest = (struct str){ named.data + 1, named.len - 1 };
	ends = kind == 'q';
	if (kind == '+' || kind == '-' || kind == 'w' || kind == 'q')
		script_request(kind, rest);
	else if (kind == 'm')
		script_message(rest);
	else if (kind == 'e')
		fake_end_all(false);
	else if (kind == 't')
		api_tick(api);
	else if (kind == 'c')
		api_cancel_all(api);
	else if (kind == 'r')
		MUST(pipeline_reload(pl, policy_path, NULL) >= 0);
	else if (kind == 'd')
		api_drain(api);
	else if (kind == 'D')
		take_leave();
	else if (isdigit((unsigned char)kind) && (size_t)(kind - '0') < n_clients)
		hang_up(&clients[kind - '0']);
	if (!ends)
		settle();
}

static void run_script(struct str text)
{
	for (int i = 0; text.n && i < 24 && !ends; i++)
		script_line(until(&text, '\n'));
}

static void run_one(uint8_t mode, struct str text)
{
	char path[64];
	struct client *c;

	if (mode == MODE_SCRIPT) {
		run_script(text);
		return;
	}
	(void)snprintf(path, sizeof(path), "/approvals/%s", need_standing()->job->approval.id);
	c = dial();
	if (mode == MODE_EXECUTE)
		run_request(c, "POST", STR("/execute"), "", &text);
	else if (mode == MODE_DECIDE)
		run_request(c, "POST", str_of(path), "", &text);
	else if (mode == MODE_APPROVER)
		run_approver(c, text);
	else if (mode == MODE_GET || mode == MODE_DELETE)
		run_request(c, mode == MODE_GET ? "GET" : "DELETE", text, "", NULL);
	else if (mode == MODE_RISK)
		run_request(c, "POST", STR("/risk/assess"), "", &text);
	else if (mode == MODE_POLICY)
		run_request(c, "POST", STR("/policy/check"), "", &text);
	else if (mode == MODE_CREATE)
		run_request(c, "POST", STR("/executions"), "Idempotency-Key: k\r\n", &text);
	else if (mode == MODE_LISTENER)
		run_listener(c, text);
	else
		send_all(c, text, mode ? (size_t)mode * 4 : PIECE);
	settle();
}

/* Nothing of the clients may be left, and what they began ends. */
static void clean_up(void)
{
	int runs = 0;

	while (somebody_is_there() && ++runs < GONE_RUNS)
		(void)turn();
	MUST(!somebody_is_there());
	MUST(!api->n_watchers && !api->n_listeners && !api->n_approvers && !api->n_timed);
	for (struct execution *ex = api->ex.newest; ex; ex = ex->older) {
		MUST(!ex->waiters && !ex->watchers);
		if (ex->job && !streq(ex->id, standing))
			pipeline_cancel(pl, ex->job);
	}
	for (int i = 0; i < 4; i++)
		(void)turn();
	api_tick(api);
	api->draining = false;
	MUST(api->ex.n_live <= 1 && api->ex.n_over <= api->config.keep_results);
}

/* The doctor is a process, and not what is looked at here. */
static void have_a_doctor(void)
{
	if (!api->doctor.len) {
		api->doctor = BUF_INIT(16);
		buf_puts(&api->doctor, "{}");
	}
	api->doctor_ms = clock_ms();
}

static void begin(void)
{
	static unsigned inputs;

	if (inputs == 0)
		(void)atexit(daemon_exit);
	if (inputs++ % GENERATION == 0)
		daemon_stop();
	if (!api)
		daemon_start();
	ends = drained = false;
	have_a_doctor();
	(void)need_standing();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_BUF struct buf text = BUF_INIT(TEXT_MAX);
	struct str rest = { (const char *)data + 1, size - 1 };

	if (size < 1 || size > TEXT_MAX / 64)
		return 0;
	begin();
	if (data[0] == MODE_SCRIPT)
		buf_put(&text, rest.p, rest.n); /* names when their line comes */
	else
		put_named(&text, rest);
	MUST(buf_finish(&text) >= 0);
	has_head = has_word(rest, "HEAD ");
	run_one(data[0], (struct str){ text.data, text.len });
	if (ends || drained)
		daemon_stop();
	hang_up_all();
	if (api)
		clean_up();
	return 0;
}
