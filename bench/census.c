/* SPDX-License-Identifier: Apache-2.0 */
#include "census.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/parse.h"
#include "base/str.h"
#include "measure.h"

#define NETNS_MAX 20000

static uint64_t count_entries(const char *path, const char *prefix)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	uint64_t n = 0;

	while (dir && (entry = readdir(dir)))
		n += *entry->d_name != '.' && str_has_prefix(entry->d_name, prefix);
	if (dir)
		(void)closedir(dir);
	return n;
}

static uint64_t count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t n = 0;
	int c;

	while (f && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f)
		(void)fclose(f);
	return n;
}

/* In every hierarchy: <mount>/brig/box-*, and for v2 alone /sys/fs/cgroup/brig/box-*. */
static uint64_t count_groups(void)
{
	DIR *dir = opendir("/sys/fs/cgroup");
	const struct dirent *entry;
	char path[sizeof(entry->d_name) + 64];
	uint64_t n = count_entries("/sys/fs/cgroup/brig", "box-");

	while (dir && (entry = readdir(dir))) {
		if (*entry->d_name == '.' || streq(entry->d_name, "brig"))
			continue;
		(void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/brig", entry->d_name);
		n += count_entries(path, "box-");
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static uint64_t count_different(char (*names)[32], size_t n)
{
	uint64_t different = n > 0;

	qsort(names, n, sizeof(*names), by_text);
	for (size_t i = 1; i < n; i++)
		different += !streq(names[i], names[i - 1]);
	return different;
}

/* As `lsns -t net` has it. */
static uint64_t count_netns(void)
{
	CLEANUP_FREE char(*names)[32] = calloc(NETNS_MAX, sizeof(*names));
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	char path[sizeof(entry->d_name) + 32];
	size_t n = 0;
	uint64_t pid;

	while (names && dir && n < NETNS_MAX && (entry = readdir(dir))) {
		if (parse_u64(entry->d_name, &pid) < 0)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%s/ns/net", entry->d_name);
		n += readlink(path, names[n], sizeof(*names) - 1) > 0;
	}
	if (dir)
		(void)closedir(dir);
	return names ? count_different(names, n) : 0;
}

static bool is_launcher(pid_t pid)
{
	char path[64], exe[256] = { 0 };

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, exe, sizeof(exe) - 1) > 0 && strstr(exe, "brig-launch");
}

static void look_at_launcher(pid_t pid, struct census *ret)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	ret->launcher_fds += count_entries(path, "");
	(void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	ret->launcher_mounts += count_lines(path);
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	ret->launcher_rss += number_in(path, "VmRSS:");
}

void census_take(struct census *ret)
{
	struct family f = { 0 };

	*ret = (struct census){ 0 };
	if (family_find(&f) >= 0)
		ret->processes = f.n;
	for (size_t i = 0; i < f.n; i++)
		if (!f.in_box[i] && is_launcher(f.pids[i]))
			look_at_launcher(f.pids[i], ret);
	family_done(&f);
	ret->fds = count_entries("/proc/self/fd", "");
	ret->mounts = count_lines("/proc/self/mountinfo");
	ret->groups = count_groups();
	ret->netns = count_netns();
	ret->rss = rss_self_kib();
}

bool census_grew(const struct census *before, const struct census *after)
{
	bool grew = false;

#define X(field, what, grow) grew |= after->field > before->field + (grow);
	CENSUS_TABLE(X)
#undef X
	return grew;
}

void census_print(const struct census *before, const struct census *after)
{
	(void)printf("\n| | before | after | |\n|---|---|---|---|\n");
#define X(field, what, grow)                                                                       \
	(void)printf("| %s | %" PRIu64 " | %" PRIu64 " | %s |\n", what, before->field,             \
	             after->field, after->field > before->field + (grow) ? "GROWN" : "");
	CENSUS_TABLE(X)
#undef X
}
