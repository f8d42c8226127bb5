/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that are lists of names and addresses, and the forms of those. */
#include <errno.h>
#include <stdio.h>

#include "base/parse.h"
#include "daemon/config_impl.h"
#include "daemon/listen.h"

#define NAME_MAX_BYTES 255

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- forms ---- */

/* "host", "host:port", "1.2.3.4:80", "[::1]:80"; n bytes. */
static bool is_authority(const char *text, size_t n)
{
	size_t at = 0;
	char port[8];
	uint64_t number;

	if (!n || n > NAME_MAX_BYTES)
		return false;
	if (*text == '[') {
		while (++at < n && text[at] != ']')
			if (!is_alnum(text[at]) && text[at] != ':' && text[at] != '.')
				return false;
		if (at < 3 || at++ >= n)
			return false;
	} else {
		while (at < n && (is_alnum(text[at]) || (at && strchr("-._", text[at]))))
			at++;
		if (!at)
			return false;
	}
	if (at == n)
		return true;
	if (text[at++] != ':' || n - at >= sizeof(port))
		return false;
	(void)snprintf(port, sizeof(port), "%.*s", (int)(n - at), text + at);
	return parse_u64(port, &number) == 0 && number >= 1 && number <= UINT16_MAX;
}

/* What follows "http://" or "https://"; NULL: neither. */
static const char *after_scheme(const char *text)
{
	if (str_has_prefix(text, "http://"))
		return text + sizeof("http://") - 1;
	if (str_has_prefix(text, "https://"))
		return text + sizeof("https://") - 1;
	return NULL;
}

int config_check_url(const char *text, struct err *err)
{
	const char *rest = after_scheme(text);
	size_t n = rest ? strcspn(rest, "/?#") : 0;
	int r;

	if (rest && memchr(rest, '@', n)) {
		/* not shown: this may be a password */
		r = err_set(err, ERR_INVALID, 0, "a name and a password do not belong in a URL");
		return err_remedy(err, r, "whoever receives can check a signature: secret_file");
	}
	if (!rest || !is_authority(rest, n))
		return err_set(err, ERR_INVALID, 0,
		               "\"%.60s\" is no URL; write it like http://127.0.0.1:4318/path",
		               text);
	for (rest += n; *rest; rest++)
		if (*rest <= ' ' || *rest > '~' || *rest == '#')
			return err_set(err, ERR_INVALID, 0, "\"%.60s\" is no URL", text);
	return 0;
}

static int check_tcp(const char *text, struct err *err)
{
	struct listen_address a;

	return listen_parse(text, &a, err);
}

static int check_host(const char *text, struct err *err)
{
	return is_authority(text, strlen(text))
	               ? 0
	               : err_set(err, ERR_INVALID, 0,
	                         "\"%.60s\" is no name of a host, as in brig.example:7070", text);
}

static int check_origin(const char *text, struct err *err)
{
	const char *rest = after_scheme(text);

	return rest && is_authority(rest, strlen(rest))
	               ? 0
	               : err_set(err, ERR_INVALID, 0,
	                         "\"%.60s\" is no origin, as in https://console.example", text);
}

/* It is imported by a process with our privileges: a name, nothing that is a path. */
static int check_module(const char *text, struct err *err)
{
	size_t part = 0;

	for (const char *c = text;; c++) {
		if ((*c == '.' || !*c) && !part)
			break;
		if (!*c && c - text <= NAME_MAX_BYTES)
			return 0;
		if (*c == '.') {
			part = 0;
			continue;
		}
		if (!(is_alnum(*c) || *c == '_') || (!part && *c >= '0' && *c <= '9'))
			break;
		part++;
	}
	return err_set(err, ERR_INVALID, 0, "\"%.60s\" is no name of a module", text);
}

/* ---- the lists ---- */

#define LIST(type, group, key, field, check)                                                       \
	{                                                                                          \
		group, key, offsetof(struct type, field), offsetof(struct type, n_##field),        \
			ELEMENTSOF(((struct type *)0)->field), check                               \
	}

const struct config_list config_lists[] = {
	LIST(daemon_config, "listen", "tcp", tcp, check_tcp),
	LIST(daemon_config, "", "hosts", hosts, check_host),
	LIST(daemon_config, "", "origins", origins, check_origin),
};
const size_t config_lists_n = ELEMENTSOF(config_lists);
const struct config_list shape_preload = LIST(config_shape, "", "preload", preload, check_module);

static size_t *count_of(void *base, const struct config_list *l)
{
	return (size_t *)((char *)base + l->n_offset);
}

size_t config_list_n(const void *base, const struct config_list *l)
{
	return *(const size_t *)((const char *)base + l->n_offset);
}

const char *config_list_at(const void *base, const struct config_list *l, size_t i)
{
	return ((const char *const *)((const char *)base + l->offset))[i];
}

void config_list_clear(void *base, const struct config_list *l)
{
	*count_of(base, l) = 0;
}

int config_list_add(struct arena *arena, void *base, const struct config_list *l, const char *text,
                    struct err *err)
{
	size_t n = config_list_n(base, l);
	const char **v = (const char **)((char *)base + l->offset);
	int r;

	if (n >= l->max)
		return err_set(err, ERR_INVALID, 0, "at most %zu", l->max);
	for (size_t i = 0; i < n; i++)
		if (streq(v[i], text))
			return err_set(err, ERR_INVALID, 0, "\"%.60s\" is there twice", text);
	r = l->check(text, err);
	if (r >= 0)
		r = config_keep(arena, text, &v[n], err);
	if (r >= 0)
		*count_of(base, l) = n + 1;
	return r;
}
