/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

/*
 * jansson 2.14 does not survive a failed allocation: it ignores one inside a string and then writes
 * past the end of its buffer, and it reports others as errors of syntax. So it is never shown one.
 * While a document is loaded all its memory comes from the reader's arena; when that fails, the
 * load is left by longjmp() and the arena is dropped as a whole. (jansson holds no lock and no file
 * then.) Outside a load, jansson gets malloc() and free() as usual.
 */
struct loading {
	struct arena *pool;
	jmp_buf out_of_memory;
};

static _Thread_local struct loading *loading;

static void *pool_malloc(size_t n)
{
	void *p;

	if (!loading)
		return malloc(n);
	p = arena_alloc(loading->pool, n);
	if (!p)
		longjmp(loading->out_of_memory, 1);
	return p;
}

static void pool_free(void *p)
{
	if (!loading)
		free(p);
}

static void set_alloc(void)
{
	json_set_alloc_funcs(pool_malloc, pool_free);
}

/* NULL with *ret_why set, or with *ret_memory false when memory ran out. */
static json_t *load(struct arena *pool, const char *text, size_t n, json_error_t *ret_why,
                    bool *ret_memory)
{
	struct loading l = { .pool = pool };
	json_t *root;

	loading = &l;
	if (setjmp(l.out_of_memory)) {
		loading = NULL;
		*ret_memory = false;
		return NULL;
	}
	root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, ret_why);
	loading = NULL;
	*ret_memory = true;
	return root;
}

/*
 * Depth and number of values, counted on the text before jansson builds anything from it: its
 * parser recurses, and "[[],[],…]" takes some forty times its size in memory.
 */
static int check_shape(const char *what, const char *text, size_t n, const struct json_bounds *b,
                       struct err *err)
{
	size_t depth = 0, values = 1;
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		if (quoted) {
			if (c == '\\')
				i++;
			else if (c == '"')
				quoted = false;
			continue;
		}
		if (c == '"')
			quoted = true;
		else if (c == '[' || c == '{')
			depth++;
		else if ((c == ']' || c == '}') && depth)
			depth--;
		if (c == ',' || c == ':' || c == '[' || c == '{')
			values++;
		if (depth > MIN2(b->depth, (size_t)JSON_DEPTH_MAX))
			return err_set(err, ERR_INVALID, 0, "%s: nested deeper than %zu levels",
			               what, MIN2(b->depth, (size_t)JSON_DEPTH_MAX));
		if (values > b->values)
			return err_set(err, ERR_INVALID, 0, "%s: more than %zu values", what,
			               b->values);
	}
	return 0;
}

int json_reader_init(struct json_reader *in, const char *what, const char *text, size_t n,
                     const struct json_bounds *bounds, struct err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct arena pool;
	json_error_t why;
	json_t *root;
	bool memory;
	int r;

	if (n > bounds->bytes)
		return err_set(err, ERR_INVALID, 0, "%s: %zu bytes of JSON, at most %zu are taken",
		               what, n, bounds->bytes);
	r = check_shape(what, text, n, bounds, err);
	if (r < 0)
		return r;

	(void)pthread_once(&once, set_alloc);
	/* The token buffer doubles, the rest is copied once; a value takes some 200 bytes. */
	pool = ARENA_INIT(8 * n + 1024 * MIN2(bounds->values, n + 1) + 64 * KIB);
	root = load(&pool, n ? text : "", n, &why, &memory);
	if (!root) {
		arena_done(&pool);
		if (!memory)
			return err_set(err, ERR_INTERNAL, ENOMEM, "%s", what);
		return err_set(err, ERR_INVALID, 0, "%s: not valid JSON: line %d, column %d: %s",
		               what, why.line, why.column, why.text);
	}

	*in = (struct json_reader){ .pool = pool, .root = root, .what = what, .err = err };
	return 0;
}

int json_reader_finish(const struct json_reader *in)
{
	return in->error;
}

int json_reader_fail(struct json_reader *in, int r)
{
	if (!in->error)
		in->error = r;
	return in->error;
}

void json_reader_done(struct json_reader *in)
{
	arena_done(&in->pool);
	in->root = NULL; /* lay in the pool */
}

/* "files[3].path"; returns the length, which is below cap. */
static size_t put_path(const struct json_node *n, char *out, size_t cap)
{
	size_t len = n->parent ? put_path(n->parent, out, cap) : 0;
	int more = 0;

	if (n->key)
		more = snprintf(out + len, cap - len, "%s%.48s", len ? "." : "", n->key);
	else if (n->parent)
		more = snprintf(out + len, cap - len, "[%zu]", n->index);
	return MIN2(len + (size_t)more, cap - 1);
}

static void node_path(const struct json_node *n, char *out, size_t cap)
{
	out[0] = '\0';
	if (put_path(n, out, cap) == 0)
		(void)snprintf(out, cap, "%s", n->in->what);
}

int json_node_fail(const struct json_node *n, const char *fmt, ...)
{
	char path[128], text[160];
	va_list ap;

	if (n->in->error)
		return n->in->error;
	node_path(n, path, sizeof(path));
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return n->in->error = err_set(n->in->err, ERR_INVALID, 0, "%s: %s", path, text);
}

/* After an error every field counts as absent: the first error is the one to tell. */
static bool is_here(const struct json_node *n)
{
	return n->value && !n->in->error;
}

static bool node_wrong_type(const struct json_node *n, const char *wanted)
{
	int r = json_node_fail(n, "must be %s", wanted);

	if (json_is_null(n->value))
		(void)err_remedy(n->in->err, r, "leave the field out instead of giving null");
	return false;
}

static bool node_too_long(const struct json_node *n, size_t len, size_t max, const char *unit)
{
	(void)json_node_fail(n, "%zu %s, at most %zu are taken", len, unit, max);
	return false;
}

struct json_node json_root(struct json_reader *in)
{
	return (struct json_node){ .in = in, .value = in->error ? NULL : in->root };
}

struct json_node json_member(struct json_node *object, const char *key)
{
	struct json_node n = { .in = object->in, .parent = object, .key = key };

	if (object->n_seen < JSON_FIELDS_MAX)
		object->seen[object->n_seen++] = key;
	if (!n.in->error)
		n.value = json_object_get(object->value, key);
	return n;
}

struct json_node json_element(const struct json_node *array, size_t i)
{
	struct json_node n = { .in = array->in, .parent = array, .index = i };

	if (!n.in->error)
		n.value = json_array_get(array->value, i);
	return n;
}

bool json_next_entry(const struct json_node *map, void **iter, struct json_node *ret)
{
	if (map->in->error)
		return false;
	*iter = *iter ? json_object_iter_next(map->value, *iter) : json_object_iter(map->value);
	if (!*iter)
		return false;
	*ret = (struct json_node){ .in = map->in,
		                   .parent = map,
		                   .key = json_object_iter_key(*iter),
		                   .value = json_object_iter_value(*iter) };
	return true;
}

static bool node_knows(const struct json_node *object, const char *key)
{
	for (size_t i = 0; i < object->n_seen; i++)
		if (streq(object->seen[i], key))
			return true;
	return false;
}

void json_node_end(const struct json_node *object)
{
	struct json_node entry;
	void *iter = NULL;

	while (json_next_entry(object, &iter, &entry)) {
		char known[sizeof(((struct err *)NULL)->remedy)] = "";
		size_t len = 0;

		if (node_knows(object, entry.key))
			continue;
		for (size_t i = 0; i < object->n_seen && len < sizeof(known); i++)
			len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s",
			                        i ? " " : "known: ", object->seen[i]);
		(void)err_remedy(object->in->err, json_node_fail(&entry, "unknown field"), "%s",
		                 known);
	}
}

bool json_node_object(const struct json_node *n)
{
	if (!is_here(n))
		return false;
	return json_is_object(n->value) || node_wrong_type(n, "an object");
}

bool json_node_map(const struct json_node *n, size_t max, size_t *ret_n)
{
	size_t count;

	if (!json_node_object(n))
		return false;
	count = json_object_size(n->value);
	if (count > max)
		return node_too_long(n, count, max, "entries");
	*ret_n = count;
	return true;
}

bool json_node_array(const struct json_node *n, size_t max, size_t *ret_n)
{
	size_t count;

	if (!is_here(n))
		return false;
	if (!json_is_array(n->value))
		return node_wrong_type(n, "an array");
	count = json_array_size(n->value);
	if (count > max)
		return node_too_long(n, count, max, "elements");
	*ret_n = count;
	return true;
}

bool json_node_bytes(const struct json_node *n, size_t max, struct str *ret)
{
	struct str s;

	if (!is_here(n))
		return false;
	if (!json_is_string(n->value))
		return node_wrong_type(n, "a string");
	s = (struct str){ json_string_value(n->value), json_string_length(n->value) };
	if (s.n > max)
		return node_too_long(n, s.n, max, "bytes");
	*ret = s;
	return true;
}

bool json_node_text(const struct json_node *n, size_t max, struct str *ret)
{
	struct str s;

	if (!json_node_bytes(n, max, &s))
		return false;
	if (memchr(s.p, 0, s.n)) {
		(void)json_node_fail(n, "must not hold a NUL (\\u0000)");
		return false;
	}
	*ret = s;
	return true;
}

/* The value of a base64 digit, or -1. */
static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

/* s.n is a multiple of 4 and the padding is taken off; out has room. */
static bool base64_decode(struct str s, char *out)
{
	uint32_t bits = 0;
	unsigned n_bits = 0;

	for (size_t i = 0; i < s.n; i++) {
		int d = base64_digit(s.p[i]);

		if (d < 0)
			return false;
		bits = (bits << 6 | (uint32_t)d) & 0xfff;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			*out++ = (char)(bits >> n_bits);
		}
	}
	return (bits & ((1u << n_bits) - 1)) == 0; /* one text per content */
}

bool json_node_base64(const struct json_node *n, size_t max, struct arena *arena, struct str *ret)
{
	size_t pad = 0, len;
	struct str s;
	char *out;

	if (!json_node_bytes(n, SIZE_MAX, &s))
		return false;
	while (pad < 2 && pad < s.n && s.p[s.n - 1 - pad] == '=')
		pad++;
	len = s.n / 4 * 3 - (s.n ? pad : 0);
	if (s.n % 4 == 0 && len > max)
		return node_too_long(n, len, max, "bytes");
	out = s.n % 4 == 0 ? arena_alloc(arena, len + 1) : NULL;
	if (s.n % 4 == 0 && !out) {
		(void)json_reader_fail(n->in,
		                       err_set(n->in->err, ERR_LIMIT, ENOMEM, "%s", n->in->what));
		return false;
	}
	if (!out || !base64_decode((struct str){ s.p, s.n - pad }, out)) {
		int r = json_node_fail(n, "is not base64");

		(void)err_remedy(n->in->err, r,
		                 "use the standard alphabet with padding and no line breaks");
		return false;
	}
	*ret = (struct str){ out, len };
	return true;
}

bool json_node_u64(const struct json_node *n, uint64_t *ret)
{
	if (!is_here(n))
		return false;
	if (!json_is_integer(n->value))
		return node_wrong_type(n, "an integer");
	if (json_integer_value(n->value) < 0) {
		(void)json_node_fail(n, "must not be negative");
		return false;
	}
	*ret = (uint64_t)json_integer_value(n->value);
	return true;
}

bool json_node_milli(const struct json_node *n, uint64_t *ret)
{
	double v;

	if (!is_here(n))
		return false;
	if (!json_is_number(n->value))
		return node_wrong_type(n, "a number");
	v = json_number_value(n->value);
	if (v < 0) {
		(void)json_node_fail(n, "must not be negative");
		return false;
	}
	if (v > 1e12) {
		(void)json_node_fail(n, "is too large");
		return false;
	}
	*ret = (uint64_t)(v * 1000 + 0.5);
	return true;
}

bool json_node_bool(const struct json_node *n, bool *ret)
{
	if (!is_here(n))
		return false;
	if (!json_is_boolean(n->value))
		return node_wrong_type(n, "true or false");
	*ret = json_is_true(n->value);
	return true;
}
