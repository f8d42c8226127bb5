/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a policy is inside. Nothing of it changes after policy_parse(). */

#include "base/arena.h"
#include "base/sha256.h"
#include "policy/policy.h"
#include "policy/vocab.h"

#define POLICY_PATTERN_MAX  64   /* bytes of one pattern */
#define POLICY_PATTERNS_MAX 1024 /* of one file */
#define POLICY_ANY_MAX      64   /* words or patterns of one condition */
#define POLICY_SUBJECT_MAX  256  /* bytes of a caller, label or tool that is matched */
#define POLICY_ARENA_MAX    (4 * MIB)

/*  id         key         vocabulary; those from RULE on are patterns */
/* clang-format off */
#define COND_TABLE(X)                                                                              \
	X(LANGUAGE, "language", VOCAB_LANGUAGE)                                                    \
	X(RISK,     "risk",     VOCAB_RISK)                                                        \
	X(NETWORK,  "network",  VOCAB_NETWORK)                                                     \
	X(LEVEL,    "level",    VOCAB_LEVEL)                                                       \
	X(TIER,     "tier",     VOCAB_TIER)                                                        \
	X(COMPLETE, "complete", VOCAB_BOOL)                                                        \
	X(RULE,     "rule",     VOCAB_BOOL)                                                        \
	X(TOOL,     "tool",     VOCAB_BOOL)                                                        \
	X(CALLER,   "caller",   VOCAB_BOOL)                                                        \
	X(LABEL,    "label",    VOCAB_BOOL)                                                        \
	X(ACTION,   "action",   VOCAB_BOOL)
/* clang-format on */

enum cond {
#define X(id, key, vocab) COND_##id,
	COND_TABLE(X)
#undef X
		COND_COUNT,
};

#define COND_WORDS    COND_RULE /* before it: words of a vocabulary */
#define COND_PATTERNS (COND_COUNT - COND_WORDS)

struct patterns {
	const char **v;
	size_t n;
};

struct policy_rule {
	char name[POLICY_NAME_SIZE];
	char reason[POLICY_REASON_SIZE];
	enum verdict verdict;
	uint32_t line;
	uint32_t given;            /* 1u << cond: the conditions that were written */
	uint32_t mask[COND_WORDS]; /* 1u << value */
	struct patterns patterns[COND_PATTERNS];
};

struct policy {
	struct arena arena;
	char name[POLICY_NAME_SIZE];
	char digest[SHA256_HEX_SIZE];
	struct policy *base;    /* what it extends; NULL: nothing */
	struct decision bounds; /* with the default as verdict */
	struct policy_rule *rules;
	size_t n_rules;
	size_t n_patterns;
};

extern const char *const cond_keys[COND_COUNT + 1]; /* ends in NULL */
extern const enum vocab cond_vocabs[COND_COUNT];

/* Fills in all but the digest. p->name holds a default. */
int policy_read(const char *file, struct str text, struct policy *p, struct err *err);
int policy_builtin(const char *name, struct policy **ret, struct err *err);

/* `*` is any run of bytes, everything else itself. */
bool glob_match(const char *pattern, const char *subject);
/* Why a request cannot be judged; NULL when it can. */
const char *input_fault(const struct policy_input *in);

enum match {
	MATCH_NO = 0,
	MATCH_YES,
	MATCH_SUPPOSED, /* not all findings are listed, and the rule forbids */
};

/* Words: the value as asked for. */
unsigned cond_value(enum cond c, const struct policy_input *in);
/* Patterns: the i-th text they are tried on; NULL after the last. */
const char *cond_subject(enum cond c, const struct policy_input *in, size_t i);
enum match cond_match(const struct policy_rule *rule, enum cond c, const struct policy_input *in);
enum match rule_match(const struct policy_rule *rule, const struct policy_input *in);
