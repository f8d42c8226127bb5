/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The plans that a launcher which stays was told to remember, and their zygotes. */

#include "launch/box.h"
#include "model/plan_wire.h"

#define ZYGOTES_MAX                                                                                \
	((size_t)2 * LAUNCH_PLANS_MAX) /* one of a plan serves while its successor loads */

/* The plan's bytes, mapped; the sealed memfd stays for zygotes. */
struct kept_plan {
	bool used;
	int fd;
	void *bytes;
	size_t n_bytes;
	struct plan plan;
	struct plan_store store;
};

struct zygote {
	pid_t pid; /* 0: slot is free */
	int pidfd, sock;
	uint32_t plan;
	bool ready;
	bool leaving; /* replaced: its end is nobody's concern */
};

/* Sealed first, mapped after: nobody can change the bytes between check and use. */
int plan_map(int fd, struct kept_plan *ret, struct err *err);
void plan_unmap(struct kept_plan *k);

/* Starts the plan's program in our root; it says when it is ready. */
int zygote_start(const struct box_host *host, const struct kept_plan *k, uint32_t plan,
                 struct zygote *ret, struct err *err);
void zygote_stop(struct zygote *z);
