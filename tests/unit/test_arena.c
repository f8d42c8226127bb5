/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>

#include "base/arena.h"

Test(arena, memory_is_zeroed_aligned_and_separate)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(1 * MIB);
	unsigned char *last = NULL;

	for (size_t n = 1; n < 300; n++) {
		unsigned char *p = arena_alloc(&a, n);

		cr_assert(p);
		cr_assert((uintptr_t)p % 16 == 0, "%zu bytes at %p", n, (void *)p);
		for (size_t i = 0; i < n; i++)
			cr_assert(p[i] == 0);
		memset(p, 0xff, n);
		cr_assert(!last || last[0] == 0xff);
		last = p;
	}
}

Test(arena, the_limit_holds)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(1024);

	cr_expect(arena_alloc(&a, 1025) == NULL);
	cr_expect(arena_alloc(&a, 1000) != NULL);
	cr_expect(arena_alloc(&a, 17) == NULL);
	cr_expect(arena_alloc(&a, 16) != NULL);
	cr_expect(arena_alloc(&a, 1) == NULL);
	cr_expect(a.used <= a.max);
}

Test(arena, sizes_that_would_wrap_are_refused)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(SIZE_MAX);

	cr_expect(arena_alloc(&a, SIZE_MAX) == NULL);
	cr_expect(arena_alloc(&a, SIZE_MAX - 15) == NULL);
	cr_expect(arena_alloc(&a, SIZE_MAX - 40) == NULL);
	cr_expect(arena_array(&a, SIZE_MAX / 2, 3) == NULL);
	cr_expect(arena_array(&a, (SIZE_MAX >> 4) + 2, 16) == NULL);
	cr_expect(arena_dup(&a, "x", SIZE_MAX) == NULL);
	cr_expect(a.used == 0);
}

Test(arena, large_pieces_get_their_own_block)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(4 * MIB);
	char *big = arena_alloc(&a, MIB), *small = arena_alloc(&a, 8);

	cr_assert(big && small);
	memset(big, 'b', MIB);
	cr_expect(small[0] == 0);
}

Test(arena, copies_end_in_a_nul)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(1024);

	cr_expect(memcmp(arena_dup(&a, "a\0b", 3), "a\0b", 4) == 0);
	cr_expect_str_eq(arena_dup(&a, NULL, 0), "");
	cr_expect_str_eq(arena_strdup(&a, "text"), "text");
	cr_expect_str_eq(arena_printf(&a, "%s-%d", "n", 3), "n-3");
}

Test(arena, empty_arrays_are_not_null)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(1024);

	cr_expect(arena_array(&a, 0, 8) != NULL);
	cr_expect(arena_array(&a, 8, 0) != NULL);
}

Test(arena, done_frees_all_and_the_arena_can_be_used_again)
{
	struct arena a = ARENA_INIT(64 * KIB);

	for (unsigned i = 0; i < 3; i++) {
		cr_expect(arena_alloc(&a, 60 * KIB) != NULL);
		arena_done(&a);
		cr_expect(a.used == 0);
	}
}
