/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/question.h"

#include <errno.h>
#include <jansson.h>
#include <time.h>

#include "base/str.h"
#include "cli/shown.h"

#define LINES_SHOWN   120
#define COLUMNS_SHOWN 400
#define ITEMS_SHOWN   32 /* arguments, variables, files */
#define HEAD_LINES    8  /* of a file */

static const char *text_of(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static void put_word(struct buf *out, const char *s)
{
	shown_word(out, str_of(s), COLUMNS_SHOWN);
}

static long long number_of(json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

static void show_risk(json_t *risk, struct buf *out)
{
	json_t *finding;
	size_t i;

	buf_printf(out, "Risk:     %s", text_of(risk, "level"));
	if (*text_of(risk, "why")) {
		buf_puts(out, " (");
		put_word(out, text_of(risk, "why"));
		buf_putc(out, ')');
	}
	buf_putc(out, '\n');
	json_array_foreach(json_object_get(risk, "findings"), i, finding)
	{
		buf_printf(out, "  %-8s  line %lld: ", text_of(finding, "level"),
		           number_of(finding, "line"));
		put_word(out, text_of(finding, "message"));
		buf_printf(out, " [%s]\n", text_of(finding, "rule"));
	}
}

static void show_list(json_t *list, const char *label, bool all, struct buf *out)
{
	size_t n = all ? SIZE_MAX : ITEMS_SHOWN, width = all ? SIZE_MAX : COLUMNS_SHOWN;
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		if (i == n) {
			buf_printf(out, "          ... and %zu more\n", json_array_size(list) - i);
			break;
		}
		buf_printf(out, "%-10s", i ? "" : label);
		shown_word(out, str_of(json_string_value(item)), width);
		buf_putc(out, '\n');
	}
}

/* Size and digest are of all of it; what follows is the beginning. */
static void show_bytes(json_t *o, bool all, struct buf *out)
{
	struct shown s;

	buf_printf(out, "%lld bytes, sha256 %s\n", number_of(o, "size"), text_of(o, "sha256"));
	shown_put(out, str_of(text_of(o, "head")), "          | ", all ? SIZE_MAX : HEAD_LINES,
	          all ? SIZE_MAX : COLUMNS_SHOWN, &s);
	if (s.cut)
		buf_printf(out, "          [%zu lines more are known: show --all]\n", s.cut);
}

static void show_files(json_t *list, bool all, struct buf *out)
{
	json_t *file;
	size_t i;

	json_array_foreach(list, i, file)
	{
		if (!all && i == ITEMS_SHOWN) {
			buf_printf(out, "          ... and %zu more\n", json_array_size(list) - i);
			break;
		}
		buf_printf(out, "%-10s", i ? "" : "Files:");
		put_word(out, text_of(file, "path"));
		buf_puts(out, json_is_true(json_object_get(file, "executable")) ? ", executable, "
		                                                                : ", ");
		show_bytes(file, all, out);
	}
}

static void show_bounds(json_t *o, bool all, struct buf *out)
{
	json_t *limits = json_object_get(o, "limits");

	buf_printf(out, "Box:      tier %s, level %s, network %s\n", text_of(o, "tier"),
	           text_of(o, "level"), text_of(o, "network"));
	buf_puts(out, "Limits:  ");
	for (void *i = json_object_iter(limits); i; i = json_object_iter_next(limits, i))
		buf_printf(out, " %s=%.15g", json_object_iter_key(i),
		           json_number_value(json_object_iter_value(i)));
	buf_putc(out, '\n');
	show_list(json_object_get(o, "args"), "Args:", all, out);
	show_list(json_object_get(o, "env"), "Env:", all, out);
	show_list(json_object_get(o, "tools"), "Tools:", all, out);
	if (number_of(json_object_get(o, "stdin"), "size")) {
		buf_puts(out, "Stdin:    ");
		show_bytes(json_object_get(o, "stdin"), all, out);
	}
	show_files(json_object_get(o, "files"), all, out);
}

static void show_code(struct str code, bool all, const char *id, struct buf *out)
{
	struct shown s;

	buf_printf(out, "Code:     %zu bytes\n", code.n);
	shown_put(out, code, "  | ", all ? SIZE_MAX : LINES_SHOWN, all ? SIZE_MAX : COLUMNS_SHOWN,
	          &s);
	if (s.cut)
		buf_printf(out, "  [%zu lines more: brig approvals show --all %s]\n", s.cut, id);
	if (s.escaped)
		buf_printf(
			out,
			"  [%zu characters that cannot be seen are written as \\x.. or \\u....]\n",
			s.escaped);
	if (s.not_ascii)
		buf_printf(out, "  [%zu characters are not ASCII and may look like others]\n",
		           s.not_ascii);
}

static void show_head(const struct approval *a, json_t *o, struct buf *out)
{
	json_t *decision = json_object_get(o, "decision");
	char hex[SHA256_HEX_SIZE], time[TIME_TEXT_SIZE];

	sha256_hex(a->digest, hex);
	buf_printf(out, "Approval %s (%s)\n", a->id, approval_state_name(a->state));
	buf_printf(out, "Digest:   %s\n", hex);
	buf_puts(out, "Asked by: ");
	put_word(out, a->asker);
	if (*a->session) {
		buf_puts(out, ", session ");
		put_word(out, a->session);
	}
	time_text(a->expires_us, time);
	buf_printf(out, ", expires %s\n", time);
	buf_puts(out, "Because:  policy ");
	put_word(out, text_of(decision, "policy"));
	buf_puts(out, ", rule ");
	put_word(out, text_of(decision, "rule"));
	buf_puts(out, ": ");
	put_word(out, text_of(decision, "reason"));
	buf_printf(out, "\nRuns:     %s %s", text_of(o, "action"), text_of(o, "language"));
	if (*text_of(o, "name")) {
		buf_puts(out, ", as ");
		put_word(out, text_of(o, "name"));
	}
	buf_putc(out, '\n');
}

int question_show(const struct desk *d, const struct approval *a, bool all, struct buf *out,
                  struct err *err)
{
	CLEANUP_BUF struct buf code = BUF_INIT(REQUEST_CODE_MAX), summary = BUF_INIT(QUESTION_MAX);
	json_t *o;
	int r = desk_texts(d, a->id, &code, &summary, err);

	if (r < 0)
		return r;
	o = json_loadb(summary.data ? summary.data : "", summary.len, JSON_ALLOW_NUL, NULL);
	if (!o)
		return err_set(err, ERR_INTERNAL, EIO, "the summary of approval %s", a->id);
	show_head(a, o, out);
	show_risk(json_object_get(o, "risk"), out);
	show_bounds(o, all, out);
	if (*text_of(o, "params"))
		show_code(str_of(text_of(o, "params")), all, a->id, out);
	else
		show_code((struct str){ code.data, code.len }, all, a->id, out);
	json_decref(o);
	r = buf_finish(out);
	return r < 0 ? err_set(err, ERR_LIMIT, -r, "the text of approval %s", a->id) : 0;
}
