/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON in and out.
 *
 * The reader is strict and bounded: duplicate keys, unknown fields, wrong types and nulls are
 * errors, and every error names the path of the field ("limits.memory_bytes: must be an integer").
 * The first error sticks to the reader: later calls find every field absent, so a caller reads all
 * fields in a row and checks json_reader_finish() once.
 *
 * Nodes and the strings got from them point into the reader's document; a node also points to its
 * parent node, which must outlive it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define JSON_DEPTH_MAX  32 /* no document may ask for more */
#define JSON_FIELDS_MAX 32 /* known fields of one object */

struct json_t; /* jansson's value */

struct json_bounds {
	size_t bytes;  /* of the text */
	size_t depth;  /* of nested arrays and objects, at most JSON_DEPTH_MAX */
	size_t values; /* in the whole document: a value costs far more memory than text */
};

struct json_reader {
	struct arena pool; /* all of the document */
	struct json_t *root;
	const char *what; /* names the document in errors: "request" */
	struct err *err;  /* may be NULL */
	int error;        /* 0 or the first error */
};

struct json_node {
	struct json_reader *in;
	struct json_t *value; /* NULL: absent */
	const struct json_node *parent;
	const char *key; /* in the parent; NULL: an element of an array */
	size_t index;
	const char *seen[JSON_FIELDS_MAX]; /* fields that json_member() was asked for */
	size_t n_seen;
};

/* `what` and `err` are kept. On failure there is nothing to release. */
int json_reader_init(struct json_reader *in, const char *what, const char *text, size_t n,
                     const struct json_bounds *bounds, struct err *err);
/* 0 or the first error. */
int json_reader_finish(const struct json_reader *in);
void json_reader_done(struct json_reader *in);

struct json_node json_root(struct json_reader *in);
/* The field of an object; marks it as known. */
struct json_node json_member(struct json_node *object, const char *key);
struct json_node json_element(const struct json_node *array, size_t i);
/* Walks an object whose keys are data. *iter starts as NULL. */
bool json_next_entry(const struct json_node *map, void **iter, struct json_node *ret);
/* Refuses fields that json_member() was never asked for. */
void json_node_end(const struct json_node *object);

/*
 * These give false when the value is absent or wrong; wrong is the reader's error then. ret is set
 * only when they give true. `max` is in bytes, elements or entries.
 */
bool json_node_object(const struct json_node *n);
bool json_node_map(const struct json_node *n, size_t max, size_t *ret_n);
bool json_node_array(const struct json_node *n, size_t max, size_t *ret_n);
/* ret->p[ret->n] is 0. A NUL inside is refused by json_node_text(), kept by json_node_bytes(). */
bool json_node_text(const struct json_node *n, size_t max, struct str *ret);
bool json_node_bytes(const struct json_node *n, size_t max, struct str *ret);
/* Standard alphabet with padding, no blanks; decoded into the arena. */
bool json_node_base64(const struct json_node *n, size_t max, struct arena *arena, struct str *ret);
bool json_node_u64(const struct json_node *n, uint64_t *ret);
/* A number, in thousandths, rounded. */
bool json_node_milli(const struct json_node *n, uint64_t *ret);
bool json_node_bool(const struct json_node *n, bool *ret);

/* "path: text" as ERR_INVALID, unless the reader has an error already. Returns the error. */
int json_node_fail(const struct json_node *n, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Records any error set in in->err by others, so that it sticks. */
int json_reader_fail(struct json_reader *in, int r);

/*
 * Writes a JSON string, quotes included. The bytes may be anything: well-formed UTF-8 is kept,
 * quotes and control characters are escaped, each byte that is not part of a well-formed sequence
 * (overlong forms, surrogates and values above U+10FFFF are not) becomes U+FFFD.
 */
void json_put_string(struct buf *out, const char *p, size_t n);
void json_put_cstr(struct buf *out, const char *s);
