/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns on the flat tree. The goals of a pattern are fulfilled in order, each by a child of what
 * its parent found, after what its elder sibling found; when one fails, the one before it moves on.
 * Steps are counted: a pattern that is tried for too long is given up and the text not trusted.
 */
#include <errno.h>

#include "base/clock.h"
#include "risk/impl.h"
#include "risk/query.h"

#define STEPS_MAX 100000 /* of one pattern at one node */

#define GUARDS_MAX 2 /* fields that are asked for by turns */

/* What the node, or its children in a field, may be named; kept for the patterns that follow. */
struct guard {
	bool known;
	uint16_t field;
	struct name_bits bits;
};

/* One for all nodes: it is too large to be made for each. */
struct matcher {
	struct pass *p;
	const struct query *q;
	const struct pattern *pattern;
	const struct goal *goals;
	uint32_t bound[QUERY_GOALS_MAX];
	uint32_t steps;
	struct guard guards[GUARDS_MAX];
};

static bool symbol_fits(const struct goal *g, const struct node *n)
{
	switch ((enum goal_kind)g->kind) {
	case GOAL_NAMED:
		return n->named;
	case GOAL_ANY:
		return true;
	case GOAL_SYMBOL:
		for (uint8_t i = 0; i < g->n_symbols; i++)
			if (g->symbols[i] == n->symbol)
				return true;
		return false;
	case GOAL_NEVER:
		return false;
	}
	return false;
}

static bool goal_fits(struct pass *p, const struct goal *g, uint32_t at)
{
	const struct node *n = node_at(p, at);

	if ((g->field && g->field != n->field) || !symbol_fits(g, n))
		return false;
	if (g->texts != TEXTS_ANY && !(g->texts & text_bit(plain_text(p, at))))
		return false;
	if (g->last && node_skip(p, n->next) != NO_NODE)
		return false;
	for (uint8_t i = 0; i < g->n_absent; i++)
		for (uint32_t c = n->first; c != NO_NODE; c = node_at(p, c)->next)
			if (node_at(p, c)->field == g->absent[i])
				return false;
	return true;
}

static uint32_t capture_command(const struct pass *p, uint32_t node)
{
	if (node_kind(p, node) == K_COMMAND_NAME)
		return node_at(p, node)->parent;
	return node_kind(p, node) == K_COMMAND ? node : NO_NODE;
}

/* Commands inside commands: how many ways there are to look at what was captured. */
static uint32_t count_views(struct pass *p, const uint32_t *captures)
{
	uint32_t most = 1;

	if (p->g->lang->language != LANGUAGE_SHELL)
		return 1;
	for (int i = 0; i < QUERY_CAPTURES_MAX; i++) {
		uint32_t c = captures[i] == NO_NODE ? NO_NODE : capture_command(p, captures[i]);

		if (c != NO_NODE)
			most = MAX2(most, shell_views(p, c));
	}
	return most;
}

static bool rule_holds(struct matcher *m)
{
	const struct rule *rule = &m->q->rules[m->pattern->rule];
	uint32_t captures[QUERY_CAPTURES_MAX], views, place = m->bound[0];
	struct pass *p = m->p;
	bool held = false;

	memset(captures, 0xff, sizeof(captures));
	for (uint8_t i = 0; i < m->pattern->n; i++)
		if (m->goals[i].capture != NO_GOAL)
			captures[m->goals[i].capture] = m->bound[i];
	views = count_views(p, captures);
	for (p->view = 0; p->view < views && p->trouble == 0; p->view++) {
		if (!predicates_hold(p, rule, captures))
			continue;
		directives_run(p, rule, captures);
		held = true;
	}
	p->view = 0;
	if (!held)
		return false;
	if (rule->hit != NO_GOAL && captures[rule->hit] != NO_NODE)
		place = captures[rule->hit];
	hits_add(p, rule, node_at(p, place)->start, node_at(p, place)->end);
	return true;
}

/* As deep as a pattern has goals. */
static bool match_goal(struct matcher *m, uint8_t k) // NOLINT(misc-no-recursion)
{
	const struct goal *g = &m->goals[k];
	struct pass *p = m->p;
	uint32_t c;

	if (k == m->pattern->n)
		return rule_holds(m);
	c = g->before == NO_GOAL ? node_at(p, m->bound[g->parent])->first
	                         : node_at(p, m->bound[g->before])->next;
	for (; c != NO_NODE; c = node_at(p, c)->next) {
		const struct node *n = node_at(p, c);

		if (++m->steps > STEPS_MAX) {
			p->trouble = -ETIME;
			return false;
		}
		if (goal_fits(p, g, c)) {
			m->bound[k] = c;
			if (match_goal(m, (uint8_t)(k + 1)))
				return true;
			if (p->trouble)
				return false;
		}
		if (g->at_once && n->named && n->kind != K_COMMENT)
			return false;
	}
	return false;
}

static void add_command_bits(struct pass *p, uint32_t command, struct name_bits *bits)
{
	uint32_t views = shell_views(p, command);

	for (p->view = 0; p->view < views; p->view++) {
		name_bits_add(bits, shell_name(p, command));
		if (shell_is_function(p, command))
			name_bits_add(bits, name_make(p, STR("<function>")));
	}
	p->view = 0;
}

static void add_node_bits(struct pass *p, uint32_t node, struct name_bits *bits)
{
	const struct names *names;

	if (capture_command(p, node) != NO_NODE) {
		add_command_bits(p, capture_command(p, node), bits);
		return;
	}
	names = resolve(p, node);
	for (uint32_t i = 0; i < names->n; i++)
		name_bits_add(bits, names->v[i]);
}

static void set_guard(struct pass *p, uint32_t node, uint16_t field, struct guard *g)
{
	*g = (struct guard){ .known = true, .field = field };
	if (!field) {
		add_node_bits(p, node, &g->bits);
		return;
	}
	for (uint32_t c = node_at(p, node)->first; c != NO_NODE; c = node_at(p, c)->next)
		if (node_at(p, c)->field == field)
			add_node_bits(p, c, &g->bits);
}

static bool bits_meet(const struct name_bits *a, const struct name_bits *b)
{
	for (int i = 0; i < NAME_BITS / 64; i++)
		if ((a->exact[i] & b->exact[i]) | (a->below[i] & b->below[i]) |
		    (a->any[i] & b->any[i]) | (a->inside[i] & b->inside[i]))
			return true;
	return false;
}

static bool guard_lets(struct matcher *m, uint32_t node, const struct pattern *pattern)
{
	struct guard *g = m->guards;

	if (!pattern->guarded)
		return true;
	while (g->known && g->field != pattern->guard_field && g < m->guards + GUARDS_MAX - 1)
		g++;
	if (!g->known || g->field != pattern->guard_field)
		set_guard(m->p, node, pattern->guard_field, g);
	return bits_meet(&g->bits, &pattern->bits);
}

static void try_list(struct matcher *m, uint32_t node, uint32_t list)
{
	const struct query *q = m->q;
	const struct pattern *pattern = q->patterns + q->lists[list],
			     *end = q->patterns + q->lists[list + 1];

	if (pattern == end)
		return;
	for (size_t i = 0; i < GUARDS_MAX; i++)
		m->guards[i].known = false;
	for (; pattern < end && m->p->trouble == 0; pattern++) {
		const struct goal *root = &q->goals[pattern->first];

		/* where a text is asked for, it says no before names are worked out */
		if ((root->texts != TEXTS_ANY && !goal_fits(m->p, root, node)) ||
		    !guard_lets(m, node, pattern) || !goal_fits(m->p, root, node))
			continue;
		m->pattern = pattern;
		m->goals = root;
		m->steps = 0;
		m->bound[0] = node;
		(void)match_goal(m, 1);
	}
}

static void bind_all(struct pass *p)
{
	for (uint32_t i = 0; i < p->tree.n; i++) {
		enum kind kind = node_kind(p, i);

		if ((kind >= K_FUNCTION && kind <= K_IMPORT_FROM) || kind == K_SET ||
		    kind == K_COMMAND)
			p->g->lang->bind(p, i);
		if (kind == K_CALL || kind == K_ASSIGN || kind == K_AUGMENT || kind == K_UPDATE ||
		    kind == K_DELETE)
			bind_changed(p, i);
	}
}

int match_all(struct pass *p)
{
	struct matcher m = { .p = p, .q = p->g->query };

	p->facts = calloc(p->tree.n, sizeof(*p->facts));
	if (!p->facts)
		return -ENOMEM;
	bind_all(p);
	for (uint32_t i = 0; i < p->tree.n && p->trouble == 0; i++) {
		const struct node *n = node_at(p, i);

		if ((i & 127) == 127 && deadline_passed(&p->deadline))
			p->trouble = -ETIME;
		if (n->symbol < p->g->n_symbols)
			try_list(&m, i, n->symbol);
		if (n->named)
			try_list(&m, i, p->g->n_symbols);
		if (n->kind == K_COMMAND)
			shell_embedded(p, i);
		if (n->kind == K_HEREDOC || n->kind == K_SUBST)
			shell_inner(p, i);
	}
	return p->trouble;
}

void pass_done(struct pass *p)
{
	arena_done(&p->pool);
	bindings_done(&p->bindings);
	free(p->facts);
	free(p->tree.v);
}

/* Worst first, then by place. */
static bool is_before(const struct hit *a, const struct hit *b)
{
	if (a->rule->proto.level != b->rule->proto.level)
		return a->rule->proto.level > b->rule->proto.level;
	return a->start < b->start;
}

void hits_add(struct pass *p, const struct rule *rule, uint32_t start, uint32_t end)
{
	struct hits *h = p->hits;
	struct hit hit = { rule, p->fixed ? p->start : start, p->fixed ? p->end : end };
	size_t at = h->n;

	h->level = MAX2(h->level, rule->proto.level);
	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].start == hit.start && streq(h->v[i].rule->proto.rule, rule->proto.rule))
			return;
	while (at > 0 && is_before(&hit, &h->v[at - 1]))
		at--;
	if (h->n == FINDINGS_KEPT)
		h->truncated = true;
	if (at == FINDINGS_KEPT)
		return;
	h->n = MIN2(h->n + 1, FINDINGS_KEPT);
	memmove(&h->v[at + 1], &h->v[at], (h->n - 1 - at) * sizeof(hit));
	h->v[at] = hit;
}
