/* SPDX-License-Identifier: Apache-2.0 */

/* brig cancel: ends executions. */

#include <stdio.h>

#include "cli/cmd.h"
#include "cli/load.h"
#include "cli/remote.h"

static const char cancel_help[] =
	"Usage: brig cancel [--host WHERE] ID...\n"
	"\n"
	"Ends executions, also those that wait for an approval. IDs may be shortened. One that is\n"
	"over already is left as it is.\n"
	"\n" CLIENT_HELP "  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  brig cancel 5kq2\n"
	"\n"
	"Exit status: 0; 2 for wrong usage; 125 when brig failed, or there is no such execution;\n"
	"126 when the daemon refuses.\n";

static int cancel_one(struct client *c, const char *prefix, struct err *err)
{
	char id[EXECUTION_ID_SIZE], path[64];
	const struct client_call call = { .method = "DELETE",
		                          .path = path,
		                          .max = REMOTE_RESULT_MAX };
	struct reply reply;
	int r = execution_find(c, prefix, id, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/executions/%s", id);
	r = client_call(c, &call, &reply, err);
	if (r < 0)
		return r;
	reply_free_fields(&reply);
	(void)printf("%s\n", id);
	return 0;
}

int cmd_cancel(int argc, char **argv)
{
	struct remote_words w = { .ids_max = REMOTE_IDS_MAX };
	struct client c;
	struct err err = { 0 };
	int r = remote_parse("cancel", argc, argv, &w, &err), status = 0;

	if (r < 0)
		return remote_failed(&err);
	if (w.help)
		return fputs(cancel_help, stdout) < 0 ? 125 : 0;
	if (remote_open(w.host, &c, &err) < 0)
		return remote_failed(&err);
	/* One that cannot be ended does not save the others. */
	for (size_t i = 0; i < w.n_ids; i++) {
		err = (struct err){ 0 };
		if (cancel_one(&c, w.ids[i], &err) < 0)
			status = remote_failed(&err);
	}
	remote_close(&c);
	return status;
}
