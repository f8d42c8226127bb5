/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A question to a person, bound to the digest of exactly what will run, and its answer. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "model/decision.h"
#include "model/request.h"
#include "model/result.h"

#define ACTOR_SIZE           64
#define APPROVAL_REASON_SIZE 200

enum approval_state {
	APPROVAL_NONE = 0,
	APPROVAL_WAITING,
	APPROVAL_ALLOWED, /* and not used up */
	APPROVAL_USED,    /* allowed once, and that was it */
	APPROVAL_DENIED,
	APPROVAL_EXPIRED,   /* nobody answered in time: a denial */
	APPROVAL_WITHDRAWN, /* whoever asked went away */
	APPROVAL_REVOKED,   /* allowed, and taken back */
	APPROVAL_STATE_COUNT,
};

struct approval {
	char id[EXECUTION_ID_SIZE];
	char job[EXECUTION_ID_SIZE];
	char session[REQUEST_NAME_MAX + 1]; /* "": none */
	char asker[ACTOR_SIZE];
	uint8_t digest[SHA256_SIZE]; /* of what may run */
	uint8_t rest[SHA256_SIZE];   /* of all of it but the code */
	enum approval_state state;
	uint64_t created_us, expires_us; /* CLOCK_REALTIME, for people */
	/* What the policy permits as an answer. */
	enum remember remember;
	uint64_t remember_ms;
	bool self;
	/* The answer. */
	enum remember scope;
	uint64_t until_us; /* of REMEMBER_DIGEST; 0: none */
	bool edited;       /* the approver put other code in its place */
	char answered_by[ACTOR_SIZE];
	char reason[APPROVAL_REASON_SIZE];
};

const char *approval_state_name(enum approval_state s);
/* {"id":…,"job":…,…}: every field, digests in hexadecimal, times in RFC 3339 (UTC). */
void approval_to_json(const struct approval *a, struct buf *out);
/* 2026-01-31T12:00:00Z, or "never" for 0 */
#define TIME_TEXT_SIZE 32
void time_text(uint64_t time_us, char ret[TIME_TEXT_SIZE]);
/* The same in quotes, or null. */
void json_put_time(struct buf *out, uint64_t time_us);
