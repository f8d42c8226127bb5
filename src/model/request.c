/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"

#define PATH_PART_MAX 255 /* NAME_MAX of every Linux file system */

static const struct {
	const char *name, *script;
} languages[LANGUAGE_COUNT] = {
	[LANGUAGE_NONE] = { "none", NULL },
	[LANGUAGE_PYTHON] = { "python", "main.py" },
	[LANGUAGE_JAVASCRIPT] = { "javascript", "main.js" },
	[LANGUAGE_SHELL] = { "shell", "main.sh" },
};

#define LANGUAGES_KNOWN "python, javascript, shell"

struct alias {
	const char *name;
	int value;
};

static const struct alias language_aliases[] = {
	{ "python", LANGUAGE_PYTHON },     { "python3", LANGUAGE_PYTHON },
	{ "py", LANGUAGE_PYTHON },         { "javascript", LANGUAGE_JAVASCRIPT },
	{ "js", LANGUAGE_JAVASCRIPT },     { "node", LANGUAGE_JAVASCRIPT },
	{ "nodejs", LANGUAGE_JAVASCRIPT }, { "shell", LANGUAGE_SHELL },
	{ "sh", LANGUAGE_SHELL },          { "bash", LANGUAGE_SHELL },
};

static const struct alias extensions[] = {
	{ "py", LANGUAGE_PYTHON },      { "js", LANGUAGE_JAVASCRIPT },
	{ "mjs", LANGUAGE_JAVASCRIPT }, { "cjs", LANGUAGE_JAVASCRIPT },
	{ "sh", LANGUAGE_SHELL },       { "bash", LANGUAGE_SHELL },
};

static const struct alias action_aliases[] = {
	[ACTION_CODE] = { "code_execution", ACTION_CODE },
	[ACTION_BROWSE] = { "web_browsing", ACTION_BROWSE },
	[ACTION_FILE] = { "file_operation", ACTION_FILE },
};

static const struct alias network_aliases[] = {
	[NETWORK_NONE] = { "none", NETWORK_NONE },
	[NETWORK_LOOPBACK] = { "loopback", NETWORK_LOOPBACK },
};

/* The names proper come first, at their own index. */
static const struct alias tier_aliases[] = {
	[TIER_AUTO] = { "auto", TIER_AUTO },
	[TIER_JAIL] = { "jail", TIER_JAIL },
	[TIER_DOCKER] = { "docker", TIER_DOCKER },
	[TIER_AIO] = { "aio", TIER_AIO },
	[TIER_COUNT] = { "subprocess", TIER_JAIL },
	{ "docker_simple", TIER_DOCKER },
	{ "aio_sandbox", TIER_AIO },
};

/*
 * Names that change how brig's own programs in the box (init, the interpreters' start-up) or the
 * dynamic loader behave, or that promise what a box does not give. The code may set any of them
 * for its own children.
 */
enum match {
	MATCH_NAME,
	MATCH_PREFIX,
	MATCH_SUFFIX_NOCASE,
};

#define IN_CODE "set it inside the code, for the processes that need it"

static const struct {
	const char *text;
	enum match match;
	const char *reason, *remedy;
} reserved_env[] = {
	{ "LD_", MATCH_PREFIX, "steers the dynamic loader", IN_CODE },
	{ "GLIBC_TUNABLES", MATCH_NAME, "steers the C library", IN_CODE },
	{ "MALLOC_", MATCH_PREFIX, "steers the C library's allocator", IN_CODE },
	{ "GCONV_PATH", MATCH_NAME, "makes the C library load code", IN_CODE },
	{ "LOCPATH", MATCH_NAME, "makes the C library load locale files", IN_CODE },
	{ "PYTHONSTARTUP", MATCH_NAME, "makes Python run a file first",
	  "put that code at the start of the code" },
	{ "PYTHONHOME", MATCH_NAME, "moves Python's library", "the library's place is fixed" },
	{ "PYTHONPATH", MATCH_NAME, "makes Python load other modules first",
	  "use sys.path.insert(0, ...) in the code" },
	{ "NODE_OPTIONS", MATCH_NAME, "gives options to Node.js",
	  "set them inside the code (v8.setFlagsFromString, process.*)" },
	{ "BASH_ENV", MATCH_NAME, "makes the shell run a file first", "use . FILE in the code" },
	{ "ENV", MATCH_NAME, "makes the shell run a file first", "use . FILE in the code" },
	{ "IFS", MATCH_NAME, "changes how shells split words", "set IFS in the code" },
	{ "PROMPT_COMMAND", MATCH_NAME, "makes the shell run a command", IN_CODE },
	{ "SHELLOPTS", MATCH_NAME, "sets options of the shell", "use set -o in the code" },
	{ "BASHOPTS", MATCH_NAME, "sets options of the shell", "use shopt in the code" },
	{ "PS4", MATCH_NAME, "is expanded by the shell when tracing", "set PS4 in the code" },
	{ "BASH_FUNC_", MATCH_PREFIX, "defines a function of the shell",
	  "define the function in the code" },
	{ "_PROXY", MATCH_SUFFIX_NOCASE, "names a proxy, and a box has no way out",
	  "leave it out: the box reaches only itself" },
};

static int from_aliases(const struct alias *list, size_t n, const char *name, int *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (streq(list[i].name, name)) {
			*ret = list[i].value;
			return 0;
		}
	}
	return -EINVAL;
}

const char *action_name(enum action a)
{
	return (unsigned)a < ACTION_COUNT ? action_aliases[a].name : "none";
}

int action_from_name(const char *name, enum action *ret)
{
	int v, r = from_aliases(action_aliases, ELEMENTSOF(action_aliases), name, &v);

	if (r == 0)
		*ret = (enum action)v;
	return r;
}

const char *language_name(enum language l)
{
	return (unsigned)l < LANGUAGE_COUNT ? languages[l].name : "none";
}

int language_from_name(const char *name, enum language *ret)
{
	int v, r = from_aliases(language_aliases, ELEMENTSOF(language_aliases), name, &v);

	if (r == 0)
		*ret = (enum language)v;
	return r;
}

enum language language_from_path(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *dot = strrchr(base, '.');
	int v;

	if (!dot || dot == base)
		return LANGUAGE_NONE;
	if (from_aliases(extensions, ELEMENTSOF(extensions), dot + 1, &v) < 0)
		return LANGUAGE_NONE;
	return (enum language)v;
}

const char *network_name(enum network n)
{
	return (unsigned)n < NETWORK_COUNT ? network_aliases[n].name : "none";
}

int network_from_name(const char *name, enum network *ret)
{
	int v, r = from_aliases(network_aliases, ELEMENTSOF(network_aliases), name, &v);

	if (r == 0)
		*ret = (enum network)v;
	return r;
}

const char *tier_name(enum tier t)
{
	return (unsigned)t < TIER_COUNT ? tier_aliases[t].name : "none";
}

int tier_from_name(const char *name, enum tier *ret)
{
	int v, r = from_aliases(tier_aliases, ELEMENTSOF(tier_aliases), name, &v);

	if (r == 0)
		*ret = (enum tier)v;
	return r;
}

void request_init(struct request *r)
{
	*r = (struct request){ .level = LEVEL_STANDARD, .network = NETWORK_LOOPBACK };
	limits_default(&r->limits);
}

static int bad_path(const char *path, const char *why, struct err *err)
{
	(void)err_set(err, ERR_INVALID, 0, "\"%.60s\" %s", path, why);
	return err_remedy(err, -EINVAL, "give a path relative to /workspace, like data/input.csv");
}

int box_path_check(const char *path, struct err *err)
{
	const char *part = path;

	if (!*path)
		return bad_path(path, "is empty", err);
	if (*path == '/')
		return bad_path(path, "is absolute", err);
	if (strnlen(path, REQUEST_PATH_MAX + 1) > REQUEST_PATH_MAX)
		return bad_path(path, "is too long", err);
	for (;;) {
		size_t n = strcspn(part, "/");

		if (n == 0)
			return bad_path(path, "has an empty part", err);
		if (n == 1 && part[0] == '.')
			return bad_path(path, "has a part \".\"", err);
		if (n == 2 && part[0] == '.' && part[1] == '.')
			return bad_path(path, "has a part \"..\"", err);
		if (n > PATH_PART_MAX)
			return bad_path(path, "has a part of more than 255 bytes", err);
		if (!part[n])
			return 0;
		part += n + 1;
	}
}

static bool env_matches(const char *name, size_t n, const char *text, enum match match)
{
	size_t len = strlen(text);

	switch (match) {
	case MATCH_NAME:
		return n == len && memcmp(name, text, len) == 0;
	case MATCH_PREFIX:
		return n >= len && memcmp(name, text, len) == 0;
	case MATCH_SUFFIX_NOCASE:
		return n >= len && strncasecmp(name + n - len, text, len) == 0;
	}
	return true;
}

static bool is_env_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c > 0x7f || !(isalpha(c) || c == '_' || (i && isdigit(c))))
			return false;
	}
	return n > 0;
}

int env_check(const char *entry, struct err *err)
{
	size_t n = strcspn(entry, "=");
	int shown = (int)MIN2(n, (size_t)48);

	if (!entry[n]) {
		(void)err_set(err, ERR_INVALID, 0, "env: \"%.48s\" has no value", entry);
		return err_remedy(err, -EINVAL, "write NAME=VALUE");
	}
	/* Reserved first: BASH_FUNC_x%% is not a proper name either, and deserves the reason. */
	for (size_t i = 0; i < ELEMENTSOF(reserved_env); i++) {
		if (!env_matches(entry, n, reserved_env[i].text, reserved_env[i].match))
			continue;
		(void)err_set(err, ERR_INVALID, 0, "env.%.*s: reserved: it %s", shown, entry,
		              reserved_env[i].reason);
		return err_remedy(err, -EINVAL, "%s", reserved_env[i].remedy);
	}
	if (!is_env_name(entry, n)) {
		(void)err_set(err, ERR_INVALID, 0, "env: \"%.*s\" is not a name", shown, entry);
		return err_remedy(err, -EINVAL, "use letters, digits and _, not a digit first");
	}
	if (strnlen(entry, REQUEST_ARG_LEN_MAX + 1) > REQUEST_ARG_LEN_MAX) {
		(void)err_set(err, ERR_INVALID, 0, "env.%.*s: more than %llu bytes", shown, entry,
		              REQUEST_ARG_LEN_MAX);
		return err_remedy(err, -EINVAL, "place long values as files");
	}
	return 0;
}

static int check_size(const char *field, const char *unit, uint64_t n, uint64_t max,
                      const char *remedy, struct err *err)
{
	if (n <= max)
		return 0;
	(void)err_set(err, ERR_INVALID, 0, "%s: %" PRIu64 " %s, at most %" PRIu64 " are taken",
	              field, n, unit, max);
	return err_remedy(err, -EINVAL, "%s", remedy);
}

static int check_code(const struct request *r, struct err *err)
{
	int e;

	if ((unsigned)r->language >= LANGUAGE_COUNT || r->language == LANGUAGE_NONE) {
		(void)err_set(err, ERR_INVALID, 0, "language: none given");
		return err_remedy(err, -EINVAL, "give one of " LANGUAGES_KNOWN);
	}
	if (!r->code.n) {
		(void)err_set(err, ERR_INVALID, 0, "code: none given");
		return err_remedy(err, -EINVAL, "give the program's text");
	}
	e = check_size("code", "bytes", r->code.n, REQUEST_CODE_MAX, "place large data as files",
	               err);
	if (e < 0)
		return e;
	if (memchr(r->code.p, 0, r->code.n))
		return err_set(err, ERR_INVALID, 0, "code: must not hold a NUL");
	if (!r->name)
		return 0;
	e = box_path_check(r->name, err);
	if (e < 0)
		return err_wrap(err, e, "name");
	if (strchr(r->name, '/') || r->name[0] == '-') {
		(void)err_set(err, ERR_INVALID, 0, "name: \"%.60s\" is not a plain file name",
		              r->name);
		return err_remedy(err, -EINVAL, "give a name without / and without a leading -");
	}
	return 0;
}

static int check_choices(const struct request *r, struct err *err)
{
	if ((unsigned)r->level >= LEVEL_COUNT)
		return err_set(err, ERR_INVALID, 0, "level: not known");
	if ((unsigned)r->tier >= TIER_COUNT)
		return err_set(err, ERR_INVALID, 0, "tier: not known");
	if ((unsigned)r->network >= NETWORK_COUNT)
		return err_set(err, ERR_INVALID, 0, "network: not known");
	return 0;
}

static bool same_env_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Arguments and environment: both end on the new program's stack. */
static int check_strings(const struct request *r, struct err *err)
{
	uint64_t sum = 0;
	int e;

	e = check_size("args", "elements", r->n_args, REQUEST_ARGS_MAX, "place long lists as files",
	               err);
	if (e == 0)
		e = check_size("env", "entries", r->n_env, REQUEST_ENV_MAX,
		               "place settings as a file", err);
	if (e < 0)
		return e;
	for (size_t i = 0; i < r->n_args; i++) {
		size_t n = strlen(r->args[i]);

		if (n > REQUEST_ARG_LEN_MAX) {
			(void)err_set(err, ERR_INVALID, 0, "args[%zu]: more than %llu bytes", i,
			              REQUEST_ARG_LEN_MAX);
			return err_remedy(err, -EINVAL, "place long values as files");
		}
		sum += n + 1;
	}
	for (size_t i = 0; i < r->n_env; i++) {
		e = env_check(r->env[i], err);
		if (e < 0)
			return e;
		for (size_t k = 0; k < i; k++)
			if (same_env_name(r->env[i], r->env[k]))
				return err_set(err, ERR_INVALID, 0, "env.%.*s: given twice",
				               (int)MIN2(strcspn(r->env[i], "="), (size_t)48),
				               r->env[i]);
		sum += strlen(r->env[i]) + 1;
	}
	return check_size("args and env", "bytes", sum, REQUEST_ARG_SUM_MAX,
	                  "place long values as files", err);
}

/* "a" and "a/b" clash as well: the first would have to be a directory. */
static bool paths_clash(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), n = MIN2(na, nb);

	if (memcmp(a, b, n) != 0)
		return false;
	return na == nb || (na > nb ? a[n] : b[n]) == '/';
}

static int check_files(const struct request *r, struct err *err)
{
	const char *script = r->name ? r->name : languages[r->language].script;
	uint64_t sum = 0;
	int e;

	e = check_size("files", "elements", r->n_files, REQUEST_FILES_MAX, "place an archive", err);
	if (e < 0)
		return e;
	for (size_t i = 0; i < r->n_files; i++) {
		const char *path = r->files[i].path;

		e = box_path_check(path, err);
		if (e < 0)
			return err_wrap(err, e, "files[%zu].path", i);
		if (paths_clash(path, script)) {
			(void)err_set(err, ERR_INVALID, 0,
			              "files[%zu].path: \"%.60s\" is the place of the code", i,
			              path);
			return err_remedy(err, -EINVAL, "give the code another name with \"name\"");
		}
		for (size_t k = 0; k < i; k++)
			if (paths_clash(path, r->files[k].path))
				return err_set(err, ERR_INVALID, 0,
				               "files[%zu].path: \"%.60s\" clashes with files[%zu]",
				               i, path, k);
		sum += r->files[i].data.n;
	}
	return check_size("files", "bytes together", sum, REQUEST_FILE_SUM_MAX,
	                  "place less, or let the code make it", err);
}

static int check_name(const char *field, const char *name, struct err *err)
{
	size_t n = strnlen(name, REQUEST_NAME_MAX + 1);

	if (n >= 1 && n <= REQUEST_NAME_MAX &&
	    name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	                      "0123456789_.:-")] == '\0')
		return 0;
	(void)err_set(err, ERR_INVALID, 0, "%s: \"%.48s\" is not a name", field, name);
	return err_remedy(err, -EINVAL, "use 1 to %d letters, digits and _ . : -",
	                  REQUEST_NAME_MAX);
}

static int check_labels(const struct request *r, struct err *err)
{
	for (size_t i = 0; i < r->n_labels && r->n_labels <= REQUEST_LABELS_MAX; i++) {
		size_t n = strnlen(r->labels[i], REQUEST_NAME_MAX + 1), at = 0;

		while (at < n && (unsigned char)r->labels[i][at] >= ' ' && r->labels[i][at] != 0x7f)
			at++; /* no control characters: it is shown to people */
		if (n < 1 || n > REQUEST_NAME_MAX || at < n)
			return err_set(err, ERR_INVALID, 0, "labels[%zu]: is not a label", i);
	}
	return check_size("labels", "elements", r->n_labels, REQUEST_LABELS_MAX, "name fewer", err);
}

static int check_names(const struct request *r, struct err *err)
{
	int e = 0;

	if (r->session_id)
		e = check_name("session_id", r->session_id, err);
	if (e == 0 && r->idempotency_key)
		e = check_name("idempotency_key", r->idempotency_key, err);
	if (e == 0)
		e = check_size("tools", "elements", r->n_tools, REQUEST_TOOLS_MAX, "name fewer",
		               err);
	for (size_t i = 0; e == 0 && i < r->n_tools; i++) {
		char field[32];

		(void)snprintf(field, sizeof(field), "tools[%zu]", i);
		e = check_name(field, r->tools[i], err);
		for (size_t k = 0; e == 0 && k < i; k++)
			if (streq(r->tools[i], r->tools[k]))
				e = err_set(err, ERR_INVALID, 0, "%s: \"%.48s\" is given twice",
				            field, r->tools[i]);
	}
	return e < 0 ? e : check_labels(r, err);
}

static int check_no_code(const struct request *r, struct err *err)
{
	if (!r->code.n && r->language == LANGUAGE_NONE)
		return 0;
	(void)err_set(err, ERR_INVALID, 0, "action: \"%s\" takes no code and no language",
	              action_name(r->action));
	return err_remedy(err, -EINVAL, "give its parameters in \"params\"");
}

int request_check(const struct request *r, struct err *err)
{
	int e = r->action == ACTION_CODE ? check_code(r, err) : check_no_code(r, err);

	if (e == 0)
		e = check_choices(r, err);
	if (e == 0)
		e = limits_check(&r->limits, err);
	if (e == 0)
		e = check_strings(r, err);
	if (e == 0)
		e = check_size("stdin", "bytes", r->stdin_data.n, REQUEST_STDIN_MAX,
		               "place it as a file", err);
	if (e == 0)
		e = check_files(r, err);
	if (e == 0)
		e = check_names(r, err);
	return e;
}

/* From here on: JSON. `in` carries the first error; the readers below only fill in r. */

struct reading {
	struct json_reader in;
	struct arena *arena;
	struct request *r;
};

static void reading_done(struct reading *rd)
{
	json_reader_done(&rd->in);
}

/* p is what the arena gave; NULL becomes the reader's error. */
static bool have(struct reading *rd, const void *p)
{
	if (!p && !rd->in.error)
		(void)json_reader_fail(&rd->in, err_set(rd->in.err, ERR_LIMIT, ENOMEM,
		                                        "the request takes too much memory"));
	return p != NULL;
}

static void copy_str(struct reading *rd, struct str s, struct str *ret)
{
	char *p = arena_dup(rd->arena, s.p, s.n);

	if (have(rd, p))
		*ret = (struct str){ p, s.n };
}

static void copy_text(struct reading *rd, const struct json_node *n, size_t max, const char **ret)
{
	struct str s;

	if (json_node_text(n, max, &s)) {
		copy_str(rd, s, &s);
		if (!rd->in.error)
			*ret = s.p;
	}
}

static bool not_known(const struct json_node *n, const char *value, const char *known)
{
	int r = json_node_fail(n, "\"%.48s\" is not known", value);

	(void)err_remedy(n->in->err, r, "give one of %s", known);
	return false;
}

/* A word out of a list. */
static bool read_choice(struct json_node *o, const char *key, const struct alias *list, size_t n,
                        const char *known, int *ret)
{
	struct json_node node = json_member(o, key);
	struct str s;

	if (!json_node_text(&node, SIZE_MAX, &s))
		return false;
	return from_aliases(list, n, s.p, ret) == 0 || not_known(&node, s.p, known);
}

static void read_choices(struct reading *rd, struct json_node *o)
{
	struct json_node level = json_member(o, "level");
	struct request *r = rd->r;
	struct str s;
	int v;

	if (read_choice(o, "action", action_aliases, ELEMENTSOF(action_aliases),
	                "code_execution, web_browsing, file_operation", &v))
		r->action = (enum action)v;
	if (read_choice(o, "language", language_aliases, ELEMENTSOF(language_aliases),
	                LANGUAGES_KNOWN, &v))
		r->language = (enum language)v;
	if (read_choice(o, "network", network_aliases, ELEMENTSOF(network_aliases),
	                "none, loopback", &v))
		r->network = (enum network)v;
	if (read_choice(o, "tier", tier_aliases, ELEMENTSOF(tier_aliases),
	                "auto, jail, docker, aio", &v))
		r->tier = (enum tier)v;
	if (json_node_text(&level, SIZE_MAX, &s) && level_from_name(s.p, &r->level) < 0)
		(void)not_known(&level, s.p, "strict, standard, degraded-ok");
}

static void read_limit(struct reading *rd, struct json_node *o, const struct limit_info *info)
{
	struct json_node node = json_member(o, info->key);
	struct err why = { 0 };
	uint64_t v = 0;
	bool here;

	here = info->kind == LIMIT_MILLI ? json_node_milli(&node, &v) : json_node_u64(&node, &v);
	if (!here || limits_set(&rd->r->limits, info, v, &why) == 0)
		return;
	/* limits_set() says "key: what"; the path is said here. */
	(void)err_remedy(rd->in.err, json_node_fail(&node, "%s", why.msg + strlen(info->key) + 2),
	                 "%s", why.remedy);
}

static void read_limits(struct reading *rd, struct json_node *o)
{
	struct json_node node;

	for (size_t i = 0; i < limit_infos_n; i++)
		if (streq(limit_infos[i].key, "timeout_ms"))
			read_limit(rd, o, &limit_infos[i]);
	node = json_member(o, "limits");
	if (!json_node_object(&node))
		return;
	for (size_t i = 0; i < limit_infos_n; i++)
		if (!streq(limit_infos[i].key, "timeout_ms"))
			read_limit(rd, &node, &limit_infos[i]);
	json_node_end(&node);
}

static void read_env(struct reading *rd, struct json_node *o)
{
	struct json_node map = json_member(o, "env"), entry;
	void *iter = NULL;
	size_t n;

	if (!json_node_map(&map, REQUEST_ENV_MAX, &n))
		return;
	rd->r->env = arena_array(rd->arena, n, sizeof(*rd->r->env));
	if (!have(rd, rd->r->env))
		return;
	while (json_next_entry(&map, &iter, &entry)) {
		size_t n_name = strlen(entry.key);
		struct str value;
		char *p;

		if (strchr(entry.key, '=')) {
			(void)json_node_fail(&entry, "a name must not hold \"=\"");
			return;
		}
		if (!json_node_text(&entry, REQUEST_ARG_LEN_MAX, &value))
			return;
		p = arena_alloc(rd->arena, n_name + 1 + value.n + 1);
		if (!have(rd, p))
			return;
		memcpy(p, entry.key, n_name);
		p[n_name] = '=';
		memcpy(p + n_name + 1, value.p, value.n);
		rd->r->env[rd->r->n_env++] = p;
	}
}

/* Of an action that is not code: one "name=value" line each. */
static void read_params(struct reading *rd, struct json_node *o)
{
	CLEANUP_BUF struct buf b = BUF_INIT(REQUEST_PARAM_SUM);
	struct json_node map = json_member(o, "params"), entry;
	void *iter = NULL;
	struct str value;
	size_t n;

	if (!json_node_map(&map, REQUEST_PARAMS_MAX, &n))
		return;
	while (json_next_entry(&map, &iter, &entry) &&
	       json_node_text(&entry, REQUEST_PARAM_SUM, &value)) {
		buf_puts(&b, entry.key);
		buf_putc(&b, '=');
		buf_put(&b, value.p, value.n);
		buf_putc(&b, '\n');
	}
	if (b.error == -EFBIG)
		(void)json_node_fail(&map, "larger than %llu bytes",
		                     (unsigned long long)REQUEST_PARAM_SUM);
	else if (!have(rd, b.error ? NULL : rd->r))
		return;
	copy_str(rd, (struct str){ b.data ? b.data : "", b.len }, &rd->r->params);
}

static const char **read_list(struct reading *rd, struct json_node *o, const char *key, size_t max,
                              size_t max_len, size_t *ret_n)
{
	struct json_node array = json_member(o, key);
	const char **list;
	size_t n;

	if (!json_node_array(&array, max, &n))
		return NULL;
	list = arena_array(rd->arena, n, sizeof(*list));
	if (!have(rd, list))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		struct json_node node = json_element(&array, i);

		copy_text(rd, &node, max_len, &list[i]);
	}
	if (rd->in.error)
		return NULL;
	*ret_n = n;
	return list;
}

static void read_file(struct reading *rd, struct json_node *o, struct request_file *f)
{
	struct json_node path, content, base64, executable;
	struct str s;

	if (!json_node_object(o))
		return;
	path = json_member(o, "path");
	content = json_member(o, "content");
	base64 = json_member(o, "content_base64");
	executable = json_member(o, "executable");
	json_node_end(o);

	if (!path.value)
		(void)json_node_fail(o, "has no \"path\"");
	if (!content.value == !base64.value)
		(void)json_node_fail(o, "needs \"content\" or \"content_base64\", and not both");
	copy_text(rd, &path, REQUEST_PATH_MAX, &f->path);
	if (json_node_bytes(&content, REQUEST_FILE_SUM_MAX, &s))
		copy_str(rd, s, &f->data);
	(void)json_node_base64(&base64, REQUEST_FILE_SUM_MAX, rd->arena, &f->data);
	(void)json_node_bool(&executable, &f->executable);
}

static void read_files(struct reading *rd, struct json_node *o)
{
	struct json_node array = json_member(o, "files");
	struct request_file *files;
	size_t n;

	if (!json_node_array(&array, REQUEST_FILES_MAX, &n))
		return;
	files = arena_array(rd->arena, n, sizeof(*files));
	if (!have(rd, files))
		return;
	for (size_t i = 0; i < n && !rd->in.error; i++) {
		struct json_node node = json_element(&array, i);

		read_file(rd, &node, &files[i]);
	}
	rd->r->files = files;
	rd->r->n_files = n;
}

static void read_texts(struct reading *rd, struct json_node *o)
{
	struct json_node code = json_member(o, "code"), name = json_member(o, "name");
	struct json_node input = json_member(o, "stdin"), session = json_member(o, "session_id");
	struct json_node key = json_member(o, "idempotency_key");
	struct request *r = rd->r;
	struct str s;

	if (json_node_text(&code, REQUEST_CODE_MAX, &s))
		copy_str(rd, s, &r->code);
	if (json_node_bytes(&input, REQUEST_STDIN_MAX, &s))
		copy_str(rd, s, &r->stdin_data);
	copy_text(rd, &name, REQUEST_PATH_MAX, &r->name);
	copy_text(rd, &session, REQUEST_NAME_MAX, &r->session_id);
	copy_text(rd, &key, REQUEST_NAME_MAX, &r->idempotency_key);
}

int request_from_json(const char *json, size_t n, struct arena *arena, struct request *ret,
                      struct err *err)
{
	static const struct json_bounds bounds = {
		.bytes = REQUEST_JSON_MAX,
		.depth = 8,
		.values = 16384,
	};
	CLEANUP(reading_done) struct reading rd = { .arena = arena };
	struct json_node root;
	struct request r;
	int e;

	e = json_reader_init(&rd.in, "request", json, n, &bounds, err);
	if (e < 0)
		return e;
	request_init(&r);
	rd.r = &r;
	root = json_root(&rd.in);
	if (json_node_object(&root)) {
		read_texts(&rd, &root);
		read_choices(&rd, &root);
		read_limits(&rd, &root);
		read_env(&rd, &root);
		read_params(&rd, &root);
		r.args = read_list(&rd, &root, "args", REQUEST_ARGS_MAX, REQUEST_ARG_LEN_MAX,
		                   &r.n_args);
		r.tools = read_list(&rd, &root, "tools", REQUEST_TOOLS_MAX, REQUEST_NAME_MAX,
		                    &r.n_tools);
		r.labels = read_list(&rd, &root, "labels", REQUEST_LABELS_MAX, REQUEST_NAME_MAX,
		                     &r.n_labels);
		read_files(&rd, &root);
		json_node_end(&root);
	}
	e = json_reader_finish(&rd.in);
	if (e == 0)
		e = request_check(&r, err);
	if (e == 0)
		*ret = r;
	return e;
}
