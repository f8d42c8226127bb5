/* SPDX-License-Identifier: Apache-2.0 */
#include "risk/cache.h"

struct cache_key cache_key(enum language language, struct str code)
{
	struct cache_key key = { 0 };
	struct sha256 h;

	sha256_init(&h);
	sha256_put_u64(&h, (uint64_t)language);
	sha256_put_field(&h, code.p, code.n);
	sha256_finish(&h, key.digest);
	return key;
}

static size_t stored_size(size_t n)
{
	return offsetof(struct findings, v) + n * sizeof(struct finding);
}

bool cache_get(struct cache *c, const struct cache_key *key, struct findings *ret)
{
	for (size_t i = 0; c->v && i < RISK_CACHE_ENTRIES; i++) {
		struct cache_entry *e = &c->v[i];

		if (!e->used || memcmp(&e->key, key, sizeof(*key)) != 0)
			continue;
		e->used = ++c->clock;
		memcpy(ret, e->value, stored_size(e->value->n));
		return true;
	}
	return false;
}

void cache_put(struct cache *c, const struct cache_key *key, const struct findings *value)
{
	struct cache_entry *oldest;
	struct findings *copy;

	if (!c->v)
		c->v = calloc(RISK_CACHE_ENTRIES, sizeof(*c->v));
	copy = c->v ? malloc(stored_size(value->n)) : NULL;
	if (!copy)
		return;
	memcpy(copy, value, stored_size(value->n));
	oldest = c->v;
	for (size_t i = 1; i < RISK_CACHE_ENTRIES; i++)
		if (c->v[i].used < oldest->used)
			oldest = &c->v[i];
	free(oldest->value);
	*oldest = (struct cache_entry){ .key = *key, .used = ++c->clock, .value = copy };
}

void cache_done(struct cache *c)
{
	for (size_t i = 0; c->v && i < RISK_CACHE_ENTRIES; i++)
		free(c->v[i].value);
	free(c->v);
	*c = (struct cache){ 0 };
}
