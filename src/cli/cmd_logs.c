/* SPDX-License-Identifier: Apache-2.0 */

/* brig logs: what an execution wrote, byte for byte. */

#include <stdio.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/remote.h"

#define ROUNDS_MAX (1u << 20)

static const char logs_help[] =
	"Usage: brig logs [-f] [--stderr] [--host WHERE] ID\n"
	"\n"
	"Writes what an execution wrote to its standard output. ID may be shortened.\n"
	"\n"
	"  -f, --follow         go on until it is over\n"
	"      --stderr         its standard error instead\n" CLIENT_HELP
	"  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  brig logs -f 5kq2\n"
	"\n"
	"Exit status: 0; 2 for wrong usage; 125 when brig failed, or there is no such execution;\n"
	"126 when the daemon refuses; 130 when the reader of the output went away.\n";

static int show_what_is_there(struct follow *f, int which, struct err *err)
{
	bool done;
	int r = 1;

	for (unsigned i = 0; r > 0 && i < ROUNDS_MAX && !f->broken; i++)
		r = follow_fetch(f, which, &done, err);
	return r;
}

/* What is over and was forgotten has its result, perhaps. */
static int show_kept(struct follow *f, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	int r;

	if (!f->over)
		return 0;
	r = doc_parse((struct str){ f->result.data, f->result.len }, &in, err);
	return r < 0 ? r : follow_show_rest(f, in.root, err);
}

static int show_logs(struct client *c, const char *prefix, bool is_stderr, bool follow,
                     struct sink *to, struct err *err)
{
	struct follow f;
	int r;

	follow_init(&f, c, REMOTE_RESULT_MAX);
	r = execution_find(c, prefix, f.id, err);
	if (r >= 0)
		r = follow_ask(&f, 0, err);
	f.sinks[is_stderr] = to;
	if (r >= 0 && !f.over && !follow)
		r = show_what_is_there(&f, is_stderr, err);
	if (r >= 0 && !f.over && follow) {
		r = follow_open(&f, err);
		if (r >= 0)
			r = follow_wait(&f, err);
	}
	if (r >= 0 && !f.broken)
		r = show_kept(&f, err);
	follow_done(&f);
	return r;
}

int cmd_logs(int argc, char **argv)
{
	bool is_stderr = false, follow = false;
	struct remote_words w = { .flags = { { "-f", NULL, &follow },
		                             { "--follow", NULL, &follow },
		                             { "--stderr", NULL, &is_stderr } },
		                  .ids_max = 1 };
	struct err err = { 0 };
	struct sink to;
	struct client c;
	int r = remote_parse("logs", argc, argv, &w, &err);

	if (r < 0)
		return remote_failed(&err);
	if (w.help)
		return fputs(logs_help, stdout) < 0 ? 125 : 0;
	r = remote_open(w.host, &c, &err);
	if (r < 0)
		return remote_failed(&err);
	sink_open(&to, STDOUT_FILENO);
	r = show_logs(&c, w.ids[0], is_stderr, follow, &to, &err);
	sink_close(&to);
	remote_close(&c);
	if (to.error)
		return output_lost(to.error);
	return r < 0 ? remote_failed(&err) : 0;
}
