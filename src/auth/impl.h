/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/auth share, and their tests see. */

#include "auth/auth.h"
#include "base/buf.h"

#define TOKEN_ALPHABET     "0123456789abcdefghjkmnpqrstvwxyz"
#define TOKEN_ID_LENGTH    12
#define TOKEN_SECRET_CHARS 32 /* of five bits each: 160 bits */
#define TOKEN_TEXT_LENGTH  (sizeof(TOKEN_PREFIX) - 1 + TOKEN_ID_LENGTH + 1 + TOKEN_SECRET_CHARS)

#define TOKENS_BYTES_MAX (1 * MIB) /* of the file; 1024 tokens take less than half of it */
#define QUOTA_COUNT_MAX  1000000u  /* runs per second, concurrent runs */
#define QUOTA_BYTES_MAX  (UINT64_C(1) << 40)
#define QUOTA_KEYS_MAX   4096 /* principals that are remembered */
#define QUOTA_PEERS_MAX  1024 /* addresses with failed attempts that are remembered */
#define QUOTA_FAILURES   20   /* failed attempts in a minute that are answered at once */
#define QUOTA_RETRY_MS   1000 /* when nobody can know how long it takes */

struct token_list {
	struct token *v;
	size_t n;
};

void token_list_done(struct token_list *list);

/* Takes the same time wherever they differ. */
bool mem_equal_ct(const void *a, const void *b, size_t n);
/* Exactly n characters of the alphabet, and then the end. */
bool token_word_is_ok(const char *s, size_t n);
/* brig_ID_SECRET, and nothing else. */
bool token_text_is_ok(const char *text);
/* Name, scopes and quota; the rest is made by us. */
int token_check(const struct token *k, struct err *err);
/* Would "rm WORD" mean both of them? */
bool token_clashes(const struct token *a, const struct token *b);
uint64_t real_us(void);

/* tokens_codec.c: the text of the file. What was not written by tokens_encode() to the last value
 * is refused, so damage never changes what a token may do. It does not stop whoever can write the
 * file.
 */
void tokens_encode(const struct token_list *list, struct buf *out);
int tokens_decode(const char *text, size_t n, struct token_list *ret, struct err *err);

/* tokens_file.c: the file itself. */
struct stamp { /* zeros: no such file */
	uint64_t device, inode, size, changed_ns;
	uint64_t modified_ns;
};

/* The state directory, made when it is not there; ours alone. */
int tokens_dir_open(const char *dir, int *ret_fd, struct err *err);
/* Of the file by that name; zeros when there is none. */
int tokens_file_stamp(int dir_fd, struct stamp *ret);
/* No file: no tokens. */
int tokens_file_read(int dir_fd, const char *dir, struct token_list *ret, struct stamp *ret_stamp,
                     struct err *err);
int tokens_file_write(int dir_fd, const char *dir, const struct token_list *list, struct err *err);
/* Closing it is the end of the lock. */
int tokens_file_lock(int dir_fd, const char *dir, int *ret_fd, struct err *err);
