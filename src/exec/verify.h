/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The look from outside, before the go: what /proc says about the box's two processes, compared
 * with the plan. The box's own word counts only for what the kernel shows to nobody (Landlock,
 * keyring, rlimits are asked where they can be), and the receipt says so.
 */

#include "base/err.h"
#include "model/launch_msg.h"
#include "model/plan.h"
#include "model/result.h"

struct box_facts {
	pid_t init_pid, code_pid; /* as the kernel stamped them */
	pid_t launcher_pid;       /* of one that stays, and has a network of its own; else 0 */
	struct launch_reply started;
	struct box_report code_ready, init_ready;
};

/* Looks at our own side; once, while the box is still being built. */
void verify_prepare(void);
/* A receipt before anybody looked: nothing is enforced yet. */
void receipt_start(const struct plan *plan, enum level required, struct receipt *ret);
/* Fills the receipt's layers; -errno when the box is not what the plan says. */
int verify_box(const struct plan *plan, const struct box_facts *facts, struct receipt *ret,
               struct err *err);
