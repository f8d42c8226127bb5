/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Processes apart from this one: those that measure for it, and what brigd's cost. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	int from;
};

/* `work` writes its report to the descriptor and is over; `until` is its own affair. */
int start_child(struct child *ret, void (*work)(void *data, uint64_t until, int to), void *data,
                uint64_t until);
/* Waits for its report, of n bytes, and for its end. */
int end_child(struct child *c, void *p, size_t n);
void write_all(int fd, const void *p, size_t n);

/* Microseconds of processor time. */
struct cost {
	double all; /* but for this program and the children that it waited for: the clients */
	double brigd, launcher;
};

struct cost cost_now(pid_t brigd);
void cost_add(struct cost *sum, const struct cost *from, const struct cost *to);
