/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "auth/impl.h"
#include "base/fd.h"
#include "base/str.h"

static char dir[64], path[128];
static struct tokens *t;
static struct err err;

static void open_store(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/ut-brig-tokens-XXXXXX");
	cr_assert(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/" TOKENS_FILE, dir);
	cr_assert(tokens_open(dir, &t, &err) == 0, "%s", err.msg);
}

static void close_store(void)
{
	char other[128];

	tokens_close(t);
	(void)unlink(path);
	(void)snprintf(other, sizeof(other), "%s/tokens.lock", dir);
	(void)unlink(other);
	cr_assert(rmdir(dir) == 0, "nothing else is left in it");
}

TestSuite(tokens, .init = open_store, .fini = close_store);

static struct token like(const char *name, uint32_t scopes)
{
	struct token k = { .scopes = scopes, .quota = { .concurrent = 3 } };

	(void)snprintf(k.name, sizeof(k.name), "%s", name);
	return k;
}

static int add(const char *name, uint32_t scopes, char text[TOKEN_SIZE])
{
	struct token k = like(name, scopes), made;

	return tokens_add(t, &k, text, &made, &err);
}

static void write_file(const char *p, size_t n)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(fd >= 0 && write(fd, p, n) == (ssize_t)n);
}

static void write_tokens(const struct token *v, size_t n)
{
	CLEANUP_BUF struct buf out = BUF_INIT(TOKENS_BYTES_MAX);

	tokens_encode(&(struct token_list){ .v = (struct token *)v, .n = n }, &out);
	write_file(out.data, out.len);
}

Test(tokens, a_new_token_is_recognised)
{
	char text[TOKEN_SIZE];
	const struct token *k;

	cr_assert(add("ci", SCOPE_RUN, text) == 0, "%s", err.msg);
	cr_expect(token_text_is_ok(text), "%s", text);
	k = tokens_match(t, text);
	cr_assert(k != NULL);
	cr_expect(streq(k->name, "ci") && k->scopes == SCOPE_RUN && k->quota.concurrent == 3);
	cr_expect(strncmp(text + 5, k->id, TOKEN_ID_LENGTH) == 0);
	cr_expect(tokens_count(t) == 1 && tokens_at(t, 0) == k && tokens_at(t, 1) == NULL);
}

Test(tokens, a_text_that_differs_anywhere_is_not)
{
	char text[TOKEN_SIZE];

	cr_assert(add("ci", SCOPE_RUN, text) == 0);
	for (size_t i = 0; i < strlen(text); i++) {
		text[i] ^= 1;
		cr_expect(!tokens_match(t, text), "%zu", i);
		text[i] ^= 1;
	}
	text[strlen(text) - 1] = '\0';
	cr_expect(!tokens_match(t, text));
	cr_expect(!tokens_match(t, "") && !tokens_match(t, NULL));
}

Test(tokens, each_is_its_own)
{
	char texts[20][TOKEN_SIZE], name[16];

	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		cr_assert(add(name, SCOPE_READ, texts[i]) == 0);
	}
	for (int i = 0; i < 20; i++) {
		const struct token *k = tokens_match(t, texts[i]);

		(void)snprintf(name, sizeof(name), "n%d", i);
		cr_expect(k && streq(k->name, name));
	}
}

Test(tokens, the_text_is_not_kept)
{
	char text[TOKEN_SIZE], file[4096] = "";
	CLEANUP_FD int fd = FD_NONE;

	cr_assert(add("ci", SCOPE_RUN, text) == 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(fd >= 0 && read(fd, file, sizeof(file) - 1) > 0);
	cr_expect(strstr(file, "\"ci\"") && !strstr(file, text + 5 + TOKEN_ID_LENGTH + 1));
}

Test(tokens, the_file_is_the_owners_alone_whatever_the_umask)
{
	char text[TOKEN_SIZE];
	struct stat st;

	(void)umask(0);
	cr_assert(add("ci", SCOPE_RUN, text) == 0);
	cr_expect(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
}

Test(tokens, a_name_is_given_once)
{
	char text[TOKEN_SIZE] = "untouched";

	cr_assert(add("ci", SCOPE_RUN, (char[TOKEN_SIZE]){ 0 }) == 0);
	cr_expect(add("ci", SCOPE_RUN, text) < 0 && err.code == ERR_CONFLICT && *err.remedy);
	cr_expect(streq(text, "untouched") && tokens_count(t) == 1);
	cr_expect(add(tokens_at(t, 0)->id, SCOPE_RUN, text) < 0, "nor may it be another's id");
}

Test(tokens, wrong_names_and_scopes_are_refused)
{
	static const char *const wrong[] = { "",    ".a",  "-a",  "_a",      "a b",
		                             "a/b", "a\n", "a\"", "\xc3\xa4" };
	char text[TOKEN_SIZE];

	for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
		cr_expect(add(wrong[i], SCOPE_RUN, text) < 0 && *err.remedy, "\"%s\"", wrong[i]);
	cr_expect(add("a", 0, text) < 0);
	cr_expect(add("a", SCOPE_ALL + 1, text) < 0);
	cr_expect(add("a._-9", SCOPE_ALL, text) == 0);
}

Test(tokens, what_was_removed_is_not_recognised)
{
	char a[TOKEN_SIZE], b[TOKEN_SIZE], id[16];

	cr_assert(add("a", SCOPE_RUN, a) == 0 && add("b", SCOPE_RUN, b) == 0);
	cr_expect(tokens_remove(t, "a", &err) == 0);
	cr_expect(!tokens_match(t, a) && tokens_match(t, b));
	(void)snprintf(id, sizeof(id), "%s", tokens_at(t, 0)->id);
	cr_expect(tokens_remove(t, id, &err) == 0 && !tokens_match(t, b));
	cr_expect(tokens_remove(t, "b", &err) < 0 && err.code == ERR_NOT_FOUND);
}

Test(tokens, an_expired_one_never_matches)
{
	struct token v[2] = { like("old", SCOPE_ALL), like("new", SCOPE_ALL) };

	(void)snprintf(v[0].id, sizeof(v[0].id), "0123456789ab");
	(void)snprintf(v[1].id, sizeof(v[1].id), "0123456789ac");
	v[0].expires_us = real_us() - 1;
	v[1].expires_us = real_us() + 3600000000u;
	sha256("x", 1, v[0].hash);
	sha256("y", 1, v[1].hash);
	write_tokens(v, 2);
	cr_assert(tokens_refresh(t, &err) == 0, "%s", err.msg);
	cr_expect(tokens_count(t) == 2);
	cr_expect(!tokens_match(t, "x") && tokens_match(t, "y"));
	cr_expect(!tokens_still(t, v[0].id) && tokens_still(t, v[1].id));
	cr_assert(tokens_remove(t, "new", &err) >= 0);
	cr_expect(!tokens_still(t, v[1].id) && !tokens_still(t, ""));
}

Test(tokens, one_that_has_expired_already_is_not_made)
{
	struct token k = like("a", SCOPE_RUN), made;
	char text[TOKEN_SIZE];

	k.expires_us = real_us() - 1000;
	cr_expect(tokens_add(t, &k, text, &made, &err) < 0 && tokens_count(t) == 0);
}

Test(tokens, there_is_a_bound)
{
	struct token *v = calloc(TOKENS_MAX, sizeof(*v));
	char text[TOKEN_SIZE];

	for (unsigned i = 0; i < TOKENS_MAX; i++) {
		v[i].scopes = SCOPE_RUN;
		(void)snprintf(v[i].name, sizeof(v[i].name), "name-%u", i);
		(void)snprintf(v[i].id, sizeof(v[i].id), "%012u", i);
		sha256(&i, sizeof(i), v[i].hash);
	}
	write_tokens(v, TOKENS_MAX);
	cr_assert(tokens_refresh(t, &err) == 0, "%s", err.msg);
	cr_expect(add("more", SCOPE_RUN, text) < 0 && err.code == ERR_LIMIT);
	cr_expect(tokens_remove(t, "name-7", &err) == 0 && add("more", SCOPE_RUN, text) == 0);
	free(v);
}

/* ---- other processes ---- */

Test(tokens, a_change_by_another_is_seen)
{
	struct tokens *other;
	char text[TOKEN_SIZE];
	struct token k = like("a", SCOPE_RUN), made;

	cr_assert(tokens_open(dir, &other, &err) == 0);
	for (int i = 0; i < 20; i++) {
		cr_assert(tokens_add(other, &k, text, &made, &err) == 0);
		cr_expect(tokens_refresh(t, &err) == 0 && tokens_match(t, text), "%d", i);
		cr_assert(tokens_remove(other, "a", &err) == 0);
		cr_expect(tokens_refresh(t, &err) == 0 && !tokens_match(t, text), "%d", i);
	}
	tokens_close(other);
}

/* Until the file is old enough to be known by its stamp alone. */
static void let_settle(void)
{
	const struct timespec pause = { .tv_sec = 1, .tv_nsec = 100000000 };

	(void)nanosleep(&pause, NULL);
	cr_assert(tokens_refresh(t, &err) == 0);
	cr_assert(tokens_refresh(t, &err) == 0);
}

Test(tokens, a_removed_file_means_no_tokens)
{
	char text[TOKEN_SIZE];

	cr_assert(add("a", SCOPE_RUN, text) == 0);
	let_settle();
	cr_expect(tokens_match(t, text));
	cr_assert(unlink(path) == 0);
	cr_expect(tokens_refresh(t, &err) == 0 && tokens_count(t) == 0 && !tokens_match(t, text));
}

Test(tokens, a_mode_that_changes_later_is_noticed)
{
	char text[TOKEN_SIZE];

	cr_assert(add("a", SCOPE_RUN, text) == 0);
	let_settle();
	cr_expect(tokens_match(t, text));
	cr_assert(chmod(path, 0644) == 0);
	cr_expect(tokens_refresh(t, &err) < 0 && !tokens_match(t, text));
}

Test(tokens, two_processes_lose_nothing)
{
	char name[16], text[TOKEN_SIZE];
	int status;

	for (int p = 0; p < 4; p++) {
		if (fork() != 0)
			continue;
		for (int i = 0; i < 5; i++) {
			(void)snprintf(name, sizeof(name), "p%d-%d", p, i);
			if (add(name, SCOPE_RUN, text) < 0)
				_exit(1);
		}
		_exit(0);
	}
	for (int p = 0; p < 4; p++)
		cr_expect(wait(&status) > 0 && status == 0);
	cr_expect(tokens_refresh(t, &err) == 0 && tokens_count(t) == 20, "%zu", tokens_count(t));
}

/* ---- files that cannot be taken ---- */

static void expect_refused(const char *text, const char *what)
{
	struct tokens *other = NULL;

	cr_expect(tokens_refresh(t, &err) < 0, "%s", what);
	cr_expect(*err.remedy && strstr(err.msg, TOKENS_FILE), "%s: %s", what, err.msg);
	cr_expect(tokens_count(t) == 0 && !tokens_match(t, text), "%s", what);
	cr_expect(tokens_open(dir, &other, &err) < 0 && !other, "%s", what);
	cr_expect(add("more", SCOPE_RUN, (char[TOKEN_SIZE]){ 0 }) < 0, "%s", what);
}

Test(tokens, a_file_that_others_can_read_or_write_is_refused)
{
	static const mode_t modes[] = { 0604, 0640, 0602, 0620, 0610, 0601, 0777 };
	char text[TOKEN_SIZE];

	cr_assert(add("a", SCOPE_RUN, text) == 0);
	for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
		cr_assert(chmod(path, modes[i]) == 0);
		expect_refused(text, "mode");
	}
	cr_assert(chmod(path, 0600) == 0);
	cr_expect(tokens_refresh(t, &err) == 0 && tokens_match(t, text), "mended, it counts again");
}

Test(tokens, a_file_of_another_user_is_refused)
{
	char text[TOKEN_SIZE];

	cr_assert(add("a", SCOPE_RUN, text) == 0);
	if (geteuid() == 0) { /* only root can give a file away */
		cr_assert(chown(path, 12345, 12345) == 0);
		expect_refused(text, "owner");
	}
}

Test(tokens, a_link_or_a_pipe_in_its_place_is_refused)
{
	char text[TOKEN_SIZE], real[160];

	cr_assert(add("a", SCOPE_RUN, text) == 0);
	(void)snprintf(real, sizeof(real), "%s.real", path);
	cr_assert(rename(path, real) == 0 && symlink(real, path) == 0);
	expect_refused(text, "link");
	cr_assert(unlink(path) == 0 && unlink(real) == 0 && mkfifo(path, 0600) == 0);
	expect_refused(text, "pipe");
}

Test(tokens, a_directory_that_others_can_write_is_refused)
{
	struct tokens *other = NULL;

	cr_assert(chmod(dir, 0770) == 0);
	cr_expect(tokens_open(dir, &other, &err) < 0 && !other && *err.remedy);
	cr_assert(chmod(dir, 0700) == 0);
}

static void expect_same(const struct token_list *got, const struct token_list *want)
{
	cr_assert(got->n == want->n);
	for (size_t i = 0; i < want->n; i++)
		cr_assert(memcmp(&got->v[i], &want->v[i], sizeof(got->v[i])) == 0);
}

static void sample(struct token_list *ret)
{
	static struct token v[2];

	v[0] = like("ci", SCOPE_RUN);
	v[1] = like("console", SCOPE_READ | SCOPE_APPROVE);
	(void)snprintf(v[0].id, sizeof(v[0].id), "0123456789ab");
	(void)snprintf(v[1].id, sizeof(v[1].id), "0123456789ac");
	sha256("x", 1, v[0].hash);
	sha256("y", 1, v[1].hash);
	v[0].expires_us = 1900000000000000;
	v[1].quota.bytes_per_min = QUOTA_BYTES_MAX;
	*ret = (struct token_list){ v, 2 };
}

Test(codec, what_is_written_is_read)
{
	CLEANUP_BUF struct buf out = BUF_INIT(TOKENS_BYTES_MAX);
	struct token_list want, got;

	sample(&want);
	tokens_encode(&want, &out);
	cr_assert(buf_finish(&out) == 0);
	cr_assert(tokens_decode(out.data, out.len, &got, &err) == 0, "%s", err.msg);
	expect_same(&got, &want);
	token_list_done(&got);
}

Test(codec, no_truncation_is_taken)
{
	CLEANUP_BUF struct buf out = BUF_INIT(TOKENS_BYTES_MAX);
	struct token_list want, got;

	sample(&want);
	tokens_encode(&want, &out);
	for (size_t n = 0; n + 1 < out.len; n++) /* the last byte is a newline */
		cr_expect(tokens_decode(out.data, n, &got, &err) < 0, "%zu bytes", n);
}

/* The digest covers every value: a flip is an error, or changed nothing but blanks. */
Test(codec, no_flipped_bit_changes_a_token)
{
	CLEANUP_BUF struct buf out = BUF_INIT(TOKENS_BYTES_MAX);
	struct token_list want, got;
	size_t taken = 0;

	sample(&want);
	tokens_encode(&want, &out);
	for (size_t bit = 0; bit < 8 * out.len; bit++) {
		out.data[bit / 8] ^= (char)(1 << bit % 8);
		if (tokens_decode(out.data, out.len, &got, &err) == 0) {
			expect_same(&got, &want);
			token_list_done(&got);
			taken++;
		}
		out.data[bit / 8] ^= (char)(1 << bit % 8);
	}
	cr_expect(taken < 8, "%zu", taken);
}

/* Replaces `from` in the sample's text. */
static int decode_with(const char *from, const char *to)
{
	CLEANUP_BUF struct buf in = BUF_INIT(TOKENS_BYTES_MAX), out = BUF_INIT(TOKENS_BYTES_MAX);
	struct token_list want, got;
	const char *at;
	int r;

	sample(&want);
	tokens_encode(&want, &in);
	at = strstr(in.data, from);
	cr_assert(at, "%s", from);
	buf_put(&out, in.data, (size_t)(at - in.data));
	buf_puts(&out, to);
	buf_puts(&out, at + strlen(from));
	r = tokens_decode(out.data, out.len, &got, &err);
	if (r >= 0)
		token_list_done(&got);
	return r;
}

Test(codec, edits_are_refused)
{
	static const struct {
		const char *from, *to;
	} edits[] = {
		{ "\"run\"", "\"run,admin\"" },
		{ "\"run\"", "\"admin\"" },
		{ "\"run\"", "\"\"" },
		{ "\"run\"", "[\"run\"]" },
		{ "\"concurrent\":3", "\"concurrent\":0" },
		{ "\"concurrent\":3", "\"concurrent\":-3" },
		{ "\"concurrent\":3", "\"concurrent\":3.0" },
		{ "\"concurrent\":3", "\"concurrent\":4294967299" },
		{ "\"concurrent\":3", "\"concurrent\":3,\"concurrent\":3" },
		{ "\"concurrent\":3,", "" },
		{ "1900000000000000", "0" },
		{ "1900000000000000", "null" },
		{ "\"id\":\"0123456789ab\"", "\"id\":\"0123456789ac\"" },
		{ "\"id\":\"0123456789ab\"", "\"id\":\"0123456789a\"" },
		{ "\"name\":\"ci\"", "\"name\":\"console\"" },
		{ "\"name\":\"ci\"", "\"name\":\"c\\u0000i\"" },
		{ "\"name\":\"ci\"", "\"name\":\"ci\",\"x\":1" },
		{ "\"version\":1", "\"version\":2" },
		{ "\"version\":1", "\"version\":0" },
		{ "\"version\":1,", "" },
		{ "\"tokens\":[", "\"tokens\":[[]," },
	};

	cr_expect(decode_with("ci", "ci") == 0, "the control: %s", err.msg);
	for (size_t i = 0; i < ELEMENTSOF(edits); i++)
		cr_expect(decode_with(edits[i].from, edits[i].to) < 0, "%s", edits[i].to);
}

Test(codec, two_that_cannot_be_told_apart_are_refused)
{
	CLEANUP_BUF struct buf out = BUF_INIT(TOKENS_BYTES_MAX);
	struct token_list list, got;

	sample(&list);
	memcpy(list.v[1].hash, list.v[0].hash, SHA256_SIZE);
	tokens_encode(&list, &out);
	cr_expect(tokens_decode(out.data, out.len, &got, &err) < 0);
}

Test(compare, equal_is_equal_and_one_bit_is_not)
{
	uint8_t a[SHA256_SIZE] = { 1, 2, 3 }, b[SHA256_SIZE] = { 1, 2, 3 };

	cr_expect(mem_equal_ct(a, b, sizeof(a)));
	for (size_t bit = 0; bit < 8 * sizeof(a); bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_expect(!mem_equal_ct(a, b, sizeof(a)), "%zu", bit);
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
