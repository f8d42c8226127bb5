/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shown.h"

#include <stdbool.h>
#include <stdint.h>

/* One character: its length, or 0 when the bytes are not well-formed UTF-8. */
static size_t decode(const unsigned char *p, size_t n, uint32_t *ret)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = p[0] < 0x80       ? 1
	                : p[0] >> 5 == 6  ? 2
	                : p[0] >> 4 == 14 ? 3
	                : p[0] >> 3 == 30 ? 4
	                                  : 0;
	uint32_t c;

	if (!length || length > n)
		return 0;
	c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret = c;
	return length;
}

/* Controls, blanks that are not the blank, and what is there without being seen. */
static bool is_hidden(uint32_t c)
{
	static const uint32_t ranges[][2] = {
		{ 0x00, 0x08 },        { 0x0b, 0x1f },       { 0x7f, 0xa0 },
		{ 0xad, 0xad },        { 0x34f, 0x34f },     { 0x61c, 0x61c },
		{ 0x115f, 0x1160 },    { 0x17b4, 0x17b5 },   { 0x180b, 0x180f },
		{ 0x2000, 0x200f },    { 0x2028, 0x202f },   { 0x205f, 0x206f },
		{ 0x3000, 0x3000 },    { 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff },    { 0x1680, 0x1680 },   { 0x2800, 0x2800 },
		{ 0x13430, 0x1345f },  { 0x1bca0, 0x1bcaf }, { 0x1d173, 0x1d17a },
		{ 0xffa0, 0xffa0 },    { 0xfff0, 0xfffb },   { 0xe000, 0xf8ff },
		{ 0xe0000, 0x10ffff },
	};

	for (size_t i = 0; i < ELEMENTSOF(ranges); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}

static size_t put_char(struct buf *out, const char *p, size_t n, struct shown *s)
{
	uint32_t c = 0;
	size_t length = decode((const unsigned char *)p, n, &c);

	if (!length) {
		buf_printf(out, "\\x%02x", (unsigned char)*p);
		s->escaped++;
		return 1;
	}
	if (c == '\t' || !is_hidden(c)) {
		buf_put(out, p, length);
		s->not_ascii += c >= 0x80;
		return length;
	}
	buf_printf(out, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c);
	s->escaped++;
	return length;
}

static void put_line(struct buf *out, struct str line, size_t max, struct shown *s)
{
	size_t at = 0, columns = 0;

	for (; at < line.n && columns < max; columns++)
		at += put_char(out, line.p + at, line.n - at, s);
	if (at < line.n)
		buf_printf(out, " [... %zu bytes more in this line]", line.n - at);
}

void shown_put(struct buf *out, struct str text, const char *indent, size_t max_lines,
               size_t max_columns, struct shown *ret)
{
	const char *at = text.p, *end = text.p + text.n;

	*ret = (struct shown){ 0 };
	while (at && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);

		if (ret->lines == max_lines) {
			ret->cut++;
		} else {
			buf_puts(out, indent);
			put_line(out, (struct str){ at, n }, max_columns, ret);
			buf_putc(out, '\n');
			ret->lines++;
		}
		at += n + 1;
	}
}

void shown_word(struct buf *out, struct str text, size_t max)
{
	struct shown s = { 0 };
	size_t at = 0, columns = 0;

	for (; at < text.n && columns < max; columns++) {
		if (text.p[at] == '\n' || text.p[at] == '\t') {
			buf_puts(out, text.p[at++] == '\n' ? "\\n" : "\\t");
			continue;
		}
		at += put_char(out, text.p + at, text.n - at, &s);
	}
	if (at < text.n)
		buf_puts(out, "...");
}
