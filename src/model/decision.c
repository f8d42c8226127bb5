/* SPDX-License-Identifier: Apache-2.0 */
#include "model/decision.h"

#include <errno.h>

#include "base/json.h"
#include "base/str.h"

static const char *const verdict_names[VERDICT_COUNT] = {
	[VERDICT_DENY] = "deny",
	[VERDICT_CONFIRM] = "confirm",
	[VERDICT_ALLOW] = "allow",
};

static const char *const remember_names[REMEMBER_COUNT] = {
	[REMEMBER_NOTHING] = "nothing",
	[REMEMBER_SESSION] = "session",
	[REMEMBER_DIGEST] = "digest",
};

static int find_name(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (streq(name, names[i]))
			return i;
	return -EINVAL;
}

const char *verdict_name(enum verdict v)
{
	return (unsigned)v < VERDICT_COUNT ? verdict_names[v] : "deny";
}

int verdict_from_name(const char *name, enum verdict *ret)
{
	int i = find_name(verdict_names, VERDICT_COUNT, name);

	if (i >= 0)
		*ret = (enum verdict)i;
	return i < 0 ? i : 0;
}

const char *remember_name(enum remember r)
{
	return (unsigned)r < REMEMBER_COUNT ? remember_names[r] : "nothing";
}

int remember_from_name(const char *name, enum remember *ret)
{
	int i = find_name(remember_names, REMEMBER_COUNT, name);

	if (i >= 0)
		*ret = (enum remember)i;
	return i < 0 ? i : 0;
}

void decision_to_json(const struct decision *d, struct buf *out)
{
	buf_printf(out, "{\"verdict\":\"%s\",\"policy\":", verdict_name(d->verdict));
	json_put_cstr(out, d->policy);
	buf_puts(out, ",\"rule\":");
	json_put_cstr(out, d->rule);
	buf_puts(out, ",\"reason\":");
	json_put_cstr(out, d->reason);
	buf_putc(out, '}');
}
