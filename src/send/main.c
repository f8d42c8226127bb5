/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: brigd starts it with a socket as fd 3, an empty environment and no other
 * descriptor but stdio. It gives up what rights it has before it touches the network, posts what it
 * is told to, and leaves when the socket ends. Whoever takes it over gains a process that can speak
 * to the network as nobody, and a socket on which brigd reads answers of one fixed size.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "send/send.h"
#include "sys/caps.h"

#define NOBODY  65534
#define WAIT_MS 60000
#define FDS_MAX 512 /* transfers, their resolvers, connections that are kept */

/* In a user namespace nobody may not be there: then root without any right has to do. */
static int leave_root(void)
{
	if (geteuid() != 0)
		return 0;
	(void)caps_drop_bounding();
	if (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	    setresuid(NOBODY, NOBODY, NOBODY) == 0)
		return 0;
	return caps_drop_all();
}

static int drop_rights(void)
{
	const struct rlimit no_core = { 0, 0 };
	struct rlimit fds;
	int r = leave_root();

	if (r < 0)
		return r;
	if (getrlimit(RLIMIT_NOFILE, &fds) < 0)
		return -errno;
	fds.rlim_max = fds.rlim_cur = MIN2(fds.rlim_max, FDS_MAX);
	(void)umask(077);
	if (chdir("/") < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0 ||
	    setrlimit(RLIMIT_NOFILE, &fds) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* brigd has at most SEND_TRANSFERS_MAX answers unread: they fit into the socket. */
static int say(const struct send_answer *a)
{
	size_t done = 0;

	while (done < sizeof(*a)) {
		ssize_t n = send(SEND_SOCKET_FD, (const char *)a + done, sizeof(*a) - done,
		                 MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int start_all(struct inbox *in)
{
	struct send_answer answer;
	struct send_frame frame;
	bool failed;
	int r = 0;

	while (!transfers_full() && (r = inbox_frame(in, &frame)) > 0) {
		transfer_start(&frame, &answer, &failed);
		inbox_drop(in, &frame);
		if (failed && (r = say(&answer)) < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

static int answer_all(bool *ret_any)
{
	struct send_answer answer;
	int r = 0;

	*ret_any = false;
	while (r >= 0 && transfers_next(&answer)) {
		r = say(&answer);
		*ret_any = true;
	}
	return r;
}

/* Seen also while nothing is read. */
static bool socket_is_over(void)
{
	struct pollfd p = { SEND_SOCKET_FD, 0, 0 };

	return poll(&p, 1, 0) > 0 && p.revents;
}

static int turn(struct inbox *in)
{
	bool room = !transfers_full(), any;
	int r = room ? inbox_fill(in, SEND_SOCKET_FD) : 0;

	if (r >= 0)
		r = start_all(in);
	if (r < 0)
		return r;
	transfers_perform();
	r = answer_all(&any);
	if (r >= 0 && !any)
		transfers_wait(SEND_SOCKET_FD, !transfers_full(), WAIT_MS);
	return r < 0 || !socket_is_over() ? r : -EPIPE;
}

int main(void)
{
	static struct inbox inbox;
	int r;

	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || fcntl(SEND_SOCKET_FD, F_GETFD) < 0) {
		(void)fputs("brig-send: started by brigd, not by hand\n", stderr);
		return 2;
	}
	(void)fcntl(SEND_SOCKET_FD, F_SETFD, FD_CLOEXEC);
	r = drop_rights();
	if (r >= 0)
		r = transfers_open();
	while (r >= 0)
		r = turn(&inbox);
	if (r != -EPIPE && r != -ECONNRESET)
		(void)fprintf(stderr, "brig-send: %s\n", strerror(-r));
	_exit(r == -EPIPE || r == -ECONNRESET ? 0 : 1); /* transfers are left as they are */
}
