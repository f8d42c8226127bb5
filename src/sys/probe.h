/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this host can do. Every capability is tried, in a short-lived child or by a harmless
 * syscall; no answer is derived from a version number. Children are waited for at most two
 * seconds and killed; no process, mount or cgroup outlives probe_host().
 */

#include <stdint.h>

#include "base/macro.h"

/* Zero is "cannot be had": an item that was forgotten does not raise a level. */
enum probe_state {
	PROBE_MISSING = 0,
	PROBE_WARN, /* works, or does not matter to a box, but the host could do better */
	PROBE_OK,
};

/*    id             name                   group         title; what it costs to lack it         */
/* clang-format off */
#define PROBE_TABLE(X)                                                                             \
	X(USERNS,        "user_namespace",      "namespaces", "user namespaces",                   \
	  "no box can be built: every other namespace is made inside this one")                    \
	X(ID_MAP,        "id_pair",             "namespaces", "two ids in one box",                \
	  "init and the code share one user id: the code can signal its own init")                 \
	X(NS_MOUNT,      "mount_namespace",     "namespaces", "mount namespace",                   \
	  "the code would see the host's files")                                                   \
	X(NS_PID,        "pid_namespace",       "namespaces", "pid namespace",                     \
	  "the code would see other processes, and stragglers could outlive the box")              \
	X(NS_NET,        "network_namespace",   "namespaces", "network namespace with loopback",   \
	  "the code would reach the host's network")                                               \
	X(NS_IPC,        "ipc_namespace",       "namespaces", "IPC namespace",                     \
	  "the code would share System V and POSIX queues with the host")                          \
	X(NS_UTS,        "uts_namespace",       "namespaces", "UTS namespace",                     \
	  "the code would learn the host's name")                                                  \
	X(NS_CGROUP,     "cgroup_namespace",    "namespaces", "cgroup namespace",                  \
	  "the code would learn where the host keeps its cgroup")                                  \
	X(NS_TIME,       "time_namespace",      "namespaces", "time namespace",                    \
	  "the code stays in the host's time namespace; with one it can read the uptime, too")     \
	X(NS_LOCK,       "namespace_limits",    "namespaces", "namespaces switched off inside",    \
	  "only the syscall filter would keep the code from new namespaces")                       \
	X(CLONE3,        "clone3",              "kernel",     "clone3",                            \
	  "a box starts by clone() and joins its cgroup one step later")                           \
	X(INTO_CGROUP,   "clone_into_cgroup",   "kernel",     "starting inside a cgroup",          \
	  "a box joins its cgroup after it was created, which is slower")                          \
	X(PIDFD,         "pidfd",               "kernel",     "pidfd_open, pidfd_send_signal",     \
	  "processes could only be killed by number, which may have been reused")                  \
	X(CLOSE_RANGE,   "close_range",         "kernel",     "close_range",                       \
	  "descriptors of the host cannot be closed for certain before the code runs")             \
	X(OPENAT2,       "openat2",             "kernel",     "openat2",                           \
	  "paths cannot be kept beneath a directory while the code changes it")                    \
	X(MOUNT_API,     "mount_api",           "kernel",     "mounting by descriptor",            \
	  "the box's file system cannot be built by descriptors")                                  \
	X(ROOT,          "read_only_root",      "files",      "own root, read-only, pivot_root",   \
	  "the code could not be given a root of its own")                                         \
	X(PROCFS,        "fresh_procfs",        "files",      "fresh procfs",                      \
	  "/proc would have to be left out, or would show the host's processes")                   \
	X(TMPFS,         "tmpfs_quota",         "files",      "tmpfs with size and inode limits",  \
	  "disk use of a box could not be bounded")                                                \
	X(NOSWAP,        "tmpfs_noswap",        "files",      "tmpfs that is never swapped",       \
	  "files of a box may reach the host's swap, unless its cgroup forbids that")              \
	X(DEV_NODES,     "device_nodes",        "files",      "own device nodes",                  \
	  "the host's /dev/null and its kin are bound instead: boxes share those inodes")          \
	X(SECCOMP,       "seccomp",             "confinement", "seccomp filter, no_new_privs",     \
	  "the whole syscall interface of the kernel would be open to the code")                   \
	X(LANDLOCK,      "landlock",            "confinement", "Landlock",                         \
	  "no second wall behind the mount namespace")                                             \
	X(LANDLOCK_SCOPE, "landlock_scopes",    "confinement", "Landlock scopes",                  \
	  "signals and abstract sockets are kept apart by the namespaces only")                    \
	X(KEYRING,       "session_keyring",     "confinement", "own session keyring",              \
	  "the box inherits the keyring of whoever started brig; only the filter hides it")        \
	X(CGROUP,        "cgroup_mode",         "cgroups",    "cgroup hierarchy",                  \
	  "no limit on memory, processes or processor time of a box as a whole")                   \
	X(CG_MEMORY,     "cgroup_memory",       "cgroups",    "memory limit",                      \
	  "memory of a box is only watched, so it can be overrun for a moment")                    \
	X(CG_SWAP,       "cgroup_swap",         "cgroups",    "swap accounting",                   \
	  "a box may push the host into swapping")                                                 \
	X(CG_PIDS,       "cgroup_pids",         "cgroups",    "process limit",                     \
	  "a fork bomb is stopped by RLIMIT_NPROC only")                                           \
	X(CG_CPU,        "cgroup_cpu",          "cgroups",    "processor limit",                   \
	  "a box may use every core until its time is up")                                         \
	X(CG_KILL,       "cgroup_kill",         "cgroups",    "cgroup.kill",                       \
	  "a box is killed through its init only")                                                 \
	X(CG_ATTACH,     "cgroup_attach_time",  "cgroups",    "time to enter a cgroup",            \
	  "every box that starts after a quiet moment waits this long")                            \
	X(CORE_PATTERN,  "core_pattern",        "host",       "core dumps",                        \
	  "a program of the host reads the memory of crashed code, whatever RLIMIT_CORE says")     \
	X(IO_URING,      "io_uring",            "host",       "io_uring",                          \
	  "closed to boxes by the filter alone")                                                   \
	X(BPF,           "unprivileged_bpf",    "host",       "bpf() for ordinary users",          \
	  "closed to boxes by the filter alone")                                                   \
	X(USERFAULTFD,   "userfaultfd",         "host",       "userfaultfd for ordinary users",    \
	  "closed to boxes by the filter alone; it makes kernel races easy to win")                \
	X(KPTR,          "kptr_restrict",       "host",       "kernel addresses hidden",           \
	  "kernel addresses can be read, which helps an exploit")                                  \
	X(DMESG,         "dmesg_restrict",      "host",       "kernel log hidden",                 \
	  "any user may read the kernel log; closed to boxes by the filter alone")                 \
	X(PERF,          "perf_event_paranoid", "host",       "perf events for ordinary users",    \
	  "closed to boxes by the filter alone")                                                   \
	X(YAMA,          "yama",                "host",       "ptrace scope (yama)",               \
	  "another program of the same user may attach to brig")                                   \
	X(PROTECTED,     "protected_links",     "host",       "protected links, fifos, files",     \
	  "planted links in /tmp work against careless programs of the host; brig does not rely on it") \
	X(IA32,          "ia32_emulation",      "host",       "32-bit system calls",               \
	  "a second syscall table; closed to boxes by the filter alone")                           \
	X(MITIGATIONS,   "cpu_mitigations",     "host",       "processor vulnerabilities",         \
	  "code in a box may read memory it should not, by speculation")                           \
	X(SMT,           "smt",                 "host",       "threads sharing a core",            \
	  "two boxes on one core can observe each other's timing")                                 \
	X(KVM,           "kvm",                 "host",       "/dev/kvm",                          \
	  "no box with a kernel of its own")                                                       \
	X(CLOCK,         "clock_source",        "host",       "clock source",                      \
	  "reading the time is slow, and so is everything that reads it")                          \
	X(PYTHON,        "python",              "runtimes",   "python3",                           \
	  "brig run python is refused")                                                            \
	X(NODE,          "node",                "runtimes",   "node",                              \
	  "brig run javascript is refused")                                                        \
	X(BASH,          "bash",                "runtimes",   "bash",                              \
	  "brig run shell is refused")
/* clang-format on */

enum probe_id {
#define X(id, ...) PROBE_##id,
	PROBE_TABLE(X)
#undef X
		PROBE_COUNT,
};

/* The first of the ids that boxes are given; the pair is tried with this and the next one. */
#define PROBE_BOX_ID 0x70000000u

#define PROBE_BIT(id) (UINT64_C(1) << PROBE_##id)

struct probe_item {
	const char *id;
	const char *group;
	const char *title;
	const char *cost; /* what lacking it costs */
	enum probe_state state;
	char found[120];
	char remedy[160]; /* a command or setting; "" when OK or when there is none */
};

struct probe_report {
	struct probe_item items[PROBE_COUNT]; /* indexed by enum probe_id */
};

/*
 * Fills the report as the calling user; takes about half a second. -errno only when no child can
 * be made at all. Call it before threads are started: it forks. SIGINT, SIGTERM and SIGHUP wait
 * until the scratch cgroup is gone.
 */
int probe_host(struct probe_report *ret);

const char *probe_state_name(enum probe_state state);
