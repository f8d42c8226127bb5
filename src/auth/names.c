/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The texts of the headers Authorization, Host and Origin. All of them are compared with what we
 * know, exactly: nothing is decoded, trimmed or looked up, so there is nothing to disagree about.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "auth/impl.h"
#include "base/parse.h"
#include "base/str.h"

#define HOST_MAX     255
#define PORT_DEFAULT 80 /* of http; what a Host without a port means */

int bearer_parse(const char *header, char ret[TOKEN_SIZE])
{
	static const char scheme[] = "Bearer ";
	const char *text;

	/* The scheme is case-insensitive by RFC 9110; one blank follows, and then the token. */
	if (!header || strncasecmp(header, scheme, sizeof(scheme) - 1) != 0)
		return -EINVAL;
	text = header + sizeof(scheme) - 1;
	if (!token_text_is_ok(text))
		return -EINVAL;
	(void)snprintf(ret, TOKEN_SIZE, "%s", text);
	return 0;
}

struct place {
	struct str name; /* with the brackets of an IPv6 address */
	unsigned port;   /* 0: none given */
};

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '-';
}

/* No zone: it names an interface of the asker's, and hides what it likes behind a '%'. */
static size_t bracketed_length(const char *s)
{
	size_t n = strspn(s + 1, "0123456789abcdefABCDEF:.");

	return n && s[n + 1] == ']' ? n + 2 : 0;
}

static bool parse_port(const char *s, unsigned *ret)
{
	uint64_t port;

	if (*s == '0' || parse_u64(s, &port) < 0 || port > 65535)
		return false;
	*ret = (unsigned)port;
	return true;
}

/* "name", "name:port", "[::1]", "[::1]:port"; whatever else is none. */
static bool parse_place(const char *s, struct place *ret)
{
	struct place p = { .name = { s, 0 } };

	if (strnlen(s, HOST_MAX + 1) > HOST_MAX)
		return false;
	if (*s == '[')
		p.name.n = bracketed_length(s);
	else
		while (is_name_char(s[p.name.n]))
			p.name.n++;
	if (!p.name.n)
		return false;
	if (s[p.name.n] == ':' && !parse_port(s + p.name.n + 1, &p.port))
		return false;
	if (s[p.name.n] && s[p.name.n] != ':')
		return false;
	*ret = p;
	return true;
}

static bool same_name(struct str a, struct str b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* Is what was given this port? 0 wants nothing. */
static bool is_port(unsigned given, unsigned wanted)
{
	return !wanted || (given ? given : PORT_DEFAULT) == wanted;
}

bool host_is_ours(const char *host, unsigned port, const char *const *extra, size_t n)
{
	static const char *const own[] = { "localhost", "127.0.0.1", "[::1]", "brig" };
	struct place asked, known;

	if (!host || !parse_place(host, &asked))
		return false;
	for (size_t i = 0; i < ELEMENTSOF(own); i++)
		if (same_name(asked.name, str_of(own[i])) && is_port(asked.port, port))
			return true;
	for (size_t i = 0; i < n; i++)
		if (parse_place(extra[i], &known) && same_name(asked.name, known.name) &&
		    is_port(asked.port, known.port))
			return true;
	return false;
}

bool origin_is_allowed(const char *origin, const char *const *allowed, size_t n)
{
	/* "null" is everybody's: sandboxed frames, files, redirects. It has no scheme. */
	if (!origin || !strstr(origin, "://"))
		return false;
	for (size_t i = 0; i < n; i++)
		if (streq(origin, allowed[i]))
			return true;
	return false;
}
