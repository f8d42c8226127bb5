/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "daemon/listen.h"
#include "daemon/lock.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "sys/cgroup.h"
#include "sys/owner.h"

#define SLOW_TICK_MS  250
#define SWEEP_MS      30000
#define SWEEP_AGE_S   10
#define AFTER_THREADS 2
#define CLOSE_TURNS   10000 /* of the loop, for its handles to go */

/* ---- boxes ---- */

/* The first request of a language brings boxes like it. */
static int need_boxes(void *data, const struct request *req, struct err *err)
{
	struct brigd *d = data;
	const struct config_shape *k = &d->config.shapes[req->language];
	struct pool_shape shape = { .min = k->min, .max = k->max, .idle_ms = k->idle_ms };
	size_t index;
	int r;

	if (d->languages & 1u << req->language)
		return 0;
	request_init(&shape.like);
	shape.like.language = req->language;
	shape.like.level = req->level;
	shape.like.args = (const char **)k->preload;
	shape.like.n_args = req->language == LANGUAGE_PYTHON ? k->n_preload : 0;
	r = pool_add_shape(d->executor.pool, &shape, &index, err);
	if (r < 0)
		return r;
	d->languages |= 1u << req->language;
	d->shapes[d->n_shapes++] = req->language;
	api_set_pool(d->api, d->executor.pool, d->shapes, d->n_shapes);
	return 0;
}

/* Whoever is accepted waits for a box, so all have room there. */
static void bound_pool(struct brigd *d)
{
	const struct daemon_config *c = &d->config;

	pool_bound(d->executor.pool, c->running_max, c->queue_max + c->running_max, c->acquire_ms);
}

static int open_pool(struct brigd *d, struct err *err)
{
	const struct pool_config config = { 0 };
	int r;

	d->languages = 0;
	d->n_shapes = 0;
	r = pool_open(&config, &d->executor.pool, err);
	if (r < 0)
		return r;
	bound_pool(d);
	return pool_threads(d->executor.pool, AFTER_THREADS, err);
}

/* What takes long about a large result is done where it was completed. */
static int start_job(struct executor *ex, struct job *job, struct err *err)
{
	int r = executor_pool_ops.start(ex, job, err);

	if (r >= 0 && job->call)
		api_started(job);
	return r;
}

static void make_eager(struct brigd *d)
{
	for (int i = 0; i < LANGUAGE_COUNT; i++) {
		struct request like;
		struct err err = { 0 };

		if (!d->config.shapes[i].eager)
			continue;
		request_init(&like);
		like.language = (enum language)i;
		if (need_boxes(d, &like, &err) < 0)
			log_err(LOG_LEVEL_WARNING, &err, "boxes for %s",
			        language_name((enum language)i));
	}
}

/* Its launcher died: whoever ran in it has been told, and the next gets a new one. */
static void renew_pool(struct brigd *d)
{
	struct err err = { 0 };
	struct pool *old = d->executor.pool;

	log_line(LOG_LEVEL_ERROR, "brig-launch died; starting another");
	pool_end_threads(old);
	pool_close(old);
	d->executor.pool = NULL;
	if (open_pool(d, &err) < 0 || pipeline_watch(d->pl, &d->executor.base, &err) < 0) {
		log_err(LOG_LEVEL_ERROR, &err, "brig-launch");
		uv_stop(&d->loop); /* without it there is nothing to serve: somebody restarts us */
		d->drain = DRAIN_OVER;
		return;
	}
	api_set_pool(d->api, d->executor.pool, d->shapes, 0);
	make_eager(d);
}

/* ---- whoever wants to know ---- */

static void on_approval(void *data, const char *event, const struct approval *a, struct str summary)
{
	struct brigd *d = data;

	if (d->hooks)
		hooks_approval(d->hooks, event, a, summary);
}

static void on_ended(void *data, const struct job *job, const char *traceparent)
{
	struct brigd *d = data;

	if (d->hooks)
		hooks_execution(d->hooks, &job->result);
	otlp_job(d->otlp, job, *traceparent ? traceparent : NULL);
}

static void on_log(void *data, const char *line)
{
	(void)data;
	log_line(LOG_LEVEL_WARNING, "%s", line);
}

static bool has_webhooks(const struct daemon_config *c)
{
	return c->n_webhooks > 0;
}

static int open_outgoing(struct brigd *d, struct err *err)
{
	int r = 0;

	if (!has_webhooks(&d->config) && !d->config.otlp)
		return 0;
	r = sender_open(&d->loop, NULL, on_log, d, &d->sender, err);
	if (r >= 0 && has_webhooks(&d->config))
		r = hooks_open(&d->loop, &d->config, d->sender, &d->hooks, err);
	if (r >= 0)
		r = otlp_open(&d->loop, &d->config, d->sender, &d->otlp, err);
	return r;
}

/* ---- the api ---- */

static void api_settings(struct brigd *d, struct api_config *ret)
{
	const struct daemon_config *c = &d->config;

	*ret = (struct api_config){ .loop = &d->loop,
		                    .http = c->http,
		                    .state_dir = d->state_dir,
		                    .hosts = c->hosts,
		                    .n_hosts = c->n_hosts,
		                    .origins = c->origins,
		                    .n_origins = c->n_origins,
		                    .running_max = c->running_max,
		                    .queue_max = c->queue_max,
		                    .keep_results = c->keep_results,
		                    .keep_hours = c->keep_hours,
		                    .keep_bytes = c->keep_bytes,
		                    .quota = c->quota,
		                    .brig = d->brig,
		                    .observer = { .approval = has_webhooks(c) ? on_approval : NULL,
		                                  .ended = on_ended,
		                                  .log = on_log,
		                                  .data = d } };
}

static int open_flow(struct brigd *d, struct err *err)
{
	struct pipeline_config config = { .state_dir = d->state_dir,
		                          .policy = d->config.policy,
		                          .stays = true,
		                          .executors = { &d->executor.base },
		                          .n_executors = 1 };
	const char *confirm = d->config.confirm ? d->config.confirm : "ask";
	char caller[ACTOR_SIZE];

	(void)snprintf(caller, sizeof(caller), "uid:%u", (unsigned)geteuid());
	config.caller = caller;
	d->executor_ops = executor_pool_ops;
	d->executor_ops.start = start_job;
	d->executor = (struct executor_pool){ .base.ops = &d->executor_ops,
		                              .pool = d->executor.pool,
		                              .need = need_boxes,
		                              .data = d };
	if (!streq(confirm, "ask")) {
		d->automatic = (struct channel){ streq(confirm, "approve") ? &channel_auto_approve
			                                                   : &channel_auto_deny,
			                         "brigd" };
		config.channels[config.n_channels++] = &d->automatic;
	}
	return pipeline_open(&config, &d->pl, err);
}

/* ---- listeners ---- */

static int listen_socket(struct brigd *d, struct err *err)
{
	const char *named = d->config.socket;
	char path[sizeof(d->socket)];
	int fd, r = 0;

	if (named && !*named)
		return 0;
	if (named)
		(void)snprintf(path, sizeof(path), "%s", named);
	else
		r = config_default_socket(path, sizeof(path), err);
	if (r >= 0)
		r = listen_unix(path, d->config.socket_mode, &fd, err);
	if (r < 0)
		return r;
	memcpy(d->socket, path, sizeof(path)); /* it is ours: removed at the end */
	r = http_server_listen(api_http(d->api), fd, err);
	if (r >= 0)
		log_line(LOG_LEVEL_INFO, "listening on %s", d->socket);
	return r;
}

static int listen_own(struct brigd *d, bool have_tokens, struct err *err)
{
	const struct daemon_config *c = &d->config;
	int fd, r = listen_socket(d, err);

	for (size_t i = 0; i < c->n_tcp && r >= 0; i++) {
		r = listen_tcp(c->tcp[i], c->allow_remote, have_tokens, &fd, err);
		if (r >= 0)
			r = http_server_listen(api_http(d->api), fd, err);
		if (r >= 0)
			log_line(LOG_LEVEL_INFO, "listening on %s", c->tcp[i]);
	}
	return r;
}

static int listen_all(struct brigd *d, struct err *err)
{
	bool have_tokens = api_has_tokens(d->api);
	int fds[LISTEN_INHERITED_MAX];
	int n = listen_inherited(d->config.allow_remote, have_tokens, fds, LISTEN_INHERITED_MAX,
	                         err);
	int r = n;

	if (n == 0 && d->config.socket && !*d->config.socket && !d->config.n_tcp)
		return err_remedy(err,
		                  err_set(err, ERR_INVALID, 0, "there is nothing to listen on"),
		                  "name a socket or an address: --socket, --listen");
	for (int i = 0; i < n && r >= 0; i++)
		r = http_server_listen(api_http(d->api), fds[i], err);
	if (n > 0 && r >= 0)
		log_line(LOG_LEVEL_INFO, "listening on %d inherited sockets", n);
	return n ? r : listen_own(d, have_tokens, err);
}

/* ---- the loop ---- */

static void set_pace(struct brigd *d)
{
	bool fast = api_busy(d->api) || pool_is_busy(d->executor.pool) || d->drain != DRAIN_NO;
	uint64_t ms = fast ? PIPELINE_TICK_MS : SLOW_TICK_MS;

	if (fast == d->fast)
		return;
	d->fast = fast;
	(void)uv_timer_set_repeat(&d->tick, ms);
	(void)uv_timer_again(&d->tick);
}

/* After whatever woke the loop: requests that came are moved, answers that are ready are sent. */
static void on_check(uv_check_t *h)
{
	struct brigd *d = h->data;

	if (d->drain == DRAIN_OVER)
		return;
	api_turn(d->api);
	set_pace(d);
	if (pool_is_lost(d->executor.pool))
		renew_pool(d);
}

/* Empty groups of launchers that were killed. Live ones have a task within milliseconds. */
static void sweep_cgroups(void)
{
	const struct cgroup_env env = { .mountinfo = "/proc/self/mountinfo",
		                        .self_cgroup = "/proc/self/cgroup",
		                        .privileged = geteuid() == 0 };
	struct cgroup_host host;

	cgroup_host_open(&env, &host);
	cgroup_host_sweep(&host, SWEEP_AGE_S);
	cgroup_host_close(&host);
}

static void on_tick(uv_timer_t *h)
{
	struct brigd *d = h->data;
	uint64_t now = clock_ms();

	if (now - d->second_ms >= 1000 || d->drain != DRAIN_NO) {
		d->second_ms = now;
		api_tick(d->api);
	}
	if (now - d->swept_ms >= SWEEP_MS) {
		d->swept_ms = now;
		sweep_cgroups();
	}
	if (d->watchdog_ms && now - d->alive_ms >= d->watchdog_ms) {
		d->alive_ms = now;
		notify_alive();
	}
	brigd_drain_step(d);
}

static void on_pipeline(uv_poll_t *h, int status, int events)
{
	(void)h;
	(void)status;
	(void)events; /* on_check() does the work */
}

static void reload(struct brigd *d)
{
	struct daemon_config fresh = { 0 }, old = d->config;
	struct api_config settings;
	struct err err = { 0 };

	notify_reloading();
	if (config_load(d->argc, d->argv, &fresh, &err) < 0 ||
	    pipeline_reload(d->pl, fresh.policy, &err) < 0) {
		log_err(LOG_LEVEL_ERROR, &err, "reload: everything stays as it was");
		config_done(&fresh);
	} else {
		d->config = fresh;
		api_settings(d, &settings);
		api_reload(d->api, &settings);
		bound_pool(d);
		log_open(fresh.log_format, fresh.log_level);
		if (d->reloaded)
			config_done(&old);
		else
			d->first = old; /* webhooks and boxes have texts of it */
		d->reloaded = true;
		log_line(LOG_LEVEL_INFO, "reloaded; sockets, boxes and webhooks stay as they are");
	}
	notify_ready();
}

static void on_signal(uv_signal_t *h, int number)
{
	struct brigd *d = h->data;

	if (number == SIGHUP)
		reload(d);
	else
		brigd_stop(d);
}

static int open_loop(struct brigd *d, struct err *err)
{
	int r = uv_loop_init(&d->loop);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the loop");
	d->loop.data = d;
	(void)uv_check_init(&d->loop, &d->check);
	(void)uv_timer_init(&d->loop, &d->tick);
	d->check.data = d->tick.data = d;
	return 0;
}

static int start_loop(struct brigd *d, struct err *err)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	int r = uv_poll_init(&d->loop, &d->pipeline_poll, pipeline_fd(d->pl));

	if (r >= 0)
		r = uv_poll_start(&d->pipeline_poll, UV_READABLE, on_pipeline);
	for (size_t i = 0; i < ELEMENTSOF(numbers) && r >= 0; i++) {
		r = uv_signal_init(&d->loop, &d->signals[i]);
		d->signals[i].data = d;
		if (r >= 0)
			r = uv_signal_start(&d->signals[i], on_signal, numbers[i]);
	}
	if (r >= 0)
		r = uv_check_start(&d->check, on_check);
	if (r >= 0)
		r = uv_timer_start(&d->tick, on_tick, SLOW_TICK_MS, SLOW_TICK_MS);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the loop") : 0;
}

/* ---- order ---- */

int brigd_open(struct brigd *d, struct err *err)
{
	struct api_config settings;
	int r = open_loop(d, err);

	if (r >= 0)
		r = lock_state_dir(d->state_dir, &d->lock, err);
	if (r < 0)
		return r;
	owner_is_daemon();
	api_settings(d, &settings);
	r = api_open(&settings, &d->api, err);
	if (r >= 0)
		r = open_pool(d, err);
	if (r >= 0)
		r = open_flow(d, err);
	if (r >= 0)
		r = open_outgoing(d, err);
	if (r >= 0)
		r = start_loop(d, err);
	if (r >= 0)
		r = api_serve(d->api, d->pl, d->executor.pool, err);
	if (r >= 0)
		r = listen_all(d, err); /* last: whoever connects is answered */
	if (r < 0)
		return r;
	make_eager(d);
	d->watchdog_ms = notify_watchdog_usec() / 2000;
	notify_ready();
	log_line(LOG_LEVEL_INFO, "brigd " BRIG_VERSION " is ready");
	return 0;
}

void brigd_run(struct brigd *d)
{
	while (d->drain != DRAIN_OVER && uv_run(&d->loop, UV_RUN_DEFAULT))
		;
}

static void close_handle(uv_handle_t *h, void *data)
{
	(void)data;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

/* Whoever asks us to end once more must not keep us from recording what ended. */
static void ignore_from_now(uv_signal_t *h)
{
	int number = h->signum;

	(void)uv_signal_stop(h);
	if (number)
		(void)signal(number, SIG_IGN);
}

/* What looks at things that are about to go. */
static void stop_handles(struct brigd *d)
{
	d->drain = DRAIN_OVER;
	if (!d->loop.data)
		return;
	(void)uv_check_stop(&d->check);
	(void)uv_timer_stop(&d->tick);
	if (d->pipeline_poll.loop)
		(void)uv_poll_stop(&d->pipeline_poll);
	for (size_t i = 0; i < ELEMENTSOF(d->signals); i++)
		if (d->signals[i].loop)
			ignore_from_now(&d->signals[i]);
}

void brigd_close(struct brigd *d)
{
	stop_handles(d);
	if (d->executor.pool) {
		pool_end_threads(d->executor.pool);
		pool_close(d->executor.pool); /* the last results go to the api */
	}
	otlp_close(d->otlp);
	hooks_close(d->hooks);
	sender_close(d->sender);
	pipeline_last_try(d->pl);
	api_close(d->api);
	pipeline_close(d->pl);
	if (d->loop.data) {
		uv_walk(&d->loop, close_handle, NULL);
		for (int i = 0; i < CLOSE_TURNS && uv_run(&d->loop, UV_RUN_NOWAIT); i++)
			;
		(void)uv_loop_close(&d->loop);
	}
	if (*d->socket)
		(void)unlink(d->socket);
	d->lock = fd_close(d->lock);
	config_done(&d->config);
	if (d->reloaded)
		config_done(&d->first);
}
