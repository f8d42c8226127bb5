/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deny_syscall NAME[,NAME...]:ERRNO [NAME...:ERRNO ...] -- COMMAND [ARG...]
 *
 * Runs a command on a host that lacks something: the named system calls fail with the error, for
 * the command and everything it starts. ERRNO is a name (ENOSYS) or a number. Two names are not
 * calls: "userns" fails clone() and unshare() when they ask for a user namespace, and clone3(),
 * whose flags a filter cannot see, always with ENOSYS; "namespaces" does so for every CLONE_NEW*.
 *
 * Exit status: the command's; 127 when it cannot be run, 2 on wrong usage.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CODE_MAX       512
#define NAMESPACE_BITS 0x7e020000u /* CLONE_NEW* that fit clone(2) */
#define USAGE          "usage: deny_syscall NAME[,NAME...]:ERRNO... -- COMMAND [ARG...]\n"

struct word {
	const char *name;
	int value;
};

#define CALL(name)                                                                                 \
	{                                                                                          \
#name, SYS_##name                                                                  \
	}
#define NUMBER(name, nr)                                                                           \
	{                                                                                          \
#name, nr                                                                          \
	} /* newer than some headers */

/* clang-format off */
static const struct word calls[] = {
	CALL(bpf), CALL(capset), CALL(chroot), CALL(clone), CALL(dup3), CALL(execve), CALL(execveat),
	CALL(fchdir), CALL(fcntl), CALL(fork), CALL(ioctl), CALL(keyctl), CALL(kill),
	CALL(memfd_create), CALL(mkdirat), CALL(mknodat), CALL(mount), CALL(openat), CALL(pipe2),
	CALL(pivot_root), CALL(prctl), CALL(prlimit64), CALL(seccomp), CALL(sendmsg),
	CALL(setgroups), CALL(sethostname), CALL(setns), CALL(setresgid), CALL(setresuid),
	CALL(setsid), CALL(socket), CALL(socketpair), CALL(symlinkat), CALL(umount2), CALL(unshare),
	CALL(userfaultfd), CALL(io_uring_setup),
	NUMBER(pidfd_send_signal, 424), NUMBER(open_tree, 428), NUMBER(move_mount, 429),
	NUMBER(fsopen, 430), NUMBER(fsconfig, 431), NUMBER(fsmount, 432), NUMBER(pidfd_open, 434),
	NUMBER(clone3, 435), NUMBER(close_range, 436), NUMBER(openat2, 437),
	NUMBER(pidfd_getfd, 438), NUMBER(mount_setattr, 442), NUMBER(landlock_create_ruleset, 444),
	NUMBER(landlock_add_rule, 445), NUMBER(landlock_restrict_self, 446),
};

static const struct word errors[] = {
	{ "EPERM", EPERM }, { "ENOENT", ENOENT }, { "EINTR", EINTR }, { "EIO", EIO },
	{ "EAGAIN", EAGAIN }, { "ENOMEM", ENOMEM }, { "EACCES", EACCES }, { "EBUSY", EBUSY },
	{ "EINVAL", EINVAL }, { "EMFILE", EMFILE }, { "ENOSPC", ENOSPC }, { "EROFS", EROFS },
	{ "ENOSYS", ENOSYS }, { "EUSERS", EUSERS }, { "EOPNOTSUPP", EOPNOTSUPP },
};
/* clang-format on */

static struct sock_filter code[CODE_MAX];
static unsigned short code_len;

static void emit(uint16_t op, uint32_t k, uint8_t yes, uint8_t no)
{
	if (code_len >= CODE_MAX - 1) {
		(void)fputs("deny_syscall: too many names\n", stderr);
		exit(2);
	}
	code[code_len++] = (struct sock_filter){ .code = op, .jt = yes, .jf = no, .k = k };
}

/* The accumulator holds the number of the call, before and after. */
static void deny(uint32_t nr, uint32_t error)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
}

/* Both calls take their flags first. */
static void deny_flags(uint32_t nr, uint32_t flags, uint32_t error)
{
	emit(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4);
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args), 0, 0);
	emit(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void deny_namespaces(uint32_t flags, uint32_t error)
{
	/* unshare() alone knows this one; in clone() the bit is part of the exit signal. */
	uint32_t time = flags == NAMESPACE_BITS ? 0x80u : 0;

	deny_flags(SYS_clone, flags, error);
	deny_flags(SYS_unshare, flags | time, error);
	deny(435, ENOSYS);
}

static int look_up(const struct word *words, size_t n, const char *name)
{
	char *end;
	long value;

	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i].name, name) == 0)
			return words[i].value;
	value = strtol(name, &end, 10);
	if (end == name || *end != '\0' || value < 0 || value > 4095) {
		(void)fprintf(stderr, "deny_syscall: unknown name \"%s\"\n" USAGE, name);
		exit(2);
	}
	return (int)value;
}

static void add_spec(char *spec)
{
	char *colon = strrchr(spec, ':'), *name;
	uint32_t error;

	if (!colon) {
		(void)fprintf(stderr, "deny_syscall: no error in \"%s\"\n" USAGE, spec);
		exit(2);
	}
	*colon = '\0';
	error = (uint32_t)look_up(errors, sizeof(errors) / sizeof(errors[0]), colon + 1);
	while ((name = strsep(&spec, ","))) {
		if (strcmp(name, "userns") == 0)
			deny_namespaces(CLONE_NEWUSER, error);
		else if (strcmp(name, "namespaces") == 0)
			deny_namespaces(NAMESPACE_BITS, error);
		else
			deny((uint32_t)look_up(calls, sizeof(calls) / sizeof(calls[0]), name),
			     error);
	}
}

int main(int argc, char **argv)
{
	struct sock_fprog prog = { .filter = code };
	int i = 1;

	/* Other machines' numbers mean other calls: let those through. */
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		add_spec(argv[i]);
	if (i < 2 || i + 1 >= argc) {
		(void)fputs(USAGE, stderr);
		return 2;
	}
	emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	prog.len = code_len;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0) {
		perror("deny_syscall: filter");
		return 127;
	}
	(void)execvp(argv[i + 1], argv + i + 1);
	perror("deny_syscall: exec");
	return 127;
}
