/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig approvals: questions that wait and "yes" that stands, and the answers to them. Works on the
 * state directory, so a second terminal can answer a run that waits in the first; or asks the
 * daemon.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "cli/cmd_ledger.h"
#include "cli/flow.h"
#include "cli/load.h"
#include "cli/question.h"
#include "cli/shown.h"
#include "cli/words.h"
#include "risk/risk.h"

static const char approvals_help[] =
	"Usage: brig approvals ls [--all] [--json]\n"
	"       brig approvals show ID [--all | --json | --raw]\n"
	"       brig approvals allow ID [--session | --for TIME] [--reason TEXT] [--digest HEX]\n"
	"                               [--edit FILE]\n"
	"       brig approvals deny ID [--reason TEXT]\n"
	"       brig approvals revoke ID\n"
	"\n"
	"Runs that a policy wants confirmed wait here. An answer is for exactly what is shown: "
	"code,\n"
	"language, limits, files, network, arguments. ID may be shortened.\n"
	"\n"
	"  --all            ls: also those that are over; show: every line of the code\n"
	"  --raw            the code itself, byte for byte\n"
	"  --session        allow it as often as it is asked for in its session\n"
	"  --for TIME       allow it as often as it is asked for, so long (10m, 8h)\n"
	"  --reason TEXT    is recorded, and told to whoever asked\n"
	"  --digest HEX     answer only if it is still this\n"
	"  --edit FILE      allow this code in the place of what was asked for; it is analysed\n"
	"                   again, and the policy has its say again\n"
	"  --state-dir DIR  where the approvals are, when no daemon has them\n"
	"  --host WHERE     the daemon: unix:/path, http://127.0.0.1:7070, or none\n"
	"  --json           for programs\n"
	"  -h, --help       this text\n"
	"\n"
	"Exit status: 0; 1 when the answer was refused (too late, answered already, not "
	"permitted);\n"
	"2 for wrong usage or an unknown ID; 125 when brig failed; 126 when the token does not "
	"count.\n";

struct options {
	const char *verb, *id, *state_dir, *host, *reason, *digest, *edit, *for_time;
	char full_id[EXECUTION_ID_SIZE];
	bool all, json, raw, session, help;
};

static int parse(int argc, char **argv, struct options *o, struct err *err)
{
	const struct word known[] = {
		{ "--state-dir", &o->state_dir, NULL },
		{ "--host", &o->host, NULL },
		{ "--reason", &o->reason, NULL },
		{ "--digest", &o->digest, NULL },
		{ "--edit", &o->edit, NULL },
		{ "--for", &o->for_time, NULL },
		{ "--all", NULL, &o->all },
		{ "--json", NULL, &o->json },
		{ "--raw", NULL, &o->raw },
		{ "--session", NULL, &o->session },
		{ "--help", NULL, &o->help },
		{ "-h", NULL, &o->help },
	};
	const char *rest[2] = { NULL, NULL };
	int r = words_parse("approvals", argc, argv, known, ELEMENTSOF(known), rest,
	                    ELEMENTSOF(rest), err);

	o->verb = rest[0];
	o->id = rest[1];
	return r < 0 || o->help ? r : word_needed("approvals", "COMMAND", o->verb, err);
}

/* The daemon's, when there is one and no other place was named. none: nobody has run anything
 * there. */
static int open_desk(const struct options *o, struct client *c, struct desk *ret, bool *ret_none,
                     struct err *err)
{
	int r;

	*ret = (struct desk){ .client = c };
	if (o->host && o->state_dir && !streq(o->host, "none"))
		return err_set(err, ERR_INVALID, 0, "--host and --state-dir exclude each other");
	r = client_find(o->host, o->state_dir != NULL, c, err);
	if (r != 0)
		return r;
	r = ledger_open_existing(o->state_dir, &ret->ledger, err);
	*ret_none = r < 0 && err->code == ERR_NOT_FOUND;
	return r;
}

struct listing {
	struct buf out;
	bool json;
	size_t n;
};

static int list_one(void *data, const struct approval *a)
{
	struct listing *list = data;
	char hex[SHA256_HEX_SIZE], time[TIME_TEXT_SIZE];

	if (list->json) {
		buf_puts(&list->out, list->n++ ? ",\n" : "");
		approval_to_json(a, &list->out);
		return 0;
	}
	if (!list->n++)
		buf_puts(&list->out, "ID                          STATE      ASKER           "
		                     "DIGEST        EXPIRES\n");
	sha256_hex(a->digest, hex);
	buf_printf(&list->out, "%-27s %-10s ", a->id, approval_state_name(a->state));
	shown_word(&list->out, str_of(a->asker), 15);
	for (size_t n = strlen(a->asker); n < 16; n++)
		buf_putc(&list->out, ' ');
	time_text(a->until_us ? a->until_us : a->expires_us, time);
	buf_printf(&list->out, "%.12s  %s\n", hex, time);
	return 0;
}

static int put_out(const struct buf *b, struct err *err)
{
	int r = buf_finish(b);

	if (r >= 0)
		r = write_all(STDOUT_FILENO, b->data, b->len);
	return r < 0 ? err_set(err, ERR_IO, -r, "write the output") : 0;
}

static int do_ls(const struct desk *d, const struct options *o, struct err *err)
{
	struct listing list = { .out = BUF_INIT(4 * MIB), .json = o->json };
	int r;

	if (o->json)
		buf_putc(&list.out, '[');
	r = d ? desk_each(d, o->all, list_one, &list, err) : 0;
	if (o->json)
		buf_puts(&list.out, "]\n");
	else if (!list.n)
		buf_puts(&list.out, o->all ? "no approvals\n" : "nothing waits, nothing stands\n");
	if (r >= 0)
		r = put_out(&list.out, err);
	buf_done(&list.out);
	return r;
}

static void put_json(const struct approval *a, const struct buf *code, const struct buf *summary,
                     struct buf *out)
{
	approval_to_json(a, out);
	out->len--; /* the closing brace */
	buf_puts(out, ",\"request\":");
	buf_put(out, summary->data, summary->len);
	buf_puts(out, ",\"code\":");
	json_put_string(out, code->data, code->len);
	buf_puts(out, "}\n");
}

static int do_show(const struct desk *d, const struct options *o, struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(2 * QUESTION_MAX);
	CLEANUP_BUF struct buf code = BUF_INIT(REQUEST_CODE_MAX), summary = BUF_INIT(QUESTION_MAX);
	struct approval a;
	int r = desk_look(d, o->id, &a, err);

	if (r >= 0 && !o->json && !o->raw) {
		r = question_show(d, &a, o->all, &out, err);
		return r < 0 ? r : put_out(&out, err);
	}
	if (r >= 0)
		r = desk_texts(d, o->id, &code, &summary, err);
	if (r < 0)
		return r;
	if (o->raw)
		return put_out(&code, err);
	put_json(&a, &code, &summary, &out);
	return put_out(&out, err);
}

static int tell_answer(const struct options *o, const struct approval *a, struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(64 * KIB);
	char time[TIME_TEXT_SIZE];

	time_text(a->until_us, time);
	if (o->json) {
		approval_to_json(a, &out);
		buf_putc(&out, '\n');
	} else {
		buf_printf(&out, "%s: %s", a->id, approval_state_name(a->state));
		if (a->state == APPROVAL_ALLOWED)
			buf_puts(&out, a->scope == REMEMBER_NOTHING   ? ", once"
			               : a->scope == REMEMBER_SESSION ? ", in its session"
			                                              : ", until ");
		if (a->state == APPROVAL_ALLOWED && a->scope == REMEMBER_DIGEST)
			buf_puts(&out, time);
		buf_putc(&out, '\n');
	}
	return put_out(&out, err);
}

/* What the approver's own code would be; the waiting run goes by its own analysis. */
static int show_edit(const struct desk *d, const struct options *o, struct str code,
                     struct err *err)
{
	static struct findings f;
	CLEANUP_BUF struct buf summary = BUF_INIT(QUESTION_MAX);
	const char *mark = "\"language\":\"";
	char name[32] = "";
	enum language language;
	struct risk *risk;
	const char *at;
	int r = desk_texts(d, o->id, NULL, &summary, err);

	if (r >= 0)
		r = risk_open(&risk, err);
	if (r < 0)
		return r;
	at = summary.data ? strstr(summary.data, mark) : NULL;
	if (at)
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + strlen(mark), "\""),
		               at + strlen(mark));
	if (language_from_name(name, &language) >= 0) {
		risk_assess(risk, language, code, &f);
		(void)fprintf(stderr, "brig: the edited code is assessed as %s\n",
		              risk_level_name(f.level));
	}
	risk_close(risk);
	return 0;
}

static int set_scope(const struct options *o, struct confirm_answer *x, struct err *err)
{
	if (o->session && o->for_time)
		return err_set(err, ERR_INVALID, 0, "--session and --for exclude each other");
	if (o->session)
		x->scope = REMEMBER_SESSION;
	if (!o->for_time)
		return 0;
	x->scope = REMEMBER_DIGEST;
	if (parse_duration_ms(o->for_time, &x->remember_ms) < 0 || !x->remember_ms)
		return err_set(err, ERR_INVALID, 0, "--for: \"%.40s\" is no time", o->for_time);
	return 0;
}

static int do_answer(const struct desk *d, const struct options *o, struct err *err)
{
	CLEANUP_ARENA struct arena arena = ARENA_INIT(2 * REQUEST_CODE_MAX);
	char actor[ACTOR_SIZE];
	struct confirm_answer x = {
		.id = o->id, .actor = actor, .allow = streq(o->verb, "allow"), .reason = o->reason
	};
	uint8_t digest[SHA256_SIZE];
	struct approval after;
	struct str code;
	int r = set_scope(o, &x, err);

	flow_caller(actor);
	if (r >= 0 && o->digest) {
		if (sha256_from_hex(o->digest, digest) < 0)
			return err_set(err, ERR_INVALID, 0, "--digest: 64 hexadecimal digits");
		x.digest = digest;
	}
	if (r >= 0 && o->edit && x.allow) {
		r = read_path(o->edit, REQUEST_CODE_MAX, &arena, &code, NULL, err);
		if (r >= 0)
			r = show_edit(d, o, code, err);
		x.code = &code;
	}
	if (r >= 0)
		r = desk_answer(d, &x, &after, err);
	return r < 0 ? r : tell_answer(o, &after, err);
}

static int do_revoke(const struct desk *d, const struct options *o, struct err *err)
{
	char actor[ACTOR_SIZE];
	struct approval after;
	int r;

	flow_caller(actor);
	r = desk_revoke(d, o->id, actor, &after, err);
	return r < 0 ? r : tell_answer(o, &after, err);
}

static const struct {
	const char *name;
	int (*run)(const struct desk *d, const struct options *o, struct err *err);
	const char *needs;
} verbs[] = {
	{ "ls", do_ls, NULL },       { "show", do_show, "ID" },     { "allow", do_answer, "ID" },
	{ "deny", do_answer, "ID" }, { "revoke", do_revoke, "ID" },
};

static int find_verb(const struct options *o, size_t *ret, struct err *err)
{
	size_t i = 0;

	while (i < ELEMENTSOF(verbs) && !streq(o->verb, verbs[i].name))
		i++;
	if (i == ELEMENTSOF(verbs))
		return option_wrong("approvals", o->verb, "no such command", err);
	*ret = i;
	return word_needed("approvals", verbs[i].needs, o->id, err);
}

static int run(struct options *o, size_t verb, bool *ret_open, struct err *err)
{
	struct client c;
	struct desk d;
	bool none = false;
	int r = open_desk(o, &c, &d, &none, err);

	if (none && verbs[verb].run == do_ls)
		return do_ls(NULL, o, err);
	*ret_open = r >= 0;
	if (r < 0)
		return r;
	r = 0;
	if (verbs[verb].needs) {
		r = desk_find(&d, o->id, o->full_id, err);
		o->id = o->full_id;
	}
	if (r >= 0)
		r = verbs[verb].run(&d, o, err);
	if (d.ledger)
		ledger_close(d.ledger);
	client_done(&c);
	return r;
}

/* A refused answer is one thing, a record that is not to be trusted another. */
static int exit_status(enum err_code code, bool open)
{
	if (code == ERR_DENIED && !open)
		return 126;
	if (code == ERR_CONFLICT || code == ERR_EXPIRED || code == ERR_DENIED ||
	    code == ERR_FORBIDDEN)
		return 1;
	if (code == ERR_INVALID || code == ERR_NOT_FOUND)
		return 2;
	return code == ERR_UNAUTHORIZED ? 126 : 125;
}

int cmd_approvals(int argc, char **argv)
{
	struct options o = { 0 };
	struct err err = { 0 };
	bool open = false;
	size_t verb = 0;
	int r = parse(argc, argv, &o, &err);

	if (r >= 0 && o.help)
		return fputs(approvals_help, stdout) < 0 ? 125 : 0;
	if (r >= 0)
		r = find_verb(&o, &verb, &err);
	if (r >= 0)
		r = run(&o, verb, &open, &err);
	if (r >= 0)
		return 0;
	complain(&err);
	return exit_status(err.code, open);
}
