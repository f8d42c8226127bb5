/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A brigd of the benchmark's own: on a temporary state directory, ended and removed with it. */

#include <sys/types.h>

#include "measure.h"
#include "wire.h"

struct service_config {
	const char *brigd; /* brig lies beside it, brig-launch in ../libexec/brig */
	unsigned min, max; /* boxes of Python that wait */
	bool eager;        /* from the beginning */
};

struct service {
	char dir[40], socket[64], state[64], log[64];
	char token[96];
	unsigned port;
	pid_t pid, guard;
	int life; /* of ours, for the guard */
	struct wire_address by_socket, by_tcp;
	struct wire *control; /* for what is not measured */
	struct wire_request pool;
};

/* Until it is ready and, when they are wanted, all boxes wait. */
int service_open(struct service *s, const struct service_config *config, struct err *err);
/* An error when it does not end well or leaves a process. Also after a failed service_open(). */
int service_close(struct service *s, struct err *err);
/* Until nothing runs, nothing ends and as many boxes wait as the pool wants. */
int service_settle(struct service *s, struct err *err);
/* The request that is measured, in a form that check_hello() knows. `n` 0: always the same code,
 * otherwise code that is different for each n. */
int service_hello(const struct wire_address *to, unsigned n, struct wire_request *ret,
                  struct err *err);
/* -errno unless it is the result of a verified, finished run that printed `stdout_text` (JSON). */
int check_hello(const struct wire *w, const char *stdout_text, struct err *err);
