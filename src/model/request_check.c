/* SPDX-License-Identifier: Apache-2.0 */

/* What a request may ask for, whoever made it: codec, command line or API. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/request.h"

#define PATH_PART_MAX 255 /* NAME_MAX of every Linux file system */

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
	const char *script = r->name ? r->name : language_script(r->language);
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
			return err_remedy(err, -EINVAL,
			                  "give the file another path, or, in JSON, the code "
			                  "another \"name\"");
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
