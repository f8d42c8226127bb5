/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SHA-256 (FIPS 180-4) and HMAC over it: names for bytes, and the links of the ledger's chain. */

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE     32
#define SHA256_HEX_SIZE (2 * SHA256_SIZE + 1)

struct sha256 {
	uint32_t state[8];
	uint64_t n; /* bytes so far */
	uint8_t block[64];
};

void sha256_init(struct sha256 *h);
void sha256_put(struct sha256 *h, const void *p, size_t n);
/* A number and its width, so that fields of a record cannot run into each other. */
void sha256_put_u64(struct sha256 *h, uint64_t v);
/* The length, then the bytes. */
void sha256_put_field(struct sha256 *h, const void *p, size_t n);
void sha256_finish(struct sha256 *h, uint8_t ret[SHA256_SIZE]);

void sha256(const void *p, size_t n, uint8_t ret[SHA256_SIZE]);
void hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t ret[SHA256_SIZE]);
void sha256_hex(const uint8_t digest[SHA256_SIZE], char ret[SHA256_HEX_SIZE]);
/* 0, or -EINVAL when it is not 64 lower-case hexadecimal digits. */
int sha256_from_hex(const char *hex, uint8_t ret[SHA256_SIZE]);
