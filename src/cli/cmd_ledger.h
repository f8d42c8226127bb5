/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of "brig ledger" share. */

#include "ledger/ledger.h"

#define LEDGER_LINE_MAX (2 * MIB) /* of output for one row, its bodies included */

struct ledger_args {
	const char *state_dir, *job, *session, *kind, *after, *number, *before;
	const char *json, *jsonl, *dot, *yes, *bodies; /* NULL: not given */
	const char *what;                              /* ID, SEQ or SESSION */
};

/* Of this directory, or of the usual one. To look at a record does not make one. */
int ledger_open_existing(const char *state_dir, struct ledger **ret, struct err *err);
/* "2026-03-01 12:00:00.123456Z" */
#define LEDGER_TIME_SIZE 32
void ledger_time(uint64_t time_us, char ret[LEDGER_TIME_SIZE]);
/* Writes it to stdout and empties it. */
int ledger_flush(struct buf *b, struct err *err);
/* 0, or negative with err; *ret_status is the exit status. */
int ledger_show(struct ledger *l, const struct ledger_args *a, int *ret_status, struct err *err);
