/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a run may use. Every limit has a default, a smallest and a largest value; zero is never
 * "unlimited", it is out of range. One row here gives the field, the JSON key, the option's name,
 * the check and the documentation.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum limit_kind {
	LIMIT_COUNT = 0,
	LIMIT_BYTES,
	LIMIT_MS,
	LIMIT_MILLI, /* thousandths; a decimal number in JSON and on the command line */
};

/*  field          JSON key         option        kind    default     min        max          help
 */
/* clang-format off */
#define LIMITS_TABLE(X)                                                                            \
	X(timeout_ms,   "timeout_ms",    "timeout",    MS,    30000,      1,         300000,       "wall time")                              \
	X(memory_bytes, "memory_bytes",  "memory",     BYTES, 512 * MIB,  8 * MIB,   64 * GIB,     "memory, files in /tmp and /workspace included") \
	X(cpu_milli,    "cpus",          "cpus",       MILLI, 1000,       10,        256000,       "share of the processors")                \
	X(cpu_ms,       "cpu_ms",        "cpu-time",   MS,    300000,     1000,      86400000,     "processor time of all processes")        \
	X(pids,         "pids",          "pids",       COUNT, 100,        1,         4096,         "processes and threads")                  \
	X(open_files,   "open_files",    "open-files", COUNT, 1024,       16,        16384,        "open files of one process")              \
	X(file_bytes,   "file_bytes",    "file-size",  BYTES, 1 * GIB,    4 * KIB,   1024 * GIB,   "size of one file")                       \
	X(disk_bytes,   "disk_bytes",    "disk",       BYTES, 1 * GIB,    64 * KIB,  64 * GIB,     "all writable places together")           \
	X(inodes,       "inodes",        "inodes",     COUNT, 65536,      64,        4194304,      "files and directories written")          \
	X(output_bytes, "output_bytes",  "output",     BYTES, 10 * MIB,   1 * KIB,   256 * MIB,    "kept of stdout, and of stderr")
/* clang-format on */

struct limits {
#define X(field, key, option, kind, def, min, max, help) uint64_t field;
	LIMITS_TABLE(X)
#undef X
};

struct limit_info {
	const char *key;
	const char *option;
	enum limit_kind kind;
	uint64_t def, min, max;
	size_t offset; /* of the field in struct limits */
	const char *help;
};

extern const struct limit_info limit_infos[];
extern const size_t limit_infos_n;

void limits_default(struct limits *ret);
uint64_t *limits_field(struct limits *l, const struct limit_info *info);
/* As a number of JSON, without a unit; returns out. */
#define LIMIT_NUMBER_SIZE 32
const char *limit_number(const struct limit_info *info, uint64_t value,
                         char out[LIMIT_NUMBER_SIZE]);
/* Checks every field against its range; the error names the field. */
int limits_check(const struct limits *l, struct err *err);
/* Sets one field after checking the range. */
int limits_set(struct limits *l, const struct limit_info *info, uint64_t value, struct err *err);
/* By option name, parsing the text as that kind of limit. */
int limits_set_text(struct limits *l, const char *option, const char *text, struct err *err);
