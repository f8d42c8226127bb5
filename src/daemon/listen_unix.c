/* SPDX-License-Identifier: Apache-2.0 */
/* The unix listener: who may replace what at its path. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/listen.h"
#include "daemon/ours.h"

#define LOCK_WAIT_MS 2000
#define PAUSE_NS     5000000

#define SUN_PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

int listen_check_path(const char *path, struct err *err)
{
	int r;

	if (*path != '/' || path[strlen(path) - 1] == '/')
		return err_set(err, ERR_INVALID, 0, "\"%.60s\" is no absolute path of a socket",
		               path);
	if (strlen(path) < SUN_PATH_SIZE)
		return 0;
	r = err_set(err, ERR_INVALID, ENAMETOOLONG, "\"%.60s...\" has %zu bytes, at most %zu", path,
	            strlen(path), SUN_PATH_SIZE - 1);
	return err_remedy(err, r, "take a shorter path with --socket or BRIGD_SOCKET");
}

/* ---- its directory ---- */

/* /run/brig is for all who have a token; any other is ours alone. */
static int make_dir(const char *dir, struct err *err)
{
	mode_t mode = geteuid() == 0 && str_has_prefix(dir, "/run/") ? 0755 : 0700;
	CLEANUP_FD int fd = FD_NONE;
	int r;

	if (mkdir(dir, mode) < 0) {
		if (errno == EEXIST)
			return 0;
		r = err_set(err, ERR_IO, errno, "make the directory \"%.110s\"", dir);
		return err_remedy(err, r, "make it yourself, or name another path with --socket");
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, mode) < 0) /* whatever the umask left of it */
		return err_set(err, ERR_IO, errno, "make the directory \"%.110s\"", dir);
	return 0;
}

/* Whoever can rename in it can put another socket in our place. */
static int check_dir(int fd, const char *dir, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "fstat \"%.110s\"", dir);
	if (st.st_mode & S_ISVTX) /* as /tmp: only owners remove */
		st.st_mode &= ~(mode_t)(S_IWGRP | S_IWOTH);
	if (stat_is_ours(&st))
		return 0;
	r = err_set(err, ERR_DENIED, EPERM, "others can replace files in \"%.110s\"", dir);
	return err_remedy(err, r, "chown and chmod it, or name another path with --socket");
}

static int open_dir(const char *path, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = FD_NONE;
	char dir[SUN_PATH_SIZE];
	size_t n = (size_t)(strrchr(path, '/') - path);
	int r;

	(void)snprintf(dir, sizeof(dir), "%.*s", n ? (int)n : 1, path);
	r = make_dir(dir, err);
	if (r < 0)
		return r;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_IO, errno, "open the directory \"%.110s\"", dir);
	r = check_dir(fd, dir, err);
	if (r < 0)
		return r;
	*ret_fd = fd_take(&fd);
	return 0;
}

/* Of two that start at once, the second must not take the first one's socket for a stale one. */
static int lock_dir(int dir_fd, const char *path, struct err *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end = clock_ms() + LOCK_WAIT_MS;

	while (lock_fd(dir_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, ERR_IO, errno, "lock the directory of \"%.107s\"",
			               path);
		if (clock_ms() > end)
			return err_set(err, ERR_CONFLICT, EBUSY, "lock the directory of \"%.107s\"",
			               path);
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* ---- the socket ---- */

static bool somebody_answers(const struct sockaddr_un *at)
{
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* Only a refusal is certain; a full queue, or no descriptor for asking, is not. */
	return fd < 0 || connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0 ||
	       errno != ECONNREFUSED;
}

static int remove_stale(const struct sockaddr_un *at, struct err *err)
{
	struct stat st;
	int r;

	if (lstat(at->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : err_set(err, ERR_IO, errno, "%s", at->sun_path);
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
		r = err_set(err, ERR_CONFLICT, EEXIST, "\"%s\" is no socket of ours", at->sun_path);
		return err_remedy(err, r, "remove it, or name another path with --socket");
	}
	if (somebody_answers(at)) {
		r = err_set(err, ERR_CONFLICT, EADDRINUSE, "another process answers on \"%s\"",
		            at->sun_path);
		return err_remedy(err, r, "stop it, or name another path with --socket");
	}
	if (unlink(at->sun_path) < 0 && errno != ENOENT)
		return err_set(err, ERR_IO, errno, "remove the stale \"%s\"", at->sun_path);
	return 0;
}

/* Nobody but us can connect before the mode is what it should be. */
static int bind_unix(int fd, const struct sockaddr_un *at, mode_t mode)
{
	mode_t old = umask(0177);
	int r = bind(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 ? -errno : 0;

	(void)umask(old);
	if (r >= 0 && (chmod(at->sun_path, mode) < 0 || listen(fd, SOMAXCONN) < 0)) {
		r = -errno;
		(void)unlink(at->sun_path);
	}
	return r;
}

int listen_unix(const char *path, mode_t mode, int *ret_fd, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	CLEANUP_FD int dir_fd = FD_NONE;
	CLEANUP_FD int fd = FD_NONE;
	int r = listen_check_path(path, err);

	if (r < 0)
		return r;
	memcpy(at.sun_path, path, strlen(path));
	r = open_dir(path, &dir_fd, err);
	if (r >= 0)
		r = lock_dir(dir_fd, path, err);
	if (r >= 0)
		r = remove_stale(&at, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : bind_unix(fd, &at, mode);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "listen on \"%s\"", path);
	*ret_fd = fd_take(&fd);
	return 0;
}
