/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a run gives back. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "model/findings.h"
#include "model/layer.h"

#define RESULT_FILES_MAX   1000
#define RESULT_OUTPUTS_MAX (64 * MIB) /* bytes of all rich outputs */
#define RESULT_JSON_MAX    (4096 * MIB - 1)
#define EXECUTION_ID_SIZE  27 /* 26 characters of [0-9a-hjkmnp-tv-z] and a NUL */

/* clang-format off */
#define RUN_STATE_TABLE(X)                                                                         \
	X(SETUP_FAILED, "setup_failed") /* no user code ran */                                     \
	X(FINISHED,     "finished")                                                                \
	X(FAILED,       "failed") /* non-zero exit, exception */                                   \
	X(TIMED_OUT,    "timed_out")                                                               \
	X(KILLED,       "killed") /* by a signal */                                                \
	X(OOM,          "oom")                                                                     \
	X(OUTPUT_LIMIT, "output_limit")                                                            \
	X(DISK_LIMIT,   "disk_limit")                                                              \
	X(CANCELLED,    "cancelled")                                                               \
	X(DENIED,       "denied")                                                                  \
	X(EXPIRED,      "expired")                                                                 \
	X(REJECTED,     "rejected") /* bad request */                                              \
	X(LOST,         "lost")
/* clang-format on */

enum run_state {
#define X(id, name) RUN_##id,
	RUN_STATE_TABLE(X)
#undef X
		RUN_STATE_COUNT,
};

struct usage {
	uint64_t wall_ms;
	uint64_t cpu_ms;
	uint64_t peak_memory_bytes;
	uint64_t pids_peak;
	uint64_t read_bytes;
	uint64_t written_bytes;
};

struct receipt_layer {
	bool required;
	bool enforced;
	char detail[120];
};

/* What held. enforced is what was verified from outside or, where the kernel shows nothing,
 * reported by the launcher; detail says which. */
struct receipt {
	struct receipt_layer layers[LAYER_COUNT]; /* indexed by enum layer_id */
	enum level level_required;
	enum level level_achieved; /* LEVEL_COUNT: none */
	bool verified;             /* the caller's check from outside passed before the go */
	char image[64];
	char launcher[32];
	char seccomp_profile[72]; /* sha256 of the loaded filter, hex */
};

enum file_change {
	FILE_CREATED = 0,
	FILE_MODIFIED,
	FILE_DELETED,
};

struct result_file {
	char *path; /* relative to /workspace, bytes as found */
	uint64_t size;
	enum file_change change;
};

/* What the program itself says went wrong; its word, nobody else's. */
struct exception {
	char *type; /* NULL: none */
	char *message;
	char *traceback;
	int line; /* of the script, 0: unknown */
};

struct result {
	char execution_id[EXECUTION_ID_SIZE];
	enum run_state state;
	bool has_exit_code;
	int exit_code;
	int signal;                        /* 0: none */
	struct buf out, errout;            /* head and tail kept, see exec/output.h */
	uint64_t out_dropped, err_dropped; /* bytes between them */
	struct buf outputs;                /* MIME bundles as JSON, comma-separated, in order */
	char *value;                       /* of the last expression, as text; NULL: none */
	struct exception exception;
	struct err error; /* code ERR_NONE: none */
	bool not_fetched; /* a file of --out */
	struct result_file *files;
	size_t n_files;
	bool files_truncated; /* more than RESULT_FILES_MAX */
	struct usage usage;
	const struct findings *risk;         /* NULL: not assessed; belongs to someone else */
	char approval_id[EXECUTION_ID_SIZE]; /* "": none was needed */
	const char *tier;                    /* NULL: none was chosen */
	struct receipt receipt;
};

void result_init(struct result *r);
void result_done(struct result *r);
/* A file of --out could not be fetched. True: that is the error now. */
bool result_not_fetched(struct result *r, const struct err *err);
bool run_state_is_success(enum run_state s);
const char *run_state_name(enum run_state s);
/*
 * Exactly the keys of the documented result. Guest bytes that are not UTF-8 become U+FFFD, one per
 * byte that cannot be part of a well-formed sequence.
 */
int result_to_json(const struct result *r, struct buf *out);
int receipt_to_json(const struct receipt *r, struct buf *out);
/* 26 random characters from getrandom(2). */
int execution_id_new(char ret[EXECUTION_ID_SIZE]);
