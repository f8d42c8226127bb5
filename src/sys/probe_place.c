/* SPDX-License-Identifier: Apache-2.0 */
/* Where we are in the cgroup hierarchies, and where boxes would go. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/probe_impl.h"

void probe_place_done(struct probe_place *p)
{
	p->fd = fd_close(p->fd);
}

bool probe_list_has(const char *list, const char *word, const char *separators)
{
	size_t n = strlen(word);

	while (*list) {
		size_t len = strcspn(list, separators);

		if (len == n && strncmp(list, word, n) == 0)
			return true;
		list += len;
		list += *list != '\0';
	}
	return false;
}

/* The path in /proc/self/cgroup of the hierarchy with the controller; NULL: the v2 one. */
static int own_path(const char *controller, char *path, size_t size)
{
	char text[8192], *line, *rest = text;
	int r = probe_read("/proc/self/cgroup", text, sizeof(text));

	if (r < 0)
		return r;
	while ((line = strsep(&rest, "\n"))) {
		const char *number = strsep(&line, ":");
		const char *list = line ? strsep(&line, ":") : NULL;

		if (!list || !line)
			continue;
		if (controller ? !probe_list_has(list, controller, ",") : !streq(number, "0"))
			continue;
		if (strlen(line) >= size)
			return -ENAMETOOLONG;
		(void)snprintf(path, size, "%s", line);
		return 0;
	}
	return -ENOENT;
}

/* Opens our place below this mount, if the line is of the wanted hierarchy. */
static int open_place(char *line, const char *controller, const char *path, struct probe_place *ret)
{
	char root[PROBE_PATH_MAX], point[PROBE_PATH_MAX], type[32], options[PROBE_PATH_MAX];
	char *tail = strstr(line, " - ");
	const char *below = path;
	CLEANUP_FD int fd = FD_NONE;
	struct statfs fs;

	if (!tail || sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2 ||
	    sscanf(tail + 3, "%31s %*s %1023s", type, options) != 2)
		return -EINVAL;
	if (!streq(type, controller ? "cgroup" : "cgroup2"))
		return -ENOENT;
	if (controller && !probe_list_has(options, controller, ","))
		return -ENOENT;
	if (!controller && geteuid() == 0) {
		below = "";
	} else if (!streq(root, "/")) { /* only a part of the hierarchy is mounted */
		if (!str_has_prefix(path, root))
			return -ENOENT;
		below = path + strlen(root);
	}
	(void)snprintf(ret->path, sizeof(ret->path), "%s%s", point, streq(below, "/") ? "" : below);
	fd = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The mount may be hidden beneath another one. */
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	if (fs.f_type != (controller ? CGROUP_SUPER_MAGIC : CGROUP2_SUPER_MAGIC))
		return -ENOENT;
	/* v1 knows no delegation, but an operator may have made "brig" for this user. */
	if (controller && faccessat(fd, ".", W_OK, AT_EACCESS) < 0) {
		int brig = openat(fd, "brig", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (brig >= 0) {
			(void)fd_close(fd);
			fd = brig;
		}
	}
	ret->v2 = !controller;
	(void)snprintf(ret->mount, sizeof(ret->mount), "%s", point);
	ret->fd = fd_take(&fd);
	return 0;
}

int probe_find_place(const char *controller, struct probe_place *ret)
{
	char path[PROBE_PATH_MAX];
	CLEANUP_FREE char *line = NULL;
	size_t cap = 0;
	FILE *f;
	int r = own_path(controller, path, sizeof(path));

	if (r < 0)
		return r;
	f = fopen("/proc/self/mountinfo", "re");
	if (!f)
		return -errno;
	r = -ENOENT;
	while (r < 0 && getline(&line, &cap, f) > 0)
		r = open_place(line, controller, path, ret);
	(void)fclose(f);
	return r;
}
