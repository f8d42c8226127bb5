/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The inside of a box, from the first instruction after clone3 to the two programs that stay:
 * brig-init (pid 1) and the code (pid 2). The steps below run in their order; a step that provides
 * a layer the plan does not require may fail and is then missing from the report, every other
 * failure ends the box before user code exists. Only async-signal-safe calls and the memory that
 * the launcher had before clone are used.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "sys/caps.h"
#include "sys/file.h"
#include "sys/sock.h"
#include "sys/spread.h"
#include "sys/syscalls.h"

#define NO_DOMAIN         "(none)" /* as the kernel begins */
#define INOTIFY_INSTANCES "8"
#define INOTIFY_WATCHES   "4096"

static int wait_for_release(struct box_setup *s)
{
	char c;
	ssize_t n;

	do
		n = read(s->sync_fd, &c, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return err_set(&s->err, ERR_SETUP, n < 0 ? errno : EPIPE, "the launcher went away");
	return 0;
}

/* The box must not outlive its launcher. A change of uid clears the signal: armed after it. */
static int arm_parent_death(struct box_setup *s)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "PR_SET_PDEATHSIG");
	return 0;
}

static int become_init_id(struct box_setup *s)
{
	uint32_t id = s->privileged ? s->plan->init_id : s->plan->code_id;

	if (s->privileged && syscall(SYS_setgroups, 0, NULL) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "setgroups");
	if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "become uid %u", id);
	if (setsid() < 0)
		return err_set(&s->err, ERR_SETUP, errno, "setsid");
	/* The caller checks us through /proc; user code does not exist yet. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "PR_SET_DUMPABLE");
	return 0;
}

static int split_ids(struct box_setup *s)
{
	if (!s->privileged)
		return err_set(&s->err, ERR_UNSUPPORTED, EPERM, "a second uid needs root");
	return 0;
}

static int own_cgroup_ns(struct box_setup *s)
{
	if (s->unshare_cgroup_ns && unshare(CLONE_NEWCGROUP) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "unshare the cgroup namespace");
	return 0;
}

static int pivot(struct box_setup *s)
{
	return s->shared_root ? 0 : mounts_pivot(s);
}

/*
 * The old root lies on top of the new one; nobody's path leads there any more. The kernel waits a
 * grace period for this, during which the code's process still makes the network namespace.
 */
static int detach_old_root(struct box_setup *s)
{
	int r = s->shared_root ? 0 : sys_umount_detach(".");

	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "detach the old root") : 0;
}

/* The code's process made it, beside our mounting; here we follow. */
static int join_network(struct box_setup *s)
{
	CLEANUP_FD int fd = FD_NONE;
	char c;

	if (s->network_there || s->adopted || !(s->plan->layers & LAYER_BIT(NET_NS)))
		return 0;
	if (read(s->from_code, &c, 1) != 1)
		return err_set(&s->err, ERR_SETUP, EPIPE, "the code's process ended");
	fd = open("/proc/2/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "join the box's network namespace");
	return 0;
}

static int set_hostname(struct box_setup *s)
{
	if (!(s->plan->layers & LAYER_BIT(UTS_NS)))
		return 0;
	if (sethostname(s->plan->hostname, strlen(s->plan->hostname)) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "set the host name");
	/* The namespace began as a copy of the host's, its NIS domain too. */
	if (setdomainname(NO_DOMAIN, strlen(NO_DOMAIN)) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "set the domain name");
	return 0;
}

/*
 * In this user namespace and all below it, nobody makes a namespace any more. After the mounts: a
 * detached mount counts as a mount namespace.
 */
static int lock_namespaces(struct box_setup *s)
{
	static const char *const files[] = {
		"max_user_namespaces",   "max_mnt_namespaces",  "max_pid_namespaces",
		"max_net_namespaces",    "max_ipc_namespaces",  "max_uts_namespaces",
		"max_cgroup_namespaces", "max_time_namespaces",
	};

	for (size_t i = 0; i < ELEMENTSOF(files); i++) {
		int r = file_write(s->sysctl_fd, files[i], "0");

		if (r < 0 && r != -ENOENT)
			return err_set(&s->err, ERR_SETUP, -r, "write %s", files[i]);
	}
	return 0;
}

/*
 * The kernel counts inotify for the one who made the user namespace, too: the launcher's user, who
 * has 128 instances for everything that he runs.
 */
static int bound_inotify(struct box_setup *s)
{
	int r;

	if (!(s->plan->layers & LAYER_BIT(USER_NS))) /* the host's files, then */
		return 0;
	r = file_write(s->sysctl_fd, "max_inotify_instances", INOTIFY_INSTANCES);
	if (r >= 0)
		r = file_write(s->sysctl_fd, "max_inotify_watches", INOTIFY_WATCHES);
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "bound inotify") : 0;
}

static int tell_code(struct box_setup *s)
{
	if (write(s->to_code, "", 1) != 1)
		return err_set(&s->err, ERR_SETUP, errno, "tell the code's process");
	return 0;
}

/* Pid 2. It makes the network namespace and limits itself while we mount. */
static int fork_code(struct box_setup *s)
{
	int to_code[2], to_init[2];
	long pid;

	if (s->adopted) /* the namespaces are complete: it may join them */
		return tell_code(s);
	if (pipe2(to_code, O_CLOEXEC) < 0 || pipe2(to_init, O_CLOEXEC) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "pipe");
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		return err_set(&s->err, ERR_SETUP, errno, "fork the code's process");
	s->to_code = pid ? to_code[1] : to_init[1];
	s->from_code = pid ? to_init[0] : to_code[0];
	(void)close(pid ? to_code[0] : to_init[0]);
	(void)close(pid ? to_init[1] : to_code[1]);
	if (pid == 0)
		code_main(s);
	spread_child((pid_t)pid);
	return 0;
}

/* The file system is complete. */
static int call_code(struct box_setup *s)
{
	int r = tell_code(s);
	char c;

	if (r < 0 || !(s->plan->layers & LAYER_BIT(LOCKED_MOUNTS)))
		return r;
	/* The last namespaces that the box will ever make. */
	if (read(s->from_code, &c, 1) != 1)
		return err_set(&s->err, ERR_SETUP, EPIPE, "the code's process ended");
	return 0;
}

/* Pid 1: the file system. */
static const struct step steps[] = {
	{ "cgroup", confine_cgroup, 0 },
	{ "wait", wait_for_release, 0 },
	{ "ids", become_init_id, 0 },
	{ "parent_death", arm_parent_death, 0 },
	{ "separate_ids", split_ids, LAYER_BIT(UID_SPLIT) },
	{ "keyring", confine_keyring, LAYER_BIT(KEYRING) },
	{ "cgroup_namespace", own_cgroup_ns, LAYER_BIT(CGROUP_NS) },
	{ "bounding_set", confine_bounding, LAYER_BIT(CAPABILITIES) },
	{ "fork", fork_code, 0 },
	{ "mounts", setup_mounts, 0 },
	{ "masks", setup_masks, LAYER_BIT(PROC_MASKS) },
	{ "read_only", setup_read_only, LAYER_BIT(ROOT_RO) },
	{ "hostname", set_hostname, 0 },
	{ "pivot_root", pivot, 0 },
	{ "detach", detach_old_root, 0 },
	{ "join_network", join_network, 0 },
	{ "call_code", call_code, 0 },
	{ "namespace_lock", lock_namespaces, LAYER_BIT(NS_LOCK) },
	{ "inotify", bound_inotify, 0 },
};

/*
 * An ordinary user's launcher was executed in the host's user namespace, and its memory belongs
 * there for good: as long as init lived in a copy of it, nobody but root could look at it. An exec
 * gives it memory of the box's own.
 */
static void exec_init(struct box_setup *s, const char *code)
{
	char layers[16];
	char *const argv[] = { (char *)INIT_NAME, layers, (char *)code, NULL };
	char *const env[] = { NULL };

	(void)snprintf(layers, sizeof(layers), "%u", (unsigned)s->layers);
	(void)syscall(SYS_execveat, INIT_SELF_FD, "", argv, env, AT_EMPTY_PATH);
	(void)err_set(&s->err, ERR_SETUP, errno, "execute init");
}

/* Pid 1 turns into init: no capability, no descriptor but its two. Returns only to fail. */
static void become_init(struct box_setup *s)
{
	int io = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	/* Above the numbers that are about to be taken, so that dup2 cannot clobber one of them. */
	int control = fcntl(s->fds[LAUNCH_FD_CONTROL], F_DUPFD_CLOEXEC, 100);
	int high_io = io < 0 ? FD_NONE : fcntl(io, F_DUPFD_CLOEXEC, 100);
	int self = fcntl(LAUNCH_SELF_FD, F_DUPFD_CLOEXEC, 100);
	int r;

	if (control < 0 || dup2(control, INIT_CONTROL_FD) < 0 || self < 0 ||
	    dup3(self, INIT_SELF_FD, O_CLOEXEC) < 0) {
		(void)err_set(&s->err, ERR_SETUP, errno, "init's descriptors");
		return;
	}
	if (high_io < 0 || dup2(high_io, INIT_IO_FD) < 0)
		(void)close(INIT_IO_FD); /* usage then shows no I/O */
	r = sys_close_range(INIT_SELF_FD + 1, ~0U, 0);
	s->fds[LAUNCH_FD_CONTROL] = INIT_CONTROL_FD;
	if (r < 0) {
		(void)err_set(&s->err, ERR_SETUP, -r, "close_range");
		return;
	}
	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	r = s->layers & LAYER_BIT(CAPABILITIES) ? 0 : caps_drop_bounding();
	if (r >= 0)
		r = caps_drop_all();
	if (r < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		(void)err_set(&s->err, ERR_SETUP, r < 0 ? -r : errno, "drop init's capabilities");
		return;
	}
	/* A zygote's fork goes through a process between, see zygote.c. */
	if (!s->privileged) {
		exec_init(s, s->adopted ? "3" : "2");
		return;
	}
	(void)close(INIT_SELF_FD);
	init_main(s->layers, s->adopted ? 3 : 2);
}

_Noreturn void setup_main(struct box_setup *s)
{
	static const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} dfl = { .handler = SIG_DFL };
	/* What the launcher ignores, and two that the C library of its caller does. */
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, 32, 33 };
	sigset_t none;

	/* An ignored signal stays ignored over clone and exec; raw: libc hides two of them. */
	for (size_t i = 0; i < ELEMENTSOF(ignored); i++)
		(void)syscall(SYS_rt_sigaction, ignored[i], &dfl, NULL, 8);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (run_steps(s, steps, ELEMENTSOF(steps)) < 0)
		report_failure(s);
	become_init(s);
	(void)snprintf(s->err.step, sizeof(s->err.step), "init");
	report_failure(s);
}
