/* SPDX-License-Identifier: Apache-2.0 */

/* What brigd needs when nothing happens: alone, for each connection that stays, and for each that
 * listens to events. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "daemon.h"
#include "sys/file.h"

#define QUIET_MS 500 /* for what is freed a little later */
#define EVENT_MS 20000

struct memory memory_of(pid_t pid)
{
	char path[64];

	if (pid <= 0)
		return (struct memory){ 0, 0 };
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return (struct memory){ number_in(path, "VmRSS:"), number_in(path, "RssAnon:") };
}

static bool is_launcher(pid_t pid, pid_t brigd)
{
	char path[64], name[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (file_read(AT_FDCWD, path, name, sizeof(name)) <= 0 ||
	    !str_has_prefix(name, "brig-launch"))
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return number_in(path, "\nPPid:") == (uint64_t)brigd;
}

pid_t launcher_of(pid_t brigd)
{
	struct family f = { 0 };
	pid_t found = 0;

	if (family_find(&f) < 0)
		return 0;
	for (size_t i = 0; i < f.n && !found; i++)
		if (is_launcher(f.pids[i], brigd))
			found = f.pids[i];
	family_done(&f);
	return found;
}

/* ---- many of them ---------------------------------------------------------------------- */

struct crowd {
	struct wire *wires;
	uint64_t n;
};

static void disperse(struct crowd *c)
{
	for (uint64_t i = 0; i < c->n; i++)
		wire_close(&c->wires[i]);
	free(c->wires);
	*c = (struct crowd){ 0 };
}

/* Each asks for this once, and stays. */
static int gather(const struct service *s, const char *path, bool stream, uint64_t n,
                  struct crowd *c, struct err *err)
{
	static const char *const anything[] = { NULL };
	struct wire_request request = { .n = 0 };
	int r = wire_request(&s->by_socket, path, NULL, &request, err);

	c->wires = calloc(n, sizeof(*c->wires));
	if (!c->wires)
		return err_set(err, ERR_INTERNAL, ENOMEM, "%s", path);
	while (c->n < n && r >= 0) {
		struct wire *w = &c->wires[c->n++];

		r = wire_open(&s->by_socket, w, err);
		if (r >= 0)
			r = wire_ask(w, &request, err);
		if (r >= 0)
			r = wire_expect(w, anything, err);
		if (r >= 0 && w->stream != stream)
			r = err_set(err, ERR_IO, EPROTO, "%s: %s", path,
			            stream ? "not a stream" : "a stream");
	}
	(void)usleep(QUIET_MS * 1000);
	return r;
}

/* A listener that hears nothing costs nothing, and is none. */
static int hear_event(struct wire *w, uint64_t deadline, struct err *err)
{
	int r = 1;

	while (r > 0 && !strstr(wire_body(w), "\nid: ") && !strstr(wire_body(w), "\r\nid: ")) {
		if (!wire_wait(w, deadline))
			return err_set(err, ERR_IO, ETIMEDOUT, "a listener heard nothing");
		r = wire_receive(w, err);
	}
	return r < 0 ? r : 0;
}

static int make_event(struct bench *b, struct service *s, struct crowd *c, struct err *err)
{
	uint64_t deadline = clock_ms() + EVENT_MS;
	struct wire_request request = { .n = 0 };
	int r = service_hello(&s->by_socket, 0, &request, err);

	if (r >= 0)
		r = wire_ask(s->control, &request, err);
	if (r >= 0)
		r = check_hello(s->control, expected_json(b), err);
	for (uint64_t i = 0; i < c->n && r >= 0; i++)
		r = hear_event(&c->wires[i], deadline, err);
	return r;
}

/* ---- the table ------------------------------------------------------------------------- */

static void print_row(const char *name, struct memory m)
{
	if (m.rss)
		(void)printf("| %s | %llu | %llu | - |\n", name, (unsigned long long)m.rss,
		             (unsigned long long)m.anon);
}

static void print_more(const char *name, uint64_t n, struct memory before, struct memory m)
{
	(void)printf("| %llu %s | %llu | %llu | %.2f |\n", (unsigned long long)n, name,
	             (unsigned long long)m.rss, (unsigned long long)m.anon,
	             ((double)m.rss - (double)before.rss) / (double)n);
}

/* A brigd of its own for each: nobody lives on what another has freed. */
static int with_brigd(struct bench *b,
                      int (*measure)(struct bench *b, struct service *s, struct crowd *c,
                                     struct memory alone, struct err *err),
                      struct err *err)
{
	const struct service_config config = {
		.brigd = b->brigd, .min = BOXES_MIN, .max = BOXES_MAX, .eager = false
	};
	struct crowd crowd = { 0 };
	struct err end = { 0 };
	struct service s;
	int r = service_open(&s, &config, err);

	if (r >= 0) {
		(void)usleep(QUIET_MS * 1000);
		r = measure(b, &s, &crowd, memory_of(s.pid), err);
	}
	disperse(&crowd);
	if (service_close(&s, &end) < 0 && r >= 0) {
		*err = end;
		r = -EIO;
	}
	return r;
}

static int of_connections(struct bench *b, struct service *s, struct crowd *c, struct memory alone,
                          struct err *err)
{
	int r = gather(s, "/health", false, b->connections, c, err);

	if (r < 0)
		return r;
	print_row("idle, no boxes", alone);
	print_more("idle connections, each answered once", c->n, alone, memory_of(s->pid));
	return 0;
}

static int of_listeners(struct bench *b, struct service *s, struct crowd *c, struct memory alone,
                        struct err *err)
{
	struct memory quiet;
	int r = gather(s, "/events", true, b->listeners, c, err);

	if (r < 0)
		return r;
	quiet = memory_of(s->pid);
	r = make_event(b, s, c, err);
	if (r < 0)
		return r;
	print_more("listeners to events", c->n, alone, quiet);
	print_row("the same, after a run of which all have heard", memory_of(s->pid));
	return 0;
}

void measure_memory(struct bench *b)
{
	struct err err = { 0 };
	int r;

	(void)printf("\n| memory of brigd | RSS KiB | of it anonymous KiB | KiB each |\n"
	             "|---|---|---|---|\n");
	r = with_brigd(b, of_connections, &err);
	if (r >= 0)
		r = with_brigd(b, of_listeners, &err);
	print_row("idle, 8 boxes wait", b->boxes);
	print_row("after the parts above", b->loaded);
	print_row("brig-launch, 8 boxes wait", b->launcher);
	if (r < 0)
		bench_fail(b, "memory", &err);
	(void)fflush(stdout);
}
