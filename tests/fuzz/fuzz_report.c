/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a box reports. The first byte tells how they are cut into pieces (its lower
 * five bits) and, with 0x40, that each line becomes one frame; else they are the stream itself. The
 * pieces must say what the whole says, and the result must be JSON whatever was said.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "exec/report.h"
#include "fuzz.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct heard {
	struct report rep;
	struct result res;
};

static void hear(struct heard *h, const char *p, size_t n, size_t step)
{
	report_init(&h->rep);
	result_init(&h->res);
	for (size_t i = 0; i < n; i += step)
		report_add(&h->rep, p + i, MIN2(step, n - i), &h->res);
}

static void forget(struct heard *h)
{
	report_free(&h->rep);
	result_done(&h->res);
}

static void check_one(const struct heard *h)
{
	const struct exception *e = &h->res.exception;

	MUST(h->rep.exit_code >= 0 && h->rep.exit_code <= 255);
	MUST(h->rep.done || (!h->res.value && !e->type && !h->rep.exit_code));
	MUST(!e->type || (e->message && e->traceback));
	MUST(e->line >= 0 && e->line < 10000000);
	MUST(buf_finish(&h->res.outputs) == 0);
	MUST((h->rep.n_outputs == 0) == (h->res.outputs.len == 0));
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? streq(a, b) : a == b;
}

static void check_same(const struct heard *a, const struct heard *b)
{
	MUST(a->rep.ready == b->rep.ready && a->rep.done == b->rep.done);
	MUST(a->rep.broken == b->rep.broken && a->rep.exit_code == b->rep.exit_code);
	MUST(a->rep.n_outputs == b->rep.n_outputs && a->res.outputs.len == b->res.outputs.len);
	MUST(!a->res.outputs.len ||
	     memcmp(a->res.outputs.data, b->res.outputs.data, a->res.outputs.len) == 0);
	MUST(same_text(a->res.value, b->res.value));
	MUST(same_text(a->res.exception.type, b->res.exception.type));
	MUST(same_text(a->res.exception.message, b->res.exception.message));
	MUST(same_text(a->res.exception.traceback, b->res.exception.traceback));
	MUST(a->res.exception.line == b->res.exception.line);
}

static void check_result(const struct heard *h)
{
	CLEANUP_BUF struct buf b = BUF_INIT(RESULT_JSON_MAX);
	json_t *root;

	MUST(result_to_json(&h->res, &b) == 0);
	root = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	MUST(root);
	MUST(json_array_size(json_object_get(root, "outputs")) == h->rep.n_outputs);
	MUST(json_is_string(json_object_get(root, "value")) == !!h->res.value);
	/* Or brig's own: outputs were dropped. */
	MUST(json_is_object(json_object_get(root, "error")) ==
	     (h->res.exception.type || h->res.error.code != ERR_NONE));
	json_decref(root);
}

/* Each line a frame. */
static void put_frames(struct buf *out, const char *p, size_t n)
{
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t len = end ? (size_t)(end - p) : n;

		MUST(report_frame(out, p, len) == 0);
		len += end != NULL;
		p += len;
		n -= len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_BUF struct buf stream = BUF_INIT(1024 * MIB);
	struct heard whole, pieces;

	if (size < 1)
		return 0;
	if (data[0] & 0x40)
		put_frames(&stream, (const char *)data + 1, size - 1);
	else
		buf_put(&stream, data + 1, size - 1);
	hear(&whole, stream.data, stream.len, stream.len + 1);
	hear(&pieces, stream.data, stream.len, (size_t)(data[0] & 0x1f) + 1);
	check_one(&whole);
	check_one(&pieces);
	check_same(&whole, &pieces);
	check_result(&whole);
	forget(&whole);
	forget(&pieces);
	return 0;
}
