/* SPDX-License-Identifier: Apache-2.0 */
/* Resource exhaustion: descriptors, other kernel objects and connections (RS-03, RS-09, RS-14,
 * RS-22, RS-25, RS-26). */
#include "probes_rs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

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
int rs_objects(int argc, char **argv, char *detail, size_t n)
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

int rs09_files(int argc, char **argv, char *detail, size_t n)
{
	if (strcmp(word(argc, argv, 0), "total") == 0)
		return rs09_total(argc - 1, argv + 1, detail, n);
	return rs_objects(argc, argv, detail, n);
}

/* --- RS-25, RS-26: loopback ----------------------------------------------------------------- */

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
int rs25_loopback(int argc, char **argv, char *detail, size_t n)
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
int rs26_proxy(int argc, char **argv, char *detail, size_t n)
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
