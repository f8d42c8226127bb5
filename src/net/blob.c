/* SPDX-License-Identifier: Apache-2.0 */
#include "net/blob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

struct blob *blob_new(const void *p, size_t n)
{
	struct blob *b;

	if (n > SIZE_MAX - sizeof(*b) - 1)
		return NULL;
	b = malloc(sizeof(*b) + n + 1);
	if (!b)
		return NULL;
	b->refs = 1;
	b->n = n;
	if (n)
		memcpy(b->data, p, n);
	b->data[n] = '\0';
	return b;
}

struct blob *blob_ref(struct blob *b)
{
	b->refs++;
	return b;
}

void blob_unref(struct blob *b)
{
	if (b && --b->refs == 0)
		free(b);
}
