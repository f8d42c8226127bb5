/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One look at a box, between the files that look. */

#include "exec/verify.h"

#define PROC_TEXT_MAX 32768

struct look {
	const struct plan *plan;
	const struct box_facts *facts;
	struct receipt *receipt;
	struct err *err;
	uint32_t seen;          /* LAYER_BITs found in force */
	int code_dir, init_dir; /* /proc/<pid> */
	char *text;             /* PROC_TEXT_MAX bytes, of the file that was read last */
};

/* The box is not what was planned; -EPERM. */
int look_mismatch(struct look *k, const char *what);
/* A file of the box's /proc directory into k->text. */
int look_read(struct look *k, int dir, const char *file);
/* Notes a layer that holds; one that does not is a mismatch where it is required. */
int look_expect(struct look *k, enum layer_id id, bool holds, const char *detail);

/* verify_mounts.c: every mount is one the plan asked for; nothing of the host shows through. */
int look_at_mounts(struct look *k);
