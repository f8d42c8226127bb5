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
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "sys/caps.h"
#include "sys/file.h"
#include "sys/sock.h"
#include "sys/syscalls.h"

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

static int join_keyring(struct box_setup *s)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "join a new session keyring");
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
	char cwd[8];

	if (fchdir(s->root_fd) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "enter the new root");
	if (sys_pivot_root(".", ".") < 0)
		return err_set(&s->err, ERR_SETUP, errno, "pivot_root");
	if (chdir("/") < 0 || !getcwd(cwd, sizeof(cwd)) || cwd[0] != '/' || cwd[1])
		return err_set(&s->err, ERR_SETUP, errno, "the new root is not \"/\"");
	return 0;
}

/*
 * The old root lies on top of the new one; nobody's path leads there any more. The kernel waits a
 * grace period for this, so the code's process goes on meanwhile, unless it is about to copy the
 * mounts. Nothing runs before the caller has seen that it is gone.
 */
static int detach_old_root(struct box_setup *s)
{
	int r = sys_umount_detach(".");

	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "detach the old root") : 0;
}

/* The code's process made it, beside our mounting; here we follow. */
static int join_network(struct box_setup *s)
{
	CLEANUP_FD int fd = FD_NONE;
	char c;

	if (read(s->from_code, &c, 1) != 1)
		return err_set(&s->err, ERR_SETUP, EPIPE, "the code's process ended");
	if (!(s->plan->layers & LAYER_BIT(NET_NS)))
		return 0;
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

static _Noreturn void code_main(struct box_setup *s);

/* Pid 2. It makes the network namespace and limits itself while we mount. */
static int fork_code(struct box_setup *s)
{
	int to_code[2], to_init[2];
	long pid;

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
	return 0;
}

/* The file system is complete. */
static int call_code(struct box_setup *s)
{
	bool lock = s->plan->layers & LAYER_BIT(LOCKED_MOUNTS);
	int r = lock ? detach_old_root(s) : 0;
	char c;

	if (r < 0)
		return r;
	if (write(s->to_code, "", 1) != 1)
		return err_set(&s->err, ERR_SETUP, errno, "tell the code's process");
	if (!lock)
		return detach_old_root(s);
	/* The last namespaces that the box will ever make. */
	if (read(s->from_code, &c, 1) != 1)
		return err_set(&s->err, ERR_SETUP, EPIPE, "the code's process ended");
	return 0;
}

struct step {
	const char *name;
	int (*run)(struct box_setup *s);
	uint32_t layers; /* what it provides; 0: it must work */
};

/* Pid 1: the file system. */
static const struct step steps[] = {
	{ "wait", wait_for_release, 0 },
	{ "ids", become_init_id, 0 },
	{ "parent_death", arm_parent_death, 0 },
	{ "separate_ids", split_ids, LAYER_BIT(UID_SPLIT) },
	{ "keyring", join_keyring, LAYER_BIT(KEYRING) },
	{ "cgroup_namespace", own_cgroup_ns, LAYER_BIT(CGROUP_NS) },
	{ "fork", fork_code, 0 },
	{ "mounts", setup_mounts, 0 },
	{ "masks", setup_masks, LAYER_BIT(PROC_MASKS) },
	{ "read_only", setup_read_only, LAYER_BIT(ROOT_RO) },
	{ "hostname", set_hostname, 0 },
	{ "pivot_root", pivot, 0 },
	{ "join_network", join_network, 0 },
	{ "call_code", call_code, 0 },
	{ "namespace_lock", lock_namespaces, LAYER_BIT(NS_LOCK) },
};

/* Pid 2: what the code's process gives up; the file system is there from "wait_mounts" on. */
static const struct step code_steps[] = {
	{ "stdio", confine_stdio, 0 },
	{ "network", confine_network, LAYER_BIT(NETWORK) | LAYER_BIT(NET_NS) },
	{ "bounding_set", confine_bounding, LAYER_BIT(CAPABILITIES) },
	{ "wait_mounts", confine_wait, 0 },
	{ "code_ids", confine_ids, 0 },
	{ "locked_mounts", confine_mounts, LAYER_BIT(LOCKED_MOUNTS) },
	{ "code_maps", confine_maps, 0 },
	{ "workspace", confine_workspace, 0 },
	{ "rlimits", confine_rlimits, LAYER_BIT(RLIMITS) },
	{ "capabilities", confine_caps, LAYER_BIT(CAPABILITIES) },
	{ "descriptors", confine_fds, 0 },
	{ "no_new_privs", confine_no_new_privs, LAYER_BIT(NO_NEW_PRIVS) },
	{ "landlock", confine_landlock, LAYER_BIT(LANDLOCK) },
	{ "seccomp", confine_seccomp, LAYER_BIT(SECCOMP) },
};

static int run_steps(struct box_setup *s, const struct step *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct step *step = &list[i];
		uint32_t wanted = step->layers & s->plan->layers;
		int r;

		if (step->layers && !wanted)
			continue;
		r = step->run(s);
		if (r < 0 && (!step->layers || wanted & s->plan->required)) {
			(void)snprintf(s->err.step, sizeof(s->err.step), "%s", step->name);
			return r;
		}
		if (r >= 0)
			s->layers |= wanted;
	}
	return 0;
}

static _Noreturn void report_failure(struct box_setup *s)
{
	struct box_report rep = { .kind = BOX_FAILED, .err = s->err };

	(void)sock_send(s->fds[LAUNCH_FD_CONTROL], &rep, sizeof(rep), NULL, 0);
	_exit(126);
}

/* The code's process: confined, verified from outside, released, gone into the program. */
static _Noreturn void code_main(struct box_setup *s)
{
	struct box_report rep = { .kind = BOX_CODE_READY };
	int control;
	char go = 0;

	if (run_steps(s, code_steps, ELEMENTSOF(code_steps)) < 0)
		report_failure(s);
	control = s->fds[LAUNCH_FD_CONTROL]; /* the steps moved it */
	rep.layers = s->layers;
	rep.landlock_abi = s->landlock_abi;
	if (sock_send(control, &rep, sizeof(rep), &s->workspace_fd, 1) < 0)
		_exit(126);
	(void)close(s->workspace_fd);
	if (recv(control, &go, 1, 0) != 1 || go != BOX_GO) {
		(void)err_set(&s->err, ERR_SETUP, errno, "wait for the release");
		(void)snprintf(s->err.step, sizeof(s->err.step), "go");
		report_failure(s);
	}
	(void)execve(s->plan->exec, (char *const *)s->plan->argv, (char *const *)s->plan->env);
	(void)err_set(&s->err, ERR_SETUP, errno, "execute \"%s\"", s->plan->exec);
	(void)snprintf(s->err.step, sizeof(s->err.step), "exec");
	report_failure(s);
}

/* Pid 1 turns into brig-init: no capability, no descriptor but its two. */
static void become_init(struct box_setup *s)
{
	char layers[16];
	char *const argv[] = { (char *)"brig-init", layers, NULL };
	char *const env[] = { NULL };
	int io = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	/* Above the numbers that are about to be taken, so that dup2 cannot clobber one of them. */
	int init = fcntl(s->init_fd, F_DUPFD_CLOEXEC, 100);
	int control = fcntl(s->fds[LAUNCH_FD_CONTROL], F_DUPFD_CLOEXEC, 100);
	int high_io = io < 0 ? FD_NONE : fcntl(io, F_DUPFD_CLOEXEC, 100);
	int r;

	(void)snprintf(layers, sizeof(layers), "%u", (unsigned)s->layers);
	if (init < 0 || control < 0 || dup2(control, INIT_CONTROL_FD) < 0 ||
	    dup3(init, 5, O_CLOEXEC) < 0) {
		(void)err_set(&s->err, ERR_SETUP, errno, "init's descriptors");
		return;
	}
	if (high_io < 0 || dup2(high_io, INIT_IO_FD) < 0)
		(void)close(INIT_IO_FD); /* usage then shows no I/O */
	r = sys_close_range(6, ~0U, 0);
	s->fds[LAUNCH_FD_CONTROL] = INIT_CONTROL_FD;
	if (r < 0) {
		(void)err_set(&s->err, ERR_SETUP, -r, "close_range");
		return;
	}
	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	r = caps_drop_bounding();
	if (r >= 0)
		r = caps_drop_all();
	if (r < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		(void)err_set(&s->err, ERR_SETUP, r < 0 ? -r : errno, "drop init's capabilities");
		return;
	}
	(void)syscall(SYS_execveat, 5, "", argv, env, AT_EMPTY_PATH);
	(void)err_set(&s->err, ERR_SETUP, errno, "execute init");
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
