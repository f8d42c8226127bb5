/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the launcher is told to build: every mount, id, limit, rule and argument explicit, no
 * decision left. Travels as bytes in a sealed memfd (plan_wire.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "model/layer.h"

#define PLAN_FS_OPS_MAX  512
#define PLAN_RULES_MAX   64
#define PLAN_ARGS_MAX    600
#define PLAN_ENV_MAX     300
#define PLAN_RLIMITS_MAX 16
#define PLAN_SECCOMP_MAX 4096 /* instructions, the kernel's own bound */
#define PLAN_PATH_MAX    1024
#define PLAN_BYTES_MAX   (128 * MIB)

/* One step of building the file system, done in order below the new root. */
enum fs_op_kind {
	FS_OP_NONE = 0,
	FS_OP_DIR,      /* mkdir path, mode, owner */
	FS_OP_SYMLINK,  /* path -> source */
	FS_OP_FILE,     /* path with data, mode, owner */
	FS_OP_BIND_RO,  /* host's source, read-only, nosuid, nodev, recursive */
	FS_OP_SCRATCH,  /* a directory of the one writable tmpfs: path, mode, owner, noexec */
	FS_OP_PROC,     /* fresh procfs */
	FS_OP_DEV,      /* /dev: own nodes, pts, links */
	FS_OP_MASK,     /* hide path if it exists; mode S_IFDIR: a directory, else a file */
	FS_OP_READONLY, /* make path read-only if it exists */
	FS_OP_COUNT,
};

struct fs_op {
	enum fs_op_kind kind;
	const char *path;   /* absolute, as seen in the box */
	const char *source; /* BIND_RO: host path; SYMLINK: text */
	struct str data;    /* FILE */
	uint32_t mode;
	uint32_t owner; /* id inside the box */
	bool noexec;
	bool optional; /* BIND_RO: skip when the source does not exist */
};

/* What Landlock lets the code do below a path. */
enum plan_access {
	PLAN_ACCESS_NONE = 0,
	PLAN_ACCESS_LIST, /* directories only */
	PLAN_ACCESS_READ,
	PLAN_ACCESS_READ_EXEC,
	PLAN_ACCESS_WRITE,      /* everything but exec and device nodes */
	PLAN_ACCESS_WRITE_EXEC, /* everything but device nodes */
	PLAN_ACCESS_DEVICE,     /* read, write, ioctl on a device file or pts directory */
	PLAN_ACCESS_COUNT,
};

struct plan_rule {
	const char *path;
	enum plan_access access;
};

struct plan_rlimit {
	uint32_t resource;
	uint64_t value; /* soft and hard */
};

struct plan {
	/* Layers to put in place, and those without which there is no run. */
	uint32_t layers;
	uint32_t required;

	/* Ids. One id when n_ids is 1 (unprivileged): init and code share it. */
	uint32_t init_id, code_id; /* inside */
	uint32_t host_id_base;     /* privileged: box n gets base + 2n, base + 2n + 1 */
	uint32_t host_id_slots;

	const char *hostname;
	bool loopback;

	struct fs_op *fs;
	size_t n_fs;
	uint64_t scratch_bytes;
	uint32_t scratch_inodes;

	struct plan_rule *rules;
	size_t n_rules;

	struct plan_rlimit *rlimits;
	size_t n_rlimits;

	/* The cgroup's limits. */
	uint64_t memory_bytes;
	uint64_t pids;
	uint64_t cpu_milli;
	uint64_t cpu_ms; /* processor time of the whole box; the launcher ends it there */

	const void *seccomp; /* struct sock_filter[n_seccomp] */
	size_t n_seccomp;
	const char *seccomp_id; /* sha256 of it, for the receipt; stays with the caller */

	const char *script; /* relative to the workspace; stays with the caller */

	const char *exec; /* absolute, in the box */
	const char *cwd;
	const char **argv;
	size_t n_argv;
	const char **env;
	size_t n_env;
};
