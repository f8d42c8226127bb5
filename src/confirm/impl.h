/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of src/confirm share: one row of the table, statements, time. */

#include <sqlite3.h>

#include "confirm/confirm.h"
#include "ledger/stmt.h"
#include "sys/owner.h"

/* A moment that can be compared within a boot and, less well, across boots. */
struct moment {
	uint64_t real_us, boot_ms;
	char boot_id[BOOT_ID_SIZE];
};

struct approval_row {
	struct approval a;
	char owner[OWNER_SIZE]; /* the process that waits */
	char boot_id[BOOT_ID_SIZE];
	uint64_t expires_boot_ms, until_boot_ms;
	uint64_t answered_us; /* to be said in an event that takes the place of the answer's */
};

int approvals_ready(struct ledger *l, struct err *err);
int approvals_prepare(struct ledger *l, const char *sql, sqlite3_stmt **ret, struct err *err);
/* 1: a row, 0: done. */
int approvals_step(struct ledger *l, sqlite3_stmt *s, struct err *err);
/* The columns of ROW_COLUMNS, in that order. */
extern const char approval_row_columns[];
void approval_row_read(sqlite3_stmt *s, struct approval_row *ret);
int approval_row_get(struct ledger *l, const char *id, struct approval_row *ret, struct err *err);
/* State and answer. */
int approval_row_update(struct ledger *l, const struct approval_row *row, struct err *err);
/* A question that nobody answered, or a "yes" that nobody used, in time. */
bool approval_row_has_lapsed(const struct approval_row *row, const struct moment *now);
/* kind "approval", with digest, state and what else matters of it. */
int approval_row_event(struct ledger *l, const struct approval_row *row, const char *name,
                       const char *actor, const char *why, struct err *err);

/* What the record says of an approval: its last event. */
struct approval_known {
	bool agrees;          /* with the row; false also when there is none */
	uint64_t time_us;     /* 0: there is none */
	uint64_t answered_us; /* of a "yes" */
};

/* By the events of the job that asks; one look at an index. */
int approval_known(struct ledger *l, const struct approval *a, struct approval_known *ret,
                   struct err *err);

/* Has `actor` the same identity as `asker`, or none of his own (a service of the asker's)? */
bool actor_is_same(const char *asker, const char *actor);

void moment_now(struct moment *ret);
bool moment_passed(const struct moment *now, const char *boot_id, uint64_t boot_ms,
                   uint64_t real_us);
