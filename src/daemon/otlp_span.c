/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/otlp.h"

#define TRACEPARENT_LEN 55 /* 00-32-16-2 */
#define KIND_INTERNAL   1
#define KIND_SERVER     2
#define STATUS_OK       1
#define STATUS_ERROR    2

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* n bytes from 2n digits; all zero is no id. */
static bool hex_id(const char *p, size_t n, uint8_t *ret)
{
	uint8_t any = 0;

	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(p[2 * i]), low = hex_digit(p[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
		any |= ret[i];
	}
	return any != 0;
}

bool traceparent_parse(const char *text, struct trace_ids *ret)
{
	struct trace_ids ids = { .has_parent = true };

	if (!text || strnlen(text, TRACEPARENT_LEN + 1) != TRACEPARENT_LEN)
		return false;
	if (!str_has_prefix(text, "00-") || text[35] != '-' || text[52] != '-')
		return false;
	if (!hex_id(text + 3, sizeof(ids.trace), ids.trace) ||
	    !hex_id(text + 36, sizeof(ids.parent), ids.parent) || hex_digit(text[53]) < 0 ||
	    hex_digit(text[54]) < 0)
		return false;
	*ret = ids;
	return true;
}

/* The steps, from entering one state to entering the next that comes. */
static const struct {
	const char *name;
	enum job_state from, to;
} steps[] = {
	{ "analyse", JOB_RECEIVED, JOB_ANALYSED }, { "decide", JOB_ANALYSED, JOB_DECIDED },
	{ "confirm", JOB_DECIDED, JOB_CONFIRMED }, { "route", JOB_CONFIRMED, JOB_ROUTED },
	{ "execute", JOB_ROUTED, JOB_FINISHED },
};

_Static_assert(ELEMENTSOF(steps) + 2 <= OTLP_SPANS_MAX, "the whole, and a question answered with "
                                                        "other code");

static uint64_t first_ns(const struct job *job, uint64_t otherwise)
{
	uint64_t first = otherwise;

	for (size_t i = 0; i < JOB_STATE_COUNT; i++)
		if (job->step_ns[i])
			first = MIN2(first, job->step_ns[i]);
	return first;
}

static void describe(const struct job *job, struct span *s)
{
	const struct result *r = &job->result;

	s->root = true;
	s->name = "brig.execute";
	memcpy(s->execution, r->execution_id, sizeof(s->execution));
	s->language = language_name(job->request.language);
	s->state = run_state_name(r->state);
	s->risk = job->findings.level == RISK_UNKNOWN ? NULL : risk_level_name(job->findings.level);
	s->verdict = job->step_ns[JOB_DECIDED] ? verdict_name(job->decision.verdict) : NULL;
	s->tier = r->tier;
	s->has_exit_code = r->has_exit_code;
	s->exit_code = r->exit_code;
	s->failed = !run_state_is_success(r->state) || r->error.code != ERR_NONE;
}

struct maker {
	const struct span_seed *seed;
	struct span *v;
	size_t n;
	uint64_t offset; /* from the job's clock to the world's; wraps when it is negative */
};

static void add_step(struct maker *m, const char *name, uint64_t from, uint64_t to)
{
	struct span *s = &m->v[m->n];

	*s = (struct span){ .name = name, .has_parent = true };
	memcpy(s->trace, m->v[0].trace, sizeof(s->trace));
	memcpy(s->parent, m->v[0].id, sizeof(s->parent));
	memcpy(s->id, m->seed->id[m->n], sizeof(s->id));
	s->start_ns = from + m->offset;
	s->end_ns = MAX2(from, to) + m->offset;
	m->n++;
}

static void add_root(struct maker *m, const struct job *job, const char *traceparent, uint64_t end)
{
	struct trace_ids ids = { 0 };
	struct span *s = &m->v[0];

	*s = (struct span){ 0 };
	memcpy(ids.trace, m->seed->trace, sizeof(ids.trace));
	(void)traceparent_parse(traceparent, &ids);
	memcpy(s->trace, ids.trace, sizeof(s->trace));
	memcpy(s->parent, ids.parent, sizeof(s->parent));
	s->has_parent = ids.has_parent;
	memcpy(s->id, m->seed->id[0], sizeof(s->id));
	describe(job, s);
	s->start_ns = first_ns(job, end) + m->offset;
	s->end_ns = end + m->offset;
	m->n = 1;
}

size_t spans_of_job(const struct job *job, const char *traceparent, const struct span_seed *seed,
                    uint64_t mono_ns, uint64_t epoch_ns, struct span ret[OTLP_SPANS_MAX])
{
	struct maker m = { .seed = seed, .v = ret, .offset = epoch_ns - mono_ns };
	const uint64_t *t = job->step_ns;
	/* A failure that could not be recorded has no time of its own. */
	uint64_t end = t[job->state] ? t[job->state] : mono_ns;

	add_root(&m, job, traceparent, end);
	/* Answered with other code, it came in once more: the first wait is a step, too. */
	if (t[JOB_WAITING] && t[JOB_WAITING] < t[JOB_RECEIVED])
		add_step(&m, "confirm", t[JOB_WAITING], t[JOB_RECEIVED]);
	for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
		uint64_t from = t[steps[i].from], to = t[steps[i].to];

		/* Older than the last reception: of the first round. */
		if (!from || from < t[JOB_RECEIVED])
			break;
		add_step(&m, steps[i].name, from, to >= from ? to : end);
		if (to < from)
			break;
	}
	return m.n;
}

static void put_hex(struct buf *out, const char *key, const uint8_t *p, size_t n)
{
	buf_printf(out, "\"%s\":\"", key);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%02x", p[i]);
	buf_putc(out, '"');
}

static void put_text(struct buf *out, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	buf_printf(out, ",{\"key\":\"%s\",\"value\":{\"stringValue\":", key);
	json_put_cstr(out, value);
	buf_puts(out, "}}");
}

static void put_attributes(struct buf *out, const struct span *s)
{
	buf_puts(out,
	         ",\"attributes\":[{\"key\":\"brig.execution.id\",\"value\":{\"stringValue\":");
	json_put_cstr(out, s->execution);
	buf_puts(out, "}}");
	put_text(out, "brig.language", s->language);
	put_text(out, "brig.state", s->state);
	put_text(out, "brig.risk.level", s->risk);
	put_text(out, "brig.verdict", s->verdict);
	put_text(out, "brig.tier", s->tier);
	if (s->has_exit_code)
		buf_printf(out, ",{\"key\":\"brig.exit_code\",\"value\":{\"intValue\":\"%d\"}}",
		           s->exit_code);
	buf_printf(out, "],\"status\":{\"code\":%d}", s->failed ? STATUS_ERROR : STATUS_OK);
}

void spans_begin(struct buf *out)
{
	buf_puts(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":["
	              "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"brigd\"}},"
	              "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"" BRIG_VERSION
	              "\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"brig\"},\"spans\":[");
}

void spans_put(struct buf *out, const struct span *s, bool first)
{
	buf_puts(out, first ? "{" : ",{");
	put_hex(out, "traceId", s->trace, sizeof(s->trace));
	buf_putc(out, ',');
	put_hex(out, "spanId", s->id, sizeof(s->id));
	if (s->has_parent) {
		buf_putc(out, ',');
		put_hex(out, "parentSpanId", s->parent, sizeof(s->parent));
	}
	buf_puts(out, ",\"name\":");
	json_put_cstr(out, s->name);
	buf_printf(out,
	           ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRIu64
	           "\",\"endTimeUnixNano\":\"%" PRIu64 "\"",
	           s->root ? KIND_SERVER : KIND_INTERNAL, s->start_ns, s->end_ns);
	if (s->root)
		put_attributes(out, s);
	buf_putc(out, '}');
}

void spans_end(struct buf *out)
{
	buf_puts(out, "]}]}]}");
}
