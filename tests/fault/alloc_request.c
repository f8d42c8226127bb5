/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory runs out while a request is read or a result is written: at the nth allocation, for every
 * n, once or from then on. Each time the call must fail, say so as a lack of memory and not as a
 * wrong request, and leave nothing allocated.
 */
#include <errno.h>
#include <stdio.h>

#include "model/request.h"
#include "model/result.h"
#include "torture.h"

/* Long enough that the arenas of the reader and of the request take many blocks. */
static struct buf request_text = { .max = 4 * MIB };

static void put_long(struct buf *b, size_t n)
{
	while (n--)
		buf_putc(b, (char)('a' + n % 26));
}

static void make_request(struct buf *b)
{
	buf_puts(b, "{\"code\":\"");
	put_long(b, 20000);
	buf_puts(b, "\",\"language\":\"python\",\"name\":\"job.py\",\"timeout_ms\":1000,");
	buf_puts(b, "\"limits\":{\"memory_bytes\":67108864,\"cpus\":0.5,\"pids\":7},");
	buf_puts(b, "\"stdin\":\"a\\u0000b");
	put_long(b, 200000);
	buf_puts(b, "\",\"env\":{\"A\":\"\"");
	for (unsigned i = 0; i < 100; i++)
		buf_printf(b, ",\"V%u\":\"%u\"", i, i);
	buf_puts(b, "},\"args\":[\"\"");
	for (unsigned i = 0; i < 300; i++)
		buf_printf(b, ",\"%u\"", i);
	buf_puts(b, "],\"files\":[{\"path\":\"x\",\"content_base64\":\"AAEC\"}");
	for (unsigned i = 0; i < 20; i++) {
		buf_printf(b, ",{\"path\":\"f%u\",\"executable\":true,\"content\":\"", i);
		put_long(b, 3000);
		buf_puts(b, "\"}");
	}
	buf_puts(b, "],\"network\":\"none\",\"tier\":\"jail\",\"level\":\"strict\",");
	buf_puts(b, "\"session_id\":\"s\",\"tools\":[\"t\"],\"idempotency_key\":\"k\"}");
}

static struct outcome read_request(void)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	struct outcome o = { 0 };
	struct request r;

	o.r = request_from_json(request_text.data, request_text.len, &arena, &r, &o.err);
	return o;
}

static struct outcome read_wrong_request(void)
{
	static const char text[] = "{\"code\":\"x\",\"language\":\"py\",\"limits\":{\"ram\":1}}";
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	struct outcome o = { 0 };
	struct request r;

	o.r = request_from_json(text, sizeof(text) - 1, &arena, &r, &o.err);
	if (o.err.code == ERR_INVALID && strstr(o.err.msg, "limits.ram: unknown field"))
		o = (struct outcome){ 0 }; /* the right answer */
	return o;
}

static struct outcome write_result(void)
{
	static char output[3000]; /* makes the buffer grow several times */
	struct result r;
	CLEANUP_BUF struct buf b = BUF_INIT(RESULT_JSON_MAX);
	struct outcome o = { 0 };
	bool filled;

	memset(output, '\n', sizeof(output));
	result_init(&r);
	buf_put(&r.out, output, sizeof(output));
	filled = buf_finish(&r.out) == 0;
	r.files = calloc(1, sizeof(*r.files));
	if (r.files) {
		r.n_files = 1;
		r.files[0].path = calloc(1, 8);
		filled = filled && r.files[0].path;
	}
	o.r = filled && r.files ? result_to_json(&r, &b) : -ENOMEM;
	result_done(&r); /* copes with what is there */
	return o;
}

int main(void)
{
	static const struct torture_case cases[] = {
		{ "a request, one failure", read_request, false },
		{ "a request, failing from then on", read_request, true },
		{ "a wrong request, one failure", read_wrong_request, false },
		{ "a wrong request, failing from then on", read_wrong_request, true },
		{ "a result, one failure", write_result, false },
		{ "a result, failing from then on", write_result, true },
	};
	unsigned failures;

	make_request(&request_text);
	(void)read_request(); /* what jansson makes once is not counted */
	failures = torture(cases, ELEMENTSOF(cases));
	buf_done(&request_text);
	return failures ? 1 : 0;
}
