/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Where the brig-send that was installed with this program is. */
int sender_find(char *path, size_t size, struct err *err);
int sender_spawn(const char *program, int sock, pid_t *ret_pid);
