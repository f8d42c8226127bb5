/* SPDX-License-Identifier: Apache-2.0 */
/* FS: what the code sees and can do in its filesystem. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/fanotify.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define TEXT_SIZE   4096
#define WALK_MAX    400000
#define CLIMB_STEPS 64
#define SETID_BITS  (S_ISUID | S_ISGID)

static const char *joined(const char *dir, const char *name)
{
	static char ring[4][PATH_MAX];
	static unsigned at;
	char *p = ring[at++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", dir, name);
	return p;
}

/* FS-01 CANARY ROOT_DEV NAME...: nothing in / but NAMEs, CANARY nowhere, and no mount of the whole
 * filesystem ROOT_DEV (major:minor) of the host's root. */

static const char *walk_needle;
static char walk_found[PATH_MAX];
static unsigned walk_count;

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	if (type == FTW_D && (strcmp(path, "/proc") == 0 || strcmp(path, "/sys") == 0))
		return 0;
	if (strcmp(path + ftw->base, walk_needle) == 0) {
		snprintf(walk_found, sizeof(walk_found), "%s", path);
		return 1;
	}
	return ++walk_count > WALK_MAX;
}

static bool is_one_of(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return false;
}

static bool has_whole_mount(const char *dev)
{
	char line[TEXT_SIZE], id[32], root[PATH_MAX];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d %*d %31s %4095s", id, root) == 2 && strcmp(id, dev) == 0 &&
		    strcmp(root, "/") == 0)
			found = true;
	if (f)
		fclose(f);
	return found;
}

static int fs_01(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	struct dirent *e;
	DIR *d;

	tally_init(&t, detail, n);
	if (argc < 3)
		return PROBE_ERROR;
	d = opendir("/");
	if (!d)
		return PROBE_ERROR;
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (!is_one_of(e->d_name, argc - 2, argv + 2))
			tally_escaped(&t, "/%s is there", e->d_name);
	}
	closedir(d);
	if (has_whole_mount(argv[1]))
		tally_escaped(&t, "the host's root %s is mounted", argv[1]);
	if (t.result == PROBE_ESCAPED)
		return tally_result(&t);

	walk_needle = argv[0];
	if (nftw("/", walk_one, 64, FTW_PHYS) < 0)
		tally_error(&t, "walk: %s", errno_name(errno));
	if (walk_found[0])
		tally_escaped(&t, "%s is there", walk_found);
	if (walk_count > WALK_MAX)
		tally_error(&t, "the tree has no end");
	t.attempts++;
	tally_note(&t, "%u entries", walk_count);
	return tally_result(&t);
}

/* FS-02 PATH...: none may exist. */
static int fs_02(int argc, char **argv, char *detail, size_t n)
{
	static const char *const paths[] = {
		"/etc/shadow",
		"/etc/gshadow",
		"/root",
		"/root/.ssh",
		"/home",
		"/var",
		"/run",
		"/srv",
		"/opt",
		"/mnt",
		"/media",
		"/boot",
		"/sys",
		"/etc/ssh",
		"/var/run/docker.sock",
		"/run/docker.sock",
		"/etc/machine-id",
		"/oldroot",
		"/.dockerenv",
		"/lost+found",
	};
	struct tally t;

	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		tally_expect(&t, paths[i], try_open(paths[i], O_RDONLY | O_NONBLOCK), ENOENT);
	for (int i = 0; i < argc; i++)
		tally_expect(&t, argv[i], try_open(argv[i], O_RDONLY | O_NONBLOCK), ENOENT);
	return tally_result(&t);
}

/* FS-03 DIR:FILE...: neither may be changed. FILE is below DIR; "gentle" ones (with a leading '-')
 * are only opened and chmod'ed to what they are, in case the attack succeeds. */

static void change(struct tally *t, const char *dir, const char *file, bool gentle)
{
	const char *new = joined(dir, "fs-03-new");
	struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
	struct stat st = { .st_mode = 0644 };
	long r;

#define REFUSED(what, call)                                                                        \
	do {                                                                                       \
		char label[256];                                                                   \
		snprintf(label, sizeof(label), "%s in %s", (what), dir);                           \
		r = (call);                                                                        \
		tally_expect(t, label, r, EROFS, EACCES, EPERM, EXDEV);                            \
	} while (0)

	REFUSED("create", try_create(new, 0644, "x"));
	(void)RAW(SYS_unlink, new);
	REFUSED("mkdir", RAW(SYS_mkdirat, AT_FDCWD, new, 0755));
	(void)RAW(SYS_rmdir, new);
	REFUSED("symlink", RAW(SYS_symlinkat, "/", AT_FDCWD, new));
	(void)RAW(SYS_unlink, new);
	REFUSED("link", RAW(SYS_linkat, AT_FDCWD, file, AT_FDCWD, new, 0));
	(void)RAW(SYS_unlink, new);
	REFUSED("open for writing", try_open(file, O_WRONLY));
	REFUSED("open for appending", try_open(file, O_RDWR | O_APPEND));
	(void)stat(file, &st);
	REFUSED("chmod", RAW(SYS_fchmodat, AT_FDCWD, file, st.st_mode & 07777));
	REFUSED("utimes", RAW(SYS_utimensat, AT_FDCWD, file, now, 0));
	if (gentle)
		return;
	REFUSED("truncate", RAW(SYS_truncate, file, 0));
	REFUSED("chown", RAW(SYS_fchownat, AT_FDCWD, file, -1, -1, 0));
	REFUSED("open with O_TRUNC", try_open(file, O_WRONLY | O_TRUNC));
	REFUSED("rename", RAW(SYS_renameat2, AT_FDCWD, file, AT_FDCWD, new, 0));
	REFUSED("unlink", RAW(SYS_unlinkat, AT_FDCWD, file, 0));
#undef REFUSED
}

static int fs_03(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++) {
		bool gentle = argv[i][0] == '-';
		char *dir = argv[i] + gentle, *file = strchr(dir, ':');

		if (!file)
			return PROBE_ERROR;
		*file++ = '\0';
		change(&t, dir, file, gentle);
	}
	return tally_result(&t);
}

/* FS-04 DIR...: no way to a file with setuid, setgid or file capabilities. */

static void setid_result(struct tally *t, const char *what, const char *path, long r)
{
	struct stat st;

	if (lstat(path, &st) == 0 && (st.st_mode & SETID_BITS) && !S_ISDIR(st.st_mode))
		tally_escaped(t, "%s made %s with mode %o", what, path, st.st_mode & 07777);
	else if (r >= 0) /* the kernel took the call but dropped the bits */
		tally_note(t, "%s: bits dropped", what);
	else
		tally_expect(t, what, r, EPERM, EACCES, ENOSYS, EINVAL);
	t->attempts++;
	(void)unlink(path);
}

static void setid_in(struct tally *t, const char *dir)
{
	static const mode_t modes[] = { 04755, 02755, 06777 };
	static const uint32_t fcap[] = { 0x02000001, ~0u, ~0u, ~0u, ~0u };
	const char *path = joined(dir, "fs-04");
	uint64_t how[3] = { O_CREAT | O_WRONLY | O_EXCL, 0, 0 }; /* flags, mode, resolve */
	int fd;

	(void)umask(0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		mode_t m = modes[i];

		setid_result(t, "openat", path,
		             RAW(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_EXCL, m));
		setid_result(t, "open", path, RAW(SYS_open, path, O_CREAT | O_WRONLY | O_EXCL, m));
		how[1] = m;
		setid_result(t, "openat2", path,
		             RAW(SYS_openat2, AT_FDCWD, path, how, sizeof(how)));
		setid_result(t, "creat", path, RAW(SYS_creat, path, m));
		setid_result(t, "mknod", path, RAW(SYS_mknod, path, S_IFREG | m, 0));
		setid_result(t, "mknodat", path, RAW(SYS_mknodat, AT_FDCWD, path, S_IFREG | m, 0));
#define ON_FILE(what, call)                                                                        \
	do {                                                                                       \
		fd = (int)RAW(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0777);   \
		if (fd < 0)                                                                        \
			tally_error(t, "cannot make %s", path);                                    \
		setid_result(t, (what), path, (call));                                             \
		(void)RAW(SYS_close, fd);                                                          \
	} while (0)
		ON_FILE("chmod", RAW(SYS_chmod, path, m));
		ON_FILE("fchmod", RAW(SYS_fchmod, fd, m));
		ON_FILE("fchmodat", RAW(SYS_fchmodat, AT_FDCWD, path, m));
		ON_FILE("fchmodat2", RAW(SYS_fchmodat2, AT_FDCWD, path, m, 0));
		ON_FILE("fchmodat2 of an fd", RAW(SYS_fchmodat2, fd, "", m, AT_EMPTY_PATH));
		/* The upper bits of a mode argument do not count for the kernel. */
		ON_FILE("chmod with high bits", RAW(SYS_chmod, path, m | 0x100000000L));
	}
	fd = (int)RAW(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0777);
	tally_expect(t, "setxattr security.capability",
	             RAW(SYS_setxattr, path, "security.capability", fcap, sizeof(fcap), 0), EPERM,
	             EACCES, EOPNOTSUPP, ENOSYS, EINVAL);
	(void)RAW(SYS_close, fd);
	(void)unlink(path);
#undef ON_FILE
}

static int fs_04(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++)
		setid_in(&t, argv[i]);
	return tally_result(&t);
}

/* FS-05 DIR...: no device nodes. */
static int fs_05(int argc, char **argv, char *detail, size_t n)
{
	static const struct {
		const char *what;
		mode_t type;
		unsigned major, minor;
	} nodes[] = {
		{ "null", S_IFCHR, 1, 3 },
		{ "mem", S_IFCHR, 1, 1 },
		{ "loop", S_IFBLK, 7, 0 },
		{ "whiteout", S_IFCHR, 0, 0 },
	};
	struct tally t;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++) {
		const char *path = joined(argv[i], "fs-05");

		for (size_t k = 0; k < sizeof(nodes) / sizeof(nodes[0]); k++) {
			mode_t m = nodes[k].type | 0666;
			dev_t dev = makedev(nodes[k].major, nodes[k].minor);

			tally_expect(&t, nodes[k].what, RAW(SYS_mknodat, AT_FDCWD, path, m, dev),
			             EPERM, EACCES);
			(void)unlink(path);
			tally_expect(&t, nodes[k].what, RAW(SYS_mknod, path, m, dev), EPERM,
			             EACCES);
			(void)unlink(path);
		}
	}
	return tally_result(&t);
}

/* FS-06 PATH...: "/" is the top, and there is no chroot. PATHs are absolute and must not be reached
 * by climbing. */

static void climb(struct tally *t, int argc, char **argv)
{
	struct stat top, here;

	for (int i = 0; i < CLIMB_STEPS; i++)
		if (RAW(SYS_chdir, "..") < 0)
			break;
	if (stat("/", &top) < 0 || stat(".", &here) < 0) {
		tally_error(t, "stat: %s", errno_name(errno));
		return;
	}
	if (top.st_dev != here.st_dev || top.st_ino != here.st_ino)
		tally_escaped(t, "climbed above /");
	for (int i = 0; i < argc; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), ".%s", argv[i]);
		tally_expect(t, path, try_open(path, O_RDONLY), ENOENT);
		snprintf(path, sizeof(path), "/../../../..%s", argv[i]);
		tally_expect(t, path, try_open(path, O_RDONLY), ENOENT);
	}
}

static int fs_06(int argc, char **argv, char *detail, size_t n)
{
	int saved = try_open("/", O_RDONLY | O_DIRECTORY);
	struct tally t;
	long r;

	tally_init(&t, detail, n);
	(void)RAW(SYS_mkdirat, AT_FDCWD, "fs-06", 0755);
	tally_expect(&t, "chroot(..)", RAW(SYS_chroot, ".."), EPERM, ENOSYS, EACCES);
	r = RAW(SYS_chroot, "fs-06");
	tally_expect(&t, "chroot(dir)", r, EPERM, ENOSYS, EACCES);
	/* The classic way out: a directory from before the second chroot. */
	if (saved < 0 || RAW(SYS_fchdir, saved) < 0)
		tally_error(&t, "fchdir: %s", errno_name(errno));
	tally_expect(&t, "chroot(.)", RAW(SYS_chroot, "."), EPERM, ENOSYS, EACCES);
	climb(&t, argc, argv);
	tally_expect(&t, "pivot_root", RAW(SYS_pivot_root, ".", "."), EPERM, ENOSYS, EACCES,
	             EINVAL);
	return tally_result(&t);
}

/* FS-07 PATH...: procfs' links lead nowhere else. */
static int fs_07(int argc, char **argv, char *detail, size_t n)
{
	static const char *const own[] = {
		"/proc/self/cwd/../../../../..", "/proc/self/root",
		"/proc/self/root/../..",         "/proc/thread-self/root",
		"/proc/self/task/%d/root/..",    "/proc/self/fd/%d/../../..",
	};
	static const char *const other[] = { "/proc/1/root", "/proc/1/cwd", "/proc/1/exe",
		                             "/proc/1/fd/0" };
	int fd = try_open(".", O_RDONLY | O_DIRECTORY);
	struct tally t;

	tally_init(&t, detail, n);
	for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++) {
		char base[PATH_MAX / 2], path[PATH_MAX];

		snprintf(base, sizeof(base), own[k], strstr(own[k], "task") ? (int)getpid() : fd);
		for (int i = 0; i < argc; i++) {
			snprintf(path, sizeof(path), "%s%s", base, argv[i]);
			tally_expect(&t, path, try_open(path, O_RDONLY), ENOENT);
		}
	}
	for (size_t k = 0; k < sizeof(other) / sizeof(other[0]); k++)
		tally_expect(&t, other[k], try_open(other[k], O_PATH), EACCES, EPERM, ENOENT);
	return tally_result(&t);
}

/* FS-08 DIR: the working directory is DIR and reachable; a deleted one leads nowhere. */
static int fs_08(int argc, char **argv, char *detail, size_t n)
{
	char cwd[PATH_MAX] = "", link[PATH_MAX] = "";
	struct tally t;
	long r;

	tally_init(&t, detail, n);
	if (argc < 1)
		return PROBE_ERROR;
	r = RAW(SYS_getcwd, cwd, sizeof(cwd));
	if (r < 0)
		tally_error(&t, "getcwd: %s", errno_name((int)-r));
	else if (strcmp(cwd, argv[0]) != 0)
		tally_escaped(&t, "cwd is %s", cwd);
	r = readlink("/proc/self/cwd", link, sizeof(link) - 1);
	if (r >= 0 && strcmp(link, argv[0]) != 0)
		tally_escaped(&t, "/proc/self/cwd is %s", link);
	t.attempts++;
	if (t.result != PROBE_BLOCKED)
		return tally_result(&t);

	if (mkdir("fs-08", 0755) < 0 || chdir("fs-08") < 0 || rmdir("../fs-08") < 0)
		tally_error(&t, "cannot delete the cwd: %s", errno_name(errno));
	tally_expect(&t, "getcwd of a deleted directory", RAW(SYS_getcwd, cwd, sizeof(cwd)),
	             ENOENT);
	tally_expect(&t, "create in a deleted directory", try_create("x", 0644, ""), ENOENT);
	return tally_result(&t);
}

/* FS-09: no mount is made or changed. */
static int fs_09(int argc, char **argv, char *detail, size_t n)
{
	static const struct {
		const char *what, *target;
		unsigned long flags;
	} changes[] = {
		{ "make / shared", "/", MS_REC | MS_SHARED },
		{ "make / private", "/", MS_REC | MS_PRIVATE },
		{ "remount /", "/", MS_REMOUNT | MS_BIND },
		{ "remount /usr read-write", "/usr", MS_REMOUNT | MS_BIND },
	};
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	(void)RAW(SYS_mkdirat, AT_FDCWD, "fs-09", 0755);
	tally_expect(&t, "mount tmpfs", RAW(SYS_mount, "none", "fs-09", "tmpfs", 0, NULL), EPERM,
	             ENOSYS, EACCES);
	tally_expect(&t, "bind /", RAW(SYS_mount, "/", "fs-09", NULL, MS_BIND | MS_REC, NULL),
	             EPERM, ENOSYS, EACCES);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		tally_expect(&t, changes[i].what,
		             RAW(SYS_mount, NULL, changes[i].target, NULL, changes[i].flags, NULL),
		             EPERM, ENOSYS, EACCES);
	tally_expect(&t, "umount /usr", RAW(SYS_umount2, "/usr", MNT_DETACH), EPERM, ENOSYS, EACCES,
	             EINVAL);
	return tally_result(&t);
}

/* FS-10 TEXT...: no TEXT in what the kernel says about the mounts. */
static int fs_10(int argc, char **argv, char *detail, size_t n)
{
	static const char *const files[] = { "/proc/self/mountinfo", "/proc/self/mounts",
		                             "/proc/self/mountstats" };
	static char text[1 << 16];
	struct tally t;
	struct statfs sf;

	tally_init(&t, detail, n);
	for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
		ssize_t len = try_read(files[k], text, sizeof(text));

		if (len < 0 && len != -ENOENT && len != -EACCES)
			tally_error(&t, "%s: %s", files[k], errno_name((int)-len));
		t.attempts++;
		for (int i = 0; len > 0 && i < argc; i++)
			if (strstr(text, argv[i]))
				tally_escaped(&t, "%s shows %s", files[k], argv[i]);
	}
	if (statfs(".", &sf) < 0 || sf.f_type != 0x01021994)
		tally_escaped(&t, "the working directory is not on a tmpfs");
	return tally_result(&t);
}

/* FS-11: overlayfs' private names mean nothing. */
static int fs_11(int argc, char **argv, char *detail, size_t n)
{
	static const char *const denied[] = { "trusted.overlay.opaque", "trusted.overlay.redirect",
		                              "trusted.overlay.metacopy", "security.evm",
		                              "security.ima" };
	static const char *const ignored[] = { "user.overlay.opaque", "user.overlay.redirect",
		                               "user.overlay.metacopy", "user.overlay.whiteout" };
	struct tally t;
	struct stat before, after;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (mkdir("fs-11", 0755) < 0 || try_create("fs-11/file", 0644, "x") < 0 ||
	    stat("/usr", &before) < 0)
		return PROBE_ERROR;
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		tally_expect(&t, denied[i], RAW(SYS_setxattr, "fs-11", denied[i], "y", 1, 0), EPERM,
		             EACCES, EOPNOTSUPP, ENOSYS);
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		if (RAW(SYS_setxattr, "fs-11", ignored[i], "/usr", 4, 0) == 0)
			tally_note(&t, "%s was set", ignored[i]);
	tally_expect(&t, "whiteout", RAW(SYS_mknodat, AT_FDCWD, "fs-11/gone", S_IFCHR, 0), EPERM,
	             EACCES);
	tally_expect(&t, "rename with a whiteout",
	             RAW(SYS_renameat2, AT_FDCWD, "fs-11/file", AT_FDCWD, "fs-11/moved",
	                 RENAME_WHITEOUT),
	             EPERM, EACCES, EINVAL);
	if (access("fs-11/file", F_OK) < 0 || stat("/usr", &after) < 0 ||
	    before.st_ino != after.st_ino)
		tally_escaped(&t, "the view of the tree changed");
	return tally_result(&t);
}

/* FS-12 DIR: nothing in DIR is executed. */

/* execve's failure, or 0: the copy ran. */
static long exec_copy(void *arg)
{
	char *args[] = { (char *)"probe", (char *)"--list", NULL }, *env[] = { NULL };
	int null = try_open("/dev/null", O_WRONLY);
	pid_t pid;
	int p[2], status;
	long r = 0;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		(void)dup2(null, 1);
		r = RAW(SYS_execve, arg, args, env);
		(void)!write(p[1], &r, sizeof(r));
		_exit(1);
	}
	close(p[1]);
	if (read(p[0], &r, sizeof(r)) <= 0)
		r = 0;
	(void)waitpid(pid, &status, 0);
	return r;
}

static int fs_12(int argc, char **argv, char *detail, size_t n)
{
	const char *path;
	struct tally t;
	int fd;

	tally_init(&t, detail, n);
	if (argc < 1)
		return PROBE_ERROR;
	path = joined(argv[0], "fs-12");
	fd = (int)RAW(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd < 0 || copy_self(fd) < 0) {
		tally_error(&t, "cannot write to %s", argv[0]);
		return tally_result(&t);
	}
	(void)RAW(SYS_close, fd);
	tally_expect(&t, "execve", exec_copy((void *)(uintptr_t)path), EACCES, EPERM);
	fd = try_open(path, O_RDONLY);
	tally_expect(&t, "mmap for execution",
	             RAW(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) < 0
	                     ? -EPERM
	                     : 0,
	             EPERM);
	(void)RAW(SYS_close, fd);
	(void)unlink(path);
	return tally_result(&t);
}

/* FS-13 FILE TO DIR...: FILE (on the read-only side) gets no name in TO, and no nameless file is
 * made in the DIRs. */
static int fs_13(int argc, char **argv, char *detail, size_t n)
{
	char link[64];
	struct tally t;
	const char *to;
	int fd;

	tally_init(&t, detail, n);
	if (argc < 2)
		return PROBE_ERROR;
	to = joined(argv[1], "fs-13");
	fd = try_open(argv[0], O_RDONLY);
	if (fd < 0)
		return PROBE_ERROR;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
#define REFUSED(what, call)                                                                        \
	do {                                                                                       \
		tally_expect(&t, (what), (call), EXDEV, EPERM, EACCES, ENOENT, EROFS, EOPNOTSUPP); \
		(void)unlink(to);                                                                  \
	} while (0)
	REFUSED("linkat by path", RAW(SYS_linkat, AT_FDCWD, argv[0], AT_FDCWD, to, 0));
	REFUSED("linkat by fd", RAW(SYS_linkat, fd, "", AT_FDCWD, to, AT_EMPTY_PATH));
	REFUSED("linkat by magic link",
	        RAW(SYS_linkat, AT_FDCWD, link, AT_FDCWD, to, AT_SYMLINK_FOLLOW));
	for (int i = 2; i < argc; i++)
		REFUSED("O_TMPFILE", try_open(argv[i], O_TMPFILE | O_RDWR));
#undef REFUSED
	return tally_result(&t);
}

/* FS-14: no file handles. */
static int fs_14(int argc, char **argv, char *detail, size_t n)
{
	struct {
		struct file_handle h;
		unsigned char data[128];
	} handle = { .h = { .handle_bytes = 128 } };
	int mount_id = 0, root = try_open("/", O_RDONLY | O_DIRECTORY);
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "name_to_handle_at",
	             RAW(SYS_name_to_handle_at, AT_FDCWD, "/usr", &handle, &mount_id, 0), EPERM,
	             ENOSYS);
	/* Inode 2 is the root of ext4, with or without a handle from above. */
	if (handle.h.handle_bytes == 128) {
		handle.h.handle_bytes = 8;
		handle.h.handle_type = 1;
		handle.data[0] = 2;
	}
	tally_expect(&t, "open_by_handle_at", RAW(SYS_open_by_handle_at, root, &handle, O_RDONLY),
	             EPERM, ENOSYS);
	return tally_result(&t);
}

/* FS-17 BYTES: no file of BYTES, no clone, no flags that outlive or outweigh the box. */
static int fs_17(int argc, char **argv, char *detail, size_t n)
{
	struct {
		struct file_dedupe_range head;
		struct file_dedupe_range_info info;
	} dedupe = { .head = { .src_length = 4096, .dest_count = 1 } };
	struct fsxattr fsx = { .fsx_projid = 4242 };
	int fd = (int)RAW(SYS_openat, AT_FDCWD, "fs-17", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int other = try_open("/usr/bin/env", O_RDONLY), flags;
	struct tally t;

	tally_init(&t, detail, n);
	if (argc < 1 || fd < 0)
		return PROBE_ERROR;
	(void)signal(SIGXFSZ, SIG_IGN);
	tally_expect(&t, "fallocate", RAW(SYS_fallocate, fd, 0, 0, atoll(argv[0])), ENOSPC, EFBIG,
	             EPERM);
	(void)ftruncate(fd, 0);
#define REFUSED(what, call)                                                                        \
	tally_expect(&t, (what), (call), EPERM, ENOTTY, EOPNOTSUPP, EINVAL, EXDEV, EACCES)
	REFUSED("FICLONE", RAW(SYS_ioctl, fd, FICLONE, other));
	dedupe.info.dest_fd = fd;
	(void)!write(fd, detail, n < 4096 ? n : 4096);
	(void)RAW(SYS_ioctl, other, FIDEDUPERANGE, &dedupe);
	if (dedupe.info.bytes_deduped > 0)
		tally_escaped(&t, "FIDEDUPERANGE shared a block with the host");
	flags = FS_IMMUTABLE_FL;
	REFUSED("immutable", RAW(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags));
	flags = 0;
	(void)RAW(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags);
	flags = FS_APPEND_FL;
	REFUSED("append-only", RAW(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags));
	flags = 0;
	(void)RAW(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags);
	REFUSED("project id", RAW(SYS_ioctl, fd, FS_IOC_FSSETXATTR, &fsx));
#undef REFUSED
	(void)unlink("fs-17");
	return tally_result(&t);
}

/* FS-18 DIR MS: for MS milliseconds nothing is heard of what the host does in DIR. */

static volatile sig_atomic_t dnotified;

static void on_dnotify(int sig)
{
	(void)sig;
	dnotified = 1;
}

static int fs_18(int argc, char **argv, char *detail, size_t n)
{
	struct pollfd pfd = { .events = POLLIN };
	struct timespec start, now;
	struct tally t;
	int dir;

	tally_init(&t, detail, n);
	if (argc < 2)
		return PROBE_ERROR;
	tally_expect(&t, "fanotify_init",
	             RAW(SYS_fanotify_init, FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY), EPERM,
	             ENOSYS);
	(void)signal(SIGIO, on_dnotify);
	dir = try_open(argv[0], O_RDONLY | O_DIRECTORY);
	(void)RAW(SYS_fcntl, dir, F_NOTIFY,
	          DN_ACCESS | DN_MODIFY | DN_CREATE | DN_DELETE | DN_MULTISHOT);
	pfd.fd = (int)RAW(SYS_inotify_init1, IN_CLOEXEC | IN_NONBLOCK);
	if (pfd.fd >= 0) {
		long r = RAW(SYS_inotify_add_watch, pfd.fd, argv[0], IN_ALL_EVENTS);

		tally_note(&t, "inotify watch: %s", r < 0 ? errno_name((int)-r) : "granted");
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		if (poll(&pfd, 1, 50) > 0 && pfd.fd >= 0) {
			tally_escaped(&t, "inotify shows the host's accesses");
			break;
		}
		if (dnotified) {
			tally_escaped(&t, "dnotify shows the host's accesses");
			break;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
	         atoi(argv[1]));
	return tally_result(&t);
}

const struct probe probes_fs[] = {
	{ "FS-01", fs_01 }, { "FS-02", fs_02 }, { "FS-03", fs_03 }, { "FS-04", fs_04 },
	{ "FS-05", fs_05 }, { "FS-06", fs_06 }, { "FS-07", fs_07 }, { "FS-08", fs_08 },
	{ "FS-09", fs_09 }, { "FS-10", fs_10 }, { "FS-11", fs_11 }, { "FS-12", fs_12 },
	{ "FS-13", fs_13 }, { "FS-14", fs_14 }, { "FS-17", fs_17 }, { "FS-18", fs_18 },
	{ NULL, NULL },
};
