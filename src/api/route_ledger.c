/* SPDX-License-Identifier: Apache-2.0 */

/* The record, page by page. */

#include <inttypes.h>
#include <stdio.h>

#include "api/impl.h"

#define ROWS_DEFAULT 100
#define ROWS_MAX     1000
#define WORD_SIZE    129
#define PAGE_BYTES   (8 * MIB) /* then the page ends, full or not */

struct page {
	struct buf out;
	const char *separator;
	uint64_t n, last;
	bool full;
};

static int put_row(void *data, const struct ledger_row *row)
{
	struct page *p = data;

	if (p->n++)
		buf_puts(&p->out, p->separator);
	ledger_row_to_json(row, &p->out);
	p->last = row->seq;
	p->full = p->out.len > PAGE_BYTES;
	return p->full;
}

struct words {
	char job[WORD_SIZE], session[WORD_SIZE], kind[WORD_SIZE], name[WORD_SIZE];
};

static bool take_filter(struct call *c, struct words *w, struct ledger_filter *f)
{
	if (!query_text(c, "job", w->job, sizeof(w->job)) ||
	    !query_text(c, "session", w->session, sizeof(w->session)) ||
	    !query_text(c, "kind", w->kind, sizeof(w->kind)) ||
	    !query_text(c, "name", w->name, sizeof(w->name)) ||
	    !query_u64(c, "after", UINT64_MAX / 2, &f->after_seq) ||
	    !query_limit(c, ROWS_MAX, &f->limit))
		return false;
	f->job = *w->job ? w->job : NULL;
	f->session = *w->session ? w->session : NULL;
	f->kind = *w->kind ? w->kind : NULL;
	f->name = *w->name ? w->name : NULL;
	return true;
}

void route_ledger(struct api *api, struct call *c)
{
	struct page p = { .out = BUF_INIT(JSON_ANSWER_MAX), .separator = "," };
	struct ledger_filter f = { .limit = ROWS_DEFAULT };
	struct err err = { 0 };
	struct words w;

	if (!take_filter(c, &w, &f))
		return;
	pipeline_turn(api->pl);
	buf_puts(&p.out, "{\"rows\":[");
	if (ledger_each(pipeline_ledger(api->pl), &f, put_row, &p, &err) < 0) {
		buf_done(&p.out);
		answer_err(c, &err);
		return;
	}
	if (p.full || p.n == f.limit)
		buf_printf(&p.out, "],\"next\":%" PRIu64 "}", p.last);
	else
		buf_puts(&p.out, "],\"next\":null}");
	answer_json(c, 200, &p.out);
}

/* A long record comes in several answers: Brig-Next says where the next begins. */
void route_ledger_export(struct api *api, struct call *c)
{
	struct page p = { .out = BUF_INIT(JSON_ANSWER_MAX), .separator = "\n" };
	struct ledger_filter f = { .limit = EXPORT_ROWS };
	char next[24];
	struct http_header h = { "Brig-Next", next };
	struct err err = { 0 };

	if (!query_u64(c, "after", UINT64_MAX / 2, &f.after_seq))
		return;
	pipeline_turn(api->pl);
	if (ledger_each(pipeline_ledger(api->pl), &f, put_row, &p, &err) < 0) {
		buf_done(&p.out);
		answer_err(c, &err);
		return;
	}
	if (p.n)
		buf_putc(&p.out, '\n');
	(void)snprintf(next, sizeof(next), "%" PRIu64, p.last);
	answer_with(c, 200, "application/x-ndjson", &h, p.full || p.n == f.limit, &p.out);
}
