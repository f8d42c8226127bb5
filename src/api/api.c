/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "api/impl.h"
#include "base/clock.h"
#include "pipeline/kept.h"

#define PRUNE_MS 600000 /* how often what is kept on disk is looked through */

int api_open(const struct api_config *config, struct api **ret, struct err *err)
{
	struct api *api = calloc(1, sizeof(*api));
	struct http_handler handler = api_handler;
	int r;

	if (!api)
		return err_set(err, ERR_INTERNAL, ENOMEM, "the api");
	api->config = *config;
	api->started_ms = clock_ms();
	handler.data = api;
	r = tokens_open(config->state_dir, &api->tokens, err);
	if (r >= 0 && (quotas_new(&api->quotas) < 0 || metrics_new(&api->metrics) < 0))
		r = err_set(err, ERR_INTERNAL, ENOMEM, "the api");
	if (r >= 0)
		r = http_server_open(config->loop, &config->http, &handler, &api->http, err);
	if (r < 0) {
		api_close(api);
		return r;
	}
	*ret = api;
	return 0;
}

int api_serve(struct api *api, struct pipeline *pl, struct pool *pool, struct err *err)
{
	(void)err;
	api->pl = pl;
	api->pool = pool;
	events_start(api);
	ex_resume_all(api);
	approvers_retell(api);
	return 0;
}

void api_set_pool(struct api *api, struct pool *pool, const enum language *shapes, size_t n)
{
	api->pool = pool;
	api->n_shapes = MIN2(n, (size_t)POOL_SHAPES_MAX);
	memcpy(api->shapes, shapes, api->n_shapes * sizeof(*shapes));
}

struct http_server *api_http(struct api *api)
{
	return api->http;
}

bool api_has_tokens(struct api *api)
{
	return tokens_count(api->tokens) > 0;
}

void api_reload(struct api *api, const struct api_config *config)
{
	api->config = *config;
	api->tokens_ms = 0;
}

/* The longest turn since somebody asked: what a health check would have waited. */
static void note_lag(struct api *api, uint64_t start_ns)
{
	uint64_t us = (clock_ns() - start_ns) / 1000;

	metric_observe(api->metrics, METRIC_COMMIT, us * 1000);
	if (us > api->lag_us)
		api->lag_us = us;
}

void api_turn(struct api *api)
{
	uint64_t start = clock_ns();

	pipeline_turn(api->pl);
	if (api->n_timed)
		ex_check_waiters(api);
	if (api->n_watchers)
		ex_note_all(api);
	events_tail(api);
	ex_drop_old(api);
	http_server_flush(api->http);
	approvers_feed(api); /* whoever has not taken all of it now waits for his socket */
	note_lag(api, start);
}

bool api_busy(const struct api *api)
{
	struct pool_stats s = { 0 };

	if (api->n_timed || api->ex.n_live > api->ex.n_waiting || api->moved)
		return true;
	if (api->n_shapes)
		pool_stats(api->pool, 0, &s);
	for (size_t i = 1; i < api->n_shapes && !s.starting; i++)
		pool_stats(api->pool, i, &s);
	return s.starting || s.ending;
}

static void prune(struct api *api)
{
	struct timespec ts;
	uint64_t keep_us = (uint64_t)api->config.keep_hours * 3600 * 1000000, now_us;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	now_us = (uint64_t)ts.tv_sec * 1000000;
	pipeline_turn(api->pl);
	if (now_us > keep_us)
		(void)kept_prune(api->pl, now_us - keep_us, NULL);
}

void api_tick(struct api *api)
{
	uint64_t now = clock_ms();

	waiting_count(api);
	ex_drop_old(api);
	ex_check_passes(api);
	events_check_passes(api);
	approvers_check_passes(api);
	ex_heartbeat(api, now);
	events_heartbeat(api, now);
	if (now - api->pruned_ms >= PRUNE_MS) {
		api->pruned_ms = now;
		prune(api);
	}
}

void api_drain(struct api *api)
{
	api->draining = true;
	waiting_count(api); /* as it is now, not as it was at the last tick */
}

unsigned api_under_way(const struct api *api)
{
	return api->ex.n_live - MIN2(api->ex.n_waiting, api->ex.n_live);
}

void api_leave_waiting(struct api *api)
{
	pipeline_leave_held(api->pl);
}

void api_cancel_all(struct api *api)
{
	for (struct execution *ex = api->ex.newest; ex; ex = ex->older)
		if (ex->job && ex->job->state != JOB_WAITING)
			pipeline_cancel(api->pl, ex->job);
}

void api_close(struct api *api)
{
	if (!api)
		return;
	events_close(api);
	for (struct execution *ex = api->ex.newest; ex; ex = ex->older)
		ex_end_watchers(ex);
	if (api->http)
		http_server_close(
			api->http); /* gone() for whoever waits, closed() for each WebSocket */
	works_leave(api);
	approvers_close(api);
	ex_free_all(api);
	tokens_close(api->tokens);
	quotas_free(api->quotas);
	metrics_free(api->metrics);
	buf_done(&api->doctor);
	free(api);
}
