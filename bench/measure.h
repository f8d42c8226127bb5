/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What all benchmarks need: samples, random order, processor time, memory, options. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Times of one contestant, and what went wrong. Failed runs have no time. */
struct samples {
	double *us;
	size_t n, cap, failed;
	struct err error; /* of the first failure */
};

void samples_add(struct samples *s, uint64_t ns);
void samples_fail(struct samples *s, const struct err *err);
/* In microseconds by nearest rank; 0 without samples. Sorts. */
double samples_percentile(struct samples *s, double percent);
void samples_done(struct samples *s);

/* The numbers 0 .. n-1 in random order, the same for the same seed. */
void shuffle(size_t *order, size_t n);

/*
 * Processor time in microseconds of all that this program causes: its own, its descendants', dead
 * or alive, and that of all boxes. By cgroups, when cpu_start() could make one: nothing is lost and
 * nothing counted twice. Otherwise as far as it can be seen: reaped children and live descendants.
 */
void cpu_start(void);
double cpu_us(void);
/* Leaves the group again and removes it. */
void cpu_stop(void);
/* Does cpu_us() see what happens in boxes? */
bool cpu_is_complete(void);
/* "/brig-bench-PID/oci": for runtimes that put a container into a group of its own; "" without. */
const char *cpu_container_group(void);

/* All processes below us; in_box says which are in a box (init, the code). Caller frees. */
struct family {
	pid_t *pids;
	bool *in_box;
	size_t n;
};

int family_find(struct family *ret);
void family_done(struct family *f);

/* The number after `key` in a small file; 0: there is none. */
uint64_t number_in(const char *path, const char *key);
/* KiB; 0: cannot be read */
uint64_t mem_available_kib(void);
uint64_t pss_kib(pid_t pid);
uint64_t rss_self_kib(void);

/* Where processor time is counted: a v1 hierarchy or the v2 one; NULL: nowhere. */
const char *cpu_hierarchy(void);

/* "--name VALUE" and "--name" (a switch: value is set to 1). */
struct option_row {
	const char *name;
	uint64_t *value;
	uint64_t max; /* 0: a switch */
	const char *help;
};

/* -EINVAL after it has told the usage. --launcher PATH is always known. */
int options_parse(int argc, char **argv, const struct option_row *rows, size_t n);
/*
 * From now on SIGINT and SIGTERM only set stop_asked(), and a reader that went away is no signal:
 * files and cgroups are to be removed.
 */
void stop_on_signal(void);
bool stop_asked(void);
/* What --launcher said; NULL: the installed one. */
const char *option_launcher(void);
