/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/macro.h"

/* A view of bytes: guest data may hold NULs and need not end in one. */
struct str {
	const char *p;
	size_t n;
};

#define STR(literal) ((struct str){ (literal), sizeof(literal) - 1 })

static inline struct str str_of(const char *s)
{
	return (struct str){ s, s ? strlen(s) : 0 };
}

static inline bool streq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}
