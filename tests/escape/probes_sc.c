/* SPDX-License-Identifier: Apache-2.0 */
/* SC: the system call filter. */
#include "probes_sc.h"

/* ---- Argument tricks ------------------------------------------------------------------------ */

static int sc_05(int argc, char **argv, char *detail, size_t n)
{
	static const long high[] = { GARBAGE, 1L << 32, (long)0xffffffff00000000UL, 1L << 63 };
	char name[64];
	struct tally t;
	int fd;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	snprintf(name, sizeof(name), "/tmp/probe-sc05-%d", (int)getpid());
	fd = make_file(name);
	for (size_t i = 0; i < sizeof(high) / sizeof(high[0]); i++) {
		long h = high[i];
		long fork_flags = SIGCHLD;

		/* Denied stays denied. */
		tally_expect(&t, "socket(NETLINK|high)",
		             try_call(SYS_socket, h | 16, h | SOCK_RAW, h | 0), EAFNOSUPPORT);
		tally_expect(&t, "socket(ALG|high)", try_call(SYS_socket, h | 38, h | 5, h | 0),
		             EAFNOSUPPORT);
		tally_expect(&t, "socket(INET, high|ICMP)",
		             try_call(SYS_socket, h | 2, h | SOCK_DGRAM, h | 1), EAFNOSUPPORT);
		/* ENOSPC: no more namespaces, the layer behind. */
		tally_expect(&t, "clone(NEWUSER|high)",
		             try_call(SYS_clone, h | 0x10000000 | SIGCHLD), EPERM, ENOSPC);
		tally_expect(&t, "ioctl(TIOCSTI|high)",
		             try_call(SYS_ioctl, h | fd, h | 0x5412, (long)"x"), EPERM);
		tally_expect(&t, "fcntl(F_SETLEASE|high)",
		             try_call(SYS_fcntl, h | fd, h | 1024, h | 0), EPERM);
		tally_expect(&t, "prctl(SET_TSC|high)", try_call(SYS_prctl, h | 26, 1), EPERM);
		tally_expect(&t, "personality(high)", try_call(SYS_personality, h | 0x0040000),
		             EPERM);
		tally_expect(&t, "setsockopt(high)",
		             try_call(SYS_setsockopt, h | fd, h | SOL_SOCKET, h | 26), EPERM);
		tally_expect(&t, "fchmod(04755|high)", try_call(SYS_fchmod, h | fd, h | 04755),
		             EPERM);
		tally_expect(&t, "chmod(0102755)",
		             try_call(SYS_chmod, (long)name, h | 0x10000 | 02755), EPERM);
		tally_expect(&t, "openat(O_CREAT|high)",
		             try_call(SYS_openat, AT_FDCWD, (long)"/tmp/probe-sc05-x",
		                      h | O_CREAT | O_WRONLY, h | 04700),
		             EPERM);
		tally_expect(&t, "mmap(HUGETLB|high)",
		             try_call(SYS_mmap, 0, 2 << 20, 3, h | 0x40022, -1, 0), EINVAL);
		tally_expect(&t, "prlimit64(1|high)", try_call(SYS_prlimit64, h | 1, 7), EPERM);
		tally_expect(
			&t, "mknod(CHR|high)",
			try_call(SYS_mknod, (long)"/tmp/probe-sc05-n", h | S_IFCHR | 0600, 0x103),
			EPERM);
		tally_expect(&t, "unshare by a number with high bits",
		             try_call(h | SYS_unshare, 0x10000000), EPERM, ENOSYS, ENOSPC);
		tally_expect(&t, "keyctl by a number with high bits",
		             try_call(h | SYS_keyctl, 0, -3, 0), ENOSYS);
		/* Allowed stays allowed: a filter that compared 64 bits would refuse. */
		must_allow(&t, "socket(UNIX|high)", try_call(SYS_socket, h | 1, h | 1, h | 0));
		must_allow(&t, "clone(high|SIGCHLD)", try_call(SYS_clone, h | fork_flags));
		must_allow(&t, "personality(query|high)",
		           try_call(SYS_personality, h | 0xffffffff));
		must_allow(&t, "prctl(GET_DUMPABLE|high)", try_call(SYS_prctl, h | 3));
	}
	{
		uint32_t word = 0;
		struct call wake = { SYS_futex, { (long)&word, GARBAGE | FUTEX_WAKE, 1 } };
		struct call lock = { SYS_futex, { (long)&word, GARBAGE | FUTEX_LOCK_PI } };

		must_allow(&t, "futex(WAKE|high)", child(do_call, &wake));
		tally_expect(&t, "futex(LOCK_PI|high)", child(do_call, &lock), ENOSYS);
	}
	/* Negative and sign-extended. */
	tally_expect(&t, "socket(-1)", try_call(SYS_socket, -1, 1, 0), EAFNOSUPPORT);
	tally_expect(&t, "socket(0xffff0010)", try_call(SYS_socket, 0xffff0010L, 3, 0),
	             EAFNOSUPPORT);
	tally_expect(&t, "call -1", try_call(-1L), ENOSYS, EPERM);
	tally_expect(&t, "call 0x3fffffff", try_call(0x3fffffffL), ENOSYS);
	tally_expect(&t, "call 0x80000000", try_call(0x80000000L), ENOSYS, EPERM);
	unlink(name);
	unlink("/tmp/probe-sc05-x");
	unlink("/tmp/probe-sc05-n");
	close(fd);
	return tally_result(&t);
}

/* ---- Calls that never come through ---------------------------------------------------------- */

static int sc_06(int argc, char **argv, char *detail, size_t n)
{
	char params[128] = { 0 };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "io_uring_setup", RAW(SYS_io_uring_setup, 4, params), ENOSYS);
	for (int fd = 0; fd < 16; fd++) {
		tally_expect(&t, "io_uring_enter", RAW(SYS_io_uring_enter, fd, 0, 0, 0, 0), ENOSYS);
		tally_expect(&t, "io_uring_register", RAW(SYS_io_uring_register, fd, 0, 0, 0),
		             ENOSYS);
	}
	tally_expect(&t, "io_setup", RAW(SYS_io_setup, 1, params), ENOSYS);
	return tally_result(&t);
}

static int sc_07(int argc, char **argv, char *detail, size_t n)
{
	/* A map of one element; the smallest program is not needed to have a way in. */
	uint32_t bpf[32] = { 2 /* array */, 4, 8, 1 };
	uint32_t perf[32] = { 1 /* software */, 128, 0 };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "bpf", RAW(SYS_bpf, 0, bpf, sizeof(bpf)), EPERM, ENOSYS);
	tally_expect(&t, "perf_event_open", RAW(SYS_perf_event_open, perf, 0, -1, -1, 0), EPERM,
	             ENOSYS);
	tally_expect(&t, "userfaultfd", RAW(SYS_userfaultfd, O_CLOEXEC), ENOSYS);
	tally_expect(&t, "userfaultfd(USER_MODE_ONLY)", RAW(SYS_userfaultfd, O_CLOEXEC | 1),
	             ENOSYS);
	tally_expect(&t, "/dev/userfaultfd", try_open("/dev/userfaultfd", O_RDWR), ENOENT);
	return tally_result(&t);
}

static int sc_08(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (long op = 0; op <= 32; op++) {
		struct call c = { SYS_keyctl, { op, -3, 0, 0, 0 } };
		long r = child(do_call, &c);

		if (r != -ENOSYS) {
			tally_escaped(&t, "keyctl(%ld)=%ld", op, r);
			break;
		}
		t.attempts++;
	}
	tally_expect(&t, "add_key",
	             try_call(SYS_add_key, (long)"user", (long)"p", (long)"x", 1, -1), ENOSYS);
	tally_expect(&t, "request_key", try_call(SYS_request_key, (long)"user", (long)"p", 0, 0),
	             ENOSYS, ENOKEY);
	return tally_result(&t);
}

static long trace_me(void *p)
{
	(void)p;
	return RAW(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
}

static int sc_09(int argc, char **argv, char *detail, size_t n)
{
	static const long requests[] = { PTRACE_ATTACH,   0x4206 /* SEIZE */,
		                         PTRACE_PEEKDATA, PTRACE_POKEDATA,
		                         PTRACE_CONT,     0x4200 /* SETOPTIONS */,
		                         0x420e /* GET_SYSCALL_INFO */ };
	char from[8] = "secret", to[8] = "";
	struct iovec a = { from, 8 }, b = { to, 8 };
	struct tally t;
	long self, r;
	pid_t kid;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	kid = fork();
	if (kid == 0) {
		pause();
		_exit(0);
	}
	tally_expect(&t, "PTRACE_TRACEME", child(trace_me, NULL), EPERM);
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		tally_expect(&t, "ptrace", try_call(SYS_ptrace, requests[i], kid, 0, 0), EPERM);
	tally_expect(&t, "process_vm_readv", RAW(SYS_process_vm_readv, getpid(), &b, 1, &a, 1, 0),
	             EPERM);
	tally_expect(&t, "process_vm_readv(child)", RAW(SYS_process_vm_readv, kid, &b, 1, &a, 1, 0),
	             EPERM);
	tally_expect(&t, "process_vm_writev", RAW(SYS_process_vm_writev, kid, &a, 1, &b, 1, 0),
	             EPERM);
	tally_expect(&t, "kcmp", RAW(SYS_kcmp, getpid(), kid, 0 /* file */, 1, 1), EPERM);
	self = RAW(SYS_pidfd_open, kid, 0);
	if (self < 0) {
		tally_error(&t, "pidfd_open: %s", errno_name((int)-self));
	} else {
		r = RAW(SYS_pidfd_getfd, self, 1, 0);
		tally_expect(&t, "pidfd_getfd", r, EPERM);
		tally_expect(&t, "process_madvise", RAW(SYS_process_madvise, self, &a, 1, 20, 0),
		             EPERM);
		tally_expect(&t, "process_mrelease", RAW(NR_PROCESS_MRELEASE, self, 0), EPERM);
	}
	kill(kid, SIGKILL);
	waitpid(kid, NULL, 0);
	return tally_result(&t);
}

static int thread_ran;

static int thread_main(void *arg)
{
	*(volatile int *)arg = 1;
	(void)RAW(SYS_exit, 0);
	return 0;
}

static int sc_10(int argc, char **argv, char *detail, size_t n)
{
	static const long flags[] = { 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000,
		                      0x20000000, 0x40000000, 0x00002000, 0x00800000, 0x7e020000 };
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	struct timespec tick = { .tv_nsec = 1000000 };
	struct tally t;
	pid_t pid;
	int st = 0;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		char what[40];

		snprintf(what, sizeof(what), "clone(%#lx)", flags[i]);
		/* ENOSPC: no more namespaces, the layer behind. */
		tally_expect(&t, what, try_call(SYS_clone, flags[i] | SIGCHLD), EPERM, ENOSPC);
	}
	/* What programs need goes on working. */
	pid = (pid_t)RAW(SYS_fork);
	if (pid == 0)
		_exit(7);
	if (pid < 0 || waitpid(pid, &st, 0) != pid || WEXITSTATUS(st) != 7)
		tally_error(&t, "fork: %d", (int)pid);
	pid = vfork();
	if (pid == 0)
		_exit(8);
	if (pid < 0 || waitpid(pid, &st, 0) != pid || WEXITSTATUS(st) != 8)
		tally_error(&t, "vfork: %d", (int)pid);
	pid = clone(thread_main, stack + sizeof(stack),
	            CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, &thread_ran);
	for (int i = 0; pid > 0 && i < 1000 && !*(volatile int *)&thread_ran; i++)
		nanosleep(&tick, NULL);
	if (pid < 0 || !thread_ran)
		tally_error(&t, "thread: %d", (int)pid);
	nanosleep(&tick, NULL);
	return tally_result(&t);
}

static int sc_11(int argc, char **argv, char *detail, size_t n)
{
	/* Bad pointers: past the filter each is EFAULT, EINVAL or EBADF, and nothing happens. */
	static const struct {
		const char *name;
		long nr;
	} calls[] = {
		{ "mount", SYS_mount },           { "umount2", SYS_umount2 },
		{ "pivot_root", SYS_pivot_root }, { "chroot", SYS_chroot },
		{ "move_mount", SYS_move_mount }, { "open_tree", SYS_open_tree },
		{ "open_tree_attr", 467 },        { "fsopen", SYS_fsopen },
		{ "fsconfig", SYS_fsconfig },     { "fsmount", SYS_fsmount },
		{ "fspick", SYS_fspick },         { "mount_setattr", SYS_mount_setattr },
		{ "setns", SYS_setns },
	};
	uint64_t req[4] = { 24, ~0ULL }, ids[8];
	struct tally t;
	int fd;
	long r;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		r = try_call(calls[i].nr, -1, -1, -1, -1, -1, -1);
		t.attempts++;
		if (r != -EPERM)
			tally_note(&t, "%s=%s", calls[i].name, errno_name((int)-r));
	}
	/* And one of each kind that would succeed. */
	tally_expect(&t, "open_tree(clone)", try_call(SYS_open_tree, AT_FDCWD, (long)"/", 1),
	             EPERM);
	tally_expect(&t, "fsopen(tmpfs)", try_call(SYS_fsopen, (long)"tmpfs", 0), EPERM);
	tally_expect(&t, "fspick", try_call(SYS_fspick, AT_FDCWD, (long)"/", 0), EPERM);
	tally_expect(&t, "chroot", try_call(SYS_chroot, (long)"/"), EPERM);
	fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		tally_expect(&t, "setns", try_call(SYS_setns, fd, 0), EPERM);
	close(fd);
	r = RAW(458 /* listmount */, req, ids, 8, 0);
	tally_note(&t, "listmount=%s", r >= 0 ? "ok" : errno_name((int)-r));
	r = RAW(457 /* statmount */, req, ids, sizeof(ids), 0);
	tally_note(&t, "statmount=%s", r >= 0 ? "ok" : errno_name((int)-r));
	return tally_result(&t);
}

static int sc_12(int argc, char **argv, char *detail, size_t n)
{
	/* Arguments that the kernel refuses even from root, where such exist. */
	static const struct {
		const char *name;
		long nr;
		long arg[4];
		bool kills;
	} calls[] = {
		{ "kexec_load", SYS_kexec_load, { 0, 17, 0, 0 }, true },
		{ "kexec_file_load", SYS_kexec_file_load, { -1, -1, 0, 0 }, true },
		{ "init_module", SYS_init_module, { 0, 0, 0 }, true },
		{ "finit_module", SYS_finit_module, { -1, 0, 0 }, true },
		{ "delete_module", SYS_delete_module, { 0, 0 }, true },
		{ "reboot", SYS_reboot, { 0, 0, 0, 0 }, true },
		{ "iopl", SYS_iopl, { 0 }, true },
		{ "ioperm", SYS_ioperm, { 0x80, 1, 0 }, true },
		{ "swapon", SYS_swapon, { 0, 0 }, false },
		{ "swapoff", SYS_swapoff, { 0 }, false },
		{ "syslog", SYS_syslog, { 10 /* size */, 0, 0 }, false },
		{ "acct", SYS_acct, { -1 }, false },
		{ "quotactl", SYS_quotactl, { -1, 0, 0, 0 }, false },
		{ "quotactl_fd", NR_QUOTACTL_FD, { -1, -1, 0, 0 }, false },
		{ "settimeofday", SYS_settimeofday, { -1, 0 }, false },
		{ "modify_ldt", SYS_modify_ldt, { 0, 0, 0 }, false },
	};
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct call c = { calls[i].nr,
			          { calls[i].arg[0], calls[i].arg[1], calls[i].arg[2],
			            calls[i].arg[3] } };
		int sig;
		long r = in_child(do_call, &c, &sig);

		t.attempts++;
		if (calls[i].kills && sig == SIGSYS)
			continue;
		if (!calls[i].kills && r == -EPERM && !sig)
			continue;
		tally_escaped(&t, "%s: %s, signal %d", calls[i].name,
		              r >= 0 ? "ok" : errno_name((int)-r), sig);
	}
	return tally_result(&t);
}

static int sc_13(int argc, char **argv, char *detail, size_t n)
{
	char handle[8 + 128] = { 0 };
	struct tally t;
	int mount_id;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	handle[0] = (char)128;
	tally_expect(&t, "name_to_handle_at",
	             RAW(SYS_name_to_handle_at, AT_FDCWD, "/usr", handle, &mount_id, 0), EPERM);
	tally_expect(&t, "open_by_handle_at",
	             RAW(SYS_open_by_handle_at, AT_FDCWD, handle, O_RDONLY), EPERM);
	tally_expect(&t, "fanotify_init", RAW(SYS_fanotify_init, 0, O_RDONLY), EPERM);
	tally_expect(&t, "fanotify_init(report fid)", RAW(SYS_fanotify_init, 0x200, O_RDONLY),
	             EPERM);
	tally_expect(&t, "fanotify_mark", RAW(SYS_fanotify_mark, -1, 1, 2, AT_FDCWD, "/"), EPERM);
	tally_expect(&t, "lookup_dcookie", RAW(SYS_lookup_dcookie, 0, handle, sizeof(handle)),
	             EPERM);
	return tally_result(&t);
}

static int sc_14(int argc, char **argv, char *detail, size_t n)
{
	struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, 0xffffffff);
	struct sock_fprog prog = { 1, &pass };
	int one = 1;
	struct {
		const char *name;
		int level, option;
		void *p;
		unsigned len;
		int want;
	} options[] = {
		{ "TCP_ULP", 6, 31, "tls", 4, ENOPROTOOPT },
		{ "TCP_REPAIR", 6, 19, &one, 4, EPERM },
		{ "SO_ATTACH_FILTER", 1, 26, &prog, sizeof(prog), EPERM },
		{ "SO_ATTACH_BPF", 1, 50, &one, 4, EPERM },
		{ "SO_ATTACH_REUSEPORT_CBPF", 1, 51, &prog, sizeof(prog), EPERM },
		{ "SO_ATTACH_REUSEPORT_EBPF", 1, 52, &one, 4, EPERM },
		{ "SO_PEEK_OFF", 1, 42, &one, 4, ENOPROTOOPT },
		{ "SO_ZEROCOPY", 1, 60, &one, 4, ENOPROTOOPT },
		{ "IPT_SO_SET_REPLACE", 0, 64, &one, 4, ENOPROTOOPT },
		{ "ARPT_SO_SET_REPLACE", 0, 96, &one, 4, ENOPROTOOPT },
		{ "EBT_SO_SET_ENTRIES", 0, 128, &one, 4, ENOPROTOOPT },
		{ "IP6T_SO_SET_REPLACE", 41, 64, &one, 4, ENOPROTOOPT },
		{ "MRT_INIT", 0, 200, &one, 4, ENOPROTOOPT },
	};
	struct tally t;
	int s4, s6;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	s4 = socket(AF_INET, SOCK_STREAM, 0);
	s6 = socket(AF_INET6, SOCK_STREAM, 0);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		long r = RAW(SYS_setsockopt, options[i].level == 41 ? s6 : s4, options[i].level,
		             options[i].option, options[i].p, options[i].len);

		tally_expect(&t, options[i].name, r, options[i].want);
	}
	must_allow(&t, "SO_REUSEADDR", RAW(SYS_setsockopt, s4, 1, 2, &one, 4));
	must_allow(&t, "TCP_NODELAY", RAW(SYS_setsockopt, s4, 6, 1, &one, 4));
	must_allow(&t, "IPV6_V6ONLY", RAW(SYS_setsockopt, s6, 41, 26, &one, 4));
	close(s4);
	close(s6);
	return tally_result(&t);
}

static int sc_15(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	int a[2], b[2];
	struct iovec v = { "x", 1 };

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (pipe(a) < 0 || pipe(b) < 0 || write(a[1], "abc", 3) != 3) {
		tally_error(&t, "pipe: %s", errno_name(errno));
		return tally_result(&t);
	}
	tally_expect(&t, "splice", RAW(SYS_splice, a[0], 0, b[1], 0, 1, 0), EINVAL);
	tally_expect(&t, "tee", RAW(SYS_tee, a[0], b[1], 1, 0), EINVAL);
	tally_expect(&t, "vmsplice", RAW(SYS_vmsplice, b[1], &v, 1, 0), EINVAL);
	tally_expect(&t, "vmsplice(GIFT)", RAW(SYS_vmsplice, b[1], &v, 1, 8), EINVAL);
	return tally_result(&t);
}

static int sc_16(int argc, char **argv, char *detail, size_t n)
{
	static const int ops[] = { FUTEX_LOCK_PI,         FUTEX_UNLOCK_PI,      FUTEX_TRYLOCK_PI,
		                   FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI, 13 /* LOCK_PI2 */ };
	struct timespec soon = { .tv_nsec = 1000000 };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		uint32_t word = 0, other = 0;

		for (int mode = 0; mode <= FUTEX_PRIVATE_FLAG; mode += FUTEX_PRIVATE_FLAG) {
			struct call c = { SYS_futex,
				          { (long)&word, ops[i] | mode, 1, (long)&soon,
				            (long)&other, 0 } };

			tally_expect(&t, "futex PI", child(do_call, &c), ENOSYS);
		}
	}
	{
		uint32_t word = 1;
		long r = RAW(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, &soon);

		if (r != -ETIMEDOUT)
			tally_error(&t, "FUTEX_WAIT=%ld", r);
		must_allow(&t, "FUTEX_WAKE", RAW(SYS_futex, &word, FUTEX_WAKE, 1));
		must_allow(&t, "FUTEX_REQUEUE", RAW(SYS_futex, &word, FUTEX_REQUEUE, 0, 0, &word));
	}
	return tally_result(&t);
}

static int sc_17(int argc, char **argv, char *detail, size_t n)
{
	static const unsigned modes[] = { 04755, 02755, 06755, 04000, 02000, 07777 };
	char name[64], other[80];
	struct tally t;
	struct stat st;
	int fd;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	snprintf(name, sizeof(name), "/tmp/probe-sc17-%d", (int)getpid());
	snprintf(other, sizeof(other), "%s-x", name);
	fd = make_file(name);
	if (fd < 0) {
		tally_error(&t, "%s: %s", name, errno_name(errno));
		return tally_result(&t);
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		unsigned m = modes[i];
		long r;

		tally_expect(&t, "chmod", RAW(SYS_chmod, name, m), EPERM);
		tally_expect(&t, "fchmod", RAW(SYS_fchmod, fd, m), EPERM);
		tally_expect(&t, "fchmodat", RAW(SYS_fchmodat, AT_FDCWD, name, m), EPERM);
		tally_expect(&t, "fchmodat2", RAW(452, AT_FDCWD, name, m, 0), EPERM);
		tally_expect(&t, "open", RAW(SYS_open, other, O_CREAT | O_WRONLY, m), EPERM);
		tally_expect(&t, "creat", RAW(SYS_creat, other, m), EPERM);
		tally_expect(&t, "openat", RAW(SYS_openat, AT_FDCWD, other, O_CREAT | O_WRONLY, m),
		             EPERM);
		tally_expect(&t, "O_TMPFILE",
		             RAW(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_WRONLY, m), EPERM);
		tally_expect(&t, "mknod", RAW(SYS_mknod, other, S_IFREG | m, 0), EPERM);
		(void)unlink(other);
		tally_expect(&t, "mknodat", RAW(SYS_mknodat, AT_FDCWD, other, S_IFREG | m, 0),
		             EPERM);
		(void)unlink(other);
		tally_expect(&t, "mkdir", RAW(SYS_mkdir, other, m), EPERM);
		(void)rmdir(other);
		{
			uint64_t how[3] = { O_CREAT | O_WRONLY, m, 0 };

			r = RAW(SYS_openat2, AT_FDCWD, other, how, sizeof(how));
			tally_expect(&t, "openat2", r, ENOSYS);
			(void)unlink(other);
		}
	}
	if (fstat(fd, &st) == 0 && (st.st_mode & 06000))
		tally_escaped(&t, "mode is %o", st.st_mode);
	must_allow(&t, "chmod(0755)", RAW(SYS_chmod, name, 0755));
	unlink(name);
	close(fd);
	return tally_result(&t);
}

static int sc_18(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	long r;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	must_allow(&t, "sync", RAW(SYS_sync));
	/* The kernel itself would notice the bad descriptor. */
	r = RAW(SYS_syncfs, -1);
	t.attempts++;
	if (r != 0)
		tally_escaped(&t, "syncfs(-1)=%s", errno_name((int)-r));
	return tally_result(&t);
}

static int sc_19(int argc, char **argv, char *detail, size_t n)
{
	static const struct {
		const char *name;
		unsigned long cmd;
		char on; /* t terminal, f file, p pipe, s socket */
	} cmds[] = {
		{ "TIOCSTI", 0x5412, 't' },
		{ "TIOCLINUX", 0x541c, 't' },
		{ "TIOCCONS", 0x541d, 'p' },
		{ "TIOCSETD", 0x5423, 't' },
		{ "FIFREEZE", 0xc0045877, 'p' },
		{ "FITHAW", 0xc0045878, 'p' },
		{ "FS_IOC_SETFLAGS", 0x40086602, 'f' },
		{ "FS_IOC32_SETFLAGS", 0x40046602, 'f' },
		{ "FS_IOC_FSSETXATTR", 0x401c5820, 'f' },
		{ "KVM_GET_API_VERSION", 0xae00, 'p' },
		{ "DRM_VERSION", 0xc0406400, 'p' },
		{ "SIOCSIFFLAGS", 0x8914, 's' },
		{ "SIOCSIFADDR", 0x8916, 's' },
		{ "SIOCADDRT", 0x890b, 's' },
		{ "SIOCSIFNAME", 0x8923, 's' },
		{ "SIOCETHTOOL", 0x8946, 's' },
		{ "SIOCBRDELBR", 0x89a1, 's' },
	};
	static char arg[256], zeros[256];
	struct tally t;
	char name[64];
	int fds[4], p[2];

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	snprintf(name, sizeof(name), "/tmp/probe-sc19-%d", (int)getpid());
	if (pipe(p) < 0)
		return PROBE_ERROR;
	fds[0] = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fds[0] < 0)
		fds[0] = p[0];
	fds[1] = make_file(name);
	fds[2] = p[0];
	fds[3] = socket(AF_INET, SOCK_DGRAM, 0);
	memcpy(arg, "nosuch0", 8); /* an interface */
	for (size_t i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++) {
		int fd = fds[cmds[i].on == 't'   ? 0
		             : cmds[i].on == 'f' ? 1
		             : cmds[i].on == 'p' ? 2
		                                 : 3];
		struct call c = { SYS_ioctl,
			          { fd, (long)cmds[i].cmd,
			            (long)(cmds[i].on == 's' ? arg : zeros) } };
		long r = child(do_call, &c);

		t.attempts++;
		if (r != -EPERM)
			tally_escaped(&t, "%s=%s", cmds[i].name,
			              r >= 0 ? "ok" : errno_name((int)-r));
	}
	{
		int avail;

		must_allow(&t, "FIONREAD", RAW(SYS_ioctl, p[0], 0x541b, &avail));
	}
	unlink(name);
	return tally_result(&t);
}

static int sc_20(int argc, char **argv, char *detail, size_t n)
{
	const size_t big = 64u << 20;
	struct tally t;
	void *p;
	long r;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "memfd_secret", RAW(NR_MEMFD_SECRET, 0), ENOSYS);
	tally_expect(&t, "memfd_create(HUGETLB)", RAW(SYS_memfd_create, "p", 4), EINVAL);
	tally_expect(&t, "memfd_create(HUGETLB 1G)", RAW(SYS_memfd_create, "p", 4u | (30u << 26)),
	             EINVAL);
	r = RAW(SYS_mmap, 0, 2 << 20, 3, 0x40022, -1, 0);
	tally_expect(&t, "mmap(HUGETLB)", r, EINVAL);
	tally_expect(&t, "shmget(HUGETLB)", RAW(SYS_shmget, 0, 2 << 20, 04600 | 01000), ENOSYS);
	tally_expect(&t, "mlockall", try_call(SYS_mlockall, 3), EPERM);
	p = mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		tally_error(&t, "mmap: %s", errno_name(errno));
	else
		tally_expect(&t, "mlock(64M)", RAW(SYS_mlock, p, big), ENOMEM, EPERM, EAGAIN);
	r = RAW(SYS_mmap, 0, big, 3, 0x22 | 0x2000 /* locked */, -1, 0);
	tally_expect(&t, "mmap(LOCKED, 64M)", r, EAGAIN, EPERM, ENOMEM);
	return tally_result(&t);
}

static int sc_21(int argc, char **argv, char *detail, size_t n)
{
	unsigned long mask = 1;
	struct tally t;
	int mode;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "mbind", RAW(SYS_mbind, 0, 0, 0, 0, 0, 0), EPERM);
	tally_expect(&t, "set_mempolicy", RAW(SYS_set_mempolicy, 0, 0, 0), EPERM);
	tally_expect(&t, "get_mempolicy", RAW(SYS_get_mempolicy, &mode, 0, 0, 0, 0), EPERM);
	tally_expect(&t, "move_pages", RAW(SYS_move_pages, 0, 0, 0, 0, 0, 0), EPERM);
	tally_expect(&t, "migrate_pages", RAW(SYS_migrate_pages, 0, 1, &mask, &mask), EPERM);
	tally_expect(&t, "set_mempolicy_home_node", RAW(450, 0, 0, 0, 0), ENOSYS);
	return tally_result(&t);
}

static int sc_22(int argc, char **argv, char *detail, size_t n)
{
	struct sched_param prio = { .sched_priority = 1 };
	/* size, policy, flags, nice, priority, runtime, deadline, period */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} dl = { 48, 6, 0, 0, 0, 10000000, 30000000, 30000000 };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "SCHED_FIFO", try_call(SYS_sched_setscheduler, 0, 1, (long)&prio), EPERM);
	tally_expect(&t, "SCHED_RR", try_call(SYS_sched_setscheduler, 0, 2, (long)&prio), EPERM);
	tally_expect(&t, "SCHED_DEADLINE", try_call(SYS_sched_setattr, 0, (long)&dl, 0), EPERM);
	tally_expect(&t, "nice -5", try_call(SYS_setpriority, 0, 0, -5), EPERM, EACCES);
	tally_expect(&t, "nice -20", try_call(SYS_setpriority, 0, 0, -20), EPERM, EACCES);
	tally_expect(&t, "ioprio RT", try_call(SYS_ioprio_set, 1, 0, (1 << 13) | 0), EPERM);
	{
		struct rlimit up = { 99, 99 };

		tally_expect(&t, "RLIMIT_RTPRIO", try_call(SYS_setrlimit, 14, (long)&up), EPERM);
		tally_expect(&t, "RLIMIT_NICE", try_call(SYS_setrlimit, 13, (long)&up), EPERM);
	}
	return tally_result(&t);
}

static long own_filter(void *p)
{
	struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &pass };
	long flags = *(long *)p;

	(void)RAW(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (flags < 0)
		return RAW(SYS_prctl, PR_SET_SECCOMP, 2, &prog);
	return RAW(SYS_seccomp, 1, flags, &prog);
}

static int sc_23(int argc, char **argv, char *detail, size_t n)
{
	static const struct {
		const char *name;
		long flags;
	} kinds[] = { { "seccomp", 0 },
		      { "seccomp(TSYNC)", 1 },
		      { "seccomp(NEW_LISTENER)", 8 },
		      { "PR_SET_SECCOMP", -1 } };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		long flags = kinds[i].flags;

		tally_expect(&t, kinds[i].name, child(own_filter, &flags), EPERM, EBUSY);
	}
	tally_expect(&t, "PR_SET_SECCOMP(0)", try_call(SYS_prctl, PR_SET_SECCOMP, 0), EPERM);
	tally_expect(&t, "PR_SET_NO_NEW_PRIVS(0)", try_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 0),
	             EPERM, EINVAL);
	return tally_result(&t);
}

static void check_tasks(struct tally *t, const char *who)
{
	static char text[16384];
	char path[64];
	ssize_t r;
	const char *l;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)getpid());
	r = try_read(path, text, sizeof(text));
	if (r < 0) {
		tally_error(t, "%s: %s", path, errno_name((int)-r));
		return;
	}
	l = strstr(text, "\nSeccomp:\t");
	t->attempts++;
	if (!l || l[10] != '2')
		tally_escaped(t, "%s: Seccomp is %.1s", who, l ? l + 10 : "?");
}

static long check_in_child(void *p)
{
	char detail[256];
	struct tally t;

	tally_init(&t, detail, sizeof(detail));
	check_tasks(&t, p);
	return tally_result(&t);
}

static int sc_24(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	long r;
	int st;
	pid_t pid;

	tally_init(&t, detail, n);
	check_tasks(&t, "first process");
	r = child(check_in_child, "child");
	if (r != PROBE_BLOCKED)
		tally_escaped(&t, "child: %ld", r);
	if (argc > 0 && strcmp(argv[0], "leaf") == 0)
		return tally_result(&t);
	/* And again behind an exec. */
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, 1);
		execl("/proc/self/exe", "probe", "SC-24", "leaf", (char *)NULL);
		_exit(PROBE_ERROR);
	}
	if (pid < 0 || waitpid(pid, &st, 0) != pid || !WIFEXITED(st)) {
		tally_error(&t, "exec");
		return tally_result(&t);
	}
	if (WEXITSTATUS(st) == PROBE_ESCAPED)
		tally_escaped(&t, "after exec");
	else if (WEXITSTATUS(st) != PROBE_BLOCKED)
		tally_error(&t, "after exec: %d", WEXITSTATUS(st));
	return tally_result(&t);
}

/* sc_26 [FIRST [LAST]]: numbers that no table knows. */
static int sc_26(int argc, char **argv, char *detail, size_t n)
{
	long first = argc > 0 ? strtol(argv[0], NULL, 0) : 471;
	long last = argc > 1 ? strtol(argv[1], NULL, 0) : 2048;
	static const long far[] = { 4096, 65535, 65536, 1 << 20, 0x3fffffff };
	struct tally t;

	tally_init(&t, detail, n);
	for (long nr = first; nr <= last; nr++)
		tally_expect(&t, "unknown call", try_call(nr), ENOSYS);
	for (size_t i = 0; argc == 0 && i < sizeof(far) / sizeof(far[0]); i++)
		tally_expect(&t, "far call", try_call(far[i]), ENOSYS);
	return tally_result(&t);
}

const struct probe probes_sc[] = {
	{ "SC-01", sc_01 }, { "SC-02", sc_02 }, { "SC-04", sc_04 }, { "SC-05", sc_05 },
	{ "SC-06", sc_06 }, { "SC-07", sc_07 }, { "SC-08", sc_08 }, { "SC-09", sc_09 },
	{ "SC-10", sc_10 }, { "SC-11", sc_11 }, { "SC-12", sc_12 }, { "SC-13", sc_13 },
	{ "SC-14", sc_14 }, { "SC-15", sc_15 }, { "SC-16", sc_16 }, { "SC-17", sc_17 },
	{ "SC-18", sc_18 }, { "SC-19", sc_19 }, { "SC-20", sc_20 }, { "SC-21", sc_21 },
	{ "SC-22", sc_22 }, { "SC-23", sc_23 }, { "SC-24", sc_24 }, { "SC-26", sc_26 },
	{ NULL, NULL },
};
