/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tokens as text:
 *
 *     {"version":1,"check":HEX,"tokens":[
 *     {"id":…,"name":…,"hash":HEX,"scopes":"run,read","created_us":…,"expires_us":…,
 *      "runs_per_s":…,"concurrent":…,"bytes_per_min":…}]}
 *
 * Every field is there. `check` is a digest of all the values.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "auth/impl.h"
#include "base/json.h"

#define VERSION     1
#define SCOPES_TEXT 32

static void check_sum(const struct token_list *list, uint8_t ret[SHA256_SIZE])
{
	struct sha256 h;

	sha256_init(&h);
	sha256_put_u64(&h, VERSION);
	sha256_put_u64(&h, list->n);
	for (size_t i = 0; i < list->n; i++) {
		const struct token *k = &list->v[i];

		sha256_put_field(&h, k->id, strlen(k->id));
		sha256_put_field(&h, k->name, strlen(k->name));
		sha256_put_field(&h, k->hash, sizeof(k->hash));
		sha256_put_u64(&h, k->scopes);
		sha256_put_u64(&h, k->created_us);
		sha256_put_u64(&h, k->expires_us);
		sha256_put_u64(&h, k->quota.runs_per_s);
		sha256_put_u64(&h, k->quota.concurrent);
		sha256_put_u64(&h, k->quota.bytes_per_min);
	}
	sha256_finish(&h, ret);
}

static void encode_token(const struct token *k, struct buf *out)
{
	char hex[SHA256_HEX_SIZE], scopes[SCOPES_TEXT];

	sha256_hex(k->hash, hex);
	scopes_print(k->scopes, scopes, sizeof(scopes));
	buf_puts(out, "{\"id\":");
	json_put_cstr(out, k->id);
	buf_puts(out, ",\"name\":");
	json_put_cstr(out, k->name);
	buf_puts(out, ",\"hash\":");
	json_put_cstr(out, hex);
	buf_puts(out, ",\"scopes\":");
	json_put_cstr(out, scopes);
	buf_printf(out, ",\"created_us\":%" PRIu64 ",\"expires_us\":%" PRIu64, k->created_us,
	           k->expires_us);
	buf_printf(out, ",\"runs_per_s\":%" PRIu32 ",\"concurrent\":%" PRIu32, k->quota.runs_per_s,
	           k->quota.concurrent);
	buf_printf(out, ",\"bytes_per_min\":%" PRIu64 "}", k->quota.bytes_per_min);
}

void tokens_encode(const struct token_list *list, struct buf *out)
{
	uint8_t sum[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];

	check_sum(list, sum);
	sha256_hex(sum, hex);
	buf_printf(out, "{\"version\":%d,\"check\":\"%s\",\"tokens\":[", VERSION, hex);
	for (size_t i = 0; i < list->n; i++) {
		buf_puts(out, i ? ",\n" : "\n");
		encode_token(&list->v[i], out);
	}
	buf_puts(out, "]}\n");
}

/* ---- reading; the first error sticks to the reader ---- */

static struct json_node member(struct json_node *object, const char *key)
{
	struct json_node n = json_member(object, key);

	if (!n.value)
		(void)json_node_fail(&n, "is missing");
	return n;
}

static void read_text(struct json_node *o, const char *key, char *ret, size_t size)
{
	struct json_node n = member(o, key);
	struct str s;

	if (json_node_text(&n, size - 1, &s))
		memcpy(ret, s.p, s.n + 1);
}

static void read_hash(struct json_node *o, const char *key, uint8_t ret[SHA256_SIZE])
{
	struct json_node n = member(o, key);
	struct str s;

	if (json_node_text(&n, SHA256_HEX_SIZE - 1, &s) && sha256_from_hex(s.p, ret) < 0)
		(void)json_node_fail(&n, "must be 64 hexadecimal digits");
}

static void read_number(struct json_node *o, const char *key, uint64_t max, uint64_t *ret)
{
	struct json_node n = member(o, key);
	uint64_t v;

	if (!json_node_u64(&n, &v))
		return;
	if (v > max)
		(void)json_node_fail(&n, "is too large");
	*ret = v;
}

static void read_count(struct json_node *o, const char *key, uint32_t *ret)
{
	uint64_t v = 0;

	read_number(o, key, QUOTA_COUNT_MAX, &v);
	*ret = (uint32_t)v;
}

static void read_token(struct json_node *o, struct token *k)
{
	char scopes[SCOPES_TEXT] = "";

	if (!json_node_object(o))
		return;
	read_text(o, "id", k->id, sizeof(k->id));
	read_text(o, "name", k->name, sizeof(k->name));
	read_hash(o, "hash", k->hash);
	read_text(o, "scopes", scopes, sizeof(scopes));
	read_number(o, "created_us", INT64_MAX, &k->created_us);
	read_number(o, "expires_us", INT64_MAX, &k->expires_us);
	read_count(o, "runs_per_s", &k->quota.runs_per_s);
	read_count(o, "concurrent", &k->quota.concurrent);
	read_number(o, "bytes_per_min", QUOTA_BYTES_MAX, &k->quota.bytes_per_min);
	json_node_end(o);
	if (json_reader_finish(o->in) < 0)
		return;
	if (!token_word_is_ok(k->id, TOKEN_ID_LENGTH)) {
		(void)json_node_fail(o, "has no id");
		return;
	}
	if (scopes_parse(scopes, &k->scopes, o->in->err) < 0 || token_check(k, o->in->err) < 0)
		(void)json_reader_fail(o->in, -EINVAL);
}

static void check_list(const struct json_node *root, const struct token_list *list,
                       const uint8_t stated[SHA256_SIZE])
{
	uint8_t sum[SHA256_SIZE];

	if (json_reader_finish(root->in) < 0)
		return;
	check_sum(list, sum);
	if (memcmp(sum, stated, sizeof(sum)) != 0)
		(void)json_node_fail(root, "was changed after it was written");
	for (size_t i = 0; i < list->n; i++)
		for (size_t j = 0; j < i; j++)
			if (token_clashes(&list->v[i], &list->v[j])) {
				(void)json_node_fail(root, "names \"%s\" twice", list->v[i].name);
				return;
			}
}

static int read_list(struct json_reader *in, struct token_list *ret)
{
	struct json_node root = json_root(in), tokens;
	uint8_t stated[SHA256_SIZE] = { 0 };
	uint64_t version = 0;
	size_t n = 0;

	if (!json_node_object(&root))
		return json_reader_finish(in);
	read_number(&root, "version", VERSION, &version);
	if (version != VERSION)
		(void)json_node_fail(&root, "is of another version");
	read_hash(&root, "check", stated);
	tokens = member(&root, "tokens");
	if (json_node_array(&tokens, TOKENS_MAX, &n) && n) {
		ret->v = calloc(n, sizeof(*ret->v));
		if (!ret->v)
			return json_reader_fail(in,
			                        err_set(in->err, ERR_INTERNAL, ENOMEM, "tokens"));
		ret->n = n;
	}
	for (size_t i = 0; i < ret->n && json_reader_finish(in) >= 0; i++) {
		struct json_node one = json_element(&tokens, i);

		read_token(&one, &ret->v[i]);
	}
	json_node_end(&root);
	check_list(&root, ret, stated);
	return json_reader_finish(in);
}

int tokens_decode(const char *text, size_t n, struct token_list *ret, struct err *err)
{
	static const struct json_bounds bounds = { .bytes = TOKENS_BYTES_MAX,
		                                   .depth = 4,
		                                   .values = 20 * TOKENS_MAX + 16 };
	struct token_list list = { 0 };
	struct json_reader in;
	int r = json_reader_init(&in, "tokens", text, n, &bounds, err);

	if (r < 0)
		return r;
	r = read_list(&in, &list);
	json_reader_done(&in);
	if (r < 0) {
		token_list_done(&list);
		return r;
	}
	*ret = list;
	return 0;
}
