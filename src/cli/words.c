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

int word_needed(const char *command, const char *what, const char *word, struct err *err)
{
	if (what && !word)
		return option_wrong(command, what, "is missing", err);
	if (word && !what)
		return option_wrong(command, word, "one word too many", err);
	return 0;
}

/* 1: the value was taken, and it is the next word; 0: nothing of that. */
static int take_option(const struct option_word *w, const struct word *known, size_t n,
                       const char **ret_wrong)
{
	size_t i = 0;

	while (i < n && !streq(w->name, known[i].name))
		i++;
	*ret_wrong = i == n                       ? "no such option"
	             : known[i].flag && w->joined ? "takes no value"
	             : known[i].flag || w->value  ? NULL
	                                          : "needs a value";
	if (*ret_wrong)
		return -EINVAL;
	if (known[i].flag) {
		*known[i].flag = true;
		return 0;
	}
	*known[i].value = w->value;
	return !w->joined;
}

int words_parse(const char *command, int argc, char **argv, const struct word *known,
                size_t n_known, const char *rest[], size_t max, struct err *err)
{
	size_t n = 0;

	for (int i = 1; i < argc; i++) {
		struct option_word w = option_word(argc, argv, i);
		const char *wrong = NULL;
		int r = 0;

		if (w.word[0] == '-')
			r = take_option(&w, known, n_known, &wrong);
		else if (n < max)
			rest[n++] = w.word;
		else
			wrong = "one word too many";
		if (wrong)
			return option_wrong(command, w.word, wrong, err);
		i += r;
	}
	return (int)n;
}
