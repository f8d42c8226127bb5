/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The sockets brigd is reached by: made here, or inherited from the service manager. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/err.h"

#define LISTEN_INHERITED_MAX 16

struct listen_address {
	struct sockaddr_storage at;
	socklen_t n;
	bool loopback;
};

/* "127.0.0.1:7070", "[::1]:7070": numbers only, the port from 1 to 65535. */
int listen_parse(const char *text, struct listen_address *ret, struct err *err);
/* Absolute, and short enough for the kernel. */
int listen_check_path(const char *path, struct err *err);

/*
 * Makes the last directory of the path when it is not there. A socket that is left over is
 * replaced only when it is ours and nobody answers on it; ERR_CONFLICT: somebody does.
 * Changes the umask for a moment: not for use beside other threads.
 */
int listen_unix(const char *path, mode_t mode, int *ret_fd, struct err *err);
/* An address that is not loopback needs both: it was really meant, and there is a token. */
int listen_tcp(const char *text, bool allow_remote, bool have_tokens, int *ret_fd, struct err *err);
/*
 * Those of $LISTEN_FDS, when $LISTEN_PID is us; returns how many. Each must be a listening stream
 * socket, and the rule of listen_tcp() holds. The variables are removed in any case.
 */
int listen_inherited(bool allow_remote, bool have_tokens, int *fds, size_t max, struct err *err);
/* A unix socket is; whatever cannot be told is not. */
bool socket_is_loopback(int fd);
