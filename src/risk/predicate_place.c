/* SPDX-License-Identifier: Apache-2.0 */
/* What rules ask about a node beyond its name and value: where it stands, and whose it is. */
#include "risk/impl.h"
#include "risk/query.h"

bool place_in(const struct pass *p, const struct predicate *pred, uint32_t node)
{
	const struct literal *l = &p->g->query->literals[pred->first];
	uint32_t up = node_at(p, node)->parent;
	const char *type =
		up == NO_NODE ? "" : ts_language_symbol_name(p->g->ts, p->tree.v[up].symbol);

	for (uint32_t i = 0; i < pred->n; i++)
		if (str_is((struct str){ l[i].p, l[i].n }, type))
			return true;
	return false;
}

bool place_folded(struct pass *p, uint32_t node)
{
	struct str s = node_text(p, node);

	return !str_eq(s, text_identifier(p, s));
}

/* x, *x: a parameter; with x as y: y */
static bool is_declared(const struct pass *p, uint32_t node, uint32_t up)
{
	uint32_t above = node_at(p, up)->parent;
	enum kind kind = node_kind(p, up);

	if (kind == K_SPLAT)
		return node_kind(p, above) == K_PARAMS || node_kind(p, above) == K_PATTERN;
	if (kind == K_WRAP)
		return node_kind(p, above) == K_AS && node_field(p, above, F_ALIAS) == up;
	if (kind == K_ALIAS)
		return node_field(p, up, F_ALIAS) == node;
	return kind == K_PARAMS || kind == K_PATTERN || kind == K_DOTTED || kind == K_DELETE;
}

/* Python: the name is read here, and not only to be called. */
bool place_read(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;
	uint8_t field = p->g->fields[node_at(p, node)->field];

	if (up == NO_NODE || is_declared(p, node, up))
		return false;
	switch ((int)node_kind(p, up)) {
	case K_ATTR:
		return field != F_ATTR;
	case K_CALL:
		return field != F_FUNCTION;
	case K_KEYWORD:
		return node_named(p, up, 0) != node;
	case K_DEFINE:
		return field != F_NAME;
	case K_ASSIGN:
	case K_EACH:
		return field != F_LEFT && field != F_NAME;
	default:
		return true;
	}
}

/* ---- what the text itself imports or defines ---- */

static struct str glue(struct pass *p, struct str a, const char *between, struct str b)
{
	struct text t = { .p = p };

	text_put(&t, a.p, a.n);
	text_put(&t, between, strlen(between));
	text_put(&t, b.p, b.n);
	return (struct str){ t.v ? t.v : "", t.n };
}

/* No identifier has a blank or a dot in it. */
void bind_module(struct pass *p, struct name module)
{
	bind_name(p, glue(p, STR("import"), " ", (struct str){ module.p, module.n }),
	          (struct name){ 0 }, false, 0);
}

void bind_method(struct pass *p, uint32_t class, struct str name)
{
	struct str of = text_identifier(p, node_text(p, node_field(p, class, F_NAME)));

	bind_name(p, glue(p, of, ".", text_identifier(p, name)), (struct name){ 0 }, false, 0);
}

static bool is_bound(struct pass *p, struct str key)
{
	return key.n && binding_first(p, name_make(p, key)) != NULL;
}

/* One of its names is a module that the text imports. */
bool place_module(struct pass *p, uint32_t node)
{
	const struct names *names = resolve(p, node);

	for (uint32_t i = 0; i < names->n; i++) {
		struct str name = { names->v[i].p, names->v[i].n };

		if (is_bound(p, glue(p, STR("import"), " ", name)))
			return true;
	}
	return false;
}

/* The class around a method; NO_NODE: none. */
static uint32_t class_around(const struct pass *p, uint32_t node)
{
	while (node != NO_NODE &&
	       (node_kind(p, node) != K_DEFINE || node_field(p, node, F_ARGUMENT) != NO_NODE))
		node = node_at(p, node)->parent;
	return node;
}

static bool has_method(struct pass *p, struct name object, uint32_t node, struct str method)
{
	struct str of = { object.p, object.n };
	uint32_t class;

	if (str_is(of, "self") || str_is(of, "cls")) {
		class = class_around(p, node);
		if (class == NO_NODE)
			return false;
		of = text_identifier(p, node_text(p, node_field(p, class, F_NAME)));
	} else if (of.n > 3 && of.p[0] == '.' && memcmp(of.p + of.n - 2, "()", 2) == 0) {
		of = (struct str){ of.p + 1, of.n - 3 };
	}
	return is_bound(p, glue(p, of, ".", method));
}

/* object.method, and whatever the object may be, the text itself defines its method. */
bool place_own(struct pass *p, uint32_t node)
{
	uint32_t method = node_field(p, node, F_ATTR);
	const struct names *names = resolve(p, node_field(p, node, F_OBJECT));

	for (uint32_t i = 0; method != NO_NODE && i < names->n; i++)
		if (!has_method(p, names->v[i], node, text_identifier(p, node_text(p, method))))
			return false;
	return method != NO_NODE && names->n > 0;
}
