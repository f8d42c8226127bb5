/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 256;
	char *data;

	if (b->error)
		return b->error;
	if (n > b->max || b->len > b->max - n)
		return b->error = -EFBIG;
	if (b->data && b->len + n < b->cap)
		return 0;
	if (b->len + n > SIZE_MAX / 4)
		return b->error = -ENOMEM; /* the doubling below must end */
	while (cap <= b->len + n)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data)
		return b->error = -ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	if (buf_reserve(b, n) < 0)
		return;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
	buf_put(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	char small[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(small)) {
		b->error = b->error ? b->error : -EFBIG; /* long text goes through buf_puts */
		return;
	}
	buf_put(b, small, (size_t)n);
}

int buf_finish(const struct buf *b)
{
	return b->error;
}

char *buf_detach(struct buf *b)
{
	char *data;

	if (buf_reserve(b, 0) < 0)
		return NULL;
	b->data[b->len] = '\0';
	data = TAKE_PTR(b->data);
	b->len = b->cap = 0;
	return data;
}

void buf_done(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}
