/* SPDX-License-Identifier: Apache-2.0 */
/* Text as bytes: what a reader cannot see, and identifiers as the languages compare them. */
#include "risk/impl.h"

uint32_t hash_bytes(const char *p, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)p[i]) * 16777619u;
	return h;
}

size_t utf8_put(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | (c >> 18 & 7));
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* The length of the well-formed sequence at p, 0 when there is none. */
static size_t utf8_get(const char *s, size_t n, uint32_t *ret)
{
	const uint8_t *p = (const uint8_t *)s;
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	uint32_t c;

	if (len == 0 || len > n || p[0] > 0xf4)
		return 0;
	c = len == 1 ? p[0] : p[0] & (0xffu >> (len + 1));
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if ((len == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
	    (len == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	*ret = c;
	return len;
}

/* Direction controls, zero-width marks, tags, blanks that do not look like one: text that reads
 * differently from what runs. */
static bool is_hidden(uint32_t c)
{
	return (c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f') || c == 0x7f ||
	       (c >= 0x80 && c < 0xa0) || c == 0xad || c == 0x34f || c == 0x61c ||
	       (c >= 0x115f && c <= 0x1160) || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0x3164 ||
	       c == 0xfeff || c == 0xffa0 || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xe0000 && c <= 0xe007f);
}

bool text_is_good(struct str s, uint32_t *ret_at)
{
	for (size_t i = 0; i < s.n;) {
		uint32_t c;
		size_t len = (uint8_t)s.p[i] - 1u < 0x7f ? 1 : utf8_get(s.p + i, s.n - i, &c);

		if (len == 0 || s.p[i] == 0) {
			*ret_at = (uint32_t)i;
			return false;
		}
		i += len;
	}
	return true;
}

static bool is_word(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c >= 0x80;
}

size_t text_tokens(struct str s, enum language language)
{
	size_t mark = language == LANGUAGE_SHELL ? 2 : 1, n = 0;
	bool inside = false;

	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = (uint8_t)s.p[i];

		if (is_word(c)) {
			if (!inside)
				n += c >= '0' && c <= '9' ? 2 : 1;
			inside = true;
			continue;
		}
		inside = false;
		if (c == '\n')
			n += 3; /* the end of a statement and of blocks */
		else if (c != ' ' && c != '\t' && c != '\r')
			n += mark; /* pieces of a word are joined by tokens without text */
	}
	return n;
}

struct str text_lines(struct pass *p, struct str s)
{
	char *copy;

	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '\r' || (i + 1 < s.n && s.p[i + 1] == '\n'))
			continue;
		copy = arena_dup(&p->pool, s.p, s.n);
		for (size_t k = i; copy && k < s.n; k++)
			if (copy[k] == '\r' && (k + 1 == s.n || copy[k + 1] != '\n'))
				copy[k] = '\n';
		return copy ? (struct str){ copy, s.n } : s;
	}
	return s;
}

bool text_next_hidden(struct str s, uint32_t *at)
{
	for (size_t i = *at; i < s.n;) {
		uint32_t c = (uint8_t)s.p[i];
		size_t len = 1;

		if (c >= 0x80)
			len = utf8_get(s.p + i, s.n - i, &c);
		/* A joiner behind an emoji, and a mark at the very start, are what they seem. */
		if (len && (c < 0x20 || c >= 0x7f) && is_hidden(c) &&
		    !(c == 0x200d && i >= 3 && (uint8_t)s.p[i - 1] >= 0x80) &&
		    !(c == 0xfeff && i == 0)) {
			*at = (uint32_t)i;
			return true;
		}
		i += len ? len : 1;
	}
	return false;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \u0065 and \u{65} in an identifier of JavaScript. */
static size_t get_escape(const char *s, size_t n, uint32_t *ret)
{
	bool braces = n > 3 && s[2] == '{';
	size_t i = braces ? 3 : 2, end = braces ? MIN2(n, 11) : MIN2(n, 6);
	uint32_t c = 0;

	if (n < 6 && !braces)
		return 0;
	if (n < 4 || s[1] != 'u')
		return 0;
	for (; i < end && hex_digit(s[i]) >= 0; i++)
		c = c << 4 | (uint32_t)hex_digit(s[i]);
	if ((braces ? i >= n || s[i] != '}' : i != 6) || c > 0x10ffff)
		return 0;
	*ret = c;
	return i + braces;
}

bool text_is_plain(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((uint8_t)s.p[i] >= 0x80 || s.p[i] == '\\')
			return false;
	return true;
}

struct str text_identifier(struct pass *p, struct str s)
{
	struct text out = { .p = p };

	if (p->plain || text_is_plain(s))
		return s;
	for (size_t i = 0; i < s.n;) {
		uint32_t c = (uint8_t)s.p[i];
		size_t len = 0;
		char plain_form[LETTERS_MAX];
		size_t n = 0;

		if (c == '\\')
			len = get_escape(s.p + i, s.n - i, &c);
		else if (c >= 0x80)
			len = utf8_get(s.p + i, s.n - i, &c);
		if (p->g->lang->language == LANGUAGE_PYTHON && c >= 0x80)
			n = letters_plain(c, plain_form);
		text_put(&out, plain_form, n ? n : utf8_put(plain_form, c));
		i += len ? len : 1;
	}
	return out.failed ? s : (struct str){ out.v, out.n };
}
