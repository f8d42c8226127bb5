/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of routes as an OpenAPI 3.1 document. What a route's flags say is said here for all of
 * them: parameters, bodies, errors. The schemas are data: schemas.json.
 */
#include <errno.h>

#include "api/routes.h"
#include "api_schemas_gen.h"
#include "auth/auth.h"
#include "base/json.h"
#include "base/str.h"

#define SCHEMA_REF   "{\"$ref\":\"#/components/schemas/"
#define RESPONSE_REF "{\"$ref\":\"#/components/responses/"
#define HEADER_REF   "{\"$ref\":\"#/components/headers/"

static const char head[] =
	"{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"brig\",\"version\":\"" BRIG_VERSION "\","
	"\"summary\":\"Runs code that nobody should trust\","
	"\"description\":\"Every error is {\\\"error\\\":{code,cause,remedy,field}}. `Host` must "
	"be "
	"localhost, 127.0.0.1, [::1], brig or a configured name; an `Origin` that is not "
	"configured is refused.\","
	"\"license\":{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}},"
	"\"servers\":[{\"url\":\"" API_PREFIX "\",\"description\":\"Where this document came from: "
	"a unix socket (/run/brig/brigd.sock for root; any of the names that Host may have stands "
	"in the URL) or a configured TCP address.\"}],"
	"\"security\":[{\"bearer\":[]},{}]";

static const char security[] =
	"\"securitySchemes\":{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\","
	"\"bearerFormat\":\"brig_...\",\"description\":\"A token of `brig token new`. On the unix "
	"socket the kernel says who asks: the daemon's own user and root need no token, anybody "
	"else does. `x-brig-scopes` of an operation: one of these scopes is needed; an empty list "
	"means any caller that is known.\"}}";

/* ---- errors ---- */

/* clang-format off */
#define ERRORS(X)                                                                                  \
	X(400, "Invalid",      "The request is wrong; `field` names the place")                    \
	X(401, "Unauthorized", "No token, or one that does not count")                             \
	X(403, "Forbidden",    "The scope or the Origin does not permit it")                       \
	X(404, "NotFound",     "There is none, or it is somebody else's")                          \
	X(405, "Method",       "The path has other methods")                                       \
	X(409, "Conflict",     "Decided before, or an idempotency key that stands for another request") \
	X(410, "Expired",      "Too late to answer")                                               \
	X(413, "TooLarge",     "The body is too large")                                            \
	X(415, "MediaType",    "The body is not application/json")                                 \
	X(421, "Misdirected",  "Host is not ours")                                                 \
	X(422, "Unsupported",  "This host cannot do what is required")                             \
	X(429, "Busy",         "Too many runs, or more than the quota; nothing was started")       \
	X(503, "Unavailable",  "Starting or draining, or the record cannot be written")
/* clang-format on */

static bool is_answer(const struct route *r)
{
	return str_has_prefix(r->path, "/approvals/{") && !streq(r->method, "GET");
}

/* Its "no" is an answer of its own. */
static bool is_ready(const struct route *r)
{
	return streq(r->path, "/ready");
}

static bool can_happen(const struct route *r, unsigned status)
{
	switch (status) {
	case 404:
		return strchr(r->path, '{') != NULL;
	case 405: /* of no operation: the path's other methods */
		return false;
	case 409:
		return is_answer(r) || (r->flags & ROUTE_KEY);
	case 410:
		return is_answer(r) && (r->flags & ROUTE_BODY);
	case 413:
	case 415:
		return r->flags & ROUTE_BODY;
	case 422:
		return r->request && streq(r->request, "Request");
	case 503:
		return !is_ready(r) && (!(r->flags & ROUTE_DRAINING) || r->scopes);
	default:
		return true;
	}
}

static void put_error_refs(struct buf *out, const struct route *r)
{
#define X(status, name, text)                                                                      \
	if (can_happen(r, status))                                                                 \
		buf_puts(out, ",\"" #status "\":" RESPONSE_REF name "\"}");
	ERRORS(X)
#undef X
	buf_puts(out, ",\"default\":" RESPONSE_REF "Error\"}");
}

static void put_error(struct buf *out, unsigned status, const char *name, const char *text)
{
	buf_printf(out, "\"%s\":{\"description\":\"%s\",", name, text);
	if (status == 401)
		buf_puts(out,
		         "\"headers\":{\"WWW-Authenticate\":" HEADER_REF "WWW-Authenticate\"}},");
	if (status == 405)
		buf_puts(out, "\"headers\":{\"Allow\":" HEADER_REF "Allow\"}},");
	if (status == 429 || status == 503)
		buf_puts(out, "\"headers\":{\"Retry-After\":" HEADER_REF "Retry-After\"}},");
	buf_puts(out, "\"content\":{\"application/json\":{\"schema\":" SCHEMA_REF "Error\"}}}}");
}

static void put_responses(struct buf *out)
{
	buf_puts(out, "\"responses\":{");
#define X(status, name, text)                                                                      \
	put_error(out, status, name, text);                                                        \
	buf_putc(out, ',');
	ERRORS(X)
#undef X
	put_error(out, 0, "Error", "Anything else that went wrong");
	buf_putc(out, '}');
}

/* ---- headers ---- */

/* clang-format off */
#define HEADERS(X)                                                                                 \
	X("Allow",            "string",  "The methods of the path")                                \
	X("Retry-After",      "integer", "After so many seconds it is worth trying again")         \
	X("WWW-Authenticate", "string",  "How to say who asks")                                    \
	X("Location",         "string",  "The execution")                                          \
	X("Brig-Execution-Id", "string", "Its id alone")                                           \
	X("Brig-Replayed",    "boolean", "true: the answer to an earlier request with this key")   \
	X("Brig-Next",        "integer", "There is more, after this number")                       \
	X("Brig-Next-Offset", "integer", "Where to read on")                                       \
	X("Brig-Done",        "boolean", "true: no more will come")                                \
	X("Brig-Dropped",     "integer", "Bytes that were not kept")
/* clang-format on */

static void put_headers(struct buf *out)
{
	const char *comma = "";

	buf_puts(out, "\"headers\":{");
#define X(name, type, text)                                                                        \
	buf_printf(out, "%s\"%s\":{\"description\":\"%s\",\"schema\":{\"type\":\"%s\"}}", comma,   \
	           name, text, type);                                                              \
	comma = ",";
	HEADERS(X)
#undef X
	buf_putc(out, '}');
}

static bool is_execution(const struct route *r)
{
	return r->response && (streq(r->response, "Result") || streq(r->response, "Status") ||
	                       streq(r->response, "ResultOrStatus"));
}

static void put_header_refs(struct buf *out, const struct route *r)
{
	static const char *const of_runs[] = { "Location", "Brig-Execution-Id", "Brig-Replayed",
		                               NULL };
	static const char *const of_output[] = { "Brig-Next-Offset", "Brig-Done", "Brig-Dropped",
		                                 NULL };
	static const char *const of_rows[] = { "Brig-Next", NULL };
	const char *const *names = NULL;

	if (is_execution(r))
		names = of_runs;
	else if (r->response && streq(r->response, "application/octet-stream"))
		names = of_output;
	else if (r->response && streq(r->response, "application/x-ndjson"))
		names = of_rows;
	if (!names)
		return;
	buf_puts(out, ",\"headers\":{");
	for (size_t i = 0; names[i]; i++)
		buf_printf(out, "%s\"%s\":" HEADER_REF "%s\"}", i ? "," : "", names[i], names[i]);
	buf_putc(out, '}');
}

/* ---- an operation ---- */

static void put_param(struct buf *out, const char **comma, const char *in, const char *name,
                      const char *schema, const char *text)
{
	buf_printf(out, "%s{\"name\":", *comma);
	json_put_cstr(out, name);
	buf_printf(out, ",\"in\":\"%s\",\"required\":%s,\"schema\":%s,\"description\":", in,
	           streq(in, "path") ? "true" : "false", schema);
	json_put_cstr(out, text);
	buf_putc(out, '}');
	*comma = ",";
}

static void put_path_params(struct buf *out, const char **comma, const char *path)
{
	char name[ROUTE_ARG_SIZE];

	while ((path = strchr(path, '{'))) {
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(path + 1, "}"), path + 1);
		put_param(out, comma, "path", name, SCHEMA_REF "Id\"}", "which one");
		path++;
	}
}

static const char *schema_of(const char *type)
{
	if (streq(type, "integer"))
		return "{\"type\":\"integer\",\"minimum\":0}";
	if (streq(type, "boolean"))
		return "{\"type\":\"boolean\"}";
	return "{\"type\":\"string\"}";
}

static void put_header_params(struct buf *out, const char **comma, const struct route *r)
{
	static const char key[] = "{\"type\":\"string\",\"pattern\":\"^[!-~]{1,128}$\"}";
	static const char trace[] = "{\"type\":\"string\",\"pattern\":\"^[0-9a-f]{2}-[0-9a-f]{32}-"
				    "[0-9a-f]{16}-[0-9a-f]{2}\"}";
	static const char number[] = "{\"type\":\"string\",\"pattern\":\"^[0-9]+$\"}";

	if (r->flags & ROUTE_KEY)
		put_param(out, comma, "header", "Idempotency-Key", key,
		          "the same key and the same request happens once, for 24 hours");
	if ((r->flags & ROUTE_KEY) && is_execution(r))
		put_param(out, comma, "header", "traceparent", trace,
		          "the trace that this is a part of (W3C Trace Context)");
	if (r->flags & ROUTE_SSE)
		put_param(out, comma, "header", "Last-Event-ID", number, "go on after this event");
}

static void put_params(struct buf *out, const struct route *r)
{
	const char *comma = "";

	buf_puts(out, ",\"parameters\":[");
	put_path_params(out, &comma, r->path);
	for (const struct route_param *p = r->params; p && p->name; p++)
		put_param(out, &comma, "query", p->name, schema_of(p->type), p->text);
	put_header_params(out, &comma, r);
	buf_putc(out, ']');
}

static void put_content(struct buf *out, const char *what)
{
	if (!what)
		return;
	if (strchr(what, '/')) {
		buf_puts(out, ",\"content\":{");
		json_put_cstr(out, what);
		buf_puts(out, ":{}}");
	} else {
		buf_printf(out,
		           ",\"content\":{\"application/json\":{\"schema\":" SCHEMA_REF "%s\"}}}",
		           what);
	}
}

static void put_success(struct buf *out, const struct route *r, unsigned status, const char *what,
                        const char *text)
{
	buf_printf(out, "\"%u\":{\"description\":\"%s\"", status, text);
	put_header_refs(out, r);
	put_content(out, what);
	buf_putc(out, '}');
}

static void put_successes(struct buf *out, const struct route *r)
{
	const char *upgraded = "The connection is a WebSocket now";

	if (r->flags & ROUTE_ONLY_WS) {
		put_success(out, r, 101, NULL, upgraded);
		return;
	}
	if (streq(r->id, "createExecution")) {
		put_success(out, r, 200, "Result", "It is over");
		buf_putc(out, ',');
		put_success(out, r, 202, "Status", "It is under way");
		return;
	}
	put_success(out, r, r->status, r->response, "Done");
	if (is_ready(r)) {
		buf_putc(out, ',');
		put_success(out, r, 503, r->response, "Not now");
	}
	if (r->flags & ROUTE_WS) {
		buf_putc(out, ',');
		put_success(out, r, 101, NULL, upgraded);
	}
}

static void put_scopes(struct buf *out, uint32_t scopes)
{
	const char *comma = "";
	char name[32];

	buf_puts(out, ",\"x-brig-scopes\":[");
	for (uint32_t bit = 1; bit & SCOPE_ALL; bit <<= 1) {
		if (!(scopes & bit))
			continue;
		scopes_print(bit, name, sizeof(name));
		buf_printf(out, "%s\"%s\"", comma, name);
		comma = ",";
	}
	buf_putc(out, ']');
}

static void put_operation(struct buf *out, const struct route *r)
{
	buf_putc(out, '"');
	for (const char *c = r->method; *c; c++)
		buf_putc(out, (char)(*c | 0x20)); /* methods are capital letters */
	buf_puts(out, "\":{\"operationId\":");
	json_put_cstr(out, r->id);
	buf_puts(out, ",\"summary\":");
	json_put_cstr(out, r->summary);
	put_scopes(out, r->scopes);
	put_params(out, r);
	if (r->request) {
		buf_puts(out, ",\"requestBody\":{\"required\":true");
		put_content(out, r->request);
		buf_putc(out, '}');
	}
	buf_puts(out, ",\"responses\":{");
	put_successes(out, r);
	put_error_refs(out, r);
	buf_puts(out, "}}");
}

/* ---- the document ---- */

static bool was_seen(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (streq(routes[k].path, routes[i].path))
			return true;
	return false;
}

/* The methods of one path may stand apart in the table. */
static void put_paths(struct buf *out)
{
	const char *comma = "";

	buf_puts(out, ",\"paths\":{");
	for (size_t i = 0; i < routes_n; i++) {
		if (was_seen(i))
			continue;
		buf_puts(out, comma);
		comma = ",";
		json_put_cstr(out, routes[i].path);
		buf_puts(out, ":{");
		for (size_t k = i; k < routes_n; k++) {
			if (!streq(routes[k].path, routes[i].path))
				continue;
			if (k > i)
				buf_putc(out, ',');
			put_operation(out, &routes[k]);
		}
		buf_putc(out, '}');
	}
	buf_putc(out, '}');
}

int openapi_write(struct buf *out, struct err *err)
{
	buf_puts(out, head);
	put_paths(out);
	buf_puts(out, ",\"components\":{");
	buf_puts(out, security);
	buf_putc(out, ',');
	put_headers(out);
	buf_putc(out, ',');
	put_responses(out);
	buf_puts(out, ",\"schemas\":");
	buf_put(out, api_schemas, sizeof(api_schemas));
	buf_puts(out, "}}\n");
	if (buf_finish(out) < 0)
		return err_set(err, ERR_LIMIT, -buf_finish(out), "the OpenAPI document");
	return 0;
}
