/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of `brig policy` share. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "policy/policy.h"

#define POLICY_EXIT_OK     0
#define POLICY_EXIT_WRONG  1 /* a policy, a test or an input is */
#define POLICY_EXIT_USAGE  2
#define POLICY_EXIT_BROKEN 125

/* On stderr; returns POLICY_EXIT_WRONG. */
int policy_complain(const struct err *err);
/* On stderr; returns POLICY_EXIT_USAGE. */
int policy_usage(const char *what, const char *arg);
/* A regular file, or standard input for "-". */
int policy_read_input(const char *path, uint64_t max, struct arena *a, struct str *ret,
                      struct err *err);
/* To standard output; POLICY_EXIT_BROKEN when that fails, else `status`. */
int policy_write(const struct buf *out, int status);

int policy_explain_main(int argc, char **argv);
int policy_test_main(int argc, char **argv);
