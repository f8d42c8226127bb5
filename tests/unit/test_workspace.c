/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/workspace.h"

/* A folder of its own for each test, on a tmpfs like the box's when there is one. */
static char root[64];
static int root_fd = FD_NONE;
static struct result res;

static void setup(void)
{
	(void)snprintf(root, sizeof(root), "%s/unit-ws-XXXXXX",
	               access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	cr_assert(mkdtemp(root));
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(root_fd >= 0);
	result_init(&res);
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
	result_done(&res);
	root_fd = fd_close(root_fd);
	(void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(workspace, .init = setup, .fini = teardown, .timeout = 60);

static void put(const char *path, const void *data, size_t n)
{
	CLEANUP_FD int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
	cr_assert(write(fd, data, n) == (ssize_t)n);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void make_dir(const char *path)
{
	cr_assert(mkdirat(root_fd, path, 0755) == 0, "%s", path);
}

static void make_link(const char *text, const char *path)
{
	cr_assert(symlinkat(text, root_fd, path) == 0, "%s", path);
}

static struct request_file placed_files[] = {
	{ "kept", STR("kept"), false },
	{ "changed", STR("before"), false },
	{ "gone", STR("gone"), false },
	{ "d/inner", STR("inner"), false },
};

static struct request request = { .code = STR("the code"),
	                          .files = placed_files,
	                          .n_files = ELEMENTSOF(placed_files) };

/* The workspace as it is when the code starts. */
static void place_all(void)
{
	make_dir("d");
	put_text("main.py", "the code");
	for (size_t i = 0; i < ELEMENTSOF(placed_files); i++)
		put(placed_files[i].path, placed_files[i].data.p, placed_files[i].data.n);
}

static void look(void)
{
	cr_assert(workspace_changes(root_fd, &request, "main.py", &res) == 0);
}

static const struct result_file *found(const char *path)
{
	for (size_t i = 0; i < res.n_files; i++)
		if (streq(res.files[i].path, path))
			return &res.files[i];
	return NULL;
}

static void expect_change(const char *path, enum file_change change, uint64_t size)
{
	const struct result_file *f = found(path);
	unsigned times = 0;

	cr_assert(f, "%s is not reported", path);
	cr_expect(f->change == change, "%s: %d", path, (int)f->change);
	cr_expect(f->size == size, "%s: %llu bytes", path, (unsigned long long)f->size);
	for (size_t i = 0; i < res.n_files; i++)
		times += streq(res.files[i].path, path);
	cr_expect(times == 1, "%s is reported %u times", path, times);
}

Test(workspace, nothing_changed_means_nothing_reported)
{
	place_all();
	look();
	cr_expect(res.n_files == 0);
	cr_expect(!res.files_truncated);
}

Test(workspace, created_modified_and_deleted_files_are_told_apart)
{
	place_all();
	put_text("new", "12345");
	put_text("d/new", "");
	put_text("changed", "after!"); /* same length */
	put_text("main.py", "longer than the code");
	cr_assert(unlinkat(root_fd, "gone", 0) == 0);
	look();
	expect_change("new", FILE_CREATED, 5);
	expect_change("d/new", FILE_CREATED, 0);
	expect_change("changed", FILE_MODIFIED, 6);
	expect_change("main.py", FILE_MODIFIED, 20);
	expect_change("gone", FILE_DELETED, 0);
	cr_expect(res.n_files == 5);
}

Test(workspace, a_change_in_the_last_byte_of_a_large_file_is_seen)
{
	static char data[300000];
	struct request_file one[] = { { "big", { data, sizeof(data) }, false } };
	struct request req = { .code = STR("x"), .files = one, .n_files = 1 };

	memset(data, 'a', sizeof(data));
	put_text("s", "x");
	put("big", data, sizeof(data));
	cr_assert(workspace_changes(root_fd, &req, "s", &res) == 0);
	cr_expect(res.n_files == 0);
	data[sizeof(data) - 1] = 'b';
	cr_assert(workspace_changes(root_fd, &req, "s", &res) == 0);
	expect_change("big", FILE_MODIFIED, sizeof(data));
}

Test(workspace, links_are_reported_and_not_followed)
{
	place_all();
	make_link("/etc", "etc");
	make_link("/etc/passwd", "passwd");
	make_link(".", "loop");
	make_link("nowhere", "dangling");
	cr_assert(unlinkat(root_fd, "kept", 0) == 0);
	make_link("changed", "kept");
	look();
	expect_change("etc", FILE_CREATED, 4);
	expect_change("passwd", FILE_CREATED, 11);
	expect_change("loop", FILE_CREATED, 1);
	expect_change("dangling", FILE_CREATED, 7);
	expect_change("kept", FILE_MODIFIED, 7);
	cr_expect(res.n_files == 5, "nothing behind a link");
}

Test(workspace, a_file_below_a_replaced_directory_is_deleted)
{
	place_all();
	cr_assert(unlinkat(root_fd, "d/inner", 0) == 0);
	cr_assert(unlinkat(root_fd, "d", AT_REMOVEDIR) == 0);
	put_text("d", "a file now");
	look();
	expect_change("d", FILE_CREATED, 10);
	expect_change("d/inner", FILE_DELETED, 0);
}

/* What lies behind the link is the host's, and its existence nobody's business. */
Test(workspace, a_file_below_a_link_is_deleted_whatever_is_behind_it)
{
	place_all();
	cr_assert(unlinkat(root_fd, "d/inner", 0) == 0);
	cr_assert(unlinkat(root_fd, "d", AT_REMOVEDIR) == 0);
	make_dir("elsewhere");
	put_text("elsewhere/inner", "inner");
	make_link("elsewhere", "d");
	look();
	expect_change("d/inner", FILE_DELETED, 0);
}

Test(workspace, a_file_that_became_a_directory_is_deleted)
{
	place_all();
	cr_assert(unlinkat(root_fd, "kept", 0) == 0);
	make_dir("kept");
	put_text("kept/x", "x");
	look();
	expect_change("kept", FILE_DELETED, 0);
	expect_change("kept/x", FILE_CREATED, 1);
}

Test(workspace, a_fifo_never_blocks)
{
	place_all();
	cr_assert(mkfifoat(root_fd, "pipe", 0600) == 0);
	cr_assert(unlinkat(root_fd, "kept", 0) == 0);
	cr_assert(mkfifoat(root_fd, "kept", 0600) == 0);
	look();
	expect_change("pipe", FILE_CREATED, 0);
	expect_change("kept", FILE_MODIFIED, 0);
}

Test(workspace, a_fifo_in_place_of_an_empty_file_is_a_change)
{
	struct request_file one[] = { { "empty", { "", 0 }, false } };
	struct request req = { .code = STR("x"), .files = one, .n_files = 1 };

	put_text("s", "x");
	cr_assert(mkfifoat(root_fd, "empty", 0600) == 0);
	cr_assert(workspace_changes(root_fd, &req, "s", &res) == 0);
	expect_change("empty", FILE_MODIFIED, 0);
}

/* A chain of directories, one step at a time since its path is longer than the kernel takes. */
static void make_chain(unsigned levels, const char *name)
{
	int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);

	for (unsigned i = 0; i < levels; i++) {
		int next;

		cr_assert(mkdirat(at, name, 0755) == 0);
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cr_assert(next >= 0);
		at = fd_close(at);
		at = next;
	}
	(void)fd_close(at);
}

/* From the top, one directory at a time: nftw() does not reach the end of such a path. */
static void unmake_chain(const char *name)
{
	int moved = 0;

	while (moved == 0) {
		CLEANUP_FD int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		cr_assert(fd >= 0);
		moved = renameat(fd, name, root_fd, "next");
		cr_assert(unlinkat(root_fd, name, AT_REMOVEDIR) == 0);
		if (moved == 0)
			cr_assert(renameat(root_fd, "next", root_fd, name) == 0);
	}
}

Test(workspace, a_deep_tree_ends_somewhere)
{
	char name[201];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	make_chain(1000, "d");
	make_chain(30, name); /* more than PATH_MAX bytes */
	put_text("s", "x");
	cr_assert(workspace_changes(root_fd, &(struct request){ .code = STR("x") }, "s", &res) ==
	          0);
	cr_expect(res.files_truncated);
	cr_expect(res.n_files == 0);
	unmake_chain("d");
	unmake_chain(name);
}

Test(workspace, files_in_a_reasonably_deep_tree_are_found)
{
	put_text("s", "x");
	make_dir("a");
	make_dir("a/b");
	make_dir("a/b/c");
	make_dir("a/b/c/d");
	put_text("a/b/c/d/e", "12");
	cr_assert(workspace_changes(root_fd, &(struct request){ .code = STR("x") }, "s", &res) ==
	          0);
	expect_change("a/b/c/d/e", FILE_CREATED, 2);
	cr_expect(!res.files_truncated);
}

Test(workspace, exactly_the_bound_is_reported_in_full_and_one_more_is_told)
{
	char name[16];

	put_text("s", "x");
	for (unsigned i = 0; i < RESULT_FILES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		put_text(name, "");
	}
	cr_assert(workspace_changes(root_fd, &(struct request){ .code = STR("x") }, "s", &res) ==
	          0);
	cr_expect(res.n_files == RESULT_FILES_MAX && !res.files_truncated);
	result_done(&res);
	result_init(&res);
	put_text("one-more", "");
	cr_assert(workspace_changes(root_fd, &(struct request){ .code = STR("x") }, "s", &res) ==
	          0);
	cr_expect(res.n_files == RESULT_FILES_MAX && res.files_truncated);
}

Test(workspace, very_many_directories_are_bounded)
{
	char name[16];

	put_text("s", "x");
	for (unsigned i = 0; i < RESULT_FILES_MAX + 200; i++) {
		(void)snprintf(name, sizeof(name), "d%u", i);
		make_dir(name);
	}
	cr_assert(workspace_changes(root_fd, &(struct request){ .code = STR("x") }, "s", &res) ==
	          0);
	cr_expect(res.files_truncated);
}

Test(workspace, names_are_bytes)
{
	put_text("s", "x");
	put_text("\xff\n\x1b[31m", "x");
	cr_assert(workspace_changes(root_fd, &(struct request){ .code = STR("x") }, "s", &res) ==
	          0);
	expect_change("\xff\n\x1b[31m", FILE_CREATED, 1);
}

/* Where files are fetched to. */
static const char *host(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/host/%s", root, name);
	return path;
}

static size_t host_files(void)
{
	DIR *d = opendir(host(""));
	size_t n = 0;

	cr_assert(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static void expect_content(const char *path, const char *text)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char data[64] = "";

	cr_assert(fd >= 0);
	cr_assert(read(fd, data, sizeof(data) - 1) >= 0);
	cr_expect_str_eq(data, text);
}

Test(workspace, a_fetched_file_replaces_the_host_s_as_a_whole)
{
	struct stat before, after;
	struct err err = { 0 };

	make_dir("host");
	make_dir("d");
	put_text("host/f", "what was there before");
	put_text("d/f", "new");
	cr_assert(stat(host("f"), &before) == 0);
	cr_assert(workspace_fetch(root_fd, "d/f", host("f"), &err) == 0, "%s", err.msg);
	expect_content(host("f"), "new");
	cr_assert(stat(host("f"), &after) == 0);
	cr_expect(before.st_ino != after.st_ino, "written in place");
	cr_expect((after.st_mode & 07777) == 0644);
	cr_expect(host_files() == 1, "no temporary file stays");
}

Test(workspace, a_link_on_the_host_is_replaced_and_not_written_through)
{
	struct stat st;

	make_dir("host");
	put_text("host/target", "untouched");
	make_link("target", "host/f");
	put_text("f", "new");
	cr_assert(workspace_fetch(root_fd, "f", host("f"), NULL) == 0);
	expect_content(host("target"), "untouched");
	cr_expect(lstat(host("f"), &st) == 0 && S_ISREG(st.st_mode));
}

Test(workspace, modes_of_the_box_do_not_come_along)
{
	struct stat st;

	make_dir("host");
	put_text("f", "x");
	cr_assert(fchmodat(root_fd, "f", 06777, 0) == 0);
	cr_assert(workspace_fetch(root_fd, "f", host("f"), NULL) == 0);
	cr_expect(stat(host("f"), &st) == 0 && (st.st_mode & 07777) == 0644);
}

Test(workspace, a_large_file_arrives_whole)
{
	static char data[3 * MIB + 7];
	struct stat st;

	make_dir("host");
	memset(data, 'z', sizeof(data));
	put("f", data, sizeof(data));
	cr_assert(workspace_fetch(root_fd, "f", host("f"), NULL) == 0);
	cr_expect(stat(host("f"), &st) == 0 && st.st_size == (off_t)sizeof(data));
}

static void make_bad_things(void)
{
	CLEANUP_FD int sparse = FD_NONE;

	make_dir("host");
	make_dir("dir");
	make_dir("real");
	put_text("real/f", "x");
	put_text("host/f", "untouched");
	make_link("/etc/passwd", "link");
	make_link("real/f", "link-inside");
	make_link("real", "middle");
	make_link("/etc", "abs");
	cr_assert(mkfifoat(root_fd, "pipe", 0600) == 0);
	sparse = openat(root_fd, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	cr_assert(sparse >= 0 && ftruncate(sparse, 1 << 30) == 0);
}

Test(workspace, what_is_not_a_plain_file_below_is_not_fetched)
{
	static const struct {
		const char *path;
		int r;
		enum err_code code;
	} rows[] = {
		{ "link", -EINVAL, ERR_INVALID },
		{ "link-inside", -EINVAL, ERR_INVALID },
		{ "middle/f", -EINVAL, ERR_INVALID },
		{ "abs/passwd", -EINVAL, ERR_INVALID },
		{ "pipe", -EINVAL, ERR_INVALID },
		{ "dir", -EINVAL, ERR_INVALID },
		{ ".", -EINVAL, ERR_INVALID },
		{ "sparse", -EFBIG, ERR_LIMIT },
		{ "..", -EXDEV, ERR_IO },
		{ "../x", -EXDEV, ERR_IO },
		{ "real/../../x", -EXDEV, ERR_IO },
		{ "/etc/passwd", -EXDEV, ERR_IO },
		{ "missing", -ENOENT, ERR_IO },
		{ "real/f/x", -ENOTDIR, ERR_IO },
		{ "real/missing/x", -ENOENT, ERR_IO },
		{ "", -ENOENT, ERR_IO },
	};

	make_bad_things();
	for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
		struct err err = { 0 };
		int r = workspace_fetch(root_fd, rows[i].path, host("f"), &err);

		cr_expect(r == rows[i].r, "%s: %d", rows[i].path, r);
		cr_expect(err.code == rows[i].code, "%s: %s", rows[i].path, err.msg);
		expect_content(host("f"), "untouched");
	}
	cr_expect(host_files() == 1, "no temporary file stays");
}

Test(workspace, a_host_place_that_cannot_be_written_is_told)
{
	struct err err = { 0 };

	make_dir("host");
	make_dir("host/dir");
	put_text("f", "x");
	cr_expect(workspace_fetch(root_fd, "f", host("no/such"), &err) == -ENOENT);
	cr_expect(err.code == ERR_IO);
	cr_expect(workspace_fetch(root_fd, "f", host("dir"), &err) == -EISDIR);
	cr_expect(host_files() == 1, "no temporary file stays");
}

Test(workspace, a_host_path_that_is_too_long_is_told)
{
	static char path[5000];
	struct err err = { 0 };

	memset(path, 'x', sizeof(path) - 1);
	put_text("f", "x");
	cr_expect(workspace_fetch(root_fd, "f", path, &err) == -ENAMETOOLONG);
}

/* ---- files that are placed before the run ---------------------------------------------- */

#define BOX_UID 123456

/* A test that is skipped is not torn down. */
static void need_root(void)
{
	if (geteuid() == 0)
		return;
	teardown();
	cr_skip_test("needs root");
}

static struct stat stat_of(const char *path)
{
	struct stat st = { 0 };

	cr_assert(fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0, "%s", path);
	return st;
}

static mode_t mode_of(const char *path)
{
	return stat_of(path).st_mode & 07777;
}

static bool exists(const char *path)
{
	return faccessat(root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* One file besides the script. */
static int place_one(const char *path, const char *text, uid_t uid, struct err *err)
{
	struct request_file one[] = { { path, { text, strlen(text) }, false } };
	struct request req = { .code = STR("x"), .files = one, .n_files = 1 };

	return workspace_place(root_fd, &req, "main.py", false, uid, err);
}

Test(workspace, placed_files_are_there_with_their_parents)
{
	struct request_file files[] = { { "a/b/c.txt", STR("one"), false },
		                        { "a/b/d", { "\0\1\xff", 3 }, true },
		                        { "a/e", { "", 0 }, false },
		                        { "tool", STR("#!"), true } };
	struct request req = { .code = STR("code"), .files = files, .n_files = 4 };
	struct err err = { 0 };

	(void)umask(022);
	cr_assert(workspace_place(root_fd, &req, "job.sh", false, 0, &err) == 0, "%s", err.msg);
	cr_expect(err.code == ERR_NONE);
	cr_expect(mode_of("job.sh") == 0644 && mode_of("a/b/c.txt") == 0644);
	cr_expect(mode_of("a/b/d") == 0755 && mode_of("tool") == 0755);
	cr_expect(mode_of("a") == 0755 && mode_of("a/b") == 0755);
	cr_expect(stat_of("a/e").st_size == 0 && stat_of("a/b/d").st_size == 3);
	cr_expect(stat_of("tool").st_uid == geteuid());
	cr_assert(workspace_changes(root_fd, &req, "job.sh", &res) == 0);
	cr_expect(res.n_files == 0, "what was placed is what is there");
	req.n_files = 0;
	cr_assert(workspace_changes(root_fd, &req, "job.sh", &res) == 0);
	cr_expect(res.n_files == 4, "and nothing else: %zu", res.n_files);
}

Test(workspace, a_strict_umask_leaves_programs_executable_and_files_readable)
{
	struct request_file files[] = { { "d/tool", STR("#!"), true } };
	struct request req = { .code = STR("code"), .files = files, .n_files = 1 };

	(void)umask(077);
	cr_assert(workspace_place(root_fd, &req, "main.py", false, 0, NULL) == 0);
	cr_expect(mode_of("d/tool") == 0755);
	cr_expect((mode_of("main.py") & 0600) == 0600 && (mode_of("d") & 0700) == 0700);
}

Test(workspace, a_large_file_is_placed_whole)
{
	static char data[3 * MIB + 7];
	struct request_file one[] = { { "big", { data, sizeof(data) }, false } };
	struct request req = { .code = { data, sizeof(data) }, .files = one, .n_files = 1 };

	memset(data, 'y', sizeof(data));
	data[sizeof(data) - 1] = 'z';
	cr_assert(workspace_place(root_fd, &req, "main.py", false, 0, NULL) == 0);
	cr_assert(workspace_changes(root_fd, &req, "main.py", &res) == 0);
	cr_expect(res.n_files == 0);
}

Test(workspace, nothing_is_placed_over_something_else)
{
	struct err err = { 0 };

	put_text("main.py", "was here");
	cr_expect(place_one("f", "x", 0, &err) == -EEXIST);
	cr_expect(err.code == ERR_SETUP && err.sys == EEXIST);
	cr_expect(stat_of("main.py").st_size == 8, "untouched");
	cr_expect(!exists("f"), "went on after a failure");
	cr_assert(unlinkat(root_fd, "main.py", 0) == 0);
	put_text("f", "was here too");
	cr_expect(place_one("f", "x", 0, &err) == -EEXIST);
	cr_expect(strstr(err.msg, "\"f\"") != NULL, "%s", err.msg);
	cr_expect(stat_of("f").st_size == 12);
}

Test(workspace, the_same_name_twice_is_refused)
{
	struct request_file files[] = { { "d/f", STR("1"), false }, { "d/f", STR("22"), false } };
	struct request req = { .code = STR("x"), .files = files, .n_files = 2 };

	cr_expect(workspace_place(root_fd, &req, "main.py", false, 0, NULL) == -EEXIST);
	cr_expect(stat_of("d/f").st_size == 1);
}

Test(workspace, a_file_by_the_script_s_name_is_the_request_s_fault)
{
	struct err err = { 0 };

	cr_expect(place_one("main.py", "other", 0, &err) == -EEXIST);
	cr_expect(err.code == ERR_INVALID, "%s", err.msg);
	cr_expect(strstr(err.msg, "files[0]") != NULL, "%s", err.msg);
	cr_expect(stat_of("main.py").st_size == 1, "the script stays");
}

Test(workspace, a_link_in_a_file_s_place_is_not_written_through)
{
	static const char *const links[] = { "target", "nowhere", "." };
	struct err err = { 0 };

	put_text("target", "untouched");
	for (size_t i = 0; i < ELEMENTSOF(links); i++) {
		make_link(links[i], "f");
		cr_expect(place_one("f", "x", 0, &err) == -EEXIST, "%s", links[i]);
		cr_expect(S_ISLNK(stat_of("f").st_mode));
		cr_assert(unlinkat(root_fd, "f", 0) == 0 && unlinkat(root_fd, "main.py", 0) == 0);
		make_link(links[i], "main.py");
		cr_expect(place_one("f", "x", 0, &err) == -EEXIST, "%s", links[i]);
		cr_assert(unlinkat(root_fd, "main.py", 0) == 0);
	}
	cr_expect(stat_of("target").st_size == 9 && !exists("nowhere"));
}

Test(workspace, a_parent_that_is_no_directory_is_told)
{
	char name[300];
	struct err err = { 0 };

	put_text("d", "a file");
	cr_expect(place_one("d/f", "x", 0, &err) == -ENOTDIR);
	cr_expect(err.code == ERR_SETUP);
	cr_assert(unlinkat(root_fd, "main.py", 0) == 0);
	cr_expect(place_one("d/e/f", "x", 0, &err) == -ENOTDIR);
	cr_assert(unlinkat(root_fd, "main.py", 0) == 0);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cr_expect(place_one(name, "x", 0, &err) == -ENAMETOOLONG);
	cr_expect(workspace_place(FD_NONE, &request, "main.py", false, 0, &err) == -EBADF);
	cr_expect(strstr(err.msg, "the script") != NULL, "%s", err.msg);
}

/* 200 KiB do not fit; the errno is the kernel's, and the request is not blamed. */
static void expect_full(int want, enum err_code code)
{
	static char data[200 * KIB];
	struct request_file one[] = { { "d/big", { data, sizeof(data) }, false } };
	struct request req = { .code = STR("x"), .files = one, .n_files = 1 };
	struct err err = { 0 };
	int r;

	memset(data, 'x', sizeof(data));
	r = workspace_place(root_fd, &req, "main.py", false, 0, &err);
	cr_expect(r == -want, "%d: %s", r, err.msg);
	cr_expect(err.code == code && err.sys == want);
	cr_expect(strstr(err.msg, "d/big") != NULL, "%s", err.msg);
}

Test(workspace, a_write_that_fails_half_way_is_told)
{
	struct rlimit l = { .rlim_cur = 64 * KIB, .rlim_max = 64 * KIB };

	(void)signal(SIGXFSZ, SIG_IGN);
	cr_assert(setrlimit(RLIMIT_FSIZE, &l) == 0);
	expect_full(EFBIG, ERR_SETUP);
}

/* Over the test's folder, seen by this process only. */
static void mount_small(const char *options)
{
	cr_assert(unshare(CLONE_NEWNS) == 0);
	cr_assert(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	cr_assert(mount("tmpfs", root, "tmpfs", 0, options) == 0);
	root_fd = fd_close(root_fd);
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void unmount_small(void)
{
	root_fd = fd_close(root_fd);
	cr_expect(umount2(root, MNT_DETACH) == 0);
}

Test(workspace, a_full_disk_is_told)
{
	need_root();
	mount_small("size=64k");
	expect_full(ENOSPC, ERR_SETUP);
	unmount_small();
}

Test(workspace, the_last_inode_is_told)
{
	struct err err = { 0 };

	need_root();
	mount_small("size=1m,nr_inodes=3"); /* the root, the script, one more */
	cr_expect(place_one("d/f", "x", 0, &err) == -ENOSPC);
	cr_expect(err.code == ERR_SETUP && exists("main.py") && exists("d") && !exists("d/f"));
	cr_expect(unlinkat(root_fd, "main.py", 0) == 0);
	cr_expect(place_one("e/f", "x", 0, &err) == -ENOSPC, "not even the folder: %s", err.msg);
	unmount_small();
}

static void expect_owner(const char *path, uid_t uid)
{
	struct stat st = stat_of(path);

	cr_expect(st.st_uid == uid && st.st_gid == uid, "%s: %u:%u", path, st.st_uid, st.st_gid);
}

Test(workspace, placed_files_belong_to_the_box_and_later_ones_to_us_again)
{
	need_root();
	cr_assert(fchown(root_fd, BOX_UID, BOX_UID) == 0);
	cr_assert(place_one("d/f", "x", BOX_UID, NULL) == 0);
	expect_owner("main.py", BOX_UID);
	expect_owner("d", BOX_UID);
	expect_owner("d/f", BOX_UID);
	put_text("later", "x");
	expect_owner("later", 0);
	cr_expect(place_one("d/f", "x", BOX_UID, NULL) == -EEXIST);
	put_text("after-a-failure", "x");
	expect_owner("after-a-failure", 0);
}

/* Root's own rights would let it write anywhere; the box's user has them only in the workspace. */
Test(workspace, root_s_rights_are_not_used)
{
	struct err err = { 0 };

	need_root();
	make_dir("d"); /* root's */
	cr_expect(place_one("f", "x", BOX_UID, &err) == -EACCES);
	cr_expect(err.code == ERR_SETUP && !exists("main.py"));
	cr_assert(fchown(root_fd, BOX_UID, BOX_UID) == 0);
	cr_expect(place_one("d/f", "x", BOX_UID, &err) == -EACCES);
	cr_expect(!exists("d/f"));
}

Test(workspace, parent_link_is_followed)
{
	struct err err = { 0 };

	make_dir("elsewhere");
	make_link("elsewhere", "d");
	cr_expect(place_one("d/f", "x", 0, &err) < 0);
	cr_expect(!exists("elsewhere/f"));
	cr_assert(unlinkat(root_fd, "main.py", 0) == 0);
	cr_expect(place_one("../unit-ws-outside", "x", 0, &err) < 0, "no RESOLVE_BENEATH");
	(void)unlinkat(root_fd, "../unit-ws-outside", 0);
}
