/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/words.h"

#include <errno.h>

#include "base/str.h"

int words_parse(int argc, char **argv, const struct word *known, size_t n_known,
                const char **rest[], size_t n_rest)
{
	size_t n = 0;

	for (int i = 1; i < argc; i++) {
		size_t k = 0;

		while (k < n_known && !streq(argv[i], known[k].name))
			k++;
		if (k < n_known && known[k].flag)
			*known[k].flag = true;
		else if (k < n_known && i + 1 < argc)
			*known[k].value = argv[++i];
		else if (argv[i][0] == '-' || n == n_rest)
			return -EINVAL;
		else
			*rest[n++] = argv[i];
	}
	return 0;
}
