/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Only we and root can change it. A group that is our own has nobody else in it. */
static inline bool stat_is_ours(const struct stat *st)
{
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return false;
	if (st->st_mode & S_IWOTH)
		return false;
	return !(st->st_mode & S_IWGRP) || st->st_gid == getegid();
}

/* flock(2): src/sys/file.h hides the header that declares it; <fcntl.h> has LOCK_EX. */
static inline int lock_fd(int fd, int how)
{
	return (int)syscall(SYS_flock, fd, how);
}
