/* SPDX-License-Identifier: Apache-2.0 */
/* SC, first part: calling in a child, the sweeps over all numbers and ABIs, and sockets. For
 * probes_sc.c alone. */
#pragma once

#include "probe.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Newer than musl's headers. */
#define NR_QUOTACTL_FD      443
#define NR_MEMFD_SECRET     447
#define NR_PROCESS_MRELEASE 448

#define X32_BIT    0x40000000L
#define N_NATIVE   (512 + 64)
#define N_I386     471
#define STACK_SIZE 65536
#define HANG_MS    120  /* where a call may well block */
#define PATIENT_MS 5000 /* where it must not: only a starved machine gets here */
#define GARBAGE    0x5a5a5a5a00000000L

struct call {
	long nr;
	long arg[6];
};

static long do_call(void *p)
{
	const struct call *c = p;
	long r = raw_syscall(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4],
	                     c->arg[5]);

	if ((c->nr & 0xffffffff) == SYS_clone || (c->nr & 0xffffffff) == SYS_clone3) {
		if (r == 0)
			_exit(0);
		if (r > 0)
			(void)waitpid((pid_t)r, NULL, __WALL);
	}
	return r;
}

#define CALL(...) (&(struct call){ __VA_ARGS__ })

/* In a child; death by SIGSYS reads as -EPERM, which is what it amounts to. */
static long child(long (*fn)(void *), void *arg)
{
	int sig;
	long r = in_child(fn, arg, &sig);

	return sig == SIGSYS ? -EPERM : r;
}

#define try_call(nr, ...) child(do_call, CALL(nr, { __VA_ARGS__ }))

/* ---- Sweeps --------------------------------------------------------------------------------- */

/* What came of one call: 0 success, 1…0xff errno, 0x100 + signal, or one of these. */
enum {
	CODE_HUNG = 0x1ff, /* still in the call after a while, so it was let in */
	CODE_EXITED = 0x1fe,
};

enum abi { ABI_NATIVE, ABI_I386, ABI_X32 };

static long call_i386(long nr)
{
	long ret;

	__asm__ volatile("int $0x80"
	                 : "=a"(ret)
	                 : "a"(nr), "b"(0L), "c"(0L), "d"(0L), "S"(0L), "D"(0L)
	                 : "r8", "r9", "r10", "r11", "memory");
	return (int)ret;
}

/* Calls that end, duplicate or crash their caller need no more than their process; the result of
 * the others goes to shared memory, since they may have closed every descriptor. */
static int sweep_one(enum abi abi, long nr, int hang_ms, volatile long *shared)
{
	struct timespec tick = { .tv_nsec = 200000 };
	int st, waited = 0;
	pid_t pid;

	*shared = -4096;
	pid = fork();
	if (pid < 0)
		return CODE_EXITED;
	if (pid == 0) {
		long r = abi == ABI_I386  ? call_i386(nr)
		         : abi == ABI_X32 ? RAW(nr | X32_BIT)
		                          : RAW(nr);
		bool forks = abi == ABI_I386 ? nr == 2 || nr == 120 || nr == 190
		                             : nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone;

		if (forks && r == 0)
			_exit(0);
		*shared = r;
		_exit(0);
	}
	while (waitpid(pid, &st, WNOHANG) == 0) {
		nanosleep(&tick, NULL);
		if (++waited < hang_ms * 5)
			continue;
		kill(pid, SIGKILL);
		waitpid(pid, &st, 0);
		return CODE_HUNG;
	}
	if (WIFSIGNALED(st))
		return 0x100 + WTERMSIG(st);
	if (*shared == -4096)
		return CODE_EXITED;
	return *shared < 0 && *shared > -256 ? (int)-*shared : 0;
}

/* With privilege these change the host even with zeros for arguments. */
static bool is_harmful(long nr)
{
	switch (nr) {
	case SYS_vhangup:
	case SYS_sethostname:
	case SYS_setdomainname:
	case SYS_acct:
	case SYS_kexec_load:
	case SYS_kexec_file_load:
	case SYS_finit_module:
	case SYS_reboot:
	case SYS_kill:
	case SYS_syslog:
	case SYS_settimeofday:
		return true;
	default:
		return false;
	}
}

static volatile long *shared_word(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool matches(char want, int code)
{
	switch (want) {
	case 'a': /* allowed: anything but the filter's own signal */
		return code != 0x100 + SIGSYS;
	case 'p':
		return code == EPERM;
	case 'n':
		return code == ENOSYS;
	case 'i':
		return code == EINVAL;
	case 'f':
		return code == EAFNOSUPPORT;
	case 'o':
		return code == ENOPROTOOPT;
	case 'k':
		return code == 0x100 + SIGSYS;
	case '0':
		return code == 0;
	case 'u': /* uprobe's own: newer kernels let it past every filter, and kill or refuse */
		return code == ENOSYS || code == ENXIO || code == 0x100 + SIGILL;
	default:
		return false;
	}
}

/*
 * sc_01 [WANTED]: every number with zeros. WANTED has one letter per number, as in matches(). The
 * report ends in three hexadecimal digits per number.
 */
static int sc_01(int argc, char **argv, char *detail, size_t n)
{
	const char *wanted = argc > 0 ? argv[0] : "";
	static char codes[N_NATIVE * 3 + 1];
	volatile long *word = shared_word();
	unsigned wrong = 0;
	struct tally t;

	tally_init(&t, detail, n);
	if (!word || (*wanted && strlen(wanted) != N_NATIVE)) {
		tally_error(&t, "no memory, or not %d letters", N_NATIVE);
		return tally_result(&t);
	}
	for (long nr = 0; nr < N_NATIVE; nr++) {
		int code = 0xfff;

		if (geteuid() != 0 || !is_harmful(nr)) {
			code = sweep_one(ABI_NATIVE, nr,
			                 !*wanted || wanted[nr] == 'a' ? HANG_MS : PATIENT_MS,
			                 word);
			t.attempts++;
		}
		snprintf(codes + nr * 3, 4, "%03x", (unsigned)code & 0xfff);
		if (code == 0xfff || !*wanted || matches(wanted[nr], code))
			continue;
		t.result = PROBE_ESCAPED;
		if (wrong++ < 40)
			tally_note(&t, "%ld wanted %c got %x", nr, wanted[nr], (unsigned)code);
	}
	tally_note(&t, "wrong=%u", wrong);
	tally_note(&t, "codes=%s", codes);
	return tally_result(&t);
}

/* write(2) of one byte by way of sysenter; the kernel returns to an address we do not have. */
static void call_sysenter(int fd, const char *low)
{
	__asm__ volatile("mov %2, %%rbp\n\t"
	                 "mov %2, %%rsp\n\t"
	                 "sysenter\n\t"
	                 "ud2"
	                 :
	                 : "a"(4L), "b"((long)fd), "r"((long)low + 2048), "c"((long)low), "d"(1L)
	                 : "memory");
}

static void try_sysenter(struct tally *t)
{
	char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int p[2], st = 0;
	char got;
	pid_t pid;

	if (low == MAP_FAILED || pipe2(p, O_NONBLOCK) < 0) {
		tally_error(t, "sysenter: %s", errno_name(errno));
		return;
	}
	*low = 'x';
	pid = fork();
	if (pid == 0) {
		call_sysenter(p[1], low);
		_exit(0);
	}
	(void)waitpid(pid, &st, 0);
	t->attempts++;
	if (read(p[0], &got, 1) == 1)
		tally_escaped(t, "sysenter wrote");
	tally_note(t, "sysenter=%x", WIFSIGNALED(st) ? 0x100u + (unsigned)WTERMSIG(st) : 0);
	close(p[0]);
	close(p[1]);
	munmap(low, 4096);
}

static void sweep_foreign(struct tally *t, enum abi abi, long count)
{
	const char *name = abi == ABI_I386 ? "int80" : "x32";
	long getpid_nr = abi == ABI_I386 ? 20 : SYS_getpid;
	volatile long *word = shared_word();
	unsigned killed = 0, absent = 0;
	int code;

	if (!word) {
		tally_error(t, "no memory");
		return;
	}
	/* One harmless call first: where it works the others would, too. */
	code = sweep_one(abi, getpid_nr, PATIENT_MS, word);
	if (code == 0) {
		tally_escaped(t, "%s: getpid works", name);
		return;
	}
	if (code != 0x100 + SIGSYS && geteuid() == 0) {
		tally_note(t, "%s: getpid gives %x", name, (unsigned)code);
		return;
	}
	for (long nr = 0; nr < count; nr++) {
		code = sweep_one(abi, nr, PATIENT_MS, word);
		t->attempts++;
		if (code == 0x100 + SIGSYS)
			killed++;
		else if (code == ENOSYS || (abi == ABI_I386 && code == 0x100 + SIGSEGV))
			absent++; /* the ABI is not in this kernel */
		else
			tally_escaped(t, "%s %ld gives %x", name, nr, (unsigned)code);
	}
	tally_note(t, "%s: killed=%u absent=%u", name, killed, absent);
	munmap((void *)(uintptr_t)word, 4096);
}

static int sc_02(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	sweep_foreign(&t, ABI_I386, N_I386);
	sweep_foreign(&t, ABI_X32, N_NATIVE);
	try_sysenter(&t);
	return tally_result(&t);
}

/* ---- Sockets -------------------------------------------------------------------------------- */

static bool socket_allowed(int family, int type, int proto)
{
	if (family == AF_UNIX)
		return type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET;
	if (family == AF_INET || family == AF_INET6)
		return (type == SOCK_STREAM || type == SOCK_DGRAM) &&
		       (proto == 0 || proto == 6 || proto == 17);
	return false;
}

static void check_socket(struct tally *t, int family, int type, int proto, unsigned *bad)
{
	long r = RAW(SYS_socket, family, type, proto);
	bool ok = socket_allowed(family, type & 0xf, proto);

	t->attempts++;
	if (r >= 0)
		(void)RAW(SYS_close, r);
	if (!ok && r != -EAFNOSUPPORT) {
		t->result = PROBE_ESCAPED;
		if ((*bad)++ < 20)
			tally_note(t, "socket(%d, %d, %d)=%ld", family, type, proto, r);
	}
}

static int sc_04(int argc, char **argv, char *detail, size_t n)
{
	static const int protos[] = { 0,   1,   2,   3,   4,   5,   6,   12,  15, 16,
		                      17,  41,  46,  47,  50,  51,  58,  89,  94, 103,
		                      108, 115, 132, 136, 255, 256, 262, 263, -1, 0x7fffffff };
	static const int flags[] = { 0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK };
	static const int must[][3] = {
		{ AF_UNIX, SOCK_STREAM, 0 },    { AF_UNIX, SOCK_DGRAM, 0 },
		{ AF_UNIX, SOCK_SEQPACKET, 0 }, { AF_INET, SOCK_STREAM, 0 },
		{ AF_INET, SOCK_DGRAM, 17 },    { AF_INET6, SOCK_STREAM, 6 },
		{ AF_INET6, SOCK_DGRAM, 0 },
	};
	struct tally t;
	unsigned bad = 0;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (int family = -1; family <= 63; family++)
		for (int type = 0; type <= 15; type++)
			for (size_t p = 0; p < sizeof(protos) / sizeof(protos[0]); p++)
				check_socket(&t, family, type | flags[p % 4], protos[p], &bad);
	for (size_t i = 0; i < sizeof(must) / sizeof(must[0]); i++) {
		long r = RAW(SYS_socket, must[i][0], must[i][1], must[i][2]);

		if (r < 0)
			tally_error(&t, "socket(%d, %d, %d): %s", must[i][0], must[i][1],
			            must[i][2], errno_name((int)-r));
		else
			(void)RAW(SYS_close, r);
	}
	for (int family = 0; family <= 63; family++) {
		int sv[2];
		long r = RAW(SYS_socketpair, family, SOCK_STREAM, 0, sv);

		if (r >= 0 && family != AF_UNIX)
			tally_escaped(&t, "socketpair(%d)", family);
		if (r < 0 && family == AF_UNIX)
			tally_error(&t, "socketpair(AF_UNIX): %s", errno_name((int)-r));
		if (r >= 0) {
			(void)RAW(SYS_close, sv[0]);
			(void)RAW(SYS_close, sv[1]);
		}
	}
	tally_note(&t, "tried=%u wrong=%u", t.attempts, bad);
	return tally_result(&t);
}

/* ---- Small helpers --------------------------------------------------------------------------- */

static int make_file(const char *name)
{
	(void)unlink(name);
	return open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
}

static void must_allow(struct tally *t, const char *what, long r)
{
	if (r < 0)
		tally_error(t, "%s: %s", what, errno_name((int)-r));
	else
		t->attempts++;
}
