/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The plan as bytes: a magic, then the fields of struct plan in a fixed order, little-endian as
 * the machine has them (both ends are the same build on the same machine; the magic carries the
 * version). One visitor walks the fields for both directions, so that they cannot disagree.
 * The reader trusts nothing: every length, count, enum and string is checked.
 */

#include "base/buf.h"
#include "base/err.h"
#include "model/plan.h"

/* Where a decoded plan's arrays live: the launcher has one, and allocates nothing. */
struct plan_store {
	struct fs_op fs[PLAN_FS_OPS_MAX];
	struct plan_rule rules[PLAN_RULES_MAX];
	struct plan_rlimit rlimits[PLAN_RLIMITS_MAX];
	const char *argv[PLAN_ARGS_MAX + 1];
	const char *env[PLAN_ENV_MAX + 1];
};

int plan_encode(const struct plan *plan, struct buf *out);
/* Strings and data of *ret point into `bytes`; arrays into `store` (argv and env end in NULL). */
int plan_decode(const void *bytes, size_t n, struct plan_store *store, struct plan *ret,
                struct err *err);
