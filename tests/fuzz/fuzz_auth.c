/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the file of tokens, and as the headers Authorization, Host and Origin. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "auth/impl.h"
#include "base/str.h"
#include "fuzz.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void try_file(const char *p, size_t n)
{
	CLEANUP_BUF struct buf once = BUF_INIT(TOKENS_BYTES_MAX),
			       twice = BUF_INIT(TOKENS_BYTES_MAX);
	struct token_list list = { 0 };
	struct err err = { 0 };

	if (tokens_decode(p, n, &list, &err) < 0) {
		MUST(!list.v && err.code != ERR_NONE && *err.msg);
		return;
	}
	MUST(list.n <= TOKENS_MAX);
	for (size_t i = 0; i < list.n; i++)
		MUST(token_check(&list.v[i], NULL) == 0);
	tokens_encode(&list, &once);
	token_list_done(&list);
	MUST(tokens_decode(once.data, once.len, &list, NULL) == 0);
	tokens_encode(&list, &twice);
	token_list_done(&list);
	MUST(streq(once.data, twice.data));
}

static void try_headers(const char *text)
{
	static const char *const extra[] = { "brig.example", "api.example:443" };
	static const char *const origins[] = { "https://console.example" };
	char token[TOKEN_SIZE];
	uint32_t scopes = 0;

	if (bearer_parse(text, token) == 0)
		MUST(token_text_is_ok(token) && strlen(text) == 7 + strlen(token));
	if (host_is_ours(text, 8080, extra, ELEMENTSOF(extra))) {
		MUST(strlen(text) <= 18); /* the longest of them, with a port */
		MUST(!strpbrk(text, "@/%?# \t\r\n,"));
		MUST(host_is_ours(text, 0, extra, ELEMENTSOF(extra)));
	}
	if (origin_is_allowed(text, origins, ELEMENTSOF(origins)))
		MUST(streq(text, origins[0]));
	if (scopes_parse(text, &scopes, NULL) == 0)
		MUST(scopes && !(scopes & ~SCOPE_ALL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	try_file(text, size);
	try_headers(text);
	free(text);
	return 0;
}
