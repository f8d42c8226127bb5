/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One rule of a .scm file as it is written. */

#include "risk/query.h"

#define QUERY_BRANCHES_MAX 128
#define QUERY_NAMES_MAX    256
#define QUERY_TEXTS_MAX    4096

enum branch_kind {
	BRANCH_SYMBOL = 0,
	BRANCH_NAMED,
	BRANCH_ANY,
	BRANCH_NEVER,
	BRANCH_CHOICE, /* of its children */
	BRANCH_GROUP,  /* one child and predicates */
};

struct branch {
	enum branch_kind kind;
	uint16_t symbol, field;
	uint8_t capture; /* NO_GOAL: none */
	uint8_t n_absent;
	bool at_once; /* "." before it */
	bool ends;    /* "." after the last child */
	uint16_t absent[QUERY_ABSENT_MAX];
	uint32_t first, last_child, next; /* NO_NODE: none */
};

/* (#op @capture "text" ...) */
struct query_item {
	struct str op;
	uint8_t capture, other; /* NO_GOAL: none */
	uint32_t first, n;      /* texts */
};

struct query_reader {
	const struct grammar *g;
	struct arena *pool;
	struct str source;
	size_t at, line_at; /* line_at: where the rule begins */
	struct err *err;
	struct branch branches[QUERY_BRANCHES_MAX];
	uint32_t n_branches;
	struct query_item items[QUERY_ITEMS_MAX];
	uint32_t n_items;
	struct str texts[QUERY_TEXTS_MAX];
	uint32_t n_texts;
	struct str captures[QUERY_CAPTURES_MAX];
	uint8_t n_captures;
	struct {
		struct str name;
		bool named;
		uint16_t symbol;
	} symbols[QUERY_NAMES_MAX]; /* looked up before, by hash; the library searches all */
};

/* 1: *ret is the rule's pattern; 0: the end; negative: an error. */
int query_read_rule(struct query_reader *in, uint32_t *ret);
int query_read_fail(struct query_reader *in, const char *what);
