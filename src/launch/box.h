/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One box, as the launcher sees it. */

#include <stdbool.h>
#include <sys/types.h>

#include "model/launch_msg.h"
#include "model/plan.h"
#include "sys/cgroup.h"

struct box {
	uint64_t id;
	pid_t pid; /* init, in our pid namespace */
	int pidfd; /* FD_NONE: slot is free */
	bool in_cgroup;
	struct cgroup cgroup;
	uint64_t cpu_limit_ns;
	uint64_t memory_limit; /* of the watcher, 0 when a cgroup does it */
	struct launch_usage usage;
};

/* What the cloned child needs; lives in the launcher's memory and is copied by clone. */
struct box_setup {
	const struct plan *plan;
	bool privileged;        /* two ids, own device nodes */
	uint64_t scratch_max;   /* 0: as planned; else no more bytes than these */
	bool unshare_cgroup_ns; /* v1: after the attach */
	int sync_fd;            /* read end: one byte when maps and cgroup are done */
	int fds[LAUNCH_FDS];
	uint32_t slot; /* to try first */
	int init_fd;   /* sealed memfd of brig-init */
	int dev_fd;    /* detached /dev with own nodes, FD_NONE when binding the host's */
	/* Filled during set-up. */
	int root_fd, scratch_fd;
	int workspace_fd;                 /* in the code's process */
	int sysctl_fd;                    /* /proc/sys/user, opened before it becomes read-only */
	const char *mask_file, *mask_dir; /* the first mask of each kind, relative to the root */
	int from_code, to_code; /* init's ends of two pipes to the code's process, or that one's */
	uint32_t layers;        /* enforced so far */
	int landlock_abi;
	struct err err;
};

/* Makes the box and its cgroup. On success *ret is filled and *reply says STARTED. */
int box_start(struct cgroup_host *cgroups, const struct plan *plan, uint32_t slot,
              const int fds[LAUNCH_FDS], int init_fd, struct box *ret, struct launch_reply *reply,
              struct err *err);
void box_kill(struct box *b);
/* After init died: reads the usage, reaps, removes the cgroup. */
void box_end(struct box *b);
/* Called about every WATCH_MS: ends boxes over their processor time or watched memory. */
void box_watch(struct box *b);

#define WATCH_MS 50

/* The child: never returns. */
_Noreturn void setup_main(struct box_setup *s);
/* The steps of set-up that live in files of their own; each returns 0 or -errno with s->err. */
int setup_mounts(struct box_setup *s);
int setup_masks(struct box_setup *s);
int setup_read_only(struct box_setup *s);
int confine_network(struct box_setup *s);
int confine_stdio(struct box_setup *s);
int confine_ids(struct box_setup *s);
int confine_wait(struct box_setup *s);
int confine_workspace(struct box_setup *s);
int confine_mounts(struct box_setup *s);
int confine_maps(struct box_setup *s);
int confine_rlimits(struct box_setup *s);
int confine_bounding(struct box_setup *s);
int confine_caps(struct box_setup *s);
int confine_fds(struct box_setup *s);
int confine_no_new_privs(struct box_setup *s);
int confine_landlock(struct box_setup *s);
int confine_seccomp(struct box_setup *s);
/* A detached tmpfs with fresh device nodes (needs the initial user namespace). */
int dev_make_nodes(struct err *err);
/* Puts /dev together at `path` of the new root. */
int dev_attach(struct box_setup *s, const char *path);
/* A mount's root moved onto `path` below the new root; takes nothing. */
int mount_onto(struct box_setup *s, int mount_fd, const char *path);
