/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace looked at a little at a time, and its files read into memory. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/workspace.h"

static char root[64];
static int root_fd = FD_NONE;
static struct result res;
static struct request_file placed[] = { { "kept", STR("kept"), false },
	                                { "gone", STR("gone"), false } };
static struct request request = { .code = STR("x"), .files = placed, .n_files = 2 };

static void put(const char *path, const char *text)
{
	CLEANUP_FD int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void setup(void)
{
	(void)snprintf(root, sizeof(root), "/tmp/unit-steps-XXXXXX");
	cr_assert(mkdtemp(root));
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(root_fd >= 0);
	result_init(&res);
	put("main.py", "x");
	put("kept", "kept");
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

TestSuite(workspace_steps, .init = setup, .fini = teardown, .timeout = 60);

static enum file_change change_of(const char *path)
{
	for (size_t i = 0; i < res.n_files; i++)
		if (streq(res.files[i].path, path))
			return res.files[i].change;
	cr_assert(false, "%s is not there", path);
	return FILE_MODIFIED;
}

Test(workspace_steps, a_walk_in_steps_finds_what_one_walk_finds)
{
	struct workspace_walk *w;
	unsigned steps = 1;
	char path[32];

	for (int i = 0; i < 200; i++) {
		(void)snprintf(path, sizeof(path), "new%d", i);
		put(path, "1");
	}
	cr_assert(mkdirat(root_fd, "d", 0755) == 0);
	put("d/deep", "12");
	w = workspace_walk_new(root_fd, &request, "main.py", &res);
	cr_assert(w != NULL);
	while (!workspace_walk_step(w, 10))
		steps++;
	workspace_walk_free(w);
	cr_expect(steps > 10, "%u steps", steps);
	cr_expect(res.n_files == 202 && !res.files_truncated, "%zu files", res.n_files);
	cr_expect(change_of("d/deep") == FILE_CREATED && change_of("gone") == FILE_DELETED);
}

Test(workspace_steps, a_walk_that_is_left_frees_what_it_has)
{
	struct workspace_walk *w;
	char path[32];

	for (int i = 0; i < 20; i++) {
		(void)snprintf(path, sizeof(path), "d%d", i);
		cr_assert(mkdirat(root_fd, path, 0755) == 0);
	}
	w = workspace_walk_new(root_fd, &request, "main.py", &res);
	cr_assert(w != NULL);
	cr_expect(!workspace_walk_step(w, 8));
	workspace_walk_free(w);
}

Test(workspace_steps, a_file_is_read_whole_or_not_at_all)
{
	CLEANUP_BUF struct buf all = BUF_INIT(100), small = BUF_INIT(3), none = BUF_INIT(100);
	struct err err = { 0 };

	cr_assert(symlinkat("kept", root_fd, "link") == 0);
	cr_expect(workspace_read(root_fd, "kept", &all, &err) == 0 && streq(all.data, "kept"));
	cr_expect(workspace_read(root_fd, "kept", &small, &err) < 0 && err.code == ERR_LIMIT);
	cr_expect(workspace_read(root_fd, "link", &none, &err) < 0 && none.len == 0);
}
