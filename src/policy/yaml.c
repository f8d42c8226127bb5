/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfyaml gives events; the tree is made here, so that everything it should not hold is refused
 * where it is met, and no resolver of aliases ever runs.
 */
#include "policy/yaml.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdio.h>

#define PATH_SIZE 96

struct builder {
	struct yaml_doc doc;
	struct yaml_node *open[YAML_DEPTH_MAX]; /* lists and maps, the outermost first */
	size_t depth;
	const char *key; /* read, its value not yet */
	uint32_t key_line, key_column;
	size_t nodes, documents;
	struct yaml_node here; /* the place of the last event, for errors */
	struct err *err;
};

/* ---- messages ---- */

static void put_path(const struct yaml_node *n, char *out, size_t cap)
{
	const struct yaml_node *way[YAML_DEPTH_MAX + 1] = { NULL };
	size_t depth = 0, len = 0;

	for (; n && n->parent && depth < ELEMENTSOF(way); n = n->parent)
		way[depth++] = n;
	*out = '\0';
	while (depth--) {
		int w;

		if (way[depth]->key)
			w = snprintf(out + len, cap - len, "%s%.40s", len ? "." : "",
			             way[depth]->key);
		else
			w = snprintf(out + len, cap - len, "[%zu]", way[depth]->index);
		if (w < 0 || (size_t)w >= cap - len)
			return;
		len += (size_t)w;
	}
}

static const char *name_shown(const char *name)
{
	size_t n = strlen(name);

	return n > YAML_NAME_SHOW ? name + n - YAML_NAME_SHOW : name;
}

int yaml_fail(const struct yaml_doc *doc, const struct yaml_node *n, struct err *err,
              const char *fmt, ...)
{
	char path[PATH_SIZE], text[200];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_path(n, path, sizeof(path));
	return err_set(err, ERR_INVALID, 0, "%s:%u:%u: %s%s%s", name_shown(doc->name), n->line,
	               n->column, path, *path ? ": " : "", text);
}

/* ---- making the tree ---- */

static void note_place(struct builder *b, struct fy_token *token)
{
	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

	/* Nothing written has no place of its own: its key's is near enough. */
	if (!mark)
		return;
	b->here.line = (uint32_t)mark->line + 1;
	b->here.column = (uint32_t)mark->column + 1;
}

/* At the last event: the value of the key that was read, the next element, or the map itself. */
static int refuse(struct builder *b, const char *what)
{
	const struct yaml_node *parent = b->depth ? b->open[b->depth - 1] : NULL;
	struct yaml_node at = { .parent = parent, .key = b->key };

	if (parent && parent->kind == YAML_MAP && !b->key)
		at = *parent;
	else if (parent)
		at.index = parent->n;
	at.line = b->here.line;
	at.column = b->here.column;
	return yaml_fail(&b->doc, &at, b->err, "%s", what);
}

static int add(struct builder *b, enum yaml_kind kind, struct yaml_node **ret)
{
	struct yaml_node *parent = b->depth ? b->open[b->depth - 1] : NULL, *n;

	if (parent && parent->kind == YAML_MAP && !b->key)
		return refuse(b, "a key must be a text");
	if (b->nodes++ >= YAML_NODES_MAX)
		return refuse(b, "too many values in this file");
	n = arena_alloc(&b->doc.arena, sizeof(*n));
	if (!n)
		return err_set(b->err, ERR_LIMIT, ENOMEM, "read \"%.80s\"", b->doc.name);
	*n = (struct yaml_node){ .kind = kind, .line = b->here.line, .column = b->here.column };
	n->text = STR("");
	n->key = TAKE_PTR(b->key);
	n->key_line = b->key_line;
	n->key_column = b->key_column;
	n->parent = parent;
	n->index = parent ? parent->n++ : 0;
	if (!parent)
		b->doc.root = n;
	else if (parent->last)
		parent->last->next = n;
	else
		parent->first = n;
	if (parent)
		parent->last = n;
	*ret = n;
	return 0;
}

static int take_text(struct builder *b, struct fy_token *token, struct str *ret)
{
	size_t n = 0;
	const char *p = token ? fy_token_get_text(token, &n) : "";
	char *copy;

	if (!p)
		return err_set(b->err, ERR_LIMIT, ENOMEM, "read \"%.80s\"", b->doc.name);
	if (memchr(p, '\0', n))
		return refuse(b, "a NUL is not text");
	copy = arena_dup(&b->doc.arena, p, n);
	if (!copy)
		return err_set(b->err, ERR_LIMIT, ENOMEM, "read \"%.80s\"", b->doc.name);
	*ret = (struct str){ copy, n };
	return 0;
}

static int on_key(struct builder *b, struct fy_token *token)
{
	struct yaml_node *map = b->open[b->depth - 1];
	struct str text = { 0 };
	int r = take_text(b, token, &text);

	if (r < 0)
		return r;
	if (!text.n || text.n > YAML_KEY_MAX)
		return refuse(b, text.n ? "a key that long is not known" : "a key is empty");
	if (streq(text.p, "<<"))
		return refuse(b, "merge keys (<<) are not taken; write the values out");
	if (yaml_get(map, text.p)) {
		b->key = text.p;
		return refuse(b, "is there twice");
	}
	if (map->n >= YAML_KEYS_MAX)
		return refuse(b, "too many keys in one map");
	b->key = text.p;
	b->key_line = b->here.line;
	b->key_column = b->here.column;
	return 0;
}

static int on_scalar(struct builder *b, const struct fy_event *e)
{
	struct yaml_node *parent = b->depth ? b->open[b->depth - 1] : NULL, *n = NULL;
	struct str text = { 0 };
	int r;

	if (parent && parent->kind == YAML_MAP && !b->key)
		return on_key(b, e->scalar.value);
	r = take_text(b, e->scalar.value, &text);
	if (r >= 0)
		r = add(b, YAML_TEXT, &n);
	if (r < 0)
		return r;
	n->text = text;
	n->quoted = e->scalar.value && fy_token_scalar_style(e->scalar.value) != FYSS_PLAIN;
	return 0;
}

static int on_open(struct builder *b, enum yaml_kind kind)
{
	struct yaml_node *n = NULL;
	int r;

	if (b->depth == YAML_DEPTH_MAX)
		return refuse(b, "nested too deeply");
	r = add(b, kind, &n);
	if (r < 0)
		return r;
	b->open[b->depth++] = n;
	return 0;
}

static int on_close(struct builder *b)
{
	b->depth -= b->depth > 0;
	return 0;
}

static int on_extras(struct builder *b, const struct fy_token *anchor, const struct fy_token *tag)
{
	if (anchor)
		return refuse(b, "anchors (&name) are not taken; write the values out");
	if (tag)
		return refuse(b, "tags (!name) are not taken");
	return 0;
}

static int on_document(struct builder *b)
{
	return b->documents++ ? refuse(b, "a second document; one file is one document") : 0;
}

static int on_event(struct builder *b, struct fy_event *e)
{
	int r;

	switch (e->type) {
	case FYET_DOCUMENT_START:
		note_place(b, e->document_start.document_start);
		return on_document(b);
	case FYET_MAPPING_START:
		note_place(b, e->mapping_start.mapping_start);
		r = on_extras(b, e->mapping_start.anchor, e->mapping_start.tag);
		return r < 0 ? r : on_open(b, YAML_MAP);
	case FYET_SEQUENCE_START:
		note_place(b, e->sequence_start.sequence_start);
		r = on_extras(b, e->sequence_start.anchor, e->sequence_start.tag);
		return r < 0 ? r : on_open(b, YAML_LIST);
	case FYET_SCALAR:
		note_place(b, e->scalar.value);
		r = on_extras(b, e->scalar.anchor, e->scalar.tag);
		return r < 0 ? r : on_scalar(b, e);
	case FYET_ALIAS:
		note_place(b, e->alias.anchor);
		return refuse(b, "aliases (*name) are not taken; quote a text that begins with *");
	case FYET_MAPPING_END:
	case FYET_SEQUENCE_END:
		return on_close(b);
	case FYET_NONE:
	case FYET_STREAM_START:
	case FYET_STREAM_END:
	case FYET_DOCUMENT_END:
		return 0;
	}
	return -EINVAL;
}

/* ---- reading ---- */

static int syntax_error(struct builder *b, struct fy_diag *diag)
{
	void *at = NULL;
	const struct fy_diag_error *e = fy_diag_errors_iterate(diag, &at);

	if (!e || !e->msg)
		return refuse(b, "this is not YAML");
	b->here = (struct yaml_node){ .line = (uint32_t)e->line, .column = (uint32_t)e->column };
	(void)yaml_fail(&b->doc, &b->here, b->err, "this is not YAML: %.120s", e->msg);
	return err_remedy(b->err, -EINVAL,
	                  "quote texts that begin with > < * & ! { [ or hold \": \"");
}

/* Ends: each event takes some of a bounded text. */
static int parse(struct builder *b, struct fy_parser *parser, struct fy_diag *diag)
{
	bool ended = false;
	int r = 0;

	while (r >= 0 && !ended) {
		struct fy_event *e = fy_parser_parse(parser);

		if (!e)
			return syntax_error(b, diag);
		ended = e->type == FYET_STREAM_END;
		r = on_event(b, e);
		fy_parser_event_free(parser, e);
	}
	if (r >= 0 && !b->doc.root)
		return refuse(b, "the file is empty");
	return r;
}

static void parser_destroyp(struct fy_parser **p)
{
	if (*p)
		fy_parser_destroy(*p);
}

static void diag_destroyp(struct fy_diag **d)
{
	if (*d)
		fy_diag_destroy(*d);
}

static int parse_text(struct builder *b, struct str text)
{
	struct fy_diag_cfg quiet = { .level = FYET_ERROR };
	CLEANUP(diag_destroyp) struct fy_diag *diag = fy_diag_create(&quiet);
	CLEANUP(parser_destroyp) struct fy_parser *parser = NULL;
	struct fy_parse_cfg cfg = {
		.flags = FYPCF_QUIET | FYPCF_JSON_NONE | FYPCF_DEFAULT_VERSION_1_2,
		.diag = diag,
	};

	if (!diag)
		return err_set(b->err, ERR_INTERNAL, ENOMEM, "read \"%.80s\"", b->doc.name);
	fy_diag_set_collect_errors(diag, true);
	parser = fy_parser_create(&cfg);
	if (!parser || fy_parser_set_string(parser, text.p, text.n) < 0)
		return err_set(b->err, ERR_INTERNAL, ENOMEM, "read \"%.80s\"", b->doc.name);
	return parse(b, parser, diag);
}

/* The bytes of the character at p; 0 when it is none that a file of text may hold. */
static size_t char_size(const unsigned char *p, size_t left)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *p < 0x80   ? 1
	           : *p < 0xc0 ? 0
	           : *p < 0xe0 ? 2
	           : *p < 0xf0 ? 3
	           : *p < 0xf8 ? 4
	                       : 0;
	uint32_t c;

	if (n == 1)
		return *p == '\n' || *p == '\r' || *p == '\t' || (*p >= ' ' && *p != 0x7f);
	if (!n || n > left)
		return 0;
	c = *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* libfyaml takes a malformed character between values for the end: what follows would be lost. */
static int check_text(struct builder *b, struct str text)
{
	size_t at = 0;

	while (at < text.n) {
		size_t n = char_size((const unsigned char *)text.p + at, text.n - at);

		if (!n)
			return refuse(b, "a control character, or bytes that are not UTF-8");
		b->here.column++;
		if (text.p[at] == '\n') {
			b->here.line++;
			b->here.column = 1;
		}
		at += n;
	}
	b->here.line = b->here.column = 1;
	return 0;
}

int yaml_read(const char *name, struct str text, struct yaml_doc *ret, struct err *err)
{
	struct builder b = {
		.doc = { .arena = ARENA_INIT(YAML_ARENA_MAX), .name = name },
		.here = { .line = 1, .column = 1 },
		.err = err,
	};
	int r;

	if (text.n > YAML_BYTES_MAX)
		return err_set(err, ERR_INVALID, EFBIG, "%s: larger than %llu bytes",
		               name_shown(name), YAML_BYTES_MAX);
	if (!text.n)
		return refuse(&b, "the file is empty");
	r = check_text(&b, text);
	if (r >= 0)
		r = parse_text(&b, text);
	if (r < 0)
		arena_done(&b.doc.arena);
	else
		*ret = b.doc;
	return r;
}

void yaml_done(struct yaml_doc *doc)
{
	arena_done(&doc->arena);
	doc->root = NULL;
}

/* ---- looking at it ---- */

const struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	for (const struct yaml_node *n = map->first; n; n = n->next)
		if (n->key && streq(n->key, key))
			return n;
	return NULL;
}

static int refuse_key(const struct yaml_doc *doc, const struct yaml_node *n,
                      const char *const *keys, struct err *err)
{
	struct yaml_node at = *n;
	char known[160];
	size_t len = 0;

	*known = '\0';
	for (; *keys && len < sizeof(known); keys++) {
		int w = snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "", *keys);

		len += w > 0 ? (size_t)w : sizeof(known);
	}
	at.line = n->key_line;
	at.column = n->key_column;
	return yaml_fail(doc, &at, err, "no such key; it is one of %s", known);
}

int yaml_map(const struct yaml_doc *doc, const struct yaml_node *n, const char *const *keys,
             struct err *err)
{
	if (n->kind != YAML_MAP)
		return yaml_fail(doc, n, err, "must be a map (key: value)");
	for (const struct yaml_node *c = n->first; c; c = c->next) {
		size_t i = 0;

		while (keys[i] && !streq(keys[i], c->key))
			i++;
		if (!keys[i])
			return refuse_key(doc, c, keys, err);
	}
	return 0;
}

int yaml_list(const struct yaml_doc *doc, const struct yaml_node *n, size_t max, struct err *err)
{
	if (n->kind != YAML_LIST)
		return yaml_fail(doc, n, err, "must be a list");
	if (n->n > max)
		return yaml_fail(doc, n, err, "has %zu elements, at most %zu", n->n, max);
	return 0;
}

int yaml_line(const struct yaml_doc *doc, const struct yaml_node *n, size_t max, struct err *err)
{
	if (n->kind != YAML_TEXT || !n->text.n)
		return yaml_fail(doc, n, err, "must be a text that is not empty");
	if (n->text.n > max)
		return yaml_fail(doc, n, err, "is longer than %zu bytes", max);
	for (size_t i = 0; i < n->text.n; i++)
		if ((unsigned char)n->text.p[i] < ' ' || n->text.p[i] == 0x7f)
			return yaml_fail(doc, n, err, "must be one line of text");
	return 0;
}
