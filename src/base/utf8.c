/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include "base/macro.h"

size_t utf8_decode(const char *text, size_t n, uint32_t *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = p[0] < 0x80       ? 1
	                : p[0] >> 5 == 6  ? 2
	                : p[0] >> 4 == 14 ? 3
	                : p[0] >> 3 == 30 ? 4
	                                  : 0;
	uint32_t c;

	if (!length || length > n)
		return 0;
	c = length == 1 ? p[0] : p[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*ret = c;
	return length;
}

bool utf8_is_unseen(uint32_t c)
{
	static const uint32_t ranges[][2] = {
		{ 0x00, 0x08 },        { 0x0b, 0x1f },       { 0x7f, 0xa0 },
		{ 0xad, 0xad },        { 0x34f, 0x34f },     { 0x61c, 0x61c },
		{ 0x115f, 0x1160 },    { 0x17b4, 0x17b5 },   { 0x180b, 0x180f },
		{ 0x2000, 0x200f },    { 0x2028, 0x202f },   { 0x205f, 0x206f },
		{ 0x3000, 0x3000 },    { 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },
		{ 0xfeff, 0xfeff },    { 0x1680, 0x1680 },   { 0x2800, 0x2800 },
		{ 0x13430, 0x1345f },  { 0x1bca0, 0x1bcaf }, { 0x1d173, 0x1d17a },
		{ 0xffa0, 0xffa0 },    { 0xfff0, 0xfffb },   { 0xe000, 0xf8ff },
		{ 0xe0000, 0x10ffff },
	};

	for (size_t i = 0; i < ELEMENTSOF(ranges); i++)
		if (c >= ranges[i][0] && c <= ranges[i][1])
			return true;
	return false;
}
