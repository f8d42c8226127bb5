/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "exec/launcher.h"
#include "model/plan_wire.h"
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

/* ---- calls to a launcher that stays ------------------------------------------------------ */

static void no_fds(int fds[LAUNCH_FDS])
{
	for (int i = 0; i < LAUNCH_FDS; i++)
		fds[i] = FD_NONE;
}

/* The other end reads what a launcher would. */
static void hear_call(int fd, struct launch_call *ret, struct sock_msg *m)
{
	cr_assert(sock_recv(fd, ret, sizeof(*ret), MSG_DONTWAIT, m) == 0);
	cr_assert(m->len == sizeof(*ret));
}

Test(launcher, a_call_carries_the_descriptors_that_are_there)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct launcher l = { .sock = p.a };
	unsigned before = count_fds();

	for (unsigned set = 0; set < 1u << LAUNCH_FDS; set++) {
		struct launch_call call = { .kind = LAUNCH_START, .id = set, .fds = 0xffff }, got;
		int fds[LAUNCH_FDS];
		struct sock_msg m;
		size_t n = 0;

		no_fds(fds);
		for (unsigned i = 0; i < LAUNCH_FDS; i++)
			if (set & 1u << i)
				fds[i] = open(i % 2 ? "/dev/null" : "/dev/zero",
				              O_RDONLY | O_CLOEXEC);
		cr_assert(launcher_call(&l, &call, fds) == 0);
		hear_call(p.b, &got, &m);
		cr_expect(got.id == set && got.fds == set && call.fds == set, "%x: %x", set,
		          got.fds);
		for (unsigned i = 0; i < LAUNCH_FDS; i++)
			if (set & 1u << i)
				cr_expect(same_file(m.fds[n++], fds[i]), "%x: out of order", set);
		cr_expect(m.n_fds == n);
		sock_msg_close(&m);
		launcher_close(fds);
		cr_expect(fds[0] == FD_NONE && fds[LAUNCH_FDS - 1] == FD_NONE);
		launcher_close(fds); /* twice does no harm */
	}
	cr_expect(count_fds() == before);
}

Test(launcher, a_call_needs_no_descriptors_but_a_launcher)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct launcher l = { .sock = p.a };
	struct launch_call call = { .kind = LAUNCH_WATCH, .id = 5, .fds = 63 }, got;
	struct sock_msg m;

	cr_assert(launcher_call(&l, &call, NULL) == 0);
	hear_call(p.b, &got, &m);
	cr_expect(got.kind == LAUNCH_WATCH && got.fds == 0 && m.n_fds == 0);
	p.b = fd_close(p.b);
	cr_expect(launcher_call(&l, &call, NULL) == -EPIPE);
}

static const char *small_argv[] = { "true" };
static const struct plan small_plan = { .init_id = 1,
	                                .code_id = 1000,
	                                .host_id_base = 1000000,
	                                .host_id_slots = 10,
	                                .hostname = "box",
	                                .scratch_bytes = 1,
	                                .scratch_inodes = 1,
	                                .memory_bytes = 1,
	                                .pids = 1,
	                                .cpu_milli = 1,
	                                .cpu_ms = 1,
	                                .exec = "/bin/true",
	                                .cwd = "/",
	                                .argv = small_argv,
	                                .n_argv = 1 };

Test(launcher, a_sealed_plan_says_what_the_plan_says_and_cannot_be_changed)
{
	CLEANUP_BUF struct buf want = BUF_INIT(PLAN_BYTES_MAX);
	struct err err = { 0 };
	CLEANUP_FD int fd = launcher_seal(&small_plan, &err);
	char bytes[4096];

	cr_assert(fd >= 0, "%s", err.msg);
	cr_assert(plan_encode(&small_plan, &want) == 0);
	cr_expect(pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)want.len);
	cr_expect(memcmp(bytes, want.data, want.len) == 0);
	cr_expect((fcntl(fd, F_GET_SEALS) & 0xf) == 0xf, "seal, shrink, grow, write");
	cr_expect(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM);
	cr_expect(ftruncate(fd, 0) < 0 && errno == EPERM);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

Test(launcher, a_plan_that_cannot_be_written_is_not_sealed)
{
	struct plan bad = small_plan;
	unsigned before = count_fds();
	struct err err = { 0 };

	bad.n_argv = 0;
	cr_expect(launcher_seal(&bad, &err) < 0);
	cr_expect(err.code == ERR_LIMIT && err.msg[0]);
	cr_expect(count_fds() == before);
}

Test(launcher, a_kept_plan_is_told_once_and_then_by_its_number)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct launcher l = { .sock = p.a };
	unsigned before = count_fds();
	struct launch_call got;
	struct err err = { 0 };
	struct sock_msg m;

	cr_assert(launcher_keep(&l, 7, &small_plan, true, &err) == 0, "%s", err.msg);
	hear_call(p.b, &got, &m);
	cr_expect(got.kind == LAUNCH_KEEP && got.plan == 7 && got.zygote == 1);
	cr_expect(got.fds == LAUNCH_FD_BIT(PLAN) && m.n_fds == 1);
	cr_expect(fcntl(m.fds[0], F_GET_SEALS) > 0);
	sock_msg_close(&m);
	cr_assert(launcher_keep(&l, 15, NULL, false, &err) == 0);
	hear_call(p.b, &got, &m);
	cr_expect(got.kind == LAUNCH_KEEP && got.plan == 15 && got.zygote == 0);
	cr_expect(got.fds == 0 && m.n_fds == 0);
	cr_expect(err.code == ERR_NONE && count_fds() == before);
}

Test(launcher, a_plan_for_nobody_leaves_nothing_behind)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct launcher l = { .sock = p.a };
	struct plan bad = small_plan;
	struct err err = { 0 };
	unsigned before;

	p.b = fd_close(p.b);
	before = count_fds();
	cr_expect(launcher_keep(&l, 0, &small_plan, true, &err) == -EPIPE);
	cr_expect(err.code == ERR_INTERNAL);
	bad.n_argv = 0;
	cr_expect(launcher_keep(&l, 0, &bad, true, &err) < 0 && err.code == ERR_LIMIT);
	cr_expect(count_fds() == before);
}

static void expect_pipe(int from, int to, int ours, const char *what)
{
	char byte = 0;

	cr_expect(write(from, "x", 1) == 1 && read(to, &byte, 1) == 1 && byte == 'x', "%s", what);
	cr_expect(fcntl(from, F_GETFD) & fcntl(to, F_GETFD) & FD_CLOEXEC, "%s", what);
	cr_expect(fcntl(ours, F_GETFL) & O_NONBLOCK, "%s: ours waits", what);
	cr_expect(!(fcntl(ours == from ? to : from, F_GETFL) & O_NONBLOCK), "%s", what);
}

Test(launcher, three_pipes_of_which_our_ends_never_wait)
{
	unsigned before = count_fds();
	int theirs[LAUNCH_FDS];
	struct box_fds ours;

	no_fds(theirs);
	box_fds_init(&ours);
	cr_assert(launcher_pipes(&ours, theirs) == 0);
	expect_pipe(ours.in, theirs[LAUNCH_FD_STDIN], ours.in, "stdin");
	expect_pipe(theirs[LAUNCH_FD_STDOUT], ours.out, ours.out, "stdout");
	expect_pipe(theirs[LAUNCH_FD_STDERR], ours.errout, ours.errout, "stderr");
	cr_expect(theirs[LAUNCH_FD_PLAN] == FD_NONE && theirs[LAUNCH_FD_CONTROL] == FD_NONE);
	cr_expect(theirs[LAUNCH_FD_REPORT] == FD_NONE && ours.control == FD_NONE);
	launcher_close(theirs);
	box_fds_close(&ours);
	cr_expect(count_fds() == before);
}

/* The limit that leaves room for n more descriptors. */
static rlim_t limit_for(int n)
{
	int fd = 0;

	while (fcntl(fd, F_GETFD) >= 0 || n-- > 0)
		fd++;
	return (rlim_t)fd;
}

/* Whatever was made is where the caller closes it. */
Test(launcher, pipes_that_cannot_be_had_leak_nothing)
{
	unsigned before = count_fds();
	struct rlimit l;

	cr_assert(getrlimit(RLIMIT_NOFILE, &l) == 0);
	for (int room = 0; room <= 6; room++) {
		int theirs[LAUNCH_FDS], r;
		struct box_fds ours;

		no_fds(theirs);
		box_fds_init(&ours);
		l.rlim_cur = limit_for(room);
		cr_assert(setrlimit(RLIMIT_NOFILE, &l) == 0);
		r = launcher_pipes(&ours, theirs);
		l.rlim_cur = l.rlim_max;
		cr_assert(setrlimit(RLIMIT_NOFILE, &l) == 0);
		cr_expect(r == (room < 6 ? -EMFILE : 0), "room for %d: %d", room, r);
		launcher_close(theirs);
		box_fds_close(&ours);
		cr_expect(count_fds() == before, "room for %d", room);
	}
}

Test(launcher, an_answer_comes_with_all_its_descriptors_or_the_first)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct launcher l = { .sock = p.a };
	struct launch_reply reply = { .kind = LAUNCH_KEPT, .id = 9 }, got;
	unsigned before = count_fds();
	int fds[3] = { p.b, p.a, p.b }, pidfd = 0;
	struct sock_msg m;

	cr_assert(sock_send(p.b, &reply, sizeof(reply), fds, 3) == 0);
	cr_assert(launcher_recv_msg(&l, &got, &m) == 0);
	cr_expect(got.kind == LAUNCH_KEPT && got.id == 9 && m.n_fds == 3);
	sock_msg_close(&m);
	cr_assert(sock_send(p.b, &reply, sizeof(reply), fds, 3) == 0);
	cr_assert(launcher_recv(&l, &got, &pidfd) == 0);
	cr_expect(same_file(pidfd, p.b) && count_fds() == before + 1, "the others are closed");
	pidfd = fd_close(pidfd);
	cr_assert(sock_send(p.b, &reply, sizeof(reply), NULL, 0) == 0);
	cr_expect(launcher_recv(&l, &got, &pidfd) == 0 && pidfd == FD_NONE);
}

Test(launcher, half_an_answer_is_none_and_silence_is_the_end)
{
	CLEANUP(pair_done) struct pair p = pair_new();
	struct launcher l = { .sock = p.a };
	struct launch_reply reply = { .kind = LAUNCH_STARTED }, got;
	unsigned before = count_fds();
	struct sock_msg m;
	int pidfd = 0;

	cr_assert(sock_send(p.b, &reply, sizeof(reply) - 1, &p.a, 1) == 0);
	cr_expect(launcher_recv_msg(&l, &got, &m) == -EPROTO && m.n_fds == 0);
	cr_assert(sock_send(p.b, &reply, 1, &p.a, 1) == 0);
	cr_expect(launcher_recv(&l, &got, &pidfd) == -EPROTO && pidfd == FD_NONE);
	cr_expect(count_fds() == before);
	p.b = fd_close(p.b);
	cr_expect(launcher_recv_msg(&l, &got, &m) == -EPIPE);
	cr_expect(launcher_recv(&l, &got, &pidfd) == -EPIPE && pidfd == FD_NONE);
}
