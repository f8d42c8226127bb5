/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The image `host`: /usr of this machine, read-only, with /bin, /lib and so on as the distribution
 * has them, and an /etc of our own. Never /root, /home, /var, /run, /srv, /opt or any socket: a
 * read-only mount does not keep anybody from connecting to one, so those below /usr are masked.
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "route/route.h"

static const char *const top_dirs[] = { "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32" };

static const struct {
	const char *path, *text;
} etc_files[] = {
	{ "/etc/passwd", "init:x:1:1::/:/usr/sbin/nologin\n"
	                 "sandbox:x:1000:1000:sandbox:/tmp:/bin/bash\n"
	                 "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n" },
	{ "/etc/group", "init:x:1:\nsandbox:x:1000:\nnogroup:x:65534:\n" },
	{ "/etc/hosts", "127.0.0.1 localhost brig\n::1 localhost\n" },
	{ "/etc/hostname", "brig\n" },
	{ "/etc/resolv.conf", "" },
	{ "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n" },
};

/*
 * Not secret, and needed: the linker's cache, the links behind awk, cc, editor, and what Debian's
 * matplotlib and fontconfig do not start without.
 */
static const char *const etc_binds[] = { "/etc/ld.so.cache", "/etc/alternatives",
	                                 "/etc/matplotlibrc", "/etc/fonts" };

static int add_top_dir(struct arena *a, struct plan *p, const char *path, struct err *err)
{
	char target[PATH_MAX];
	const char *text;
	struct stat st;
	ssize_t n;
	int r;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_set(err, ERR_IO, errno, "look at %s", path);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return err_set(err, ERR_IO, errno, "read the link %s", path);
		text = arena_dup(a, target, (size_t)n);
		if (!text)
			return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
		return plan_add_fs(
			p, (struct fs_op){ .kind = FS_OP_SYMLINK, .path = path, .source = text },
			err);
	}
	r = plan_add_fs(p, (struct fs_op){ .kind = FS_OP_BIND_RO, .path = path, .source = path },
	                err);
	return r < 0 ? r : plan_add_rule(p, path, PLAN_ACCESS_READ_EXEC, err);
}

static int add_etc(struct plan *p, struct err *err)
{
	int r = plan_add_fs(p, (struct fs_op){ .kind = FS_OP_DIR, .path = "/etc", .mode = 0755 },
	                    err);

	for (size_t i = 0; i < ELEMENTSOF(etc_files) && r >= 0; i++)
		r = plan_add_fs(p,
		                (struct fs_op){ .kind = FS_OP_FILE,
		                                .path = etc_files[i].path,
		                                .data = str_of(etc_files[i].text),
		                                .mode = 0444 },
		                err);
	for (size_t i = 0; i < ELEMENTSOF(etc_binds) && r >= 0; i++)
		r = plan_add_fs(p,
		                (struct fs_op){ .kind = FS_OP_BIND_RO,
		                                .path = etc_binds[i],
		                                .source = etc_binds[i],
		                                .optional = true },
		                err);
	return r < 0 ? r : plan_add_rule(p, "/etc", PLAN_ACCESS_READ, err);
}

static bool is_below_image(const char *path)
{
	if (str_has_prefix(path, "/usr/"))
		return true;
	for (size_t i = 0; i < ELEMENTSOF(top_dirs); i++)
		if (str_has_prefix(path, top_dirs[i]) && path[strlen(top_dirs[i])] == '/')
			return true;
	return false;
}

/* Connections are listed by the same name as the socket that took them. */
static bool has_mask(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_fs; i++)
		if (p->fs[i].kind == FS_OP_MASK && streq(p->fs[i].path, path))
			return true;
	return false;
}

static int mask_socket(struct arena *a, struct plan *p, const char *path, struct err *err)
{
	struct fs_op op = { .kind = FS_OP_MASK, .mode = S_IFSOCK };
	char real[PATH_MAX];
	struct stat st;

	if (!realpath(path, real) || !is_below_image(real) || lstat(real, &st) < 0 ||
	    !S_ISSOCK(st.st_mode) || has_mask(p, real))
		return 0;
	op.path = arena_dup(a, real, strlen(real));
	if (!op.path)
		return err_set(err, ERR_LIMIT, ENOMEM, "memory of the request");
	return plan_add_fs(p, op, err);
}

/* Those that this machine listens on now, as far as they were given a whole path. */
static int mask_sockets(struct arena *a, struct plan *p, struct err *err)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256]; /* a path has 108 bytes at most */
	int r = 0;

	if (!f)
		return errno == ENOENT ? 0 : err_set(err, ERR_IO, errno, "read /proc/net/unix");
	while (r >= 0 && fgets(line, sizeof(line), f)) {
		char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (path && is_below_image(path))
			r = mask_socket(a, p, path, err);
	}
	if (r >= 0 && ferror(f))
		r = err_set(err, ERR_IO, errno, "read /proc/net/unix");
	(void)fclose(f);
	return r;
}

static int host_add(struct arena *a, struct plan *p, struct err *err)
{
	int r = plan_add_fs(
		p, (struct fs_op){ .kind = FS_OP_BIND_RO, .path = "/usr", .source = "/usr" }, err);

	if (r >= 0)
		r = plan_add_rule(p, "/usr", PLAN_ACCESS_READ_EXEC, err);
	for (size_t i = 0; i < ELEMENTSOF(top_dirs) && r >= 0; i++)
		r = add_top_dir(a, p, top_dirs[i], err);
	if (r >= 0)
		r = mask_sockets(a, p, err);
	return r < 0 ? r : add_etc(p, err);
}

/* A program whose file lies outside the view (a version manager's shim in a home) is not in it. */
static bool in_view(const char *path)
{
	char real[PATH_MAX];

	return access(path, X_OK) == 0 && realpath(path, real) && is_below_image(real);
}

static int host_find(const char *program, const char **ret_path)
{
	static const struct {
		const char *name;
		const char *paths[3];
	} known[] = {
		{ "python3", { "/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3" } },
		{ "node", { "/usr/local/bin/node", "/usr/bin/node", "/bin/node" } },
		{ "bash", { "/usr/local/bin/bash", "/usr/bin/bash", "/bin/bash" } },
	};

	for (size_t i = 0; i < ELEMENTSOF(known); i++) {
		if (!streq(known[i].name, program))
			continue;
		for (size_t j = 0; j < ELEMENTSOF(known[i].paths); j++) {
			if (in_view(known[i].paths[j])) {
				*ret_path = known[i].paths[j];
				return 0;
			}
		}
	}
	return -ENOENT;
}

const struct image image_host = { "host", host_add, host_find };
