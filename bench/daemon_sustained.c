/* SPDX-License-Identifier: Apache-2.0 */

/*
 * As many runs as possible: bare processes, one for each processor at a time, and brigd asked by
 * many clients that wait for their answers, by turns in slices. A slice of brigd ends when all its
 * boxes are removed and as many wait as the pool wants: nothing is owed to the next. Meanwhile a
 * process of its own asks /health.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macro.h"
#include "daemon.h"
#include "sys/file.h"

#define WORKERS_MAX 64
#define HEALTH_MS   20
#define HEALTH_MAX  4000 /* in a slice; 60 s have 3000 */
#define WARM_MS     1000 /* before the first slice, not counted: the pool finds its size */
#define REPORT_MS   60000
#define EVENTS      64
#define NS_PER_MS   UINT64_C(1000000)

/* What a worker tells at its end. */
struct report {
	uint64_t done, failed, ns;
	struct err error;
};

struct health {
	uint64_t n, failed;
	struct err error;
	uint64_t ns[HEALTH_MAX];
};

/* Microseconds of processor time. */
struct cost {
	double all, brigd, launcher;
};

struct client {
	struct wire wire;
	uint64_t sent_ns;
	bool busy;
};

struct side {
	uint64_t runs, failed;
	double rate;       /* the sum of the slices' */
	double rate_asked; /* without the wait for the last boxes */
};

struct sustained {
	struct bench *bench;
	struct service *service;
	struct wire_request request;
	struct client *clients;
	int epoll;
	unsigned workers;
	struct side bare, brigd;
	struct samples times, health;
	struct cost cost;
};

/* ---- a process for itself -------------------------------------------------------------- */

struct child {
	pid_t pid;
	int from;
};

/* `work` writes its report to the descriptor and is over. */
static int start_child(struct child *ret, void (*work)(struct sustained *s, uint64_t until, int to),
                       struct sustained *s, uint64_t until)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fflush(stdout);
	ret->pid = fork();
	if (ret->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(s, until, fds[1]);
		_exit(0);
	}
	(void)close(fds[1]);
	ret->from = fds[0];
	if (ret->pid > 0)
		return 0;
	(void)close(fds[0]);
	return -EAGAIN;
}

/* To its end: a report may come in pieces. */
static int hear(const struct child *c, void *p, size_t n)
{
	uint64_t deadline = clock_ms() + REPORT_MS, now;
	struct pollfd fd = { c->from, POLLIN, 0 };
	size_t got = 0;

	while (got < n && (now = clock_ms()) < deadline) {
		ssize_t k;

		if (poll(&fd, 1, (int)(deadline - now)) <= 0)
			continue;
		k = read(c->from, (char *)p + got, n - got);
		if (k <= 0)
			return -EPIPE;
		got += (size_t)k;
	}
	return got == n ? 0 : -ETIMEDOUT;
}

static int end_child(struct child *c, void *p, size_t n)
{
	int r = hear(c, p, n);

	if (r < 0)
		(void)kill(c->pid, SIGKILL);
	(void)waitpid(c->pid, NULL, 0);
	(void)close(c->from);
	return r;
}

static void write_all(int fd, const void *p, size_t n)
{
	size_t sent = 0;

	while (sent < n) {
		ssize_t k = write(fd, (const char *)p + sent, n - sent);

		if (k <= 0)
			return;
		sent += (size_t)k;
	}
}

/* ---- bare ------------------------------------------------------------------------------ */

static void work_bare(struct sustained *s, uint64_t until, int to)
{
	struct report rep = { 0 };
	uint64_t begin = clock_ns();

	while (clock_ns() < until) {
		struct err err = { 0 };

		if (bare_hello(s->bench, &err) >= 0)
			rep.done++;
		else if (!rep.failed++)
			rep.error = err;
	}
	rep.ns = clock_ns() - begin;
	write_all(to, &rep, sizeof(rep));
}

static int slice_bare(struct sustained *s, struct err *err)
{
	uint64_t until = clock_ns() + s->bench->slice_ms * NS_PER_MS;
	struct child children[WORKERS_MAX];
	struct report rep;
	unsigned n = 0;
	int r = 0, e;

	for (; n < s->workers && r >= 0; n += r >= 0)
		r = start_child(&children[n], work_bare, s, until);
	for (unsigned i = 0; i < n; i++) {
		e = end_child(&children[i], &rep, sizeof(rep));
		if (e < 0) {
			r = e;
			continue;
		}
		s->bare.runs += rep.done;
		s->bare.failed += rep.failed;
		s->bare.rate += (double)rep.done * 1e9 / (double)MAX2(rep.ns, 1);
		if (rep.failed)
			bench_fail(s->bench, "bare", &rep.error);
	}
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "a worker") : 0;
}

/* ---- health ---------------------------------------------------------------------------- */

static void sleep_until(uint64_t ns)
{
	const struct timespec at = { .tv_sec = (time_t)(ns / 1000000000),
		                     .tv_nsec = (long)(ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static int ask_health(struct wire *w, const struct wire_request *request, struct err *err)
{
	static const char *const texts[] = { "\"status\":\"ok\"", NULL };
	int r = wire_ask(w, request, err);

	return r < 0 ? r : wire_expect(w, texts, err);
}

/* Whoever had to wait for the answer before has waited since he was due. */
static int probe(struct wire *w, const struct wire_request *request, uint64_t until,
                 struct health *h, struct err *err)
{
	uint64_t due = clock_ns();
	int r = 0;

	for (; due < until && h->n < HEALTH_MAX && r >= 0; due += HEALTH_MS * NS_PER_MS) {
		uint64_t begin = due;

		if (clock_ns() < due) {
			sleep_until(due);
			begin = clock_ns();
		}
		r = ask_health(w, request, err);
		if (r >= 0)
			h->ns[h->n++] = clock_ns() - begin;
	}
	return r;
}

static void work_health(struct sustained *s, uint64_t until, int to)
{
	static struct health h;
	static struct wire w;
	struct wire_request request;
	int r = wire_request(&s->service->by_socket, "/health", NULL, &request, &h.error);

	if (r >= 0)
		r = wire_open(&s->service->by_socket, &w, &h.error);
	if (r >= 0)
		r = probe(&w, &request, until, &h, &h.error);
	h.failed = r < 0;
	write_all(to, &h, sizeof(h));
}

static int take_health(struct sustained *s, struct child *c, bool keep, struct err *err)
{
	static struct health h;
	int r = end_child(c, &h, sizeof(h));

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "who asks /health");
	for (uint64_t i = 0; keep && i < MIN2(h.n, HEALTH_MAX); i++)
		samples_add(&s->health, h.ns[i]);
	if (h.failed) {
		samples_fail(&s->health, &h.error);
		bench_fail(s->bench, "/health", &h.error);
	}
	return 0;
}

/* ---- clients --------------------------------------------------------------------------- */

static int connect_client(struct sustained *s, struct client *c, struct err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	int r = wire_open(&s->service->by_socket, &c->wire, err);

	if (r >= 0 && epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->wire.fd, &event) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "a client");
	return r;
}

static int send_one(struct sustained *s, struct client *c, struct err *err)
{
	c->sent_ns = clock_ns();
	c->busy = true;
	return wire_send(&c->wire, &s->request, err);
}

/* What a client got, or why it got nothing; then it has another connection. */
static int note_answer(struct sustained *s, struct client *c, int got, const struct err *why,
                       struct err *err)
{
	uint64_t ns = clock_ns() - c->sent_ns;
	struct err wrong = { 0 };

	c->busy = false;
	if (got >= 0 && check_hello(&c->wire, expected_json(s->bench), &wrong) >= 0) {
		samples_add(&s->times, ns);
		return 0;
	}
	samples_fail(&s->times, got < 0 ? why : &wrong);
	if (got >= 0)
		return 0;
	wire_close(&c->wire);
	return connect_client(s, c, err);
}

/* Returns by how many fewer are under way: 0 or 1. */
static int serve(struct sustained *s, struct client *c, uint64_t until, struct err *err)
{
	struct err why = { 0 };
	int got = wire_receive(&c->wire, &why), r;

	if (got == 0)
		return 0;
	if (!c->busy)
		return err_set(err, ERR_IO, EPROTO, "a client heard what it did not ask for");
	r = note_answer(s, c, got, &why, err);
	if (r < 0 || clock_ns() >= until)
		return r < 0 ? r : 1;
	r = send_one(s, c, err);
	return r < 0 ? r : 0;
}

/* Until the time is over and all have their answers. */
static int run_clients(struct sustained *s, uint64_t until, struct err *err)
{
	struct epoll_event events[EVENTS];
	uint64_t busy = 0, heard = clock_ms();
	int r = 0;

	for (; busy < s->bench->clients && r >= 0; busy++)
		r = send_one(s, &s->clients[busy], err);
	while (busy && r >= 0) {
		int n = epoll_wait(s->epoll, events, EVENTS, 1000);

		if (n > 0)
			heard = clock_ms();
		if (stop_asked() || clock_ms() - heard > WIRE_MS)
			return err_set(err, ERR_IO, ETIMEDOUT, "%llu runs do not end",
			               (unsigned long long)busy);
		for (int i = 0; i < n && r >= 0; i++) {
			r = serve(s, events[i].data.ptr, until, err);
			busy -= r > 0;
		}
	}
	return r < 0 ? r : 0;
}

/* ---- processor time -------------------------------------------------------------------- */

/* Of one process and its threads, dead ones included. */
static double process_us(pid_t pid)
{
	char path[64], text[1024];
	const char *p;
	unsigned long long user = 0, kernel = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (pid <= 0 || file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	p = strrchr(text, ')');
	for (int i = 0; p && i < 12; i++) /* ") S PARENT ..." to utime and stime */
		p = strchr(p + 1, ' ');
	if (p) {
		char *end;

		user = strtoull(p, &end, 10);
		kernel = strtoull(end, NULL, 10);
	}
	return (double)(user + kernel) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static double rusage_us(int who)
{
	struct rusage ru = { 0 };

	(void)getrusage(who, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e6 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

/* All that happens but for this program and the children that it waited for: the clients. */
static struct cost cost_now(const struct service *s)
{
	return (struct cost){ .all = cpu_us() - rusage_us(RUSAGE_SELF) - rusage_us(RUSAGE_CHILDREN),
		              .brigd = process_us(s->pid),
		              .launcher = process_us(launcher_of(s->pid)) };
}

static void cost_add(struct cost *sum, const struct cost *from, const struct cost *to)
{
	sum->all += to->all - from->all;
	sum->brigd += to->brigd - from->brigd;
	sum->launcher += to->launcher - from->launcher;
}

/* ---- slices ---------------------------------------------------------------------------- */

static int slice_brigd(struct sustained *s, uint64_t ms, bool keep, struct err *err)
{
	size_t before = s->times.n, failed = s->times.failed;
	struct cost from = cost_now(s->service), to;
	uint64_t begin = clock_ns(), until = begin + ms * NS_PER_MS, asked, all;
	struct child health;
	int r = start_child(&health, work_health, s, until), h;

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "who asks /health");
	r = run_clients(s, until, err);
	asked = clock_ns() - begin;
	if (r >= 0)
		r = service_settle(s->service, err);
	all = clock_ns() - begin;
	h = take_health(s, &health, keep, err);
	if (r < 0 || h < 0)
		return r < 0 ? r : h;
	if (!keep) {
		s->times.n = before;
		return 0;
	}
	to = cost_now(s->service);
	cost_add(&s->cost, &from, &to);
	s->brigd.runs += s->times.n - before;
	s->brigd.failed += s->times.failed - failed;
	s->brigd.rate += (double)(s->times.n - before) * 1e9 / (double)all;
	s->brigd.rate_asked += (double)(s->times.n - before) * 1e9 / (double)asked;
	return 0;
}

static int run_slices(struct sustained *s, struct err *err)
{
	int r = slice_brigd(s, MIN2(WARM_MS, s->bench->slice_ms), false, err);

	for (uint64_t i = 0; i < s->bench->slices && r >= 0 && !stop_asked(); i++) {
		r = slice_bare(s, err);
		if (r >= 0)
			r = slice_brigd(s, s->bench->slice_ms, true, err);
	}
	return r;
}

/* ---- the tables ------------------------------------------------------------------------ */

static void print_rates(struct sustained *s)
{
	double n = (double)s->bench->slices, bare = s->bare.rate / n, p50, p99;

	p50 = samples_percentile(&s->times, 50);
	p99 = samples_percentile(&s->times, 99);
	(void)printf("\n| sustained, Python " HELLO_CODE
	             " | at a time | runs | failed | runs/s | x "
	             "bare | p50 ms | p99 ms | p99/p50 |\n|---|---|---|---|---|---|---|---|---|\n");
	(void)printf("| bare posix_spawn | %u | %llu | %llu | %.1f | 1.00 | - | - | - |\n",
	             s->workers, (unsigned long long)s->bare.runs,
	             (unsigned long long)s->bare.failed, bare);
	(void)printf(
		"| brigd, unix socket | %llu | %llu | %llu | %.1f | %.2f | %.3f | %.3f | %.1f |\n",
		(unsigned long long)s->bench->clients, (unsigned long long)s->brigd.runs,
		(unsigned long long)s->brigd.failed, s->brigd.rate / n,
		bare > 0 ? s->brigd.rate / n / bare : 0, p50 / 1000, p99 / 1000,
		p50 > 0 ? p99 / p50 : 0);
	(void)printf(
		"| the same, without the wait for the last boxes | | | | %.1f | %.2f | | | |\n",
		s->brigd.rate_asked / n, bare > 0 ? s->brigd.rate_asked / n / bare : 0);
	(void)printf("| wanted | | | 0 | - | 4.50 | - | - | 10.0 |\n");
}

static void print_health(struct sustained *s)
{
	(void)printf(
		"\n| GET /health meanwhile, every %d ms | n | failed | p50 ms | p95 ms | p99 ms | "
		"longest ms |\n|---|---|---|---|---|---|---|\n",
		HEALTH_MS);
	(void)printf("| brigd, unix socket | %zu | %zu | %.3f | %.3f | %.3f | %.3f |\n",
	             s->health.n, s->health.failed, samples_percentile(&s->health, 50) / 1000,
	             samples_percentile(&s->health, 95) / 1000,
	             samples_percentile(&s->health, 99) / 1000,
	             samples_percentile(&s->health, 100) / 1000);
	(void)printf("| wanted | - | 0 | - | - | 20 | - |\n");
}

static void print_cost(const struct sustained *s)
{
	double runs = (double)s->brigd.runs * 1000;

	if (!s->brigd.runs)
		return;
	(void)printf(
		"\n| processor time of a run, its box made and removed | CPU ms |\n|---|---|\n");
	if (cpu_is_complete())
		(void)printf("| brigd, brig-launch and all boxes | %.2f |\n", s->cost.all / runs);
	else
		(void)printf("| brigd, brig-launch and all boxes | - |\n");
	(void)printf("| of it brigd itself | %.2f |\n| of it brig-launch itself | %.2f |\n",
	             s->cost.brigd / runs, s->cost.launcher / runs);
}

static int set_up(struct sustained *s, struct err *err)
{
	int r = service_hello(&s->service->by_socket, 0, &s->request, err);

	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->clients = calloc(s->bench->clients, sizeof(*s->clients));
	if (s->epoll < 0 || !s->clients)
		return err_set(err, ERR_INTERNAL, errno, "clients");
	for (uint64_t i = 0; i < s->bench->clients; i++)
		s->clients[i].wire.fd = FD_NONE;
	for (uint64_t i = 0; i < s->bench->clients && r >= 0; i++)
		r = connect_client(s, &s->clients[i], err);
	return r;
}

static void tear_down(struct sustained *s)
{
	for (uint64_t i = 0; s->clients && i < s->bench->clients; i++)
		wire_close(&s->clients[i].wire);
	free(s->clients);
	(void)fd_close(s->epoll);
	samples_done(&s->times);
	samples_done(&s->health);
}

void measure_sustained(struct bench *b, struct service *service)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	struct sustained s = { .bench = b,
		               .service = service,
		               .epoll = FD_NONE,
		               .workers = (unsigned)MIN2(MAX2(online, 1), WORKERS_MAX) };
	struct err err = { 0 };
	int r = set_up(&s, &err);

	if (r >= 0)
		r = run_slices(&s, &err);
	if (r < 0) {
		bench_fail(b, "sustained", &err);
	} else {
		print_rates(&s);
		print_health(&s);
		print_cost(&s);
		(void)fflush(stdout);
	}
	if (s.times.failed) {
		bench_fail(b, "the first of the failed runs", &s.times.error);
		b->failed += s.times.failed - 1;
	}
	tear_down(&s);
}
