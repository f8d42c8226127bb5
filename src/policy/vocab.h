/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The words that a policy's keys take, and the conditions of a rule. */

#include <stddef.h>

#define VOCAB_LIST_SIZE 120

/* Of one vocabulary, what comes first is the stricter, except in RISK. */
enum vocab {
	VOCAB_LANGUAGE = 0,
	VOCAB_RISK,
	VOCAB_NETWORK,
	VOCAB_LEVEL,
	VOCAB_TIER,
	VOCAB_BOOL,
	VOCAB_VERDICT,
	VOCAB_REMEMBER,
};

const char *vocab_name(enum vocab v, unsigned value);
int vocab_find(enum vocab v, const char *word, unsigned *ret);
/* The words whose bits are set, with ", " between them; all for ~0u. */
void vocab_list(enum vocab v, unsigned mask, char ret[VOCAB_LIST_SIZE]);
/* The bits of all values. */
unsigned vocab_all(enum vocab v);
