/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "sys/file.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"

#define CONTAINER_REMEDY                                                                           \
	"an outer seccomp filter blocks it: give the container --security-opt seccomp=unconfined"

/* ---- the report ---- */

const char *probe_state_name(enum probe_state state)
{
	switch (state) {
	case PROBE_MISSING:
		return "missing";
	case PROBE_WARN:
		return "warn";
	case PROBE_OK:
		return "ok";
	}
	return "missing";
}

static PRINTF_LIKE(3, 0) void put(char *to, size_t size, const char *fmt, va_list ap)
{
	if (vsnprintf(to, size, fmt, ap) < 0)
		to[0] = '\0';
	/* What the kernel's files hold is shown on a terminal: one line, no escapes. */
	for (char *p = to; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
}

void probe_set(struct probe_ctx *c, enum probe_id id, enum probe_state state, const char *fmt, ...)
{
	struct probe_item *item = &c->report->items[id];
	va_list ap;

	item->state = state;
	item->remedy[0] = '\0';
	va_start(ap, fmt);
	put(item->found, sizeof(item->found), fmt, ap);
	va_end(ap);
}

void probe_remedy(struct probe_ctx *c, enum probe_id id, const char *fmt, ...)
{
	struct probe_item *item = &c->report->items[id];
	va_list ap;

	va_start(ap, fmt);
	put(item->remedy, sizeof(item->remedy), fmt, ap);
	va_end(ap);
}

void probe_result(struct probe_ctx *c, enum probe_id id, int r, const char *found,
                  const char *since)
{
	if (r >= 0) {
		probe_set(c, id, PROBE_OK, "%s", found);
		return;
	}
	if (r == PROBE_NO_USERNS) {
		probe_set(c, id, PROBE_MISSING, "not tried: no user namespace");
		return;
	}
	probe_set(c, id, PROBE_MISSING, "%s", strerror(-r));
	if (c->outer_filter && (r == -ENOSYS || r == -EPERM))
		probe_remedy(c, id, "%s", CONTAINER_REMEDY);
	else
		probe_remedy(c, id, "%s", since);
}

/* ---- small files ---- */

int probe_read(const char *path, char *text, size_t size)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t n = 0;

	if (fd < 0)
		return -errno;
	while (n < size - 1) {
		ssize_t got = read(fd, text + n, size - 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return (int)n;
}

int probe_read_int(const char *path, long long *ret)
{
	char text[32];
	uint64_t value;
	bool negative;
	int r = probe_read(path, text, sizeof(text));

	if (r < 0)
		return r;
	negative = text[0] == '-';
	r = parse_u64(text + negative, &value);
	if (r < 0)
		return r;
	if (value > INT64_MAX)
		value = INT64_MAX;
	*ret = negative ? -(long long)value : (long long)value;
	return 0;
}

int probe_mount(const char *source, const char *target, const char *type, unsigned long flags,
                const char *options)
{
	return sys_ret(syscall(SYS_mount, source, target, type, flags, options));
}

/* ---- children ---- */

static int write_map(pid_t pid, const char *name, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return file_write(AT_FDCWD, path, text);
}

static int map_ids(enum probe_map map, pid_t pid)
{
	char uids[64], gids[64];
	int r;

	if (map == PROBE_MAP_PAIR) {
		(void)snprintf(uids, sizeof(uids), "1 %u 1\n1000 %u 1\n", PROBE_BOX_ID,
		               PROBE_BOX_ID + 1);
		r = write_map(pid, "gid_map", uids);
		return r < 0 ? r : write_map(pid, "uid_map", uids);
	}
	(void)snprintf(uids, sizeof(uids), "1000 %u 1\n", (unsigned)geteuid());
	(void)snprintf(gids, sizeof(gids), "1000 %u 1\n", (unsigned)getegid());
	r = write_map(pid, "setgroups", "deny");
	if (r < 0)
		return r;
	r = write_map(pid, "gid_map", gids);
	return r < 0 ? r : write_map(pid, "uid_map", uids);
}

static int become_first_id(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(1, 1, 1) < 0 || setresuid(1, 1, 1) < 0)
		return -errno;
	return sys_ret(prctl(PR_SET_PDEATHSIG, SIGKILL)); /* the change of ids cleared it */
}

/* Never returns. done_fd stays open until the child is gone: its end tells the parent. */
static _Noreturn void run_child(enum probe_map map, int go_fd, probe_fn *fn, void *arg)
{
	char byte;
	int r = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGSEGV, SIG_DFL); /* a caller's handlers are not for what is tried here */
	(void)signal(SIGSYS, SIG_DFL);
	if (read(go_fd, &byte, 1) != 1)
		_exit(EPIPE); /* not mapped, or the parent is gone */
	if (map == PROBE_MAP_PAIR)
		r = become_first_id();
	if (r >= 0)
		r = fn(arg);
	_exit(r < 0 ? -r & 0xff : 0);
}

int probe_reap(pid_t pid, int done_fd)
{
	uint64_t until = clock_ms() + PROBE_TIMEOUT_MS;
	struct pollfd done = { .fd = done_fd, .events = POLLIN };
	bool late = true;
	int status;

	for (uint64_t now = clock_ms(); now < until; now = clock_ms()) {
		int n = poll(&done, 1, (int)(until - now));

		if (n < 0 && errno == EINTR)
			continue;
		late = n <= 0;
		break;
	}
	if (late)
		(void)kill(pid, SIGKILL); /* not yet waited for: the number is still its own */
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (late)
		return -ETIMEDOUT;
	if (WIFEXITED(status))
		return -WEXITSTATUS(status);
	if (WTERMSIG(status) == SIGSYS)
		return -ENOSYS;
	return WTERMSIG(status) == SIGSEGV ? -EFAULT : -EINTR;
}

int probe_inside(const struct probe_ctx *c, unsigned long flags, probe_fn *fn, void *arg)
{
	return c->map == PROBE_MAP_NONE ? PROBE_NO_USERNS
	                                : probe_child(c->map, flags, fn, arg, NULL);
}

int probe_child(enum probe_map map, unsigned long flags, probe_fn *fn, void *arg, bool *ret_made)
{
	CLEANUP_FD int go_read = FD_NONE;
	CLEANUP_FD int go_write = FD_NONE;
	CLEANUP_FD int done_read = FD_NONE;
	CLEANUP_FD int done_write = FD_NONE;
	int go[2], done[2], pid, r = 0, ended;

	if (ret_made)
		*ret_made = false;
	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	go_read = go[0];
	go_write = go[1];
	if (pipe2(done, O_CLOEXEC) < 0)
		return -errno;
	done_read = done[0];
	done_write = done[1];

	if (map != PROBE_MAP_NONE)
		flags |= CLONE_NEWUSER;
	/* Not clone3: outer containers hide it. No stack: the child goes on in its own copy. */
	pid = sys_ret(syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL));
	if (pid < 0)
		return pid;
	if (pid == 0) {
		(void)close(go_write);
		(void)close(done_read);
		run_child(map, go_read, fn, arg);
	}
	fd_closep(&done_write);
	fd_closep(&go_read);
	if (map != PROBE_MAP_NONE)
		r = map_ids(map, pid);
	if (r >= 0) {
		if (ret_made)
			*ret_made = true;
		r = write(go_write, "g", 1) == 1 ? 0 : -EPIPE;
	}
	fd_closep(&go_write);
	ended = probe_reap(pid, done_read);
	return r < 0 ? r : ended;
}

/* ---- */

static bool has_outer_filter(void)
{
	char text[4096];
	const char *line;

	if (probe_read("/proc/self/status", text, sizeof(text)) < 0)
		return false;
	line = strstr(text, "\nSeccomp:\t");
	return line && line[strlen("\nSeccomp:\t")] == '2';
}

static void run_probes(struct probe_ctx *c)
{
	probe_namespaces(c);
	probe_files(c);
	probe_kernel(c);
	probe_cgroups(c);
	probe_settings(c);
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

int probe_host(struct probe_report *ret)
{
	static const struct probe_item rows[PROBE_COUNT] = {
#define X(id_, name_, group_, title_, cost_)                                                       \
	[PROBE_##id_] = { .id = name_, .group = group_, .title = title_, .cost = cost_ },
		PROBE_TABLE(X)
#undef X
	};
	struct probe_report report;
	struct probe_ctx c = {
		.report = &report,
		.outer_filter = has_outer_filter(),
	};
	sigset_t wait_for, old;
	int r;

	memcpy(report.items, rows, sizeof(rows));
	r = probe_child(PROBE_MAP_NONE, 0, nothing, NULL, NULL);
	if (r < 0)
		return r;
	c.shared = mmap(NULL, PROBE_SHARED * sizeof(int), PROT_READ | PROT_WRITE,
	                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c.shared == MAP_FAILED)
		return -errno;

	(void)sigemptyset(&wait_for);
	(void)sigaddset(&wait_for, SIGINT);
	(void)sigaddset(&wait_for, SIGTERM);
	(void)sigaddset(&wait_for, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &wait_for, &old);
	run_probes(&c);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);

	(void)munmap(c.shared, PROBE_SHARED * sizeof(int));
	*ret = report;
	return 0;
}
