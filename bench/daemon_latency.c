/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One run after the other: bare and by brigd, in random order, so that what the machine does
 * meanwhile hits them alike. A turn is a few runs: hot, back to back after one that is not counted;
 * or idle, each after a quiet moment. Between runs brigd may finish what is under way, untimed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macro.h"
#include "daemon.h"

#define BURST    4  /* counted runs of a turn */
#define TRY_OUT  3  /* runs before the first that counts */
#define HOPELESS 20 /* failures without one success */

enum way {
	WAY_BARE = 0,
	WAY_SOCKET,
	WAY_TCP,
};

struct row {
	const char *name;
	enum way way;
	unsigned idle_ms; /* of quiet before each sample; 0: hot */
	bool fresh;       /* code that brigd has not seen before */
	unsigned wanted;  /* at most 1/wanted of bare; 0: nothing is said */
};

static const struct row rows[] = {
	{ "bare posix_spawn", WAY_BARE, 0, false, 0 },
	{ "bare posix_spawn, 50 ms idle", WAY_BARE, 50, false, 0 },
	{ "brigd, unix socket, hot", WAY_SOCKET, 0, false, 25 },
	{ "brigd, unix socket, hot, new code", WAY_SOCKET, 0, true, 0 },
	{ "brigd, unix socket, 50 ms idle", WAY_SOCKET, 50, false, 0 },
	{ "brigd, TCP, hot", WAY_TCP, 0, false, 20 },
	{ "brigd, TCP, 50 ms idle", WAY_TCP, 50, false, 0 },
};

struct entry {
	const struct row *row;
	const struct wire_address *to;
	struct wire *wire; /* NULL: bare */
	struct wire_request request;
	struct samples samples;
};

struct contest {
	struct bench *bench;
	struct service *service;
	struct entry entries[ELEMENTSOF(rows)];
	unsigned asked; /* makes code new */
};

/* ---- one run --------------------------------------------------------------------------- */

/* A connection that failed is not used again. */
static int ask(struct entry *e, struct err *err)
{
	int r = e->wire->fd >= 0 ? 0 : wire_open(e->to, e->wire, err);

	if (r >= 0)
		r = wire_ask(e->wire, &e->request, err);
	if (r < 0)
		wire_close(e->wire);
	return r;
}

/* Timed: from the request to its output in our hands. */
static int run(const struct contest *c, struct entry *e, uint64_t *ret_ns, struct err *err)
{
	uint64_t begin = clock_ns(), end;
	int r = e->wire ? ask(e, err) : bare_hello(c->bench, err);

	end = clock_ns();
	if (r >= 0 && e->wire)
		r = check_hello(e->wire, expected_json(c->bench), err);
	if (r >= 0)
		*ret_ns = end - begin;
	return r;
}

static void measure(struct contest *c, struct entry *e, bool keep)
{
	struct err err = { 0 };
	uint64_t ns = 0;
	int r = 0;

	if (e->row->fresh)
		r = service_hello(e->to, ++c->asked, &e->request, &err);
	if (r >= 0)
		r = run(c, e, &ns, &err);
	if (r >= 0 && keep)
		samples_add(&e->samples, ns);
	if (e->wire && r >= 0)
		r = service_settle(c->service, &err);
	if (r < 0)
		samples_fail(&e->samples, &err);
}

static bool wants_more(const struct contest *c, const struct entry *e)
{
	if (stop_asked() || (!e->samples.n && e->samples.failed >= HOPELESS))
		return false;
	return e->samples.n + e->samples.failed < c->bench->samples;
}

static void take_turn(struct contest *c, struct entry *e)
{
	if (!e->row->idle_ms)
		measure(c, e, false);
	for (int i = 0; i < BURST && wants_more(c, e); i++) {
		if (e->row->idle_ms)
			(void)usleep(e->row->idle_ms * 1000);
		measure(c, e, true);
	}
}

/* ---- the contest ----------------------------------------------------------------------- */

static int enter(struct contest *c, struct entry *e, const struct row *row, struct err *err)
{
	int r;

	e->row = row;
	if (row->way == WAY_BARE)
		return 0;
	e->to = row->way == WAY_TCP ? &c->service->by_tcp : &c->service->by_socket;
	e->wire = calloc(1, sizeof(*e->wire));
	if (!e->wire)
		return err_set(err, ERR_INTERNAL, ENOMEM, "a connection");
	e->wire->fd = FD_NONE;
	r = service_hello(e->to, 0, &e->request, err);
	for (int i = 0; i < TRY_OUT && r >= 0; i++)
		r = ask(e, err);
	return r < 0 ? r : service_settle(c->service, err);
}

static void run_all(struct contest *c)
{
	size_t order[ELEMENTSOF(rows)];
	bool more = true;

	while (more) {
		more = false;
		shuffle(order, ELEMENTSOF(rows));
		for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
			struct entry *e = &c->entries[order[i]];

			if (wants_more(c, e)) {
				take_turn(c, e);
				more = true;
			}
		}
	}
}

/* ---- the table ------------------------------------------------------------------------- */

static void print_ratio(double p50, double bare)
{
	if (p50 > 0 && p50 < bare)
		(void)printf("1/%.1f | ", bare / p50);
	else
		(void)printf("%.2f | ", bare > 0 ? p50 / bare : 0);
}

static void print_entry(struct entry *e, double bare)
{
	struct samples *s = &e->samples;
	double p50 = samples_percentile(s, 50);

	(void)printf("| %s | %zu | %zu | ", e->row->name, s->n, s->failed);
	if (!s->n) {
		(void)printf("%s | | | | |\n", s->failed ? s->error.msg : "not measured");
		return;
	}
	(void)printf("%.3f | %.3f | %.3f | ", p50 / 1000, samples_percentile(s, 95) / 1000,
	             samples_percentile(s, 99) / 1000);
	print_ratio(p50, bare);
	if (e->row->wanted)
		(void)printf("1/%u |\n", e->row->wanted);
	else
		(void)printf("- |\n");
}

static void print_table(struct contest *c)
{
	double bare = samples_percentile(&c->entries[0].samples, 50);

	(void)printf("\n| Python " HELLO_CODE " | n | failed | p50 ms | p95 ms | p99 ms | x bare | "
	             "wanted |\n|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < ELEMENTSOF(rows); i++)
		print_entry(&c->entries[i], bare);
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct samples *s = &c->entries[i].samples;

		c->bench->failed += s->failed;
		if (s->failed)
			(void)printf("\n%s: %zu failed, the first: %s\n", rows[i].name, s->failed,
			             s->error.msg);
	}
	(void)fflush(stdout);
}

void measure_latency(struct bench *b, struct service *s)
{
	struct contest c = { .bench = b, .service = s };
	struct err err = { 0 };
	int r = 0;

	for (size_t i = 0; i < ELEMENTSOF(rows) && r >= 0; i++)
		r = enter(&c, &c.entries[i], &rows[i], &err);
	if (r < 0) {
		bench_fail(b, "latency", &err);
	} else {
		run_all(&c);
		print_table(&c);
	}
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		if (c.entries[i].wire)
			wire_close(c.entries[i].wire);
		free(c.entries[i].wire);
		samples_done(&c.entries[i].samples);
	}
}
