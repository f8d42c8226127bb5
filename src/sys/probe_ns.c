/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces. Each is made the way a box is made: by clone() together with a user namespace whose
 * ids the parent maps. All of it ends with the child.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"

/* ---- namespaces ---- */

/* Needs a capability inside: AppArmor lets namespaces be made and then denies their use. */
static int try_user(void *arg)
{
	(void)arg;
	return sys_ret(prctl(PR_CAPBSET_DROP, 0, 0, 0, 0));
}

static int try_mount(void *arg)
{
	(void)arg;
	return probe_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static int try_pid(void *arg)
{
	(void)arg;
	return getpid() == 1 ? 0 : -ESRCH;
}

static int try_net(void *arg)
{
	CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	(void)arg;
	if (fd < 0)
		return -errno;
	return sys_ret(ioctl(fd, SIOCSIFFLAGS, &lo));
}

static int try_uts(void *arg)
{
	(void)arg;
	return sys_ret(sethostname("brig", 4));
}

static int try_nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* With v1 cgroups the namespace is made last, when the process is in its cgroup. */
static int try_cgroup(void *arg)
{
	(void)arg;
	return sys_ret(syscall(SYS_unshare, CLONE_NEWCGROUP));
}

/* clone() has no bit left for it. */
static int try_time(void *arg)
{
	struct clone_args args = { .flags = CLONE_NEWTIME, .exit_signal = SIGCHLD };
	int pid = sys_clone3(&args);

	(void)arg;
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return pid;
	return waitpid(pid, NULL, 0) == pid ? 0 : -errno;
}

static bool is_zero(const char *path)
{
	long long value;

	return probe_read_int(path, &value) >= 0 && value == 0;
}

static bool is_one(const char *path)
{
	long long value;

	return probe_read_int(path, &value) >= 0 && value == 1;
}

/* Why the kernel said no. Only the outcome was measured; the knobs name the likely cause. */
static void explain_userns(struct probe_ctx *c, int r, bool made)
{
	long long max = 0;

	probe_set(c, PROBE_USERNS, PROBE_MISSING, "%s: %s",
	          made ? "made, but gives no power inside" : "cannot be made or mapped",
	          strerror(-r));
	(void)probe_read_int("/proc/sys/user/max_user_namespaces", &max);
	if (r == -ENOSPC && max == 0) {
		probe_set(c, PROBE_USERNS, PROBE_MISSING, "user.max_user_namespaces is 0");
		probe_remedy(c, PROBE_USERNS, "sysctl -w user.max_user_namespaces=15000");
	} else if (r == -ENOSPC || r == -EUSERS) {
		probe_remedy(c, PROBE_USERNS, "sysctl -w user.max_user_namespaces=%lld",
		             max > 0 ? 2 * max : 15000);
	} else if (is_zero("/proc/sys/kernel/unprivileged_userns_clone") && geteuid() != 0) {
		probe_set(c, PROBE_USERNS, PROBE_MISSING, "kernel.unprivileged_userns_clone is 0");
		probe_remedy(c, PROBE_USERNS, "sysctl -w kernel.unprivileged_userns_clone=1");
	} else if (c->outer_filter) {
		probe_set(c, PROBE_USERNS, PROBE_MISSING,
		          "a seccomp filter around us denies it: %s", strerror(-r));
		probe_remedy(c, PROBE_USERNS,
		             "give the container --security-opt seccomp=unconfined, or a profile "
		             "that allows clone, unshare and mount");
	} else if (is_one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) {
		probe_set(c, PROBE_USERNS, PROBE_MISSING,
		          "kernel.apparmor_restrict_unprivileged_userns is 1");
		probe_remedy(c, PROBE_USERNS,
		             "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an "
		             "AppArmor profile for brig with the rule \"userns,\"");
	} else if (r == -EINVAL || r == -ENOSYS) {
		probe_remedy(c, PROBE_USERNS, "a kernel with CONFIG_USER_NS=y");
	} else {
		probe_remedy(c, PROBE_USERNS,
		             "look for a security module or a chroot around brig that denies it");
	}
}

static void probe_userns(struct probe_ctx *c)
{
	bool pair_made, made = false;
	int pair, r;

	pair = probe_child(PROBE_MAP_PAIR, 0, try_user, NULL, &pair_made);
	r = probe_child(PROBE_MAP_OWN, 0, try_user, NULL, &made);
	if (pair >= 0)
		c->map = PROBE_MAP_PAIR;
	else if (r >= 0)
		c->map = PROBE_MAP_OWN;

	if (pair >= 0)
		probe_set(c, PROBE_USERNS, PROBE_OK, "made, and ids mapped by the parent");
	else if (r >= 0)
		probe_set(c, PROBE_USERNS, PROBE_OK, "made, and own id mapped");
	else
		explain_userns(c, r, made);

	if (pair >= 0) {
		probe_set(c, PROBE_ID_MAP, PROBE_OK, "ids %u and %u can be mapped", PROBE_BOX_ID,
		          PROBE_BOX_ID + 1);
		return;
	}
	if (c->map == PROBE_MAP_NONE) {
		probe_result(c, PROBE_ID_MAP, PROBE_NO_USERNS, "", "");
		return;
	}
	probe_set(c, PROBE_ID_MAP, PROBE_MISSING, "%s",
	          pair_made ? strerror(-pair) : "only ids of one's own may be mapped");
	probe_remedy(c, PROBE_ID_MAP,
	             geteuid() ? "run brig as root"
	                       : "map ids from 1879048192 (0x70000000) into this container, with "
	                         "CAP_SETUID");
}

/* Turns further namespaces off through a fresh procfs, then sees whether one can still be made. */
static int lock_namespaces(void)
{
	int r = file_write(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0");

	if (r < 0)
		return r;
	return syscall(SYS_unshare, CLONE_NEWUSER) < 0 ? 0 : -EEXIST;
}

static int try_proc(void *arg)
{
	int *lock = arg;
	int r = probe_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
	                    "hidepid=invisible");

	if (r >= 0)
		*lock = lock_namespaces();
	return r;
}

static void probe_procfs(struct probe_ctx *c)
{
	int r;

	c->shared[0] = PROBE_NOT_REACHED;
	r = probe_inside(c, CLONE_NEWNS | CLONE_NEWPID, try_proc, c->shared);
	probe_result(c, PROBE_PROCFS, r, "mounted in a new pid namespace, with hidepid",
	             "a kernel with CONFIG_PROC_FS=y");
	if (r == -EPERM && !c->outer_filter) {
		probe_set(c, PROBE_PROCFS, PROBE_MISSING,
		          "refused: parts of /proc are masked or read-only here");
		probe_remedy(c, PROBE_PROCFS,
		             "give the container --security-opt systempaths=unconfined");
	}
	if (c->shared[0] == PROBE_NOT_REACHED) {
		probe_set(c, PROBE_NS_LOCK, PROBE_MISSING, "needs a fresh procfs");
		return;
	}
	probe_result(c, PROBE_NS_LOCK, c->shared[0], "user.max_*_namespaces can be set to 0",
	             "a kernel with CONFIG_SYSCTL=y");
}

void probe_namespaces(struct probe_ctx *c)
{
	static const struct {
		enum probe_id id;
		unsigned long flag;
		probe_fn *fn;
		const char *found, *needs;
	} tries[] = {
		{ PROBE_NS_MOUNT, CLONE_NEWNS, try_mount, "made, and made private",
		  "a kernel with CONFIG_NAMESPACES=y" },
		{ PROBE_NS_PID, CLONE_NEWPID, try_pid, "made", "a kernel with CONFIG_PID_NS=y" },
		{ PROBE_NS_NET, CLONE_NEWNET, try_net, "made, lo is up",
		  "a kernel with CONFIG_NET_NS=y" },
		{ PROBE_NS_IPC, CLONE_NEWIPC, try_nothing, "made",
		  "a kernel with CONFIG_IPC_NS=y" },
		{ PROBE_NS_UTS, CLONE_NEWUTS, try_uts, "made, host name set",
		  "a kernel with CONFIG_UTS_NS=y" },
		{ PROBE_NS_CGROUP, 0, try_cgroup, "made", "a kernel with CONFIG_CGROUPS=y" },
		{ PROBE_NS_TIME, 0, try_time, "made", "a kernel with CONFIG_TIME_NS=y" },
	};

	probe_userns(c);
	for (size_t i = 0; i < ELEMENTSOF(tries); i++) {
		int r = probe_inside(c, tries[i].flag, tries[i].fn, NULL);

		probe_result(c, tries[i].id, r, tries[i].found, tries[i].needs);
	}
	probe_procfs(c);
}
