/* SPDX-License-Identifier: Apache-2.0 */
/* NS: namespaces and the mount API. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif
#define NEW_TIME 0x80L

/* One system call, to be made in a child. */
struct call {
	long nr;
	long arg[6];
};

static long do_call(void *p)
{
	const struct call *c = p;
	long r = raw_syscall(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3], c->arg[4],
	                     c->arg[5]);

	if (r == 0 && (c->nr == SYS_clone || c->nr == SYS_clone3))
		_exit(0);
	if (r > 0 && (c->nr == SYS_clone || c->nr == SYS_clone3))
		(void)waitpid((pid_t)r, NULL, __WALL);
	return r;
}

/* Death by SIGSYS is a block like any other. */
static void attempt_list(struct tally *t, const char *what, long (*fn)(void *), void *arg,
                         const int *errnos)
{
	int sig;
	long r = in_child(fn, arg, &sig);

	if (sig == SIGSYS)
		t->attempts++;
	else if (sig)
		tally_error(t, "%s: killed by signal %d", what, sig);
	else
		tally_expect_list(t, what, r, errnos);
}

#define attempt(t, what, fn, arg, ...)                                                             \
	attempt_list((t), (what), (fn), (arg), (const int[]){ __VA_ARGS__, 0 })

static const struct {
	const char *name;
	long flag;
} kinds[] = {
	{ "mnt", 0x00020000 }, { "cgroup", 0x02000000 }, { "uts", 0x04000000 },
	{ "ipc", 0x08000000 }, { "user", 0x10000000 },   { "pid", 0x20000000 },
	{ "net", 0x40000000 }, { "time", NEW_TIME },
};

#define N_KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define NEW_USER 0x10000000L
#define NEW_ALL  0x7e020000L

/* ns_01 user:[4026531837] mnt:[4026531841] …: what the host has. */
static int ns_01(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++) {
		char path[64], link[64] = "";
		size_t len = strcspn(argv[i], ":");

		snprintf(path, sizeof(path), "/proc/self/ns/%.*s", (int)len, argv[i]);
		if (readlink(path, link, sizeof(link) - 1) < 0) {
			tally_error(&t, "%s: %s", path, errno_name(errno));
			continue;
		}
		if (strcmp(link, argv[i]) == 0)
			tally_escaped(&t, "shared %s", link);
		else
			t.attempts++;
	}
	return tally_result(&t);
}

static void try_flags(struct tally *t, long flags, unsigned *left)
{
	struct call un = { SYS_unshare, { flags } };
	struct call cl = { SYS_clone, { (flags & ~NEW_TIME) | SIGCHLD } };
	uint64_t args[8] = { (uint64_t)flags, 0, 0, 0, SIGCHLD };
	struct call cl3 = { SYS_clone3, { (long)args, sizeof(args) } };
	char what[64];

	if (*left == 0)
		return; /* enough said */
	if (t->result == PROBE_ESCAPED)
		(*left)--;
	snprintf(what, sizeof(what), "unshare(%#lx)", flags);
	attempt(t, what, do_call, &un, EPERM, ENOSPC);
	if (flags != NEW_TIME) {
		snprintf(what, sizeof(what), "clone(%#lx)", flags);
		attempt(t, what, do_call, &cl, EPERM, ENOSPC);
	}
	snprintf(what, sizeof(what), "clone3(%#lx)", flags);
	attempt(t, what, do_call, &cl3, ENOSYS, EPERM, ENOSPC);
}

static int ns_02(int argc, char **argv, char *detail, size_t n)
{
	unsigned left = 4;
	struct tally t;
	int sig;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < N_KINDS; i++) {
		try_flags(&t, kinds[i].flag, &left);
		if (kinds[i].flag != NEW_USER)
			try_flags(&t, kinds[i].flag | NEW_USER, &left);
	}
	try_flags(&t, NEW_ALL, &left);
	try_flags(&t, NEW_ALL & ~NEW_USER, &left);
	{
		uint64_t args[8] = { 0, 0, 0, 0, SIGCHLD };
		struct call un = { SYS_unshare, { 0x10000000 } };
		struct call plain = { SYS_clone3, { (long)args, sizeof(args) } };

		tally_note(&t, "unshare=%s", errno_name((int)-in_child(do_call, &un, &sig)));
		tally_note(&t, "clone3=%s", errno_name((int)-in_child(do_call, &plain, &sig)));
	}
	return tally_result(&t);
}

static int ns_03(int argc, char **argv, char *detail, size_t n)
{
	static const char *const whose[] = { "self", "1" };
	pid_t pids[] = { getpid(), getppid(), 1 };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t w = 0; w < 2; w++) {
		for (size_t i = 0; i < N_KINDS; i++) {
			struct call c = { SYS_setns, { 0 } };
			char path[64];
			int fd;

			snprintf(path, sizeof(path), "/proc/%s/ns/%s", whose[w], kinds[i].name);
			fd = try_open(path, O_RDONLY);
			if (fd < 0) {
				if (w == 0)
					tally_error(&t, "%s: %s", path, errno_name(-fd));
				else
					t.attempts++; /* somebody else's: hidden is fine */
				continue;
			}
			c.arg[0] = fd;
			attempt(&t, path, do_call, &c, EPERM, EINVAL, EUSERS);
			c.arg[1] = kinds[i].flag;
			attempt(&t, path, do_call, &c, EPERM, EINVAL, EUSERS);
			close(fd);
		}
	}
	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
		struct call c = { SYS_setns, { 0 } };
		long fd = RAW(SYS_pidfd_open, pids[i], 0);

		if (fd < 0)
			continue;
		for (size_t k = 0; k < N_KINDS; k++) {
			c.arg[0] = fd;
			c.arg[1] = kinds[k].flag;
			attempt(&t, "setns(pidfd)", do_call, &c, EPERM, EINVAL, EUSERS);
		}
		close((int)fd);
	}
	return tally_result(&t);
}

/* A mount namespace of our own where we may have one, so that outside of a box nothing is left. */
static void own_mounts(void)
{
	if (RAW(SYS_unshare, 0x00020000) == 0)
		(void)RAW(SYS_mount, "none", "/", 0, 0x44000 /* rec, private */, 0);
}

static char mount_dir[64];

static long mount_tmpfs(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, "tmpfs", mount_dir, "tmpfs", 0, 0);
}

static long mount_proc(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, "proc", mount_dir, "proc", 0, 0);
}

static long mount_bind(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, "/usr", mount_dir, 0, 0x1000 /* bind */, 0);
}

static long mount_remount(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, 0, "/", 0, 0x1020 /* bind, remount: all flags off */, 0);
}

static long mount_remount_usr(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, 0, "/usr", 0, 0x1020, 0);
}

static long mount_propagate(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, 0, "/", 0, 0x104000 /* shared, rec */, 0);
}

static long umount_proc(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_umount2, "/proc", 2 /* detach */);
}

static long umount_root(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_umount2, "/", 2);
}

static long do_pivot(void *p)
{
	(void)p;
	own_mounts();
	if (chdir("/") < 0)
		return -errno;
	return RAW(SYS_pivot_root, ".", ".");
}

static long do_chroot(void *p)
{
	(void)p;
	return RAW(SYS_chroot, "/");
}

static long tree_clone(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_open_tree, AT_FDCWD, "/usr", 1 /* clone */);
}

static long tree_clone_attr(void *p)
{
	uint64_t attr[4] = { 0 };

	(void)p;
	own_mounts();
	return RAW(SYS_open_tree_attr, AT_FDCWD, "/usr", 1, attr, sizeof(attr));
}

static long move_root(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_move_mount, AT_FDCWD, "/proc", AT_FDCWD, mount_dir, 0);
}

static long new_fs(void *p)
{
	long fd, m;

	(void)p;
	own_mounts();
	fd = RAW(SYS_fsopen, "tmpfs", 0);
	if (fd < 0)
		return fd;
	m = RAW(SYS_fsconfig, fd, 6 /* create */, 0, 0, 0);
	if (m < 0)
		return m;
	return RAW(SYS_fsmount, fd, 0, 0);
}

static long pick_fs(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_fspick, AT_FDCWD, "/", 0);
}

static long set_attr(void *p)
{
	uint64_t attr[4] = { 0, 1 | 2 | 4 /* clear ro, nosuid, nodev */ };

	(void)p;
	own_mounts();
	return RAW(SYS_mount_setattr, AT_FDCWD, "/", 0x8000 /* recursive */, attr, sizeof(attr));
}

static const struct {
	const char *name;
	long (*fn)(void *);
} mount_calls[] = {
	{ "mount(tmpfs)", mount_tmpfs },
	{ "mount(proc)", mount_proc },
	{ "mount(bind)", mount_bind },
	{ "remount /", mount_remount },
	{ "remount /usr", mount_remount_usr },
	{ "mount(shared)", mount_propagate },
	{ "umount2 /proc", umount_proc },
	{ "umount2 /", umount_root },
	{ "pivot_root", do_pivot },
	{ "chroot", do_chroot },
	{ "open_tree", tree_clone },
	{ "open_tree_attr", tree_clone_attr },
	{ "move_mount", move_root },
	{ "fsopen", new_fs },
	{ "fspick", pick_fs },
	{ "mount_setattr", set_attr },
};

/* EINVAL: what a locked mount answers. ENOSYS: an older kernel. */
static int ns_04(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	uint64_t req[4] = { 24, ~0ULL }, ids[4];
	int sig;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	snprintf(mount_dir, sizeof(mount_dir), "/tmp/probe-ns-%d", (int)getpid());
	if (mkdir(mount_dir, 0755) < 0) {
		tally_error(&t, "mkdir %s: %s", mount_dir, errno_name(errno));
		return tally_result(&t);
	}
	for (size_t i = 0; i < sizeof(mount_calls) / sizeof(mount_calls[0]); i++) {
		long r;

		attempt(&t, mount_calls[i].name, mount_calls[i].fn, NULL, EPERM, EINVAL, ENOSYS);
		r = in_child(mount_calls[i].fn, NULL, &sig);
		tally_note(&t, "%s=%s", mount_calls[i].name, r >= 0 ? "ok" : errno_name((int)-r));
	}
	tally_note(&t, "statmount=%s",
	           errno_name((int)-RAW(SYS_statmount, req, ids, sizeof(ids), 0)));
	tally_note(&t, "listmount=%s", errno_name((int)-RAW(SYS_listmount, req, ids, 4, 0)));
	rmdir(mount_dir);
	return tally_result(&t);
}

/*
 * The limits seen here are those of the innermost user namespace; one further out may be tighter.
 * What counts is that no namespace comes of asking.
 */
static int ns_07(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	int sig;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < N_KINDS; i++) {
		struct call un = { SYS_unshare, { kinds[i].flag | NEW_USER } };
		char path[64], value[32] = "";
		ssize_t r;

		snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", kinds[i].name);
		r = try_read(path, value, sizeof(value));
		if (r < 0)
			tally_error(&t, "%s: %s", path, errno_name((int)-r));
		/* The same value again: who may do that may raise it. */
		if (r > 0 && try_write(path, value, (size_t)r) >= 0)
			tally_escaped(&t, "%s can be written", path);
		attempt(&t, path, do_call, &un, EPERM, ENOSPC);
		tally_note(&t, "%s=%.*s", kinds[i].name, (int)strcspn(value, "\n"), value);
	}
	{
		struct call un = { SYS_unshare, { NEW_USER } };

		tally_note(&t, "unshare=%s", errno_name((int)-in_child(do_call, &un, &sig)));
	}
	return tally_result(&t);
}

/* ns_08 PID [all]: a process of the host that must survive; "all" also signals everybody. */
static int ns_08(int argc, char **argv, char *detail, size_t n)
{
	struct call c;
	struct tally t;
	char info[128] = { 0 };
	long pid;

	tally_init(&t, detail, n);
	if (argc < 1) {
		tally_error(&t, "no pid given");
		return tally_result(&t);
	}
	pid = strtol(argv[0], NULL, 10);
	c = (struct call){ SYS_pidfd_open, { pid } };
	attempt(&t, "pidfd_open", do_call, &c, ESRCH, EPERM);
	c = (struct call){ SYS_kill, { -pid, 0 } };
	attempt(&t, "kill(-pgrp, 0)", do_call, &c, ESRCH, EPERM);
	c = (struct call){ SYS_tgkill, { pid, pid, 0 } };
	attempt(&t, "tgkill", do_call, &c, ESRCH, EPERM);
	info[8] = -1; /* si_code SI_QUEUE */
	memset(info + 8, 0xff, 4);
	c = (struct call){ SYS_rt_sigqueueinfo, { pid, SIGURG, (long)info } };
	attempt(&t, "rt_sigqueueinfo", do_call, &c, ESRCH, EPERM);
	c = (struct call){ SYS_kill, { pid, SIGTERM } };
	attempt(&t, "kill", do_call, &c, ESRCH, EPERM);
	if (argc > 1 && strcmp(argv[1], "all") == 0) {
		/* SIGURG: ignored unless somebody waits for it, as the canary does. */
		(void)RAW(SYS_kill, -1, SIGURG);
		(void)RAW(SYS_kill, 0, SIGURG);
		for (long p = 2; p < 70000; p++)
			if (p != getpid() && p != getppid())
				(void)RAW(SYS_kill, p, SIGURG);
	}
	return tally_result(&t);
}

/* ns_09 KEY MQNAME: System V objects and a POSIX queue of the host. */
static int ns_09(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	long key;

	tally_init(&t, detail, n);
	if (argc < 2) {
		tally_error(&t, "no key given");
		return tally_result(&t);
	}
	key = strtol(argv[0], NULL, 0);
	tally_expect(&t, "shmget", RAW(SYS_shmget, key, 0, 0), ENOSYS, ENOENT);
	tally_expect(&t, "semget", RAW(SYS_semget, key, 0, 0), ENOSYS, ENOENT);
	tally_expect(&t, "msgget", RAW(SYS_msgget, key, 0), ENOSYS, ENOENT);
	tally_expect(&t, "mq_open", RAW(SYS_mq_open, argv[1], O_RDONLY, 0, 0), ENOSYS, ENOENT);
	tally_note(&t, "shmget=%s", errno_name((int)-RAW(SYS_shmget, key, 0, 0)));
	return tally_result(&t);
}

static int ns_10(int argc, char **argv, char *detail, size_t n)
{
	struct utsname u;
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (uname(&u) < 0) {
		tally_error(&t, "uname: %s", errno_name(errno));
		return tally_result(&t);
	}
	/* The present name, so that nothing changes where this is allowed. */
	tally_expect(&t, "sethostname", RAW(SYS_sethostname, u.nodename, strlen(u.nodename)),
	             EPERM);
	tally_expect(&t, "setdomainname",
	             RAW(SYS_setdomainname, u.domainname, strlen(u.domainname)), EPERM);
	tally_note(&t, "nodename=%s", u.nodename);
	return tally_result(&t);
}

static long mount_cgroup2(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, "cgroup2", mount_dir, "cgroup2", 0, 0);
}

static long mount_cgroup1(void *p)
{
	(void)p;
	own_mounts();
	return RAW(SYS_mount, "cgroup", mount_dir, "cgroup", 0, "none,name=brigprobe");
}

static int ns_11(int argc, char **argv, char *detail, size_t n)
{
	static const char *const files[] = {
		"/sys/fs/cgroup",
		"/sys/fs/cgroup/release_agent",
		"/sys/fs/cgroup/memory/release_agent",
		"/sys/fs/cgroup/cgroup.procs",
		"/sys/fs/cgroup/pids/cgroup.procs",
		"/sys/fs/cgroup/unified/cgroup.procs",
	};
	static char info[65536];
	struct tally t;
	ssize_t r;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct stat st;

		if (stat(files[i], &st) == 0)
			tally_escaped(&t, "%s exists", files[i]);
		else
			t.attempts++;
	}
	r = try_read("/proc/self/mountinfo", info, sizeof(info));
	if (r < 0)
		tally_error(&t, "mountinfo: %s", errno_name((int)-r));
	else if (strstr(info, " - cgroup"))
		tally_escaped(&t, "a cgroup file system is mounted");
	r = try_read("/proc/self/cgroup", info, sizeof(info));
	if (r > 0) {
		/* Seen through the namespace every path is its root. */
		for (char *l = strtok(info, "\n"); l; l = strtok(NULL, "\n")) {
			char *path = strrchr(l, ':');

			if (!path || strcmp(path, ":/") != 0)
				tally_escaped(&t, "cgroup path %s", l);
		}
	}
	snprintf(mount_dir, sizeof(mount_dir), "/tmp/probe-cg-%d", (int)getpid());
	if (mkdir(mount_dir, 0755) < 0) {
		tally_error(&t, "mkdir %s: %s", mount_dir, errno_name(errno));
		return tally_result(&t);
	}
	attempt(&t, "mount(cgroup2)", mount_cgroup2, NULL, EPERM);
	attempt(&t, "mount(cgroup)", mount_cgroup1, NULL, EPERM);
	rmdir(mount_dir);
	return tally_result(&t);
}

static long write_offsets(void *p)
{
	ssize_t r;

	(void)p;
	(void)RAW(SYS_unshare, NEW_TIME);
	r = try_write("/proc/self/timens_offsets", "monotonic 1 0\n", 14);
	return r;
}

static int ns_13(int argc, char **argv, char *detail, size_t n)
{
	struct timespec bad = { .tv_sec = 1, .tv_nsec = -1 };
	struct timex tx = { 0 };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	/* Writes back what it read: privileged, and without effect. */
	if (adjtimex(&tx) < 0)
		memset(&tx, 0, sizeof(tx));
	tx.modes = ADJ_STATUS;
	tally_expect(&t, "adjtimex", RAW(SYS_adjtimex, &tx), EPERM);
	tally_expect(&t, "clock_adjtime", RAW(SYS_clock_adjtime, CLOCK_REALTIME, &tx), EPERM);
	/* EINVAL: checked before the capability, hence also the answer without a filter. */
	tally_expect(&t, "clock_settime", RAW(SYS_clock_settime, CLOCK_REALTIME, &bad), EPERM,
	             EINVAL);
	tally_expect(&t, "settimeofday", RAW(SYS_settimeofday, &bad, 0), EPERM, EINVAL);
	attempt(&t, "timens_offsets", write_offsets, NULL, EPERM, EACCES, EROFS, ENOENT, EINVAL);
	tally_note(&t, "clock_settime=%s",
	           errno_name((int)-RAW(SYS_clock_settime, CLOCK_REALTIME, &bad)));
	return tally_result(&t);
}

/* Descriptors that lead out: a namespace, a process, a directory, a socket to receive one by. */
static int ns_14(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	struct dirent *e;
	DIR *d;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	d = opendir("/proc/self/fd");
	if (!d) {
		tally_error(&t, "/proc/self/fd: %s", errno_name(errno));
		return tally_result(&t);
	}
	while ((e = readdir(d))) {
		char link[256] = "";
		struct stat st;
		int fd;

		if (e->d_name[0] == '.')
			continue;
		fd = (int)strtol(e->d_name, NULL, 10);
		if (fd == dirfd(d))
			continue;
		t.attempts++;
		if (readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1) < 0)
			continue;
		for (size_t i = 0; i < N_KINDS; i++) {
			size_t len = strlen(kinds[i].name);

			if (strncmp(link, kinds[i].name, len) == 0 && link[len] == ':' &&
			    link[len + 1] == '[')
				tally_escaped(&t, "fd %d is %s", fd, link);
		}
		if (strstr(link, "pidfd"))
			tally_escaped(&t, "fd %d is %s", fd, link);
		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
			tally_escaped(&t, "fd %d is a directory", fd);
		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
			tally_escaped(&t, "fd %d is a socket", fd);
		if (fd > 2)
			tally_escaped(&t, "fd %d is open: %s", fd, link);
	}
	closedir(d);
	for (pid_t pid = 1; pid < 4; pid++) {
		long p = pid == getpid() ? -ESRCH : RAW(SYS_pidfd_open, pid, 0);

		if (p < 0)
			continue;
		for (int fd = 0; fd < 16; fd++) {
			long r = RAW(SYS_pidfd_getfd, p, fd, 0);

			if (r >= 0 && pid == 1)
				tally_escaped(&t, "fd %d of process 1 taken", fd);
			if (r >= 0)
				close((int)r);
		}
		close((int)p);
	}
	return tally_result(&t);
}

const struct probe probes_ns[] = {
	{ "NS-01", ns_01 }, { "NS-02", ns_02 }, { "NS-03", ns_03 }, { "NS-04", ns_04 },
	{ "NS-05", ns_04 }, /* the same attempts, with layers taken away by the test */
	{ "NS-06", ns_04 }, { "NS-07", ns_07 }, { "NS-08", ns_08 }, { "NS-09", ns_09 },
	{ "NS-10", ns_10 }, { "NS-11", ns_11 }, { "NS-12", ns_02 }, /* what a nested sandbox would
	                                                               begin with */
	{ "NS-13", ns_13 }, { "NS-14", ns_14 }, { NULL, NULL },
};
