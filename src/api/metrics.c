/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted as it happens. How it is written: metrics_write.c. */
#include <errno.h>

#include "api/metrics_impl.h"
#include "base/str.h"

/* clang-format off */
const struct metric_bucket metric_buckets[METRIC_BUCKETS] = {
	{ 50000,       "0.00005" }, { 100000,      "0.0001" }, { 250000,      "0.00025" },
	{ 500000,      "0.0005" },  { 1000000,     "0.001" },  { 2500000,     "0.0025" },
	{ 5000000,     "0.005" },   { 10000000,    "0.01" },   { 25000000,    "0.025" },
	{ 50000000,    "0.05" },    { 100000000,   "0.1" },    { 250000000,   "0.25" },
	{ 500000000,   "0.5" },     { 1000000000,  "1" },      { 2500000000,  "2.5" },
	{ 5000000000,  "5" },       { 10000000000, "10" },     { 30000000000, "30" },
	{ 60000000000, "60" },
};
/* clang-format on */

const char *const metric_limit_names[METRIC_LIMIT_COUNT] = {
#define X(id, name) [METRIC_LIMIT_##id] = name,
	METRIC_LIMITS(X)
#undef X
};

const char *const metric_outcome_names[METRIC_OUTCOME_COUNT] = {
#define X(id, name) [METRIC_OUTCOME_##id] = name,
	METRIC_OUTCOMES(X)
#undef X
};

const char *const metric_rejection_names[METRIC_REJECTION_COUNT] = {
#define X(id, name) [METRIC_REJECTION_##id] = name,
	METRIC_REJECTIONS(X)
#undef X
};

int metrics_new(struct metrics **ret)
{
	struct metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*ret = m;
	return 0;
}

void metrics_free(struct metrics *m)
{
	free(m);
}

void metric_observe(struct metrics *m, enum metric_histogram h, uint64_t ns)
{
	struct metric_series *s;
	size_t i = 0;

	if ((unsigned)h >= METRIC_HISTOGRAM_COUNT)
		return;
	s = &m->histograms[h];
	while (i < METRIC_BUCKETS && ns > metric_buckets[i].ns)
		i++;
	s->n[i]++;
	s->sum_ns += ns;
}

void metric_http(struct metrics *m, unsigned status)
{
	bool known = status >= METRIC_STATUS_MIN && status <= METRIC_STATUS_MAX;

	m->http[known ? status - METRIC_STATUS_MIN : METRIC_STATUSES]++;
}

void metric_rejected(struct metrics *m, const char *why)
{
	size_t i = METRIC_REJECTION_OTHER + 1;

	while (i < METRIC_REJECTION_COUNT && !streq(why, metric_rejection_names[i]))
		i++;
	m->rejected[i < METRIC_REJECTION_COUNT ? i : METRIC_REJECTION_OTHER]++;
}

/* ---- a job that is over ---- */

/* A state that was never entered is 0. */
static void observe_step(struct metrics *m, enum metric_histogram h, uint64_t from, uint64_t to)
{
	if (from && to >= from)
		metric_observe(m, h, to - from);
}

static void count_steps(struct metrics *m, const struct job *job)
{
	const uint64_t *at = job->step_ns;
	uint64_t over = at[job->state], confirmed = at[JOB_CONFIRMED];

	if (!confirmed && at[JOB_WAITING]) /* somebody was asked, and it ended there */
		confirmed = over;
	observe_step(m, METRIC_ANALYSE, at[JOB_RECEIVED], at[JOB_ANALYSED]);
	observe_step(m, METRIC_DECIDE, at[JOB_ANALYSED], at[JOB_DECIDED]);
	observe_step(m, METRIC_CONFIRM, at[JOB_DECIDED], confirmed);
	observe_step(m, METRIC_ROUTE, at[JOB_CONFIRMED], at[JOB_ROUTED]);
	if (job->claim_ns)
		observe_step(m, METRIC_CLAIM, at[JOB_RUNNING], job->claim_ns);
	observe_step(m, METRIC_QUEUE, at[JOB_RECEIVED], MAX2(at[JOB_RUNNING], job->claim_ns));
	observe_step(m, METRIC_TOTAL, at[JOB_RECEIVED], over);
	if (job->state == JOB_FINISHED)
		metric_observe(m, METRIC_EXEC, job->result.usage.wall_ms * 1000000u);
}

static void count_run(struct metrics *m, const struct job *job)
{
	enum run_state state = job->result.state;
	enum language language = job->request.language;
	/* "auto" is asked for, never used: here it stands for none. */
	enum tier tier = job->executor ? job->executor->ops->tier : TIER_AUTO;

	if ((unsigned)state >= RUN_STATE_COUNT)
		state = RUN_LOST;
	if ((unsigned)language >= LANGUAGE_COUNT)
		language = LANGUAGE_NONE;
	if ((unsigned)tier >= TIER_COUNT)
		tier = TIER_AUTO;
	m->runs[state][language][tier]++;
}

static void count_limit(struct metrics *m, const struct job *job)
{
	bool wall = job->result.usage.wall_ms >= job->effective.limits.timeout_ms;

	switch (job->result.state) {
	case RUN_TIMED_OUT:
		m->limits[wall ? METRIC_LIMIT_TIMEOUT : METRIC_LIMIT_CPU]++;
		break;
	case RUN_OOM:
		m->limits[METRIC_LIMIT_MEMORY]++;
		break;
	case RUN_OUTPUT_LIMIT:
		m->limits[METRIC_LIMIT_OUTPUT]++;
		break;
	case RUN_DISK_LIMIT:
		m->limits[METRIC_LIMIT_DISK]++;
		break;
	case RUN_SETUP_FAILED:
	case RUN_FINISHED:
	case RUN_FAILED:
	case RUN_KILLED:
	case RUN_CANCELLED:
	case RUN_DENIED:
	case RUN_EXPIRED:
	case RUN_REJECTED:
	case RUN_LOST:
	case RUN_STATE_COUNT:
		break;
	}
}

static void count_judgement(struct metrics *m, const struct job *job)
{
	bool decided = job->step_ns[JOB_DECIDED] != 0;

	if (job->step_ns[JOB_ANALYSED] && (unsigned)job->findings.level < RISK_LEVEL_COUNT)
		m->risk[job->findings.level]++;
	/* What the policy's bounds refuse is denied before it counts as decided. */
	if (!decided && job->state == JOB_DENIED)
		m->verdicts[VERDICT_DENY]++;
	else if (decided && (unsigned)job->decision.verdict < VERDICT_COUNT)
		m->verdicts[job->decision.verdict]++;
}

static enum metric_outcome outcome_of(const struct job *job)
{
	switch (job->approval.state) {
	case APPROVAL_ALLOWED:
	case APPROVAL_USED:
		return job->step_ns[JOB_WAITING] ? METRIC_OUTCOME_ALLOWED : METRIC_OUTCOME_STANDING;
	case APPROVAL_DENIED:
		return METRIC_OUTCOME_DENIED;
	case APPROVAL_EXPIRED:
		return METRIC_OUTCOME_EXPIRED;
	case APPROVAL_REVOKED:
		return METRIC_OUTCOME_REVOKED;
	case APPROVAL_NONE:
	case APPROVAL_WAITING: /* the job is over, so nobody asks any more */
	case APPROVAL_WITHDRAWN:
	case APPROVAL_STATE_COUNT:
		break;
	}
	return METRIC_OUTCOME_WITHDRAWN;
}

void metric_job(struct metrics *m, const struct job *job)
{
	if ((unsigned)job->state >= JOB_STATE_COUNT)
		return;
	count_run(m, job);
	count_limit(m, job);
	count_judgement(m, job);
	count_steps(m, job);
	if (job->approval.id[0])
		m->approvals[outcome_of(job)]++;
}
