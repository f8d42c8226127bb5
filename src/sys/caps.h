/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Empties the bounding set; the capabilities at hand stay usable. */
int caps_drop_bounding(void);
/* Empties the other four sets of the calling thread, for good (securebits locked). */
int caps_drop_all(void);
/* For a user that is not root: these survive the next exec. */
int caps_keep_over_exec(const int *caps, size_t n);
