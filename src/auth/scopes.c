/* SPDX-License-Identifier: Apache-2.0 */

/* What a token may do, in words. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "auth/impl.h"
#include "base/str.h"

static const struct {
	const char *name;
	uint32_t bit;
} names[] = {
	{ "run", SCOPE_RUN },
	{ "read", SCOPE_READ },
	{ "approve", SCOPE_APPROVE },
	{ "admin", SCOPE_ADMIN },
};

/* 0: there is none of that name. */
static uint32_t scope_from_name(const char *p, size_t n)
{
	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (strlen(names[i].name) == n && memcmp(names[i].name, p, n) == 0)
			return names[i].bit;
	return 0;
}

int scopes_parse(const char *text, uint32_t *ret, struct err *err)
{
	uint32_t all = 0;

	for (const char *at = text;; at++) {
		size_t n = strcspn(at, ",");
		uint32_t bit = scope_from_name(at, n);

		if (!bit) {
			(void)err_set(err, ERR_INVALID, 0, "no scope is called \"%.*s\"",
			              (int)MIN2(n, (size_t)40), at);
			return err_remedy(err, -EINVAL,
			                  "the scopes are run, read, approve, admin; join several "
			                  "with commas and no blanks");
		}
		all |= bit;
		at += n;
		if (!*at)
			break;
	}
	*ret = all;
	return 0;
}

void scopes_print(uint32_t scopes, char *ret, size_t n)
{
	size_t len = 0;

	(void)snprintf(ret, n, "none");
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		if (!(scopes & names[i].bit) || len >= n)
			continue;
		len += (size_t)snprintf(ret + len, n - len, "%s%s", len ? "," : "", names[i].name);
	}
}
