/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Empties the bounding set; the capabilities at hand stay usable. */
int caps_drop_bounding(void);
/* Empties the other four sets of the calling thread, for good (securebits locked). */
int caps_drop_all(void);
