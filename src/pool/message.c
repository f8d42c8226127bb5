/* SPDX-License-Identifier: Apache-2.0 */

/* How a run is told to whatever waits in its box: a zygote's child, Node, or a shell. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "pool/pool_impl.h"
#include "route/route.h"
#include "sys/sock.h"

#define CODE_INLINE_MAX 16384
#define SEND_MS         1000 /* for a message to a runner that waits for it */

/* What a runner in the box is told; it finds the code in the script's file. */
static int runner_message(const struct request *req, struct buf *out)
{
	char path[sizeof(WORKSPACE) + REQUEST_PATH_MAX + 1];

	(void)snprintf(path, sizeof(path), WORKSPACE "/%s", route_script(req));
	buf_puts(out, "{\"path\":");
	json_put_cstr(out, path);
	buf_puts(out, ",\"argv\":[");
	for (size_t i = 0; i < req->n_args; i++) {
		if (i)
			buf_putc(out, ',');
		json_put_cstr(out, req->args[i]);
	}
	buf_puts(out, "],\"env\":[");
	for (size_t i = 0; i < req->n_env; i++) {
		if (i)
			buf_putc(out, ',');
		json_put_cstr(out, req->env[i]);
	}
	buf_puts(out, "]}");
	return out->error;
}

static void put_strings(struct buf *out, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_put(out, list[i], strlen(list[i]) + 1);
}

/*
 * The same for a zygote's child, as strings with NUL between them: path, code, number of arguments,
 * arguments, environment. Code that is long is left to the file. A plus at the number: in the
 * script's folder are names that may be those of loaded modules.
 */
static int zygote_message(const struct request *req, struct buf *out)
{
	bool names = req->n_files || req->name;
	char count[24];

	buf_puts(out, WORKSPACE "/");
	buf_put(out, route_script(req), strlen(route_script(req)) + 1);
	if (req->code.n < CODE_INLINE_MAX)
		buf_put(out, req->code.p, req->code.n);
	buf_putc(out, '\0');
	(void)snprintf(count, sizeof(count), "%zu%s", req->n_args, names ? "+" : "");
	buf_put(out, count, strlen(count) + 1);
	put_strings(out, req->args, req->n_args);
	put_strings(out, req->env, req->n_env);
	if (out->len)
		out->len--; /* NUL stands between them */
	return out->error;
}

static int memfd_of(const struct buf *message)
{
	CLEANUP_FD int fd = memfd_create("brig-run", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (write(fd, message->data, message->len) != (ssize_t)message->len)
		return -EIO;
	return fd_take(&fd);
}

/* The word and, when they fit, what follows; else that in a memfd. */
static int send_run(struct box *b, const struct buf *message, const int theirs[LAUNCH_FDS])
{
	static char bytes[1 + BOX_RUN_INLINE_MAX]; /* not on the stack: it would be cleared */
	CLEANUP_FD int memfd = FD_NONE;
	int fds[5], n = 0;

	bytes[0] = BOX_RUN;
	for (int i = LAUNCH_FD_STDIN; i <= LAUNCH_FD_STDERR; i++)
		fds[n++] = theirs[i];
	if (theirs[LAUNCH_FD_REPORT] >= 0)
		fds[n++] = theirs[LAUNCH_FD_REPORT];
	if (message->len <= BOX_RUN_INLINE_MAX) {
		memcpy(bytes + 1, message->data, message->len);
		return sock_send(b->control, bytes, 1 + message->len, fds, (size_t)n);
	}
	fds[n++] = memfd = memfd_of(message);
	return memfd < 0 ? memfd : sock_send(b->control, bytes, 1, fds, (size_t)n);
}

/* A program that waits reads its message where it will report. */
static int send_to_program(struct box *b, const struct buf *message)
{
	ssize_t n;

	/* Whoever waits there reads it at once; a long one does not fit in one piece. */
	for (size_t at = 0; at < message->len; at += (size_t)n) {
		struct pollfd p = { b->report, POLLOUT, 0 };

		if (poll(&p, 1, SEND_MS) <= 0)
			return -ETIMEDOUT;
		n = send(b->report, message->data + at, message->len - at, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return -errno;
		n = n < 0 ? 0 : n;
	}
	return 0;
}

static int send_frame(struct box *b, const struct request *req)
{
	CLEANUP_BUF struct buf message = BUF_INIT(BOX_RUN_MAX - 64), frame = BUF_INIT(BOX_RUN_MAX);
	int r = runner_message(req, &message);

	if (r >= 0)
		r = report_frame(&frame, message.data, message.len);
	return r < 0 ? r : send_to_program(b, &frame);
}

/* As much as it takes now: a shell reads byte by byte. Nothing follows on that socket. */
static int tell_shell(struct pool_call *c, struct box *b)
{
	ssize_t n = send(b->report, c->text.data + c->text_at, c->text.len - c->text_at,
	                 MSG_NOSIGNAL | MSG_DONTWAIT);
	int r = n < 0 ? -errno : 0;

	if (r == -EAGAIN || r == -EINTR)
		return 0;
	c->text_at += r < 0 ? 0 : (size_t)n;
	if (r < 0 || c->text_at == c->text.len)
		b->report = fd_close(b->report);
	return r;
}

static int send_shell(struct pool *p, struct pool_call *c, struct box *b)
{
	struct epoll_event room = { .events = EPOLLOUT,
		                    .data.u64 =
		                            (uint64_t)TAG_REPORT << 32 | (uint32_t)(b - p->boxes) };
	int r;

	c->text = BUF_INIT(BOX_RUN_MAX);
	r = route_shell(c->req, b->plan, &c->text);
	if (r >= 0)
		r = tell_shell(c, b);
	if (r >= 0 && b->report >= 0 && epoll_ctl(p->epoll, EPOLL_CTL_MOD, b->report, &room) < 0)
		r = -errno;
	return r;
}

static int send_to_zygote(struct box *b, const struct request *req, const int theirs[LAUNCH_FDS])
{
	CLEANUP_BUF struct buf message = BUF_INIT(BOX_RUN_MAX - 64);
	int r = zygote_message(req, &message);

	return r < 0 ? r : send_run(b, &message, theirs);
}

int message_send(struct pool *p, struct pool_call *c, struct box *b, const int theirs[LAUNCH_FDS])
{
	if (p->shapes[b->shape].zygote)
		return send_to_zygote(b, c->req, theirs);
	return c->req->language == LANGUAGE_SHELL ? send_shell(p, c, b) : send_frame(b, c->req);
}

void message_more(struct pool_call *c, struct box *b)
{
	(void)tell_shell(c, b);
}
