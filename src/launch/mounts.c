/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The box's file system: a fresh tmpfs of our own as root, never a tree that somebody else could
 * have prepared; detached mounts moved onto targets that are looked up once, below the new root,
 * without following any link. Until pivot_root the host's tree is still there underneath.
 *
 * Everything that code can write lies on one more tmpfs, so that one superblock is the quota. It is
 * mounted on /proc, in our namespace only, because parts of a mount can be cloned only while it is
 * mounted somewhere. It leaves with the old root, or, where the root was there before the box, it
 * lies below the box's procfs for good.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "launch/box.h"
#include "sys/syscalls.h"

#define PROC_MAGIC     0x9fa0
#define SCRATCH_INODES 16   /* ours: the directories, the mask's file and directory */
#define ROOT_SIZE      "4m" /* directories, links, files of /etc */
#define ROOT_INODES    "1024"

/* The only lookup in the new root: no links, no way out. */
static int open_target(struct box_setup *s, const char *path, unsigned flags)
{
	return sys_openat2(s->root_fd, *path == '/' ? path + 1 : path, flags | O_CLOEXEC, 0,
	                   RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

void mounts_forget(struct box_setup *s)
{
	if (s->dir_len)
		s->dir_fd = fd_close(s->dir_fd);
	s->dir_len = 0;
}

static int op_error(struct box_setup *s, int r, const char *what, const char *path)
{
	return err_set(&s->err, ERR_SETUP, -r, "%s %s", what, path);
}

/*
 * The directory that holds the path's last component, which *ret_leaf then names; not the caller's
 * to close. It stays open: most targets follow others of the same directory.
 */
static int parent_of(struct box_setup *s, const char *path, const char **ret_leaf)
{
	char dir[PLAN_PATH_MAX];
	size_t n = (size_t)(strrchr(path, '/') - path);

	*ret_leaf = path + n + 1;
	if (n == 0)
		return s->root_fd;
	if (n == s->dir_len && memcmp(path, s->dir, n) == 0)
		return s->dir_fd;
	mounts_forget(s);
	memcpy(dir, path, n);
	dir[n] = '\0';
	s->dir_fd = open_target(s, dir, O_PATH | O_DIRECTORY);
	if (s->dir_fd < 0)
		return s->dir_fd;
	s->dir = path;
	s->dir_len = n;
	return s->dir_fd;
}

/* What is mounted may lie on top of the directory that is open. A link at the end is not followed.
 */
int mount_onto(struct box_setup *s, int mount_fd, const char *path)
{
	const char *leaf;
	int dir = parent_of(s, path, &leaf), r = dir;

	if (dir >= 0)
		r = sys_move_mount(mount_fd, dir, leaf);
	mounts_forget(s);
	return r;
}

static int new_tmpfs(const char *size, const char *inodes, const char *mode, unsigned attrs)
{
	CLEANUP_FD int fs = sys_fsopen("tmpfs");
	int r;

	if (fs < 0)
		return fs;
	r = sys_fsconfig_string(fs, "size", size);
	if (r >= 0)
		r = sys_fsconfig_string(fs, "nr_inodes", inodes);
	if (r >= 0)
		r = sys_fsconfig_string(fs, "mode", mode);
	if (r >= 0)
		r = sys_fsconfig_create(fs);
	return r < 0 ? r : sys_fsmount(fs, attrs);
}

int mounts_target(struct box_setup *s, const char *path, bool directory)
{
	const char *leaf;
	int dir = parent_of(s, path, &leaf);
	CLEANUP_FD int fd = FD_NONE;

	if (dir < 0)
		return dir;
	if (directory)
		return mkdirat(dir, leaf, 0755) < 0 && errno != EEXIST ? -errno : 0;
	fd = openat(dir, leaf, O_CREAT | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0444);
	return fd < 0 ? -errno : 0;
}

static int op_dir(struct box_setup *s, const struct fs_op *op)
{
	const char *leaf;
	int dir = parent_of(s, op->path, &leaf);

	if (dir < 0)
		return dir;
	if (mkdirat(dir, leaf, op->mode) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (op->owner && fchownat(dir, leaf, op->owner, op->owner, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int op_symlink(struct box_setup *s, const struct fs_op *op)
{
	const char *leaf;
	int dir = parent_of(s, op->path, &leaf);

	if (dir < 0)
		return dir;
	return symlinkat(op->source, dir, leaf) < 0 ? -errno : 0;
}

static int op_file(struct box_setup *s, const struct fs_op *op)
{
	const char *leaf;
	int dir = parent_of(s, op->path, &leaf);
	CLEANUP_FD int fd = FD_NONE;
	size_t done = 0;

	if (dir < 0)
		return dir;
	fd = openat(dir, leaf, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
	            op->mode & 0777);
	if (fd < 0)
		return -errno;
	while (done < op->data.n) {
		ssize_t n = write(fd, op->data.p + done, op->data.n - done);

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	if (op->owner && fchown(fd, op->owner, op->owner) < 0)
		return -errno;
	return 0;
}

static int op_bind(struct box_setup *s, const struct fs_op *op)
{
	CLEANUP_FD int tree = sys_open_tree(AT_FDCWD, op->source,
	                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
	                                            AT_SYMLINK_NOFOLLOW);
	struct stat st;
	int r;

	if (tree == -ENOENT && op->optional)
		return 0;
	if (tree < 0)
		return tree;
	if (fstat(tree, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EINVAL; /* a link or a socket is never what the plan meant */
	r = sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE,
	                      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (r >= 0)
		r = mounts_target(s, op->path, S_ISDIR(st.st_mode));
	return r < 0 ? r : mount_onto(s, tree, op->path);
}

/* A directory of the scratch tmpfs, named after the target's last component. */
static int op_scratch(struct box_setup *s, const struct fs_op *op)
{
	const char *name = strrchr(op->path, '/') + 1;
	CLEANUP_FD int tree = FD_NONE;
	int r;

	if (mkdirat(s->scratch_fd, name, 0700) < 0 ||
	    fchownat(s->scratch_fd, name, op->owner, op->owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(s->scratch_fd, name, op->mode, 0) < 0)
		return -errno;
	tree = sys_open_tree(s->scratch_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0)
		return tree;
	r = op->noexec ? sys_mount_setattr(tree, "", AT_EMPTY_PATH, MOUNT_ATTR_NOEXEC) : 0;
	if (r >= 0)
		r = mounts_target(s, op->path, true);
	return r < 0 ? r : mount_onto(s, tree, op->path);
}

int mounts_new_proc(void)
{
	CLEANUP_FD int fs = sys_fsopen("proc");
	int r;

	if (fs < 0)
		return fs;
	r = sys_fsconfig_string(fs, "hidepid", "invisible");
	if (r >= 0)
		r = sys_fsconfig_create(fs);
	if (r < 0)
		return r;
	return sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int op_proc(struct box_setup *s, const struct fs_op *op)
{
	CLEANUP_FD int fd = mounts_new_proc();
	struct statfs st;
	int r;

	if (fd < 0)
		return fd;
	if (fstatfs(fd, &st) < 0 || st.f_type != PROC_MAGIC)
		return -EINVAL;
	s->sysctl_fd = openat(fd, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->sysctl_fd < 0)
		return -errno;
	r = mounts_target(s, op->path, true);
	return r < 0 ? r : mount_onto(s, fd, op->path);
}

/* The first mask of its kind: an empty file or directory of the scratch tmpfs, read-only. */
static int first_mask(struct box_setup *s, int target, bool directory)
{
	CLEANUP_FD int tree = sys_open_tree(s->scratch_fd, directory ? "mask.d" : "mask",
	                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int r;

	if (tree < 0)
		return tree;
	r = sys_mount_setattr(tree, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
	return r < 0 ? r : sys_move_mount(tree, target, "");
}

/*
 * Hides a file under an empty one, a directory under an empty one. Once there is one of its kind, a
 * mask is a bind of that one by relative path: one call instead of seven, and procfs is fresh,
 * ours, and has no link among the names that are masked.
 */
static int op_mask(struct box_setup *s, const struct fs_op *op)
{
	bool directory = S_ISDIR(op->mode);
	const char **mask = directory ? &s->mask_dir : &s->mask_file;
	CLEANUP_FD int target = FD_NONE;
	int r;

	if (*mask) {
		r = sys_bind(*mask, op->path + 1);
		return r == -ENOENT ? 0 : r;
	}
	target = open_target(s, op->path, O_PATH);
	if (target < 0)
		return target == -ENOENT ? 0 : target;
	r = first_mask(s, target, directory);
	if (r >= 0)
		*mask = op->path + 1;
	return r;
}

static int op_readonly(struct box_setup *s, const struct fs_op *op)
{
	CLEANUP_FD int target = open_target(s, op->path, O_PATH), tree = FD_NONE;
	int r;

	if (target == -ENOENT)
		return 0;
	if (target < 0)
		return target;
	tree = sys_open_tree(target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree < 0)
		return tree;
	r = sys_mount_setattr(tree, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
	return r < 0 ? r : sys_move_mount(tree, target, "");
}

static int op_dev(struct box_setup *s, const struct fs_op *op)
{
	int r = mounts_target(s, op->path, true);

	return r < 0 ? r : dev_attach(s, op->path);
}

static const struct {
	const char *what;
	int (*run)(struct box_setup *s, const struct fs_op *op);
} ops[FS_OP_COUNT] = {
	[FS_OP_DIR] = { "make directory", op_dir },
	[FS_OP_SYMLINK] = { "make link", op_symlink },
	[FS_OP_FILE] = { "place file", op_file },
	[FS_OP_BIND_RO] = { "mount the host's", op_bind },
	[FS_OP_SCRATCH] = { "mount writable", op_scratch },
	[FS_OP_PROC] = { "mount procfs on", op_proc },
	[FS_OP_DEV] = { "set up", op_dev },
	[FS_OP_MASK] = { "mask", op_mask },
	[FS_OP_READONLY] = { "make read-only", op_readonly },
};

static bool is_mask(const struct fs_op *op)
{
	return op->kind == FS_OP_MASK || op->kind == FS_OP_READONLY;
}

size_t image_ops(const struct plan *plan)
{
	size_t n = 0;

	while (n < plan->n_fs && plan->fs[n].kind != FS_OP_PROC)
		n++;
	return n;
}

static int run_ops(struct box_setup *s, size_t from, size_t to, bool masks)
{
	for (size_t i = from; i < to; i++) {
		const struct fs_op *op = &s->plan->fs[i];
		int r;

		if (is_mask(op) != masks)
			continue;
		r = ops[op->kind].run(s, op);
		if (r < 0)
			return op_error(s, r, ops[op->kind].what, op->path);
	}
	return 0;
}

int mounts_run(struct box_setup *s, size_t from, size_t to)
{
	return run_ops(s, from, to, /* masks= */ false);
}

static int attach_tmpfs(struct box_setup *s, int fd, const char *at, const char *what)
{
	int r = fd < 0 ? fd : sys_move_mount(fd, AT_FDCWD, at);

	return r < 0 ? op_error(s, r, "mount", what) : 0;
}

static int make_scratch(struct box_setup *s)
{
	uint64_t bytes = s->plan->scratch_bytes;
	char size[24], inodes[24];
	int fd, r;

	if (s->scratch_max && bytes > s->scratch_max)
		bytes = s->scratch_max;
	(void)snprintf(size, sizeof(size), "%" PRIu64, bytes);
	(void)snprintf(inodes, sizeof(inodes), "%" PRIu64, /* 0 would mean no limit */
	               (uint64_t)s->plan->scratch_inodes + SCRATCH_INODES);
	s->scratch_fd = new_tmpfs(size, inodes, "0755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	r = attach_tmpfs(s, s->scratch_fd, "/proc", "the writable tmpfs");
	if (r < 0)
		return r;
	fd = openat(s->scratch_fd, "mask", O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
	if (fd < 0 || mkdirat(s->scratch_fd, "mask.d", 0555) < 0)
		return op_error(s, -errno, "prepare", "the masks");
	(void)close(fd);
	return 0;
}

/* A tmpfs of our own on top of everything, as root_fd. */
int mounts_new_root(struct box_setup *s)
{
	s->root_fd =
		new_tmpfs(ROOT_SIZE, ROOT_INODES, "0755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return attach_tmpfs(s, s->root_fd, "/", "the new root");
}

static int open_shared_root(struct box_setup *s)
{
	s->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->root_fd < 0 ? op_error(s, -errno, "open", "the root") : 0;
}

int setup_mounts(struct box_setup *s)
{
	int r = s->shared_root ? 0 : sys_mount_private("/");

	s->root_fd = s->sysctl_fd = FD_NONE;
	if (r < 0)
		return op_error(s, r, "make private", "/");
	r = make_scratch(s);
	if (r >= 0)
		r = s->shared_root ? open_shared_root(s) : mounts_new_root(s);
	if (r >= 0)
		r = mounts_run(s, s->shared_root ? image_ops(s->plan) : 0, s->plan->n_fs);
	if (r < 0)
		return r;
	if (s->sysctl_fd < 0)
		return err_set(&s->err, ERR_INVALID, EPROTO, "the plan has no /proc");
	s->layers |= LAYER_BIT(QUOTA) & s->plan->layers;
	return 0;
}

int setup_masks(struct box_setup *s)
{
	if (fchdir(s->root_fd) < 0)
		return op_error(s, -errno, "enter", "the new root");
	return run_ops(s, 0, s->plan->n_fs, /* masks= */ true);
}

int mounts_pivot(struct box_setup *s)
{
	char cwd[8];

	if (fchdir(s->root_fd) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "enter the new root");
	if (sys_pivot_root(".", ".") < 0)
		return err_set(&s->err, ERR_SETUP, errno, "pivot_root");
	if (chdir("/") < 0 || !getcwd(cwd, sizeof(cwd)) || cwd[0] != '/' || cwd[1])
		return err_set(&s->err, ERR_SETUP, errno, "the new root is not \"/\"");
	return 0;
}

/* Devices stay usable on a read-only mount. */
int setup_read_only(struct box_setup *s)
{
	CLEANUP_FD int dev = open_target(s, "/dev", O_PATH | O_DIRECTORY);
	int r = dev < 0 ? dev : 0;

	if (r >= 0 && s->dev_fd >= 0)
		r = sys_mount_setattr(dev, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
	if (r >= 0)
		r = sys_mount_setattr(s->root_fd, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
	return r < 0 ? op_error(s, r, "make read-only", "the root") : 0;
}
