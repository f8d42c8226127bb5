/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "daemon/ours.h"

#define PID_SIZE 24

static int make_dirs(const char *dir, struct err *err)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", dir);

	if (n < 1 || (size_t)n >= sizeof(path))
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "the state directory");
	for (char *at = path + 1;; at++) {
		char here = *at;

		if (here && here != '/')
			continue;
		*at = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			int r = err_set(err, ERR_IO, errno, "make the state directory \"%.140s\"",
			                path);

			return err_remedy(err, r, "name another with --state-dir");
		}
		if (!here)
			return 0;
		*at = here;
	}
}

static int open_dir(const char *dir, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0 && errno == ENOENT) {
		r = make_dirs(dir, err);
		if (r < 0)
			return r;
		fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0) {
		r = err_set(err, ERR_IO, errno, "open the state directory \"%.140s\"", dir);
		return err_remedy(err, r, "name another with --state-dir");
	}
	*ret_fd = fd_take(&fd);
	return 0;
}

/* Whatever is in the file, only a number is shown. */
static int refuse_second(int fd, const char *dir, struct err *err)
{
	char text[PID_SIZE] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	uint64_t pid = 0;

	if (n > 0 && text[n - 1] == '\n')
		text[n - 1] = '\0';
	if (n > 0 && parse_u64(text, &pid) == 0)
		(void)err_set(err, ERR_CONFLICT, 0, "another brigd (pid %llu) serves \"%.140s\"",
		              (unsigned long long)pid, dir);
	else
		(void)err_set(err, ERR_CONFLICT, 0, "another brigd serves \"%.140s\"", dir);
	return err_remedy(err, -EBUSY,
	                  "stop it, or give this one another --state-dir and --socket");
}

static int take(int fd, const char *dir, struct err *err)
{
	char text[PID_SIZE];
	struct stat st;
	int n;

	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "%.140s/" LOCK_FILE, dir);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_DENIED, EPERM, "%.140s/" LOCK_FILE " is no regular file",
		               dir);
	if (lock_fd(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
		               ? refuse_second(fd, dir, err)
		               : err_set(err, ERR_IO, errno, "lock %.140s/" LOCK_FILE, dir);
	n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	/* A full disk is no reason not to start: the lock counts, the number is for people. */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, text, (size_t)n, 0);
	return 0;
}

/* The file is never removed: a lock on a name that is gone would keep nobody out. */
int lock_state_dir(const char *dir, int *ret_fd, struct err *err)
{
	CLEANUP_FD int dir_fd = FD_NONE;
	CLEANUP_FD int fd = FD_NONE;
	int r = open_dir(dir, &dir_fd, err);

	if (r < 0)
		return r;
	fd = openat(dir_fd, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
	            0600);
	if (fd < 0) {
		r = err_set(err, ERR_IO, errno, "open %.140s/" LOCK_FILE, dir);
		return err_remedy(err, r, "the state directory must be writable for brigd");
	}
	r = take(fd, dir, err);
	if (r < 0)
		return r;
	*ret_fd = fd_take(&fd);
	return 0;
}
