/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A disk below SQLite that fails when it is told to, and that remembers the order in which it was
 * written and synced, so that a loss of power at any moment can be built from it. It is SQLite's
 * own disk with a layer above: a VFS that becomes the default.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum disk_op {
	DISK_READ = 0,
	DISK_WRITE,
	DISK_SYNC,
	DISK_TRUNCATE,
	DISK_SHM, /* a piece of shared memory is mapped */
	DISK_OPEN,
	DISK_OPS,
};

enum disk_how {
	DISK_EIO = 0, /* nothing is done */
	DISK_FULL,    /* nothing is done: no room */
	DISK_SHORT,   /* the first half is written: no room */
	DISK_LATE,    /* all is done, and an error told */
	DISK_HOWS,
};

/* The nth operation of a kind fails; 0: none does. */
struct disk_fault {
	enum disk_op op;
	enum disk_how how;
	unsigned nth;
	bool lasting;    /* and all of its kind after it */
	unsigned seen;   /* operations of the kind */
	unsigned failed; /* of them */
};

extern struct disk_fault disk_fault;

/* ---- what was written ---- */

enum disk_file {
	DISK_DB = 0,
	DISK_WAL,
	DISK_HEAD, /* not SQLite's: the observer tells of it */
	DISK_FILES,
};

enum disk_kind {
	DISK_WROTE = 0,
	DISK_CUT, /* to the length `at` */
	DISK_SYNCED,
	DISK_SYNC_FAILED,
	DISK_NOTE, /* of the caller */
};

struct disk_event {
	enum disk_kind kind;
	enum disk_file file;
	uint64_t at; /* where; what the note says */
	uint8_t *data;
	size_t n;
};

#define DISK_EVENTS_MAX 16384

struct disk_log {
	bool on;
	void (*observe)(void); /* is called before each event */
	struct disk_event v[DISK_EVENTS_MAX];
	size_t n;
};

extern struct disk_log disk_log;

int disk_register(void);
/* Copies the data. Nothing happens while the log is off. */
void disk_add(enum disk_kind kind, enum disk_file file, uint64_t at, const void *data, size_t n);
void disk_log_clear(void);

const char *disk_op_name(enum disk_op op);
const char *disk_how_name(enum disk_how how);
