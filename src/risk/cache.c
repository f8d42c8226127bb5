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

static uint64_t tag_of(const struct cache_key *key)
{
	uint64_t tag;

	memcpy(&tag, key->digest, sizeof(tag));
	return tag;
}

static size_t stored_size(size_t n)
{
	return offsetof(struct findings, v) + n * sizeof(struct finding);
}

bool cache_get(struct cache *c, const struct cache_key *key, struct findings *ret)
{
	struct cache_table *t = c->table;
	uint64_t tag = tag_of(key);

	for (size_t i = 0; t && i < RISK_CACHE_ENTRIES; i++) {
		if (t->tags[i] != tag || !t->used[i] || memcmp(&t->keys[i], key, sizeof(*key)) != 0)
			continue;
		t->used[i] = ++c->clock;
		memcpy(ret, t->values[i], stored_size(t->values[i]->n));
		return true;
	}
	return false;
}

static size_t oldest(const struct cache_table *t)
{
	uint64_t first = UINT64_MAX;
	size_t at = 0;

	for (size_t i = 0; i < RISK_CACHE_ENTRIES; i++)
		first = MIN2(first, t->used[i]);
	while (at < RISK_CACHE_ENTRIES - 1 && t->used[at] != first)
		at++;
	return at;
}

void cache_put(struct cache *c, const struct cache_key *key, const struct findings *value)
{
	struct findings *copy;
	size_t at;

	if (!c->table)
		c->table = calloc(1, sizeof(*c->table));
	copy = c->table ? malloc(stored_size(value->n)) : NULL;
	if (!copy)
		return;
	memcpy(copy, value, stored_size(value->n));
	at = oldest(c->table);
	free(c->table->values[at]);
	c->table->values[at] = copy;
	c->table->keys[at] = *key;
	c->table->tags[at] = tag_of(key);
	c->table->used[at] = ++c->clock;
}

void cache_done(struct cache *c)
{
	for (size_t i = 0; c->table && i < RISK_CACHE_ENTRIES; i++)
		free(c->table->values[i]);
	free(c->table);
	*c = (struct cache){ 0 };
}
