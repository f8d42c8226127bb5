/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/macro.h"
#include "measure.h"

#define UNIFIED "/sys/fs/cgroup/unified"

/* ---- config.json ----------------------------------------------------------------------- */

/*
 * Namespaces, read-only root, no capabilities, no new privileges; limits as a brig box has.
 * For the reader's sake the quotation marks are single; put_quoted() makes JSON of it.
 */
/* clang-format off */
static const char before_group[] =
	"{'ociVersion': '1.0.2', 'hostname': 'box', 'root': {'path': 'rootfs', 'readonly': true},"
	" 'mounts': ["
	"  {'destination': '/proc', 'type': 'proc', 'source': 'proc'},"
	"  {'destination': '/dev', 'type': 'tmpfs', 'source': 'tmpfs', 'options': ['nosuid', 'mode=755']},"
	"  {'destination': '/tmp', 'type': 'tmpfs', 'source': 'tmpfs'},"
	"  {'destination': '/usr', 'type': 'bind', 'source': '/usr', 'options': ['rbind', 'ro']},"
	"  {'destination': '/etc/alternatives', 'type': 'bind', 'source': '/etc/alternatives',"
	"   'options': ['rbind', 'ro']}],"
	" 'linux': {'resources': {'memory': {'limit': 536870912}, 'pids': {'limit': 100}},"
	"  'namespaces': [{'type': 'pid'}, {'type': 'network'}, {'type': 'ipc'}, {'type': 'uts'},"
	"   {'type': 'mount'}], 'cgroupsPath': ";
static const char before_args[] =
	" }, 'process': {'terminal': false, 'user': {'uid': 1000, 'gid': 1000}, 'noNewPrivileges': true,"
	"  'cwd': '/tmp', 'capabilities': {},"
	"  'env': ['PATH=/usr/bin:/bin', 'HOME=/tmp', 'LANG=C.UTF-8'], 'args': [";
/* clang-format on */

static void put_quoted(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (*text == '\'')
			buf_putc(out, '"');
		else
			buf_putc(out, *text);
}

static int write_config(const struct bundle *b, const char *const *command, struct err *err)
{
	CLEANUP_BUF struct buf text = BUF_INIT(64 * KIB);
	CLEANUP_FD int fd = FD_NONE;
	const char *group = cpu_container_group();
	char path[80];

	put_quoted(&text, before_group);
	json_put_cstr(&text, *group ? group : "/brig-bench-oci");
	put_quoted(&text, before_args);
	for (size_t i = 0; command[i]; i++) {
		if (i)
			buf_putc(&text, ',');
		json_put_cstr(&text, command[i]);
	}
	buf_puts(&text, "]}}\n");
	(void)snprintf(path, sizeof(path), "%s/config.json", b->path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || buf_finish(&text) < 0 || write(fd, text.data, text.len) != (ssize_t)text.len)
		return err_set(err, ERR_IO, errno, "write %s", path);
	return 0;
}

/* ---- the folder ------------------------------------------------------------------------ */

static int make_rootfs(const struct bundle *b, struct err *err)
{
	static const char *const folders[] = { "",     "/usr", "/proc", "/dev",
		                               "/tmp", "/etc", "/sys",  "/etc/alternatives" };
	static const char *const links[] = { "bin", "sbin", "lib", "lib64" };
	char path[128], target[16];

	for (size_t i = 0; i < ELEMENTSOF(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/rootfs%s", b->path, folders[i]);
		if (mkdir(path, 0755) < 0)
			return err_set(err, ERR_IO, errno, "make %s", path);
	}
	for (size_t i = 0; i < ELEMENTSOF(links); i++) {
		(void)snprintf(path, sizeof(path), "%s/rootfs/%s", b->path, links[i]);
		(void)snprintf(target, sizeof(target), "usr/%s", links[i]);
		if (symlink(target, path) < 0)
			return err_set(err, ERR_IO, errno, "make %s", path);
	}
	return 0;
}

int bundle_make(struct bundle *b, const char *const *command, struct err *err)
{
	int r;

	(void)snprintf(b->path, sizeof(b->path), "/tmp/brig-bench.XXXXXX");
	if (!mkdtemp(b->path)) {
		*b->path = '\0';
		return err_set(err, ERR_IO, errno, "make a folder in /tmp");
	}
	r = chmod(b->path, 0755) < 0 ? err_set(err, ERR_IO, errno, "chmod %s", b->path)
	                             : make_rootfs(b, err);
	return r < 0 || !*command ? r : write_config(b, command, err);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	(void)remove(path);
	return 0;
}

/* A runtime that failed half-way may have left the host's /usr mounted there. */
static bool has_mounts(const char *path)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	bool found = !f;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, path) != NULL;
	if (f)
		(void)fclose(f);
	return found;
}

void bundle_remove(struct bundle *b)
{
	if (*b->path && has_mounts(b->path))
		(void)fprintf(stderr, "bench: something is mounted below %s: it stays\n", b->path);
	else if (*b->path)
		(void)nftw(b->path, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	*b->path = '\0';
}

/* ---- the mount namespace --------------------------------------------------------------- */

/* Says one byte when it is done, and stays until it is told to go. */
static void hide_unified(int ready, int go)
{
	char byte = 0;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    umount2(UNIFIED, MNT_DETACH) < 0)
		_exit(1);
	if (write(ready, &byte, 1) == 1)
		(void)!read(go, &byte, 1);
	_exit(0);
}

static int open_ns(pid_t pid, int ready, struct err *err)
{
	char path[64], byte;
	int fd;

	if (read(ready, &byte, 1) != 1)
		return err_set(err, ERR_SETUP, EPERM, "hide " UNIFIED);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_set(err, ERR_SETUP, errno, "open %s", path) : fd;
}

int bundle_mount_ns(int *ret_fd, struct err *err)
{
	int ready[2], go[2], fd;
	pid_t pid;

	if (access(UNIFIED "/cgroup.procs", F_OK) < 0)
		return 0;
	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "pipes");
	pid = fork();
	if (pid == 0) {
		(void)close(go[1]);
		hide_unified(ready[1], go[0]);
	}
	(void)close(ready[1]);
	(void)close(go[0]);
	fd = pid < 0 ? err_set(err, ERR_INTERNAL, errno, "fork") : open_ns(pid, ready[0], err);
	(void)close(go[1]);
	(void)close(ready[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}
