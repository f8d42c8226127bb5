/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <errno.h>
#include <stdio.h>

#include "cli/load.h"

int remote_failed(const struct err *err)
{
	progress_clear();
	if (err->sys == EINTR)
		return 130; /* whoever pressed Ctrl-C knows */
	complain(err);
	return err->code == ERR_INVALID ? 2 : err_code_exit(err->code);
}

int remote_parse(const char *command, int argc, char **argv, struct remote_words *ret,
                 struct err *err)
{
	struct word known[REMOTE_FLAGS_MAX + 3] = {
		{ "--host", &ret->host, NULL },
		{ "--help", NULL, &ret->help },
		{ "-h", NULL, &ret->help },
	};
	size_t n = 3;
	int r;

	for (size_t i = 0; i < REMOTE_FLAGS_MAX && ret->flags[i].name; i++)
		known[n++] = ret->flags[i];
	r = words_parse(command, argc, argv, known, n, ret->ids, ret->ids_max, err);
	if (r < 0)
		return r;
	ret->n_ids = (size_t)r;
	return ret->ids_max && !ret->help ? word_needed(command, "ID", ret->ids[0], err) : 0;
}

int remote_open(const char *host, struct client *ret, struct err *err)
{
	int r = client_need(host, ret, err);

	if (r < 0)
		return r;
	r = open_cancel(err);
	if (r < 0) {
		client_done(ret);
		return r;
	}
	ret->cancel = r;
	return 0;
}

void remote_close(struct client *c)
{
	c->cancel = fd_close(c->cancel);
	client_done(c);
}
