/* SPDX-License-Identifier: Apache-2.0 */
/* New connections: who they are, and whether there is room. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "net/impl.h"

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

static unsigned bucket_of(const struct peer_use *key)
{
	unsigned h = key->local;

	for (size_t i = 0; i < sizeof(key->key); i++)
		h = h * 31 + key->key[i];
	return (h ^ h >> 8) % PEER_BUCKETS;
}

/* NULL: it has as many as it may, or there is no memory. */
static struct peer_use *peer_take(struct http_server *s, const struct peer_use *key)
{
	struct peer_use **bucket = &s->peers[bucket_of(key)], *use = *bucket;

	while (use &&
	       (use->local != key->local || memcmp(use->key, key->key, sizeof(use->key)) != 0))
		use = use->next;
	if (use && use->n >= s->limits.per_peer)
		return NULL;
	if (!use) {
		use = malloc(sizeof(*use));
		if (!use)
			return NULL;
		*use = *key;
		use->n = 0;
		use->next = *bucket;
		*bucket = use;
	}
	use->n++;
	s->counts.connections++;
	return use;
}

void peer_release(struct http_server *s, struct peer_use *use)
{
	struct peer_use **at;

	if (!use)
		return;
	s->counts.connections--;
	if (--use->n)
		return;
	at = &s->peers[bucket_of(use)];
	while (*at != use)
		at = &(*at)->next;
	*at = use->next;
	free(use);
}

static int describe_local(int fd, struct http_peer *ret, struct peer_use *ret_key)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return -errno;
	*ret = (struct http_peer){ .local = true, .uid = cred.uid, .pid = cred.pid };
	(void)snprintf(ret->text, sizeof(ret->text), "unix:%u", cred.uid);
	*ret_key = (struct peer_use){ .local = true };
	memcpy(ret_key->key, &cred.uid, sizeof(cred.uid));
	return 0;
}

/* An IPv4 address in IPv6's clothes is the IPv4 address. */
static void describe_remote(const union address *a, struct http_peer *ret, struct peer_use *ret_key)
{
	struct in6_addr in6 = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	char text[INET6_ADDRSTRLEN] = "";
	unsigned port = ntohs(a->any.sa_family == AF_INET ? a->in.sin_port : a->in6.sin6_port);

	if (a->any.sa_family == AF_INET)
		memcpy(&in6.s6_addr[12], &a->in.sin_addr, 4);
	else
		in6 = a->in6.sin6_addr;
	*ret = (struct http_peer){ .uid = (uid_t)-1 };
	if (IN6_IS_ADDR_V4MAPPED(&in6)) {
		(void)inet_ntop(AF_INET, &in6.s6_addr[12], text, sizeof(text));
		(void)snprintf(ret->text, sizeof(ret->text), "%s:%u", text, port);
	} else {
		(void)inet_ntop(AF_INET6, &in6, text, sizeof(text));
		(void)snprintf(ret->text, sizeof(ret->text), "[%s]:%u", text, port);
	}
	*ret_key = (struct peer_use){ 0 };
	memcpy(ret_key->key, &in6, sizeof(in6));
}

/* An answer goes out at once, and a peer that vanished is noticed some day. */
static void tune_tcp(int fd)
{
	static const struct {
		int level, option, value;
	} settings[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 }, { IPPROTO_TCP, TCP_KEEPINTVL, 15 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};

	for (size_t i = 0; i < ELEMENTSOF(settings); i++)
		(void)setsockopt(fd, settings[i].level, settings[i].option, &settings[i].value,
		                 sizeof(settings[i].value));
}

static unsigned own_port(int fd)
{
	union address a = { 0 };
	socklen_t n = sizeof(a);

	if (getsockname(fd, &a.any, &n) < 0)
		return 0;
	return ntohs(a.any.sa_family == AF_INET ? a.in.sin_port : a.in6.sin6_port);
}

static int describe(int fd, const union address *a, struct http_peer *ret, struct peer_use *ret_key)
{
	switch (a->any.sa_family) {
	case AF_UNIX:
		return describe_local(fd, ret, ret_key);
	case AF_INET:
	case AF_INET6:
		tune_tcp(fd);
		describe_remote(a, ret, ret_key);
		ret->port = own_port(fd);
		return 0;
	default:
		return -EAFNOSUPPORT;
	}
}

static int adopt(struct http_server *s, int taken, const union address *a, socklen_t a_n)
{
	CLEANUP_FD int fd = taken;
	struct peer_use key;
	struct conn *c = calloc(1, sizeof(*c));
	enum MHD_Result added;

	if (!c)
		return -ENOMEM;
	*c = (struct conn){ .s = s, .fd = fd, .hangup.fd = FD_NONE };
	if (describe(fd, a, &c->peer, &key) == 0 && s->counts.connections < s->limits.connections)
		c->use = peer_take(s, &key);
	if (!c->use) {
		free(c);
		return -EMFILE;
	}
	s->adopting = c;
	added = MHD_add_connection(s->mhd, fd_take(&fd), &a->any, a_n);
	if (s->adopting) { /* MHD never told of it */
		peer_release(s, c->use);
		free(TAKE_PTR(s->adopting));
	}
	return added == MHD_YES ? 0 : -ENOMEM;
}

static int adopt_counted(struct http_server *s, int fd, const union address *a, socklen_t a_n)
{
	int r = adopt(s, fd, a, a_n);

	if (r < 0) {
		s->counts.refused++;
		return r;
	}
	s->counts.accepted++;
	server_watch_tick(s);
	server_dirty(s);
	return 0;
}

int http_server_adopt(struct http_server *s, int fd)
{
	union address a = { 0 };
	socklen_t n = sizeof(a);

	if (getpeername(fd, &a.any, &n) < 0) {
		int r = -errno;

		(void)fd_close(fd);
		return r;
	}
	return adopt_counted(s, fd, &a, n);
}

static void on_rested(uv_timer_t *timer)
{
	listen_pause(timer->data, false);
}

void listen_pause(struct http_server *s, bool pause)
{
	for (size_t i = 0; i < s->n_listeners; i++)
		watch_change(s, &s->listeners[i].watch, pause ? 0 : EPOLLIN);
	if (pause)
		(void)uv_timer_start(&s->handles[HANDLE_REST].timer, on_rested, ACCEPT_REST_MS, 0);
}

/* No descriptor is left: whoever waits is turned away with the spare one, not left hanging. */
static void turn_away(struct http_server *s, int listener)
{
	int fd;

	s->counts.refused++;
	s->spare_fd = fd_close(s->spare_fd);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	(void)fd_close(fd);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	listen_pause(s, true);
}

/* False: nobody waits, or nobody can be taken in now. */
static bool accept_one(struct http_server *s, int listener)
{
	union address a = { 0 };
	socklen_t n = sizeof(a);
	int fd = accept4(listener, &a.any, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		(void)adopt_counted(s, fd, &a, n);
		return true;
	}
	switch (errno) {
	case EINTR:
	case ECONNABORTED:
	case EPROTO:
		return true;
	case EMFILE:
	case ENFILE:
		turn_away(s, listener);
		return false;
	case ENOMEM:
	case ENOBUFS:
		listen_pause(s, true);
		return false;
	default:
		return false;
	}
}

static void on_listener(struct watch *w, uint32_t events)
{
	struct listener *l = CONTAINER(w, struct listener, watch);

	(void)events;
	for (int i = 0; i < BATCH && accept_one(l->s, w->fd); i++)
		;
}

int http_server_listen(struct http_server *s, int fd, struct err *err)
{
	struct listener *l = &s->listeners[s->n_listeners];
	int r;

	if (s->n_listeners == LISTENERS_MAX)
		return err_set(err, ERR_LIMIT, 0, "more than %d listening sockets", LISTENERS_MAX);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return err_set(err, ERR_INTERNAL, errno, "prepare the listening socket");
	r = watch_start(s, &l->watch, fd, EPOLLIN, on_listener);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "watch the listening socket");
	l->s = s;
	s->n_listeners++;
	return 0;
}

void listen_stop(struct http_server *s)
{
	for (size_t i = 0; i < s->n_listeners; i++) {
		int fd = s->listeners[i].watch.fd;

		watch_stop(s, &s->listeners[i].watch);
		(void)fd_close(fd);
	}
	s->n_listeners = 0;
	(void)uv_timer_stop(&s->handles[HANDLE_REST].timer);
}
