/* SPDX-License-Identifier: Apache-2.0 */

/*
 * weakrun: brig run with layers left out, for the ablation matrix only. It is built with the tests
 * and never installed; the product has no option, variable or file that does this. No plan can
 * leave out the launcher's own filter: for that there is a launcher without one, weak-launch.
 *
 *     weakrun --without LAYER[,LAYER...] run ...arguments of brig run...
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cmd.h"
#include "model/layer.h"

static int layer_of(const char *name, size_t n, uint32_t *ret)
{
	for (unsigned i = 0; i < LAYER_COUNT; i++) {
		const char *known = layer_name((enum layer_id)i);

		if (strlen(known) == n && strncmp(known, name, n) == 0) {
			*ret |= UINT32_C(1) << i;
			return 0;
		}
	}
	(void)fprintf(stderr, "weakrun: no layer \"%.*s\"\n", (int)n, name);
	return -ENOENT;
}

static int parse_layers(const char *list, uint32_t *ret)
{
	while (*list) {
		size_t n = strcspn(list, ",");
		int r = layer_of(list, n, ret);

		if (r < 0)
			return r;
		list += n + (list[n] == ',');
	}
	return 0;
}

/* Relative to our own place: a build folder can be moved as a whole. */
static int find_launcher(bool weak, char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return -EINVAL;
	n = slash - path;
	n = snprintf(slash, size - (size_t)n, "%s",
	             weak ? "/weak-launch" : "/../../src/launch/brig-launch");
	return n < 0 ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	char launcher[PATH_MAX];
	struct run_variant v = { .launcher = launcher };

	if (argc < 4 || !streq(argv[1], "--without") || !streq(argv[3], "run")) {
		(void)fprintf(stderr, "usage: weakrun --without LAYER[,LAYER] run ...\n");
		return 2;
	}
	if (parse_layers(argv[2], &v.without) < 0 ||
	    find_launcher(v.without & LAYER_BIT(LAUNCH_FILTER), launcher, sizeof(launcher)) < 0)
		return 2;
	return run_main(argc - 3, argv + 3, &v);
}
