/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A held run sleeps until somebody answers: whoever does so writes to a file in the state
 * directory, and the waiting process has a watch on it. The file says nothing; the ledger does.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "confirm/confirm.h"

static int bell_open(const char *dir)
{
	CLEANUP_FD int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FD int fd = FD_NONE;
	struct stat st;

	if (dir_fd < 0 || fstat(dir_fd, &st) < 0)
		return -errno;
	fd = openat(dir_fd, "bell", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* Root answers in somebody's directory: the bell stays his. */
	if (fd >= 0 && st.st_uid != geteuid() && fchown(fd, st.st_uid, st.st_gid) < 0)
		return -errno;
	return fd < 0 ? -errno : fd_take(&fd);
}

int bell_watch(const char *dir, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	CLEANUP_FD int bell = bell_open(dir);
	char path[64];

	if (fd < 0 || bell < 0)
		return err_set(err, ERR_IO, errno, "watch \"%.140s/bell\"", dir);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", bell);
	if (inotify_add_watch(fd, path, IN_MODIFY | IN_DELETE_SELF | IN_MOVE_SELF) < 0)
		return err_set(err, ERR_IO, errno, "watch \"%.140s/bell\"", dir);
	*ret_fd = fd_take(&fd);
	return 0;
}

void bell_drain(int fd)
{
	char events[4096];

	while (read(fd, events, sizeof(events)) > 0)
		;
}

void bell_ring(const char *dir)
{
	CLEANUP_FD int fd = bell_open(dir);

	/* Who does not hear it looks again after a while. */
	if (fd >= 0)
		(void)!pwrite(fd, "!", 1, 0);
}
