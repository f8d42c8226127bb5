/* SPDX-License-Identifier: Apache-2.0 */
/* The settings as a file that says the same. */
#include <limits.h>
#include <stdio.h>

#include "base/json.h"
#include "daemon/config_impl.h"
#include "ledger/ledger.h"

/* A JSON string is a double-quoted text of YAML. */
static void put_text(struct buf *out, const char *indent, const char *key, const char *text)
{
	buf_printf(out, "%s%s: ", indent, key);
	json_put_cstr(out, text);
	buf_putc(out, '\n');
}

static void put_numbers(struct buf *out, const char *indent, const char *group, const void *base,
                        const struct config_number *infos, size_t n)
{
	char text[CONFIG_SHOW_SIZE];

	for (size_t i = 0; i < n; i++) {
		if (!streq(infos[i].group, group))
			continue;
		config_number_show(&infos[i], config_number_get(base, &infos[i]), text);
		buf_printf(out, "%s%s: %s\n", indent, infos[i].key, text);
	}
}

static void put_list(struct buf *out, const char *indent, const void *base,
                     const struct config_list *info)
{
	buf_printf(out, "%s%s: [", indent, info->key);
	for (size_t i = 0; i < config_list_n(base, info); i++) {
		buf_puts(out, i ? ", " : "");
		json_put_cstr(out, config_list_at(base, info, i));
	}
	buf_puts(out, "]\n");
}

static void put_lists(struct buf *out, const char *indent, const char *group,
                      const struct daemon_config *c)
{
	for (size_t i = 0; i < config_lists_n; i++)
		if (streq(config_lists[i].group, group))
			put_list(out, indent, c, &config_lists[i]);
}

static const char *bool_text(bool b)
{
	return b ? "true" : "false";
}

static void put_listen(struct buf *out, const struct daemon_config *c)
{
	char path[PATH_MAX];
	const char *socket = c->socket;

	if (!socket && config_default_socket(path, sizeof(path), NULL) >= 0)
		socket = path;
	buf_puts(out, "listen:\n");
	put_text(out, "  ", "socket", socket && *socket ? socket : CONFIG_NONE);
	buf_printf(out, "  socket_mode: \"%04o\"\n", (unsigned)c->socket_mode);
	put_lists(out, "  ", "listen", c);
	buf_printf(out, "  allow_remote: %s\n", bool_text(c->allow_remote));
}

static void put_top(struct buf *out, const struct daemon_config *c)
{
	char dir[PATH_MAX];
	const char *state_dir = c->state_dir;

	if (!state_dir && ledger_default_dir(dir, sizeof(dir), NULL) >= 0)
		state_dir = dir;
	put_lists(out, "", "", c);
	put_text(out, "", "policy", c->policy ? c->policy : "permissive");
	put_text(out, "", "confirm", c->confirm);
	if (state_dir)
		put_text(out, "", "state_dir", state_dir);
	put_numbers(out, "", "", c, config_numbers, config_numbers_n);
	put_text(out, "", "otlp", c->otlp ? c->otlp : CONFIG_NONE);
}

static void put_shape(struct buf *out, enum language language, const struct config_shape *s)
{
	if (s->language == LANGUAGE_NONE) {
		buf_printf(out, "  %s: " CONFIG_NONE "\n", language_name(language));
		return;
	}
	buf_printf(out, "  %s:\n", language_name(language));
	put_numbers(out, "    ", "", s, shape_numbers, shape_numbers_n);
	buf_printf(out, "    eager: %s\n", bool_text(s->eager));
	if (language == LANGUAGE_PYTHON)
		put_list(out, "    ", s, &shape_preload);
}

static void put_webhook(struct buf *out, const struct config_webhook *w)
{
	put_text(out, "  - ", "url", w->url);
	if (w->secret_file)
		put_text(out, "    ", "secret_file", w->secret_file);
	buf_printf(out, "    events: [%s%s%s]\n", w->approvals ? "approvals" : "",
	           w->approvals && w->executions ? ", " : "", w->executions ? "executions" : "");
	put_numbers(out, "    ", "", w, webhook_numbers, webhook_numbers_n);
}

void config_print(const struct daemon_config *c, struct buf *out)
{
	static const char *const groups[] = { "limits", "keep", "quota" };

	if (c->file) {
		buf_puts(out, "# ");
		json_put_cstr(out, c->file);
		buf_puts(out, " was read\n");
	}
	put_listen(out, c);
	put_top(out, c);
	for (size_t i = 0; i < ELEMENTSOF(groups); i++) {
		buf_printf(out, "%s:\n", groups[i]);
		put_numbers(out, "  ", groups[i], c, config_numbers, config_numbers_n);
	}
	buf_puts(out, "pool:\n");
	for (unsigned i = LANGUAGE_NONE + 1; i < LANGUAGE_COUNT; i++)
		put_shape(out, (enum language)i, &c->shapes[i]);
	buf_puts(out, c->n_webhooks ? "webhooks:\n" : "webhooks: []\n");
	for (size_t i = 0; i < c->n_webhooks; i++)
		put_webhook(out, &c->webhooks[i]);
	buf_puts(out, "log:\n");
	put_text(out, "  ", "format", c->log_format);
	put_text(out, "  ", "level", c->log_level);
}
