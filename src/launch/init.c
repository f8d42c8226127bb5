/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig-init: pid 1 of a box. It has no capability and, in a privileged box, its own uid. It reaps,
 * waits for the main process, tells the caller how that ended and exits; the kernel then kills
 * everything else in the pid namespace. User code never talks to it.
 *
 * It is a fork of the launcher that never returns there: an exec of its own would be work for every
 * box. (An ordinary user's is executed, see setup.c.) The launcher runs from a sealed memfd, so
 * /proc/1/exe leads to no file of the host.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/box.h"
#include "model/launch_msg.h"

static int send_report(const struct box_report *rep)
{
	ssize_t n;

	do
		n = send(INIT_CONTROL_FD, rep, sizeof(*rep), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*rep) ? 0 : -1;
}

/* One tmpfs holds every writable place, so one look tells. */
static unsigned disk_full(void)
{
	struct statfs st;

	if (statfs("/workspace", &st) < 0)
		return 0;
	return st.f_bavail == 0 || st.f_ffree == 0;
}

static uint64_t number_after(const char *text, const char *key)
{
	const char *p = strstr(text, key);
	uint64_t v = 0;

	if (!p)
		return 0;
	for (p += strlen(key); *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	return v;
}

static void read_io(struct box_report *rep)
{
	char text[512];
	ssize_t n = pread(INIT_IO_FD, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return;
	text[n] = '\0';
	rep->read_bytes = number_after(text, "rchar: ");
	rep->written_bytes = number_after(text, "wchar: ");
}

/* A zygote's child is not ours yet. SIGCHLD is blocked outside sigsuspend, so none is missed. */
static void pause_for_child(void)
{
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigsuspend(&none);
}

static void on_child(int sig)
{
	(void)sig;
}

static void block_sigchld(void)
{
	struct sigaction sa = { .sa_handler = on_child };
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)sigaction(SIGCHLD, &sa, NULL);
}

_Noreturn void init_main(uint32_t layers, pid_t code)
{
	struct box_report rep = { .kind = BOX_INIT_READY, .layers = layers };
	int status = 0;

	block_sigchld();
	if (prctl(PR_SET_NAME, INIT_NAME, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    send_report(&rep) < 0)
		_exit(1);
	for (;;) {
		pid_t pid = waitpid(-1, &status, 0);

		if (pid == code)
			break;
		if (pid < 0 && errno == ECHILD)
			pause_for_child();
		else if (pid < 0 && errno != EINTR)
			_exit(1);
	}
	rep = (struct box_report){ .kind = BOX_EXITED, .wait_status = status };
	rep.disk_full = disk_full();
	read_io(&rep);
	_exit(send_report(&rep) < 0);
}

_Noreturn void init_exec_main(char **argv)
{
	init_main((uint32_t)number_after(argv[1], ""), (pid_t)number_after(argv[2], ""));
}
