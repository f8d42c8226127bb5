/* SPDX-License-Identifier: Apache-2.0 */
/* The engine with rules of its own, and the entry with the real ones. The corpus has its own test.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "risk/impl.h"
#include "risk/query.h"
#include "risk/rules.h"

const TSLanguage *tree_sitter_python(void);
const TSLanguage *tree_sitter_javascript(void);
const TSLanguage *tree_sitter_typescript(void);
const TSLanguage *tree_sitter_bash(void);

/* ---- rules of the test ---- */

struct engine {
	struct grammar g;
	struct err err;
	int error;
};

static const TSLanguage *ts_of(enum language l)
{
	return l == LANGUAGE_PYTHON       ? tree_sitter_python()
	       : l == LANGUAGE_JAVASCRIPT ? tree_sitter_javascript()
	                                  : tree_sitter_bash();
}

static const struct lang *lang_of(enum language l)
{
	return l == LANGUAGE_PYTHON       ? &lang_python
	       : l == LANGUAGE_JAVASCRIPT ? &lang_javascript
	                                  : &lang_shell;
}

static struct engine engine_new(enum language l, const char *rules)
{
	struct engine e = { 0 };

	e.error = grammar_load(&e.g, ts_of(l), lang_of(l), str_of(rules), &e.err);
	return e;
}

/* How many findings; the place of the first in *ret_start. */
static int run(struct engine *e, const char *code, uint32_t *ret_start)
{
	struct hits hits = { .complete = true };
	struct pass p = { .g = &e->g, .text = str_of(code), .hits = &hits };
	uint32_t error;

	p.pool = ARENA_INIT(POOL_MAX);
	p.deadline = deadline_in(5000);
	if (e->g.lang == &lang_shell)
		p.text = shell_rewrite(&p, p.text);
	cr_assert_eq(tree_parse(&p, &error), 0);
	cr_assert_eq(match_all(&p), 0);
	if (ret_start)
		*ret_start = hits.n ? hits.v[0].start : NO_NODE;
	pass_done(&p);
	return (int)hits.n;
}

#define END "(#rule! \"t.rule\" high \"test\" \"found\"))"

static int count(enum language l, const char *rules, const char *code)
{
	struct engine e = engine_new(l, rules);
	int n = -1;

	if (e.error == 0)
		n = run(&e, code, NULL);
	grammar_done(&e.g);
	return n;
}

struct row {
	const char *code;
	int n;
};

static void check_rows(enum language l, const char *rules, const struct row *rows, size_t n)
{
	struct engine e = engine_new(l, rules);

	cr_assert_eq(e.error, 0, "%s", e.err.msg);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(run(&e, rows[i].code, NULL), rows[i].n, "%s", rows[i].code);
	grammar_done(&e.g);
}

#define ROWS(l, rules, ...)                                                                        \
	do {                                                                                       \
		static const struct row rows[] = { __VA_ARGS__ };                                  \
		check_rows(l, rules, rows, ELEMENTSOF(rows));                                      \
	} while (0)

/* ---- patterns ---- */

Test(pattern, fields_choices_and_absent_fields)
{
	ROWS(LANGUAGE_PYTHON, "((call function: [(identifier) (attribute)] @f) @hit " END,
	     { "f()", 1 }, { "a.b()", 1 }, { "f()()", 1 }, { "f", 0 });
	ROWS(LANGUAGE_PYTHON, "((function_definition !return_type) @hit " END,
	     { "def f(): pass", 1 }, { "def f() -> int: pass", 0 });
	ROWS(LANGUAGE_PYTHON,
	     "([(call function: (identifier) @x) (attribute object: (identifier) @x)] @hit "
	     "(#eq? @x \"os\") " END,
	     { "os()", 1 }, { "os.x", 1 }, { "x.os", 0 });
}

Test(pattern, anchors_and_order_of_children)
{
	ROWS(LANGUAGE_PYTHON, "((argument_list . (integer) @x) " END, { "f(1, a)", 1 },
	     { "f(a, 1)", 0 });
	ROWS(LANGUAGE_PYTHON, "((argument_list (integer) @x .) " END, { "f(1, a)", 0 },
	     { "f(a, 1)", 1 });
	ROWS(LANGUAGE_PYTHON, "((argument_list (integer) . (string)) " END, { "f(1, 'a')", 1 },
	     { "f(1, a, 'a')", 0 }, { "f('a', 1)", 0 });
	ROWS(LANGUAGE_PYTHON, "((argument_list (integer) (string)) " END, { "f(1, a, 'a')", 1 },
	     { "f('a', 1)", 0 });
}

Test(pattern, every_way_to_fulfil_it_is_tried)
{
	ROWS(LANGUAGE_PYTHON, "((argument_list (_) @x) (#eq? @x \"c\") " END, { "f(a, b, c)", 1 },
	     { "f(a, b)", 0 });
	ROWS(LANGUAGE_PYTHON, "((argument_list (_) @x (_) @y) (#eq? @x @y) " END,
	     { "f(a, b, a)", 1 }, { "f(a, b)", 0 });
}

Test(pattern, the_place_is_hit_or_the_root)
{
	struct engine e = engine_new(LANGUAGE_PYTHON, "((call arguments: (_) @hit) " END);
	uint32_t start = 0;

	cr_assert_eq(e.error, 0);
	(void)run(&e, "f(1)", &start);
	cr_expect_eq(start, 1);
	grammar_done(&e.g);
}

Test(pattern, what_cannot_be_read_is_refused)
{
	static const char *const bad[] = {
		"(call",
		"((call) " END " x",
		"((call)* " END,
		"((call) (#nonsense? @x) " END,
		"((call) @x (#match? @x) " END,
		"((call))",
		"((call) (#rule! \"a\" huge \"b\" \"c\"))",
		"((call) (#rule! \"a\" high \"b\"))",
		"((call) (call) " END,
		"((call \"abc) " END,
		"((((((((((((((((((((call)))))))))))))))))))) " END,
	};

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		cr_expect_eq(count(LANGUAGE_PYTHON, bad[i], "f()"), -1, "%s", bad[i]);
}

/* ---- names ---- */

#define CALLS(name) "((call function: (_) @c) @hit (#name? @c \"" name "\") " END

Test(name, python_finds_what_was_imported_or_assigned)
{
	ROWS(LANGUAGE_PYTHON, CALLS("os.system"), { "import os\nos.system(1)", 1 },
	     { "import os as o\no.system(1)", 1 }, { "from os import system as s\ns(1)", 1 },
	     { "from os import *\nsystem(1)", 1 }, { "import os\nf = os.system\nf(1)", 1 },
	     { "import os\na, b = 1, os\nb.system(1)", 1 }, { "import os\n(f := os.system)(1)", 1 },
	     { "import os\ndef g(f=os.system): f(1)", 1 },
	     { "import os\nfor f in [os.system]: f(1)", 1 }, { "system(1)", 0 },
	     { "import oz\noz.system(1)", 0 });
}

Test(name, python_finds_what_is_reached_in_other_ways)
{
	ROWS(LANGUAGE_PYTHON, CALLS("os.system"), { "getattr(os, 'sys' + 'tem')(1)", 1 },
	     { "__import__('os').system(1)", 1 }, { "vars(os)['system'](1)", 1 },
	     { "os.__dict__['system'](1)", 1 }, { "os.__dict__.get('system')(1)", 1 },
	     { "import importlib\nimportlib.import_module('o' 's').system(1)", 1 },
	     { "import sys\nsys.modules['os'].system(1)", 1 }, { "globals()['os'].system(1)", 1 },
	     { "{'a': os.system}['a'](1)", 1 }, { "[len, os.system][1](1)", 1 },
	     { "(os.system if x else y)(1)", 1 }, { "(x or os.system)(1)", 1 },
	     { "from operator import attrgetter\nattrgetter('system')(os)(1)", 1 },
	     { "from functools import partial\npartial(os.system, 1)()", 1 });
	ROWS(LANGUAGE_PYTHON, CALLS("eval"), { "__builtins__.eval(1)", 1 },
	     { "__builtins__['eval'](1)", 1 }, { "import builtins as b\nb.eval(1)", 1 },
	     { "print.__self__.eval(1)", 1 }, { "\xef\xbd\x85val(1)", 1 }, { "re.eval(1)", 0 });
}

Test(name, a_definition_of_the_module_takes_the_name)
{
	ROWS(LANGUAGE_PYTHON, CALLS("eval"), { "def eval(x): pass\neval(1)", 0 },
	     { "eval(1)\ndef eval(x): pass", 1 }, { "if 0:\n def eval(x): pass\neval(1)", 1 },
	     { "def eval(x): pass\ndel eval\neval(1)", 1 });
	ROWS(LANGUAGE_PYTHON, CALLS("compile"), { "from re import compile\ncompile(1)", 0 });
}

Test(name, wildcards_take_what_is_below_or_behind)
{
	ROWS(LANGUAGE_PYTHON, CALLS("os.*"), { "os.a(1)", 1 }, { "os.a.b(1)", 1 }, { "os(1)", 0 },
	     { "oss.a(1)", 0 });
	ROWS(LANGUAGE_PYTHON, CALLS("*.run"), { "a.run(1)", 1 }, { "f().run(1)", 1 },
	     { "''.run(1)", 1 }, { "run(1)", 0 }, { "a.rerun(1)", 0 });
	ROWS(LANGUAGE_PYTHON, CALLS("*.os.*"), { "a.os.b(1)", 1 }, { "os.b(1)", 0 },
	     { "a.b.c.d.os.e(1)", 1 }, { "a.os(1)", 0 }, { "a.b.c.d.e.f.g.h.i.j.k.os.l.m(1)", 1 });
	ROWS(LANGUAGE_PYTHON, CALLS("*.os.path.*"), { "a.os.path.b(1)", 1 }, { "a.os.b(1)", 0 },
	     { "x.a.os.path.b.c(1)", 1 });
}

Test(name, any_of_several_imported_names_may_be_it)
{
	ROWS(LANGUAGE_PYTHON,
	     "([(import_from_statement module_name: (_) @m) (import_from_statement name: (_) @m) "
	     "(import_statement name: (_) @m)] @hit (#name? @m \"os\" \"os.system\") " END,
	     { "from os import path", 1 }, { "from x import a, b, c", 0 },
	     { "from os import path, sep, system", 1 }, { "import a, b, os", 1 },
	     { "import a, os as b, c", 1 }, { "from a import os", 0 }, { "import o", 0 });
}

Test(pattern, a_text_is_found_wherever_it_stands_and_however_it_is_written)
{
	ROWS(LANGUAGE_PYTHON,
	     "((call function: (attribute attribute: (identifier) @m)) @hit "
	     "(#any-of? @m \"run\" \"x\") " END,
	     { "a.run()", 1 }, { "a.x()", 1 }, { "a.y()", 0 }, { "a.ran()", 0 },
	     { "a.\xef\xbd\x92un()", 1 });
	ROWS(LANGUAGE_PYTHON, "((identifier) @hit (#match? @hit \"[xy]z|q+\") " END, { "az", 0 },
	     { "axz", 1 }, { "q", 1 }, { "ax", 0 });
	ROWS(LANGUAGE_PYTHON, "((string) @hit (#string-match? @hit \"^$|a\") " END, { "''", 1 },
	     { "'b'", 0 }, { "'ba'", 1 });
}

#define JS_CALLS(name) "((call_expression function: (_) @c) @hit (#name? @c \"" name "\") " END

Test(name, javascript_finds_modules_and_globals)
{
	ROWS(LANGUAGE_JAVASCRIPT, JS_CALLS("fs.open"), { "require('fs').open()", 1 },
	     { "require('node:fs').open()", 1 }, { "const {open: o} = require('fs'); o()", 1 },
	     { "import {open as o} from 'fs'; o()", 1 }, { "import * as f from 'fs'; f.open()", 1 },
	     { "import f from 'node:fs'; f.open()", 1 }, { "(await import('f' + 's')).open()", 1 },
	     { "const r = require; r('fs').open()", 1 },
	     { "process.mainModule.require('fs')['op' + 'en']()", 1 },
	     { "require('fs')?.open()", 1 }, { "require.apply(null, ['fs']).open()", 1 },
	     { "require('gs').open()", 0 });
	ROWS(LANGUAGE_JAVASCRIPT, JS_CALLS("eval"), { "globalThis['ev' + 'al'](1)", 1 },
	     { "(0, eval)(1)", 1 }, { "eval.call(null, 1)", 1 }, { "\\u0065val(1)", 1 },
	     { "Reflect.get(window, 'eval')(1)", 1 }, { "const e = eval.bind(null); e(1)", 2 },
	     { "const o = {f: eval}; o.f(1)", 1 }, { "model.eval()", 0 });
	ROWS(LANGUAGE_JAVASCRIPT, JS_CALLS("Function"), { "[].constructor.constructor('x')", 1 },
	     { "(() => {}).constructor('x')", 1 }, { "[]['filter']['constructor']('x')", 1 },
	     { "this.constructor('x')", 0 });
}

#define SH_NAME(name) "((command name: (_) @c) @hit (#name? @c \"" name "\") " END

Test(name, shell_words_are_cooked)
{
	ROWS(LANGUAGE_SHELL, SH_NAME("rm"), { "rm x", 1 }, { "r\"\"m x", 1 }, { "'r'm x", 1 },
	     { "r\\m x", 1 }, { "$'\\x72\\155' x", 1 }, { "a=r; b=m; $a$b x", 1 },
	     { "/bin/rm x", 1 }, { "/usr/../bin/rm x", 1 }, { "c='rm -rf'; $c x", 1 },
	     { "$(echo rm) x", 1 }, { "{rm,-rf,/}", 1 }, { "r\\\nm x", 1 }, { "r$@m x", 1 },
	     { "rm${IFS}x", 1 }, { "./rm x", 0 }, { "$x", 0 }, { "echo rm", 0 });
}

Test(name, shell_commands_inside_commands_are_seen)
{
	ROWS(LANGUAGE_SHELL, SH_NAME("rm"), { "sudo -u root rm x", 1 }, { "env A=b rm x", 1 },
	     { "find . -exec rm {} \\;", 1 }, { "ls | xargs -n 1 rm", 1 }, { "timeout 5 rm x", 1 },
	     { "sudo env nohup rm x", 1 }, { "busybox rm x", 1 }, { "command -v rm", 0 },
	     { "sudo ls rm", 0 });
	ROWS(LANGUAGE_SHELL, SH_NAME("<function>"), { "f() { ls; }; f", 1 }, { "f", 0 });
}

/* ---- values ---- */

#define VALUE(text)                                                                                \
	"((call function: (identifier) @f arguments: (argument_list . (_) @x)) @hit "              \
	"(#eq? @f \"f\") (#string? @x \"" text "\") " END

Test(value, python_texts_are_put_together)
{
	ROWS(LANGUAGE_PYTHON, VALUE("os"), { "f('o' + 's')", 1 }, { "f('o' 's')", 1 },
	     { "f('so'[::-1])", 1 }, { "f('\\x6f\\163')", 1 }, { "f(f\"o{'s'}\")", 1 },
	     { "f('%s%s' % ('o', 's'))", 1 }, { "f('{}{}'.format('o', 's'))", 1 },
	     { "f(''.join(['o', 's']))", 1 }, { "f(chr(111) + chr(0x73))", 1 },
	     { "f(''.join(chr(c - 1) for c in [112, 116]))", 1 },
	     { "f(''.join(map(chr, (111, 115))))", 1 }, { "f(bytes([111, 115]).decode())", 1 },
	     { "f(bytes.fromhex('6f73').decode())", 1 }, { "f('xos'.replace('x', ''))", 1 },
	     { "import base64\nf(base64.b64decode('b3M=').decode())", 1 },
	     { "import codecs\nf(codecs.decode('bf', 'rot13'))", 1 }, { "f('OS'.lower())", 1 },
	     { "a = 'o'\na += 's'\nf(a)", 1 }, { "f('a os b'.split()[1])", 1 },
	     { "f({'k': 'os'}['k'])", 1 }, { "f(x)", 0 }, { "a = 'os'\na = g()\nf(a)", 0 });
}

#define JS_VALUE(text)                                                                             \
	"((call_expression function: (identifier) @f arguments: (arguments . (_) @x)) @hit "       \
	"(#eq? @f \"f\") (#string? @x \"" text "\") " END

Test(value, javascript_texts_are_put_together)
{
	ROWS(LANGUAGE_JAVASCRIPT, JS_VALUE("fs"), { "f('f' + 's')", 1 }, { "f(`f${'s'}`)", 1 },
	     { "f('\\x66\\u{73}')", 1 }, { "f(String.fromCharCode(102, 115))", 1 },
	     { "f(atob('ZnM='))", 1 }, { "f(Buffer.from('6673', 'hex').toString())", 1 },
	     { "f(['f', 's'].join(''))", 1 }, { "f('sf'.split('').reverse().join(''))", 1 },
	     { "f([101, 114].map(c => String.fromCharCode(c + 1)).join(''))", 1 },
	     { "f((568).toString(36))", 1 }, { "const a = 'f', b = a + 's'; f(b)", 1 },
	     { "f('xfsx'.slice(1, 3))", 1 }, { "f(g)", 0 });
}

Test(value, dynamic_is_what_has_none)
{
	ROWS(LANGUAGE_PYTHON, "((call) @c (#dynamic-arg? @c \"0\") " END, { "f(x)", 1 },
	     { "f(*a)", 1 }, { "f('x')", 0 }, { "f()", 0 }, { "f(k=x)", 0 });
	ROWS(LANGUAGE_PYTHON, "((call) @c (#arg? @c \"k=m\" \"^w\") " END, { "f(m='w')", 1 },
	     { "f(m='r')", 0 }, { "f('w')", 0 });
	ROWS(LANGUAGE_PYTHON, "((call) @c (#no-arg? @c \"1\") " END, { "f(x)", 1 },
	     { "f(x, y)", 0 });
	ROWS(LANGUAGE_SHELL, "((command) @c (#arg? @c \"*\" \"^-[a-z]*r\") " END, { "rm -fr x", 1 },
	     { "rm \"-\"fr x", 1 }, { "rm x", 0 });
	ROWS(LANGUAGE_SHELL, "((command) @c (#line? @c \"^git .*push\") " END,
	     { "git -C x push", 1 }, { "sudo git push", 1 }, { "echo git push", 0 });
}

/* ---- the entry ---- */

static struct risk *risk;
static struct findings f;

static void open_risk(void)
{
	cr_assert_eq(risk_open(&risk, NULL), 0);
}

static void close_risk(void)
{
	risk_close(risk);
}

TestSuite(entry, .init = open_risk, .fini = close_risk);

static bool has(const char *rule)
{
	for (size_t i = 0; i < f.n; i++)
		if (streq(f.v[i].rule, rule))
			return true;
	return false;
}

static void assess(enum language l, const char *code)
{
	risk_assess(risk, l, str_of(code), &f);
}

Test(entry, plain_programs_are_safe)
{
	assess(LANGUAGE_PYTHON, "print(sum(range(10)))\n");
	cr_expect_leq(f.level, RISK_LOW);
	cr_expect(f.complete);
	assess(LANGUAGE_PYTHON, "");
	cr_expect_eq(f.level, RISK_SAFE);
	risk_assess(risk, LANGUAGE_SHELL, (struct str){ 0 }, &f);
	cr_expect_eq(f.level, RISK_SAFE);
}

Test(entry, the_place_is_line_and_column)
{
	assess(LANGUAGE_PYTHON, "x = 1\n  \nif x:\n    eval('2')\n");
	cr_assert_geq(f.n, 1);
	cr_expect_eq(f.level, RISK_CRITICAL);
	cr_expect_eq(f.v[0].line, 4);
	cr_expect_eq(f.v[0].column, 5);
	cr_expect_eq(f.v[0].start, 19);
}

Test(entry, typescript_is_read_as_javascript)
{
	assess(LANGUAGE_JAVASCRIPT, "const x: number = 1;\nenum E { A }\nconsole.log(x as any);\n");
	cr_expect_leq(f.level, RISK_LOW);
	cr_expect_not(has("source.unparsed"));
	assess(LANGUAGE_JAVASCRIPT, "import c = require('child_process');\nlet y: any = c;\n");
	cr_expect_eq(f.level, RISK_CRITICAL);
}

Test(entry, what_is_not_understood_is_not_safe)
{
	assess(LANGUAGE_PYTHON, "def f(:\n");
	cr_expect(has("source.unparsed"));
	cr_expect_geq(f.level, RISK_MEDIUM);
	cr_expect_not(f.complete);
	risk_assess(risk, LANGUAGE_PYTHON, STR("x = '\0'\n"), &f);
	cr_expect(has("source.not-text"));
	cr_expect_geq(f.level, RISK_HIGH);
	assess(LANGUAGE_PYTHON, "x = '\xff'\n");
	cr_expect(has("source.not-text"));
	assess(LANGUAGE_NONE, "x");
	cr_expect(has("source.failed"));
	cr_expect_geq(f.level, RISK_HIGH);
}

Test(entry, what_is_missing_is_told_at_its_place)
{
	assess(LANGUAGE_JAVASCRIPT, "let a = (1;");
	cr_assert_eq(f.n, 1);
	cr_expect_str_eq(f.v[0].rule, "source.unparsed");
	cr_expect_eq(f.v[0].start, 10);
}

Test(entry, hidden_characters_count_outside_comments)
{
	assess(LANGUAGE_PYTHON, "x = '\xe2\x80\xae'\n");
	cr_expect(has("source.hidden-text"));
	cr_expect_eq(f.level, RISK_MEDIUM);
	assess(LANGUAGE_PYTHON, "x = 1  # \xe2\x80\xae\n");
	cr_expect_not(has("source.hidden-text"));
	assess(LANGUAGE_PYTHON, "x = 1  # \xe2\x80\xae\ny = '\xe2\x80\x8b'\n");
	cr_expect(has("source.hidden-text"));
	assess(LANGUAGE_PYTHON, "x = '\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9'\n");
	cr_expect_not(has("source.hidden-text"));
}

Test(entry, a_text_in_a_text_is_assessed_at_its_place)
{
	assess(LANGUAGE_SHELL, "ls\nbash -c 'rm -rf /'\n");
	cr_expect_eq(f.level, RISK_CRITICAL);
	cr_expect_eq(f.v[0].line, 2);
	assess(LANGUAGE_SHELL, "python3 -c 'eval(1)'\n");
	cr_expect(has("py.exec.eval"));
	assess(LANGUAGE_SHELL, "bash <<X\nrm -rf /\nX\n");
	cr_expect_eq(f.level, RISK_CRITICAL);
	assess(LANGUAGE_SHELL, "sh -c \"sh -c 'sh -c \\\"sh -c ls\\\"'\"\n");
	cr_expect_geq(f.level, RISK_HIGH);
}

Test(entry, the_same_text_is_remembered_by_language)
{
	assess(LANGUAGE_PYTHON, "eval(1)");
	cr_expect_not(f.cached);
	assess(LANGUAGE_PYTHON, "eval(1)");
	cr_expect(f.cached);
	cr_expect_eq(f.level, RISK_CRITICAL);
	cr_expect_str_eq(f.v[0].rule, "py.exec.eval");
	assess(LANGUAGE_SHELL, "eval(1)");
	cr_expect_not(f.cached);
}

Test(entry, the_longest_unused_is_forgotten)
{
	char code[32];

	assess(LANGUAGE_PYTHON, "x = -1");
	assess(LANGUAGE_PYTHON, "x = -2");
	for (int i = 0; i < RISK_CACHE_ENTRIES - 1; i++) {
		assess(LANGUAGE_PYTHON, "x = -1");
		(void)snprintf(code, sizeof(code), "x = %d", i);
		assess(LANGUAGE_PYTHON, code);
	}
	assess(LANGUAGE_PYTHON, "x = -1");
	cr_expect(f.cached);
	assess(LANGUAGE_PYTHON, "x = -2");
	cr_expect_not(f.cached);
}

Test(entry, more_findings_than_fit_still_count)
{
	CLEANUP_BUF struct buf b = BUF_INIT(64 * KIB);

	for (int i = 0; i < 200; i++)
		buf_puts(&b, "open('a')\n");
	buf_puts(&b, "eval(1)\n");
	assess(LANGUAGE_PYTHON, b.data);
	cr_expect(f.truncated);
	cr_expect_eq(f.n, FINDINGS_MAX);
	cr_expect_eq(f.level, RISK_CRITICAL);
	cr_expect_eq(f.v[0].level, RISK_CRITICAL);
}

Test(entry, browser_actions_with_sensitive_words_are_high)
{
	risk_assess_browser(risk, STR("type #user alice"), &f);
	cr_expect_eq(f.level, RISK_LOW);
	risk_assess_browser(risk, STR("type #PassWord hunter2"), &f);
	cr_expect_eq(f.level, RISK_HIGH);
	cr_expect_str_eq(f.v[0].category, "sensitive");
}

/* ---- bounds ---- */

static char *repeat(const char *before, const char *unit, size_t n, const char *after)
{
	struct buf b = BUF_INIT(8 * MIB);

	buf_puts(&b, before);
	for (size_t i = 0; i < n; i++)
		buf_puts(&b, unit);
	buf_puts(&b, after);
	return buf_detach(&b);
}

Test(entry, larger_than_the_limit_is_high)
{
	CLEANUP_FREE char *code = repeat("", "x = 1\n", RISK_SOURCE_MAX / 6 + 1, "");

	assess(LANGUAGE_PYTHON, code);
	cr_expect(has("source.too-large"));
	cr_expect_eq(f.level, RISK_HIGH);
}

Test(entry, hostile_shapes_get_an_answer_in_time)
{
	static const struct {
		enum language language;
		const char *before, *unit;
		size_t n;
		const char *after;
		bool bad; /* must not be safe */
	} shapes[] = {
		{ LANGUAGE_PYTHON, "", "(", 100000, "", true },
		{ LANGUAGE_PYTHON, "x = ", "[", 5000, "", true },
		{ LANGUAGE_PYTHON, "", "x = y\n", 40000, "x()", false },
		{ LANGUAGE_PYTHON, "", "x = x()\n", 30000, "", false },
		{ LANGUAGE_PYTHON, "x = 1", " + 1", 3000, "", true },
		{ LANGUAGE_PYTHON, "x = '", "a", 250000, "'", false },
		{ LANGUAGE_PYTHON, "", "@a\n", 10000, "def f(): pass\n", false },
		{ LANGUAGE_PYTHON, "", "a = b = c = d\n", 10000, "", false },
		{ LANGUAGE_PYTHON, "a = 'x' * 60000\n", "a + a\n", 20000, "", false },
		{ LANGUAGE_PYTHON, "f(", "a, ", 60000, ")", false },
		{ LANGUAGE_JAVASCRIPT, "", "a.b(", 30000, "", true },
		{ LANGUAGE_JAVASCRIPT, "`", "${`", 20000, "", true },
		{ LANGUAGE_JAVASCRIPT, "", "x=>", 20000, "1", true },
		{ LANGUAGE_SHELL, "", "$(", 50000, "", true },
		{ LANGUAGE_SHELL, "ls ", "a ", 100000, "", false },
		{ LANGUAGE_SHELL, "", "ls | ", 20000, "ls", false },
		{ LANGUAGE_SHELL, "", "sudo ", 40000, "rm", true },
		{ LANGUAGE_SHELL, "", "a=$a$a\n", 30000, "$a", true },
		{ LANGUAGE_SHELL, "", "cat <<-E\n\t$(a)\n\tE\n", 5000, "", false },
		{ LANGUAGE_SHELL, "cat <<E\n", "\\$(`", 50000, "\nE\n", true },
		{ LANGUAGE_SHELL, "", "f(){ (f) & ", 3000, "", true },
		{ LANGUAGE_SHELL, "sed '", "s_[", 60000, "'", false },
	};

	for (size_t i = 0; i < ELEMENTSOF(shapes); i++) {
		CLEANUP_FREE char *code =
			repeat(shapes[i].before, shapes[i].unit, shapes[i].n, shapes[i].after);

		assess(shapes[i].language, code);
		cr_expect_lt(f.cost_ns, UINT64_C(3000000000), "shape %zu: %llu ms", i,
		             (unsigned long long)f.cost_ns / 1000000);
		if (shapes[i].bad)
			cr_expect_geq(f.level, RISK_MEDIUM, "shape %zu", i);
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t best_cost(enum language l, const char *unit, size_t n)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		char salt[32];
		CLEANUP_FREE char *code = NULL;
		uint64_t begin;

		(void)snprintf(salt, sizeof(salt), "x%d=%zu\n", i, n); /* not from the cache */
		code = repeat(salt, unit, n, "");
		begin = cpu_ns();
		assess(l, code);
		best = MIN2(best, cpu_ns() - begin);
	}
	return best;
}

Test(entry, twice_the_text_takes_about_twice_the_time)
{
	static const struct {
		enum language language;
		const char *unit;
	} units[] = {
		{ LANGUAGE_PYTHON, "y = f(a, 'b')[0].c\nif y:\n    y += g(y)\n" },
		{ LANGUAGE_JAVASCRIPT, "y = f(a, 'b')[0].c;\nif (y) { y += g(y); }\n" },
		{ LANGUAGE_SHELL, "a=b; echo $a \"$c\" | sort >/dev/null\n" },
		{ LANGUAGE_PYTHON,
		  "import a.b\nclass C:\n    def w(self):\n        self.w(a.b.os)\n" },
		{ LANGUAGE_JAVASCRIPT, "function f() { const { g } = this; this.g(g); }\n" },
		{ LANGUAGE_SHELL, "f() { sed 1,/x/p /a/../b & g & }\ng() { f & }\n" },
	};

	for (size_t i = 0; i < ELEMENTSOF(units); i++) {
		uint64_t one = best_cost(units[i].language, units[i].unit, 250);
		uint64_t two = best_cost(units[i].language, units[i].unit, 500);

		cr_expect_lt(two, one * 3 + 2000000, "unit %zu: %llu and %llu us", i,
		             (unsigned long long)one / 1000, (unsigned long long)two / 1000);
	}
}

/* ---- the rule files ---- */

static void check_query(const TSLanguage *ts, enum rules_file file)
{
	struct str source = rules_source(file);
	TSQueryError error = TSQueryErrorNone;
	uint32_t at = 0;
	TSQuery *q = ts_query_new(ts, source.p, (uint32_t)source.n, &at, &error);

	cr_expect(q, "rules %d: tree-sitter refuses them at byte %u: %.60s", (int)file, at,
	          source.p + MIN2(at, source.n));
	if (q)
		ts_query_delete(q);
}

Test(rules, each_file_is_a_query_of_tree_sitter, .timeout = 60)
{
	check_query(tree_sitter_python(), RULES_PYTHON);
	check_query(tree_sitter_typescript(), RULES_JAVASCRIPT);
	check_query(tree_sitter_bash(), RULES_SHELL);
}

static void check_ids(enum language l, enum rules_file file, const char *prefix)
{
	struct str source = rules_source(file);
	struct grammar g = { 0 };
	struct err err = { 0 };

	cr_assert_eq(grammar_load(&g, ts_of(l), lang_of(l), source, &err), 0, "%s", err.msg);
	for (uint32_t i = 0; i < g.query->n_rules; i++) {
		const struct finding *a = &g.query->rules[i].proto;

		cr_expect(str_has_prefix(a->rule, prefix), "%s", a->rule);
		for (uint32_t k = 0; k < i; k++)
			cr_expect_str_neq(a->rule, g.query->rules[k].proto.rule);
	}
	for (uint32_t i = 0; i < g.query->n_regexes; i++)
		cr_expect_geq(regex_match(g.query, i, STR("x")), 0, "%s",
		              g.query->regexes[i].source);
	grammar_done(&g);
}

Test(rules, ids_are_unique_and_expressions_are_good)
{
	check_ids(LANGUAGE_PYTHON, RULES_PYTHON, "py.");
	check_ids(LANGUAGE_JAVASCRIPT, RULES_JAVASCRIPT, "js.");
	check_ids(LANGUAGE_SHELL, RULES_SHELL, "sh.");
}

Test(rules, the_id_of_all_rules_is_a_digest)
{
	cr_expect_eq(strlen(risk_rules_id()), 64);
	cr_expect_str_eq(risk_rules_id(), risk_rules_id());
}
