/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to write a text so that it does not show: base64, hex, rot13, escape sequences. */
#include "risk/impl.h"

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

bool decode_base64(struct text *out, struct str s)
{
	uint32_t bits = 0;
	int n = 0;

	for (size_t i = 0; i < s.n && s.p[i] != '='; i++) {
		int d = base64_digit(s.p[i]);
		char c;

		if (d < 0 && (s.p[i] == '\n' || s.p[i] == '\r' || s.p[i] == ' '))
			continue;
		if (d < 0)
			return false;
		bits = bits << 6 | (uint32_t)d;
		n += 6;
		if (n < 8)
			continue;
		n -= 8;
		c = (char)(bits >> n & 0xff);
		text_put(out, &c, 1);
	}
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool decode_hex(struct text *out, struct str s)
{
	for (size_t i = 0; i < s.n;) {
		char c;

		if (s.p[i] == ' ' || s.p[i] == '\n') {
			i++;
			continue;
		}
		if (i + 1 >= s.n || hex_digit(s.p[i]) < 0 || hex_digit(s.p[i + 1]) < 0)
			return false;
		c = (char)(hex_digit(s.p[i]) * 16 + hex_digit(s.p[i + 1]));
		text_put(out, &c, 1);
		i += 2;
	}
	return true;
}

void decode_rot13(struct text *out, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i], low = (char)(c | 0x20);

		if (low >= 'a' && low <= 'z')
			c = (char)(low < 'n' ? c + 13 : c - 13);
		text_put(out, &c, 1);
	}
}

static uint32_t get_digits(struct str s, size_t from, size_t most, unsigned base, size_t *ret_n)
{
	uint32_t v = 0;
	size_t i = from;

	for (; i < s.n && i < from + most; i++) {
		int d = hex_digit(s.p[i]);

		if (d < 0 || (unsigned)d >= base)
			break;
		v = v * base + (uint32_t)d;
	}
	*ret_n = i - from;
	return v;
}

static void put_code(struct text *out, uint32_t c, bool byte)
{
	char utf8[4];

	if (byte && c < 0x100) {
		utf8[0] = (char)c;
		text_put(out, utf8, 1);
	} else if (c <= 0x10ffff) {
		text_put(out, utf8, utf8_put(utf8, c));
	}
}

static bool put_simple(struct text *out, char c, enum language language)
{
	static const char from[] = "abfnrtv0", to[] = "\a\b\f\n\r\t\v";
	const char *at = strchr(from, c);
	char v;

	if (language == LANGUAGE_SHELL && (c == 'e' || c == 'E')) {
		text_put(out, "\033", 1);
		return true;
	}
	if (!c || !at || c == '0')
		return false;
	v = to[at - from];
	text_put(out, &v, 1);
	return true;
}

void decode_escape(struct text *out, struct str s, enum language language)
{
	char c = (char)(s.n > 1 ? s.p[1] : 0);
	size_t n = 0;
	uint32_t v;

	if (s.n < 2 || put_simple(out, c, language))
		return;
	if (c == '\n' || c == '\r') /* the line goes on */
		return;
	if (c == 'x') {
		v = get_digits(s, 2, 2, 16, &n);
		put_code(out, v, language == LANGUAGE_SHELL);
	} else if (c == 'u' && s.n > 2 && s.p[2] == '{') {
		put_code(out, get_digits(s, 3, 6, 16, &n), false);
	} else if (c == 'u' || c == 'U') {
		put_code(out, get_digits(s, 2, c == 'u' ? 4 : 8, 16, &n), false);
	} else if (c >= '0' && c <= '7') {
		put_code(out, get_digits(s, 1, 3, 8, &n) & 0xff, language == LANGUAGE_SHELL);
	} else if (language == LANGUAGE_PYTHON && c != '\\' && c != '\'' && c != '"') {
		text_put(out, s.p, s.n); /* unknown ones stay */
	} else {
		text_put(out, s.p + 1, s.n - 1);
	}
}
