/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Bytes that many readers send and none changes: one copy, counted. One thread. */

#include <stddef.h>

struct blob {
	unsigned refs;
	size_t n;
	char data[]; /* n bytes and a NUL */
};

struct blob *blob_new(const void *p, size_t n); /* NULL: no memory; one reference */
struct blob *blob_ref(struct blob *b);
void blob_unref(struct blob *b); /* NULL: nothing */
