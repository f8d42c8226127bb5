/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a request. MHD is lenient (bare LF, folded lines, blanks before the colon, several
 * lengths), and two programs that read one request differently are how requests are smuggled. So
 * the header is read again, strictly.
 *
 * MHD leaves it where it was received and only overwrites separators with NULs: the blanks of the
 * request line, the colon of each field, and the end of each line, CR LF by two and a bare LF by
 * one. Should a later version do otherwise, then nothing matches, and everything is refused.
 */
#include <string.h>
#include <strings.h>

#include "net/impl.h"

#define METHOD_MAX  32
#define LENGTH_MAX  18 /* digits */
#define VERSION_LEN 8

struct form {
	unsigned hosts, lengths, encodings, expects, codings, fields;
	const char *length, *encoding, *expect, *coding;
};

bool form_is_token(const char *p, size_t n)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < n; i++) {
		char c = p[i], lower = (char)(c | 0x20);

		if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') &&
		    (c == '\0' || !strchr(others, c)))
			return false;
	}
	return n > 0;
}

static bool is_value(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* Visible ASCII, and no start of a fragment. */
static bool is_visible(const char *p)
{
	for (; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (c <= 0x20 || c >= 0x7f || c == '#' || c == '\\')
			return false;
	}
	return true;
}

static void note(struct form *f, const char *name, const char *value)
{
	const struct {
		const char *name;
		unsigned *count;
		const char **value;
	} known[] = {
		{ "host", &f->hosts, NULL },
		{ "content-length", &f->lengths, &f->length },
		{ "transfer-encoding", &f->encodings, &f->encoding },
		{ "expect", &f->expects, &f->expect },
		{ "content-encoding", &f->codings, &f->coding },
	};

	f->fields++;
	for (size_t i = 0; i < ELEMENTSOF(known); i++) {
		if (strcasecmp(known[i].name, name) != 0)
			continue;
		(*known[i].count)++;
		if (known[i].value)
			*known[i].value = value;
	}
}

/* One field: "name NUL blanks value NUL NUL". NULL: it is not one. */
static const char *read_field(struct form *f, const char *p, const char *end)
{
	size_t name = strnlen(p, (size_t)(end - p)), value;
	const char *at = p + name + 1;

	if (!form_is_token(p, name) || at >= end)
		return NULL;
	at += strspn(at, " \t");
	value = strnlen(at, (size_t)(end - at));
	if ((size_t)(end - at) < value + 2 || at[value + 1] != '\0' || !is_value(at, value))
		return NULL;
	note(f, p, at);
	return at + value + 2;
}

/* The whole of it, to the empty line. */
static bool read_fields(struct form *f, const char *p, const char *end)
{
	while (p && end - p > 2 && f->fields <= HEADERS_MAX)
		p = read_field(f, p, end);
	return p && end - p == 2 && p[0] == '\0' && p[1] == '\0';
}

/* "GET NUL /target NUL HTTP/1.1 NUL NUL": one blank each, and no NUL in the target. */
static const char *read_line(const struct http_request *r, const char *url, const char *version,
                             const char *end)
{
	size_t method = strnlen(r->method, METHOD_MAX + 1);

	if (method > METHOD_MAX || !form_is_token(r->method, method))
		return NULL;
	if (url != r->method + method + 1 || version != url + r->target_n + 1)
		return NULL;
	if (end - version < VERSION_LEN + 2 || version[VERSION_LEN] || version[VERSION_LEN + 1])
		return NULL;
	return version + VERSION_LEN + 2;
}

static unsigned check_length(struct http_request *r, const struct form *f)
{
	if (f->lengths > 1 || f->encodings > 1 || (f->lengths && f->encodings))
		return MHD_HTTP_BAD_REQUEST;
	if (f->encodings && (r->http10 || strcasecmp(f->encoding, "chunked") != 0))
		return MHD_HTTP_BAD_REQUEST;
	r->has_body = f->encodings > 0;
	if (!f->lengths)
		return 0;
	if (!*f->length || f->length[strspn(f->length, "0123456789")])
		return MHD_HTTP_BAD_REQUEST;
	if (strlen(f->length) > LENGTH_MAX)
		return MHD_HTTP_CONTENT_TOO_LARGE;
	for (const char *p = f->length; *p; p++)
		r->declared = r->declared * 10 + (unsigned)(*p - '0');
	r->has_body = r->declared > 0;
	return 0;
}

static unsigned check_rest(const struct http_request *r, const struct form *f)
{
	if (f->hosts != 1)
		return MHD_HTTP_BAD_REQUEST;
	if (f->expects > 1 || (f->expects && strcasecmp(f->expect, "100-continue") != 0))
		return MHD_HTTP_EXPECTATION_FAILED;
	if (f->codings > 1 || (f->codings && strcasecmp(f->coding, "identity") != 0))
		return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
	return upgrade_check_version(r);
}

static unsigned check_target(const struct http_request *r, const char *version)
{
	if (!streq(version, "HTTP/1.1") && !streq(version, "HTTP/1.0"))
		return MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED;
	if (r->target_n > TARGET_MAX)
		return MHD_HTTP_URI_TOO_LONG;
	if (r->path[0] == '/' && is_visible(r->path) && (!r->query || is_visible(r->query)))
		return 0;
	/* CONNECT names a host, not a path. */
	return streq(r->method, "CONNECT") ? MHD_HTTP_METHOD_NOT_ALLOWED : MHD_HTTP_BAD_REQUEST;
}

unsigned form_check(struct http_request *r, const char *url, const char *version)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	struct form f = { 0 };
	const char *end, *fields;
	unsigned status;

	if (!info)
		return MHD_HTTP_BAD_REQUEST;
	if (info->header_size > r->s->limits.header_bytes)
		return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
	end = r->method + info->header_size;
	fields = read_line(r, url, version, end);
	if (!fields || (!read_fields(&f, fields, end) && f.fields <= HEADERS_MAX))
		return MHD_HTTP_BAD_REQUEST;
	if (f.fields > HEADERS_MAX)
		return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
	r->s->counts.bytes_in += info->header_size;
	r->http10 = streq(version, "HTTP/1.0");
	status = check_target(r, version);
	if (!status)
		status = check_length(r, &f);
	return status ? status : check_rest(r, &f);
}
