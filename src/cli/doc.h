/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The daemon's JSON, read leniently: what is not there, or is of another type, is empty. */

#include <jansson.h>

#include "base/json.h"
#include "cli/reply.h"
#include "model/approval.h"
#include "model/request.h"
#include "model/result.h"

/* doc_free() releases what json_reader holds; in.root is the document. */
int doc_parse(struct str text, struct json_reader *ret, struct err *err);
void doc_free(struct json_reader *in);
#define CLEANUP_DOC CLEANUP(doc_free)

const char *doc_text(json_t *o, const char *key); /* "": none */
struct str doc_bytes(json_t *o, const char *key); /* with NULs */
uint64_t doc_number(json_t *o, const char *key);
bool doc_true(json_t *o, const char *key);
uint64_t doc_time_us(json_t *o, const char *key); /* 0: none */

/* An answer that is an error: its words, masked, as ours. Never 0. */
int doc_error(const struct reply *r, struct err *err);
/* What the exit status and the messages need; the rest of *ret is as of result_init(). */
int doc_result(json_t *o, struct result *ret, struct err *err);
int doc_approval(json_t *o, struct approval *ret, struct err *err);

/* A request as request_from_json() reads it. -EILSEQ: it holds a text that is not UTF-8. */
int request_to_json(const struct request *r, struct buf *out, struct err *err);
/* Compact, as it came. */
void doc_put(json_t *o, struct buf *out);
