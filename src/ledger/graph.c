/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which execution of a session created, changed or removed which file, from the rows of kind
 * "file". Paths are the guest's: they come as JSON strings and leave as such, or escaped for DOT.
 */
#include <errno.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/utf8.h"
#include "ledger/ledger_impl.h"

#define EDGES_MAX  100000
#define ARENA_MAX  (64 * MIB)
#define FILES_MAX  (4 * KIB)  /* bytes of a path */
#define STRING_MAX (32 * KIB) /* the same as JSON */

struct edge {
	uint64_t seq, time_us, size;
	const char *job, *change, *path;
	const char *sha256; /* NULL: not known */
	bool first_of_job;
};

struct graph {
	struct arena arena;
	struct edge *edges; /* in their order */
	size_t n, cap;
	struct edge **by_path; /* sorted by path, then by row */
	int r;
};

/* ---- reading ---- */

static int grow(struct graph *g)
{
	size_t cap = g->cap ? 2 * g->cap : 64;
	struct edge *edges;

	if (g->n < g->cap)
		return 0;
	if (g->n >= EDGES_MAX)
		return -EFBIG;
	edges = realloc(g->edges, cap * sizeof(*edges));
	if (!edges)
		return -ENOMEM;
	g->edges = edges;
	g->cap = cap;
	return 0;
}

/* False: not the row of a file. */
static bool read_detail(struct graph *g, const struct ledger_row *row, struct edge *ret)
{
	static const struct json_bounds bounds = { .bytes = LEDGER_DETAIL_MAX,
		                                   .depth = 4,
		                                   .values = 64 };
	struct json_node root, path, size, sum;
	struct edge e = { .seq = row->seq, .time_us = row->time_us };
	struct json_reader in;
	struct str text;
	bool found;

	if (json_reader_init(&in, "detail", row->detail.p, row->detail.n, &bounds, NULL) < 0)
		return false;
	root = json_root(&in);
	path = json_member(&root, "path");
	size = json_member(&root, "size");
	sum = json_member(&root, "sha256");
	found = json_node_text(&path, FILES_MAX, &text);
	if (found)
		e.path = arena_strdup(&g->arena, text.p);
	(void)json_node_u64(&size, &e.size);
	/* last: null is an error to the reader */
	if (found && json_node_text(&sum, SHA256_HEX_SIZE, &text))
		e.sha256 = arena_strdup(&g->arena, text.p);
	json_reader_done(&in);
	*ret = e;
	return found;
}

/* Rows of one execution follow each other, as a rule: then its name is shared. */
static const char *keep_job(struct graph *g, const char *job)
{
	if (g->n && streq(g->edges[g->n - 1].job, job))
		return g->edges[g->n - 1].job;
	return arena_strdup(&g->arena, job);
}

static int take_row(void *data, const struct ledger_row *row)
{
	struct graph *g = data;
	struct edge e;

	if (!read_detail(g, row, &e))
		return 0;
	g->r = grow(g);
	if (g->r < 0)
		return 1;
	e.job = keep_job(g, row->job);
	e.change = arena_strdup(&g->arena, row->name);
	if (!e.job || !e.change || !e.path) {
		g->r = -ENOMEM;
		return 1;
	}
	g->edges[g->n++] = e;
	return 0;
}

static int by_number(const struct edge *x, const struct edge *y)
{
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int compare_jobs(const void *a, const void *b)
{
	const struct edge *x = *(struct edge *const *)a, *y = *(struct edge *const *)b;
	int order = strcmp(x->job, y->job);

	return order ? order : by_number(x, y);
}

static int compare_paths(const void *a, const void *b)
{
	const struct edge *x = *(struct edge *const *)a, *y = *(struct edge *const *)b;
	int order = strcmp(x->path, y->path);

	return order ? order : by_number(x, y);
}

static int sort(struct graph *g)
{
	struct edge **all = calloc(g->n ? g->n : 1, sizeof(struct edge *));

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++)
		all[i] = &g->edges[i];
	qsort(all, g->n, sizeof(struct edge *), compare_jobs);
	for (size_t i = 0; i < g->n; i++)
		all[i]->first_of_job = i == 0 || !streq(all[i]->job, all[i - 1]->job);
	qsort(all, g->n, sizeof(struct edge *), compare_paths);
	g->by_path = all;
	return 0;
}

static bool is_last_of_path(const struct graph *g, size_t i)
{
	return i + 1 == g->n || !streq(g->by_path[i]->path, g->by_path[i + 1]->path);
}

/* ---- JSON ---- */

/* As any JSON string; but what a terminal would obey or not show is written out as well. */
static void put_string(struct buf *out, const char *text)
{
	CLEANUP_BUF struct buf json = BUF_INIT(STRING_MAX);
	uint32_t c = 0;

	json_put_cstr(&json, text);
	if (buf_finish(&json) < 0)
		out->error = json.error;
	for (size_t at = 0, n; at < json.len; at += n) {
		n = utf8_decode(json.data + at, json.len - at, &c);
		n = MAX2(n, (size_t)1);
		if (n == 1 || !utf8_is_unseen(c)) /* ASCII is escaped already */
			buf_put(out, json.data + at, n);
		else if (c < 0x10000)
			buf_printf(out, "\\u%04x", (unsigned)c);
		else
			buf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
			           (unsigned)(0xdc00 + (c & 0x3ff)));
	}
}

static void put_state(struct buf *out, const struct edge *e)
{
	buf_printf(out, ",\"size\":%llu,\"sha256\":", (unsigned long long)e->size);
	if (e->sha256)
		put_string(out, e->sha256);
	else
		buf_puts(out, "null");
}

static void put_executions(struct buf *out, const struct graph *g)
{
	const char *comma = "";

	for (size_t i = 0; i < g->n; i++) {
		if (!g->edges[i].first_of_job)
			continue;
		buf_printf(out, "%s{\"id\":", comma);
		put_string(out, g->edges[i].job);
		buf_printf(out, ",\"first_seq\":%llu,\"time_us\":%llu}",
		           (unsigned long long)g->edges[i].seq,
		           (unsigned long long)g->edges[i].time_us);
		comma = ",";
	}
}

static void put_files(struct buf *out, const struct graph *g)
{
	const char *comma = "";

	for (size_t i = 0; i < g->n; i++) {
		const struct edge *e = g->by_path[i];

		if (!is_last_of_path(g, i))
			continue;
		buf_printf(out, "%s{\"path\":", comma);
		put_string(out, e->path);
		buf_printf(out, ",\"exists\":%s,\"changed_by\":",
		           streq(e->change, "deleted") ? "false" : "true");
		put_string(out, e->job);
		put_state(out, e);
		buf_putc(out, '}');
		comma = ",";
	}
}

static void put_json(struct buf *out, const struct graph *g, const char *session)
{
	buf_puts(out, "{\"session\":");
	put_string(out, session);
	buf_puts(out, ",\"executions\":[");
	put_executions(out, g);
	buf_puts(out, "],\"files\":[");
	put_files(out, g);
	buf_puts(out, "],\"edges\":[");
	for (size_t i = 0; i < g->n; i++) {
		const struct edge *e = &g->edges[i];

		buf_printf(out, "%s{\"seq\":%llu,\"execution\":", i ? "," : "",
		           (unsigned long long)e->seq);
		put_string(out, e->job);
		buf_puts(out, ",\"change\":");
		put_string(out, e->change);
		buf_puts(out, ",\"path\":");
		put_string(out, e->path);
		put_state(out, e);
		buf_putc(out, '}');
	}
	buf_puts(out, "]}\n");
}

/* ---- DOT ---- */

/* A backslash would begin one of DOT's own escapes; what steers a terminal or is not seen, nothing
 * good. */
static size_t put_char(struct buf *out, const char *p, size_t n)
{
	uint32_t c = 0;
	size_t length = utf8_decode(p, n, &c);

	if (!length || c < 0x20 || c == 0x7f)
		buf_printf(out, "\\\\x%02x", (unsigned char)*p);
	else if (c == '"' || c == '\\')
		buf_printf(out, "\\%c", (char)c);
	else if (utf8_is_unseen(c))
		buf_printf(out, "\\\\u%04x", (unsigned)c);
	else
		buf_put(out, p, length);
	return MAX2(length, (size_t)1);
}

/* A quoted string. The prefix keeps executions and files apart. */
static void put_node(struct buf *out, const char *prefix, const char *name)
{
	size_t n = strlen(name);

	buf_printf(out, "\"%s", prefix);
	for (size_t at = 0; at < n;)
		at += put_char(out, name + at, n - at);
	buf_putc(out, '"');
}

static void put_label(struct buf *out, const char *prefix, const char *name, const char *more)
{
	buf_putc(out, '\t');
	put_node(out, prefix, name);
	buf_puts(out, " [label=");
	put_node(out, "", name);
	buf_printf(out, "%s];\n", more);
}

static void put_dot(struct buf *out, const struct graph *g, const char *session)
{
	buf_puts(out, "digraph ");
	put_node(out, "session ", session);
	buf_puts(out, " {\n\trankdir=LR;\n");
	for (size_t i = 0; i < g->n; i++)
		if (g->edges[i].first_of_job)
			put_label(out, "run:", g->edges[i].job, ",shape=box");
	for (size_t i = 0; i < g->n; i++)
		if (is_last_of_path(g, i))
			put_label(out, "file:", g->by_path[i]->path,
			          streq(g->by_path[i]->change, "deleted") ? ",style=dashed" : "");
	for (size_t i = 0; i < g->n; i++) {
		buf_putc(out, '\t');
		put_node(out, "run:", g->edges[i].job);
		buf_puts(out, " -> ");
		put_node(out, "file:", g->edges[i].path);
		buf_puts(out, " [label=");
		put_node(out, "", g->edges[i].change);
		buf_puts(out, "];\n");
	}
	buf_puts(out, "}\n");
}

/* ---- */

static int load(struct ledger *l, const char *session, struct graph *g, struct err *err)
{
	const struct ledger_filter f = { .session = session, .kind = "file" };
	int r = ledger_each(l, &f, take_row, g, err);

	if (r < 0)
		return r;
	if (g->r == 0)
		g->r = sort(g);
	if (g->r < 0)
		return err_set(err, g->r == -EFBIG ? ERR_LIMIT : ERR_INTERNAL, -g->r,
		               "ledger: a graph of at most %d changes", EDGES_MAX);
	if (!g->n)
		return err_remedy(err,
		                  err_set(err, ERR_NOT_FOUND, ENOENT,
		                          "no changes of files are recorded for session \"%.60s\"",
		                          session),
		                  "\"brig ledger ls --kind file\" lists them");
	return 0;
}

int ledger_graph(struct ledger *l, const char *session, enum ledger_graph_form form,
                 struct buf *out, struct err *err)
{
	struct graph g = { .arena = ARENA_INIT(ARENA_MAX) };
	int r = load(l, session, &g, err);

	if (r == 0) {
		switch (form) {
		case LEDGER_GRAPH_JSON:
			put_json(out, &g, session);
			break;
		case LEDGER_GRAPH_DOT:
			put_dot(out, &g, session);
			break;
		}
		r = buf_finish(out);
		if (r < 0)
			r = err_set(err, ERR_LIMIT, -r, "ledger: a graph");
	}
	free(g.edges);
	free(g.by_path);
	arena_done(&g.arena);
	return r;
}
