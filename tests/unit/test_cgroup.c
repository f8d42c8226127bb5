/* SPDX-License-Identifier: Apache-2.0 */
/* Hierarchies that are plain folders: mkdir makes no files in them, so the tests put them there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/str.h"
#include "sys/cgroup.h"
#include "sys/file.h"

#define ALL_V2 (CGROUP_BIT(MEMORY) | CGROUP_BIT(PIDS) | CGROUP_BIT(CPU))
#define ALL_V1 (ALL_V2 | CGROUP_BIT(CPUACCT))

static char root[48];

static void setup(void)
{
	(void)snprintf(root, sizeof(root), "/tmp/unit-cg-XXXXXX");
	cr_assert(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

static void teardown(void)
{
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cgroup, .init = setup, .fini = teardown, .timeout = 60);

static const char *at(const char *path)
{
	static char full[4][512];
	static unsigned turn;
	char *p = full[turn++ % 4];

	(void)snprintf(p, sizeof(full[0]), "%s/%s", root, path);
	return p;
}

/* With every folder above it. */
static void make_dirs(const char *path)
{
	char part[256];

	for (size_t i = 1; i <= strlen(path); i++) {
		if (path[i] != '/' && path[i])
			continue;
		(void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
		cr_assert(mkdir(at(part), 0755) == 0 || errno == EEXIST, "%s", part);
	}
}

static void put(const char *path, const char *text)
{
	CLEANUP_FD int fd = open(at(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert(fd >= 0, "%s", path);
	cr_assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void put_all(const char *dir, const char *const *names, size_t n)
{
	char path[256];

	make_dirs(dir);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		put(path, "");
	}
}

static const char *content(const char *path)
{
	static char text[256];
	CLEANUP_FD int fd = open(at(path), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return "(missing)";
	text[n] = '\0';
	return text;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(at(path), &st) == 0 && S_ISDIR(st.st_mode);
}

static int open_dir(const char *path)
{
	int fd = open(at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	cr_assert(fd >= 0, "%s", path);
	return fd;
}

static const char *const v2_files[] = {
	"memory.max", "memory.swap.max", "memory.oom.group", "memory.zswap.max",      "pids.max",
	"cpu.max",    "cgroup.kill",     "cgroup.procs",     "cgroup.max.descendants"
};
static const char *const v1_memory[] = { "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
	                                 "memory.swappiness", "memory.kmem.tcp.limit_in_bytes",
	                                 "cgroup.procs" };
static const char *const v1_pids[] = { "pids.max", "cgroup.procs" };
static const char *const v1_cpu[] = { "cpu.cfs_period_us", "cpu.cfs_quota_us", "cgroup.procs" };

static const struct cgroup_limits limits = { .memory_bytes = 64 * MIB,
	                                     .pids = 17,
	                                     .cpu_milli = 500 };

/* A box's group on v2, by hand. */
static void v2_box(struct cgroup_host *host, struct cgroup *cg)
{
	*host = (struct cgroup_host){ .mode = CGROUP_V2, .usable = ALL_V2 };
	*cg = (struct cgroup){ .host = host, .name = "box-0" };
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		host->parents[i] = host->bases[i] = cg->dirs[i] = FD_NONE;
	put_all("box", v2_files, ELEMENTSOF(v2_files));
	cg->dirs[CGROUP_MEMORY] = open_dir("box");
}

static void v1_box(struct cgroup_host *host, struct cgroup *cg)
{
	*host = (struct cgroup_host){ .mode = CGROUP_V1, .usable = ALL_V1 };
	*cg = (struct cgroup){ .host = host, .name = "box-0" };
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		host->parents[i] = host->bases[i] = FD_NONE;
	put_all("memory", v1_memory, ELEMENTSOF(v1_memory));
	put_all("pids", v1_pids, ELEMENTSOF(v1_pids));
	put_all("cpu", v1_cpu, ELEMENTSOF(v1_cpu));
	put_all("cpuacct", v1_pids, ELEMENTSOF(v1_pids));
	cg->dirs[CGROUP_MEMORY] = open_dir("memory");
	cg->dirs[CGROUP_PIDS] = open_dir("pids");
	cg->dirs[CGROUP_CPU] = open_dir("cpu");
	cg->dirs[CGROUP_CPUACCT] = open_dir("cpuacct");
}

Test(cgroup, v2_limits_are_written)
{
	struct cgroup_host host;
	struct cgroup cg;
	struct err err = { 0 };

	v2_box(&host, &cg);
	cr_assert(cgroup_ops_v2.set_limits(&cg, &limits, &err) == 0, "%s", err.msg);
	cr_expect_str_eq(content("box/memory.max"), "67108864");
	cr_expect_str_eq(content("box/memory.swap.max"), "0");
	cr_expect_str_eq(content("box/memory.zswap.max"), "0");
	cr_expect_str_eq(content("box/memory.oom.group"), "1");
	cr_expect_str_eq(content("box/pids.max"), "17");
	cr_expect_str_eq(content("box/cpu.max"), "50000 100000");
	cr_expect_str_eq(content("box/cgroup.max.descendants"), "0");
	cr_expect(cg.swap_off);
}

Test(cgroup, v1_limits_are_written)
{
	struct cgroup_host host;
	struct cgroup cg;
	struct err err = { 0 };

	v1_box(&host, &cg);
	cr_assert(cgroup_ops_v1.set_limits(&cg, &limits, &err) == 0, "%s", err.msg);
	cr_expect_str_eq(content("memory/memory.limit_in_bytes"), "67108864");
	cr_expect_str_eq(content("memory/memory.memsw.limit_in_bytes"), "67108864");
	cr_expect_str_eq(content("memory/memory.kmem.tcp.limit_in_bytes"), "4194304");
	cr_expect_str_eq(content("memory/memory.swappiness"), "");
	cr_expect_str_eq(content("pids/pids.max"), "17");
	cr_expect_str_eq(content("cpu/cpu.cfs_period_us"), "");
	cr_expect_str_eq(content("cpu/cpu.cfs_quota_us"), "50000");
	cr_expect(cg.swap_off);
}

/* The kernel takes no quota below one millisecond. */
Test(cgroup, the_smallest_share_is_one_the_kernel_takes)
{
	static const struct {
		uint64_t milli;
		const char *v2, *quota;
	} rows[] = {
		{ 10, "1000 100000", "1000" },
		{ 19, "1900 100000", "1900" },
		{ 1000, "100000 100000", "100000" },
		{ 256000, "25600000 100000", "25600000" },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct cgroup_limits l = { .memory_bytes = 1,
			                   .pids = 1,
			                   .cpu_milli = rows[i].milli };
		struct cgroup_host host;
		struct cgroup cg;

		v2_box(&host, &cg);
		cr_assert(cgroup_ops_v2.set_limits(&cg, &l, NULL) == 0);
		cr_expect_str_eq(content("box/cpu.max"), rows[i].v2);
		v1_box(&host, &cg);
		cr_assert(cgroup_ops_v1.set_limits(&cg, &l, NULL) == 0);
		cr_expect_str_eq(content("cpu/cpu.cfs_quota_us"), rows[i].quota);
	}
}

Test(cgroup, v2_missing_files)
{
	static const struct {
		const char *file;
		bool fails, swap_off;
	} rows[] = {
		{ "memory.max", true, false },
		{ "memory.oom.group", true, false },
		{ "memory.swap.max", false, false },
		{ "memory.zswap.max", false, true },
		{ "cgroup.max.descendants", false, true },
		{ "pids.max", true, false },
		{ "cpu.max", true, false },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct cgroup_host host;
		struct cgroup cg;
		struct err err = { 0 };
		int r;

		v2_box(&host, &cg);
		cr_assert(unlinkat(cg.dirs[CGROUP_MEMORY], rows[i].file, 0) == 0);
		r = cgroup_ops_v2.set_limits(&cg, &limits, &err);
		cr_expect(r == (rows[i].fails ? -ENOENT : 0), "%s: %d", rows[i].file, r);
		cr_expect(!rows[i].fails || strstr(err.msg, rows[i].file), "%s", err.msg);
		cr_expect(rows[i].fails ||
		                  cg.swap_off == (rows[i].swap_off || cgroup_host_swapless()),
		          "%s", rows[i].file);
		cr_expect(rows[i].fails == (err.code == ERR_SETUP));
	}
}

Test(cgroup, v2_controllers_that_are_not_there_are_not_written)
{
	struct cgroup_limits l = limits;
	struct cgroup_host host;
	struct cgroup cg;

	v2_box(&host, &cg);
	host.usable = CGROUP_BIT(PIDS);
	cr_assert(cgroup_ops_v2.set_limits(&cg, &l, NULL) == 0);
	cr_expect_str_eq(content("box/memory.max"), "");
	cr_expect_str_eq(content("box/cpu.max"), "");
	cr_expect_str_eq(content("box/pids.max"), "17");
	cr_expect(!cg.swap_off);
}

Test(cgroup, v1_missing_files)
{
	static const struct {
		size_t controller;
		const char *file;
		bool fails, swap_off;
	} rows[] = {
		{ CGROUP_MEMORY, "memory.limit_in_bytes", true, false },
		{ CGROUP_MEMORY, "memory.memsw.limit_in_bytes", false, false },
		{ CGROUP_MEMORY, "memory.swappiness", false, true },
		{ CGROUP_MEMORY, "memory.kmem.tcp.limit_in_bytes", true, false },
		{ CGROUP_PIDS, "pids.max", true, false },
		{ CGROUP_CPU, "cpu.cfs_period_us", false, true },
		{ CGROUP_CPU, "cpu.cfs_quota_us", true, false },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct cgroup_host host;
		struct cgroup cg;
		struct err err = { 0 };
		int r;

		v1_box(&host, &cg);
		cr_assert(unlinkat(cg.dirs[rows[i].controller], rows[i].file, 0) == 0);
		r = cgroup_ops_v1.set_limits(&cg, &limits, &err);
		cr_expect(r == (rows[i].fails ? -ENOENT : 0), "%s: %d", rows[i].file, r);
		cr_expect(rows[i].fails ||
		                  cg.swap_off == (rows[i].swap_off || cgroup_host_swapless()),
		          "%s", rows[i].file);
		cr_expect(rows[i].fails == (err.code == ERR_SETUP));
	}
}

Test(cgroup, v2_usage_is_read)
{
	struct cgroup_host host;
	struct cgroup_usage u;
	struct cgroup cg;

	v2_box(&host, &cg);
	put("box/memory.peak", "1048576\n");
	put("box/memory.events", "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n");
	put("box/pids.peak", "7\n");
	put("box/cpu.stat", "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n");
	cgroup_read_usage(&cg, &u);
	cr_expect(u.memory_peak == 1048576 && u.oom_kills == 5);
	cr_expect(u.pids_peak == 7 && u.cpu_ns == 1234000);
}

Test(cgroup, v1_without_swap_accounting_swaps_as_little_as_possible)
{
	struct cgroup_host host;
	struct cgroup cg;

	v1_box(&host, &cg);
	cr_assert(unlinkat(cg.dirs[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", 0) == 0);
	cr_assert(cgroup_ops_v1.set_limits(&cg, &limits, NULL) == 0);
	cr_expect(cg.swap_off == cgroup_host_swapless(), "does not call that none");
	cr_expect_str_eq(content("memory/memory.swappiness"), cgroup_host_swapless() ? "" : "0");
}

Test(cgroup, v1_usage_is_read)
{
	struct cgroup_host host;
	struct cgroup_usage u;
	struct cgroup cg;

	v1_box(&host, &cg);
	put("memory/memory.max_usage_in_bytes", "99\n");
	put("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3");
	put("pids/pids.peak", "4\n");
	put("cpuacct/cpuacct.usage", "18446744073709551615\n");
	cgroup_read_usage(&cg, &u);
	cr_expect(u.memory_peak == 99 && u.oom_kills == 3);
	cr_expect(u.pids_peak == 4 && u.cpu_ns == UINT64_MAX);
}

Test(cgroup, usage_that_is_missing_or_odd_is_zero)
{
	struct cgroup_host host;
	struct cgroup_usage u;
	struct cgroup cg;

	v2_box(&host, &cg);
	cgroup_read_usage(&cg, &u);
	cr_expect(!u.memory_peak && !u.oom_kills && !u.pids_peak && !u.cpu_ns);
	put("box/memory.peak", "max\n");
	put("box/pids.peak", "-1\n");
	put("box/memory.events", "oom_kill_x 9\noom_kill\n");
	put("box/cpu.stat", "usage_usec one\n");
	cgroup_read_usage(&cg, &u);
	cr_expect(!u.memory_peak && !u.oom_kills && !u.pids_peak && !u.cpu_ns);
}

Test(cgroup, small_files_are_read_and_written)
{
	uint64_t v = 4711;
	int dir;

	make_dirs("d");
	put("d/n", "12\n");
	put("d/keys", "a 1\nab 2\n\nb 3");
	dir = open_dir("d");
	cr_expect(cgroup_read_u64(dir, "n", &v) == 0 && v == 12);
	cr_expect(cgroup_read_u64(dir, "missing", &v) == -ENOENT && v == 12);
	cr_expect(cgroup_read_key(dir, "keys", "ab", &v) == 0 && v == 2);
	cr_expect(cgroup_read_key(dir, "keys", "b", &v) == 0 && v == 3);
	cr_expect(cgroup_read_key(dir, "keys", "c", &v) == -ENOENT && v == 3);
	cr_expect(cgroup_write(dir, "missing", 1) == -ENOENT, "a limit is never a new file");
	cr_expect(file_write(dir, "n", "full") == 0);
	(void)fd_close(dir);
}

Test(cgroup, killing_is_one_write_on_v2_and_nothing_without_the_file)
{
	struct cgroup_host host;
	struct cgroup cg;

	v2_box(&host, &cg);
	cr_expect(cgroup_kill(&cg) == 0);
	cr_expect_str_eq(content("box/cgroup.kill"), "1");
	cr_assert(unlinkat(cg.dirs[CGROUP_MEMORY], "cgroup.kill", 0) == 0);
	cr_expect(cgroup_kill(&cg) == 0);
	v1_box(&host, &cg);
	cr_expect(cgroup_kill(&cg) == 0);
}

Test(cgroup, attaching_writes_the_pid_everywhere)
{
	struct cgroup_host host;
	struct cgroup cg;
	struct err err = { 0 };

	v1_box(&host, &cg);
	cr_expect(cgroup_attach(&cg, 123, &err) == 0);
	cr_expect_str_eq(content("memory/cgroup.procs"), "123");
	cr_expect_str_eq(content("pids/cgroup.procs"), "123");
	cr_expect_str_eq(content("cpu/cgroup.procs"), "123");
	cr_expect_str_eq(content("cpuacct/cgroup.procs"), "123");
	cr_assert(unlinkat(cg.dirs[CGROUP_CPU], "cgroup.procs", 0) == 0);
	cr_expect(cgroup_attach(&cg, 123, &err) == -ENOENT && err.code == ERR_SETUP);
}

/* A host whose hierarchies have no controllers: groups are made, no limit is written. */
static void bare_host(struct cgroup_host *host)
{
	*host = (struct cgroup_host){ .mode = CGROUP_V2 };
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		host->parents[i] = host->bases[i] = FD_NONE;
	make_dirs("base/brig");
	host->bases[CGROUP_MEMORY] = open_dir("base");
	host->parents[CGROUP_MEMORY] = open_dir("base/brig");
}

Test(cgroup, a_taken_slot_is_passed_over)
{
	struct cgroup_host host;
	struct cgroup a, b, c;

	bare_host(&host);
	make_dirs("base/brig/box-3");
	cr_assert(cgroup_create(&host, 3, 5, &limits, &a, NULL) == 0);
	cr_expect(a.slot == 4 && streq(a.name, "box-4"));
	cr_assert(cgroup_create(&host, 3, 5, &limits, &b, NULL) == 0);
	cr_expect(b.slot == 0, "after the last comes the first");
	cr_assert(cgroup_create(&host, UINT32_MAX, 5, &limits, &c, NULL) == 0);
	cr_expect(c.slot == 1 && is_dir("base/brig/box-1"));
	cr_expect(cgroup_remove(&a, 0) == 0 && !is_dir("base/brig/box-4"));
	cr_expect(cgroup_remove(&b, 0) == 0 && cgroup_remove(&c, 0) == 0);
	cgroup_host_close(&host);
}

Test(cgroup, without_a_free_slot_there_is_no_group)
{
	struct cgroup_host host;
	struct cgroup cg;
	struct err err = { 0 };

	bare_host(&host);
	make_dirs("base/brig/box-0");
	make_dirs("base/brig/box-1");
	cr_expect(cgroup_create(&host, 0, 2, &limits, &cg, &err) == -EEXIST);
	cr_expect(err.code == ERR_SETUP);
	cr_expect(cgroup_create(&host, 0, 0, &limits, &cg, &err) == -EEXIST);
	cgroup_host_close(&host);
}

Test(cgroup, a_group_without_its_limits_does_not_stay)
{
	struct cgroup_host host;
	struct cgroup cg;
	struct err err = { 0 };

	bare_host(&host);
	host.usable = ALL_V2; /* but mkdir here makes no memory.max */
	cr_expect(cgroup_create(&host, 0, 9, &limits, &cg, &err) == -ENOENT);
	cr_expect(!is_dir("base/brig/box-0"));
	cgroup_host_close(&host);
}

Test(cgroup, a_slot_taken_in_one_hierarchy_leaves_nothing_in_the_others)
{
	struct cgroup_host host = { .mode = CGROUP_V1 };
	struct cgroup cg;

	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		host.parents[i] = host.bases[i] = FD_NONE;
	make_dirs("m/brig");
	make_dirs("p/brig/box-0");
	host.parents[CGROUP_MEMORY] = open_dir("m/brig");
	host.parents[CGROUP_PIDS] = open_dir("p/brig");
	cr_expect(cgroup_create(&host, 0, 1, &limits, &cg, NULL) == -EEXIST);
	cr_expect(!is_dir("m/brig/box-0") && is_dir("p/brig/box-0"));
	cgroup_host_close(&host);
}

static void set_age(const char *path, time_t seconds)
{
	struct timespec t[2] = { { .tv_sec = time(NULL) - seconds },
		                 { .tv_sec = time(NULL) - seconds } };

	cr_assert(utimensat(AT_FDCWD, at(path), t, 0) == 0);
}

Test(cgroup, only_old_empty_boxes_are_swept)
{
	struct cgroup_host host;

	bare_host(&host);
	make_dirs("base/brig/box-1");
	make_dirs("base/brig/box-2");
	make_dirs("base/brig/box-3/busy");
	make_dirs("base/brig/other");
	set_age("base/brig/box-1", 100);
	set_age("base/brig/box-2", 5);
	set_age("base/brig/box-3", 100);
	set_age("base/brig/other", 100);
	cgroup_host_sweep(&host, 60);
	cr_expect(!is_dir("base/brig/box-1"));
	cr_expect(is_dir("base/brig/box-2"), "too young");
	cr_expect(is_dir("base/brig/box-3"), "not empty");
	cr_expect(is_dir("base/brig/other"), "not ours");
	cgroup_host_remove(&host);
	cr_expect(is_dir("base/brig"), "boxes are left");
}

Test(cgroup, the_parent_goes_with_the_last_box)
{
	struct cgroup_host host;

	bare_host(&host);
	cgroup_host_remove(&host);
	cr_expect(!is_dir("base/brig") && is_dir("base"));
	cr_expect(host.parents[CGROUP_MEMORY] == FD_NONE);
}

/* mountinfo and /proc/self/cgroup, with %s for the test's folder. */
static void open_fake(const char *mounts, const char *self, bool privileged,
                      struct cgroup_host *ret)
{
	struct cgroup_env env = { .privileged = privileged, .any_fs = true };
	char text[4096];
	size_t n = 0;

	for (const char *p = mounts; *p; p++) {
		if (*p == '@')
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", root);
		else
			text[n++] = *p;
	}
	text[n] = '\0';
	put("mountinfo", text);
	put("self", self);
	env.mountinfo = at("mountinfo");
	env.self_cgroup = at("self");
	cgroup_host_open(&env, ret);
}

#define V1_MOUNTS                                                                                  \
	"20 1 8:1 / / rw - ext4 /dev/sda rw,memory\n"                                              \
	"30 20 0:26 / @/memory rw,nosuid shared:1 - cgroup cgroup rw,memory\n"                     \
	"31 20 0:27 / @/pids rw,nosuid - cgroup cgroup rw,pids\n"                                  \
	"32 20 0:28 / @/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_SELF  "4:memory:/a\n3:pids:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n"
#define V2_MOUNT "40 20 0:30 / @/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"

static void make_v1_tree(void)
{
	make_dirs("memory/a");
	make_dirs("pids/a/b");
	make_dirs("cpu,cpuacct");
}

Test(cgroup, v1_of_root_is_at_the_top_of_each_hierarchy_and_stays)
{
	struct cgroup_host host;

	make_v1_tree();
	open_fake(V1_MOUNTS, V1_SELF, true, &host);
	cr_expect(host.mode == CGROUP_V1 && host.usable == ALL_V1, "%s", host.why);
	cr_expect(host.why[0] == '\0' && host.persistent);
	cr_expect(is_dir("memory/brig") && is_dir("pids/brig") && is_dir("cpu,cpuacct/brig"));
	cr_expect_str_eq(host.path, at("memory/brig"));
	cgroup_host_remove(&host);
	cr_expect(host.parents[CGROUP_MEMORY] == FD_NONE);
	cr_expect(is_dir("memory/brig") && is_dir("cpu,cpuacct/brig"));
}

Test(cgroup, v1_of_others_is_their_own_group_and_goes)
{
	struct cgroup_host host;

	make_v1_tree();
	open_fake(V1_MOUNTS, V1_SELF, false, &host);
	cr_expect(host.mode == CGROUP_V1 && host.usable == ALL_V1, "%s", host.why);
	cr_expect(is_dir("memory/a/brig") && is_dir("pids/a/b/brig") && is_dir("cpu,cpuacct/brig"));
	cr_expect_str_eq(host.path, at("memory/a/brig"));
	cgroup_host_remove(&host);
	cr_expect(!is_dir("memory/a/brig") && !is_dir("cpu,cpuacct/brig"));
}

Test(cgroup, root_needs_no_place_of_its_own)
{
	struct cgroup_host host;

	make_dirs("memory");
	open_fake("30 20 0:26 /docker/abc @/memory rw - cgroup cgroup rw,memory\n",
	          "4:memory:/other\n", true, &host);
	cr_expect(host.usable == CGROUP_BIT(MEMORY) && is_dir("memory/brig"));
	cgroup_host_close(&host);
}

Test(cgroup, a_hybrid_host_is_v1)
{
	struct cgroup_host host;

	make_v1_tree();
	make_dirs("unified");
	open_fake(V2_MOUNT V1_MOUNTS, V1_SELF "0::/\n", true, &host);
	cr_expect(host.mode == CGROUP_V1 && host.usable == ALL_V1);
	cr_expect(!is_dir("unified/brig"));
	cgroup_host_remove(&host);
}

Test(cgroup, a_v1_controller_that_is_missing_is_named)
{
	struct cgroup_host host;

	make_dirs("memory/a");
	make_dirs("cpu,cpuacct");
	open_fake(V1_MOUNTS, V1_SELF, false, &host);
	cr_expect(host.usable == (CGROUP_BIT(MEMORY) | CGROUP_BIT(CPU) | CGROUP_BIT(CPUACCT)));
	cr_expect(str_has_prefix(host.why, "pids: "), "%s", host.why);
	cgroup_host_remove(&host);
}

Test(cgroup, a_mount_of_a_part_is_understood)
{
	static const struct {
		const char *mount_root, *self, *made;
	} rows[] = {
		{ "/docker/abc", "/docker/abc", "memory/brig" },
		{ "/docker/abc", "/docker/abc/inner", "memory/inner/brig" },
		{ "/docker/abc", "/docker/abcdef", NULL }, /* beside what the mount shows */
		{ "/docker/abc", "/other", NULL },
		{ "/docker/abc", "/", NULL },
		{ "/", "/inner", "memory/inner/brig" },
		{ "/", "/", "memory/brig" },
		{ "/", "/../above", NULL }, /* above our cgroup namespace's root */
		{ "/", "/..", NULL },
	};

	make_dirs("memory/inner");
	make_dirs("memorydef");
	make_dirs("memory/other");
	make_dirs("above");
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct cgroup_host host;
		char mounts[256], self[128];

		(void)snprintf(mounts, sizeof(mounts),
		               "30 20 0:26 %s @/memory rw - cgroup cgroup rw,memory\n",
		               rows[i].mount_root);
		(void)snprintf(self, sizeof(self), "4:memory:%s\n", rows[i].self);
		open_fake(mounts, self, false, &host);
		cr_expect(host.usable == (rows[i].made ? CGROUP_BIT(MEMORY) : 0), "%s in %s",
		          rows[i].self, rows[i].mount_root);
		cr_expect(!rows[i].made || is_dir(rows[i].made), "%s", rows[i].made);
		cgroup_host_remove(&host);
	}
	cr_expect(!is_dir("brig") && !is_dir("above/brig") && !is_dir("memorydef/brig"));
}

/*
 * The code writes "+memory", "+pids" and "+cpu" over the start of the file, which a folder keeps
 * and the kernel would interpret; what follows is what the kernel would then answer.
 */
#define ANSWER(controllers) "       " controllers "\n"

Test(cgroup, v2_of_root_is_at_the_top)
{
	struct cgroup_host host;

	make_dirs("unified/brig");
	make_dirs("unified/a");
	put("unified/cgroup.subtree_control", "");
	put("unified/brig/cgroup.subtree_control", ANSWER(" cpuset cpu io memory pids"));
	open_fake(V2_MOUNT, "0::/a\n", true, &host);
	cr_expect(host.mode == CGROUP_V2);
	cr_expect_str_eq(host.path, at("unified/brig"));
	cr_expect(host.usable == ALL_V2 && host.why[0] == '\0', "%s", host.why);
	cr_expect(str_has_prefix(content("unified/cgroup.subtree_control"), "+cpu"));
	cgroup_host_close(&host);
}

Test(cgroup, v2_without_a_controller_is_told)
{
	struct cgroup_host host;

	make_dirs("unified/brig");
	put("unified/brig/cgroup.subtree_control", ANSWER(" cpuset memory pids"));
	open_fake(V2_MOUNT, "0::/\n", true, &host);
	cr_expect(host.usable == (CGROUP_BIT(MEMORY) | CGROUP_BIT(PIDS)));
	cr_expect(strstr(host.why, "not delegated") != NULL, "%s", host.why);
	cgroup_host_close(&host);
}

Test(cgroup, v2_of_others_is_their_own_group_and_they_step_aside)
{
	struct cgroup_host host;

	make_dirs("unified/user/me/brig-launch");
	make_dirs("unified/user/me/brig");
	put("unified/user/me/brig-launch/cgroup.procs", "");
	put("unified/user/me/cgroup.subtree_control", "");
	put("unified/user/me/brig/cgroup.subtree_control", ANSWER(" memory pids cpu"));
	open_fake(V2_MOUNT, "0::/user/me\n", false, &host);
	cr_expect(host.mode == CGROUP_V2);
	cr_expect_str_eq(host.path, at("unified/user/me/brig"));
	cr_expect(host.usable == ALL_V2);
	cr_expect(!is_dir("unified/brig"));
	cr_expect(content("unified/user/me/brig-launch/cgroup.procs")[0] != '\0', "stepped aside");
	cgroup_host_close(&host);
}

Test(cgroup, v2_without_the_right_to_step_aside_is_told)
{
	struct cgroup_host host;

	make_dirs("unified/user/me"); /* no cgroup.procs can be written in the leaf */
	open_fake(V2_MOUNT, "0::/user/me\n", false, &host);
	cr_expect(host.mode == CGROUP_V2 && host.usable == 0);
	cr_expect(str_has_prefix(host.why, "cgroup v2: "), "%s", host.why);
	cr_expect(host.parents[CGROUP_MEMORY] == FD_NONE);
	cgroup_host_close(&host);
}

Test(cgroup, without_any_hierarchy_there_is_none)
{
	struct cgroup_host host;

	open_fake("20 1 8:1 / / rw - ext4 /dev/sda rw,memory\n", "0::/\n", true, &host);
	cr_expect(host.mode == CGROUP_NONE && host.usable == 0 && host.why[0]);
	cgroup_host_close(&host);
	open_fake("", "", true, &host);
	cr_expect(host.mode == CGROUP_NONE);
	open_fake("garbage\n - \n - cgroup\n1 2 - cgroup x memory\n", "::\n:\nx\n", true, &host);
	cr_expect(host.usable == 0);
	cgroup_host_close(&host);
}

Test(cgroup, names_of_controllers_are_whole_words)
{
	struct cgroup_host host;

	make_dirs("x");
	open_fake("30 20 0:26 / @/x rw - cgroup cgroup rw,memoryx,xmemory,name=memory\n"
	          "31 20 0:27 / @/x rw - cgroup cgroup rw,cpuset\n",
	          "2:memoryx:/\n1:cpuset:/\n", true, &host);
	cr_expect(host.usable == 0);
	cgroup_host_close(&host);
}

Test(cgroup, a_folder_that_is_no_cgroup_file_system_is_refused)
{
	struct cgroup_env env = { .privileged = false };
	struct cgroup_host host;

	make_v1_tree();
	open_fake(V1_MOUNTS, V1_SELF, false, &host); /* writes the two files */
	cgroup_host_remove(&host);
	env.mountinfo = at("mountinfo");
	env.self_cgroup = at("self");
	cgroup_host_open(&env, &host);
	cr_expect(host.usable == 0 && host.why[0]);
	cr_expect(!is_dir("memory/brig"));
	cgroup_host_close(&host);
}
