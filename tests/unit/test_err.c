/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/err.h"

Test(err, set_returns_the_errno_and_appends_its_text)
{
	struct err e = { 0 };

	cr_expect(err_set(&e, ERR_IO, ENOENT, "open \"%s\"", "x") == -ENOENT);
	cr_expect(e.code == ERR_IO);
	cr_expect(e.sys == ENOENT);
	cr_expect_str_eq(e.msg, "open \"x\": No such file or directory");
	cr_expect_str_eq(e.remedy, "");
}

Test(err, set_without_an_errno_is_einval)
{
	struct err e = { 0 };

	cr_expect(err_set(&e, ERR_INVALID, 0, "wrong") == -EINVAL);
	cr_expect_str_eq(e.msg, "wrong");
}

Test(err, a_new_error_forgets_the_old_remedy)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_INVALID, 0, "first");
	cr_expect(err_remedy(&e, -ERANGE, "do %d things", 2) == -ERANGE);
	cr_expect_str_eq(e.remedy, "do 2 things");
	(void)err_set(&e, ERR_INVALID, 0, "second");
	cr_expect_str_eq(e.remedy, "");
}

Test(err, wrap_puts_the_outer_text_in_front_and_keeps_the_code)
{
	struct err e = { 0 };
	int r = err_set(&e, ERR_LIMIT, 0, "inner");

	cr_expect(err_wrap(&e, r, "job %d", 7) == -EINVAL);
	cr_expect_str_eq(e.msg, "job 7: inner");
	cr_expect(e.code == ERR_LIMIT);
}

Test(err, long_texts_are_cut_not_overrun)
{
	char text[1000];
	struct err e = { 0 };

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)err_set(&e, ERR_IO, EIO, "%s", text);
	cr_expect(strlen(e.msg) == sizeof(e.msg) - 1);
	(void)err_wrap(&e, -EIO, "%s", text);
	cr_expect(strlen(e.msg) == sizeof(e.msg) - 1);
	(void)err_remedy(&e, -EIO, "%s", text);
	cr_expect(strlen(e.remedy) == sizeof(e.remedy) - 1);
	cr_expect(e.code == ERR_IO);
}

Test(err, control_characters_never_reach_the_message)
{
	struct err e = { 0 };

	(void)err_set(&e, ERR_INVALID, 0, "\"%s\"", "a\nb\x1b[31m\x7f");
	cr_expect_str_eq(e.msg, "\"a?b?[31m?\"");
	(void)err_wrap(&e, -EINVAL, "%s", "c\r");
	cr_expect_str_eq(e.msg, "c?: \"a?b?[31m?\"");
}

Test(err, every_function_takes_null)
{
	cr_expect(err_set(NULL, ERR_IO, EIO, "x") == -EIO);
	cr_expect(err_set(NULL, ERR_IO, 0, "x") == -EINVAL);
	cr_expect(err_wrap(NULL, -5, "x") == -5);
	cr_expect(err_remedy(NULL, -5, "x") == -5);
}

Test(err, every_code_has_a_name_and_an_exit_status)
{
	for (unsigned c = ERR_NONE; c < ERR_CODE_COUNT; c++) {
		cr_expect(err_code_name((enum err_code)c)[0] != '\0');
		cr_expect((err_code_exit((enum err_code)c) == 0) == (c == ERR_NONE), "code %u", c);
	}
	cr_expect_str_eq(err_code_name(ERR_SETUP), "setup_failed");
	cr_expect(err_code_exit(ERR_INVALID) == 2);
	cr_expect(err_code_exit(ERR_UNSUPPORTED) == 126);
}

Test(err, a_corrupt_code_is_an_internal_error)
{
	cr_expect_str_eq(err_code_name((enum err_code)999), "internal");
	cr_expect(err_code_exit((enum err_code)999) == 125);
	cr_expect_str_eq(err_code_name((enum err_code) - 1), "internal");
}
