/* SPDX-License-Identifier: Apache-2.0 */
/* PS: procfs, sysfs, devices and terminals. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kd.h>
#include <linux/keyboard.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TEXT_SIZE     (1 << 16)
#define NS_GET_USERNS 0xb701
#define NS_GET_PARENT 0xb702
#define N_OF(a)       (sizeof(a) / sizeof((a)[0]))

/* try_open(), but what a mask covers counts as absent: only procfs' own files matter. */
static long open_unmasked(const char *path, int flags)
{
	int fd = try_open(path, flags);
	struct statfs sf;

	if (fd < 0)
		return fd;
	if (fstatfs(fd, &sf) == 0 && sf.f_type == 0x9fa0 /* PROC_SUPER_MAGIC */)
		return fd;
	(void)RAW(SYS_close, fd);
	return -ENOENT;
}

/* PS-01: what procfs says about the machine is not for the box: absent, unreadable or empty. */

static void expect_empty_dir(struct tally *t, const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	t->attempts++;
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			tally_escaped(t, "%s/%s is there", path, e->d_name);
	if (d)
		closedir(d);
}

static int ps_01(int argc, char **argv, char *detail, size_t n)
{
	static const char *const paths[] = {
		"kcore",       "keys",        "key-users",   "timer_list",
		"timer_stats", "sched_debug", "interrupts",  "scsi",
		"asound",      "acpi",        "config.gz",   "latency_stats",
		"kallsyms",    "kmsg",        "vmallocinfo", "slabinfo",
		"iomem",       "ioports",     "modules",     "sysvipc",
		"kpagecount",  "kpageflags",  "kpagecgroup", "irq",
		"bus",         "driver",      "fs",          "tty",
	};
	static char text[256];
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < N_OF(paths); i++) {
		char path[64];
		ssize_t r;

		snprintf(path, sizeof(path), "/proc/%s", paths[i]);
		/* Reading kmsg takes from it, and a control must not eat the host's log. */
		if (strcmp(paths[i], "kmsg") == 0)
			r = open_unmasked(path, O_RDONLY | O_NONBLOCK);
		else
			r = try_read(path, text, sizeof(text));
		if (r == 0)
			t.attempts++;
		else if (r == -EISDIR)
			expect_empty_dir(&t, path);
		else
			tally_expect(&t, path, r, ENOENT, EACCES, EPERM, EAGAIN);
	}
	return tally_result(&t);
}

/* PS-02: the machine's settings cannot even be opened for writing. */
static int ps_02(int argc, char **argv, char *detail, size_t n)
{
	static const char *const paths[] = {
		"/proc/sysrq-trigger",
		"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/ns_last_pid",
		"/proc/sys/kernel/hostname",
		"/proc/sys/kernel/domainname",
		"/proc/sys/kernel/panic",
		"/proc/sys/kernel/randomize_va_space",
		"/proc/sys/kernel/shmmax",
		"/proc/sys/kernel/sem",
		"/proc/sys/vm/drop_caches",
		"/proc/sys/vm/overcommit_memory",
		"/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/fs/file-max",
		"/proc/sys/fs/mqueue/queues_max",
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/net/ipv4/ip_unprivileged_port_start",
		"/proc/sys/net/ipv4/ping_group_range",
		"/proc/sys/user/max_user_namespaces",
		"/proc/sys/user/max_net_namespaces",
		"/proc/irq/default_smp_affinity",
		"/proc/irq/0/smp_affinity",
		"/proc/bus/pci/00/00.0",
		"/proc/acpi/wakeup",
		"/proc/mtrr",
		"/proc/timer_stats",
		"/proc/self/net/rt_cache",
	};
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < N_OF(paths); i++) {
		tally_expect(&t, paths[i], open_unmasked(paths[i], O_WRONLY), EROFS, EACCES, EPERM,
		             ENOENT, ENOTDIR);
		tally_expect(&t, paths[i], open_unmasked(paths[i], O_RDWR | O_TRUNC), EROFS, EACCES,
		             EPERM, ENOENT, ENOTDIR);
	}
	return tally_result(&t);
}

/* PS-03 PID...: only processes of the box, and not its init. */
static int ps_03(int argc, char **argv, char *detail, size_t n)
{
	char path[64];
	struct tally t;
	struct dirent *e;
	struct stat st;
	DIR *d;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++) {
		snprintf(path, sizeof(path), "/proc/%s/stat", argv[i]);
		tally_expect(&t, path, try_open(path, O_RDONLY), ENOENT);
		tally_expect(&t, "kill", RAW(SYS_kill, atoi(argv[i]), 0), ESRCH, EPERM);
	}
	d = opendir("/proc");
	if (!d)
		return PROBE_ERROR;
	while ((e = readdir(d))) {
		int pid = atoi(e->d_name);

		if (pid <= 0 || pid == getpid() || pid == getppid())
			continue;
		tally_escaped(&t, "process %d is visible", pid);
	}
	closedir(d);
	if (getppid() == 1) {
		tally_expect(&t, "/proc/1/stat", try_open("/proc/1/stat", O_RDONLY), ENOENT,
		             EACCES);
		/* O_PATH does open it, but nothing can be learned from that. */
		tally_expect(&t, "/proc/1", stat("/proc/1", &st) < 0 ? -errno : 0, ENOENT);
	}
	return tally_result(&t);
}

/* PS-04: nothing of the box's init. */
static int ps_04(int argc, char **argv, char *detail, size_t n)
{
	static const char *const names[] = {
		"environ",   "mem",        "maps",        "smaps",         "fd",       "root",
		"cwd",       "exe",        "ns/mnt",      "ns/user",       "ns/pid",   "stack",
		"syscall",   "auxv",       "cmdline",     "pagemap",       "io",       "wchan",
		"map_files", "task/1/mem", "personality", "timers",        "fdinfo/0", "fd/0",
		"ns/net",    "status",     "comm",        "oom_score_adj",
	};
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < N_OF(names); i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/1/%s", names[i]);
		tally_expect(&t, path, try_open(path, O_RDONLY | O_NONBLOCK), ENOENT, EACCES,
		             EPERM);
	}
	tally_expect(&t, "write to init's memory", try_open("/proc/1/mem", O_RDWR), ENOENT, EACCES,
	             EPERM);
	tally_expect(&t, "pidfd_getfd",
	             RAW(438 /* pidfd_getfd */, RAW(434 /* pidfd_open */, 1, 0), 0, 0), EPERM,
	             ENOSYS, EBADF, EACCES);
	return tally_result(&t);
}

/* PS-05 FILE: a process may rewrite its own text, which neither frees it nor reaches FILE. */
static int ps_05(int argc, char **argv, char *detail, size_t n)
{
	int file, mem = try_open("/proc/self/mem", O_RDWR);
	struct tally t;
	char *shared;
	long r;

	tally_init(&t, detail, n);
	if (argc < 1)
		return PROBE_ERROR;
	file = try_open(argv[0], O_RDONLY);
	shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		return PROBE_ERROR;
	if (mem >= 0) {
		char *text =
			mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		r = RAW(SYS_pwrite64, mem, "x", 1, text);
		tally_note(&t, "own text: %s", r < 0 ? errno_name((int)-r) : "written");
		tally_expect(&t, "write to a shared read-only mapping",
		             RAW(SYS_pwrite64, mem, "x", 1, shared), EIO, EFAULT, EPERM, EACCES);
	}
	tally_confined(&t);
	return tally_result(&t);
}

/* PS-06 OOM: the process' own settings. OOM is a score that must be out of reach. */
static int ps_06(int argc, char **argv, char *detail, size_t n)
{
	static const struct {
		const char *name, *value;
	} writes[] = {
		{ "uid_map", "0 0 1\n" },    { "gid_map", "0 0 1\n" },
		{ "projid_map", "0 0 1\n" }, { "setgroups", "allow\n" },
		{ "loginuid", "0\n" },       { "sessionid", "0\n" },
		{ "attr/current", "x" },     { "attr/exec", "x" },
		{ "attr/keycreate", "x" },   { "attr/sockcreate", "x" },
		{ "attr/fscreate", "x" },    { "timens_offsets", "monotonic 9 0" },
	};
	char path[64];
	struct tally t;

	tally_init(&t, detail, n);
	if (argc < 1)
		return PROBE_ERROR;
	for (size_t i = 0; i < N_OF(writes); i++) {
		snprintf(path, sizeof(path), "/proc/self/%s", writes[i].name);
		tally_expect(&t, path, try_write(path, writes[i].value, strlen(writes[i].value)),
		             EPERM, EACCES, ENOENT, EROFS, EINVAL, EOPNOTSUPP);
	}
	tally_expect(&t, "oom_score_adj",
	             try_write("/proc/self/oom_score_adj", argv[0], strlen(argv[0])), EACCES, EPERM,
	             EROFS);
	tally_expect(&t, "oom_adj", try_write("/proc/self/oom_adj", "-17", 3), EACCES, EPERM, EROFS,
	             ENOENT);
	return tally_result(&t);
}

/* PS-07 TEXT...: no TEXT in mounts; in cgroup every path is "/". */
static int ps_07(int argc, char **argv, char *detail, size_t n)
{
	static const char *const files[] = { "/proc/self/mountinfo", "/proc/mounts",
		                             "/proc/self/cgroup" };
	static char text[TEXT_SIZE];
	struct tally t;

	tally_init(&t, detail, n);
	for (size_t k = 0; k < N_OF(files); k++) {
		ssize_t r = try_read(files[k], text, sizeof(text));

		if (r < 0 && r != -ENOENT && r != -EACCES)
			tally_error(&t, "%s: %s", files[k], errno_name((int)-r));
		t.attempts++;
		for (int i = 0; r > 0 && i < argc; i++)
			if (strstr(text, argv[i]))
				tally_escaped(&t, "%s shows %s", files[k], argv[i]);
		if (r <= 0 || k != 2)
			continue;
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			if (strlen(line) < 2 || strcmp(line + strlen(line) - 2, ":/") != 0)
				tally_escaped(&t, "cgroup shows %s", line);
	}
	return tally_result(&t);
}

/* PS-08 NAME PORT: the box's own network only. */
static int ps_08(int argc, char **argv, char *detail, size_t n)
{
	static const char *const files[] = { "/proc/net/unix", "/proc/self/net/unix",
		                             "/proc/net/tcp",  "/proc/net/tcp6",
		                             "/proc/net/arp",  "/proc/net/dev",
		                             "/proc/net/route" };
	static char text[TEXT_SIZE];
	char port[16];
	struct tally t;

	tally_init(&t, detail, n);
	if (argc < 2)
		return PROBE_ERROR;
	snprintf(port, sizeof(port), ":%04X ", (unsigned)atoi(argv[1]));
	for (size_t k = 0; k < N_OF(files); k++) {
		ssize_t r = try_read(files[k], text, sizeof(text));
		unsigned line = 0;

		t.attempts++;
		if (r < 0)
			continue;
		if (strstr(text, argv[0]) || strstr(text, port))
			tally_escaped(&t, "%s shows a socket of the host", files[k]);
		if (!strstr(files[k], "dev") && !strstr(files[k], "arp") &&
		    !strstr(files[k], "route"))
			continue;
		for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n")) {
			bool head = line++ < (strstr(files[k], "dev") ? 2u : 1u);

			if (!head && !strstr(p, " lo:"))
				tally_escaped(&t, "%s shows %.20s", files[k], p);
		}
	}
	return tally_result(&t);
}

static void expect_absent(struct tally *t, const char *const *paths, size_t n)
{
	struct stat st;

	for (size_t i = 0; i < n; i++)
		tally_expect(t, paths[i], lstat(paths[i], &st) < 0 ? -errno : 0, ENOENT);
}

/* PS-10: no sysfs. */
static int ps_10(int argc, char **argv, char *detail, size_t n)
{
	static const char *const paths[] = {
		"/sys",
		"/sys/firmware",
		"/sys/kernel/security",
		"/sys/fs/cgroup",
		"/sys/devices/virtual/powercap",
		"/sys/kernel/debug",
		"/sys/module",
	};
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	expect_absent(&t, paths, N_OF(paths));
	return tally_result(&t);
}

/* PS-11: no second procfs, nor any other filesystem. */
static int ps_11(int argc, char **argv, char *detail, size_t n)
{
	static const char *const types[] = { "proc",    "sysfs",   "cgroup",      "cgroup2",
		                             "debugfs", "tracefs", "bpf",         "mqueue",
		                             "tmpfs",   "devpts",  "overlay",     "ramfs",
		                             "fuse",    "nsfs",    "binfmt_misc", "ext4",
		                             "pstore",  "configfs" };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	(void)RAW(SYS_mkdirat, AT_FDCWD, "ps-11", 0755);
	for (size_t i = 0; i < N_OF(types); i++) {
		tally_expect(&t, types[i], RAW(SYS_mount, "none", "ps-11", types[i], 0, NULL),
		             EPERM, ENOSYS, EACCES);
		tally_expect(&t, "fsopen", RAW(430 /* fsopen */, types[i], 0), EPERM, ENOSYS);
	}
	tally_expect(&t, "open_tree", RAW(428 /* open_tree */, AT_FDCWD, "/", 1 /* clone */), EPERM,
	             ENOSYS);
	return tally_result(&t);
}

/* PS-12: exactly these in /dev, and the nodes are what they say. */
static int ps_12(int argc, char **argv, char *detail, size_t n)
{
	static const struct {
		const char *name;
		mode_t type;
		unsigned major, minor;
	} nodes[] = {
		{ "null", S_IFCHR, 1, 3 },    { "zero", S_IFCHR, 1, 5 },
		{ "full", S_IFCHR, 1, 7 },    { "random", S_IFCHR, 1, 8 },
		{ "urandom", S_IFCHR, 1, 9 }, { "tty", S_IFCHR, 5, 0 },
		{ "ptmx", 0, 0, 0 },          { "pts", S_IFDIR, 0, 0 },
		{ "shm", S_IFDIR, 0, 0 },     { "fd", S_IFLNK, 0, 0 },
		{ "stdin", S_IFLNK, 0, 0 },   { "stdout", S_IFLNK, 0, 0 },
		{ "stderr", S_IFLNK, 0, 0 },
	};
	struct tally t;
	struct dirent *e;
	DIR *d = opendir("/dev");

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (!d)
		return PROBE_ERROR;
	while ((e = readdir(d))) {
		bool known = e->d_name[0] == '.';

		for (size_t i = 0; i < N_OF(nodes); i++)
			known = known || strcmp(nodes[i].name, e->d_name) == 0;
		if (!known)
			tally_escaped(&t, "/dev/%s is there", e->d_name);
	}
	closedir(d);
	for (size_t i = 0; i < N_OF(nodes); i++) {
		char path[64];
		struct stat st;

		snprintf(path, sizeof(path), "/dev/%s", nodes[i].name);
		t.attempts++;
		if (lstat(path, &st) < 0)
			tally_error(&t, "%s: %s", path, errno_name(errno));
		else if (nodes[i].type && (st.st_mode & S_IFMT) != nodes[i].type)
			tally_error(&t, "%s has type %o", path, st.st_mode & S_IFMT);
		else if (nodes[i].type == S_IFCHR &&
		         st.st_rdev != makedev(nodes[i].major, nodes[i].minor))
			tally_escaped(&t, "%s is another device", path);
	}
	return tally_result(&t);
}

/* PS-13: no other devices. */
static int ps_13(int argc, char **argv, char *detail, size_t n)
{
	static const char *const paths[] = {
		"/dev/mem",
		"/dev/kmem",
		"/dev/port",
		"/dev/kvm",
		"/dev/fuse",
		"/dev/net",
		"/dev/net/tun",
		"/dev/loop0",
		"/dev/loop-control",
		"/dev/sda",
		"/dev/vda",
		"/dev/nvme0n1",
		"/dev/dri",
		"/dev/uinput",
		"/dev/userfaultfd",
		"/dev/console",
		"/dev/kmsg",
		"/dev/mapper",
		"/dev/vhost-net",
		"/dev/vhost-vsock",
		"/dev/vsock",
		"/dev/hpet",
		"/dev/rtc0",
		"/dev/tty0",
		"/dev/tty1",
		"/dev/ttyS0",
		"/dev/vcs",
		"/dev/snd",
		"/dev/input",
		"/dev/hugepages",
		"/dev/mqueue",
		"/dev/autofs",
		"/dev/btrfs-control",
		"/dev/zram0",
		"/dev/ppp",
		"/dev/snapshot",
		"/dev/cpu_dma_latency",
		"/dev/core",
	};
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	expect_absent(&t, paths, N_OF(paths));
	return tally_result(&t);
}

/* PS-14 [own]: no injection into terminals, neither stdio's nor (own) one's own; also with bits in
 * the upper half of the request, which the kernel ignores. */

static void inject(struct tally *t, int fd, const char *where)
{
	static const struct {
		const char *name;
		unsigned long request;
	} ioctls[] = {
		{ "TIOCSTI", TIOCSTI },    { "TIOCLINUX", TIOCLINUX }, { "TIOCSCTTY", TIOCSCTTY },
		{ "TIOCCONS", TIOCCONS },  { "KDSKBENT", KDSKBENT },   { "TIOCSETD", TIOCSETD },
		{ "TIOCVHANGUP", 0x5437 },
	};
	char arg[64] = { 2 };

	for (size_t i = 0; i < N_OF(ioctls); i++) {
		char label[64];

		snprintf(label, sizeof(label), "%s on %s", ioctls[i].name, where);
		tally_expect(t, label, RAW(SYS_ioctl, fd, ioctls[i].request, arg), EPERM, ENOTTY);
		tally_expect(t, label, RAW(SYS_ioctl, fd, ioctls[i].request | 1UL << 32, arg),
		             EPERM, ENOTTY);
		tally_expect(t, label,
		             RAW(SYS_ioctl, fd, ioctls[i].request | 0xffffffffUL << 32, arg), EPERM,
		             ENOTTY);
	}
}

static int own_terminal(void)
{
	int zero = 0, number, master = try_open("/dev/ptmx", O_RDWR | O_NOCTTY);
	char path[32];

	if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) < 0 ||
	    ioctl(master, TIOCGPTN, &number) < 0)
		return -1;
	snprintf(path, sizeof(path), "/dev/pts/%d", number);
	return try_open(path, O_RDWR | O_NOCTTY);
}

static long sti_on_own(void *arg)
{
	int fd;
	char c = '\n';

	(void)setsid();
	fd = own_terminal();
	if (fd < 0)
		return -ENXIO;
	(void)ioctl(fd, TIOCSCTTY, 0);
	return RAW(SYS_ioctl, fd, TIOCSTI | *(unsigned long *)arg, &c);
}

static int ps_14(int argc, char **argv, char *detail, size_t n)
{
	static unsigned long high[] = { 0, 1UL << 32, 0xdeadbeefUL << 32 };
	struct tally t;
	int sig;

	tally_init(&t, detail, n);
	for (size_t i = 0; i < N_OF(high); i++)
		tally_expect(&t, "TIOCSTI on a terminal of its own",
		             in_child(sti_on_own, &high[i], &sig), EPERM, EIO);
	if (argc > 0 && strcmp(argv[0], "own") == 0)
		return tally_result(&t);
	inject(&t, 0, "stdin");
	inject(&t, 1, "stdout");
	inject(&t, 2, "stderr");
	return tally_result(&t);
}

/* PS-15: stdio opened anew is still a pipe or socket. */
static int ps_15(int argc, char **argv, char *detail, size_t n)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (int fd = 0; fd < 3; fd++) {
		for (size_t i = 0; i < N_OF(modes); i++) {
			char path[32];
			struct stat st;
			int new;

			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			new = try_open(path, modes[i] | O_NONBLOCK);
			t.attempts++;
			if (new < 0)
				continue;
			if (fstat(new, &st) < 0 || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)))
				tally_escaped(&t, "fd %d leads to a file of type %o", fd,
				              st.st_mode & S_IFMT);
			if (lseek(new, 0, SEEK_CUR) >= 0)
				tally_escaped(&t, "fd %d can be sought", fd);
			close(new);
		}
	}
	return tally_result(&t);
}

/* PS-16 NUMBER: /dev/pts is the box's own; terminal NUMBER belongs to the host. */
static int ps_16(int argc, char **argv, char *detail, size_t n)
{
	int number = -1, master;
	char path[32];
	struct tally t;

	tally_init(&t, detail, n);
	if (argc < 1)
		return PROBE_ERROR;
	snprintf(path, sizeof(path), "/dev/pts/%s", argv[0]);
	tally_expect(&t, path, try_open(path, O_RDWR | O_NOCTTY), ENOENT);
	master = try_open("/dev/ptmx", O_RDWR | O_NOCTTY);
	if (master < 0 || ioctl(master, TIOCGPTN, &number) < 0)
		tally_error(&t, "/dev/ptmx: %s", errno_name(master < 0 ? -master : errno));
	else if (number != 0)
		tally_escaped(&t, "terminals before the box's first: it is number %d", number);
	return tally_result(&t);
}

/* PS-17: dies by a signal that dumps core (no verdict), after reporting the limit. */
static int ps_17(int argc, char **argv, char *detail, size_t n)
{
	(void)argc, (void)argv, (void)detail, (void)n;
	printf("core limit %lld\n", core_limit());
	fflush(stdout);
	raise(SIGSEGV);
	*(volatile int *)0 = 1;
	return PROBE_ERROR;
}

/* PS-18: namespaces cannot be climbed or entered. */
static int ps_18(int argc, char **argv, char *detail, size_t n)
{
	static const char *const names[] = { "cgroup", "ipc",  "mnt",  "net",
		                             "pid",    "time", "user", "uts" };
	struct stat own = { 0 }, owner;
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	(void)stat("/proc/self/ns/user", &own);
	for (size_t i = 0; i < N_OF(names); i++) {
		char path[64];
		long r;
		int fd;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		fd = try_open(path, O_RDONLY);
		t.attempts++;
		if (fd < 0)
			continue;
		tally_expect(&t, path, RAW(SYS_setns, fd, 0), EPERM, ENOSYS, EINVAL);
		r = RAW(SYS_ioctl, fd, NS_GET_PARENT, 0);
		tally_expect(&t, "NS_GET_PARENT", r, EPERM, EINVAL, ENOTTY, EACCES);
		r = RAW(SYS_ioctl, fd, NS_GET_USERNS, 0);
		if (r >= 0 && (fstat((int)r, &owner) < 0 || owner.st_ino != own.st_ino))
			tally_escaped(&t, "NS_GET_USERNS of %s gave another user namespace",
			              names[i]);
		(void)RAW(SYS_close, fd);
	}
	return tally_result(&t);
}

const struct probe probes_ps[] = {
	{ "PS-01", ps_01 }, { "PS-02", ps_02 }, { "PS-03", ps_03 }, { "PS-04", ps_04 },
	{ "PS-05", ps_05 }, { "PS-06", ps_06 }, { "PS-07", ps_07 }, { "PS-08", ps_08 },
	{ "PS-10", ps_10 }, { "PS-11", ps_11 }, { "PS-12", ps_12 }, { "PS-13", ps_13 },
	{ "PS-14", ps_14 }, { "PS-15", ps_15 }, { "PS-16", ps_16 }, { "PS-17", ps_17 },
	{ "PS-18", ps_18 }, { NULL, NULL },
};
