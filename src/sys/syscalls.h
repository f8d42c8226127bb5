/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System calls that the C library does not wrap, or wraps in ways that a freshly cloned child
 * cannot use. All return >= 0 or -errno.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_open_tree
#define SYS_open_tree  428
#define SYS_move_mount 429
#define SYS_fsopen     430
#define SYS_fsconfig   431
#define SYS_fsmount    432
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

/* -errno of a libc-style result. */
static inline int sys_ret(long r)
{
	return r < 0 ? -errno : (int)r;
}

static inline int sys_clone3(struct clone_args *args)
{
	return sys_ret(syscall(SYS_clone3, args, sizeof(*args)));
}

static inline int sys_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode,
                              uint64_t resolve)
{
	struct open_how how = { .flags = flags, .mode = mode, .resolve = resolve };

	return sys_ret(syscall(SYS_openat2, dirfd, path, &how, sizeof(how)));
}

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	return sys_ret(syscall(SYS_open_tree, dirfd, path, flags));
}

static inline int sys_move_mount(int from_fd, int to_fd, const char *to)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*to ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

	return sys_ret(syscall(SYS_move_mount, from_fd, "", to_fd, to, flags));
}

static inline int sys_fsopen(const char *type)
{
	return sys_ret(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

static inline int sys_fsconfig_string(int fs_fd, const char *key, const char *value)
{
	return sys_ret(syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_STRING, key, value, 0));
}

static inline int sys_fsconfig_flag(int fs_fd, const char *key)
{
	return sys_ret(syscall(SYS_fsconfig, fs_fd, FSCONFIG_SET_FLAG, key, NULL, 0));
}

static inline int sys_fsconfig_create(int fs_fd)
{
	return sys_ret(syscall(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
}

static inline int sys_fsmount(int fs_fd, unsigned attrs)
{
	return sys_ret(syscall(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, attrs));
}

static inline int sys_mount_setattr(int fd, const char *path, unsigned flags, uint64_t set)
{
	struct mount_attr attr = { .attr_set = set };

	return sys_ret(syscall(SYS_mount_setattr, fd, path, flags, &attr, sizeof(attr)));
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return sys_ret(syscall(SYS_pivot_root, new_root, put_old));
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return sys_ret(syscall(SYS_close_range, first, last, flags));
}

static inline int sys_pidfd_open(int pid)
{
	return sys_ret(syscall(SYS_pidfd_open, pid, 0));
}

static inline int sys_pidfd_kill(int pidfd, int sig)
{
	return sys_ret(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}

/* <sys/mount.h> and <linux/mount.h> cannot be included together; these few calls are all we need.
 */
static inline int sys_umount_detach(const char *path)
{
	return sys_ret(syscall(SYS_umount2, path, 2 /* MNT_DETACH */));
}

static inline int sys_mount_private(const char *path)
{
	return sys_ret(syscall(SYS_mount, NULL, path, NULL, MS_REC | MS_PRIVATE, NULL));
}

static inline int sys_bind(const char *from, const char *to)
{
	return sys_ret(syscall(SYS_mount, from, to, NULL, MS_BIND, NULL));
}
