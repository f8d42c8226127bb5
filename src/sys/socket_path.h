/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"

#define SOCKET_PATH_SIZE 108 /* of sun_path, with its NUL */

/*
 * Where the daemon listens and a client looks: root's /run/brig/brigd.sock, else
 * $XDG_RUNTIME_DIR/brig/brigd.sock, else STATE_DIR/brigd.sock.
 */
int socket_path_default(const char *state_dir, char ret[SOCKET_PATH_SIZE], struct err *err);
