/* SPDX-License-Identifier: Apache-2.0 */
/* brig policy: check, show; explain and test are in files of their own. */
#include "cli/cmd_policy.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/load.h"

static const char help[] =
	"usage: brig policy check [--strict] POLICY...\n"
	"       brig policy explain [OPTIONS] FILE | - | -c CODE\n"
	"       brig policy test FILE...\n"
	"       brig policy show [NAME]\n"
	"\n"
	"check    reads policies, says what is wrong with them and warns of what is hardly meant;\n"
	"         with --strict a warning fails, too\n"
	"explain  assesses code and shows how each rule of a policy takes it; nothing is run\n"
	"test     reads cases (code or findings, and the verdict they should get) and tries them\n"
	"show     the text of a built-in policy, to start an own one from; without NAME their "
	"names\n"
	"\n"
	"POLICY is the name of a built-in (strict, permissive) or the path of a file.\n"
	"\n"
	"Options of explain:\n"
	"  -p, --policy POLICY  the policy (default: $BRIG_POLICY, or permissive)\n"
	"  -l, --lang LANG      python, javascript or shell (default: by the file's name)\n"
	"      --network N, --level L, --tier T, --tool NAME, --action A\n"
	"                       what the request asks for; --tool is repeatable\n"
	"      --caller C       who asks (default: as brig run says it)\n"
	"      --label L        of the session; repeatable\n"
	"      --json           one JSON object\n"
	"\n"
	"Exit status: 0; 1 when a policy, a case or an input is wrong; 2 for wrong usage.\n";

/* ---- shared ---- */

int policy_complain(const struct err *err)
{
	(void)fprintf(stderr, "%s\n", err->msg);
	if (*err->remedy)
		(void)fprintf(stderr, "      %s\n", err->remedy);
	return POLICY_EXIT_WRONG;
}

int policy_usage(const char *what, const char *arg)
{
	(void)fprintf(stderr, "brig policy: %s: %.80s\ntry: brig policy --help\n", what, arg);
	return POLICY_EXIT_USAGE;
}

int policy_read_input(const char *path, uint64_t max, struct arena *a, struct str *ret,
                      struct err *err)
{
	if (streq(path, "-"))
		return read_all(STDIN_FILENO, max, "standard input", a, ret, err);
	return read_path(path, max, a, ret, NULL, err);
}

int policy_write(const struct buf *out, int status)
{
	int r = out->error ? out->error : write_all(STDOUT_FILENO, out->data, out->len);

	if (r >= 0)
		return status;
	(void)fprintf(stderr, "brig policy: cannot write the answer: %s\n", strerror(-r));
	return POLICY_EXIT_BROKEN;
}

/* ---- check ---- */

struct check {
	const char *path;
	size_t warnings;
};

static void warn(void *data, uint32_t line, const char *rule, const char *what)
{
	struct check *c = data;

	c->warnings++;
	(void)printf("%s:%u: warning: %s: %s\n", c->path, line, rule, what);
}

/* Whoever can write the file decides what runs. */
static void check_mode(struct check *c)
{
	struct stat st;

	if (policy_builtin_text(c->path).p || stat(c->path, &st) < 0)
		return;
	if (st.st_mode & S_IWOTH)
		warn(c, 1, "file", "everyone on this host can write it");
}

static int check_one(const char *path, bool strict)
{
	struct check c = { .path = path };
	struct policy *p = NULL;
	struct err err = { 0 };

	if (policy_load(path, &p, &err) < 0)
		return policy_complain(&err);
	check_mode(&c);
	policy_lint(p, warn, &c);
	(void)printf("%s: ok: policy %s, %zu rules, %zu warnings, sha256 %s\n", path,
	             policy_name(p), policy_n_rules(p), c.warnings, policy_digest(p));
	policy_free(p);
	return strict && c.warnings ? POLICY_EXIT_WRONG : POLICY_EXIT_OK;
}

static int check_main(int argc, char **argv)
{
	int status = POLICY_EXIT_OK;
	bool strict = false;
	int first = 1;

	if (argc > 1 && streq(argv[1], "--strict")) {
		strict = true;
		first++;
	}
	if (first >= argc)
		return policy_usage("give a policy", "check");
	for (int i = first; i < argc; i++) {
		if (argv[i][0] == '-')
			return policy_usage("not an option", argv[i]);
		if (check_one(argv[i], strict) != POLICY_EXIT_OK)
			status = POLICY_EXIT_WRONG;
	}
	return status;
}

/* ---- show ---- */

static int show_main(int argc, char **argv)
{
	CLEANUP_BUF struct buf out = BUF_INIT(POLICY_FILE_MAX);
	struct str text;

	if (argc > 2)
		return policy_usage("one name is enough", argv[2]);
	if (argc == 2) {
		text = policy_builtin_text(argv[1]);
		if (!text.p)
			return policy_usage("no built-in policy", argv[1]);
		buf_put(&out, text.p, text.n);
		return policy_write(&out, POLICY_EXIT_OK);
	}
	for (size_t i = 0; policy_builtin_name(i); i++)
		buf_printf(&out, "%s\n", policy_builtin_name(i));
	return policy_write(&out, POLICY_EXIT_OK);
}

int cmd_policy(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = {
		{ "check", check_main },
		{ "explain", policy_explain_main },
		{ "test", policy_test_main },
		{ "show", show_main },
	};

	if (argc < 2)
		return policy_usage("say what to do", "check, explain, test or show");
	for (int i = 1; i < argc && !streq(argv[i], "-c"); i++) {
		if (streq(argv[i], "--help") || streq(argv[i], "-h")) {
			(void)fputs(help, stdout);
			return POLICY_EXIT_OK;
		}
	}
	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		if (streq(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	return policy_usage("it is one of check, explain, test, show; not", argv[1]);
}
