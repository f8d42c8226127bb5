/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#define LOCK_FILE "brigd.lock" /* in the state directory; holds the pid, for people */

/*
 * One daemon per state directory, which is made (0700) when it is not there. The lock is held until
 * the descriptor is closed, whatever ends the process. ERR_CONFLICT: another one has it.
 */
int lock_state_dir(const char *dir, int *ret_fd, struct err *err);
