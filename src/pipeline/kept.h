/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What outlives the process that ran it: the results of jobs that are kept (job->keep) or have an
 * idempotency key. A row is made with the first row of the job in the ledger, and gets its result
 * with the last one, each in the same group: a key is never free for a run that happened, nor
 * taken by one that did not.
 */

#include "base/buf.h"
#include "base/err.h"
#include "model/approval.h"
#include "model/result.h"

#define KEPT_RESULT_MAX (1 * MIB)  /* a larger result is kept without its output */
#define KEPT_REST_MAX   (32 * MIB) /* which leaves names of files and a traceback */
#define KEPT_LIST_MAX   1000

struct pipeline;
struct job;

/* Strings live for the call only. */
struct kept {
	const char *id, *caller, *key; /* key "": none */
	const char *language, *session;
	const char *state;     /* of the run, "" until it is over */
	uint64_t time_us;      /* CLOCK_REALTIME, of its making */
	struct str result;     /* as JSON; n == 0: none, see state */
	struct str body;       /* of one that waits for a person: the request */
	const char *approval;  /* that it waits for; "": none */
	const uint8_t *digest; /* of the request that took the key; NULL: no key */
};

typedef int kept_fn(void *data, const struct kept *k); /* non-zero ends it */
/* 1: found. */
int kept_get(struct pipeline *pl, const char *id, kept_fn *fn, void *data, struct err *err);
/*
 * What the key of that caller stands for: 1 and its id, 0: nothing yet, -EEXIST with ERR_CONFLICT:
 * another request than this one.
 */
int kept_find_key(struct pipeline *pl, const char *caller, const char *key,
                  const uint8_t digest[SHA256_SIZE], char ret_id[EXECUTION_ID_SIZE],
                  struct err *err);
/* Newest first, without results; from before `before_us` (0: all), at most `limit`. */
int kept_each(struct pipeline *pl, uint64_t before_us, unsigned limit, kept_fn *fn, void *data,
              struct err *err);
/* Those that wait for a person and whose process is gone, with their bodies. */
int kept_each_waiting(struct pipeline *pl, kept_fn *fn, void *data, struct err *err);
/* A key for something else than a run (an answer to an approval): 1 when it is new and now taken,
 * 0 when it stands for the same thing already, -EEXIST for another. In the ledger's group. */
int kept_claim(struct pipeline *pl, const char *caller, const char *key,
               const uint8_t digest[SHA256_SIZE], struct err *err);
/* Rows that are over and from before then go; in a group of its own. */
int kept_prune(struct pipeline *pl, uint64_t before_us, struct err *err);
