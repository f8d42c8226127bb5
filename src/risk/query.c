/* SPDX-License-Identifier: Apache-2.0 */
/* Rules as they are matched: goals, predicates, and the patterns by the symbol they begin with. */
#include "risk/query.h"

#include <errno.h>

#include "risk/query_read.h"

#define QUERY_POOL_MAX (8 * MIB)

static int grow(void *v, uint32_t *cap, uint32_t n, size_t size, struct err *err)
{
	void **array = v;
	uint32_t more = *cap ? *cap * 2 : 128;
	void *p;

	if (n < *cap)
		return 0;
	p = realloc(*array, more * size);
	if (!p)
		return err_set(err, ERR_INTERNAL, ENOMEM, "rules");
	*array = p;
	*cap = more;
	return 0;
}

#define GROW(q, what, err)                                                                         \
	grow(&(q)->what, &(q)->cap_##what, (q)->n_##what, sizeof(*(q)->what), err)

/* ---- patterns ---- */

struct emit {
	struct query *q;
	struct query_reader *in;
	uint32_t first;                    /* goal of this pattern */
	uint8_t choice[QUERY_CHOICES_MAX]; /* alternative taken, in the order met */
	uint8_t of[QUERY_CHOICES_MAX];     /* how many there are */
	uint32_t n_choices;
};

static bool is_simple(const struct query_reader *in, const struct branch *choice)
{
	uint32_t n = 0;

	for (uint32_t i = choice->first; i != NO_NODE; i = in->branches[i].next, n++) {
		const struct branch *b = &in->branches[i];

		if ((b->kind != BRANCH_SYMBOL && b->kind != BRANCH_NEVER) || b->first != NO_NODE ||
		    b->n_absent || b->capture != NO_GOAL || b->field)
			return false;
	}
	return n <= QUERY_SYMBOLS_MAX;
}

/* The branch that stands here now: of a choice that is not simple, the alternative taken. */
static int choose(struct emit *e, struct branch *b)
{
	struct branch outer = *b;
	uint32_t at = e->n_choices, i = b->first;

	if (at == QUERY_CHOICES_MAX || i == NO_NODE)
		return query_read_fail(e->in, "a choice is empty, or there are too many");
	e->n_choices++;
	e->of[at] = 0;
	for (uint32_t k = i; k != NO_NODE; k = e->in->branches[k].next)
		e->of[at]++;
	for (uint8_t k = 0; k < e->choice[at]; k++)
		i = e->in->branches[i].next;
	*b = e->in->branches[i];
	if (b->capture != NO_GOAL && outer.capture != NO_GOAL)
		return query_read_fail(e->in, "a capture on a choice and inside it");
	if (b->capture == NO_GOAL)
		b->capture = outer.capture;
	if (b->field == 0)
		b->field = outer.field;
	b->at_once = outer.at_once;
	return 0;
}

static void set_symbols(const struct query_reader *in, const struct branch *b, struct goal *g)
{
	if (b->kind == BRANCH_CHOICE) {
		for (uint32_t i = b->first; i != NO_NODE; i = in->branches[i].next)
			if (in->branches[i].kind == BRANCH_SYMBOL)
				g->symbols[g->n_symbols++] = in->branches[i].symbol;
		g->kind = g->n_symbols ? GOAL_SYMBOL : GOAL_NEVER;
	} else if (b->kind == BRANCH_SYMBOL) {
		g->symbols[g->n_symbols++] = b->symbol;
	} else {
		g->kind = b->kind == BRANCH_NAMED ? GOAL_NAMED
		          : b->kind == BRANCH_ANY ? GOAL_ANY
		                                  : GOAL_NEVER;
	}
}

static int emit_goal(struct emit *e, uint32_t branch, uint8_t parent, uint8_t before, bool last,
                     uint8_t *ret);

static int emit_children(struct emit *e, const struct branch *b, uint8_t self)
{
	uint8_t before = NO_GOAL;

	for (uint32_t i = b->first; i != NO_NODE; i = e->in->branches[i].next) {
		bool last = b->ends && e->in->branches[i].next == NO_NODE;
		int r = emit_goal(e, i, self, before, last, &before);

		if (r < 0)
			return r;
	}
	return 0;
}

/* As deep as the pattern, which the reader bounds. */
static int emit_goal(struct emit *e, uint32_t branch, uint8_t parent, uint8_t before, bool last,
                     uint8_t *ret) // NOLINT(misc-no-recursion)
{
	struct branch b = e->in->branches[branch];
	uint32_t self = e->q->n_goals - e->first;
	struct goal *g;
	int r = 0;

	while (r == 0 && b.kind == BRANCH_CHOICE && !is_simple(e->in, &b))
		r = choose(e, &b);
	if (r == 0 && b.kind == BRANCH_GROUP)
		r = query_read_fail(e->in, "a group inside a pattern");
	if (r == 0 && self >= QUERY_GOALS_MAX)
		r = query_read_fail(e->in, "the pattern is too large");
	if (r == 0)
		r = GROW(e->q, goals, e->in->err);
	if (r < 0)
		return r;
	g = &e->q->goals[e->q->n_goals++];
	*g = (struct goal){ .parent = parent,
		            .before = before,
		            .capture = b.capture,
		            .at_once = b.at_once,
		            .last = last,
		            .field = b.field,
		            .n_absent = b.n_absent };
	memcpy(g->absent, b.absent, sizeof(g->absent));
	set_symbols(e->in, &b, g);
	*ret = (uint8_t)self;
	if (b.kind == BRANCH_CHOICE)
		return 0;
	return emit_children(e, &b, (uint8_t)self);
}

static int add_pattern(struct emit *e)
{
	int r = GROW(e->q, patterns, e->in->err);

	if (r < 0)
		return r;
	e->q->patterns[e->q->n_patterns++] = (struct pattern){
		.rule = e->q->n_rules - 1,
		.first = e->first,
		.n = (uint8_t)(e->q->n_goals - e->first),
	};
	return 0;
}

/* The next combination of alternatives; false: that was the last. */
static bool next_choice(struct emit *e)
{
	while (e->n_choices) {
		uint32_t i = e->n_choices - 1;

		if (++e->choice[i] < e->of[i])
			return true;
		e->choice[i] = 0;
		e->n_choices--;
	}
	return false;
}

static int emit_patterns(struct query *q, struct query_reader *in, uint32_t root)
{
	struct emit e = { .q = q, .in = in };
	uint32_t n = 0;

	do {
		uint8_t self;
		int r;

		if (n++ == QUERY_CHOICES_MAX)
			return query_read_fail(in, "too many choices in a rule");
		e.first = q->n_goals;
		e.n_choices = 0;
		r = emit_goal(&e, root, NO_GOAL, NO_GOAL, false, &self);
		if (r == 0)
			r = add_pattern(&e);
		if (r < 0)
			return r;
	} while (next_choice(&e));
	return 0;
}

/* ---- predicates ---- */

static const struct {
	const char *name;
	enum predicate_op op;
} predicate_names[] = {
	{ "eq?", PRED_EQ },
	{ "any-of?", PRED_EQ },
	{ "in?", PRED_IN },
	{ "read?", PRED_READ },
	{ "folded?", PRED_FOLDED },
	{ "module?", PRED_MODULE },
	{ "own?", PRED_OWN },
	{ "sed?", PRED_SED },
	{ "bomb?", PRED_BOMB },
	{ "match?", PRED_MATCH },
	{ "name?", PRED_NAME },
	{ "string?", PRED_STRING },
	{ "string-match?", PRED_STRING_MATCH },
	{ "line?", PRED_LINE },
	{ "dynamic?", PRED_DYNAMIC },
	{ "arg?", PRED_ARG },
	{ "no-arg?", PRED_NO_ARG },
	{ "dynamic-arg?", PRED_DYNAMIC_ARG },
	{ "embedded!", PRED_EMBEDDED },
	{ "command!", PRED_COMMAND },
};

static bool find_op(struct str name, enum predicate_op *ret)
{
	for (size_t i = 0; i < ELEMENTSOF(predicate_names); i++) {
		if (str_is(name, predicate_names[i].name)) {
			*ret = predicate_names[i].op;
			return true;
		}
	}
	return false;
}

static int add_literal(struct query *q, struct query_reader *in, struct str s, bool pattern)
{
	struct literal l = { .p = s.p, .n = (uint32_t)s.n };
	int r = GROW(q, literals, in->err);

	if (r < 0)
		return r;
	if (pattern && l.n > 2 && memcmp(l.p, "*.", 2) == 0) {
		l.any = true;
		l.p += 2;
		l.n -= 2;
	}
	if (pattern && l.n > 2 && memcmp(l.p + l.n - 2, ".*", 2) == 0) {
		l.below = true;
		l.n -= 2;
	}
	l.hash = hash_bytes(l.p, l.n);
	q->literals[q->n_literals++] = l;
	return 0;
}

static int add_regex(struct query *q, struct query_reader *in, struct str s, uint32_t *ret)
{
	int r = GROW(q, regexes, in->err);

	if (r < 0)
		return r;
	q->regexes[q->n_regexes] = (struct regex){ .source = s.p };
	*ret = q->n_regexes++;
	return 0;
}

static int order_literals(const void *a, const void *b)
{
	const struct literal *x = a, *y = b;
	int wild = (x->any || x->below) - (y->any || y->below);

	if (wild)
		return wild;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Exact names by hash, then the others; gives the number of the former. */
static uint32_t sort_names(struct literal *v, uint32_t n)
{
	uint32_t exact = 0;

	qsort(v, n, sizeof(*v), order_literals);
	while (exact < n && !v[exact].any && !v[exact].below)
		exact++;
	return exact;
}

static int add_predicate(struct query *q, struct query_reader *in, const struct query_item *item)
{
	struct predicate p = { .capture = item->capture,
		               .other = item->other,
		               .first = q->n_literals,
		               .regex = NO_NODE };
	struct str op = item->op;
	bool regex;
	int r = 0;

	if (!find_op(op, &p.op) && op.n > 4 && memcmp(op.p, "not-", 4) == 0) {
		p.negate = true;
		op = (struct str){ op.p + 4, op.n - 4 };
	}
	if (!find_op(op, &p.op))
		return query_read_fail(in, "no such predicate");
	if (p.capture == NO_GOAL)
		return query_read_fail(in, "a predicate has no capture");
	if (p.other != NO_GOAL && p.op != PRED_EQ)
		return query_read_fail(in, "only #eq? takes two captures");
	regex = p.op == PRED_MATCH || p.op == PRED_STRING_MATCH || p.op == PRED_ARG ||
	        p.op == PRED_LINE;
	if (regex && item->n != 1u + (p.op == PRED_ARG))
		return query_read_fail(in, "a predicate lacks its expression");
	for (uint32_t i = 0; r == 0 && i < item->n - regex; i++)
		r = add_literal(q, in, in->texts[item->first + i], p.op == PRED_NAME);
	p.n = q->n_literals - p.first;
	if (r == 0 && p.op == PRED_NAME && p.n)
		p.n_exact = sort_names(q->literals + p.first, p.n);
	if (r == 0 && regex)
		r = add_regex(q, in, in->texts[item->first + item->n - 1], &p.regex);
	if (r == 0)
		r = GROW(q, predicates, in->err);
	if (r == 0)
		q->predicates[q->n_predicates++] = p;
	return r;
}

static void copy_text(char *to, size_t size, struct str s)
{
	size_t n = MIN2(s.n, size - 1);

	memcpy(to, s.p, n);
	to[n] = 0;
}

/* #rule! "id" level "category" "message" */
static int read_rule(struct query_reader *in, const struct query_item *item, struct rule *rule)
{
	const struct str *t = &in->texts[item->first];
	char level[16];

	if (item->n != 4)
		return query_read_fail(in, "#rule! takes an id, a level, a category, a message");
	if (t[0].n >= RULE_ID_SIZE || t[2].n >= RULE_CAT_SIZE || t[3].n >= RULE_TEXT_SIZE)
		return query_read_fail(in, "a text of #rule! is too long");
	copy_text(level, sizeof(level), t[1]);
	if (risk_level_from_name(level, &rule->proto.level) < 0)
		return query_read_fail(in, "no such level");
	copy_text(rule->proto.rule, sizeof(rule->proto.rule), t[0]);
	copy_text(rule->proto.category, sizeof(rule->proto.category), t[2]);
	copy_text(rule->proto.message, sizeof(rule->proto.message), t[3]);
	return 0;
}

/* Cheap ones first; directives are at the end of the enumeration. */
static void sort_predicates(struct predicate *v, uint32_t n)
{
	static const uint8_t cost[] = {
		[PRED_EQ] = 0,          [PRED_NAME] = 1,     [PRED_NO_ARG] = 2,
		[PRED_DYNAMIC_ARG] = 3, [PRED_DYNAMIC] = 3,  [PRED_STRING] = 3,
		[PRED_LINE] = 5,        [PRED_MATCH] = 4,    [PRED_STRING_MATCH] = 5,
		[PRED_ARG] = 5,         [PRED_EMBEDDED] = 6, [PRED_COMMAND] = 6,
		[PRED_IN] = 0,          [PRED_READ] = 0,     [PRED_FOLDED] = 0,
		[PRED_MODULE] = 2,      [PRED_OWN] = 2,      [PRED_SED] = 4,
		[PRED_BOMB] = 4,
	};

	for (uint32_t i = 1; i < n; i++) {
		for (uint32_t k = i; k > 0 && cost[v[k].op] < cost[v[k - 1].op]; k--) {
			struct predicate swap = v[k];

			v[k] = v[k - 1];
			v[k - 1] = swap;
		}
	}
}

static int add_rule(struct query *q, struct query_reader *in, uint32_t root)
{
	struct rule rule = { .first = q->n_predicates, .hit = NO_GOAL };
	uint32_t n_rule = 0;
	int r = q->n_rules < QUERY_RULES_MAX ? GROW(q, rules, in->err)
	                                     : query_read_fail(in, "too many rules");

	for (uint32_t i = 0; r == 0 && i < in->n_items; i++) {
		if (str_is(in->items[i].op, "rule!")) {
			n_rule++;
			r = read_rule(in, &in->items[i], &rule);
		} else {
			r = add_predicate(q, in, &in->items[i]);
		}
	}
	if (r == 0 && n_rule != 1)
		r = query_read_fail(in, "a rule has exactly one #rule!");
	if (r < 0)
		return r;
	for (uint8_t i = 0; i < in->n_captures; i++)
		if (str_is(in->captures[i], "hit"))
			rule.hit = i;
	rule.n = q->n_predicates - rule.first;
	if (rule.n)
		sort_predicates(q->predicates + rule.first, rule.n);
	q->rules[q->n_rules++] = rule;
	if (in->branches[root].kind == BRANCH_GROUP) {
		uint8_t outer = in->branches[root].capture;

		root = in->branches[root].first;
		if (root == NO_NODE || in->branches[root].next != NO_NODE)
			return query_read_fail(in, "a group holds one pattern");
		if (in->branches[root].capture == NO_GOAL)
			in->branches[root].capture = outer;
	}
	return emit_patterns(q, in, root);
}

/* Counts over the whole text: patterns hold indices, for the arrays move while they grow. */
int query_new(const struct grammar *g, struct str source, struct query **ret, struct err *err)
{
	CLEANUP_FREE struct query_reader *in = calloc(1, sizeof(*in));
	struct query *q = calloc(1, sizeof(*q));
	uint32_t root = 0;
	int r = 1;

	if (!in || !q) {
		free(q);
		return err_set(err, ERR_INTERNAL, ENOMEM, "rules");
	}
	q->pool = ARENA_INIT(QUERY_POOL_MAX);
	in->g = g;
	in->pool = &q->pool;
	in->source = source;
	in->err = err;
	while (r > 0) {
		r = query_read_rule(in, &root);
		if (r <= 0)
			break;
		r = add_rule(q, in, root);
		r = r < 0 ? r : 1;
	}
	if (r == 0)
		r = query_index(q, g, err);
	if (r < 0) {
		query_free(q);
		return r;
	}
	*ret = q;
	return 0;
}

void query_free(struct query *q)
{
	if (!q)
		return;
	regexes_free(q);
	free(q->rules);
	free(q->patterns);
	free(q->goals);
	free(q->predicates);
	free(q->literals);
	free(q->regexes);
	free(q->lists);
	arena_done(&q->pool);
	free(q);
}
