/* SPDX-License-Identifier: Apache-2.0 */

/* A request on its way to a daemon. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/doc.h"

struct writing {
	struct buf *out;
	const char *bad; /* the first field that cannot be said in JSON */
};

static size_t count_replaced(const char *p, size_t n)
{
	size_t count = 0;

	for (const char *end = p + n; n && (p = memmem(p, (size_t)(end - p), "\xef\xbf\xbd", 3));
	     p += 3)
		count++;
	return count;
}

/* Bytes that are not UTF-8 become U+FFFD: then there are more of these than before. */
static void put_text(struct writing *w, const char *field, const char *p, size_t n)
{
	size_t before = w->out->len;

	json_put_string(w->out, p, n);
	if (w->bad || w->out->error)
		return;
	if (count_replaced(w->out->data + before, w->out->len - before) > count_replaced(p, n))
		w->bad = field;
}

static void put_key(struct writing *w, const char *key)
{
	if (w->out->len > 1)
		buf_putc(w->out, ',');
	buf_printf(w->out, "\"%s\":", key);
}

static void put_field(struct writing *w, const char *key, const char *p, size_t n)
{
	put_key(w, key);
	put_text(w, key, p, n);
}

static void put_optional(struct writing *w, const char *key, const char *s)
{
	if (s)
		put_field(w, key, s, strlen(s));
}

static void put_list(struct writing *w, const char *key, const char *const *list, size_t n)
{
	if (!n)
		return;
	put_key(w, key);
	for (size_t i = 0; i < n; i++) {
		buf_putc(w->out, i ? ',' : '[');
		put_text(w, key, list[i], strlen(list[i]));
	}
	buf_putc(w->out, ']');
}

static void put_env(struct writing *w, const struct request *r)
{
	if (!r->n_env)
		return;
	put_key(w, "env");
	for (size_t i = 0; i < r->n_env; i++) {
		size_t n = strcspn(r->env[i], "=");

		buf_putc(w->out, i ? ',' : '{');
		put_text(w, "env", r->env[i], n);
		buf_putc(w->out, ':');
		put_text(w, "env", r->env[i] + n + 1, strlen(r->env[i] + n + 1));
	}
	buf_putc(w->out, '}');
}

static void put_limit(struct buf *out, const struct limit_info *info, uint64_t v)
{
	char number[LIMIT_NUMBER_SIZE];

	buf_printf(out, "\"%s\":%s", info->key, limit_number(info, v, number));
}

/* What is left out has the same default there. */
static void put_limits(struct writing *w, const struct request *r)
{
	bool any = false;

	for (size_t i = 0; i < limit_infos_n; i++) {
		const struct limit_info *info = &limit_infos[i];
		uint64_t v = *limits_field((struct limits *)&r->limits, info);

		if (v == info->def)
			continue;
		if (streq(info->key, "timeout_ms")) {
			buf_putc(w->out, ',');
			put_limit(w->out, info, v);
		}
	}
	for (size_t i = 0; i < limit_infos_n; i++) {
		const struct limit_info *info = &limit_infos[i];
		uint64_t v = *limits_field((struct limits *)&r->limits, info);

		if (v == info->def || streq(info->key, "timeout_ms"))
			continue;
		buf_puts(w->out, any ? "," : ",\"limits\":{");
		put_limit(w->out, info, v);
		any = true;
	}
	if (any)
		buf_putc(w->out, '}');
}

static void put_base64(struct buf *out, struct str s)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = (const unsigned char *)s.p;

	for (size_t i = 0; i < s.n && !out->error; i += 3) {
		size_t n = MIN2(s.n - i, (size_t)3);
		uint32_t v = (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
		             (n > 2 ? p[i + 2] : 0);
		char four[4] = { digits[v >> 18], digits[v >> 12 & 63], '=', '=' };

		if (n > 1)
			four[2] = digits[v >> 6 & 63];
		if (n > 2)
			four[3] = digits[v & 63];
		buf_put(out, four, sizeof(four));
	}
}

static void put_files(struct writing *w, const struct request *r)
{
	if (!r->n_files)
		return;
	put_key(w, "files");
	for (size_t i = 0; i < r->n_files; i++) {
		const struct request_file *f = &r->files[i];

		buf_puts(w->out, i ? ",{\"path\":" : "[{\"path\":");
		put_text(w, "files", f->path, strlen(f->path));
		buf_puts(w->out, ",\"content_base64\":\"");
		put_base64(w->out, f->data);
		buf_printf(w->out, "\",\"executable\":%s}", f->executable ? "true" : "false");
	}
	buf_putc(w->out, ']');
}

int request_to_json(const struct request *r, struct buf *out, struct err *err)
{
	struct writing w = { .out = out };

	buf_putc(out, '{');
	put_optional(&w, "language", language_name(r->language));
	put_field(&w, "code", r->code.p, r->code.n);
	put_optional(&w, "name", r->name);
	put_optional(&w, "level", level_name(r->level));
	put_optional(&w, "tier", tier_name(r->tier));
	put_optional(&w, "network", network_name(r->network));
	put_optional(&w, "session_id", r->session_id);
	if (r->stdin_data.n)
		put_field(&w, "stdin", r->stdin_data.p, r->stdin_data.n);
	put_limits(&w, r);
	put_list(&w, "args", r->args, r->n_args);
	put_list(&w, "labels", r->labels, r->n_labels);
	put_env(&w, r);
	put_files(&w, r);
	buf_putc(out, '}');
	if (out->error)
		return err_set(err, ERR_LIMIT, -out->error, "the request");
	if (!w.bad)
		return 0;
	(void)err_set(err, ERR_INVALID, 0, "%s: is not UTF-8, and a daemon takes JSON", w.bad);
	return err_remedy(err, -EILSEQ, "place it as a file (--file), or say --host none");
}
