/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define OUTPUTS_MAX      1000 /* said in report_dropped() */
#define OUTPUT_TYPES_MAX 64
#define LINE_MAX_SAID    10000000
#define HEADER           4
#define CHUNK_MAX        (1 * MIB) /* the start of the next frame, that came with the last bytes */

void report_init(struct report *r)
{
	*r = (struct report){ .bytes = BUF_INIT(REPORT_FRAME_MAX + HEADER + CHUNK_MAX) };
}

void report_free(struct report *r)
{
	buf_done(&r->bytes);
}

int report_frame(struct buf *out, const char *json, size_t n)
{
	const unsigned char header[HEADER] = { (unsigned char)n, (unsigned char)(n >> 8),
		                               (unsigned char)(n >> 16), (unsigned char)(n >> 24) };

	buf_put(out, (const char *)header, sizeof(header));
	buf_put(out, json, n);
	return out->error;
}

/*
 * A box can make a frame of tiny values; each costs brig far more memory than text. A bundle is one
 * level deeper in the result, which has to be read again.
 */
static const struct json_bounds bounds = { .bytes = REPORT_FRAME_MAX,
	                                   .depth = JSON_DEPTH_MAX - 1,
	                                   .values = 100000 };

/* No runner sends more than the outputs that are kept, and what comes with `done`. */
#define REPORT_BYTES_MAX (RESULT_OUTPUTS_MAX + REPORT_FRAME_MAX)

static void no_memory(struct report *r, struct result *res)
{
	r->broken = true;
	if (res->error.code == ERR_NONE)
		(void)err_set(&res->error, ERR_INTERNAL, ENOMEM, "the program's report");
}

/* A copy of the member's text, "" when there is none; NULL when memory ran out. */
static char *text_of(struct json_node *object, const char *key)
{
	struct json_node n = json_member(object, key);
	struct str text = { "", 0 };
	char *copy;

	if (json_is_string(n.value))
		(void)json_node_bytes(&n, REPORT_FRAME_MAX, &text);
	copy = malloc(text.n + 1);
	for (size_t i = 0; copy && i < text.n; i++)
		copy[i] = (char)(text.p[i] ? text.p[i] : ' '); /* C text ends at a NUL */
	if (copy)
		copy[text.n] = '\0';
	return copy;
}

/*
 * A MIME bundle, kept as it was written: the frame is {"output":BUNDLE} and has no other member, so
 * the bundle is what lies between the first colon and the last brace.
 */
static void take_output(struct report *r, const struct json_node *bundle, const char *p, size_t n,
                        struct result *res)
{
	const char *colon = memchr(p, ':', n);
	size_t entries;

	if (!json_node_map(bundle, OUTPUT_TYPES_MAX, &entries) || !colon)
		return;
	while (p[n - 1] != '}')
		n--;
	n -= (size_t)(colon + 1 - p) + 1;
	if (r->n_outputs == OUTPUTS_MAX || n + 1 > RESULT_OUTPUTS_MAX - res->outputs.len) {
		r->too_many = true;
		return;
	}
	if (r->n_outputs++)
		buf_putc(&res->outputs, ',');
	buf_put(&res->outputs, colon + 1, n);
	if (res->outputs.error)
		no_memory(r, res);
}

static void take_exception(struct report *r, struct json_node *e, struct result *res)
{
	struct json_node line = json_member(e, "line");
	uint64_t number = 0;

	if (!json_node_object(e) || res->exception.type)
		return;
	if (json_is_integer(line.value) && json_integer_value(line.value) > 0)
		(void)json_node_u64(&line, &number);
	res->exception = (struct exception){
		.type = text_of(e, "type"),
		.message = text_of(e, "message"),
		.traceback = text_of(e, "traceback"),
		.line = number < LINE_MAX_SAID ? (int)number : 0,
	};
	if (!res->exception.type || !res->exception.message || !res->exception.traceback) {
		free(res->exception.type);
		res->exception.type = NULL;
		no_memory(r, res);
	}
}

static void take_done(struct report *r, struct json_node *done, struct result *res)
{
	struct json_node status = json_member(done, "exit"), value = json_member(done, "value");
	struct json_node error = json_member(done, "error");
	uint64_t code;

	if (!json_node_object(done) || !status.value || !json_is_integer(status.value))
		return;
	code = (uint64_t)json_integer_value(status.value);
	if (json_is_string(value.value) && !res->value) {
		res->value = text_of(done, "value");
		if (!res->value)
			no_memory(r, res);
	}
	if (json_is_object(error.value))
		take_exception(r, &error, res);
	r->exit_code = (int)(code & 0xff);
	r->done = true;
}

/*
 * A runner passes on what the program shows, and that may be more than is read here: too deep, too
 * many values, a number that is too large. It is one output, and no reason not to hear the rest.
 */
static void take_unreadable(struct report *r, const char *p, size_t n)
{
	static const char start[] = "{\"output\":";

	if (n >= sizeof(start) - 1 && memcmp(p, start, sizeof(start) - 1) == 0)
		r->unreadable = true;
	else
		r->broken = true;
}

const char *report_dropped(const struct report *r)
{
	return r->too_many     ? "more than 1000 outputs or 64 MiB of them; the rest was dropped"
	       : r->unreadable ? "an output that is too large, too deep or no JSON was dropped"
	                       : NULL;
}

static void take_frame(struct report *r, const char *p, size_t n, struct result *res)
{
	struct json_node root, ready, output, done;
	struct json_reader in;
	int e = json_reader_init(&in, "report", p, n, &bounds, NULL);

	if (e == -ENOMEM)
		no_memory(r, res);
	else if (e < 0)
		take_unreadable(r, p, n);
	if (e < 0)
		return;
	root = json_root(&in);
	(void)json_node_object(&root); /* else an error, and no member is there */
	ready = json_member(&root, "ready");
	output = json_member(&root, "output");
	done = json_member(&root, "done");
	/* One thing at a time; what is no such thing says nothing. */
	if (json_is_object(output.value) && json_object_size(root.value) == 1)
		take_output(r, &output, p, n, res);
	else if (json_is_object(done.value))
		take_done(r, &done, res);
	else if (json_is_true(ready.value))
		r->ready = true;
	if (json_reader_finish(&in) < 0)
		r->broken = true;
	json_reader_done(&in);
}

static size_t length_of(const char *p)
{
	const unsigned char *b = (const unsigned char *)p;

	return (size_t)b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
}

/* Complete frames of the bytes at p; returns how many bytes they were. */
static size_t take_frames(struct report *r, const char *p, size_t n, struct result *res)
{
	size_t at = 0;

	while (!r->broken && !r->done && n - at >= HEADER) {
		size_t len = length_of(p + at);

		if (len > REPORT_FRAME_MAX) {
			r->broken = true;
			break;
		}
		if (n - at - HEADER < len)
			break;
		take_frame(r, p + at + HEADER, len, res);
		r->taken += len;
		at += HEADER + len;
		if (r->taken > REPORT_BYTES_MAX)
			r->broken = true;
	}
	return at;
}

void report_put(struct report *r, const char *p, size_t n)
{
	if (r->broken || r->done)
		return;
	buf_put(&r->bytes, p, n);
	if (r->bytes.error)
		r->broken = true;
}

size_t report_waiting(const struct report *r)
{
	size_t at = 0;

	if (r->broken || r->done)
		return 0;
	while (r->bytes.len - at >= HEADER) {
		size_t len = length_of(r->bytes.data + at);

		if (len > REPORT_FRAME_MAX || r->bytes.len - at - HEADER < len)
			return len > REPORT_FRAME_MAX ? at + HEADER : at;
		at += HEADER + len;
	}
	return at;
}

void report_take(struct report *r, struct result *res)
{
	size_t used = take_frames(r, r->bytes.data, r->bytes.len, res);

	if (used)
		memmove(r->bytes.data, r->bytes.data + used, r->bytes.len - used);
	r->bytes.len -= used;
}

void report_add(struct report *r, const char *p, size_t n, struct result *res)
{
	if (r->broken || r->done)
		return;
	if (!r->bytes.len) { /* most frames come whole */
		size_t used = take_frames(r, p, n, res);

		report_put(r, p + used, n - used);
	} else {
		report_put(r, p, n);
		report_take(r, res);
	}
}
