/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the grammar reads otherwise than a shell does, written in a way that both read alike. The
 * text keeps its length, so that places stay what they were (but for the rest of a split word).
 */
#include "risk/shell.h"

struct rewrite {
	struct pass *p;
	char *v;
	size_t n;
	bool changed;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool ends_word(char c)
{
	return is_blank(c) || strchr(";|&()<>`", c) != NULL;
}

/* r\<newline>m becomes rm and two blanks. */
static void join_lines(struct rewrite *r, size_t at)
{
	size_t end = at + 2;

	if (at == 0 || ends_word(r->v[at - 1]) || end >= r->n || ends_word(r->v[end]))
		return;
	while (end < r->n && !ends_word(r->v[end]) && end - at < NAME_MAX_LEN)
		end++;
	memmove(r->v + at, r->v + at + 2, end - at - 2);
	memset(r->v + end - 2, ' ', 2);
	r->changed = true;
}

/* Nothing but blanks between this and the beginning of a command. */
static bool begins_command(const struct rewrite *r, size_t at)
{
	while (at > 0 && (r->v[at - 1] == ' ' || r->v[at - 1] == '\t'))
		at--;
	return at == 0 || strchr("\n;|&(`", r->v[at - 1]) != NULL;
}

/* {rm,-rf,/} is not a group. */
static void open_braces(struct rewrite *r, size_t at)
{
	size_t end = at + 1;
	bool comma = false;

	if (!begins_command(r, at))
		return;
	while (end < r->n && !ends_word(r->v[end]) && r->v[end] != '}') {
		comma = comma || r->v[end] == ',';
		end++;
	}
	if (!comma || end >= r->n || r->v[end] != '}')
		return;
	for (size_t i = at; i <= end; i++)
		if (i == at || i == end || r->v[i] == ',')
			r->v[i] = ' ';
	r->changed = true;
}

/* "time" before a loop or a group measures it and is no command. */
static void drop_time(struct rewrite *r, size_t at)
{
	static const char *const words[] = {
		"for ", "while ", "until ", "if ", "{ ", "(", "case "
	};
	size_t next = at + 5;

	if (at + 6 > r->n || memcmp(r->v + at, "time ", 5) != 0 || !begins_command(r, at))
		return;
	if (next + 3 < r->n && memcmp(r->v + next, "-p ", 3) == 0)
		next += 3;
	for (size_t i = 0; i < ELEMENTSOF(words); i++) {
		size_t n = strlen(words[i]);

		if (next + n <= r->n && memcmp(r->v + next, words[i], n) == 0) {
			memset(r->v + at, ' ', next - at);
			r->changed = true;
			return;
		}
	}
}

static size_t skip_to(const struct rewrite *r, size_t at, char c)
{
	const char *end = at < r->n ? memchr(r->v + at, c, r->n - at) : NULL;

	return end ? (size_t)(end - r->v) : r->n;
}

static void walk(struct rewrite *r)
{
	for (size_t i = 0; i < r->n; i++) {
		char c = r->v[i];

		if (c == '\'')
			i = skip_to(r, i + 1, '\'');
		else if (c == '#' && (i == 0 || is_blank(r->v[i - 1])))
			i = skip_to(r, i, '\n');
		else if (c == '\\' && i + 1 < r->n && r->v[i + 1] == '\n')
			join_lines(r, i);
		else if (c == '\\')
			i++;
		else if (c == '{')
			open_braces(r, i);
		else if (c == 't')
			drop_time(r, i);
	}
}

struct str shell_rewrite(struct pass *p, struct str text)
{
	struct rewrite r = { .p = p, .n = text.n };

	if (!text.p || text.n == 0)
		return text;
	if (!memchr(text.p, '{', text.n) && !memmem(text.p, text.n, "\\\n", 2) &&
	    !memmem(text.p, text.n, "time ", 5))
		return text;
	r.v = arena_dup(&p->pool, text.p, text.n);
	if (!r.v)
		return text;
	walk(&r);
	return r.changed ? (struct str){ r.v, r.n } : text;
}
