/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Counters, gauges and histograms in the text form of Prometheus. One thread, fixed tables. */

#include <stdint.h>

#include "base/buf.h"
#include "pipeline/pipeline.h"

/* clang-format off */
#define METRIC_HISTOGRAMS(X)                                                                       \
	X(HTTP,    "brig_http_request_seconds",   "From the whole request to its answer, streams left out") \
	X(QUEUE,   "brig_queue_seconds",          "From received until it has a box") \
	X(CLAIM,   "brig_claim_seconds",          "Waiting for a box, without what came before") \
	X(EXEC,    "brig_execution_seconds",      "The code's own wall time") \
	X(TOTAL,   "brig_run_seconds",            "From received to the result") \
	X(ANALYSE, "brig_step_analyse_seconds",   "The step: risk") \
	X(DECIDE,  "brig_step_decide_seconds",    "The step: policy") \
	X(CONFIRM, "brig_step_confirm_seconds",   "The step: approval, waiting for a person included") \
	X(ROUTE,   "brig_step_route_seconds",     "The step: route") \
	X(COMMIT,  "brig_turn_seconds",           "One turn of the pipeline")
/* clang-format on */

enum metric_histogram {
#define X(id, name, help) METRIC_##id,
	METRIC_HISTOGRAMS(X)
#undef X
		METRIC_HISTOGRAM_COUNT,
};

struct metrics;
int metrics_new(struct metrics **ret);
void metrics_free(struct metrics *m);
/* Buckets from 50 us to 60 s. */
void metric_observe(struct metrics *m, enum metric_histogram h, uint64_t ns);
void metric_http(struct metrics *m, unsigned status);
/* A job that is over: states, language, tier, risk level, verdict, limits hit, approvals, steps. */
void metric_job(struct metrics *m, const struct job *job);
void metric_rejected(struct metrics *m,
                     const char *why); /* "busy", "quota", "auth", "invalid", "draining" */

/* What is measured when asked. */
struct metric_gauges {
	unsigned running, queued, waiting, kept; /* executions */
	unsigned connections, streams, websockets;
	uint64_t accepted, refused, bytes_in, bytes_out;
	uint64_t rss_bytes, uptime_s, fds;
	uint64_t loop_lag_max_us; /* since last asked */
	struct {
		const char *language;
		struct pool_stats s;
	} pool[POOL_SHAPES_MAX];
	size_t n_pool;
};
void metrics_write(const struct metrics *m, const struct metric_gauges *g, struct buf *out);
