/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sed script does, read by sed's own grammar: any delimiter, any address, and a command's
 * letter with its text right behind it. Where sed would stop with an error, reading stops too.
 */
#include "risk/shell.h"

struct script {
	const char *p, *end;
	unsigned does;
};

static char peek(const struct script *s)
{
	return (char)(s->p < s->end ? *s->p : '\0');
}

static void skip_any(struct script *s, const char *chars)
{
	while (s->p < s->end && *s->p && strchr(chars, *s->p))
		s->p++;
}

static void skip_past(struct script *s, const char *chars)
{
	while (s->p < s->end && !strchr(chars, *s->p))
		s->p++;
}

/* [...] and [^]...], where the delimiter is a letter like others. */
static void skip_bracket(struct script *s)
{
	const char *from = s->p++;

	if (peek(s) == '^')
		s->p++;
	if (peek(s) == ']')
		s->p++;
	while (s->p < s->end && *s->p != ']' && *s->p != '\n')
		s->p++;
	if (peek(s) != ']')
		s->p = from; /* it does not end: a letter */
	s->p++;
}

/* Behind the next delimiter; a regular expression has brackets. */
static bool skip_part(struct script *s, char delimiter, bool regex)
{
	while (s->p < s->end) {
		if (*s->p == delimiter) {
			s->p++;
			return true;
		}
		if (*s->p == '\\')
			s->p = s->p + 2 <= s->end ? s->p + 2 : s->end;
		else if (regex && *s->p == '[')
			skip_bracket(s);
		else
			s->p++;
	}
	return false;
}

static bool skip_address(struct script *s)
{
	char c = peek(s);

	if (c == '/' || c == '\\') {
		s->p += c == '\\' ? 2 : 1;
		if (s->p > s->end || !skip_part(s, s->p[-1], true))
			return false;
		skip_any(s, "IM");
	} else {
		skip_any(s, "0123456789$+~");
	}
	skip_any(s, " \t");
	return true;
}

static bool skip_addresses(struct script *s)
{
	if (!skip_address(s))
		return false;
	if (peek(s) == ',') {
		s->p++;
		skip_any(s, " \t");
		if (!skip_address(s))
			return false;
	}
	skip_any(s, "! \t");
	return true;
}

static void skip_line(struct script *s)
{
	skip_past(s, "\n");
}

/* The text of a, i and c: a backslash takes the next line along. */
static void skip_text(struct script *s)
{
	for (; s->p < s->end && *s->p != '\n'; s->p++)
		if (*s->p == '\\' && s->p + 1 < s->end)
			s->p++;
}

static void take_file(struct script *s)
{
	struct str name;

	skip_any(s, " \t");
	name.p = s->p;
	skip_line(s);
	name.n = (size_t)(s->p - name.p);
	if (name.n && !str_is(name, "/dev/stdout") && !str_is(name, "/dev/stderr"))
		s->does |= SED_WRITES;
}

static bool take_substitution(struct script *s, bool flags)
{
	char delimiter = peek(s);

	s->p++;
	if (!delimiter || delimiter == '\n' || !skip_part(s, delimiter, flags) ||
	    !skip_part(s, delimiter, false))
		return false;
	if (!flags)
		return true;
	while (s->p < s->end && strchr("gpiImMe0123456789", *s->p)) {
		if (*s->p == 'e')
			s->does |= SED_RUNS;
		s->p++;
	}
	if (peek(s) == 'w') {
		s->p++;
		take_file(s);
	}
	return true;
}

/* One command, its addresses already read; false: sed would stop here. */
static bool take_command(struct script *s)
{
	char c = peek(s);

	s->p++;
	switch (c) {
	case 'e':
		s->does |= SED_RUNS;
		skip_line(s);
		return true;
	case 'w':
	case 'W':
		take_file(s);
		return true;
	case 's':
	case 'y':
		return take_substitution(s, c == 's');
	case 'a':
	case 'i':
	case 'c':
		skip_text(s);
		return true;
	case 'r':
	case 'R':
	case '#':
		skip_line(s);
		return true;
	case ':':
	case 'b':
	case 't':
	case 'T':
	case 'v':
		skip_any(s, " \t");
		skip_past(s, "; \t\n}");
		return true;
	case 'l':
	case 'L':
	case 'q':
	case 'Q':
		skip_any(s, " \t0123456789");
		return true;
	default:
		return c && strchr("{}=dDgGhHnNpPxzF", c);
	}
}

static unsigned read_script(struct str text)
{
	struct script s = { text.p, text.p + text.n, 0 };

	for (;;) {
		skip_any(&s, "; \t\r\n}");
		if (s.p >= s.end || !skip_addresses(&s) || s.p >= s.end || !take_command(&s))
			return s.does;
	}
}

/* ---- the words of the command ---- */

/* --expression, also shortened, and what stands behind its =. */
static bool is_expression(struct str word, struct str *ret)
{
	static const char name[] = "--expression";
	const char *equals = word.n ? memchr(word.p, '=', word.n) : NULL;
	size_t n = equals ? (size_t)(equals - word.p) : word.n;

	if (n < 3 || n >= sizeof(name) || memcmp(word.p, name, n) != 0)
		return false;
	*ret = equals ? (struct str){ equals + 1, word.n - n - 1 } : (struct str){ 0 };
	return true;
}

/* -ne SCRIPT, -neSCRIPT; -i and -f take the rest of the word. */
static bool is_short_expression(struct str word, struct str *ret)
{
	for (size_t i = 1; i < word.n && strchr("bnErsuz", word.p[i]); i++)
		if (i + 1 < word.n && word.p[i + 1] == 'e') {
			*ret = (struct str){ word.p + i + 2, word.n - i - 2 };
			return true;
		}
	*ret = word.n > 2 ? (struct str){ word.p + 2, word.n - 2 } : (struct str){ 0 };
	return word.n > 1 && word.p[1] == 'e';
}

static void put_script(struct text *all, struct str s)
{
	/* "s/$a/b/e", which is not known in full, is read as it is written */
	if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
		s = (struct str){ s.p + 1, s.n - 2 };
	if (all->n)
		text_put(all, "\n", 1);
	text_put(all, s.p, s.n);
}

unsigned shell_sed(struct pass *p, uint32_t command)
{
	struct text all = { .p = p };
	struct str word = { 0 }, first = { 0 }, script;
	bool exists = true, given = false, next = false;

	for (uint32_t i = 1; i < WORDS_MAX; i++) {
		(void)shell_word(p, command, i, &word, &exists);
		if (!exists)
			break;
		if (!next && word.n > 1 && word.p[0] == '-') {
			bool is = word.p[1] == '-' ? is_expression(word, &script)
			                           : is_short_expression(word, &script);

			given = given || is;
			next = is && script.n == 0;
			if (is && script.n)
				put_script(&all, script);
			continue;
		}
		if (next)
			put_script(&all, word);
		else if (!first.p)
			first = word;
		next = false;
	}
	if (!given && first.p)
		put_script(&all, first);
	return all.failed || !all.n ? 0 : read_script((struct str){ all.v, all.n });
}
