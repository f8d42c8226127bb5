/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds out where boxes' groups can be made: looks at the usual places, else reads mountinfo (where
 * each hierarchy is mounted) and /proc/self/cgroup (where we are in it), then makes the "brig"
 * group and looks which controllers it really has. What cannot be had is said in host->why; the
 * caller decides what that means.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup.h"
#include "sys/file.h"

#define CGROUP1_MAGIC 0x27e0eb
#define CGROUP2_MAGIC 0x63677270

static const char *const controller_names[CGROUP_CONTROLLERS] = { "memory", "pids", "cpu",
	                                                          "cpuacct" };

/* Is `word` one of the comma- or space-separated words of `list`? */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n) {
		bool starts = p == list || strchr(", :", p[-1]);

		if (starts && (p[n] == '\0' || strchr(", :\n", p[n])))
			return true;
	}
	return false;
}

/* Field n of a line, counted from 0, copied; false when there is none or it does not fit. */
static bool field(const char *line, int n, char *ret, size_t size)
{
	size_t len;

	for (; n > 0; n--) {
		line += strcspn(line, " \n");
		if (*line != ' ')
			return false;
		line++;
	}
	len = strcspn(line, " \n");
	if (len == 0 || len >= size)
		return false;
	memcpy(ret, line, len);
	ret[len] = '\0';
	return true;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

struct cg_mount {
	char root[CGROUP_PATH_MAX];  /* of the hierarchy, what the mount shows */
	char point[CGROUP_PATH_MAX]; /* where it is mounted */
};

/* What the two files say, read once. */
struct cg_text {
	const struct cgroup_env *env;
	bool usual; /* root, and the hierarchies are where they always are: nothing was read */
	char mountinfo[65536];
	char self[8192];
};

/* "36 35 0:30 ROOT POINT options - TYPE source OPTIONS"; controller NULL: the v2 hierarchy. */
static int find_mount(const struct cg_text *t, const char *controller, struct cg_mount *ret)
{
	for (const char *line = t->mountinfo; *line; line = next_line(line)) {
		const char *end = line + strcspn(line, "\n"), *dash = strstr(line, " - ");
		char type[16], options[256];

		if (!dash || dash > end || !field(dash + 3, 0, type, sizeof(type)))
			continue;
		if (!controller && !streq(type, "cgroup2"))
			continue;
		if (controller &&
		    (!streq(type, "cgroup") || !field(dash + 3, 2, options, sizeof(options)) ||
		     !has_word(options, controller)))
			continue;
		if (field(line, 3, ret->root, sizeof(ret->root)) &&
		    field(line, 4, ret->point, sizeof(ret->point)))
			return 0;
	}
	return -ENOENT;
}

/* Our own group's path in the hierarchy, from "N:controllers:/path". */
static int find_self(const struct cg_text *t, const char *controller, char *ret, size_t size)
{
	for (const char *line = t->self; *line; line = next_line(line)) {
		const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		char names[256];

		if (!path || (size_t)(path - list) > sizeof(names))
			continue;
		memcpy(names, list + 1, (size_t)(path - list) - 1);
		names[path - list - 1] = '\0';
		if (controller ? has_word(names, controller) : !*names) {
			(void)snprintf(ret, size, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
			return 0;
		}
	}
	return -ENOENT;
}

/*
 * Where "brig" goes: for root the mount point; for others their own group below it (the mount may
 * show only a part of the hierarchy).
 */
static int base_dir(const struct cg_text *t, const char *controller, char *ret, size_t size)
{
	struct cg_mount m;
	char self[CGROUP_PATH_MAX];
	const char *below = self;
	int r;

	if (t->usual) {
		(void)snprintf(ret, size, "/sys/fs/cgroup%s%s", controller ? "/" : "",
		               controller ? controller : "");
		return 0;
	}
	r = find_mount(t, controller, &m);
	if (r < 0)
		return r;
	if (t->env->privileged) {
		(void)snprintf(ret, size, "%s", m.point);
		return 0;
	}
	r = find_self(t, controller, self, sizeof(self));
	if (r < 0)
		return r;
	if (!streq(m.root, "/")) {
		size_t n = strlen(m.root);

		if (!str_has_prefix(self, m.root) || (self[n] && self[n] != '/'))
			return -ENOENT; /* we are beside what the mount shows */
		below += n;
	}
	if (str_has_prefix(below, "/..") && (!below[3] || below[3] == '/'))
		return -ENOENT; /* we are above our cgroup namespace's root */
	if (streq(below, "/"))
		below = "";
	if ((size_t)snprintf(ret, size, "%s%s", m.point, below) >= size)
		return -ENAMETOOLONG;
	return 0;
}

/* A tmpfs over /sys/fs/cgroup would take the directory and limit nothing. */
static bool is_cgroupfs(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (st.f_type == CGROUP1_MAGIC || st.f_type == CGROUP2_MAGIC);
}

/* Opens `<dir>/brig`, making it when we may. */
static int open_parent(const struct cgroup_env *env, const char *dir, int *ret_base)
{
	CLEANUP_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int parent;

	if (fd < 0)
		return -errno;
	if (!env->any_fs && !is_cgroupfs(fd))
		return -ENODEV;
	parent = openat(fd, "brig", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 && errno == ENOENT) {
		if (mkdirat(fd, "brig", 0755) < 0 && errno != EEXIST)
			return -errno;
		parent = openat(fd, "brig", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (parent < 0)
		return -errno;
	if (faccessat(parent, ".", W_OK, AT_EACCESS) < 0) {
		(void)close(parent);
		return -EACCES;
	}
	*ret_base = fd_take(&fd);
	return parent;
}

/*
 * Controllers may be mounted together, as cpu and cpuacct are; they then share the box's group.
 * Returns 1 when this one shares an earlier one's.
 */
static int share_earlier(struct cgroup_host *host, size_t i, int parent)
{
	struct stat st, other;

	if (fstat(parent, &st) < 0)
		return -errno;
	for (size_t j = 0; j < i; j++) {
		if (host->parents[j] < 0)
			continue;
		if (fstat(host->parents[j], &other) < 0)
			return -errno;
		if (st.st_dev == other.st_dev && st.st_ino == other.st_ino) {
			host->shared[i] = (int)j + 1;
			return 1;
		}
	}
	return 0;
}

static int open_controller(const struct cg_text *t, struct cgroup_host *host, size_t i)
{
	char dir[CGROUP_PATH_MAX];
	CLEANUP_FD int base = FD_NONE, parent = FD_NONE;
	int r = base_dir(t, controller_names[i], dir, sizeof(dir));

	if (r >= 0)
		r = parent = open_parent(t->env, dir, &base);
	if (r >= 0)
		r = share_earlier(host, i, parent);
	if (r == 0) {
		host->parents[i] = fd_take(&parent);
		host->bases[i] = fd_take(&base);
	}
	if (r >= 0 && !*host->path)
		(void)snprintf(host->path, sizeof(host->path), "%.490s/brig", dir);
	return r;
}

static void open_v1(const struct cg_text *t, struct cgroup_host *host)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		int r = open_controller(t, host, i);

		if (r >= 0)
			host->usable |= 1u << i;
		else if (!*host->why)
			(void)snprintf(host->why, sizeof(host->why), "%s: %s", controller_names[i],
			               strerror(-r));
	}
}

/*
 * A v2 group cannot have both tasks and controllers for its children. Root makes "brig" at the top
 * of what it sees; others use their own delegated group and first step aside into a leaf of it,
 * with the program that started us. Anybody else in the group stays, and then the controllers
 * cannot be had.
 */
static int step_aside(const char *dir)
{
	CLEANUP_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FD int leaf = FD_NONE;

	if (fd < 0)
		return -errno;
	if (mkdirat(fd, "brig-launch", 0755) < 0 && errno != EEXIST)
		return -errno;
	leaf = openat(fd, "brig-launch", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (leaf < 0)
		return -errno;
	(void)cgroup_write(leaf, "cgroup.procs", (uint64_t)getppid());
	return cgroup_write(leaf, "cgroup.procs", 0);
}

static void enable_controllers(const char *dir)
{
	CLEANUP_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	/* One by one: a controller that is missing must not take the others along. */
	(void)file_write(fd, "cgroup.subtree_control", "+memory");
	(void)file_write(fd, "cgroup.subtree_control", "+pids");
	(void)file_write(fd, "cgroup.subtree_control", "+cpu");
}

static unsigned controllers_of(int parent)
{
	CLEANUP_FD int fd = openat(parent, "cgroup.subtree_control", O_RDONLY | O_CLOEXEC);
	char text[256] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	unsigned mask = 0;

	text[n > 0 ? n : 0] = '\0';
	for (size_t i = 0; i < CGROUP_CPUACCT; i++)
		if (has_word(text, controller_names[i]))
			mask |= 1u << i;
	return mask;
}

static int v2_base(const struct cg_text *t, char *dir, size_t size)
{
	int r = base_dir(t, NULL, dir, size);

	return r < 0 || t->env->privileged ? r : step_aside(dir);
}

static void open_v2(const struct cg_text *t, struct cgroup_host *host)
{
	char dir[CGROUP_PATH_MAX];
	int r = v2_base(t, dir, sizeof(dir));

	if (r >= 0) {
		enable_controllers(dir);
		r = open_parent(t->env, dir, &host->bases[CGROUP_MEMORY]);
	}
	if (r < 0) {
		(void)snprintf(host->why, sizeof(host->why), "cgroup v2: %s", strerror(-r));
		return;
	}
	host->parents[CGROUP_MEMORY] = r;
	(void)snprintf(host->path, sizeof(host->path), "%.490s/brig", dir);
	enable_controllers(host->path);
	host->usable = controllers_of(r);
	if (host->usable != (CGROUP_BIT(MEMORY) | CGROUP_BIT(PIDS) | CGROUP_BIT(CPU)))
		(void)snprintf(host->why, sizeof(host->why),
		               "cgroup v2: a controller of memory, pids, cpu is not delegated");
}

static enum cgroup_mode fs_mode(const char *path)
{
	struct statfs st;

	if (statfs(path, &st) < 0)
		return CGROUP_NONE;
	return st.f_type == CGROUP2_MAGIC   ? CGROUP_V2
	       : st.f_type == CGROUP1_MAGIC ? CGROUP_V1
	                                    : CGROUP_NONE;
}

/* Two looks save the reading of mountinfo, which grows with every mount of the host. */
static enum cgroup_mode usual_mode(const struct cgroup_env *env)
{
	if (!env->privileged || env->any_fs)
		return CGROUP_NONE;
	if (fs_mode("/sys/fs/cgroup") == CGROUP_V2)
		return CGROUP_V2;
	return fs_mode("/sys/fs/cgroup/memory") == CGROUP_V1 ? CGROUP_V1 : CGROUP_NONE;
}

static enum cgroup_mode read_mode(struct cg_text *t)
{
	struct cg_mount m;

	(void)file_read(AT_FDCWD, t->env->mountinfo, t->mountinfo, sizeof(t->mountinfo));
	(void)file_read(AT_FDCWD, t->env->self_cgroup, t->self, sizeof(t->self));
	if (find_mount(t, "memory", &m) == 0)
		return CGROUP_V1;
	return find_mount(t, NULL, &m) == 0 ? CGROUP_V2 : CGROUP_NONE;
}

void cgroup_host_open(const struct cgroup_env *env, struct cgroup_host *ret)
{
	static struct cg_text text; /* too large for the stack; the launcher is single-threaded */
	struct cg_text *t = &text;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		ret->parents[i] = ret->bases[i] = FD_NONE;
	t->env = env;
	ret->persistent = env->privileged;
	ret->mode = usual_mode(env);
	t->usual = ret->mode != CGROUP_NONE;
	if (!t->usual)
		ret->mode = read_mode(t);
	switch (ret->mode) {
	case CGROUP_V1:
		open_v1(t, ret);
		break;
	case CGROUP_V2:
		open_v2(t, ret);
		break;
	case CGROUP_NONE:
		(void)snprintf(ret->why, sizeof(ret->why), "no cgroup file system is mounted");
		break;
	}
}
