/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter in the running kernel: each check loads it in a child process.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "policy.h"

struct kernel_check {
	const struct sock_filter *code;
	unsigned short len;
	const struct policy_rule *rules;
	size_t n_rules;
};

bool kernel_accepts(const struct kernel_check *check);

/* Every rule without clauses that answers with an error: called, and the errno compared. */
bool kernel_refuses(const struct kernel_check *check);

/* Some calls that are refused for an argument, with garbage in the high words. */
bool kernel_refuses_arguments(const struct kernel_check *check);

/* Every rule that kills, an x32 call, and a call through int 0x80. */
bool kernel_kills(const struct kernel_check *check);
