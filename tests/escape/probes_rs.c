/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource exhaustion. Every probe takes the bound up to which it tries, so that the control
 * outside of a box is harmless: reaching the bound is "escaped", being stopped before it is
 * "blocked". A probe that the box kills says nothing; the test then judges the run's end state.
 */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define KB           1024L
#define MB           (1024L * KB)
#define PAGE         4096L
#define TASKS_MAX    4096
#define SMALL_STACK  (16 * KB)
#define COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define CONTROL_WAIT 5000 /* ms; nothing of a control outlives this */

static long number(int argc, char **argv, int i, long def)
{
	return i < argc ? strtol(argv[i], NULL, 10) : def;
}

static const char *word(int argc, char **argv, int i)
{
	return i < argc ? argv[i] : "";
}

static long now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static void raise_limit(int resource, rlim_t want)
{
	struct rlimit l;

	if (getrlimit(resource, &l) < 0 || l.rlim_cur >= want)
		return;
	l.rlim_cur = want;
	if (l.rlim_max < want)
		l.rlim_max = want;
	if (setrlimit(resource, &l) < 0) {
		(void)getrlimit(resource, &l);
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(resource, &l);
	}
}

/* `done` of `bound`: reached, or stopped by e. */
static int verdict(char *detail, size_t n, const char *what, long done, long bound, int e)
{
	snprintf(detail, n, "%s: %ld of %ld, %s", what, done, bound,
	         e ? errno_name(e) : "no error");
	return done >= bound ? PROBE_ESCAPED : e ? PROBE_BLOCKED : PROBE_ERROR;
}

struct variant {
	const char *name;
	int (*run)(int argc, char **argv, char *detail, size_t n);
};

static int run_variant(const struct variant *v, size_t count, int argc, char **argv, char *detail,
                       size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(v[i].name, word(argc, argv, 0)) == 0)
			return v[i].run(argc - 1, argv + 1, detail, n);
	snprintf(detail, n, "no variant \"%s\"", word(argc, argv, 0));
	return PROBE_ERROR;
}

/* --- RS-01: tasks ------------------------------------------------------------------------------
 */

/* Shared by all tasks. They wait for the gate's writing end to close, which it does with its owner:
 * no control can leave anything behind. */
struct crowd {
	int gate[2];
	atomic_long alive;
	atomic_long refused; /* positive errno of the first refusal */
};

static struct crowd *crowd_new(void)
{
	struct crowd *c =
		mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (c == MAP_FAILED || pipe2(c->gate, O_CLOEXEC) < 0)
		return NULL;
	return c;
}

static void crowd_wait(struct crowd *c)
{
	char byte;

	close(c->gate[1]);
	while (read(c->gate[0], &byte, 1) < 0 && errno == EINTR)
		;
}

static void crowd_refused(struct crowd *c, int e)
{
	long none = 0;

	(void)atomic_compare_exchange_strong(&c->refused, &none, e);
}

static void crowd_member(struct crowd *c)
{
	atomic_fetch_add(&c->alive, 1);
	crowd_wait(c);
	_exit(0);
}

static void spawn_fork(struct crowd *c)
{
	pid_t pid = fork();

	if (pid == 0)
		crowd_member(c);
	if (pid < 0)
		crowd_refused(c, errno);
}

static void spawn_setsid(struct crowd *c)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)setsid();
		crowd_member(c);
	}
	if (pid < 0)
		crowd_refused(c, errno);
}

static void spawn_double(struct crowd *c)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)setsid();
		spawn_fork(c);
		_exit(0);
	}
	if (pid < 0)
		crowd_refused(c, errno);
	else
		(void)waitpid(pid, NULL, 0);
}

/* A child whose exit nobody is told. */
static void spawn_silent(struct crowd *c)
{
	long pid = RAW(SYS_clone, 0, 0, 0, 0, 0);

	if (pid == 0)
		crowd_member(c);
	if (pid < 0)
		crowd_refused(c, (int)-pid);
}

static struct crowd *thread_crowd;

static void *thread_member(void *unused)
{
	char byte;

	(void)unused;
	atomic_fetch_add(&thread_crowd->alive, 1);
	while (read(thread_crowd->gate[0], &byte, 1) < 0 && errno == EINTR)
		;
	return NULL;
}

static void spawn_thread(struct crowd *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int e;

	thread_crowd = c;
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, SMALL_STACK);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	e = pthread_create(&thread, &attr, thread_member, NULL);
	if (e)
		crowd_refused(c, e);
}

/* A chain: every member waits in vfork for the next one. */
struct chain {
	struct crowd *crowd;
	char *stacks;
	long level, bound;
};

static int chain_link(void *arg)
{
	struct chain next = *(struct chain *)arg;

	atomic_fetch_add(&next.crowd->alive, 1);
	if (++next.level >= next.bound || atomic_load(&next.crowd->refused))
		return 0;
	if (clone(chain_link, next.stacks + (next.level + 1) * SMALL_STACK,
	          CLONE_VM | CLONE_VFORK | SIGCHLD, &next) < 0)
		crowd_refused(next.crowd, errno);
	return 0;
}

static int tasks_vfork(int argc, char **argv, char *detail, size_t n)
{
	long bound = number(argc, argv, 0, 0);
	struct chain first = { .crowd = crowd_new(), .level = -1, .bound = bound };

	first.stacks = malloc((size_t)((bound + 2) * SMALL_STACK));
	if (!first.crowd || !first.stacks)
		return PROBE_ERROR;
	first.level = 0;
	if (clone(chain_link, first.stacks + SMALL_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD,
	          &first) < 0)
		crowd_refused(first.crowd, errno);
	return verdict(detail, n, "tasks", atomic_load(&first.crowd->alive), bound,
	               (int)atomic_load(&first.crowd->refused));
}

static const struct {
	const char *name;
	void (*spawn)(struct crowd *c);
} spawners[] = {
	{ "fork", spawn_fork },     { "setsid", spawn_setsid }, { "double", spawn_double },
	{ "thread", spawn_thread }, { "silent", spawn_silent },
};

/* Guards what would hurt a host. */
static bool in_box(void)
{
	char name[16] = "";

	(void)gethostname(name, sizeof(name) - 1);
	return getuid() == 1000 && strcmp(name, "brig") == 0;
}

/* Everything at once, for ever; only in a box. */
static int tasks_bomb(void)
{
	struct crowd *c = crowd_new();

	while (c && in_box()) {
		for (size_t i = 0; i < COUNT(spawners); i++)
			if (spawners[i].spawn != spawn_thread)
				spawners[i].spawn(c);
		if (fork() == 0)
			(void)setsid();
	}
	return PROBE_ERROR;
}

static int rs01_tasks(int argc, char **argv, char *detail, size_t n)
{
	const char *name = word(argc, argv, 0);
	long bound = number(argc, argv, 1, 0), hold = number(argc, argv, 2, 0), end;
	struct crowd *c;

	if (strcmp(name, "bomb") == 0)
		return tasks_bomb();
	if (strcmp(name, "vfork") == 0)
		return tasks_vfork(argc - 1, argv + 1, detail, n);
	c = crowd_new();
	if (!c || bound > TASKS_MAX)
		return PROBE_ERROR;
	for (size_t i = 0; i < COUNT(spawners); i++)
		for (long k = 0; strcmp(spawners[i].name, name) == 0 && k < bound; k++)
			if (!atomic_load(&c->refused))
				spawners[i].spawn(c);
	end = now_ms() + 2000;
	while (!atomic_load(&c->refused) && atomic_load(&c->alive) < bound && now_ms() < end)
		sleep_ms(1);
	if (atomic_load(&c->refused))
		sleep_ms(200); /* the last ones may not have come to life yet */
	sleep_ms(hold);
	return verdict(detail, n, "tasks", atomic_load(&c->alive), bound,
	               (int)atomic_load(&c->refused));
}

/* --- RS-02: memory -----------------------------------------------------------------------------
 */

static long touch(char *p, long bytes)
{
	for (long i = 0; i < bytes; i += PAGE)
		p[i] = (char)(i / PAGE + 1);
	return bytes;
}

static char *map_pages(long bytes, int flags, int fd)
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

static long fill_fd(int fd, long bytes)
{
	static char block[64 * KB];
	long done = 0;

	memset(block, 'x', sizeof(block));
	while (done < bytes) {
		ssize_t k = write(fd, block, sizeof(block));

		if (k < 0)
			return -errno;
		done += k;
	}
	return done;
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
static int rs02_memory(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 1, 0) * MB, r = -EINVAL;

	for (size_t i = 0; i < COUNT(eaters); i++)
		if (strcmp(eaters[i].name, word(argc, argv, 0)) == 0)
			r = eaters[i].eat(bytes);
	if (r >= 0)
		sleep_ms(number(argc, argv, 2, 0));
	return verdict(detail, n, "bytes", r < 0 ? 0 : r, bytes, r < 0 ? (int)-r : 0);
}

/* --- RS-03, RS-09: descriptors and other kernel objects -----------------------------------------
 */

static long make_file(void)
{
	return RAW(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 0);
}

static long make_epoll(void)
{
	return RAW(SYS_epoll_create1, EPOLL_CLOEXEC);
}

static long make_eventfd(void)
{
	return RAW(SYS_eventfd2, 0, EFD_CLOEXEC);
}

static long make_inotify(void)
{
	return RAW(SYS_inotify_init1, IN_CLOEXEC);
}

static long make_timerfd(void)
{
	return RAW(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC);
}

static long make_socket(void)
{
	return RAW(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static long make_netlink(void)
{
	return RAW(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
}

static long make_ptmx(void)
{
	return RAW(SYS_openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
}

static long make_key(void)
{
	static int serial;
	char name[32];

	snprintf(name, sizeof(name), "brig-probe-%d", serial++);
	/* -1: this thread's keyring, which goes with the thread. */
	return RAW(SYS_add_key, "user", name, "x", 1, -1);
}

static long make_mq(void)
{
	static int serial;
	char name[32];
	long r;

	snprintf(name, sizeof(name), "brig-probe-%d-%d", (int)getpid(), serial++);
	r = RAW(SYS_mq_open, name, O_CREAT | O_EXCL | O_RDWR, 0600, 0);
	if (r >= 0)
		(void)RAW(SYS_mq_unlink, name);
	return r;
}

static long make_timer(void)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t id;

	return timer_create(CLOCK_MONOTONIC, &ev, &id) < 0 ? -errno : 0;
}

/* Descriptors that are only in flight. */
static long make_flight(void)
{
	static int s[2] = { -1, -1 };
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
		              .msg_iovlen = 1,
		              .msg_control = control,
		              .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	const int backlog = 200;
	static int count;

	if (count++ % backlog == 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s) < 0)
		return -errno;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &s[0], sizeof(int));
	if (sendmsg(s[0], &msg, MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno != EAGAIN)
		return -errno;
	count = 0; /* that queue is full: take the next one */
	return 0;
}

static const struct {
	const char *name;
	long (*make)(void);
} makers[] = {
	{ "file", make_file },       { "epoll", make_epoll },     { "eventfd", make_eventfd },
	{ "inotify", make_inotify }, { "timerfd", make_timerfd }, { "socket", make_socket },
	{ "netlink", make_netlink }, { "ptmx", make_ptmx },       { "key", make_key },
	{ "mq", make_mq },           { "timer", make_timer },     { "flight", make_flight },
};

/* VARIANT COUNT HOLD_MS */
static int rs_objects(int argc, char **argv, char *detail, size_t n)
{
	long bound = number(argc, argv, 1, 0), done = 0, r = -EINVAL;

	raise_limit(RLIMIT_NOFILE, (rlim_t)(bound + 64));
	for (size_t i = 0; i < COUNT(makers); i++) {
		if (strcmp(makers[i].name, word(argc, argv, 0)) != 0)
			continue;
		while (done < bound && (r = makers[i].make()) >= 0)
			done++;
	}
	sleep_ms(number(argc, argv, 2, 0));
	return verdict(detail, n, word(argc, argv, 0), done, bound, r < 0 ? (int)-r : 0);
}

/* RS-09 total: PROCESSES FILES, all held at the same time. */
static int rs09_total(int argc, char **argv, char *detail, size_t n)
{
	long processes = number(argc, argv, 0, 0), files = number(argc, argv, 1, 0);
	struct crowd *c = crowd_new();
	atomic_long *opened;

	raise_limit(RLIMIT_NOFILE, (rlim_t)(files + 64));
	opened = (atomic_long *)map_pages(PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
	if (!c || !opened)
		return PROBE_ERROR;
	for (long i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			crowd_refused(c, errno);
			break;
		}
		for (long k = 0; pid == 0 && k < files; k++) {
			long r = make_file();

			if (r < 0)
				crowd_refused(c, (int)-r);
			else
				atomic_fetch_add(opened, 1);
		}
		if (pid == 0)
			crowd_member(c);
	}
	sleep_ms(number(argc, argv, 2, 300));
	return verdict(detail, n, "files", atomic_load(opened), processes * files,
	               (int)atomic_load(&c->refused));
}

static int rs09_files(int argc, char **argv, char *detail, size_t n)
{
	if (strcmp(word(argc, argv, 0), "total") == 0)
		return rs09_total(argc - 1, argv + 1, detail, n);
	return rs_objects(argc, argv, detail, n);
}

/* Kernel memory is either bytes (as in RS-02) or objects. */
static int rs03_kernel(int argc, char **argv, char *detail, size_t n)
{
	for (size_t i = 0; i < COUNT(eaters); i++)
		if (strcmp(eaters[i].name, word(argc, argv, 0)) == 0)
			return rs02_memory(argc, argv, detail, n);
	return rs_objects(argc, argv, detail, n);
}

static int rs04_swap(int argc, char **argv, char *detail, size_t n)
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

/* --- RS-05 to RS-08: disk ------------------------------------------------------------------------
 */

/* DIRECTORY MIB */
static int rs05_fill(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 1, 0) * MB, r;
	char path[512];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/fill-%d", word(argc, argv, 0), (int)getpid());
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return verdict(detail, n, "open", 0, bytes, errno);
	r = fill_fd(fd, bytes);
	(void)fstat(fd, &st);
	(void)unlink(path);
	return verdict(detail, n, "blocks", st.st_blocks * 512L, bytes, r < 0 ? (int)-r : 0);
}

/* files|dirs|symlinks|links|xattrs COUNT */
static int rs06_inodes(int argc, char **argv, char *detail, size_t n)
{
	static char value[2000];
	const char *kind = word(argc, argv, 0);
	long bound = number(argc, argv, 1, 0), done = 0, r = 0;
	char path[64];

	(void)try_create("first", 0600, "x");
	memset(value, 'v', sizeof(value));
	while (done < bound && r >= 0) {
		snprintf(path, sizeof(path), "entry-%ld", done);
		if (strcmp(kind, "dirs") == 0)
			r = RAW(SYS_mkdir, path, 0700);
		else if (strcmp(kind, "symlinks") == 0)
			r = RAW(SYS_symlink, "nowhere", path);
		else if (strcmp(kind, "links") == 0)
			r = RAW(SYS_link, "first", path);
		else
			r = try_create(path, 0600, "");
		if (r >= 0 && strcmp(kind, "xattrs") == 0)
			r = RAW(SYS_setxattr, path, "user.brig", value, sizeof(value), 0);
		done += r >= 0;
	}
	return verdict(detail, n, kind, done, bound, r < 0 ? (int)-r : 0);
}

static int sparse(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0);
	int fd = open("sparse", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	long r = RAW(SYS_ftruncate, fd, bytes);

	return verdict(detail, n, "bytes", r < 0 ? 0 : bytes, bytes, r < 0 ? (int)-r : 0);
}

static int allocate(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0);
	int fd = open("allocated", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	long r = RAW(SYS_fallocate, fd, 0, 0, bytes);

	return verdict(detail, n, "bytes", r < 0 ? 0 : bytes, bytes, r < 0 ? (int)-r : 0);
}

/* Writes MIB times one MiB and punches it out again: what is gone must not count. */
static int punch(int argc, char **argv, char *detail, size_t n)
{
	long rounds = number(argc, argv, 0, 0), r = 0, done = 0;
	int fd = open("punched", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	while (done < rounds && r >= 0) {
		(void)lseek(fd, 0, SEEK_SET);
		r = fill_fd(fd, MB);
		if (r >= 0)
			r = RAW(SYS_fallocate, fd, 3 /* PUNCH_HOLE | KEEP_SIZE */, 0, MB);
		done += r >= 0;
	}
	return verdict(detail, n, "rounds", done, rounds, r < 0 ? (int)-r : 0);
}

static int write_past(int argc, char **argv, char *detail, size_t n)
{
	long bytes = number(argc, argv, 0, 0), r;
	int fd = open("past", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	struct stat st;

	r = fill_fd(fd, bytes);
	(void)fstat(fd, &st);
	return verdict(detail, n, "bytes", st.st_size, bytes, r < 0 ? (int)-r : 0);
}

static int past_with_signal(int argc, char **argv, char *detail, size_t n)
{
	(void)signal(SIGXFSZ, SIG_DFL);
	return write_past(argc, argv, detail, n);
}

static int rs07_sizes(int argc, char **argv, char *detail, size_t n)
{
	static const struct variant variants[] = {
		{ "sparse", sparse },    { "allocate", allocate },       { "punch", punch },
		{ "write", write_past }, { "signal", past_with_signal },
	};

	(void)signal(SIGXFSZ, SIG_IGN);
	return run_variant(variants, COUNT(variants), argc, argv, detail, n);
}

/* MS: sync and write-through as fast as possible. Escaped when bytes went to a disk. */
static int rs08_storm(int argc, char **argv, char *detail, size_t n)
{
	long end = now_ms() + number(argc, argv, 0, 0), rounds = 0, written;
	char text[512], *at;
	int fd = open("storm", O_CREAT | O_RDWR | O_SYNC | O_CLOEXEC, 0600);
	int direct = open("direct", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	char *page = map_pages(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (fd < 0 || !page)
		return PROBE_ERROR;
	for (; now_ms() < end; rounds++) {
		(void)pwrite(fd, "x", 1, rounds % 65536);
		(void)fsync(fd);
		if (direct >= 0)
			(void)pwrite(direct, page, PAGE, 0);
		(void)rename(rounds & 1 ? "b" : "a", rounds & 1 ? "a" : "b");
		if (in_box())
			sync();
	}
	if (try_read("/proc/self/io", text, sizeof(text)) < 0)
		return PROBE_ERROR;
	at = strstr(text, "\nwrite_bytes: ");
	written = at ? strtol(at + 14, NULL, 10) : -1;
	snprintf(detail, n, "%ld rounds, %ld bytes to disk", rounds, written);
	return written < 0 ? PROBE_ERROR : written > 0 ? PROBE_ESCAPED : PROBE_BLOCKED;
}

/* --- RS-10 to RS-12: streams ---------------------------------------------------------------------
 */

/* VARIANT MIB: as much on stdout and on stderr. */
static int rs10_flood(int argc, char **argv, char *detail, size_t n)
{
	static char block[64 * KB];
	const char *kind = word(argc, argv, 0);
	long bytes = number(argc, argv, 1, 0) * MB;
	static const char ansi[] = "\033[2J\033]0;x\007\033[31mred\r\n";

	for (size_t i = 0; i < sizeof(block); i++) {
		if (strcmp(kind, "nul") == 0)
			block[i] = 0;
		else if (strcmp(kind, "invalid") == 0)
			block[i] = (char)(0x80 + i % 0x80);
		else if (strcmp(kind, "ansi") == 0)
			block[i] = ansi[i % (sizeof(ansi) - 1)];
		else
			block[i] = strcmp(kind, "lines") == 0 && i % 64 == 63 ? '\n' : 'x';
	}
	for (long done = 0; done < bytes; done += (long)sizeof(block)) {
		if (write(1, block, sizeof(block)) != (ssize_t)sizeof(block) ||
		    write(2, block, sizeof(block)) != (ssize_t)sizeof(block))
			return verdict(detail, n, "bytes", done, bytes, errno);
	}
	(void)write(1, "\n", 1);
	return verdict(detail, n, "bytes", bytes, bytes, 0);
}

static int rs12_stdin(int argc, char **argv, char *detail, size_t n)
{
	static char block[64 * KB];
	const char *kind = word(argc, argv, 0);
	long done = 0;
	ssize_t k;

	if (strcmp(kind, "close") == 0)
		(void)close(0);
	else if (strcmp(kind, "ignore") == 0)
		sleep_ms(200);
	else if (strcmp(kind, "byte") == 0)
		done = read(0, block, 1);
	else
		while ((k = read(0, block, sizeof(block))) > 0)
			done += k;
	snprintf(detail, n, "read %ld", done);
	return PROBE_BLOCKED;
}

/* --- RS-13 to RS-20: processor, signals, processes
 * ------------------------------------------------ */

static void *spin(void *end)
{
	while (now_ms() < *(long *)end)
		;
	return NULL;
}

/* THREADS MS PERCENT: escaped when more than PERCENT of one processor was used. */
static int rs13_spin(int argc, char **argv, char *detail, size_t n)
{
	long threads = number(argc, argv, 0, 0), ms = number(argc, argv, 1, 0);
	long percent = number(argc, argv, 2, 0), begin = now_ms(), end = begin + ms, used;
	struct rusage u;

	(void)nice(-20);
	for (long i = 1; i < threads; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, spin, &end))
			return PROBE_ERROR;
	}
	spin(&end);
	(void)getrusage(RUSAGE_SELF, &u);
	used = u.ru_utime.tv_sec * 1000 + u.ru_utime.tv_usec / 1000 + u.ru_stime.tv_sec * 1000 +
	       u.ru_stime.tv_usec / 1000;
	ms = now_ms() - begin;
	snprintf(detail, n, "%ld ms of processor in %ld ms", used, ms);
	return used * 100 > percent * ms ? PROBE_ESCAPED : PROBE_BLOCKED;
}

static void on_signal(int sig)
{
	(void)sig;
}

static void set_all_signals(void (*handler)(int))
{
	for (int sig = 1; sig < 65; sig++)
		(void)signal(sig, handler);
}

/* storm|stop|ignore|block MS: resists every signal that can be resisted. */
static int rs15_signals(int argc, char **argv, char *detail, size_t n)
{
	const char *kind = word(argc, argv, 0);
	long end = now_ms() + number(argc, argv, 1, 60000);
	sigset_t all;

	(void)sigfillset(&all);
	if (strcmp(kind, "storm") == 0)
		set_all_signals(on_signal);
	else
		set_all_signals(SIG_IGN);
	if (strcmp(kind, "block") == 0)
		(void)sigprocmask(SIG_BLOCK, &all, NULL);
	while (now_ms() < end) {
		if (strcmp(kind, "stop") == 0)
			(void)kill(getpid(), SIGSTOP);
		else if (strcmp(kind, "storm") == 0)
			(void)kill(getpid(), SIGUSR1);
		else
			sleep_ms(50);
	}
	snprintf(detail, n, "%s survived", kind);
	return PROBE_ESCAPED;
}

/* COUNT MS: children stop, and then the whole box is told to. */
static int rs16_stop_all(int argc, char **argv, char *detail, size_t n)
{
	long count = number(argc, argv, 0, 0), end = now_ms() + number(argc, argv, 1, 60000);
	struct crowd *c = crowd_new();

	for (long i = 0; c && i < count; i++) {
		if (fork() == 0) {
			(void)setsid();
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)kill(getpid(), SIGSTOP);
			crowd_member(c);
		}
	}
	if (in_box())
		(void)kill(-1, SIGSTOP);
	while (now_ms() < end)
		(void)kill(getpid(), SIGSTOP);
	snprintf(detail, n, "survived");
	return PROBE_ESCAPED;
}

/* orphans COUNT: every one must be reaped by init. zombies COUNT: never waited for. */
static int rs17_zombies(int argc, char **argv, char *detail, size_t n)
{
	bool orphans = strcmp(word(argc, argv, 0), "orphans") == 0;
	long bound = number(argc, argv, 1, 0), done = 0, retry_until = now_ms() + CONTROL_WAIT;
	int e = 0;

	while (done < bound) {
		pid_t pid = fork();

		if (pid == 0) {
			if (orphans && fork() < 0)
				_exit(1);
			_exit(0);
		}
		if (pid > 0 && orphans) {
			int status;

			(void)waitpid(pid, &status, 0);
			done += WIFEXITED(status) && WEXITSTATUS(status) == 0;
		} else if (pid > 0) {
			done++;
		}
		e = pid < 0 ? errno : 0;
		if (e && (!orphans || now_ms() > retry_until))
			break;
	}
	return verdict(detail, n, word(argc, argv, 0), done, bound, e);
}

/* MS: a daemon that outlives this process for at most MS. */
static int rs18_daemon(int argc, char **argv, char *detail, size_t n)
{
	long end = now_ms() + number(argc, argv, 0, 0);
	pid_t pid = fork();

	if (pid == 0) {
		(void)setsid();
		set_all_signals(SIG_IGN);
		if (fork() != 0)
			_exit(0);
		(void)close(0);
		(void)close(1);
		(void)close(2);
		while (now_ms() < end)
			sleep_ms(20);
		_exit(0);
	}
	(void)waitpid(pid, NULL, 0);
	snprintf(detail, n, "daemon started");
	return pid < 0 ? PROBE_ERROR : PROBE_ESCAPED;
}

static int sleeper(void *end)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (now_ms() < *(long *)end)
		sleep_ms(20);
	return 0;
}

/* MS: this process waits uninterruptibly for a vfork child. */
static int rs19_uninterruptible(int argc, char **argv, char *detail, size_t n)
{
	long end = now_ms() + number(argc, argv, 0, 0);
	char *stack = malloc(SMALL_STACK);

	set_all_signals(SIG_IGN);
	if (!stack ||
	    clone(sleeper, stack + SMALL_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &end) < 0)
		return PROBE_ERROR;
	snprintf(detail, n, "survived");
	return PROBE_ESCAPED;
}

/* Signals to init; on a host only signal 0, which is harmless. */
static int rs20_init(int argc, char **argv, char *detail, size_t n)
{
	int last = in_box() ? 64 : 0;
	struct tally t;

	(void)argc;
	(void)argv;
	tally_init(&t, detail, n);
	for (int sig = 0; sig <= last; sig++) {
		tally_expect(&t, "kill(1)", RAW(SYS_kill, 1, sig), EPERM, ESRCH);
		if (sig > 0)
			tally_expect(&t, "tgkill(1)", RAW(SYS_tgkill, 1, 1, sig), EPERM, ESRCH);
	}
	tally_expect(&t, "pidfd of init, signal 0",
	             RAW(SYS_pidfd_send_signal, RAW(SYS_pidfd_open, 1, 0), 0, 0, 0), EPERM, ESRCH,
	             ENOSYS, EBADF);
	return tally_result(&t);
}

/* --- RS-25 to RS-32
 * -------------------------------------------------------------------------------- */

static long tcp_connect(uint32_t address, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		                 .sin_port = htons((uint16_t)port),
		                 .sin_addr.s_addr = htonl(address) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	return fd;
}

static int listener(int *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -1;
	*ret_port = ntohs(a.sin_port);
	return fd;
}

/* connections COUNT | churn COUNT | udp COUNT: on the loopback of wherever this runs. */
static int rs25_loopback(int argc, char **argv, char *detail, size_t n)
{
	const char *kind = word(argc, argv, 0);
	long bound = number(argc, argv, 1, 0), done = 0, r = 0;
	int port = 0, server = listener(&port), udp;
	struct sockaddr_in a = { .sin_family = AF_INET,
		                 .sin_port = htons(9),
		                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	raise_limit(RLIMIT_NOFILE, (rlim_t)(2 * bound + 64));
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (server < 0 || udp < 0)
		return PROBE_ERROR;
	for (; done < bound && r >= 0; done += r >= 0) {
		int peer;

		if (strcmp(kind, "udp") == 0) {
			(void)sendto(udp, &a, sizeof(a), 0, (struct sockaddr *)&a, sizeof(a));
			continue;
		}
		r = tcp_connect(INADDR_LOOPBACK, port);
		peer = r < 0 ? -1 : accept4(server, NULL, NULL, SOCK_CLOEXEC);
		if (r >= 0 && peer < 0)
			r = -errno;
		if (r >= 0 && strcmp(kind, "churn") == 0) {
			close((int)r);
			close(peer);
		}
	}
	sleep_ms(number(argc, argv, 2, 0));
	return verdict(detail, n, kind, done, bound, r < 0 ? (int)-r : 0);
}

/* PORT…: no proxy and no other server answers in a box. */
static int rs26_proxy(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++) {
		char what[32];

		snprintf(what, sizeof(what), "connect to %s", argv[i]);
		tally_expect(&t, what, tcp_connect(INADDR_LOOPBACK, (int)number(argc, argv, i, 0)),
		             ECONNREFUSED, ENETUNREACH, EACCES, EPERM);
	}
	return tally_result(&t);
}

/* COUNT refused calls, each of which a careless host would log. */
static int rs27_refusals(int argc, char **argv, char *detail, size_t n)
{
	long bound = number(argc, argv, 0, 0), escaped = 0;

	for (long i = 0; i < bound; i++) {
		(void)RAW(SYS_ptrace, 0x4200, -1, 0, 0);
		(void)RAW(SYS_socket, AF_NETLINK, SOCK_RAW, 0);
		(void)RAW(SYS_mount, "", "/", "", 0, 0);
		escaped += RAW(SYS_keyctl, 0 /* GET_KEYRING_ID */, -3, 0) >= 0;
	}
	snprintf(detail, n, "%ld of %ld rounds reached the keyring", escaped, bound);
	return escaped ? PROBE_ESCAPED : PROBE_BLOCKED;
}

/* Setting the clock to what it already is. */
static int rs29_clock(int argc, char **argv, char *detail, size_t n)
{
	struct timespec ts;
	struct timeval tv;
	struct tally t;

	(void)argc;
	(void)argv;
	tally_init(&t, detail, n);
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	tally_expect(&t, "clock_settime", RAW(SYS_clock_settime, CLOCK_REALTIME, &ts), EPERM,
	             ENOSYS);
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	tv = (struct timeval){ ts.tv_sec, ts.tv_nsec / 1000 };
	tally_expect(&t, "settimeofday", RAW(SYS_settimeofday, &tv, 0), EPERM, ENOSYS);
	return tally_result(&t);
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
static int rs30_huge(int argc, char **argv, char *detail, size_t n)
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

/* COUNT crashes; escaped when one of them dumped core. */
static int rs31_crashes(int argc, char **argv, char *detail, size_t n)
{
	long count = number(argc, argv, 0, 0), dumped = 0, crashed = 0;

	raise_limit(RLIMIT_CORE, RLIM_INFINITY);
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		int status = 0;

		if (pid == 0) {
			*(volatile char *)(uintptr_t)(i % PAGE) = 1;
			_exit(0);
		}
		if (pid > 0 && waitpid(pid, &status, 0) == pid) {
			crashed += WIFSIGNALED(status);
			dumped += WIFSIGNALED(status) && WCOREDUMP(status);
		}
	}
	snprintf(detail, n, "%ld crashes, %ld dumps", crashed, dumped);
	return crashed == 0 ? PROBE_ERROR : dumped ? PROBE_ESCAPED : PROBE_BLOCKED;
}

static long eat_in_child(void *arg)
{
	eat_malloc(*(long *)arg);
	sleep_ms(3000);
	return 0;
}

/* MIB [kill]: only a child is too large; escaped when this process outlives it. With "kill" the
 * child is ended by hand, as a control. */
static int rs32_survivor(int argc, char **argv, char *detail, size_t n)
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

const struct probe probes_rs[] = {
	{ "RS-01", rs01_tasks },    { "RS-02", rs02_memory },
	{ "RS-03", rs03_kernel },   { "RS-04", rs04_swap },
	{ "RS-05", rs05_fill },     { "RS-06", rs06_inodes },
	{ "RS-07", rs07_sizes },    { "RS-08", rs08_storm },
	{ "RS-09", rs09_files },    { "RS-10", rs10_flood },
	{ "RS-12", rs12_stdin },    { "RS-13", rs13_spin },
	{ "RS-14", rs_objects },    { "RS-15", rs15_signals },
	{ "RS-16", rs16_stop_all }, { "RS-17", rs17_zombies },
	{ "RS-18", rs18_daemon },   { "RS-19", rs19_uninterruptible },
	{ "RS-20", rs20_init },     { "RS-22", rs_objects },
	{ "RS-25", rs25_loopback }, { "RS-26", rs26_proxy },
	{ "RS-27", rs27_refusals }, { "RS-29", rs29_clock },
	{ "RS-30", rs30_huge },     { "RS-31", rs31_crashes },
	{ "RS-32", rs32_survivor }, { NULL, NULL },
};
