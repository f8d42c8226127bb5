/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a policy, and the conditions of a rule. */
#include <errno.h>
#include <stdio.h>

#include "policy/read.h"

const char *const cond_keys[COND_COUNT + 1] = {
#define X(id, key, vocab) [COND_##id] = key,
	COND_TABLE(X)
#undef X
};

const enum vocab cond_vocabs[COND_COUNT] = {
#define X(id, key, vocab) [COND_##id] = vocab,
	COND_TABLE(X)
#undef X
};

/* "high", ">=high" or "<=low" as bits. */
static int read_risk(const struct reader *rd, const struct yaml_node *n, uint32_t *mask)
{
	bool from = str_has_prefix(n->text.p, ">="), to = str_has_prefix(n->text.p, "<=");
	uint32_t all = vocab_all(VOCAB_RISK);
	unsigned got;

	if (vocab_find(VOCAB_RISK, n->text.p + (from || to ? 2 : 0), &got) < 0)
		return read_refuse_word(rd, n, VOCAB_RISK);
	if (from)
		*mask |= all & ~((1u << got) - 1);
	else if (to)
		*mask |= all & ((2u << got) - 1);
	else
		*mask |= 1u << got;
	return 0;
}

static int read_one_word(const struct reader *rd, const struct yaml_node *n, enum cond c,
                         uint32_t *mask)
{
	int r = yaml_line(&rd->doc, n, POLICY_PATTERN_MAX, rd->err);
	unsigned got = 0;

	if (r < 0)
		return r;
	if (c == COND_RISK)
		return read_risk(rd, n, mask);
	r = read_word(rd, n, cond_vocabs[c], &got);
	if (r >= 0)
		*mask |= 1u << got;
	return r;
}

static int read_pattern(const struct reader *rd, const struct yaml_node *n, struct patterns *to)
{
	int r = yaml_line(&rd->doc, n, POLICY_PATTERN_MAX, rd->err);
	char *copy;

	if (r < 0)
		return r;
	for (size_t i = 0; i < n->text.n; i++)
		if (strchr("?[]{}", n->text.p[i]))
			return yaml_fail(&rd->doc, n, rd->err,
			                 "\"%.40s\": only * stands for other texts", n->text.p);
	if (rd->p->n_patterns >= POLICY_PATTERNS_MAX)
		return yaml_fail(&rd->doc, n, rd->err, "more than %d patterns in one file",
		                 POLICY_PATTERNS_MAX);
	copy = arena_dup(&rd->p->arena, n->text.p, n->text.n);
	if (!copy)
		return read_no_memory(rd);
	rd->p->n_patterns++;
	to->v[to->n++] = copy;
	return 0;
}

static int read_patterns(const struct reader *rd, const struct yaml_node *first, size_t n,
                         struct patterns *to)
{
	int r = 0;

	to->v = arena_array(&rd->p->arena, n, sizeof(*to->v));
	if (!to->v)
		return read_no_memory(rd);
	for (; r >= 0 && n--; first = first->next)
		r = read_pattern(rd, first, to);
	return r;
}

static int read_words(const struct reader *rd, const struct yaml_node *first, size_t n, enum cond c,
                      uint32_t *mask)
{
	int r = 0;

	for (; r >= 0 && n--; first = first->next)
		r = read_one_word(rd, first, c, mask);
	return r;
}

/* One value, or a list of values of which any will do. */
static int read_cond(const struct reader *rd, const struct yaml_node *n, enum cond c,
                     struct policy_rule *rule)
{
	bool list = n->kind == YAML_LIST;
	const struct yaml_node *first = list ? n->first : n;
	size_t count = list ? n->n : 1;
	int r = list ? yaml_list(&rd->doc, n, POLICY_ANY_MAX, rd->err) : 0;

	if (r < 0)
		return r;
	if (!count)
		return yaml_fail(&rd->doc, n, rd->err,
		                 "is an empty list: nothing would ever match it");
	rule->given |= 1u << c;
	if (c < COND_WORDS)
		return read_words(rd, first, count, c, &rule->mask[c]);
	return read_patterns(rd, first, count, &rule->patterns[c - COND_WORDS]);
}

static int read_match(const struct reader *rd, const struct yaml_node *map,
                      struct policy_rule *rule)
{
	int r = yaml_map(&rd->doc, map, cond_keys, rd->err);

	for (unsigned c = 0; r >= 0 && c < COND_COUNT; c++) {
		const struct yaml_node *n = yaml_get(map, cond_keys[c]);

		if (n)
			r = read_cond(rd, n, (enum cond)c, rule);
	}
	return r;
}

static bool name_taken(const struct policy *p, const char *name)
{
	if (streq(name, POLICY_RULE_DEFAULT) || streq(name, POLICY_RULE_UNJUDGED))
		return true;
	for (size_t i = 0; i < p->n_rules; i++)
		if (streq(p->rules[i].name, name))
			return true;
	return p->base && name_taken(p->base, name);
}

static int read_rule_name(const struct reader *rd, const struct yaml_node *map,
                          struct policy_rule *rule)
{
	const struct yaml_node *n = read_need(rd, map, "name", "every rule has one");
	int r = n ? read_name(rd, n, rule->name) : -EINVAL;

	if (r >= 0 && name_taken(rd->p, rule->name))
		return yaml_fail(&rd->doc, n, rd->err,
		                 "\"%s\" is taken by another rule, or by one of what it extends",
		                 rule->name);
	return r;
}

static int read_reason(const struct reader *rd, const struct yaml_node *map,
                       struct policy_rule *rule)
{
	const struct yaml_node *n = yaml_get(map, "reason");
	int r;

	if (!n) {
		(void)snprintf(rule->reason, sizeof(rule->reason), "rule %s of policy %s",
		               rule->name, rd->p->name);
		return 0;
	}
	r = yaml_line(&rd->doc, n, POLICY_REASON_SIZE - 1, rd->err);
	if (r >= 0)
		(void)snprintf(rule->reason, sizeof(rule->reason), "%s", n->text.p);
	return r;
}

static int read_rule(const struct reader *rd, const struct yaml_node *map, struct policy_rule *rule)
{
	static const char *const keys[] = { "name", "match", "verdict", "reason", NULL };
	const struct yaml_node *match, *verdict;
	unsigned word = VERDICT_DENY;
	int r = yaml_map(&rd->doc, map, keys, rd->err);

	if (r >= 0)
		r = read_rule_name(rd, map, rule);
	if (r < 0)
		return r;
	match = read_need(rd, map, "match", "write {} for all requests");
	verdict = match ? read_need(rd, map, "verdict", "it is one of deny, confirm, allow") : NULL;
	if (!match || !verdict)
		return -EINVAL;
	r = read_match(rd, match, rule);
	if (r >= 0)
		r = read_word(rd, verdict, VOCAB_VERDICT, &word);
	if (r >= 0)
		r = read_reason(rd, map, rule);
	rule->verdict = (enum verdict)word;
	rule->line = map->line;
	return r;
}

int read_rules(const struct reader *rd, const struct yaml_node *list)
{
	struct policy *p = rd->p;
	int r = yaml_list(&rd->doc, list, POLICY_RULES_MAX, rd->err);

	if (r < 0)
		return r;
	p->rules = arena_array(&p->arena, list->n + 1, sizeof(*p->rules));
	if (!p->rules)
		return read_no_memory(rd);
	for (const struct yaml_node *n = list->first; n; n = n->next) {
		r = read_rule(rd, n, &p->rules[p->n_rules]);
		if (r < 0)
			return r;
		p->n_rules++;
	}
	return 0;
}
