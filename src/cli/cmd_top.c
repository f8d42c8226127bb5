/* SPDX-License-Identifier: Apache-2.0 */

/* brig top: what the daemon does now, again and again. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/remote.h"

#define EVERY_MS  2000
#define ROWS_MAX  40 /* of running executions; the rest is counted */
#define SCREEN    (4 * MIB)
#define TAKE_HOME "\033[H\033[2J"

static const char top_help[] =
	"Usage: brig top [--once] [--json] [--host WHERE]\n"
	"\n"
	"Shows the executions under way, the boxes that wait for one, and how many end per "
	"second;\n"
	"again every two seconds, until Ctrl-C.\n"
	"\n"
	"      --once           show it once\n"
	"      --json           one JSON document each time, in a line\n" CLIENT_HELP
	"  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  brig top\n"
	"\n"
	"Exit status: 0; 2 for wrong usage; 125 when brig failed, or there is no daemon;\n"
	"126 when it refuses.\n";

struct top {
	struct client *client;
	bool once, json;
	struct buf rows; /* of executions */
	size_t n, left_out;
	uint64_t total, rejected;     /* since the daemon's start */
	uint64_t then_ms, then_total; /* of the last time; 0: there was none */
	bool counted;
};

static int add_row(void *data, json_t *status)
{
	struct top *t = data;

	if (doc_true(status, "done"))
		return 0;
	if (!t->json && t->n >= ROWS_MAX) {
		t->left_out++;
	} else if (t->json) {
		buf_puts(&t->rows, t->n ? "," : "");
		doc_put(status, &t->rows);
	} else {
		put_status_row(&t->rows, status);
	}
	t->n++;
	return t->rows.error != 0;
}

/* The sum over all labels of one metric in the text form of Prometheus. */
static uint64_t sum_of(const char *text, const char *name)
{
	size_t n = strlen(name);
	uint64_t sum = 0;

	for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL) {
		const char *value = at + n;
		char number[24];
		uint64_t v;

		if (strncmp(at, name, n) != 0 || (*value != '{' && *value != ' '))
			continue;
		if (*value == '{')
			value += strcspn(value, "}\n");
		value += strcspn(value, " \n");
		value += strspn(value, " ");
		(void)snprintf(number, sizeof(number), "%.*s",
		               (int)MIN2(strspn(value, "0123456789"), sizeof(number) - 1), value);
		if (parse_u64(number, &v) == 0)
			sum += v;
	}
	return sum;
}

/* Without the right to read them there are none; the rest is shown all the same. */
static void count(struct top *t)
{
	const struct client_call call = { .method = "GET", .path = "/metrics" };
	struct reply r;

	t->counted = client_call(t->client, &call, &r, NULL) >= 0;
	if (!t->counted)
		return;
	t->total = r.body.data ? sum_of(r.body.data, "brig_executions_total") : 0;
	t->rejected = r.body.data ? sum_of(r.body.data, "brig_rejected_total") : 0;
	reply_free_fields(&r);
}

static void put_pool_table(json_t *shapes, struct buf *out)
{
	static const char *const keys[] = { "ready", "starting", "running", "queued",
		                            "hits",  "misses",   "failed" };
	json_t *shape;
	size_t i;

	buf_puts(out,
	         "\nPOOL          READY STARTING  RUNNING   QUEUED     HITS   MISSES   FAILED\n");
	json_array_foreach(shapes, i, shape)
	{
		put_column(out, doc_text(shape, "language"), 10);
		for (size_t k = 0; k < ELEMENTSOF(keys); k++)
			buf_printf(out, "%8llu ", (unsigned long long)doc_number(shape, keys[k]));
		out->len--;
		buf_putc(out, '\n');
	}
}

/* Thousandths per second since the last time; -1: not known. */
static long long rate_of(const struct top *t, uint64_t now)
{
	if (!t->then_ms || !t->counted || now <= t->then_ms || t->total < t->then_total)
		return -1;
	return (long long)((t->total - t->then_total) * 1000000 / (now - t->then_ms));
}

static void put_json(const struct top *t, json_t *pool, long long rate, struct buf *out)
{
	buf_puts(out, "{\"executions\":[");
	buf_put(out, t->rows.data, t->rows.len);
	buf_puts(out, "],\"pool\":");
	doc_put(pool, out);
	if (t->counted)
		buf_printf(out, ",\"ended\":%llu,\"rejected\":%llu", (unsigned long long)t->total,
		           (unsigned long long)t->rejected);
	else
		buf_puts(out, ",\"ended\":null,\"rejected\":null");
	if (rate >= 0)
		buf_printf(out, ",\"ended_per_s\":%lld.%03lld}\n", rate / 1000, rate % 1000);
	else
		buf_puts(out, ",\"ended_per_s\":null}\n");
}

static void put_table(const struct top *t, json_t *pool, long long rate, struct buf *out)
{
	if (!t->once && isatty(STDOUT_FILENO))
		buf_puts(out, TAKE_HOME);
	buf_printf(out, "%s: %zu under way", t->client->where, t->n);
	if (t->counted)
		buf_printf(out, ", %llu ended, %llu turned away", (unsigned long long)t->total,
		           (unsigned long long)t->rejected);
	if (rate >= 0)
		buf_printf(out, ", %lld.%lld per second", rate / 1000, rate % 1000 / 100);
	buf_puts(out, "\n\n");
	put_status_head(out);
	buf_put(out, t->rows.data, t->rows.len);
	if (t->left_out)
		buf_printf(out, "... and %zu more\n", t->left_out);
	put_pool_table(json_object_get(pool, "shapes"), out);
}

static int look(struct top *t, struct json_reader *pool, struct err *err)
{
	const struct client_call call = { .method = "GET", .path = "/pool" };
	struct reply r;
	int e;

	t->rows.len = 0;
	t->n = t->left_out = 0;
	e = execution_each(t->client, add_row, t, err);
	if (e >= 0)
		e = client_call(t->client, &call, &r, err);
	if (e < 0)
		return e;
	e = doc_parse((struct str){ r.body.data, r.body.len }, pool, err);
	reply_free_fields(&r);
	count(t);
	return e;
}

static int show(struct top *t, struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(SCREEN);
	CLEANUP_DOC struct json_reader pool = { 0 };
	int r = look(t, &pool, err);
	uint64_t now = clock_ms();

	if (r < 0)
		return r;
	if (t->json)
		put_json(t, pool.root, rate_of(t, now), &out);
	else
		put_table(t, pool.root, rate_of(t, now), &out);
	t->then_ms = now;
	t->then_total = t->total;
	r = t->rows.error ? -ENOMEM : buf_finish(&out);
	if (r >= 0)
		r = write_all(STDOUT_FILENO, out.data, out.len);
	return r < 0 ? err_set(err, ERR_IO, -r, "write the output") : 0;
}

int cmd_top(int argc, char **argv)
{
	struct top t = { .rows = BUF_INIT(SCREEN) };
	struct remote_words w = { .flags = { { "--once", NULL, &t.once },
		                             { "--json", NULL, &t.json } } };
	struct err err = { 0 };
	struct client c;
	int r = remote_parse("top", argc, argv, &w, &err);

	if (r < 0)
		return remote_failed(&err);
	if (w.help)
		return fputs(top_help, stdout) < 0 ? 125 : 0;
	r = remote_open(w.host, &c, &err);
	if (r < 0)
		return remote_failed(&err);
	t.client = &c;
	for (;;) {
		struct pollfd p = { c.cancel, POLLIN, 0 };

		r = show(&t, &err);
		if (r < 0 || t.once || poll(&p, 1, EVERY_MS) != 0)
			break;
	}
	buf_done(&t.rows);
	remote_close(&c);
	return r < 0 && r != -EINTR ? remote_failed(&err) : 0;
}
