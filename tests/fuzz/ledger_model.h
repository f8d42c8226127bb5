/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes as calls of the ledger, and beside it what it should hold. Whatever is called, in whatever
 * order and with whatever text: a row is there when its group was committed, as it was given, and
 * the ledger is sound.
 */

#include <jansson.h>

#include "ledger_fuzz.h"

#define CALLS_MAX 48
#define ROWS_MAX  512
#define REFS_MAX  64 /* bodies that one row names */

struct model_row {
	char word[5][LEDGER_WORD_MAX + 1]; /* job, session, kind, name, actor */
	uint8_t detail[SHA256_SIZE];
	uint64_t seq, time_us;
};

static struct {
	struct model_row v[ROWS_MAX];
	size_t n, committed; /* rows; of them: no part of the open group */
	size_t refs;         /* bodies that wait for a row */
	uint64_t seq;        /* of the last one that was committed */
	uint8_t digest[SHA256_SIZE];
} model;

static inline void drop_group(void)
{
	model.n = model.committed;
	model.refs = 0;
}

static inline void expect_row(const char *const word[5], struct str detail)
{
	struct model_row *m = &model.v[model.n++];

	MUST(model.n <= ROWS_MAX);
	for (int i = 0; i < 5; i++)
		(void)snprintf(m->word[i], sizeof(m->word[i]), "%s", word[i]);
	sha256(detail.p, detail.n, m->detail);
	model.refs = 0;
}

static inline void expect_body_row(void)
{
	expect_row((const char *const[]){ "", "", "body", "kept", "brig" }, STR("{}"));
}

/* ---- rows ---- */

static inline void check_words(const struct ledger_row *row)
{
	const char *const word[] = { row->job, row->session, row->kind, row->name, row->actor };
	static const char *const names[] = { "job", "session", "kind", "name", "actor" };
	CLEANUP_BUF struct buf b = BUF_INIT(LINE_MAX_);
	struct ledger_row bare = *row;
	json_t *root;

	bare.detail = STR("{}");
	ledger_row_to_json(&bare, &b);
	root = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	MUST(root != NULL);
	for (int i = 0; i < 5; i++)
		MUST(streq(json_string_value(json_object_get(root, names[i])), word[i]));
	json_decref(root);
}

static inline int compare_row(void *data, const struct ledger_row *row)
{
	const char *const word[] = { row->job, row->session, row->kind, row->name, row->actor };
	size_t *at = data;
	struct model_row *m = &model.v[*at];
	uint8_t detail[SHA256_SIZE];

	MUST(*at < model.n && row->seq == model.seq + 1);
	for (int i = 0; i < 5; i++)
		MUST(streq(m->word[i], word[i]));
	sha256(row->detail.p, row->detail.n, detail);
	MUST(streq(row->kind, "prune") || memcmp(detail, m->detail, SHA256_SIZE) == 0);
	check_words(row);
	check_export(row);
	m->seq = model.seq = row->seq;
	m->time_us = row->time_us;
	++*at;
	return 0;
}

/* The rows that were expected, and no others. */
static inline void settle(void)
{
	const struct ledger_filter f = { .after_seq = model.seq };
	size_t at = model.committed;

	MUST(told(ledger_each(led, &f, compare_row, &at, &said)) == 0);
	MUST(at == model.n);
	model.committed = model.n;
}

/* ---- calls ---- */

/* Jansson knows what UTF-8 is. */
static inline bool is_line(const char *p, size_t n)
{
	json_t *text = json_stringn(p, n);
	bool ok = text != NULL;

	json_decref(text);
	for (size_t i = 0; i < n; i++)
		ok = ok && (unsigned char)p[i] >= 0x20;
	return ok;
}

static inline bool is_right(const char *const word[5], struct str detail)
{
	bool ok = is_line(detail.p, detail.n);

	for (int i = 0; i < 5; i++)
		ok = ok && is_line(word[i], strlen(word[i]));
	return ok;
}

static inline void call_append(struct input *in, bool hostile)
{
	static const char *const usual[] = { "j1",     "s1",        "state", "file", "created",
		                             "ledger", "tail_lost", "prune", "",     "body" };
	char word[5][256], detail[258] = "{";
	const char *words[5];
	struct ledger_event e;
	size_t n;
	int r;

	for (int i = 0; i < 5; i++) {
		words[i] = usual[hostile ? 8 : take(in) % ELEMENTSOF(usual)];
		if (hostile && take_text(in, word[i]))
			words[i] = word[i];
	}
	/* this one is the ledger's own to write */
	if (streq(words[2], "ledger"))
		words[2] = "state";
	n = take_text(in, detail + 1) + 1;
	detail[n++] = '}';
	e =
		(struct ledger_event){ words[0], words[1], words[2],
		                       words[3], words[4], { detail, n } };
	r = told(ledger_append(led, &e, &said));
	MUST(r == (is_right(words, e.detail) ? 0 : -EINVAL));
	if (r == 0)
		expect_row(words, e.detail);
	else
		drop_group();
	MUST(ledger_in_group(led) == (model.n > model.committed));
}

static inline void call_body(struct input *in)
{
	char text[256];
	size_t n = take_text(in, text), times = take(in) % 8 ? 1 : 400;
	CLEANUP_BUF struct buf b = BUF_INIT(1 * MIB), got = BUF_INIT(LEDGER_BODY_MAX);
	uint64_t size = 0;

	for (size_t i = 0; i < times; i++)
		buf_put(&b, text, n);
	if (model.refs == REFS_MAX)
		expect_body_row();
	MUST(told(ledger_body(led, b.data, b.len, model.digest, &said)) == 0);
	model.refs++;
	MUST(ledger_get_body(led, model.digest, &got, &size, &said) == 0 && size == b.len);
	MUST(got.len == MIN2(b.len, LEDGER_BODY_MAX));
	MUST(!got.len || memcmp(got.data, b.data, got.len) == 0);
}

static inline void call_commit(enum ledger_durability how)
{
	MUST(told(ledger_commit(led, how, &said)) == 0);
	if (model.refs)
		expect_body_row();
	settle();
}

static inline void call_verify(void)
{
	struct ledger_report report = { 0 };
	int r = told(ledger_verify(led, &report, &said));

	MUST((r == -EBUSY) == ledger_in_group(led));
	if (r < 0)
		return;
	(void)snprintf(said.msg, sizeof(said.msg), "%s", report.why);
	MUST(report.ok && report.rows == model.committed && report.lost == 0);
	MUST(report.pruned + report.rows == model.seq);
}

static inline int count_row(void *data, const struct ledger_row *row)
{
	(void)row;
	++*(size_t *)data;
	return 0;
}

static inline bool matches(const struct model_row *m, const struct ledger_filter *f)
{
	return m->seq > f->after_seq && (!f->job || streq(f->job, m->word[0])) &&
	       (!f->session || streq(f->session, m->word[1])) &&
	       (!f->kind || streq(f->kind, m->word[2])) && (!f->name || streq(f->name, m->word[3]));
}

/* Within a group its rows are seen, too; then the numbers are not known here. */
static inline void call_query(struct input *in)
{
	uint8_t which = take(in), at = take(in);
	const struct model_row *like = &model.v[model.n ? at % model.n : 0];
	struct ledger_filter f = { .job = which & 1 ? like->word[0] : NULL,
		                   .session = which & 2 ? like->word[1] : NULL,
		                   .kind = which & 4 ? like->word[2] : NULL,
		                   .name = which & 8 ? like->word[3] : NULL,
		                   .after_seq = which & 16 ? like->seq : 0,
		                   .limit = which & 32 ? 3 : 0,
		                   .newest_first = which & 64 };
	size_t n = 0, wanted = 0;

	MUST(told(ledger_each(led, &f, count_row, &n, &said)) == 0);
	for (size_t i = 0; i < model.n; i++)
		wanted += matches(&model.v[i], &f);
	if (!ledger_in_group(led))
		MUST(n == (f.limit ? MIN2(wanted, f.limit) : wanted));
}

static inline size_t pruned_by(uint64_t before_us)
{
	for (size_t i = 0; i < model.n; i++)
		if (model.v[i].time_us >= before_us)
			return i;
	return model.n;
}

static inline void call_prune(struct input *in)
{
	uint8_t at = take(in);
	uint64_t rows = 0,
		 before_us = at == 255 || !model.n ? UINT64_MAX : model.v[at % model.n].time_us;
	size_t gone = pruned_by(before_us);
	bool in_group = ledger_in_group(led);
	int r = told(ledger_prune(led, before_us, "fuzz", &rows, &said));

	MUST(r == (in_group ? -EBUSY : 0));
	if (r < 0)
		return;
	MUST(rows == gone);
	if (!gone)
		return;
	memmove(model.v, model.v + gone, (model.n - gone) * sizeof(model.v[0]));
	model.n -= gone;
	model.committed = model.n;
	expect_row((const char *const[]){ "", "", "prune", "pruned", "fuzz" }, STR("{}"));
	settle();
}

static inline void call_graph(struct input *in)
{
	CLEANUP_BUF struct buf b = BUF_INIT(1 * MIB);
	uint8_t at = take(in);
	const char *session = model.n ? model.v[at % model.n].word[1] : "s1";

	(void)told(ledger_graph(led, session, at & 1 ? LEDGER_GRAPH_DOT : LEDGER_GRAPH_JSON, &b,
	                        &said));
}

static inline void call_reopen(void)
{
	close_it();
	drop_group();
	MUST(open_it() == 0);
}

static inline void call_one(struct input *in)
{
	switch (take(in) % 12) {
	case 0:
	case 1:
		call_append(in, false);
		break;
	case 2:
		call_append(in, true);
		break;
	case 3:
		call_body(in);
		break;
	case 4:
		call_commit(LEDGER_PROCESS);
		break;
	case 5:
		call_commit(LEDGER_DISK);
		break;
	case 6:
		ledger_abort(led);
		drop_group();
		break;
	case 7:
		call_verify();
		break;
	case 8:
		call_query(in);
		break;
	case 9:
		call_prune(in);
		break;
	case 10:
		call_graph(in);
		break;
	default:
		call_reopen();
		break;
	}
}

/* On a ledger that is new. */
static inline void run_calls(struct input in)
{
	model.n = model.committed = model.refs = 0;
	model.seq = 0;
	MUST(open_it() == 0);
	for (int i = 0; in.n && i < CALLS_MAX; i++)
		call_one(&in);
	call_reopen();
	call_verify();
	close_it();
}
