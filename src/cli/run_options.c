/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"

const char run_help[] =
	"Usage: brig run [OPTIONS] LANGUAGE -c CODE [-- ARGS...]\n"
	"       brig run [OPTIONS] FILE [-- ARGS...]\n"
	"       brig run [OPTIONS] --lang LANGUAGE - [-- ARGS...]     (code on standard input)\n"
	"\n"
	"Runs code in a box that can touch nothing of this machine, and gives its output back.\n"
	"LANGUAGE is python, javascript or shell.\n"
	"\n"
	"  -c, --code CODE      the code itself\n"
	"      --lang LANGUAGE  when the file's name does not tell\n"
	"      --json           one JSON object on standard output: the whole result\n"
	"      --receipt        the receipt as JSON on standard error, after the run\n"
	"      --warm           make a box first that waits, then run in it, as a pool does\n"
	"      --timeout TIME   wall time, e.g. 500ms, 5s, 2m              (30s)\n"
	"      --memory SIZE    memory incl. files in /tmp and /workspace  (512M)\n"
	"      --cpus N         share of the processors, e.g. 0.5          (1)\n"
	"      --cpu-time TIME  processor time of all processes together   (300s)\n"
	"      --pids N         processes and threads                      (100)\n"
	"      --open-files N   open files of one process                  (1024)\n"
	"      --file-size SIZE size of one file                           (1G)\n"
	"      --disk SIZE      all writable places together               (1G)\n"
	"      --inodes N       files and directories written              (65536)\n"
	"      --output SIZE    kept of stdout, and of stderr              (10M)\n"
	"      --env NAME=VALUE environment of the code (repeatable)\n"
	"      --stdin FILE     standard input of the code; - for brig's own\n"
	"      --file HOST:BOX  place a file below /workspace (repeatable)\n"
	"      --out BOX:HOST   fetch a file after the run (repeatable)\n"
	"      --network WHAT   loopback (the box's own) or none           (loopback)\n"
	"      --level LEVEL    strict, standard or degraded-ok            (standard)\n"
	"      --tier TIER      auto, jail, docker or aio                  (auto)\n"
	"      --session ID     the session that the run belongs to\n" FLOW_HELP CLIENT_HELP
	"  -h, --help           this text\n"
	"\n"
	"Exit status: the program's; 128+N when signal N ended it; 124 timed out, 125 brig "
	"failed,\n"
	"126 refused, 130 cancelled, 137 out of memory or killed, 2 wrong usage.\n"
	"\n"
	"Examples:\n"
	"  brig run python -c 'print(1 + 1)'\n"
	"  brig run script.js --timeout 5s -- first second\n"
	"  brig run shell -c 'sort data > sorted' --file ./data.txt:data --out "
	"sorted:./sorted.txt\n";

struct parser {
	int argc;
	char **argv;
	int at;
	struct arena *arena;
	struct run_options *o;
	const char *lang, *positional;
	struct err *err;
};

static int usage(struct parser *p, const char *fmt, const char *word)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%.80s: %.60s", word, fmt);
	(void)err_set(p->err, ERR_INVALID, 0, "%s", text);
	return err_remedy(p->err, -EINVAL, "see \"brig run --help\"");
}

static int bad_word(struct parser *p, const char *option, const char *value, const char *known)
{
	(void)err_set(p->err, ERR_INVALID, 0, "%s: \"%.40s\" is not known", option, value);
	return err_remedy(p->err, -EINVAL, "it is one of %s", known);
}

/* "A:B" split at the last colon. */
static int split_pair(struct parser *p, const char *option, const char *text, const char **ret_a,
                      const char **ret_b)
{
	const char *colon = strrchr(text, ':');

	if (!colon || colon == text || !colon[1])
		return usage(p, "needs two names with a colon between them", option);
	*ret_a = arena_dup(p->arena, text, (size_t)(colon - text));
	*ret_b = colon + 1;
	if (*ret_a)
		return 0;
	(void)err_set(p->err, ERR_LIMIT, ENOMEM, "memory");
	return -ENOMEM;
}

/* "/workspace/x" and "x" are the same place; anything else absolute is not ours to write. */
static int box_path(struct parser *p, const char **path)
{
	static const char prefix[] = "/workspace/";

	if (str_has_prefix(*path, prefix))
		*path += sizeof(prefix) - 1;
	return box_path_check(*path, p->err);
}

static int on_file(struct parser *p, const char *value)
{
	struct run_pair *pair = &p->o->files[p->o->n_files];
	int r;

	if (p->o->n_files == RUN_PAIRS_MAX)
		return usage(p, "given too often", "--file");
	r = split_pair(p, "--file", value, &pair->host, &pair->box);
	if (r >= 0 && box_path(p, &pair->box) < 0)
		r = err_wrap(p->err, -EINVAL, "--file");
	if (r >= 0)
		p->o->n_files++;
	return r;
}

static int on_out(struct parser *p, const char *value)
{
	struct run_pair *pair = &p->o->outs[p->o->n_outs];
	int r;

	if (p->o->n_outs == RUN_PAIRS_MAX)
		return usage(p, "given too often", "--out");
	r = split_pair(p, "--out", value, &pair->box, &pair->host);
	if (r >= 0 && box_path(p, &pair->box) < 0)
		r = err_wrap(p->err, -EINVAL, "--out");
	if (r >= 0)
		p->o->n_outs++;
	return r;
}

static int on_env(struct parser *p, const char *value)
{
	struct request *req = &p->o->req;
	int r = env_check(value, p->err);

	if (r < 0)
		return r;
	if (req->n_env == REQUEST_ENV_MAX)
		return usage(p, "given too often", "--env");
	req->env[req->n_env++] = value;
	return 0;
}

static int on_level(struct parser *p, const char *value)
{
	if (level_from_name(value, &p->o->req.level) < 0)
		return bad_word(p, "--level", value, "strict, standard or degraded-ok");
	return 0;
}

static int on_tier(struct parser *p, const char *value)
{
	if (tier_from_name(value, &p->o->req.tier) < 0)
		return bad_word(p, "--tier", value, "auto, jail, docker or aio");
	return 0;
}

static int on_session(struct parser *p, const char *value)
{
	p->o->req.session_id = value;
	return 0;
}

static int on_network(struct parser *p, const char *value)
{
	if (network_from_name(value, &p->o->req.network) < 0)
		return bad_word(p, "--network", value, "loopback or none");
	return 0;
}

static int on_code(struct parser *p, const char *value)
{
	p->o->code = value;
	return 0;
}

static int on_lang(struct parser *p, const char *value)
{
	p->lang = value;
	return 0;
}

static int on_stdin(struct parser *p, const char *value)
{
	p->o->stdin_path = value;
	return 0;
}

static int on_host(struct parser *p, const char *value)
{
	p->o->host = value;
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct parser *p, const char *value);
} valued[] = {
	{ "-c", on_code },     { "--code", on_code },       { "--lang", on_lang },
	{ "--env", on_env },   { "--stdin", on_stdin },     { "--file", on_file },
	{ "--out", on_out },   { "--level", on_level },     { "--network", on_network },
	{ "--tier", on_tier }, { "--session", on_session }, { "--host", on_host },
};

static bool is_limit(const char *name)
{
	for (size_t i = 0; i < limit_infos_n; i++)
		if (streq(limit_infos[i].option, name))
			return true;
	return false;
}

/* The option's value: after "=", or the next word. */
static int take_value(struct parser *p, const char *word, const char **ret)
{
	const char *eq = str_has_prefix(word, "--") ? strchr(word, '=') : NULL;

	if (eq)
		*ret = eq + 1;
	else if (p->at + 1 < p->argc)
		*ret = p->argv[++p->at];
	else
		return usage(p, "needs a value", word);
	return 0;
}

static bool *flag_of(struct run_options *o, const char *name)
{
	if (streq(name, "--json"))
		return &o->json;
	if (streq(name, "--receipt"))
		return &o->receipt;
	if (streq(name, "--warm"))
		return &o->warm;
	if (streq(name, "--help") || streq(name, "-h"))
		return &o->help;
	return NULL;
}

static int parse_flow_option(struct parser *p, const char *word, const char *name)
{
	const char *eq = strchr(word, '=');
	const char *value = eq ? eq + 1 : p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
	bool used;
	int r = flow_option(&p->o->flow, name, value, &used, p->err);

	if (r == 0)
		return usage(p, "no such option", word);
	if (r > 0 && eq && !used)
		return usage(p, "takes no value", word);
	p->at += r > 0 && used && !eq;
	return r < 0 ? r : 0;
}

static int parse_option(struct parser *p, const char *word)
{
	size_t n = str_has_prefix(word, "--") ? strcspn(word, "=") : strlen(word);
	char name[40];
	const char *value = NULL;
	bool *flag;
	int r;

	(void)snprintf(name, sizeof(name), "%.*s", n < sizeof(name) ? (int)n : 0, word);
	flag = flag_of(p->o, name);
	if (flag && word[n])
		return usage(p, "takes no value", word);
	if (flag)
		return *flag = true, 0;
	if (str_has_prefix(name, "--") && is_limit(name + 2)) {
		r = take_value(p, word, &value);
		return r < 0 ? r : limits_set_text(&p->o->req.limits, name + 2, value, p->err);
	}
	for (size_t i = 0; i < ELEMENTSOF(valued); i++) {
		if (!streq(name, valued[i].name))
			continue;
		r = take_value(p, word, &value);
		return r < 0 ? r : valued[i].take(p, value);
	}
	return parse_flow_option(p, word, name);
}

static int parse_words(struct parser *p)
{
	for (p->at = 1; p->at < p->argc; p->at++) {
		const char *word = p->argv[p->at];
		int r = 0;

		if (streq(word, "--")) {
			p->at++;
			break;
		}
		if (word[0] == '-' && word[1])
			r = parse_option(p, word);
		else if (!p->positional)
			p->positional = word;
		else
			r = usage(p, "one word too many (arguments of the code come after --)",
			          word);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_args(struct parser *p)
{
	struct request *req = &p->o->req;

	for (; p->at < p->argc; p->at++) {
		if (req->n_args == REQUEST_ARGS_MAX) {
			(void)err_set(p->err, ERR_INVALID, 0, "more than %d arguments",
			              REQUEST_ARGS_MAX);
			return err_remedy(p->err, -E2BIG, "pass them in a file: --file or --stdin");
		}
		req->args[req->n_args++] = p->argv[p->at];
	}
	return 0;
}

static int set_language(struct parser *p, const char *name)
{
	if (language_from_name(name, &p->o->req.language) >= 0)
		return 0;
	(void)err_set(p->err, ERR_INVALID, 0, "unknown language \"%.40s\"", name);
	return err_remedy(p->err, -EINVAL, "the known ones are python, javascript and shell");
}

static int decide_source(struct parser *p)
{
	struct run_options *o = p->o;
	enum language known;

	if (o->code && p->positional && p->lang)
		return usage(p, "-c and --lang are given: what is this word?", p->positional);
	if (o->code && !p->positional && !p->lang)
		return usage(p, "needs a language: brig run python -c CODE", "-c");
	if (o->code)
		return set_language(p, p->lang ? p->lang : p->positional);
	if (!p->positional)
		return usage(p, "what? give a file, - or LANGUAGE -c CODE", "brig run");
	o->path = p->positional;
	if (p->lang)
		return set_language(p, p->lang);
	o->req.language = language_from_path(o->path);
	if (o->req.language != LANGUAGE_NONE)
		return 0;
	(void)err_set(p->err, ERR_INVALID, 0, "the language of \"%.80s\" is not clear", o->path);
	if (language_from_name(o->path, &known) >= 0)
		return err_remedy(p->err, -EINVAL, "to run code: brig run %.20s -c CODE", o->path);
	return err_remedy(p->err, -EINVAL, "say --lang python, javascript or shell");
}

int run_options_parse(int argc, char **argv, struct arena *a, struct run_options *ret,
                      struct err *err)
{
	struct parser p = { .argc = argc, .argv = argv, .arena = a, .o = ret, .err = err };
	int r;

	memset(ret, 0, sizeof(*ret));
	request_init(&ret->req);
	ret->req.env = arena_array(a, REQUEST_ENV_MAX, sizeof(char *));
	ret->req.args = arena_array(a, REQUEST_ARGS_MAX, sizeof(char *));
	if (!ret->req.env || !ret->req.args)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory");
	r = parse_words(&p);
	/* The word that is wrong may stand before it: the error comes in the form asked for. */
	for (int i = 1; r < 0 && i < argc && !streq(argv[i], "--"); i++)
		ret->json |= streq(argv[i], "--json");
	if (r < 0 || ret->help)
		return r;
	r = take_args(&p);
	return r < 0 ? r : decide_source(&p);
}
