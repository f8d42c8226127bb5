/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What policy says about a request: an answer, never an error. Zeroed memory denies. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/layer.h"
#include "model/limits.h"
#include "model/request.h"

#define POLICY_NAME_SIZE   64
#define POLICY_REASON_SIZE 200

enum verdict {
	VERDICT_DENY = 0,
	VERDICT_CONFIRM,
	VERDICT_ALLOW,
	VERDICT_COUNT,
};

/* How long "yes" may be remembered; a policy names the longest it permits. */
enum remember {
	REMEMBER_NOTHING = 0, /* allow once */
	REMEMBER_SESSION,     /* this digest, in this session */
	REMEMBER_DIGEST,      /* this digest, until a stated time */
	REMEMBER_COUNT,
};

struct decision {
	enum verdict verdict;
	char policy[POLICY_NAME_SIZE];   /* the policy that decided */
	char rule[POLICY_NAME_SIZE];     /* its rule; "default" when none matched */
	char reason[POLICY_REASON_SIZE]; /* for people */
	/* What the run may have at most; a caller can only ask for less. */
	struct limits limits;   /* ceilings */
	enum level level;       /* at least this strict */
	enum tier tier;         /* TIER_AUTO: any; otherwise exactly this one */
	enum network network;   /* at most this */
	uint64_t expires_ms;    /* of an approval request, from its making */
	enum remember remember; /* the longest permitted */
	uint64_t remember_ms;   /* for REMEMBER_DIGEST: the latest, from the decision */
	bool self_approve;      /* may whoever asks also answer? */
	uint32_t pending_max;   /* approval requests of one session that wait */
};

const char *verdict_name(enum verdict v);
int verdict_from_name(const char *name, enum verdict *ret);
const char *remember_name(enum remember r);
int remember_from_name(const char *name, enum remember *ret);
/* {"verdict":…,"policy":…,"rule":…,"reason":…} */
void decision_to_json(const struct decision *d, struct buf *out);
