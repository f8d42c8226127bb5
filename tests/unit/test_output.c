/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "exec/output.h"

/* Different at every place, and never repeating with the period of a ring. */
static char byte_at(size_t i)
{
	return (char)(i * 7 + i / 251 * 13 + i / 65521);
}

static char *make_stream(size_t n)
{
	char *p = malloc(n ? n : 1);

	cr_assert(p);
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(i);
	return p;
}

/* What must be left of `total` bytes: all, or the first half of the limit and the newest rest. */
static void expect_kept(const struct buf *got, const char *stream, size_t limit, size_t total,
                        const char *story)
{
	size_t head = limit / 2;

	if (total <= limit) {
		cr_assert(got->len == total, "%s: %zu kept", story, got->len);
		cr_assert(total == 0 || memcmp(got->data, stream, total) == 0, "%s", story);
		return;
	}
	cr_assert(got->len == limit, "%s: %zu kept", story, got->len);
	cr_assert(memcmp(got->data, stream, head) == 0, "%s: head", story);
	cr_assert(memcmp(got->data + head, stream + total - (limit - head), limit - head) == 0,
	          "%s: tail", story);
}

static void run_one(size_t limit, size_t total, size_t chunk, const char *stream)
{
	CLEANUP_BUF struct buf got = { 0 };
	struct output o;
	char story[96];

	(void)snprintf(story, sizeof(story), "limit %zu, total %zu, chunk %zu", limit, total,
	               chunk);
	output_init(&o, limit);
	for (size_t at = 0; at < total;) {
		size_t n = MIN2(chunk, total - at);

		output_add(&o, stream + at, n);
		at += n;
		cr_assert(output_dropped(&o) == (at > limit ? at - limit : 0), "%s", story);
	}
	cr_assert(o.total == total, "%s", story);
	cr_assert(output_finish(&o, &got) == 0, "%s", story);
	cr_assert(!got.data || got.data[got.len] == '\0', "%s", story);
	expect_kept(&got, stream, limit, total, story);
	output_done(&o);
}

Test(output, head_and_tail_are_exact, .timeout = 60)
{
	static const size_t limits[] = { 1, 2, 3, 4, 5, 7, 8, 16, 17, 100, 1023, 1024 };
	static const size_t chunks[] = { 1, 2, 3, 5, 8, 13, 50, 512, 513, 4096 };
	char *stream = make_stream(8192);

	for (size_t l = 0; l < ELEMENTSOF(limits); l++) {
		size_t totals[] = { 0,
			            1,
			            limits[l] / 2,
			            limits[l] - 1,
			            limits[l],
			            limits[l] + 1,
			            limits[l] + limits[l] / 2,
			            limits[l] + (limits[l] + 1) / 2,
			            2 * limits[l],
			            2 * limits[l] + 1,
			            3 * limits[l] + 2,
			            5000 };

		for (size_t t = 0; t < ELEMENTSOF(totals); t++)
			for (size_t c = 0; c < ELEMENTSOF(chunks); c++)
				run_one(limits[l], totals[t], chunks[c], stream);
	}
	free(stream);
}

Test(output, every_small_case_agrees_with_the_model, .timeout = 60)
{
	char *stream = make_stream(64);

	for (size_t limit = 1; limit <= 12; limit++)
		for (size_t total = 0; total <= 40; total++)
			for (size_t chunk = 1; chunk <= 40; chunk++)
				run_one(limit, total, chunk, stream);
	free(stream);
}

Test(output, chunks_of_changing_size_agree_with_the_model)
{
	char *stream = make_stream(200000);
	unsigned seed = 12345;

	for (size_t limit = 1000; limit < 1010; limit++) {
		CLEANUP_BUF struct buf got = { 0 };
		struct output o;
		size_t at = 0;

		output_init(&o, limit);
		while (at < 150000) {
			size_t n;

			seed = seed * 1103515245u + 12345u;
			n = (seed >> 16) % 3000;
			output_add(&o, stream + at, n);
			at += n;
		}
		cr_assert(output_finish(&o, &got) == 0);
		expect_kept(&got, stream, limit, at, "changing chunks");
		cr_assert(o.total == at);
		output_done(&o);
	}
	free(stream);
}

Test(output, one_huge_chunk_costs_no_more_than_the_limit)
{
	size_t n = 8 * MIB + 3;
	char *stream = make_stream(n);
	CLEANUP_BUF struct buf got = { 0 };
	struct output o;

	output_init(&o, 1001);
	output_add(&o, stream, n);
	cr_expect(o.kept.cap < 4096, "%zu bytes allocated", o.kept.cap);
	cr_expect(output_dropped(&o) == n - 1001);
	cr_expect(output_finish(&o, &got) == 0);
	expect_kept(&got, stream, 1001, n, "huge chunk");
	output_done(&o);
	free(stream);
}

Test(output, the_count_goes_beyond_32_bits)
{
	static char block[64 * KIB];
	struct output o;

	output_init(&o, 10);
	for (unsigned i = 0; i < 70000; i++)
		output_add(&o, block, sizeof(block));
	cr_expect(o.total == 70000 * sizeof(block));
	cr_expect(output_dropped(&o) == o.total - 10);
	output_done(&o);
}

Test(output, nothing_is_nothing)
{
	CLEANUP_BUF struct buf got = { 0 };
	struct output o;

	output_init(&o, 10);
	output_add(&o, "", 0);
	cr_expect(output_dropped(&o) == 0);
	cr_expect(output_finish(&o, &got) == 0);
	cr_expect(got.len == 0);
	output_done(&o);
	output_done(&o); /* twice does no harm */
}

Test(output, nul_bytes_are_content)
{
	CLEANUP_BUF struct buf got = { 0 };
	struct output o;

	output_init(&o, 4);
	output_add(&o, "\0a\0b\0c", 6);
	cr_expect(output_finish(&o, &got) == 0);
	cr_expect(got.len == 4 && memcmp(got.data, "\0a\0c", 4) == 0);
	output_done(&o);
}
