/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/doc.h"
#include "ledger/ledger.h"

#define SILENCE_MS       30000
#define SILENCE_MOST_MS  3600000
#define BUSY_TRIES       3
#define BUSY_MOST_S      60
#define PORT_DEFAULT     "7070"
#define TOKEN_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/=-"

/* ---- where it is ---- */

int client_default_socket(char ret[SOCKET_PATH_SIZE], struct err *err)
{
	char dir[4096];
	int r = ledger_default_dir(dir, sizeof(dir), err);

	return r < 0 ? r : socket_path_default(dir, ret, err);
}

static int bad_host(const char *host, const char *why, struct err *err)
{
	(void)err_set(err, ERR_INVALID, 0, "--host: \"%.80s\" %s", host, why);
	return err_remedy(err, -EINVAL, "say unix:/path, http://127.0.0.1:7070 or none");
}

static int set_unix(struct client *c, const char *host, const char *path, struct err *err)
{
	if (*path != '/')
		return bad_host(host, "names no absolute path", err);
	if (strlen(path) >= sizeof(c->path))
		return bad_host(host, "is longer than a socket's path can be", err);
	(void)snprintf(c->path, sizeof(c->path), "%s", path);
	(void)snprintf(c->where, sizeof(c->where), "unix:%s", path);
	c->kind = CLIENT_UNIX;
	return 0;
}

/* getaddrinfo() would take any number modulo 65536. */
static bool is_port(const char *digits)
{
	unsigned long n = strtoul(digits, NULL, 10);

	return n > 0 && n <= 65535;
}

/* "name", "name:port", "[address]:port", with a slash at the end or without. */
static int set_tcp(struct client *c, const char *host, const char *rest, struct err *err)
{
	bool bracket = *rest == '[';
	const char *name = rest + bracket;
	size_t n = strcspn(name, bracket ? "]" : ":/");
	const char *end = name + n + (bracket && name[n] == ']');
	const char *port = *end == ':' ? end + 1 : PORT_DEFAULT;
	size_t n_port = strspn(port, "0123456789");

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr(bracket ? ":.%" : ".-", name[i]))
			return bad_host(host, "holds no name and no address", err);
	if (!n || n >= sizeof(c->name) || (bracket && name[n] != ']'))
		return bad_host(host, "holds no name and no address", err);
	if (!n_port || n_port >= sizeof(c->port) || !is_port(port))
		return bad_host(host, "holds no port", err);
	if (*end == ':')
		end = port + n_port;
	if (*end && !streq(end, "/"))
		return bad_host(host, "goes on after the port", err);
	(void)snprintf(c->name, sizeof(c->name), "%.*s", (int)n, name);
	(void)snprintf(c->port, sizeof(c->port), "%.*s", (int)n_port, port);
	(void)snprintf(c->where, sizeof(c->where), bracket ? "http://[%s]:%s" : "http://%s:%s",
	               c->name, c->port);
	c->kind = CLIENT_TCP;
	return 0;
}

static int set_where(struct client *c, const char *host, struct err *err)
{
	if (streq(host, "none"))
		return 0;
	if (str_has_prefix(host, "unix:"))
		return set_unix(c, host, host + 5, err);
	if (*host == '/')
		return set_unix(c, host, host, err);
	if (str_has_prefix(host, "http://"))
		return set_tcp(c, host, host + 7, err);
	if (str_has_prefix(host, "https://")) {
		(void)err_set(err, ERR_UNSUPPORTED, 0, "--host: no TLS is built in");
		return err_remedy(err, -EPROTONOSUPPORT,
		                  "bring the port here: ssh -L 7070:127.0.0.1:7070 HOST");
	}
	return bad_host(host, "is no place", err);
}

/* ---- who we are ---- */

static int set_token(struct client *c, const char *name, char *text, struct err *err)
{
	size_t n = strcspn(text, "\r\n");

	if (text[n + strspn(text + n, "\r\n")] || n == 0 || n >= sizeof(c->token) ||
	    strspn(text, TOKEN_CHARACTERS) < n) {
		(void)err_set(err, ERR_INVALID, 0, "%s holds no token", name);
		return err_remedy(err, -EINVAL, "make one with \"brig token new\"");
	}
	(void)snprintf(c->token, sizeof(c->token), "%.*s", (int)n, text);
	return 0;
}

static int read_token(struct client *c, const char *path, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[TOKEN_SIZE + 8];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "BRIG_TOKEN_FILE \"%.120s\"", path);
	if (st.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH)) {
		(void)err_set(err, ERR_INVALID, 0, "BRIG_TOKEN_FILE: others can read or write it");
		return err_remedy(err, -EPERM, "chmod 600 it, and make another token");
	}
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_set(err, ERR_IO, errno, "BRIG_TOKEN_FILE \"%.120s\"", path);
	text[n] = '\0';
	return set_token(c, "BRIG_TOKEN_FILE", text, err);
}

static int find_token(struct client *c, struct err *err)
{
	char *text = getenv("BRIG_TOKEN");
	const char *path = getenv("BRIG_TOKEN_FILE");

	if (text && *text)
		return set_token(c, "BRIG_TOKEN", text, err);
	return path && *path ? read_token(c, path, err) : 0;
}

static int set_silence(struct client *c, struct err *err)
{
	const char *text = getenv("BRIG_TIMEOUT");
	uint64_t ms;

	c->silence_ms = SILENCE_MS;
	if (!text || !*text)
		return 0;
	if (parse_duration_ms(text, &ms) < 0 || ms < 1 || ms > SILENCE_MOST_MS) {
		(void)err_set(err, ERR_INVALID, 0, "BRIG_TIMEOUT: \"%.40s\" is no time", text);
		return err_remedy(err, -EINVAL, "give a time from 1ms to 1h, like 30s");
	}
	c->silence_ms = (unsigned)ms;
	return 0;
}

/* ---- is it there ---- */

/* Code goes to nobody whom we did not name: the default socket must be ours or root's. */
static int check_owner(const struct client *c, struct err *err)
{
	struct ucred who;
	socklen_t n = sizeof(who);

	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
		return err_set(err, ERR_IO, errno, "who listens at %s", c->where);
	if (who.uid == 0 || who.uid == geteuid())
		return 0;
	(void)err_set(err, ERR_DENIED, EPERM, "the daemon at %s is another user's", c->where);
	return err_remedy(err, -EPERM, "say --host %.100s if that is meant, or --host none",
	                  c->where);
}

/* A place that is closed to us is somebody else's: what su leaves in the environment. */
static bool is_nobody(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ENOTDIR || r == -EACCES;
}

static int try_default(struct client *c, struct err *err)
{
	char path[SOCKET_PATH_SIZE];
	int r;

	if (client_default_socket(path, /* err= */ NULL) < 0)
		return 0;
	r = set_unix(c, path, path, err);
	if (r >= 0)
		r = wire_connect(c, err);
	if (is_nobody(r)) {
		*err = (struct err){ 0 };
		c->kind = CLIENT_NONE;
		return 0;
	}
	if (r < 0)
		return r;
	c->fd = r;
	r = check_owner(c, err);
	if (r < 0)
		client_done(c);
	return r < 0 ? r : 1;
}

static void warn_of_clear_text(const struct client *c)
{
	if (c->kind != CLIENT_TCP || !*c->token || streq(c->name, "localhost") ||
	    streq(c->name, "::1") || str_has_prefix(c->name, "127."))
		return;
	(void)fprintf(stderr,
	              "brig: the token goes to %s as it is, and whoever is between can read it\n",
	              c->name);
}

static int find(const char *host, bool default_too, struct client *ret, struct err *err)
{
	const char *named = host ? host : getenv("BRIG_HOST");
	struct client c = { .fd = FD_NONE, .cancel = FD_NONE };
	int r = set_silence(&c, err);

	c.asked = named && *named;
	if (r >= 0 && c.asked)
		r = set_where(&c, named, err);
	else if (r >= 0 && default_too)
		r = try_default(&c, err);
	if (r >= 0 && c.kind != CLIENT_NONE)
		r = find_token(&c, err);
	if (r >= 0)
		warn_of_clear_text(&c);
	if (r < 0) {
		client_done(&c);
		return r;
	}
	*ret = c;
	return c.kind != CLIENT_NONE;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

int client_find(const char *host, bool embedded, struct client *ret, struct err *err)
{
	/* Whoever names a record or a policy means those, and not the daemon's. */
	bool own = embedded || is_set("BRIG_STATE_DIR") || is_set("BRIG_POLICY");

	return find(host, !own, ret, err);
}

int client_need(const char *host, struct client *ret, struct err *err)
{
	int r = find(host, true, ret, err);

	if (r != 0)
		return r < 0 ? r : 0;
	(void)err_set(err, ERR_NOT_FOUND, 0, "there is no daemon");
	return err_remedy(err, -ENOENT, "start one with \"brig serve\", or say --host WHERE");
}

void client_done(struct client *c)
{
	c->fd = fd_close(c->fd);
	explicit_bzero(c->token, sizeof(c->token));
}

/* ---- calls ---- */

static int exchange(struct client *c, const struct client_call *call, struct reply *r,
                    struct err *err)
{
	CLEANUP_FD int fd = wire_connect(c, err);
	int e;

	if (fd < 0)
		return fd;
	e = wire_send(c, fd, call, /* after= */ 0, err);
	return e < 0 ? e : wire_receive(c, fd, call->wait_ms, false, r, err);
}

/* The connection broke: whoever asks again gets the same answer, so it is asked again. */
static bool may_retry(const struct client_call *call, int e)
{
	if (call->once || (streq(call->method, "POST") && !call->key))
		return false;
	return e == -EPROTO || e == -ECONNRESET || e == -EPIPE;
}

static int exchange_safely(struct client *c, const struct client_call *call, struct reply *r,
                           struct err *err)
{
	size_t max = call->max ? call->max : CLIENT_BODY_MAX;
	int e;

	reply_init(r, max);
	e = exchange(c, call, r, err);
	if (e >= 0 || !may_retry(call, e))
		return e;
	reply_free_fields(r);
	reply_init(r, max);
	*err = (struct err){ 0 };
	return exchange(c, call, r, err);
}

static int wait_busy(const struct client *c, uint64_t seconds, struct err *err)
{
	uint64_t ms = 1000 * MAX2(1, MIN2(seconds, (uint64_t)BUSY_MOST_S));
	struct pollfd p = { c->cancel, POLLIN, 0 };

	progress("the daemon is busy; asking again in %llu s", (unsigned long long)ms / 1000);
	(void)poll(&p, 1, (int)ms);
	progress_clear();
	return p.revents ? err_set(err, ERR_IO, EINTR, "the daemon was busy") : 0;
}

int client_call(struct client *c, const struct client_call *call, struct reply *ret,
                struct err *err)
{
	struct err story = { 0 };
	struct reply r;
	int e = 0;

	for (int i = 0;; i++) {
		e = exchange_safely(c, call, &r, &story);
		if (e < 0 || r.status != 429 || i == BUSY_TRIES)
			break;
		reply_free_fields(&r);
		r.line = r.body = BUF_INIT(0);
		e = wait_busy(c, r.retry_after_s, &story);
		if (e < 0)
			break;
	}
	if (e >= 0 && (r.status < 200 || r.status >= 300))
		e = doc_error(&r, &story);
	if (e < 0) {
		reply_free_fields(&r);
		if (err)
			*err = story;
		return e;
	}
	*ret = r;
	return 0;
}

/* ---- streams ---- */

int client_stream_open(struct client *c, const char *path, uint64_t after, size_t max,
                       struct client_stream *ret, struct err *err)
{
	const struct client_call call = { .method = "GET", .path = path };
	struct client_stream s = { .fd = wire_connect(c, err) };
	int e = s.fd;

	reply_init(&s.reply, max);
	event_reader_init(&s.events, max);
	if (e >= 0)
		e = wire_send(c, s.fd, &call, after, err);
	if (e >= 0)
		e = wire_receive(c, s.fd, 0, true, &s.reply, err);
	if (e >= 0 && s.reply.status != 200) {
		(void)wire_receive(c, s.fd, 0, false, &s.reply, NULL);
		e = doc_error(&s.reply, err);
	}
	if (e >= 0 && !str_has_prefix(s.reply.type, "text/event-stream"))
		e = err_set(err, ERR_IO, EPROTO, "%s sends no events", c->where);
	if (e < 0)
		client_stream_close(&s);
	else
		*ret = s;
	return e < 0 ? e : 0;
}

int client_stream_read(struct client_stream *s)
{
	char chunk[65536];
	ssize_t n;

	if (s->reply.state == REPLY_DONE)
		return -ENODATA;
	n = recv(s->fd, chunk, sizeof(chunk), 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -ENODATA;
	return reply_feed(&s->reply, chunk, (size_t)n);
}

int client_stream_event(struct client_stream *s, struct event *ret)
{
	return event_next(&s->events, &s->reply.body, ret);
}

void client_stream_close(struct client_stream *s)
{
	(void)fd_close(s->fd);
	reply_free_fields(&s->reply);
	event_reader_free_fields(&s->events);
	*s = CLIENT_STREAM_INIT;
}

/* ---- what is under way, for whoever looks ---- */

static bool progress_shown;

void progress(const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	(void)fputs("\r\033[Kbrig: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fflush(stderr);
	progress_shown = true;
}

void progress_clear(void)
{
	if (progress_shown)
		(void)fputs("\r\033[K", stderr);
	(void)fflush(stderr);
	progress_shown = false;
}
