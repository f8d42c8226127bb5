/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of boxes that wait: no descriptor is kept. The hierarchies are plain folders. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup.h"

#define BOX "box-5"

static char root[48];
static struct cgroup_host host;
static struct cgroup cg;

static int make_dir(int at, const char *name)
{
	int fd;

	cr_assert(mkdirat(at, name, 0755) == 0, "%s", name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(fd >= 0);
	return fd;
}

static void put(size_t controller, const char *name, const char *text)
{
	CLEANUP_FD int dir = openat(host.parents[controller], BOX, O_RDONLY | O_CLOEXEC);
	CLEANUP_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", name);
}

/* v1 has a hierarchy for each controller; that of the share of the processors is missing here. */
static void setup(void)
{
	static const char *const names[CGROUP_CONTROLLERS] = {
		[CGROUP_MEMORY] = "memory", [CGROUP_PIDS] = "pids", [CGROUP_CPUACCT] = "cpuacct"
	};
	CLEANUP_FD int top = FD_NONE;

	(void)snprintf(root, sizeof(root), "/tmp/unit-cgp-XXXXXX");
	cr_assert(mkdtemp(root));
	top = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup_host_none(&host);
	host.mode = CGROUP_V1;
	cg = (struct cgroup){ .host = &host, .name = BOX };
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		cg.dirs[i] = FD_NONE;
		if (!names[i])
			continue;
		host.usable |= 1u << i;
		host.parents[i] = make_dir(top, names[i]);
		cg.dirs[i] = make_dir(host.parents[i], BOX);
		put(i, "cgroup.procs", "");
		put(i, "tasks", "");
	}
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
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		cg.dirs[i] = fd_close(cg.dirs[i]);
	cgroup_host_close(&host);
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cgroup_park, .init = setup, .fini = teardown, .timeout = 60);

static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	cr_assert(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n - 1;
}

static void put_usage(void)
{
	put(CGROUP_MEMORY, "memory.max_usage_in_bytes", "99\n");
	put(CGROUP_MEMORY, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	put(CGROUP_PIDS, "pids.peak", "4\n");
	put(CGROUP_CPUACCT, "cpuacct.usage", "12345\n");
}

static void remove_files(void)
{
	static const char *const names[] = {
		"cgroup.procs",       "tasks",     "memory.max_usage_in_bytes",
		"memory.oom_control", "pids.peak", "cpuacct.usage"
	};

	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		CLEANUP_FD int dir = FD_NONE;

		if (host.parents[i] >= 0)
			dir = openat(host.parents[i], BOX, O_RDONLY | O_CLOEXEC);
		for (size_t k = 0; dir >= 0 && k < ELEMENTSOF(names); k++)
			(void)unlinkat(dir, names[k], 0);
	}
}

Test(cgroup_park, a_parked_group_holds_no_descriptor_and_is_read_all_the_same)
{
	unsigned before = count_fds();

	put_usage();
	cgroup_park(&cg);
	cr_expect(count_fds() == before - 3);
	for (int i = 0; i < 3; i++) {
		struct cgroup_usage u = { .cpu_ns = 1 };

		cgroup_read_usage(&cg, &u);
		cr_expect(u.memory_peak == 99 && u.oom_kills == 3 && u.pids_peak == 4);
		cr_expect(u.cpu_ns == 12345);
		cr_expect(count_fds() == before - 3, "descriptors stay open");
	}
	cgroup_park(&cg); /* twice does no harm */
	cr_expect(cgroup_kill(&cg) == 0 && count_fds() == before - 3);
}

Test(cgroup_park, a_group_that_is_not_parked_keeps_its_descriptors)
{
	struct cgroup_usage u;
	unsigned before = count_fds();

	put_usage();
	cgroup_read_usage(&cg, &u);
	cr_expect(u.memory_peak == 99 && cgroup_kill(&cg) == 0);
	cr_expect(count_fds() == before && cg.dirs[CGROUP_MEMORY] >= 0);
}

Test(cgroup_park, a_parked_group_is_killed_by_its_file)
{
	CLEANUP_FD int file = FD_NONE;
	char text[8] = "";

	host.mode = CGROUP_V2;
	put(CGROUP_MEMORY, "cgroup.kill", "");
	cgroup_park(&cg);
	cr_expect(cgroup_kill(&cg) == 0);
	file = openat(host.parents[CGROUP_MEMORY], BOX "/cgroup.kill", O_RDONLY | O_CLOEXEC);
	cr_expect(read(file, text, sizeof(text) - 1) == 1 && text[0] == '1');
}

Test(cgroup_park, a_parked_group_is_removed_everywhere)
{
	cgroup_park(&cg);
	remove_files();
	cr_expect(cgroup_remove(&cg, 0) == 0);
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		cr_expect(host.parents[i] < 0 || faccessat(host.parents[i], BOX, F_OK, 0) < 0);
}

Test(cgroup_park, a_group_that_is_gone_reads_as_nothing)
{
	struct cgroup_usage u = { .cpu_ns = 1, .memory_peak = 1 };
	unsigned before;

	cgroup_park(&cg);
	before = count_fds();
	(void)snprintf(cg.name, sizeof(cg.name), "box-6");
	cgroup_read_usage(&cg, &u);
	cr_expect(!u.cpu_ns && !u.memory_peak && !u.pids_peak && !u.oom_kills);
	cr_expect(count_fds() == before);
}

Test(cgroup_park, a_host_of_which_nothing_is_known_reads_as_nothing)
{
	struct cgroup_host none;
	struct cgroup of_none = { .host = &none, .name = BOX, .parked = true };
	struct cgroup_usage u = { .cpu_ns = 1 };
	unsigned before = count_fds();

	memset(&none, 0, sizeof(none)); /* zeros: descriptors of the caller's */
	cgroup_host_none(&none);
	cr_expect(none.mode == CGROUP_NONE && none.usable == 0);
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++)
		cr_expect(none.parents[i] == FD_NONE && none.bases[i] == FD_NONE);
	cgroup_read_usage(&of_none, &u);
	cr_expect(!u.cpu_ns && !u.memory_peak);
	cgroup_host_close(&none);
	cr_expect(count_fds() == before, "closed what was not its own");
}

/* The cpu controller has no directory of its own here; its files are those of cpuacct. */
Test(cgroup_park, a_controller_that_shares_a_hierarchy_is_found_parked_or_not)
{
	uint64_t v = 0;

	put_usage();
	cr_expect(cgroup_get(&cg, CGROUP_CPU, "cpuacct.usage", NULL, &v) == -ENOENT);
	host.shared[CGROUP_CPU] = CGROUP_CPUACCT + 1;
	for (int parked = 0; parked < 2; parked++) {
		v = 0;
		cr_expect(cgroup_get(&cg, CGROUP_CPU, "cpuacct.usage", NULL, &v) == 0 && v == 12345,
		          "parked: %d", parked);
		cr_expect(cgroup_read_cpu(&cg) == 12345);
		cr_expect(cgroup_get(&cg, CGROUP_MEMORY, "memory.oom_control", "oom_kill", &v) ==
		                  0 &&
		          v == 3);
		cr_expect(cgroup_put(&cg, CGROUP_CPU, "no.such", 1) == -ENOENT);
		cgroup_park(&cg);
	}
}

static off_t size_of(size_t controller, const char *file)
{
	struct stat st = { .st_size = -1 };

	(void)fstatat(cg.dirs[controller], file, &st, 0);
	return st.st_size;
}

/* v1 has a file that moves one thread, which is cheaper; v2 has one for processes. */
Test(cgroup_park, a_process_can_attach_itself_with_what_was_opened)
{
	for (int v1 = 0; v1 < 2; v1++) {
		int procs[CGROUP_CONTROLLERS];
		unsigned before = count_fds();
		int n;

		host.mode = v1 ? CGROUP_V1 : CGROUP_V2;
		n = cgroup_open_self(&cg, procs);
		cr_assert(n == 3);
		for (int i = 0; i < n; i++) {
			cr_expect(fcntl(procs[i], F_GETFD) & FD_CLOEXEC);
			cr_expect((fcntl(procs[i], F_GETFL) & O_ACCMODE) == O_WRONLY);
			cr_expect(write(procs[i], "0", 1) == 1);
			(void)fd_close(procs[i]);
		}
		cr_expect(count_fds() == before);
		for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
			if (cg.dirs[i] < 0)
				continue;
			cr_expect(size_of(i, v1 ? "tasks" : "cgroup.procs") == 1);
			cr_expect(size_of(i, "tasks") == v1, "v2 has no such file");
		}
	}
}

/* A box outside of one of its groups would be without that limit. */
Test(cgroup_park, all_hierarchies_or_none)
{
	for (size_t i = 0; i < CGROUP_CONTROLLERS; i++) {
		int procs[CGROUP_CONTROLLERS];
		unsigned before = count_fds();

		if (cg.dirs[i] < 0)
			continue;
		cr_assert(unlinkat(cg.dirs[i], "tasks", 0) == 0);
		cr_expect(cgroup_open_self(&cg, procs) == -ENOENT, "%zu", i);
		cr_expect(count_fds() == before, "%zu: some stay open", i);
		put(i, "tasks", "");
	}
}
