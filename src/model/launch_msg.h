/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the launcher and its caller say to each other, each message one datagram.
 *
 *   caller  <-> launcher   fd 3 of brig-launch: LAUNCH (with the descriptors below), KILL;
 *                          STARTED (with the box's pidfd), FAILED, ENDED.
 *   caller  <-> box        the control socket: the set-up's report, READY of init and of the code's
 *                          process (kernel-stamped pids), the go, and init's EXITED. The code's own
 *                          copy closes on exec; user code never holds it.
 */

#include <stdint.h>

#include "base/err.h"

#define LAUNCH_SOCKET_FD 3
#define LAUNCH_BOXES_MAX 4096 /* alive at once under one launcher */

/* Descriptors of a LAUNCH, in this order. */
enum launch_fd {
	LAUNCH_FD_PLAN = 0, /* sealed memfd */
	LAUNCH_FD_STDIN,
	LAUNCH_FD_STDOUT,
	LAUNCH_FD_STDERR,
	LAUNCH_FD_CONTROL,
	LAUNCH_FDS,
};

enum launch_kind {
	LAUNCH_NONE = 0,
	LAUNCH_START,   /* caller: build a box */
	LAUNCH_KILL,    /* caller: end it now */
	LAUNCH_STARTED, /* launcher: pidfd of the box's init attached */
	LAUNCH_FAILED,  /* launcher: nothing was started, err says why */
	LAUNCH_ENDED,   /* launcher: everything of the box is gone */
};

struct launch_call {
	uint32_t kind;
	uint64_t id;   /* chosen by the caller */
	uint32_t slot; /* START: where to look for a free slot first; random */
	uint32_t once; /* START: the launcher leaves by itself when this box has ended */
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

struct launch_reply {
	uint32_t kind;
	uint64_t id;
	int32_t pid;            /* STARTED: of the box's init, in the launcher's pid namespace */
	uint32_t layers;        /* STARTED: LAYER_BITs that the launcher itself put in place */
	uint32_t host_init_uid; /* STARTED */
	uint32_t host_code_uid;
	char cgroup[160];          /* STARTED: of the box, for the receipt; or why there is none */
	char cgroup_name[24];      /* STARTED: last component, "" when there is none */
	struct launch_usage usage; /* ENDED */
	struct err err;            /* FAILED */
};

/* From inside the box. */
enum box_kind {
	BOX_NONE = 0,
	BOX_FAILED,     /* err: set-up stopped, no user code ran */
	BOX_CODE_READY, /* confined, waits for the go; the workspace's fd is attached */
	BOX_INIT_READY,
	BOX_EXITED, /* from init: the main process is gone */
};

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

#define BOX_GO 'g'

/* Descriptors of brig-init. */
#define INIT_CONTROL_FD 3
#define INIT_IO_FD      4 /* its own /proc/self/io, opened while it could be */
