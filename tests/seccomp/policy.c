/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naive evaluation of a policy table: search by number, then clause after clause.
 */
#include "policy.h"

#include <errno.h>
#include <linux/audit.h>

#define X32_SYSCALL_BIT 0x40000000U

const struct policy_rule *policy_find(const struct policy_rule *rules, size_t n, uint32_t nr)
{
	size_t low = 0;

	while (low < n) {
		size_t middle = low + (n - low) / 2;

		if (rules[middle].nr == nr)
			return &rules[middle];
		if (rules[middle].nr < nr)
			low = middle + 1;
		else
			n = middle;
	}
	return NULL;
}

static bool term_holds(const struct policy_term *term, const struct seccomp_data *call)
{
	uint32_t value = (uint32_t)call->args[term->arg] & term->mask;

	for (size_t i = 0; i < term->n_values; i++)
		if (value == term->values[i])
			return !term->negate;
	return term->negate;
}

static bool clause_holds(const struct policy_clause *clause, const struct seccomp_data *call)
{
	for (size_t i = 0; i < clause->n_terms; i++)
		if (!term_holds(&clause->terms[i], call))
			return false;
	return true;
}

uint32_t policy_eval(const struct policy_rule *rules, size_t n, const struct seccomp_data *call)
{
	const struct policy_rule *rule;

	if (call->arch != AUDIT_ARCH_X86_64 || (uint32_t)call->nr >= X32_SYSCALL_BIT)
		return SECCOMP_RET_KILL_PROCESS;
	rule = policy_find(rules, n, (uint32_t)call->nr);
	if (!rule)
		return SECCOMP_RET_ERRNO | ENOSYS;
	for (size_t i = 0; i < rule->n_clauses; i++)
		if (clause_holds(&rule->clauses[i], call))
			return rule->clauses[i].action;
	return rule->action;
}
