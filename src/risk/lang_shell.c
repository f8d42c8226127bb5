/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shell words as the shell cooks them: quotes and backslashes gone, pieces joined, variables that
 * were given one constant put in. A cut between words inside a value (from $IFS, a blank in an
 * unquoted variable, braces) is WORD_CUT.
 */
#include "risk/shell.h"

static const struct kind_name kinds[] = {
	{ "command", K_COMMAND },
	{ "command_name", K_COMMAND_NAME },
	{ "word", K_WORD },
	{ "number", K_WORD },
	{ "test_operator", K_WORD },
	{ "raw_string", K_RAW },
	{ "ansi_c_string", K_ANSI },
	{ "string", K_STRING },
	{ "translated_string", K_STRING },
	{ "string_content", K_PIECE },
	{ "heredoc_body", K_TEMPLATE },
	{ "heredoc_content", K_PIECE },
	{ "concatenation", K_CONCAT },
	{ "brace_expression", K_WORD },
	{ "arithmetic_expansion", K_ARITH },
	{ "subscript", K_SUBSCRIPT },
	{ "simple_expansion", K_EXPAND },
	{ "expansion", K_EXPAND },
	{ "command_substitution", K_SUBST },
	{ "variable_name", K_VARIABLE },
	{ "special_variable_name", K_VARIABLE },
	{ "variable_assignment", K_SET },
	{ "for_statement", K_EACH },
	{ "function_definition", K_DEFINE },
	{ "heredoc_redirect", K_HEREDOC },
	{ "herestring_redirect", K_HERESTRING },
	{ "redirected_statement", K_REDIRECTED },
	{ "pipeline", K_PIPELINE },
	{ "list", K_SEQUENCE },
	{ "compound_statement", K_GROUP },
	{ "comment", K_COMMENT },
	{ NULL, K_OTHER },
};

static const struct field_name fields[] = {
	{ "name", F_NAME },         { "value", F_VALUE },   { "argument", F_ARGUMENT },
	{ "body", F_BODY },         { "variable", F_LEFT }, { "destination", F_DESTINATION },
	{ "operator", F_OPERATOR }, { NULL, F_NONE },
};

/* ---- bindings ---- */

static void bind_set(struct pass *p, uint32_t node)
{
	uint32_t name = node_field(p, node, F_NAME), value = node_field(p, node, F_VALUE);
	struct binding how = { 0 };
	struct str s = node_text(p, node);
	const char *equals = memchr(s.p, '=', s.n);

	how.append = equals && equals > s.p && equals[-1] == '+';
	if (name == NO_NODE)
		return;
	if (value == NO_NODE)
		bind_name(p, node_text(p, name), (struct name){ 0 }, false, 0);
	else
		bind_value(p, node_text(p, name), value, how);
}

/* read a b, mapfile c: whatever comes in */
static void bind_read(struct pass *p, uint32_t node)
{
	struct str name = node_text(p, node_field(p, node, F_NAME));

	if (!str_is(name, "read") && !str_is(name, "mapfile") && !str_is(name, "readarray") &&
	    !str_is(name, "getopts") && !str_is(name, "printf"))
		return;
	for (uint32_t c = node_named(p, node, 1); c != NO_NODE;
	     c = node_skip(p, node_at(p, c)->next))
		if (node_kind(p, c) == K_WORD) {
			struct binding how = { .element = true };

			bind_value(p, node_text(p, c), c, how);
		}
}

/* Nothing decides whether the definition is reached, and no subshell keeps it to itself. */
static bool is_certain(const struct pass *p, uint32_t node)
{
	uint32_t up = node_at(p, node)->parent;

	for (; up != NO_NODE && up != 0; up = node_at(p, up)->parent) {
		enum kind kind = node_kind(p, up);

		if (kind != K_SEQUENCE && kind != K_GROUP && kind != K_DEFINE &&
		    kind != K_REDIRECTED)
			return false;
		if (kind == K_SEQUENCE && node_named(p, up, 0) != node)
			return false; /* false && f() { ...; } */
	}
	return true;
}

static void bind(struct pass *p, uint32_t node)
{
	struct binding how = { .element = true };
	uint32_t name;

	switch ((int)node_kind(p, node)) {
	case K_SET:
		bind_set(p, node);
		break;
	case K_EACH:
		name = node_field(p, node, F_LEFT);
		if (name != NO_NODE)
			bind_value(p, node_text(p, name), node, how);
		break;
	case K_COMMAND:
		bind_read(p, node);
		break;
	case K_DEFINE:
		name = node_field(p, node, F_NAME);
		if (name != NO_NODE && is_certain(p, node))
			bind_value(p, shell_function(p, node_text(p, name)), node,
			           (struct binding){ .at = node_at(p, node)->end });
		break;
	default:
		break;
	}
}

struct str shell_function(struct pass *p, struct str name)
{
	struct text t = { .p = p };

	text_put(&t, "()", 2);
	text_put(&t, name.p, name.n);
	return (struct str){ t.v, t.n };
}

/* ---- pieces of words ---- */

static void put_cut(struct text *t)
{
	const char cut = WORD_CUT;

	text_put(t, &cut, 1);
}

/* {a,b}: the commas cut */
static bool put_braces(struct text *t, struct str s)
{
	if (s.n < 4 || s.p[0] != '{' || s.p[s.n - 1] != '}' || !memchr(s.p, ',', s.n))
		return false;
	for (size_t i = 1; i + 1 < s.n; i++) {
		if (s.p[i] == ',')
			put_cut(t);
		else
			text_put(t, s.p + i, 1);
	}
	return true;
}

static void put_plain(struct text *t, struct str s)
{
	if (put_braces(t, s))
		return;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n) {
			i++;
			if (s.p[i] == '\n')
				continue;
		}
		text_put(t, s.p + i, 1);
	}
}

/* Inside double quotes a backslash counts only before these. */
static void put_quoted(struct text *t, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n && strchr("$`\"\\\n", s.p[i + 1])) {
			i++;
			if (s.p[i] == '\n')
				continue;
		}
		text_put(t, s.p + i, 1);
	}
}

/* $'\x72\155' */
static void put_ansi(struct text *t, struct str s)
{
	size_t i = s.n > 2 ? 2 : s.n, end = s.n ? s.n - 1 : 0;

	while (i < end) {
		size_t n = 2;

		if (s.p[i] != '\\' || i + 1 >= end) {
			text_put(t, s.p + i++, 1);
			continue;
		}
		if (s.p[i + 1] == 'x' || s.p[i + 1] == 'u' || s.p[i + 1] == 'U') {
			size_t most = s.p[i + 1] == 'x' ? 4 : s.p[i + 1] == 'u' ? 6 : 10;

			while (n < most && i + n < end &&
			       strchr("0123456789abcdefABCDEF", s.p[i + n]))
				n++;
		} else if (s.p[i + 1] >= '0' && s.p[i + 1] <= '7') {
			while (n < 4 && i + n < end && s.p[i + n] >= '0' && s.p[i + n] <= '7')
				n++;
		}
		decode_escape(t, (struct str){ s.p + i, n }, LANGUAGE_SHELL);
		i += n;
	}
}

static void put_value(struct text *t, struct str s, bool quoted)
{
	for (size_t i = 0; i < s.n; i++) {
		bool blank = s.p[i] == ' ' || s.p[i] == '\n' || s.p[i] == '\t';

		if (!quoted && blank)
			put_cut(t);
		else if (quoted && s.p[i] == WORD_CUT)
			text_put(t, " ", 1);
		else
			text_put(t, s.p + i, 1);
	}
}

/* ---- expansions ---- */

/* A variable that was given one value, and perhaps more behind it. */
static bool variable_value(struct pass *p, struct str name, struct str *ret, bool *ret_bound)
{
	const struct binding *b = binding_first(p, name_make(p, name));
	struct text t = { .p = p };
	uint32_t more[16], n = 0;
	struct str s;

	*ret_bound = b != NULL;
	for (; b && b->append && n < ELEMENTSOF(more); b = binding_next(p, b))
		more[n++] = b->value;
	if ((!b && n == 0) || (b && (b->next != NO_NODE || b->element || b->append)))
		return false;
	if (b && b->value != NO_NODE) {
		if (!fold_text(p, b->value, &s))
			return false;
		text_put(&t, s.p, s.n);
	}
	while (n--) {
		if (!fold_text(p, more[n], &s))
			return false;
		text_put(&t, s.p, s.n);
	}
	*ret = (struct str){ t.v ? t.v : "", t.n };
	return !t.failed;
}

static bool in_name(const struct pass *p, uint32_t node)
{
	for (int i = 0; i < 4 && node != NO_NODE; i++, node = node_at(p, node)->parent)
		if (node_kind(p, node) == K_COMMAND_NAME)
			return true;
	return false;
}

/* ${x:-word}, ${x#...}: what follows the name */
static bool put_operated(struct pass *p, uint32_t node, struct str name, struct text *t,
                         bool quoted)
{
	struct str s = node_text(p, node), value;
	size_t skip = 2 + name.n;
	bool bound;

	if (str_is(name, "IFS")) {
		put_value(t, STR(" "), quoted);
		return true;
	}
	if (s.n <= skip + 1 || variable_value(p, name, &value, &bound) || bound)
		return false;
	skip += s.p[skip] == ':';
	if (skip + 2 > s.n || (s.p[skip] != '-' && s.p[skip] != '='))
		return false;
	value = (struct str){ s.p + skip + 1, s.n - skip - 2 };
	if (memchr(value.p, '$', value.n) || memchr(value.p, '`', value.n))
		return false;
	put_value(t, value, quoted);
	return true;
}

static bool put_expansion(struct pass *p, uint32_t node, struct text *t, bool quoted)
{
	uint32_t variable = node_named(p, node, 0);
	struct str s = node_text(p, node), name, value;
	bool bound = false;

	if (node_kind(p, variable) != K_VARIABLE)
		return false;
	name = node_text(p, variable);
	if (s.n > 2 && s.p[1] == '{' && s.n != name.n + 3)
		return s.p[2] != '!' && s.p[2] != '#' && put_operated(p, node, name, t, quoted);
	if (variable_value(p, name, &value, &bound)) {
		put_value(t, value, quoted);
		return true;
	}
	if (bound)
		return false;
	if (str_is(name, "IFS")) {
		put_value(t, STR(" "), quoted);
		return true;
	}
	/* r$@m: in the name of a command, what nobody set is nothing */
	return in_name(p, node) && node_kind(p, node_at(p, node)->parent) == K_CONCAT;
}

/* $(echo rm) */
static bool put_substitution(struct pass *p, uint32_t node, struct text *t, bool quoted)
{
	uint32_t command = node_named(p, node, 0);
	struct str name, word;
	bool exists = true;

	if (node_kind(p, command) != K_COMMAND || node_named(p, node, 1) != NO_NODE)
		return false;
	name = node_text(p, node_field(p, command, F_NAME));
	if (!str_is(name, "echo") && !str_is(name, "printf"))
		return false;
	for (uint32_t i = 1; i < WORDS_MAX; i++) {
		if (!shell_word(p, command, i, &word, &exists))
			return !exists;
		if (i == 1 && word.n == 2 && word.p[0] == '-')
			continue;
		if (i > 1)
			put_value(t, STR(" "), quoted);
		put_value(t, word, quoted);
	}
	return false;
}

/* ---- words ---- */

static bool put_word(struct pass *p, uint32_t node, struct text *t, bool quoted, uint32_t depth);

/* What stands between the named parts belongs to the text too, but for the quotes. */
static bool put_parts(struct pass *p, uint32_t node, struct text *t, bool quoted,
                      uint32_t depth) // NOLINT(misc-no-recursion)
{
	const struct node *n = node_at(p, node);
	uint32_t at = n->start;

	for (uint32_t c = n->first; c != NO_NODE; c = node_at(p, c)->next) {
		const struct node *part = node_at(p, c);
		struct str s = node_text(p, c);

		if (part->start > at)
			put_quoted(t, (struct str){ p->text.p + at, part->start - at });
		at = part->end;
		if (!part->named) {
			if (!quoted || (!str_is(s, "\"") && !str_is(s, "$\"")))
				put_quoted(t, s);
			continue;
		}
		if (!put_word(p, c, t, quoted, depth + 1))
			return false;
	}
	if (n->end > at)
		put_quoted(t, (struct str){ p->text.p + at, n->end - at });
	return true;
}

static bool put_word(struct pass *p, uint32_t node, struct text *t, bool quoted,
                     uint32_t depth) // NOLINT(misc-no-recursion)
{
	struct str s = node_text(p, node);

	if (depth > 16)
		return false;
	switch ((int)node_kind(p, node)) {
	case K_WORD:
		put_plain(t, s);
		return true;
	case K_VARIABLE:
		text_put(t, s.p, s.n);
		return true;
	case K_RAW:
		if (s.n >= 2)
			text_put(t, s.p + 1, s.n - 2);
		return true;
	case K_ANSI:
		put_ansi(t, s);
		return true;
	case K_PIECE:
		put_quoted(t, s);
		return true;
	case K_STRING:
	case K_TEMPLATE:
		return put_parts(p, node, t, true, depth);
	case K_CONCAT:
		if (put_braces(t, s))
			return true;
		return put_parts(p, node, t, quoted, depth);
	case K_EXPAND:
		return put_expansion(p, node, t, quoted);
	case K_SUBST:
		return put_substitution(p, node, t, quoted);
	case K_ARITH: /* ((x)) is the command let */
		if (s.n < 2 || s.p[0] != '(')
			return false;
		text_put(t, "let", 3);
		return true;
	case K_COMMAND_NAME:
		return put_word(p, node_named(p, node, 0), t, quoted, depth + 1);
	default:
		return false;
	}
}

static bool literal(struct pass *p, uint32_t node, struct value *ret)
{
	struct text t = { .p = p };

	if (node_kind(p, node) == K_OTHER && !node_at(p, node)->named)
		return value_text(p, node_text(p, node), ret);
	return put_word(p, node, &t, false, 0) && text_value(&t, ret);
}

static bool call_names(struct pass *p, uint32_t call, struct names *ret)
{
	(void)p, (void)call, (void)ret;
	return false;
}

const struct lang lang_shell = {
	.language = LANGUAGE_SHELL,
	.kinds = kinds,
	.fields = fields,
	.bind = bind,
	.call_names = call_names,
	.join = name_join,
	.literal = literal,
};
