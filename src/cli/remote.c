/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <errno.h>
#include <stdio.h>

#include "cli/load.h"

int remote_usage(const char *command)
{
	(void)fprintf(stderr, "brig: wrong usage\n      see \"brig %s --help\"\n", command);
	return 2;
}

int remote_failed(const struct err *err)
{
	progress_clear();
	if (err->sys == EINTR)
		return 130; /* whoever pressed Ctrl-C knows */
	complain(err);
	return err->code == ERR_INVALID ? 2 : err_code_exit(err->code);
}

static bool take_flag(const char *word, const struct remote_flag *flags, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!streq(word, flags[i].name) && !(flags[i].other && streq(word, flags[i].other)))
			continue;
		*flags[i].set = true;
		return true;
	}
	return false;
}

int remote_parse(int argc, char **argv, const struct remote_flag *flags, size_t n,
                 struct remote_words *ret)
{
	for (int i = 1; i < argc; i++) {
		if (streq(argv[i], "-h") || streq(argv[i], "--help"))
			ret->help = true;
		else if (streq(argv[i], "--host") && i + 1 < argc)
			ret->host = argv[++i];
		else if (take_flag(argv[i], flags, n))
			continue;
		else if (argv[i][0] == '-' || ret->n_ids == REMOTE_IDS_MAX)
			return -EINVAL;
		else
			ret->ids[ret->n_ids++] = argv[i];
	}
	return 0;
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
