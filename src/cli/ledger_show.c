/* SPDX-License-Identifier: Apache-2.0 */
/* brig ledger show: an execution as a story. Code and output are the guest's: they are written out
 * so that they cannot move the cursor or pretend to be rows. */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli/cmd_ledger.h"
#include "cli/shown.h"

#define BODY_LINES   400
#define BODY_COLUMNS 200
#define DETAIL       2000
#define LABEL        40

struct story {
	struct ledger *l;
	const struct ledger_args *args;
	struct err *err;
	struct buf out;
	uint64_t rows, first_us;
	int r;
};

/* The key under which the detail names the body: ..."stdout":"<hex>"... */
static void put_label(struct buf *out, const struct str *detail, const char *hex)
{
	const char *at = memmem(detail->p, detail->n, hex, SHA256_HEX_SIZE - 1), *end;

	if (at && at - detail->p > 4 && memcmp(at - 3, "\":\"", 3) == 0) {
		end = at - 3;
		at = memrchr(detail->p, '"', (size_t)(end - detail->p));
		if (at && end - at - 1 <= LABEL) {
			shown_word(out, (struct str){ at + 1, (size_t)(end - at - 1) }, LABEL);
			return;
		}
	}
	buf_puts(out, "body");
}

static void put_body_text(struct buf *out, const struct buf *body, uint64_t size)
{
	struct shown shown = { 0 };

	if (body->len)
		shown_put(out, (struct str){ body->data, body->len }, "        | ", BODY_LINES,
		          BODY_COLUMNS, &shown);
	if (shown.cut)
		buf_printf(out, "        (%zu more lines)\n", shown.cut);
	if (size > body->len)
		buf_printf(out, "        (%llu bytes more were not kept)\n",
		           (unsigned long long)(size - body->len));
}

static int put_body(struct story *s, const struct ledger_row *row, size_t i)
{
	CLEANUP_BUF struct buf body = BUF_INIT(LEDGER_BODY_MAX);
	const uint8_t *digest = row->bodies + i * SHA256_SIZE;
	char hex[SHA256_HEX_SIZE];
	uint64_t size = 0;
	int r = ledger_get_body(s->l, digest, &body, &size, s->err);

	if (r < 0)
		return r;
	sha256_hex(digest, hex);
	if (s->args->json) {
		buf_printf(&s->out, "%s\"%s\":{\"size\":%llu,\"kept\":%zu,\"text\":", i ? "," : "",
		           hex, (unsigned long long)size, body.len);
		json_put_string(&s->out, body.len ? body.data : "", body.len);
		buf_putc(&s->out, '}');
		return 0;
	}
	buf_puts(&s->out, "      ");
	put_label(&s->out, &row->detail, hex);
	buf_printf(&s->out, ", %llu bytes, sha256 %s\n", (unsigned long long)size, hex);
	put_body_text(&s->out, &body, size);
	return 0;
}

static int put_bodies(struct story *s, const struct ledger_row *row)
{
	int r = 0;

	for (size_t i = 0; r == 0 && s->args->bodies && i < row->n_bodies; i++)
		r = put_body(s, row, i);
	return r;
}

static int put_json(struct story *s, const struct ledger_row *row)
{
	int r;

	buf_puts(&s->out, s->rows ? ",\n{\"row\":" : "[{\"row\":");
	ledger_row_to_json(row, &s->out);
	buf_puts(&s->out, ",\"bodies\":{");
	r = put_bodies(s, row);
	buf_puts(&s->out, "}}");
	return r;
}

static int put_text(struct story *s, const struct ledger_row *row)
{
	char when[LEDGER_TIME_SIZE];

	ledger_time(row->time_us, when);
	if (!s->rows) {
		s->first_us = row->time_us;
		buf_puts(&s->out, *row->job ? "execution " : "row of no execution");
		shown_word(&s->out, str_of(row->job), 80);
		if (*row->session) {
			buf_puts(&s->out, " of session ");
			shown_word(&s->out, str_of(row->session), 80);
		}
		buf_printf(&s->out, ", from %s\n", when);
	}
	buf_printf(&s->out, "  +%10.3f ms  #%llu  ",
	           row->time_us >= s->first_us ? (double)(row->time_us - s->first_us) / 1e3 : 0.0,
	           (unsigned long long)row->seq);
	shown_word(&s->out, str_of(row->kind), 40);
	buf_putc(&s->out, ' ');
	shown_word(&s->out, str_of(row->name), 80);
	buf_puts(&s->out, " by ");
	shown_word(&s->out, str_of(*row->actor ? row->actor : "-"), 80);
	buf_putc(&s->out, '\n');
	if (row->detail.n > 2) {
		buf_puts(&s->out, "      ");
		shown_word(&s->out, row->detail, DETAIL);
		buf_putc(&s->out, '\n');
	}
	return put_bodies(s, row);
}

static int tell(void *data, const struct ledger_row *row)
{
	struct story *s = data;

	s->r = s->args->json ? put_json(s, row) : put_text(s, row);
	s->rows++;
	if (s->r == 0)
		s->r = ledger_flush(&s->out, s->err);
	return s->r < 0;
}

int ledger_show(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err)
{
	struct story s = { .l = l, .args = a, .err = err, .out = BUF_INIT(LEDGER_LINE_MAX) };
	struct ledger_filter f = { .job = a->what };
	uint64_t seq = 0;
	int r;

	(void)ret_status;
	if (parse_u64(a->what, &seq) == 0 && seq > 0)
		f = (struct ledger_filter){ .after_seq = seq - 1, .limit = 1 };
	r = ledger_each(l, &f, tell, &s, err);
	buf_done(&s.out);
	if (r == 0)
		r = s.r;
	if (r == 0 && s.rows == 0)
		return err_remedy(
			err, err_set(err, ERR_NOT_FOUND, ENOENT, "no rows of \"%.60s\"", a->what),
			"\"brig ledger ls\" lists what there is");
	if (r == 0 && a->json)
		(void)puts("]");
	return r;
}
