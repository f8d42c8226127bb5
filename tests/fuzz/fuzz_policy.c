/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a policy; one that is taken must decide everything, and the same twice. */
#include <stdint.h>
#include <stdio.h>

#include "fuzz.h"
#include "policy/policy.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* libfyaml 0.7.12 loses a buffer for a text with a dozen '' in it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:fy_atom_iter_grow_chunk";
}

static void check_bounds(const struct decision *d)
{
	MUST(limits_check(&d->limits, NULL) == 0);
	MUST((unsigned)d->verdict < VERDICT_COUNT && (unsigned)d->level < LEVEL_COUNT);
	MUST((unsigned)d->tier < TIER_COUNT && (unsigned)d->network < NETWORK_COUNT);
	MUST((unsigned)d->remember < REMEMBER_COUNT);
	MUST(d->expires_ms >= 1000 && d->expires_ms <= 604800000);
	MUST(d->pending_max >= 1);
	MUST(*d->policy && *d->rule && *d->reason);
}

static bool same(const struct decision *a, const struct decision *b)
{
	return a->verdict == b->verdict && streq(a->rule, b->rule) && streq(a->policy, b->policy) &&
	       memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0 && a->level == b->level &&
	       a->tier == b->tier && a->network == b->network && a->remember == b->remember &&
	       a->self_approve == b->self_approve && a->expires_ms == b->expires_ms;
}

static void decide(const struct policy *p, const struct policy_input *in)
{
	struct decision once, twice;
	struct policy_step step;
	bool any = false;

	policy_eval(p, in, &once);
	policy_eval(p, in, &twice);
	MUST(same(&once, &twice));
	check_bounds(&once);
	for (size_t i = 0; i < policy_n_rules(p); i++) {
		MUST(policy_try(p, i, in, &step) == 0);
		any |= step.matched && streq(step.rule, once.rule);
	}
	MUST(any || streq(once.rule, POLICY_RULE_DEFAULT));
	decision_combine(&twice, &once);
	MUST(same(&once, &twice));
}

static void ignore(void *data, uint32_t line, const char *rule, const char *what)
{
	(void)line;
	MUST(rule && what);
	++*(size_t *)data;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct findings found;
	struct policy *p = NULL;
	struct request req;
	struct err err = { 0 };
	struct policy_input in = { .request = &req, .findings = &found, .caller = "cli:x" };
	size_t warnings = 0;

	if (policy_parse("fuzz", (struct str){ (const char *)data, size }, &p, &err) < 0) {
		MUST(p == NULL && err.code != ERR_NONE && *err.msg);
		return 0;
	}
	request_init(&req);
	found.n = 1;
	(void)snprintf(found.v[0].rule, sizeof(found.v[0].rule), "py.net.socket");
	for (unsigned i = 0; i < 4 * (LANGUAGE_COUNT - 1) * (RISK_LEVEL_COUNT - 1); i++) {
		found.complete = i & 1;
		found.truncated = i & 2;
		req.language = (enum language)(1 + i / 4 % (LANGUAGE_COUNT - 1));
		found.level = (enum risk_level)(1 + i / 4 / (LANGUAGE_COUNT - 1));
		decide(p, &in);
	}
	policy_lint(p, ignore, &warnings);
	policy_free(p);
	return 0;
}
