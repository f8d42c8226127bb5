/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The name of a request: what an approval is bound to. Every field is written with its length, so
 * two requests that differ have different texts; a field that is added to struct request and can
 * change what runs belongs here, too (tests/unit/test_digest.c changes each).
 */

#include "base/sha256.h"
#include "model/request.h"

static const char tag_rest[] = "brig request 1";
static const char tag_all[] = "brig request with code 1";
static const char tag_key[] = "brig request with key 1";

static void put_text(struct sha256 *h, const char *s)
{
	/* NULL and "" are not the same request. */
	sha256_put_u64(h, s != NULL);
	sha256_put_field(h, s, s ? strlen(s) : 0);
}

static void put_list(struct sha256 *h, const char *const *list, size_t n)
{
	sha256_put_u64(h, n);
	for (size_t i = 0; i < n; i++)
		put_text(h, list[i]);
}

static void put_files(struct sha256 *h, const struct request *r)
{
	sha256_put_u64(h, r->n_files);
	for (size_t i = 0; i < r->n_files; i++) {
		put_text(h, r->files[i].path);
		sha256_put_u64(h, r->files[i].executable);
		sha256_put_field(h, r->files[i].data.p, r->files[i].data.n);
	}
}

static void put_rest(struct sha256 *h, const struct request *r)
{
	sha256_put_u64(h, r->action);
	sha256_put_field(h, r->params.p, r->params.n);
	sha256_put_u64(h, r->language);
	put_text(h, r->name);
	for (size_t i = 0; i < limit_infos_n; i++)
		sha256_put_u64(h, *limits_field((struct limits *)&r->limits, &limit_infos[i]));
	sha256_put_u64(h, r->level);
	sha256_put_u64(h, r->tier);
	sha256_put_u64(h, r->network);
	put_list(h, r->args, r->n_args);
	put_list(h, r->env, r->n_env);
	sha256_put_field(h, r->stdin_data.p, r->stdin_data.n);
	put_files(h, r);
	put_list(h, r->tools, r->n_tools);
}

void request_digest_code(struct str code, const uint8_t rest[32], uint8_t ret_digest[32])
{
	struct sha256 h;

	sha256_init(&h);
	sha256_put(&h, tag_all, sizeof(tag_all));
	sha256_put(&h, rest, SHA256_SIZE);
	sha256_put_field(&h, code.p, code.n);
	sha256_finish(&h, ret_digest);
}

void request_digest(const struct request *r, uint8_t ret_digest[32], uint8_t ret_rest[32])
{
	struct sha256 h;

	sha256_init(&h);
	sha256_put(&h, tag_rest, sizeof(tag_rest));
	put_rest(&h, r);
	sha256_finish(&h, ret_rest);
	request_digest_code(r->code, ret_rest, ret_digest);
}

void request_digest_key(const struct request *r, uint8_t ret[32])
{
	uint8_t digest[SHA256_SIZE], rest[SHA256_SIZE];
	struct sha256 h;

	request_digest(r, digest, rest);
	sha256_init(&h);
	sha256_put(&h, tag_key, sizeof(tag_key));
	sha256_put(&h, digest, sizeof(digest));
	put_text(&h, r->session_id);
	put_list(&h, r->labels, r->n_labels);
	sha256_finish(&h, ret);
}
