/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Datagrams with descriptors over AF_UNIX sequenced-packet sockets. */

#include <stddef.h>
#include <sys/types.h>

#define SOCK_FDS_MAX 8

struct sock_msg {
	size_t len;            /* bytes received */
	int fds[SOCK_FDS_MAX]; /* owned by the receiver, FD_NONE when absent */
	size_t n_fds;
	pid_t pid; /* sender, in our pid namespace; 0 when not asked (SO_PASSCRED) */
	uid_t uid;
};

int sock_pair(int ret[2]);
int sock_pass_credentials(int fd);
int sock_send(int fd, const void *data, size_t n, const int *fds, size_t n_fds);
/* 0 with len == 0 is the end of the stream; -EMSGSIZE for a truncated datagram. */
int sock_recv(int fd, void *data, size_t n, int flags, struct sock_msg *ret);
void sock_msg_close(struct sock_msg *m);
