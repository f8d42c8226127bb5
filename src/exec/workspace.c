/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/workspace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/syscalls.h"

#define BENEATH   (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define DEPTH_MAX 64    /* directories below are reported by name and not entered */
#define SEEN_MAX  65536 /* directory entries looked at */

/* Directories still to read, as paths relative to the workspace. */
struct walk {
	int root;
	struct result *res;
	const struct request *req;
	const char *script;
	char *todo[RESULT_FILES_MAX];
	size_t n_todo;
	size_t seen;
};

static bool add_file(struct result *res, const char *path, uint64_t size, enum file_change change)
{
	if (res->n_files == RESULT_FILES_MAX) {
		res->files_truncated = true;
		return false;
	}
	if (!res->files)
		res->files = calloc(RESULT_FILES_MAX, sizeof(*res->files));
	if (res->files)
		res->files[res->n_files].path = strdup(path);
	if (!res->files || !res->files[res->n_files].path) {
		res->files_truncated = true;
		return false;
	}
	res->files[res->n_files].size = size;
	res->files[res->n_files++].change = change;
	return true;
}

/* The bytes that were placed under this name, or NULL. */
static const struct str *placed(const struct walk *w, const char *path)
{
	if (streq(path, w->script))
		return &w->req->code;
	for (size_t i = 0; i < w->req->n_files; i++)
		if (streq(w->req->files[i].path, path))
			return &w->req->files[i].data;
	return NULL;
}

static bool same_content(int root, const char *path, const struct str *data, uint64_t size)
{
	CLEANUP_FD int fd = FD_NONE;
	char chunk[65536];
	size_t at = 0;

	if (size != data->n)
		return false;
	fd = sys_openat2(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, BENEATH);
	while (fd >= 0 && at < data->n) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n <= 0 || (size_t)n > data->n - at ||
		    memcmp(chunk, data->p + at, (size_t)n) != 0)
			return false;
		at += (size_t)n;
	}
	return fd >= 0;
}

static void visit(struct walk *w, const char *path, const struct stat *st)
{
	const struct str *before = placed(w, path);

	if (S_ISDIR(st->st_mode)) {
		if (w->n_todo < ELEMENTSOF(w->todo))
			w->todo[w->n_todo++] = strdup(path);
		else
			w->res->files_truncated = true;
		return;
	}
	if (!before)
		(void)add_file(w->res, path, (uint64_t)st->st_size, FILE_CREATED);
	else if (!S_ISREG(st->st_mode) ||
	         !same_content(w->root, path, before, (uint64_t)st->st_size))
		(void)add_file(w->res, path, (uint64_t)st->st_size, FILE_MODIFIED);
}

static void read_dir(struct walk *w, const char *dir)
{
	CLEANUP_FD int fd = sys_openat2(w->root, *dir ? dir : ".",
	                                O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		return;
	(void)fd_take(&fd);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		char path[PATH_MAX];
		struct stat st;

		if (streq(e->d_name, ".") || streq(e->d_name, ".."))
			continue;
		if (++w->seen > SEEN_MAX || w->res->files_truncated) {
			w->res->files_truncated = true;
			break;
		}
		if ((size_t)snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "",
		                     e->d_name) >= sizeof(path)) {
			w->res->files_truncated = true;
			continue;
		}
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			visit(w, path, &st);
	}
	(void)closedir(d);
}

static size_t depth_of(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* A placed file that is no file any more: gone, a directory, or behind something that is none. */
static void add_deleted(struct walk *w, const char *path)
{
	CLEANUP_FD int fd = sys_openat2(w->root, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
	struct stat st;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ||
	    (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)))
		(void)add_file(w->res, path, 0, FILE_DELETED);
}

int workspace_changes(int dir_fd, const struct request *req, const char *script, struct result *res)
{
	CLEANUP_FREE struct walk *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct walk){ .root = dir_fd, .res = res, .req = req, .script = script };
	read_dir(w, "");
	while (w->n_todo) {
		CLEANUP_FREE char *dir = w->todo[--w->n_todo];

		if (dir && depth_of(dir) < DEPTH_MAX)
			read_dir(w, dir);
		else
			res->files_truncated = true;
	}
	add_deleted(w, script);
	for (size_t i = 0; i < req->n_files; i++)
		add_deleted(w, req->files[i].path);
	return 0;
}

/*
 * The workspace belongs to a user namespace that does not know root: files are made as the box's
 * own user, or not at all. Of this thread only.
 */
static void act_as(uid_t uid)
{
	if (uid == 0 && geteuid() != 0)
		return;
	(void)setfsgid(uid);
	(void)setfsuid(uid);
}

/* The directory that holds the path's last part; made on the way. */
static int place_parents(int dir_fd, const char *path, const char **ret_leaf)
{
	CLEANUP_FD int dir = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	const char *at = path;

	for (const char *slash = strchr(at, '/'); slash; slash = strchr(at, '/')) {
		char name[NAME_MAX + 1];
		int next;

		if ((size_t)(slash - at) >= sizeof(name))
			return -ENAMETOOLONG;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(slash - at), at);
		if (mkdirat(dir, name, 0755) < 0) {
			if (errno != EEXIST)
				return -errno;
		} else if (fchmodat(dir, name, 0755, 0) < 0) { /* whatever our umask is */
			return -errno;
		}
		next = sys_openat2(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
		(void)fd_close(dir);
		dir = next;
		if (dir < 0)
			return dir;
		at = slash + 1;
	}
	*ret_leaf = at;
	return fd_take(&dir);
}

static int place_file(int dir_fd, const char *path, const struct str *data, mode_t mode)
{
	const char *leaf = path;
	CLEANUP_FD int dir = strchr(path, '/') ? place_parents(dir_fd, path, &leaf) : FD_NONE;
	CLEANUP_FD int fd = FD_NONE;

	if (dir < 0 && dir != FD_NONE)
		return dir;
	if (streq(leaf, "") || streq(leaf, ".") || streq(leaf, ".."))
		return -EINVAL;
	fd = openat(dir >= 0 ? dir : dir_fd, leaf,
	            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < data->n;) {
		ssize_t n = write(fd, data->p + done, data->n - done);

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return fchmod(fd, mode) < 0 ? -errno : 0; /* whatever our umask is */
}

static int place_all(int dir_fd, const struct request *req, const char *script, bool script_there,
                     struct err *err)
{
	int r = script_there ? 0 : place_file(dir_fd, script, &req->code, 0644);

	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "place the script");
	for (size_t i = 0; i < req->n_files; i++) {
		const struct request_file *f = &req->files[i];

		if (streq(f->path, script))
			return err_set(err, ERR_INVALID, EEXIST,
			               "files[%zu].path: \"%s\" is the script", i, f->path);
		r = place_file(dir_fd, f->path, &f->data, f->executable ? 0755 : 0644);
		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "place \"%.100s\"", f->path);
	}
	return 0;
}

int workspace_place(int dir_fd, const struct request *req, const char *script, bool script_there,
                    uid_t uid, struct err *err)
{
	int r;

	if (script_there && !req->n_files)
		return 0;
	act_as(uid);
	r = place_all(dir_fd, req, script, script_there, err);
	act_as(0);
	return r;
}

int workspace_create(int dir_fd, const char *path, uid_t uid)
{
	int fd;

	act_as(uid);
	fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		fd = -errno;
	else
		(void)fchmod(fd, 0644); /* whatever our umask is */
	act_as(0);
	return fd;
}

static int copy_bytes(int from, int to)
{
	char chunk[65536];

	for (;;) {
		ssize_t n = read(from, chunk, sizeof(chunk));

		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t done = 0; done < n;) {
			ssize_t m = write(to, chunk + done, (size_t)(n - done));

			if (m < 0)
				return -errno;
			done += m;
		}
	}
}

static int open_box_file(int dir_fd, const char *path, struct err *err)
{
	CLEANUP_FD int fd =
		sys_openat2(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0, BENEATH);
	struct stat st;

	if (fd == -ELOOP)
		return err_set(err, ERR_INVALID, 0,
		               "\"%.100s\" in the box is or passes a symbolic link", path);
	if (fd < 0)
		return err_set(err, ERR_IO, -fd, "open \"%.100s\" in the box", path);
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "fstat \"%.100s\"", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, 0, "\"%.100s\" in the box is not a regular file",
		               path);
	/* tmpfs counts the blocks that exist; a sparse file would fill the host's disk. */
	if ((uint64_t)st.st_size > (uint64_t)st.st_blocks * 512 + 64 * KIB)
		return err_set(err, ERR_LIMIT, EFBIG,
		               "\"%.100s\" in the box is sparse (%" PRIu64 " bytes)", path,
		               (uint64_t)st.st_size);
	return fd_take(&fd);
}

int workspace_fetch(int dir_fd, const char *box_path, const char *host_path, struct err *err)
{
	CLEANUP_FD int from = open_box_file(dir_fd, box_path, err), to = FD_NONE;
	char temp[PATH_MAX];
	int r;

	if (from < 0)
		return from;
	if ((size_t)snprintf(temp, sizeof(temp), "%s.brig-XXXXXX", host_path) >= sizeof(temp))
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "--out");
	to = mkostemp(temp, O_CLOEXEC);
	if (to < 0)
		return err_set(err, ERR_IO, errno, "create \"%.100s\"", host_path);
	r = copy_bytes(from, to);
	if (r >= 0 && fchmod(to, 0644) < 0)
		r = -errno;
	if (r >= 0 && rename(temp, host_path) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlink(temp);
		return err_set(err, ERR_IO, -r, "write \"%.100s\"", host_path);
	}
	return 0;
}
