/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Resident bytes of the process and all its descendants; for hosts without a memory cgroup. */
uint64_t watch_memory(pid_t root);
