/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the code's process gives up before it runs, in this order: ids, limits, capabilities,
 * descriptors, the right to gain privileges, file and socket access (Landlock), system calls
 * (seccomp, last, because everything before needs calls that it denies).
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "launch/box.h"
#include "sys/caps.h"
#include "sys/cgroup.h"
#include "sys/file.h"
#include "sys/landlock.h"
#include "sys/netns.h"
#include "sys/syscalls.h"
#include "sys/uapi/landlock.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef PR_SET_THP_DISABLE
#define PR_SET_THP_DISABLE 41
#endif

/* The descriptors that stay until the go, at numbers that stdio cannot clobber. */
enum { CONTROL_AT = 3, WORKSPACE_AT = 4, REPORT_AT = BOX_REPORT_FD };

/* Init and a zygote's child put themselves in, while they still may: "0" is the writer. */
int confine_cgroup(struct box_setup *s)
{
	for (size_t i = 0; i < s->n_cgroup_fds && !s->in_cgroup; i++) {
		if (write(s->cgroup_fds[i], "0", 1) != 1)
			return err_set(&s->err, ERR_SETUP, errno, "enter the box's cgroup");
		s->cgroup_fds[i] = fd_close(s->cgroup_fds[i]);
	}
	return 0;
}

/* All of init's at once but the pid namespace, which was there from the fork. */
int confine_join(struct box_setup *s)
{
	static const struct {
		uint32_t layer;
		int flag;
	} namespaces[] = {
		{ LAYER_BIT(USER_NS), CLONE_NEWUSER },     { LAYER_BIT(MOUNT_NS), CLONE_NEWNS },
		{ LAYER_BIT(NET_NS), CLONE_NEWNET },       { LAYER_BIT(IPC_NS), CLONE_NEWIPC },
		{ LAYER_BIT(UTS_NS), CLONE_NEWUTS },       { LAYER_BIT(TIME_NS), CLONE_NEWTIME },
		{ LAYER_BIT(CGROUP_NS), CLONE_NEWCGROUP },
	};
	int flags = 0;
	char c;

	if (read(s->from_code, &c, 1) != 1)
		return err_set(&s->err, ERR_SETUP, EPIPE, "init ended");
	for (size_t i = 0; i < ELEMENTSOF(namespaces); i++)
		if (s->plan->layers & namespaces[i].layer)
			flags |= namespaces[i].flag;
	if (setns(s->pidfd, flags) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "join the box's namespaces");
	return 0;
}

int confine_keyring(struct box_setup *s)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "join a new session keyring");
	return 0;
}

int confine_stdio(struct box_setup *s)
{
	int high[LAUNCH_FDS], to, from;

	if (setsid() < 0)
		return err_set(&s->err, ERR_SETUP, errno, "setsid");
	to = fcntl(s->to_code, F_DUPFD_CLOEXEC, 100);
	from = fcntl(s->from_code, F_DUPFD_CLOEXEC, 100);
	for (int i = LAUNCH_FD_STDIN; i < LAUNCH_FDS; i++) {
		high[i] = s->fds[i] < 0 ? FD_NONE : fcntl(s->fds[i], F_DUPFD_CLOEXEC, 100);
		if (high[i] < 0 && s->fds[i] >= 0)
			return err_set(&s->err, ERR_SETUP, errno, "move descriptors");
	}
	for (int i = LAUNCH_FD_STDIN; i <= LAUNCH_FD_STDERR; i++)
		if (high[i] >= 0 && dup2(high[i], i - LAUNCH_FD_STDIN) < 0)
			return err_set(&s->err, ERR_SETUP, errno, "place stdio");
	if (to < 0 || from < 0 || dup3(high[LAUNCH_FD_CONTROL], CONTROL_AT, O_CLOEXEC) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "place the descriptors");
	if (high[LAUNCH_FD_REPORT] >= 0 && dup2(high[LAUNCH_FD_REPORT], REPORT_AT) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "place the report's descriptor");
	s->fds[LAUNCH_FD_CONTROL] = CONTROL_AT;
	s->to_code = to;
	s->from_code = from;
	return 0;
}

/*
 * Made here and not by clone3: it takes as long as all mounting, and this process has nothing to
 * do meanwhile. Init joins it before anything else happens.
 */
int confine_network(struct box_setup *s)
{
	int r;

	if (s->network_there)
		return 0;
	r = unshare(CLONE_NEWNET) < 0 ? -errno : 0;
	/* In any case: init waits for it. */
	if (write(s->to_code, "", 1) != 1)
		return err_set(&s->err, ERR_SETUP, errno, "tell init");
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "make a network namespace") : 0;
}

int confine_loopback(struct box_setup *s)
{
	int r;

	if (s->network_there || !s->plan->loopback || !(s->plan->layers & LAYER_BIT(NET_NS)))
		return 0;
	r = netns_loopback_up();
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "bring up loopback") : 0;
}

int confine_wait(struct box_setup *s)
{
	char c;

	if (read(s->from_code, &c, 1) != 1)
		return err_set(&s->err, ERR_SETUP, EPIPE, "init ended");
	return 0;
}

int confine_workspace(struct box_setup *s)
{
	int fd;

	if (chdir(s->plan->cwd) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "enter \"%s\"", s->plan->cwd);
	fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || dup3(fd, WORKSPACE_AT, O_CLOEXEC) != WORKSPACE_AT)
		return err_set(&s->err, ERR_SETUP, errno, "open \"%s\"", s->plan->cwd);
	s->workspace_fd = WORKSPACE_AT;
	(void)file_write(AT_FDCWD, "/proc/self/oom_score_adj", "1000");
	return 0;
}

/* From init's uid to the code's; capabilities stay, for no uid here is or was 0. */
int confine_ids(struct box_setup *s)
{
	uint32_t id = s->plan->code_id;

	if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "become uid %u", id);
	/* A change of uid cleared it, and the caller's check needs it; exec sets it anew. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "PR_SET_DUMPABLE");
	(void)umask(022);
	return 0;
}

/*
 * A user and mount namespace of the code's own below the box's: every mount it sees is then locked,
 * so that even with all capabilities in it nothing can be unmounted or remounted.
 */
int confine_mounts(struct box_setup *s)
{
	int r = unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? -errno : 0;

	/* Pid 1 now forbids any further namespace. */
	if (write(s->to_code, "", 1) != 1)
		return err_set(&s->err, ERR_SETUP, errno, "tell init");
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "lock the mounts") : 0;
}

/* A step of its own: the locks may be missing, but a namespace without ids may not. */
int confine_maps(struct box_setup *s)
{
	char map[32];
	int r = 0;

	if (!(s->layers & LAYER_BIT(LOCKED_MOUNTS)))
		return 0;
	(void)snprintf(map, sizeof(map), "%u %u 1\n", s->plan->code_id, s->plan->code_id);
	r = file_write(AT_FDCWD, "/proc/self/uid_map", map);
	if (r >= 0)
		r = file_write(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r >= 0)
		r = file_write(AT_FDCWD, "/proc/self/gid_map", map);
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "map the code's ids") : 0;
}

static int set_rlimit(struct box_setup *s, const struct plan_rlimit *l)
{
	struct rlimit want = { l->value, l->value }, have;

	if (getrlimit((int)l->resource, &have) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "read rlimit %u", l->resource);
	if (have.rlim_max < want.rlim_max) /* the host's own limit is tighter: keep it */
		want.rlim_cur = want.rlim_max = have.rlim_max;
	if (setrlimit((int)l->resource, &want) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "set rlimit %u", l->resource);
	return 0;
}

int confine_rlimits(struct box_setup *s)
{
	int r = 0;

	for (size_t i = 0; i < s->plan->n_rlimits && r >= 0; i++)
		if (s->plan->rlimits[i].resource != RLIMIT_NOFILE)
			r = set_rlimit(s, &s->plan->rlimits[i]);
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	return r;
}

/*
 * When the last descriptor is sent: what other boxes of an ordinary user have on their way counts
 * against this limit of ours.
 */
int confine_files(struct box_setup *s)
{
	int r = 0;

	if (!(s->layers & LAYER_BIT(RLIMITS)))
		return 0;
	for (size_t i = 0; i < s->plan->n_rlimits && r >= 0; i++)
		if (s->plan->rlimits[i].resource == RLIMIT_NOFILE)
			r = set_rlimit(s, &s->plan->rlimits[i]);
	return r;
}

/* The capabilities themselves are still needed. */
int confine_bounding(struct box_setup *s)
{
	int r = caps_drop_bounding();

	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "empty the bounding set") : 0;
}

int confine_caps(struct box_setup *s)
{
	int r = 0;

	if (s->layers & LAYER_BIT(LOCKED_MOUNTS)) /* a new user namespace starts with all again */
		r = caps_drop_bounding();
	if (r >= 0)
		r = caps_drop_all();
	return r < 0 ? err_set(&s->err, ERR_SETUP, -r, "drop capabilities") : 0;
}

/* Really closed, not only marked for exec. */
int confine_fds(struct box_setup *s)
{
	bool report = s->fds[LAUNCH_FD_REPORT] >= 0;
	int r = sys_close_range(report ? REPORT_AT + 1 : WORKSPACE_AT + 1, ~0U, 0);

	if (r < 0)
		return err_set(&s->err, ERR_SETUP, -r, "close_range");
	return 0;
}

int confine_no_new_privs(struct box_setup *s)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "PR_SET_NO_NEW_PRIVS");
	return 0;
}

static uint64_t rights_of(enum plan_access access, uint64_t all)
{
	const uint64_t read = LL_FS_READ_FILE | LL_FS_READ_DIR;
	const uint64_t nodes = LL_FS_MAKE_CHAR | LL_FS_MAKE_BLOCK;

	switch (access) {
	case PLAN_ACCESS_LIST:
		return LL_FS_READ_DIR;
	case PLAN_ACCESS_READ:
		return read;
	case PLAN_ACCESS_READ_EXEC:
		return read | LL_FS_EXECUTE;
	case PLAN_ACCESS_WRITE:
		return all & ~(nodes | LL_FS_EXECUTE | LL_FS_IOCTL_DEV);
	case PLAN_ACCESS_WRITE_EXEC:
		return all & ~(nodes | LL_FS_IOCTL_DEV);
	case PLAN_ACCESS_DEVICE:
		return all & (read | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV);
	case PLAN_ACCESS_NONE:
	case PLAN_ACCESS_COUNT:
		return 0;
	}
	return 0;
}

static int allow(struct box_setup *s, int ruleset, const struct plan_rule *rule, uint64_t all)
{
	CLEANUP_FD int fd = open(rule->path, O_PATH | O_CLOEXEC);
	int r;

	if (fd < 0 && errno == ENOENT)
		return 0; /* a rule about nothing allows nothing */
	if (fd < 0)
		return err_set(&s->err, ERR_SETUP, errno, "open \"%s\" for Landlock", rule->path);
	r = landlock_allow(ruleset, fd, rights_of(rule->access, all) & all);
	if (r < 0)
		return err_set(&s->err, ERR_SETUP, -r, "Landlock rule for \"%s\"", rule->path);
	return 0;
}

int confine_landlock(struct box_setup *s)
{
	int abi = landlock_abi();
	uint64_t all = landlock_fs_rights(abi);
	CLEANUP_FD int ruleset = FD_NONE;
	int r = 0;

	if (abi < 1)
		return err_set(&s->err, ERR_UNSUPPORTED, EOPNOTSUPP, "the kernel has no Landlock");
	ruleset = landlock_create(abi, !s->plan->loopback);
	if (ruleset < 0)
		return err_set(&s->err, ERR_SETUP, -ruleset, "create a Landlock ruleset");
	for (size_t i = 0; i < s->plan->n_rules && r >= 0; i++)
		r = allow(s, ruleset, &s->plan->rules[i], all);
	if (r < 0)
		return r;
	r = landlock_enforce(ruleset);
	if (r < 0)
		return err_set(&s->err, ERR_SETUP, -r, "enforce Landlock");
	s->landlock_abi = abi;
	if (abi >= 6)
		s->layers |= LAYER_BIT(LANDLOCK_SCOPE) & s->plan->layers;
	else if (s->plan->required & LAYER_BIT(LANDLOCK_SCOPE))
		return err_set(&s->err, ERR_UNSUPPORTED, EOPNOTSUPP,
		               "Landlock ABI %d has no scopes", abi);
	return 0;
}

int confine_seccomp(struct box_setup *s)
{
	struct sock_fprog prog = {
		.len = (unsigned short)s->plan->n_seccomp,
		.filter = (struct sock_filter *)s->plan->seccomp,
	};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_set(&s->err, ERR_SETUP, errno, "load the seccomp filter");
	return 0;
}
