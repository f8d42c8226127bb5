/* SPDX-License-Identifier: Apache-2.0 */

/* The tokens: made, removed, and recognised. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "auth/impl.h"
#include "base/fd.h"
#include "base/str.h"

#define SETTLED_NS UINT64_C(1000000000) /* coarser than any clock that stamps files */
#define ID_TRIES   8

struct tokens {
	char *dir;
	int dir_fd;
	struct token_list list;
	struct stamp stamp;
	bool known; /* what `list` holds is the file of that stamp, for certain */
};

uint64_t real_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

void token_list_done(struct token_list *list)
{
	free(list->v);
	*list = (struct token_list){ 0 };
}

/* ---- forms ---- */

bool token_word_is_ok(const char *s, size_t n)
{
	return strnlen(s, n + 1) == n && strspn(s, TOKEN_ALPHABET) == n;
}

bool token_text_is_ok(const char *text)
{
	char id[TOKEN_ID_LENGTH + 1];

	if (strnlen(text, TOKEN_TEXT_LENGTH + 1) != TOKEN_TEXT_LENGTH ||
	    !str_has_prefix(text, TOKEN_PREFIX))
		return false;
	text += sizeof(TOKEN_PREFIX) - 1;
	(void)snprintf(id, sizeof(id), "%s", text);
	return token_word_is_ok(id, TOKEN_ID_LENGTH) && text[TOKEN_ID_LENGTH] == '_' &&
	       token_word_is_ok(text + TOKEN_ID_LENGTH + 1, TOKEN_SECRET_CHARS);
}

static bool name_is_ok(const char *s)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "._-";
	size_t n = strnlen(s, TOKEN_NAME_MAX + 1);

	return n >= 1 && n <= TOKEN_NAME_MAX && strspn(s, chars) == n && !strchr("._-", s[0]);
}

int token_check(const struct token *k, struct err *err)
{
	const struct quota *q = &k->quota;

	if (!name_is_ok(k->name)) {
		(void)err_set(err, ERR_INVALID, 0, "\"%.48s\" is no name for a token", k->name);
		return err_remedy(err, -EINVAL,
		                  "1 to %d of A-Z a-z 0-9 . _ - with a letter or digit first",
		                  TOKEN_NAME_MAX);
	}
	if (!k->scopes || k->scopes & ~SCOPE_ALL)
		return err_remedy(err, err_set(err, ERR_INVALID, 0, "a token without a scope"),
		                  "give it one or more of run, read, approve, admin");
	if (q->runs_per_s > QUOTA_COUNT_MAX || q->concurrent > QUOTA_COUNT_MAX ||
	    q->bytes_per_min > QUOTA_BYTES_MAX)
		return err_remedy(err, err_set(err, ERR_INVALID, 0, "a quota is too large"),
		                  "at most %u runs and 1024G of bytes; leave it out for no bound",
		                  QUOTA_COUNT_MAX);
	return 0;
}

bool token_clashes(const struct token *a, const struct token *b)
{
	return streq(a->name, b->name) || streq(a->id, b->id) || streq(a->name, b->id) ||
	       streq(a->id, b->name) || memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

/* ---- opening ---- */

void tokens_close(struct tokens *t)
{
	if (!t)
		return;
	token_list_done(&t->list);
	(void)fd_close(t->dir_fd);
	free(t->dir);
	free(t);
}

int tokens_open(const char *state_dir, struct tokens **ret, struct err *err)
{
	struct tokens *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, ERR_INTERNAL, ENOMEM, "tokens");
	t->dir_fd = FD_NONE;
	t->dir = strdup(state_dir);
	r = t->dir ? 0 : err_set(err, ERR_INTERNAL, ENOMEM, "tokens");
	if (r >= 0)
		r = tokens_dir_open(state_dir, &t->dir_fd, err);
	if (r >= 0)
		r = tokens_refresh(t, err);
	if (r < 0) {
		tokens_close(t);
		return r;
	}
	*ret = t;
	return 0;
}

/* A file changed twice within a tick of the clock may look like the one that was read. */
static bool is_settled(const struct stamp *s)
{
	uint64_t now = real_us() * 1000;

	return (now > s->changed_ns ? now - s->changed_ns : s->changed_ns - now) > SETTLED_NS;
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->changed_ns == b->changed_ns && a->modified_ns == b->modified_ns;
}

int tokens_refresh(struct tokens *t, struct err *err)
{
	struct token_list list;
	struct stamp stamp;
	int r = tokens_file_stamp(t->dir_fd, &stamp);

	if (r >= 0 && t->known && is_same(&stamp, &t->stamp))
		return 0;
	t->known = false;
	r = tokens_file_read(t->dir_fd, t->dir, &list, &stamp, err);
	token_list_done(&t->list);
	if (r < 0)
		return r;
	t->list = list;
	t->stamp = stamp;
	t->known = is_settled(&stamp);
	return 0;
}

size_t tokens_count(const struct tokens *t)
{
	return t->list.n;
}

const struct token *tokens_at(const struct tokens *t, size_t i)
{
	return i < t->list.n ? &t->list.v[i] : NULL;
}

/* ---- changing ---- */

/* Locked, and with the file as it is now. */
static int begin(struct tokens *t, int *ret_lock, struct err *err)
{
	CLEANUP_FD int lock = FD_NONE;
	int r = tokens_file_lock(t->dir_fd, t->dir, &lock, err);

	if (r < 0)
		return r;
	t->known = false;
	r = tokens_refresh(t, err);
	if (r < 0)
		return r;
	*ret_lock = fd_take(&lock);
	return 0;
}

/* Takes what is in `list` on success. */
static int commit(struct tokens *t, struct token_list *list, struct err *err)
{
	int r = tokens_file_write(t->dir_fd, t->dir, list, err);

	t->known = false;
	if (r < 0)
		return r;
	token_list_done(&t->list);
	t->list = *list;
	*list = (struct token_list){ 0 };
	return 0;
}

static int random_word(char *ret, size_t n)
{
	uint8_t random[TOKEN_SECRET_CHARS];
	ssize_t got;

	_Static_assert(sizeof(TOKEN_ALPHABET) - 1 == 32, "five bits choose a character");
	_Static_assert(TOKEN_ID_LENGTH <= TOKEN_SECRET_CHARS, "one buffer for both");
	do
		got = getrandom(random, n, 0); /* up to 256 bytes come at once */
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)n)
		return got < 0 ? -errno : -EIO;
	for (size_t i = 0; i < n; i++)
		ret[i] = TOKEN_ALPHABET[random[i] & 31];
	ret[n] = '\0';
	explicit_bzero(random, sizeof(random));
	return 0;
}

static int make_text(struct token *k, char ret[TOKEN_SIZE], struct err *err)
{
	char secret[TOKEN_SECRET_CHARS + 1];
	int r = random_word(k->id, TOKEN_ID_LENGTH);

	_Static_assert(TOKEN_TEXT_LENGTH < TOKEN_SIZE, "the text fits");
	_Static_assert(sizeof(k->id) == TOKEN_ID_LENGTH + 1, "the id fits");
	if (r >= 0)
		r = random_word(secret, TOKEN_SECRET_CHARS);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "a random token");
	(void)snprintf(ret, TOKEN_SIZE, TOKEN_PREFIX "%s_%s", k->id, secret);
	sha256(ret, strlen(ret), k->hash);
	explicit_bzero(secret, sizeof(secret));
	return 0;
}

static const struct token *find_clash(const struct token_list *list, const struct token *k)
{
	for (size_t i = 0; i < list->n; i++)
		if (token_clashes(&list->v[i], k))
			return &list->v[i];
	return NULL;
}

static int check_new(const struct tokens *t, const struct token *like, struct err *err)
{
	struct token named = { 0 };
	int r = token_check(like, err);

	if (r < 0)
		return r;
	if (like->expires_us && like->expires_us <= real_us())
		return err_set(err, ERR_INVALID, 0, "a token that has expired already");
	(void)snprintf(named.name, sizeof(named.name), "%s", like->name);
	if (find_clash(&t->list, &named)) {
		(void)err_set(err, ERR_CONFLICT, 0, "there is a token \"%s\" already", like->name);
		return err_remedy(err, -EEXIST, "choose another name, or \"brig token rm %s\"",
		                  like->name);
	}
	if (t->list.n >= TOKENS_MAX)
		return err_remedy(err,
		                  err_set(err, ERR_LIMIT, 0, "there are %d tokens", TOKENS_MAX),
		                  "remove those that nobody uses: see \"brig token ls\"");
	return 0;
}

/* An id by chance the same as another's name is tried again. */
static int make_unique(const struct tokens *t, struct token *k, char ret[TOKEN_SIZE],
                       struct err *err)
{
	for (int i = 0; i < ID_TRIES; i++) {
		int r = make_text(k, ret, err);

		if (r < 0 || !find_clash(&t->list, k))
			return r;
	}
	return err_set(err, ERR_INTERNAL, EEXIST, "a random token");
}

static int add_locked(struct tokens *t, const struct token *like, char text[TOKEN_SIZE],
                      struct token *ret, struct err *err)
{
	struct token_list list = { 0 };
	struct token k = *like;
	int r = check_new(t, like, err);

	k.created_us = real_us();
	if (r >= 0)
		r = make_unique(t, &k, text, err);
	if (r < 0)
		return r;
	list.v = calloc(t->list.n + 1, sizeof(*list.v));
	if (!list.v)
		return err_set(err, ERR_INTERNAL, ENOMEM, "tokens");
	if (t->list.n)
		memcpy(list.v, t->list.v, t->list.n * sizeof(*list.v));
	list.v[t->list.n] = k;
	list.n = t->list.n + 1;
	r = commit(t, &list, err);
	token_list_done(&list);
	if (r >= 0)
		*ret = k;
	return r;
}

int tokens_add(struct tokens *t, const struct token *like, char ret_text[TOKEN_SIZE],
               struct token *ret, struct err *err)
{
	CLEANUP_FD int lock = FD_NONE;
	char text[TOKEN_SIZE] = "";
	int r = begin(t, &lock, err);

	if (r >= 0)
		r = add_locked(t, like, text, ret, err);
	if (r >= 0)
		memcpy(ret_text, text, sizeof(text));
	explicit_bzero(text, sizeof(text));
	return r;
}

int tokens_remove(struct tokens *t, const char *which, struct err *err)
{
	CLEANUP_FD int lock = FD_NONE;
	struct token_list list = { 0 };
	int r = begin(t, &lock, err);

	if (r < 0)
		return r;
	list.v = calloc(t->list.n + 1, sizeof(*list.v));
	if (!list.v)
		return err_set(err, ERR_INTERNAL, ENOMEM, "tokens");
	for (size_t i = 0; i < t->list.n; i++)
		if (!streq(t->list.v[i].name, which) && !streq(t->list.v[i].id, which))
			list.v[list.n++] = t->list.v[i];
	if (list.n == t->list.n) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no token is called \"%.60s\"", which);
		r = err_remedy(err, -ENOENT, "see \"brig token ls\"");
	} else {
		r = commit(t, &list, err);
	}
	token_list_done(&list);
	return r;
}

/* ---- recognising ---- */

bool mem_equal_ct(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;
	uint8_t diff = 0;

	for (size_t i = 0; i < n; i++) {
		diff |= x[i] ^ y[i];
		__asm__ volatile("" : "+r"(diff)); /* else a compiler may stop at the first */
	}
	return diff == 0;
}

static bool has_expired(const struct token *k)
{
	return k->expires_us && k->expires_us <= real_us();
}

const struct token *tokens_match(struct tokens *t, const char *text)
{
	const struct token *found = NULL;
	uint8_t hash[SHA256_SIZE];

	if (!text)
		return NULL;
	sha256(text, strnlen(text, TOKEN_SIZE), hash);
	for (size_t i = 0; i < t->list.n; i++)
		if (mem_equal_ct(t->list.v[i].hash, hash, sizeof(hash)))
			found = &t->list.v[i];
	explicit_bzero(hash, sizeof(hash));
	return found && has_expired(found) ? NULL : found;
}

const struct token *tokens_still(const struct tokens *t, const char *id)
{
	for (size_t i = 0; i < t->list.n; i++)
		if (streq(t->list.v[i].id, id))
			return has_expired(&t->list.v[i]) ? NULL : &t->list.v[i];
	return NULL;
}
