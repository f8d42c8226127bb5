/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request + findings -> decision. Nothing is allocated and nothing fails: what cannot be judged is
 * denied. Time is bounded by patterns x subjects (POLICY_PATTERNS_MAX, FINDINGS_MAX).
 */
#include <stdio.h>
#include <string.h>

#include "policy/policy_impl.h"

#define ACTION_USUAL "code_execution"

/* The last star takes one byte more each time the rest does not fit: no recursion. */
bool glob_match(const char *pattern, const char *subject)
{
	const char *star = NULL, *from = NULL;

	while (*subject) {
		if (*pattern == '*') {
			star = ++pattern;
			from = subject;
		} else if (*pattern == *subject) {
			pattern++;
			subject++;
		} else if (star) {
			pattern = star;
			subject = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* ---- may it be judged? ---- */

static bool too_long(const char *s)
{
	return s && strnlen(s, POLICY_SUBJECT_MAX + 1) > POLICY_SUBJECT_MAX;
}

/* Those of whoever asks, then those of the request. */
static const char *label_at(const struct policy_input *in, size_t i)
{
	if (i < in->n_labels)
		return in->labels[i];
	i -= in->n_labels;
	return i < in->request->n_labels ? in->request->labels[i] : NULL;
}

static const char *names_fault(const struct policy_input *in)
{
	if (too_long(in->caller) || too_long(in->action))
		return "the caller's or the action's name is too long to be judged";
	if (in->n_labels + in->request->n_labels > POLICY_LABELS_MAX)
		return "the session has more labels than can be judged";
	for (size_t i = 0; i < in->n_labels + in->request->n_labels; i++)
		if (!label_at(in, i) || too_long(label_at(in, i)))
			return "a label is too long to be judged";
	if (in->request->n_tools > REQUEST_TOOLS_MAX)
		return "there are more tools than can be judged";
	for (size_t i = 0; i < in->request->n_tools; i++)
		if (!in->request->tools[i] || too_long(in->request->tools[i]))
			return "a tool's name is too long to be judged";
	return NULL;
}

const char *input_fault(const struct policy_input *in)
{
	const struct request *req = in->request;
	const struct findings *f = in->findings;

	if (!req || !f || f->level == RISK_UNKNOWN)
		return "the code was not assessed";
	if ((unsigned)f->level >= RISK_LEVEL_COUNT || f->n > FINDINGS_MAX)
		return "what the assessment says makes no sense";
	if ((unsigned)req->language >= LANGUAGE_COUNT || (unsigned)req->level >= LEVEL_COUNT ||
	    (unsigned)req->tier >= TIER_COUNT || (unsigned)req->network >= NETWORK_COUNT)
		return "the request makes no sense";
	return names_fault(in);
}

/* ---- conditions ---- */

unsigned cond_value(enum cond c, const struct policy_input *in)
{
	switch (c) {
	case COND_LANGUAGE:
		return in->request->language;
	case COND_RISK:
		return in->findings->level;
	case COND_NETWORK:
		return in->request->network;
	case COND_LEVEL:
		return in->request->level;
	case COND_TIER:
		return in->request->tier;
	case COND_COMPLETE:
		return in->findings->complete;
	case COND_RULE:
	case COND_TOOL:
	case COND_CALLER:
	case COND_LABEL:
	case COND_ACTION:
	case COND_COUNT:
		break;
	}
	return 0;
}

const char *cond_subject(enum cond c, const struct policy_input *in, size_t i)
{
	switch (c) {
	case COND_RULE:
		return i < in->findings->n ? in->findings->v[i].rule : NULL;
	case COND_TOOL:
		return i < in->request->n_tools ? in->request->tools[i] : NULL;
	case COND_CALLER:
		return i ? NULL : in->caller ? in->caller : "";
	case COND_LABEL:
		return label_at(in, i);
	case COND_ACTION:
		return i ? NULL : in->action ? in->action : ACTION_USUAL;
	case COND_LANGUAGE:
	case COND_RISK:
	case COND_NETWORK:
	case COND_LEVEL:
	case COND_TIER:
	case COND_COMPLETE:
	case COND_COUNT:
		break;
	}
	return NULL;
}

static bool any_pattern(const struct patterns *patterns, const char *subject)
{
	for (size_t i = 0; i < patterns->n; i++)
		if (glob_match(patterns->v[i], subject))
			return true;
	return false;
}

enum match cond_match(const struct policy_rule *rule, enum cond c, const struct policy_input *in)
{
	const char *subject;

	if (!(rule->given & (1u << c)))
		return MATCH_YES;
	if (c < COND_WORDS)
		return rule->mask[c] & (1u << cond_value(c, in)) ? MATCH_YES : MATCH_NO;
	for (size_t i = 0; (subject = cond_subject(c, in, i)); i++)
		if (any_pattern(&rule->patterns[c - COND_WORDS], subject))
			return MATCH_YES;
	/* What is meant may be among the findings that found no room: code must not be able to hide
	 * one behind many others. */
	if (c == COND_RULE && in->findings->truncated && rule->verdict != VERDICT_ALLOW)
		return MATCH_SUPPOSED;
	return MATCH_NO;
}

enum match rule_match(const struct policy_rule *rule, const struct policy_input *in)
{
	enum match all = MATCH_YES;

	for (unsigned c = 0; c < COND_COUNT; c++) {
		enum match m = cond_match(rule, (enum cond)c, in);

		if (m == MATCH_NO)
			return MATCH_NO;
		if (m == MATCH_SUPPOSED)
			all = MATCH_SUPPOSED;
	}
	return all;
}

/* ---- the decision ---- */

static const struct policy_rule *first_match(const struct policy *p, const struct policy_input *in)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (rule_match(&p->rules[i], in) != MATCH_NO)
			return &p->rules[i];
	return NULL;
}

/* Own rules first; but what the base denies stays denied. */
static const struct policy_rule *deciding(const struct policy *p, const struct policy_input *in)
{
	const struct policy_rule *own = first_match(p, in);
	const struct policy_rule *below = p->base ? first_match(p->base, in) : NULL;

	if (!own)
		return below;
	if (own->verdict != VERDICT_DENY && below && below->verdict == VERDICT_DENY)
		return below;
	return own;
}

static void say(struct decision *d, enum verdict verdict, const char *rule, const char *reason)
{
	d->verdict = verdict;
	(void)snprintf(d->rule, sizeof(d->rule), "%s", rule);
	(void)snprintf(d->reason, sizeof(d->reason), "%s", reason);
}

void policy_eval(const struct policy *p, const struct policy_input *in, struct decision *ret)
{
	const char *fault = input_fault(in);
	struct policy_input known = *in;
	const struct policy_rule *rule;
	char name[POLICY_SUBJECT_MAX + 1];

	/* Which token of a name it is ("token:NAME#ID") means nothing to a policy. */
	if (!fault && in->caller) {
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(in->caller, "#"),
		               in->caller);
		known.caller = name;
	}
	rule = fault ? NULL : deciding(p, &known);
	*ret = p->bounds;
	(void)snprintf(ret->policy, sizeof(ret->policy), "%s", p->name);
	if (fault)
		say(ret, VERDICT_DENY, POLICY_RULE_UNJUDGED, fault);
	else if (rule)
		say(ret, rule->verdict, rule->name, rule->reason);
	else
		say(ret, p->bounds.verdict, POLICY_RULE_DEFAULT,
		    "no rule matches; this is the default");
}
