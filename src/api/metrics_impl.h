/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of the metrics. Every label is a word of ours, so their number has a bound. */

#include "api/metrics.h"

#define METRIC_BUCKETS    19
#define METRIC_STATUS_MIN 100
#define METRIC_STATUS_MAX 599
#define METRIC_STATUSES   (METRIC_STATUS_MAX - METRIC_STATUS_MIN + 1)

/* clang-format off */
#define METRIC_LIMITS(X)                                                                           \
	X(TIMEOUT, "timeout")                                                                      \
	X(CPU,     "cpu")                                                                          \
	X(MEMORY,  "memory")                                                                       \
	X(OUTPUT,  "output")                                                                       \
	X(DISK,    "disk")

#define METRIC_OUTCOMES(X)                                                                         \
	X(ALLOWED,   "allowed")                                                                    \
	X(STANDING,  "standing") /* nobody was asked: a "yes" stood */                             \
	X(DENIED,    "denied")                                                                     \
	X(EXPIRED,   "expired")                                                                    \
	X(WITHDRAWN, "withdrawn")                                                                  \
	X(REVOKED,   "revoked")

#define METRIC_REJECTIONS(X)                                                                       \
	X(OTHER,    "other")                                                                       \
	X(BUSY,     "busy")                                                                        \
	X(QUOTA,    "quota")                                                                       \
	X(AUTH,     "auth")                                                                        \
	X(INVALID,  "invalid")                                                                     \
	X(DRAINING, "draining")
/* clang-format on */

#define X(id, name) METRIC_LIMIT_##id,
enum metric_limit { METRIC_LIMITS(X) METRIC_LIMIT_COUNT };
#undef X
#define X(id, name) METRIC_OUTCOME_##id,
enum metric_outcome { METRIC_OUTCOMES(X) METRIC_OUTCOME_COUNT };
#undef X
#define X(id, name) METRIC_REJECTION_##id,
enum metric_rejection { METRIC_REJECTIONS(X) METRIC_REJECTION_COUNT };
#undef X

extern const char *const metric_limit_names[METRIC_LIMIT_COUNT];
extern const char *const metric_outcome_names[METRIC_OUTCOME_COUNT];
extern const char *const metric_rejection_names[METRIC_REJECTION_COUNT];

struct metric_bucket {
	uint64_t ns;
	const char *le; /* the same in seconds */
};
extern const struct metric_bucket metric_buckets[METRIC_BUCKETS];

struct metric_series {
	uint64_t n[METRIC_BUCKETS + 1]; /* each for itself; the last: longer than all */
	uint64_t sum_ns;
};

struct metrics {
	struct metric_series histograms[METRIC_HISTOGRAM_COUNT];
	uint64_t http[METRIC_STATUSES + 1]; /* the last: any other */
	uint64_t runs[RUN_STATE_COUNT][LANGUAGE_COUNT][TIER_COUNT];
	uint64_t risk[RISK_LEVEL_COUNT];
	uint64_t verdicts[VERDICT_COUNT];
	uint64_t limits[METRIC_LIMIT_COUNT];
	uint64_t approvals[METRIC_OUTCOME_COUNT];
	uint64_t rejected[METRIC_REJECTION_COUNT];
};
