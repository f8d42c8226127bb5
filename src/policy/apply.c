/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions with each other, and with the request they are about. */
#include <errno.h>
#include <stdio.h>

#include "policy/policy.h"

static void tighten_limits(struct limits *l, const struct limits *by)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		uint64_t *mine = limits_field(l, &limit_infos[i]);

		*mine = MIN2(*mine, *limits_field((struct limits *)by, &limit_infos[i]));
	}
}

static void take_verdict(struct decision *d, const struct decision *other)
{
	d->verdict = other->verdict;
	(void)snprintf(d->policy, sizeof(d->policy), "%s", other->policy);
	(void)snprintf(d->rule, sizeof(d->rule), "%s", other->rule);
	(void)snprintf(d->reason, sizeof(d->reason), "%s", other->reason);
}

/* Two tiers at once cannot be had. */
static void refuse_tiers(struct decision *d, const struct decision *other)
{
	d->verdict = VERDICT_DENY;
	(void)snprintf(d->rule, sizeof(d->rule), "%s", POLICY_RULE_UNJUDGED);
	(void)snprintf(d->reason, sizeof(d->reason), "policy %s wants tier %s, policy %s tier %s",
	               d->policy, tier_name(d->tier), other->policy, tier_name(other->tier));
}

void decision_combine(struct decision *d, const struct decision *other)
{
	if (d->tier != TIER_AUTO && other->tier != TIER_AUTO && d->tier != other->tier)
		refuse_tiers(d, other);
	else if (other->verdict < d->verdict)
		take_verdict(d, other);
	tighten_limits(&d->limits, &other->limits);
	if (d->tier == TIER_AUTO)
		d->tier = other->tier;
	d->level = MIN2(d->level, other->level);
	d->network = MIN2(d->network, other->network);
	d->expires_ms = MIN2(d->expires_ms, other->expires_ms);
	d->remember = MIN2(d->remember, other->remember);
	d->remember_ms = MIN2(d->remember_ms, other->remember_ms);
	d->self_approve = d->self_approve && other->self_approve;
	d->pending_max = MIN2(d->pending_max, other->pending_max);
}

/* ---- the request ---- */

static int refuse(const struct decision *d, struct err *err, const char *what, const char *asked,
                  const char *permitted)
{
	(void)err_set(err, ERR_DENIED, EPERM, "policy %s: %s %s is not permitted", d->policy, what,
	              asked);
	return err_remedy(err, -EPERM, "ask for %s %s", what, permitted);
}

int decision_apply(const struct decision *d, struct request *req, struct err *err)
{
	struct limits limits = req->limits;

	if (d->verdict != VERDICT_ALLOW && d->verdict != VERDICT_CONFIRM)
		return err_set(err, ERR_DENIED, EPERM, "policy %s: rule %s: %s", d->policy, d->rule,
		               d->reason);
	if (d->tier != TIER_AUTO && req->tier != TIER_AUTO && req->tier != d->tier)
		return refuse(d, err, "tier", tier_name(req->tier), tier_name(d->tier));
	if (req->network > d->network)
		return refuse(d, err, "network", network_name(req->network),
		              network_name(d->network));
	tighten_limits(&limits, &d->limits);
	if (limits_check(&limits, err) < 0)
		return err_wrap(err, -EINVAL, "policy %s", d->policy);
	req->limits = limits;
	req->level = MIN2(req->level, d->level);
	if (req->tier == TIER_AUTO)
		req->tier = d->tier;
	return 0;
}

static void put_word(char *out, size_t cap, const char *word)
{
	size_t n = strlen(out);

	(void)snprintf(out + n, cap - n, "%s%s", n ? ", " : "", word);
}

void decision_changes(const struct request *asked, const struct request *applied,
                      char ret[DECISION_CHANGES_SIZE])
{
	struct limits before = asked->limits, after = applied->limits;

	*ret = '\0';
	for (size_t i = 0; i < limit_infos_n; i++)
		if (*limits_field(&before, &limit_infos[i]) !=
		    *limits_field(&after, &limit_infos[i]))
			put_word(ret, DECISION_CHANGES_SIZE, limit_infos[i].option);
	if (asked->level != applied->level)
		put_word(ret, DECISION_CHANGES_SIZE, "level");
	if (asked->tier != applied->tier)
		put_word(ret, DECISION_CHANGES_SIZE, "tier");
	if (asked->network != applied->network)
		put_word(ret, DECISION_CHANGES_SIZE, "network");
}
