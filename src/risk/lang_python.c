/* SPDX-License-Identifier: Apache-2.0 */
/* Python: its nodes, its bindings, and the calls by which names are reached in other ways. */
#include "risk/impl.h"

static const struct kind_name kinds[] = {
	{ "identifier", K_IDENT },
	{ "attribute", K_ATTR },
	{ "subscript", K_INDEX },
	{ "call", K_CALL },
	{ "argument_list", K_ARGS },
	{ "keyword_argument", K_KEYWORD },
	{ "list_splat", K_SPLAT },
	{ "list_splat_pattern", K_SPLAT },
	{ "dictionary_splat", K_SPLAT },
	{ "dictionary_splat_pattern", K_SPLAT },
	{ "typed_parameter", K_SPLAT },
	{ "parenthesized_expression", K_WRAP },
	{ "await", K_WRAP },
	{ "as_pattern_target", K_WRAP },
	{ "expression_statement", K_WRAP },
	{ "type", K_WRAP },
	{ "decorator", K_WRAP },
	{ "conditional_expression", K_TERNARY },
	{ "boolean_operator", K_EITHER },
	{ "binary_operator", K_BINARY },
	{ "unary_operator", K_UNARY },
	{ "string", K_STRING },
	{ "concatenated_string", K_STRINGS },
	{ "string_content", K_PIECE },
	{ "escape_sequence", K_ESCAPE },
	{ "escape_interpolation", K_ESCAPE },
	{ "interpolation", K_INTERP },
	{ "integer", K_NUMBER },
	{ "float", K_LITERAL },
	{ "true", K_LITERAL },
	{ "false", K_LITERAL },
	{ "none", K_LITERAL },
	{ "list", K_LIST },
	{ "tuple", K_LIST },
	{ "set", K_LIST },
	{ "expression_list", K_LIST },
	{ "dictionary", K_DICT },
	{ "pair", K_PAIR },
	{ "slice", K_SLICE },
	{ "list_comprehension", K_COMPREHEND },
	{ "generator_expression", K_COMPREHEND },
	{ "lambda", K_FUNCTION },
	{ "assignment", K_ASSIGN },
	{ "named_expression", K_ASSIGN },
	{ "default_parameter", K_ASSIGN },
	{ "typed_default_parameter", K_ASSIGN },
	{ "augmented_assignment", K_AUGMENT },
	{ "for_statement", K_EACH },
	{ "for_in_clause", K_EACH },
	{ "as_pattern", K_AS },
	{ "function_definition", K_DEFINE },
	{ "class_definition", K_DEFINE },
	{ "delete_statement", K_DELETE },
	{ "parameters", K_PARAMS },
	{ "lambda_parameters", K_PARAMS },
	{ "import_statement", K_IMPORT },
	{ "import_from_statement", K_IMPORT_FROM },
	{ "aliased_import", K_ALIAS },
	{ "wildcard_import", K_STAR },
	{ "dotted_name", K_DOTTED },
	{ "relative_import", K_DOTTED },
	{ "pattern_list", K_PATTERN },
	{ "global_statement", K_PATTERN },
	{ "nonlocal_statement", K_PATTERN },
	{ "keyword_pattern", K_KEYWORD },
	{ "tuple_pattern", K_PATTERN },
	{ "list_pattern", K_PATTERN },
	{ "comment", K_COMMENT },
	{ "line_continuation", K_COMMENT },
	{ NULL, K_OTHER },
};

static const struct field_name fields[] = {
	{ "object", F_OBJECT },       { "attribute", F_ATTR },      { "subscript", F_INDEX },
	{ "function", F_FUNCTION },   { "arguments", F_ARGUMENTS }, { "left", F_LEFT },
	{ "right", F_RIGHT },         { "operator", F_OPERATOR },   { "key", F_KEY },
	{ "value", F_VALUE },         { "name", F_NAME },           { "alias", F_ALIAS },
	{ "body", F_BODY },           { "module_name", F_MODULE },  { "argument", F_ARGUMENT },
	{ "parameters", F_ARGUMENT }, { "expression", F_VALUE },    { NULL, F_NONE },
};

/* ---- bindings ---- */

/* A statement of the module itself: nothing decides whether it is reached. */
static bool is_plain(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	if (up != NO_NODE && node_kind(p, up) == K_WRAP)
		up = node_at(p, up)->parent;
	return up == 0;
}

static struct str first_part(struct str s)
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
			if (first_part(s).n < s.n)
				bind_module(p, name_make(p, first_part(s)));
			s = first_part(s);
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
		own = name_join(p, own, text_identifier(p, name));
	bind_name(p, name, own, is_plain(p, node), at);
	if (of != NO_NODE)
		bind_method(p, of, name);
}

static void bind(struct pass *p, uint32_t node)
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

/* ---- names ---- */

static bool ends(struct name a, const char *tail)
{
	size_t n = strlen(tail);

	return a.n >= n && memcmp(a.p + a.n - n, tail, n) == 0;
}

static bool is(struct name a, const char *b)
{
	return str_is((struct str){ a.p, a.n }, b);
}

static bool is_namespace(struct name a)
{
	return ends(a, ".__dict__") || is(a, "globals()") || is(a, "sys.modules") ||
	       is(a, "__builtins__");
}

static struct name join(struct pass *p, struct name a, struct str b)
{
	static const char dict[] = ".__dict__";

	if (is(a, "globals()") || is(a, "sys.modules"))
		return name_make(p, b);
	if (str_is(b, "__self__") && !memchr(a.p, '.', a.n) && a.p[0] != '?')
		return name_make(p, STR("builtins")); /* print.__self__ */
	if (ends(a, dict)) {
		a.n -= sizeof(dict) - 1;
		a = name_make(p, (struct str){ a.p, a.n });
	}
	if (is(a, "__builtins__"))
		a = name_make(p, STR("builtins"));
	return name_join(p, a, b);
}

static void add_joined(struct pass *p, uint32_t object, uint32_t key, struct names *ret)
{
	const struct names *of = resolve(p, object);
	struct str text = STR("?");

	if (key == NO_NODE || !fold_text(p, key, &text))
		text = STR("?");
	for (uint32_t i = 0; i < of->n; i++)
		names_add(ret, join(p, of->v[i], text));
	if (of->n == 0)
		names_add(ret, join(p, name_make(p, STR("?")), text));
}

static void add_names(struct pass *p, uint32_t node, struct names *ret)
{
	const struct names *n = node == NO_NODE ? NULL : resolve(p, node);

	for (uint32_t i = 0; n && i < n->n; i++)
		names_add(ret, n->v[i]);
}

static void add_module(struct pass *p, uint32_t call, bool top, struct names *ret)
{
	uint32_t arg = call_arg(p, call, 0);
	struct str s = STR("?");

	if (arg == NO_NODE || !fold_text(p, arg, &s) || s.n == 0)
		s = STR("?");
	names_add(ret, name_make(p, top ? first_part(s) : s));
}

/* pkgutil.resolve_name("os:system") */
static void add_resolved(struct pass *p, uint32_t arg, struct names *ret)
{
	struct str s;
	char *copy;

	copy = arg != NO_NODE && fold_text(p, arg, &s) ? arena_dup(&p->pool, s.p, s.n) : NULL;
	for (size_t i = 0; copy && i < s.n; i++)
		if (copy[i] == ':')
			copy[i] = '.';
	names_add(ret, name_make(p, copy ? (struct str){ copy, s.n } : STR("?")));
}

/* x.__dict__.get("name"), object.__getattribute__(x, "name") */
static bool method_names(struct pass *p, uint32_t call, struct name c, struct names *ret)
{
	uint32_t callee = call_callee(p, call), second = call_arg(p, call, 1);
	uint32_t object = node_field(p, callee, F_OBJECT);

	if (ends(c, ".__getattribute__") || ends(c, ".__getattr__")) {
		if (second != NO_NODE)
			add_joined(p, call_arg(p, call, 0), second, ret);
		else if (object != NO_NODE)
			add_joined(p, object, call_arg(p, call, 0), ret);
		return true;
	}
	if (ends(c, ".load_module") || ends(c, ".import_module") || ends(c, ".__import__")) {
		add_module(p, call, ends(c, ".__import__"), ret);
		return true;
	}
	if ((ends(c, ".get") || ends(c, ".__getitem__") || ends(c, ".pop") ||
	     ends(c, ".setdefault")) &&
	    object != NO_NODE) {
		const struct names *of = resolve(p, object);

		for (uint32_t i = 0; i < of->n; i++) {
			if (is_namespace(of->v[i])) {
				add_joined(p, object, call_arg(p, call, 0), ret);
				return true;
			}
		}
	}
	return false;
}

/* operator.attrgetter("system")(os) */
static bool getter_names(struct pass *p, uint32_t call, struct names *ret)
{
	uint32_t getter = call_callee(p, call);

	while (node_kind(p, getter) == K_WRAP)
		getter = node_named(p, getter, 0);
	if (node_kind(p, getter) != K_CALL)
		return false;
	add_joined(p, call_arg(p, call, 0), call_arg(p, getter, 0), ret);
	return true;
}

static bool known_call(struct pass *p, uint32_t call, struct name c, struct names *ret)
{
	if (is(c, "getattr") || is(c, "builtins.getattr") || is(c, "inspect.getattr_static")) {
		add_joined(p, call_arg(p, call, 0), call_arg(p, call, 1), ret);
		add_names(p, call_arg(p, call, 2), ret);
		return true;
	}
	if (is(c, "__import__") || is(c, "importlib.import_module")) {
		add_module(p, call, is(c, "__import__"), ret);
		return true;
	}
	if (is(c, "globals") || is(c, "locals") || is(c, "builtins.globals") ||
	    (is(c, "vars") && call_arg(p, call, 0) == NO_NODE)) {
		names_add(ret, name_make(p, STR("globals()")));
		return true;
	}
	if (is(c, "vars")) {
		const struct names *of = resolve(p, call_arg(p, call, 0));

		for (uint32_t i = 0; i < of->n; i++)
			names_add(ret, name_join(p, of->v[i], STR("__dict__")));
		return true;
	}
	if (is(c, "pkgutil.resolve_name")) {
		add_resolved(p, call_arg(p, call, 0), ret);
		return true;
	}
	if (is(c, "functools.partial") || is(c, "importlib.reload") ||
	    is(c, "functools.partialmethod") || is(c, "staticmethod")) {
		add_names(p, call_arg(p, call, 0), ret);
		return true;
	}
	if (is(c, "operator.attrgetter()") || is(c, "operator.itemgetter()"))
		return getter_names(p, call, ret);
	return memchr(c.p, '.', c.n) && method_names(p, call, c, ret);
}

static bool call_names(struct pass *p, uint32_t call, struct names *ret)
{
	const struct names *of = resolve(p, call_callee(p, call));
	bool known = false;

	for (uint32_t i = 0; i < of->n; i++)
		known = known_call(p, call, of->v[i], ret) || known;
	return known;
}

/* ---- literals ---- */

static void put_piece(struct pass *p, uint32_t piece, bool raw, struct text *t)
{
	const struct node *n = node_at(p, piece);
	uint32_t at = n->start;

	for (uint32_t c = raw ? NO_NODE : n->first; c != NO_NODE; c = node_at(p, c)->next) {
		struct str s = node_text(p, c);

		text_put(t, p->text.p + at, node_at(p, c)->start - at);
		if (s.n == 2 && (s.p[0] == '{' || s.p[0] == '}'))
			text_put(t, s.p, 1);
		else
			decode_escape(t, s, LANGUAGE_PYTHON);
		at = node_at(p, c)->end;
	}
	text_put(t, p->text.p + at, n->end - at);
}

static bool literal(struct pass *p, uint32_t node, struct value *ret)
{
	struct str prefix = node_text(p, node_named(p, node, 0));
	struct text t = { .p = p };
	bool raw = false;

	if (node_kind(p, node) != K_STRING)
		return false;
	for (size_t i = 0; i < prefix.n; i++)
		raw = raw || (prefix.p[i] | 0x20) == 'r';
	for (uint32_t c = node_named(p, node, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		struct str s;

		if (node_kind(p, c) == K_PIECE)
			put_piece(p, c, raw, &t);
		if (node_kind(p, c) != K_INTERP)
			continue;
		if (node_named(p, c, 1) != NO_NODE || !fold_text(p, node_named(p, c, 0), &s))
			return false;
		text_put(&t, s.p, s.n);
	}
	return text_value(&t, ret);
}

const struct lang lang_python = {
	.language = LANGUAGE_PYTHON,
	.kinds = kinds,
	.fields = fields,
	.bind = bind,
	.call_names = call_names,
	.join = join,
	.literal = literal,
};
