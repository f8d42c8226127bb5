/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rules of a language, read from a .scm file: a subset of tree-sitter's query language with
 * predicates of our own (docs/internals/risk.md). A pattern becomes a list of goals, parents first,
 * which match.c fulfils one after the other.
 */

#include "model/findings.h"
#include "risk/impl.h"

#define QUERY_RULES_MAX    512
#define QUERY_DEPTH_MAX    16
#define QUERY_GOALS_MAX    48 /* of a pattern */
#define QUERY_CAPTURES_MAX 8
#define QUERY_SYMBOLS_MAX  16 /* of a simple choice */
#define QUERY_ABSENT_MAX   4  /* !field */
#define QUERY_CHOICES_MAX  64 /* patterns that the choices of a rule make */
#define QUERY_ITEMS_MAX    64 /* predicates of a rule */
#define NO_GOAL            0xff

enum goal_kind {
	GOAL_SYMBOL = 0, /* one of symbols */
	GOAL_NAMED,      /* (_) */
	GOAL_ANY,        /* _ */
	GOAL_NEVER,      /* a type that this grammar does not have */
};

struct goal {
	uint8_t kind;
	uint8_t parent, before; /* goals; NO_GOAL: none */
	uint8_t capture;        /* NO_GOAL: none */
	uint8_t n_symbols, n_absent;
	bool at_once; /* follows `before`, or is the first, with no named node between */
	bool last;    /* no named node comes after */
	uint16_t field;
	uint16_t symbols[QUERY_SYMBOLS_MAX];
	uint16_t absent[QUERY_ABSENT_MAX];
};

enum predicate_op {
	PRED_EQ = 0, /* also any-of */
	PRED_MATCH,
	PRED_NAME,
	PRED_LINE,
	PRED_STRING,
	PRED_STRING_MATCH,
	PRED_DYNAMIC,
	PRED_ARG,
	PRED_NO_ARG,
	PRED_DYNAMIC_ARG,
	PRED_EMBEDDED, /* directives come last */
	PRED_COMMAND,
};

/* A literal to compare with; for names, how. */
struct literal {
	const char *p;
	uint32_t n, hash;
	bool below, any; /* "x.*", "*.x" */
};

struct predicate {
	enum predicate_op op;
	bool negate;
	uint8_t capture, other; /* other: of #eq?; NO_GOAL: none */
	uint32_t first, n;      /* literals; of names, the exact ones come first, by hash */
	uint32_t n_exact;
	uint32_t regex; /* index; NO_NODE: none */
};

struct rule {
	struct finding proto; /* rule, level, category, message */
	uint32_t first, n;    /* predicates */
	uint8_t hit;          /* capture; NO_GOAL: the root of the pattern */
	uint32_t line;        /* in its file */
};

/*
 * Bits of hashes: a quick no to most patterns. A name sets a bit for itself, and for each of its
 * beginnings and endings at a dot.
 */
#define NAME_BITS 128
struct name_bits {
	uint64_t exact[NAME_BITS / 64], below[NAME_BITS / 64], any[NAME_BITS / 64];
};

struct pattern {
	bool guarded;          /* by what the node's child in guard_field may be named */
	uint16_t guard_field;  /* 0: the node itself */
	struct name_bits bits; /* of the names that the rule asks for */
	uint32_t rule;
	uint32_t first; /* goals */
	uint8_t n;
	uint32_t next; /* with that root symbol; NO_NODE: none */
};

struct regex {
	const char *source;
	void *code; /* made at first use */
};

struct query {
	struct arena pool;
	struct rule *rules;
	struct pattern *patterns;
	struct goal *goals;
	struct predicate *predicates;
	struct literal *literals;
	struct regex *regexes;
	uint32_t n_rules, n_patterns, n_goals, n_predicates, n_literals, n_regexes;
	uint32_t cap_rules, cap_patterns, cap_goals, cap_predicates, cap_literals, cap_regexes;
	uint32_t *roots;                 /* first pattern by symbol */
	uint32_t any_roots;              /* patterns that may begin anywhere */
	void *match_data, *match_limits; /* of expressions, made at first use */
};

void name_bits_add(struct name_bits *bits, struct name name);
static inline void name_bit(uint64_t *bits, uint32_t hash)
{
	bits[hash / 64 % (NAME_BITS / 64)] |= UINT64_C(1) << (hash % 64);
}
int query_new(const struct grammar *g, struct str source, struct query **ret, struct err *err);
void query_free(struct query *q);
/* 1: yes, 0: no, negative: it could not be told. */
void regexes_free(struct query *q);
int regex_match(struct query *q, uint32_t regex, struct str text);
bool predicates_hold(struct pass *p, const struct rule *rule, const uint32_t *captures);
void directives_run(struct pass *p, const struct rule *rule, const uint32_t *captures);
