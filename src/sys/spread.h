/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * Moves a process that was just started to another processor than ours, if one has nothing to do.
 * The kernel often leaves it behind its parent, where it waits until that one sleeps. Where it may
 * run afterwards is what it was; failing changes nothing.
 */
void spread_child(pid_t pid);
