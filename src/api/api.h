/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The API: routes -> model -> pipeline -> wire. No decisions here but who may call. One thread:
 * everything happens in the callbacks of the loop and in api_turn().
 */

#include <stdbool.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/err.h"
#include "net/http.h"
#include "pipeline/pipeline.h"
#include "pool/pool.h"

struct api;

/* Whoever else wants to know. Members may be NULL. */
struct api_observer {
	/* Rows of the ledger about approvals, of whatever process; summary: of a question. */
	void (*approval)(void *data, const char *event, const struct approval *a,
	                 struct str summary);
	void (*ended)(void *data, const struct job *job, const char *traceparent);
	void (*log)(void *data, const char *line); /* what the caller is not told */
	void *data;
};

struct api_config {
	struct uv_loop_s *loop;
	struct http_limits http;
	const char *state_dir;
	const char *const *hosts, *const *origins;
	size_t n_hosts, n_origins;
	unsigned running_max, queue_max;
	unsigned keep_results, keep_hours;
	size_t keep_bytes;
	struct quota quota;
	const char *brig; /* the command, for what is better done in a process of its own */
	struct api_observer observer;
};

/* The texts of the configuration must outlive the api. */
int api_open(const struct api_config *config, struct api **ret, struct err *err);
/* The pipeline and the pool that serve from now on; also takes up what waited for a person. */
int api_serve(struct api *api, struct pipeline *pl, struct pool *pool, struct err *err);
/* The pool is another: its launcher had died. */
void api_set_pool(struct api *api, struct pool *pool, const enum language *shapes, size_t n);
/* A job of ours has its job->call: the pool's threads do what takes long about its result. */
void api_started(struct job *job);
struct http_server *api_http(struct api *api);
bool api_has_tokens(struct api *api);
/* Moves the jobs, tells the listeners, sends the answers. After it api_busy() says how soon again.
 */
void api_turn(struct api *api);
/* Is something under way that wants a turn every PIPELINE_TICK_MS? */
bool api_busy(const struct api *api);
/* Now and then: time-outs, heartbeats, what need not be kept. */
void api_tick(struct api *api);
/* New names, quotas and limits; the texts as in api_open(). */
void api_reload(struct api *api, const struct api_config *config);

/* No new executions. */
void api_drain(struct api *api);
/* Executions that are not over; those that wait for a person do not count. */
unsigned api_under_way(const struct api *api);
/* What waits for a person is left to the next daemon, also when the answer comes now. */
void api_leave_waiting(struct api *api);
/* Whatever runs is stopped. */
void api_cancel_all(struct api *api);
/* http first: nobody is there any more. */
void api_close(struct api *api);
