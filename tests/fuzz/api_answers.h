/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one connection got, looked at as a client does: answers that HTTP knows and docs/api.md
 * lists, bodies and messages that are JSON. None may say that brigd itself failed.
 */

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "api_fuzz.h"

static void check_status(unsigned status, struct str head)
{
	static const unsigned known[] = { 100, 101, 200, 202, 400, 401, 403, 404,
		                          405, 408, 409, 410, 413, 414, 415, 417,
		                          421, 422, 426, 429, 431, 501, 503, 505 };

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		if (known[i] == status)
			return;
	(void)fprintf(stderr, "an answer that is none: %.*s\n", (int)head.n, head.p);
	abort();
}

static void check_json(struct str body)
{
	json_error_t e;
	json_t *json = json_loadb(body.p, body.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);

	if (!json) {
		(void)fprintf(stderr, "%s: %.*s\n", e.text, (int)body.n, body.p);
		abort();
	}
	json_decref(json);
	MUST(!has_word(body, "\"code\":\"internal\",\"cause\":\"brigd could"));
	MUST(!has_word(body, "\"code\":\"io\",\"cause\":\"brigd could"));
}

/* The value of a header of ours; NULL: not there. */
static const char *header_of(struct str head, const char *name)
{
	const char *at = memmem(head.p, head.n, name, strlen(name));

	return at ? at + strlen(name) : NULL;
}

/* Messages of the server: whole, not masked, JSON. */
static void check_frames(struct str s)
{
	while (s.n >= 2) {
		unsigned op = (unsigned char)s.p[0];
		size_t n = (unsigned char)s.p[1], at = 2;

		MUST(n < 128 && (op & 0xf0) == 0x80);
		if (n > 125)
			at = n == 126 ? 4 : 10;
		if (s.n < at)
			return;
		if (n > 125) {
			n = 0;
			for (size_t i = 2; i < at; i++)
				n = n << 8 | (unsigned char)s.p[i];
		}
		if (s.n - at < n)
			return;
		if (op == 0x81)
			check_json((struct str){ s.p + at, n });
		s = (struct str){ s.p + at + n, s.n - at - n };
	}
}

/* How long the body is; SIZE_MAX: to the end of what there is. */
static size_t check_head(unsigned status, struct str head)
{
	const char *length = header_of(head, "\r\nContent-Length: ");
	size_t n = 0;

	check_status(status, head);
	if (status < 200)
		return status == 101 ? SIZE_MAX : 0;
	if (status < 400) /* of what is not HTTP at all libmicrohttpd tells by itself */
		MUST(header_of(head, "\r\nX-Content-Type-Options: nosniff\r\n"));
	if (!length)
		return SIZE_MAX;
	while (isdigit((unsigned char)*length))
		n = n * 10 + (size_t)(*length++ - '0');
	return n;
}

static void check_answers(struct str s)
{
	while (s.n) {
		const char *end = memmem(s.p, s.n, "\r\n\r\n", 4);
		struct str head = { s.p, end ? (size_t)(end - s.p) + 4 : 0 }, body;
		unsigned status;
		size_t n;

		if (!end)
			return;
		MUST(head.n > 16 && memcmp(s.p, "HTTP/1.", 7) == 0);
		status = (unsigned)(s.p[9] - '0') * 100 + (unsigned)(s.p[10] - '0') * 10 +
		         (unsigned)(s.p[11] - '0');
		n = check_head(status, head);
		body = (struct str){ s.p + head.n, s.n - head.n };
		if (status == 101)
			check_frames(body);
		if (n > body.n)
			return;
		body.n = n;
		if (n && header_of(head, "\r\nContent-Type: application/json\r\n"))
			check_json(body);
		s = (struct str){ body.p + n, s.n - head.n - n };
	}
}
