/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What risk analysis says about a source text. A label that informs policy and people; never the
 * boundary: whatever it says, the code runs in a box.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define FINDINGS_MAX   64
#define RULE_ID_SIZE   48
#define RULE_CAT_SIZE  24
#define RULE_TEXT_SIZE 96

enum risk_level {
	RISK_UNKNOWN = 0, /* not assessed; policy refuses it */
	RISK_SAFE,
	RISK_LOW,
	RISK_MEDIUM,
	RISK_HIGH,
	RISK_CRITICAL,
	RISK_LEVEL_COUNT,
};

struct finding {
	char rule[RULE_ID_SIZE];      /* "py.exec.eval" */
	char category[RULE_CAT_SIZE]; /* "code-execution" */
	char message[RULE_TEXT_SIZE]; /* what it does, for people */
	enum risk_level level;
	uint32_t start, end;   /* byte range in the source */
	uint32_t line, column; /* of start; from 1, column in bytes */
};

struct findings {
	enum risk_level level;    /* the highest; SAFE only when the whole text was understood */
	bool complete;            /* false: see why; the level is at least MEDIUM then */
	char why[RULE_TEXT_SIZE]; /* "does not parse at line 3", "larger than 262144 bytes", ... */
	size_t n;
	bool truncated; /* more than FINDINGS_MAX; the level counts them all */
	bool cached;
	uint64_t cost_ns;
	struct finding
		v[FINDINGS_MAX]; /* highest level first, then by place; each rule and place once */
};

const char *risk_level_name(enum risk_level l);
/* "safe" ... "critical". */
int risk_level_from_name(const char *name, enum risk_level *ret);
/* {"level":…,"complete":…,"why":…,"truncated":…,"findings":[{rule,level,category,message,start,end,
 * line,column}…]}; `f->level == RISK_UNKNOWN` is written as null. */
void findings_to_json(const struct findings *f, struct buf *out);
