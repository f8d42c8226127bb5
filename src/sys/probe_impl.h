/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of the probe only. */

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/fd.h"
#include "sys/probe.h"

enum probe_map {
	PROBE_MAP_NONE = 0, /* no user namespace */
	PROBE_MAP_OWN,      /* the caller's id, as 1000 */
	PROBE_MAP_PAIR,     /* two ids, as 1 and 1000; the child becomes 1 */
};

struct probe_ctx {
	struct probe_report *report;
	enum probe_map map; /* the best that works here */
	bool outer_filter;  /* a seccomp filter was on us before we started */
	int *shared;        /* PROBE_SHARED ints that children write and the caller reads */
};

#define PROBE_SHARED      16
#define PROBE_NOT_REACHED 1 /* in ctx->shared: the step was not tried */
#define PROBE_TIMEOUT_MS  2000
#define PROBE_NO_USERNS   (-EUNATCH) /* from probe_inside(): there is nowhere to try it */

/* Runs in the child: 0 or -errno. */
typedef int probe_fn(void *arg);

/*
 * Runs fn in a child made by clone() with the flags (CLONE_NEW*), after its ids were mapped.
 * Returns what fn returned; -ETIMEDOUT after two seconds; -ENOSYS when SIGSYS, -EFAULT when
 * SIGSEGV and -EINTR when another signal ended it. *ret_made (may be NULL) tells a child that
 * could not be made or mapped from one that failed.
 */
int probe_child(enum probe_map map, unsigned long flags, probe_fn *fn, void *arg, bool *ret_made);
/* The same in a user namespace with the best map; PROBE_NO_USERNS when there is none. */
int probe_inside(const struct probe_ctx *c, unsigned long flags, probe_fn *fn, void *arg);
/* Waits for the child to end, kills it when it does not. The same results. */
int probe_reap(pid_t pid, int done_fd);

void probe_set(struct probe_ctx *c, enum probe_id id, enum probe_state state, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
void probe_remedy(struct probe_ctx *c, enum probe_id id, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* OK with the text, or MISSING with the error and a remedy that names an outer filter or `since`.
 */
void probe_result(struct probe_ctx *c, enum probe_id id, int r, const char *found,
                  const char *since);

/* The file's content without the trailing newline, NUL-terminated; its length or -errno. */
int probe_read(const char *path, char *text, size_t size);
/* A number in a file; -errno when it cannot be read. */
int probe_read_int(const char *path, long long *ret);

/* mount(2): sys/mount.h and linux/mount.h do not go together. */
int probe_mount(const char *source, const char *target, const char *type, unsigned long flags,
                const char *options);

#define PROBE_PATH_MAX 1024

/* Where boxes go in one hierarchy. */
struct probe_place {
	bool v2;
	char mount[PROBE_PATH_MAX];
	char path[2 * PROBE_PATH_MAX];
	int fd;
};

#define PROBE_PLACE_INIT ((struct probe_place){ .fd = FD_NONE })

/* controller NULL: the v2 hierarchy. */
int probe_find_place(const char *controller, struct probe_place *ret);
void probe_place_done(struct probe_place *p);
/* Is the word in the list? */
bool probe_list_has(const char *list, const char *word, const char *separators);

void probe_namespaces(struct probe_ctx *c);
void probe_files(struct probe_ctx *c);
void probe_kernel(struct probe_ctx *c);
void probe_cgroups(struct probe_ctx *c);
void probe_settings(struct probe_ctx *c);
