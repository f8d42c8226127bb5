/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The root of a launcher that stays. Boxes of one image have the same /usr, /etc and links, all
 * read-only; built once, in a mount namespace of the launcher's own, they are there in every box
 * from the first instruction after clone3, and what a box still mounts is what it does not share:
 * /proc, /dev, and the places that can be written. The kernel locks the shared mounts in a box's
 * namespace, for that belongs to another user namespace.
 *
 * The kernel lets nobody mount a procfs in a user namespace who does not see one already. The one
 * here is of a pid namespace that is dead and empty; the box's own lies on top of it.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "launch/box.h"
#include "sys/file.h"
#include "sys/syscalls.h"

/* Without root, a user namespace of one's own is what allows mounts. */
static int own_user_namespace(struct box_host *host, struct err *err)
{
	uint32_t uid = (uint32_t)geteuid(), gid = (uint32_t)getegid();
	char map[32];
	int r;

	if (host->privileged)
		return 0;
	if (unshare(CLONE_NEWUSER) < 0)
		return err_set(err, ERR_SETUP, errno, "make a user namespace");
	(void)snprintf(map, sizeof(map), "%" PRIu32 " %" PRIu32 " 1\n", uid, uid);
	r = file_write(host->proc_fd, "self/uid_map", map);
	if (r >= 0)
		r = file_write(host->proc_fd, "self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "%" PRIu32 " %" PRIu32 " 1\n", gid, gid);
	if (r >= 0)
		r = file_write(host->proc_fd, "self/gid_map", map);
	return r < 0 ? err_set(err, ERR_SETUP, -r, "map the user's own id") : 0;
}

/* Its maker ends at once; the descriptor comes back through the shared table. */
static int empty_proc(void)
{
	long pid = syscall(SYS_clone, (unsigned long)(CLONE_NEWPID | CLONE_FILES | SIGCHLD), 0, 0,
	                   0, 0);
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int fd = mounts_new_proc();

		_exit(fd < 0 || fd > 254 ? 255 : fd);
	}
	if (waitpid((pid_t)pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : -EPERM;
}

/* For the zygotes; a box of root's mounts nodes of its own on top. */
static int make_dev(struct box_setup *s, const char *path)
{
	CLEANUP_FD int dev = FD_NONE;
	int r;

	if (!s->privileged)
		return dev_bind_nodes(s, path);
	dev = dev_make_nodes(&s->err);
	if (dev < 0)
		return dev;
	r = sys_mount_setattr(dev, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
	return r < 0 ? r : mount_onto(s, dev, path);
}

/* Everything that boxes will mount on must exist before the root becomes read-only. */
static int make_targets(struct box_setup *s)
{
	int r = 0;

	for (size_t i = image_ops(s->plan); i < s->plan->n_fs && r >= 0; i++) {
		const struct fs_op *op = &s->plan->fs[i];

		if (op->kind == FS_OP_DEV || op->kind == FS_OP_PROC)
			r = mounts_target(s, op->path, true);
		if (op->kind == FS_OP_SCRATCH && !str_has_prefix(op->path, "/dev/"))
			r = mounts_target(s, op->path, true);
		if (r >= 0 && op->kind == FS_OP_DEV)
			r = make_dev(s, op->path);
	}
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "prepare the places of boxes") : 0;
}

static int build(struct box_setup *s)
{
	CLEANUP_FD int proc = FD_NONE;
	int r = mounts_new_root(s);

	if (r >= 0)
		r = mounts_run(s, 0, image_ops(s->plan));
	if (r >= 0)
		r = make_targets(s);
	if (r < 0)
		return r;
	proc = empty_proc();
	r = proc < 0 ? proc : mount_onto(s, proc, "/proc");
	if (r >= 0)
		r = sys_mount_setattr(s->root_fd, "", AT_EMPTY_PATH, MOUNT_ATTR_RDONLY);
	if (r < 0)
		return err_set(&s->err, ERR_SETUP, -r, "finish the boxes' root");
	r = mounts_pivot(s);
	if (r >= 0 && sys_umount_detach(".") < 0)
		r = err_set(&s->err, ERR_SETUP, errno, "detach the old root");
	return r;
}

static int make(struct box_host *host, const struct plan *plan, struct err *err)
{
	struct box_setup s = {
		.plan = plan, .privileged = host->privileged, .dev_fd = FD_NONE, .root_fd = FD_NONE
	};
	int r = own_user_namespace(host, err);

	if (r < 0)
		return r;
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, ERR_SETUP, errno, "make a mount namespace");
	r = sys_mount_private("/");
	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "make the mounts private");
	r = build(&s);
	mounts_forget(&s);
	(void)fd_close(s.root_fd);
	if (r < 0) {
		*err = s.err;
		return r;
	}
	if (chdir("/") < 0)
		return err_set(err, ERR_SETUP, errno, "enter the boxes' root");
	net_settle(host);
	host->shared_root = true;
	return 0;
}

/* What was begun cannot be undone or begun again: a failure stays. */
int template_make(struct box_host *host, const struct plan *plan, struct err *err)
{
	int r;

	if (host->template_err.code != ERR_NONE) {
		*err = host->template_err;
		return -EIO;
	}
	r = make(host, plan, err);
	if (r < 0)
		host->template_err = *err;
	return r;
}
