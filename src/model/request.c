/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"

static const struct {
	const char *name, *script;
} languages[LANGUAGE_COUNT] = {
	[LANGUAGE_NONE] = { "none", NULL },
	[LANGUAGE_PYTHON] = { "python", "main.py" },
	[LANGUAGE_JAVASCRIPT] = { "javascript", "main.js" },
	[LANGUAGE_SHELL] = { "shell", "main.sh" },
};

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

const char *language_script(enum language l)
{
	return (unsigned)l < LANGUAGE_COUNT ? languages[l].script : NULL;
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
