/* SPDX-License-Identifier: Apache-2.0 */

/* brig serve: the daemon, found beside this program. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cmd.h"

static const char serve_help[] =
	"Usage: brig serve [OPTIONS OF BRIGD]\n"
	"\n"
	"Starts the daemon in the foreground: brigd, which stands beside brig. Everything after\n"
	"\"serve\" is brigd's; \"brigd --help\" names it.\n"
	"\n"
	"  -h, --help           this text\n"
	"\n"
	"Example:\n"
	"  brig serve --listen 127.0.0.1:7070\n"
	"\n"
	"Exit status: brigd's; 125 when it could not be started.\n";

int cmd_serve(int argc, char **argv)
{
	static const char name[] = "brigd";
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(name));
	char *slash;

	if (argc == 2 && (streq(argv[1], "-h") || streq(argv[1], "--help")))
		return fputs(serve_help, stdout) < 0 ? 125 : 0;
	if (n < 0) {
		(void)fprintf(stderr, "brig: find this program: %s\n", strerror(errno));
		return 125;
	}
	path[n] = '\0';
	slash = strrchr(path, '/');
	(void)snprintf(slash ? slash + 1 : path, sizeof(name), "%s", name);
	argv[0] = path;
	(void)execv(path, argv);
	(void)fprintf(stderr, "brig: start %s: %s\n      install brig again: make install\n", path,
	              strerror(errno));
	return 125;
}
