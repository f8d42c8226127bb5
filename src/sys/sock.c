/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/sock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

int sock_pair(int ret[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret) < 0)
		return -errno;
	return 0;
}

int sock_pass_credentials(int fd)
{
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return -errno;
	return 0;
}

int sock_send(int fd, const void *data, size_t n, const int *fds, size_t n_fds)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * SOCK_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)data, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n_fds > SOCK_FDS_MAX)
		return -E2BIG;
	if (n_fds) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	do
		sent = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == n ? 0 : -EIO;
}

/* False when there were more descriptors than a message may have; those are closed. */
static bool take_control(struct msghdr *msg, struct sock_msg *ret)
{
	bool fits = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS) {
			size_t n = bytes / sizeof(int);

			for (size_t i = 0; i < n; i++) {
				int fd;

				memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
				fits = ret->n_fds < SOCK_FDS_MAX;
				if (fits)
					ret->fds[ret->n_fds++] = fd;
				else
					(void)fd_close(fd);
			}
		} else if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred cred;

			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			ret->pid = cred.pid;
			ret->uid = cred.uid;
		}
	}
	return fits;
}

int sock_recv(int fd, void *data, size_t n, int flags, struct sock_msg *ret)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * SOCK_FDS_MAX) +
		           CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = data, .iov_len = n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t got;
	bool fits;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < SOCK_FDS_MAX; i++)
		ret->fds[i] = FD_NONE;
	msg.msg_control = control.space;
	msg.msg_controllen = sizeof(control.space);
	do
		got = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	fits = take_control(&msg, ret);
	ret->len = (size_t)got;
	if (!fits || msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		sock_msg_close(ret);
		return -EMSGSIZE;
	}
	return 0;
}

void sock_msg_close(struct sock_msg *m)
{
	for (size_t i = 0; i < m->n_fds; i++)
		m->fds[i] = fd_close(m->fds[i]);
	m->n_fds = 0;
}
