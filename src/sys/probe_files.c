/* SPDX-License-Identifier: Apache-2.0 */
/* File systems as a box is given them, in mount namespaces that end with the child. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"

#define SCRATCH_BYTES (64 * KIB) /* of the tmpfs that must refuse more */

enum api_step { API_FSOPEN = 0, API_OPEN_TREE, API_SETATTR, API_MOVE, API_PIVOT, API_STEPS };

static int new_tmpfs(const char *size, const char *inodes, bool noswap)
{
	CLEANUP_FD int fs = sys_fsopen("tmpfs");
	int r = fs;

	if (r >= 0)
		r = sys_fsconfig_string(fs, "size", size);
	if (r >= 0)
		r = sys_fsconfig_string(fs, "nr_inodes", inodes);
	if (r >= 0 && noswap)
		r = sys_fsconfig_flag(fs, "noswap");
	if (r >= 0)
		r = sys_fsconfig_create(fs);
	return r < 0 ? r : sys_fsmount(fs, 0);
}

/* Changes to the new root at fd and lets go of the old one. */
static int change_root(int fd)
{
	if (fchdir(fd) < 0)
		return -errno;
	if (sys_pivot_root(".", ".") < 0 || syscall(SYS_umount2, ".", 2 /* MNT_DETACH */) < 0 ||
	    chdir("/") < 0)
		return -errno;
	if (mkdir("/x", 0700) == 0)
		return -EEXIST; /* read-only it is not */
	return errno == EROFS && access("/usr/bin", F_OK) == 0 ? 0 : -EIO;
}

/* A root as a box gets it: own tmpfs, the host's /usr read-only inside, sealed, entered. */
static int try_root(void *arg)
{
	int *step = arg;
	const unsigned clone = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
	CLEANUP_FD int root = FD_NONE;
	CLEANUP_FD int usr = FD_NONE;
	CLEANUP_FD int place = FD_NONE;
	int r = probe_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

	if (r < 0)
		return r;
	step[API_FSOPEN] = root = new_tmpfs("1m", "64", false);
	step[API_OPEN_TREE] = usr = sys_open_tree(AT_FDCWD, "/usr", clone);
	if (usr >= 0)
		step[API_SETATTR] =
			sys_mount_setattr(usr, "", AT_EMPTY_PATH | AT_RECURSIVE,
		                          MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (root < 0 || usr < 0)
		return root < 0 ? root : usr;
	/* Anywhere will do: it is the child's own mount namespace. */
	r = step[API_MOVE] = sys_move_mount(root, AT_FDCWD, "/proc");
	if (r < 0)
		return r;
	if (mkdirat(root, "usr", 0755) < 0)
		return -errno;
	place = openat(root, "usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place < 0)
		return -errno;
	r = sys_move_mount(usr, place, "");
	if (r >= 0)
		r = sys_mount_setattr(root, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
	if (r >= 0)
		r = step[API_PIVOT] = change_root(root);
	return r;
}

static void probe_root(struct probe_ctx *c)
{
	static const char *const names[] = { "fsopen", "open_tree", "mount_setattr", "move_mount" };
	struct probe_item *api = &c->report->items[PROBE_MOUNT_API];
	const char *failed = NULL;
	int error = 0, r;

	for (size_t i = 0; i < API_STEPS; i++)
		c->shared[i] = PROBE_NOT_REACHED;
	r = probe_inside(c, CLONE_NEWNS, try_root, c->shared);
	for (size_t i = 0; i < ELEMENTSOF(names) && !failed; i++) {
		if (c->shared[i] < 0) {
			failed = names[i];
			error = c->shared[i];
		}
	}
	if (!failed && c->shared[API_FSOPEN] == PROBE_NOT_REACHED)
		error = r;
	probe_result(c, PROBE_MOUNT_API, error, "open_tree, mount_setattr, fsopen, move_mount work",
	             "Linux 5.12 or newer");
	if (failed)
		(void)snprintf(api->found, sizeof(api->found), "%s: %s", failed, strerror(-error));
	probe_result(c, PROBE_ROOT, r, "entered, /usr is there, nothing can be written",
	             failed ? "what mounting by descriptor needs"
	                    : "start brig from a real root, not an initramfs");
}

/* More than its size must be refused, as must more files than it has inodes. */
static int fill_tmpfs(int dir_fd)
{
	static const char block[4096];
	CLEANUP_FD int fd = openat(dir_fd, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	size_t written = 0;
	char name[8];

	if (fd < 0)
		return -errno;
	while (written <= SCRATCH_BYTES) {
		ssize_t n = write(fd, block, sizeof(block));

		if (n < 0 && errno == ENOSPC)
			break;
		if (n < 0)
			return -errno;
		written += (size_t)n;
	}
	if (written > SCRATCH_BYTES)
		return -EFBIG;
	for (int i = 0; i < 16; i++) {
		(void)snprintf(name, sizeof(name), "d%d", i);
		if (mkdirat(dir_fd, name, 0700) < 0)
			return errno == ENOSPC ? 0 : -errno;
	}
	return -EMFILE;
}

static int try_tmpfs(void *arg)
{
	int *noswap = arg;
	CLEANUP_FD int dir = FD_NONE;
	CLEANUP_FD int kept = FD_NONE;
	int r = probe_mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV,
	                    "size=64k,nr_inodes=8,mode=0755");

	if (r < 0)
		return r;
	kept = new_tmpfs("64k", "8", true);
	*noswap = kept < 0 ? kept : 0;
	dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -errno : fill_tmpfs(dir);
}

/* Outside any namespace of ours, but attached to nothing: it goes with its descriptor. */
static int try_noswap(void *arg)
{
	CLEANUP_FD int fd = new_tmpfs("64k", "8", true);

	(void)arg;
	return fd < 0 ? fd : 0;
}

static int try_nodes(void *arg)
{
	CLEANUP_FD int dir = new_tmpfs("64k", "8", false);
	CLEANUP_FD int fd = FD_NONE;
	char byte;

	(void)arg;
	if (dir < 0)
		return dir;
	if (mknodat(dir, "zero", S_IFCHR | 0666, makedev(1, 5)) < 0)
		return -errno;
	fd = openat(dir, "zero", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return read(fd, &byte, 1) == 1 && byte == 0 ? 0 : -EIO;
}

static void probe_noswap(struct probe_ctx *c)
{
	char swaps[512];
	bool has_swap = probe_read("/proc/swaps", swaps, sizeof(swaps)) > 0 && strchr(swaps, '\n');

	if (c->shared[0] == 0)
		probe_set(c, PROBE_NOSWAP, PROBE_OK, "inside a user namespace too");
	else if (probe_child(PROBE_MAP_NONE, 0, try_noswap, NULL, NULL) >= 0)
		probe_set(c, PROBE_NOSWAP, PROBE_OK,
		          "only when mounted outside the user namespace");
	else if (!has_swap)
		probe_set(c, PROBE_NOSWAP, PROBE_OK, "not for this user, but the host has no swap");
	else
		probe_set(c, PROBE_NOSWAP, PROBE_WARN, "not for this user, and the host swaps");
	if (c->report->items[PROBE_NOSWAP].state != PROBE_OK)
		probe_remedy(c, PROBE_NOSWAP,
		             "run brig as root on Linux 6.4 or newer, or swapoff -a");
}

void probe_files(struct probe_ctx *c)
{
	int r;

	probe_root(c);
	c->shared[0] = PROBE_NOT_REACHED;
	r = probe_inside(c, CLONE_NEWNS, try_tmpfs, c->shared);
	probe_result(c, PROBE_TMPFS, r, "both limits hold", "a kernel with CONFIG_TMPFS=y");
	probe_noswap(c);
	r = probe_child(PROBE_MAP_NONE, 0, try_nodes, NULL, NULL);
	probe_result(c, PROBE_DEV_NODES, r, "made and opened",
	             "run brig as root with CAP_MKNOD and CAP_SYS_ADMIN");
}
