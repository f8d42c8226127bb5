/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

void complain(const struct err *err)
{
	(void)fprintf(stderr, "brig: %s%s%s\n", *err->step ? err->step : "", *err->step ? ": " : "",
	              err->msg);
	if (*err->remedy)
		(void)fprintf(stderr, "      %s\n", err->remedy);
}

int read_all(int fd, uint64_t max, const char *what, struct arena *a, struct str *ret,
             struct err *err)
{
	CLEANUP_BUF struct buf b = BUF_INIT((size_t)max);
	char chunk[65536], *copy;

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, errno, "read %s", what);
		if (n == 0)
			break;
		buf_put(&b, chunk, (size_t)n);
		if (b.error == -EFBIG) {
			(void)err_set(err, ERR_INVALID, EFBIG, "%s is larger than %llu bytes", what,
			              (unsigned long long)max);
			return err_remedy(err, -EFBIG, "give less, or place it in parts");
		}
		if (b.error)
			return err_set(err, ERR_INTERNAL, ENOMEM, "read %s", what);
	}
	copy = arena_dup(a, b.data, b.len);
	if (!copy)
		return err_set(err, ERR_LIMIT, ENOMEM, "read %s", what);
	*ret = (struct str){ copy, b.len };
	return 0;
}

int read_path(const char *path, uint64_t max, struct arena *a, struct str *ret,
              bool *ret_executable, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char what[160];
	struct stat st;

	(void)snprintf(what, sizeof(what), "\"%.140s\"", path);
	if (fd < 0)
		return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "open %s",
		               what);
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "fstat %s", what);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, 0, "%s is not a regular file", what);
	if (ret_executable)
		*ret_executable = st.st_mode & 0111;
	return read_all(fd, max, what, a, ret, err);
}

int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno != EINTR)
			return -errno;
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int load_code(struct run_options *o, struct arena *a, struct err *err)
{
	if (o->code) {
		o->req.code = str_of(o->code);
		return 0;
	}
	if (streq(o->path, "-"))
		return read_all(STDIN_FILENO, REQUEST_CODE_MAX, "the code", a, &o->req.code, err);
	if (language_from_path(o->path) == o->req.language)
		o->req.name = base_name(o->path);
	return read_path(o->path, REQUEST_CODE_MAX, a, &o->req.code, NULL, err);
}

static int load_files(struct run_options *o, struct arena *a, struct err *err)
{
	uint64_t left = REQUEST_FILE_SUM_MAX;

	o->req.files = arena_array(a, o->n_files + 1, sizeof(*o->req.files));
	if (!o->req.files)
		return err_set(err, ERR_LIMIT, ENOMEM, "files");
	for (size_t i = 0; i < o->n_files; i++) {
		struct request_file *f = &o->req.files[i];
		int r = read_path(o->files[i].host, left, a, &f->data, &f->executable, err);

		if (r < 0)
			return r;
		f->path = o->files[i].box;
		left -= f->data.n;
		o->req.n_files++;
	}
	return 0;
}

int load_request(struct run_options *o, struct arena *a, struct err *err)
{
	int r = load_code(o, a, err);

	if (r >= 0)
		r = load_files(o, a, err);
	if (r >= 0 && o->stdin_path && streq(o->stdin_path, "-"))
		r = read_all(STDIN_FILENO, REQUEST_STDIN_MAX, "standard input", a,
		             &o->req.stdin_data, err);
	else if (r >= 0 && o->stdin_path)
		r = read_path(o->stdin_path, REQUEST_STDIN_MAX, a, &o->req.stdin_data, NULL, err);
	return r < 0 ? r : request_check(&o->req, err);
}

int open_cancel(struct err *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_set(err, ERR_INTERNAL, errno, "signalfd") : fd;
}
