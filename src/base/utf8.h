/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Characters of other people's making, before they are shown. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first character (n is not 0): its length, or 0 when the bytes are not well-formed UTF-8. */
size_t utf8_decode(const char *text, size_t n, uint32_t *ret);
/*
 * Controls but for tab and newline, blanks that are not the blank, and what is there without being
 * seen: it may move the cursor, hide or reorder text.
 */
bool utf8_is_unseen(uint32_t c);
