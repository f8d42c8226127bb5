/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small part of YAML as a tree: maps, lists and texts. Anchors, aliases, tags, merge keys, keys
 * that are not text, duplicate keys and a second document are refused. Every scalar stays text;
 * whoever reads it says what it means.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define YAML_BYTES_MAX (256 * KIB)
#define YAML_DEPTH_MAX 8
#define YAML_KEYS_MAX  64    /* of one map */
#define YAML_NODES_MAX 32768 /* of a document */
#define YAML_KEY_MAX   64    /* bytes of a key */
#define YAML_ARENA_MAX (16 * MIB)
#define YAML_NAME_SHOW 80 /* bytes of the file's name that an error shows: the last ones */

enum yaml_kind {
	YAML_TEXT = 0,
	YAML_LIST,
	YAML_MAP,
};

struct yaml_node {
	enum yaml_kind kind;
	struct str text; /* ends in a NUL and holds none; "" also when nothing was written */
	bool quoted;
	uint32_t line, column; /* from 1 */
	const char *key;       /* in a map; NULL in a list */
	uint32_t key_line, key_column;
	size_t index; /* in the parent */
	const struct yaml_node *parent;
	struct yaml_node *first, *last, *next;
	size_t n; /* children */
};

struct yaml_doc {
	struct arena arena;
	struct yaml_node *root;
	const char *name; /* of the file, for messages; must outlive the document */
};

#define CLEANUP_YAML CLEANUP(yaml_done)

/* The document is filled only on success; then the caller releases it. */
int yaml_read(const char *name, struct str text, struct yaml_doc *ret, struct err *err);
void yaml_done(struct yaml_doc *doc);

/* "FILE:LINE:COLUMN: path.of[2].key: text" as ERR_INVALID; returns -EINVAL. */
int yaml_fail(const struct yaml_doc *doc, const struct yaml_node *n, struct err *err,
              const char *fmt, ...) PRINTF_LIKE(4, 5);
/* A map with these keys (the last is NULL) and no others. */
int yaml_map(const struct yaml_doc *doc, const struct yaml_node *n, const char *const *keys,
             struct err *err);
int yaml_list(const struct yaml_doc *doc, const struct yaml_node *n, size_t max, struct err *err);
/* One line without control characters, not empty, at most max bytes. */
int yaml_line(const struct yaml_doc *doc, const struct yaml_node *n, size_t max, struct err *err);
/* NULL when the map has no such key. */
const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
