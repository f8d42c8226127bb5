/* SPDX-License-Identifier: Apache-2.0 */

/* All live processes below this one, from one walk over /proc. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/parse.h"
#include "measure.h"
#include "sys/file.h"

struct process {
	pid_t pid, parent;
	bool ours;
};

struct processes {
	struct process *list;
	size_t n, cap;
};

static pid_t parent_of(pid_t pid)
{
	char path[64], text[1024];
	const char *p;
	int parent = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read(AT_FDCWD, path, text, sizeof(text)) > 0 && (p = strrchr(text, ')')))
		parent = (int)strtol(p + 4, NULL, 10); /* ") S PARENT" */
	return parent;
}

static int add(struct processes *all, pid_t pid)
{
	if (all->n == all->cap) {
		size_t cap = all->cap ? all->cap * 2 : 1024;
		struct process *list = realloc(all->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		all->list = list;
		all->cap = cap;
	}
	all->list[all->n++] = (struct process){ .pid = pid, .parent = parent_of(pid) };
	return 0;
}

static int read_all(struct processes *all)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	uint64_t pid;
	int r = 0;

	if (!dir)
		return -errno;
	while (r >= 0 && (entry = readdir(dir)))
		if (parse_u64(entry->d_name, &pid) >= 0)
			r = add(all, (pid_t)pid);
	(void)closedir(dir);
	return r;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct process *)a)->pid, y = ((const struct process *)b)->pid;

	return (x > y) - (x < y);
}

static bool parent_is_ours(const struct processes *all, const struct process *p)
{
	const struct process key = { .pid = p->parent };
	const struct process *parent;

	if (p->parent == getpid())
		return true;
	parent = bsearch(&key, all->list, all->n, sizeof(key), by_pid);
	return parent && parent->ours;
}

/* Parents mostly come before their children; one more round when one did not. */
static size_t mark_ours(struct processes *all)
{
	size_t ours = 0, before;

	if (!all->n)
		return 0;
	qsort(all->list, all->n, sizeof(*all->list), by_pid);
	do {
		before = ours;
		for (size_t i = 0; i < all->n; i++) {
			struct process *p = &all->list[i];

			if (!p->ours && parent_is_ours(all, p)) {
				p->ours = true;
				ours++;
			}
		}
	} while (ours != before);
	return ours;
}

/* A pid namespace of its own: two numbers in "NSpid:\t1234\t1". Nobody else of ours has one. */
static bool is_in_box(pid_t pid)
{
	char path[64], text[4096];
	const char *line;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	line = strstr(text, "\nNSpid:");
	return line && line[8 + strcspn(line + 8, "\t\n")] == '\t';
}

static int pick(const struct processes *all, size_t ours, struct family *ret)
{
	*ret = (struct family){ .pids = calloc(ours + 1, sizeof(*ret->pids)),
		                .in_box = calloc(ours + 1, sizeof(*ret->in_box)) };
	if (!ret->pids || !ret->in_box) {
		family_done(ret);
		return -ENOMEM;
	}
	for (size_t i = 0; i < all->n; i++) {
		if (!all->list[i].ours)
			continue;
		ret->pids[ret->n] = all->list[i].pid;
		ret->in_box[ret->n++] = is_in_box(all->list[i].pid);
	}
	return 0;
}

int family_find(struct family *ret)
{
	struct processes all = { 0 };
	int r = read_all(&all);

	if (r >= 0)
		r = pick(&all, mark_ours(&all), ret);
	free(all.list);
	return r;
}

void family_done(struct family *f)
{
	free(f->pids);
	free(f->in_box);
	*f = (struct family){ 0 };
}
