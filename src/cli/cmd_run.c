/* SPDX-License-Identifier: Apache-2.0 */

/* brig run: options -> request -> plan -> box -> output, files, exit status. */

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
#include "cli/cmd.h"
#include "cli/run_options.h"
#include "exec/jail.h"
#include "model/result.h"
#include "pool/pool.h"
#include "route/route.h"

#define EXIT_TIMED_OUT 124
#define EXIT_FAILED    125
#define EXIT_REFUSED   126
#define EXIT_KILLED    137
#define EXIT_CANCELLED 130
#define EXIT_USAGE     2
#define LIVE_CHUNK     4096  /* a pipe that polls writable takes this much without blocking */
#define WARM_MS        20000 /* to a box that waits; a zygote loads in it */

static void complain(const struct err *err)
{
	(void)fprintf(stderr, "brig: %s%s%s\n", *err->step ? err->step : "", *err->step ? ": " : "",
	              err->msg);
	if (*err->remedy)
		(void)fprintf(stderr, "      %s\n", err->remedy);
}

/* Regular files and pipes only; bounded while reading, whatever the size says. */
static int read_all(int fd, uint64_t max, const char *what, struct arena *a, struct str *ret,
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

static int read_path(const char *path, uint64_t max, struct arena *a, struct str *ret,
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

static int load(struct run_options *o, struct arena *a, struct err *err)
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

/* Ctrl-C and friends become readable instead of deadly: the run is stopped and cleaned up. */
static int open_cancel(struct err *err)
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

static int execute(const struct run_options *o, const struct run_variant *v, struct arena *a,
                   struct result *res)
{
	struct launcher l = { .sock = FD_NONE, .once = true };
	CLEANUP_FD int cancel = open_cancel(&res->error);
	struct jail_fetch fetch[RUN_PAIRS_MAX];
	struct jail_io io = { .out_fd = o->json ? FD_NONE : STDOUT_FILENO,
		              .err_fd = o->json ? FD_NONE : STDERR_FILENO,
		              .cancel_fd = cancel,
		              .fetch = fetch,
		              .n_fetch = o->n_outs };
	struct plan plan;
	int r = cancel;

	for (size_t i = 0; i < o->n_outs; i++)
		fetch[i] = (struct jail_fetch){ o->outs[i].box, o->outs[i].host };
	if (r >= 0) /* it gets ready while we plan */
		r = launcher_start(&l, v->launcher, &res->error);
	if (r >= 0)
		r = route_plan(&o->req, &image_host, a, &plan, &res->error);
	if (r < 0) {
		launcher_stop(&l);
		return r;
	}
	plan.layers &= ~v->without;
	plan.required &= ~v->without;
	jail_run(&l, &o->req, &plan, &io, res);
	launcher_stop(&l);
	return 0;
}

static int write_all(int fd, const char *p, size_t n)
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

static void note_done(void *data, struct result *res)
{
	(void)res;
	*(bool *)data = true;
}

/* Live, up to the limit; what came after it is told at the end, as execute() does. */
struct live {
	struct buf waiting[2]; /* for a reader that is slower than the code */
	bool broken;
};

static void show(void *data, bool is_stderr, const char *bytes, size_t n)
{
	struct buf *to = &((struct live *)data)->waiting[is_stderr];

	buf_put(to, bytes, MIN2(n, to->max - to->len));
}

/* As much as the reader takes; all of it in the end. */
static void flush_live(struct live *live, bool all)
{
	for (int i = 0; i < 2 && !live->broken; i++) {
		struct buf *b = &live->waiting[i];
		struct pollfd p = { i + 1, POLLOUT, 0 };
		size_t n = all ? b->len : MIN2(b->len, LIVE_CHUNK);

		while (n && (all || poll(&p, 1, 0) > 0)) {
			if (write_all(i + 1, b->data, n) < 0) {
				live->broken = true;
				break;
			}
			memmove(b->data, b->data + n, b->len - n);
			b->len -= n;
			b->max -= n; /* what was shown counts against the limit */
			n = all ? b->len : MIN2(b->len, LIVE_CHUNK);
		}
	}
}

/* Turns until it is done; a signal stops the run, not us. */
static void turn_until(struct pool *p, const bool *over, struct pool_call *call, int cancel,
                       struct live *live)
{
	while (!*over && pool_turn(p, POOL_TICK_MS) >= 0) {
		flush_live(live, false);
		if (!*over &&
		    (live->broken || poll(&(struct pollfd){ cancel, POLLIN, 0 }, 1, 0) > 0))
			pool_cancel(p, call);
	}
	flush_live(live, true);
}

static void show_rest(const struct result *res)
{
	const uint64_t dropped[] = { res->out_dropped, res->err_dropped };
	const struct buf *kept[] = { &res->out, &res->errout };

	for (int i = 0; i < 2; i++) {
		if (!dropped[i])
			continue;
		(void)dprintf(i + 1, "\n[brig: %llu bytes of %s dropped]\n",
		              (unsigned long long)dropped[i], i ? "stderr" : "stdout");
		(void)write_all(i + 1, kept[i]->data + kept[i]->len / 2,
		                kept[i]->len - kept[i]->len / 2);
	}
}

/* As execute(), in a box that was complete before it was asked for anything. */
static int execute_warm(const struct run_options *o, const struct run_variant *v,
                        struct result *res)
{
	CLEANUP_FD int cancel = open_cancel(&res->error);
	struct pool_shape shape = { .like = o->req, .min = 1, .max = 1 };
	const struct pool_config config = {
		.launcher = v->launcher, .shapes = &shape, .n_shapes = 1, .without = v->without
	};
	struct live live = { { BUF_INIT(o->req.limits.output_bytes),
		               BUF_INIT(o->req.limits.output_bytes) },
		             false };
	struct jail_fetch fetch[RUN_PAIRS_MAX];
	struct pool_call *call;
	struct pool *p;
	bool over = false;
	int r;

	shape.like.n_args = shape.like.n_env = 0;
	for (size_t i = 0; i < o->n_outs; i++)
		fetch[i] = (struct jail_fetch){ o->outs[i].box, o->outs[i].host };
	r = cancel < 0 ? cancel : pool_open(&config, &p, &res->error);
	if (r < 0)
		return r;
	r = pool_wait_ready(p, 0, 1, WARM_MS, &res->error);
	pool_resize(p, 0, 0, 0); /* one is enough */
	if (r >= 0)
		r = pool_submit(p, &o->req, res, note_done, &over, &call, &res->error);
	if (r >= 0) {
		pool_fetch(call, fetch, o->n_outs);
		if (!o->json)
			pool_listen(call, show, &live);
		turn_until(p, &over, call, cancel, &live);
		if (!o->json)
			show_rest(res);
	}
	pool_close(p);
	buf_done(&live.waiting[0]);
	buf_done(&live.waiting[1]);
	return r;
}

static int status_of(const struct result *res)
{
	switch (res->state) {
	case RUN_FINISHED:
	case RUN_FAILED:
	case RUN_OUTPUT_LIMIT:
	case RUN_DISK_LIMIT:
		return res->exit_code;
	case RUN_TIMED_OUT:
		return EXIT_TIMED_OUT;
	case RUN_KILLED:
		return 128 + res->signal;
	case RUN_OOM:
		return EXIT_KILLED;
	case RUN_CANCELLED:
		return EXIT_CANCELLED;
	case RUN_REJECTED:
		return res->error.code == ERR_INVALID ? EXIT_USAGE : err_code_exit(res->error.code);
	case RUN_DENIED:
	case RUN_EXPIRED:
		return EXIT_REFUSED;
	case RUN_SETUP_FAILED:
		return res->error.code == ERR_UNSUPPORTED ? EXIT_REFUSED : EXIT_FAILED;
	case RUN_LOST:
	case RUN_STATE_COUNT:
		return EXIT_FAILED;
	}
	return EXIT_FAILED;
}

static int print_json(const struct result *res)
{
	CLEANUP_BUF struct buf b = BUF_INIT(RESULT_JSON_MAX);
	int r = result_to_json(res, &b);

	buf_putc(&b, '\n');
	if (r >= 0)
		r = buf_finish(&b);
	return r < 0 ? r : write_all(STDOUT_FILENO, b.data, b.len);
}

static void print_receipt(const struct result *res)
{
	CLEANUP_BUF struct buf b = BUF_INIT(64 * KIB);

	if (receipt_to_json(&res->receipt, &b) >= 0) {
		buf_putc(&b, '\n');
		(void)write_all(STDERR_FILENO, b.data, b.len);
	}
}

static int tell(const struct run_options *o, const struct result *res)
{
	int status = status_of(res);

	if (o->json) {
		if (print_json(res) < 0) {
			(void)fprintf(stderr, "brig: the result could not be written\n");
			return EXIT_FAILED;
		}
	} else if (res->error.code != ERR_NONE) {
		complain(&res->error);
	}
	if (o->receipt && res->receipt.verified)
		print_receipt(res);
	/* A program that ended well while brig could not do its part (--out) did not end well. */
	if (status == 0 && res->error.code != ERR_NONE && res->state == RUN_FINISHED)
		status = EXIT_FAILED;
	return status;
}

int run_main(int argc, char **argv, const struct run_variant *v)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	CLEANUP(result_done) struct result res;
	static struct run_options o; /* large, and only one */
	int r;

	result_init(&res);
	r = execution_id_new(res.execution_id);
	if (r < 0) {
		(void)fprintf(stderr, "brig: no random numbers: %s\n", strerror(-r));
		return EXIT_FAILED;
	}
	r = run_options_parse(argc, argv, &arena, &o, &res.error);
	res.receipt.level_required = o.req.level;
	if (r >= 0 && o.help)
		return fputs(run_help, stdout) < 0 ? EXIT_FAILED : 0;
	if (r >= 0)
		r = load(&o, &arena, &res.error);
	if (r < 0)
		res.state = RUN_REJECTED;
	else if ((o.warm ? execute_warm(&o, v, &res) : execute(&o, v, &arena, &res)) < 0)
		res.state = RUN_SETUP_FAILED;
	return tell(&o, &res);
}

int cmd_run(int argc, char **argv)
{
	return run_main(argc, argv, &(struct run_variant){ 0 });
}
