/* SPDX-License-Identifier: Apache-2.0 */
/* YAML -> settings. What a file leaves out stays as it was. */
#include <errno.h>
#include <stdio.h>

#include "daemon/config_impl.h"
#include "policy/yaml.h"

struct reader {
	struct yaml_doc doc;
	struct daemon_config *c;
	struct err *err;
};

/* Adds the place to what a setter said. */
static int placed(const struct reader *rd, const struct yaml_node *n, int r,
                  const struct err *inner)
{
	if (r >= 0)
		return r;
	if (inner->code == ERR_LIMIT) {
		if (rd->err)
			*rd->err = *inner;
		return r;
	}
	r = yaml_fail(&rd->doc, n, rd->err, "%s", inner->msg);
	return *inner->remedy ? err_remedy(rd->err, r, "%s", inner->remedy) : r;
}

static int read_line(const struct reader *rd, const struct yaml_node *n)
{
	return yaml_line(&rd->doc, n, CONFIG_TEXT_MAX, rd->err);
}

static int read_number(const struct reader *rd, const struct yaml_node *n, void *base,
                       const struct config_number *info)
{
	struct err inner = { 0 };
	int r = read_line(rd, n);

	return r < 0 ? r : placed(rd, n, config_number_set(base, info, n->text.p, &inner), &inner);
}

static int read_numbers(const struct reader *rd, const struct yaml_node *map, const char *group,
                        void *base, const struct config_number *infos, size_t n_infos)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n_infos; i++) {
		const struct yaml_node *n =
			streq(infos[i].group, group) ? yaml_get(map, infos[i].key) : NULL;

		if (n)
			r = read_number(rd, n, base, &infos[i]);
	}
	return r;
}

static int read_bool(const struct reader *rd, const struct yaml_node *map, const char *key,
                     bool *ret)
{
	const struct yaml_node *n = yaml_get(map, key);
	struct err inner = { 0 };
	int r = n ? read_line(rd, n) : 0;

	return r < 0 || !n ? r : placed(rd, n, config_bool(n->text.p, ret, &inner), &inner);
}

static int read_list(const struct reader *rd, const struct yaml_node *list, void *base,
                     const struct config_list *info)
{
	struct err inner = { 0 };
	int r = yaml_list(&rd->doc, list, info->max, rd->err);

	if (r >= 0)
		config_list_clear(base, info);
	for (const struct yaml_node *n = list->first; r >= 0 && n; n = n->next) {
		r = read_line(rd, n);
		if (r >= 0)
			r = config_list_add(&rd->c->arena, base, info, n->text.p, &inner);
		r = placed(rd, n, r, &inner);
	}
	return r;
}

/* ---- groups ---- */

static int add_key(const char **keys, size_t *n, const char *key)
{
	if (*n >= YAML_KEYS_MAX)
		return -ENOBUFS;
	keys[(*n)++] = key;
	keys[*n] = NULL;
	return 0;
}

/* The keys that the tables have for a group, behind those that are there. */
static int known_keys(const char *group, const char **keys, size_t n)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < config_texts_n; i++)
		if (streq(config_texts[i].group, group))
			r = add_key(keys, &n, config_texts[i].key);
	for (size_t i = 0; r >= 0 && i < config_lists_n; i++)
		if (streq(config_lists[i].group, group))
			r = add_key(keys, &n, config_lists[i].key);
	for (size_t i = 0; r >= 0 && i < config_numbers_n; i++)
		if (streq(config_numbers[i].group, group))
			r = add_key(keys, &n, config_numbers[i].key);
	return r;
}

static int read_text(const struct reader *rd, const struct yaml_node *n,
                     const struct config_text *info)
{
	struct err inner = { 0 };
	int r = read_line(rd, n);

	return r < 0 ? r : placed(rd, n, info->set(rd->c, n->text.p, &inner), &inner);
}

static int read_tables(const struct reader *rd, const struct yaml_node *map, const char *group)
{
	const struct yaml_node *n;
	int r = read_numbers(rd, map, group, rd->c, config_numbers, config_numbers_n);

	for (size_t i = 0; r >= 0 && i < config_texts_n; i++)
		if (streq(config_texts[i].group, group) && (n = yaml_get(map, config_texts[i].key)))
			r = read_text(rd, n, &config_texts[i]);
	for (size_t i = 0; r >= 0 && i < config_lists_n; i++)
		if (streq(config_lists[i].group, group) && (n = yaml_get(map, config_lists[i].key)))
			r = read_list(rd, n, rd->c, &config_lists[i]);
	return r;
}

static int read_group(const struct reader *rd, const struct yaml_node *root, const char *group)
{
	const char *keys[YAML_KEYS_MAX + 1] = { NULL };
	const struct yaml_node *map = yaml_get(root, group);
	int r;

	if (!map)
		return 0;
	r = known_keys(group, keys, 0);
	if (r >= 0)
		r = yaml_map(&rd->doc, map, keys, rd->err);
	return r < 0 ? r : read_tables(rd, map, group);
}

/* ---- pool ---- */

static int read_shape(const struct reader *rd, const struct yaml_node *map,
                      struct config_shape *shape, enum language language)
{
	static const char *const keys[] = { "min", "max", "idle", "eager", "preload", NULL };
	const struct yaml_node *preload = yaml_get(map, "preload");
	int r;

	if (map->kind == YAML_TEXT && streq(map->text.p, CONFIG_NONE)) {
		shape->language = LANGUAGE_NONE;
		return 0;
	}
	r = yaml_map(&rd->doc, map, keys, rd->err);
	shape->language = language;
	if (r >= 0)
		r = read_numbers(rd, map, "", shape, shape_numbers, shape_numbers_n);
	if (r >= 0)
		r = read_bool(rd, map, "eager", &shape->eager);
	if (r >= 0 && preload && language != LANGUAGE_PYTHON)
		return yaml_fail(&rd->doc, preload, rd->err, "only python has modules to load");
	if (r >= 0 && preload)
		r = read_list(rd, preload, shape, &shape_preload);
	if (r >= 0 && shape->min > shape->max)
		return yaml_fail(&rd->doc, map, rd->err, "min is %u, and max only %u", shape->min,
		                 shape->max);
	return r;
}

static int read_pool(const struct reader *rd, const struct yaml_node *map)
{
	const char *keys[LANGUAGE_COUNT] = { NULL };
	int r;

	for (unsigned i = LANGUAGE_NONE + 1; i < LANGUAGE_COUNT; i++)
		keys[i - 1] = language_name((enum language)i);
	r = yaml_map(&rd->doc, map, keys, rd->err);
	for (unsigned i = LANGUAGE_NONE + 1; r >= 0 && i < LANGUAGE_COUNT; i++) {
		const struct yaml_node *n = yaml_get(map, keys[i - 1]);

		if (n)
			r = read_shape(rd, n, &rd->c->shapes[i], (enum language)i);
	}
	return r;
}

/* ---- webhooks ---- */

static int read_events(const struct reader *rd, const struct yaml_node *list,
                       struct config_webhook *hook)
{
	static const char *const words[] = { "approvals", "executions", NULL };
	const char *word = NULL;
	struct err inner = { 0 };
	int r = yaml_list(&rd->doc, list, 2, rd->err);

	hook->approvals = hook->executions = false;
	if (r >= 0 && !list->n)
		return yaml_fail(&rd->doc, list, rd->err, "is empty: nothing would be told");
	for (const struct yaml_node *n = list->first; r >= 0 && n; n = n->next) {
		r = read_line(rd, n);
		if (r >= 0)
			r = placed(rd, n, config_pick(words, n->text.p, &word, &inner), &inner);
		hook->approvals |= r >= 0 && word == words[0];
		hook->executions |= r >= 0 && word == words[1];
	}
	return r;
}

static int read_kept(const struct reader *rd, const struct yaml_node *n,
                     int (*check)(const char *, struct err *), const char **ret)
{
	struct err inner = { 0 };
	int r = read_line(rd, n);

	if (r < 0)
		return r;
	r = check(n->text.p, &inner);
	if (r >= 0)
		r = config_keep(&rd->c->arena, n->text.p, ret, &inner);
	return placed(rd, n, r, &inner);
}

static int read_webhook(const struct reader *rd, const struct yaml_node *map,
                        struct config_webhook *hook)
{
	static const char *const keys[] = { "url",      "secret_file", "events",
		                            "attempts", "timeout",     NULL };
	const struct yaml_node *n;
	int r = yaml_map(&rd->doc, map, keys, rd->err);

	if (r < 0)
		return r;
	*hook = (struct config_webhook){ .approvals = true, .executions = true };
	for (size_t i = 0; i < webhook_numbers_n; i++)
		config_number_put(hook, &webhook_numbers[i], webhook_numbers[i].def);
	n = yaml_get(map, "url");
	if (!n)
		return yaml_fail(&rd->doc, map, rd->err, "url is missing");
	r = read_kept(rd, n, config_check_url, &hook->url);
	if (r >= 0 && (n = yaml_get(map, "secret_file")))
		r = read_kept(rd, n, config_check_absolute, &hook->secret_file);
	if (r >= 0 && (n = yaml_get(map, "events")))
		r = read_events(rd, n, hook);
	return r < 0 ? r : read_numbers(rd, map, "", hook, webhook_numbers, webhook_numbers_n);
}

static int read_webhooks(const struct reader *rd, const struct yaml_node *list)
{
	int r = yaml_list(&rd->doc, list, CONFIG_WEBHOOKS_MAX, rd->err);

	rd->c->n_webhooks = 0;
	for (const struct yaml_node *n = list->first; r >= 0 && n; n = n->next) {
		r = read_webhook(rd, n, &rd->c->webhooks[rd->c->n_webhooks]);
		rd->c->n_webhooks += r >= 0;
	}
	return r;
}

/* ---- the whole ---- */

static int read_root(const struct reader *rd)
{
	static const char *const groups[] = { "listen", "limits", "keep", "quota", "log" };
	const char *keys[YAML_KEYS_MAX + 1] = { "listen", "limits", "keep",    "quota",
		                                "log",    "pool",   "webhooks" };
	const struct yaml_node *root = rd->doc.root, *n;
	int r = known_keys("", keys, ELEMENTSOF(groups) + 2);

	if (r >= 0)
		r = yaml_map(&rd->doc, root, keys, rd->err);
	if (r >= 0)
		r = read_tables(rd, root, "");
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(groups); i++)
		r = read_group(rd, root, groups[i]);
	if (r >= 0 && (n = yaml_get(root, "pool")))
		r = read_pool(rd, n);
	if (r >= 0 && (n = yaml_get(root, "webhooks")))
		r = read_webhooks(rd, n);
	return r;
}

/* A file in which everything is commented out is a file, too. */
static bool only_comments(struct str text)
{
	bool comment = false;

	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (c == '\n')
			comment = false;
		else if (c == '#')
			comment = true;
		else if (!comment && c != ' ' && c != '\r')
			return false;
	}
	return true;
}

int config_read(const char *name, struct str text, struct daemon_config *c, struct err *err)
{
	struct reader rd = { .c = c, .err = err };
	int r;

	if (only_comments(text))
		return 0;
	r = yaml_read(name, text, &rd.doc, err);
	if (r < 0)
		return r;
	r = read_root(&rd);
	yaml_done(&rd.doc);
	return r;
}
