/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy table as plain data, and the plainest way to ask it.  tools/mkfilter.py writes
 * the data; nothing here knows of BPF, so that the compiled program can be compared with it.
 */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Holds when (low word of args[arg] & mask) is one of values; the reverse if negate. */
struct policy_term {
	unsigned arg;
	bool negate;
	uint32_t mask;
	size_t n_values;
	const uint32_t *values;
};

/* Holds when every term does. */
struct policy_clause {
	uint32_t action; /* SECCOMP_RET_*, with its data */
	size_t n_terms;
	const struct policy_term *terms;
};

struct policy_rule {
	uint32_t nr;
	const char *name;
	uint32_t action; /* when no clause holds */
	size_t n_clauses;
	const struct policy_clause *clauses; /* NULL if there are none */
};

/* The rule for nr, or NULL for a number that the table does not know. */
const struct policy_rule *policy_find(const struct policy_rule *rules, size_t n, uint32_t nr);

/* What the policy says to a call, with the head (architecture, x32, unknown) included. */
uint32_t policy_eval(const struct policy_rule *rules, size_t n, const struct seccomp_data *call);
