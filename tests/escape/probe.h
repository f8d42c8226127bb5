/* SPDX-License-Identifier: Apache-2.0 */
/* Attack probes: one static binary, one id per attack, run both in a box and outside of it.
 * A probe *tries* something and reports what the kernel answered; the tests judge from outside. */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Also the exit status of the binary. */
enum {
	PROBE_BLOCKED = 0,
	PROBE_ESCAPED = 1,
	PROBE_ERROR = 3, /* the probe itself could not run, or the kernel's answer was unexpected */
};

struct probe {
	const char *id;
	/* argv[0] is the first argument after the id. `detail` (n bytes, zeroed) goes into the
	 * report. */
	int (*run)(int argc, char **argv, char *detail, size_t n);
};

/* Each probes_x.c defines one of these, ended by an element whose id is NULL. Absent groups are
 * absent from the binary. */
extern const struct probe probes_fs[], probes_su[], probes_ps[], probes_fd[], probes_ns[],
	probes_cp[], probes_sc[], probes_ll[], probes_rs[], probes_pk[];

/* A system call without libc in between: the result, or -errno. */
long raw_syscall(long nr, long a, long b, long c, long d, long e, long f);
#define RAW_N(nr, a, b, c, d, e, f, ...)                                                           \
	raw_syscall((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define RAW(...) RAW_N(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* Collects several attempts into one verdict: escaped beats error beats blocked. */
struct tally {
	int result;
	unsigned attempts;
	char *detail;
	size_t n, used;
};

void tally_init(struct tally *t, char *detail, size_t n);
/* Text for the report; does not change the verdict. */
void tally_note(struct tally *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tally_escaped(struct tally *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tally_error(struct tally *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* `r` is a raw result. >= 0: escaped. One of the listed errnos: blocked. Any other: error. */
void tally_expect_list(struct tally *t, const char *what, long r, const int *errnos);
#define tally_expect(t, what, r, ...)                                                              \
	tally_expect_list((t), (what), (r), (const int[]){ __VA_ARGS__, 0 })
/* The verdict; an empty tally is an error, since nothing was tried. */
int tally_result(const struct tally *t);

/* open(2) with O_CLOEXEC and mode 0600: fd or -errno. */
int try_open(const char *path, int flags);
/* First bytes of a file, NUL-terminated: length or -errno. */
ssize_t try_read(const char *path, char *buf, size_t n);
/* Writes to an existing file: bytes written or -errno. */
ssize_t try_write(const char *path, const void *data, size_t n);
/* write(2) of a string into a new file (O_CREAT|O_EXCL): 0 or -errno. */
int try_create(const char *path, mode_t mode, const char *text);

/* Runs fn(arg) in a forked child. Returns fn's result (which must fit in a long), or -ECHILD with
 * the signal in *ret_sig when the child was killed. */
long in_child(long (*fn)(void *arg), void *arg, int *ret_sig);

/* This program into an open file: 0 or -errno. */
int copy_self(int out);
/* The number behind "NAME:" in /proc/self/status (base 16 or 10), or -1. */
long long status_field(const char *name, int base);
/* The hard limit on core files as /proc/self/limits shows it (getrlimit(2) may be refused): bytes,
 * LLONG_MAX when unlimited, -1 when not shown. */
long long core_limit(void);
/* Adds an escape for everything that a box must have and this process has not: no capabilities, no
 * new privileges, a seccomp filter. */
void tally_confined(struct tally *t);

const char *errno_name(int e);
