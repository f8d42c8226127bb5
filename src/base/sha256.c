/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <cpuid.h>
#include <errno.h>
#include <immintrin.h>
#include <stdbool.h>
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

static void step(uint32_t s[8], unsigned first, uint32_t k)
{
	uint32_t *a = &s[first & 7], *d = &s[(first + 3) & 7], *h = &s[(first + 7) & 7];
	uint32_t b = s[(first + 1) & 7], c = s[(first + 2) & 7];
	uint32_t e = s[(first + 4) & 7], f = s[(first + 5) & 7], g = s[(first + 6) & 7];

	k += *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g));
	*d += k;
	*h = k + (rotate(*a, 2) ^ rotate(*a, 13) ^ rotate(*a, 22)) +
	     ((*a & b) ^ (*a & c) ^ (b & c));
}

/* Instead of moving the eight words down, each round names them one further. */
static void take_block_plain(uint32_t state[8], const uint8_t *block)
{
	uint32_t w[64], s[8];

	expand(block, w);
	memcpy(s, state, sizeof(s));
	for (unsigned i = 0; i < 64; i += 8)
		for (unsigned j = 0; j < 8; j++)
			step(s, 8 - j, round_constants[i + j] + w[i + j]);
	for (size_t i = 0; i < 8; i++)
		state[i] += s[i];
}

/* ---- with the processor's own instructions: some ten times faster ---- */

#define USES_SHA __attribute__((target("sha,sse4.1,ssse3")))

struct halves {
	__m128i abef, cdgh;
};

USES_SHA static inline void four_rounds(struct halves *s, __m128i w, const uint32_t *k)
{
	__m128i sum = _mm_add_epi32(w, _mm_loadu_si128((const __m128i *)k));
	__m128i two = _mm_sha256rnds2_epu32(s->cdgh, s->abef, sum);

	s->abef = _mm_sha256rnds2_epu32(s->abef, two, _mm_shuffle_epi32(sum, 0x0e));
	s->cdgh = two;
}

/* The next four words of the schedule, from the sixteen before. */
USES_SHA static inline __m128i next_words(__m128i a, __m128i b, __m128i c, __m128i d)
{
	__m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4));

	return _mm_sha256msg2_epu32(sum, d);
}

USES_SHA static void take_block_sha(uint32_t state[8], const uint8_t *block)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	struct halves s = {
		_mm_set_epi32((int)state[0], (int)state[1], (int)state[4], (int)state[5]),
		_mm_set_epi32((int)state[2], (int)state[3], (int)state[6], (int)state[7]),
	};
	const struct halves before = s;
	__m128i w[4];
	uint32_t out[8];

	for (size_t i = 0; i < 4; i++)
		w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), swap);
	for (const uint32_t *k = round_constants;; k += 16) {
		four_rounds(&s, w[0], k);
		four_rounds(&s, w[1], k + 4);
		four_rounds(&s, w[2], k + 8);
		four_rounds(&s, w[3], k + 12);
		if (k == round_constants + 48)
			break;
		w[0] = next_words(w[0], w[1], w[2], w[3]);
		w[1] = next_words(w[1], w[2], w[3], w[0]);
		w[2] = next_words(w[2], w[3], w[0], w[1]);
		w[3] = next_words(w[3], w[0], w[1], w[2]);
	}
	_mm_storeu_si128((__m128i *)out, _mm_add_epi32(s.abef, before.abef));
	_mm_storeu_si128((__m128i *)(out + 4), _mm_add_epi32(s.cdgh, before.cdgh));
	for (size_t i = 0; i < 8; i++)
		state[i] = out[(const uint8_t[]){ 3, 2, 7, 6, 1, 0, 5, 4 }[i]];
}

enum { SHA_UNKNOWN = 0, SHA_ABSENT, SHA_THERE };

/* Asked once: in a virtual machine CPUID costs microseconds. */
static bool has_sha(void)
{
	static int known = SHA_UNKNOWN;
	int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
	unsigned a, b, c, d;

	if (found == SHA_UNKNOWN) {
		found = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1) &&
		                        __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA)
		                ? SHA_THERE
		                : SHA_ABSENT;
		__atomic_store_n(&known, found, __ATOMIC_RELAXED);
	}
	return found == SHA_THERE;
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
	if (has_sha())
		take_block_sha(state, block);
	else
		take_block_plain(state, block);
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
	ret[SHA256_HEX_SIZE - 1] = 0;
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

	if (strlen(hex) != SHA256_HEX_SIZE - 1)
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
