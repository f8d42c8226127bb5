/* SPDX-License-Identifier: Apache-2.0 */

/* When: what must still be true after the date was changed, and after a restart. */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "confirm/impl.h"

void moment_now(struct moment *ret)
{
	struct timespec real, boot;

	(void)clock_gettime(CLOCK_REALTIME, &real);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	ret->real_us = (uint64_t)real.tv_sec * 1000000 + (uint64_t)real.tv_nsec / 1000;
	ret->boot_ms = (uint64_t)boot.tv_sec * 1000 + (uint64_t)boot.tv_nsec / 1000000;
	(void)snprintf(ret->boot_id, sizeof(ret->boot_id), "%s", boot_id());
}

bool moment_passed(const struct moment *now, const char *boot, uint64_t boot_ms, uint64_t real_us)
{
	if (strcmp(now->boot_id, boot) == 0)
		return now->boot_ms >= boot_ms;
	return now->real_us >= real_us;
}

bool approval_row_has_lapsed(const struct approval_row *row, const struct moment *now)
{
	const struct approval *a = &row->a;

	if (a->state == APPROVAL_ALLOWED && a->scope == REMEMBER_SESSION)
		return false;
	if (a->state == APPROVAL_ALLOWED && a->scope == REMEMBER_DIGEST)
		return moment_passed(now, row->boot_id, row->until_boot_ms, a->until_us);
	return (a->state == APPROVAL_WAITING || a->state == APPROVAL_ALLOWED) &&
	       moment_passed(now, row->boot_id, row->expires_boot_ms, a->expires_us);
}
