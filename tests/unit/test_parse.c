/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>

#include "base/macro.h"
#include "base/parse.h"

#define UNTOUCHED UINT64_C(0xdeadbeef)

typedef int parse_fn(const char *, uint64_t *);

struct parse_case {
	const char *text;
	int r;
	uint64_t value; /* when r is 0 */
};

static void check_all(parse_fn *fn, const struct parse_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct parse_case *c = &cases[i];
		uint64_t v = UNTOUCHED;
		int r = fn(c->text, &v);

		cr_expect(r == c->r, "\"%s\" gives %d, not %d", c->text, r, c->r);
		cr_expect(v == (c->r ? UNTOUCHED : c->value), "\"%s\" is %" PRIu64, c->text, v);
	}
}

Test(parse, u64_takes_the_whole_string_or_nothing)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "7", 0, 7 },
		{ "00012", 0, 12 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "\xd9\xa1", -EINVAL, 0 },
	};

	check_all(parse_u64, cases, ELEMENTSOF(cases));
}

Test(parse, durations_are_in_milliseconds_and_a_bare_number_is_seconds)
{
	static const struct parse_case cases[] = {
		{ "250ms", 0, 250 },
		{ "5s", 0, 5000 },
		{ "5", 0, 5000 },
		{ "2m", 0, 120000 },
		{ "1h", 0, 3600000 },
		{ "0", 0, 0 },
		{ "1d", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "1 s", -EINVAL, 0 },
		{ "1S", -EINVAL, 0 },
		{ "1.5s", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "18446744073709551615ms", 0, UINT64_MAX },
		{ "18446744073709551615s", -ERANGE, 0 },
		{ "18446744073709552h", -ERANGE, 0 },
	};

	check_all(parse_duration_ms, cases, ELEMENTSOF(cases));
}

Test(parse, sizes_are_powers_of_1024)
{
	static const struct parse_case cases[] = {
		{ "4096", 0, 4096 },
		{ "1B", 0, 1 },
		{ "64K", 0, 64 * KIB },
		{ "64k", 0, 64 * KIB },
		{ "64KB", 0, 64 * KIB },
		{ "64KiB", 0, 64 * KIB },
		{ "256M", 0, 256 * MIB },
		{ "256MiB", 0, 256 * MIB },
		{ "1G", 0, GIB },
		{ "1g", 0, GIB },
		{ "17179869183G", 0, 17179869183 * GIB },
		{ "17179869184G", -ERANGE, 0 },
		{ "1T", -EINVAL, 0 },
		{ "1kib", -EINVAL, 0 },
		{ "1 M", -EINVAL, 0 },
		{ "M", -EINVAL, 0 },
		{ "1.5G", -EINVAL, 0 },
	};

	check_all(parse_size, cases, ELEMENTSOF(cases));
}

Test(parse, decimals_become_thousandths)
{
	static const struct parse_case cases[] = {
		{ "0.5", 0, 500 },
		{ "2", 0, 2000 },
		{ "1.25", 0, 1250 },
		{ "0.001", 0, 1 },
		{ "0.0009", 0, 0 },
		{ "1.2345678901234567890123", 0, 1234 },
		{ "18446744073709550", 0, UINT64_C(18446744073709550000) },
		{ "18446744073709551", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ ".5", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ "1.x", -EINVAL, 0 },
		{ "1,5", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "inf", -EINVAL, 0 },
		{ "nan", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	check_all(parse_milli, cases, ELEMENTSOF(cases));
}
