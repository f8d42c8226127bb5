/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A folder as OCI runtimes want it: config.json, and rootfs with mount points for the host's /usr.
 */

#include "base/err.h"

struct bundle {
	char path[48]; /* "": none */
};

/* `command` ends with NULL; an empty one makes no config.json. */
int bundle_make(struct bundle *b, const char *const *command, struct err *err);
void bundle_remove(struct bundle *b);

/*
 * crun refuses a host that has v1 and v2 hierarchies side by side: it gets a mount namespace in
 * which the v2 one is not mounted. FD_NONE where there is nothing to hide.
 */
int bundle_mount_ns(int *ret_fd, struct err *err);
