/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From a request to its route: is it for us (Host), does a page in a browser ask (Origin), who is
 * it, what is it, and may they; in this order, before a byte of the body is read.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/impl.h"
#include "base/clock.h"
#include "base/parse.h"

#define TOKENS_MS 100 /* how old the list of tokens may be */

static bool check_names(struct call *c)
{
	const struct api_config *k = &c->api->config;
	const char *host = http_header(c->http, "Host");
	const char *origin = http_header(c->http, "Origin");
	unsigned port = http_peer(c->http)->port;

	if (http_header_count(c->http, "Host") != 1 ||
	    !host_is_ours(host, port, k->hosts, k->n_hosts)) {
		struct buf b = BUF_INIT(1 * KIB);
		struct err err = { 0 };

		(void)err_set(&err, ERR_FORBIDDEN, 0, "the Host is not one of this daemon's");
		(void)err_remedy(&err, 0, "add it to \"hosts\" in the settings if it is meant");
		error_to_json(&err, false, &b);
		metric_rejected(c->api->metrics, "auth");
		answer_json(c, 421, &b);
		return false;
	}
	if (origin && (http_header_count(c->http, "Origin") != 1 ||
	               !origin_is_allowed(origin, k->origins, k->n_origins))) {
		answer_error(c, ERR_FORBIDDEN,
		             "add it to \"origins\" in the settings if it is meant",
		             "calls from this Origin are refused");
		return false;
	}
	return true;
}

static void refresh_tokens(struct api *api)
{
	struct err err = { 0 };

	if (clock_ms() - api->tokens_ms < TOKENS_MS)
		return;
	api->tokens_ms = clock_ms();
	(void)tokens_refresh(api->tokens, &err);
	if (streq(err.msg, api->tokens_error) || !api->config.observer.log)
		return; /* it is the same for every request: once is enough */
	(void)snprintf(api->tokens_error, sizeof(api->tokens_error), "%s", err.msg);
	api->config.observer.log(api->config.observer.data,
	                         *err.msg ? err.msg : "the tokens can be read again");
}

static bool refuse_token(struct call *c)
{
	char peer[sizeof(http_peer(c->http)->text)], *port;
	uint32_t retry = 0;

	(void)snprintf(peer, sizeof(peer), "%s", http_peer(c->http)->text);
	port = strrchr(peer, ':');
	if (port && !http_peer(c->http)->local)
		*port = '\0'; /* another connection is not another peer */
	if (quota_take_failure(c->api->quotas, peer, clock_ms(), &retry) < 0) {
		answer_busy(c, retry, "too many wrong tokens from there");
		return false;
	}
	answer_error(c, ERR_UNAUTHORIZED, "\"brig token new NAME --scope run,read\" makes a token",
	             "a valid token is needed: Authorization: Bearer brig_...");
	return false;
}

static bool known_by_token(struct call *c)
{
	char text[TOKEN_SIZE];
	const struct token *t = NULL;

	if (http_header_count(c->http, "Authorization") == 1 &&
	    bearer_parse(http_header(c->http, "Authorization"), text) >= 0) {
		refresh_tokens(c->api);
		t = tokens_match(c->api->tokens, text);
		if (!t) { /* it may have been made this very second */
			c->api->tokens_ms = 0;
			refresh_tokens(c->api);
			t = tokens_match(c->api->tokens, text);
		}
	}
	explicit_bzero(text, sizeof(text));
	if (!t)
		return refuse_token(c);
	/* Another token of that name, made later, is another caller: what is its own is not theirs.
	 */
	(void)snprintf(c->who.actor, sizeof(c->who.actor), "token:%s#%.*s", t->name,
	               ACTOR_ID_LENGTH, t->id);
	(void)snprintf(c->who.key, sizeof(c->who.key), "t%s", t->id);
	c->who.scopes = t->scopes;
	c->who.quota = t->quota;
	return true;
}

static void default_quota(struct call *c)
{
	const struct quota *d = &c->api->config.quota;
	struct quota *q = &c->who.quota;

	q->runs_per_s = q->runs_per_s ? q->runs_per_s : d->runs_per_s;
	q->concurrent = q->concurrent ? q->concurrent : d->concurrent;
	q->bytes_per_min = q->bytes_per_min ? q->bytes_per_min : d->bytes_per_min;
}

static bool check_caller(struct call *c)
{
	const struct http_peer *peer = http_peer(c->http);

	if (http_header_count(c->http, "Authorization") || !peer->local ||
	    (peer->uid != geteuid() && peer->uid != 0)) {
		if (!known_by_token(c))
			return false;
	} else {
		(void)snprintf(c->who.actor, sizeof(c->who.actor), "uid:%u", (unsigned)peer->uid);
		(void)snprintf(c->who.key, sizeof(c->who.key), "u%u", (unsigned)peer->uid);
		c->who.scopes = SCOPE_ALL;
	}
	default_quota(c);
	return c->known = true;
}

struct pass call_pass(const struct call *c, uint32_t scopes)
{
	struct pass p = { .scopes = scopes };

	memcpy(p.key, c->who.key, sizeof(p.key));
	return p;
}

bool pass_holds(struct api *api, const struct pass *p)
{
	const struct token *t;

	if (p->key[0] != 't')
		return true; /* a uid, which is what it is */
	refresh_tokens(api);
	t = tokens_still(api->tokens, p->key + 1);
	return t && t->scopes & (p->scopes | SCOPE_ADMIN);
}

bool call_may(const struct call *c, uint32_t scopes)
{
	return c->who.scopes & (scopes | SCOPE_ADMIN);
}

static bool check_route(struct call *c)
{
	const struct route *route;
	char scopes[64];

	route_find(http_method(c->http), http_path(c->http), &c->match);
	route = c->match.route;
	if (!route && *c->match.allow) {
		answer_error(c, ERR_METHOD, NULL, "not with this method");
		return false;
	}
	if (!route) {
		answer_error(c, ERR_NOT_FOUND, "GET " API_PREFIX "/openapi.json lists the routes",
		             "there is nothing at this path");
		return false;
	}
	if (route->scopes && !call_may(c, route->scopes)) {
		scopes_print(route->scopes, scopes, sizeof(scopes));
		answer_error(c, ERR_FORBIDDEN, NULL, "this needs the scope %s", scopes);
		return false;
	}
	if (c->api->draining && !(route->flags & ROUTE_DRAINING)) {
		answer_error(c, ERR_UNAVAILABLE, NULL, "the daemon is about to stop");
		return false;
	}
	return true;
}

static bool is_json(const char *type)
{
	static const char json[] = "application/json";
	size_t n = sizeof(json) - 1;

	return type && strncasecmp(type, json, n) == 0 &&
	       (!type[n] || type[n] == ';' || type[n] == ' ');
}

/* A parameter that nobody reads was meant for something. */
static bool check_query(struct call *c)
{
	const struct route_param *p;
	char name[64];

	for (size_t i = 0;; i++) {
		int r = http_query_name(c->http, i, name, sizeof(name));

		if (r == -ENOENT)
			return true;
		for (p = c->match.route->params; r >= 0 && p && p->name; p++)
			if (streq(p->name, name))
				break;
		if (r < 0 || !p || !p->name) {
			answer_error(c, ERR_INVALID, NULL, "unknown or malformed query parameter");
			return false;
		}
	}
}

static bool check_body(struct call *c)
{
	unsigned flags = c->match.route->flags;

	if (!(flags & ROUTE_BODY)) {
		http_body_limit(c->http, 0);
		return true;
	}
	if (!(flags & ROUTE_LARGE))
		http_body_limit(c->http, CALL_BODY_MAX);
	if (http_header_count(c->http, "Content-Type") == 1 &&
	    is_json(http_header(c->http, "Content-Type")))
		return true;
	answer_error(c, ERR_MEDIA_TYPE, "send Content-Type: application/json",
	             "the body must be JSON");
	return false;
}

static void begin(void *data, struct http_request *r)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c) {
		http_answer(r, 503, NULL, NULL, 0, NULL);
		return;
	}
	c->api = data;
	c->http = r;
	c->start_ns = clock_ns();
	http_set_data(r, c);
	if (check_names(c) && check_caller(c) && check_route(c) && check_query(c))
		(void)check_body(c);
}

static bool has_bytes(struct call *c, size_t n)
{
	uint32_t retry = 0;
	int r = quota_take_bytes(c->api->quotas, &c->who, n, clock_ms(), &retry);

	if (r == -EFBIG)
		answer_error(c, ERR_LIMIT, "send less, or ask for a larger quota",
		             "the body is larger than all bytes of a minute's quota");
	else if (r < 0)
		answer_busy(c, retry, "more bytes than the quota permits");
	return r >= 0;
}

static void whole(void *data, struct http_request *r)
{
	struct api *api = data;
	struct call *c = http_data(r);
	const struct route *route = c->match.route;
	struct str body = http_body(r);
	int ws = http_wants_ws(r);

	c->start_ns = clock_ns();
	if ((route->flags & ROUTE_BODY) && !body.n)
		answer_error(c, ERR_INVALID, NULL, "a body is needed");
	else if (!has_bytes(c, body.n))
		return;
	else if (ws < 0)
		answer_error(c, ERR_INVALID, NULL, "the WebSocket handshake is wrong");
	else if (ws > 0 && !(route->flags & (ROUTE_WS | ROUTE_ONLY_WS)))
		answer_error(c, ERR_INVALID, NULL, "this is not a WebSocket");
	else if (ws == 0 && (route->flags & ROUTE_ONLY_WS))
		answer_error(c, ERR_INVALID, "connect with a WebSocket client",
		             "this is a WebSocket");
	else
		route->run(api, c);
}

static void gone(void *data, struct http_request *r)
{
	(void)data;
	call_gone(http_data(r));
}

static void refusal(void *data, unsigned status, struct buf *ret_body)
{
	struct api *api = data;
	struct err err = { 0 };

	metric_rejected(api->metrics, "invalid");
	metric_http(api->metrics, status);
	(void)err_set(&err, status == 413 || status == 431 ? ERR_LIMIT : ERR_INVALID, 0,
	              status == 413   ? "the body is too large"
	              : status == 431 ? "the headers are too large"
	              : status == 408 ? "too slow"
	                              : "the request is malformed");
	if (status == 503)
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "too many large requests at once");
	error_to_json(&err, false, ret_body);
}

const struct http_handler api_handler = { begin, whole, gone, refusal, NULL };

static bool query_from(struct call *c, const char *name, uint64_t min, uint64_t max, uint64_t *ret)
{
	char text[32];
	uint64_t n;
	int r = http_query(c->http, name, text, sizeof(text));

	if (r == 0)
		return true;
	if (r < 0 || parse_u64(text, &n) < 0 || n < min || n > max) {
		answer_error(c, ERR_INVALID, NULL, "%s: must be a number from %llu to %llu", name,
		             (unsigned long long)min, (unsigned long long)max);
		return false;
	}
	*ret = n;
	return true;
}

bool query_u64(struct call *c, const char *name, uint64_t max, uint64_t *ret)
{
	return query_from(c, name, 0, max, ret);
}

bool query_limit(struct call *c, uint64_t max, uint64_t *ret)
{
	return query_from(c, "limit", 1, max, ret);
}

bool query_text(struct call *c, const char *name, char *ret, size_t n)
{
	*ret = '\0';
	if (http_query(c->http, name, ret, n) >= 0)
		return true;
	answer_error(c, ERR_INVALID, NULL, "%s: malformed, given twice, or longer than %zu bytes",
	             name, n - 1);
	return false;
}

bool query_bool(struct call *c, const char *name, bool *ret)
{
	char text[8];

	if (!query_text(c, name, text, sizeof(text)))
		return false;
	if (!*text || streq(text, "true") || streq(text, "false")) {
		*ret = *text ? streq(text, "true") : *ret;
		return true;
	}
	answer_error(c, ERR_INVALID, NULL, "%s: must be true or false", name);
	return false;
}
