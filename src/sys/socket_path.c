/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/socket_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int socket_path_default(const char *state_dir, char ret[SOCKET_PATH_SIZE], struct err *err)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char path[SOCKET_PATH_SIZE];
	int n;

	if (geteuid() == 0)
		n = snprintf(path, sizeof(path), "/run/brig/brigd.sock");
	else if (xdg && *xdg == '/')
		n = snprintf(path, sizeof(path), "%s/brig/brigd.sock", xdg);
	else
		n = snprintf(path, sizeof(path), "%s/brigd.sock", state_dir);
	if (n < 0 || (size_t)n >= sizeof(path)) {
		(void)err_set(err, ERR_INVALID, ENAMETOOLONG, "the path of the daemon's socket");
		return err_remedy(err, -ENAMETOOLONG, "name a shorter one, or set XDG_RUNTIME_DIR");
	}
	(void)snprintf(ret, SOCKET_PATH_SIZE, "%s", path);
	return 0;
}
