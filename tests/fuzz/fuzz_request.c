/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a request in JSON, and the same bytes through the writer of JSON strings. */
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "fuzz.h"
#include "model/request.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static void read_as_request(const char *text, size_t n)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(REQUEST_ARENA_MAX);
	struct request r;
	struct err err = { 0 };
	int e = request_from_json(text, n, &arena, &r, &err);

	if (e < 0) {
		MUST(err.code != ERR_NONE);
		MUST(err.msg[0] != '\0');
		return;
	}
	MUST(err.code == ERR_NONE);
	MUST(request_check(&r, NULL) == 0);
	MUST(r.language != LANGUAGE_NONE);
	MUST(strlen(r.code.p) == r.code.n);
	for (size_t i = 0; i < r.n_env; i++)
		MUST(env_check(r.env[i], NULL) == 0);
	for (size_t i = 0; i < r.n_files; i++)
		MUST(box_path_check(r.files[i].path, NULL) == 0);
}

static void write_and_read_back(const char *bytes, size_t n)
{
	static const struct json_bounds bounds = { .bytes = SIZE_MAX, .depth = 2, .values = 4 };
	CLEANUP_BUF struct buf b = BUF_INIT(64 * MIB);
	struct json_reader in;
	struct json_node root, node;
	struct str s = { 0 };

	buf_putc(&b, '[');
	json_put_string(&b, bytes, n);
	buf_putc(&b, ']');
	MUST(buf_finish(&b) == 0);
	MUST(json_reader_init(&in, "string", b.data, b.len, &bounds, NULL) == 0);
	root = json_root(&in);
	node = json_element(&root, 0);
	MUST(json_node_bytes(&node, SIZE_MAX, &s));
	MUST(s.n >= n && s.n <= 3 * n); /* a byte is kept or becomes the three of U+FFFD */
	MUST(s.n != n || memcmp(s.p, bytes, n) == 0);
	json_reader_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_as_request((const char *)data, size);
	write_and_read_back((const char *)data, size);
	return 0;
}
