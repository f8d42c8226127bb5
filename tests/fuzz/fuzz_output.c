/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of an output stream against a model that keeps everything. The first two bytes are the
 * limit; then each chunk has a byte for its length and a bit that makes it sixty times as long.
 */
#include <stdint.h>
#include <stdio.h>

#include "exec/output.h"
#include "fuzz.h"

#define STREAM_MAX (64 * KIB)

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "violated: %s\n", #condition);                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char stream[STREAM_MAX];
	CLEANUP_BUF struct buf got = { 0 };
	size_t limit, head, total = 0;
	struct output o;

	if (size < 2)
		return 0;
	if (!stream[1]) /* the same bytes each time */
		for (size_t i = 0; i < STREAM_MAX; i++)
			stream[i] = (char)(i * 31 + i / 256);
	limit = (size_t)(data[0] | data[1] << 8) + 1;
	head = limit / 2;
	output_init(&o, limit);
	for (size_t i = 2; i < size; i++) {
		size_t n = (size_t)(data[i] & 0x7f) * (data[i] & 0x80 ? 60 : 1);

		n = MIN2(n, STREAM_MAX - total);
		output_add(&o, stream + total, n);
		total += n;
		MUST(output_dropped(&o) == (total > limit ? total - limit : 0));
	}
	MUST(output_finish(&o, &got) == 0);
	MUST(got.len == MIN2(total, limit));
	if (total <= limit) {
		MUST(total == 0 || memcmp(got.data, stream, total) == 0);
	} else {
		MUST(memcmp(got.data, stream, head) == 0);
		MUST(memcmp(got.data + head, stream + total - (limit - head), limit - head) == 0);
	}
	output_done(&o);
	return 0;
}
