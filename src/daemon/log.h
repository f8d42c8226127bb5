/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What operators read: one line per message on standard error. Not the record; that is the ledger.
 *
 * A line never blocks, allocates or kills: what does not go out at once is dropped and counted, and
 * the next line that does go out is preceded by one that says so. Anything but printable ASCII is
 * shown as '?', and whatever looks like a token as "brig_***".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/macro.h"

#define LOG_LINE_MAX 1024 /* bytes, with the newline; a longer one ends in "..." */

enum log_level {
	LOG_LEVEL_ERROR = 0,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_COUNT,
};

/*
 * Names as in the settings; unknown ones mean "text" and "info". May be called again. Also ignores
 * SIGPIPE and fills descriptors 0 to 2 where they are closed: a file of ours must not become what
 * lines are written to. Until it is called, errors and warnings go out as text.
 */
void log_open(const char *format, const char *level);
const char *log_level_name(enum log_level level);
int log_level_from_name(const char *name, enum log_level *ret);
bool log_wants(enum log_level level);

void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "text: message (remedy)", with the code as a field in JSON. */
void log_err(enum log_level level, const struct err *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Lines that did not go out since the start. */
uint64_t log_dropped(void);

/* The text of a line as it would go out, newline included; for tests. Returns its length. */
size_t log_format(enum log_level level, const char *code, const char *text,
                  char ret[LOG_LINE_MAX + 1]);
