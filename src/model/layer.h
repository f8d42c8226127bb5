/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The layers of a box, and the level from which each is required. A level is what the caller
 * insists on; a required layer that cannot be had refuses the run, the others show in the receipt.
 */

#include <stdbool.h>
#include <stdint.h>

enum level {
	LEVEL_STRICT = 0, /* zeroed memory asks for everything */
	LEVEL_STANDARD,
	LEVEL_DEGRADED_OK,
	LEVEL_COUNT,
};

/*    id              name                      required from    */
/* clang-format off */
#define LAYER_TABLE(X)                                                                             \
	X(USER_NS,        "user_namespace",         DEGRADED_OK)                                   \
	X(MOUNT_NS,       "mount_namespace",        DEGRADED_OK)                                   \
	X(PID_NS,         "pid_namespace",          DEGRADED_OK)                                   \
	X(NET_NS,         "network_namespace",      DEGRADED_OK)                                   \
	X(IPC_NS,         "ipc_namespace",          DEGRADED_OK)                                   \
	X(UTS_NS,         "uts_namespace",          DEGRADED_OK)                                   \
	X(CGROUP_NS,      "cgroup_namespace",       DEGRADED_OK)                                   \
	X(TIME_NS,        "time_namespace",         STRICT)                                        \
	X(UID_SPLIT,      "separate_init_uid",      STRICT)                                        \
	X(ROOT_RO,        "read_only_root",         DEGRADED_OK)                                   \
	X(PROC_MASKS,     "proc_masks",             DEGRADED_OK)                                   \
	X(DEV_NODES,      "own_device_nodes",       STRICT)                                        \
	X(QUOTA,          "disk_quota",             DEGRADED_OK)                                   \
	X(NETWORK,        "network",                DEGRADED_OK)                                   \
	X(LOCKED_MOUNTS,  "locked_mounts",          STRICT)                                        \
	X(NS_LOCK,        "no_new_namespaces",      DEGRADED_OK)                                   \
	X(KEYRING,        "own_keyring",            STRICT)                                        \
	X(RLIMITS,        "rlimits",                DEGRADED_OK)                                   \
	X(CAPABILITIES,   "no_capabilities",        DEGRADED_OK)                                   \
	X(NO_NEW_PRIVS,   "no_new_privs",           DEGRADED_OK)                                   \
	X(LANDLOCK,       "landlock",               STANDARD)                                      \
	X(LANDLOCK_SCOPE, "landlock_scopes",        STRICT)                                        \
	X(LAUNCH_FILTER,  "launcher_filter",        DEGRADED_OK)                                   \
	X(SECCOMP,        "seccomp",                DEGRADED_OK)                                   \
	X(CG_MEMORY,      "memory_limit",           STANDARD)                                      \
	X(CG_SWAP,        "no_swap",                STANDARD)                                      \
	X(CG_PIDS,        "pids_limit",             STANDARD)                                      \
	X(CG_CPU,         "cpu_limit",              STANDARD)
/* clang-format on */

enum layer_id {
#define X(id, name, level) LAYER_##id,
	LAYER_TABLE(X)
#undef X
		LAYER_COUNT,
};

#define LAYER_BIT(id) (UINT32_C(1) << LAYER_##id)
#define LAYERS_ALL    ((UINT32_C(1) << LAYER_COUNT) - 1)

const char *layer_name(enum layer_id id);
/* The layers that the level requires. */
uint32_t layers_required(enum level level);
/* The best level that a set of enforced layers meets; LEVEL_COUNT when not even degraded-ok. */
enum level layers_level(uint32_t enforced);

const char *level_name(enum level level);
int level_from_name(const char *name, enum level *ret);
