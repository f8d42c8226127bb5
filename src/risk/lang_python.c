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
	names_add(ret, name_make(p, top ? python_first_part(s) : s));
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
	.bind = python_bind,
	.call_names = call_names,
	.join = join,
	.literal = literal,
};
