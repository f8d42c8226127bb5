/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "sys/file.h"

#define SLOT_TRIES 4096

static const struct cgroup_ops *ops_of(const struct cgroup_host *host)
{
	return host->mode == CGROUP_V2 ? &cgroup_ops_v2 : &cgroup_ops_v1;
}

int cgroup_write(int dir, const char *file, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	return file_write(dir, file, text);
}

int cgroup_read_u64(int dir, const char *file, uint64_t *ret)
{
	char text[32];
	int n = file_read(dir, file, text, sizeof(text));

	if (n < 0)
		return n;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, ret);
}

int cgroup_read_key(int dir, const char *file, const char *key, uint64_t *ret)
{
	char text[2048] = "";
	size_t key_len = strlen(key);
	int n = file_read(dir, file, text, sizeof(text));

	if (n < 0)
		return n;
	for (char *line = text; *line;) {
		char *end = line + strcspn(line, "\n");
		bool last = *end == '\0';

		*end = '\0';
		if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ')
			return parse_u64(line + key_len + 1, ret);
		if (last)
			break;
		line = end + 1;
	}
	return -ENOENT;
}

bool cgroup_host_swapless(void)
{
	static const char key[] = "\nSwapTotal:";
	char text[2048];
	const char *p;

	int r = file_read(AT_FDCWD, "/proc/meminfo", text, sizeof(text));

	if (r < 0 && r != -EFBIG) /* the line is among the first */
		return false;
	p = strstr(text, key);
	if (!p)
		return true; /* a kernel without swap */
	p += sizeof(key) - 1;
	return str_has_prefix(p + strspn(p, " "), "0 kB");
}

void cgroup_host_none(struct cgroup_host *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		ret->parents[i] = ret->bases[i] = FD_NONE;
}

void cgroup_host_close(struct cgroup_host *host)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		host->parents[i] = fd_close(host->parents[i]);
		host->bases[i] = fd_close(host->bases[i]);
	}
}

/* Directories of dead launchers are empty; live ones have a task within milliseconds. */
static void sweep_dir(int parent, unsigned age_s)
{
	CLEANUP_FD int copy = FD_NONE;
	time_t now = time(NULL);
	struct stat own;
	DIR *d;

	if (fstat(parent, &own) == 0 && own.st_nlink == 2)
		return; /* no directory below it */
	copy = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = copy < 0 ? NULL : fdopendir(copy);
	if (!d)
		return;
	(void)fd_take(&copy);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		struct stat st;

		if (!str_has_prefix(e->d_name, "box-"))
			continue;
		if (fstatat(parent, e->d_name, &st, 0) == 0 && st.st_mtime + (time_t)age_s <= now)
			(void)unlinkat(parent, e->d_name, AT_REMOVEDIR);
	}
	(void)closedir(d);
}

void cgroup_host_sweep(const struct cgroup_host *host, unsigned age_s)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		if (host->parents[i] >= 0)
			sweep_dir(host->parents[i], age_s);
}

void cgroup_host_remove(struct cgroup_host *host)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS && !host->persistent; i++)
		if (host->parents[i] >= 0)
			(void)unlinkat(host->bases[i], "brig", AT_REMOVEDIR);
	cgroup_host_close(host);
}

static void close_dirs(struct cgroup *cg)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		cg->dirs[i] = fd_close(cg->dirs[i]);
}

static int make_one(struct cgroup *cg, size_t i)
{
	int parent = cg->host->parents[i];

	if (mkdirat(parent, cg->name, 0755) < 0)
		return -errno;
	cg->dirs[i] = openat(parent, cg->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cg->dirs[i] >= 0)
		return 0;
	cg->dirs[i] = -errno;
	(void)unlinkat(parent, cg->name, AT_REMOVEDIR);
	return cg->dirs[i];
}

/* The slot's directory in every hierarchy, or none. */
static int make_slot(struct cgroup *cg, uint32_t slot)
{
	int r = 0;

	cg->slot = slot;
	cgroup_name(slot, cg->name, sizeof(cg->name));
	for (size_t i = 0; i < CGROUP_CONTROLLERS && r >= 0; i++)
		if (cg->host->parents[i] >= 0)
			r = make_one(cg, i);
	if (r < 0) {
		for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
			if (cg->dirs[i] >= 0)
				(void)unlinkat(cg->host->parents[i], cg->name, AT_REMOVEDIR);
		close_dirs(cg);
	}
	return r;
}

int cgroup_create(const struct cgroup_host *host, uint32_t hint, uint32_t slots,
                  const struct cgroup_limits *limits, struct cgroup *ret, struct err *err)
{
	struct cgroup cg = { .host = host };
	int r = -EEXIST;

	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		cg.dirs[i] = FD_NONE;
	for (uint32_t n = 0; n < slots && n < SLOT_TRIES && r == -EEXIST; n++)
		r = make_slot(&cg, (hint + n) % slots);
	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "make a cgroup below %s", host->path);
	r = ops_of(host)->set_limits(&cg, limits, err);
	if (r < 0) {
		(void)cgroup_remove(&cg, 0);
		return r;
	}
	*ret = cg;
	return 0;
}

int cgroup_dir(const struct cgroup *cg, enum cgroup_controller c)
{
	int with = cg->host->shared[c];

	return cg->dirs[c] >= 0 || !with ? cg->dirs[c] : cg->dirs[with - 1];
}

int cgroup_attach(const struct cgroup *cg, pid_t pid, struct err *err)
{
	if (cg->parked)
		return err_set(err, ERR_INTERNAL, EBADF, "cgroup %s is parked", cg->name);
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		int r = cg->dirs[i] < 0 ? 0
		                        : cgroup_write(cg->dirs[i], "cgroup.procs", (uint64_t)pid);

		if (r < 0)
			return err_set(err, ERR_SETUP, -r, "attach to cgroup %s", cg->name);
	}
	return 0;
}

void cgroup_park(struct cgroup *cg)
{
	close_dirs(cg);
	cg->parked = true;
}

/*
 * Moving a process stops every fork and exit of the host for a grace period, 10 ms on a quiet
 * machine. A thread that moves itself does not: v1 has a file for that.
 */
int cgroup_open_self(struct cgroup *cg, int ret[CGROUP_CONTROLLERS])
{
	const char *file = cg->host->mode == CGROUP_V1 ? "tasks" : "cgroup.procs";
	int n = 0;

	if (cg->parked)
		return -EBADF;
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		if (cg->dirs[i] < 0)
			continue;
		ret[n] = openat(cg->dirs[i], file, O_WRONLY | O_CLOEXEC);
		if (ret[n] < 0) {
			int r = -errno;

			while (n > 0)
				(void)close(ret[--n]);
			return r;
		}
		n++;
	}
	return n;
}

/* Where a controller's file of the group is: below its directory, or below the parent. */
static int locate(const struct cgroup *cg, enum cgroup_controller c, const char *file, char *path,
                  size_t size)
{
	int with = cg->host->shared[c], parent = cg->host->parents[c];

	if (!cg->parked) {
		(void)snprintf(path, size, "%s", file);
		return cgroup_dir(cg, c);
	}
	(void)snprintf(path, size, "%s/%s", cg->name, file);
	return parent >= 0 || !with ? parent : cg->host->parents[with - 1];
}

int cgroup_get(const struct cgroup *cg, enum cgroup_controller c, const char *file, const char *key,
               uint64_t *ret)
{
	char path[96];
	int dir = locate(cg, c, file, path, sizeof(path));

	if (dir < 0)
		return -ENOENT;
	return key ? cgroup_read_key(dir, path, key, ret) : cgroup_read_u64(dir, path, ret);
}

int cgroup_put(const struct cgroup *cg, enum cgroup_controller c, const char *file, uint64_t value)
{
	char path[96];
	int dir = locate(cg, c, file, path, sizeof(path));

	return dir < 0 ? -ENOENT : cgroup_write(dir, path, value);
}

void cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret)
{
	memset(ret, 0, sizeof(*ret));
	ops_of(cg->host)->read_usage(cg, ret);
}

static const struct {
	enum cgroup_controller v1_controller;
	const char *v1_file, *v1_key, *v2_file, *v2_key;
} usage_files[CGROUP_USAGE_FDS] = {
	{ CGROUP_CPUACCT, "cpuacct.usage", NULL, "cpu.stat", "usage_usec" },
	/* In this order: who sees a peak has seen the kills of a group that was still there. */
	{ CGROUP_MEMORY, "memory.oom_control", "oom_kill", "memory.events", "oom_kill" },
	{ CGROUP_MEMORY, "memory.max_usage_in_bytes", NULL, "memory.peak", NULL },
	{ CGROUP_PIDS, "pids.peak", NULL, "pids.peak", NULL },
	{ CGROUP_PIDS, "pids.current", NULL, "pids.current", NULL },
};

void cgroup_usage_open(const struct cgroup *cg, int ret[CGROUP_USAGE_FDS])
{
	bool v2 = cg->host->mode == CGROUP_V2;

	for (size_t i = 0; i < CGROUP_USAGE_FDS; i++) {
		char path[96];
		int dir = locate(cg, v2 ? CGROUP_MEMORY : usage_files[i].v1_controller,
		                 v2 ? usage_files[i].v2_file : usage_files[i].v1_file, path,
		                 sizeof(path));

		ret[i] = dir < 0 ? FD_NONE : openat(dir, path, O_RDONLY | O_CLOEXEC);
		if (ret[i] < 0)
			ret[i] = FD_NONE;
	}
}

static uint64_t read_handle(int fd, const char *key)
{
	char text[2048];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	const char *p = text;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	for (size_t len = key ? strlen(key) : 0; key && p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, len) == 0 && p[len] == ' ') {
			p += len + 1;
			break;
		}
	}
	return p ? strtoull(p, NULL, 10) : 0;
}

void cgroup_usage_read(enum cgroup_mode mode, const int fds[CGROUP_USAGE_FDS],
                       struct cgroup_usage *ret, uint64_t *ret_tasks)
{
	uint64_t v[CGROUP_USAGE_FDS];

	for (size_t i = 0; i < CGROUP_USAGE_FDS; i++)
		v[i] = read_handle(fds[i], mode == CGROUP_V2 ? usage_files[i].v2_key
		                                             : usage_files[i].v1_key);
	*ret = (struct cgroup_usage){ .cpu_ns = mode == CGROUP_V2 ? v[0] * 1000 : v[0],
		                      .oom_kills = v[1],
		                      .memory_peak = v[2],
		                      .pids_peak = v[3] };
	*ret_tasks = v[4];
}

uint64_t cgroup_read_cpu(const struct cgroup *cg)
{
	return ops_of(cg->host)->read_cpu(cg);
}

int cgroup_kill(const struct cgroup *cg)
{
	return ops_of(cg->host)->kill(cg);
}

static int remove_one(int parent, const char *name, uint64_t deadline)
{
	static const struct timespec pause = { .tv_nsec = 500000 };

	for (;;) {
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY || clock_ms() >= deadline)
			return -errno;
		(void)nanosleep(&pause, NULL);
	}
}

int cgroup_remove(struct cgroup *cg, unsigned wait_ms)
{
	uint64_t deadline = clock_ms() + wait_ms;
	int first = 0;

	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		int r = 0;

		if (cg->dirs[i] >= 0 || (cg->parked && cg->host->parents[i] >= 0))
			r = remove_one(cg->host->parents[i], cg->name, deadline);
		if (r < 0 && first == 0)
			first = r;
	}
	close_dirs(cg);
	return first;
}

void cgroup_name(uint32_t slot, char *ret, size_t size)
{
	(void)snprintf(ret, size, "box-%" PRIu32, slot);
}

void cgroup_remove_orphan(const struct cgroup_host *host, const char *name, unsigned wait_ms)
{
	uint64_t deadline = clock_ms() + wait_ms;

	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		if (host->parents[i] >= 0)
			(void)remove_one(host->parents[i], name, deadline);
}
