/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kill, timeout, clean-up: programs that are hard to end, or hard to tidy up after. Those that
 * only end by force take the time after which they end by themselves, for the control outside.
 */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME_LEN 255

static long number(int argc, char **argv, int i, long def)
{
	return i < argc ? strtol(argv[i], NULL, 10) : def;
}

static long now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void pause_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	(void)nanosleep(&ts, NULL);
}

/* --- PK-01 ------------------------------------------------------------------------------------ */

static void busy_spin(long end)
{
	while (now_ms() < end)
		;
}

static void busy_sleep(long end)
{
	while (now_ms() < end)
		pause_ms(20);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* A pipe of its own, so that nobody can end the wait by closing something. */
static void busy_read(long end)
{
	struct sigaction wake = { .sa_handler = on_alarm }; /* not restarting */
	struct itimerval timer = { .it_value = { 0, (end - now_ms()) % 1000 * 1000 } };
	char byte;
	int p[2];

	timer.it_value.tv_sec = (end - now_ms()) / 1000;
	(void)sigaction(SIGALRM, &wake, NULL);
	(void)setitimer(ITIMER_REAL, &timer, NULL);
	if (pipe2(p, O_CLOEXEC) == 0)
		(void)read(p[0], &byte, 1);
	busy_sleep(end);
}

static void busy_flood(long end)
{
	static char block[65536];

	memset(block, 'f', sizeof(block));
	while (now_ms() < end)
		if (write(1, block, sizeof(block)) < 0 || write(2, block, sizeof(block)) < 0)
			return;
}

/* A session of its own with a controlling terminal that nobody reads. */
static void busy_pty(long end)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0, number_of;
	char path[32];
	pid_t pid;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
	    ioctl(master, TIOCGPTN, &number_of) < 0)
		return;
	snprintf(path, sizeof(path), "/dev/pts/%d", number_of);
	pid = fork();
	if (pid == 0) {
		int fd;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)setsid();
		fd = open(path, O_RDWR);
		(void)ioctl(fd, TIOCSCTTY, 0);
		(void)signal(SIGHUP, SIG_IGN);
		while (now_ms() < end)
			if (write(fd, "full", 4) < 0)
				pause_ms(20);
		_exit(0);
	}
	busy_sleep(end);
	if (pid > 0)
		(void)kill(pid, SIGKILL);
}

static const struct {
	const char *name;
	void (*run)(long end);
} kinds[] = {
	{ "spin", busy_spin },   { "sleep", busy_sleep }, { "read", busy_read },
	{ "flood", busy_flood }, { "pty", busy_pty },
};

/* KIND MS: busy for MS whatever anybody asks. */
static int pk01_busy(int argc, char **argv, char *detail, size_t n)
{
	long begin = now_ms(), ms = number(argc, argv, 1, 0);

	for (int sig = 1; sig < 65; sig++)
		if (sig != SIGALRM)
			(void)signal(sig, SIG_IGN);
	for (size_t i = 0; argc > 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, argv[0]) == 0)
			kinds[i].run(begin + ms);
	snprintf(detail, n, "ran for %ld ms", now_ms() - begin);
	return now_ms() - begin >= ms ? PROBE_ESCAPED : PROBE_ERROR;
}

/* COUNT short processes: the numbers go round. */
static int pk04_churn(int argc, char **argv, char *detail, size_t n)
{
	long count = number(argc, argv, 0, 0), wrapped = 0;
	pid_t last = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid < 0)
			return PROBE_ERROR;
		(void)waitpid(pid, NULL, 0);
		wrapped += pid < last;
		last = pid;
	}
	snprintf(detail, n, "wrapped %ld times", wrapped);
	return wrapped ? PROBE_ESCAPED : PROBE_BLOCKED;
}

/* exit N | signal N */
static int pk05_end(int argc, char **argv, char *detail, size_t n)
{
	int value = (int)number(argc, argv, 1, 0);
	sigset_t all;

	if (argc > 0 && strcmp(argv[0], "exit") == 0)
		_exit(value);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_UNBLOCK, &all, NULL);
	(void)signal(value, SIG_DFL);
	(void)kill(getpid(), value);
	snprintf(detail, n, "survived signal %d", value);
	return PROBE_BLOCKED;
}

/* --- PK-10: trees that are hard to delete ------------------------------------------------------
 */

static long set_flag(const char *path, int flag)
{
	int fd = try_open(path, O_RDONLY), flags = 0;
	long r;

	if (fd < 0)
		return fd;
	r = RAW(SYS_ioctl, fd, FS_IOC_GETFLAGS, &flags);
	flags |= flag;
	if (r >= 0)
		r = RAW(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags);
	flags &= ~flag;
	if (r >= 0)
		(void)RAW(SYS_ioctl, fd, FS_IOC_SETFLAGS, &flags);
	(void)close(fd);
	return r;
}

static int immutable(char *detail, size_t n)
{
	struct tally t;

	tally_init(&t, detail, n);
	(void)try_create("fixed", 0600, "x");
	tally_expect(&t, "immutable", set_flag("fixed", FS_IMMUTABLE_FL), EPERM, ENOTTY, EACCES,
	             EOPNOTSUPP);
	tally_expect(&t, "append-only", set_flag("fixed", FS_APPEND_FL), EPERM, ENOTTY, EACCES,
	             EOPNOTSUPP);
	return tally_result(&t);
}

/* Long names, names of strange bytes, directories nobody may enter. */
static int strange_names(char *detail, size_t n)
{
	static const char *const names[] = { " ",   "-rf",  "\n",           "\xff\xfe", "\\",
		                             "...", "a\tb", "\xe2\x80\xae", "\x1b[2J" };
	char longest[NAME_LEN + 1], sub[NAME_LEN + 3];
	long made = 0;

	memset(longest, 'n', NAME_LEN);
	longest[NAME_LEN] = '\0';
	made += RAW(SYS_mkdir, longest, 0700) == 0;
	snprintf(sub, sizeof(sub), "%s/f", longest);
	made += try_create(sub, 0, "x") == 0;
	made += chmod(longest, 0) == 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		made += try_create(names[i], 0, "x") == 0;
	snprintf(detail, n, "made %ld", made);
	return made == 12 ? PROBE_ESCAPED : PROBE_ERROR;
}

static int deep(long depth, char *detail, size_t n)
{
	long done = 0;

	while (done < depth && mkdir("d", 0700) == 0 && chdir("d") == 0)
		done++;
	snprintf(detail, n, "depth %ld", done);
	return done == depth ? PROBE_ESCAPED : PROBE_ERROR;
}

/* immutable | names | depth N. The last two are allowed; brig must cope with them. */
static int pk10_tree(int argc, char **argv, char *detail, size_t n)
{
	if (argc > 0 && strcmp(argv[0], "immutable") == 0)
		return immutable(detail, n);
	if (argc > 0 && strcmp(argv[0], "names") == 0)
		return strange_names(detail, n);
	return deep(number(argc, argv, 1, 0), detail, n);
}

const struct probe probes_pk[] = {
	{ "PK-01", pk01_busy }, { "PK-04", pk04_churn }, { "PK-05", pk05_end },
	{ "PK-10", pk10_tree }, { NULL, NULL },
};
