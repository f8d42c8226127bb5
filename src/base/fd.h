/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <unistd.h>

#include "base/macro.h"

/* "No descriptor". Not -1: a function that returns it by accident then returns a real errno. */
#define FD_NONE    (-EBADF)
#define CLEANUP_FD CLEANUP(fd_closep)

static inline int fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd); /* never retried: Linux frees the fd even on EINTR */
	errno = saved;
	return FD_NONE;
}

static inline void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}

static inline int fd_take(int *fd)
{
	int taken = *fd;

	*fd = FD_NONE;
	return taken;
}
