/* SPDX-License-Identifier: Apache-2.0 */
/* LL: Landlock. */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NR_LANDLOCK_CREATE_RULESET 444
#define WAIT_MS                    4000

static void sleep_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

/* A write that puts back what was there. */
static void rewrite(struct tally *t, const char *path)
{
	char text[128];
	ssize_t r = try_read(path, text, sizeof(text));

	if (r < 0) {
		t->attempts++; /* hidden altogether */
		return;
	}
	r = try_write(path, text, (size_t)r);
	tally_expect(t, path, r, EACCES, EROFS, EPERM, EINVAL);
	tally_note(t, "%s=%s", path, r >= 0 ? "written" : errno_name((int)-r));
}

/* What the mounts leave open and only the rules close. */
static int ll_01(int argc, char **argv, char *detail, size_t n)
{
	static const char *const dirs[] = { "/", "/etc", "/usr", "/usr/bin", "/dev", "/proc/self" };
	static const char *const files[] = { "/proc/self/comm", "/proc/self/oom_score_adj",
		                             "/proc/self/timerslack_ns" };
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char path[128];
		int r;

		snprintf(path, sizeof(path), "%s/probe-ll01", dirs[i]);
		r = try_create(path, 0700, "x");
		tally_expect(&t, path, r, EACCES, EROFS, EPERM, ENOENT);
		if (r == 0)
			unlink(path);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		rewrite(&t, files[i]);
	return tally_result(&t);
}

static socklen_t abstract_name(struct sockaddr_un *a, const char *name)
{
	size_t len = strlen(name);

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	if (len > sizeof(a->sun_path) - 1)
		len = sizeof(a->sun_path) - 1;
	memcpy(a->sun_path + 1, name, len);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static int connect_abstract(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = abstract_name(&a, name);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r = connect(s, (struct sockaddr *)&a, len) < 0 ? -errno : 0;

	close(s);
	return r;
}

/* ll_02 NAME [wait]: a listener outside of the domain, which may need a while to appear. */
static int ll_02(int argc, char **argv, char *detail, size_t n)
{
	const char *name = argc > 0 ? argv[0] : "brig-probe-none";
	struct sockaddr_un a;
	struct tally t;
	socklen_t len;
	int r, s;

	tally_init(&t, detail, n);
	for (int waited = 0;; waited += 10) {
		r = connect_abstract(name);
		if (r != -ECONNREFUSED || argc < 2 || waited > WAIT_MS)
			break;
		sleep_ms(10);
	}
	tally_expect(&t, "connect", r, EPERM, ECONNREFUSED);
	tally_note(&t, "connect=%s", r >= 0 ? "ok" : errno_name(-r));
	/* Among ourselves it works. */
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	len = abstract_name(&a, "brig-probe-own");
	if (bind(s, (struct sockaddr *)&a, len) < 0 || listen(s, 4) < 0)
		tally_error(&t, "own listener: %s", errno_name(errno));
	r = connect_abstract("brig-probe-own");
	if (r < 0)
		tally_error(&t, "own connect: %s", errno_name(-r));
	close(s);
	return tally_result(&t);
}

/* ll_03 [wait]: signals to every process that is not ours. */
static int ll_03(int argc, char **argv, char *detail, size_t n)
{
	long sum_perm = 0;
	struct tally t;
	pid_t kid;
	int st;

	tally_init(&t, detail, n);
	if (argc > 0 && strcmp(argv[0], "wait") != 0) {
		/* One process, by number. */
		pid_t pid = (pid_t)strtol(argv[0], NULL, 10);

		tally_expect(&t, "kill", kill(pid, 0) < 0 ? -errno : 0, EPERM, ESRCH);
		return tally_result(&t);
	}
	for (int waited = 0; waited <= WAIT_MS; waited += 20) {
		sum_perm = 0;
		for (pid_t p = 1; p < 400; p++) {
			if (p == getpid() || p == getppid())
				continue;
			if (kill(p, 0) == 0)
				tally_escaped(&t, "process %d can be signalled", (int)p);
			else if (errno == EPERM && p > 1)
				sum_perm++;
			else if (errno == EPERM)
				tally_note(&t, waited ? "." : "init=EPERM");
		}
		t.attempts++;
		if (argc == 0 || sum_perm > 0 || t.result == PROBE_ESCAPED)
			break;
		sleep_ms(20);
	}
	tally_note(&t, "refused=%ld", sum_perm);
	kid = fork();
	if (kid == 0) {
		pause();
		_exit(0);
	}
	if (kill(kid, SIGTERM) < 0)
		tally_error(&t, "own child: %s", errno_name(errno));
	kill(kid, SIGKILL);
	waitpid(kid, &st, 0);
	return tally_result(&t);
}

/* TCP on every kind of port. */
static int ll_04(int argc, char **argv, char *detail, size_t n)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr_in lo = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	socklen_t len = sizeof(lo);
	struct tally t;
	int s, c, r;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	s = socket(AF_INET, SOCK_STREAM, 0);
	r = bind(s, (struct sockaddr *)&any, sizeof(any)) < 0 ? -errno : 0;
	tally_expect(&t, "bind(0.0.0.0:0)", r, EACCES);
	tally_note(&t, "bind=%s", r < 0 ? errno_name(-r) : "ok");
	if (r == 0 && listen(s, 1) == 0)
		(void)getsockname(s, (struct sockaddr *)&lo, &len);
	lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!lo.sin_port)
		lo.sin_port = htons(80);
	c = socket(AF_INET, SOCK_STREAM, 0);
	r = connect(c, (struct sockaddr *)&lo, sizeof(lo)) < 0 ? -errno : 0;
	tally_expect(&t, "connect(127.0.0.1)", r, EACCES);
	tally_note(&t, "connect=%s", r < 0 ? errno_name(-r) : "ok");
	close(c);
	close(s);
	s = socket(AF_INET6, SOCK_STREAM, 0);
	r = bind(s, (struct sockaddr *)&any6, sizeof(any6)) < 0 ? -errno : 0;
	tally_expect(&t, "bind([::]:0)", r, EACCES);
	close(s);
	return tally_result(&t);
}

/* ll_05 FROM TO: files move inside of a hierarchy, not between two. */
static int ll_05(int argc, char **argv, char *detail, size_t n)
{
	char a[256], b[256], sub[256], c[300];
	struct tally t;

	tally_init(&t, detail, n);
	if (argc < 2) {
		tally_error(&t, "two directories are needed");
		return tally_result(&t);
	}
	snprintf(a, sizeof(a), "%s/probe-ll05", argv[0]);
	snprintf(b, sizeof(b), "%s/probe-ll05-moved", argv[1]);
	snprintf(sub, sizeof(sub), "%s/probe-ll05-d", argv[0]);
	snprintf(c, sizeof(c), "%s/x", sub);
	(void)unlink(a);
	if (try_create(a, 0600, "x") < 0 || mkdir(sub, 0700) < 0) {
		tally_error(&t, "%s: %s", a, errno_name(errno));
		return tally_result(&t);
	}
	tally_expect(&t, "link", link(a, b) < 0 ? -errno : 0, EXDEV, EACCES);
	(void)unlink(b);
	if (link(a, c) < 0)
		tally_error(&t, "link inside: %s", errno_name(errno));
	(void)unlink(c);
	if (rename(a, c) < 0 || rename(c, a) < 0)
		tally_error(&t, "rename inside: %s", errno_name(errno));
	tally_expect(&t, "rename", rename(a, b) < 0 ? -errno : 0, EXDEV, EACCES);
	(void)unlink(a);
	(void)unlink(b);
	(void)rmdir(sub);
	return tally_result(&t);
}

/* ---- A kernel with an older Landlock -------------------------------------------------------- */

static int send_fd(int sock, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &m, 0) < 0 ? -errno : 0;
}

static int recv_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v,
		            .msg_iovlen = 1,
		            .msg_control = control,
		            .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) <= 0 || !(c = CMSG_FIRSTHDR(&m)))
		return -EIO;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static void answer(int listener, long abi)
{
	static char req_buf[512], resp_buf[512];
	struct seccomp_notif *req = (void *)req_buf;
	struct seccomp_notif_resp *resp = (void *)resp_buf;

	memset(req_buf, 0, sizeof(req_buf));
	memset(resp_buf, 0, sizeof(resp_buf));
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, req) < 0)
		return;
	resp->id = req->id;
	if ((uint32_t)req->data.args[2] == 1)
		resp->val = abi; /* the version */
	else if ((uint32_t)req->data.args[2] != 0)
		resp->error = -EINVAL; /* the errata: later than the versions we play */
	else
		resp->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, resp);
}

static int run_filtered(int sock, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_LANDLOCK_CREATE_RULESET, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };
	long fd;

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	fd = RAW(SYS_seccomp, 1 /* filter */, 8 /* listener */, &prog);
	if (fd < 0 || send_fd(sock, (int)fd) < 0) {
		fprintf(stderr, "listener: %s\n", errno_name((int)-fd));
		return PROBE_ERROR;
	}
	close((int)fd);
	close(sock);
	execvp(argv[0], argv);
	return PROBE_ERROR;
}

/* Runs a command to which Landlock has version `abi`; its exit status is ours. */
static int with_abi(long abi, char **argv)
{
	int sv[2], listener, st = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0 || (pid = fork()) < 0)
		return PROBE_ERROR;
	if (pid == 0)
		_exit(run_filtered(sv[1], argv));
	close(sv[1]);
	listener = recv_fd(sv[0]);
	while (waitpid(pid, &st, WNOHANG) == 0) {
		struct pollfd p = { listener, POLLIN, 0 };

		if (listener < 0 || poll(&p, 1, 20) <= 0)
			continue;
		if (p.revents & POLLIN)
			answer(listener, abi);
		else
			sleep_ms(5);
	}
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

/* ll_06: makes a domain of its own. ll_06 abi N COMMAND…: see with_abi(). */
static int ll_06(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	if (argc >= 3 && strcmp(argv[0], "abi") == 0)
		_exit(with_abi(strtol(argv[1], NULL, 10), argv + 2));
	tally_init(&t, detail, n);
	tally_expect(&t, "landlock version", RAW(NR_LANDLOCK_CREATE_RULESET, 0, 0, 1), ENOSYS);
	tally_expect(&t, "landlock_add_rule", RAW(445, -1, 1, 0, 0), ENOSYS);
	tally_expect(&t, "landlock_restrict_self", RAW(446, -1, 0), ENOSYS);
	return tally_result(&t);
}

const struct probe probes_ll[] = {
	{ "LL-01", ll_01 }, { "LL-02", ll_02 }, { "LL-03", ll_03 }, { "LL-04", ll_04 },
	{ "LL-05", ll_05 }, { "LL-06", ll_06 }, { NULL, NULL },
};
