/* SPDX-License-Identifier: Apache-2.0 */

/* What brig would say of code, what it is made of, and how it feels. */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/impl.h"
#include "base/clock.h"
#include "risk/risk.h"

#define READY_BYTES (256 * KIB) /* free where the record is */

/* ---- risk and policy ---- */

void route_risk(struct api *api, struct call *c)
{
	static const struct json_bounds bounds = { 2 * MIB, 2, 8 };
	struct str body = http_body(c->http), text = { NULL, 0 }, code = { NULL, 0 };
	struct json_node root, language, source;
	struct json_reader in;
	struct err err = { 0 };
	struct job *job;
	struct buf b = BUF_INIT(JSON_ANSWER_MAX);

	if (json_reader_init(&in, "risk", body.p, body.n, &bounds, &err) < 0) {
		answer_err(c, &err);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (job)
		job_init(job);
	root = json_root(&in);
	(void)json_node_object(&root);
	language = json_member(&root, "language");
	source = json_member(&root, "code");
	if (!json_node_text(&language, 32, &text) ||
	    (job && language_from_name(text.p, &job->request.language) < 0))
		(void)json_node_fail(&language, "is needed: python, javascript or shell");
	if (!json_node_bytes(&source, REQUEST_CODE_MAX, &code))
		(void)json_node_fail(&source, "is needed");
	json_node_end(&root);
	if (json_reader_finish(&in) < 0 || !job) {
		if (!job)
			(void)err_set(&err, ERR_INTERNAL, ENOMEM, "an assessment");
		answer_err(c, &err);
	} else {
		job->request.code = code;
		job->caller = c->who.actor;
		pipeline_preview(api->pl, job);
		findings_to_json(&job->findings, &b);
		answer_json(c, 200, &b);
	}
	json_reader_done(&in);
	if (job)
		job_free_fields(job);
	free(job);
}

void route_policy(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(64 * KIB);
	const struct policy *p;

	buf_puts(&b, "{\"policies\":[");
	for (size_t i = 0; (p = pipeline_policy(api->pl, i)); i++) {
		buf_puts(&b, i ? ",{\"name\":" : "{\"name\":");
		json_put_cstr(&b, policy_name(p));
		buf_printf(&b, ",\"digest\":\"%s\",\"source\":\"%s\"}", policy_digest(p),
		           i ? "floor" : "policy");
	}
	buf_printf(&b, "],\"risk_rules\":\"%s\"}", risk_rules_id());
	answer_json(c, 200, &b);
}

void route_policy_check(struct api *api, struct call *c)
{
	struct execution *ex = ex_new(api, c->who.actor, "");
	struct str body = http_body(c->http);
	struct buf b = BUF_INIT(JSON_ANSWER_MAX);
	struct err err = { 0 };

	if (!ex) {
		answer_error(c, ERR_INTERNAL, NULL, "out of memory");
		return;
	}
	if (request_from_json(body.p, body.n, &ex->arena, &ex->job->request, &err) < 0) {
		answer_err(c, &err);
	} else {
		pipeline_preview(api->pl, ex->job);
		buf_puts(&b, "{\"decision\":");
		decision_to_json(&ex->job->decision, &b);
		buf_puts(&b, ",\"risk\":");
		findings_to_json(&ex->job->findings, &b);
		buf_puts(&b, ",\"lowered\":");
		json_put_cstr(&b, ex->job->lowered);
		buf_putc(&b, '}');
		answer_json(c, 200, &b);
	}
	ex_discard(ex);
}

/* ---- the pool ---- */

static void put_shape(struct api *api, size_t i, struct buf *b)
{
	struct pool_stats s = { 0 };

	pool_stats(api->pool, i, &s);
	buf_printf(b,
	           "{\"language\":\"%s\",\"ready\":%u,\"target\":%u,\"starting\":%u,\"running\":%u,"
	           "\"ending\":%u,\"queued\":%u,\"hits\":%" PRIu64 ",\"misses\":%" PRIu64
	           ",\"failed\":%" PRIu64 ",\"made\":%" PRIu64 ",\"zygotes\":%" PRIu64
	           ",\"refill_us\":%" PRIu64 ",\"oldest_ms\":%" PRIu64 "}",
	           language_name(api->shapes[i]), s.ready, s.target, s.starting, s.running,
	           s.ending, s.queued, s.hits, s.misses, s.failed, s.made, s.zygotes, s.refill_us,
	           s.oldest_ms);
}

void route_pool(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(64 * KIB);

	buf_puts(&b, "{\"shapes\":[");
	for (size_t i = 0; i < api->n_shapes; i++) {
		if (i)
			buf_putc(&b, ',');
		put_shape(api, i, &b);
	}
	buf_printf(&b, "],\"under_way\":%u,\"waiting\":%u,\"kept\":%u}", api_under_way(api),
	           api->ex.n_waiting, api->ex.n_over);
	answer_json(c, 200, &b);
}

/* ---- health ---- */

void route_health(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(256);

	buf_printf(&b, "{\"status\":\"%s\",\"uptime_ms\":%" PRIu64 "}",
	           api->draining ? "draining" : "ok", clock_ms() - api->started_ms);
	answer_json(c, 200, &b);
}

/* A disk that is full is seen at the commit only, and that is too late to say so here. */
static bool has_space(const char *dir)
{
	struct statvfs st;

	return statvfs(dir, &st) == 0 && !(st.f_flag & ST_RDONLY) &&
	       st.f_bavail * st.f_frsize >= READY_BYTES;
}

/* Could it take and record an execution now? */
void route_ready(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(256);
	struct ledger *l = pipeline_ledger(api->pl);
	struct err err = { 0 };
	bool ok;

	pipeline_turn(api->pl);
	ok = !api->draining && has_space(ledger_dir(l)) && ledger_begin(l, &err) >= 0;
	ledger_abort(l);
	ok = ok && !(api->pool && pool_is_lost(api->pool));
	buf_printf(&b, "{\"status\":\"%s\"}", ok ? "ready" : "not ready");
	answer_json(c, ok ? 200 : 503, &b);
}

static void put_limits(struct buf *b)
{
	buf_puts(b, "\"limits\":{");
	for (size_t i = 0; i < limit_infos_n; i++) {
		const struct limit_info *l = &limit_infos[i];

		if (l->kind == LIMIT_MILLI) {
			buf_printf(b, "%s\"%s\":{\"default\":%.3f,\"min\":%.3f,\"max\":%.3f}",
			           i ? "," : "", l->key, (double)l->def / 1000,
			           (double)l->min / 1000, (double)l->max / 1000);
			continue;
		}
		buf_printf(b,
		           "%s\"%s\":{\"default\":%" PRIu64 ",\"min\":%" PRIu64 ",\"max\":%" PRIu64
		           "}",
		           i ? "," : "", limit_infos[i].key, limit_infos[i].def, limit_infos[i].min,
		           limit_infos[i].max);
	}
	buf_putc(b, '}');
}

void route_capabilities(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(64 * KIB);

	buf_puts(&b, "{\"name\":\"brig\",\"version\":\"" BRIG_VERSION "\",\"api\":\"v1\","
	             "\"languages\":[\"python\",\"javascript\",\"shell\"],"
	             "\"levels\":[\"strict\",\"standard\",\"degraded-ok\"],"
	             "\"tiers\":[\"jail\"],\"networks\":[\"none\",\"loopback\"],"
	             "\"actions\":[\"code_execution\"],");
	put_limits(&b);
	buf_printf(&b, ",\"running_max\":%u,\"queue_max\":%u,\"body_bytes\":%zu}",
	           api->config.running_max, api->config.queue_max,
	           api->config.http.body_bytes ? api->config.http.body_bytes : (size_t)(16 * MIB));
	answer_json(c, 200, &b);
}

/* ---- metrics ---- */

static uint64_t rss_bytes(void)
{
	uint64_t size = 0, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%" SCNu64 " %" SCNu64, &size, &rss) != 2)
		rss = 0;
	(void)fclose(f);
	return rss * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n > 3 ? n - 3 : 0; /* ".", ".." and its own */
}

static void measure(struct api *api, struct metric_gauges *g)
{
	struct http_counts h;

	http_server_counts(api->http, &h);
	*g = (struct metric_gauges){ .running = api_under_way(api),
		                     .waiting = api->ex.n_waiting,
		                     .kept = api->ex.n_over,
		                     .connections = h.connections,
		                     .streams = h.streams,
		                     .websockets = h.websockets,
		                     .accepted = h.accepted,
		                     .refused = h.refused,
		                     .bytes_in = h.bytes_in,
		                     .bytes_out = h.bytes_out,
		                     .rss_bytes = rss_bytes(),
		                     .uptime_s = (clock_ms() - api->started_ms) / 1000,
		                     .fds = count_fds(),
		                     .loop_lag_max_us = api->lag_us };
	api->lag_us = 0;
	for (size_t i = 0; i < api->n_shapes; i++) {
		g->pool[i].language = language_name(api->shapes[i]);
		pool_stats(api->pool, i, &g->pool[i].s);
	}
	g->n_pool = api->n_shapes;
	if (g->n_pool)
		g->queued = g->pool[0].s.queued;
}

void route_metrics(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(4 * MIB);
	struct metric_gauges g;

	measure(api, &g);
	metrics_write(api->metrics, &g, &b);
	answer_with(c, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, 0, &b);
}

void route_openapi(struct api *api, struct call *c)
{
	struct buf b = BUF_INIT(4 * MIB);
	struct err err = { 0 };

	(void)api;
	if (openapi_write(&b, &err) < 0) {
		buf_done(&b);
		answer_err(c, &err);
		return;
	}
	answer_json(c, 200, &b);
}
