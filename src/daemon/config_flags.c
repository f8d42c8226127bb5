/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the words of the command and from the environment. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/config_impl.h"
#include "policy/policy.h"

const char config_help[] =
	"Usage: brigd [OPTIONS]\n"
	"\n"
	"Serves brig's API on a unix socket and, when asked, on TCP. Settings come from a file, "
	"then\n"
	"the environment (BRIGD_*), then these options; each overrides what came before.\n"
	"\n"
	"      --config FILE      settings (/etc/brig/brigd.yaml, ~/.config/brig/brigd.yaml)\n"
	"      --socket PATH      the unix socket; none for no such   (/run/brig/brigd.sock)\n"
	"      --listen ADDR:PORT TCP, too, e.g. 127.0.0.1:7070; numbers only (repeatable)\n"
	"      --allow-remote     an address that others can reach is meant; needs a token\n"
	"      --state-dir DIR    where the record, approvals and tokens are  (/var/lib/brig)\n"
	"      --policy POLICY    permissive, strict or a file                  (permissive)\n"
	"      --confirm HOW      who answers what needs a yes: ask, approve, deny     (ask)\n"
	"      --log-level LEVEL  error, warning, info or debug                       (info)\n"
	"      --log-format FORM  text or json                                        (text)\n"
	"      --check-config     print the settings in force, and end\n"
	"      --openapi          print the description of the API, and end\n"
	"      --version          print the version, and end\n"
	"  -h, --help             this text\n"
	"\n"
	"Example:\n"
	"  brigd --listen 127.0.0.1:7070 --policy strict\n"
	"\n"
	"The settings are described in brigd.yaml(5).\n";

static const struct config_list *tcp_list(void)
{
	return &config_lists[0];
}

static int usage(struct err *err, const char *word, const char *what)
{
	(void)err_set(err, ERR_INVALID, 0, "%.80s: %s", word, what);
	return err_remedy(err, -EINVAL, "see \"brigd --help\"");
}

/* ---- words ---- */

/* Is it one that takes no value? Then it is set. */
static bool take_switch(struct daemon_config *c, struct config_flags *f, const char *name)
{
	const struct {
		const char *name;
		bool *at;
	} switches[] = {
		{ "--allow-remote", &f->allow_remote },
		{ "--check-config", &c->check_only },
		{ "--openapi", &c->openapi },
		{ "--version", &c->version },
		{ "--help", &c->help },
		{ "-h", &c->help },
	};

	for (size_t i = 0; i < ELEMENTSOF(switches); i++) {
		if (streq(switches[i].name, name)) {
			*switches[i].at = true;
			return true;
		}
	}
	return false;
}

static const char **value_of(struct config_flags *f, const char *name)
{
	if (streq(name, "--config"))
		return &f->config;
	if (streq(name, "--listen"))
		return f->n_listen < CONFIG_LISTEN_MAX ? &f->listen[f->n_listen] : NULL;
	for (size_t i = 0; i < config_texts_n && i < ELEMENTSOF(f->texts); i++)
		if (config_texts[i].flag && streq(config_texts[i].flag, name))
			return &f->texts[i];
	return NULL;
}

/* argv[i] and perhaps the next; returns how many words were used. */
static int read_word(int argc, char **argv, int i, struct daemon_config *c, struct config_flags *f,
                     struct err *err)
{
	const char *word = argv[i], *eq = str_has_prefix(word, "--") ? strchr(word, '=') : NULL;
	size_t n = eq ? (size_t)(eq - word) : strlen(word);
	const char *value = eq ? eq + 1 : i + 1 < argc ? argv[i + 1] : NULL, **at;
	char name[24];

	(void)snprintf(name, sizeof(name), "%.*s", n < sizeof(name) ? (int)n : 0, word);
	if (take_switch(c, f, name))
		return eq ? usage(err, name, "takes no value") : 1;
	at = value_of(f, name);
	if (!at)
		return usage(err, word,
		             streq(name, "--listen") ? "given too often" : "no such option");
	if (!value || !*value)
		return usage(err, name, "needs a value");
	*at = value;
	f->n_listen += streq(name, "--listen");
	return eq ? 1 : 2;
}

int config_flags_read(int argc, char **argv, struct daemon_config *c, struct config_flags *ret,
                      struct err *err)
{
	for (int i = 1; i < argc;) {
		int r = read_word(argc, argv, i, c, ret, err);

		if (r < 0)
			return r;
		i += r;
	}
	return 0;
}

/* ---- what they mean ---- */

/* Relative to where we are; a daemon does not stay there. */
static int from_here(struct daemon_config *c, const char *text, const char **ret, struct err *err)
{
	char here[PATH_MAX];
	const char *path;

	if (*text == '/' || streq(text, CONFIG_NONE) || policy_builtin_text(text).p) {
		*ret = text;
		return 0;
	}
	if (!getcwd(here, sizeof(here)))
		return err_set(err, ERR_IO, errno, "the current directory");
	path = arena_printf(&c->arena, "%s/%s", streq(here, "/") ? "" : here, text);
	if (!path)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory for the settings");
	*ret = path;
	return 0;
}

static int apply_text(struct daemon_config *c, const struct config_text *info, const char *where,
                      const char *text, struct err *err)
{
	int r = info->path ? from_here(c, text, &text, err) : 0;

	if (r >= 0)
		r = info->set(c, text, err);
	return r < 0 ? err_wrap(err, r, "%s", where) : 0;
}

int config_flags_apply(const struct config_flags *f, struct daemon_config *c, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < config_texts_n && i < ELEMENTSOF(f->texts); i++)
		if (f->texts[i])
			r = apply_text(c, &config_texts[i], config_texts[i].flag, f->texts[i], err);
	c->allow_remote |= f->allow_remote;
	if (f->n_listen)
		config_list_clear(c, tcp_list());
	for (size_t i = 0; r >= 0 && i < f->n_listen; i++) {
		r = config_list_add(&c->arena, c, tcp_list(), f->listen[i], err);
		if (r < 0)
			r = err_wrap(err, r, "--listen");
	}
	return r;
}

/* ---- environment ---- */

static const char *env_of(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* "127.0.0.1:7070,[::1]:7070" takes the place of what the file says. */
static int apply_listen(struct daemon_config *c, const char *text, struct err *err)
{
	char one[80];

	config_list_clear(c, tcp_list());
	for (const char *at = text; at;) {
		size_t n = strcspn(at, ",");
		int r;

		(void)snprintf(one, sizeof(one), "%.*s", (int)MIN2(n, sizeof(one)), at);
		r = config_list_add(&c->arena, c, tcp_list(), one, err);
		if (r < 0)
			return err_wrap(err, r, "BRIGD_LISTEN");
		at = at[n] ? at + n + 1 : NULL;
	}
	return 0;
}

int config_env_apply(struct daemon_config *c, struct err *err)
{
	const char *text;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < config_texts_n; i++)
		if ((text = env_of(config_texts[i].env)))
			r = apply_text(c, &config_texts[i], config_texts[i].env, text, err);
	text = env_of("BRIGD_LISTEN");
	return r < 0 || !text ? r : apply_listen(c, text, err);
}
