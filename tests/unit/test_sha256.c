/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and HMAC against published answers; both ways to take a block against each other. */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/sha256.c" /* its two block functions are its own */

static void assert_digest(const void *p, size_t n, const char *want)
{
	uint8_t digest[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];

	sha256(p, n, digest);
	sha256_hex(digest, hex);
	cr_assert_str_eq(hex, want);
}

/* FIPS 180-4 and the examples that NIST publishes with it. */
Test(sha256, published_messages)
{
	static const char million = 'a';
	static char many[1000000];

	assert_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
	              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	assert_digest("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
	              "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
	              112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
	assert_digest("\xbd", 1,
	              "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
	assert_digest("\xc9\x8c\x8e\x55", 4,
	              "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
	memset(many, million, sizeof(many));
	assert_digest(many, sizeof(many),
	              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* message[i] = 7 i + n; the answers are those of another implementation. */
static void message_of(size_t n, uint8_t ret[200])
{
	for (size_t i = 0; i < n; i++)
		ret[i] = (uint8_t)(i * 7 + n);
}

Test(sha256, lengths_around_the_ends_of_blocks)
{
	static const struct {
		size_t n;
		const char *want;
	} cases[] = {
		{ 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ 1, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a" },
		{ 31, "6c56c9f0cdd4759c04aa75b8583e11614c25b347c984ca4c6bcb1fdfb09fb268" },
		{ 32, "70b25e78a713fbc17ba3f5e9b25c16200202a776ddb67fffb745d54b9eee7f29" },
		{ 54, "1ad616be707a2b269ecfe28bdea4a4284a4f78a221287d45b98004231f501c77" },
		{ 55, "81afe5b788dc2ce138ff83d9b20164db75a94d75d2b2432eea4a0ef605088c72" },
		{ 56, "2aba54f0ac632420a2b502431408866e40e1d5e430df4cd822642c78ab2eb9c1" },
		{ 57, "903284efbf9100e8ba1614ec65eacacad125e03f857cae7acbf8b73b23e0fdfe" },
		{ 63, "733d3d4ee79ee67145bf73da13588f6f235d37414fc64b14a2f00f1762792f5e" },
		{ 64, "79322907b3e9d013d7dc2c2f256674dbf733045cde01df3539271c6f5605feb8" },
		{ 65, "d85c007c6eb440f085afa2b84f6f2bce4658b240e9f62cb1364bf0485a57e720" },
		{ 111, "b41ae5233b9ec35d8576a032034d2857b667a618c7038714d727d4dae3aa2525" },
		{ 119, "6c87eedf096b345de205b702e5223b73b447a3207791ded3ea007ba15ed6736e" },
		{ 120, "42500cf6a1e3936d6b9e0bcfe296d654b63255e525487d3634d0b15fde591c4d" },
		{ 127, "68f6ff710276900c0ffbbc57426f67e00c2e01f0750c7edc25ac06b8ce7a8095" },
		{ 128, "489d55fea9a73af36b6dd0be7b4117d8e5683386d39544e8a44c99a87f368707" },
		{ 129, "4e1556b2e9a50a3cc9478f3254727b01065f9ac5d2c3a8b4cd538ae7240bb87d" },
		{ 183, "d5569223a34f844867a0472755c7e51a0f947e822f876d6c1ef65f980640e968" },
		{ 191, "335b3bf2c22790fea5a53aeb3bc5964e315479ea95077e3425e53031703c6ef0" },
		{ 192, "8670a48b392a0d3059954d2bd00de898822e9581ab3f85145e5183d9ad740dea" },
		{ 200, "8e3f3819b4f1b1f71c011c6b854c43601f132c3c88b8982b20733d2b1695c593" },
	};

	for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
		uint8_t message[200];

		message_of(cases[i].n, message);
		assert_digest(message, cases[i].n, cases[i].want);
	}
}

Test(sha256, every_length_up_to_200)
{
	uint8_t message[200], digest[SHA256_SIZE], all[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (size_t n = 0; n <= 200; n++) {
		message_of(n, message);
		sha256(message, n, digest);
		sha256_put(&h, digest, sizeof(digest));
	}
	sha256_finish(&h, all);
	sha256_hex(all, hex);
	cr_assert_str_eq(hex, "e673d33f6940a6d3856d0d305fd88363ae0ba3b96e2411d8ddd5e0dd443f4525");
}

Test(sha256, parts_give_what_the_whole_gives)
{
	uint8_t message[200], whole[SHA256_SIZE], parts[SHA256_SIZE];

	message_of(200, message);
	sha256(message, 200, whole);
	for (size_t a = 0; a <= 200; a++) {
		struct sha256 h;

		sha256_init(&h);
		sha256_put(&h, message, a);
		sha256_put(&h, message + a, (200 - a) / 2);
		sha256_put(&h, message + a + (200 - a) / 2, 200 - a - (200 - a) / 2);
		sha256_finish(&h, parts);
		cr_assert(memcmp(whole, parts, sizeof(whole)) == 0, "cut at %zu", a);
	}
}

Test(sha256, instructions_and_plain_code_agree)
{
	uint32_t plain[8] = { 1, 2, 3, 4, 5, 6, 7, 0xffffffff }, fast[8];

	if (!has_sha())
		cr_skip("this processor has no such instructions");
	memcpy(fast, plain, sizeof(fast));
	for (unsigned round = 0; round < 1000; round++) {
		uint8_t block[64];

		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = (uint8_t)(plain[i % 8] >> (i / 8));
		take_block_plain(plain, block);
		take_block_sha(fast, block);
		cr_assert(memcmp(plain, fast, sizeof(plain)) == 0, "round %u", round);
	}
}

Test(sha256, plain_code_alone_is_right)
{
	uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const uint8_t abc[64] = { 'a', 'b', 'c', 0x80, [63] = 24 };

	take_block_plain(state, abc);
	cr_assert(state[0] == 0xba7816bf && state[3] == 0x5dae2223 && state[7] == 0xf20015ad);
}

Test(sha256, fields_cannot_run_into_each_other)
{
	uint8_t one[SHA256_SIZE], two[SHA256_SIZE];
	struct sha256 a, b;

	sha256_init(&a);
	sha256_put_field(&a, "ab", 2);
	sha256_put_field(&a, "c", 1);
	sha256_finish(&a, one);
	sha256_init(&b);
	sha256_put_field(&b, "a", 1);
	sha256_put_field(&b, "bc", 2);
	sha256_finish(&b, two);
	cr_assert(memcmp(one, two, sizeof(one)) != 0);
	sha256("\0\0\0\0\0\0\0\2ab\0\0\0\0\0\0\0\1c", 19, two);
	cr_assert(memcmp(one, two, sizeof(one)) == 0);
}

static void assert_hmac(const char *key, size_t key_n, const char *text, size_t n, const char *want)
{
	uint8_t mac[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];

	hmac_sha256(key, key_n, text, n, mac);
	sha256_hex(mac, hex);
	cr_assert_str_eq(hex, want);
}

/* RFC 4231; case 5 is about truncation and has no full answer. */
Test(sha256, hmac_of_rfc_4231)
{
	char key[131], text[50];

	memset(key, 0x0b, 20);
	assert_hmac(key, 20, "Hi There", 8,
	            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	assert_hmac("Jefe", 4, "what do ya want for nothing?", 28,
	            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	memset(text, 0xdd, sizeof(text));
	assert_hmac(key, 20, text, 50,
	            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
	assert_hmac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
	            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
	assert_hmac(
		key, 131,
		"This is a test using a larger than block-size key and a larger than block-size "
		"data. The key needs to be hashed before being used by the HMAC algorithm.",
		152, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
	for (int i = 0; i < 25; i++)
		key[i] = (char)(i + 1);
	memset(text, 0xcd, sizeof(text));
	assert_hmac(key, 25, text, 50,
	            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

Test(sha256, hex_there_and_back)
{
	uint8_t digest[SHA256_SIZE], back[SHA256_SIZE];
	char hex[SHA256_HEX_SIZE];

	sha256("x", 1, digest);
	sha256_hex(digest, hex);
	cr_assert(sha256_from_hex(hex, back) == 0 && memcmp(digest, back, sizeof(back)) == 0);
	hex[0] = 'A';
	cr_assert(sha256_from_hex(hex, back) == -EINVAL);
	hex[0] = 'g';
	cr_assert(sha256_from_hex(hex, back) == -EINVAL);
	hex[63] = 0;
	cr_assert(sha256_from_hex(hex, back) == -EINVAL && sha256_from_hex("", back) == -EINVAL);
}
