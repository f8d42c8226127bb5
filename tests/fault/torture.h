/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls something while memory runs out: at the nth allocation, for every n, once or from then on.
 * Each time the call must fail, say so as a lack of memory and not as a wrong request, and leave
 * nothing allocated. The linker sends malloc and its kin to torture.c (--wrap).
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct outcome {
	int r;
	struct err err;
};

struct torture_case {
	const char *name;
	struct outcome (*call)(void);
	bool persistent; /* fails from then on, not once */
};

/* One line of TAP for each case; returns how many failed. */
unsigned torture(const struct torture_case *cases, size_t n);
