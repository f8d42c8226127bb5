/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection in MHD, and what is left of it when MHD is done. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "net/impl.h"

#define DISCARD_BYTES (64 * KIB) /* at once */

struct conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info->socket_context;
}

static void conn_free(struct conn *c)
{
	request_drop(c);
	watch_stop(c->s, &c->hangup);
	conn_set_pace(c, PACE_NONE);
	peer_release(c->s, c->use);
	free(c);
}

/* The client was refused, or MHD gave up on it, while it was still sending. */
static bool wants_linger(const struct conn *c)
{
	int unread = 0;

	if (c->s->closing || !c->use) /* no use: the socket is a line's now */
		return false;
	return c->linger || (ioctl(c->fd, SIOCINQ, &unread) == 0 && unread > 0);
}

void conn_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                 enum MHD_ConnectionNotificationCode code)
{
	struct http_server *s = cls;
	struct conn *c = *socket_context;

	(void)mhd;
	switch (code) {
	case MHD_CONNECTION_NOTIFY_STARTED:
		*socket_context = c = TAKE_PTR(s->adopting);
		conn_set_pace(c, PACE_IDLE);
		return;
	case MHD_CONNECTION_NOTIFY_CLOSED:
		if (!c)
			return;
		if (wants_linger(c))
			linger_start(c);
		conn_free(c);
		return;
	}
}

/*
 * A client that was refused while it sends: closing now would reset the connection, and the client
 * might not see why. So its bytes are read and dropped for a moment.
 */
struct farewell {
	struct line line;
	uint64_t until_ms;
};

static void linger_readable(struct line *l)
{
	static char sink[DISCARD_BYTES];
	ssize_t n = recv(l->watch.fd, sink, sizeof(sink), MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		line_over(l);
}

static void linger_tick(struct line *l, uint64_t now_ms)
{
	if (now_ms >= CONTAINER(l, struct farewell, line)->until_ms)
		line_over(l);
}

static void linger_end(struct line *l)
{
	l->s->lingering--;
	line_done(l);
	free(CONTAINER(l, struct farewell, line));
}

void linger_start(struct conn *c)
{
	struct http_server *s = c->s;
	struct farewell *g;
	int fd;

	if (s->lingering >= LINGERING_MAX)
		return;
	g = calloc(1, sizeof(*g));
	if (!g)
		return;
	line_init(&g->line, s);
	g->line.readable = linger_readable;
	g->line.tick = linger_tick;
	g->line.end = linger_end;
	g->line.leave = line_over;
	g->until_ms = server_now(s) + LINGER_MS;
	s->lingering++;
	fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || line_open(&g->line, fd, c->use) < 0) {
		line_over(&g->line);
		return;
	}
	c->use = NULL;
	(void)shutdown(fd, SHUT_WR);
}
