/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "sys/caps.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int plan_map(int fd, struct kept_plan *ret, struct err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS), r;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_set(err, ERR_INVALID, EPROTO, "the plan is not sealed");
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "fstat the plan");
	if (st.st_size <= 0 || (uint64_t)st.st_size > PLAN_BYTES_MAX)
		return err_set(err, ERR_LIMIT, EFBIG, "plan of %lld bytes", (long long)st.st_size);
	ret->n_bytes = (size_t)st.st_size;
	ret->bytes = mmap(NULL, ret->n_bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (ret->bytes == MAP_FAILED) {
		ret->bytes = NULL;
		return err_set(err, ERR_INTERNAL, errno, "map the plan");
	}
	r = plan_decode(ret->bytes, ret->n_bytes, &ret->store, &ret->plan, err);
	if (r < 0)
		plan_unmap(ret);
	return r;
}

void plan_unmap(struct kept_plan *k)
{
	if (k->bytes)
		(void)munmap(k->bytes, k->n_bytes);
	k->bytes = NULL;
}

/*
 * The child: three descriptors of ours, the launcher's null and stderr, no signal ignored. The root
 * has no /proc that would show us to ourselves.
 */
static _Noreturn void become_zygote(const struct box_host *host, const struct kept_plan *k,
                                    int sock)
{
	/* What we ignore, and two that the C library of our caller does and hides. */
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, 32, 33 };
	static const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} dfl = { .handler = SIG_DFL };
	static const int needed[] = { CAP_SYS_ADMIN, CAP_SYS_PTRACE }; /* to join a box */
	int high_sock = fcntl(sock, F_DUPFD, 100), high_plan = fcntl(k->fd, F_DUPFD, 100);
	int own = openat(host->proc_fd, "self", O_PATH | O_DIRECTORY);
	int high_own = own < 0 ? FD_NONE : fcntl(own, F_DUPFD, 100);

	for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
		(void)syscall(SYS_rt_sigaction, ignored[i], &dfl, NULL, 8);
	(void)setsid(); /* its group is how we know the process between of its forks */
	(void)umask(022);
	if (geteuid() != 0 && caps_keep_over_exec(needed, ELEMENTSOF(needed)) < 0)
		_exit(126);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || high_sock < 0 || high_plan < 0 ||
	    dup2(high_sock, ZYGOTE_SOCKET_FD) < 0 || dup2(high_plan, ZYGOTE_PLAN_FD) < 0 ||
	    high_own < 0 || dup2(high_own, ZYGOTE_PROC_FD) < 0 ||
	    sys_close_range(ZYGOTE_PROC_FD + 1, ~0U, 0) < 0)
		_exit(126);
	(void)execve(k->plan.exec, (char *const *)k->plan.argv, (char *const *)k->plan.env);
	_exit(127);
}

int zygote_start(const struct box_host *host, const struct kept_plan *k, uint32_t plan,
                 struct zygote *ret, struct err *err)
{
	struct zygote z = { .plan = plan };
	int pair[2], r = sock_pair(pair);
	long pid;

	if (r < 0)
		return err_set(err, ERR_SETUP, -r, "socket pair");
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		become_zygote(host, k, pair[1]);
	(void)close(pair[1]);
	z.sock = pair[0];
	if (pid < 0) {
		(void)close(z.sock);
		return err_set(err, ERR_SETUP, errno, "fork the zygote");
	}
	z.pid = (pid_t)pid;
	z.pidfd = sys_pidfd_open(z.pid);
	if (z.pidfd < 0) {
		r = z.pidfd;
		zygote_stop(&z);
		return err_set(err, ERR_SETUP, -r, "pidfd of the zygote");
	}
	*ret = z;
	return 0;
}

void zygote_stop(struct zygote *z)
{
	if (!z->pid)
		return;
	(void)kill(z->pid, SIGKILL);
	(void)waitpid(z->pid, NULL, 0);
	/* A process between that it left is in a box's pid namespace, which ends only without it.
	 */
	while (waitpid(-z->pid, NULL, 0) > 0 || errno == EINTR)
		;
	z->pid = 0;
	z->sock = fd_close(z->sock);
	z->pidfd = fd_close(z->pidfd);
}
