/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The contestants of the latency benchmark. Each runs the same workload and hands its output back;
 * a run counts only when the output has exactly the expected bytes.
 */

#include "base/err.h"
#include "measure.h"
#include "model/request.h"

struct workload {
	const char *name;
	const char *output;  /* expected, byte for byte */
	const char *argv[4]; /* as a bare program; argv[0] is looked up in the box's PATH */
	enum language language;
	const char *code; /* the same for a box */
	const char *modules[3];
	size_t n_modules;
	bool exec; /* a program without an interpreter: the jail executes it itself */
};

extern const struct workload workloads[];
extern const size_t workloads_n;

struct contestant;

/* One contestant with one workload. */
struct entry {
	const struct contestant *who;
	const struct workload *what;
	char program[256]; /* what argv[0] is */
	void *state;
	struct samples samples;
	size_t wanted; /* samples */
	double cpu_ms; /* of one run; negative: not measured */
	bool absent;
	struct err error; /* why it takes no part */
};

struct contestant {
	const char *name;
	const char *needs; /* a program; NULL: always there */
	unsigned idle_ms;  /* of quiet before each sample; 0: a run of the same kind (hot) */
	bool in_a_row;     /* the runs of a turn follow each other: no rest between them */
	bool full;         /* as many samples as asked, however slow */
	bool killed;       /* its processes are, at the end: without cgroups their time is lost */
	bool cpu_hidden;   /* somebody else's child does the work */
	bool exec_only, shell_only;
	const char *const *argv; /* of a peer, the workload's come after it */
	/* All but run may be NULL. -errno: it takes no part, *err says why. */
	int (*setup)(struct entry *e, struct err *err);
	int (*run)(struct entry *e, struct err *err);
	/* Not timed, after each run or turn: what is still going on comes to its end. */
	int (*rest)(struct entry *e, struct err *err);
	void (*idle)(struct entry *e, unsigned ms);
	void (*teardown)(struct entry *e);
};

extern const struct contestant brig_contestants[];
extern const size_t brig_contestants_n;
extern const struct contestant peer_contestants[]; /* the first is the bare spawn */
extern const size_t peer_contestants_n;

/* By the PATH that all contestants have, whose beginning is that of a box; -ENOENT. */
int find_program(const char *name, char *ret, size_t size);

/* ---- spawn.c ---- */

struct spawn {
	const char *const *argv; /* argv[0] is a path */
	int mount_ns;            /* to run in; FD_NONE: ours */
	const char *input;       /* a file; NULL: /dev/null */
};

/* Runs it, collects stdout, waits for it; checks status and bytes (output NULL: any). */
int spawn_check(const struct spawn *s, const char *output, struct err *err);
