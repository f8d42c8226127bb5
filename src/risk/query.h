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
	bool at_once;   /* follows `before`, or is the first, with no named node between */
	bool last;      /* no named node comes after */
	uint64_t texts; /* text_bit() of those that a predicate allows; TEXTS_ANY: all */
	uint16_t field;
	uint16_t symbols[QUERY_SYMBOLS_MAX];
	uint16_t absent[QUERY_ABSENT_MAX];
};

#define TEXTS_ANY UINT64_MAX

/* A quick no to most texts. */
static inline uint64_t text_bit(struct str s)
{
	size_t first = s.n ? (uint8_t)s.p[0] : 0, last = s.n ? (uint8_t)s.p[s.n - 1] : 0;

	return UINT64_C(1) << ((s.n * 7 + first + last * 3) % 64);
}

enum predicate_op {
	PRED_EQ = 0, /* also any-of */
	PRED_IN,
	PRED_READ,
	PRED_FOLDED,
	PRED_MODULE,
	PRED_OWN,
	PRED_SED,
	PRED_BOMB,
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
 * Bits of hashes: a quick no to most patterns. A name sets a bit for itself, for each of its
 * beginnings and endings at a dot, and for what stands between two dots.
 */
#define NAME_BITS 128
struct name_bits {
	uint64_t exact[NAME_BITS / 64], below[NAME_BITS / 64], any[NAME_BITS / 64];
	uint64_t inside[NAME_BITS / 64];
};

/* What is looked at first comes first: there are hundreds, and most nodes look at many. */
struct pattern {
	bool guarded;         /* by what the node's children in guard_field may be named */
	uint8_t n;            /* goals */
	uint16_t guard_field; /* 0: the node itself */
	uint32_t first;       /* goal */
	uint32_t rule;
	struct name_bits bits; /* of the names that the rule asks for */
};

struct regex {
	const char *source;
	void *code;            /* made at first use */
	const uint8_t *starts; /* bits: the bytes a match may begin with; NULL: any */
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
	/* Patterns from lists[s] up to lists[s + 1] begin with symbol s; those of the symbol after
	 * the last may begin anywhere. */
	uint32_t *lists;
	void *match_data, *match_limits; /* of expressions, made at first use */
};

void name_bits_add(struct name_bits *bits, struct name name);
static inline void name_bit(uint64_t *bits, uint32_t hash)
{
	bits[hash / 64 % (NAME_BITS / 64)] |= UINT64_C(1) << (hash % 64);
}
int query_new(const struct grammar *g, struct str source, struct query **ret, struct err *err);
void query_free(struct query *q);
int query_index(struct query *q, const struct grammar *g, struct err *err);
/* 1: yes, 0: no, negative: it could not be told. */
void regexes_free(struct query *q);
int regex_match(struct query *q, uint32_t regex, struct str text);
bool predicates_hold(struct pass *p, const struct rule *rule, const uint32_t *captures);
/* predicate_place.c: #in?, #folded?, #read?, #module?, #own? */
bool place_in(const struct pass *p, const struct predicate *pred, uint32_t node);
bool place_folded(struct pass *p, uint32_t node);
bool place_read(const struct pass *p, uint32_t node);
bool place_module(struct pass *p, uint32_t node);
bool place_own(struct pass *p, uint32_t node);
void directives_run(struct pass *p, const struct rule *rule, const uint32_t *captures);
