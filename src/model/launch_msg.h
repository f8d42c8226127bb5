/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the launcher and its caller say to each other, each message one datagram.
 *
 *   caller  <-> launcher   fd 3 of brig-launch: LAUNCH (with the descriptors below), KILL, and for
 *                          a launcher that stays KEEP and WATCH; STARTED (with the box's pidfd),
 *                          FAILED, ENDED, KEPT, ZYGOTE_LOST.
 *   caller  <-> box        the control socket: the set-up's report, READY of init and of the code's
 *                          process (kernel-stamped pids), the go, and init's EXITED. The code's own
 *                          copy is closed before user code runs; user code never holds it.
 *   launcher <-> zygote    fd 3 of the zygote: one byte when it is ready, then one FORK per box.
 *
 * A launcher that stays is told its plans once (KEEP). The first of them gives it the root that all
 * its boxes have, in a mount namespace of its own; a plan may come with an interpreter that is
 * started in that root, loaded and idle, and that becomes the code's process of a box by fork.
 */

#include <stdint.h>

#include "base/err.h"

#define LAUNCH_SOCKET_FD 3
#define LAUNCH_SELF_FD   4     /* the sealed memfd that it was started from */
#define LAUNCH_BOXES_MAX 16384 /* alive at once under one launcher */
#define LAUNCH_PLANS_MAX 16    /* kept at once */

/* Descriptors of a call, in this order; launch_call.fds says which of them are attached. */
enum launch_fd {
	LAUNCH_FD_PLAN = 0, /* sealed memfd */
	LAUNCH_FD_STDIN,    /* none of the three: the go brings them */
	LAUNCH_FD_STDOUT,
	LAUNCH_FD_STDERR,
	LAUNCH_FD_CONTROL,
	LAUNCH_FD_REPORT, /* stays open in the program, as BOX_REPORT_FD */
	LAUNCH_FDS,
};

#define LAUNCH_FD_BIT(fd) (1u << LAUNCH_FD_##fd)
#define LAUNCH_FDS_STDIO  (LAUNCH_FD_BIT(STDIN) | LAUNCH_FD_BIT(STDOUT) | LAUNCH_FD_BIT(STDERR))

enum launch_kind {
	LAUNCH_NONE = 0,
	LAUNCH_START,   /* caller: build a box */
	LAUNCH_KILL,    /* caller: end it now */
	LAUNCH_KEEP,    /* caller: remember this plan; with `zygote`, start (or replace) its own */
	LAUNCH_WATCH,   /* caller: user code runs in it for a while: see to its limits */
	LAUNCH_STARTED, /* launcher: pidfd of the box's init attached */
	LAUNCH_FAILED,  /* launcher: nothing was started, err says why */
	LAUNCH_ENDED,   /* launcher: everything of the box is gone */
	LAUNCH_KEPT,    /* launcher: the plan is there, its zygote is ready */
	LAUNCH_ZYGOTE_LOST, /* launcher: it died; boxes of it that are ready live on */
};

/* What a zygote's child does before it says that it is ready. */
enum box_pace {
	PACE_REHEARSE, /* as much as makes its program fast */
	PACE_HURRY,    /* somebody waits for it: only what takes no time */
	PACE_RESERVE,  /* for a burst: nothing that takes memory */
};

struct launch_call {
	uint32_t kind;
	uint64_t id;     /* chosen by the caller; modulo LAUNCH_BOXES_MAX unlike any other's */
	uint32_t slot;   /* START: where to look for a free slot first; random */
	uint32_t once;   /* START: the launcher leaves by itself when this box has ended */
	uint32_t plan;   /* KEEP: below LAUNCH_PLANS_MAX; START: 1 + a kept one, 0: attached */
	uint32_t fds;    /* LAUNCH_FD_BITs of the attached descriptors */
	uint32_t zygote; /* KEEP: the plan's program is one; START: fork the plan's `zygote` - 1 */
	uint32_t watch;  /* START: as if WATCH followed */
	uint32_t pace;   /* START: an enum box_pace */
};

struct launch_usage {
	uint64_t cpu_ns;
	uint64_t memory_peak;
	uint64_t pids_peak;
	uint64_t oom_kills;
	uint32_t cpu_exceeded;    /* ended by the launcher for its processor time */
	uint32_t memory_exceeded; /* ended by the launcher's watcher (no memory cgroup) */
	uint32_t residue;         /* a cgroup that could not be removed; swept later */
};

#define LAUNCH_CGROUPS 4 /* hierarchies at most */

/* KEPT: where the boxes' groups are, so that the caller can read what they use; descriptors of the
 * parents are attached, in order, for each bit of `has`. */
struct launch_groups {
	uint32_t mode, usable, has;
	int32_t shared[LAUNCH_CGROUPS];
};

struct launch_reply {
	uint32_t kind;
	uint64_t id;
	uint32_t plan;          /* KEPT, ZYGOTE_LOST */
	int32_t pid;            /* STARTED: of the box's init, in the launcher's pid namespace */
	uint32_t layers;        /* STARTED: LAYER_BITs that the launcher itself put in place */
	uint32_t host_init_uid; /* STARTED */
	uint32_t host_code_uid;
	char cgroup[160];     /* STARTED: of the box, for the receipt; or why there is none */
	char cgroup_name[24]; /* STARTED: last component, "" when there is none */
	struct launch_groups groups; /* KEPT */
	struct launch_usage usage;   /* ENDED */
	struct err err;              /* FAILED */
};

/* From inside the box. */
enum box_kind {
	BOX_NONE = 0,
	BOX_FAILED,     /* err: set-up stopped, no user code ran */
	BOX_CODE_READY, /* confined, waits for the go; the workspace's fd is attached */
	BOX_INIT_READY,
	BOX_EXITED, /* from init: the main process is gone */
};

/* To the code's process, on the control socket. */
enum box_word {
	BOX_GO = 'g', /* run the plan's program */
	/*
	 * To a zygote's child: run what follows, the runner's own message. Attached are stdin,
	 * stdout, stderr, report, and when the message is BOX_RUN alone, one more: a memfd with
	 * what follows.
	 */
	BOX_RUN = 'r',
};

#define BOX_RUN_INLINE_MAX 32768 /* above it the memfd */
#define BOX_RUN_MAX        4194304u

struct box_report {
	uint32_t kind;
	uint32_t layers;        /* *_READY: LAYER_BITs enforced so far */
	int32_t landlock_abi;   /* CODE_READY */
	int32_t wait_status;    /* EXITED: as of waitpid(2) */
	uint32_t disk_full;     /* EXITED: no block or no inode was left */
	uint64_t read_bytes;    /* EXITED: by system calls, of reaped processes */
	uint64_t written_bytes; /* EXITED */
	struct err err;         /* FAILED */
};

#define BOX_REPORT_FD 5

/* The launcher's word to a zygote, with: pidfd of init, the control socket, the end of a pipe that
 * tells when the file system is complete, and the files that put a process into the cgroup. */
struct zygote_call {
	uint32_t has_plan; /* the last descriptor is a plan; else the zygote's own */
	uint32_t n_cgroup;
	uint32_t network_there; /* as in struct box_setup */
	uint32_t pace;          /* an enum box_pace */
};

enum { ZYGOTE_FD_INIT = 0, ZYGOTE_FD_CONTROL, ZYGOTE_FD_WAIT, ZYGOTE_FD_CGROUP };

/* Descriptors of a zygote. */
#define ZYGOTE_SOCKET_FD 3
#define ZYGOTE_PLAN_FD   4
#define ZYGOTE_PROC_FD   5 /* its own directory of the host's /proc, until it is ready */

/* Descriptors of brig-init. */
#define INIT_CONTROL_FD 3
#define INIT_IO_FD      4 /* its own /proc/self/io, opened while it could be */
#define INIT_SELF_FD    5 /* until it is there */
