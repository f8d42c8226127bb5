/* SPDX-License-Identifier: Apache-2.0 */

/* brigd: the daemon. Settings, then serve.c. */

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/routes.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "daemon/serve.h"
#include "ledger/ledger.h"

#define MMAP_FROM (256 * 1024) /* bytes */
#define ARENAS    2

static int print(struct buf *b)
{
	size_t n = b->len;

	if (buf_finish(b) < 0 || fwrite(b->data, 1, n, stdout) != n || fflush(stdout) != 0)
		return 125;
	return 0;
}

static int complain(const struct err *err)
{
	(void)fprintf(stderr, "brigd: %s\n", err->msg);
	if (*err->remedy)
		(void)fprintf(stderr, "       %s\n", err->remedy);
	return err_code_exit(err->code);
}

/* --help, --version, --openapi, --check-config: -1 when it is none of these. */
static int tell_only(const struct daemon_config *c)
{
	CLEANUP_BUF struct buf b = BUF_INIT(4 * MIB);
	struct err err = { 0 };

	if (c->help) {
		buf_puts(&b, config_help);
	} else if (c->version) {
		buf_puts(&b, "brigd " BRIG_VERSION "\n");
	} else if (c->openapi) {
		if (openapi_write(&b, &err) < 0)
			return complain(&err);
		buf_putc(&b, '\n');
	} else if (c->check_only) {
		config_print(c, &b);
	} else {
		return -1;
	}
	return print(&b);
}

/* The command lies beside us. */
static void find_brig(struct brigd *d)
{
	ssize_t n = readlink("/proc/self/exe", d->brig, sizeof(d->brig) - 1);
	char *slash = n > 0 ? strrchr(d->brig, '/') : NULL;

	if (slash && (size_t)(slash - d->brig) + 6 < sizeof(d->brig))
		memcpy(slash + 1, "brig", 5);
	else
		d->brig[0] = '\0';
}

static int serve(struct brigd *d)
{
	struct err err = { 0 };
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	/* Else one large output moves glibc's threshold up, and the next ones fragment the heap. */
	(void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	(void)mallopt(M_ARENA_MAX, ARENAS); /* threads come and go with large things only */
	/* Some of them may be long at the record or the doctor; requests must not wait for those.
	 */
	(void)setenv("UV_THREADPOOL_SIZE", "8", 0);
	log_open(d->config.log_format, d->config.log_level);
	find_brig(d);
	if (d->config.state_dir)
		r = (size_t)snprintf(d->state_dir, sizeof(d->state_dir), "%s",
		                     d->config.state_dir) < sizeof(d->state_dir)
		            ? 0
		            : err_set(&err, ERR_INVALID, ENAMETOOLONG, "the state directory");
	else
		r = ledger_default_dir(d->state_dir, sizeof(d->state_dir), &err);
	if (r >= 0)
		r = brigd_open(d, &err);
	if (r < 0)
		r = complain(&err);
	else
		brigd_run(d);
	brigd_close(d);
	return r;
}

int main(int argc, char **argv)
{
	static struct brigd d; /* large, and only one */
	struct err err = { 0 };
	int r;

	d.argc = argc;
	d.argv = argv;
	d.lock = FD_NONE;
	if (config_load(argc, argv, &d.config, &err) < 0) {
		(void)complain(&err);
		return 2;
	}
	r = tell_only(&d.config);
	if (r >= 0) {
		config_done(&d.config);
		return r;
	}
	return serve(&d);
}
