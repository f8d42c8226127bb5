/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject REPORT PROCESS CALL NTH ACTION -- COMMAND [ARG...]
 *
 * Runs a command and makes one system call of it, or of a process that it starts, go wrong. Unlike
 * strace's injection the point is one call of one process: PROCESS counts them from 0 in the order
 * of their creation (of "brig run": brig, launcher, box's set-up and init, code), CALL is the
 * number of the system call, NTH counts its calls in that process from 1. ACTION:
 *
 *   none   nothing; REPORT gets a line for every call
 *   kill   the process is killed by SIGKILL as it enters the call
 *   ERRNO  (a number) the call is not made and fails; but, as on Linux, close(2) closes all the
 *          same, and brk(2) fails by leaving the break where it is
 *
 * Process 3 is let go when it executes a program: that is the user's. Lines of REPORT:
 *
 *   call PROCESS CALL       with "none" only, before the user's program exists
 *   fire PROCESS CALL go|-  the action was taken; "go" when brig had released the box before
 *   exec PROCESS            the user's program exists now
 *   box NAME                the launcher makes a cgroup of this name
 *   end                     nothing is traced any more
 *
 * The command is this process itself, so that its parent sees its status; the tracer is a process
 * of its own which is nobody's child and holds no descriptor of the command.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64
#define CALLS_MAX     512
#define LAUNCHER      1
#define USER_PROCESS  3
#define USAGE         "usage: inject REPORT PROCESS CALL NTH none|kill|ERRNO -- COMMAND [ARG...]\n"
#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |  \
	 PTRACE_O_TRACEEXEC)

struct process {
	pid_t pid; /* 0: has ended or was let go */
	unsigned calls[CALLS_MAX];
	int failing;                    /* errno that the call which it is in shall return */
	unsigned long long asked_break; /* argument of a brk(2) that fails, 0 otherwise */
};

static struct {
	FILE *report;
	unsigned process, call, nth;
	bool record, kill;
	int error;
} job;

static struct process processes[PROCESSES_MAX];
static unsigned n_processes;
static bool counting, released, fired, user_runs;

static struct process *process_of(pid_t pid)
{
	for (unsigned i = 0; i < n_processes; i++)
		if (processes[i].pid == pid)
			return &processes[i];
	if (n_processes == PROCESSES_MAX)
		abort();
	processes[n_processes].pid = pid;
	return &processes[n_processes++];
}

/* Stops at system calls only where one is looked for: a stop costs more than most calls. */
static void go_on(const struct process *p, int signal)
{
	unsigned who = (unsigned)(p - processes);
	bool look = job.record ? !user_runs : !fired && (who == 0 || who == job.process);

	look |= who == LAUNCHER && n_processes == LAUNCHER + 1; /* it makes the cgroup */

	/* Fails when it was killed meanwhile. */
	(void)ptrace(look || p->failing ? PTRACE_SYSCALL : PTRACE_CONT, p->pid, 0, (long)signal);
}

static void fire(struct process *p, unsigned call)
{
	struct user_regs_struct regs;

	fired = true;
	(void)fprintf(job.report, "fire %u %u %s\n", job.process, call, released ? "go" : "-");
	if (job.kill) {
		(void)kill(p->pid, SIGKILL);
		return;
	}
	p->failing = job.error;
	if (call == SYS_close || ptrace(PTRACE_GETREGS, p->pid, 0, &regs) < 0)
		return;
	if (call == SYS_brk) {
		p->asked_break = regs.rdi;
		regs.rdi = 0;
	} else {
		regs.orig_rax = SYS_getpid; /* harmless, and allowed by every filter */
	}
	(void)ptrace(PTRACE_SETREGS, p->pid, 0, &regs);
}

static void note_box(const struct process *p, unsigned long long path)
{
	long words[3] = { 0 };
	char *name = (char *)words;

	for (size_t i = 0; i < 2; i++) {
		errno = 0;
		words[i] = ptrace(PTRACE_PEEKDATA, p->pid, path + i * sizeof(long), 0);
		if (errno)
			return;
	}
	if (strncmp(name, "box-", 4) == 0)
		(void)fprintf(job.report, "box %s\n", name);
}

static void on_enter(struct process *p, const struct __ptrace_syscall_info *info)
{
	unsigned who = (unsigned)(p - processes);
	uint64_t call = info->entry.nr;

	if (!counting || call >= CALLS_MAX)
		return;
	if (who == LAUNCHER && call == SYS_mkdirat)
		note_box(p, info->entry.args[1]);
	p->calls[call]++;
	if (job.record && !user_runs)
		(void)fprintf(job.report, "call %u %u\n", who, (unsigned)call);
	if (!job.record && !fired && who == job.process && call == job.call &&
	    p->calls[call] == job.nth)
		fire(p, (unsigned)call);
	else if (who == 0 && call == SYS_sendto)
		released = true; /* brig's only use of it */
}

static void on_return(struct process *p)
{
	struct user_regs_struct regs;

	if (!p->failing)
		return;
	if (ptrace(PTRACE_GETREGS, p->pid, 0, &regs) == 0) {
		if (p->asked_break)
			regs.rdi = p->asked_break; /* callers expect to find it unchanged */
		else
			regs.rax = (unsigned long long)-(long long)p->failing;
		(void)ptrace(PTRACE_SETREGS, p->pid, 0, &regs);
	}
	p->failing = 0;
}

static void on_call(struct process *p)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, p->pid, sizeof(info), &info) > 0) {
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			on_enter(p, &info);
		else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
			on_return(p);
	}
	go_on(p, 0);
}

static void on_event(struct process *p, int event)
{
	unsigned who = (unsigned)(p - processes);
	unsigned long child;

	if (event == PTRACE_EVENT_EXEC && who >= USER_PROCESS) {
		(void)fprintf(job.report, "exec %u\n", who);
		user_runs = true;
		(void)ptrace(PTRACE_DETACH, p->pid, 0, 0);
		p->pid = 0;
		return;
	}
	if (event == PTRACE_EVENT_EXEC && who == 0)
		counting = true;
	else if (event != PTRACE_EVENT_EXEC && event != PTRACE_EVENT_STOP &&
	         ptrace(PTRACE_GETEVENTMSG, p->pid, 0, &child) == 0)
		(void)process_of((pid_t)child); /* gets its number here, or at its own first stop */
	go_on(p, 0);
}

/* A traced pid 1 survives its own faults and would have them for ever; untraced they end it. */
static void on_signal(struct process *p, int signal)
{
	if (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL)
		(void)kill(p->pid, SIGKILL);
	go_on(p, signal);
}

static void trace(void)
{
	int status;

	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		struct process *p;

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			return; /* no tracee is left */
		p = process_of(pid);
		if (!WIFSTOPPED(status))
			p->pid = 0;
		else if (status >> 16)
			on_event(p, status >> 16);
		else if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			on_call(p);
		else
			on_signal(p, WSTOPSIG(status));
	}
}

static _Noreturn void tracer_main(pid_t command, int ready, const char *report)
{
	int status;

	if (syscall(SYS_close_range, 0u, (unsigned)ready - 1, 0) < 0 ||
	    syscall(SYS_close_range, (unsigned)ready + 1, ~0u, 0) < 0)
		_exit(1);
	job.report = fopen(report, "we");
	if (!job.report || ptrace(PTRACE_SEIZE, command, 0, (long)OPTIONS) < 0 ||
	    ptrace(PTRACE_INTERRUPT, command, 0, 0) < 0 || waitpid(command, &status, __WALL) < 0)
		_exit(1);
	go_on(process_of(command), 0);
	if (write(ready, "", 1) != 1 || close(ready) < 0)
		_exit(1);
	trace();
	(void)fprintf(job.report, "end\n");
	_exit(fclose(job.report) == 0 ? 0 : 1);
}

static bool parse(int argc, char **argv)
{
	if (argc < 8 || strcmp(argv[6], "--") != 0)
		return false;
	job.process = (unsigned)strtoul(argv[2], NULL, 10);
	job.call = (unsigned)strtoul(argv[3], NULL, 10);
	job.nth = (unsigned)strtoul(argv[4], NULL, 10);
	job.record = strcmp(argv[5], "none") == 0;
	job.kill = strcmp(argv[5], "kill") == 0;
	job.error = (int)strtol(argv[5], NULL, 10);
	return job.record || job.kill || job.error > 0;
}

int main(int argc, char **argv)
{
	int ready[2];
	pid_t command = getpid(), middle;
	char c;

	if (!parse(argc, argv)) {
		(void)fputs(USAGE, stderr);
		return 2;
	}
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* EINVAL without Yama */
	if (pipe2(ready, O_CLOEXEC) < 0)
		return 127;
	middle = fork();
	if (middle == 0) {
		if (fork() == 0)
			tracer_main(command, ready[1], argv[1]);
		_exit(0);
	}
	(void)close(ready[1]);
	if (middle < 0 || waitpid(middle, NULL, 0) < 0 || read(ready[0], &c, 1) != 1) {
		(void)fputs("inject: no tracer\n", stderr);
		return 127;
	}
	(void)prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	(void)execv(argv[7], argv + 7);
	return 127;
}
