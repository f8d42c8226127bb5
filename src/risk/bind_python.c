/* SPDX-License-Identifier: Apache-2.0 */
/* What a statement of Python binds: imports, assignments, loops, definitions. */
#include "risk/impl.h"

/* A statement of the module itself: nothing decides whether it is reached. */
static bool is_plain(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	if (up != NO_NODE && node_kind(p, up) == K_WRAP)
		up = node_at(p, up)->parent;
	return up == 0;
}

struct str python_first_part(struct str s)
{
	const char *dot = memchr(s.p, '.', s.n);

	return dot ? (struct str){ s.p, (size_t)(dot - s.p) } : s;
}

/* import a.b, c as d */
static void bind_import(struct pass *p, uint32_t node)
{
	bool plain = is_plain(p, node);
	uint32_t at = node_at(p, node)->start;

	for (uint32_t c = node_named(p, node, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		const struct names *full = resolve(p, c);
		struct str s;

		if (full->n == 0)
			continue;
		s = (struct str){ full->v[0].p, full->v[0].n };
		bind_module(p, full->v[0]);
		if (node_kind(p, c) == K_ALIAS) {
			bind_name(p, node_text(p, node_field(p, c, F_ALIAS)), full->v[0], plain,
			          at);
		} else {
			if (python_first_part(s).n < s.n)
				bind_module(p, name_make(p, python_first_part(s)));
			s = python_first_part(s);
			bind_name(p, s, name_make(p, s), plain, at);
		}
	}
}

/* By custom, what begins with a capital is a class. */
static bool may_be_module(struct name name)
{
	uint32_t at = name.n;

	while (at > 0 && name.p[at - 1] != '.')
		at--;
	return at < name.n && (name.p[at] < 'A' || name.p[at] > 'Z');
}

/* from a import b as c */
static void bind_import_from(struct pass *p, uint32_t node)
{
	uint32_t module = node_field(p, node, F_MODULE), at = node_at(p, node)->start;
	bool plain = is_plain(p, node);

	for (uint32_t c = node_named(p, node, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		const struct names *full;

		if (c == module)
			continue;
		if (node_kind(p, c) == K_STAR) {
			full = resolve(p, module);
			if (full->n && p->bindings.n_stars < STARS_MAX)
				p->bindings.stars[p->bindings.n_stars++] = full->v[0];
			continue;
		}
		full = resolve(p, c);
		if (full->n && may_be_module(full->v[0]))
			bind_module(p, full->v[0]);
		if (full->n)
			bind_name(p,
			          node_kind(p, c) == K_ALIAS
			                  ? node_text(p, node_field(p, c, F_ALIAS))
			                  : node_text(p, c),
			          full->v[0], plain, at);
	}
}

/* The function or comprehension whose own name this is; 0: none, or "global" speaks of others. */
static uint32_t scope_of(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	for (int i = 0; i < RISK_DEPTH_MAX && up != NO_NODE; i++, up = node_at(p, up)->parent) {
		enum kind kind = node_kind(p, up);

		if (kind == K_COMPREHEND && node_kind(p, node) == K_EACH)
			return up;
		if (kind == K_FUNCTION)
			return up;
		if (kind == K_DEFINE && node_field(p, up, F_ARGUMENT) != NO_NODE)
			return memmem(node_text(p, up).p, node_text(p, up).n, "global", 6) ? 0 : up;
		if (kind == K_DEFINE)
			return 0; /* a class: its methods do not see it */
	}
	return 0;
}

/* The block behind whose statement the name has its new meaning; 0: none. A class's is not seen by
 * its methods. */
static uint32_t block_of(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent, above;

	if (up == NO_NODE || node_kind(p, up) != K_WRAP)
		return 0;
	up = node_at(p, up)->parent;
	if (up == NO_NODE || up == 0)
		return 0;
	above = node_at(p, up)->parent;
	if (node_kind(p, above) == K_DEFINE && node_field(p, above, F_ARGUMENT) == NO_NODE)
		return 0;
	return up;
}

/* The class that a function is a method of; NO_NODE: none. */
static uint32_t class_of(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	for (int i = 0; i < 2 && up != NO_NODE && node_kind(p, up) != K_DEFINE; i++)
		up = node_at(p, up)->parent; /* the block, and what a decorator adds */
	return node_kind(p, up) == K_DEFINE && node_field(p, up, F_ARGUMENT) == NO_NODE ? up
	                                                                                : NO_NODE;
}

static uint32_t either(uint32_t a, uint32_t b)
{
	return a != NO_NODE ? a : b;
}

/* Every name in it, in whatever lists. */
static void bind_deleted(struct pass *p, uint32_t node)
{
	uint32_t end = node_at(p, node)->end;

	for (uint32_t i = node; i < p->tree.n && node_at(p, i)->start < end; i++)
		if (node_kind(p, i) == K_IDENT)
			bind_name(p, node_text(p, i), (struct name){ 0 }, false, NO_NODE);
}

/* A class is known as ".Name": the text's own. Defaults and bases see what the name meant before.
 */
static void bind_definition(struct pass *p, uint32_t node)
{
	bool class = node_field(p, node, F_ARGUMENT) == NO_NODE;
	uint32_t body = node_field(p, node, F_BODY), of = class_of(p, node);
	uint32_t at = class || body == NO_NODE ? node_at(p, node)->end : node_at(p, body)->start;
	struct str name = node_text(p, node_field(p, node, F_NAME));
	struct name own = { 0 };

	if (class)
		own = name_join(p, name_make(p, STR("")), text_identifier(p, name));
	bind_name(p, name, own, is_plain(p, node), at);
	if (of != NO_NODE)
		bind_method(p, of, name);
}

void python_bind(struct pass *p, uint32_t node)
{
	struct binding how = { .at = node_at(p, node)->start };
	uint32_t left = node_field(p, node, F_LEFT), right = node_field(p, node, F_RIGHT);

	switch ((int)node_kind(p, node)) {
	case K_ASSIGN:
		how.at = node_at(p, node)->end; /* the old meaning holds on the right */
		how.scope = scope_of(p, node);
		if (how.scope == 0)
			how.scope = block_of(p, node);
		how.shadows = left != NO_NODE && right != NO_NODE &&
		              (is_plain(p, node) || (how.scope && how.scope == block_of(p, node)));
		right = either(right, node_field(p, node, F_VALUE));
		if (right != NO_NODE)
			bind_target(p, either(left, node_field(p, node, F_NAME)), right, how);
		break;
	case K_AUGMENT:
		how.append = true;
		bind_target(p, left, right, how);
		break;
	case K_EACH:
		how.scope = scope_of(p, node);
		if (how.scope == 0 && node_field(p, node, F_BODY) != NO_NODE)
			how.scope = node_field(p, node, F_BODY); /* of a loop */
		how.element = true;
		bind_target(p, left, right, how);
		break;
	case K_PARAMS:
		bind_unknown_all(p, node, node_at(p, node)->parent);
		break;
	case K_AS:
		how.element = node_kind(p, node_named(p, node, 0)) == K_LIST;
		bind_target(p, node_field(p, node, F_ALIAS), node_named(p, node, 0), how);
		break;
	case K_DEFINE:
		bind_definition(p, node);
		break;
	case K_DELETE:
		bind_deleted(p, node);
		break;
	case K_IMPORT:
		bind_import(p, node);
		break;
	case K_IMPORT_FROM:
		bind_import_from(p, node);
		break;
	default:
		break;
	}
}
