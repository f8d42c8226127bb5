/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Small files of the kernel's making, below a directory fd (AT_FDCWD for a path). */

#include <stddef.h>

/* The whole text in one write, as procfs and cgroupfs want it. */
int file_write(int dir, const char *path, const char *text);
/* To its end, at most size - 1 bytes, NUL-terminated. Returns the length; -EFBIG for a longer one.
 */
int file_read(int dir, const char *path, char *text, size_t size);
