/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An option: of value and flag one is there. */
struct word {
	const char *name, **value;
	bool *flag;
};

/* Options anywhere, and at most n_rest other words, in their order; else -EINVAL. */
int words_parse(int argc, char **argv, const struct word *known, size_t n_known,
                const char **rest[], size_t n_rest);
