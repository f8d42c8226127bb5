/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls are made with arguments that the kernel would refuse too, so that a filter that
 * failed to stop one does no harm to the host.
 */
#include "kernel_check.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define GARBAGE           0x5a5a5a5a00000000L

enum {
	NR_UNKNOWN = 1000,
	NR_URETPROBE = 335,
	NR_UPROBE = 336,
	NR_X32_GETPID = 0x40000000 + SYS_getpid,
	NR_I386_GETPID = 20,
};

/* Runs in the child, under the filter; the result is its exit status. */
typedef int child_fn(const struct kernel_check *check, long nr);

static int load_filter(const struct kernel_check *check)
{
	struct sock_fprog program = { .len = check->len,
		                      .filter = (struct sock_filter *)check->code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return -errno;
	return 0;
}

/* Returns the child's wait status, or -1. */
static int run_child(const struct kernel_check *check, child_fn *fn, long nr)
{
	static const struct rlimit no_core = { 0, 0 };
	int status = -1;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (setrlimit(RLIMIT_CORE, &no_core) < 0 || load_filter(check) < 0)
			_exit(99);
		status = fn(check, nr);
		(void)fflush(stdout);
		_exit(status);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static int call_getpid(const struct kernel_check *check, long nr)
{
	(void)check;
	return syscall(nr) == getpid() ? 0 : 1;
}

bool kernel_accepts(const struct kernel_check *check)
{
	return run_child(check, call_getpid, SYS_getpid) == 0;
}

static bool expect_error(const char *name, long result, int want)
{
	int got = result < 0 ? errno : 0;

	if (got == want)
		return true;
	printf("# %s: want errno %d, got %d\n", name, want, got);
	return false;
}

/* Linux 6.14 and later lets the calls of its probe trampolines pass every filter. */
static bool is_checkable(const struct policy_rule *rule)
{
	if (rule->nr == NR_URETPROBE || rule->nr == NR_UPROBE)
		return false;
	return rule->n_clauses == 0 &&
	       (rule->action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO;
}

static int call_refused(const struct kernel_check *check, long nr)
{
	int n_wrong = 0, n = 0;

	(void)nr;
	for (size_t i = 0; i < check->n_rules; i++) {
		const struct policy_rule *rule = &check->rules[i];

		if (!is_checkable(rule))
			continue;
		n++;
		n_wrong += !expect_error(rule->name,
		                         syscall((long)rule->nr, -1L, -1L, -1L, -1L, -1L, -1L),
		                         (int)(rule->action & SECCOMP_RET_DATA));
	}
	printf("# %d calls refused by the kernel\n", n);
	return n_wrong > 0 || n == 0;
}

bool kernel_refuses(const struct kernel_check *check)
{
	return run_child(check, call_refused, 0) == 0;
}

/* Such as every table of ours refuses. */
static int call_refused_arguments(const struct kernel_check *check, long high)
{
	static const struct {
		const char *name;
		long nr, args[4];
		int want;
	} calls[] = {
		{ "socket(AF_PACKET)", SYS_socket, { 17, 3, 0 }, EAFNOSUPPORT },
		{ "socket(AF_INET, SOCK_RAW)", SYS_socket, { 2, 3, 1 }, EAFNOSUPPORT },
		{ "clone(CLONE_PTRACE)", SYS_clone, { 0x00002011 }, EPERM },
		{ "setsockopt(TCP_ULP)", SYS_setsockopt, { -1, 6, 31 }, ENOPROTOOPT },
		{ "ioctl(TIOCSTI)", SYS_ioctl, { -1, 0x5412 }, EPERM },
		{ "prctl(PR_SET_MM)", SYS_prctl, { 35, 1 }, EPERM },
		{ "futex(FUTEX_LOCK_PI)", SYS_futex, { 0, 6 }, ENOSYS },
		{ "fchmod(04755)", SYS_fchmod, { -1, 04755 }, EPERM },
		{ "fcntl(F_SETLEASE)", SYS_fcntl, { -1, 1024 }, EPERM },
		{ "prlimit64(1)", SYS_prlimit64, { 1, 99 }, EPERM },
		{ "unknown number", NR_UNKNOWN, { 0 }, ENOSYS },
	};
	int n_wrong = 0;

	(void)check;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		const long *args = calls[i].args;
		long result = syscall(calls[i].nr, high | args[0], high | args[1], high | args[2],
		                      high | args[3], 0L, 0L);

		n_wrong += !expect_error(calls[i].name, result, calls[i].want);
	}
	return n_wrong > 0;
}

bool kernel_refuses_arguments(const struct kernel_check *check)
{
	return run_child(check, call_refused_arguments, 0) == 0 &&
	       run_child(check, call_refused_arguments, GARBAGE) == 0;
}

static int call_fatal(const struct kernel_check *check, long nr)
{
	(void)check;
	return (int)syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
}

static int call_i386(const struct kernel_check *check, long nr)
{
	long result = nr;

	(void)check;
	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	return 0;
}

static bool is_killed(const struct kernel_check *check, child_fn *fn, const char *name, long nr)
{
	int status = run_child(check, fn, nr);

	if (status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return true;
	printf("# %s: want SIGSYS, got status %#x\n", name, (unsigned)status);
	return false;
}

/* Without 32-bit emulation int 0x80 ends the process with SIGSEGV: nothing to check. */
static bool has_i386(void)
{
	static const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	static const struct kernel_check check = { .code = &allow, .len = 1 };

	return run_child(&check, call_i386, NR_I386_GETPID) == 0;
}

bool kernel_kills(const struct kernel_check *check)
{
	bool good = is_killed(check, call_fatal, "x32", NR_X32_GETPID);

	if (has_i386())
		good &= is_killed(check, call_i386, "int 0x80", NR_I386_GETPID);
	for (size_t i = 0; i < check->n_rules; i++) {
		const struct policy_rule *rule = &check->rules[i];

		if (rule->action == SECCOMP_RET_KILL_PROCESS)
			good &= is_killed(check, call_fatal, rule->name, (long)rule->nr);
	}
	return good;
}
