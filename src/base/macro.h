/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#include "base/banned.h"

#define ELEMENTSOF(a) (sizeof(a) / sizeof((a)[0]))
#define KIB           1024ULL
#define MIB           (1024ULL * KIB)
#define GIB           (1024ULL * MIB)
#define MIN2(a, b)    ((a) < (b) ? (a) : (b))
#define MAX2(a, b)    ((a) > (b) ? (a) : (b))

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define CLEANUP(fn)            __attribute__((cleanup(fn)))
#define CLEANUP_FREE           CLEANUP(freep)

/* Hands the pointer over: the variable's own cleanup then finds NULL. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) _taken = (p);                                                        \
		(p) = NULL;                                                                        \
		_taken;                                                                            \
	})

static inline void freep(void *p)
{
	free(*(void **)p);
}
