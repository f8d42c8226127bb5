/* SPDX-License-Identifier: Apache-2.0 */
/* System calls and what confines the code. Each is used once, for real, in a child. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/landlock.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"
#include "sys/uapi/landlock.h"

/* ---- processes and descriptors ---- */

static int try_clone3(void *arg)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int pid = sys_clone3(&args);

	(void)arg;
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return pid;
	return waitpid(pid, NULL, 0) == pid ? 0 : -errno;
}

static int try_pidfd(void *arg)
{
	CLEANUP_FD int fd = sys_pidfd_open(getpid());

	(void)arg;
	return fd < 0 ? fd : sys_pidfd_kill(fd, 0);
}

static int try_close_range(void *arg)
{
	int fd = open("/", O_PATH | O_CLOEXEC);
	int r;

	(void)arg;
	if (fd < 0)
		return -errno;
	r = sys_close_range((unsigned)fd, (unsigned)fd, 0);
	if (r < 0)
		return r;
	return fcntl(fd, F_GETFD) < 0 ? 0 : -EIO;
}

/* The way out must be refused, or the call is there in name only. */
static int try_openat2(void *arg)
{
	CLEANUP_FD int dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FD int in = FD_NONE;
	CLEANUP_FD int out = FD_NONE;
	uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;

	(void)arg;
	if (dir < 0)
		return -errno;
	in = sys_openat2(dir, "sys", O_PATH | O_CLOEXEC, 0, beneath);
	if (in < 0)
		return in;
	out = sys_openat2(dir, "../usr", O_PATH | O_CLOEXEC, 0, beneath);
	return out == -EXDEV ? 0 : -EIO;
}

/* ---- confinement ---- */

/* getppid() must fail as the filter says. */
static int try_seccomp(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { .len = ELEMENTSOF(code), .filter = code };
	uint32_t kill_process = SECCOMP_RET_KILL_PROCESS;

	(void)arg;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill_process) < 0)
		return -errno;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return -errno;
	return syscall(SYS_getppid) < 0 && errno == EXDEV ? 0 : -EIO;
}

/* With everything handled and nothing allowed, the root directory must not open. */
static int try_landlock(void *arg)
{
	CLEANUP_FD int rules = landlock_create(landlock_abi(), false);
	CLEANUP_FD int fd = FD_NONE;
	int r;

	(void)arg;
	if (rules < 0)
		return rules;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	r = landlock_enforce(rules);
	if (r < 0)
		return r;
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 && errno == EACCES ? 0 : -EIO;
}

/* A child in its own scope must not reach its parent, though both are the same user. */
static int try_scope(void *arg)
{
	struct ll_ruleset_attr attr = {
		.handled_access_fs = LL_FS_EXECUTE,
		.scoped = LL_SCOPE_ABSTRACT_UNIX_SOCKET | LL_SCOPE_SIGNAL,
	};
	CLEANUP_FD int rules = FD_NONE;
	int r;

	(void)arg;
	rules = sys_ret(syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0));
	if (rules < 0)
		return rules;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	r = landlock_enforce(rules);
	if (r < 0)
		return r;
	return kill(getppid(), 0) < 0 && errno == EPERM ? 0 : -EIO;
}

static int try_keyring(void *arg)
{
	(void)arg;
	return sys_ret(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0));
}

static void probe_landlock(struct probe_ctx *c)
{
	int r = probe_child(PROBE_MAP_NONE, 0, try_landlock, NULL, NULL);
	char found[64];

	(void)snprintf(found, sizeof(found), "ABI %d, fixed errata 0x%x, enforced", landlock_abi(),
	               (unsigned)landlock_errata());
	probe_result(
		c, PROBE_LANDLOCK, r, found,
		"boot with \"landlock\" in lsm= on the kernel command line; Linux 5.13 or newer");
	if (r == -EOPNOTSUPP)
		probe_remedy(c, PROBE_LANDLOCK,
		             "boot with lsm=landlock,$(cat /sys/kernel/security/lsm)");
	r = probe_child(PROBE_MAP_NONE, 0, try_scope, NULL, NULL);
	probe_result(c, PROBE_LANDLOCK_SCOPE, r, "signals, abstract sockets",
	             "Linux 6.12 or newer");
}

void probe_kernel(struct probe_ctx *c)
{
	static const struct {
		enum probe_id id;
		probe_fn *fn;
		const char *found, *needs;
	} tries[] = {
		{ PROBE_CLONE3, try_clone3, "works", "Linux 5.3 or newer" },
		{ PROBE_PIDFD, try_pidfd, "both work", "Linux 5.3 or newer" },
		{ PROBE_CLOSE_RANGE, try_close_range, "works", "Linux 5.9 or newer" },
		{ PROBE_OPENAT2, try_openat2, "keeps paths beneath", "Linux 5.6 or newer" },
		{ PROBE_SECCOMP, try_seccomp, "filter holds",
		  "a kernel with CONFIG_SECCOMP_FILTER=y" },
		{ PROBE_KEYRING, try_keyring, "joined", "a kernel with CONFIG_KEYS=y" },
	};

	for (size_t i = 0; i < ELEMENTSOF(tries); i++) {
		int r = probe_child(PROBE_MAP_NONE, 0, tries[i].fn, NULL, NULL);

		probe_result(c, tries[i].id, r, tries[i].found, tries[i].needs);
	}
	if (c->report->items[PROBE_CLONE3].state == PROBE_MISSING)
		c->report->items[PROBE_CLONE3].state = PROBE_WARN; /* clone() does */
	probe_landlock(c);
}
