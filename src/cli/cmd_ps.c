/* SPDX-License-Identifier: Apache-2.0 */

/* brig ps: what runs in the daemon, and what ran. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/remote.h"

static const char ps_help[] =
	"Usage: brig ps [-a] [--json] [--host WHERE]\n"
	"\n"
	"Lists the executions in the daemon, newest first.\n"
	"\n"
	"  -a, --all            also those that are over\n"
	"      --json           for programs: an array of statuses\n" CLIENT_HELP
	"  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  brig ps -a\n"
	"\n"
	"Exit status: 0; 2 for wrong usage; 125 when brig failed, or there is no daemon;\n"
	"126 when it refuses.\n";

struct listing {
	struct buf out;
	bool all, json;
	size_t n;
};

void put_age(struct buf *out, uint64_t created_us)
{
	uint64_t now = (uint64_t)time(NULL), s = created_us / 1000000;
	unsigned long long age = created_us && now > s ? now - s : 0;

	if (!created_us)
		buf_printf(out, "%6s", "-");
	else if (age < 120)
		buf_printf(out, "%5llus", age);
	else if (age < 7200)
		buf_printf(out, "%5llum", age / 60);
	else if (age < 172800)
		buf_printf(out, "%5lluh", age / 3600);
	else
		buf_printf(out, "%5llud", age / 86400);
}

void put_column(struct buf *out, const char *text, size_t width)
{
	size_t n = strlen(text);

	shown_word(out, str_of(text), width);
	for (; n < width; n++)
		buf_putc(out, ' ');
	buf_putc(out, ' ');
}

void put_status_head(struct buf *out)
{
	buf_puts(out,
	         "ID                         STATE        LANGUAGE   CALLER              AGE\n");
}

void put_status_row(struct buf *out, json_t *status)
{
	put_column(out, doc_text(status, "execution_id"), 26);
	put_column(out, doc_text(status, "state"), 12);
	put_column(out, doc_text(status, "language"), 10);
	put_column(out, doc_text(status, "caller"), 16);
	put_age(out, doc_time_us(status, "created"));
	buf_putc(out, '\n');
}

static int list_one(void *data, json_t *status)
{
	struct listing *l = data;

	if (!l->all && doc_true(status, "done"))
		return 0;
	if (l->json) {
		buf_puts(&l->out, l->n ? ",\n" : "");
		doc_put(status, &l->out);
	} else {
		if (!l->n)
			put_status_head(&l->out);
		put_status_row(&l->out, status);
	}
	l->n++;
	return l->out.error != 0;
}

static int list(struct listing *l, const char *host, struct err *err)
{
	struct client c;
	int r = remote_open(host, &c, err);

	if (r < 0)
		return r;
	if (l->json)
		buf_putc(&l->out, '[');
	r = execution_each(&c, list_one, l, err);
	remote_close(&c);
	if (l->json)
		buf_puts(&l->out, "]\n");
	else if (!l->n)
		buf_puts(&l->out, l->all ? "no executions\n" : "nothing runs\n");
	if (r < 0)
		return r;
	r = buf_finish(&l->out);
	if (r >= 0)
		r = write_all(STDOUT_FILENO, l->out.data, l->out.len);
	return r < 0 ? err_set(err, ERR_IO, -r, "write the output") : 0;
}

int cmd_ps(int argc, char **argv)
{
	struct listing l = { .out = BUF_INIT(64 * MIB) };
	struct remote_words w = { .flags = { { "-a", NULL, &l.all },
		                             { "--all", NULL, &l.all },
		                             { "--json", NULL, &l.json } } };
	struct err err = { 0 };
	int r = remote_parse("ps", argc, argv, &w, &err);

	if (r < 0)
		return remote_failed(&err);
	if (w.help)
		return fputs(ps_help, stdout) < 0 ? 125 : 0;
	r = list(&l, w.host, &err);
	buf_done(&l.out);
	return r < 0 ? remote_failed(&err) : 0;
}
