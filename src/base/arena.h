/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A bounded bump allocator: one per job. Values that live in it have no destructors and are freed
 * together. Memory is zeroed. Exhaustion gives NULL.
 */

#include "base/macro.h"

struct arena_block;

struct arena {
	struct arena_block *blocks; /* newest first */
	size_t used;
	size_t max;
};

#define ARENA_INIT(limit) ((struct arena){ .max = (limit) })
#define CLEANUP_ARENA     CLEANUP(arena_done)

void *arena_alloc(struct arena *a, size_t n);
void *arena_array(struct arena *a, size_t count, size_t size);
/* Copies n bytes and adds a NUL. */
char *arena_dup(struct arena *a, const void *p, size_t n);
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void arena_done(struct arena *a);
