/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a term "arg & mask in values" the interesting words are the values, their neighbours,
 * the values with one bit changed, and the values with every bit outside the mask set.  All
 * calls carry garbage in the high words now and then: the answer must not depend on them.
 */
#include "corpus.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* xorshift64*: repeatable, and good enough to pick test values. */
static uint64_t next_random(struct corpus *corpus)
{
	corpus->seed ^= corpus->seed >> 12;
	corpus->seed ^= corpus->seed << 25;
	corpus->seed ^= corpus->seed >> 27;
	return corpus->seed * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t add_high_word(struct corpus *corpus, uint32_t low)
{
	uint64_t r = next_random(corpus);

	if (r & 1)
		return low;
	return (r & 2 ? r & ~UINT64_C(0xffffffff) : UINT64_C(0xffffffff00000000)) | low;
}

static void add_value(struct corpus_values *values, uint32_t value)
{
	assert(values->n < CORPUS_VALUES);
	values->value[values->n++] = value;
}

static void add_term(struct corpus_values *values, const struct policy_term *term)
{
	static const unsigned some_bits[] = { 0, 1, 2, 3, 7, 15, 16, 31 };

	for (size_t i = 0; i < term->n_values; i++) {
		uint32_t value = term->values[i];

		add_value(values, value);
		add_value(values, value - 1);
		add_value(values, value + 1);
		add_value(values, value | ~term->mask);
		add_value(values, value ^ (term->mask & (~term->mask + 1))); /* lowest bit */
		for (size_t b = 0; b < ARRAY_SIZE(some_bits); b++)
			add_value(values, value ^ UINT32_C(1) << some_bits[b]);
	}
	if (term->mask == UINT32_MAX)
		return;
	for (unsigned bit = 0; bit < 32; bit++)
		add_value(values, UINT32_C(1) << bit);
	add_value(values, term->mask);
	add_value(values, ~term->mask);
}

static void add_common(struct corpus_values *values)
{
	static const uint32_t common[] = { 0, 1, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		add_value(values, common[i]);
}

static int compare_words(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void sort_values(struct corpus_values *values)
{
	size_t kept = 0;

	if (values->n == 0)
		return;
	add_common(values);
	qsort(values->value, values->n, sizeof(values->value[0]), compare_words);
	for (size_t i = 0; i < values->n; i++)
		if (kept == 0 || values->value[kept - 1] != values->value[i])
			values->value[kept++] = values->value[i];
	values->n = kept;
}

static void fill_rule(struct corpus_rule *entry, const struct policy_rule *rule)
{
	entry->rule = rule;
	for (size_t c = 0; c < rule->n_clauses; c++) {
		const struct policy_clause *clause = &rule->clauses[c];

		for (size_t t = 0; t < clause->n_terms; t++)
			add_term(&entry->args[clause->terms[t].arg], &clause->terms[t]);
	}
	for (size_t a = 0; a < CORPUS_ARGS; a++)
		sort_values(&entry->args[a]);
}

int corpus_init(struct corpus *corpus, const struct policy_rule *rules, size_t n, uint64_t seed)
{
	*corpus = (struct corpus){ .seed = seed ? seed : 1 };
	corpus->rules = calloc(n, sizeof(*corpus->rules));
	if (!corpus->rules)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (rules[i].n_clauses > 0)
			fill_rule(&corpus->rules[corpus->n++], &rules[i]);
	return 0;
}

void corpus_free(struct corpus *corpus)
{
	free(corpus->rules);
	*corpus = (struct corpus){ 0 };
}

static bool try_numbers(struct corpus *corpus, uint32_t arch, uint32_t first, uint32_t count,
                        corpus_fn *fn, void *context)
{
	for (uint32_t i = 0; i < count; i++) {
		struct seccomp_data call = { .nr = (int)(first + i), .arch = arch };

		for (size_t a = 0; a < CORPUS_ARGS; a++)
			call.args[a] = add_high_word(corpus, 0);
		if (!fn(&call, context))
			return false;
	}
	return true;
}

bool corpus_heads(struct corpus *corpus, corpus_fn *fn, void *context)
{
	static const uint32_t foreign[] = {
		AUDIT_ARCH_I386,       AUDIT_ARCH_AARCH64,    AUDIT_ARCH_ARM, 0,
		AUDIT_ARCH_X86_64 - 1, AUDIT_ARCH_X86_64 + 1, UINT32_MAX
	};
	static const uint32_t native[] = { 0,          0x3ffffc00, 0x40000000, 0x7ffffc00,
		                           0x80000000, 0xc0000000, 0xfffffc00 };

	for (size_t i = 0; i < ARRAY_SIZE(native); i++)
		if (!try_numbers(corpus, AUDIT_ARCH_X86_64, native[i], 1024, fn, context))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (!try_numbers(corpus, foreign[i], 0, 1024, fn, context))
			return false;
	return true;
}

/* Counts `index` like an odometer with one wheel per argument; false after the last. */
static bool next_combination(const struct corpus_rule *entry, size_t index[CORPUS_ARGS])
{
	for (size_t a = 0; a < CORPUS_ARGS; a++) {
		if (index[a] + 1 < entry->args[a].n) {
			index[a]++;
			return true;
		}
		index[a] = 0;
	}
	return false;
}

static bool try_rule(struct corpus *corpus, const struct corpus_rule *entry, uint32_t nr,
                     corpus_fn *fn, void *context)
{
	size_t index[CORPUS_ARGS] = { 0 };

	do {
		struct seccomp_data call = { .nr = (int)nr, .arch = AUDIT_ARCH_X86_64 };

		for (size_t a = 0; a < CORPUS_ARGS; a++)
			call.args[a] =
				entry->args[a].n == 0
					? next_random(corpus)
					: add_high_word(corpus, entry->args[a].value[index[a]]);
		if (!fn(&call, context))
			return false;
	} while (next_combination(entry, index));
	return true;
}

bool corpus_directed(struct corpus *corpus, corpus_fn *fn, void *context)
{
	for (size_t i = 0; i < corpus->n; i++) {
		const struct corpus_rule *entry = &corpus->rules[i];
		uint32_t nr = entry->rule->nr;

		for (uint32_t n = nr ? nr - 1 : 0; n <= nr + 1; n++)
			if (!try_rule(corpus, entry, n, fn, context))
				return false;
	}
	return true;
}

static struct seccomp_data random_call(struct corpus *corpus)
{
	uint64_t dice = next_random(corpus);
	const struct corpus_rule *entry = &corpus->rules[(dice >> 32) % corpus->n];
	struct seccomp_data call = { .nr = (int)entry->rule->nr, .arch = AUDIT_ARCH_X86_64 };

	if (dice % 8 == 0)
		call.nr = (int)(next_random(corpus) % 1024);
	if (dice % 64 == 1)
		call.nr = (int)next_random(corpus);
	if (dice % 64 == 2)
		call.arch ^= UINT32_C(1) << next_random(corpus) % 32;
	for (size_t a = 0; a < CORPUS_ARGS; a++) {
		const struct corpus_values *values = &entry->args[a];
		uint64_t r = next_random(corpus);

		call.args[a] =
			values->n == 0 || r % 4 == 0
				? r
				: add_high_word(corpus, values->value[(r >> 32) % values->n]);
	}
	return call;
}

bool corpus_random(struct corpus *corpus, uint64_t count, corpus_fn *fn, void *context)
{
	for (uint64_t i = 0; i < count; i++) {
		struct seccomp_data call = random_call(corpus);

		if (!fn(&call, context))
			return false;
	}
	return true;
}
