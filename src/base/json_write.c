/* SPDX-License-Identifier: Apache-2.0 */

/* Strings as JSON, whatever their bytes are: see the rule in json.h. */

#include <stdint.h>
#include <string.h>

#include "base/json.h"

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* True when all eight bytes are plain: no control, quote, backslash, DEL or byte above 0x7f. */
static bool is_plain8(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
	uint64_t x, quote, slash, del;

	memcpy(&x, p, sizeof(x));
	quote = x ^ ones * '"';
	slash = x ^ ones * '\\';
	del = x ^ ones * 0x7f;
	/* (v - ones) & ~v has a high bit set exactly when some byte of v is 0. */
	return ((x | ((x - ones * 0x20) & ~x) | ((quote - ones) & ~quote) |
	         ((slash - ones) & ~slash) | ((del - ones) & ~del)) &
	        high) == 0;
}

/* The length of the well-formed multi-byte sequence at p, 0 when there is none. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
	static const struct {
		unsigned char lead_from, lead_to, second_from, second_to;
		size_t len;
	} forms[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, /* no surrogates */
		{ 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
		if (p[0] < forms[i].lead_from || p[0] > forms[i].lead_to)
			continue;
		if (n < forms[i].len || p[1] < forms[i].second_from || p[1] > forms[i].second_to)
			return 0;
		for (size_t k = 2; k < forms[i].len; k++)
			if (p[k] < 0x80 || p[k] > 0xbf)
				return 0;
		return forms[i].len;
	}
	return 0;
}

/* How many bytes from p on can be written as they are. */
static size_t verbatim_length(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t len;

		if (n - i >= 8 && is_plain8(p + i)) {
			i += 8;
			continue;
		}
		if (is_plain((unsigned char)p[i])) {
			i++;
			continue;
		}
		len = utf8_length((const unsigned char *)p + i, n - i);
		if (!len)
			break;
		i += len;
	}
	return i;
}

/* Writes what stands for the byte c, at most 6 bytes; returns how many. */
static size_t escape_byte(unsigned char c, char *out)
{
	static const char short_forms[0x80] = {
		['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't',
	};
	static const char hex[] = "0123456789abcdef";

	if (c >= 0x80) {
		out[0] = '\xef'; /* U+FFFD */
		out[1] = '\xbf';
		out[2] = '\xbd';
		return 3;
	}
	out[0] = '\\';
	if (short_forms[c]) {
		out[1] = short_forms[c];
		return 2;
	}
	out[1] = 'u';
	out[2] = out[3] = '0';
	out[4] = hex[c >> 4];
	out[5] = hex[c & 15];
	return 6;
}

void json_put_string(struct buf *out, const char *p, size_t n)
{
	char escaped[1024];
	size_t i = 0;

	buf_putc(out, '"');
	while (i < n && !out->error) {
		size_t plain = verbatim_length(p + i, n - i), len = 0;

		buf_put(out, p + i, plain);
		i += plain;
		/* Binary output is mostly this, so it is written in pieces, too. */
		while (i < n && len + 6 <= sizeof(escaped) &&
		       !verbatim_length(p + i, MIN2(n - i, (size_t)4)))
			len += escape_byte((unsigned char)p[i++], escaped + len);
		if (len)
			buf_put(out, escaped, len);
	}
	buf_putc(out, '"');
}

void json_put_cstr(struct buf *out, const char *s)
{
	json_put_string(out, s, strlen(s));
}
