/* SPDX-License-Identifier: Apache-2.0 */
/* Resource exhaustion: processes, processor and signals; helpers and table of the whole group. */
#include "probes_rs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASKS_MAX   4096
#define SMALL_STACK (16 * KB)

long number(int argc, char **argv, int i, long def)
{
	return i < argc ? strtol(argv[i], NULL, 10) : def;
}

const char *word(int argc, char **argv, int i)
{
	return i < argc ? argv[i] : "";
}

long now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void sleep_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

void raise_limit(int resource, rlim_t want)
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

int verdict(char *detail, size_t n, const char *what, long done, long bound, int e)
{
	snprintf(detail, n, "%s: %ld of %ld, %s", what, done, bound,
	         e ? errno_name(e) : "no error");
	return done >= bound ? PROBE_ESCAPED : e ? PROBE_BLOCKED : PROBE_ERROR;
}

bool in_box(void)
{
	char name[16] = "";

	(void)gethostname(name, sizeof(name) - 1);
	return getuid() == 1000 && strcmp(name, "brig") == 0;
}

/* --- RS-01: tasks --------------------------------------------------------------------------- */

struct crowd *crowd_new(void)
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

void crowd_refused(struct crowd *c, int e)
{
	long none = 0;

	(void)atomic_compare_exchange_strong(&c->refused, &none, e);
}

void crowd_member(struct crowd *c)
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

/* --- RS-13 to RS-20: processor, signals, processes ------------------------------------------ */

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

/* --- RS-27 to RS-31: the host's own affairs ------------------------------------------------- */

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
