/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "net/impl.h"

#define TICK_MIN_MS 10
#define TICK_MAX_MS 1000

/* Every handle keeps the server alive until libuv is done with it. */
#define AS_HANDLE(s, which) (&(s)->handles[which].handle)
#define AS_POLL(s, which)   (&(s)->handles[which].poll)
#define AS_TIMER(s, which)  (&(s)->handles[which].timer)

uint64_t server_now(const struct http_server *s)
{
	return uv_now(s->handles[HANDLE_TICK].handle.loop);
}

void server_dirty(struct http_server *s)
{
	s->dirty = true;
}

static unsigned tick_ms(const struct http_limits *l)
{
	unsigned ms = MIN2(MIN2(l->idle_ms, l->header_ms), MIN2(l->write_ms, l->ws_ping_ms)) / 4;

	return MIN2(MAX2(ms, TICK_MIN_MS), TICK_MAX_MS);
}

static void on_tick(uv_timer_t *timer)
{
	struct http_server *s = timer->data;

	pace_tick(s);
	server_turn(s);
	if (!s->counts.connections && !s->lines)
		(void)uv_timer_stop(timer);
}

/* There is somebody to wait for. */
void server_watch_tick(struct http_server *s)
{
	uv_timer_t *timer = AS_TIMER(s, HANDLE_TICK);
	unsigned ms = tick_ms(&s->limits);

	if (!s->closing && !uv_is_active(AS_HANDLE(s, HANDLE_TICK)))
		(void)uv_timer_start(timer, on_tick, ms, ms);
}

static void on_again(uv_timer_t *timer)
{
	struct http_server *s = timer->data;

	s->dirty = true;
	server_turn(s);
}

/* MHD says that it could go on at once: true, unless it goes round in a circle. */
static bool mhd_goes_on(struct http_server *s, uint64_t moves)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(s->mhd, &ms) != MHD_YES || ms > 0) {
		s->spins = 0;
		return false;
	}
	if (moves != s->moves)
		s->spins = 0;
	else if (s->spins < SPINS_MAX)
		s->spins++;
	return true;
}

static void run_mhd(struct http_server *s)
{
	uint64_t moves = s->moves;

	s->dirty = false;
	s->busy++;
	(void)MHD_run(s->mhd);
	s->busy--;
	request_suspend_parked(s);
	if (mhd_goes_on(s, moves))
		(void)uv_timer_start(AS_TIMER(s, HANDLE_AGAIN), on_again,
		                     s->spins < SPINS_MAX ? 0 : TICK_MIN_MS, 0);
}

static void flush_lines(struct http_server *s)
{
	struct line *l;

	while ((l = s->due)) {
		s->due = l->due_next;
		l->due = false;
		if (!l->over)
			line_flush(l);
		if (l->over)
			l->end(l);
	}
}

/* Does what the callbacks left to do. Twice: an answer's header and its body are two steps of MHD.
 */
void server_turn(struct http_server *s)
{
	if (s->busy || s->closing)
		return;
	for (int i = 0; i < 3 && (s->dirty || s->due); i++) {
		if (s->dirty)
			run_mhd(s);
		s->busy++;
		flush_lines(s);
		s->busy--;
	}
	if (s->dirty || s->due)
		(void)uv_timer_start(AS_TIMER(s, HANDLE_AGAIN), on_again, 0, 0);
}

void http_server_flush(struct http_server *s)
{
	server_turn(s);
}

static void on_mhd(uv_poll_t *poll, int status, int events)
{
	struct http_server *s = poll->data;

	(void)status;
	(void)events;
	s->dirty = true;
	server_turn(s);
}

static void on_own(uv_poll_t *poll, int status, int events)
{
	struct http_server *s = poll->data;

	(void)status;
	(void)events;
	watch_dispatch(s);
	server_turn(s);
}

static void on_prepare(uv_prepare_t *prepare)
{
	server_turn(prepare->data);
}

static void or_default(unsigned *value, unsigned def)
{
	if (!*value)
		*value = def;
}

static void or_default_size(size_t *value, size_t def)
{
	if (!*value)
		*value = def;
}

static void limits_complete(struct http_limits *l)
{
	or_default(&l->connections, 10500);
	or_default(&l->per_peer, 10300);
	or_default_size(&l->header_bytes, 16 * KIB);
	or_default_size(&l->body_bytes, 16 * MIB);
	or_default_size(&l->bodies_bytes, 256 * MIB);
	or_default(&l->idle_ms, 60000);
	or_default(&l->header_ms, 5000);
	or_default(&l->body_bytes_per_s, 1024);
	or_default(&l->write_ms, 30000);
	or_default_size(&l->stream_bytes, 1 * MIB);
	or_default_size(&l->ws_message_bytes, 1 * MIB);
	or_default(&l->ws_ping_ms, 30000);
}

static size_t no_unescape(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls;
	(void)mhd;
	return strlen(text);
}

/*
 * TURBO: MHD then closes a socket without shutting it down first, which would also end the copy
 * that a stream goes on with.
 */
static struct MHD_Daemon *mhd_start(struct http_server *s)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_TURBO |
	                       MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE;

	/* clang-format off */
	return MHD_start_daemon(flags, 0, NULL, NULL, request_call, s,
		MHD_OPTION_NOTIFY_CONNECTION, conn_notify, s,
		MHD_OPTION_NOTIFY_COMPLETED, request_completed, s,
		MHD_OPTION_URI_LOG_CALLBACK, request_line, s,
		MHD_OPTION_UNESCAPE_CALLBACK, no_unescape, NULL,
		MHD_OPTION_CONNECTION_LIMIT, s->limits.connections + BATCH,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, s->limits.header_bytes + (size_t)POOL_EXTRA,
		MHD_OPTION_CONNECTION_TIMEOUT, 0u,
		MHD_OPTION_STRICT_FOR_CLIENT, 0, /* form.c is stricter, and says why */
		MHD_OPTION_END);
	/* clang-format on */
}

static int open_fds(struct http_server *s)
{
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return -errno;
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return s->spare_fd < 0 ? -errno : 0;
}

/* The loop's handles; from here on the memory is libuv's until they are closed. */
static int start_handles(struct http_server *s, uv_loop_t *loop)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	for (int i = HANDLE_TICK; i < HANDLE_COUNT; i++)
		(void)uv_timer_init(loop, AS_TIMER(s, i));
	(void)uv_prepare_init(loop, &s->handles[HANDLE_PREPARE].prepare);
	s->open_handles = HANDLE_COUNT - HANDLE_PREPARE;
	r = uv_poll_init(loop, AS_POLL(s, HANDLE_OWN), s->epoll_fd);
	if (r < 0)
		return r;
	s->open_handles++;
	r = uv_poll_init(loop, AS_POLL(s, HANDLE_MHD), info->epoll_fd);
	if (r < 0)
		return r;
	s->open_handles++;
	for (int i = 0; i < HANDLE_COUNT; i++)
		AS_HANDLE(s, i)->data = s;
	(void)uv_prepare_start(&s->handles[HANDLE_PREPARE].prepare, on_prepare);
	r = uv_poll_start(AS_POLL(s, HANDLE_OWN), UV_READABLE, on_own);
	return r < 0 ? r : uv_poll_start(AS_POLL(s, HANDLE_MHD), UV_READABLE, on_mhd);
}

static void server_free(struct http_server *s)
{
	if (s->mhd)
		MHD_stop_daemon(s->mhd);
	(void)fd_close(s->epoll_fd);
	(void)fd_close(s->spare_fd);
	free(s);
}

static void on_closed(uv_handle_t *handle)
{
	struct http_server *s = handle->data;

	if (--s->open_handles == 0)
		server_free(s);
}

static void close_handles(struct http_server *s)
{
	for (int i = 0; i < HANDLE_COUNT; i++) {
		if (AS_HANDLE(s, i)->type == UV_UNKNOWN_HANDLE)
			continue;
		AS_HANDLE(s, i)->data = s;
		uv_close(AS_HANDLE(s, i), on_closed);
	}
}

int http_server_open(struct uv_loop_s *loop, const struct http_limits *limits,
                     const struct http_handler *handler, struct http_server **ret, struct err *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, ERR_INTERNAL, ENOMEM, "the HTTP server");
	s->handler = *handler;
	s->limits = *limits;
	limits_complete(&s->limits);
	s->epoll_fd = s->spare_fd = FD_NONE;
	r = open_fds(s);
	if (r == 0)
		s->mhd = mhd_start(s);
	if (r < 0 || !s->mhd) {
		server_free(s);
		return err_set(err, ERR_INTERNAL, r < 0 ? -r : ENOMEM, "start the HTTP server");
	}
	r = start_handles(s, loop);
	if (r < 0) {
		s->closing = true;
		close_handles(s);
		return err_set(err, ERR_INTERNAL, -r, "watch the HTTP server");
	}
	*ret = s;
	return 0;
}

void http_server_drain(struct http_server *s)
{
	s->draining = true;
	listen_stop(s);
}

void http_server_end_streams(struct http_server *s)
{
	struct line *next;

	for (struct line *l = s->lines; l; l = next) {
		next = l->next;
		l->leave(l);
	}
	server_turn(s);
}

/* MHD will not stop with suspended connections: they are resumed to be refused. */
static void end_requests(struct http_server *s)
{
	s->busy++;
	(void)MHD_run(s->mhd);
	s->busy--;
	MHD_stop_daemon(s->mhd);
	s->mhd = NULL;
}

void http_server_close(struct http_server *s)
{
	s->closing = true;
	s->busy++;
	listen_stop(s);
	request_end_all(s);
	while (s->lines)
		s->lines->end(s->lines);
	(void)uv_poll_stop(AS_POLL(s, HANDLE_MHD));
	(void)uv_poll_stop(AS_POLL(s, HANDLE_OWN));
	end_requests(s);
	while (s->lines) /* WebSockets that had not opened */
		s->lines->end(s->lines);
	close_handles(s);
}

void http_server_counts(const struct http_server *s, struct http_counts *ret)
{
	*ret = s->counts;
}
