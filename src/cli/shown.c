/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shown.h"

#include <stdint.h>

#include "base/utf8.h"

static size_t put_char(struct buf *out, const char *p, size_t n, struct shown *s)
{
	uint32_t c = 0;
	size_t length = utf8_decode(p, n, &c);

	if (!length) {
		buf_printf(out, "\\x%02x", (unsigned char)*p);
		s->escaped++;
		return 1;
	}
	if (c == '\t' || !utf8_is_unseen(c)) {
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
