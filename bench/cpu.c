/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processor time. Wait statuses do not tell all of it: who dies with its pid namespace is reaped by
 * nobody. So the benchmark lives in a cgroup of its own, brig-bench-PID/self, and all that it
 * starts stays there, but for boxes (in brig/) and OCI containers (in brig-bench-PID/oci).
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/str.h"
#include "measure.h"
#include "sys/file.h"

static char group[96]; /* its path; "": there is none */
static char name[32];

const char *cpu_hierarchy(void)
{
	static const char *const places[] = { "/sys/fs/cgroup/cpuacct",
		                              "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup" };
	char path[128];

	for (size_t i = 0; i < ELEMENTSOF(places); i++) {
		(void)snprintf(path, sizeof(path), "%s/cgroup.procs", places[i]);
		if (access(path, W_OK) == 0)
			return places[i];
	}
	return NULL;
}

static int enter(const char *path)
{
	char file[160];

	(void)snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	return file_write(AT_FDCWD, file, "0");
}

void cpu_start(void)
{
	const char *top = cpu_hierarchy();
	char self[128];

	if (!top || *group)
		return;
	(void)snprintf(name, sizeof(name), "brig-bench-%d", (int)getpid());
	(void)snprintf(group, sizeof(group), "%s/%s", top, name);
	(void)snprintf(self, sizeof(self), "%s/self", group);
	if (mkdir(group, 0755) < 0 || mkdir(self, 0755) < 0 || enter(self) < 0) {
		(void)rmdir(self);
		(void)rmdir(group);
		*group = '\0';
	}
}

/* A runtime makes the parents of a container's group in every hierarchy, and leaves them. */
static void remove_parents(void)
{
	DIR *dir = opendir("/sys/fs/cgroup");
	const struct dirent *entry;
	char path[sizeof(entry->d_name) + 96];

	while (dir && (entry = readdir(dir))) {
		(void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/%s", entry->d_name, name);
		(void)rmdir(path);
	}
	if (dir)
		(void)closedir(dir);
}

void cpu_stop(void)
{
	char path[128];

	if (!*group || enter(cpu_hierarchy()) < 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/self", group);
	(void)rmdir(path);
	(void)rmdir(group);
	remove_parents();
	*group = '\0';
}

bool cpu_is_complete(void)
{
	return *group != '\0';
}

const char *cpu_container_group(void)
{
	static char path[64];

	(void)snprintf(path, sizeof(path), "/%s/oci", name);
	return *group ? path : "";
}

/* All that was ever used below a group: what has been removed is counted too. */
static double group_us(const char *path)
{
	char file[160];

	(void)snprintf(file, sizeof(file), "%s/cpuacct.usage", path);
	if (access(file, R_OK) == 0)
		return (double)number_in(file, "") / 1000;
	(void)snprintf(file, sizeof(file), "%s/cpu.stat", path);
	return (double)number_in(file, "usage_usec ");
}

static double rusage_us(int who)
{
	struct rusage ru = { 0 };

	(void)getrusage(who, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e6 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

static double visible_us(void)
{
	double sum = rusage_us(RUSAGE_SELF) + rusage_us(RUSAGE_CHILDREN);
	struct family f = { 0 };
	char path[64];

	if (family_find(&f) < 0)
		return sum;
	for (size_t i = 0; i < f.n; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)f.pids[i]);
		sum += (double)number_in(path, "") / 1000;
	}
	family_done(&f);
	return sum;
}

double cpu_us(void)
{
	char boxes[96];

	if (!*group)
		return visible_us();
	(void)snprintf(boxes, sizeof(boxes), "%s/brig", cpu_hierarchy());
	return group_us(group) + group_us(boxes);
}
