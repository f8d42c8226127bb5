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
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/host_file.h"
#include "sys/syscalls.h"

#define BENEATH   (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)
#define DEPTH_MAX 64    /* directories below are reported by name and not entered */
#define SEEN_MAX  65536 /* directory entries looked at */

#define ENTRIES_BYTES  4096 /* of a directory, read at once */
#define DIR_COST       5
#define COMPARED_BYTES 2048      /* of a file, for the cost of one */
#define COMPARED_NAMES 64        /* so with names */
#define SMALL_BYTES    (4 * MIB) /* that go in a moment; so with SMALL_FILES */
#define SMALL_FILES    1000

/* Directories still to read, as paths relative to the workspace; and the one that is being read. */
struct workspace_walk {
	int root;
	struct result *res;
	const struct request *req;
	const char *script;
	char *todo[RESULT_FILES_MAX];
	size_t n_todo;
	char *path;
	int dir; /* FD_NONE: none; for the workspace itself it is root */
	_Alignas(struct dirent64) char entries[ENTRIES_BYTES];
	size_t n_entries, at; /* bytes */
	size_t seen;
	uint64_t cost; /* of this step so far; one is about a microsecond */
	bool begun;
	bool script_seen; /* as a file: it is there */
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
static const struct str *placed(const struct workspace_walk *w, const char *path)
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

static void visit(struct workspace_walk *w, const char *path, const struct stat *st)
{
	const struct str *before = placed(w, path);

	w->cost += 1 + w->req->n_files / COMPARED_NAMES;
	if (S_ISDIR(st->st_mode)) {
		if (w->n_todo < ELEMENTSOF(w->todo))
			w->todo[w->n_todo++] = strdup(path);
		else
			w->res->files_truncated = true;
		return;
	}
	if (before)
		w->cost += before->n / COMPARED_BYTES;
	if (before == &w->req->code)
		w->script_seen = true;
	if (!before)
		(void)add_file(w->res, path, (uint64_t)st->st_size, FILE_CREATED);
	else if (!S_ISREG(st->st_mode) ||
	         !same_content(w->root, path, before, (uint64_t)st->st_size))
		(void)add_file(w->res, path, (uint64_t)st->st_size, FILE_MODIFIED);
}

static void visit_entry(struct workspace_walk *w, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (streq(name, ".") || streq(name, ".."))
		return;
	if (++w->seen > SEEN_MAX || (size_t)snprintf(path, sizeof(path), "%s%s%s", w->path,
	                                             *w->path ? "/" : "", name) >= sizeof(path)) {
		w->res->files_truncated = true;
		return;
	}
	if (fstatat(w->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		visit(w, path, &st);
}

static void close_dir(struct workspace_walk *w)
{
	if (w->dir != w->root)
		(void)fd_close(w->dir);
	w->dir = FD_NONE;
	free(w->path);
	w->path = NULL;
}

/* Takes the path. */
static void open_dir(struct workspace_walk *w, char *path)
{
	w->cost += DIR_COST;
	w->path = path;
	w->n_entries = w->at = 0;
	if (*path)
		w->dir = sys_openat2(w->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
	else if (lseek(w->root, 0, SEEK_SET) == 0)
		w->dir = w->root;
	if (w->dir < 0)
		close_dir(w);
}

/* Of the directory that is open; NULL: that was the last. */
static const char *next_name(struct workspace_walk *w)
{
	const struct dirent64 *e = (const void *)(w->entries + w->at);
	ssize_t n;

	if (w->at == w->n_entries) {
		n = getdents64(w->dir, w->entries, sizeof(w->entries));
		if (n <= 0)
			return NULL;
		w->n_entries = (size_t)n;
		w->at = 0;
		e = (const void *)w->entries;
	}
	w->at += e->d_reclen;
	return e->d_name;
}

static size_t depth_of(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* A placed file that is no file any more: gone, a directory, or behind something that is none. */
static void add_deleted(struct workspace_walk *w, const char *path)
{
	CLEANUP_FD int fd = sys_openat2(w->root, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, BENEATH);
	struct stat st;

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ||
	    (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)))
		(void)add_file(w->res, path, 0, FILE_DELETED);
}

/* The next directory; false: there is none. */
static bool next_dir(struct workspace_walk *w)
{
	CLEANUP_FREE char *path = NULL;

	if (!w->begun) {
		w->begun = true;
		path = strdup("");
	} else if (w->n_todo) {
		path = w->todo[--w->n_todo];
	} else {
		return false;
	}
	if (path && depth_of(path) < DEPTH_MAX && !w->res->files_truncated)
		open_dir(w, TAKE_PTR(path));
	else
		w->res->files_truncated = true;
	return true;
}

struct workspace_walk *workspace_walk_new(int dir_fd, const struct request *req, const char *script,
                                          struct result *res)
{
	struct workspace_walk *w = calloc(1, sizeof(*w));

	if (w)
		*w = (struct workspace_walk){
			.root = dir_fd, .dir = FD_NONE, .res = res, .req = req, .script = script
		};
	return w;
}

bool workspace_walk_step(struct workspace_walk *w, uint64_t cost)
{
	for (w->cost = 0; w->cost < cost;) {
		const char *name = w->dir >= 0 ? next_name(w) : NULL;

		if (name && !w->res->files_truncated)
			visit_entry(w, name);
		else if (w->dir >= 0)
			close_dir(w);
		else if (!next_dir(w))
			break;
	}
	if (w->dir >= 0 || w->n_todo || !w->begun)
		return false;
	if (!w->script_seen)
		add_deleted(w, w->script);
	for (size_t i = 0; i < w->req->n_files; i++)
		add_deleted(w, w->req->files[i].path);
	return true;
}

void workspace_walk_free(struct workspace_walk *w)
{
	if (!w)
		return;
	close_dir(w);
	while (w->n_todo)
		free(w->todo[--w->n_todo]);
	free(w);
}

int workspace_changes(int dir_fd, const struct request *req, const char *script, struct result *res)
{
	struct workspace_walk *w = workspace_walk_new(dir_fd, req, script, res);

	if (!w)
		return -ENOMEM;
	(void)workspace_walk_step(w, UINT64_MAX);
	workspace_walk_free(w);
	return 0;
}

bool workspace_is_large(int dir_fd)
{
	struct statvfs st;

	if (fstatvfs(dir_fd, &st) < 0)
		return true;
	return (uint64_t)(st.f_blocks - st.f_bfree) * st.f_frsize > SMALL_BYTES ||
	       st.f_files - st.f_ffree > SMALL_FILES;
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

int workspace_read(int dir_fd, const char *box_path, struct buf *out, struct err *err)
{
	CLEANUP_FD int fd = open_box_file(dir_fd, box_path, err);
	char chunk[65536];
	ssize_t n = 1;

	if (fd < 0)
		return fd;
	while (n > 0 && !out->error) {
		n = read(fd, chunk, sizeof(chunk));
		if (n > 0)
			buf_put(out, chunk, (size_t)n);
	}
	if (n < 0)
		return err_set(err, ERR_IO, errno, "read \"%.100s\" in the box", box_path);
	if (out->error)
		return err_set(err, out->error == -EFBIG ? ERR_LIMIT : ERR_INTERNAL, -out->error,
		               "\"%.100s\" in the box", box_path);
	return 0;
}

int workspace_fetch(int dir_fd, const char *box_path, const char *host_path, struct err *err)
{
	CLEANUP_FD int from = open_box_file(dir_fd, box_path, err);
	struct host_file to;
	int r = from < 0 ? from : host_file_begin(&to, host_path, err);

	return r < 0 ? r : host_file_end(&to, copy_bytes(from, to.fd), err);
}
