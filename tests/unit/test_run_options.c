/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "cli/run_options.h"

#define WORDS_MAX 16

static struct run_options got; /* large */

static int parse(const char *const *words, struct arena *a, struct err *err)
{
	char *argv[WORDS_MAX + 2] = { (char *)"run" };
	int argc = 1;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)words[argc - 1];
	return run_options_parse(argc, argv, a, &got, err);
}

/* A command line, said again when a row of a table fails. */
static const char *joined(const char *const *words)
{
	static char text[512];
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; words[i] && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", words[i]);
	return text;
}

Test(run_options, what_is_understood)
{
	static const struct {
		const char *words[WORDS_MAX];
		enum language language;
		const char *code, *path;
		bool json, receipt;
		size_t n_args, n_env, n_files, n_outs;
	} rows[] = {
		{ { "python", "-c", "1" }, LANGUAGE_PYTHON, "1", NULL },
		{ { "-c", "1", "python" }, LANGUAGE_PYTHON, "1", NULL },
		{ { "py", "--code", "1" }, LANGUAGE_PYTHON, "1", NULL },
		{ { "python3", "--code=1" }, LANGUAGE_PYTHON, "1", NULL },
		{ { "--lang", "python", "-c", "1" }, LANGUAGE_PYTHON, "1", NULL },
		{ { "--lang=js", "-c", "" }, LANGUAGE_JAVASCRIPT, "", NULL },
		{ { "node", "-c", "a=b" }, LANGUAGE_JAVASCRIPT, "a=b", NULL },
		{ { "sh", "--code==x" }, LANGUAGE_SHELL, "=x", NULL },
		{ { "bash", "-c", "--json" }, LANGUAGE_SHELL, "--json", NULL },
		{ { "a.py" }, LANGUAGE_PYTHON, NULL, "a.py" },
		{ { "./x/a.js" }, LANGUAGE_JAVASCRIPT, NULL, "./x/a.js" },
		{ { "/a.sh" }, LANGUAGE_SHELL, NULL, "/a.sh" },
		{ { "a.txt", "--lang", "sh" }, LANGUAGE_SHELL, NULL, "a.txt" },
		{ { "a.py", "--lang", "sh" }, LANGUAGE_SHELL, NULL, "a.py" },
		{ { "-", "--lang", "py" }, LANGUAGE_PYTHON, NULL, "-" },
		{ { "--json", "a.py" }, LANGUAGE_PYTHON, NULL, "a.py", .json = true },
		{ { "a.py", "--receipt" }, LANGUAGE_PYTHON, NULL, "a.py", .receipt = true },
		{ { "a.py", "--" }, LANGUAGE_PYTHON, NULL, "a.py" },
		{ { "a.py", "--", "--json", "--", "" },
		  LANGUAGE_PYTHON,
		  NULL,
		  "a.py",
		  .n_args = 3 },
		{ { "a.py", "--env", "A=b", "--env=C=d=e" },
		  LANGUAGE_PYTHON,
		  NULL,
		  "a.py",
		  .n_env = 2 },
		{ { "a.py", "--file", "h:b", "--file=c:d:e" },
		  LANGUAGE_PYTHON,
		  NULL,
		  "a.py",
		  .n_files = 2 },
		{ { "a.py", "--out", "b:h" }, LANGUAGE_PYTHON, NULL, "a.py", .n_outs = 1 },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);
		const char *line = joined(rows[i].words);
		struct err err = { 0 };

		cr_assert(parse(rows[i].words, &a, &err) == 0, "%s: %s", line, err.msg);
		cr_expect(got.req.language == rows[i].language, "%s", line);
		cr_expect(!got.code == !rows[i].code, "%s", line);
		cr_expect(!got.code || streq(got.code, rows[i].code), "%s", line);
		cr_expect(!got.path == !rows[i].path, "%s", line);
		cr_expect(!got.path || streq(got.path, rows[i].path), "%s", line);
		cr_expect(got.json == rows[i].json && got.receipt == rows[i].receipt, "%s", line);
		cr_expect(got.req.n_args == rows[i].n_args, "%s", line);
		cr_expect(got.req.n_env == rows[i].n_env, "%s", line);
		cr_expect(got.n_files == rows[i].n_files, "%s", line);
		cr_expect(got.n_outs == rows[i].n_outs, "%s", line);
		cr_expect(!got.help, "%s", line);
	}
}

Test(run_options, what_is_refused)
{
	static const struct {
		const char *words[WORDS_MAX];
		const char *says;
	} rows[] = {
		{ { NULL }, "brig run" },
		{ { "--json" }, "brig run" },
		{ { "-c", "1" }, "-c: needs a language" },
		{ { "python" }, "language of \"python\" is not clear" },
		{ { "-" }, "language of \"-\" is not clear" },
		{ { "a.txt" }, "language of \"a.txt\"" },
		{ { "cobol", "-c", "1" }, "unknown language \"cobol\"" },
		{ { "", "-c", "1" }, "unknown language \"\"" },
		{ { "a.py", "--lang", "cobol" }, "unknown language" },
		{ { "python", "-c", "1", "--lang", "py" }, "what is this word?" },
		{ { "a.py", "b.py" }, "b.py: one word too many" },
		{ { "python", "-c" }, "-c: needs a value" },
		{ { "a.py", "--timeout" }, "--timeout: needs a value" },
		{ { "a.py", "--env" }, "--env: needs a value" },
		{ { "a.py", "-x" }, "-x: no such option" },
		{ { "a.py", "-c=1" }, "-c=1: no such option" },
		{ { "a.py", "---json" }, "no such option" },
		{ { "a.py", "--jso" }, "no such option" },
		{ { "a.py", "--jsonx" }, "no such option" },
		{ { "a.py", "--JSON" }, "no such option" },
		{ { "a.py", "--=x" }, "no such option" },
		{ { "a.py", "--timeout-and-very-much-more-than-forty-bytes=1" }, "no such option" },
		{ { "a.py", "--json=no" }, "--json=no: takes no value" },
		{ { "a.py", "--receipt=" }, "--receipt=: takes no value" },
		{ { "a.py", "--help=no" }, "--help=no: takes no value" },
		{ { "a.py", "--timeout", "0" }, "--timeout: " },
		{ { "a.py", "--timeout=" }, "timeout" },
		{ { "a.py", "--timeout", "5x" }, "timeout" },
		{ { "a.py", "--timeout", "-1" }, "timeout" },
		{ { "a.py", "--timeout", "6m" }, "--timeout: " },
		{ { "a.py", "--memory", "1K" }, "--memory: " },
		{ { "a.py", "--memory", "99999999999999999999" }, "memory" },
		{ { "a.py", "--cpus", "0" }, "cpus" },
		{ { "a.py", "--cpus", "1e3" }, "cpus" },
		{ { "a.py", "--pids", "0" }, "pids" },
		{ { "a.py", "--pids", "1.5" }, "pids" },
		{ { "a.py", "--output", "257M" }, "--output: " },
		{ { "a.py", "--level", "none" }, "--level" },
		{ { "a.py", "--level", "STRICT" }, "--level" },
		{ { "a.py", "--network", "full" }, "--network" },
		{ { "a.py", "--env", "A" }, "has no value" },
		{ { "a.py", "--env", "=b" }, "not a name" },
		{ { "a.py", "--env", "LD_PRELOAD=x" }, "reserved" },
		{ { "a.py", "--file", "x" }, "--file: needs two names" },
		{ { "a.py", "--file", ":x" }, "--file: needs two names" },
		{ { "a.py", "--file", "x:" }, "--file: needs two names" },
		{ { "a.py", "--file", ":" }, "--file: needs two names" },
		{ { "a.py", "--file", "x:../y" }, "part \"..\"" },
		{ { "a.py", "--file", "x:/etc/passwd" }, "is absolute" },
		{ { "a.py", "--file", "x:/workspace/" }, "is empty" },
		{ { "a.py", "--file", "x:/workspace/../etc/x" }, "part \"..\"" },
		{ { "a.py", "--file", "x:/workspace//etc/x" }, "is absolute" },
		{ { "a.py", "--out", "../y:x" }, "part \"..\"" },
		{ { "a.py", "--out", "/y:x" }, "is absolute" },
		{ { "a.py", "--out", "y" }, "--out: needs two names" },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);
		const char *line = joined(rows[i].words);
		struct err err = { 0 };

		cr_expect(parse(rows[i].words, &a, &err) < 0, "%s", line);
		cr_expect(err.code == ERR_INVALID, "%s", line);
		cr_expect(strstr(err.msg, rows[i].says) != NULL, "%s: %s", line, err.msg);
		cr_expect(err.remedy[0] != '\0', "%s: no remedy", line);
	}
}

Test(run_options, an_error_comes_in_the_form_that_was_asked_for)
{
	static const struct {
		const char *words[6];
		bool json;
	} rows[] = {
		{ { "--json", "--xyzzy" }, true },      { { "--xyzzy", "--json" }, true },
		{ { "a.txt", "--json" }, true },        { { "--xyzzy", "--", "--json" }, false },
		{ { "cobol", "-c", "--json" }, false },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);

		cr_expect(parse(rows[i].words, &a, NULL) < 0, "%s", joined(rows[i].words));
		cr_expect(got.json == rows[i].json, "%s", joined(rows[i].words));
	}
}

Test(run_options, help_needs_nothing_else)
{
	static const char *const lines[][4] = {
		{ "--help" }, { "-h" }, { "--json", "-h" }, { "x", "-h" }
	};

	for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);

		cr_expect(parse(lines[i], &a, NULL) == 0 && got.help, "%s", joined(lines[i]));
	}
}

Test(run_options, values_reach_the_request)
{
	static const char *const words[] = {
		"a.py",   "--timeout=250ms", "--memory", "64M", "--cpus", "0.25", "--level",
		"strict", "--stdin",         "in.txt",   "--",  "x",      "y z",  NULL
	};
	static const char *const rest[] = { "a.py", "--network", "none", "--cpu-time", "2s", NULL };
	CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);

	cr_assert(parse(words, &a, NULL) == 0);
	cr_expect(got.req.limits.timeout_ms == 250);
	cr_expect(got.req.limits.memory_bytes == 64 * MIB);
	cr_expect(got.req.limits.cpu_milli == 250);
	cr_expect(got.req.level == LEVEL_STRICT);
	cr_expect(got.req.network == NETWORK_LOOPBACK);
	cr_expect_str_eq(got.stdin_path, "in.txt");
	cr_expect_str_eq(got.req.args[0], "x");
	cr_expect_str_eq(got.req.args[1], "y z");
	cr_assert(parse(rest, &a, NULL) == 0);
	cr_expect(got.req.network == NETWORK_NONE);
	cr_expect(got.req.limits.cpu_ms == 2000);
	cr_expect(got.req.limits.timeout_ms == 30000, "the defaults are back");
	cr_expect(got.req.n_args == 0 && got.stdin_path == NULL);
}

Test(run_options, every_limit_is_an_option_and_in_the_help)
{
	for (size_t i = 0; i < limit_infos_n; i++) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);
		char option[40];
		const char *words[] = { "a.py", option, "4096", NULL };
		struct err err = { 0 };

		(void)snprintf(option, sizeof(option), "--%s", limit_infos[i].option);
		cr_expect(strstr(run_help, option) != NULL, "%s", option);
		(void)parse(words, &a, &err);
		cr_expect(!strstr(err.msg, "no such option"), "%s", option);
	}
}

Test(run_options, pairs_are_split_at_the_last_colon)
{
	static const char *const words[] = { "a.py",  "--file", "C:\\x:/workspace/d/e",
		                             "--out", "p:q:r",  NULL };
	CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);

	cr_assert(parse(words, &a, NULL) == 0);
	cr_expect_str_eq(got.files[0].host, "C:\\x");
	cr_expect_str_eq(got.files[0].box, "d/e");
	cr_expect_str_eq(got.outs[0].box, "p:q");
	cr_expect_str_eq(got.outs[0].host, "r");
}

/* `count` times the option, or `count` words after "--". */
static int parse_many(const char *option, const char *value, size_t count, struct err *err)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(MIB);
	char **argv = calloc(2 * count + 4, sizeof(*argv));
	int argc = 0, r;

	cr_assert(argv);
	argv[argc++] = (char *)"run";
	argv[argc++] = (char *)"a.py";
	if (!option)
		argv[argc++] = (char *)"--";
	for (size_t i = 0; i < count; i++) {
		if (option)
			argv[argc++] = (char *)option;
		argv[argc++] = (char *)value;
	}
	r = run_options_parse(argc, argv, &a, &got, err);
	free(argv);
	return r;
}

Test(run_options, repeated_options_have_a_bound)
{
	static const struct {
		const char *option, *value;
		size_t max;
	} rows[] = {
		{ "--file", "a:b", RUN_PAIRS_MAX },
		{ "--out", "a:b", RUN_PAIRS_MAX },
		{ "--env", "A=b", REQUEST_ENV_MAX },
		{ NULL, "x", REQUEST_ARGS_MAX },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct err err = { 0 };

		cr_expect(parse_many(rows[i].option, rows[i].value, rows[i].max, &err) == 0,
		          "row %zu: %s", i, err.msg);
		cr_expect(parse_many(rows[i].option, rows[i].value, rows[i].max + 1, &err) < 0,
		          "row %zu", i);
		cr_expect(err.code == ERR_INVALID);
	}
}

Test(run_options, an_exhausted_arena_is_told_as_such)
{
	static const char *const words[] = { "a.py", "--file", "a:b", NULL };

	for (size_t max = 0; max < 7000; max += 16) {
		CLEANUP_ARENA struct arena a = ARENA_INIT(max);
		struct err err = { 0 };
		int r = parse(words, &a, &err);

		cr_assert(r == 0 || (r == -ENOMEM && err.code == ERR_LIMIT), "%zu: %d", max, r);
	}
}
