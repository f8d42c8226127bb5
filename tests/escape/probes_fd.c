/* SPDX-License-Identifier: Apache-2.0 */
/* FD: descriptors and the state a program starts with. SU-06 is here as well: it attacks the same
 * program files. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_OF(a)        (sizeof(a) / sizeof((a)[0]))
#define SCM_MAX_FD     253
#define INFLIGHT_TRIES 200

/* FD-01: 0, 1, 2 and nothing else. */
static int fd_01(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (!d)
		return PROBE_ERROR;
	t.attempts++;
	while ((e = readdir(d))) {
		char target[PATH_MAX] = "";

		if (e->d_name[0] == '.' || atoi(e->d_name) <= 2 || atoi(e->d_name) == dirfd(d))
			continue;
		(void)!readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
		tally_escaped(&t, "fd %s is %s", e->d_name, target);
	}
	closedir(d);
	return tally_result(&t);
}

/* FD-03: stdio is pipes or sockets, with the right access mode. */
static int fd_03(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (int fd = 0; fd < 3; fd++) {
		long mode = RAW(SYS_fcntl, fd, F_GETFL);
		struct stat st;

		t.attempts++;
		if (mode < 0 || fstat(fd, &st) < 0) {
			tally_error(&t, "fd %d is closed", fd);
			continue;
		}
		if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
			tally_escaped(&t, "fd %d has type %o", fd, st.st_mode & S_IFMT);
		if (S_ISFIFO(st.st_mode) && (mode & O_ACCMODE) != (fd == 0 ? O_RDONLY : O_WRONLY))
			tally_escaped(&t, "fd %d has access mode %ld", fd, mode & O_ACCMODE);
		tally_expect(&t, "lseek", RAW(SYS_lseek, fd, 0, SEEK_CUR), ESPIPE);
		tally_note(&t, "%llu:%llu", (unsigned long long)st.st_dev,
		           (unsigned long long)st.st_ino);
	}
	return tally_result(&t);
}

/* FD-04: no socket to send descriptors to. */

/* One message with `count` copies of fd: bytes sent or -errno. */
static long send_fds(int sock, int fd, unsigned count)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * SCM_MAX_FD)];
		struct cmsghdr align;
	} u;
	struct iovec iov = { .iov_base = (void *)"x", .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
		              .msg_iovlen = 1,
		              .msg_control = u.buf,
		              .msg_controllen = CMSG_SPACE(sizeof(int) * count) };
	struct cmsghdr *c;

	memset(&u, 0, sizeof(u));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * count);
	for (unsigned i = 0; i < count; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	return RAW(SYS_sendmsg, sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int fd_04(int argc, char **argv, char *detail, size_t n)
{
	int victim = try_open("/dev/null", O_RDONLY);
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (int fd = 0; fd < 1024; fd++)
		for (int i = 0; i < 1000; i++) {
			long r = fd == victim ? -ENOTSOCK : send_fds(fd, victim, SCM_MAX_FD);

			if (r == -EAGAIN)
				break;
			tally_expect(&t, "SCM_RIGHTS", r, EBADF, ENOTSOCK);
			if (r < 0 || t.attempts > 2000)
				break;
		}
	return tally_result(&t);
}

/* FD-05: nobody else's credentials over a unix socket. */
static long send_creds(int sock, pid_t pid, uid_t uid, gid_t gid)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} u;
	struct ucred cred = { .pid = pid, .uid = uid, .gid = gid };
	struct iovec iov = { .iov_base = (void *)"x", .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
		              .msg_iovlen = 1,
		              .msg_control = u.buf,
		              .msg_controllen = sizeof(u.buf) };
	struct cmsghdr *c;

	memset(&u, 0, sizeof(u));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_CREDENTIALS;
	c->cmsg_len = CMSG_LEN(sizeof(cred));
	memcpy(CMSG_DATA(c), &cred, sizeof(cred));
	return RAW(SYS_sendmsg, sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int fd_05(int argc, char **argv, char *detail, size_t n)
{
	int one = 1, pair[2];
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	struct tally t;

	tally_init(&t, detail, n);
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return PROBE_ERROR;
	(void)setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one));
	tally_expect(&t, "pid 1", send_creds(pair[0], 1, getuid(), getgid()), EPERM, ESRCH, EINVAL);
	tally_expect(&t, "uid 0", send_creds(pair[0], getpid(), 0, getgid()), EPERM, EINVAL);
	tally_expect(&t, "uid 1", send_creds(pair[0], getpid(), 1, getgid()), EPERM, EINVAL);
	tally_expect(&t, "gid 0", send_creds(pair[0], getpid(), getuid(), 0), EPERM, EINVAL);
	tally_expect(&t, "uid 4242", send_creds(pair[0], getpid(), 4242, 4242), EPERM, EINVAL);
	if (argc > 0 && getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	    peer.uid != (uid_t)atoi(argv[0]))
		tally_escaped(&t, "SO_PEERCRED says uid %u", peer.uid);
	return tally_result(&t);
}

/* FD-06 MAX: at most MAX descriptors are in flight. */
static int fd_06(int argc, char **argv, char *detail, size_t n)
{
	int victim = try_open("/dev/null", O_RDONLY), pair[2];
	unsigned sent = 0, tries = 0;
	struct tally t;
	long r = 0;

	tally_init(&t, detail, n);
	if (argc < 1 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		return PROBE_ERROR;
	while (tries++ < INFLIGHT_TRIES) {
		r = send_fds(pair[0], victim, SCM_MAX_FD);
		if (r ==
		    -EAGAIN) { /* this queue is full; leave it to the garbage collector's care */
			(void)send_fds(pair[0], pair[1], 1);
			if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0) {
				r = -errno;
				break;
			}
			continue;
		}
		if (r < 0)
			break;
		sent += SCM_MAX_FD;
	}
	tally_note(&t, "%u in flight, then %s", sent, r < 0 ? errno_name((int)-r) : "no error");
	if (sent > strtoul(argv[0], NULL, 10))
		tally_escaped(&t, "more than %s", argv[0]);
	else
		tally_expect(&t, "sending", r, ETOOMANYREFS, EMFILE, ENFILE, EPERM, EAGAIN, ENOMEM);
	return tally_result(&t);
}

/* FD-09, SU-06 [FILE]: the program of a process cannot be written, not even after it has gone on to
 * another. Of pid 1, the parent and oneself; or, as a control, of a copy of this program, FILE. */

static void write_exe(struct tally *t, const char *path)
{
	char again[64];
	int fd;

	tally_expect(t, path, try_open(path, O_WRONLY), EACCES, ETXTBSY, EPERM, ENOENT, EROFS);
	tally_expect(t, path, try_open(path, O_RDWR), EACCES, ETXTBSY, EPERM, ENOENT, EROFS);
	fd = try_open(path, O_PATH);
	if (fd < 0)
		return;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	tally_expect(t, again, try_open(again, O_WRONLY), EACCES, ETXTBSY, EPERM, ENOENT, EROFS);
	(void)RAW(SYS_close, fd);
}

static void write_exe_later(struct tally *t, const char *file)
{
	char path[64];
	pid_t pid = fork();
	int fd;

	if (pid == 0) {
		char *args[] = { (char *)(uintptr_t)file, (char *)"FD-09", (char *)"--wait", NULL };
		char *env[] = { NULL };

		execve(file, args, env);
		_exit(1);
	}
	usleep(200000);
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = try_open(path, O_PATH);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	tally_expect(t, "the program of a process that is gone", try_open(path, O_WRONLY), EACCES,
	             EPERM, EROFS);
}

static int fd_09(int argc, char **argv, char *detail, size_t n)
{
	char parent[64];
	struct tally t;

	tally_init(&t, detail, n);
	if (argc > 0 && strcmp(argv[0], "--wait") == 0) {
		(void)sleep(5);
		return PROBE_ERROR;
	}
	for (int i = 0; i < argc; i++)
		write_exe_later(&t, argv[i]);
	write_exe(&t, "/proc/1/exe");
	write_exe(&t, "/proc/self/exe");
	snprintf(parent, sizeof(parent), "/proc/%d/exe", getppid());
	write_exe(&t, parent);
	return tally_result(&t);
}

/* FD-10: a program from memory is as confined as any other. */
static int fd_10(int argc, char **argv, char *detail, size_t n)
{
	char *args[] = { (char *)"probe", (char *)"FD-10", (char *)"again", NULL },
	     *env[] = { NULL };
	struct tally t;
	long r;
	int fd;

	tally_init(&t, detail, n);
	if (argc > 0 && strcmp(argv[0], "again") == 0) {
		tally_note(&t, "ran from memory");
		tally_confined(&t);
		return tally_result(&t);
	}
	fd = (int)RAW(SYS_memfd_create, "fd-10", 1 /* MFD_CLOEXEC */);
	if (fd < 0) {
		tally_expect(&t, "memfd_create", fd, EPERM, ENOSYS, EACCES);
		return tally_result(&t);
	}
	if (copy_self(fd) < 0)
		return PROBE_ERROR;
	r = RAW(SYS_execveat, fd, "", args, env, AT_EMPTY_PATH);
	tally_expect(&t, "execveat", r, EPERM, ENOSYS, EACCES);
	return tally_result(&t);
}

/* FD-12: nothing of the caller's process state. */
static int fd_12(int argc, char **argv, char *detail, size_t n)
{
	struct itimerval timer;
	struct tally t;
	stack_t ss = { 0 };
	mode_t mask = umask(077);
	long long v;
	int death = -1, sid;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	t.attempts++;
	v = status_field("SigBlk", 16);
	if (v != 0)
		tally_escaped(&t, "blocked signals %llx", v);
	v = status_field("SigIgn", 16);
	if (v != 0)
		tally_escaped(&t, "ignored signals %llx", v);
	v = RAW(SYS_personality, 0xffffffff);
	if (v > 0)
		tally_escaped(&t, "personality %llx", v);
	if (mask != 022 && mask != 077 && mask != 027)
		tally_escaped(&t, "umask %o", mask);
	v = core_limit();
	if (v < 0 || v > 1)
		tally_escaped(&t, "core limit %lld", v);
	for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
		if (getitimer(which, &timer) == 0 &&
		    (timer.it_value.tv_sec || timer.it_value.tv_usec))
			tally_escaped(&t, "a timer runs");
	if (sigaltstack(NULL, &ss) == 0 && !(ss.ss_flags & SS_DISABLE))
		tally_escaped(&t, "an alternative stack");
	if (prctl(PR_GET_PDEATHSIG, &death) == 0 && death != 0)
		tally_note(&t, "parent death signal %d", death);
	sid = getsid(0);
	if (sid <= 0)
		tally_escaped(&t, "a session from outside");
	v = try_open("/dev/tty", O_RDWR | O_NOCTTY);
	tally_expect(&t, "controlling terminal", v, ENXIO, ENOENT, EACCES, EPERM);
	tally_note(&t, "sid %d pid %d umask %o", sid, getpid(), mask);
	return tally_result(&t);
}

const struct probe probes_fd[] = {
	{ "FD-01", fd_01 }, { "FD-03", fd_03 }, { "FD-04", fd_04 }, { "FD-05", fd_05 },
	{ "FD-06", fd_06 }, { "FD-09", fd_09 }, { "SU-06", fd_09 }, { "FD-10", fd_10 },
	{ "FD-12", fd_12 }, { NULL, NULL },
};
