/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy may say and hardly means. It warns only when it is sure. */
#include <stdio.h>

#include "policy/policy_impl.h"

struct lint {
	const struct policy *p;
	policy_lint_fn *fn;
	void *data;
};

static bool has(const struct policy_rule *rule, enum cond c)
{
	return rule->given & (1u << c);
}

/*
 * Does the first pattern match all that the second does? A star in the second can only be taken by
 * a star of the first, so that matching it as a text is an answer.
 */
static bool pattern_covered(const struct patterns *by, const char *pattern)
{
	for (size_t i = 0; i < by->n; i++)
		if (glob_match(by->v[i], pattern))
			return true;
	return false;
}

static bool cond_covers(const struct policy_rule *by, const struct policy_rule *rule, enum cond c)
{
	const struct patterns *mine, *theirs;

	if (!has(by, c))
		return true;
	if (!has(rule, c))
		return c < COND_WORDS && by->mask[c] == vocab_all(cond_vocabs[c]);
	if (c < COND_WORDS)
		return !(rule->mask[c] & ~by->mask[c]);
	theirs = &by->patterns[c - COND_WORDS];
	mine = &rule->patterns[c - COND_WORDS];
	for (size_t i = 0; i < mine->n; i++)
		if (!pattern_covered(theirs, mine->v[i]))
			return false;
	return true;
}

static bool covers(const struct policy_rule *by, const struct policy_rule *rule)
{
	for (unsigned c = 0; c < COND_COUNT; c++)
		if (!cond_covers(by, rule, (enum cond)c))
			return false;
	return true;
}

static void lint_unreachable(const struct lint *l, size_t i)
{
	const struct policy_rule *rule = &l->p->rules[i];
	char text[160];

	for (size_t k = 0; k < i; k++) {
		if (!covers(&l->p->rules[k], rule))
			continue;
		(void)snprintf(text, sizeof(text),
		               "never decides: all it matches is decided by %s (line %u) before it",
		               l->p->rules[k].name, l->p->rules[k].line);
		l->fn(l->data, rule->line, rule->name, text);
		return;
	}
}

/* An incomplete analysis is at least MEDIUM. */
static void lint_impossible(const struct lint *l, const struct policy_rule *rule)
{
	const uint32_t low = 1u << RISK_SAFE | 1u << RISK_LOW;

	if (has(rule, COND_COMPLETE) && rule->mask[COND_COMPLETE] == 1u && has(rule, COND_RISK) &&
	    !(rule->mask[COND_RISK] & ~low))
		l->fn(l->data, rule->line, rule->name,
		      "never matches: code that was not understood in full is at least medium");
	if (has(rule, COND_NETWORK) && rule->verdict != VERDICT_DENY &&
	    !(rule->mask[COND_NETWORK] & ((2u << l->p->bounds.network) - 1)))
		l->fn(l->data, rule->line, rule->name,
		      "never leads to a run: floor.network permits less than it matches");
	if (has(rule, COND_TIER) && rule->verdict != VERDICT_DENY &&
	    l->p->bounds.tier != TIER_AUTO &&
	    !(rule->mask[COND_TIER] & (1u << l->p->bounds.tier | 1u << TIER_AUTO)))
		l->fn(l->data, rule->line, rule->name,
		      "never leads to a run: floor.tier is another one");
}

/* A rule before it that stops all critical code: then it allows none. */
static bool critical_stopped(const struct policy *p, size_t i)
{
	struct policy_rule critical = { .given = 1u << COND_RISK };

	critical.mask[COND_RISK] = 1u << RISK_CRITICAL;
	for (size_t k = 0; k < i; k++)
		if (p->rules[k].verdict != VERDICT_ALLOW && covers(&p->rules[k], &critical))
			return true;
	return false;
}

static void lint_allow(const struct lint *l, size_t i)
{
	const struct policy_rule *rule = &l->p->rules[i];

	if (rule->verdict != VERDICT_ALLOW || critical_stopped(l->p, i))
		return;
	if (has(rule, COND_RISK) && !(rule->mask[COND_RISK] & (1u << RISK_CRITICAL)))
		return;
	if (l->p->base && !rule->given)
		l->fn(l->data, rule->line, rule->name,
		      "allows everything: of what is extended only the denials are left");
	else if (!has(rule, COND_TIER) && l->p->bounds.tier == TIER_AUTO)
		l->fn(l->data, rule->line, rule->name,
		      "allows critical code in any tier; say risk: or tier:");
}

static void lint_default(const struct lint *l)
{
	if (l->p->bounds.verdict == VERDICT_ALLOW && !critical_stopped(l->p, l->p->n_rules))
		l->fn(l->data, 1, POLICY_RULE_DEFAULT, "allows critical code that no rule matches");
	if (!l->p->n_rules && !l->p->base)
		l->fn(l->data, 1, POLICY_RULE_DEFAULT, "decides everything: there are no rules");
}

static void lint_approval(const struct lint *l)
{
	const struct decision *d = &l->p->bounds;

	if (d->remember == REMEMBER_DIGEST && d->remember_ms < d->expires_ms)
		l->fn(l->data, 1, "approval",
		      "remember_for is shorter than expires: an answer is forgotten first");
}

void policy_lint(const struct policy *p, policy_lint_fn *fn, void *data)
{
	struct lint l = { p, fn, data };

	for (size_t i = 0; i < p->n_rules; i++) {
		lint_unreachable(&l, i);
		lint_impossible(&l, &p->rules[i]);
		lint_allow(&l, i);
	}
	lint_default(&l);
	lint_approval(&l);
}
