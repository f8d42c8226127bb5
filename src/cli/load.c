/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "exec/host_file.h"

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
		struct pollfd room = { fd, POLLOUT, 0 };
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EAGAIN)
			(void)poll(&room, 1, -1);
		else if (w < 0 && errno != EINTR)
			return -errno;
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

int output_lost(int sys)
{
	if (sys == EPIPE || sys == EINTR)
		return 130; /* whoever left, or pressed Ctrl-C, knows */
	(void)fprintf(stderr, "brig: the output could not be written%s%s\n", sys ? ": " : "",
	              sys ? strerror(sys) : "");
	return 125;
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

/* What cannot be written, or would be written over, is told before anything runs. */
static int check_outs(const struct run_options *o, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < o->n_outs; i++) {
		const char *host = o->outs[i].host;

		for (size_t k = 0; k < i; k++)
			if (streq(o->outs[k].host, host))
				return err_remedy(err,
				                  err_set(err, ERR_INVALID, 0,
				                          "--out: \"%.100s\" is named twice", host),
				                  "give each file a place of its own");
		r = host_file_try(host, err);
	}
	return r;
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
	if (r >= 0)
		r = check_outs(o, err);
	return r < 0 ? r : request_check(&o->req, err);
}

static sigset_t cancel_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	return set;
}

int open_cancel(struct err *err)
{
	const sigset_t set = cancel_signals();
	int fd;

	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_set(err, ERR_INTERNAL, errno, "signalfd") : fd;
}

static volatile sig_atomic_t decided;

static void end_as_decided(int number)
{
	(void)number;
	_exit(decided);
}

void close_cancel(int *fd, int status)
{
	const sigset_t set = cancel_signals();
	const struct sigaction end = { .sa_handler = end_as_decided };
	struct signalfd_siginfo came;

	if (*fd < 0)
		return;
	while (read(*fd, &came, sizeof(came)) > 0)
		;
	*fd = fd_close(*fd);
	decided = status;
	(void)sigaction(SIGINT, &end, NULL);
	(void)sigaction(SIGTERM, &end, NULL);
	(void)sigaction(SIGHUP, &end, NULL);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}
