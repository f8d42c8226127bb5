/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A process and its output: stdout and stderr in pipes, nothing of ours inherited, PATH, HOME and
 * LANG alone in its environment.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "contest.h"

#define OUTPUT_MAX 4096
#define RUN_MS     60000
#define STACK_SIZE 65536
#define BENCH_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

struct child {
	const struct spawn *what;
	const int *fds; /* stdin, stdout, stderr; all above 2 */
	sigset_t mask;
	char *const *env;
};

struct stream {
	int fd;
	char data[OUTPUT_MAX];
	size_t n;
	bool too_long;
};

int find_program(const char *name, char *ret, size_t size)
{
	const char *p = BENCH_PATH;

	if (strchr(name, '/')) {
		(void)snprintf(ret, size, "%s", name);
		return access(ret, X_OK) == 0 ? 0 : -ENOENT;
	}
	for (; *p; p += strcspn(p, ":"), p += *p == ':') {
		(void)snprintf(ret, size, "%.*s/%s", (int)strcspn(p, ":"), p, name);
		if (access(ret, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

/* Shares our memory until it executes: nothing here may change any. */
static int in_child(void *arg)
{
	const struct child *c = arg;

	if (setns(c->what->mount_ns, CLONE_NEWNS) < 0)
		_exit(125);
	for (int i = 0; i < 3; i++)
		if (dup2(c->fds[i], i) < 0)
			_exit(125);
	(void)sigprocmask(SIG_SETMASK, &c->mask, NULL);
	(void)execve(c->what->argv[0], (char *const *)c->what->argv, c->env);
	_exit(126);
}

/* posix_spawn() has no way to enter a namespace. */
static pid_t start_in_ns(const struct spawn *s, const int fds[3], char *const *env)
{
	static _Alignas(16) char stack[STACK_SIZE];
	struct child c = { .what = s, .fds = fds, .env = env };
	sigset_t all;
	pid_t pid;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &c.mask);
	pid = clone(in_child, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, &c);
	(void)sigprocmask(SIG_SETMASK, &c.mask, NULL);
	return pid < 0 ? -errno : pid;
}

static pid_t start(const struct spawn *s, const int fds[3])
{
	static char home[300];
	static char *const env[] = { (char *)"PATH=" BENCH_PATH, home, (char *)"LANG=C.UTF-8",
		                     NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid = 0;
	int r;

	(void)snprintf(home, sizeof(home), "HOME=%.256s", getenv("HOME") ? getenv("HOME") : "/");
	if (s->mount_ns >= 0)
		return start_in_ns(s, fds, env);
	r = posix_spawn_file_actions_init(&actions);
	for (int i = 0; i < 3 && r == 0; i++)
		r = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
	if (r == 0)
		r = posix_spawn(&pid, s->argv[0], &actions, NULL, (char *const *)s->argv, env);
	(void)posix_spawn_file_actions_destroy(&actions);
	return r ? -r : pid;
}

static void read_some(struct stream *s)
{
	char drain[OUTPUT_MAX];
	size_t room = sizeof(s->data) - 1 - s->n;
	ssize_t n = read(s->fd, room ? s->data + s->n : drain, room ? room : sizeof(drain));

	if (n <= 0)
		s->fd = fd_close(s->fd);
	else if (room)
		s->n += (size_t)n;
	else
		s->too_long = true;
}

/* Both to their ends. -ETIMEDOUT: it is still running. */
static int collect(struct stream *out, struct stream *errout)
{
	uint64_t deadline = clock_ms() + RUN_MS;

	while (out->fd >= 0 || errout->fd >= 0) {
		struct pollfd p[2] = { { out->fd, POLLIN, 0 }, { errout->fd, POLLIN, 0 } };
		uint64_t now = clock_ms();

		if (now >= deadline || poll(p, 2, (int)(deadline - now)) == 0)
			return -ETIMEDOUT;
		if (p[0].revents)
			read_some(out);
		if (p[1].revents)
			read_some(errout);
	}
	return 0;
}

static int judge(int status, const struct stream *out, const struct stream *errout,
                 const char *output, struct err *err)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		(void)err_set(err, ERR_INTERNAL, EIO, "%s %d: %.*s",
		              WIFEXITED(status) ? "status" : "signal",
		              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
		              (int)strcspn(errout->data, "\n"), errout->data);
		return -EIO;
	}
	if (output &&
	    (out->too_long || out->n != strlen(output) || memcmp(out->data, output, out->n) != 0))
		return err_set(err, ERR_INTERNAL, EBADMSG, "wrong output: %zu bytes, not %zu",
		               out->n, strlen(output));
	return 0;
}

static int finish(pid_t pid, int out_fd, int err_fd, const char *output, struct err *err)
{
	struct stream out = { .fd = out_fd }, errout = { .fd = err_fd };
	int status = 0, r = collect(&out, &errout);

	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)fd_close(out.fd);
	(void)fd_close(errout.fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "no end after %d s", RUN_MS / 1000);
	return judge(status, &out, &errout, output, err);
}

int spawn_check(const struct spawn *s, const char *output, struct err *err)
{
	CLEANUP_FD int in = open(s->input ? s->input : "/dev/null", O_RDONLY | O_CLOEXEC);
	CLEANUP_FD int out = FD_NONE, errout = FD_NONE;
	int pipes[2][2];
	pid_t pid;

	if (in < 0 || pipe2(pipes[0], O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "streams");
	out = pipes[0][1];
	if (pipe2(pipes[1], O_CLOEXEC) < 0) {
		(void)close(pipes[0][0]);
		return err_set(err, ERR_INTERNAL, errno, "streams");
	}
	errout = pipes[1][1];
	pid = start(s, (const int[]){ in, out, errout });
	out = fd_close(out);
	errout = fd_close(errout);
	if (pid < 0) {
		(void)close(pipes[0][0]);
		(void)close(pipes[1][0]);
		return err_set(err, ERR_INTERNAL, -pid, "start %s", s->argv[0]);
	}
	return finish(pid, pipes[0][0], pipes[1][0], output, err);
}
