/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* An option: of value and flag one is there. */
struct word {
	const char *name, **value;
	bool *flag;
};

/* A word that may be an option with a value: "--name=value", or "--name" and the next word. */
struct option_word {
	const char *word;
	char name[40];
	const char *value; /* NULL: there is none */
	bool joined;       /* by "=" */
};

struct option_word option_word(int argc, char **argv, int i);
/* What is wrong with it, and where the command's options are told; -EINVAL. */
int option_wrong(const char *command, const char *word, const char *text, struct err *err);

/* The word behind a verb that needs it, by what it is called (NULL: it takes none); else -EINVAL.
 */
int word_needed(const char *command, const char *what, const char *word, struct err *err);

/*
 * Options anywhere ("--name value" or "--name=value"), and at most `max` other words, in their
 * order: how many there are, or -EINVAL with an error that names the word.
 */
int words_parse(const char *command, int argc, char **argv, const struct word *known,
                size_t n_known, const char *rest[], size_t max, struct err *err);
