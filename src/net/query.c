/* SPDX-License-Identifier: Apache-2.0 */
/* The query of a target: name=value&name=value, percent-encoded, '+' for a blank. */
#include <errno.h>
#include <string.h>

#include "net/impl.h"

#define NAME_SIZE 128

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* -EINVAL: badly encoded, a NUL, or longer than n - 1. */
static int decode(struct str in, char *ret, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < in.n; i++) {
		int c = in.p[i] == '+' ? ' ' : (unsigned char)in.p[i];

		if (c == '%') {
			int high = i + 2 < in.n ? hex(in.p[i + 1]) : -1;
			int low = i + 2 < in.n ? hex(in.p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -EINVAL;
			c = high << 4 | low;
			i += 2;
		}
		if (c == '\0' || out + 1 >= n)
			return -EINVAL;
		ret[out++] = (char)c;
	}
	ret[out] = '\0';
	return 0;
}

/* The next parameter that is not empty; false: there is none. */
static bool next_param(const char **at, struct str *ret_name, struct str *ret_value)
{
	const char *p = *at;

	while (p && *p) {
		size_t n = strcspn(p, "&"), name = strcspn(p, "=&");
		size_t skip = name < n ? name + 1 : n;

		*at = p + n + (p[n] == '&');
		if (n) {
			*ret_name = (struct str){ p, name };
			*ret_value = (struct str){ p + skip, n - skip };
			return true;
		}
		p = *at;
	}
	return false;
}

int http_query(const struct http_request *r, const char *name, char *ret, size_t n)
{
	const char *at = r->query;
	struct str key, value, found = { 0 };
	char text[NAME_SIZE];
	int count = 0, err;

	while (next_param(&at, &key, &value)) {
		if (decode(key, text, sizeof(text)) < 0 || !streq(text, name))
			continue;
		if (count++)
			return -EINVAL;
		found = value;
	}
	if (!count)
		return 0;
	err = decode(found, ret, n);
	return err < 0 ? err : 1;
}

int http_query_name(const struct http_request *r, size_t i, char *ret, size_t n)
{
	const char *at = r->query;
	struct str key, value;

	while (next_param(&at, &key, &value))
		if (i-- == 0)
			return decode(key, ret, n);
	return -ENOENT;
}
