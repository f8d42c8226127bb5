/* SPDX-License-Identifier: Apache-2.0 */

/* brig wait: until executions are over; the exit status is the run's. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/remote.h"

#define WAIT_MS     10000 /* of one request; then it is asked again */
#define PROGRESS_MS 1000  /* the first: who waits longer is told */

static const char wait_help[] =
	"Usage: brig wait [--json] [--host WHERE] ID...\n"
	"\n"
	"Waits until the executions are over, and ends as \"brig run\" would have. IDs may be\n"
	"shortened.\n"
	"\n"
	"      --json           their results, one per line\n" CLIENT_HELP
	"  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  brig wait 5kq2 && echo it ended well\n"
	"\n"
	"Exit status: of the first that did not end with 0, as \"brig run\" has it; 2 for wrong "
	"usage;\n"
	"125 when brig failed, or there is no such execution;\n"
	"126 when the daemon refuses.\n";

static int wait_one(struct follow *f, struct err *err)
{
	uint64_t begin = clock_ms();
	int r = follow_ask(f, PROGRESS_MS, err);

	while (r >= 0 && !f->over) {
		progress("waiting for %s (%s) ... %llu s", f->id,
		         streq(f->state, "waiting") ? "it waits for an approval"
		                                    : "it is under way",
		         (unsigned long long)(clock_ms() - begin) / 1000);
		r = follow_ask(f, isatty(STDERR_FILENO) ? PROGRESS_MS : WAIT_MS, err);
	}
	progress_clear();
	return r;
}

static int tell(struct follow *f, bool json, int *ret_status, struct err *err)
{
	CLEANUP_DOC struct json_reader in = { 0 };
	struct result res;
	int r = doc_parse((struct str){ f->result.data, f->result.len }, &in, err);

	if (r >= 0)
		r = doc_result(in.root, &res, err);
	if (r < 0)
		return r;
	*ret_status = run_status(&res);
	if (!json && res.error.code != ERR_NONE)
		complain(&res.error);
	result_done(&res);
	if (!json)
		return 0;
	r = write_all(STDOUT_FILENO, f->result.data, f->result.len);
	if (r >= 0)
		r = write_all(STDOUT_FILENO, "\n", 1);
	return r < 0 ? err_set(err, ERR_IO, -r, "write the output") : 0;
}

static int wait_for(struct client *c, const char *prefix, bool json, int *ret_status,
                    struct err *err)
{
	struct follow f;
	int r;

	follow_init(&f, c, REMOTE_RESULT_MAX);
	r = execution_find(c, prefix, f.id, err);
	if (r >= 0)
		r = wait_one(&f, err);
	if (r >= 0)
		r = tell(&f, json, ret_status, err);
	follow_done(&f);
	return r;
}

int cmd_wait(int argc, char **argv)
{
	bool json = false;
	struct remote_words w = { .flags = { { "--json", NULL, &json } },
		                  .ids_max = REMOTE_IDS_MAX };
	struct err err = { 0 };
	struct client c;
	int r = remote_parse("wait", argc, argv, &w, &err), status = 0;

	if (r < 0)
		return remote_failed(&err);
	if (w.help)
		return fputs(wait_help, stdout) < 0 ? 125 : 0;
	r = remote_open(w.host, &c, &err);
	if (r < 0)
		return remote_failed(&err);
	for (size_t i = 0; i < w.n_ids && r >= 0; i++) {
		int one = 0;

		r = wait_for(&c, w.ids[i], json, &one, &err);
		status = status ? status : one;
	}
	remote_close(&c);
	return r < 0 ? remote_failed(&err) : status;
}
