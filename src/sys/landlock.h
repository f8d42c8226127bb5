/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The running kernel's ABI, 0 when Landlock is absent or disabled. */
int landlock_abi(void);
/* Bits of the fixed errata, 0 before ABI 7. */
int landlock_errata(void);

/* Every file-system right that the ABI can handle. */
uint64_t landlock_fs_rights(int abi);

/*
 * A ruleset that handles everything the ABI offers. deny_tcp also handles TCP bind and connect
 * (ABI 4), with no rule allowing any port. Scopes of ABI 6 are always taken. Returns an fd.
 */
int landlock_create(int abi, bool deny_tcp);
/* Allows rights (masked to what the ABI and the kind of file can have) below the path's fd. */
int landlock_allow(int ruleset_fd, int path_fd, uint64_t rights);
int landlock_enforce(int ruleset_fd);
