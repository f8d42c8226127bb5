/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig token: who may use the daemon. Works on the state directory; a running daemon sees the
 * change with the next request.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/words.h"
#include "ledger/ledger.h"

#define DAY_MS      UINT64_C(86400000)
#define EXPIRES_MAX (3650 * DAY_MS)

static const char token_help[] =
	"Usage: brig token new NAME --scope SCOPE[,SCOPE...] [--expires TIME] [--rate N]\n"
	"                      [--concurrent N] [--bytes-per-minute SIZE]\n"
	"       brig token ls [--json]\n"
	"       brig token rm NAME|ID\n"
	"\n"
	"A token lets a program use the daemon (Authorization: Bearer TOKEN). It is shown once, "
	"when\n"
	"it is made: only its digest is kept. A token that was removed ends with the next "
	"request.\n"
	"\n"
	"  --scope SCOPE    what it may: run (execute, and see one's own runs), read (everybody's\n"
	"                   runs, the ledger, metrics), approve (answer questions), admin (all)\n"
	"  --expires TIME   it ends by itself after so long (12h, 30d)     (never)\n"
	"  --rate N         at most N runs per second; twice as many in a burst\n"
	"  --concurrent N   at most N runs at a time\n"
	"  --bytes-per-minute SIZE\n"
	"                   at most so much in requests, like 64M\n"
	"  --state-dir DIR  where the tokens are: the daemon's\n"
	"  --json           for programs\n"
	"  -h, --help       this text\n"
	"\n"
	"Exit status: 0; 1 when the name is taken or there are too many; 2 for wrong usage and "
	"for\n"
	"a token that does not exist; 125 when brig failed.\n"
	"\n"
	"Examples:\n"
	"  brig token new ci --scope run --expires 30d --concurrent 4 > token\n"
	"  brig token new console --scope read,approve\n"
	"  brig token rm ci\n";

struct options {
	const char *verb, *name, *state_dir;
	const char *scope, *expires, *rate, *concurrent, *bytes;
	bool json, help;
};

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	const struct word known[] = {
		{ "--scope", &o->scope, NULL },
		{ "--expires", &o->expires, NULL },
		{ "--rate", &o->rate, NULL },
		{ "--concurrent", &o->concurrent, NULL },
		{ "--bytes-per-minute", &o->bytes, NULL },
		{ "--state-dir", &o->state_dir, NULL },
		{ "--json", NULL, &o->json },
		{ "--help", NULL, &o->help },
		{ "-h", NULL, &o->help },
	};
	const char *rest[2] = { NULL, NULL };
	int r = words_parse("token", argc, argv, known, ELEMENTSOF(known), rest, ELEMENTSOF(rest),
	                    err);

	o->verb = rest[0];
	o->name = rest[1];
	return r < 0 || o->help ? r : word_needed("token", "COMMAND", o->verb, err);
}

/* ---- what a new one may ---- */

static int wrong_value(struct err *err, const char *option, const char *text, const char *like)
{
	(void)err_set(err, ERR_INVALID, 0, "%s: \"%.40s\" is not a value", option, text);
	return err_remedy(err, -EINVAL, "write it like %s %s; leave it out for no bound", option,
	                  like);
}

/* Zero would read as "nothing", and mean "no bound". */
static int set_count(const char *option, const char *text, uint32_t *ret, struct err *err)
{
	uint64_t v = 0;

	if (!text)
		return 0;
	if (parse_u64(text, &v) < 0 || v < 1 || v > UINT32_MAX)
		return wrong_value(err, option, text, "8");
	*ret = (uint32_t)v;
	return 0;
}

static int set_bytes(const char *text, uint64_t *ret, struct err *err)
{
	uint64_t v = 0;

	if (!text)
		return 0;
	if (parse_size(text, &v) < 0 || v < 1)
		return wrong_value(err, "--bytes-per-minute", text, "64M");
	*ret = v;
	return 0;
}

/* As everywhere, and days. */
static int parse_lifetime(const char *text, uint64_t *ret_ms)
{
	char number[24];
	size_t n = strlen(text);
	uint64_t v = 0;
	int r;

	if (n < 2 || n > sizeof(number) || text[n - 1] != 'd') {
		r = parse_duration_ms(text, &v);
	} else {
		(void)snprintf(number, sizeof(number), "%.*s", (int)(n - 1), text);
		r = parse_u64(number, &v);
		v = v > EXPIRES_MAX / DAY_MS ? EXPIRES_MAX + 1 : v * DAY_MS;
	}
	if (r < 0 || v < 1 || v > EXPIRES_MAX)
		return -EINVAL;
	*ret_ms = v;
	return 0;
}

static uint64_t now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

static int set_expiry(const char *text, uint64_t *ret_us, struct err *err)
{
	uint64_t ms;

	if (!text)
		return 0;
	if (parse_lifetime(text, &ms) < 0) {
		(void)err_set(err, ERR_INVALID, 0, "--expires: \"%.40s\" is no time", text);
		return err_remedy(
			err, -EINVAL,
			"write it like 30d or 12h, at most 3650d; leave it out for never");
	}
	*ret_us = now_us() + ms * 1000;
	return 0;
}

static int set_name(const char *name, struct token *k, struct err *err)
{
	int n = snprintf(k->name, sizeof(k->name), "%s", name);

	if (n < 0 || (size_t)n >= sizeof(k->name))
		return err_remedy(err, err_set(err, ERR_INVALID, 0, "the name is too long"),
		                  "at most %d characters", TOKEN_NAME_MAX);
	return 0;
}

static int make_like(const struct options *o, struct token *k, struct err *err)
{
	int r = set_name(o->name, k, err);

	if (r < 0)
		return r;
	if (!o->scope)
		return err_remedy(err, err_set(err, ERR_INVALID, 0, "a token without --scope"),
		                  "say what it may: --scope run, or run,read, approve, admin");
	r = scopes_parse(o->scope, &k->scopes, err);
	if (r >= 0)
		r = set_expiry(o->expires, &k->expires_us, err);
	if (r >= 0)
		r = set_count("--rate", o->rate, &k->quota.runs_per_s, err);
	if (r >= 0)
		r = set_count("--concurrent", o->concurrent, &k->quota.concurrent, err);
	if (r >= 0)
		r = set_bytes(o->bytes, &k->quota.bytes_per_min, err);
	return r;
}

/* ---- showing ---- */

static int put_out(const struct buf *b, struct err *err)
{
	int r = buf_finish(b);

	if (r >= 0)
		r = write_all(STDOUT_FILENO, b->data, b->len);
	return r < 0 ? err_set(err, ERR_IO, -r, "write the output") : 0;
}

static void put_bound(struct buf *out, const char *key, uint64_t value)
{
	if (value)
		buf_printf(out, ",\"%s\":%" PRIu64, key, value);
	else
		buf_printf(out, ",\"%s\":null", key);
}

static bool is_expired(const struct token *k)
{
	return k->expires_us && k->expires_us <= now_us();
}

/* `text` may be NULL: it is known only once. */
static void put_json(struct buf *out, const struct token *k, const char *text)
{
	char scopes[32];

	scopes_print(k->scopes, scopes, sizeof(scopes));
	buf_puts(out, "{\"id\":");
	json_put_cstr(out, k->id);
	buf_puts(out, ",\"name\":");
	json_put_cstr(out, k->name);
	if (text) {
		buf_puts(out, ",\"token\":");
		json_put_cstr(out, text);
	}
	buf_puts(out, ",\"scopes\":[\"");
	for (const char *c = scopes; *c; c++)
		buf_puts(out, *c == ',' ? "\",\"" : (const char[]){ *c, '\0' });
	buf_puts(out, "\"],\"created\":");
	json_put_time(out, k->created_us);
	buf_puts(out, ",\"expires\":");
	json_put_time(out, k->expires_us);
	buf_printf(out, ",\"expired\":%s", is_expired(k) ? "true" : "false");
	put_bound(out, "runs_per_s", k->quota.runs_per_s);
	put_bound(out, "concurrent", k->quota.concurrent);
	put_bound(out, "bytes_per_min", k->quota.bytes_per_min);
	buf_putc(out, '}');
}

static void put_row(struct buf *out, const struct token *k)
{
	char scopes[32], created[TIME_TEXT_SIZE], expires[TIME_TEXT_SIZE];
	const struct quota *q = &k->quota;
	const char *gap = "";

	scopes_print(k->scopes, scopes, sizeof(scopes));
	time_text(k->created_us, created);
	time_text(k->expires_us, expires);
	buf_printf(out, "%-12s  %-16s  %-22s  %-20s  %-20s  ", k->id, k->name, scopes, created,
	           is_expired(k) ? "expired" : expires);
	if (q->runs_per_s) {
		buf_printf(out, "%" PRIu32 "/s", q->runs_per_s);
		gap = " ";
	}
	if (q->concurrent) {
		buf_printf(out, "%s%" PRIu32 " at a time", gap, q->concurrent);
		gap = " ";
	}
	if (q->bytes_per_min)
		buf_printf(out, "%s%" PRIu64 " B/min", gap, q->bytes_per_min);
	buf_puts(out, q->runs_per_s || q->concurrent || q->bytes_per_min ? "\n" : "-\n");
}

/* ---- the verbs ---- */

static int show_new(const struct options *o, const struct token *k, const char *text,
                    struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(4 * KIB);
	int r;

	if (o->json)
		put_json(&out, k, text);
	else
		buf_puts(&out, text);
	buf_putc(&out, '\n');
	r = put_out(&out, err);
	if (out.data)
		explicit_bzero(out.data, out.cap);
	if (r >= 0)
		(void)fprintf(stderr, "brig: this is the only time that \"%s\" is shown\n",
		              k->name);
	return r;
}

static int do_new(struct tokens *t, const struct options *o, struct err *err)
{
	char text[TOKEN_SIZE] = "";
	struct token like = { 0 }, made = { 0 };
	int r = make_like(o, &like, err);

	if (r >= 0)
		r = tokens_add(t, &like, text, &made, err);
	if (r < 0)
		return r;
	r = show_new(o, &made, text, err);
	explicit_bzero(text, sizeof(text));
	/* Nobody has seen it, so nobody can use it. */
	if (r < 0)
		(void)tokens_remove(t, made.id, /* err= */ NULL);
	return r;
}

static int do_ls(struct tokens *t, const struct options *o, struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(1 * MIB);
	size_t n = tokens_count(t);

	if (o->json)
		buf_putc(&out, '[');
	else
		buf_puts(&out, n ? "ID            NAME              SCOPES                  CREATED"
		                   "               EXPIRES               QUOTA\n"
		                 : "no tokens\n");
	for (size_t i = 0; i < n; i++) {
		if (!o->json) {
			put_row(&out, tokens_at(t, i));
			continue;
		}
		buf_puts(&out, i ? ",\n" : "");
		put_json(&out, tokens_at(t, i), NULL);
	}
	if (o->json)
		buf_puts(&out, "]\n");
	return put_out(&out, err);
}

static int do_rm(struct tokens *t, const struct options *o, struct err *err)
{
	return tokens_remove(t, o->name, err);
}

static const struct {
	const char *name;
	int (*run)(struct tokens *t, const struct options *o, struct err *err);
	const char *needs;
} verbs[] = {
	{ "new", do_new, "NAME" },
	{ "ls", do_ls, NULL },
	{ "rm", do_rm, "NAME" },
};

/* An option that says nothing to this verb; NULL: there is none. */
static const char *unused_option(const struct options *o)
{
	if (o->json && streq(o->verb, "rm"))
		return "--json";
	if (streq(o->verb, "new"))
		return NULL;
	return o->scope        ? "--scope"
	       : o->expires    ? "--expires"
	       : o->rate       ? "--rate"
	       : o->concurrent ? "--concurrent"
	       : o->bytes      ? "--bytes-per-minute"
	                       : NULL;
}

static int find_verb(const struct options *o, size_t *ret, struct err *err)
{
	const char *unused = unused_option(o);
	size_t i = 0;

	while (i < ELEMENTSOF(verbs) && !streq(o->verb, verbs[i].name))
		i++;
	if (i == ELEMENTSOF(verbs))
		return option_wrong("token", o->verb, "no such command", err);
	if (unused)
		return option_wrong("token", unused, "not for this command", err);
	*ret = i;
	return word_needed("token", verbs[i].needs, o->name, err);
}

static int run(const struct options *o, size_t verb, struct err *err)
{
	char dir[4096];
	struct tokens *t;
	int r = o->state_dir ? 0 : ledger_default_dir(dir, sizeof(dir), err);

	if (r >= 0)
		r = tokens_open(o->state_dir ? o->state_dir : dir, &t, err);
	if (r < 0)
		return r;
	r = verbs[verb].run(t, o, err);
	tokens_close(t);
	return r;
}

int cmd_token(int argc, char **argv)
{
	struct options o = { 0 };
	struct err err = { 0 };
	size_t verb = 0;
	int r = parse(argc, argv, &o, &err);

	if (r >= 0 && o.help)
		return fputs(token_help, stdout) < 0 ? 125 : 0;
	if (r >= 0)
		r = find_verb(&o, &verb, &err);
	if (r >= 0)
		r = run(&o, verb, &err);
	if (r >= 0)
		return 0;
	complain(&err);
	if (err.code == ERR_CONFLICT || err.code == ERR_LIMIT)
		return 1;
	return err.code == ERR_INVALID || err.code == ERR_NOT_FOUND ? 2 : 125;
}
