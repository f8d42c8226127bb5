/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a .scm file into the trees that query.c makes patterns of. Bounded in depth and numbers; an
 * error names the line.
 */
#include "risk/query_read.h"

#include <errno.h>

static int fail(struct query_reader *in, const char *what)
{
	uint32_t line = 1;

	for (size_t i = 0; i < in->at && i < in->source.n; i++)
		line += in->source.p[i] == '\n';
	return err_set(in->err, ERR_INVALID, 0, "rules, line %u: %s", line, what);
}

static int peek(const struct query_reader *in)
{
	return in->at < in->source.n ? (uint8_t)in->source.p[in->at] : -1;
}

static void skip_blanks(struct query_reader *in)
{
	for (;;) {
		int c = peek(in);

		if (c == ';') {
			while (peek(in) != '\n' && peek(in) != -1)
				in->at++;
		} else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			in->at++;
		} else {
			return;
		}
	}
}

static bool is_word(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.' || c == '?' || c == '!';
}

static struct str read_word(struct query_reader *in)
{
	size_t start = in->at;

	while (is_word(peek(in)))
		in->at++;
	return (struct str){ in->source.p + start, in->at - start };
}

static bool take(struct query_reader *in, char c)
{
	skip_blanks(in);
	if (peek(in) != c)
		return false;
	in->at++;
	return true;
}

static int read_string(struct query_reader *in, struct str *ret)
{
	size_t n = 0;
	char *out;

	in->at++;
	for (size_t i = in->at; i < in->source.n && in->source.p[i] != '"'; i++, n++)
		i += in->source.p[i] == '\\';
	out = arena_alloc(in->pool, n + 1);
	if (!out)
		return err_set(in->err, ERR_INTERNAL, ENOMEM, "rules");
	n = 0;
	while (peek(in) != '"') {
		int c = peek(in);

		if (c == '\\') {
			in->at++;
			c = peek(in);
			c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
		}
		if (c < 0)
			return fail(in, "a string does not end");
		out[n++] = (char)c;
		in->at++;
	}
	in->at++;
	*ret = (struct str){ out, n };
	return 0;
}

static int read_capture(struct query_reader *in, uint8_t *ret)
{
	struct str name;
	uint8_t i = 0;

	in->at++;
	name = read_word(in);
	if (name.n == 0)
		return fail(in, "a capture without a name");
	while (i < in->n_captures && !str_eq(in->captures[i], name))
		i++;
	if (i == QUERY_CAPTURES_MAX)
		return fail(in, "too many captures");
	if (i == in->n_captures)
		in->captures[in->n_captures++] = name;
	*ret = i;
	return 0;
}

static int add_item(struct query_reader *in)
{
	if (in->n_items == QUERY_ITEMS_MAX)
		return fail(in, "too many predicates");
	in->items[in->n_items] =
		(struct query_item){ .capture = NO_GOAL, .other = NO_GOAL, .first = in->n_texts };
	return 0;
}

/* After "(#". */
static int read_item(struct query_reader *in)
{
	struct query_item *item = &in->items[in->n_items];
	int r = add_item(in);

	if (r < 0)
		return r;
	item->op = read_word(in);
	for (;;) {
		struct str text = { 0 };

		skip_blanks(in);
		if (peek(in) == ')')
			break;
		if (peek(in) == '@') {
			if (item->other != NO_GOAL)
				return fail(in, "a predicate takes two captures at most");
			r = read_capture(in,
			                 item->capture == NO_GOAL ? &item->capture : &item->other);
			if (r < 0)
				return r;
			continue;
		}
		if (peek(in) == '"')
			r = read_string(in, &text);
		else
			text = read_word(in);
		if (r < 0)
			return r;
		if (!text.p || (text.n == 0 && in->source.p[in->at - 1] != '"'))
			return fail(in, "not understood in a predicate");
		if (in->n_texts == QUERY_TEXTS_MAX)
			return fail(in, "too many strings");
		in->texts[in->n_texts++] = text;
		item->n++;
	}
	in->at++;
	in->n_items++;
	return 0;
}

static int add_branch(struct query_reader *in, uint32_t *ret)
{
	if (in->n_branches == QUERY_BRANCHES_MAX)
		return fail(in, "the pattern is too large");
	in->branches[in->n_branches] = (struct branch){
		.capture = NO_GOAL, .first = NO_NODE, .last_child = NO_NODE, .next = NO_NODE
	};
	*ret = in->n_branches++;
	return 0;
}

static void add_child(struct query_reader *in, uint32_t parent, uint32_t child)
{
	struct branch *b = &in->branches[parent];

	if (b->first == NO_NODE)
		b->first = child;
	else
		in->branches[b->last_child].next = child;
	b->last_child = child;
}

static uint16_t symbol_of(struct query_reader *in, struct str name, bool named)
{
	uint32_t i = hash_bytes(name.p, name.n) % QUERY_NAMES_MAX;

	if (!str_eq(in->symbols[i].name, name) || in->symbols[i].named != named) {
		in->symbols[i].name = name;
		in->symbols[i].named = named;
		in->symbols[i].symbol =
			ts_language_symbol_for_name(in->g->ts, name.p, (uint32_t)name.n, named);
	}
	return in->symbols[i].symbol;
}

static void set_symbol(struct query_reader *in, struct branch *b, struct str name, bool named)
{
	b->symbol = symbol_of(in, name, named);
	b->kind = b->symbol ? BRANCH_SYMBOL : BRANCH_NEVER;
}

static int read_pattern(struct query_reader *in, uint32_t depth, uint32_t *ret);

static int read_absent(struct query_reader *in, uint32_t parent)
{
	struct branch *b = &in->branches[parent];
	struct str name;
	uint16_t id;

	in->at++;
	name = read_word(in);
	if (b->n_absent == QUERY_ABSENT_MAX)
		return fail(in, "too many absent fields");
	id = ts_language_field_id_for_name(in->g->ts, name.p, (uint32_t)name.n);
	if (id)
		b->absent[b->n_absent++] = id;
	return 0;
}

/* "name:" before a pattern; leaves the place alone when there is none. */
static bool read_field(struct query_reader *in, uint16_t *ret, bool *ret_known)
{
	size_t start = in->at;
	struct str name = read_word(in);

	if (name.n == 0 || peek(in) != ':') {
		in->at = start;
		return false;
	}
	in->at++;
	*ret = ts_language_field_id_for_name(in->g->ts, name.p, (uint32_t)name.n);
	*ret_known = *ret != 0;
	return true;
}

static int read_child(struct query_reader *in, uint32_t parent, uint32_t depth, bool at_once)
{
	bool known = true;
	uint16_t field = 0;
	uint32_t child = 0;
	int r;

	if (is_word(peek(in)) && peek(in) != '_')
		if (!read_field(in, &field, &known))
			return fail(in, "a field has no colon");
	skip_blanks(in);
	r = read_pattern(in, depth + 1, &child);
	if (r < 0)
		return r;
	in->branches[child].field = field;
	in->branches[child].at_once = at_once;
	if (!known)
		in->branches[child].kind = BRANCH_NEVER;
	add_child(in, parent, child);
	return 0;
}

static int read_children(struct query_reader *in, uint32_t parent, uint32_t depth, char end)
{
	bool anchor = false;

	for (;;) {
		int r;

		skip_blanks(in);
		if (peek(in) == end)
			break;
		if (peek(in) == '.') {
			in->at++;
			anchor = true;
			continue;
		}
		if (peek(in) == '!')
			r = read_absent(in, parent);
		else if (peek(in) == '(' && in->at + 1 < in->source.n &&
		         in->source.p[in->at + 1] == '#') {
			in->at += 2;
			r = read_item(in);
		} else {
			r = read_child(in, parent, depth, anchor);
			anchor = false;
		}
		if (r < 0)
			return r;
	}
	in->at++;
	in->branches[parent].ends = anchor;
	return 0;
}

/* After "(": a node, or a group of one pattern and its predicates. */
static int read_node(struct query_reader *in, uint32_t at, uint32_t depth)
{
	struct str name;

	skip_blanks(in);
	if (peek(in) == '(' || peek(in) == '[' || peek(in) == '"') {
		in->branches[at].kind = BRANCH_GROUP;
	} else {
		name = read_word(in);
		if (name.n == 0)
			return fail(in, "a pattern has no type");
		if (str_is(name, "_"))
			in->branches[at].kind = BRANCH_NAMED;
		else
			set_symbol(in, &in->branches[at], name, true);
	}
	return read_children(in, at, depth, ')');
}

static int read_pattern(struct query_reader *in, uint32_t depth, uint32_t *ret)
{
	struct str text = { 0 };
	uint32_t at = 0;
	int r;

	if (depth > QUERY_DEPTH_MAX)
		return fail(in, "nested too deeply");
	r = add_branch(in, &at);
	if (r < 0)
		return r;
	if (take(in, '(')) {
		r = read_node(in, at, depth);
	} else if (take(in, '[')) {
		in->branches[at].kind = BRANCH_CHOICE;
		r = read_children(in, at, depth, ']');
	} else if (peek(in) == '"') {
		r = read_string(in, &text);
		if (r == 0)
			set_symbol(in, &in->branches[at], text, false);
	} else if (peek(in) == '_') {
		in->at++;
		in->branches[at].kind = BRANCH_ANY;
	} else {
		return fail(in, "a pattern was expected");
	}
	skip_blanks(in);
	if (r == 0 && peek(in) == '@')
		r = read_capture(in, &in->branches[at].capture);
	if (r == 0 && (peek(in) == '*' || peek(in) == '+' || peek(in) == '?'))
		r = fail(in, "there are no quantifiers");
	if (r == 0)
		*ret = at;
	return r;
}

int query_read_rule(struct query_reader *in, uint32_t *ret)
{
	skip_blanks(in);
	if (peek(in) < 0)
		return 0;
	in->n_branches = in->n_items = in->n_texts = 0;
	in->n_captures = 0;
	in->line_at = in->at;
	if (peek(in) != '(')
		return fail(in, "a rule begins with a parenthesis");
	return read_pattern(in, 0, ret) < 0 ? -EINVAL : 1;
}

int query_read_fail(struct query_reader *in, const char *what)
{
	return fail(in, what);
}
