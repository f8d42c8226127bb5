/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /dev of a box: six nodes, a devpts of its own, shm, and the usual links; nothing else. Root makes
 * fresh nodes, so that no two boxes share an inode (a lock on a shared /dev/null is a channel);
 * without root the host's nodes are bound one by one.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "sys/syscalls.h"

#define TERMINALS "32" /* of one box */

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = {
	{ "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
	{ "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct {
	const char *name, *text;
} links[] = {
	{ "ptmx", "pts/ptmx" },          { "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },  { "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

static int fill(int dir)
{
	for (size_t i = 0; i < ELEMENTSOF(links); i++)
		if (symlinkat(links[i].text, dir, links[i].name) < 0)
			return -errno;
	if (mkdirat(dir, "pts", 0755) < 0 || mkdirat(dir, "shm", 0755) < 0)
		return -errno;
	return 0;
}

int dev_make_nodes(struct err *err)
{
	CLEANUP_FD int fs = sys_fsopen("tmpfs"), fd = FD_NONE;
	int r = fs;

	if (r >= 0)
		r = sys_fsconfig_string(fs, "size", "64k");
	if (r >= 0)
		r = sys_fsconfig_string(fs, "nr_inodes", "64");
	if (r >= 0)
		r = sys_fsconfig_string(fs, "mode", "0755");
	if (r >= 0)
		r = sys_fsconfig_create(fs);
	if (r >= 0)
		r = fd = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(nodes); i++)
		if (mknodat(fd, nodes[i].name, S_IFCHR | 0666,
		            makedev(nodes[i].major, nodes[i].minor)) < 0)
			r = -errno;
	if (r >= 0)
		r = fill(fd);
	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "make device nodes");
	return fd_take(&fd);
}

/* The host's node, checked to be that device, onto an empty file. */
static int bind_node(int dir, size_t i)
{
	char path[32];
	CLEANUP_FD int tree = FD_NONE, target = FD_NONE;
	struct stat st;
	int r;

	(void)snprintf(path, sizeof(path), "/dev/%s", nodes[i].name);
	tree = sys_open_tree(AT_FDCWD, path,
	                     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (tree < 0)
		return tree;
	if (fstat(tree, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(nodes[i].major, nodes[i].minor))
		return -ENODEV;
	/* Read-only: data goes through all the same, but its times stay. */
	r = sys_mount_setattr(tree, "", AT_EMPTY_PATH,
	                      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
	if (r < 0)
		return r;
	target = openat(dir, nodes[i].name, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
	if (target < 0)
		return -errno;
	return sys_move_mount(tree, target, "");
}

int dev_bind_nodes(struct box_setup *s, const char *path)
{
	CLEANUP_FD int dir = sys_openat2(s->root_fd, path + 1, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
	                                 RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	int r = dir < 0 ? dir : fill(dir);

	for (size_t i = 0; r >= 0 && i < ELEMENTSOF(nodes); i++)
		r = bind_node(dir, i);
	return r;
}

static int mount_pts(struct box_setup *s, const char *path)
{
	CLEANUP_FD int fs = sys_fsopen("devpts"), fd = FD_NONE;
	char pts[PLAN_PATH_MAX];
	int r = fs;

	if (r >= 0)
		r = sys_fsconfig_string(fs, "ptmxmode", "0666");
	if (r >= 0)
		r = sys_fsconfig_string(fs, "mode", "0620");
	if (r >= 0) /* all boxes draw on one number, kernel.pty.max */
		r = sys_fsconfig_string(fs, "max", TERMINALS);
	if (r >= 0)
		r = sys_fsconfig_create(fs);
	if (r >= 0)
		r = fd = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (r < 0)
		return r;
	(void)snprintf(pts, sizeof(pts), "%s/pts", path);
	return mount_onto(s, fd, pts);
}

/* Of a shared root that binds the host's nodes, the nodes are there already. */
int dev_attach(struct box_setup *s, const char *path)
{
	int r = 0;

	if (s->dev_fd >= 0)
		r = mount_onto(s, s->dev_fd, path);
	else if (!s->shared_root)
		r = dev_bind_nodes(s, path);
	return r < 0 ? r : mount_pts(s, path);
}
