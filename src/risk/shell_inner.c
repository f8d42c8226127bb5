/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that the grammar does not show as such: substitutions that it loses in here-documents,
 * backquotes in backquotes, and functions that start themselves.
 */
#include "risk/query.h"
#include "risk/shell.h"

#define CALLS_MAX 8    /* functions started in the background that are followed */
#define BODY_MAX  4096 /* nodes of a function that are looked at */

/* ---- substitutions ---- */

/* Behind the bracket that closes $( at `at`; the end when none does. */
static size_t closing(struct str s, size_t at)
{
	size_t open = 0;

	for (size_t i = at; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '(')
			open++;
		else if (s.p[i] == ')' && --open == 0)
			return i;
	}
	return s.n;
}

static size_t closing_backquote(struct str s, size_t at)
{
	for (size_t i = at + 1; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '`')
			return i;
	}
	return s.n;
}

/* The first node from `i` on that is a substitution and begins at or behind `at`, or one behind the
 * end. */
static uint32_t seen_from(const struct pass *p, uint32_t i, size_t at, size_t end)
{
	while (i < p->tree.n && node_at(p, i)->start < end &&
	       (node_kind(p, i) != K_SUBST || node_at(p, i)->start < at))
		i++;
	return i;
}

/* Inside backquotes a backslash before these is for the outer shell. */
static void assess_backquotes(struct pass *p, struct str s, uint32_t node)
{
	struct text t = { .p = p };

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && i + 1 < s.n && strchr("`$\\", s.p[i + 1]))
			i++;
		text_put(&t, s.p + i, 1);
	}
	if (t.n && !t.failed)
		assess_embedded(p, LANGUAGE_SHELL, (struct str){ t.v, t.n }, node);
}

static bool is_quoted(struct str start)
{
	return memchr(start.p, '\'', start.n) || memchr(start.p, '"', start.n) ||
	       memchr(start.p, '\\', start.n);
}

/* A substitution at `at` in the text of a here-document, unless the tree has it; its end. */
static size_t assess_lost(struct pass *p, uint32_t node, struct str s, size_t at, uint32_t *seen)
{
	bool quotes = s.p[at] == '`';
	size_t end = quotes ? closing_backquote(s, at) : closing(s, at + 1);
	size_t from = at + (quotes ? 1 : 2), place = (size_t)(s.p - p->text.p);

	*seen = seen_from(p, *seen, place + at, place + s.n);
	if (*seen < p->tree.n && node_at(p, *seen)->start == place + at)
		return end;
	if (end > from)
		assess_backquotes(p, (struct str){ s.p + from, end - from }, node);
	return end;
}

static void assess_body(struct pass *p, uint32_t node, struct str s)
{
	uint32_t seen = node;

	for (size_t i = 0; i + 1 < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '`' || (s.p[i] == '$' && s.p[i + 1] == '('))
			i = assess_lost(p, node, s, i, &seen);
	}
}

static void assess_heredoc(struct pass *p, uint32_t node)
{
	uint32_t start = node_named(p, node, 0);
	const char *from, *end = p->text.p + node_at(p, node)->end;

	while (start != NO_NODE && node_at(p, start)->start == node_at(p, node)->start)
		start = node_skip(p, node_at(p, start)->next); /* a file descriptor */
	if (start == NO_NODE || is_quoted(node_text(p, start)))
		return;
	from = p->text.p + node_at(p, start)->end;
	from = memchr(from, '\n', (size_t)(end - from));
	if (from)
		assess_body(p, node, (struct str){ from, (size_t)(end - from) });
}

void shell_inner(struct pass *p, uint32_t node)
{
	struct str s = node_text(p, node);

	if (node_kind(p, node) == K_HEREDOC)
		assess_heredoc(p, node);
	else if (s.n > 2 && s.p[0] == '`' && memmem(s.p, s.n, "\\`", 2))
		assess_backquotes(p, (struct str){ s.p + 1, s.n - 2 }, node);
}

/* ---- functions that start themselves ---- */

static bool in_background(const struct pass *p, uint32_t node, uint32_t function)
{
	for (; node != NO_NODE && node != function; node = node_at(p, node)->parent) {
		uint32_t next = node_at(p, node)->next;

		if (next != NO_NODE && !node_at(p, next)->named && str_is(node_text(p, next), "&"))
			return true;
	}
	return false;
}

static uint32_t function_named(struct pass *p, struct str name)
{
	const struct binding *b = binding_first(p, name_make(p, shell_function(p, name)));

	return b ? b->value : NO_NODE;
}

/* The next command inside the function behind `at`; NO_NODE: none. */
static uint32_t next_command(const struct pass *p, uint32_t function, uint32_t at)
{
	uint32_t end = node_at(p, function)->end;

	for (at++; at < p->tree.n && at - function < BODY_MAX && node_at(p, at)->start < end; at++)
		if (node_kind(p, at) == K_COMMAND)
			return at;
	return NO_NODE;
}

static bool calls(struct pass *p, uint32_t function, uint32_t other)
{
	for (uint32_t c = next_command(p, function, function); c != NO_NODE;
	     c = next_command(p, function, c))
		if (function_named(p, node_text(p, node_field(p, c, F_NAME))) == other)
			return true;
	return false;
}

/* It starts itself in the background, or another function that calls it. */
bool shell_is_bomb(struct pass *p, uint32_t function)
{
	uint32_t n = 0;

	for (uint32_t c = next_command(p, function, function); c != NO_NODE && n < CALLS_MAX;
	     c = next_command(p, function, c)) {
		uint32_t callee = function_named(p, node_text(p, node_field(p, c, F_NAME)));

		if (callee == NO_NODE || !in_background(p, c, function))
			continue;
		if (callee == function || calls(p, callee, function))
			return true;
		n++;
	}
	return false;
}
