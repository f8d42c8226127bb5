/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The caller's side of brig-launch: starting it, handing it plans, hearing of boxes. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/launch_msg.h"
#include "model/plan.h"
#include "sys/sock.h"

struct launcher {
	int sock;
	pid_t pid;
	uint64_t next_id;
	bool once; /* for one run: the launcher leaves by itself after it */
};

/* The descriptors of a started box that the caller holds. */
struct box_fds {
	int pidfd; /* of its init */
	int control;
	int in, out, errout; /* our ends of its stdio */
	uint32_t slot;       /* that the launcher was asked to take */
};

/* Where the brig-launch that was installed with this program is; with err when it is not there. */
int launcher_find(char *path, size_t size, struct err *err);
/* path NULL: that one. */
int launcher_start(struct launcher *l, const char *path, struct err *err);
/* Ends it and everything it still holds; waits for it. */
void launcher_stop(struct launcher *l);
/*
 * Sends the plan and makes the box's pipes. The answer comes later: LAUNCH_STARTED or _FAILED on
 * l->sock with this id.
 */
int launcher_send(struct launcher *l, const struct plan *plan, uint64_t *ret_id,
                  struct box_fds *ret_fds, struct err *err);
/* The launcher died: removes what it can no longer remove of this box, once its tasks are gone. */
void launcher_clean_up(const struct box_fds *box);
int launcher_kill(struct launcher *l, uint64_t id);
/* One message; *ret_pidfd is FD_NONE unless STARTED. -EPIPE when the launcher is gone. */
int launcher_recv(struct launcher *l, struct launch_reply *ret, int *ret_pidfd);

/* The same with everything that was attached. */
int launcher_recv_msg(struct launcher *l, struct launch_reply *ret, struct sock_msg *msg);

/* For callers that have many boxes. */
/* A call with the descriptors that are there (fds may be NULL); sets call->fds. */
int launcher_call(struct launcher *l, struct launch_call *call, const int fds[LAUNCH_FDS]);
/* Tells it a plan, or (NULL) asks for a new zygote of a plan that it knows. */
int launcher_keep(struct launcher *l, uint32_t index, const struct plan *plan, bool zygote,
                  struct err *err);
/* A sealed memfd of the plan. */
int launcher_seal(const struct plan *plan, struct err *err);
/* Three pipes: our ends without waiting, theirs where a call expects them. */
int launcher_pipes(struct box_fds *ours, int theirs[LAUNCH_FDS]);
void launcher_close(int fds[LAUNCH_FDS]);

void box_fds_init(struct box_fds *f);
void box_fds_close(struct box_fds *f);
