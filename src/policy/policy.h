/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * STEP 2: request + findings -> decision. Pure: the policy was read before. Built-in policies are
 * "strict" and "permissive"; a file may extend one. The first rule that matches decides.
 */

#include "base/err.h"
#include "base/str.h"
#include "model/decision.h"
#include "model/findings.h"
#include "model/request.h"

#define POLICY_FILE_MAX   (256 * KIB)
#define POLICY_RULES_MAX  512
#define POLICY_LABELS_MAX 16

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
