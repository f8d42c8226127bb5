/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/host_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "sys/syscalls.h"

static int refuse(const char *path, const char *what, int r, struct err *err)
{
	(void)err_set(err, ERR_IO, 0, "--out: \"%.100s\" is %s", path, what);
	return err_remedy(err, r, "name a new or a regular file");
}

/*
 * What is there must be a regular file or a link to one; nothing is well, too. A device, a FIFO, a
 * socket, a directory and a link that leads nowhere or into /proc are not ours to replace.
 */
static int check(const char *path, struct err *err)
{
	CLEANUP_FD int fd =
		sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS);
	struct stat st;

	if (fd == -ELOOP)
		return refuse(path, "a link to no file of its own", -EINVAL, err);
	if (fd < 0 && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		return refuse(path, "a link that leads nowhere", -EINVAL, err);
	if (fd < 0)
		return 0; /* nothing there; or making it will say what is wrong */
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "fstat \"%.100s\"", path);
	if (S_ISDIR(st.st_mode))
		return refuse(path, "a directory", -EISDIR, err);
	return S_ISREG(st.st_mode) ? 0 : refuse(path, "not a regular file", -EINVAL, err);
}

int host_file_begin(struct host_file *f, const char *path, struct err *err)
{
	int r = check(path, err);

	f->path = path;
	f->fd = FD_NONE;
	if (r < 0)
		return r;
	if ((size_t)snprintf(f->temp, sizeof(f->temp), "%s.brig-XXXXXX", path) >= sizeof(f->temp))
		return err_set(err, ERR_INVALID, ENAMETOOLONG, "--out");
	f->fd = mkostemp(f->temp, O_CLOEXEC);
	if (f->fd >= 0)
		return 0;
	r = err_set(err, ERR_IO, errno, "create \"%.100s\"", path);
	return err_remedy(err, r, "name a place that exists and that you may write to");
}

/* Nothing but doing it tells whether it can be done: file systems are read-only, or make no files.
 */
int host_file_try(const char *path, struct err *err)
{
	struct host_file f;
	int r = host_file_begin(&f, path, err);

	if (r < 0)
		return r;
	(void)unlink(f.temp);
	f.fd = fd_close(f.fd);
	return 0;
}

/* Nobody but rename() replaces a name, and it does not look: we do, as late as we can. */
static int commit(const struct host_file *f, struct err *err)
{
	int r;

	if (fchmod(f->fd, 0644) < 0)
		return err_set(err, ERR_IO, errno, "write \"%.100s\"", f->path);
	r = check(f->path, err);
	if (r >= 0 && rename(f->temp, f->path) < 0)
		r = err_set(err, ERR_IO, errno, "write \"%.100s\"", f->path);
	return r;
}

int host_file_end(struct host_file *f, int r, struct err *err)
{
	if (r < 0)
		(void)err_set(err, ERR_IO, -r, "write \"%.100s\"", f->path);
	else
		r = commit(f, err);
	if (r < 0)
		(void)unlink(f->temp);
	f->fd = fd_close(f->fd);
	return r;
}
