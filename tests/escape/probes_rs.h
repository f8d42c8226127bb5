/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource exhaustion. Every probe takes the bound up to which it tries, so that the control
 * outside of a box is harmless: reaching the bound is "escaped", being stopped before it is
 * "blocked". A probe that the box kills says nothing; the test then judges the run's end state.
 */
#pragma once

#include "probe.h"

#include <stdatomic.h>
#include <sys/resource.h>

#define KB           1024L
#define MB           (1024L * KB)
#define PAGE         4096L
#define COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define CONTROL_WAIT 5000 /* ms; nothing of a control outlives this */

/* Argument i, or what stands for an absent one. */
long number(int argc, char **argv, int i, long def);
const char *word(int argc, char **argv, int i);

long now_ms(void);
void sleep_ms(long ms);
/* As far as this process may. */
void raise_limit(int resource, rlim_t want);
/* `done` of `bound`: reached, or stopped by e. */
int verdict(char *detail, size_t n, const char *what, long done, long bound, int e);
/* Guards what would hurt a host. */
bool in_box(void);

/* Shared by all tasks. They wait for the gate's writing end to close, which it does with its owner:
 * no control can leave anything behind. */
struct crowd {
	int gate[2];
	atomic_long alive;
	atomic_long refused; /* positive errno of the first refusal */
};

struct crowd *crowd_new(void);
/* Counts as alive until the gate closes; does not return. */
void crowd_member(struct crowd *c);
void crowd_refused(struct crowd *c, int e);

/* NULL with errno. */
char *map_pages(long bytes, int flags, int fd);
/* Bytes written, at least as many as asked for, or -errno. */
long fill_fd(int fd, long bytes);

/* Probes of the other files. */
int rs02_memory(int argc, char **argv, char *detail, size_t n);
int rs03_kernel(int argc, char **argv, char *detail, size_t n);
int rs04_swap(int argc, char **argv, char *detail, size_t n);
int rs05_fill(int argc, char **argv, char *detail, size_t n);
int rs06_inodes(int argc, char **argv, char *detail, size_t n);
int rs07_sizes(int argc, char **argv, char *detail, size_t n);
int rs08_storm(int argc, char **argv, char *detail, size_t n);
int rs09_files(int argc, char **argv, char *detail, size_t n);
int rs10_flood(int argc, char **argv, char *detail, size_t n);
int rs12_stdin(int argc, char **argv, char *detail, size_t n);
int rs25_loopback(int argc, char **argv, char *detail, size_t n);
int rs26_proxy(int argc, char **argv, char *detail, size_t n);
int rs30_huge(int argc, char **argv, char *detail, size_t n);
int rs32_survivor(int argc, char **argv, char *detail, size_t n);
int rs_objects(int argc, char **argv, char *detail, size_t n);
