/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The part of a zygote that is not the interpreter: a shared object that knows nothing of Python,
 * loaded by it and called with its lock held. It waits for the launcher's word, forks, and takes
 * the child through the same steps as any other code's process; then it returns there, to the
 * interpreter.
 *
 * The child must be in the box's pid namespace and a child of the box's init. A process can only
 * give its children another pid namespace, and init adopts only orphans: so the fork is done by a
 * process between, which shares our memory as after vfork(2), forks with the C library's own fork
 * (whose handlers other libraries rely on) and ends. Its child jumps back onto our stack.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "launch/huge.h"
#include "launch/keep.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

#define EXPORT       __attribute__((visibility("default")))
#define MIDDLE_STACK 65536
#define INODE_TEXT   24

/* Where in the word of brig_wait(); below is the size. */
enum { WORD_FILES = 32, WORD_REPORT = 40 };

/* What the interpreter does around a fork. */
typedef void hook_fn(void);
struct hooks {
	hook_fn *before, *after_parent, *after_child;
};

/* Called from the interpreter. */
EXPORT long brig_serve(int sock, hook_fn *before, hook_fn *after_parent, hook_fn *after_child,
                       int at_once, char *buf, size_t size);
EXPORT int brig_hurry(void);
EXPORT long brig_wait(char *buf, size_t size);

static struct box_setup setup;
static struct kept_plan own, other; /* other: came with the call */
static enum box_pace pace;
static void *resume[5]; /* __builtin_setjmp's */
static char middle_stack[MIDDLE_STACK] __attribute__((aligned(16)));

/* The process between: our memory, the box's pid namespace. */
static int middle(void *unused)
{
	pid_t pid = fork();

	(void)unused;
	if (pid == 0)
		__builtin_longjmp(resume, 1);
	_exit(pid < 0 ? 1 : 0);
}

/* Returns 0 in the child, 1 here, -errno when there is none. */
static int fork_through(int init_pidfd)
{
	int status;
	pid_t pid;

	if (setns(init_pidfd, CLONE_NEWPID) < 0)
		return -errno;
	if (__builtin_setjmp(resume))
		return 0;
	pid = clone(middle, middle_stack + sizeof(middle_stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
	            NULL);
	if (pid < 0)
		return -errno;
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : -EAGAIN;
}

static int fill_setup(const struct zygote_call *call, const struct sock_msg *msg)
{
	size_t want = ZYGOTE_FD_CGROUP + call->n_cgroup + (call->has_plan ? 1 : 0);

	if (call->n_cgroup > CGROUP_CONTROLLERS || msg->n_fds != want)
		return -EPROTO;
	memset(&setup, 0, sizeof(setup));
	pace = call->pace;
	setup.plan = &own.plan;
	setup.privileged = geteuid() == 0;
	setup.shared_root = setup.adopted = true;
	setup.network_there = call->network_there;
	setup.pidfd = msg->fds[ZYGOTE_FD_INIT];
	setup.to_code = setup.from_code = msg->fds[ZYGOTE_FD_WAIT];
	for (int i = 0; i < LAUNCH_FDS; i++)
		setup.fds[i] = FD_NONE;
	setup.fds[LAUNCH_FD_CONTROL] = msg->fds[ZYGOTE_FD_CONTROL];
	setup.n_cgroup_fds = call->n_cgroup;
	for (size_t i = 0; i < call->n_cgroup; i++)
		setup.cgroup_fds[i] = msg->fds[ZYGOTE_FD_CGROUP + i];
	return 0;
}

/*
 * In the child: confined when it returns. In a hurry it says so at once: it is looked at from
 * outside while the interpreter does its own work after a fork.
 */
static void become_code(const struct zygote_call *call, const struct sock_msg *msg)
{
	if (call->has_plan) {
		if (plan_map(msg->fds[msg->n_fds - 1], &other, &setup.err) < 0)
			report_failure(&setup);
		setup.plan = &other.plan;
	}
	if (code_join(&setup) < 0 || (pace == PACE_HURRY && code_say_ready(&setup) < 0))
		report_failure(&setup);
}

/* Nobody else tells the caller that this box will have no code's process. */
static void complain(int r)
{
	struct box_report rep = { .kind = BOX_FAILED };

	(void)err_set(&rep.err, ERR_SETUP, -r, "fork the zygote");
	(void)sock_send(setup.fds[LAUNCH_FD_CONTROL], &rep, sizeof(rep), NULL, 0);
}

/* 0 in a box's process, 1 in the zygote, -errno when the launcher talks nonsense. */
static int serve_one(int sock, const struct hooks *hooks)
{
	struct zygote_call call;
	struct sock_msg msg;
	int r = sock_recv(sock, &call, sizeof(call), 0, &msg);

	if (r < 0)
		return r;
	if (msg.len == 0)
		return -EPIPE;
	r = msg.len == sizeof(call) ? fill_setup(&call, &msg) : -EPROTO;
	if (r < 0) {
		sock_msg_close(&msg);
		return r;
	}
	hooks->before();
	r = fork_through(setup.pidfd);
	if (r == 0) {
		become_code(&call, &msg);
		hooks->after_child();
		return 0;
	}
	hooks->after_parent();
	if (r < 0)
		complain(r);
	sock_msg_close(&msg);
	return 1;
}

/* In a box: it goes on without a rehearsal. */
EXPORT int brig_hurry(void)
{
	return pace != PACE_REHEARSE;
}

/* Which of stdio are files, a bit for each: those can seek, and a runner's stream has to know. */
static long files_of_stdio(void)
{
	long files = 0;
	struct stat st;

	for (int fd = 0; fd < 3; fd++)
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			files |= 1L << fd;
	return files;
}

/*
 * Waits for the run, and puts its stdio in place. Its message is in buf then, with the inode of the
 * report's socket as the last of its strings: one call less for an interpreter in which each call
 * copies pages. The word that is returned: size of that, files (WORD_FILES), and the report's
 * descriptor (WORD_REPORT). 0 or less: leave.
 */
EXPORT long brig_wait(char *buf, size_t size)
{
	int control = setup.fds[LAUNCH_FD_CONTROL], report, word;
	struct stat st;
	size_t len;

	if (pace != PACE_HURRY && code_say_ready(&setup) < 0)
		return -EPROTO;
	word = code_wait(&setup, buf, size, &len, &report);
	if (word != BOX_RUN || report < 0 || len == 0 || size - len < INODE_TEXT)
		return -EPROTO;
	/* The report takes control's place; nothing leads back to that. */
	if (dup3(report, control, O_CLOEXEC) < 0 || fstat(control, &st) < 0)
		return -errno;
	(void)close(report);
	buf[len++] = '\0';
	len += (size_t)snprintf(buf + len, INODE_TEXT - 1, "%llu", (unsigned long long)st.st_ino);
	return (long)len | files_of_stdio() << WORD_FILES | (long)control << WORD_REPORT;
}

/*
 * Returns in a box's process: 0, so that the interpreter can do something before it waits; or, in a
 * box of the reserve that has nothing to do (at_once), the word of brig_wait(): whatever else the
 * interpreter did here, it would copy pages for nothing. In the zygote it returns -EPIPE when the
 * launcher wants no more, or another error.
 */
EXPORT long brig_serve(int sock, hook_fn *before, hook_fn *after_parent, hook_fn *after_child,
                       int at_once, char *buf, size_t size)
{
	const struct hooks hooks = { before, after_parent, after_child };
	struct err err;
	int r = plan_map(ZYGOTE_PLAN_FD, &own, &err);

	if (r < 0)
		return r;
	if (unshare(CLONE_THREAD) < 0) { /* changes nothing, and is refused to all but one thread */
		static const char why[] = "brig: a preloaded module has started a thread\n";

		(void)!write(STDERR_FILENO, why, sizeof(why) - 1);
		return -EBUSY;
	}
	huge_pages(ZYGOTE_PROC_FD);
	(void)close(ZYGOTE_PROC_FD);
	r = send(sock, "", 1, MSG_NOSIGNAL) == 1 ? 1 : -errno;
	while (r == 1)
		r = serve_one(sock, &hooks);
	return r == 0 && at_once && pace == PACE_RESERVE ? brig_wait(buf, size) : r;
}
