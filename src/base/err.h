/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Errors. Functions return >= 0 on success and -errno on failure; those with a story to tell take
 * a last parameter `struct err *err` (may be NULL; untouched on success). The struct is plain data
 * of fixed size: it works in a freshly cloned child, under OOM, and is written as it is to the
 * launcher's socket. `code` is API; `msg` is for people and is never parsed.
 */

#include "base/macro.h"

/*    enum         name            HTTP  exit  what it means                                    */
/* clang-format off */
#define ERR_TABLE(X)                                                                               \
	X(INTERNAL,    "internal",     500,  125, "brig itself failed")                            \
	X(INVALID,     "invalid",      400,  2,   "the request is wrong")                          \
	X(UNSUPPORTED, "unsupported",  422,  126, "this host cannot do what is required")          \
	X(DENIED,      "denied",       403,  126, "refused by policy")                             \
	X(CONFLICT,    "conflict",     409,  125, "it was decided otherwise before")               \
	X(EXPIRED,     "expired",      410,  126, "too late")                                      \
	X(LIMIT,       "limit",        413,  125, "a stated bound was reached")                    \
	X(NOT_FOUND,   "not_found",    404,  125, "a named thing does not exist")                  \
	X(SETUP,       "setup_failed", 500,  125, "the box could not be built; no user code ran")  \
	X(IO,          "io",           503,  125, "reading or writing a host file failed")         \
	X(UNAUTHORIZED, "unauthorized", 401, 126, "no token, or one that does not count")          \
	X(FORBIDDEN,   "forbidden",    403,  126, "the caller may not do that")                    \
	X(METHOD,      "method",       405,  125, "not with this method")                          \
	X(MEDIA_TYPE,  "media_type",   415,  125, "a body of another type is needed")              \
	X(BUSY,        "busy",         429,  125, "too much is under way; nothing was started")    \
	X(UNAVAILABLE, "unavailable",  503,  125, "not now")
/* clang-format on */

enum err_code {
	ERR_NONE = 0,
#define X(id, ...) ERR_##id,
	ERR_TABLE(X)
#undef X
		ERR_CODE_COUNT,
};

struct err {
	enum err_code code;
	int sys;       /* positive errno, 0 if the kernel was not involved */
	char step[32]; /* of the set-up, "" elsewhere */
	char msg[240];
	char remedy[160]; /* what the reader can do about it, "" when nothing */
};

/* Sets the error and returns -sys (or -EINVAL when sys is 0). strerror text is appended. */
int err_set(struct err *err, enum err_code code, int sys, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* "outer: inner"; returns r. */
int err_wrap(struct err *err, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Adds the remedy; returns r. */
int err_remedy(struct err *err, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);

const char *err_code_name(enum err_code code);
int err_code_exit(enum err_code code);
unsigned err_code_http(enum err_code code);
