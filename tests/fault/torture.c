/* SPDX-License-Identifier: Apache-2.0 */
#include "torture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define ROUNDS_MAX 10000

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static struct {
	bool armed;
	bool persistent;
	unsigned countdown; /* fails when it reaches 0 */
	unsigned failed;    /* how often */
	long live;          /* allocated and not freed */
} fault;

static bool fails(void)
{
	if (!fault.armed)
		return false;
	if (fault.countdown > 1) {
		fault.countdown--;
		return false;
	}
	if (fault.failed && !fault.persistent)
		return false;
	fault.failed++;
	errno = ENOMEM;
	return true;
}

static void *counted(void *p)
{
	if (p)
		fault.live++;
	return p;
}

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
	if (fails())
		return NULL;
	return p ? __real_realloc(p, n) : counted(__real_realloc(p, n));
}

void __wrap_free(void *p)
{
	if (p)
		fault.live--;
	__real_free(p);
}

static unsigned tests, failures;

static void report(bool ok, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void report(bool ok, const char *name, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %u - %s\n", ok ? "" : "not ", ++tests, name);
	if (ok)
		return;
	failures++;
	printf("# ");
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void torture_one(const char *name, struct outcome (*call)(void), bool persistent)
{
	long before = fault.live;

	for (unsigned n = 1; n < ROUNDS_MAX; n++) {
		struct outcome o;

		fault.armed = true;
		fault.persistent = persistent;
		fault.countdown = n;
		fault.failed = 0;
		o = call();
		fault.armed = false;

		if (fault.live != before) {
			report(false, name, "allocation %u: %ld leaked", n, fault.live - before);
			return;
		}
		if (!fault.failed) {
			printf("# %s: %u allocations\n", name, n - 1);
			report(o.r == 0 && n > 1, name, "without a fault: %d %s", o.r, o.err.msg);
			return;
		}
		if (o.r != -ENOMEM) {
			report(false, name, "allocation %u: %d, not -ENOMEM: %s", n, o.r,
			       o.err.msg);
			return;
		}
		if (o.err.code == ERR_INVALID) {
			report(false, name, "allocation %u: blamed on the request: %s", n,
			       o.err.msg);
			return;
		}
	}
	report(false, name, "no end after %d rounds", ROUNDS_MAX);
}

unsigned torture(const struct torture_case *cases, size_t n)
{
	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++)
		torture_one(cases[i].name, cases[i].call, cases[i].persistent);
	return failures;
}
