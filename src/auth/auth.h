/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is asking, and may they: tokens and their scopes, quotas, and the names by which a browser
 * may reach us. Nothing here knows of HTTP beyond the texts of three headers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/sha256.h"
#include "model/approval.h"

#define SCOPE_RUN     (1u << 0) /* execute, cancel own runs, assess risk */
#define SCOPE_READ    (1u << 1) /* everybody's runs, events, ledger, pool, metrics */
#define SCOPE_APPROVE (1u << 2) /* list and decide approvals of others */
#define SCOPE_ADMIN   (1u << 3) /* all of it, whoever's */
#define SCOPE_ALL     0xfu

#define TOKEN_PREFIX    "brig_"
#define TOKEN_SIZE      64 /* the text of a token, with its NUL */
#define TOKEN_NAME_MAX  48 /* [A-Za-z0-9][A-Za-z0-9._-]* */
#define TOKENS_MAX      1024
#define ACTOR_ID_LENGTH 8             /* of the token's id, in the name of an actor */
#define TOKENS_FILE     "tokens.json" /* in the state directory, 0600 */

struct quota {                  /* 0: no bound of its own */
	uint32_t runs_per_s;    /* mean; a burst of twice as many passes */
	uint32_t concurrent;    /* runs under way */
	uint64_t bytes_per_min; /* of request bodies */
};

struct token {
	char id[13]; /* 12 characters of [0-9a-hjkmnp-tv-z]; also the first part of the text */
	char name[TOKEN_NAME_MAX + 1];
	uint8_t hash[SHA256_SIZE]; /* of the whole text, which is nowhere */
	uint32_t scopes;
	uint64_t created_us, expires_us; /* 0: never */
	struct quota quota;
};

/* scopes.c */
int scopes_parse(const char *text, uint32_t *ret, struct err *err); /* "run,read" */
void scopes_print(uint32_t scopes, char *ret, size_t n);

/* The store: a small file, read whole, written whole (a new file, fsync, rename) under a lock. */
struct tokens;
/* Makes the directory when it is not there; an error when the file is one that cannot be taken. */
int tokens_open(const char *state_dir, struct tokens **ret, struct err *err);
void tokens_close(struct tokens *t);
/* Reads it again when the file is another than last time. A file that cannot be read or is not
 * ours alone (owner, mode) means no tokens: nobody gets in by it. */
int tokens_refresh(struct tokens *t, struct err *err);
size_t tokens_count(const struct tokens *t);
const struct token *tokens_at(const struct tokens *t, size_t i);
/* `like`: name, scopes, expiry, quota. The text is shown once, here. */
int tokens_add(struct tokens *t, const struct token *like, char ret_text[TOKEN_SIZE],
               struct token *ret, struct err *err);
/* By id or by name. */
int tokens_remove(struct tokens *t, const char *which, struct err *err);
/* NULL: no such token, or it has expired. Takes the same time wherever the text differs. What is
 * returned here and by tokens_at() is there until the next refresh or change. */
const struct token *tokens_match(struct tokens *t, const char *text);
/* The same of one that was matched before, by its id: does it still count? */
const struct token *tokens_still(const struct tokens *t, const char *id);

/* "Authorization: Bearer TEXT" -> TEXT; -EINVAL: anything else. */
int bearer_parse(const char *header, char ret[TOKEN_SIZE]);

/* names.c: is it one of ours? `port` 0: any. `extra` are the configured ones, "host" or
 * "host:port", n of them. NULL or empty text is never. */
bool host_is_ours(const char *host, unsigned port, const char *const *extra, size_t n);
/* Browsers send it; only configured ones pass ("https://console.example"), never "null". */
bool origin_is_allowed(const char *origin, const char *const *allowed, size_t n);

/* Who asks, as the rest of brig sees it. */
struct principal {
	char actor[ACTOR_SIZE]; /* "uid:1000", "token:NAME#ID"; what the ledger shows */
	uint32_t scopes;
	struct quota quota;
	char key[16]; /* of its quota: the token's id, or the uid */
};

/* quota.c: a bounded table of who used how much; times are clock_ms(). */
struct quotas;
int quotas_new(struct quotas **ret);
void quotas_free(struct quotas *q);
/* 0, or -EAGAIN and after how long it is worth trying again. */
int quota_take_run(struct quotas *q, const struct principal *p, uint64_t now_ms,
                   uint32_t *ret_retry_ms);
void quota_give_run(struct quotas *q, const char *key); /* it ended */
/* Also -EFBIG: more than a whole minute's, so waiting does not help. */
int quota_take_bytes(struct quotas *q, const struct principal *p, uint64_t bytes, uint64_t now_ms,
                     uint32_t *ret_retry_ms);
/* Failed attempts from one address: slowed down after 20 in a minute, and only they. */
int quota_take_failure(struct quotas *q, const char *peer, uint64_t now_ms, uint32_t *ret_retry_ms);
