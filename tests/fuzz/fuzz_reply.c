/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an answer of a daemon, and its body as events and as JSON. The first byte says in
 * which pieces it comes: the pieces must not matter.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/doc.h"
#include "fuzz.h"

#define BODY_MAX 4096
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static int feed(struct reply *r, const char *p, size_t n, size_t step)
{
	int e = 0;

	reply_init(r, BODY_MAX);
	for (size_t at = 0; at < n && e == 0; at += step)
		e = reply_feed(r, p + at, MIN2(step, n - at));
	MUST(r->body.len <= BODY_MAX);
	return e < 0 ? e : reply_eof(r);
}

static size_t count_events(const struct buf *text, size_t step)
{
	CLEANUP_BUF struct buf body = BUF_INIT(BODY_MAX);
	struct event_reader e;
	struct event ev;
	size_t n = 0;
	int r = 0;

	event_reader_init(&e, BODY_MAX);
	for (size_t at = 0; at < text->len && r >= 0; at += step) {
		buf_put(&body, text->data + at, MIN2(step, text->len - at));
		while ((r = event_next(&e, &body, &ev)) > 0)
			n += 1 + ev.data.n;
	}
	event_reader_free_fields(&e);
	return n;
}

static void read_document(const struct reply *r)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	struct err err = { 0 };
	struct approval a;
	struct result res;

	MUST(doc_error(r, &err) < 0 && err.code != ERR_NONE);
	MUST(!strchr(err.msg, '\033') && !strchr(err.remedy, '\033'));
	if (doc_parse((struct str){ r->body.data, r->body.len }, &in, &err) < 0)
		return;
	if (doc_approval(in.root, &a, NULL) >= 0)
		MUST(strlen(a.id) == EXECUTION_ID_SIZE - 1);
	if (doc_result(in.root, &res, NULL) >= 0)
		result_done(&res);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step = size ? 1 + data[0] % 64 : 1;
	const char *p = (const char *)data + (size > 0);
	struct reply whole, pieces;
	int e;

	size -= size > 0;
	e = feed(&whole, p, size, MAX2(size, (size_t)1));
	MUST(feed(&pieces, p, size, step) == e);
	if (e == 0) {
		MUST(whole.body.len == pieces.body.len && whole.status == pieces.status);
		MUST(count_events(&whole.body, BODY_MAX) == count_events(&whole.body, step));
		read_document(&whole);
	}
	reply_free_fields(&whole);
	reply_free_fields(&pieces);
	return 0;
}
