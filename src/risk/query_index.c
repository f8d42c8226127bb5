/* SPDX-License-Identifier: Apache-2.0 */
/* What spares a node most patterns: the symbol they begin with, the names and texts they ask for.
 */
#include <errno.h>

#include "risk/query.h"

/* ---- names ---- */

/* The children in this field can be asked for their names, whether or not the pattern comes to it.
 */
static bool is_asked(const struct grammar *g, const struct goal *root, const struct goal *goal)
{
	uint8_t field = goal->field < g->n_fields ? g->fields[goal->field] : 0;
	enum kind kind = K_OTHER;

	if (goal->parent != 0 || !goal->field)
		return false;
	if (field == F_FUNCTION || (field == F_NAME && g->lang->language == LANGUAGE_SHELL))
		return true;
	if (root->kind == GOAL_SYMBOL && root->n_symbols == 1 && root->symbols[0] < g->n_symbols)
		kind = (enum kind)g->kinds[root->symbols[0]];
	return g->lang->language == LANGUAGE_PYTHON && (kind == K_IMPORT || kind == K_IMPORT_FROM);
}

/* The goal whose name is asked for: the root, or such a child. */
static const struct goal *guard_goal(const struct query *q, const struct grammar *g,
                                     const struct pattern *pattern, const struct predicate *pred)
{
	const struct goal *root = &q->goals[pattern->first];

	for (uint8_t i = 0; i < pattern->n; i++)
		if (root[i].capture == pred->capture && (i == 0 || is_asked(g, root, &root[i])))
			return &root[i];
	return NULL;
}

static uint64_t *bits_for(struct name_bits *bits, const struct literal *l)
{
	if (l->any)
		return l->below ? bits->inside : bits->any;
	return l->below ? bits->below : bits->exact;
}

static void set_guard(const struct query *q, const struct grammar *g, struct pattern *pattern)
{
	const struct rule *rule = &q->rules[pattern->rule];

	for (uint32_t i = rule->first; i < rule->first + rule->n; i++) {
		const struct predicate *pred = &q->predicates[i];
		const struct goal *goal;

		if (pred->op != PRED_NAME || pred->negate)
			continue;
		goal = guard_goal(q, g, pattern, pred);
		if (!goal)
			continue;
		pattern->guarded = true;
		pattern->guard_field = goal == &q->goals[pattern->first] ? 0 : goal->field;
		for (uint32_t k = pred->first; k < pred->first + pred->n; k++)
			name_bit(bits_for(&pattern->bits, &q->literals[k]), q->literals[k].hash);
		return;
	}
}

/* ---- texts ---- */

/* The only goal of that capture; NULL: there is none, or more. */
static struct goal *captured_by(const struct query *q, const struct pattern *pattern,
                                uint8_t capture)
{
	struct goal *found = NULL;

	for (uint8_t i = 0; i < pattern->n; i++) {
		struct goal *goal = &q->goals[pattern->first + i];

		if (goal->capture != capture)
			continue;
		if (found)
			return NULL;
		found = goal;
	}
	return found;
}

static void set_texts(const struct query *q, const struct pattern *pattern)
{
	const struct rule *rule = &q->rules[pattern->rule];

	for (uint8_t i = 0; i < pattern->n; i++)
		q->goals[pattern->first + i].texts = TEXTS_ANY;
	for (uint32_t i = rule->first; i < rule->first + rule->n; i++) {
		const struct predicate *pred = &q->predicates[i];
		struct goal *goal = captured_by(q, pattern, pred->capture);
		uint64_t texts = 0;

		if (!goal || pred->op != PRED_EQ || pred->negate || pred->other != NO_GOAL)
			continue;
		for (uint32_t k = pred->first; k < pred->first + pred->n; k++)
			texts |= text_bit((struct str){ q->literals[k].p, q->literals[k].n });
		goal->texts &= texts;
	}
}

/* ---- symbols ---- */

/* Which list the pattern stands in as its kth; false: there are no more. */
static bool list_of(const struct goal *root, const struct grammar *g, uint8_t k, uint32_t *ret)
{
	bool any = root->kind == GOAL_ANY || root->kind == GOAL_NAMED;

	if (any ? k > 0 : k >= root->n_symbols)
		return false;
	*ret = any ? g->n_symbols : root->symbols[k];
	return true;
}

/* Counts the patterns of each list, or puts them into their places. */
static void put_in_lists(const struct query *q, const struct grammar *g, uint32_t *at,
                         struct pattern *to)
{
	for (uint32_t i = 0; i < q->n_patterns; i++) {
		const struct goal *root = &q->goals[q->patterns[i].first];
		uint32_t list;

		for (uint8_t k = 0; list_of(root, g, k, &list); k++) {
			if (list > g->n_symbols)
				continue;
			if (to)
				to[at[list]] = q->patterns[i];
			at[list]++;
		}
	}
}

/* Side by side, list after list, each in the order of the rules. */
int query_index(struct query *q, const struct grammar *g, struct err *err)
{
	size_t n_lists = (size_t)g->n_symbols + 1;
	CLEANUP_FREE uint32_t *at = calloc(n_lists, sizeof(*at));
	struct pattern *sorted;
	uint32_t n = 0;

	q->lists = calloc(n_lists + 1, sizeof(*q->lists));
	if (!at || !q->lists)
		return err_set(err, ERR_INTERNAL, ENOMEM, "rules");
	for (uint32_t i = 0; i < q->n_patterns; i++) {
		set_guard(q, g, &q->patterns[i]);
		set_texts(q, &q->patterns[i]);
	}
	put_in_lists(q, g, at, NULL);
	for (size_t i = 0; i < n_lists; i++) {
		q->lists[i] = n;
		n += at[i];
		at[i] = q->lists[i];
	}
	q->lists[n_lists] = n;
	sorted = calloc(MAX2(n, 1u), sizeof(*sorted));
	if (!sorted)
		return err_set(err, ERR_INTERNAL, ENOMEM, "rules");
	put_in_lists(q, g, at, sorted);
	free(q->patterns);
	q->patterns = sorted;
	q->n_patterns = q->cap_patterns = n;
	return 0;
}
