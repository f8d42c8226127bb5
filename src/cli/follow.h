/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An execution in the daemon, followed to its end: its state, its output byte for byte, its result.
 */

#include "cli/client.h"
#include "cli/doc.h"
#include "exec/sink.h"

struct follow {
	struct client *client;
	char id[EXECUTION_ID_SIZE];
	struct sink *sinks[2]; /* that take stdout and stderr; NULL: nobody wants it */
	size_t max;            /* of a result */
	char state[16];
	char approval[EXECUTION_ID_SIZE]; /* that it waits for; "": none */
	bool over;                        /* result is there */
	bool broken;                      /* nobody takes the output any more */
	struct buf result;                /* JSON */
	/* Its own. */
	struct client_stream stream;
	uint64_t offset[2], event, heard_ms;
	unsigned breaks; /* of the connection, in a row */
};

void follow_init(struct follow *f, struct client *c, size_t max);
void follow_done(struct follow *f);
/* What an answer about an execution says: a status, or its result. */
int follow_take(struct follow *f, const struct reply *r, struct err *err);
/* GET /executions/{id}; the daemon may wait so long for its end. */
int follow_ask(struct follow *f, uint64_t wait_ms, struct err *err);
/* Events from now on; follow_fd() is readable when there is something to read. */
int follow_open(struct follow *f, struct err *err);
int follow_fd(const struct follow *f);
/* Reads and acts without waiting; a connection that broke is made again, for some time. */
int follow_read(struct follow *f, struct err *err);
/* Is the daemon still there? To be called now and then. */
int follow_tick(struct follow *f, struct err *err);
/* Until it is over. Ctrl-C ends it with -EINTR. */
int follow_wait(struct follow *f, struct err *err);
/* What is left of the output when it is over, with what was dropped said. */
int follow_show_rest(struct follow *f, json_t *result, struct err *err);
/* Shows output from where we are, as far as there is some: *ret_done when no more will come. */
int follow_fetch(struct follow *f, int which, bool *ret_done, struct err *err);

/* The execution that begins with `prefix`: its id. */
int execution_find(struct client *c, const char *prefix, char ret[EXECUTION_ID_SIZE],
                   struct err *err);
/* Calls fn for each status, newest first; non-zero ends it. */
typedef int status_fn(void *data, json_t *status);
int execution_each(struct client *c, status_fn *fn, void *data, struct err *err);
