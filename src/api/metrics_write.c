/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of Prometheus, 0.0.4: a family's samples stand together, under its help and type.
 */
#include <inttypes.h>

#include "api/metrics_impl.h"
#include "base/str.h"

#define NS_PER_S UINT64_C(1000000000)

static void put_family(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_seconds(struct buf *out, uint64_t ns)
{
	buf_printf(out, " %" PRIu64 ".%09" PRIu64 "\n", ns / NS_PER_S, ns % NS_PER_S);
}

/* A family with one sample and no label. */
static void put_one(struct buf *out, const char *name, const char *type, const char *help,
                    uint64_t v)
{
	put_family(out, name, type, help);
	buf_printf(out, "%s %" PRIu64 "\n", name, v);
}

static void put_labelled(struct buf *out, const char *name, const char *label, const char *value,
                         uint64_t v)
{
	buf_printf(out, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, v);
}

/* ---- what was counted ---- */

static void put_histogram(struct buf *out, const char *name, const char *help,
                          const struct metric_series *s)
{
	uint64_t n = 0;

	put_family(out, name, "histogram", help);
	for (size_t i = 0; i < METRIC_BUCKETS; i++) {
		n += s->n[i];
		buf_printf(out, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name, metric_buckets[i].le,
		           n);
	}
	n += s->n[METRIC_BUCKETS];
	buf_printf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum", name, n, name);
	put_seconds(out, s->sum_ns);
	buf_printf(out, "%s_count %" PRIu64 "\n", name, n);
}

static void put_histograms(struct buf *out, const struct metrics *m)
{
#define X(id, name, help) put_histogram(out, name, help, &m->histograms[METRIC_##id]);
	METRIC_HISTOGRAMS(X)
#undef X
}

/* Of many combinations few occur: those are written. */
static void put_runs(struct buf *out, const struct metrics *m)
{
	put_family(out, "brig_executions_total", "counter", "Executions that are over");
	for (unsigned s = 0; s < RUN_STATE_COUNT; s++)
		for (unsigned l = 0; l < LANGUAGE_COUNT; l++)
			for (unsigned t = 0; t < TIER_COUNT; t++)
				if (m->runs[s][l][t])
					buf_printf(out,
					           "brig_executions_total{state=\"%s\",language="
					           "\"%s\",tier=\"%s\"} %" PRIu64 "\n",
					           run_state_name((enum run_state)s),
					           language_name((enum language)l),
					           t == TIER_AUTO ? "none"
					                          : tier_name((enum tier)t),
					           m->runs[s][l][t]);
}

static void put_http(struct buf *out, const struct metrics *m)
{
	put_family(out, "brig_http_responses_total", "counter", "Answers by status");
	for (unsigned i = 0; i < METRIC_STATUSES; i++)
		if (m->http[i])
			buf_printf(out, "brig_http_responses_total{status=\"%u\"} %" PRIu64 "\n",
			           i + METRIC_STATUS_MIN, m->http[i]);
	if (m->http[METRIC_STATUSES])
		put_labelled(out, "brig_http_responses_total", "status", "other",
		             m->http[METRIC_STATUSES]);
}

static void put_named(struct buf *out, const char *name, const char *help, const char *label,
                      const char *const *names, const uint64_t *v, size_t n)
{
	put_family(out, name, "counter", help);
	for (size_t i = 0; i < n; i++)
		put_labelled(out, name, label, names[i], v[i]);
}

static void put_counters(struct buf *out, const struct metrics *m)
{
	put_runs(out, m);
	put_family(out, "brig_risk_total", "counter", "Analysed requests by risk level");
	for (unsigned i = 0; i < RISK_LEVEL_COUNT; i++)
		put_labelled(out, "brig_risk_total", "level", risk_level_name((enum risk_level)i),
		             m->risk[i]);
	put_family(out, "brig_verdicts_total", "counter", "What the policy said");
	for (unsigned i = 0; i < VERDICT_COUNT; i++)
		put_labelled(out, "brig_verdicts_total", "verdict", verdict_name((enum verdict)i),
		             m->verdicts[i]);
	put_named(out, "brig_limits_hit_total", "Executions that a limit ended or cut", "limit",
	          metric_limit_names, m->limits, METRIC_LIMIT_COUNT);
	put_named(out, "brig_approvals_total", "Executions that needed an approval", "outcome",
	          metric_outcome_names, m->approvals, METRIC_OUTCOME_COUNT);
	put_http(out, m);
	put_named(out, "brig_rejected_total", "Requests that were turned away", "why",
	          metric_rejection_names, m->rejected, METRIC_REJECTION_COUNT);
}

/* ---- what is measured now ---- */

static void put_executions(struct buf *out, const struct metric_gauges *g)
{
	const char *name = "brig_executions";

	put_family(out, name, "gauge", "Executions in memory; kept: over, with their result");
	put_labelled(out, name, "state", "running", g->running);
	put_labelled(out, name, "state", "queued", g->queued);
	put_labelled(out, name, "state", "waiting", g->waiting);
	put_labelled(out, name, "state", "kept", g->kept);
}

static void put_process(struct buf *out, const struct metric_gauges *g)
{
	put_one(out, "brig_http_connections", "gauge", "Open connections", g->connections);
	put_one(out, "brig_http_streams", "gauge", "Open event streams", g->streams);
	put_one(out, "brig_http_websockets", "gauge", "Open WebSockets", g->websockets);
	put_one(out, "brig_http_accepted_total", "counter", "Connections accepted", g->accepted);
	put_one(out, "brig_http_refused_total", "counter",
	        "Connections and requests refused for a bound or their form", g->refused);
	put_one(out, "brig_http_received_bytes_total", "counter", "Bytes read", g->bytes_in);
	put_one(out, "brig_http_sent_bytes_total", "counter", "Bytes written", g->bytes_out);
	put_one(out, "process_resident_memory_bytes", "gauge", "Memory of brigd itself",
	        g->rss_bytes);
	put_one(out, "process_open_fds", "gauge", "Open descriptors of brigd itself", g->fds);
	put_one(out, "brig_uptime_seconds", "gauge", "Since the start", g->uptime_s);
	put_family(out, "brig_loop_lag_max_seconds", "gauge",
	           "The longest that the loop was late since it was last asked");
	buf_puts(out, "brig_loop_lag_max_seconds");
	put_seconds(out, g->loop_lag_max_us * 1000);
	put_family(out, "brig_build_info", "gauge", "Always 1");
	put_labelled(out, "brig_build_info", "version", BRIG_VERSION, 1);
}

/* ---- the pool ---- */

struct pools {
	const char *language[POOL_SHAPES_MAX];
	struct pool_stats s[POOL_SHAPES_MAX];
	size_t n;
};

static void merge_stats(struct pool_stats *to, const struct pool_stats *s)
{
	to->ready += s->ready;
	to->starting += s->starting;
	to->running += s->running;
	to->ending += s->ending;
	to->queued += s->queued;
	to->target += s->target;
	to->hits += s->hits;
	to->misses += s->misses;
	to->failed += s->failed;
	to->made += s->made;
	to->zygotes += s->zygotes;
	to->refill_us = MAX2(to->refill_us, s->refill_us);
	to->oldest_ms = MAX2(to->oldest_ms, s->oldest_ms);
}

/* Shapes of one language are one series: two samples with the same labels would be an error. */
static void merge_pools(const struct metric_gauges *g, struct pools *ret)
{
	*ret = (struct pools){ 0 };
	for (size_t i = 0; i < g->n_pool && i < POOL_SHAPES_MAX; i++) {
		size_t k = 0;

		while (k < ret->n && !streq(ret->language[k], g->pool[i].language))
			k++;
		if (k == ret->n)
			ret->language[ret->n++] = g->pool[i].language;
		merge_stats(&ret->s[k], &g->pool[i].s);
	}
}

static void put_boxes(struct buf *out, const struct pools *p)
{
	put_family(out, "brig_pool_boxes", "gauge", "Boxes of the pool");
	for (size_t i = 0; i < p->n; i++) {
		const struct {
			const char *state;
			unsigned n;
		} rows[] = { { "ready", p->s[i].ready },
			     { "starting", p->s[i].starting },
			     { "running", p->s[i].running },
			     { "ending", p->s[i].ending } };

		for (size_t k = 0; k < ELEMENTSOF(rows); k++)
			buf_printf(out, "brig_pool_boxes{language=\"%s\",state=\"%s\"} %u\n",
			           p->language[i], rows[k].state, rows[k].n);
	}
}

#define PUT_POOL(name, type, help, field)                                                          \
	do {                                                                                       \
		put_family(out, name, type, help);                                                 \
		for (size_t i = 0; i < p.n; i++)                                                   \
			put_labelled(out, name, "language", p.language[i], p.s[i].field);          \
	} while (0)

#define PUT_POOL_SECONDS(name, help, field, factor)                                                \
	do {                                                                                       \
		put_family(out, name, "gauge", help);                                              \
		for (size_t i = 0; i < p.n; i++) {                                                 \
			buf_printf(out, name "{language=\"%s\"}", p.language[i]);                  \
			put_seconds(out, p.s[i].field *(factor));                                  \
		}                                                                                  \
	} while (0)

static void put_pool(struct buf *out, const struct metric_gauges *g)
{
	struct pools p;

	merge_pools(g, &p);
	put_boxes(out, &p);
	PUT_POOL("brig_pool_queued", "gauge", "Runs that wait for a box", queued);
	PUT_POOL("brig_pool_target", "gauge", "Boxes that should wait now", target);
	PUT_POOL("brig_pool_hits_total", "counter", "Runs that found a box waiting", hits);
	PUT_POOL("brig_pool_misses_total", "counter", "Runs that waited for a box", misses);
	PUT_POOL("brig_pool_failed_total", "counter", "Boxes that did not become ready", failed);
	PUT_POOL("brig_pool_made_total", "counter", "Boxes made", made);
	PUT_POOL("brig_pool_zygotes_total", "counter", "Zygotes started", zygotes);
	PUT_POOL_SECONDS("brig_pool_refill_seconds", "Of the last box, from order to ready",
	                 refill_us, 1000u);
	PUT_POOL_SECONDS("brig_pool_oldest_seconds", "The age of the oldest box that waits",
	                 oldest_ms, 1000000u);
}

void metrics_write(const struct metrics *m, const struct metric_gauges *g, struct buf *out)
{
	put_counters(out, m);
	put_histograms(out, m);
	put_executions(out, g);
	put_process(out, g);
	put_pool(out, g);
}
