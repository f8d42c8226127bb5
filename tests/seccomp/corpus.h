/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to try on a filter: made from the policy table, so that each constant in it is met
 * from both sides.
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy.h"

/* Called for each call of a corpus; false stops it. */
typedef bool corpus_fn(const struct seccomp_data *call, void *context);

enum { CORPUS_ARGS = 6, CORPUS_VALUES = 1024 };

/* Values worth trying for one argument of one rule: sorted, each once. */
struct corpus_values {
	size_t n;
	uint32_t value[CORPUS_VALUES];
};

/* A rule that looks at arguments.  An argument that it does not look at has n = 0. */
struct corpus_rule {
	const struct policy_rule *rule;
	struct corpus_values args[CORPUS_ARGS];
};

struct corpus {
	size_t n;
	struct corpus_rule *rules; /* owned */
	uint64_t seed;
};

int corpus_init(struct corpus *corpus, const struct policy_rule *rules, size_t n, uint64_t seed);
void corpus_free(struct corpus *corpus);

/* Every small number, the x32 range, foreign architectures.  False when fn stopped it. */
bool corpus_heads(struct corpus *corpus, corpus_fn *fn, void *context);

/*
 * Per rule, every combination of the values of its arguments, for its number and for the two
 * beside it (which must not be taken for it).  False when fn stopped it.
 */
bool corpus_directed(struct corpus *corpus, corpus_fn *fn, void *context);

/* `count` random calls, most of them near the rules.  False when fn stopped it. */
bool corpus_random(struct corpus *corpus, uint64_t count, corpus_fn *fn, void *context);
