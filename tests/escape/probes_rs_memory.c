/* SPDX-License-Identifier: Apache-2.0 */
/* Resource exhaustion: memory (RS-02 to RS-04, RS-30, RS-32). */
#include "probes_rs.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long touch(char *p, long bytes)
{
	for (long i = 0; i < bytes; i += PAGE)
		p[i] = (char)(i / PAGE + 1);
	return bytes;
}

char *map_pages(long bytes, int flags, int fd)
{
	char *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static long eat_malloc(long bytes)
{
	char *p = map_pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	return p ? touch(p, bytes) : -errno;
}

static long eat_shared(long bytes)
{
	char *p = map_pages(bytes, MAP_SHARED | MAP_ANONYMOUS, -1);

	return p ? touch(p, bytes) : -errno;
}

/* Eight children each break an eighth of the pages. */
static long eat_cow(long bytes)
{
	struct crowd *c = crowd_new();
	long part = bytes / 8;
	char *p = map_pages(part, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (!c || !p)
		return -ENOMEM;
	touch(p, part);
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0) {
			touch(p, part);
			crowd_member(c);
		}
	}
	while (atomic_load(&c->alive) < 8)
		sleep_ms(1);
	return bytes;
}

struct thread_fork {
	struct crowd *crowd;
	long bytes;
};

static void *fork_and_eat(void *arg)
{
	struct thread_fork *f = arg;

	if (fork() == 0) {
		(void)eat_malloc(f->bytes);
		crowd_member(f->crowd);
	}
	pause();
	return NULL;
}

/* In a child of a thread: whoever looks only at children of main threads does not see it. */
static long eat_threadfork(long bytes)
{
	static struct thread_fork f;
	pthread_t thread;

	f = (struct thread_fork){ crowd_new(), bytes };
	if (!f.crowd || pthread_create(&thread, NULL, fork_and_eat, &f))
		return -ENOMEM;
	for (long end = now_ms() + CONTROL_WAIT; atomic_load(&f.crowd->alive) < 1; sleep_ms(1))
		if (now_ms() > end)
			return -ENOMEM;
	return bytes;
}

static long eat_tmpfs(long bytes)
{
	int fd = open("fill", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fill_fd(fd, bytes);
}

static long eat_memfd(long bytes)
{
	int fd = (int)syscall(SYS_memfd_create, "m", 1u);

	return fd < 0 ? -errno : fill_fd(fd, bytes);
}

static long eat_sysv(long bytes)
{
	int id = shmget(IPC_PRIVATE, (size_t)bytes, IPC_CREAT | 0600);
	char *p;

	if (id < 0)
		return -errno;
	p = shmat(id, NULL, 0);
	(void)shmctl(id, IPC_RMID, NULL);
	return p == (void *)-1 ? -errno : touch(p, bytes);
}

static long eat_brk(long bytes)
{
	long base = RAW(SYS_brk, 0), top = RAW(SYS_brk, base + bytes);

	return top < base + bytes ? -ENOMEM : touch((char *)base, bytes);
}

__attribute__((noinline)) static long deepen(long left)
{
	volatile char frame[16 * KB];

	frame[0] = 1;
	frame[sizeof(frame) - 1] = 1;
	return left <= 0 ? frame[0] : deepen(left - (long)sizeof(frame)) + frame[sizeof(frame) - 1];
}

static long stack_child(void *arg)
{
	raise_limit(RLIMIT_STACK, (rlim_t)(*(long *)arg + 2 * MB));
	(void)deepen(*(long *)arg);
	return *(long *)arg;
}

static long eat_stack(long bytes)
{
	int sig;
	long r = in_child(stack_child, &bytes, &sig);

	return sig ? -EFAULT : r;
}

/* Clean pages of a file: reclaimable, so the box neither dies nor grows. */
static long eat_pagecache(long bytes)
{
	static char block[64 * KB];
	int fd = open("/usr/bin/node", O_RDONLY | O_CLOEXEC);
	long done = 0;

	if (fd < 0)
		return -errno;
	while (done < bytes) {
		ssize_t k = read(fd, block, sizeof(block));

		if (k < 0)
			return -errno;
		if (k == 0 && lseek(fd, 0, SEEK_SET) < 0)
			return -errno;
		done += k;
	}
	return done;
}

/* One page of every 2 MiB: as much again in page tables, which only the kernel sees. */
static long eat_tables(long bytes)
{
	long count = bytes / (2 * PAGE);
	char *p = mmap(NULL, (size_t)count * 2 * MB, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	(void)madvise(p, (size_t)count * 2 * MB, MADV_NOHUGEPAGE);
	for (long i = 0; i < count; i++)
		p[i * 2 * MB] = 1;
	return bytes;
}

static long eat_pipes(long bytes)
{
	raise_limit(RLIMIT_NOFILE, (rlim_t)(2 * bytes / MB + 64));
	for (long done = 0; done < bytes; done += MB) {
		int p[2];
		long k;

		if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
			return -errno;
		if (fcntl(p[1], F_SETPIPE_SZ, MB) < 0)
			return -errno;
		k = fill_fd(p[1], MB);
		if (k < 0 && k != -EAGAIN)
			return k;
	}
	return bytes;
}

static long eat_sockets(long bytes)
{
	long done = 0;

	raise_limit(RLIMIT_NOFILE, 4096);
	while (done < bytes) {
		static char block[32 * KB];
		int s[2];
		ssize_t k;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) < 0)
			return -errno;
		while ((k = send(s[0], block, sizeof(block), MSG_NOSIGNAL)) > 0)
			done += k;
		if (k < 0 && errno != EAGAIN && errno != ENOBUFS)
			return -errno;
	}
	return done;
}

/* Mappings that cannot be merged: about 200 bytes of kernel memory each, in four processes. */
static long eat_vmas(long bytes)
{
	const long each = 50000;
	struct crowd *c = crowd_new();

	for (int i = 0; c && i < 4; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		for (long k = 0; pid == 0 && k < each; k++)
			if (mmap(NULL, PAGE, k & 1 ? PROT_READ : PROT_NONE,
			         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
				_exit(1);
		if (pid == 0)
			crowd_member(c);
	}
	for (long end = now_ms() + CONTROL_WAIT; c && atomic_load(&c->alive) < 4;) {
		if (now_ms() > end)
			return -ENOMEM;
		sleep_ms(1);
	}
	return c ? bytes : -ENOMEM;
}

static long eat_dentries(long bytes)
{
	char path[300];

	for (long i = 0; i < bytes / 500; i++) {
		snprintf(path, sizeof(path), "/usr/absent-%0200ld-%d", i, (int)getpid());
		if (access(path, F_OK) == 0)
			return -EEXIST;
	}
	return bytes;
}

static const struct {
	const char *name;
	long (*eat)(long bytes);
} eaters[] = {
	{ "malloc", eat_malloc },         { "shared", eat_shared }, { "cow", eat_cow },
	{ "tmpfs", eat_tmpfs },           { "memfd", eat_memfd },   { "sysv", eat_sysv },
	{ "threadfork", eat_threadfork }, { "brk", eat_brk },       { "stack", eat_stack },
	{ "pagecache", eat_pagecache },   { "tables", eat_tables }, { "pipes", eat_pipes },
	{ "sockets", eat_sockets },       { "vmas", eat_vmas },     { "dentries", eat_dentries },
};

/* RS-02, RS-03: VARIANT MIB HOLD_MS. The pages are held for a while: a watcher may need it. */
int rs02_memory(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 1, 0) * MB, r = -EINVAL;

	for (size_t i = 0; i < COUNT(eaters); i++)
		if (strcmp(eaters[i].name, word(argc, argv, 0)) == 0)
			r = eaters[i].eat(bytes);
	if (r >= 0)
		sleep_ms(number(argc, argv, 2, 0));
	return verdict(detail, n, "bytes", r < 0 ? 0 : r, bytes, r < 0 ? (int)-r : 0);
}

/* Kernel memory is either bytes (as in RS-02) or objects. */
int rs03_kernel(int argc, char **argv, char *detail, size_t n)
{
	for (size_t i = 0; i < COUNT(eaters); i++)
		if (strcmp(eaters[i].name, word(argc, argv, 0)) == 0)
			return rs02_memory(argc, argv, detail, n);
	return rs_objects(argc, argv, detail, n);
}

int rs04_swap(int argc, char **argv, char *detail, size_t n)
{
	char text[4096], *at;
	long bytes = number(argc, argv, 0, 8) * MB;

	if (eat_malloc(bytes) < 0)
		return PROBE_ERROR;
	sleep_ms(number(argc, argv, 1, 0));
	if (try_read("/proc/self/status", text, sizeof(text)) < 0)
		return PROBE_ERROR;
	at = strstr(text, "VmSwap:");
	if (!at)
		return PROBE_ERROR;
	snprintf(detail, n, "%.30s", at);
	return strtol(at + 7, NULL, 10) == 0 ? PROBE_BLOCKED : PROBE_ESCAPED;
}

static long huge_kib(void)
{
	char text[4096], *at;

	if (try_read("/proc/self/smaps_rollup", text, sizeof(text)) < 0)
		return -1;
	at = strstr(text, "AnonHugePages:");
	return at ? strtol(at + 14, NULL, 10) : -1;
}

/* thp MIB | ksm */
int rs30_huge(int argc, char **argv, char *detail, size_t n)
{
	bool ksm = strcmp(word(argc, argv, 0), "ksm") == 0;
	long bytes = number(argc, argv, 1, 16) * MB, kib;
	char *p = map_pages(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct tally t;

	if (!p)
		return PROBE_ERROR;
	tally_init(&t, detail, n);
	if (ksm) {
		tally_expect(&t, "madvise(MERGEABLE)", RAW(SYS_madvise, p, bytes, MADV_MERGEABLE),
		             EPERM, EINVAL, ENOSYS);
		tally_expect(&t, "prctl(MEMORY_MERGE)", RAW(SYS_prctl, 67, 1, 0, 0, 0), EPERM,
		             EINVAL, ENOSYS);
		return tally_result(&t);
	}
	(void)madvise(p, (size_t)bytes, MADV_HUGEPAGE);
	for (long i = 0; i < bytes; i += 2 * MB)
		p[i] = 1;
	kib = huge_kib();
	snprintf(detail, n, "%ld KiB in huge pages", kib);
	return kib < 0 ? PROBE_ERROR : kib > 0 ? PROBE_ESCAPED : PROBE_BLOCKED;
}

static long eat_in_child(void *arg)
{
	eat_malloc(*(long *)arg);
	sleep_ms(3000);
	return 0;
}

/* MIB [kill]: only a child is too large; escaped when this process outlives it. With "kill" the
 * child is ended by hand, as a control. */
int rs32_survivor(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0) * MB;
	pid_t pid = fork();

	if (pid < 0)
		return PROBE_ERROR;
	if (pid == 0)
		_exit((int)eat_in_child(&bytes));
	if (strcmp(word(argc, argv, 1), "kill") == 0)
		(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	sleep_ms(1000);
	snprintf(detail, n, "the parent lives on");
	return PROBE_ESCAPED;
}
