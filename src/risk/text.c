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

/* Compatibility forms of ASCII letters and digits that may stand in identifiers (NFKC). */
static uint32_t fold_letter(uint32_t c)
{
	static const struct {
		uint32_t from;
		char to;
	} single[] = {
		{ 0xaa, 'a' },   { 0xba, 'o' },   { 0x17f, 's' },  { 0x2071, 'i' }, { 0x207f, 'n' },
		{ 0x2102, 'C' }, { 0x210a, 'g' }, { 0x210b, 'H' }, { 0x210c, 'H' }, { 0x210d, 'H' },
		{ 0x210e, 'h' }, { 0x2110, 'I' }, { 0x2111, 'I' }, { 0x2112, 'L' }, { 0x2113, 'l' },
		{ 0x2115, 'N' }, { 0x2119, 'P' }, { 0x211a, 'Q' }, { 0x211b, 'R' }, { 0x211c, 'R' },
		{ 0x211d, 'R' }, { 0x2124, 'Z' }, { 0x2128, 'Z' }, { 0x212a, 'K' }, { 0x212c, 'B' },
		{ 0x212d, 'C' }, { 0x212f, 'e' }, { 0x2130, 'E' }, { 0x2131, 'F' }, { 0x2133, 'M' },
		{ 0x2134, 'o' }, { 0x2139, 'i' }, { 0x2145, 'D' }, { 0x2146, 'd' }, { 0x2147, 'e' },
		{ 0x2148, 'i' }, { 0x2149, 'j' }, { 0x2160, 'I' }, { 0x2164, 'V' }, { 0x2169, 'X' },
		{ 0x216c, 'L' }, { 0x216d, 'C' }, { 0x216e, 'D' }, { 0x216f, 'M' }, { 0x2170, 'i' },
		{ 0x2174, 'v' }, { 0x2179, 'x' }, { 0x217c, 'l' }, { 0x217d, 'c' }, { 0x217e, 'd' },
		{ 0x217f, 'm' }, { 0x2c7c, 'j' }, { 0x2c7d, 'V' }, { 0xfe33, '_' }, { 0xfe34, '_' },
		{ 0x203f, 0 },
	};

	if (c >= 0xff01 && c <= 0xff5e)
		return c - 0xff01 + 0x21;
	if (c >= 0x1d7ce && c <= 0x1d7ff)
		return '0' + (c - 0x1d7ce) % 10;
	if (c >= 0x1d400 && c <= 0x1d6a3) { /* thirteen alphabets of 52 letters */
		uint32_t k = (c - 0x1d400) % 52;

		return k < 26 ? 'A' + k : 'a' + k - 26;
	}
	for (size_t i = 0; i < ELEMENTSOF(single); i++)
		if (single[i].from == c && single[i].to)
			return (uint32_t)single[i].to;
	if (c >= 0x1d2c && c <= 0x1d5c) { /* raised letters: only the plain ones */
		static const char raised[] =
			"A.B.DE.GHIJKLMN.O.PRTUW.a...b.de....g.k.m....o..p.t.u";

		if (c - 0x1d2c < sizeof(raised) - 1 && raised[c - 0x1d2c] != '.')
			return (uint32_t)raised[c - 0x1d2c];
	}
	return c;
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

struct str text_identifier(struct pass *p, struct str s)
{
	struct text out = { .p = p };
	bool plain = true;

	for (size_t i = 0; plain && i < s.n; i++)
		plain = (uint8_t)s.p[i] < 0x80 && s.p[i] != '\\';
	if (plain)
		return s;
	for (size_t i = 0; i < s.n;) {
		uint32_t c = (uint8_t)s.p[i];
		size_t len = 0;
		char utf8[4];

		if (c == '\\')
			len = get_escape(s.p + i, s.n - i, &c);
		else if (c >= 0x80)
			len = utf8_get(s.p + i, s.n - i, &c);
		if (p->g->lang->language == LANGUAGE_PYTHON)
			c = fold_letter(c);
		text_put(&out, utf8, utf8_put(utf8, c));
		i += len ? len : 1;
	}
	return out.failed ? s : (struct str){ out.v, out.n };
}
