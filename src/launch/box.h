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
	pid_t pid; /* init, in our pid namespace; 0: slot is free */
	int pidfd;
	bool in_cgroup;
	bool watched; /* user code may run in it: its limits are looked after */
	struct cgroup cgroup;
	uint64_t cpu_limit_ns;
	uint64_t memory_limit; /* of the watcher, 0 when a cgroup does it */
	struct launch_usage usage;
};

/* What the cloned child needs; lives in the launcher's memory and is copied by clone. */
struct box_setup {
	const struct plan *plan;
	bool privileged;        /* two ids, own device nodes */
	bool shared_root;       /* our root is the box's already (template.c) */
	bool adopted;           /* a zygote forks the code's process */
	bool network_there;     /* the box's network namespace is the one it was cloned in */
	uint64_t scratch_max;   /* 0: as planned; else no more bytes than these */
	bool unshare_cgroup_ns; /* v1: after the attach */
	int sync_fd;            /* read end: one byte when maps and cgroup are done */
	int fds[LAUNCH_FDS];
	uint32_t slot; /* to try first */
	int dev_fd;    /* detached /dev with own nodes, FD_NONE when binding the host's */
	/* Filled during set-up. */
	int root_fd, scratch_fd;
	int dir_fd;       /* the directory of the last target, in which others may follow */
	size_t dir_len;   /* of its path; 0: none is open */
	const char *dir;  /* begins with it */
	int workspace_fd; /* in the code's process */
	int sysctl_fd;    /* /proc/sys/user, opened before it becomes read-only */
	const char *mask_file, *mask_dir; /* the first mask of each kind, relative to the root */
	int pidfd;                        /* zygote: of init, whose namespaces are joined */
	int cgroup_fds[CGROUP_CONTROLLERS];
	size_t n_cgroup_fds;
	bool in_cgroup;         /* by clone3 */
	int from_code, to_code; /* init's ends of two pipes to the code's process, or that one's */
	uint32_t layers;        /* enforced so far */
	int landlock_abi;
	struct err err;
};

#define NET_STORE 4 /* 300 KiB of the kernel's memory each */

/* What the launcher has for all its boxes. */
struct box_host {
	struct cgroup_host cgroups;
	int proc_fd;     /* the host's /proc: a launcher that stays has another root */
	int spare_dev;   /* device nodes that were made ahead, for the next box */
	bool dev_failed; /* none could be made */
	bool privileged;
	bool shared_root;
	struct err template_err; /* why there is none */
	/* Of a launcher that stays, see net.c. */
	int net_home;             /* its own network namespace */
	int net_store[NET_STORE]; /* for boxes, FD_NONE: an empty place */
	bool net_loopback[NET_STORE];
	bool net_last;   /* what the last box wanted of it */
	bool net_failed; /* none could be made */
};

struct box_order {
	const struct plan *plan;
	uint32_t slot;
	const int *fds;  /* LAUNCH_FDS of them, FD_NONE where none was given */
	int zygote_sock; /* FD_NONE: init forks the code's process */
	bool send_plan;  /* the zygote was started with another one */
	enum box_pace pace;
};

/* Before anything else, for us and all that we make: filter.c. */
int launcher_confine(struct err *err);

/* Makes the box and its cgroup. On success *ret is filled and *reply says STARTED. */
int box_start(struct box_host *host, const struct box_order *order, struct box *ret,
              struct launch_reply *reply, struct err *err);
/* life.c */
/* Before it was released: nothing of it has run. */
void box_abandon(struct box *b);
void box_kill(struct box *b);
/* After init died: reads the usage, reaps, removes the cgroup. */
void box_end(struct box *b);
/* Called about every WATCH_MS: ends boxes over their processor time or watched memory. */
void box_watch(struct box *b, int proc_fd);

#define WATCH_MS 50

/*
 * A mount namespace whose root is the plan's image: what boxes of one launcher have in common and
 * none can change. Afterwards we are in it, for good.
 */
int template_make(struct box_host *host, const struct plan *plan, struct err *err);

/* An own network namespace for the launcher; boxes get theirs from it afterwards. Where there is
 * none to be had, they try by themselves. */
void net_settle(struct box_host *host);
/* Into a new one for a box, so that it is cloned there; and back. */
int net_enter(struct box_host *host, bool loopback, struct err *err);
void net_leave(const struct box_host *host);
/* Is there room for one more that is made ahead? */
bool net_wanted(const struct box_host *host);
void net_store_one(struct box_host *host);

/* The child: never returns. */
_Noreturn void setup_main(struct box_setup *s);
/* Pid 1, for the rest of its life: `code` is the process that it waits for. */
_Noreturn void init_main(uint32_t layers, pid_t code);
/* The same after an exec: argv holds the numbers. */
_Noreturn void init_exec_main(char **argv);
#define INIT_NAME "brig-init"

struct step {
	const char *name;
	int (*run)(struct box_setup *s);
	uint32_t layers; /* what it provides; 0: it must work */
};

/* In their order; a failure of one that must work, or that provides a required layer, ends it. */
int run_steps(struct box_setup *s, const struct step *list, size_t n);
_Noreturn void report_failure(struct box_setup *s);
/* The code's process, forked by init: confined, released, gone into the program. */
_Noreturn void code_main(struct box_setup *s);
/* The same for a process that a zygote forked; returns to the interpreter. */
int code_join(struct box_setup *s);
/* Says that the code's process is confined. */
int code_say_ready(struct box_setup *s);
/*
 * After that: waits for the word, which is BOX_GO, or BOX_RUN with the message in buf, stdio in
 * place and the report's descriptor (or FD_NONE). Control is closed then.
 */
int code_wait(struct box_setup *s, char *buf, size_t size, size_t *ret_len, int *ret_report);
/* The steps of set-up that live in files of their own; each returns 0 or -errno with s->err. */
int confine_keyring(struct box_setup *s);
int setup_mounts(struct box_setup *s);
int setup_masks(struct box_setup *s);
int setup_read_only(struct box_setup *s);
int confine_cgroup(struct box_setup *s);
int confine_join(struct box_setup *s);
int confine_network(struct box_setup *s);
int confine_loopback(struct box_setup *s);
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
int confine_files(struct box_setup *s);
/* A detached tmpfs with fresh device nodes (needs the initial user namespace). */
int dev_make_nodes(struct err *err);
/* Puts /dev together at `path` of the new root. */
int dev_attach(struct box_setup *s, const char *path);
/* The host's nodes, one by one, onto an empty directory. */
int dev_bind_nodes(struct box_setup *s, const char *path);
/* A mount's root moved onto `path` below the new root; takes nothing. */
int mount_onto(struct box_setup *s, int mount_fd, const char *path);
/* The plan's operations up to the first procfs: the image, the same for every box of it. */
size_t image_ops(const struct plan *plan);
int mounts_run(struct box_setup *s, size_t from, size_t to);
int mounts_new_root(struct box_setup *s);
/* Closes the directory that is kept open between targets. */
void mounts_forget(struct box_setup *s);
int mounts_pivot(struct box_setup *s);
/* A directory or an empty file to mount on, when the path is not there yet. */
int mounts_target(struct box_setup *s, const char *path, bool directory);
/* A new procfs of the caller's pid namespace, not mounted anywhere. */
int mounts_new_proc(void);
