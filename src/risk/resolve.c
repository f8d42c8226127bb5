/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that an expression may stand for: os.system, whether it is written so, imported under
 * another name, fetched with getattr() or taken out of a table. "?" is what is not known, "f()"
 * what f gives back.
 */
#include <errno.h>

#include "risk/impl.h"

#define BINDINGS_TRIED 64 /* of one name */

static const struct names no_names;

struct name name_make(struct pass *p, struct str s)
{
	(void)p;
	if (s.n > NAME_MAX_LEN)
		s.n = NAME_MAX_LEN;
	return (struct name){ s.p, (uint32_t)s.n, hash_bytes(s.p, s.n) };
}

static struct name name_glue(struct pass *p, struct name a, const char *between, struct str b)
{
	size_t gap = strlen(between), n = a.n + gap + b.n;
	char *v;

	if (n > NAME_MAX_LEN)
		return name_make(p, STR("?"));
	v = arena_alloc(&p->pool, n + 1);
	if (!v) {
		p->trouble = -ENOMEM;
		return name_make(p, STR("?"));
	}
	memcpy(v, a.p, a.n);           /* the arena's memory is zeroed: it ends in a NUL */
	memcpy(v + a.n, between, gap); // NOLINT(bugprone-not-null-terminated-result)
	if (b.n)
		memcpy(v + a.n + gap, b.p, b.n);
	return name_make(p, (struct str){ v, n });
}

struct name name_join(struct pass *p, struct name a, struct str b)
{
	return name_glue(p, a, ".", b);
}

void names_add(struct names *n, struct name name)
{
	for (uint32_t i = 0; i < n->n; i++)
		if (n->v[i].hash == name.hash && n->v[i].n == name.n &&
		    memcmp(n->v[i].p, name.p, name.n) == 0)
			return;
	if (n->n == NAMES_MAX)
		n->full = true;
	else
		n->v[n->n++] = name;
}

static void add_all(struct names *to, const struct names *from)
{
	for (uint32_t i = 0; i < from->n; i++)
		names_add(to, from->v[i]);
}

static void add_below(struct pass *p, struct names *to, const struct names *of, struct str key)
{
	if (of->n == 0)
		names_add(to, p->g->lang->join(p, name_make(p, STR("?")), key));
	for (uint32_t i = 0; i < of->n; i++)
		names_add(to, p->g->lang->join(p, of->v[i], key));
}

uint32_t call_callee(const struct pass *p, uint32_t call)
{
	return node_field(p, call, F_FUNCTION);
}

/* ---- tables in the text ---- */

/* The list or dictionary that an expression is, through one name; NO_NODE: none. */
uint32_t table_of(struct pass *p, uint32_t node)
{
	for (int i = 0; i < 8 && node != NO_NODE; i++) {
		const struct binding *b;

		switch ((int)node_kind(p, node)) {
		case K_LIST:
		case K_DICT:
			return node;
		case K_WRAP:
			node = node_named(p, node, 0);
			break;
		case K_IDENT:
			b = binding_first(p, name_make(p, text_identifier(p, node_text(p, node))));
			if (!b || b->next != NO_NODE || b->element || b->path.n || b->append)
				return NO_NODE;
			node = b->value;
			break;
		default:
			return NO_NODE;
		}
	}
	return NO_NODE;
}

static bool key_is(struct pass *p, uint32_t pair, struct str key)
{
	uint32_t k = node_field(p, pair, F_KEY);
	struct str text;

	if (k == NO_NODE)
		return false;
	if (node_kind(p, k) == K_IDENT && p->g->lang->language == LANGUAGE_JAVASCRIPT)
		return str_eq(text_identifier(p, node_text(p, k)), key);
	return fold_text(p, k, &text) && str_eq(text, key);
}

static bool index_of(struct str key, int64_t *ret)
{
	int64_t nth = 0;

	if (!key.p || key.n == 0 || key.n > 8)
		return false;
	for (size_t k = 0; k < key.n; k++) {
		if (key.p[k] < '0' || key.p[k] > '9')
			return false;
		nth = nth * 10 + (key.p[k] - '0');
	}
	*ret = nth;
	return true;
}

uint32_t table_entry(struct pass *p, uint32_t table, struct str key)
{
	int64_t nth = -1, i = 0;

	(void)index_of(key, &nth);
	for (uint32_t c = node_named(p, table, 0); c != NO_NODE && i < 256;
	     c = node_skip(p, node_at(p, c)->next), i++) {
		if (node_kind(p, c) == K_PAIR ? key_is(p, c, key) : i == nth)
			return node_kind(p, c) == K_PAIR ? node_field(p, c, F_VALUE) : c;
	}
	return NO_NODE;
}

/* What a table holds under a key; key.p == NULL: anything in it. */
static void add_entries(struct pass *p, uint32_t table, struct str key, struct names *out)
{
	int64_t nth = 0, i = 0;
	bool number = index_of(key, &nth);

	for (uint32_t c = node_named(p, table, 0); c != NO_NODE && i < 256;
	     c = node_skip(p, node_at(p, c)->next), i++) {
		bool pair = node_kind(p, c) == K_PAIR;

		if (pair ? !key.p || key_is(p, c, key)
		         : !key.p || (number && i == nth) || node_kind(p, c) == K_IDENT)
			add_all(out, resolve(p, pair ? node_field(p, c, F_VALUE) : c));
	}
}

/* ---- kinds of expressions ---- */

/* of.a.b.c, part by part: each may mean something by itself. */
static void add_path(struct pass *p, struct names *to, const struct names *of, struct str path)
{
	struct names now = { 0 };

	add_all(&now, of);
	while (path.p && path.n) {
		const char *dot = memchr(path.p, '.', path.n);
		size_t n = dot ? (size_t)(dot - path.p) : path.n;
		struct names next = { 0 };

		add_below(p, &next, &now, (struct str){ path.p, n });
		now = next;
		n += dot != NULL;
		path = (struct str){ path.p + n, path.n - n };
	}
	add_all(to, &now);
}

static void resolve_binding(struct pass *p, const struct binding *b, struct names *out)
{
	const struct names *of;
	uint32_t table;

	if (b->value == NO_NODE) {
		if (b->path.n)
			names_add(out, b->path);
		return;
	}
	table = b->element || b->path.n ? table_of(p, b->value) : NO_NODE;
	if (table != NO_NODE) {
		uint32_t before = out->n;

		add_entries(p, table,
		            b->path.n ? (struct str){ b->path.p, b->path.n } : (struct str){ 0 },
		            out);
		if (out->n > before || !b->path.n)
			return;
	}
	if (b->append)
		return;
	of = resolve(p, b->value);
	if (b->element)
		add_below(p, out, of, STR("?"));
	else if (b->path.n)
		add_path(p, out, of, (struct str){ b->path.p, b->path.n });
	else
		add_all(out, of);
}

/* Defaults and types of parameters are read outside the function. */
static bool is_inside(const struct pass *p, uint32_t node, uint32_t scope)
{
	uint32_t list = node_field(p, scope, F_ARGUMENT);

	if (list != NO_NODE && node_at(p, node)->start >= node_at(p, list)->start &&
	    node_at(p, node)->end <= node_at(p, list)->end)
		return false;
	return node_at(p, node)->start >= node_at(p, scope)->start &&
	       node_at(p, node)->end <= node_at(p, scope)->end;
}

/* The object itself: rules tell its own methods from others'. */
static bool is_own(struct name name)
{
	struct str s = { name.p, name.n };

	return str_is(s, "self") || str_is(s, "cls");
}

/* The binding certainly holds at this node. */
static bool is_shadowed(const struct pass *p, uint32_t node, const struct binding *b)
{
	if (b->scope && !is_inside(p, node, b->scope))
		return false;
	return b->shadows ? b->at <= node_at(p, node)->start : b->scope != 0;
}

static void resolve_ident(struct pass *p, uint32_t node, struct names *out)
{
	struct name name = name_make(p, text_identifier(p, node_text(p, node)));
	const struct binding *first = binding_first(p, name);
	uint32_t at = node_at(p, node)->start;
	bool shadowed = false, deleted = false;
	int n = 0;

	for (const struct binding *b = first; b && n < BINDINGS_TRIED;
	     b = binding_next(p, b), n++) {
		shadowed = shadowed || is_shadowed(p, node, b);
		deleted = deleted || b->at == NO_NODE;
	}
	if (!shadowed || deleted || is_own(name))
		names_add(out, name);
	n = 0;
	for (const struct binding *b = first; b && n < BINDINGS_TRIED; n++) {
		uint32_t next = b->next;

		resolve_binding(p, b, out);
		b = next == NO_NODE ? NULL : &p->bindings.v[next];
	}
	/* What was dropped may be what it is really used for. */
	if ((n == BINDINGS_TRIED || out->full) && !p->tangled) {
		p->tangled = true;
		p->tangled_at = at;
	}
	if (!first)
		for (uint32_t i = 0; i < p->bindings.n_stars; i++)
			names_add(out, name_join(p, p->bindings.stars[i],
			                         (struct str){ name.p, name.n }));
}

static uint32_t object_of(const struct pass *p, uint32_t node)
{
	uint32_t object = node_field(p, node, F_OBJECT);

	return object != NO_NODE ? object : node_field(p, node, F_VALUE);
}

static void resolve_member(struct pass *p, uint32_t object, struct str key, struct names *out)
{
	uint32_t table = table_of(p, object);

	if (table != NO_NODE)
		add_entries(p, table, key, out);
	if (table == NO_NODE || out->n == 0)
		add_below(p, out, resolve(p, object), key.p ? key : STR("?"));
}

static void resolve_index(struct pass *p, uint32_t node, struct names *out)
{
	uint32_t index = node_field(p, node, F_INDEX);
	struct str key = { 0 };

	if (index != NO_NODE && !fold_text(p, index, &key))
		key = (struct str){ 0 };
	resolve_member(p, object_of(p, node), key, out);
}

static void resolve_call(struct pass *p, uint32_t node, struct names *out)
{
	const struct names *of;

	if (p->g->lang->call_names(p, node, out))
		return;
	of = resolve(p, call_callee(p, node));
	for (uint32_t i = 0; i < of->n; i++)
		names_add(out, name_glue(p, of->v[i], "()", (struct str){ 0 }));
}

/* Which operand gives the value: both may. */
static void resolve_either(struct pass *p, uint32_t node, struct names *out)
{
	bool ternary = node_kind(p, node) == K_TERNARY;
	bool python = p->g->lang->language == LANGUAGE_PYTHON;
	uint32_t i = 0;

	for (uint32_t c = node_named(p, node, 0); c != NO_NODE && i < 4;
	     c = node_skip(p, node_at(p, c)->next), i++)
		if (!ternary || i != (python ? 1 : 0))
			add_all(out, resolve(p, c));
}

static void resolve_binary(struct pass *p, uint32_t node, struct names *out)
{
	uint32_t op = node_field(p, node, F_OPERATOR);
	struct str text = op == NO_NODE ? STR("") : node_text(p, op);

	if (str_is(text, "||") || str_is(text, "&&") || str_is(text, "??"))
		resolve_either(p, node, out);
}

static void resolve_assigned(struct pass *p, uint32_t node, struct names *out)
{
	uint32_t value = node_field(p, node, F_RIGHT);

	add_all(out, resolve(p, value != NO_NODE ? value : node_field(p, node, F_VALUE)));
}

/* A name in an import is read as it stands. */
static void resolve_dotted(struct pass *p, uint32_t node, struct names *out)
{
	uint32_t up = node_at(p, node)->parent, module;
	struct text t = { .p = p };
	struct str s = node_text(p, node);

	while (up != NO_NODE && node_kind(p, up) == K_ALIAS)
		up = node_at(p, up)->parent;
	module = node_kind(p, up) == K_IMPORT_FROM ? node_field(p, up, F_MODULE) : NO_NODE;
	if (module != NO_NODE && module != node) {
		struct str m = node_text(p, module);

		text_put(&t, m.p, m.n);
		text_put(&t, ".", 1);
	}
	s = text_identifier(p, s);
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != ' ' && s.p[i] != '\t' && s.p[i] != '\n' && s.p[i] != '\\' &&
		    s.p[i] != '\r')
			text_put(&t, s.p + i, 1);
	if (!t.failed)
		names_add(out, name_make(p, (struct str){ t.v, t.n }));
}

static void resolve_text(struct pass *p, uint32_t node, struct names *out)
{
	struct str s;

	if (p->g->lang->language != LANGUAGE_SHELL || !fold_text(p, node, &s))
		return;
	for (size_t i = s.n; i > 1; i--) { /* /bin/rm is rm */
		if (s.p[i - 1] == '/') {
			s = (struct str){ s.p + i, s.n - i };
			break;
		}
	}
	names_add(out, name_make(p, s));
}

static void resolve_this(struct pass *p, uint32_t node, struct names *out)
{
	names_add(out, name_make(p, STR("this")));
	if (p->g->lang->is_global_this && p->g->lang->is_global_this(p, node))
		names_add(out, name_make(p, STR("globalThis")));
}

static void resolve_kind(struct pass *p, uint32_t node, struct names *out)
{
	switch ((int)node_kind(p, node)) {
	case K_IDENT:
		resolve_ident(p, node, out);
		break;
	case K_ATTR:
		resolve_member(p, object_of(p, node),
		               text_identifier(p, node_text(p, node_field(p, node, F_ATTR))), out);
		break;
	case K_INDEX:
		resolve_index(p, node, out);
		break;
	case K_CALL:
	case K_NEW:
		resolve_call(p, node, out);
		break;
	case K_WRAP:
		add_all(out, resolve(p, node_named(p, node, 0)));
		break;
	case K_LAST:
		add_all(out, resolve(p, node_last(p, node)));
		break;
	case K_EITHER:
	case K_TERNARY:
		resolve_either(p, node, out);
		break;
	case K_BINARY:
		resolve_binary(p, node, out);
		break;
	case K_ASSIGN:
		resolve_assigned(p, node, out);
		break;
	case K_ALIAS:
		add_all(out, resolve(p, node_field(p, node, F_NAME)));
		break;
	case K_DOTTED:
		resolve_dotted(p, node, out);
		break;
	case K_FUNCTION:
		names_add(out, name_make(p, STR("?fn")));
		break;
	case K_IMPORT_FN:
		names_add(out, name_make(p, STR("import")));
		break;
	case K_THIS:
		resolve_this(p, node, out);
		break;
	case K_OTHER:
		if (node_at(p, node)->first == NO_NODE && node_at(p, node)->named)
			names_add(out, name_make(p, node_text(p, node)));
		break;
	default:
		resolve_text(p, node, out);
	}
}

/* Works it out and keeps it. */
static const struct names *resolve_new(struct pass *p, uint32_t node) // NOLINT(misc-no-recursion)
{
	struct fact *f = &p->facts[node];
	struct names found = { 0 };

	f->naming = true;
	p->depth++;
	resolve_kind(p, node, &found);
	p->depth--;
	f->naming = false;
	f->names = arena_alloc(&p->pool, sizeof(found.n) + 4 + found.n * sizeof(found.v[0]));
	if (!f->names) {
		p->trouble = -ENOMEM;
		return &no_names;
	}
	memcpy(f->names, &found, offsetof(struct names, v) + found.n * sizeof(found.v[0]));
	return f->names;
}

/* RESOLVE_DEPTH bounds the recursion; what is below it stays unknown. */
const struct names *resolve(struct pass *p, uint32_t node) // NOLINT(misc-no-recursion)
{
	struct fact *f = node == NO_NODE ? NULL : &p->facts[node];

	if (!f || p->trouble || f->naming)
		return &no_names;
	if (f->names)
		return f->names;
	return p->depth < RESOLVE_DEPTH ? resolve_new(p, node) : &no_names;
}
