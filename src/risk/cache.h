/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Findings by what was assessed; the one unused for longest makes room. */

#include "base/sha256.h"
#include "risk/risk.h"

struct cache_key {
	uint8_t digest[SHA256_SIZE];
};

/* What is searched stands apart from what is found: a search touches little memory. */
struct cache_table {
	uint64_t used[RISK_CACHE_ENTRIES]; /* 0: empty */
	uint64_t tags[RISK_CACHE_ENTRIES]; /* first bytes of the keys */
	struct cache_key keys[RISK_CACHE_ENTRIES];
	struct findings *values[RISK_CACHE_ENTRIES]; /* each as long as its n findings */
};

struct cache {
	struct cache_table *table; /* made at first use */
	uint64_t clock;
};

struct cache_key cache_key(enum language language, struct str code);
bool cache_get(struct cache *c, const struct cache_key *key, struct findings *ret);
/* Out of memory: it is not kept. */
void cache_put(struct cache *c, const struct cache_key *key, const struct findings *value);
void cache_done(struct cache *c);
