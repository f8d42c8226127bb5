/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 (FIPS 180-4): only what the handshake of a WebSocket is made of, no protection at all. */
#include <string.h>

#include "net/impl.h"

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const uint8_t *p)
{
	static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
	uint32_t w[80], v[5];

	for (size_t i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	memcpy(v, h, sizeof(v));
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f = v[1] ^ v[2] ^ v[3], t;

		if (i < 20)
			f = (v[1] & v[2]) | (~v[1] & v[3]);
		else if (i >= 40 && i < 60)
			f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
		t = rotate(v[0], 5) + f + v[4] + k[i / 20] + w[i];
		v[4] = v[3];
		v[3] = v[2];
		v[2] = rotate(v[1], 30);
		v[1] = v[0];
		v[0] = t;
	}
	for (unsigned i = 0; i < 5; i++)
		h[i] += v[i];
}

void sha1(const void *p, size_t n, uint8_t ret[SHA1_SIZE])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	const uint8_t *bytes = p;
	uint64_t bits = (uint64_t)n * 8;
	uint8_t last[128] = { 0 };
	size_t rest = n % 64, last_n = rest < 56 ? 64 : 128;

	for (size_t i = 0; i + 64 <= n; i += 64)
		sha1_block(h, bytes + i);
	if (rest)
		memcpy(last, bytes + (n - rest), rest);
	last[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		last[last_n - 1 - i] = (uint8_t)(bits >> (8 * i));
	for (size_t i = 0; i < last_n; i += 64)
		sha1_block(h, last + i);
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}
