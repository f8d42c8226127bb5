/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text of other people's making on a terminal. What could move the cursor, hide or reorder text is
 * written out (\x1b, \u202e), so that what is seen is what is there.
 */

#include "base/buf.h"
#include "base/str.h"

struct shown {
	size_t lines;     /* written */
	size_t cut;       /* lines left out */
	size_t escaped;   /* characters that were written out */
	size_t not_ascii; /* characters that look like letters and may be others */
};

/* Each line after `indent`, at most max_lines lines of max_columns characters. */
void shown_put(struct buf *out, struct str text, const char *indent, size_t max_lines,
               size_t max_columns, struct shown *ret);
/* One line, controls written out, at most `max` characters. */
void shown_word(struct buf *out, struct str text, size_t max);
