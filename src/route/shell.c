/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a bash that waits in a box is told (runtime/shell/wait.sh): shell source that makes it the
 * shell that was asked for. It goes on to the script by itself. Where that would not be the same as
 * a new bash, because of the script's name or of a variable that bash looks at when it starts, it
 * executes a new one.
 */

#include <string.h>

#include "base/macro.h"
#include "route/route.h"

#define ENV_PROGRAM "/usr/bin/env"

/* Variables of bash(1) that it sets, or treats in its own way; a star stands for any end. */
static const char *const special[] = {
	"_",
	"BASH*",
	"CHILD_MAX",
	"COLUMNS",
	"COMP*",
	"COPROC",
	"DIRSTACK",
	"EMACS",
	"ENV",
	"EPOCH*",
	"EUID",
	"EXECIGNORE",
	"FIGNORE",
	"FUNC*",
	"GLOB*",
	"GROUPS",
	"HIST*",
	"HOST*",
	"IFS",
	"IGNOREEOF",
	"INSIDE_EMACS",
	"LINENO",
	"LINES",
	"MACHTYPE",
	"MAIL*",
	"MAPFILE",
	"OLDPWD",
	"OPT*",
	"OSTYPE",
	"PIPESTATUS",
	"PPID",
	"PROMPT*",
	"PS0",
	"PS1",
	"PS2",
	"PS3",
	"PS4",
	"PWD",
	"RANDOM",
	"READLINE*",
	"REPLY",
	"SECONDS",
	"SHELL*",
	"SHLVL",
	"SRANDOM",
	"TERM",
	"TIMEFORMAT",
	"TMOUT",
	"UID",
	"histchars",
	"auto_resume",
	"INPUTRC",
	"FCEDIT",
	"CDPATH",
	"POSIXLY_CORRECT",
	"LC_*",
};

static bool is_special(const char *name, size_t n)
{
	for (size_t i = 0; i < ELEMENTSOF(special); i++) {
		size_t len = strcspn(special[i], "*");

		if (n >= len && memcmp(name, special[i], len) == 0 &&
		    (n == len || special[i][len] == '*'))
			return true;
	}
	return false;
}

static bool is_plain(const char *entry)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_",
			  all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	size_t n = strspn(entry, all);

	return n && entry[n] == '=' && strchr(letters, *entry) && !is_special(entry, n);
}

static bool can_go_on(const struct request *req, const struct plan *warm)
{
	for (size_t i = 0; i < req->n_env; i++)
		if (!is_plain(req->env[i]))
			return false;
	return strcmp(route_script(req), warm->script) == 0;
}

static void put_quoted(struct buf *out, const char *text)
{
	buf_putc(out, '\'');
	for (size_t n; *text; text += n) {
		n = strcspn(text, "'");
		buf_put(out, text, n);
		if (text[n] == '\'') {
			buf_puts(out, "'\\''");
			n++;
		}
	}
	buf_putc(out, '\'');
}

static void put_words(struct buf *out, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		buf_putc(out, ' ');
		put_quoted(out, words[i]);
	}
}

static void put_new_shell(struct buf *out, const struct plan *command)
{
	buf_puts(out, "exec " ENV_PROGRAM " -i");
	put_words(out, command->env, command->n_env);
	put_words(out, command->argv, command->n_argv);
}

static void put_this_shell(struct buf *out, const struct request *req)
{
	if (req->n_args) {
		buf_puts(out, "set --");
		put_words(out, req->args, req->n_args);
		buf_putc(out, ';');
	}
	for (size_t i = 0; i < req->n_env; i++) {
		size_t name = strcspn(req->env[i], "=") + 1;

		buf_puts(out, "export ");
		buf_put(out, req->env[i], name);
		put_quoted(out, req->env[i] + name);
		buf_putc(out, ';');
	}
}

int route_shell(const struct request *req, const struct plan *warm, struct buf *out)
{
	CLEANUP_ARENA struct arena a = ARENA_INIT(1 * MIB);
	struct plan command;
	int r = 0;

	if (can_go_on(req, warm)) {
		put_this_shell(out, req);
	} else {
		r = route_command(req, warm, &a, &command, NULL);
		if (r < 0)
			return r;
		put_new_shell(out, &command);
	}
	buf_putc(out, '\0');
	return out->error;
}
