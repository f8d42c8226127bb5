/* SPDX-License-Identifier: Apache-2.0 */
/* brig ledger: the record, for people and for other programs. "show" is in ledger_show.c. */
#include "cli/cmd_ledger.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli/cmd.h"
#include "cli/shown.h"
#include "confirm/confirm.h"

#define EXIT_UNSOUND 1
#define EXIT_USAGE   2
#define EXIT_BROKEN  125

#define LS_ROWS   50
#define DETAIL    100 /* characters of it in a list */
#define GRAPH_MAX (64 * MIB)
#define DAY_MS    86400000u

static const char help[] =
	"usage: brig ledger ls [--job ID] [--session S] [--kind K] [-n N] [--json]\n"
	"       brig ledger show ID|SEQ [--bodies] [--json]\n"
	"       brig ledger verify [--json]\n"
	"       brig ledger export [--jsonl] [--after SEQ]\n"
	"       brig ledger prune --before AGE|DATE [--yes]\n"
	"       brig ledger graph SESSION [--json|--dot]\n"
	"\n"
	"The record of what was asked, decided and done. Each row's hash covers the row before "
	"it.\n"
	"\n"
	"ls      the newest rows, newest first (-n N: how many, 50; 0: all)\n"
	"show    the rows of an execution as a story, or one row; --bodies: with code and output\n"
	"verify  checks rows, bodies, the end of the record and the file\n"
	"export  all rows, oldest first, one JSON object a line; tools/verify_ledger.py checks "
	"them\n"
	"        without brig\n"
	"prune   removes rows that are older than AGE (90d, 12h) or DATE (2026-01-31, UTC), and\n"
	"        leaves a signed stub; without --yes it only says how many they are\n"
	"graph   which execution of a session changed which file\n"
	"\n"
	"      --state-dir DIR  where the record is\n"
	"      --help           this text\n"
	"\n"
	"Exit status: 0; 1 when verify finds the record unsound; 2 for wrong usage; 125 when it\n"
	"cannot be read or written.\n";

/* ---- output ---- */

void ledger_time(uint64_t time_us, char ret[LEDGER_TIME_SIZE])
{
	time_t seconds = (time_t)(time_us / 1000000u);
	struct tm tm = { 0 };
	char day[24];

	if (!gmtime_r(&seconds, &tm) || !strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm))
		(void)snprintf(day, sizeof(day), "?");
	(void)snprintf(ret, LEDGER_TIME_SIZE, "%s.%06uZ", day, (unsigned)(time_us % 1000000u));
}

int ledger_flush(struct buf *b, struct err *err)
{
	int r = buf_finish(b);

	if (r < 0)
		return err_set(err, ERR_LIMIT, -r, "write the rows");
	if (b->len && fwrite(b->data, b->len, 1, stdout) != 1)
		return err_set(err, ERR_IO, errno, "write the rows");
	b->len = 0;
	return 0;
}

struct printer {
	struct buf out;
	struct err *err;
	bool json;
	uint64_t rows;
	int r;
};

static void put_word(struct buf *out, const char *s, size_t max)
{
	shown_word(out, str_of(*s ? s : "-"), max);
}

static void put_line(struct buf *out, const struct ledger_row *row)
{
	char when[LEDGER_TIME_SIZE];

	ledger_time(row->time_us, when);
	buf_printf(out, "%6llu  %s  ", (unsigned long long)row->seq, when);
	put_word(out, row->job, 40);
	buf_puts(out, "  ");
	put_word(out, row->kind, 20);
	buf_putc(out, ' ');
	put_word(out, row->name, 40);
	buf_puts(out, "  ");
	put_word(out, row->actor, 40);
	buf_puts(out, "  ");
	shown_word(out, row->detail, DETAIL);
	buf_putc(out, '\n');
}

static int print_row(void *data, const struct ledger_row *row)
{
	struct printer *p = data;

	if (p->json) {
		ledger_row_to_json(row, &p->out);
		buf_putc(&p->out, '\n');
	} else {
		put_line(&p->out, row);
	}
	p->rows++;
	p->r = ledger_flush(&p->out, p->err);
	return p->r < 0;
}

static int print_rows(struct ledger *l, const struct ledger_filter *f, bool json,
                      uint64_t *ret_rows, struct err *err)
{
	struct printer p = { .out = BUF_INIT(LEDGER_LINE_MAX), .err = err, .json = json };
	int r = ledger_each(l, f, print_row, &p, err);

	buf_done(&p.out);
	if (r == 0)
		r = p.r;
	*ret_rows = p.rows;
	return r;
}

/* ---- the commands ---- */

static int number(const char *text, const char *what, uint64_t *ret, struct err *err)
{
	if (parse_u64(text, ret) < 0)
		return err_set(err, ERR_INVALID, 0, "%s: \"%.40s\" is not a number", what, text);
	return 0;
}

static int ls(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err)
{
	struct ledger_filter f = { .job = a->job,
		                   .session = a->session,
		                   .kind = a->kind,
		                   .limit = LS_ROWS,
		                   .newest_first = true };
	uint64_t rows = 0;
	int r = a->number ? number(a->number, "-n", &f.limit, err) : 0;

	(void)ret_status;
	if (r == 0)
		r = print_rows(l, &f, a->json, &rows, err);
	if (r == 0 && rows == 0)
		(void)fprintf(stderr, "brig ledger: no such rows in %s\n", ledger_dir(l));
	return r;
}

static int export(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err)
{
	struct ledger_filter f = { 0 };
	uint64_t rows;
	int r = a->after ? number(a->after, "--after", &f.after_seq, err) : 0;

	(void)ret_status;
	return r < 0 ? r : print_rows(l, &f, true, &rows, err);
}

static void put_report(struct buf *out, const struct ledger_report *report)
{
	buf_printf(
		out,
		"{\"sound\":%s,\"rows\":%llu,\"bodies\":%llu,\"first_seq\":%llu,\"last_seq\":%llu,"
		"\"pruned\":%llu,\"lost\":%llu,\"bad_seq\":%llu,\"why\":",
		report->ok ? "true" : "false", (unsigned long long)report->rows,
		(unsigned long long)report->bodies, (unsigned long long)report->first_seq,
		(unsigned long long)report->last_seq, (unsigned long long)report->pruned,
		(unsigned long long)report->lost, (unsigned long long)report->bad_seq);
	if (report->ok)
		buf_puts(out, "null");
	else
		json_put_cstr(out, report->why);
	buf_puts(out, "}\n");
}

static void put_verdict(struct buf *out, const struct ledger_report *report)
{
	if (!report->ok) {
		buf_puts(out, "NOT SOUND: ");
		shown_word(out, str_of(report->why), sizeof(report->why));
		buf_putc(out, '\n');
		return;
	}
	buf_printf(out, "sound: %llu rows", (unsigned long long)report->rows);
	if (report->rows)
		buf_printf(out, " (%llu to %llu)", (unsigned long long)report->first_seq,
		           (unsigned long long)report->last_seq);
	buf_printf(out, ", %llu bodies", (unsigned long long)report->bodies);
	if (report->pruned)
		buf_printf(out, "; %llu older rows were pruned",
		           (unsigned long long)report->pruned);
	buf_putc(out, '\n');
}

static int say_report(const struct ledger_report *report, bool json, struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(LEDGER_LINE_MAX);

	if (json)
		put_report(&out, report);
	else
		put_verdict(&out, report);
	return ledger_flush(&out, err);
}

static int verify(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err)
{
	struct ledger_report report;
	char id[EXECUTION_ID_SIZE];
	const char *why;
	int r = ledger_verify(l, &report, err);

	if (r < 0)
		return r;
	why = report.ok ? confirm_verify(l, id) : NULL;
	if (why) {
		report.ok = false;
		(void)snprintf(report.why, sizeof(report.why), "%s%s%s", why, *id ? ": " : "", id);
	}
	*ret_status = report.ok ? 0 : EXIT_UNSOUND;
	return say_report(&report, a->json, err);
}

/* 2026-01-31 or 2026-01-31T12:00:00Z */
static int parse_date(const char *text, uint64_t *ret_us)
{
	struct tm tm = { 0 };
	const char *end = strptime(text, "%Y-%m-%d", &tm);
	time_t when;
	int day;

	if (end && *end == 'T')
		end = strptime(end, "T%H:%M:%SZ", &tm);
	if (!end || *end)
		return -EINVAL;
	day = tm.tm_mday;
	when = timegm(&tm);
	if (when < 0)
		return -ERANGE;
	if (tm.tm_mday != day) /* the 30th of February */
		return -EINVAL;
	*ret_us = (uint64_t)when * 1000000u;
	return 0;
}

/* 90d, 12h. A bare number is refused: it could be meant as a year. */
static int parse_age(const char *text, uint64_t *ret_ms)
{
	size_t n = strlen(text);
	char days[16];
	uint64_t v;

	if (n < 2 || n > sizeof(days) || (text[n - 1] >= '0' && text[n - 1] <= '9'))
		return -EINVAL;
	if (text[n - 1] != 'd')
		return parse_duration_ms(text, ret_ms);
	(void)snprintf(days, sizeof(days), "%.*s", (int)n - 1, text);
	if (parse_u64(days, &v) < 0 || v > UINT32_MAX)
		return -EINVAL;
	*ret_ms = v * DAY_MS;
	return 0;
}

static int parse_before(const char *text, uint64_t *ret_us)
{
	struct timespec now;
	uint64_t ms = 0, now_us;

	if (parse_date(text, ret_us) == 0)
		return 0;
	if (parse_age(text, &ms) < 0)
		return -EINVAL;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	now_us = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
	if (ms > now_us / 1000u)
		return -ERANGE;
	*ret_us = now_us - ms * 1000u;
	return 0;
}

struct counter {
	uint64_t before_us, rows;
};

static int count_old(void *data, const struct ledger_row *row)
{
	struct counter *c = data;

	if (row->time_us >= c->before_us)
		return 1;
	c->rows++;
	return 0;
}

static int prune(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err)
{
	struct counter c = { 0 };
	char actor[32];
	int r;

	(void)ret_status;
	if (!a->before || parse_before(a->before, &c.before_us) < 0)
		return err_remedy(err,
		                  err_set(err, ERR_INVALID, 0,
		                          "--before: \"%.40s\" is no age and no date",
		                          a->before ? a->before : ""),
		                  "write 90d, 12h, 2026-01-31 or 2026-01-31T12:00:00Z");
	if (!a->yes) {
		r = ledger_each(l, &(struct ledger_filter){ 0 }, count_old, &c, err);
		if (r == 0)
			(void)printf("%llu rows would be removed; --yes does it\n",
			             (unsigned long long)c.rows);
		return r;
	}
	(void)snprintf(actor, sizeof(actor), "cli:%u", (unsigned)getuid());
	r = confirm_keep(l, &c.before_us, err);
	if (r >= 0)
		r = ledger_prune(l, c.before_us, actor, &c.rows, err);
	if (r >= 0)
		r = confirm_prune(l, c.before_us, err);
	if (r == 0)
		(void)printf("%llu rows removed\n", (unsigned long long)c.rows);
	return r;
}

static int graph(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err)
{
	CLEANUP_BUF struct buf out = BUF_INIT(GRAPH_MAX);
	int r = ledger_graph(l, a->what, a->dot ? LEDGER_GRAPH_DOT : LEDGER_GRAPH_JSON, &out, err);

	(void)ret_status;
	return r < 0 ? r : ledger_flush(&out, err);
}

/* ---- the command line ---- */

enum {
	CMD_LS = 1u << 0,
	CMD_SHOW = 1u << 1,
	CMD_VERIFY = 1u << 2,
	CMD_EXPORT = 1u << 3,
	CMD_PRUNE = 1u << 4,
	CMD_GRAPH = 1u << 5,
	CMD_ALL = 0x3f,
};

static const struct {
	const char *name;
	int (*run)(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err);
	unsigned bit;
	const char *wants; /* one argument of this name; NULL: none */
} commands[] = {
	{ "ls", ls, CMD_LS, NULL },
	{ "show", ledger_show, CMD_SHOW, "ID or SEQ" },
	{ "verify", verify, CMD_VERIFY, NULL },
	{ "export", export, CMD_EXPORT, NULL },
	{ "prune", prune, CMD_PRUNE, NULL },
	{ "graph", graph, CMD_GRAPH, "SESSION" },
};

static const struct {
	const char *name;
	size_t at;
	bool has_value;
	unsigned of;
} options[] = {
	{ "--state-dir", offsetof(struct ledger_args, state_dir), true, CMD_ALL },
	{ "--job", offsetof(struct ledger_args, job), true, CMD_LS },
	{ "--session", offsetof(struct ledger_args, session), true, CMD_LS },
	{ "--kind", offsetof(struct ledger_args, kind), true, CMD_LS },
	{ "-n", offsetof(struct ledger_args, number), true, CMD_LS },
	{ "--after", offsetof(struct ledger_args, after), true, CMD_EXPORT },
	{ "--before", offsetof(struct ledger_args, before), true, CMD_PRUNE },
	{ "--json", offsetof(struct ledger_args, json), false,
	  CMD_LS | CMD_SHOW | CMD_VERIFY | CMD_GRAPH },
	{ "--jsonl", offsetof(struct ledger_args, jsonl), false, CMD_EXPORT },
	{ "--dot", offsetof(struct ledger_args, dot), false, CMD_GRAPH },
	{ "--yes", offsetof(struct ledger_args, yes), false, CMD_PRUNE },
	{ "--bodies", offsetof(struct ledger_args, bodies), false, CMD_SHOW },
};

static int usage(const char *what, const char *arg)
{
	(void)fprintf(stderr, "brig ledger: %s: %.80s\ntry: brig ledger --help\n", what, arg);
	return -EINVAL;
}

/* 1: taken, and *i moved on to the value; 0: no such option; negative: said what is wrong. */
static int take_option(struct ledger_args *a, unsigned of, int argc, char **argv, int *i)
{
	const char *arg = argv[*i], *value = NULL;

	for (size_t k = 0; k < ELEMENTSOF(options); k++) {
		size_t n = strlen(options[k].name);

		if (!(options[k].of & of) || !str_has_prefix(arg, options[k].name))
			continue;
		if (options[k].has_value && arg[n] == '=' && arg[1] == '-')
			value = arg + n + 1;
		else if (arg[n])
			continue;
		else if (options[k].has_value && *i + 1 < argc)
			value = argv[++*i];
		else if (options[k].has_value)
			return usage("its value is missing", arg);
		else
			value = arg;
		memcpy((char *)a + options[k].at, &value, sizeof(value));
		return 1;
	}
	return 0;
}

static int read_args(struct ledger_args *a, unsigned of, const char *wants, int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		int r = take_option(a, of, argc, argv, &i);

		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (argv[i][0] == '-' && argv[i][1])
			return usage("not an option of this command", argv[i]);
		if (!wants || a->what)
			return usage("one argument too many", argv[i]);
		a->what = argv[i];
	}
	if (wants && !a->what)
		return usage("what is missing", wants);
	if (a->json && a->dot)
		return usage("only one of", "--json --dot");
	return 0;
}

static int complain_of(const struct err *err)
{
	(void)fprintf(stderr, "brig ledger: %s\n", err->msg);
	if (*err->remedy)
		(void)fprintf(stderr, "      %s\n", err->remedy);
	return err->code == ERR_INVALID ? EXIT_USAGE : EXIT_BROKEN;
}

int ledger_open_existing(const char *state_dir, struct ledger **ret, struct err *err)
{
	static const char *const parts[] = { "ledger.db", "ledger.db-wal", "ledger.head",
		                             "ledger.key" };
	char dir[PATH_MAX], path[PATH_MAX + 16];
	int r = 0, n = snprintf(dir, sizeof(dir), "%s", state_dir ? state_dir : "");

	if (!state_dir)
		r = ledger_default_dir(dir, sizeof(dir), err);
	else if (n < 1 || (size_t)n >= sizeof(dir))
		r = err_set(err, ERR_INVALID, 0, "--state-dir: not a path");
	if (r < 0)
		return r;
	for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, parts[i]);
		if (access(path, F_OK) == 0 || errno == EACCES)
			return ledger_open(dir, ret, err);
	}
	return err_remedy(err, err_set(err, ERR_NOT_FOUND, ENOENT, "there is no record in %s", dir),
	                  "name its directory with --state-dir or BRIG_STATE_DIR");
}

/* A record that cannot be opened because it is damaged is an answer of verify. */
static bool is_damage(const struct err *err)
{
	return err->sys == EUCLEAN || (err->code == ERR_IO && err->sys == ENOENT);
}

static int run(size_t which, const struct ledger_args *a)
{
	struct ledger *l = NULL;
	struct err err = { 0 };
	int r, status = 0;

	r = ledger_open_existing(a->state_dir, &l, &err);
	if (r < 0 && commands[which].bit == CMD_VERIFY && is_damage(&err)) {
		struct ledger_report report = { 0 };

		(void)snprintf(report.why, sizeof(report.why), "%.199s", err.msg);
		r = say_report(&report, a->json, &err);
		return r < 0 ? complain_of(&err) : EXIT_UNSOUND;
	}
	if (r == 0)
		r = commands[which].run(l, a, &status, &err);
	ledger_close(l);
	return r < 0 ? complain_of(&err) : status;
}

int cmd_ledger(int argc, char **argv)
{
	struct ledger_args a = { 0 };

	for (int i = 1; i < argc; i++)
		if (streq(argv[i], "--help") || streq(argv[i], "-h")) {
			(void)fputs(help, stdout);
			return 0;
		}
	if (argc < 2) {
		(void)fputs(help, stderr);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < ELEMENTSOF(commands); i++)
		if (streq(argv[1], commands[i].name)) {
			if (read_args(&a, commands[i].bit, commands[i].wants, argc, argv) < 0)
				return EXIT_USAGE;
			return run(i, &a);
		}
	(void)usage("no such command", argv[1]);
	return EXIT_USAGE;
}
