/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>

#include "base/buf.h"

Test(buf, an_untouched_buffer_holds_nothing_and_no_memory)
{
	CLEANUP_BUF struct buf b = BUF_INIT(10);

	cr_expect(b.data == NULL);
	cr_expect(b.len == 0);
	cr_expect(buf_finish(&b) == 0);
}

Test(buf, content_is_always_terminated)
{
	CLEANUP_BUF struct buf b = BUF_INIT(100000);

	for (unsigned i = 0; i < 5000; i++) {
		buf_putc(&b, (char)('a' + i % 26));
		cr_assert(b.data[b.len] == '\0', "after %u bytes", i + 1);
		cr_assert(b.len < b.cap);
	}
	cr_expect(b.len == 5000);
	cr_expect(b.data[4999] == (char)('a' + 4999 % 26));
}

Test(buf, nul_bytes_are_content)
{
	CLEANUP_BUF struct buf b = BUF_INIT(10);

	buf_put(&b, "a\0b", 3);
	cr_expect(b.len == 3);
	cr_expect(memcmp(b.data, "a\0b", 4) == 0);
}

Test(buf, an_empty_put_makes_an_empty_string)
{
	CLEANUP_BUF struct buf b = BUF_INIT(0);

	buf_put(&b, NULL, 0);
	cr_expect(buf_finish(&b) == 0);
	cr_expect(b.data && b.data[0] == '\0');
}

Test(buf, the_maximum_can_be_filled_exactly)
{
	CLEANUP_BUF struct buf b = BUF_INIT(8);

	buf_puts(&b, "12345678");
	cr_expect(buf_finish(&b) == 0);
	cr_expect_str_eq(b.data, "12345678");
	buf_putc(&b, '9');
	cr_expect(buf_finish(&b) == -EFBIG);
}

Test(buf, the_error_sticks_and_later_appends_do_nothing)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4);

	buf_puts(&b, "abc");
	buf_puts(&b, "too long");
	buf_putc(&b, 'd'); /* would fit, and must not be taken */
	cr_expect(buf_finish(&b) == -EFBIG);
	cr_expect_str_eq(b.data, "abc");
	cr_expect(buf_detach(&b) == NULL);
}

Test(buf, a_length_that_would_wrap_is_refused)
{
	CLEANUP_BUF struct buf small = BUF_INIT(16);
	CLEANUP_BUF struct buf huge = BUF_INIT(SIZE_MAX);

	buf_put(&small, "x", 1);
	buf_put(&small, "x", SIZE_MAX);
	cr_expect(buf_finish(&small) == -EFBIG);
	buf_put(&huge, "x", SIZE_MAX - 1);
	cr_expect(buf_finish(&huge) == -ENOMEM);
}

Test(buf, printf_appends_and_refuses_what_it_would_cut)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4096);
	char longer[600];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	buf_printf(&b, "%s=%d", "n", 5);
	cr_expect_str_eq(b.data, "n=5");
	buf_printf(&b, "%s", longer);
	cr_expect(buf_finish(&b) == -EFBIG);
	cr_expect_str_eq(b.data, "n=5");
}

Test(buf, detach_hands_the_content_over_and_the_buffer_can_be_used_again)
{
	CLEANUP_BUF struct buf b = BUF_INIT(100);
	CLEANUP_FREE char *empty = NULL;
	CLEANUP_FREE char *first = NULL;

	empty = buf_detach(&b);
	cr_assert(empty);
	cr_expect_str_eq(empty, "");
	buf_puts(&b, "first");
	first = buf_detach(&b);
	cr_assert(first);
	buf_puts(&b, "second");
	cr_expect_str_eq(first, "first");
	cr_expect_str_eq(b.data, "second");
}

Test(buf, done_may_be_called_twice)
{
	struct buf b = BUF_INIT(10);

	buf_puts(&b, "x");
	buf_done(&b);
	buf_done(&b);
	cr_expect(b.data == NULL);
}
