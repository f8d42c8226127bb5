/* SPDX-License-Identifier: Apache-2.0 */
#include "net/impl.h"

/* Bytes that follow the first of a sequence; -1: it cannot be a first one. */
static int utf8_rest(unsigned char c)
{
	if (c < 0x80)
		return 0;
	if (c >= 0xc2 && c <= 0xdf)
		return 1;
	if (c >= 0xe0 && c <= 0xef)
		return 2;
	return c >= 0xf0 && c <= 0xf4 ? 3 : -1;
}

/* Overlong forms, surrogates and values above U+10FFFF show in the second byte. */
static bool utf8_second(unsigned char first, unsigned char c)
{
	unsigned char low = 0x80, high = 0xbf;

	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	return c >= low && c <= high;
}

bool utf8_is_valid(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;

	for (size_t i = 0; i < n;) {
		int rest = utf8_rest(u[i]);

		if (rest < 0 || (size_t)rest >= n - i)
			return false;
		if (rest > 0 && !utf8_second(u[i], u[i + 1]))
			return false;
		for (int k = 2; k <= rest; k++)
			if ((u[i + (size_t)k] & 0xc0) != 0x80)
				return false;
		i += (size_t)rest + 1;
	}
	return true;
}
