/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The record: append-only, each row's hash covers the row and the hash before it. SQLite in WAL
 * mode, one file in the state directory, any number of processes.
 *
 * Appending opens a group; ledger_commit() ends it. What was committed survives the death of the
 * process (LEDGER_PROCESS) or of the machine (LEDGER_DISK). Nothing of a group that was not
 * committed remains.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"

#define LEDGER_DETAIL_MAX (64 * KIB) /* of one event */
#define LEDGER_BODY_MAX   (64 * KIB) /* kept of code or output; the digest is of all of it */
#define LEDGER_WORD_MAX   256        /* bytes of job, session, kind, name, actor */

enum ledger_durability {
	LEDGER_PROCESS = 0, /* survives kill -9 */
	LEDGER_DISK,        /* survives power loss: fsync before it returns */
};

struct ledger;
struct sqlite3;

struct ledger_event {
	const char *job;     /* execution id; NULL: none */
	const char *session; /* NULL: none */
	const char *kind;    /* "state", "approval", "file", "policy", "prune" */
	const char *name;    /* "decided", "approval.allowed", ... */
	const char *actor;   /* who: "brig", "cli:root", "auto-approve" */
	struct str detail;   /* a JSON object in one line of UTF-8; p == NULL: {} */
};

/* One recorded row, as ledger_each() shows it. Strings live for the call only; "" where absent. */
struct ledger_row {
	uint64_t seq;     /* from 1, without gaps but for what was pruned */
	uint64_t time_us; /* CLOCK_REALTIME */
	const char *job, *session, *kind, *name, *actor;
	struct str detail;
	const uint8_t *bodies; /* n_bodies digests, SHA256_SIZE each: what was kept with this row */
	size_t n_bodies;
	const uint8_t *hash; /* SHA256_SIZE */
};

struct ledger_filter {
	const char *job, *session, *kind, *name; /* NULL: any */
	uint64_t after_seq;                      /* 0: from the start */
	uint64_t limit;                          /* rows; 0: all */
	bool newest_first;
};

struct ledger_report {
	uint64_t rows, bodies; /* that were checked */
	uint64_t first_seq, last_seq;
	uint64_t pruned; /* rows that a signed stub stands for */
	uint64_t lost;   /* rows that were committed once and are gone, as far as a row says so */
	bool ok;
	uint64_t bad_seq; /* where it breaks; 0: not at a row */
	char why[200];
};

/* The state directory: $BRIG_STATE_DIR, or /var/lib/brig for root, or
 * ${XDG_STATE_HOME:-~/.local/state}/brig. Not made here. */
int ledger_default_dir(char *ret, size_t n, struct err *err);
/* Makes the directory (0700) and the file (0600) when they are not there. Refuses a file of a
 * newer version and one that is owned by or writable for others. */
int ledger_open(const char *dir, struct ledger **ret, struct err *err);
void ledger_close(struct ledger *l);
const char *ledger_dir(const struct ledger *l);

/*
 * How long a statement waits for another process, 5 s unless told. Whoever is told less must not be
 * held up: after a wait in vain the next ones do not wait at all for a while.
 */
void ledger_set_patience(struct ledger *l, unsigned ms);
/* Starts the group when there is none; then the connection holds the write lock until commit. When
 * the newest rows are gone (power was lost, or somebody cut them off), a row that says so comes
 * first. Any failure of these four ends the group: nothing of it remains. */
int ledger_begin(struct ledger *l, struct err *err);
int ledger_append(struct ledger *l, const struct ledger_event *e, struct err *err);
/* Keeps a body beside the chain, once; *ret is the SHA-256 of all of it. The next row of the group
 * names it (a row of kind "body" does, when none follows). */
int ledger_body(struct ledger *l, const void *p, size_t n, uint8_t ret[SHA256_SIZE],
                struct err *err);
/* The same of what somebody has made the digest of already. */
int ledger_body_of(struct ledger *l, const void *p, size_t n, const uint8_t digest[SHA256_SIZE],
                   struct err *err);
/* No group: nothing to do. On failure the group is gone; but when only the fsync of LEDGER_DISK
 * failed (LEDGER_UNSYNCED), it is recorded as LEDGER_PROCESS would have it. */
#define LEDGER_UNSYNCED (-EINPROGRESS)
int ledger_commit(struct ledger *l, enum ledger_durability how, struct err *err);
void ledger_abort(struct ledger *l);
bool ledger_in_group(const struct ledger *l);

/* For tables of other modules in the same file and the same groups (src/confirm). */
struct sqlite3 *ledger_db(struct ledger *l);
/* A statement's failure as an error. */
int ledger_db_error(struct ledger *l, struct err *err, const char *what);

typedef int ledger_row_fn(void *data, const struct ledger_row *row); /* non-zero ends it */
int ledger_each(struct ledger *l, const struct ledger_filter *f, ledger_row_fn *fn, void *data,
                struct err *err);
/* The kept part of a body into `out`; *ret_size is the size of all of it. -ENOENT: not kept. */
int ledger_get_body(struct ledger *l, const uint8_t digest[SHA256_SIZE], struct buf *out,
                    uint64_t *ret_size, struct err *err);
/* Checks every row, every body and the file itself. An unsound ledger is an answer, not an error.
 */
int ledger_verify(struct ledger *l, struct ledger_report *ret, struct err *err);
/* Removes the rows before `before_us` (and bodies nobody names any more); a signed stub takes
 * their place. */
int ledger_prune(struct ledger *l, uint64_t before_us, const char *actor, uint64_t *ret_rows,
                 struct err *err);
void ledger_row_to_json(const struct ledger_row *row, struct buf *out);

enum ledger_graph_form {
	LEDGER_GRAPH_JSON = 0,
	LEDGER_GRAPH_DOT,
};

/* Which execution of a session changed which file, from the rows of kind "file" whose name is
 * "created", "modified" or "deleted" and whose detail holds path, size and sha256 (or null). */
int ledger_graph(struct ledger *l, const char *session, enum ledger_graph_form form,
                 struct buf *out, struct err *err);
