/* SPDX-License-Identifier: Apache-2.0 */
/* probe ID [args]: runs one attack and prints one line of JSON. */
#include "probe.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma weak probes_fs
#pragma weak probes_su
#pragma weak probes_ps
#pragma weak probes_fd
#pragma weak probes_ns
#pragma weak probes_cp
#pragma weak probes_sc
#pragma weak probes_ll
#pragma weak probes_rs
#pragma weak probes_pk

static const struct probe *const groups[] = {
	probes_fs, probes_su, probes_ps, probes_fd, probes_ns,
	probes_cp, probes_sc, probes_ll, probes_rs, probes_pk,
};

#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

long raw_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
	                 : "=a"(ret)
	                 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return ret;
}

void tally_init(struct tally *t, char *detail, size_t n)
{
	*t = (struct tally){ .result = PROBE_BLOCKED, .detail = detail, .n = n };
}

static void tally_vnote(struct tally *t, const char *fmt, va_list ap)
{
	int len;

	if (t->used + 1 >= t->n)
		return;
	if (t->used > 0)
		t->used += (size_t)snprintf(t->detail + t->used, t->n - t->used, "; ");
	if (t->used + 1 >= t->n) {
		t->used = t->n - 1;
		return;
	}
	len = vsnprintf(t->detail + t->used, t->n - t->used, fmt, ap);
	if (len > 0)
		t->used += (size_t)len;
	if (t->used >= t->n)
		t->used = t->n - 1;
}

void tally_note(struct tally *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tally_vnote(t, fmt, ap);
	va_end(ap);
}

void tally_escaped(struct tally *t, const char *fmt, ...)
{
	va_list ap;

	t->attempts++;
	t->result = PROBE_ESCAPED;
	va_start(ap, fmt);
	tally_vnote(t, fmt, ap);
	va_end(ap);
}

void tally_error(struct tally *t, const char *fmt, ...)
{
	va_list ap;

	t->attempts++;
	if (t->result == PROBE_BLOCKED)
		t->result = PROBE_ERROR;
	va_start(ap, fmt);
	tally_vnote(t, fmt, ap);
	va_end(ap);
}

void tally_expect_list(struct tally *t, const char *what, long r, const int *errnos)
{
	if (r >= 0) {
		tally_escaped(t, "%s succeeded (%ld)", what, r);
		return;
	}
	for (const int *e = errnos; *e; e++) {
		if (r == -*e) {
			t->attempts++;
			return;
		}
	}
	tally_error(t, "%s gave unexpected %s", what, errno_name((int)-r));
}

int tally_result(const struct tally *t)
{
	return t->attempts == 0 ? PROBE_ERROR : t->result;
}

int try_open(const char *path, int flags)
{
	return (int)RAW(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

ssize_t try_read(const char *path, char *buf, size_t n)
{
	int fd = try_open(path, O_RDONLY | O_NONBLOCK);
	long r;

	if (fd < 0)
		return fd;
	r = RAW(SYS_read, fd, buf, n - 1);
	(void)RAW(SYS_close, fd);
	if (r >= 0)
		buf[r] = '\0';
	return r;
}

ssize_t try_write(const char *path, const void *data, size_t n)
{
	int fd = try_open(path, O_WRONLY | O_NONBLOCK);
	long r;

	if (fd < 0)
		return fd;
	r = RAW(SYS_write, fd, data, n);
	(void)RAW(SYS_close, fd);
	return r;
}

int try_create(const char *path, mode_t mode, const char *text)
{
	int fd =
		(int)RAW(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	long r;

	if (fd < 0)
		return fd;
	r = RAW(SYS_write, fd, text, strlen(text));
	(void)RAW(SYS_close, fd);
	return r < 0 ? (int)r : 0;
}

long in_child(long (*fn)(void *arg), void *arg, int *ret_sig)
{
	int p[2], status;
	long r = -ECHILD;
	pid_t pid;

	*ret_sig = 0;
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		r = -errno;
		close(p[0]);
		close(p[1]);
		return r;
	}
	if (pid == 0) {
		r = fn(arg);
		_exit(write(p[1], &r, sizeof(r)) == (ssize_t)sizeof(r) ? 0 : 1);
	}
	close(p[1]);
	if (read(p[0], &r, sizeof(r)) != (ssize_t)sizeof(r))
		r = -ECHILD;
	close(p[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		*ret_sig = WTERMSIG(status);
	return r;
}

int copy_self(int out)
{
	static char buf[1 << 16];
	int in = try_open("/proc/self/exe", O_RDONLY);
	long r = in;

	while (in >= 0 && (r = RAW(SYS_read, in, buf, sizeof(buf))) > 0)
		if (RAW(SYS_write, out, buf, r) != r) {
			r = -EIO;
			break;
		}
	if (in >= 0)
		(void)RAW(SYS_close, in);
	return (int)r;
}

long long status_field(const char *name, int base)
{
	static char text[8192];
	const char *p;
	size_t n = strlen(name);

	if (try_read("/proc/self/status", text, sizeof(text)) < 0)
		return -1;
	for (p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, name, n) == 0 && p[n] == ':')
			return (long long)strtoull(p + n + 1, NULL, base);
	}
	return -1;
}

long long core_limit(void)
{
	static const char name[] = "Max core file size";
	static char text[4096];
	char hard[32];
	const char *p;

	if (try_read("/proc/self/limits", text, sizeof(text)) < 0)
		return -1;
	p = strstr(text, name);
	if (!p || sscanf(p + sizeof(name) - 1, "%*s %31s", hard) != 1)
		return -1;
	return strcmp(hard, "unlimited") == 0 ? LLONG_MAX : strtoll(hard, NULL, 10);
}

void tally_confined(struct tally *t)
{
	static const char *const caps[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };

	t->attempts++;
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
		if (status_field(caps[i], 16) != 0)
			tally_escaped(t, "%s is %llx", caps[i], status_field(caps[i], 16));
	if (status_field("NoNewPrivs", 10) != 1)
		tally_escaped(t, "no_new_privs is off");
	if (status_field("Seccomp", 10) != 2)
		tally_escaped(t, "there is no seccomp filter");
}

const char *errno_name(int e)
{
	static char other[32];

	switch (e) {
#define CASE(name)                                                                                 \
	case name:                                                                                 \
		return #name
		CASE(EPERM);
		CASE(ENOENT);
		CASE(ESRCH);
		CASE(EINTR);
		CASE(EIO);
		CASE(ENXIO);
		CASE(E2BIG);
		CASE(ENOEXEC);
		CASE(EBADF);
		CASE(ECHILD);
		CASE(EAGAIN);
		CASE(ENOMEM);
		CASE(EACCES);
		CASE(EFAULT);
		CASE(EBUSY);
		CASE(EEXIST);
		CASE(EXDEV);
		CASE(ENODEV);
		CASE(ENOTDIR);
		CASE(EISDIR);
		CASE(EINVAL);
		CASE(ENFILE);
		CASE(EMFILE);
		CASE(ENOTTY);
		CASE(ETXTBSY);
		CASE(EFBIG);
		CASE(ENOSPC);
		CASE(ESPIPE);
		CASE(EROFS);
		CASE(EMLINK);
		CASE(EPIPE);
		CASE(ENAMETOOLONG);
		CASE(ENOSYS);
		CASE(ELOOP);
		CASE(ENODATA);
		CASE(EOVERFLOW);
		CASE(EUSERS);
		CASE(EOPNOTSUPP);
		CASE(EPROTONOSUPPORT);
		CASE(ESOCKTNOSUPPORT);
		CASE(EAFNOSUPPORT);
		CASE(EADDRINUSE);
		CASE(EADDRNOTAVAIL);
		CASE(ENETUNREACH);
		CASE(EHOSTUNREACH);
		CASE(ECONNREFUSED);
		CASE(ETOOMANYREFS);
		CASE(ETIMEDOUT);
		CASE(ESTALE);
		CASE(EDQUOT);
		CASE(ENOKEY);
#undef CASE
	default:
		snprintf(other, sizeof(other), "errno %d", e);
		return other;
	}
}

static void print_json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static const struct probe *find(const char *id)
{
	for (size_t i = 0; i < N_GROUPS; i++)
		for (const struct probe *p = groups[i]; p && p->id; p++)
			if (strcmp(p->id, id) == 0)
				return p;
	return NULL;
}

static int list(void)
{
	for (size_t i = 0; i < N_GROUPS; i++)
		for (const struct probe *p = groups[i]; p && p->id; p++)
			puts(p->id);
	return 0;
}

int main(int argc, char **argv)
{
	static char detail[4096];
	const struct probe *p;
	int r;

	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	p = argc > 1 ? find(argv[1]) : NULL;
	if (!p) {
		fprintf(stderr, "usage: probe --list | ID [args]\n");
		return PROBE_ERROR;
	}
	r = p->run(argc - 2, argv + 2, detail, sizeof(detail));
	printf("{\"id\":");
	print_json_string(p->id);
	printf(",\"result\":\"%s\",\"detail\":", r == PROBE_BLOCKED   ? "blocked"
	                                         : r == PROBE_ESCAPED ? "escaped"
	                                                              : "error");
	print_json_string(detail);
	puts("}");
	fflush(stdout);
	return r == PROBE_BLOCKED || r == PROBE_ESCAPED ? r : PROBE_ERROR;
}
