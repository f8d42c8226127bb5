/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>

#include "base/str.h"
#include "model/limits.h"

static const struct limit_info *info_of(const char *key)
{
	for (size_t i = 0; i < limit_infos_n; i++)
		if (streq(limit_infos[i].key, key))
			return &limit_infos[i];
	cr_assert_fail("no limit %s", key);
	return NULL;
}

Test(limits, the_defaults_are_within_their_own_ranges)
{
	struct limits l;
	struct err e = { 0 };

	limits_default(&l);
	cr_expect(limits_check(&l, &e) == 0, "%s", e.msg);
	cr_expect(l.timeout_ms == 30000);
	cr_expect(l.memory_bytes == 512 * MIB);
	cr_expect(l.cpu_milli == 1000);
	cr_expect(l.pids == 100);
	cr_expect(l.output_bytes == 10 * MIB);
}

Test(limits, zero_is_never_unlimited)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		struct limits l;

		limits_default(&l);
		*limits_field(&l, &limit_infos[i]) = 0;
		cr_expect(limits_check(&l, NULL) == -ERANGE, "%s", limit_infos[i].key);
	}
}

Test(limits, both_ends_of_each_range_are_taken_and_nothing_beyond)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		const struct limit_info *info = &limit_infos[i];
		struct limits l;
		struct err e = { 0 };

		limits_default(&l);
		cr_expect(limits_set(&l, info, info->min, &e) == 0, "%s", info->key);
		cr_expect(limits_set(&l, info, info->max, &e) == 0, "%s", info->key);
		cr_expect(limits_set(&l, info, info->max + 1, &e) == -ERANGE, "%s", info->key);
		cr_expect(limits_set(&l, info, info->min - 1, &e) == -ERANGE, "%s", info->key);
		cr_expect(limits_set(&l, info, UINT64_MAX, &e) == -ERANGE, "%s", info->key);
		cr_expect(*limits_field(&l, info) == info->max, "%s changed by a refusal",
		          info->key);
		cr_expect(e.code == ERR_INVALID);
		cr_expect(str_has_prefix(e.msg, info->key), "%s", e.msg);
		cr_expect(e.remedy[0] != '\0');
	}
}

Test(limits, names_are_unique_and_documented)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		cr_expect(limit_infos[i].help[0] != '\0');
		for (size_t k = 0; k < i; k++) {
			cr_expect(!streq(limit_infos[i].key, limit_infos[k].key));
			cr_expect(!streq(limit_infos[i].option, limit_infos[k].option));
			cr_expect(limit_infos[i].offset != limit_infos[k].offset);
		}
	}
}

Test(limits, text_is_read_as_the_kind_of_the_limit)
{
	static const struct {
		const char *option, *text, *key;
		uint64_t value;
	} cases[] = {
		{ "timeout", "5s", "timeout_ms", 5000 },
		{ "timeout", "250ms", "timeout_ms", 250 },
		{ "memory", "256M", "memory_bytes", 256 * MIB },
		{ "cpus", "0.5", "cpus", 500 },
		{ "cpu-time", "2s", "cpu_ms", 2000 },
		{ "pids", "7", "pids", 7 },
		{ "open-files", "64", "open_files", 64 },
		{ "file-size", "1M", "file_bytes", MIB },
		{ "disk", "64K", "disk_bytes", 64 * KIB },
		{ "inodes", "64", "inodes", 64 },
		{ "output", "1K", "output_bytes", KIB },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct limits l;
		struct err e = { 0 };

		limits_default(&l);
		cr_expect(limits_set_text(&l, cases[i].option, cases[i].text, &e) == 0, "%s",
		          e.msg);
		cr_expect(*limits_field(&l, info_of(cases[i].key)) == cases[i].value, "--%s %s",
		          cases[i].option, cases[i].text);
	}
}

Test(limits, bad_text_is_refused_with_an_example)
{
	static const struct {
		const char *option, *text, *msg, *remedy;
	} cases[] = {
		{ "timeout", "soon", "--timeout: \"soon\" is not a value", "--timeout 5s" },
		{ "timeout", "", "--timeout: \"\" is not a value", "--timeout 5s" },
		{ "timeout", "0", "--timeout: 0 is out of range", "from 1ms to 5m" },
		{ "timeout", "301s", "--timeout: 301s is out of range", "from 1ms to 5m" },
		{ "memory", "1M", "--memory: 1M is out of range", "from 8M" },
		{ "memory", "lots", "--memory", "256M" },
		{ "memory", "-1", "--memory", "256M" },
		{ "cpus", "0.005", "--cpus: 0.005 is out of range", "from 0.010 to 256.000" },
		{ "cpus", "x", "--cpus", "0.5" },
		{ "pids", "1K", "--pids", "100" },
		{ "pids", "99999999999999999999", "--pids", "100" },
		{ "colour", "1", "no limit is called \"colour\"", "" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		struct limits l, before;
		struct err e = { 0 };

		limits_default(&l);
		before = l;
		cr_expect(limits_set_text(&l, cases[i].option, cases[i].text, &e) < 0);
		cr_expect(strstr(e.msg, cases[i].msg), "--%s %s: %s", cases[i].option,
		          cases[i].text, e.msg);
		cr_expect(strstr(e.remedy, cases[i].remedy), "--%s %s: %s", cases[i].option,
		          cases[i].text, e.remedy);
		cr_expect(memcmp(&l, &before, sizeof(l)) == 0);
	}
}
