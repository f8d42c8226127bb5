/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * STEP 2: request + findings -> decision. Pure: the policy was read before. Built-in policies are
 * "strict" and "permissive"; a file may extend one. The first rule that matches decides; own rules
 * come before those of what is extended, but cannot lift what that denies.
 */

#include "base/err.h"
#include "base/str.h"
#include "model/decision.h"
#include "model/findings.h"
#include "model/request.h"

#define POLICY_FILE_MAX       (256 * KIB)
#define POLICY_RULES_MAX      512
#define POLICY_LABELS_MAX     16
#define DECISION_CHANGES_SIZE 200

/* decision.rule when no rule of the policy decided. */
#define POLICY_RULE_DEFAULT  "default"
#define POLICY_RULE_UNJUDGED "not-judged"

struct policy;

struct policy_input {
	const struct request *request;
	const struct findings *findings;
	const char *action;        /* "code_execution", ...; NULL: that */
	const char *caller;        /* "cli:root", "lib", "token:NAME"; NULL: "" */
	const char *const *labels; /* of the session */
	size_t n_labels;
};

/* Text of a policy; `name` is for messages. The error names line, column and key. */
int policy_parse(const char *name, struct str text, struct policy **ret, struct err *err);
/* A built-in's name, or the path of a file. */
int policy_load(const char *name_or_path, struct policy **ret, struct err *err);
void policy_free(struct policy *p);
const char *policy_name(const struct policy *p);
/* SHA-256 (hex) of the policy as it was read, what it extends included. */
const char *policy_digest(const struct policy *p);
/* Always gives a decision; what cannot be judged is denied. */
void policy_eval(const struct policy *p, const struct policy_input *in, struct decision *ret);
/* Of two decisions on one request the stricter, with the tighter of all bounds. */
void decision_combine(struct decision *d, const struct decision *other);
/*
 * Applies the decision's bounds to a copy of the request: limits lowered, level and tier raised.
 * -EPERM with ERR_DENIED when the request insists on something else (another tier, a network that
 * is not permitted).
 */
int decision_apply(const struct decision *d, struct request *req, struct err *err);
/*
 * What decision_apply() changed, for the caller to be told: the options' names ("timeout, level"),
 * "" when nothing.
 */
void decision_changes(const struct request *asked, const struct request *applied,
                      char ret[DECISION_CHANGES_SIZE]);

/* ---- for people who write policies ---- */

/* The i-th built-in's name; NULL after the last. */
const char *policy_builtin_name(size_t i);
/* p is NULL when there is none of that name. */
struct str policy_builtin_text(const char *name);

/* How one rule took a request. */
struct policy_step {
	const char *policy, *rule;
	enum verdict verdict;
	uint32_t line; /* in the file of that policy */
	bool matched;
	char why[240]; /* what held, or the first thing that did not */
};

/* Own rules, then those of what it extends. */
size_t policy_n_rules(const struct policy *p);
/* -EINVAL when the input cannot be judged or there is no such rule. */
int policy_try(const struct policy *p, size_t i, const struct policy_input *in,
               struct policy_step *ret);
/* Called for each thing that is valid and yet hardly meant. */
typedef void policy_lint_fn(void *data, uint32_t line, const char *rule, const char *what);
void policy_lint(const struct policy *p, policy_lint_fn *fn, void *data);
