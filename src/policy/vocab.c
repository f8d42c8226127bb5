/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/vocab.h"

#include <errno.h>
#include <stdio.h>

#include "base/str.h"
#include "model/decision.h"
#include "model/findings.h"
#include "model/request.h"

struct range {
	unsigned first, end;
};

static struct range range_of(enum vocab v)
{
	switch (v) {
	case VOCAB_LANGUAGE:
		return (struct range){ LANGUAGE_NONE + 1, LANGUAGE_COUNT };
	case VOCAB_RISK:
		return (struct range){ RISK_SAFE, RISK_LEVEL_COUNT };
	case VOCAB_NETWORK:
		return (struct range){ 0, NETWORK_COUNT };
	case VOCAB_LEVEL:
		return (struct range){ 0, LEVEL_COUNT };
	case VOCAB_TIER:
		return (struct range){ 0, TIER_COUNT };
	case VOCAB_BOOL:
		return (struct range){ 0, 2 };
	case VOCAB_VERDICT:
		return (struct range){ 0, VERDICT_COUNT };
	case VOCAB_REMEMBER:
		return (struct range){ 0, REMEMBER_COUNT };
	}
	return (struct range){ 0, 0 };
}

const char *vocab_name(enum vocab v, unsigned value)
{
	switch (v) {
	case VOCAB_LANGUAGE:
		return language_name((enum language)value);
	case VOCAB_RISK:
		return risk_level_name((enum risk_level)value);
	case VOCAB_NETWORK:
		return network_name((enum network)value);
	case VOCAB_LEVEL:
		return level_name((enum level)value);
	case VOCAB_TIER:
		return tier_name((enum tier)value);
	case VOCAB_BOOL:
		return value ? "true" : "false";
	case VOCAB_VERDICT:
		return verdict_name((enum verdict)value);
	case VOCAB_REMEMBER:
		return remember_name((enum remember)value);
	}
	return "";
}

/* Languages and tiers have other names, too. */
static int find_alias(enum vocab v, const char *word, unsigned *ret)
{
	enum language language;
	enum tier tier;

	if (v == VOCAB_LANGUAGE && language_from_name(word, &language) >= 0) {
		*ret = language;
		return 0;
	}
	if (v == VOCAB_TIER && tier_from_name(word, &tier) >= 0) {
		*ret = tier;
		return 0;
	}
	return -EINVAL;
}

int vocab_find(enum vocab v, const char *word, unsigned *ret)
{
	struct range range = range_of(v);

	for (unsigned i = range.first; i < range.end; i++) {
		if (streq(word, vocab_name(v, i))) {
			*ret = i;
			return 0;
		}
	}
	return find_alias(v, word, ret);
}

void vocab_list(enum vocab v, unsigned mask, char ret[VOCAB_LIST_SIZE])
{
	struct range range = range_of(v);
	size_t len = 0;

	*ret = '\0';
	for (unsigned i = range.first; i < range.end && len < VOCAB_LIST_SIZE; i++) {
		if (!(mask & (1u << i)))
			continue;
		int w = snprintf(ret + len, VOCAB_LIST_SIZE - len, "%s%s", len ? ", " : "",
		                 vocab_name(v, i));

		len += w > 0 ? (size_t)w : VOCAB_LIST_SIZE;
	}
}

unsigned vocab_all(enum vocab v)
{
	struct range range = range_of(v);

	return ((1u << range.end) - 1) & ~((1u << range.first) - 1);
}
