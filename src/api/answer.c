/* SPDX-License-Identifier: Apache-2.0 */

/* How a call ends: one shape of errors, one place where answers are counted. */

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/impl.h"
#include "base/clock.h"

#define ERROR_MAX (4 * KIB)

void call_end(struct call *c)
{
	if (!c)
		return;
	ex_unwait(c);
	free(c);
}

void call_gone(struct call *c)
{
	if (!c)
		return;
	c->http = NULL;
	if (c->in_work)
		ex_unwait(c);
	else
		call_end(c);
}

void answer_with(struct call *c, unsigned status, const char *type, const struct http_header *h,
                 size_t n, struct buf *body)
{
	if (c->http) {
		if (body && buf_finish(body) < 0) {
			buf_done(body);
			status = 500;
		}
		metric_http(c->api->metrics, status);
		metric_observe(c->api->metrics, METRIC_HTTP, clock_ns() - c->start_ns);
		http_set_data(c->http, NULL);
		http_answer(c->http, status, body ? type : NULL, h, n, body);
	} else if (body) {
		buf_done(body);
	}
	c->http = NULL;
	call_end(c);
}

static void release(void *data)
{
	shared_unref(data);
}

void answer_shared(struct call *c, const char *type, const struct http_header *h, size_t n,
                   struct shared_json *body)
{
	if (c->http) {
		metric_http(c->api->metrics, 200);
		metric_observe(c->api->metrics, METRIC_HTTP, clock_ns() - c->start_ns);
		http_set_data(c->http, NULL);
		body->refs++;
		http_answer_shared(c->http, 200, type, h, n,
		                   (struct str){ body->text.data, body->text.len }, release, body);
	}
	c->http = NULL;
	call_end(c);
}

void answer_json(struct call *c, unsigned status, struct buf *body)
{
	answer_with(c, status, "application/json", NULL, 0, body);
}

/* "limits.memory_bytes: must be ..." names the field; n is 0 when it does not. */
static size_t field_of(const char *msg)
{
	/* What is wrong with a whole document is said of its name. */
	static const char *const documents[] = { "request: ", "answer: ", "risk: " };
	size_t n = 0;

	for (size_t i = 0; i < ELEMENTSOF(documents); i++)
		if (str_has_prefix(msg, documents[i]))
			return 0;
	while (isalnum((unsigned char)msg[n]) || (msg[n] && strchr("_.[]", msg[n])))
		n++;
	return n && msg[n] == ':' && msg[n + 1] == ' ' ? n : 0;
}

/* What brig itself did wrong is for its log: it may name paths and other callers' things. */
void error_to_json(const struct err *err, bool hide, struct buf *out)
{
	size_t field = err->code == ERR_INVALID ? field_of(err->msg) : 0;

	buf_printf(out, "{\"error\":{\"code\":\"%s\",\"cause\":", err_code_name(err->code));
	json_put_cstr(out, hide ? "brigd could not do it; its log says why" : err->msg);
	buf_puts(out, ",\"remedy\":");
	json_put_cstr(out, hide ? "" : err->remedy);
	buf_puts(out, ",\"field\":");
	if (field)
		json_put_string(out, err->msg, field);
	else
		buf_puts(out, "null");
	buf_puts(out, "}}");
}

static const char *rejection(const struct api *api, enum err_code code)
{
	switch (code) {
	case ERR_UNAUTHORIZED:
	case ERR_FORBIDDEN:
		return "auth";
	case ERR_BUSY:
		return "busy";
	case ERR_UNAVAILABLE:
		return api->draining ? "draining" : "busy";
	case ERR_INVALID:
	case ERR_LIMIT:
	case ERR_METHOD:
	case ERR_MEDIA_TYPE:
	case ERR_NOT_FOUND:
		return "invalid";
	case ERR_NONE:
	case ERR_INTERNAL:
	case ERR_UNSUPPORTED:
	case ERR_DENIED:
	case ERR_CONFLICT:
	case ERR_EXPIRED:
	case ERR_SETUP:
	case ERR_IO:
	case ERR_CODE_COUNT:
		break;
	}
	return NULL;
}

static void answer_problem(struct call *c, const struct err *err, const struct http_header *h,
                           size_t n)
{
	struct buf b = BUF_INIT(ERROR_MAX);
	bool ours = err->code == ERR_INTERNAL || err->code == ERR_IO || err->code == ERR_SETUP;
	const char *why = rejection(c->api, err->code);

	if (ours && c->api->config.observer.log)
		c->api->config.observer.log(c->api->config.observer.data, err->msg);
	if (why)
		metric_rejected(c->api->metrics, why);
	error_to_json(err, ours, &b);
	answer_with(c, err_code_http(err->code), "application/json", h, n, &b);
}

void answer_err(struct call *c, const struct err *err)
{
	struct err e = *err;
	struct http_header allow = { "Allow", c->match.allow };
	static const struct http_header how = { "WWW-Authenticate", "Bearer realm=\"brig\"" };
	static const struct http_header later = { "Retry-After", "1" };

	if (e.code == ERR_NONE)
		(void)err_set(&e, ERR_INTERNAL, 0, "an error without a name");
	if (e.code == ERR_METHOD && *c->match.allow)
		answer_problem(c, &e, &allow, 1);
	else if (e.code == ERR_UNAVAILABLE)
		answer_problem(c, &e, &later, 1);
	else
		answer_problem(c, &e, &how, e.code == ERR_UNAUTHORIZED);
}

void answer_error(struct call *c, enum err_code code, const char *remedy, const char *fmt, ...)
{
	struct err err = { 0 };
	char text[sizeof(err.msg)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(&err, code, 0, "%s", text);
	if (remedy)
		(void)err_remedy(&err, 0, "%s", remedy);
	answer_err(c, &err);
}

void answer_busy(struct call *c, uint32_t retry_ms, const char *why)
{
	char seconds[16];
	struct http_header h = { "Retry-After", seconds };
	struct err err = { 0 };

	(void)snprintf(seconds, sizeof(seconds), "%u", (retry_ms + 999) / 1000);
	(void)err_set(&err, ERR_BUSY, 0, "%s", why);
	(void)err_remedy(&err, 0, "nothing was started; try again in %s s", seconds);
	answer_problem(c, &err, &h, 1);
}
