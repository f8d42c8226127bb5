/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "sys/landlock.h"
#include "sys/probe.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"

static struct probe_report report;

static void look(void)
{
	cr_assert_eq(probe_host(&report), 0);
}

TestSuite(probe, .init = look, .timeout = 60);

static enum probe_state state_of(enum probe_id id)
{
	return report.items[id].state;
}

Test(probe, every_item_is_told_apart_and_described)
{
	for (size_t i = 0; i < PROBE_COUNT; i++) {
		const struct probe_item *item = &report.items[i];

		cr_assert(item->id && *item->id, "item %zu has no id", i);
		cr_expect(*item->group && *item->title && *item->cost, "%s", item->id);
		cr_expect(*item->found, "%s: nothing found", item->id);
		for (size_t k = 0; k < i; k++)
			cr_expect(!streq(item->id, report.items[k].id), "%s twice", item->id);
	}
}

Test(probe, texts_are_one_printable_line)
{
	for (size_t i = 0; i < PROBE_COUNT; i++) {
		const char *texts[] = { report.items[i].found, report.items[i].remedy };

		for (size_t t = 0; t < ELEMENTSOF(texts); t++)
			for (const char *p = texts[t]; *p; p++)
				cr_expect((unsigned char)*p >= ' ', "%s", report.items[i].id);
	}
}

Test(probe, what_is_ok_needs_no_remedy)
{
	for (size_t i = 0; i < PROBE_COUNT; i++)
		if (report.items[i].state == PROBE_OK)
			cr_expect_str_empty(report.items[i].remedy, "%s", report.items[i].id);
}

Test(probe, zero_is_missing)
{
	const struct probe_item item = { .id = "x" };

	cr_assert_eq(item.state, PROBE_MISSING);
	cr_assert_str_eq(probe_state_name(item.state), "missing");
	cr_assert_str_eq(probe_state_name((enum probe_state)77), "missing");
}

/* Does the call work for us, in a child of our own making? */
static bool child_can(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(fn() < 0 ? 1 : 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int direct_userns(void)
{
	return (int)syscall(SYS_unshare, CLONE_NEWUSER);
}

static int direct_pidfd(void)
{
	return sys_pidfd_open(getpid());
}

static int direct_openat2(void)
{
	return sys_openat2(AT_FDCWD, "/", O_PATH, 0, 0);
}

static int direct_close_range(void)
{
	return sys_close_range(1000, 1000, 0);
}

static int direct_clone3(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int pid = sys_clone3(&args);

	if (pid == 0)
		_exit(0);
	return pid;
}

static int direct_landlock(void)
{
	return landlock_abi() > 0 ? 0 : -1;
}

static int direct_landlock_scope(void)
{
	return landlock_abi() >= 6 ? 0 : -1;
}

static int direct_fsopen(void)
{
	int r = sys_fsopen("tmpfs");

	return r == -EPERM ? 0 : r; /* there, but not for us outside a namespace */
}

Test(probe, states_agree_with_the_calls)
{
	static const struct {
		enum probe_id id;
		int (*fn)(void);
	} rows[] = {
		{ PROBE_USERNS, direct_userns },
		{ PROBE_PIDFD, direct_pidfd },
		{ PROBE_OPENAT2, direct_openat2 },
		{ PROBE_CLOSE_RANGE, direct_close_range },
		{ PROBE_CLONE3, direct_clone3 },
		{ PROBE_LANDLOCK, direct_landlock },
		{ PROBE_LANDLOCK_SCOPE, direct_landlock_scope },
		{ PROBE_MOUNT_API, direct_fsopen },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++)
		cr_expect_eq(state_of(rows[i].id) == PROBE_OK, child_can(rows[i].fn), "%s: %s",
		             report.items[rows[i].id].id, report.items[rows[i].id].found);
}

Test(probe, nothing_inside_works_without_a_user_namespace)
{
	static const enum probe_id inside[] = { PROBE_NS_MOUNT, PROBE_NS_PID, PROBE_NS_NET,
		                                PROBE_NS_IPC,   PROBE_NS_UTS, PROBE_NS_CGROUP,
		                                PROBE_NS_TIME,  PROBE_ROOT,   PROBE_PROCFS,
		                                PROBE_TMPFS,    PROBE_ID_MAP };

	if (state_of(PROBE_USERNS) == PROBE_OK)
		return;
	for (size_t i = 0; i < ELEMENTSOF(inside); i++)
		cr_expect_eq(state_of(inside[i]), PROBE_MISSING, "%s", report.items[inside[i]].id);
}

Test(probe, ordinary_users_get_no_second_id_and_no_nodes)
{
	if (geteuid() == 0)
		return;
	cr_expect_eq(state_of(PROBE_DEV_NODES), PROBE_MISSING);
	cr_expect_eq(state_of(PROBE_ID_MAP), PROBE_MISSING);
}

Test(probe, swap_rests_on_the_memory_limit)
{
	cr_assert_leq(state_of(PROBE_CG_SWAP), state_of(PROBE_CG_MEMORY));
}

Test(probe, interpreters_are_where_a_box_looks)
{
	bool usr = access("/usr/bin/python3", X_OK) == 0;

	cr_assert(!usr || state_of(PROBE_PYTHON) == PROBE_OK);
	if (state_of(PROBE_PYTHON) == PROBE_OK)
		cr_assert(str_has_prefix(report.items[PROBE_PYTHON].found, "/usr/") ||
		          str_has_prefix(report.items[PROBE_PYTHON].found, "/bin/"));
}

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	cr_assert(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void read_whole(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n;

	cr_assert(f);
	n = fread(text, 1, size - 1, f);
	text[n] = '\0';
	(void)fclose(f);
}

static char mounts_before[65536], mounts_after[65536];

Test(probe, nothing_is_left_behind)
{
	size_t fds = count_fds();
	char cgroup_before[8192], cgroup_after[8192];
	sigset_t mask;

	read_whole("/proc/self/mountinfo", mounts_before, sizeof(mounts_before));
	read_whole("/proc/self/cgroup", cgroup_before, sizeof(cgroup_before));
	look();
	read_whole("/proc/self/mountinfo", mounts_after, sizeof(mounts_after));
	read_whole("/proc/self/cgroup", cgroup_after, sizeof(cgroup_after));

	cr_expect_eq(count_fds(), fds);
	cr_expect_str_eq(mounts_after, mounts_before);
	cr_expect_str_eq(cgroup_after, cgroup_before);
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child is left");
	cr_assert_eq(sigprocmask(SIG_BLOCK, NULL, &mask), 0);
	cr_expect(!sigismember(&mask, SIGINT) && !sigismember(&mask, SIGTERM));
}

Test(probe, is_over_soon)
{
	uint64_t began = clock_ms();

	look();
	cr_assert_lt(clock_ms() - began, 10000u);
}

static int hang(void *arg)
{
	(void)arg;
	while (pause() < 0)
		continue;
	return 0;
}

static int die_of(void *arg)
{
	(void)raise(*(int *)arg);
	return 0;
}

static int answer(void *arg)
{
	return *(int *)arg;
}

Test(probe_child, one_that_hangs_is_killed_in_time)
{
	uint64_t began = clock_ms(), took;

	cr_assert_eq(probe_child(PROBE_MAP_NONE, 0, hang, NULL, NULL), -ETIMEDOUT);
	took = clock_ms() - began;
	cr_expect_geq(took, PROBE_TIMEOUT_MS - 1u);
	cr_expect_lt(took, PROBE_TIMEOUT_MS + 1500u);
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

Test(probe_child, its_end_is_told)
{
	static const struct {
		const char *name;
		probe_fn *fn;
		int arg, result;
	} rows[] = {
		{ "success", answer, 0, 0 },
		{ "an error", answer, -EROFS, -EROFS },
		{ "a filter's kill", die_of, SIGSYS, -ENOSYS },
		{ "a fault", die_of, SIGSEGV, -EFAULT },
		{ "another signal", die_of, SIGKILL, -EINTR },
	};

	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		int arg = rows[i].arg;
		bool made = false;
		int r = probe_child(PROBE_MAP_NONE, 0, rows[i].fn, &arg, &made);

		cr_expect_eq(r, rows[i].result, "%s: %d", rows[i].name, r);
		cr_expect(made, "%s", rows[i].name);
	}
}

Test(probe_child, none_is_made_with_impossible_flags)
{
	bool made = true;

	cr_expect_lt(probe_child(PROBE_MAP_NONE, CLONE_SIGHAND, hang, NULL, &made), 0);
	cr_expect(!made);
}

Test(probe_child, no_map_means_no_place_to_try)
{
	const struct probe_ctx c = { 0 };

	cr_expect_eq(probe_inside(&c, 0, hang, NULL), PROBE_NO_USERNS);
}
