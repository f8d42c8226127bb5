/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the commands that only a daemon can answer have in common. */

#include "cli/client.h"
#include "cli/doc.h"
#include "cli/follow.h"
#include "cli/shown.h"
#include "cli/words.h"

#define REMOTE_IDS_MAX    256
#define REMOTE_RESULT_MAX (1 * GIB)

/* remote.c: says what was wrong; the exit status. */
int remote_failed(const struct err *err);

/* Words of these commands: --host, --help, ids, and flags of their own. */
#define REMOTE_FLAGS_MAX 3
struct remote_words {
	struct word flags[REMOTE_FLAGS_MAX];
	size_t ids_max; /* 0: it takes none; else it needs one */
	const char *host;
	bool help;
	const char *ids[REMOTE_IDS_MAX];
	size_t n_ids;
};
int remote_parse(const char *command, int argc, char **argv, struct remote_words *ret,
                 struct err *err);
/* Ctrl-C ends what waits; the same as open_cancel() for a client. */
int remote_open(const char *host, struct client *ret, struct err *err);
void remote_close(struct client *c);

/* cmd_ps.c: texts of the daemon are masked. */
void put_column(struct buf *out, const char *text, size_t width);
void put_age(struct buf *out, uint64_t created_us);
void put_status_head(struct buf *out);
void put_status_row(struct buf *out, json_t *status);
