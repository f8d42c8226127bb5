/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What names were bound to. Scopes and the order of statements are not told apart: everything that
 * a name was ever given is what it may stand for, so that hiding a binding behind a condition or in
 * a function gains nothing.
 */
#include <errno.h>

#include "risk/impl.h"

#define SLOTS_FIRST 64

static uint32_t *slot_of(const struct bindings *b, struct name name)
{
	uint32_t i = name.hash & (b->n_slots - 1);

	for (;; i = (i + 1) & (b->n_slots - 1)) {
		const struct name *have;

		if (b->slots[i] == NO_NODE)
			return &b->slots[i];
		have = &b->v[b->slots[i]].name;
		if (have->hash == name.hash && have->n == name.n &&
		    memcmp(have->p, name.p, name.n) == 0)
			return &b->slots[i];
	}
}

static bool grow_slots(struct bindings *b)
{
	uint32_t n = b->n_slots ? b->n_slots * 2 : SLOTS_FIRST, *old = b->slots, n_old = b->n_slots;
	uint32_t *slots = malloc(n * sizeof(*slots));

	if (!slots)
		return false;
	memset(slots, 0xff, n * sizeof(*slots));
	b->slots = slots;
	b->n_slots = n;
	for (uint32_t i = 0; i < n_old; i++)
		if (old[i] != NO_NODE)
			*slot_of(b, b->v[old[i]].name) = old[i];
	free(old);
	return true;
}

static bool reserve(struct bindings *b)
{
	if (b->n * 2 >= b->n_slots && !grow_slots(b))
		return false;
	if (b->n == b->cap) {
		uint32_t cap = b->cap ? b->cap * 2 : 32;
		struct binding *v = realloc(b->v, cap * sizeof(*v));

		if (!v)
			return false;
		b->v = v;
		b->cap = cap;
	}
	return true;
}

static void add(struct pass *p, struct binding binding)
{
	struct bindings *b = &p->bindings;
	uint32_t *slot;

	if (!reserve(b)) {
		p->trouble = -ENOMEM;
		return;
	}
	slot = slot_of(b, binding.name);
	binding.next = *slot;
	b->v[b->n] = binding;
	*slot = b->n++;
}

void bind_value(struct pass *p, struct str name, uint32_t value, struct binding how)
{
	how.name = name_make(p, text_identifier(p, name));
	how.value = value;
	add(p, how);
}

void bind_name(struct pass *p, struct str name, struct name full, bool shadows, uint32_t at)
{
	struct binding b = { .value = NO_NODE, .path = full, .shadows = shadows, .at = at };

	b.name = name_make(p, text_identifier(p, name));
	add(p, b);
}

const struct binding *binding_first(const struct pass *p, struct name name)
{
	uint32_t i = p->bindings.n_slots ? *slot_of(&p->bindings, name) : NO_NODE;

	return i == NO_NODE ? NULL : &p->bindings.v[i];
}

const struct binding *binding_next(const struct pass *p, const struct binding *b)
{
	return b->next == NO_NODE ? NULL : &p->bindings.v[b->next];
}

void bindings_done(struct bindings *b)
{
	free(b->v);
	free(b->slots);
	*b = (struct bindings){ 0 };
}

void bind_unknown(struct pass *p, struct str name, uint32_t scope)
{
	struct binding b = { .value = NO_NODE, .scope = scope };

	if (name.n == 0)
		return;
	b.name = name_make(p, text_identifier(p, name));
	add(p, b);
}

/* ---- targets of an assignment ---- */

/* {a: x, b} = value */
static void bind_object(struct pass *p, uint32_t target, uint32_t value, struct binding how,
                        uint32_t depth);

static struct name path_below(struct pass *p, struct name path, struct str key)
{
	return path.n ? name_join(p, path, key) : name_make(p, key);
}

/* Depth is that of patterns inside patterns. */
static void bind_any(struct pass *p, uint32_t target, uint32_t value, struct binding how,
                     uint32_t depth) // NOLINT(misc-no-recursion)
{
	enum kind kind = node_kind(p, target);
	uint32_t from, nth = 0;

	if (depth > 16 || target == NO_NODE)
		return;
	if (kind == K_IDENT) {
		bind_value(p, node_text(p, target), value, how);
		return;
	}
	if (kind == K_ASSIGN) { /* a target with a default */
		uint32_t name = node_field(p, target, F_LEFT);

		bind_any(p, name != NO_NODE ? name : node_field(p, target, F_NAME), value, how,
		         depth + 1);
		return;
	}
	if (kind == K_OPATTERN) {
		bind_object(p, target, value, how, depth + 1);
		return;
	}
	if (kind == K_WRAP || kind == K_SPLAT) {
		bind_any(p, node_named(p, target, 0), value, how, depth + 1);
		return;
	}
	if (kind != K_PATTERN && kind != K_LIST)
		return;
	/* a, b = x, y: each to each, else each to some element */
	from = !how.element && node_kind(p, value) == K_LIST ? node_named(p, value, 0) : NO_NODE;
	for (uint32_t t = node_named(p, target, 0); t != NO_NODE && nth < 256;
	     t = node_skip(p, node_at(p, t)->next), nth++) {
		struct binding one = how;

		one.element = from == NO_NODE;
		bind_any(p, t, from == NO_NODE ? value : from, one, depth + 1);
		from = from == NO_NODE ? NO_NODE : node_skip(p, node_at(p, from)->next);
	}
}

static void bind_object(struct pass *p, uint32_t target, uint32_t value, struct binding how,
                        uint32_t depth) // NOLINT(misc-no-recursion)
{
	uint32_t nth = 0;

	for (uint32_t t = node_named(p, target, 0); t != NO_NODE && nth < 256;
	     t = node_skip(p, node_at(p, t)->next), nth++) {
		uint32_t key = t, to = t;
		struct binding one = how;
		struct str text;

		if (node_kind(p, t) == K_PAIR) {
			key = node_field(p, t, F_KEY);
			to = node_field(p, t, F_VALUE);
		} else if (node_kind(p, t) == K_ASSIGN) {
			key = to = node_field(p, t, F_LEFT);
		} else if (node_kind(p, t) == K_SPLAT) {
			bind_any(p, t, value, how, depth);
			continue;
		}
		if (key == NO_NODE)
			continue;
		text = node_text(p, key);
		if (node_kind(p, key) == K_IDENT)
			text = text_identifier(p, text);
		else if (!fold_text(p, key, &text))
			text = STR("?");
		one.path = path_below(p, how.path, text);
		bind_any(p, to, value, one, depth);
	}
}

/* Every name in a list of parameters: x, x = 1, *x, {x, y: [z]}. */
void bind_unknown_all(struct pass *p, uint32_t target, uint32_t scope)
{
	uint32_t end = target == NO_NODE ? NO_NODE : node_at(p, target)->end;

	for (uint32_t i = target; i < p->tree.n && node_at(p, i)->start < end; i++) {
		uint32_t up = node_at(p, i)->parent;
		enum kind in = node_kind(p, up);

		if (node_kind(p, i) != K_IDENT)
			continue;
		/* not the default, the type or the key */
		if (in == K_ASSIGN
		            ? i != node_field(p, up, F_LEFT) && i != node_field(p, up, F_NAME)
		    : in == K_PAIR ? i != node_field(p, up, F_VALUE)
		                   : i != target && in != K_PARAMS && in != K_PATTERN &&
		                             in != K_OPATTERN && in != K_SPLAT && in != K_LIST)
			continue;
		bind_unknown(p, node_text(p, i), scope);
	}
}

static bool changes(struct str method)
{
	static const char *const names[] = {
		"push",       "pop",    "shift",      "unshift",     "splice", "reverse", "sort",
		"fill",       "append", "insert",     "extend",      "remove", "clear",   "update",
		"setdefault", "set",    "copyWithin", "__setitem__", "add",
	};

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (str_is(method, names[i]))
			return true;
	return false;
}

void bind_changed(struct pass *p, uint32_t node)
{
	enum kind kind = node_kind(p, node);
	uint32_t place = NO_NODE;

	if (kind == K_CALL) {
		place = node_field(p, node, F_FUNCTION);
		if (node_kind(p, place) != K_ATTR ||
		    !changes(node_text(p, node_field(p, place, F_ATTR))))
			return;
	} else if (kind == K_UPDATE) {
		place = node_field(p, node, F_ARGUMENT);
		if (node_kind(p, place) == K_IDENT)
			bind_unknown(p, node_text(p, place), 0);
	} else {
		place = kind == K_DELETE ? node_named(p, node, 0) : node_field(p, node, F_LEFT);
	}
	for (int i = 0; i < 8 && (node_kind(p, place) == K_ATTR || node_kind(p, place) == K_INDEX);
	     i++) {
		uint32_t object = node_field(p, place, F_OBJECT);

		place = object != NO_NODE ? object : node_field(p, place, F_VALUE);
		if (node_kind(p, place) == K_IDENT)
			bind_unknown(p, node_text(p, place), 0);
	}
}

void bind_target(struct pass *p, uint32_t target, uint32_t value, struct binding how)
{
	bind_any(p, target, value, how, 0);
}
