/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

struct option_word option_word(int argc, char **argv, int i)
{
	struct option_word w = { .word = argv[i], .value = i + 1 < argc ? argv[i + 1] : NULL };
	size_t n = str_has_prefix(w.word, "--") ? strcspn(w.word, "=") : strlen(w.word);

	/* What is too long for a name is none. */
	(void)snprintf(w.name, sizeof(w.name), "%.*s", n < sizeof(w.name) ? (int)n : 0, w.word);
	w.joined = w.word[n] == '=';
	if (w.joined)
		w.value = w.word + n + 1;
	return w;
}

int option_wrong(const char *command, const char *word, const char *text, struct err *err)
{
	(void)err_set(err, ERR_INVALID, 0, "%.60s: %s", word, text);
	return err_remedy(err, -EINVAL, "see \"brig %s --help\"", command);
}

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
