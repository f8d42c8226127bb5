/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of the host that a box does not need but that stand behind its walls, and what runs
 * the code. Most are files; where a file may be absent the call itself is tried.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/probe_impl.h"
#include "sys/syscalls.h"

#define CLOCK_READS   1000
#define CLOCK_SLOW_NS 500u
#define X32_BIT       0x40000000L

/* ---- sysctls ---- */

struct setting {
	enum probe_id id;
	const char *name;   /* as sysctl spells it */
	long long least;    /* OK from here on */
	const char *absent; /* found text when the kernel has no such knob; it is OK then */
};

static const struct setting settings[] = {
	{ PROBE_KPTR, "kernel.kptr_restrict", 1, NULL },
	{ PROBE_DMESG, "kernel.dmesg_restrict", 1, NULL },
	{ PROBE_PERF, "kernel.perf_event_paranoid", 2, "no perf events in this kernel" },
	{ PROBE_YAMA, "kernel.yama.ptrace_scope", 1, NULL },
};

static void sysctl_path(const char *name, char *path, size_t size)
{
	(void)snprintf(path, size, "/proc/sys/%s", name);
	for (char *p = path + strlen("/proc/sys/"); *p; p++)
		if (*p == '.')
			*p = '/';
}

static int read_sysctl(const char *name, long long *ret)
{
	char path[128];

	sysctl_path(name, path, sizeof(path));
	return probe_read_int(path, ret);
}

static void probe_setting(struct probe_ctx *c, const struct setting *s)
{
	long long value;
	int r = read_sysctl(s->name, &value);

	if (r >= 0 && value >= s->least) {
		probe_set(c, s->id, PROBE_OK, "%s = %lld", s->name, value);
	} else if (r >= 0) {
		probe_set(c, s->id, PROBE_WARN, "%s = %lld", s->name, value);
		probe_remedy(c, s->id, "sysctl -w %s=%lld", s->name, s->least);
	} else if (r == -ENOENT && s->absent) {
		probe_set(c, s->id, PROBE_OK, "%s", s->absent);
	} else {
		probe_set(c, s->id, PROBE_WARN, "%s: %s", s->name,
		          r == -ENOENT ? "not in this kernel" : strerror(-r));
		if (s->id == PROBE_YAMA)
			probe_remedy(c, s->id,
			             "a kernel with CONFIG_SECURITY_YAMA=y and yama in lsm=");
	}
}

static void probe_protected(struct probe_ctx *c)
{
	static const char *const names[] = { "symlinks", "hardlinks", "fifos", "regular" };
	char found[80] = "", remedy[160] = "sysctl -w";
	bool weak = false;

	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		char name[48];
		long long value;
		size_t f = strlen(found), n = strlen(remedy);

		(void)snprintf(name, sizeof(name), "fs.protected_%s", names[i]);
		if (read_sysctl(name, &value) < 0)
			value = 0;
		(void)snprintf(found + f, sizeof(found) - f, "%s%s %lld", i ? ", " : "", names[i],
		               value);
		if (value > 0)
			continue;
		weak = true;
		(void)snprintf(remedy + n, sizeof(remedy) - n, " %s=1", name);
	}
	probe_set(c, PROBE_PROTECTED, weak ? PROBE_WARN : PROBE_OK, "%s", found);
	if (weak)
		probe_remedy(c, PROBE_PROTECTED, "%s", remedy);
}

static void probe_core_pattern(struct probe_ctx *c)
{
	char text[160];
	int r = probe_read("/proc/sys/kernel/core_pattern", text, sizeof(text));

	if (r < 0) {
		probe_set(c, PROBE_CORE_PATTERN, PROBE_WARN, "core_pattern: %s", strerror(-r));
	} else if (text[0] == '|' || text[0] == '@') {
		probe_set(c, PROBE_CORE_PATTERN, PROBE_WARN,
		          text[0] == '|' ? "piped to %s" : "sent to the socket %s", text + 1);
		probe_remedy(c, PROBE_CORE_PATTERN, "sysctl -w kernel.core_pattern=core");
	} else {
		probe_set(c, PROBE_CORE_PATTERN, PROBE_OK, "a file: core_pattern = %s", text);
	}
}

/* ---- calls that should be shut ---- */

/* A null argument: EFAULT means the call is open, and nothing happened. */
static int try_io_uring(void *arg)
{
	(void)arg;
	return sys_ret(syscall(SYS_io_uring_setup, 1, NULL));
}

static void probe_io_uring(struct probe_ctx *c)
{
	long long value = 0;
	int r = probe_child(PROBE_MAP_NONE, 0, try_io_uring, NULL, NULL);
	bool knob = read_sysctl("kernel.io_uring_disabled", &value) >= 0;

	if (r == -ENOSYS || r == -EPERM || (knob && value > 0)) {
		probe_set(c, PROBE_IO_URING, PROBE_OK, "shut (io_uring_disabled = %lld)", value);
		return;
	}
	probe_set(c, PROBE_IO_URING, PROBE_WARN, "open to every user");
	probe_remedy(c, PROBE_IO_URING,
	             knob ? "sysctl -w kernel.io_uring_disabled=1"
	                  : "Linux 6.6 or newer has kernel.io_uring_disabled");
}

static int try_bpf(void *arg)
{
	(void)arg;
	return sys_ret(syscall(SYS_bpf, 0, NULL, 0));
}

static void probe_bpf(struct probe_ctx *c)
{
	long long value = 0;
	int r = read_sysctl("kernel.unprivileged_bpf_disabled", &value);

	if (r >= 0 && value > 0) {
		probe_set(c, PROBE_BPF, PROBE_OK, "shut (unprivileged_bpf_disabled = %lld)", value);
	} else if (r < 0 && probe_child(PROBE_MAP_NONE, 0, try_bpf, NULL, NULL) == -ENOSYS) {
		probe_set(c, PROBE_BPF, PROBE_OK, "not in this kernel");
	} else {
		probe_set(c, PROBE_BPF, PROBE_WARN, "open to every user");
		probe_remedy(c, PROBE_BPF, "sysctl -w kernel.unprivileged_bpf_disabled=1");
	}
}

static int try_userfaultfd(void *arg)
{
	CLEANUP_FD int fd = sys_ret(syscall(SYS_userfaultfd, O_CLOEXEC));

	(void)arg;
	return fd < 0 ? fd : 0;
}

/* As root the call always works: the knob answers for the others. */
static void probe_userfaultfd(struct probe_ctx *c)
{
	long long value = 0;
	int r = probe_child(PROBE_MAP_NONE, 0, try_userfaultfd, NULL, NULL);
	int knob = read_sysctl("vm.unprivileged_userfaultfd", &value);

	if (r == -ENOSYS) {
		probe_set(c, PROBE_USERFAULTFD, PROBE_OK, "not in this kernel");
	} else if (r == -EPERM || (knob >= 0 && value == 0)) {
		probe_set(c, PROBE_USERFAULTFD, PROBE_OK, "shut to ordinary users");
	} else {
		probe_set(c, PROBE_USERFAULTFD, PROBE_WARN, "open to every user");
		probe_remedy(c, PROBE_USERFAULTFD, "sysctl -w vm.unprivileged_userfaultfd=0");
	}
}

#ifdef __x86_64__
/* getpid() by the 32-bit entry. Without emulation the kernel answers with SIGSEGV. */
static int try_int80(void *arg)
{
	long answer;

	(void)arg;
	__asm__ volatile("int $0x80"
	                 : "=a"(answer)
	                 : "a"(20L)
	                 : "memory", "r8", "r9", "r10", "r11");
	return (int)answer == getpid() ? 0 : -ENOSYS;
}

static int try_x32(void *arg)
{
	(void)arg;
	return syscall(X32_BIT | SYS_getpid) == getpid() ? 0 : -ENOSYS;
}

static void probe_ia32(struct probe_ctx *c)
{
	bool ia32 = probe_child(PROBE_MAP_NONE, 0, try_int80, NULL, NULL) >= 0;
	bool x32 = probe_child(PROBE_MAP_NONE, 0, try_x32, NULL, NULL) >= 0;

	probe_set(c, PROBE_IA32, ia32 || x32 ? PROBE_WARN : PROBE_OK, "int 0x80 %s, x32 %s",
	          ia32 ? "answers" : "is shut", x32 ? "answers" : "is shut");
	if (ia32)
		probe_remedy(c, PROBE_IA32, "boot with ia32_emulation=0");
	else if (x32)
		probe_remedy(c, PROBE_IA32, "a kernel with CONFIG_X86_X32_ABI=n");
}
#else
static void probe_ia32(struct probe_ctx *c)
{
	probe_set(c, PROBE_IA32, PROBE_OK, "not on this machine");
}
#endif

/* ---- hardware ---- */

static void probe_mitigations(struct probe_ctx *c)
{
	static const char dir_path[] = "/sys/devices/system/cpu/vulnerabilities";
	DIR *dir = opendir(dir_path);
	char found[100] = "", path[320], text[128];
	size_t n = 0, seen = 0;

	if (!dir) {
		probe_set(c, PROBE_MITIGATIONS, PROBE_WARN, "the kernel does not say");
		return;
	}
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", dir_path, e->d_name);
		if (probe_read(path, text, sizeof(text)) < 0)
			continue;
		seen++;
		if (!str_has_prefix(text, "Vulnerable") || n >= sizeof(found) - 1)
			continue;
		n += (size_t)snprintf(found + n, sizeof(found) - n, "%s%s", n ? ", " : "",
		                      e->d_name);
	}
	(void)closedir(dir);
	if (n == 0) {
		probe_set(c, PROBE_MITIGATIONS, PROBE_OK, "none of %zu left open", seen);
		return;
	}
	probe_set(c, PROBE_MITIGATIONS, PROBE_WARN, "open: %s", found);
	probe_remedy(c, PROBE_MITIGATIONS,
	             "boot with mitigations=auto; install the processor's microcode");
}

static void probe_smt(struct probe_ctx *c)
{
	long long active = 0;
	int r = probe_read_int("/sys/devices/system/cpu/smt/active", &active);

	if (r >= 0 && active == 0) {
		probe_set(c, PROBE_SMT, PROBE_OK, "no");
		return;
	}
	probe_set(c, PROBE_SMT, PROBE_WARN, "%s", r < 0 ? "the kernel does not say" : "yes");
	probe_remedy(c, PROBE_SMT, "echo off > /sys/devices/system/cpu/smt/control");
}

static void probe_kvm(struct probe_ctx *c)
{
	CLEANUP_FD int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int error = errno;

	if (fd >= 0 && ioctl(fd, KVM_GET_API_VERSION, 0) == KVM_API_VERSION) {
		probe_set(c, PROBE_KVM, PROBE_OK, "present, not timed");
		return;
	}
	probe_set(c, PROBE_KVM, PROBE_WARN, "%s",
	          fd < 0 ? strerror(error) : "speaks another version");
	probe_remedy(c, PROBE_KVM, "%s",
	             error == EACCES ? "usermod -aG kvm $USER, then log in again"
	                             : "modprobe kvm_intel or kvm_amd; in a VM, allow nesting");
}

static void probe_clock(struct probe_ctx *c)
{
	char name[48];
	uint64_t began = clock_ns(), each;

	for (int i = 0; i < CLOCK_READS; i++)
		(void)clock_ns();
	each = (clock_ns() - began) / CLOCK_READS;
	if (probe_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
	               sizeof(name)) < 0)
		(void)snprintf(name, sizeof(name), "unknown");
	probe_set(c, PROBE_CLOCK, each > CLOCK_SLOW_NS ? PROBE_WARN : PROBE_OK,
	          "%s, %llu ns a reading", name, (unsigned long long)each);
	if (each > CLOCK_SLOW_NS)
		probe_remedy(c, PROBE_CLOCK,
		             "boot with clocksource=tsc tsc=reliable, if the "
		             "processor's counter is steady");
}

/* ---- interpreters ---- */

/* Where the box would find it; a link that leaves what a box sees leads nowhere in there. */
static int find_program(const char *name, char *ret, size_t size)
{
	static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin" };

	for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
		char path[64], link[32], real[256];
		CLEANUP_FD int fd = FD_NONE;
		struct stat st;
		ssize_t n;

		(void)snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		fd = open(path, O_PATH | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		    faccessat(AT_FDCWD, path, X_OK, 0) < 0)
			continue;
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, real, sizeof(real) - 1);
		if (n < 0)
			continue;
		real[n] = '\0';
		if (!str_has_prefix(real, "/usr/") && !str_has_prefix(real, "/bin/"))
			continue;
		if (streq(real, path))
			(void)snprintf(ret, size, "%s", path);
		else
			(void)snprintf(ret, size, "%s, which is %s", path, real);
		return 0;
	}
	return -ENOENT;
}

static void probe_program(struct probe_ctx *c, enum probe_id id, const char *name,
                          const char *package)
{
	char found[400];

	if (find_program(name, found, sizeof(found)) >= 0) {
		probe_set(c, id, PROBE_OK, "%s", found);
		return;
	}
	probe_set(c, id, PROBE_MISSING, "not in /usr/local/bin, /usr/bin or /bin");
	probe_remedy(c, id, "apt install %s", package);
}

void probe_settings(struct probe_ctx *c)
{
	probe_core_pattern(c);
	probe_io_uring(c);
	probe_bpf(c);
	probe_userfaultfd(c);
	for (size_t i = 0; i < ELEMENTSOF(settings); i++)
		probe_setting(c, &settings[i]);
	probe_protected(c);
	probe_ia32(c);
	probe_mitigations(c);
	probe_smt(c);
	probe_kvm(c);
	probe_clock(c);
	probe_program(c, PROBE_PYTHON, "python3", "python3");
	probe_program(c, PROBE_NODE, "node", "nodejs");
	probe_program(c, PROBE_BASH, "bash", "bash");
}
