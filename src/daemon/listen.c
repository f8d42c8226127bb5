/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"

#define INHERITED_FIRST 3

/* ---- addresses ---- */

static int refuse_address(const char *text, struct err *err)
{
	int r = err_set(err, ERR_INVALID, 0, "\"%.60s\" is no address and port", text);

	return err_remedy(err, r,
	                  "write numbers, as in 127.0.0.1:7070 or [::1]:7070, with a port from 1 "
	                  "to 65535");
}

static bool loopback_v4(const struct in_addr *a)
{
	return ntohl(a->s_addr) >> 24 == 127;
}

static bool loopback_v6(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static int fill(const char *host, bool v6, uint16_t port, struct listen_address *ret)
{
	struct listen_address a = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&a.at;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a.at;

	if (v6 ? inet_pton(AF_INET6, host, &in6->sin6_addr) != 1
	       : inet_pton(AF_INET, host, &in->sin_addr) != 1)
		return -EINVAL;
	if (v6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return -EINVAL; /* the socket is for IPv6 only */
	if (v6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		a.n = sizeof(*in6);
		a.loopback = loopback_v6(&in6->sin6_addr);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		a.n = sizeof(*in);
		a.loopback = loopback_v4(&in->sin_addr);
	}
	*ret = a;
	return 0;
}

int listen_parse(const char *text, struct listen_address *ret, struct err *err)
{
	const char *colon = strrchr(text, ':');
	bool v6 = *text == '[';
	char host[INET6_ADDRSTRLEN];
	uint64_t port;
	size_t n;

	if (!colon || parse_u64(colon + 1, &port) < 0 || port < 1 || port > UINT16_MAX)
		return refuse_address(text, err);
	n = (size_t)(colon - text);
	if (v6 && (n < 2 || text[n - 1] != ']'))
		return refuse_address(text, err);
	text += v6;
	n -= v6 ? 2 : 0;
	if (n >= sizeof(host))
		return refuse_address(text - v6, err);
	memcpy(host, text, n);
	host[n] = '\0';
	if (fill(host, v6, (uint16_t)port, ret) < 0)
		return refuse_address(text - v6, err);
	return 0;
}

bool socket_is_loopback(int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t n = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &n) < 0)
		return false;
	if (at.ss_family == AF_UNIX)
		return true;
	if (at.ss_family == AF_INET)
		return loopback_v4(&((struct sockaddr_in *)&at)->sin_addr);
	return at.ss_family == AF_INET6 && loopback_v6(&((struct sockaddr_in6 *)&at)->sin6_addr);
}

/* ---- TCP ---- */

static int check_remote(const char *text, bool allow_remote, bool have_tokens, struct err *err)
{
	int r;

	if (!allow_remote) {
		r = err_set(err, ERR_INVALID, 0, "%.60s can be reached from other machines", text);
		return err_remedy(err, r,
		                  "if that is meant, say allow_remote: true or --allow-remote; the "
		                  "wire is not encrypted");
	}
	if (have_tokens)
		return 0;
	r = err_set(err, ERR_INVALID, 0,
	            "%.60s can be reached from other machines, and there is no token", text);
	return err_remedy(err, r, "make one first: brig token new NAME --scope run,read");
}

static int bind_tcp(int fd, const struct listen_address *a)
{
	const int on = 1;

	/* Connections of a daemon that has just ended do not keep the next one out. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (a->at.ss_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)&a->at, a->n) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return 0;
}

int listen_tcp(const char *text, bool allow_remote, bool have_tokens, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = FD_NONE;
	struct listen_address a = { 0 };
	int r = listen_parse(text, &a, err);

	if (r >= 0 && !a.loopback)
		r = check_remote(text, allow_remote, have_tokens, err);
	if (r < 0)
		return r;
	fd = socket(a.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : bind_tcp(fd, &a);
	if (r < 0) {
		(void)err_set(err, r == -EADDRINUSE ? ERR_CONFLICT : ERR_IO, -r, "listen on %.60s",
		              text);
		return err_remedy(err, r, "%s",
		                  r == -EADDRINUSE ? "another program has this port: take another"
		                  : r == -EACCES   ? "ports below 1024 are root's: take another"
		                  : r == -EADDRNOTAVAIL ? "this machine has no such address"
		                                        : "");
	}
	*ret_fd = fd_take(&fd);
	return 0;
}

/* ---- inherited ---- */

static bool option_is(int fd, int option, int wanted)
{
	int value = 0;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &n) == 0 && value == wanted;
}

static int check_inherited(int fd, bool allow_remote, bool have_tokens, struct err *err)
{
	char name[48];
	int r;

	(void)snprintf(name, sizeof(name), "inherited descriptor %d", fd);
	if (!option_is(fd, SO_TYPE, SOCK_STREAM) || !option_is(fd, SO_ACCEPTCONN, 1) ||
	    (!option_is(fd, SO_DOMAIN, AF_UNIX) && !option_is(fd, SO_DOMAIN, AF_INET) &&
	     !option_is(fd, SO_DOMAIN, AF_INET6))) {
		r = err_set(err, ERR_INVALID, 0, "%s is no listening stream socket", name);
		return err_remedy(err, r, "in the socket unit: ListenStream=, and Accept=no");
	}
	r = socket_is_loopback(fd) ? 0 : check_remote(name, allow_remote, have_tokens, err);
	if (r < 0)
		return r;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, ERR_INTERNAL, errno, "%s", name);
	return 0;
}

/* How many are said to be there; 0 when they are meant for another process. */
static uint64_t inherited_count(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t whose = 0, n = 0;

	if (!pid || !count || parse_u64(pid, &whose) < 0 || parse_u64(count, &n) < 0 ||
	    whose != (uint64_t)getpid())
		n = 0;
	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	return n;
}

int listen_inherited(bool allow_remote, bool have_tokens, int *fds, size_t max, struct err *err)
{
	uint64_t n = inherited_count();

	if (n > max)
		return err_set(err, ERR_LIMIT, E2BIG, "%llu sockets inherited, at most %zu",
		               (unsigned long long)n, max);
	for (uint64_t i = 0; i < n; i++) {
		int r = check_inherited(INHERITED_FIRST + (int)i, allow_remote, have_tokens, err);

		if (r < 0)
			return r;
	}
	for (uint64_t i = 0; i < n; i++)
		fds[i] = INHERITED_FIRST + (int)i;
	return (int)n;
}
