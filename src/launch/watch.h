/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct watch_usage {
	uint64_t memory_bytes; /* resident; shared pages counted once when over the limit */
	uint64_t cpu_ns;
	uint64_t tasks;
};

/* The process and all its descendants; for hosts without cgroups of ours. */
void watch_tree(int proc_fd, pid_t root, uint64_t memory_limit, struct watch_usage *ret);
