/* SPDX-License-Identifier: Apache-2.0 */
/* JavaScript and TypeScript: their nodes, bindings, and the ways to a module or a global. */
#include "risk/impl.h"

static const struct kind_name kinds[] = {
	{ "identifier", K_IDENT },
	{ "property_identifier", K_IDENT },
	{ "shorthand_property_identifier", K_IDENT },
	{ "shorthand_property_identifier_pattern", K_IDENT },
	{ "member_expression", K_ATTR },
	{ "subscript_expression", K_INDEX },
	{ "call_expression", K_CALL },
	{ "new_expression", K_NEW },
	{ "arguments", K_ARGS },
	{ "spread_element", K_SPLAT },
	{ "rest_pattern", K_SPLAT },
	{ "parenthesized_expression", K_WRAP },
	{ "await_expression", K_WRAP },
	{ "as_expression", K_WRAP },
	{ "satisfies_expression", K_WRAP },
	{ "non_null_expression", K_WRAP },
	{ "type_assertion", K_LAST },
	{ "instantiation_expression", K_WRAP },
	{ "expression_statement", K_WRAP },
	{ "computed_property_name", K_WRAP },
	{ "decorator", K_WRAP },
	{ "sequence_expression", K_LAST },
	{ "ternary_expression", K_TERNARY },
	{ "binary_expression", K_BINARY },
	{ "unary_expression", K_UNARY },
	{ "string", K_STRING },
	{ "template_string", K_TEMPLATE },
	{ "string_fragment", K_PIECE },
	{ "escape_sequence", K_ESCAPE },
	{ "template_substitution", K_INTERP },
	{ "number", K_NUMBER },
	{ "true", K_LITERAL },
	{ "false", K_LITERAL },
	{ "null", K_LITERAL },
	{ "undefined", K_LITERAL },
	{ "array", K_LIST },
	{ "object", K_DICT },
	{ "pair", K_PAIR },
	{ "pair_pattern", K_PAIR },
	{ "arrow_function", K_FUNCTION },
	{ "function_expression", K_FUNCTION },
	{ "generator_function", K_FUNCTION },
	{ "assignment_expression", K_ASSIGN },
	{ "variable_declarator", K_ASSIGN },
	{ "assignment_pattern", K_ASSIGN },
	{ "object_assignment_pattern", K_ASSIGN },
	{ "required_parameter", K_ASSIGN },
	{ "optional_parameter", K_ASSIGN },
	{ "augmented_assignment_expression", K_AUGMENT },
	{ "for_in_statement", K_EACH },
	{ "formal_parameters", K_PARAMS },
	{ "catch_clause", K_CATCH },
	{ "update_expression", K_UPDATE },
	{ "function_declaration", K_DEFINE },
	{ "generator_function_declaration", K_DEFINE },
	{ "class_declaration", K_DEFINE },
	{ "import_statement", K_IMPORT },
	{ "import_clause", K_CLAUSE },
	{ "namespace_import", K_NAMESPACE },
	{ "import_specifier", K_ALIAS },
	{ "import_require_clause", K_STAR },
	{ "array_pattern", K_PATTERN },
	{ "object_pattern", K_OPATTERN },
	{ "import", K_IMPORT_FN },
	{ "this", K_THIS },
	{ "statement_block", K_BLOCK },
	{ "for_statement", K_BLOCK },
	{ "switch_body", K_BLOCK },
	{ "comment", K_COMMENT },
	{ "html_comment", K_COMMENT },
	{ NULL, K_OTHER },
};

static const struct field_name fields[] = {
	{ "object", F_OBJECT },
	{ "property", F_ATTR },
	{ "index", F_INDEX },
	{ "function", F_FUNCTION },
	{ "constructor", F_FUNCTION },
	{ "arguments", F_ARGUMENTS },
	{ "left", F_LEFT },
	{ "right", F_RIGHT },
	{ "operator", F_OPERATOR },
	{ "key", F_KEY },
	{ "value", F_VALUE },
	{ "name", F_NAME },
	{ "pattern", F_NAME },
	{ "alias", F_ALIAS },
	{ "body", F_BODY },
	{ "source", F_MODULE },
	{ "argument", F_ARGUMENT },
	{ "parameter", F_ARGUMENT },
	{ "parameters", F_ARGUMENT },
	{ NULL, F_NONE },
};

static struct name module_name(struct pass *p, struct str s)
{
	if (s.n > 5 && memcmp(s.p, "node:", 5) == 0)
		s = (struct str){ s.p + 5, s.n - 5 };
	return name_make(p, s);
}

/* ---- bindings ---- */

/* Types are gone when the program runs. */
static bool is_type(struct str s, const char *head)
{
	size_t n = strlen(head);

	return s.n > n && memcmp(s.p, head, n) == 0;
}

static void bind_specifiers(struct pass *p, uint32_t list, struct name module, uint32_t at)
{
	for (uint32_t c = node_named(p, list, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		uint32_t name = node_field(p, c, F_NAME), alias = node_field(p, c, F_ALIAS);
		struct str key = text_identifier(p, node_text(p, name));

		if (name == NO_NODE || is_type(node_text(p, c), "type "))
			continue;
		(void)(node_kind(p, name) == K_STRING && fold_text(p, name, &key));
		bind_name(p, node_text(p, alias != NO_NODE ? alias : name),
		          str_is(key, "default") ? module : name_join(p, module, key), true, at);
	}
}

/* import a, { b as c } from "m"; import * as d from "m"; import e = require("m") */
static void bind_import(struct pass *p, uint32_t node)
{
	uint32_t source = node_field(p, node, F_MODULE), clause = node_named(p, node, 0);
	struct str text;
	struct name module;

	if (is_type(node_text(p, node), "import type "))
		return;
	if (node_kind(p, clause) == K_STAR)
		source = node_field(p, clause, F_MODULE);
	if (source == NO_NODE || !fold_text(p, source, &text))
		return;
	module = module_name(p, text);
	for (uint32_t c = node_named(p, clause, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		if (node_kind(p, c) == K_IDENT)
			bind_name(p, node_text(p, c), module, true, 0);
		else if (node_kind(p, c) == K_NAMESPACE)
			bind_name(p, node_text(p, node_named(p, c, 0)), module, true, 0);
		else
			bind_specifiers(p, c, module, 0);
	}
}

/* A declaration of the program itself takes the name for all of it. */
static bool is_top(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	if (up == NO_NODE || up == 0)
		return up == 0;
	return node_at(p, up)->parent == 0 && node_field(p, node, F_NAME) != NO_NODE &&
	       node_kind(p, node) == K_ASSIGN;
}

/* The block, loop or function that a declaration belongs to; 0: the program. */
static uint32_t block_of(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	for (int i = 0; i < RISK_DEPTH_MAX && up != NO_NODE; i++, up = node_at(p, up)->parent)
		if (node_kind(p, up) == K_BLOCK)
			return up;
	return 0;
}

static void bind_assigned(struct pass *p, uint32_t node, struct binding how)
{
	uint32_t left = node_field(p, node, F_LEFT), right = node_field(p, node, F_RIGHT);

	if (left == NO_NODE)
		left = node_field(p, node, F_NAME);
	if (right == NO_NODE)
		right = node_field(p, node, F_VALUE);
	how.shadows = is_top(p, node);
	if (node_kind(p, node) == K_ASSIGN && node_field(p, node, F_NAME) != NO_NODE)
		how.scope = block_of(p, node);
	if (right != NO_NODE)
		bind_target(p, left, right, how);
	else if (how.scope)
		bind_unknown_all(p, left, how.scope);
}

static void bind(struct pass *p, uint32_t node)
{
	struct binding how = { .at = 0 };

	switch ((int)node_kind(p, node)) {
	case K_ASSIGN:
		bind_assigned(p, node, how);
		break;
	case K_PARAMS:
		bind_unknown_all(p, node, node_at(p, node)->parent);
		break;
	case K_CATCH:
		bind_unknown_all(p, node_field(p, node, F_ARGUMENT), node);
		break;
	case K_AUGMENT:
		how.append = str_is(node_text(p, node_field(p, node, F_OPERATOR)), "+=");
		if (!how.append)
			bind_unknown_all(p, node_field(p, node, F_LEFT), 0);
		bind_target(p, node_field(p, node, F_LEFT), node_field(p, node, F_RIGHT), how);
		break;
	case K_EACH:
		how.element = true;
		how.scope = node_at(p, node_at(p, node)->first)->next != NO_NODE ? node : 0;
		bind_target(p, node_field(p, node, F_LEFT), node_field(p, node, F_RIGHT), how);
		break;
	case K_FUNCTION: /* x => ...: a parameter without a list */
		if (node_kind(p, node_field(p, node, F_ARGUMENT)) == K_IDENT)
			bind_unknown_all(p, node_field(p, node, F_ARGUMENT), node);
		break;
	case K_DEFINE:
		bind_name(p, node_text(p, node_field(p, node, F_NAME)), (struct name){ 0 },
		          is_top(p, node), 0);
		break;
	case K_IMPORT:
		bind_import(p, node);
		break;
	default:
		break;
	}
}

/* ---- names ---- */

static bool is(struct name a, const char *b)
{
	return str_is((struct str){ a.p, a.n }, b);
}

static bool ends(struct name a, const char *tail)
{
	size_t n = strlen(tail);

	return a.n >= n && memcmp(a.p + a.n - n, tail, n) == 0;
}

static bool is_global(struct name a)
{
	return is(a, "globalThis") || is(a, "window") || is(a, "global") || is(a, "self") ||
	       is(a, "frames");
}

/* A method of a literal: [].filter */
static bool is_literal_method(struct name a)
{
	return a.n > 2 && a.p[0] == '?' && a.p[1] == '.' && !memchr(a.p + 2, '.', a.n - 2);
}

static struct name join(struct pass *p, struct name a, struct str b)
{
	if (is_global(a))
		return name_make(p, b);
	if (is(a, "Reflect"))
		return name_join(p, a, b);
	if (str_is(b, "call") || str_is(b, "apply") || str_is(b, "bind") ||
	    (str_is(b, "default") && a.p[0] != '?'))
		return a;
	/* what Object.getOwnPropertyDescriptor() tells */
	if (str_is(b, "value") && (is(a, "Function") || is(a, "eval") || is(a, "require")))
		return a;
	if (str_is(b, "constructor") &&
	    (ends(a, ".constructor") || is(a, "Function") || is(a, "Function.prototype") ||
	     is(a, "?fn") || is_literal_method(a)))
		return name_make(p, STR("Function"));
	return name_join(p, a, b);
}

static void add_names(struct pass *p, uint32_t node, struct names *ret)
{
	const struct names *n = node == NO_NODE ? NULL : resolve(p, node);

	for (uint32_t i = 0; n && i < n->n; i++)
		names_add(ret, n->v[i]);
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

static bool is_loader(struct name c)
{
	return is(c, "require") || is(c, "import") || ends(c, ".require") || ends(c, "._load") ||
	       ends(c, "createRequire()") || ends(c, ".getBuiltinModule") ||
	       ends(c, "importScripts");
}

static void add_loaded(struct pass *p, uint32_t which, struct names *ret)
{
	struct str s = STR("?");

	if (which == NO_NODE || !fold_text(p, which, &s))
		s = STR("?");
	names_add(ret, module_name(p, s));
}

static bool known_call(struct pass *p, uint32_t call, struct name c, struct names *ret)
{
	uint32_t first = call_arg(p, call, 0);

	if (is_loader(c)) {
		add_loaded(p, first, ret);
		return true;
	}
	if (is(c, "Proxy")) {
		add_names(p, first, ret);
		return true;
	}
	if (is(c, "Reflect.apply")) {
		const struct names *of = resolve(p, first);
		uint32_t list = call_arg(p, call, 2);

		for (uint32_t i = 0; i < of->n; i++)
			if (is_loader(of->v[i]))
				add_loaded(p,
				           node_kind(p, list) == K_LIST ? node_named(p, list, 0)
				                                        : NO_NODE,
				           ret);
		return ret->n > 0;
	}
	if (is(c, "Reflect.get") || is(c, "Object.getOwnPropertyDescriptor") ||
	    is(c, "Reflect.getOwnPropertyDescriptor")) {
		add_joined(p, first, call_arg(p, call, 1), ret);
		return true;
	}
	if (is(c, "Object.getPrototypeOf") || is(c, "Reflect.getPrototypeOf")) {
		const struct names *of = resolve(p, first);

		for (uint32_t i = 0; i < of->n; i++)
			names_add(ret, is(of->v[i], "?fn")
			                       ? of->v[i]
			                       : name_join(p, of->v[i], STR("__proto__")));
		return true;
	}
	if (is(c, "Object.assign") || is(c, "Object.freeze") || is(c, "Object.create")) {
		add_names(p, first, ret);
		add_names(p, call_arg(p, call, 1), ret);
		return true;
	}
	return false;
}

static bool call_names(struct pass *p, uint32_t call, struct names *ret)
{
	uint32_t callee = call_callee(p, call);
	const struct names *of = resolve(p, callee);
	bool known = false;

	if (node_kind(p, callee) == K_ATTR &&
	    str_is(node_text(p, node_field(p, callee, F_ATTR)), "bind")) {
		uint32_t of_what = node_field(p, callee, F_OBJECT);
		struct str how = node_text(p, node_field(p, of_what, F_ATTR));

		/* Function.prototype.call.bind(g) is g */
		if (str_is(how, "call") || str_is(how, "apply"))
			add_names(p, call_arg(p, call, 0), ret);
		else
			add_names(p, callee, ret);
		return true;
	}
	for (uint32_t i = 0; i < of->n; i++)
		known = known_call(p, call, of->v[i], ret) || known;
	return known;
}

static bool is_type_of(const struct pass *p, uint32_t node, const char *type)
{
	return node != NO_NODE &&
	       streq(ts_language_symbol_name(p->g->ts, node_at(p, node)->symbol), type);
}

/* {f: function () {}}, a.f = function () {} */
static bool is_method(const struct pass *p, uint32_t function)
{
	uint32_t up = node_at(p, function)->parent;

	if (node_kind(p, up) == K_PAIR || is_type_of(p, up, "method_definition"))
		return true;
	return node_kind(p, up) == K_ASSIGN && node_field(p, up, F_RIGHT) == function &&
	       node_kind(p, node_field(p, up, F_LEFT)) == K_ATTR;
}

/* A plain function has the global object for its this when it is simply called; a method has what
 * it is called on, and the code of a class is strict. */
static bool is_global_this(const struct pass *p, uint32_t node)
{
	bool own = false; /* the function that gives "this" is found */

	for (uint32_t up = node_at(p, node)->parent; up != NO_NODE; up = node_at(p, up)->parent) {
		enum kind kind = node_kind(p, up);

		if (is_type_of(p, up, "class_body"))
			return false;
		if (own || is_type_of(p, up, "arrow_function"))
			continue;
		if (is_type_of(p, up, "method_definition") ||
		    (kind == K_FUNCTION && is_method(p, up)))
			return false;
		own = kind == K_FUNCTION || kind == K_DEFINE;
	}
	return true;
}

/* ---- literals ---- */

static bool literal(struct pass *p, uint32_t node, struct value *ret)
{
	enum kind kind = node_kind(p, node);
	struct text t = { .p = p };

	if (kind != K_STRING && kind != K_TEMPLATE)
		return false;
	for (uint32_t c = node_named(p, node, 0); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next)) {
		struct str s = node_text(p, c);

		if (node_kind(p, c) == K_ESCAPE) {
			decode_escape(&t, s, LANGUAGE_JAVASCRIPT);
			continue;
		}
		if (node_kind(p, c) == K_INTERP && !fold_text(p, node_named(p, c, 0), &s))
			return false;
		text_put(&t, s.p, s.n);
	}
	return text_value(&t, ret);
}

const struct lang lang_javascript = {
	.language = LANGUAGE_JAVASCRIPT,
	.kinds = kinds,
	.fields = fields,
	.bind = bind,
	.call_names = call_names,
	.join = join,
	.is_global_this = is_global_this,
	.literal = literal,
};
