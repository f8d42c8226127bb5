/* SPDX-License-Identifier: Apache-2.0 */
/* brig risk: what the rules say about a source text, without running it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "risk/risk.h"

#define INPUT_MAX   (1 * MIB)
#define OUTPUT_MAX  (256 * KIB)
#define EXCERPT_MAX 100 /* bytes of a line that are shown */

#define EXIT_USAGE  2
#define EXIT_BROKEN 125

static const char help[] =
	"usage: brig risk [OPTIONS] FILE|-|-c CODE\n"
	"\n"
	"Says what a program would do, without running it: a level (safe, low, medium, high,\n"
	"critical) and the places it comes from.\n"
	"\n"
	"  -l, --lang LANGUAGE  python, javascript (also TypeScript) or shell; by default from "
	"the\n"
	"                       name of the file, else python\n"
	"  -c CODE              the program itself, instead of a file\n"
	"  --browser            the text is a browser action and its parameters\n"
	"  --fail-at LEVEL      exit status 1 when the level is this or higher\n"
	"  --json               one JSON object\n"
	"  --check-rules        only read the rules of all languages\n"
	"  --help               this text\n"
	"\n"
	"Exit status: 0, or 1 with --fail-at, 2 wrong usage, 125 the file cannot be read.\n";

struct options {
	enum language language;
	const char *code, *file;
	enum risk_level fail_at; /* RISK_UNKNOWN: never */
	bool json, browser, check;
};

static int usage(const char *what, const char *which)
{
	(void)fprintf(stderr, "brig risk: %s%s%.60s%s\n           see \"brig risk --help\"\n", what,
	              which ? " \"" : "", which ? which : "", which ? "\"" : "");
	return EXIT_USAGE;
}

static bool language_of(const char *name, enum language *ret)
{
	static const struct {
		const char *name;
		enum language language;
	} names[] = {
		{ "python", LANGUAGE_PYTHON },
		{ "py", LANGUAGE_PYTHON },
		{ "javascript", LANGUAGE_JAVASCRIPT },
		{ "js", LANGUAGE_JAVASCRIPT },
		{ "mjs", LANGUAGE_JAVASCRIPT },
		{ "cjs", LANGUAGE_JAVASCRIPT },
		{ "typescript", LANGUAGE_JAVASCRIPT },
		{ "ts", LANGUAGE_JAVASCRIPT },
		{ "shell", LANGUAGE_SHELL },
		{ "sh", LANGUAGE_SHELL },
		{ "bash", LANGUAGE_SHELL },
	};

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		if (streq(name, names[i].name)) {
			*ret = names[i].language;
			return true;
		}
	}
	return false;
}

static int read_all(const char *path, struct buf *out)
{
	CLEANUP_FD int opened = FD_NONE;
	int fd = STDIN_FILENO;
	char block[8192];

	if (!streq(path, "-")) {
		opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (opened < 0)
			return -errno;
		fd = opened;
	}
	for (;;) {
		ssize_t n = read(fd, block, sizeof(block));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return buf_finish(out);
		buf_put(out, block, (size_t)n);
		if (buf_finish(out) < 0)
			return buf_finish(out);
	}
}

/* ---- output ---- */

/* Nothing of the source may speak to the terminal. */
static void put_escaped(struct buf *out, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c == '\t')
			buf_putc(out, ' ');
		else if (c < 0x20 || c >= 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_putc(out, (char)c);
	}
}

static void put_excerpt(struct buf *out, struct str code, const struct finding *f)
{
	const char *line, *end;

	if (!code.p || f->start > code.n || f->column == 0 || f->column - 1 > f->start)
		return;
	line = code.p + f->start - (f->column - 1);
	end = memchr(line, '\n', code.n - (size_t)(line - code.p));
	if (!end)
		end = code.p + code.n;
	if (f->column > EXCERPT_MAX) /* a long line: from the place on */
		line = code.p + f->start;
	buf_puts(out, "    | ");
	put_escaped(out, line, MIN2((size_t)(end - line), EXCERPT_MAX));
	buf_puts(out, (size_t)(end - line) > EXCERPT_MAX ? " ...\n" : "\n");
}

static void put_text(struct buf *out, const struct findings *f, struct str code)
{
	buf_printf(out, "%s", risk_level_name(f->level));
	if (!f->complete)
		buf_printf(out, " (%s)", f->why);
	buf_puts(out, "\n");
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->v[i];

		buf_printf(out, "  %-8s %s  %" PRIu32 ":%" PRIu32 "  %s\n",
		           risk_level_name(one->level), one->rule, one->line, one->column,
		           one->message);
		put_excerpt(out, code, one);
	}
	if (f->truncated)
		buf_puts(out, "  ... and more\n");
}

static int say(const struct findings *f, struct str code, const struct options *o)
{
	CLEANUP_BUF struct buf out = BUF_INIT(OUTPUT_MAX);

	if (o->json) {
		findings_to_json(f, &out);
		buf_putc(&out, '\n');
	} else {
		put_text(&out, f, code);
	}
	if (buf_finish(&out) < 0) {
		(void)fprintf(stderr, "brig risk: the answer could not be written\n");
		return EXIT_BROKEN;
	}
	(void)fwrite(out.data, 1, out.len, stdout); /* main() looks whether it arrived */
	return o->fail_at != RISK_UNKNOWN && f->level >= o->fail_at ? 1 : 0;
}

static int assess(const struct options *o, struct str code)
{
	CLEANUP_FREE struct findings *f = calloc(1, sizeof(*f));
	struct err err = { 0 };
	struct risk *r = NULL;
	int status;

	if (!f || risk_open(&r, &err) < 0) {
		(void)fprintf(stderr, "brig risk: out of memory\n");
		return EXIT_BROKEN;
	}
	if (o->check) {
		status = risk_check_rules(r, &err) < 0 ? EXIT_BROKEN : 0;
		if (status)
			(void)fprintf(stderr, "brig risk: %s\n", err.msg);
	} else {
		if (o->browser)
			risk_assess_browser(r, code, f);
		else
			risk_assess(r, o->language, code, f);
		status = say(f, code, o);
	}
	risk_close(r);
	return status;
}

/* ---- options ---- */

static int read_options(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "lang", required_argument, NULL, 'l' },
		{ "json", no_argument, NULL, 'j' },
		{ "fail-at", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ "browser", no_argument, NULL, 'b' },
		{ "check-rules", no_argument, NULL, 'k' },
		{ 0 },
	};
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":l:c:h", known, NULL)) != -1) {
		if (c == 'l' && !language_of(optarg, &o->language))
			return usage("no such language", optarg);
		if (c == 'f' && risk_level_from_name(optarg, &o->fail_at) < 0)
			return usage("no such level", optarg);
		if (c == '?' || c == ':')
			return usage(c == '?' ? "no such option" : "an argument is missing for",
			             argv[optind - 1]);
		if (c == 'h') {
			(void)fputs(help, stdout);
			return -1;
		}
		o->code = c == 'c' ? optarg : o->code;
		o->json = o->json || c == 'j';
		o->browser = o->browser || c == 'b';
		o->check = o->check || c == 'k';
	}
	if (o->check)
		return 0;
	if ((o->code != NULL) + (argc - optind) != 1)
		return usage("one program is needed: a file, \"-\" or -c CODE", NULL);
	o->file = o->code ? NULL : argv[optind];
	return 0;
}

int cmd_risk(int argc, char **argv)
{
	CLEANUP_BUF struct buf in = BUF_INIT(INPUT_MAX);
	struct options o = { 0 };
	const char *dot;
	int r = read_options(argc, argv, &o);

	if (r)
		return r < 0 ? 0 : r;
	dot = o.file ? strrchr(o.file, '.') : NULL;
	if (o.language == LANGUAGE_NONE && (!dot || !language_of(dot + 1, &o.language)))
		o.language = LANGUAGE_PYTHON;
	if (o.code || o.check)
		return assess(&o, str_of(o.code));
	if (!o.file)
		return usage("one program is needed: a file, \"-\" or -c CODE", NULL);
	r = read_all(o.file, &in);
	if (r == -EFBIG)
		return usage("larger than 1 MiB:", o.file);
	if (r < 0) {
		(void)fprintf(stderr, "brig risk: %.200s: %s\n", o.file, strerror(-r));
		return EXIT_BROKEN;
	}
	return assess(&o, (struct str){ in.data, in.len });
}
