/* SPDX-License-Identifier: Apache-2.0 */
#include "model/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"
#include "base/str.h"

const struct limit_info limit_infos[] = {
#define X(field, key, option, kind, def, min, max, help)                                           \
	{ key, option, LIMIT_##kind, def, min, max, offsetof(struct limits, field), help },
	LIMITS_TABLE(X)
#undef X
};
const size_t limit_infos_n = ELEMENTSOF(limit_infos);

void limits_default(struct limits *ret)
{
	for (size_t i = 0; i < limit_infos_n; i++)
		*limits_field(ret, &limit_infos[i]) = limit_infos[i].def;
}

uint64_t *limits_field(struct limits *l, const struct limit_info *info)
{
	return (uint64_t *)((char *)l + info->offset);
}

const char *limit_number(const struct limit_info *info, uint64_t value, char out[LIMIT_NUMBER_SIZE])
{
	if (info->kind == LIMIT_MILLI)
		(void)snprintf(out, LIMIT_NUMBER_SIZE, "%" PRIu64 ".%03" PRIu64, value / 1000,
		               value % 1000);
	else
		(void)snprintf(out, LIMIT_NUMBER_SIZE, "%" PRIu64, value);
	return out;
}

/* In the largest unit that leaves no rest. */
static void limit_show(const struct limit_info *info, uint64_t value, char out[LIMIT_NUMBER_SIZE])
{
	static const struct {
		enum limit_kind kind;
		uint64_t factor;
		const char *unit;
	} units[] = {
		{ LIMIT_BYTES, GIB, "G" },  { LIMIT_BYTES, MIB, "M" }, { LIMIT_BYTES, KIB, "K" },
		{ LIMIT_MS, 3600000, "h" }, { LIMIT_MS, 60000, "m" },  { LIMIT_MS, 1000, "s" },
		{ LIMIT_MS, 1, "ms" },
	};

	for (size_t i = 0; i < ELEMENTSOF(units); i++) {
		if (units[i].kind == info->kind && value && value % units[i].factor == 0) {
			(void)snprintf(out, LIMIT_NUMBER_SIZE, "%" PRIu64 "%s",
			               value / units[i].factor, units[i].unit);
			return;
		}
	}
	(void)limit_number(info, value, out);
}

static int limit_check(const struct limit_info *info, uint64_t value, struct err *err)
{
	char got[LIMIT_NUMBER_SIZE], min[LIMIT_NUMBER_SIZE], max[LIMIT_NUMBER_SIZE];

	if (value >= info->min && value <= info->max)
		return 0;
	(void)err_set(err, ERR_INVALID, 0, "%s: %s is out of range", info->key,
	              limit_number(info, value, got));
	return err_remedy(err, -ERANGE, "give a value from %s to %s",
	                  limit_number(info, info->min, min), limit_number(info, info->max, max));
}

int limits_check(const struct limits *l, struct err *err)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		const struct limit_info *info = &limit_infos[i];
		int r = limit_check(info, *limits_field((struct limits *)l, info), err);

		if (r < 0)
			return r;
	}
	return 0;
}

int limits_set(struct limits *l, const struct limit_info *info, uint64_t value, struct err *err)
{
	int r = limit_check(info, value, err);

	if (r < 0)
		return r;
	*limits_field(l, info) = value;
	return 0;
}

static int limit_parse(const struct limit_info *info, const char *text, uint64_t *ret)
{
	switch (info->kind) {
	case LIMIT_COUNT:
		return parse_u64(text, ret);
	case LIMIT_BYTES:
		return parse_size(text, ret);
	case LIMIT_MS:
		return parse_duration_ms(text, ret);
	case LIMIT_MILLI:
		return parse_milli(text, ret);
	}
	return -EINVAL;
}

static const char *limit_example(enum limit_kind kind)
{
	switch (kind) {
	case LIMIT_COUNT:
		return "100";
	case LIMIT_BYTES:
		return "256M";
	case LIMIT_MS:
		return "5s";
	case LIMIT_MILLI:
		return "0.5";
	}
	return "1";
}

static int limit_refuse(const struct limit_info *info, const char *option, const char *text,
                        struct err *err)
{
	char min[LIMIT_NUMBER_SIZE], max[LIMIT_NUMBER_SIZE];

	limit_show(info, info->min, min);
	limit_show(info, info->max, max);
	(void)err_set(err, ERR_INVALID, 0, "--%s: %.40s is out of range", option, text);
	return err_remedy(err, -ERANGE, "give a value from %s to %s", min, max);
}

int limits_set_text(struct limits *l, const char *option, const char *text, struct err *err)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		const struct limit_info *info = &limit_infos[i];
		uint64_t value;

		if (!streq(info->option, option))
			continue;
		if (limit_parse(info, text, &value) < 0) {
			(void)err_set(err, ERR_INVALID, 0, "--%s: \"%.40s\" is not a value", option,
			              text);
			return err_remedy(err, -EINVAL, "write it like --%s %s (whole numbers%s)",
			                  option, limit_example(info->kind),
			                  info->kind == LIMIT_MILLI ? " or decimals" : "");
		}
		if (limits_set(l, info, value, /* err= */ NULL) >= 0)
			return 0;
		return limit_refuse(info, option, text, err);
	}
	return err_set(err, ERR_INVALID, 0, "no limit is called \"%.40s\"", option);
}
