/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cgroups of boxes on v1, v2 and hybrid hosts. A box's group is `<parent>/brig/box-<slot>` in
 * every hierarchy that is used; mkdir is what makes a slot exclusive, so no other lock is needed.
 * Parents: root uses the top of what it sees; "brig" stays there once made, so that an operator can
 * cap all boxes together. Others use their own group, where it was delegated to them, and take
 * "brig" away again.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum cgroup_mode {
	CGROUP_NONE = 0,
	CGROUP_V1, /* pure v1 or hybrid: the controllers are v1's */
	CGROUP_V2,
};

enum cgroup_controller {
	CGROUP_MEMORY = 0,
	CGROUP_PIDS,
	CGROUP_CPU,
	CGROUP_CPUACCT, /* v1 only, for usage; on v2 part of every group */
	CGROUP_CONTROLLERS,
};

#define CGROUP_BIT(c)   (1u << CGROUP_##c)
#define CGROUP_PATH_MAX 512

/* Where the host's files are; tests give a fake tree. */
struct cgroup_env {
	const char *mountinfo;   /* "/proc/self/mountinfo" */
	const char *self_cgroup; /* "/proc/self/cgroup" */
	bool privileged;
	bool any_fs; /* tests: do not insist on a real cgroup file system */
};

struct cgroup_host {
	enum cgroup_mode mode;
	bool persistent;                 /* "brig" stays */
	unsigned usable;                 /* CGROUP_BIT of controllers that boxes can have */
	int parents[CGROUP_CONTROLLERS]; /* fd of the "brig" group; v2: the same in [MEMORY] only */
	int shared[CGROUP_CONTROLLERS];  /* v1: 1 + the controller whose hierarchy this one is on */
	int bases[CGROUP_CONTROLLERS];   /* fd of the directory that "brig" is in */
	char path[CGROUP_PATH_MAX];      /* of one "brig" group, for people */
	char why[160];                   /* what is missing and why, "" when nothing */
};

struct cgroup_limits {
	uint64_t memory_bytes;
	uint64_t pids;
	uint64_t cpu_milli;
};

struct cgroup {
	const struct cgroup_host *host;
	uint32_t slot;
	char name[24];                /* "box-<slot>" */
	int dirs[CGROUP_CONTROLLERS]; /* as in cgroup_host */
	bool swap_off;                /* no page of the box can be swapped */
	bool parked;                  /* dirs are closed */
};

struct cgroup_usage {
	uint64_t cpu_ns;
	uint64_t memory_peak;
	uint64_t pids_peak;
	uint64_t oom_kills;
};

struct cgroup_ops {
	/* Writes every limit of the usable controllers; sets cg->swap_off. */
	int (*set_limits)(struct cgroup *cg, const struct cgroup_limits *l, struct err *err);
	void (*read_usage)(const struct cgroup *cg, struct cgroup_usage *ret);
	uint64_t (*read_cpu)(const struct cgroup *cg);
	/* Kills every member; 0 when the kernel has no such file (the caller kills the pid ns). */
	int (*kill)(const struct cgroup *cg);
};

extern const struct cgroup_ops cgroup_ops_v1, cgroup_ops_v2;

/* Finds out; never fails: `mode` and `usable` say what there is. */
void cgroup_host_open(const struct cgroup_env *env, struct cgroup_host *ret);
/* A host of which nothing is known: reads as nothing. */
void cgroup_host_none(struct cgroup_host *ret);
void cgroup_host_close(struct cgroup_host *host);
/* Removes empty groups that a dead launcher left more than `age_s` seconds ago. */
void cgroup_host_sweep(const struct cgroup_host *host, unsigned age_s);

/* An ordinary user's "brig" groups, when no box is left in them. */
void cgroup_host_remove(struct cgroup_host *host);

/* Takes a free slot below `slots`, starting at `hint`, and sets the limits. */
/* -ENOENT: another launcher removed the "brig" groups meanwhile; open the host again. */
int cgroup_create(const struct cgroup_host *host, uint32_t hint, uint32_t slots,
                  const struct cgroup_limits *limits, struct cgroup *ret, struct err *err);
int cgroup_attach(const struct cgroup *cg, pid_t pid, struct err *err);
void cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret);
/*
 * The same through descriptors that were opened before (FD_NONE where there is no such file), for
 * whoever must answer at once. tasks: how many are in the group now.
 */
enum { CGROUP_USAGE_FDS = 5 };
void cgroup_usage_open(const struct cgroup *cg, int ret[CGROUP_USAGE_FDS]);
void cgroup_usage_read(enum cgroup_mode mode, const int fds[CGROUP_USAGE_FDS],
                       struct cgroup_usage *ret, uint64_t *ret_tasks);
/* Nanoseconds of processor time so far. */
uint64_t cgroup_read_cpu(const struct cgroup *cg);
int cgroup_kill(const struct cgroup *cg);
/* Removes the group; waits up to `wait_ms` for its last task to go. */
int cgroup_remove(struct cgroup *cg, unsigned wait_ms);

/*
 * A waiting box keeps no descriptors here: closes the group's directories. What is asked of it
 * later goes by its name below the parents.
 */
void cgroup_park(struct cgroup *cg);
/*
 * Opens a file of each hierarchy; a process with one thread that writes "0" into all of them is in
 * the group. Returns how many.
 */
int cgroup_open_self(struct cgroup *cg, int ret[CGROUP_CONTROLLERS]);

/* "box-<slot>". */
void cgroup_name(uint32_t slot, char *ret, size_t size);
/* A box whose launcher died: waits up to `wait_ms` for its last task to go. */
void cgroup_remove_orphan(const struct cgroup_host *host, const char *name, unsigned wait_ms);

/* The host has no swap at all; asked only where a box's swap cannot be limited. */
bool cgroup_host_swapless(void);

/* The group's directory that has this controller's files; FD_NONE when there is none. */
int cgroup_dir(const struct cgroup *cg, enum cgroup_controller c);

/* One value of a group, parked or not; key as in cgroup_read_key(), or NULL. */
int cgroup_get(const struct cgroup *cg, enum cgroup_controller c, const char *file, const char *key,
               uint64_t *ret);
int cgroup_put(const struct cgroup *cg, enum cgroup_controller c, const char *file, uint64_t value);

/* Small files below a directory fd, shared by the versions. */
int cgroup_write(int dir, const char *file, uint64_t value);
int cgroup_read_u64(int dir, const char *file, uint64_t *ret);
/* "key value" lines, as in memory.events. */
int cgroup_read_key(int dir, const char *file, const char *key, uint64_t *ret);
