/* SPDX-License-Identifier: Apache-2.0 */

/* Answers without a person. Their word counts like that of whoever asked: a policy that forbids
 * self-approval forbids the automatic one, too. */

#include "base/fd.h"
#include "confirm/confirm.h"

static int answer(struct channel *c, struct ledger *l, const struct approval *a, bool allow,
                  struct err *err)
{
	const struct confirm_answer x = { .id = a->id,
		                          .actor = a->self ? c->ops->name : a->asker,
		                          .allow = allow,
		                          .reason = "answered without a person",
		                          .digest = a->digest };
	struct approval after;

	return confirm_answer(l, &x, &after, err);
}

static int approve(struct channel *c, struct ledger *l, const struct approval *a, struct err *err)
{
	return answer(c, l, a, true, err);
}

static int deny(struct channel *c, struct ledger *l, const struct approval *a, struct err *err)
{
	return answer(c, l, a, false, err);
}

static int no_turn(struct channel *c, struct ledger *l, struct err *err)
{
	(void)c;
	(void)l;
	(void)err;
	return 0;
}

static int no_fd(const struct channel *c)
{
	(void)c;
	return FD_NONE;
}

static void no_settled(struct channel *c, const struct approval *a)
{
	(void)c;
	(void)a;
}

const struct channel_ops channel_auto_approve = { "auto-approve", approve, no_turn, no_fd,
	                                          no_settled };
const struct channel_ops channel_auto_deny = { "auto-deny", deny, no_turn, no_fd, no_settled };
