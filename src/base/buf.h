/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growing byte buffer with a mandatory maximum and a sticky error: append freely, check once
 * with buf_finish(). data is NULL or data[len] == 0.
 */

#include <stdarg.h>
#include <stdint.h>

#include "base/macro.h"

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max; /* bytes of content, terminator not counted */
	int error;  /* 0, -ENOMEM or -EFBIG; further appends do nothing */
};

#define BUF_INIT(limit) ((struct buf){ .max = (limit) })
#define CLEANUP_BUF     CLEANUP(buf_done)

void buf_put(struct buf *b, const void *p, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* 0 or the sticky error. */
int buf_finish(const struct buf *b);
/* The content, NUL-terminated, caller frees; NULL on a sticky error. The buffer is empty then. */
char *buf_detach(struct buf *b);
void buf_done(struct buf *b);
