/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that are hashed and signed. Each kind begins with a tag of its own, and every field
 * with its length, so that nothing can be read as something else. */
#include "base/sha256.h"
#include "ledger/ledger_impl.h"

#define TAG_ROW  "brig-ledger-row-1"
#define TAG_SEAL "brig-ledger-body-1"
#define TAG_CUT  "brig-ledger-cut-1"

static void put_text(struct sha256 *h, const char *s)
{
	sha256_put_field(h, s, strlen(s));
}

void chain_hash(const uint8_t prev[SHA256_SIZE], const struct ledger_row *row,
                uint8_t ret[SHA256_SIZE])
{
	struct sha256 h;

	sha256_init(&h);
	put_text(&h, TAG_ROW);
	sha256_put(&h, prev, SHA256_SIZE);
	sha256_put_u64(&h, row->seq);
	sha256_put_u64(&h, row->time_us);
	put_text(&h, row->job);
	put_text(&h, row->session);
	put_text(&h, row->kind);
	put_text(&h, row->name);
	put_text(&h, row->actor);
	sha256_put_field(&h, row->detail.p, row->detail.n);
	sha256_put_field(&h, row->bodies, row->n_bodies * SHA256_SIZE);
	sha256_finish(&h, ret);
}

void chain_seal(const uint8_t key[KEY_SIZE], const uint8_t digest[SHA256_SIZE], uint64_t size,
                const void *kept, size_t kept_n, uint8_t ret[SHA256_SIZE])
{
	uint8_t sum[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	put_text(&h, TAG_SEAL);
	sha256_put(&h, digest, SHA256_SIZE);
	sha256_put_u64(&h, size);
	sha256_put_field(&h, kept, kept_n);
	sha256_finish(&h, sum);
	hmac_sha256(key, KEY_SIZE, sum, sizeof(sum), ret);
}

void chain_cut(const uint8_t key[KEY_SIZE], const struct link *last, uint8_t ret[SHA256_SIZE])
{
	uint8_t sum[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	put_text(&h, TAG_CUT);
	sha256_put_u64(&h, last->seq);
	sha256_put(&h, last->hash, SHA256_SIZE);
	sha256_finish(&h, sum);
	hmac_sha256(key, KEY_SIZE, sum, sizeof(sum), ret);
}

/* The length of the well-formed sequence at p, of at most n bytes; 0: there is none. */
static size_t sequence(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	unsigned char low = 0x80, high = 0xbf;

	if (len == 1)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0; /* else overlong */
	else if (p[0] == 0xed)
		high = 0x9f; /* else a surrogate */
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f; /* else above U+10FFFF */
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* Eight bytes from 0x20 to 0x7f: most of what is recorded. */
static bool is_plain(const unsigned char *p)
{
	const uint64_t high = UINT64_C(0x8080808080808080), blank = UINT64_C(0x2020202020202020);
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return ((v | (v - blank)) & high) == 0;
}

bool chain_is_line(const char *p, size_t n)
{
	const unsigned char *at = (const unsigned char *)p;

	for (size_t i = 0; i < n;) {
		size_t len = 0;

		if (n - i >= 8 && is_plain(at + i))
			len = 8;
		else if (at[i] >= 0x20)
			len = sequence(at + i, n - i);

		if (!len)
			return false;
		i += len;
	}
	return true;
}
