/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled filters against their policy tables, and against the running kernel.
 *
 * The differential part compares the program, run by an interpreter, with a naive reading of
 * the table.  The spot checks are written by hand and share nothing with the table's parser.
 * The mutation control damages the program, one instruction at a time, and expects that the
 * differential part notices each time: it shows that the comparison can fail.
 *
 * Usage: test_filter [--random N]
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/audit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_interp.h"
#include "corpus.h"
#include "kernel_check.h"
#include "policy.h"
#include "seccomp_default.h"
#include "seccomp_default_table.h"
#include "seccomp_launcher.h"
#include "seccomp_launcher_table.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define ALLOW             SECCOMP_RET_ALLOW
#define KILL              SECCOMP_RET_KILL_PROCESS
#define FAIL(error)       (SECCOMP_RET_ERRNO | (error))
#define GARBAGE           UINT64_C(0xdeadbeef00000000)

struct spot {
	const char *name;
	long nr;
	uint64_t args[6];
	uint32_t want;
};

/* One filter and what is known of it. */
static const struct subject {
	const char *name, *sha256;
	const struct sock_filter *code;
	unsigned len;
	const struct policy_rule *rules;
	size_t n_rules;
	const struct spot *spots;
	size_t n_spots;
} * subject;

static unsigned n_tests, n_failed;

static void tap(bool good, const char *name)
{
	n_tests++;
	n_failed += !good;
	printf("%sok %u - %s: %s\n", good ? "" : "not ", n_tests, subject->name, name);
	(void)fflush(stdout);
}

/* ---- differential ------------------------------------------------------------------ */

struct comparison {
	struct bpf_program program;
	uint64_t n_calls;
	bool quiet;
};

static void report(const struct seccomp_data *call, uint32_t want, int r, uint32_t got)
{
	printf("# arch %#x nr %d want %#x got %#x (%d) args", call->arch, call->nr, want, got, r);
	for (size_t i = 0; i < ARRAY_SIZE(call->args); i++)
		printf(" %#" PRIx64, (uint64_t)call->args[i]);
	printf("\n");
}

/* A corpus_fn: true while the program and the table agree. */
static bool agree(const struct seccomp_data *call, void *context)
{
	struct comparison *comparison = context;
	uint32_t want = policy_eval(subject->rules, subject->n_rules, call);
	uint32_t got = 0;
	int r = bpf_run(&comparison->program, call, &got);

	comparison->n_calls++;
	if (r == 0 && got == want)
		return true;
	if (!comparison->quiet)
		report(call, want, r, got);
	return false;
}

static void test_differential(struct corpus *corpus, uint64_t n_random)
{
	static uint8_t marks[BPF_MAXINSNS];
	struct comparison comparison = { .program = { subject->code, subject->len, marks } };
	size_t missing, sides;

	memset(marks, 0, sizeof(marks));
	tap(corpus_heads(corpus, agree, &comparison), "every number, x32, foreign architectures");
	tap(corpus_directed(corpus, agree, &comparison), "every constant of the table, both sides");
	missing = bpf_uncovered(&comparison.program, &sides);
	printf("# %u instructions, %zu not run, %zu branch sides not taken\n", subject->len,
	       missing, sides);
	tap(missing == 0 && sides == 0, "every instruction and branch side is covered");
	tap(corpus_random(corpus, n_random, agree, &comparison), "random calls");
	printf("# %" PRIu64 " calls compared\n", comparison.n_calls);
}

/* ---- mutation control ---------------------------------------------------------------- */

enum mutation { MUTATE_CONSTANT, MUTATE_SWAP, MUTATE_NEVER, MUTATE_ALWAYS, MUTATION_COUNT };

/* A load reads the other word of its argument; a mask loses its lowest bit. */
static void mutate_constant(struct sock_filter *insn)
{
	if (BPF_CLASS(insn->code) == BPF_LD)
		insn->k ^= 4;
	else if (BPF_CLASS(insn->code) == BPF_ALU)
		insn->k &= insn->k - 1;
	else
		insn->k ^= 1;
}

/* Damages an instruction; false where the mutation does not apply. */
static bool mutate(struct sock_filter *insn, enum mutation mutation)
{
	uint8_t jt = insn->jt, jf = insn->jf;

	if (mutation == MUTATE_CONSTANT) {
		mutate_constant(insn);
		return true;
	}
	if (BPF_CLASS(insn->code) != BPF_JMP || BPF_OP(insn->code) == BPF_JA)
		return false;
	if (mutation != MUTATE_ALWAYS)
		insn->jt = jf;
	if (mutation != MUTATE_NEVER)
		insn->jf = jt;
	return true;
}

static bool mutant_survives(struct corpus *corpus, const struct sock_filter *code)
{
	struct comparison comparison = { .program = { code, subject->len, NULL }, .quiet = true };

	return corpus_heads(corpus, agree, &comparison) &&
	       corpus_directed(corpus, agree, &comparison);
}

static void test_mutations(struct corpus *corpus)
{
	static struct sock_filter code[BPF_MAXINSNS];
	unsigned n_mutants = 0, n_survivors = 0;

	memcpy(code, subject->code, subject->len * sizeof(*code));
	for (unsigned i = 0; i < subject->len * MUTATION_COUNT; i++) {
		unsigned pc = i / MUTATION_COUNT, mutation = i % MUTATION_COUNT;

		if (mutate(&code[pc], (enum mutation)mutation)) {
			n_mutants++;
			if (mutant_survives(corpus, code)) {
				printf("# survivor: instruction %u, mutation %u\n", pc, mutation);
				n_survivors++;
			}
		}
		code[pc] = subject->code[pc];
	}
	printf("# %u mutants, %u survive\n", n_mutants, n_survivors);
	tap(n_mutants > subject->len && n_survivors == 0, "each damaged program is noticed");
}

/* ---- spot checks --------------------------------------------------------------------- */

/* clang-format off */
static const struct spot default_spots[] = {
	{"read", 0, {0}, ALLOW},
	{"execve", 59, {0}, ALLOW},
	{"rseq", 334, {0}, ALLOW},
	{"setresuid", 117, {0}, ALLOW},
	{"close_range", 436, {0}, ALLOW},
	{"sync does nothing", 162, {0}, FAIL(0)},
	{"syncfs does nothing", 306, {0}, FAIL(0)},
	{"fsync does nothing", 74, {3}, FAIL(0)},
	{"fdatasync does nothing", 75, {3}, FAIL(0)},
	{"msync MS_SYNC does nothing", 26, {0, 4096, 4}, FAIL(0)},
	{"msync MS_ASYNC", 26, {0, 4096, 1}, ALLOW},
	{"fork by clone", 56, {0x01200011}, ALLOW},
	{"thread by clone", 56, {0x003d0f00}, ALLOW},
	{"clone of a user namespace", 56, {0x10000011}, FAIL(EPERM)},
	{"the same with garbage", 56, {GARBAGE | 0x10000011}, FAIL(EPERM)},
	{"clone of a mount namespace", 56, {0x00020011}, FAIL(EPERM)},
	{"clone of a cgroup namespace", 56, {0x02000011}, FAIL(EPERM)},
	{"clone untraced", 56, {0x00800011}, FAIL(EPERM)},
	{"clone3", 435, {0}, FAIL(ENOSYS)},
	{"unshare", 272, {0x10000000}, FAIL(EPERM)},
	{"setns", 308, {0}, FAIL(EPERM)},
	{"mount", 165, {0}, FAIL(EPERM)},
	{"open_tree_attr", 467, {0}, FAIL(EPERM)},
	{"ptrace", 101, {0}, FAIL(EPERM)},
	{"pidfd_getfd", 438, {0}, FAIL(EPERM)},
	{"process_vm_readv", 310, {0}, FAIL(EPERM)},
	{"bpf", 321, {0}, FAIL(EPERM)},
	{"seccomp", 317, {1}, FAIL(EPERM)},
	{"userfaultfd", 323, {1}, FAIL(ENOSYS)},
	{"io_uring_setup", 425, {0}, FAIL(ENOSYS)},
	{"io_uring_register", 427, {0}, FAIL(ENOSYS)},
	{"keyctl", 250, {0}, FAIL(ENOSYS)},
	{"memfd_secret", 447, {0}, FAIL(ENOSYS)},
	{"landlock_restrict_self", 446, {0}, FAIL(ENOSYS)},
	{"shmget", 29, {0}, FAIL(ENOSYS)},
	{"mq_open", 240, {0}, FAIL(ENOSYS)},
	{"openat2", 437, {0}, FAIL(ENOSYS)},
	{"file_setattr", 469, {0}, FAIL(ENOSYS)},
	{"number after the last", 470, {0}, FAIL(ENOSYS)},
	{"splice", 275, {0}, FAIL(EINVAL)},
	{"vmsplice", 278, {0}, FAIL(EINVAL)},
	{"kexec_load", 246, {0}, KILL},
	{"finit_module", 313, {0}, KILL},
	{"reboot", 169, {0}, KILL},
	{"x32 read", 0x40000000, {0}, KILL},
	{"unix stream", 41, {1, 0x80801, 0}, ALLOW},
	{"unix seqpacket", 41, {1, 5, 0}, ALLOW},
	{"unix raw", 41, {1, 3, 0}, FAIL(EAFNOSUPPORT)},
	{"tcp", 41, {2, 0x80001, 6}, ALLOW},
	{"udp6 with garbage", 41, {GARBAGE | 10, GARBAGE | 2, GARBAGE | 17}, ALLOW},
	{"inet raw", 41, {2, 3, 255}, FAIL(EAFNOSUPPORT)},
	{"inet stream, raw protocol", 41, {2, 1, 255}, FAIL(EAFNOSUPPORT)},
	{"sctp", 41, {2, 1, 132}, FAIL(EAFNOSUPPORT)},
	{"netlink", 41, {16, 3, 0}, FAIL(EAFNOSUPPORT)},
	{"packet", 41, {17, 3, 0}, FAIL(EAFNOSUPPORT)},
	{"vsock", 41, {40, 1, 0}, FAIL(EAFNOSUPPORT)},
	{"alg", 41, {38, 5, 0}, FAIL(EAFNOSUPPORT)},
	{"unix pair", 53, {1, 1, 0}, ALLOW},
	{"tipc pair", 53, {30, 1, 0}, FAIL(EAFNOSUPPORT)},
	{"SO_REUSEADDR", 54, {3, 1, 2}, ALLOW},
	{"TCP_NODELAY", 54, {3, 6, 1}, ALLOW},
	{"IPV6_V6ONLY", 54, {3, 41, 26}, ALLOW},
	{"TCP_ULP", 54, {3, 6, 31}, FAIL(ENOPROTOOPT)},
	{"TCP_REPAIR", 54, {3, 6, 19}, FAIL(EPERM)},
	{"SO_ATTACH_BPF", 54, {3, 1, 50}, FAIL(EPERM)},
	{"SO_ATTACH_FILTER with garbage", 54, {3, GARBAGE | 1, GARBAGE | 26}, FAIL(EPERM)},
	{"IPT_SO_SET_REPLACE", 54, {3, 0, 64}, FAIL(ENOPROTOOPT)},
	{"IP6T_SO_SET_REPLACE", 54, {3, 41, 64}, FAIL(ENOPROTOOPT)},
	{"TCGETS", 16, {0, 0x5401}, ALLOW},
	{"FIONBIO", 16, {0, 0x5421}, ALLOW},
	{"FICLONE", 16, {0, 0x40049409}, ALLOW},
	{"TIOCSTI", 16, {0, 0x5412}, FAIL(EPERM)},
	{"TIOCSTI with garbage", 16, {0, GARBAGE | 0x5412}, FAIL(EPERM)},
	{"TIOCLINUX", 16, {0, 0x541c}, FAIL(EPERM)},
	{"TIOCSETD", 16, {0, 0x5423}, FAIL(EPERM)},
	{"FIFREEZE", 16, {0, 0xc0045877}, FAIL(EPERM)},
	{"FS_IOC_SETFLAGS", 16, {0, 0x40086602}, FAIL(EPERM)},
	{"FS_IOC_FSSETXATTR", 16, {0, 0x401c5820}, FAIL(EPERM)},
	{"SIOCGIFCONF", 16, {0, 0x8912}, ALLOW},
	{"SIOCSIFADDR", 16, {0, 0x8916}, FAIL(EPERM)},
	{"SIOCETHTOOL", 16, {0, 0x8946}, FAIL(EPERM)},
	{"KVM_CREATE_VM", 16, {0, 0xae01}, FAIL(EPERM)},
	{"PR_SET_NAME", 157, {15}, ALLOW},
	{"PR_SET_VMA", 157, {0x53564d41}, ALLOW},
	{"PR_SET_DUMPABLE", 157, {4}, FAIL(EPERM)},
	{"PR_SET_SECCOMP", 157, {22, 2}, FAIL(EPERM)},
	{"PR_SET_MM", 157, {35}, FAIL(EPERM)},
	{"PR_SET_PTRACER", 157, {0x59616d61}, FAIL(EPERM)},
	{"PR_CAP_AMBIENT_IS_SET", 157, {47, 1}, ALLOW},
	{"PR_CAP_AMBIENT_RAISE", 157, {47, 2}, FAIL(EPERM)},
	{"FUTEX_WAIT private", 202, {0, 128}, ALLOW},
	{"FUTEX_WAIT_BITSET realtime", 202, {0, 0x189}, ALLOW},
	{"FUTEX_LOCK_PI private", 202, {0, 0x86}, FAIL(ENOSYS)},
	{"FUTEX_CMP_REQUEUE_PI", 202, {0, 12}, FAIL(ENOSYS)},
	{"FUTEX_LOCK_PI2", 202, {0, 13}, FAIL(ENOSYS)},
	{"chmod 0755", 90, {0, 0755}, ALLOW},
	{"chmod 04755", 90, {0, 04755}, FAIL(EPERM)},
	{"fchmodat 02755", 268, {0, 0, 02755}, FAIL(EPERM)},
	{"fchmodat2 04755", 452, {0, 0, 04755}, FAIL(EPERM)},
	{"mkdir 01777", 83, {0, 01777}, ALLOW},
	{"mkdirat 02755", 258, {0, 0, 02755}, FAIL(EPERM)},
	{"creat 04755", 85, {0, 04755}, FAIL(EPERM)},
	{"open without O_CREAT ignores the mode", 2, {0, 0, 06755}, ALLOW},
	{"open O_CREAT 04755", 2, {0, 0x41, 04755}, FAIL(EPERM)},
	{"openat O_CREAT 0644", 257, {0, 0, 0x41, 0644}, ALLOW},
	{"openat O_TMPFILE 04755", 257, {0, 0, 0x410002, 04755}, FAIL(EPERM)},
	{"openat O_DIRECTORY ignores the mode", 257, {0, 0, 0x10000, 04755}, ALLOW},
	{"mknod of a FIFO", 133, {0, 010644}, ALLOW},
	{"mknod of a device", 133, {0, 020644}, FAIL(EPERM)},
	{"mknodat of a block device", 259, {0, 0, 060644}, FAIL(EPERM)},
	{"mknodat of a setuid file", 259, {0, 0, 0104755}, FAIL(EPERM)},
	{"F_SETLK", 72, {0, 6}, ALLOW},
	{"F_SETLEASE", 72, {0, 1024}, FAIL(EPERM)},
	{"F_NOTIFY", 72, {0, 1026}, FAIL(EPERM)},
	{"prlimit64 of self", 302, {0}, ALLOW},
	{"prlimit64 of init", 302, {1}, FAIL(EPERM)},
	{"personality query", 135, {0xffffffff}, ALLOW},
	{"personality without randomisation", 135, {0x40000}, FAIL(EPERM)},
	{"mmap", 9, {0, 0, 3, 0x22}, ALLOW},
	{"mmap of huge pages", 9, {0, 0, 3, 0x40022}, FAIL(EINVAL)},
	{"memfd_create", 319, {0, 1}, ALLOW},
	{"memfd_create of huge pages", 319, {0, 5}, FAIL(EINVAL)},
};

static const struct spot launcher_spots[] = {
	{"read", 0, {0}, ALLOW},
	{"mount", 165, {0}, ALLOW},
	{"setns", 308, {0}, ALLOW},
	{"clone of a user namespace", 56, {0x10000011}, ALLOW},
	{"clone traced", 56, {0x00002011}, FAIL(EPERM)},
	{"clone untraced, with garbage", 56, {GARBAGE | 0x00800011}, FAIL(EPERM)},
	{"chroot", 161, {0}, FAIL(EPERM)},
	{"fspick", 433, {0}, FAIL(EPERM)},
	{"ptrace", 101, {0}, FAIL(EPERM)},
	{"process_vm_writev", 311, {0}, FAIL(EPERM)},
	{"pidfd_getfd", 438, {0}, FAIL(EPERM)},
	{"bpf", 321, {0}, FAIL(EPERM)},
	{"perf_event_open", 298, {0}, FAIL(EPERM)},
	{"userfaultfd", 323, {1}, FAIL(ENOSYS)},
	{"io_uring_setup", 425, {0}, FAIL(ENOSYS)},
	{"finit_module", 313, {0}, KILL},
	{"kexec_load", 246, {0}, KILL},
	{"x32 read", 0x40000000, {0}, KILL},
	{"number after the last", 470, {0}, FAIL(ENOSYS)},
	{"netlink", 41, {16, 3, 0}, FAIL(EAFNOSUPPORT)},
	{"a new session keyring", 250, {1, 0}, ALLOW},
	{"a session keyring by name", 250, {1, 4096}, FAIL(ENOSYS)},
	{"KEYCTL_GET_KEYRING_ID", 250, {0}, FAIL(ENOSYS)},
	{"add_key", 248, {0}, FAIL(ENOSYS)},
	{"a filter", 317, {1, 0}, ALLOW},
	{"a filter with a listener", 317, {1, 8}, FAIL(EPERM)},
	{"strict mode", 317, {0, 0}, FAIL(EPERM)},
	{"mknodat of a character device", 259, {0, 0, 020666}, ALLOW},
	{"mknodat of a block device", 259, {0, 0, 060644}, FAIL(EPERM)},
	{"chmod 04755", 90, {0, 04755}, FAIL(EPERM)},
	{"TIOCSTI", 16, {0, 0x5412}, FAIL(EPERM)},
	{"SIOCSIFFLAGS", 16, {0, 0x8914}, ALLOW},
	{"SIOCSIFADDR", 16, {0, 0x8916}, FAIL(EPERM)},
	{"PR_SET_MM", 157, {35}, FAIL(EPERM)},
	{"PR_SET_PTRACER", 157, {0x59616d61}, FAIL(EPERM)},
	{"prlimit64 of init", 302, {1}, FAIL(EPERM)},
};
/* clang-format on */

static void test_spots(void)
{
	struct bpf_program program = { subject->code, subject->len, NULL };
	const struct spot *spots = subject->spots;
	unsigned n_wrong = 0;

	for (size_t i = 0; i < subject->n_spots; i++) {
		struct seccomp_data call = { .nr = (int)spots[i].nr, .arch = AUDIT_ARCH_X86_64 };
		uint32_t got = 0;
		int r;

		memcpy(call.args, spots[i].args, sizeof(call.args));
		r = bpf_run(&program, &call, &got);
		if (r == 0 && got == spots[i].want)
			continue;
		printf("# %s: want %#x, got %#x (%d)\n", spots[i].name, spots[i].want, got, r);
		n_wrong++;
	}
	printf("# %zu spot checks\n", subject->n_spots);
	tap(n_wrong == 0, "hand-written spot checks");
}

/* ---- kernel -------------------------------------------------------------------------- */

static void test_kernel(void)
{
	struct kernel_check check = {
		.code = subject->code,
		.len = subject->len,
		.rules = subject->rules,
		.n_rules = subject->n_rules,
	};

	tap(kernel_accepts(&check), "the kernel takes the program, and getpid works under it");
	tap(kernel_refuses(&check), "each refused call gets its error from the kernel");
	tap(kernel_refuses_arguments(&check),
	    "refused arguments get their error, with garbage too");
	tap(kernel_kills(&check), "each fatal call ends the process with SIGSYS");
}

static bool parse_options(int argc, char **argv, uint64_t *ret_random)
{
	char *end = NULL;

	*ret_random = 5000000;
	if (argc == 1)
		return true;
	if (argc != 3 || strcmp(argv[1], "--random") != 0)
		return false;
	errno = 0;
	*ret_random = strtoull(argv[2], &end, 10);
	return errno == 0 && end != argv[2] && *end == '\0';
}

#define SUBJECT(name, spots)                                                                       \
	{                                                                                          \
		name##_name, name##_sha256, name, name##_len, name##_table, name##_table_len,      \
			spots, ARRAY_SIZE(spots)                                                   \
	}

static int test_subject(uint64_t n_random)
{
	struct corpus corpus;

	if (corpus_init(&corpus, subject->rules, subject->n_rules, 1) < 0) {
		(void)fprintf(stderr, "out of memory\n");
		return -ENOMEM;
	}
	printf("# filter %s, sha256 %s\n", subject->name, subject->sha256);
	test_spots();
	test_differential(&corpus, n_random);
	test_mutations(&corpus);
	test_kernel();
	corpus_free(&corpus);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct subject subjects[] = { SUBJECT(seccomp_default, default_spots),
		                                   SUBJECT(seccomp_launcher, launcher_spots) };
	uint64_t n_random;

	if (!parse_options(argc, argv, &n_random)) {
		(void)fprintf(stderr, "usage: %s [--random N]\n", argv[0]);
		return 2;
	}
	for (subject = subjects; subject < subjects + ARRAY_SIZE(subjects); subject++)
		if (test_subject(n_random) < 0)
			return 1;
	printf("1..%u\n", n_tests);
	return n_failed > 0;
}
