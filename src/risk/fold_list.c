/* SPDX-License-Identifier: Apache-2.0 */
/* Constant lists: the way by which texts are built out of characters. */
#include <errno.h>

#include "risk/impl.h"

bool items_add(struct pass *p, struct items *items, struct value v)
{
	/* Powers of two from 8 on: the array is full exactly then. */
	if (items->n >= ITEMS_MAX)
		return false;
	if (items->n == 0 || (items->n >= 8 && (items->n & (items->n - 1)) == 0)) {
		uint32_t cap = items->n ? items->n * 2 : 8;
		struct value *more = arena_array(&p->pool, cap, sizeof(*more));

		if (!more) {
			p->trouble = -ENOMEM;
			return false;
		}
		if (items->n)
			memcpy(more, items->v, items->n * sizeof(*more));
		items->v = more;
	}
	items->v[items->n++] = v;
	return true;
}

static bool add_characters(struct pass *p, struct str s, struct items *out)
{
	for (size_t i = 0; i < s.n;) {
		size_t n = 1;
		struct value v;

		while (i + n < s.n && ((uint8_t)s.p[i + n] & 0xc0) == 0x80)
			n++;
		if (!value_text(p, (struct str){ s.p + i, n }, &v) || !items_add(p, out, v))
			return false;
		i += n;
	}
	return true;
}

static bool fold_elements(struct pass *p, uint32_t list, struct items *out)
{
	for (uint32_t c = node_named(p, list, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		const struct value *v;

		if (node_kind(p, c) == K_SPLAT) {
			struct items inner = { 0 };

			if (!fold_list(p, node_named(p, c, 0), &inner))
				return false;
			for (uint32_t i = 0; i < inner.n; i++)
				if (!items_add(p, out, inner.v[i]))
					return false;
			continue;
		}
		v = fold(p, c);
		if (v->kind == VALUE_NONE || !items_add(p, out, *v))
			return false;
	}
	return true;
}

bool fold_with(struct pass *p, uint32_t variable, uint32_t body, const struct items *over,
               struct items *ret)
{
	struct name outer = p->loop;
	bool good = true;

	if (outer.n || variable == NO_NODE || node_kind(p, variable) != K_IDENT)
		return false;
	p->loop = name_make(p, text_identifier(p, node_text(p, variable)));
	for (uint32_t i = 0; good && i < over->n; i++) {
		const struct value *v;

		p->loop_value = over->v[i];
		v = fold(p, body);
		good = v->kind != VALUE_NONE && items_add(p, ret, *v);
	}
	p->loop = outer;
	return good;
}

/* [f(x) for x in list], without conditions. */
static bool fold_comprehension(struct pass *p, uint32_t node, struct items *out)
{
	uint32_t body = node_named(p, node, 0), clause = node_named(p, node, 1);
	struct items over = { 0 };

	if (clause == NO_NODE || node_kind(p, clause) != K_EACH ||
	    node_named(p, node, 2) != NO_NODE)
		return false;
	return fold_list(p, node_field(p, clause, F_RIGHT), &over) &&
	       fold_with(p, node_field(p, clause, F_LEFT), body, &over, out);
}

static bool reverse_slice(struct pass *p, uint32_t node, struct items *out)
{
	uint32_t index = node_field(p, node, F_INDEX);
	struct items in = { 0 };
	struct str s = node_text(p, index);

	if (node_kind(p, index) != K_SLICE || !str_is(s, "::-1") ||
	    !fold_list(p, node_field(p, node, F_VALUE), &in))
		return false;
	for (uint32_t i = in.n; i > 0; i--)
		if (!items_add(p, out, in.v[i - 1]))
			return false;
	return true;
}

/* As deep as expressions are. */
bool fold_list(struct pass *p, uint32_t node, struct items *ret) // NOLINT(misc-no-recursion)
{
	uint32_t table = node == NO_NODE ? NO_NODE : table_of(p, node);
	struct items out = { 0 };
	bool good = false;

	if (node == NO_NODE || p->trouble || p->depth >= RESOLVE_DEPTH)
		return false;
	p->depth++;
	while (node_kind(p, node) == K_WRAP && table == NO_NODE)
		node = node_named(p, node, 0);
	if (table != NO_NODE && node_kind(p, table) == K_LIST)
		good = fold_elements(p, table, &out);
	else if (node_kind(p, node) == K_COMPREHEND)
		good = fold_comprehension(p, node, &out);
	else if (node_kind(p, node) == K_CALL)
		good = fold_call_list(p, node, &out);
	else if (node_kind(p, node) == K_INDEX)
		good = reverse_slice(p, node, &out);
	if (!good) {
		const struct value *v = node == NO_NODE ? NULL : fold(p, node);

		out = (struct items){ 0 };
		good = v && v->kind == VALUE_TEXT && add_characters(p, v->text, &out);
	}
	p->depth--;
	if (good)
		*ret = out;
	return good;
}
