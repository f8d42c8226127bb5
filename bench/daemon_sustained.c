/* SPDX-License-Identifier: Apache-2.0 */

/*
 * As many runs as possible: bare processes, one for each processor at a time, and brigd asked by
 * many clients that wait for their answers, by turns in slices. A slice of brigd ends when all its
 * boxes are removed and as many wait as the pool wants: nothing is owed to the next. Meanwhile a
 * process of its own asks /health.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "apart.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/macro.h"
#include "daemon.h"

#define WORKERS_MAX 64
#define HEALTH_MS   20
#define HEALTH_MAX  4000 /* in a slice; 60 s have 3000 */
#define WARM_MS     1000 /* before the first slice, not counted: the pool finds its size */
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

/* ---- bare ------------------------------------------------------------------------------ */

static void work_bare(void *data, uint64_t until, int to)
{
	const struct sustained *s = data;
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
	struct child children[WORKERS_MAX] = { 0 };
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

static void work_health(void *data, uint64_t until, int to)
{
	const struct sustained *s = data;
	static struct health h;
	static struct wire w;
	struct wire_request request = { .n = 0 };
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

/* ---- slices ---------------------------------------------------------------------------- */

static int slice_brigd(struct sustained *s, uint64_t ms, bool keep, struct err *err)
{
	size_t before = s->times.n, failed = s->times.failed;
	struct cost from = cost_now(s->service->pid), to;
	uint64_t begin = clock_ns(), until = begin + ms * NS_PER_MS, asked, all;
	struct child health = { 0 };
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
	to = cost_now(s->service->pid);
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
