/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUTS_MAX 1000
#define HEADER      4

void report_init(struct report *r)
{
	*r = (struct report){ .bytes = BUF_INIT(REPORT_FRAME_MAX + HEADER) };
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

static void freep_json(json_t **v)
{
	json_decref(*v);
}

static char *text_of(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return strdup(json_is_string(v) ? json_string_value(v) : "");
}

/* A MIME bundle: what is no string or JSON value under a type's name is not taken. */
static void take_output(struct report *r, const json_t *bundle, struct result *res)
{
	char *text;

	if (!json_is_object(bundle) || r->n_outputs == OUTPUTS_MAX)
		return;
	text = json_dumps(bundle, JSON_COMPACT);
	if (!text)
		return;
	if (strlen(text) + 1 <= RESULT_OUTPUTS_MAX - res->outputs.len) {
		if (r->n_outputs++)
			buf_putc(&res->outputs, ',');
		buf_puts(&res->outputs, text);
	}
	free(text);
}

static void take_exception(const json_t *e, struct result *res)
{
	json_int_t line = json_integer_value(json_object_get(e, "line"));

	if (!json_is_object(e) || res->exception.type)
		return;
	res->exception = (struct exception){
		.type = text_of(e, "type"),
		.message = text_of(e, "message"),
		.traceback = text_of(e, "traceback"),
		.line = line > 0 && line < 10000000 ? (int)line : 0,
	};
	if (!res->exception.message || !res->exception.traceback) {
		free(res->exception.type);
		res->exception.type = NULL;
	}
}

static void take_done(struct report *r, const json_t *done, struct result *res)
{
	const json_t *value = json_object_get(done, "value");

	if (!json_is_object(done))
		return;
	r->done = true;
	r->exit_code = (int)(json_integer_value(json_object_get(done, "exit")) & 0xff);
	if (json_is_string(value) && !res->value)
		res->value = strdup(json_string_value(value));
	take_exception(json_object_get(done, "error"), res);
}

static void take_frame(struct report *r, const char *p, size_t n, struct result *res)
{
	json_t *v __attribute__((cleanup(freep_json))) =
		json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(v)) {
		r->broken = true;
		return;
	}
	if (json_is_true(json_object_get(v, "ready")))
		r->ready = true;
	take_output(r, json_object_get(v, "output"), res);
	take_done(r, json_object_get(v, "done"), res);
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
		at += HEADER + len;
	}
	return at;
}

void report_add(struct report *r, const char *p, size_t n, struct result *res)
{
	size_t used;

	if (r->broken || r->done)
		return;
	if (!r->bytes.len) { /* most frames come whole */
		used = take_frames(r, p, n, res);
		buf_put(&r->bytes, p + used, n - used);
	} else {
		buf_put(&r->bytes, p, n);
		used = take_frames(r, r->bytes.data, r->bytes.len, res);
		memmove(r->bytes.data, r->bytes.data + used, r->bytes.len - used);
		r->bytes.len -= used;
	}
	if (r->bytes.error)
		r->broken = true;
}
