/* SPDX-License-Identifier: Apache-2.0 */

/*
 * tokens.json in the state directory. A reader sees the old file or the new one, never a part: it
 * is written under another name and renamed. Writers take turns by a lock on a file of its own,
 * since a lock on a file that is replaced would be a lock on nothing.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "auth/impl.h"
#include "base/clock.h"
#include "base/fd.h"

#define NEW_FILE  "tokens.json.new"
#define LOCK_FILE "tokens.lock"
#define LOCK_MS   10000
#define PAUSE_NS  5000000

static int make_dirs(const char *dir)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", dir);

	if (n < 1 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	for (int i = 1; i <= n; i++) {
		if (dir[i] && dir[i] != '/')
			continue;
		path[i] = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return -errno;
		path[i] = dir[i];
	}
	return 0;
}

static int refuse(struct err *err, const char *dir, const char *name, const char *why)
{
	int r = err_set(err, ERR_DENIED, EPERM, "%s/%s %s", dir, name, why);

	return err_remedy(err, r,
	                  "make it the daemon's alone (chown; chmod go-rwx), and look at "
	                  "\"brig token ls\": others may have changed it");
}

int tokens_dir_open(const char *dir, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT && make_dirs(dir) >= 0)
		fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_remedy(
			err, err_set(err, ERR_IO, errno, "open the state directory \"%s\"", dir),
			"name another with BRIG_STATE_DIR or --state-dir");
	if (st.st_uid != geteuid()) {
		(void)err_set(err, ERR_DENIED, EPERM, "%s belongs to another user", dir);
		return err_remedy(err, -EPERM, "do it as uid %u, whose daemon reads it",
		                  (unsigned)st.st_uid);
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return refuse(err, dir, ".", "can be written by others");
	*ret_fd = fd_take(&fd);
	return 0;
}

static uint64_t to_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static void stamp_of(const struct stat *st, struct stamp *ret)
{
	*ret = (struct stamp){ .device = st->st_dev,
		               .inode = st->st_ino,
		               .size = (uint64_t)st->st_size,
		               .changed_ns = to_ns(&st->st_ctim), /* chmod and chown, too */
		               .modified_ns = to_ns(&st->st_mtim) };
}

int tokens_file_stamp(int dir_fd, struct stamp *ret)
{
	struct stat st;

	if (fstatat(dir_fd, TOKENS_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return -errno;
		*ret = (struct stamp){ 0 };
		return 0;
	}
	stamp_of(&st, ret);
	return 0;
}

static int check_file(int fd, const char *dir, struct stat *ret, struct err *err)
{
	if (fstat(fd, ret) < 0)
		return err_set(err, ERR_IO, errno, "%s/" TOKENS_FILE, dir);
	if (!S_ISREG(ret->st_mode))
		return refuse(err, dir, TOKENS_FILE, "is not a regular file");
	if (ret->st_uid != geteuid())
		return refuse(err, dir, TOKENS_FILE, "belongs to another user");
	if (ret->st_mode & (S_IRWXG | S_IRWXO))
		return refuse(err, dir, TOKENS_FILE, "is open to others");
	return 0;
}

static int read_whole(int fd, struct buf *out)
{
	char chunk[16384];

	while (!out->error) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		buf_put(out, chunk, (size_t)n);
	}
	return buf_finish(out);
}

static int damaged(struct err *err, int r, const char *dir)
{
	if (err && err->code == ERR_INVALID)
		err->code = ERR_IO; /* the request was fine */
	(void)err_wrap(err, r, "%s/" TOKENS_FILE, dir);
	return err_remedy(err, r, "restore it from a copy, or remove it and make the tokens anew");
}

int tokens_file_read(int dir_fd, const char *dir, struct token_list *ret, struct stamp *ret_stamp,
                     struct err *err)
{
	/* O_NONBLOCK: a pipe in its place must not hold us up. */
	CLEANUP_FD int fd = openat(dir_fd, TOKENS_FILE,
	                           O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	CLEANUP_BUF struct buf text = BUF_INIT(TOKENS_BYTES_MAX);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT) {
		*ret = (struct token_list){ 0 };
		*ret_stamp = (struct stamp){ 0 };
		return 0;
	}
	if (fd < 0 && errno == ELOOP)
		return refuse(err, dir, TOKENS_FILE, "is a link");
	if (fd < 0)
		return err_set(err, ERR_IO, errno, "open %s/" TOKENS_FILE, dir);
	r = check_file(fd, dir, &st, err);
	if (r < 0)
		return r;
	r = read_whole(fd, &text);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "read %s/" TOKENS_FILE, dir);
	r = tokens_decode(text.data ? text.data : "", text.len, ret, err);
	if (r < 0)
		return damaged(err, r, dir);
	stamp_of(&st, ret_stamp);
	return 0;
}

static int put_file(int dir_fd, const struct buf *text)
{
	CLEANUP_FD int fd = FD_NONE;

	(void)unlinkat(dir_fd, NEW_FILE, 0); /* of a writer that died */
	fd = openat(dir_fd, NEW_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < text->len;) {
		ssize_t n = write(fd, text->data + done, text->len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	if (fchmod(fd, 0600) < 0 || fsync(fd) < 0 ||
	    renameat(dir_fd, NEW_FILE, dir_fd, TOKENS_FILE) < 0 || fsync(dir_fd) < 0)
		return -errno;
	return 0;
}

int tokens_file_write(int dir_fd, const char *dir, const struct token_list *list, struct err *err)
{
	CLEANUP_BUF struct buf text = BUF_INIT(TOKENS_BYTES_MAX);
	int r;

	tokens_encode(list, &text);
	r = buf_finish(&text);
	if (r >= 0)
		r = put_file(dir_fd, &text);
	if (r >= 0)
		return 0;
	(void)unlinkat(dir_fd, NEW_FILE, 0);
	return err_remedy(err, err_set(err, ERR_IO, -r, "write %s/" TOKENS_FILE, dir),
	                  "make room, or name another with BRIG_STATE_DIR or --state-dir");
}

/* flock(2): src/sys/file.h hides the header that declares it. */
static int try_lock(int fd)
{
	return syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

int tokens_file_lock(int dir_fd, const char *dir, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = openat(dir_fd, LOCK_FILE,
	                           O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end = clock_ms() + LOCK_MS;
	int r;

	if (fd < 0)
		return err_set(err, ERR_IO, errno, "open %s/" LOCK_FILE, dir);
	while ((r = try_lock(fd)) < 0) {
		if (r != -EWOULDBLOCK && r != -EINTR)
			return err_set(err, ERR_IO, -r, "lock %s/" LOCK_FILE, dir);
		if (clock_ms() > end)
			return err_remedy(
				err, err_set(err, ERR_LIMIT, EBUSY, "lock %s/" LOCK_FILE, dir),
				"another process changes the tokens: see who holds that file");
		(void)nanosleep(&pause, NULL);
	}
	*ret_fd = fd_take(&fd);
	return 0;
}
