/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig batch: one request per line in, one result per line out, in the order of the requests. The
 * boxes come from a pool that lives as long as the command: what a one-shot run pays for its box
 * is paid once, and beforehand.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "cli/flow.h"
#include "cli/load.h"
#include "cli/words.h"

#define JOBS_MAX    1024
#define PRELOAD_MAX 64
#define READ_CHUNK  65536
#define WRITE_CHUNK 4096       /* a pipe that polls writable takes this much without blocking */
#define WAITING_MAX (64 * MIB) /* results that wait; then no more are made */

static const char batch_help[] =
	"Usage: brig batch [OPTIONS] [FILE]\n"
	"\n"
	"Reads one request per line (JSON, see brig(1); from FILE or standard input) and\n"
	"writes one result per line, in the same order, from warm boxes of its own: no daemon is "
	"asked.\n"
	"\n"
	"  -j, --jobs N         runs at once (default: twice the processors)\n"
	"      --preload NAME   a Python module that is loaded before any request; repeatable\n"
	"      --stats          what the pool did, on standard error, at the end\n" FLOW_HELP
	"  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  echo '{\"language\":\"python\",\"code\":\"print(6*7)\"}' | brig batch\n"
	"\n"
	"Exit status: 0 when every request was carried out, whatever its program did; 1 when one "
	"was\n"
	"refused or its box could not be built; 2 for wrong usage; 125 when brig failed.\n";

/* One request under way; results leave in the order of the slots. */
struct slot {
	struct arena arena;
	struct job job;
	bool over;
};

struct batch {
	struct pool *pool;
	struct flow_options options;
	struct flow flow;
	unsigned jobs;
	const char *preload[PRELOAD_MAX];
	size_t n_preload;
	bool stats;
	const char *path; /* NULL: standard input */
	int in, cancel;
	struct buf line; /* of the input, not complete */
	size_t seen;     /* bytes of it in which no line ends */
	struct buf out;  /* results that the reader has not taken */
	bool eof, stopped, refused;
	bool skipping; /* the rest of a line that is too long */
	struct slot *ring;
	size_t head, tail;  /* next to write, next to fill */
	uint32_t languages; /* that have boxes */
};

static bool full(const struct batch *b)
{
	return b->tail - b->head == b->jobs;
}

static void on_done(void *data, struct job *job)
{
	(void)job;
	((struct slot *)data)->over = true;
}

static bool is_refusal(enum run_state state)
{
	return state == RUN_REJECTED || state == RUN_SETUP_FAILED || state == RUN_LOST ||
	       state == RUN_CANCELLED || state == RUN_DENIED || state == RUN_EXPIRED;
}

static int put_result(struct batch *b, const struct slot *j)
{
	b->refused |= is_refusal(j->job.result.state);
	(void)result_to_json(&j->job.result, &b->out);
	buf_putc(&b->out, '\n');
	return b->out.error;
}

/* As much as the reader takes without holding up the runs; all of it in the end. */
static int flush(struct batch *b, bool all)
{
	size_t at = 0;
	int r = 0;

	while (at < b->out.len && r >= 0) {
		size_t n = all ? b->out.len - at : MIN2(b->out.len - at, (size_t)WRITE_CHUNK);

		if (!all && poll(&(struct pollfd){ STDOUT_FILENO, POLLOUT, 0 }, 1, 0) <= 0)
			break;
		r = write_all(STDOUT_FILENO, b->out.data + at, n);
		at += n;
	}
	if (at) {
		memmove(b->out.data, b->out.data + at, b->out.len - at);
		b->out.len -= at;
	}
	return r;
}

static int write_finished(struct batch *b)
{
	while (b->head < b->tail && b->ring[b->head % b->jobs].over && b->out.len < WAITING_MAX) {
		struct slot *j = &b->ring[b->head % b->jobs];
		int r = put_result(b, j);

		job_free_fields(&j->job);
		arena_done(&j->arena);
		b->head++;
		if (r < 0)
			return r;
	}
	return 0;
}

/* The first request of a language brings boxes like it; as many wait as run at once. */
static int need_boxes(void *data, const struct request *req, struct err *err)
{
	struct batch *b = data;
	struct pool_shape shape = { .like = *req, .min = 1, .max = b->jobs };
	size_t index;
	int r;

	if (b->languages & 1u << req->language)
		return 0;
	shape.like.args = b->preload;
	shape.like.n_args = req->language == LANGUAGE_PYTHON ? b->n_preload : 0;
	shape.like.n_env = 0;
	r = pool_add_shape(b->pool, &shape, &index, err);
	if (r >= 0)
		b->languages |= 1u << req->language;
	return r;
}

static void start_job(struct batch *b, const char *text, size_t n)
{
	struct slot *j = &b->ring[b->tail++ % b->jobs];
	struct result *res = &j->job.result;

	j->arena = ARENA_INIT(REQUEST_ARENA_MAX);
	j->over = false;
	job_init(&j->job);
	j->job.done = on_done;
	j->job.data = j;
	res->receipt.level_required = LEVEL_STANDARD; /* until the request says otherwise */
	if (request_from_json(text, n, &j->arena, &j->job.request, &res->error) < 0) {
		res->state = RUN_REJECTED;
		(void)execution_id_new(res->execution_id);
		j->over = true;
		return;
	}
	pipeline_submit(b->flow.pipeline, &j->job);
}

/* Where the line at `at` ends; NULL: not here. Looks at each byte once, however long the line is.
 */
static char *line_end(struct batch *b, size_t at)
{
	size_t from = MAX2(at, b->seen);
	char *end =
		b->line.len > from ? memchr(b->line.data + from, '\n', b->line.len - from) : NULL;

	b->seen = end ? (size_t)(end - b->line.data) : b->line.len;
	return end;
}

/*
 * Complete lines, as long as there are slots; the rest waits. One that is too long is refused
 * before its end has come.
 */
static void take_lines(struct batch *b)
{
	size_t at = 0;

	while (!full(b) && !b->stopped) {
		char *start = b->line.data + at, *end = line_end(b, at);
		size_t n = end ? (size_t)(end - start) : b->line.len - at;

		if (!end && !(b->eof && n) && n <= REQUEST_JSON_MAX)
			break;
		b->skipping = !end && !b->eof;
		if (n > REQUEST_JSON_MAX || (n && strspn(start, " \t\r") < n))
			start_job(b, start, n);
		at += n + (end != NULL);
	}
	if (at) {
		memmove(b->line.data, b->line.data + at, b->line.len - at);
		b->line.len -= at;
		b->seen = MAX2(b->seen, at) - at;
	}
}

/* How many bytes at the start of what was read belong to a line that was refused already. */
static size_t skip(struct batch *b, const char *p, size_t n)
{
	const char *end = b->skipping ? memchr(p, '\n', n) : NULL;

	if (!b->skipping)
		return 0;
	b->skipping = !end;
	return end ? (size_t)(end - p) + 1 : n;
}

static int read_input(struct batch *b)
{
	char chunk[READ_CHUNK];
	ssize_t n = read(b->in, chunk, sizeof(chunk));
	size_t skipped;

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	b->eof = n == 0;
	skipped = skip(b, chunk, (size_t)n);
	buf_put(&b->line, chunk + skipped, (size_t)n - skipped);
	return b->line.error;
}

static void stop(struct batch *b)
{
	if (b->stopped)
		return;
	b->stopped = true;
	for (size_t i = b->head; i < b->tail; i++)
		if (!b->ring[i % b->jobs].over)
			pipeline_cancel(b->flow.pipeline, &b->ring[i % b->jobs].job);
}

static bool wants_input(struct batch *b)
{
	return !b->eof && !b->stopped && !full(b) && !line_end(b, 0);
}

static int carry(struct batch *b)
{
	while (b->head < b->tail || (!b->stopped && !(b->eof && !b->line.len))) {
		struct pollfd p[] = { { wants_input(b) ? b->in : -1, POLLIN, 0 },
			              { b->cancel, POLLIN, 0 },
			              { pipeline_fd(b->flow.pipeline), POLLIN, 0 } };
		int r = poll(p, ELEMENTSOF(p), POOL_TICK_MS);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (p[0].revents && (r = read_input(b)) < 0)
			return r;
		if (p[1].revents)
			stop(b);
		take_lines(b);
		pipeline_turn(b->flow.pipeline);
		r = write_finished(b);
		if (r >= 0)
			r = flush(b, false);
		if (r < 0)
			return r;
	}
	return flush(b, true);
}

static void show_stats(struct batch *b)
{
	unsigned n = 0;

	for (unsigned l = b->languages; l; l &= l - 1, n++) {
		struct pool_stats s;

		pool_stats(b->pool, n, &s);
		(void)fprintf(stderr,
		              "brig: pool %u: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
		              " boxes made, %" PRIu64 " failed, last refill %" PRIu64 " us\n",
		              n, s.hits, s.misses, s.made, s.failed, s.refill_us);
	}
}

static int usage(struct err *err, const char *word, const char *text)
{
	return option_wrong("batch", word, text, err);
}

/* 1: the value was taken; 0: it has none; else an error. */
static int take_word(struct batch *b, const struct option_word *w, struct err *err)
{
	bool used, jobs = streq(w->name, "-j") || streq(w->name, "--jobs");
	int r = flow_option(&b->options, w->name, w->value, &used, err);
	uint64_t n;

	if (r)
		return r < 0 ? r : used;
	if (streq(w->name, "--stats"))
		return b->stats = true, 0;
	if (jobs || streq(w->name, "--preload")) {
		if (!w->value || !*w->value)
			return usage(err, w->name, "needs a value");
		if (jobs && (parse_u64(w->value, &n) < 0 || n < 1 || n > JOBS_MAX))
			return usage(err, w->name, "a number from 1 to 1024");
		if (jobs)
			b->jobs = (unsigned)n;
		else if (b->n_preload == PRELOAD_MAX)
			return usage(err, w->name, "given too often");
		else
			b->preload[b->n_preload++] = w->value;
		return 1;
	}
	if (w->word[0] == '-' && w->word[1])
		return usage(err, w->word, "no such option");
	if (b->path)
		return usage(err, w->word, "one word too many");
	return b->path = w->word, 0;
}

static int parse(int argc, char **argv, struct batch *b, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		struct option_word w = option_word(argc, argv, i);
		int r = take_word(b, &w, err);

		if (r < 0)
			return r;
		if (r == 0 && w.joined && b->path != w.word)
			return usage(err, w.word, "takes no value");
		i += r > 0 && !w.joined;
	}
	return 0;
}

static int open_input(struct batch *b, struct err *err)
{
	b->in = b->path && !streq(b->path, "-") ? open(b->path, O_RDONLY | O_CLOEXEC)
	                                        : STDIN_FILENO;
	if (b->in < 0)
		return err_set(err, ERR_INVALID, errno, "open \"%.140s\"", b->path);
	return b->cancel = open_cancel(err);
}

static int run(struct batch *b)
{
	const struct pool_config config = { .queue_max = JOBS_MAX };
	struct executor_pool ex = { .base.ops = &executor_pool_ops, .need = need_boxes, .data = b };
	struct err err = { 0 };
	int r;

	b->ring = calloc(b->jobs, sizeof(*b->ring));
	r = b->ring ? pool_open(&config, &b->pool, &err) : -ENOMEM;
	ex.pool = b->pool;
	if (r >= 0)
		r = flow_open(&b->flow, &b->options, false, &ex.base, &err);
	if (r >= 0)
		r = carry(b);
	if (r < 0 && err.code != ERR_NONE)
		complain(&err);
	else if (r < 0)
		(void)fprintf(stderr, "brig: reading requests or writing results failed: %s\n",
		              strerror(-r));
	if (r >= 0 && b->stats)
		show_stats(b);
	pool_close(b->pool);
	flow_close(&b->flow);
	free(b->ring);
	buf_done(&b->line);
	buf_done(&b->out);
	if (r < 0)
		return 125;
	return b->stopped ? 130 : b->refused ? 1 : 0;
}

int cmd_batch(int argc, char **argv)
{
	struct batch b = { .line = BUF_INIT(REQUEST_JSON_MAX + 1 + READ_CHUNK),
		           .out = BUF_INIT(RESULT_JSON_MAX),
		           .in = FD_NONE,
		           .cancel = FD_NONE };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct err err = { 0 };
	int r;

	for (int i = 1; i < argc; i++)
		if (streq(argv[i], "--help") || streq(argv[i], "-h"))
			return fputs(batch_help, stdout) < 0 ? 125 : 0;
	b.jobs = cpus > 0 && cpus < 256 ? (unsigned)cpus * 2 : 4;
	r = parse(argc, argv, &b, &err);
	if (r < 0) {
		complain(&err);
		return 2;
	}
	r = open_input(&b, &err);
	if (r < 0) {
		complain(&err);
		return 125;
	}
	return run(&b);
}
