/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a ledger: ledger.db (with -wal and -shm, which are SQLite's), ledger.key,
 * ledger.head.
 *
 * A new ledger is made under a lock of the directory, each file under another name first: none is
 * ever seen half made. So a part that is missing or empty was removed, and that is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ledger/ledger_impl.h"

#define DB       "ledger.db"
#define DB_NEW   "ledger.db.new"
#define DB_WAL   "ledger.db-wal"
#define KEY      "ledger.key"
#define HEAD     "ledger.head"
#define NEW      "ledger.new"
#define PAUSE_NS 2000000

int ledger_default_dir(char *ret, size_t n, struct err *err)
{
	const char *own = getenv("BRIG_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int len;

	if (own && *own)
		len = snprintf(ret, n, "%s", own);
	else if (geteuid() == 0)
		len = snprintf(ret, n, "/var/lib/brig");
	else if (xdg && *xdg == '/')
		len = snprintf(ret, n, "%s/brig", xdg);
	else if (home && *home == '/')
		len = snprintf(ret, n, "%s/.local/state/brig", home);
	else
		return err_remedy(
			err,
			err_set(err, ERR_IO, 0,
		                "no state directory: HOME is not set, or no absolute path"),
			"set BRIG_STATE_DIR, or say --state-dir");
	if (len < 0 || (size_t)len >= n)
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "the state directory");
	return 0;
}

/* ---- whose they are ---- */

static int refuse(struct err *err, const char *dir, const char *name, const char *why)
{
	int r = err_set(err, ERR_DENIED, EPERM, "%s/%s %s", dir, name, why);

	return err_remedy(err, r, "chown and chmod it so that only uid %u can write it",
	                  (unsigned)geteuid());
}

static int check_owner(const struct stat *st, uid_t owner, const char *dir, const char *name,
                       struct err *err)
{
	if (st->st_uid != owner)
		return refuse(err, dir, name, "belongs to another user");
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return refuse(err, dir, name, "can be written by others");
	return 0;
}

/* By name only: closing a descriptor of the database would drop SQLite's locks on it. */
static int check_file(const struct ledger *l, const char *name, struct stat *ret, struct err *err)
{
	struct stat st, dir;
	int r;

	if (fstat(l->dir_fd, &dir) < 0)
		return err_set(err, ERR_IO, errno, "%s", l->dir);
	if (fstatat(l->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? -ENOENT
		                       : err_set(err, ERR_IO, errno, "%s/%s", l->dir, name);
	if (!S_ISREG(st.st_mode))
		return refuse(err, l->dir, name, "is not a regular file");
	r = check_owner(&st, dir.st_uid, l->dir, name, err);
	if (r < 0)
		return r;
	*ret = st;
	return 0;
}

static bool exists(const struct ledger *l, const char *name)
{
	return faccessat(l->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int make_parents(const char *dir, struct err *err)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s", dir);

	if (n < 1 || (size_t)n >= sizeof(path))
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "the state directory");
	for (char *at = path + 1;; at++) {
		char here = *at;

		if (here && here != '/')
			continue;
		*at = 0;
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return err_remedy(err,
			                  err_set(err, ERR_IO, errno,
			                          "make the state directory \"%s\"", path),
			                  "name another with BRIG_STATE_DIR or --state-dir");
		if (!here)
			return 0;
		*at = here;
	}
}

int ledger_files_dir(const char *dir, int *ret_fd, struct err *err)
{
	CLEANUP_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT) {
		r = make_parents(dir, err);
		if (r < 0)
			return r;
		fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_remedy(
			err, err_set(err, ERR_IO, errno, "open the state directory \"%s\"", dir),
			"name another with BRIG_STATE_DIR or --state-dir");
	/* Root may answer the questions in anybody's. */
	r = check_owner(&st, geteuid() == 0 ? st.st_uid : geteuid(), dir, ".", err);
	if (r < 0)
		return r;
	*ret_fd = fd_take(&fd);
	return 0;
}

/* ---- making ---- */

char *ledger_path(const struct ledger *l, const char *name)
{
	/* "./": to SQLite, a name that begins with "file:" is a URI */
	const char *here = l->dir[0] == '/' ? "" : "./";
	size_t n = strlen(here) + strlen(l->dir) + 1 + strlen(name) + 1;
	char *path = malloc(n);

	if (path)
		(void)snprintf(path, n, "%s%s/%s", here, l->dir, name);
	return path;
}

static int write_file(const struct ledger *l, const char *name, const void *p, size_t n,
                      struct err *err)
{
	CLEANUP_FD int fd = FD_NONE;

	(void)unlinkat(l->dir_fd, NEW, 0);
	fd = openat(l->dir_fd, NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, p, n) != (ssize_t)n || fsync(fd) < 0 ||
	    renameat(l->dir_fd, NEW, l->dir_fd, name) < 0) {
		int r = err_remedy(err, err_set(err, ERR_IO, errno, "make %s/%s", l->dir, name),
		                   "make room, or name another with BRIG_STATE_DIR");

		(void)unlinkat(l->dir_fd, NEW, 0);
		return r;
	}
	return 0;
}

static int make_key(struct ledger *l, struct err *err)
{
	uint8_t key[KEY_SIZE];

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return err_set(err, ERR_INTERNAL, errno, "a random key");
	return write_file(l, KEY, key, sizeof(key), err);
}

static int read_key(struct ledger *l, struct err *err)
{
	CLEANUP_FD int fd = openat(l->dir_fd, KEY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint8_t key[KEY_SIZE + 1];

	if (fd < 0)
		return err_set(err, ERR_IO, errno, "open %s/" KEY, l->dir);
	if (read(fd, key, sizeof(key)) != KEY_SIZE)
		return err_remedy(err,
		                  err_set(err, ERR_IO, EUCLEAN, "%s/" KEY " is not a key", l->dir),
		                  "restore it from a copy");
	memcpy(l->key, key, KEY_SIZE);
	explicit_bzero(key, sizeof(key));
	return 0;
}

/* The head of a ledger without rows, or one that was made so before. */
static int make_head(struct ledger *l, struct err *err)
{
	uint8_t bytes[HEAD_SIZE], there[HEAD_SIZE + 1];
	const struct link none = { 0 };
	CLEANUP_FD int fd = FD_NONE;

	head_encode(l->key, &none, bytes);
	if (!exists(l, HEAD))
		return write_file(l, HEAD, bytes, sizeof(bytes), err);
	fd = openat(l->dir_fd, HEAD, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && read(fd, there, sizeof(there)) == HEAD_SIZE &&
	    memcmp(there, bytes, HEAD_SIZE) == 0)
		return 0;
	return err_remedy(err,
	                  err_set(err, ERR_IO, EUCLEAN,
	                          "%s/" DB " is missing, but " HEAD " says that it held rows",
	                          l->dir),
	                  "restore " DB ", or move all of ledger.* away to begin a new ledger");
}

static int make_db_file(struct ledger *l, ledger_make_db_fn *make_db, struct err *err)
{
	CLEANUP_FREE char *path = NULL;
	CLEANUP_FD int fd = FD_NONE;
	int r;

	for (size_t i = 0; i < 3; i++)
		(void)unlinkat(l->dir_fd,
		               (const char *[]){ DB_NEW, DB_NEW "-wal", DB_NEW "-shm" }[i], 0);
	fd = openat(l->dir_fd, DB_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, ERR_IO, errno, "make %s/" DB, l->dir);
	fd_closep(&fd);
	path = ledger_path(l, DB_NEW);
	if (!path)
		return err_set(err, ERR_INTERNAL, ENOMEM, "ledger");
	r = make_db(path, err);
	if (r < 0)
		return r;
	if (renameat(l->dir_fd, DB_NEW, l->dir_fd, DB) < 0 || fsync(l->dir_fd) < 0)
		return err_set(err, ERR_IO, errno, "make %s/" DB, l->dir);
	return 0;
}

static int make_all(struct ledger *l, ledger_make_db_fn *make_db, struct err *err)
{
	int r = 0;

	if (exists(l, DB))
		return 0; /* made by another meanwhile */
	if (exists(l, DB_WAL))
		return err_remedy(err,
		                  err_set(err, ERR_IO, EUCLEAN,
		                          "%s/" DB " is missing, but " DB_WAL " is there", l->dir),
		                  "restore " DB
		                  ", or move all of ledger.* away to begin a new ledger");
	if (!exists(l, KEY)) {
		if (exists(l, HEAD))
			return err_remedy(
				err, err_set(err, ERR_IO, EUCLEAN, "%s/" KEY " is missing", l->dir),
				"restore it, or move all of ledger.* away to begin a new ledger");
		r = make_key(l, err);
	}
	if (r == 0)
		r = read_key(l, err);
	if (r == 0)
		r = make_head(l, err);
	return r < 0 ? r : make_db_file(l, make_db, err);
}

static int lock_dir(const struct ledger *l, struct err *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end = clock_ms() + LEDGER_BUSY_MS;

	while (lock_file(l->dir_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, ERR_IO, errno, "lock \"%s\"", l->dir);
		if (clock_ms() > end)
			return err_remedy(err,
			                  err_set(err, ERR_LIMIT, EBUSY, "lock \"%s\"", l->dir),
			                  "another process is making this ledger: see who holds "
			                  "the directory");
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

int ledger_files_make(struct ledger *l, ledger_make_db_fn *make_db, struct err *err)
{
	struct stat st;
	int r;

	if (exists(l, DB))
		return 0;
	if (fstat(l->dir_fd, &st) < 0 || st.st_uid != geteuid())
		return err_remedy(err,
		                  err_set(err, ERR_DENIED, EPERM,
		                          "%s belongs to another user, who has to begin it",
		                          l->dir),
		                  "let its owner run brig once");
	r = lock_dir(l, err);
	if (r < 0)
		return r;
	r = make_all(l, make_db, err);
	(void)lock_file(l->dir_fd, LOCK_UN);
	return r;
}

/* ---- opening ---- */

int ledger_files_open(struct ledger *l, struct err *err)
{
	static const char *const names[] = { DB, KEY, HEAD };
	struct stat st = { 0 };

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		int r = check_file(l, names[i], &st, err);

		if (r == -ENOENT)
			return err_remedy(
				err, err_set(err, ERR_IO, ENOENT, "%s/%s", l->dir, names[i]),
				"restore it, or move all of ledger.* away to begin a new ledger");
		if (r < 0)
			return r;
		if (st.st_size == 0)
			return err_remedy(
				err,
				err_set(err, ERR_IO, EUCLEAN, "%s/%s is empty", l->dir, names[i]),
				"restore it, or move all of ledger.* away to begin a new ledger");
	}
	l->head_fd = openat(l->dir_fd, HEAD, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (l->head_fd < 0)
		return err_remedy(err, err_set(err, ERR_IO, errno, "open %s/" HEAD, l->dir),
		                  "the state directory must be writable");
	return read_key(l, err);
}
