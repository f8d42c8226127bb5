/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source text -> flat tree. One walk copies what the rules need out of tree-sitter's tree, which is
 * slow to move in; indices replace pointers, and a child is found without a search.
 */
#include <errno.h>
#include <limits.h>

#include "base/clock.h"
#include "risk/impl.h"
#include "risk/query.h"

#define PARSE_SLICE_US 20000 /* between looks at the clocks */
#define WALL_FACTOR    10    /* a busy host gives us a tenth of a processor */

static int load_names(struct grammar *g, struct err *err)
{
	g->n_symbols = ts_language_symbol_count(g->ts);
	g->n_fields = ts_language_field_count(g->ts) + 1;
	g->kinds = calloc(g->n_symbols, 1);
	g->fields = calloc(g->n_fields, 1);
	if (!g->kinds || !g->fields)
		return err_set(err, ERR_INTERNAL, ENOMEM, "grammar");
	for (const struct kind_name *k = g->lang->kinds; k->name; k++) {
		TSSymbol s = ts_language_symbol_for_name(g->ts, k->name, (uint32_t)strlen(k->name),
		                                         true);

		if (s && s < g->n_symbols)
			g->kinds[s] = (uint8_t)k->kind;
	}
	for (const struct field_name *f = g->lang->fields; f->name; f++) {
		TSFieldId id =
			ts_language_field_id_for_name(g->ts, f->name, (uint32_t)strlen(f->name));

		if (id && id < g->n_fields)
			g->fields[id] = (uint8_t)f->field;
	}
	return 0;
}

int grammar_load(struct grammar *g, const TSLanguage *ts, const struct lang *lang, struct str rules,
                 struct err *err)
{
	int r;

	g->ts = ts;
	g->lang = lang;
	g->parser = ts_parser_new();
	if (!g->parser || !ts_parser_set_language(g->parser, ts))
		return err_set(err, ERR_INTERNAL, EPROTO, "the grammar does not fit the library");
	r = load_names(g, err);
	if (r < 0)
		return r;
	return query_new(g, rules, &g->query, err);
}

void grammar_done(struct grammar *g)
{
	query_free(g->query);
	ts_parser_delete(g->parser);
	free(g->kinds);
	free(g->fields);
	*g = (struct grammar){ 0 };
}

static int tree_grow(struct tree *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : 512;
	struct node *v;

	if (t->n < t->cap)
		return 0;
	v = realloc(t->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	t->v = v;
	t->cap = cap;
	return 0;
}

struct walk {
	TSTreeCursor at;
	uint32_t path[RISK_DEPTH_MAX + 1]; /* nodes from the root down */
	uint32_t depth;
	uint32_t error; /* first byte that does not parse; NO_NODE: none */
	bool excused;   /* an error was seen, whether it counts or not */
	bool unsound;   /* there are errors somewhere: only then may tokens be missing */
};

/*
 * The shell's grammar stumbles over some arithmetic, subscripts and substrings. They run nothing,
 * unless there is a substitution in them.
 */
static bool is_sum(const struct pass *p, uint32_t error)
{
	struct str s = node_text(p, error);
	uint32_t up = node_at(p, error)->parent;

	if (p->g->lang->language != LANGUAGE_SHELL || memmem(s.p, s.n, "$(", 2) ||
	    memmem(s.p, s.n, "<(", 2) || memmem(s.p, s.n, ">(", 2) || memchr(s.p, '`', s.n) ||
	    memchr(s.p, '\n', s.n))
		return false;
	for (int i = 0; i < 4 && up != NO_NODE; i++, up = node_at(p, up)->parent) {
		enum kind kind = node_kind(p, up);
		struct str t = node_text(p, up);

		if (kind == K_ARITH || kind == K_EXPAND || kind == K_SUBSCRIPT ||
		    (t.n > 2 && t.p[0] == '(' && t.p[1] == '('))
			return true;
	}
	return false;
}

/* Member by member: a whole node put together elsewhere takes longer to copy than to make. */
static void node_set(struct node *to, const struct pass *p, const struct walk *w, TSNode n)
{
	to->symbol = ts_node_symbol(n);
	to->field = ts_tree_cursor_current_field_id(&w->at);
	to->kind = to->symbol < p->g->n_symbols ? p->g->kinds[to->symbol] : K_OTHER;
	to->named = ts_node_is_named(n);
	to->parent = w->depth ? w->path[w->depth - 1] : NO_NODE;
	to->first = NO_NODE;
	to->next = NO_NODE;
	to->start = ts_node_start_byte(n);
	to->end = ts_node_end_byte(n);
}

static int walk_note(struct pass *p, struct walk *w, bool first)
{
	TSNode n = ts_tree_cursor_current_node(&w->at);
	uint32_t i = p->tree.n;
	const struct node *node;
	bool bad;

	if (i >= RISK_NODES_MAX)
		return -EFBIG;
	if ((i & 4095) == 4095 && deadline_passed(&p->deadline))
		return -ETIME;
	if (tree_grow(&p->tree) < 0)
		return -ENOMEM;
	node_set(&p->tree.v[p->tree.n++], p, w, n);
	node = node_at(p, i);
	bad = node->symbol == (TSSymbol)-1 || (w->unsound && ts_node_is_missing(n));
	if (bad && w->error == NO_NODE && !is_sum(p, i))
		w->error = node->start;
	w->excused = w->excused || bad;
	if (node->parent != NO_NODE) {
		if (first)
			p->tree.v[node->parent].first = i;
		else
			p->tree.v[w->path[w->depth]].next = i;
	}
	w->path[w->depth] = i;
	return 0;
}

static int walk_tree(struct pass *p, struct walk *w)
{
	int r = walk_note(p, w, true);

	while (r == 0) {
		if (ts_tree_cursor_goto_first_child(&w->at)) {
			if (++w->depth > RISK_DEPTH_MAX)
				return -ELOOP;
			r = walk_note(p, w, true);
			continue;
		}
		while (!ts_tree_cursor_goto_next_sibling(&w->at)) {
			if (!ts_tree_cursor_goto_parent(&w->at))
				return 0;
			w->depth--;
		}
		r = walk_note(p, w, false);
	}
	return r;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts = { 0 };

	/* Should it fail, the wall clock's bound is left. */
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct deadline deadline_in(uint64_t cpu_ms)
{
	uint64_t now = clock_ns(), limit = cpu_ms * 1000000u;

	return (struct deadline){ cpu_ns() + limit, now + limit * WALL_FACTOR, now + limit };
}

bool deadline_passed(const struct deadline *d)
{
	uint64_t now = clock_ns();

	return now > d->early_ns && (now > d->wall_ns || cpu_ns() > d->cpu_ns);
}

/* The library counts time, and not always right: it goes on until our own clocks say no. */
static TSTree *parse_until(TSParser *parser, struct str text, const struct deadline *d)
{
	TSTree *t = NULL;

	ts_parser_set_timeout_micros(parser, PARSE_SLICE_US);
	while (!t && !deadline_passed(d))
		t = ts_parser_parse_string(parser, NULL, text.p, (uint32_t)text.n);
	return t;
}

int tree_parse(struct pass *p, uint32_t *ret_error)
{
	struct walk w = { .error = NO_NODE };
	TSNode root;
	TSTree *t;
	int r;

	t = parse_until(p->g->parser, p->text, &p->deadline);
	if (!t) {
		ts_parser_reset(p->g->parser);
		return -ETIME;
	}
	root = ts_tree_root_node(t);
	w.unsound = ts_node_has_error(root);
	w.at = ts_tree_cursor_new(root);
	p->tree.n = 0;
	r = walk_tree(p, &w);
	if (r == 0 && w.error == NO_NODE && !w.excused && w.unsound)
		w.error = 0;
	ts_tree_cursor_delete(&w.at);
	ts_tree_delete(t);
	if (r == 0)
		*ret_error = w.error;
	return r;
}

struct str node_text(const struct pass *p, uint32_t i)
{
	const struct node *n;

	if (i == NO_NODE)
		return STR("");
	n = node_at(p, i);
	return (struct str){ p->text.p + n->start, n->end - n->start };
}

uint32_t node_field(const struct pass *p, uint32_t i, enum field f)
{
	if (i == NO_NODE)
		return NO_NODE;
	for (uint32_t c = node_at(p, i)->first; c != NO_NODE; c = node_at(p, c)->next)
		if (node_at(p, c)->field && p->g->fields[node_at(p, c)->field] == f)
			return c;
	return NO_NODE;
}

uint32_t node_skip(const struct pass *p, uint32_t i)
{
	while (i != NO_NODE && (!node_at(p, i)->named || node_at(p, i)->kind == K_COMMENT))
		i = node_at(p, i)->next;
	return i;
}

uint32_t node_named(const struct pass *p, uint32_t i, uint32_t nth)
{
	uint32_t c = i == NO_NODE ? NO_NODE : node_skip(p, node_at(p, i)->first);

	while (c != NO_NODE && nth--)
		c = node_skip(p, node_at(p, c)->next);
	return c;
}

uint32_t node_last(const struct pass *p, uint32_t i)
{
	uint32_t last = NO_NODE;

	for (uint32_t c = node_named(p, i, 0); c != NO_NODE; c = node_skip(p, node_at(p, c)->next))
		last = c;
	return last;
}
