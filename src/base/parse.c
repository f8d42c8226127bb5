/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <stdbool.h>

#include "base/macro.h"
#include "base/str.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads the leading digits; at least one, no sign, no blank. */
static int take_number(const char **s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!is_digit(**s))
		return -EINVAL;
	for (; is_digit(**s); (*s)++) {
		uint64_t d = (uint64_t)(**s - '0');

		if (v > (UINT64_MAX - d) / 10)
			return -ERANGE;
		v = v * 10 + d;
	}
	*ret = v;
	return 0;
}

int parse_u64(const char *s, uint64_t *ret)
{
	uint64_t v;
	int r = take_number(&s, &v);

	if (r < 0)
		return r;
	if (*s)
		return -EINVAL;
	*ret = v;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static int parse_with_units(const char *s, const struct unit *units, size_t n, uint64_t *ret)
{
	uint64_t v;
	int r = take_number(&s, &v);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (!streq(s, units[i].name))
			continue;
		if (v > UINT64_MAX / units[i].factor)
			return -ERANGE;
		*ret = v * units[i].factor;
		return 0;
	}
	return -EINVAL;
}

int parse_duration_ms(const char *s, uint64_t *ret_ms)
{
	static const struct unit units[] = {
		{ "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 },
	};

	return parse_with_units(s, units, ELEMENTSOF(units), ret_ms);
}

int parse_size(const char *s, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{ "", 1 },    { "B", 1 },    { "K", KIB },   { "KB", KIB },  { "KiB", KIB },
		{ "k", KIB }, { "M", MIB },  { "MB", MIB },  { "MiB", MIB }, { "m", MIB },
		{ "G", GIB }, { "GB", GIB }, { "GiB", GIB }, { "g", GIB },
	};

	return parse_with_units(s, units, ELEMENTSOF(units), ret_bytes);
}

int parse_milli(const char *s, uint64_t *ret_milli)
{
	uint64_t whole, scale = 100, frac = 0;
	int r = take_number(&s, &whole);

	if (r < 0)
		return r;
	if (whole > UINT64_MAX / 1000 - 1)
		return -ERANGE;
	if (*s == '.') {
		s++;
		if (!is_digit(*s))
			return -EINVAL;
		for (; is_digit(*s); s++, scale /= 10)
			frac += (uint64_t)(*s - '0') * scale; /* digits beyond the third add 0 */
	}
	if (*s)
		return -EINVAL;
	*ret_milli = whole * 1000 + frac;
	return 0;
}
