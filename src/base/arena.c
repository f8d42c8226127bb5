/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ARENA_BLOCK 8192
#define ARENA_ALIGN 16

struct arena_block {
	struct arena_block *next;
	size_t used;
	size_t cap;
	_Alignas(ARENA_ALIGN) char data[];
};

static struct arena_block *arena_grow(struct arena *a, size_t n)
{
	size_t cap = n > ARENA_BLOCK ? n : ARENA_BLOCK;
	struct arena_block *b = calloc(1, sizeof(*b) + cap);

	if (!b)
		return NULL;
	b->cap = cap;
	b->next = a->blocks;
	a->blocks = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *b = a->blocks;
	void *p;

	if (n > a->max || n > SIZE_MAX / 2) /* room for the rounding and the block's head */
		return NULL;
	n = (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (n > a->max || a->used > a->max - n)
		return NULL;
	if (!b || b->cap - b->used < n)
		b = arena_grow(a, n);
	if (!b)
		return NULL;
	p = b->data + b->used;
	b->used += n;
	a->used += n;
	return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	if (size && count > SIZE_MAX / size)
		return NULL;
	return arena_alloc(a, count * size);
}

char *arena_dup(struct arena *a, const void *p, size_t n)
{
	char *copy = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;

	if (copy && n)
		memcpy(copy, p, n);
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_dup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		return NULL;
	return arena_dup(a, text, (size_t)n);
}

void arena_done(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *next = a->blocks->next;

		free(a->blocks);
		a->blocks = next;
	}
	a->used = 0;
}
