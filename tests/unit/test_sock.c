/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sys/sock.h"

struct pair {
	int a, b;
};

static struct pair pair_new(void)
{
	int fds[2];

	cr_assert(sock_pair(fds) == 0);
	return (struct pair){ fds[0], fds[1] };
}

static void pair_done(struct pair *p)
{
	p->a = fd_close(p->a);
	p->b = fd_close(p->b);
}

/* How many descriptors this process has; the one of the directory is not counted. */
static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	cr_assert(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n - 1;
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* Sends more descriptors than sock_send() does. */
static void send_many(int fd, int what, size_t n)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * 64)];
		struct cmsghdr align;
	} control = { 0 };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	msg.msg_control = control.space;
	msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * n);
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &what, sizeof(int));
	cr_assert(sendmsg(fd, &msg, 0) == 1);
}

Test(sock, datagrams_keep_their_bounds)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct sock_msg m;
	char data[16];

	cr_assert(sock_send(p.a, "one", 3, NULL, 0) == 0);
	cr_assert(sock_send(p.a, "three", 5, NULL, 0) == 0);
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == 0);
	cr_expect(m.len == 3 && memcmp(data, "one", 3) == 0 && m.n_fds == 0);
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == 0);
	cr_expect(m.len == 5 && m.pid == 0);
	cr_expect(sock_recv(p.b, data, sizeof(data), MSG_DONTWAIT, &m) == -EAGAIN);
}

Test(sock, the_end_is_an_empty_datagram)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct sock_msg m;
	char data[4];

	p.a = fd_close(p.a);
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == 0);
	cr_expect(m.len == 0 && m.n_fds == 0);
	cr_expect(sock_send(p.b, "x", 1, NULL, 0) == -EPIPE); /* and no SIGPIPE */
}

Test(sock, both_ends_close_on_exec)
{
	CLEANUP(pair_done) struct pair p = pair_new();

	cr_expect(fcntl(p.a, F_GETFD) & FD_CLOEXEC);
	cr_expect(fcntl(p.b, F_GETFD) & FD_CLOEXEC);
}

Test(sock, every_number_of_descriptors_arrives)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	CLEANUP_FD int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	for (size_t n = 0; n <= SOCK_FDS_MAX; n++) {
		unsigned before = count_fds();
		int fds[SOCK_FDS_MAX];
		struct sock_msg m;
		char data[4];

		for (size_t i = 0; i < SOCK_FDS_MAX; i++)
			fds[i] = file;
		cr_assert(sock_send(p.a, "x", 1, fds, n) == 0);
		cr_assert(sock_recv(p.b, data, sizeof(data), 0, &m) == 0);
		cr_expect(m.n_fds == n);
		for (size_t i = 0; i < n; i++) {
			cr_expect(same_file(m.fds[i], file));
			cr_expect(fcntl(m.fds[i], F_GETFD) & FD_CLOEXEC);
		}
		for (size_t i = n; i < SOCK_FDS_MAX; i++)
			cr_expect(m.fds[i] == FD_NONE);
		sock_msg_close(&m);
		cr_expect(m.n_fds == 0 && m.fds[0] == FD_NONE);
		cr_expect(count_fds() == before, "%zu descriptors", n);
		sock_msg_close(&m); /* twice does no harm */
	}
}

Test(sock, more_descriptors_than_the_bound_are_not_sent)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	int fds[SOCK_FDS_MAX + 1] = { 0 };
	struct sock_msg m;
	char data[4];

	cr_expect(sock_send(p.a, "x", 1, fds, SOCK_FDS_MAX + 1) == -E2BIG);
	cr_expect(sock_recv(p.b, data, sizeof(data), MSG_DONTWAIT, &m) == -EAGAIN);
}

Test(sock, more_descriptors_than_the_bound_are_not_kept)
{
	CLEANUP(pair_done) struct pair p = pair_new();

	for (size_t n = SOCK_FDS_MAX + 1; n < 64; n += 9) {
		unsigned before = count_fds();
		struct sock_msg m;
		char data[4];
		int r;

		send_many(p.a, p.a, n);
		r = sock_recv(p.b, data, sizeof(data), 0, &m);
		cr_expect(r == -EMSGSIZE, "%zu descriptors: %d", n, r);
		cr_expect(m.n_fds == 0);
		cr_expect(count_fds() == before, "%zu descriptors: some stayed open", n);
	}
}

/* The room for credentials must not become room for two more descriptors. */
Test(sock, with_credentials_asked_the_bound_is_the_same)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	unsigned before = count_fds();
	struct sock_msg m;
	char data[4];

	cr_assert(sock_pass_credentials(p.b) == 0);
	send_many(p.a, p.a, SOCK_FDS_MAX + 2);
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == -EMSGSIZE);
	cr_expect(count_fds() == before);
}

/* Nobody may lose a descriptor silently: too many are an error even when they fit the buffer. */
Test(sock, one_descriptor_too_many_is_an_error_though_the_buffer_has_room)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	unsigned before = count_fds();
	struct sock_msg m;
	char data[4];

	send_many(p.a, p.a, SOCK_FDS_MAX + 1);
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == -EMSGSIZE);
	cr_expect(count_fds() == before);
}

Test(sock, a_cut_datagram_closes_its_descriptors)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	unsigned before = count_fds();
	int fds[2] = { p.a, p.b };
	struct sock_msg m;
	char data[4];

	cr_assert(sock_send(p.a, "12345", 5, fds, 2) == 0);
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == -EMSGSIZE);
	cr_expect(m.n_fds == 0);
	cr_expect(count_fds() == before);
	cr_assert(sock_send(p.a, "1234", 4, NULL, 0) == 0); /* the next one is whole */
	cr_expect(sock_recv(p.b, data, sizeof(data), 0, &m) == 0 && m.len == 4);
}

Test(sock, the_kernel_says_who_sent)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct sock_msg m;
	char data[4];
	pid_t child;
	int status;

	cr_assert(sock_pass_credentials(p.b) == 0);
	child = fork();
	cr_assert(child >= 0);
	if (child == 0)
		_exit(sock_send(p.a, "x", 1, &p.a, 1) == 0 ? 0 : 1);
	cr_assert(waitpid(child, &status, 0) == child && status == 0);
	cr_assert(sock_recv(p.b, data, sizeof(data), 0, &m) == 0);
	cr_expect(m.pid == child);
	cr_expect(m.uid == getuid());
	cr_expect(m.n_fds == 1);
	sock_msg_close(&m);
}

Test(sock, errors_are_told)
{
	struct sock_msg m;
	char data[4];

	cr_expect(sock_send(FD_NONE, "x", 1, NULL, 0) == -EBADF);
	cr_expect(sock_recv(FD_NONE, data, sizeof(data), 0, &m) == -EBADF);
	cr_expect(m.n_fds == 0);
	cr_expect(sock_pass_credentials(FD_NONE) == -EBADF);
}
