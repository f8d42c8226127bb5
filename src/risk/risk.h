/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * STEP 1: source text -> findings. Pure (no I/O after risk_open(), the rules are compiled in) and
 * bounded in time, memory and depth. What cannot be understood in full is never SAFE.
 */

#include "base/err.h"
#include "base/str.h"
#include "model/findings.h"
#include "model/request.h"

#define RISK_SOURCE_MAX    (256 * KIB) /* larger: not analysed, HIGH */
#define RISK_DEPTH_MAX     256         /* of the syntax tree */
#define RISK_NODES_MAX     400000
#define RISK_DEADLINE_MS   200
#define RISK_PLACED_MAX    (4 * MIB) /* of all programs among the files; more: HIGH */
#define RISK_EMBEDDED_MAX  3         /* code in strings in code */
#define RISK_CACHE_ENTRIES 512       /* results kept by digest */

struct risk; /* parsers, rules, cache; belongs to one thread */

/* Cheap: a language's rules and parser are made when it is first met. */
int risk_open(struct risk **ret, struct err *err);
void risk_close(struct risk *r);
/*
 * Always gives an answer: a failure inside (memory, deadline) is a finding. The text may be any
 * bytes. TypeScript is taken for JavaScript.
 */
void risk_assess(struct risk *r, enum language language, struct str code, struct findings *ret);
/*
 * Adds what is to be said of the request's files that are programs, by their names or contents, and
 * of variables that say where programs are found. All files share one deadline; a file's name and
 * line are in the message.
 */
void risk_assess_placed(struct risk *r, const struct request *req, struct findings *inout);
/* An action of the browser and its parameters, as text. */
void risk_assess_browser(struct risk *r, struct str action, struct findings *ret);
/* Reads the rules of every language; an error names the line. For tests and rule authors. */
int risk_check_rules(struct risk *r, struct err *err);
/* SHA-256 (hex) of all rules: recorded beside what they said. */
const char *risk_rules_id(void);
