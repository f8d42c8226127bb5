/* SPDX-License-Identifier: Apache-2.0 */
/* How each rule takes a request, in words. Only for people: nothing here decides. */
#include <errno.h>
#include <stdio.h>

#include "policy/policy_impl.h"

struct line {
	char *p;
	size_t cap, len;
};

static void put(struct line *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int w;

	if (l->len >= l->cap)
		return;
	va_start(ap, fmt);
	w = vsnprintf(l->p + l->len, l->cap - l->len, fmt, ap);
	va_end(ap);
	l->len += w > 0 ? (size_t)w : l->cap;
}

static void put_patterns(struct line *l, const struct patterns *patterns)
{
	for (size_t i = 0; i < patterns->n; i++)
		put(l, "%s%s", i ? ", " : "", patterns->v[i]);
}

/* The text that a pattern was found for; NULL when none. */
static const char *found_subject(const struct patterns *patterns, enum cond c,
                                 const struct policy_input *in)
{
	const char *subject;

	for (size_t i = 0; (subject = cond_subject(c, in, i)); i++)
		for (size_t k = 0; k < patterns->n; k++)
			if (glob_match(patterns->v[k], subject))
				return subject;
	return NULL;
}

static void put_refusal(struct line *l, const struct policy_rule *rule, enum cond c,
                        const struct policy_input *in)
{
	char wanted[VOCAB_LIST_SIZE];

	if (c < COND_WORDS) {
		vocab_list(cond_vocabs[c], rule->mask[c], wanted);
		put(l, "%s is %s, not %s", cond_keys[c],
		    vocab_name(cond_vocabs[c], cond_value(c, in)), wanted);
		return;
	}
	if (c == COND_CALLER || c == COND_ACTION)
		put(l, "%s is \"%.60s\", not like ", cond_keys[c], cond_subject(c, in, 0));
	else
		put(l, "no %s is like ", c == COND_RULE ? "finding" : cond_keys[c]);
	put_patterns(l, &rule->patterns[c - COND_WORDS]);
}

static void put_hold(struct line *l, const struct policy_rule *rule, enum cond c,
                     const struct policy_input *in)
{
	const char *subject;

	put(l, "%s%s ", l->len ? ", " : "", cond_keys[c]);
	if (c < COND_WORDS) {
		put(l, "%s", vocab_name(cond_vocabs[c], cond_value(c, in)));
		return;
	}
	subject = found_subject(&rule->patterns[c - COND_WORDS], c, in);
	if (subject)
		put(l, "%.60s", subject);
	else
		put(l, "may be among the findings that are not listed");
}

static void describe(const struct policy_rule *rule, const struct policy_input *in, struct line *l)
{
	for (unsigned c = 0; c < COND_COUNT; c++) {
		if (cond_match(rule, (enum cond)c, in) == MATCH_NO) {
			l->len = 0;
			put_refusal(l, rule, (enum cond)c, in);
			return;
		}
		if (rule->given & (1u << c))
			put_hold(l, rule, (enum cond)c, in);
	}
	if (!rule->given)
		put(l, "it has no conditions");
}

size_t policy_n_rules(const struct policy *p)
{
	return p->n_rules + (p->base ? p->base->n_rules : 0);
}

int policy_try(const struct policy *p, size_t i, const struct policy_input *in,
               struct policy_step *ret)
{
	const struct policy *of = i < p->n_rules ? p : p->base;
	const struct policy_rule *rule;
	struct line l = { ret->why, sizeof(ret->why), 0 };

	if (i >= policy_n_rules(p) || input_fault(in))
		return -EINVAL;
	rule = &of->rules[of == p ? i : i - p->n_rules];
	ret->policy = of->name;
	ret->rule = rule->name;
	ret->verdict = rule->verdict;
	ret->line = rule->line;
	ret->matched = rule_match(rule, in) != MATCH_NO;
	describe(rule, in, &l);
	return 0;
}
