/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <errno.h>
#include <string.h>

#include "base/macro.h"

static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotate(uint32_t v, unsigned by)
{
	return v >> by | v << (32 - by);
}

static void expand(const uint8_t *block, uint32_t w[64])
{
	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (size_t i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
	uint32_t w[64], s[8];

	expand(block, w);
	memcpy(s, state, sizeof(s));
	for (size_t i = 0; i < 64; i++) {
		uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
		uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
		uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
		uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
		uint32_t one = s[7] + e + choice + round_constants[i] + w[i];

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += one;
		s[0] = one + a + majority;
	}
	for (size_t i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256_init(struct sha256 *h)
{
	*h = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
		                         0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_put(struct sha256 *h, const void *p, size_t n)
{
	const uint8_t *at = p;
	size_t have = h->n % 64;

	h->n += n;
	while (n) {
		size_t part = MIN2(n, 64 - have);

		if (part == 64) {
			take_block(h->state, at);
		} else {
			memcpy(h->block + have, at, part);
			if (have + part == 64)
				take_block(h->state, h->block);
		}
		have = 0;
		at += part;
		n -= part;
	}
}

static void put_be64(uint8_t *to, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(v >> (56 - 8 * i));
}

void sha256_put_u64(struct sha256 *h, uint64_t v)
{
	uint8_t be[8];

	put_be64(be, v);
	sha256_put(h, be, sizeof(be));
}

void sha256_put_field(struct sha256 *h, const void *p, size_t n)
{
	sha256_put_u64(h, n);
	if (n)
		sha256_put(h, p, n);
}

void sha256_finish(struct sha256 *h, uint8_t ret[SHA256_SIZE])
{
	uint8_t end[72] = { 0x80 };
	size_t pad = 64 - (h->n + 8) % 64; /* 1..64: always room for the 0x80 */

	put_be64(end + pad, h->n * 8);
	sha256_put(h, end, pad + 8);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		ret[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256(const void *p, size_t n, uint8_t ret[SHA256_SIZE])
{
	struct sha256 h;

	sha256_init(&h);
	if (n)
		sha256_put(&h, p, n);
	sha256_finish(&h, ret);
}

void hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t ret[SHA256_SIZE])
{
	uint8_t inner[64] = { 0 }, outer[64];
	struct sha256 h;

	if (key_n > sizeof(inner))
		sha256(key, key_n, inner);
	else if (key_n)
		memcpy(inner, key, key_n);
	for (size_t i = 0; i < sizeof(inner); i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	sha256_init(&h);
	sha256_put(&h, inner, sizeof(inner));
	if (n)
		sha256_put(&h, p, n);
	sha256_finish(&h, ret);
	sha256_init(&h);
	sha256_put(&h, outer, sizeof(outer));
	sha256_put(&h, ret, SHA256_SIZE);
	sha256_finish(&h, ret);
}

void sha256_hex(const uint8_t digest[SHA256_SIZE], char ret[SHA256_HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < SHA256_SIZE; i++) {
		ret[2 * i] = digits[digest[i] >> 4];
		ret[2 * i + 1] = digits[digest[i] & 15];
	}
	ret[2 * SHA256_SIZE] = 0;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sha256_from_hex(const char *hex, uint8_t ret[SHA256_SIZE])
{
	uint8_t out[SHA256_SIZE];

	if (strlen(hex) != 2 * SHA256_SIZE)
		return -EINVAL;
	for (size_t i = 0; i < SHA256_SIZE; i++) {
		int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	memcpy(ret, out, sizeof(out));
	return 0;
}
