/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "risk/risk.h"

static struct risk *risk;
static struct findings f;
static struct request req;

static void open_risk(void)
{
	cr_assert(risk_open(&risk, NULL) >= 0);
	request_init(&req);
	req.language = LANGUAGE_PYTHON;
	req.code = STR("print(1)");
}

static void close_risk(void)
{
	risk_close(risk);
}

TestSuite(placed, .init = open_risk, .fini = close_risk);

static void assess(const struct request_file *files, size_t n)
{
	req.files = (struct request_file *)files;
	req.n_files = n;
	risk_assess(risk, req.language, req.code, &f);
	risk_assess_placed(risk, &req, &f);
}

#define EVIL_PY "import os\nos.system('rm -rf /')\n"
#define EVIL_JS "require('child_process').execSync('id')\n"
#define EVIL_SH "rm -rf --no-preserve-root /\n"

Test(placed, programs_are_known_by_name_or_content)
{
	static const struct row {
		const char *path, *text;
		bool executable;
		enum risk_level level;
		bool complete;
	} rows[] = {
		{ "bisect.py", EVIL_PY, false, RISK_CRITICAL, true },
		{ "a/b/__init__.py", EVIL_PY, false, RISK_CRITICAL, true },
		{ "helper.py", "def f():\n    return 1\n", false, RISK_SAFE, true },
		{ "x.mjs", EVIL_JS, false, RISK_CRITICAL, true },
		{ "x.ts", "const a: string = 'x'\n" EVIL_JS, false, RISK_CRITICAL, true },
		{ "node_modules/lodash/index.js", EVIL_JS, false, RISK_CRITICAL, true },
		{ "node_modules/lodash", EVIL_JS, false, RISK_CRITICAL, true },
		{ "node_modules/lodash/data.json", "{}", false, RISK_SAFE, true },
		{ "grep", "#!/bin/sh\n" EVIL_SH, true, RISK_CRITICAL, true },
		{ "grep", "#! /usr/bin/env -S bash -e\n" EVIL_SH, true, RISK_CRITICAL, true },
		{ "grep", "#!/usr/bin/env python3\n" EVIL_PY, true, RISK_CRITICAL, true },
		{ "grep", EVIL_SH, true, RISK_CRITICAL, true },
		{ "grep", "#!/usr/bin/perl\n1;\n", true, RISK_HIGH, false },
		{ "grep", "\177ELF\2\1\1", true, RISK_HIGH, false },
		{ "notes", EVIL_SH, false, RISK_SAFE, true },
		{ "data.csv", "a,b\n", false, RISK_SAFE, true },
		{ "bisect.pyc", "?", false, RISK_HIGH, false },
		{ "bisect.cpython-311-x86_64-linux-gnu.so", "?", false, RISK_HIGH, false },
		{ "site-packages/x.pth", "import os", false, RISK_HIGH, false },
		{ "half.py", "def (", false, RISK_MEDIUM, false },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		const struct request_file file = { rows[i].path, str_of(rows[i].text),
			                           rows[i].executable };

		assess(&file, 1);
		cr_expect(f.level == rows[i].level && f.complete == rows[i].complete,
		          "row %zu, %s: %s", i, rows[i].path, risk_level_name(f.level));
		cr_expect(f.complete || strstr(f.why, rows[i].path + strlen(rows[i].path) - 4),
		          "%s", f.why);
	}
}

/* A first line that says one language does not hide what the name says. */
Test(placed, a_file_of_two_languages_is_assessed_as_both)
{
	const struct request_file file = { "bisect.py", STR("#!/bin/sh\n" EVIL_PY), false };

	assess(&file, 1);
	cr_expect(f.level == RISK_CRITICAL);
}

Test(placed, node_reads_any_file_that_the_code_or_a_package_names)
{
	const struct request_file files[] = { { "x.txt", STR(EVIL_JS), false },
		                              { "package.json", STR("{}"), false } };

	req.language = LANGUAGE_JAVASCRIPT;
	req.code = STR("console.log(1)");
	assess(files, 1);
	cr_expect(f.level == RISK_SAFE);
	assess(files, 2);
	cr_expect(f.level == RISK_CRITICAL);
	req.code = STR("require('./x.txt')");
	assess(files, 1);
	cr_expect(f.level == RISK_CRITICAL);
}

Test(placed, the_message_names_the_file_and_cannot_steer_a_terminal)
{
	const struct request_file file = { "a\x1b[2J/bisect.py", STR("\n" EVIL_PY), false };

	assess(&file, 1);
	cr_assert(f.n > 0);
	cr_expect_str_eq(f.v[0].message, "a?[2J/bisect.py:3: runs a shell command");
	cr_expect(f.v[0].start == 0 && f.v[0].line == 1);
}

Test(placed, the_worst_comes_first_and_the_codes_own_stay)
{
	const struct request_file file = { "b.py", STR(EVIL_PY), false };

	req.code = STR("import helper");
	assess(&file, 1);
	cr_assert(f.n > 1);
	cr_expect(f.v[0].level == RISK_CRITICAL && f.v[f.n - 1].level == RISK_MEDIUM);
	for (size_t i = 1; i < f.n; i++)
		cr_expect(f.v[i].level <= f.v[i - 1].level);
}

Test(placed, variables_that_say_where_programs_are_are_found)
{
	static const char *const env[] = { "PATHS=1", "PATH=/workspace:/bin", "HOME=/workspace" };

	req.env = (const char **)env;
	req.n_env = 1;
	assess(NULL, 0);
	cr_expect(f.level == RISK_SAFE);
	req.n_env = 3;
	assess(NULL, 0);
	cr_expect(f.level == RISK_MEDIUM && f.n == 2 && f.complete);
	cr_expect_str_eq(f.v[0].rule, "source.env-places");
}

/* What is not looked at, for its size, is not taken for harmless. */
Test(placed, more_than_is_assessed_is_high)
{
	enum { N = 20 };
	static struct request_file files[N];
	static char paths[N][16];
	size_t n = 250 * KIB;
	char *text = malloc(n);

	cr_assert(text != NULL);
	memset(text, 'a', n);
	text[0] = '#'; /* one long comment */
	for (int i = 0; i < N; i++) {
		(void)snprintf(paths[i], sizeof(paths[i]), "m%d.py", i);
		files[i] = (struct request_file){ paths[i], { text, n }, false };
	}
	assess(files, 10);
	cr_expect(f.level == RISK_SAFE && f.complete, "%s", f.why);
	assess(files, N);
	cr_expect(f.level == RISK_HIGH && !f.complete);
	cr_expect_str_eq(f.v[0].rule, "source.too-large");
	free(text);
}

Test(placed, files_are_remembered)
{
	const struct request_file file = { "b.py", STR(EVIL_PY), false };

	assess(&file, 1);
	cr_expect(!f.cached);
	assess(&file, 1);
	cr_expect(f.cached && f.level == RISK_CRITICAL);
}
