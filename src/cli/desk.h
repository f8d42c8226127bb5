/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where approvals are answered: a state directory of ours, or a daemon. */

#include "cli/client.h"
#include "confirm/confirm.h"

struct desk {
	struct ledger *ledger; /* NULL: the client's */
	struct client *client;
};

/* As the functions of confirm.h with these names. */
int desk_each(const struct desk *d, bool all, approval_fn *fn, void *data, struct err *err);
int desk_find(const struct desk *d, const char *prefix, char ret[EXECUTION_ID_SIZE],
              struct err *err);
int desk_look(const struct desk *d, const char *id, struct approval *ret, struct err *err);
int desk_texts(const struct desk *d, const char *id, struct buf *code, struct buf *summary,
               struct err *err);
int desk_answer(const struct desk *d, const struct confirm_answer *x, struct approval *ret,
                struct err *err);
int desk_revoke(const struct desk *d, const char *id, const char *actor, struct approval *ret,
                struct err *err);
/* The options that name this place: "--host unix:/…" or "--state-dir /…". */
void desk_options(const struct desk *d, char *ret, size_t n);
