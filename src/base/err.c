/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int exit_status;
	unsigned http;
} codes[ERR_CODE_COUNT] = { [ERR_NONE] = { "none", 0, 200 },
#define X(id, name, http, exit_status, text) [ERR_##id] = { name, exit_status, http },
	                    ERR_TABLE(X)
#undef X
};

/* Messages quote names and paths of other people's making, and end on terminals. */
static void mask_controls(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

int err_set(struct err *err, enum err_code code, int sys, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!err)
		return sys ? -sys : -EINVAL;
	memset(err, 0, sizeof(*err));
	err->code = code;
	err->sys = sys;
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	mask_controls(err->msg);
	n = strlen(err->msg);
	if (sys && n < sizeof(err->msg))
		(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror(sys));
	return sys ? -sys : -EINVAL;
}

int err_wrap(struct err *err, int r, const char *fmt, ...)
{
	char inner[sizeof(err->msg)];
	va_list ap;
	size_t n;

	if (!err)
		return r;
	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	mask_controls(err->msg);
	n = strlen(err->msg);
	(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", inner);
	return r;
}

int err_remedy(struct err *err, int r, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return r;
	va_start(ap, fmt);
	(void)vsnprintf(err->remedy, sizeof(err->remedy), fmt, ap);
	va_end(ap);
	return r;
}

const char *err_code_name(enum err_code code)
{
	if ((unsigned)code >= ERR_CODE_COUNT)
		return "internal";
	return codes[code].name;
}

int err_code_exit(enum err_code code)
{
	if ((unsigned)code >= ERR_CODE_COUNT)
		return 125;
	return codes[code].exit_status;
}

unsigned err_code_http(enum err_code code)
{
	if ((unsigned)code >= ERR_CODE_COUNT)
		return 500;
	return codes[code].http;
}
