/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A question as a person sees it: who asks, what for, what would run, and the whole of its bounds.
 */

#include "cli/desk.h"

#define QUESTION_MAX (64 * MIB) /* escapes make text longer */

/* `all`: every line of the code; else the beginning, with what was left out said. */
int question_show(const struct desk *d, const struct approval *a, bool all, struct buf *out,
                  struct err *err);
