/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Empties all five capability sets of the calling thread, for good (securebits locked). */
int caps_drop_all(void);
