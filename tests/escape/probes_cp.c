/* SPDX-License-Identifier: Apache-2.0 */
/* CP: credentials and capabilities. */
#include "probe.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char status[16384];

static bool read_status(struct tally *t)
{
	ssize_t r = try_read("/proc/self/status", status, sizeof(status));

	if (r < 0)
		tally_error(t, "/proc/self/status: %s", errno_name((int)-r));
	return r > 0;
}

/* The value after "NAME:\t", up to the end of the line. */
static const char *field(const char *name, char *buf, size_t n)
{
	size_t len = strlen(name);

	buf[0] = '\0';
	for (const char *l = status; l && *l; l = strchr(l, '\n'), l = l ? l + 1 : NULL) {
		if (strncmp(l, name, len) != 0 || l[len] != ':')
			continue;
		l += len + 1;
		l += strspn(l, " \t");
		snprintf(buf, n, "%.*s", (int)strcspn(l, "\n"), l);
		for (size_t i = strlen(buf); i > 0 && buf[i - 1] == ' ';)
			buf[--i] = '\0';
		return buf;
	}
	return NULL;
}

static int cp_01(int argc, char **argv, char *detail, size_t n)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
	struct tally t;
	char value[64];

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (!read_status(&t))
		return tally_result(&t);
	for (size_t i = 0; i < 5; i++) {
		if (!field(sets[i], value, sizeof(value)))
			tally_error(&t, "no %s", sets[i]);
		else if (strspn(value, "0") != strlen(value))
			tally_escaped(&t, "%s=%s", sets[i], value);
		else
			t.attempts++;
	}
	return tally_result(&t);
}

static int cp_02(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	char value[64];
	long bits;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	if (!read_status(&t))
		return tally_result(&t);
	t.attempts++;
	if (!field("NoNewPrivs", value, sizeof(value)) || strcmp(value, "1") != 0)
		tally_escaped(&t, "NoNewPrivs=%s", value);
	if (!field("Seccomp", value, sizeof(value)) || strcmp(value, "2") != 0)
		tally_escaped(&t, "Seccomp=%s", value);
	if (!field("Seccomp_filters", value, sizeof(value)) || strtol(value, NULL, 10) < 1)
		tally_escaped(&t, "Seccomp_filters=%s", value);
	/* Not to be read under the filter. */
	bits = RAW(SYS_prctl, PR_GET_SECUREBITS);
	if (bits < 0)
		tally_note(&t, "securebits=%s", errno_name((int)-bits));
	else
		tally_note(&t, "securebits=%#lx", bits);
	return tally_result(&t);
}

/* cp_03 PROGRAM…: runs each; they print their ids or capabilities, the test reads them. */
static int cp_03(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;

	tally_init(&t, detail, n);
	for (int i = 0; i < argc; i++) {
		char out[512] = "", *args[4] = { argv[i] };
		size_t used = 0;
		ssize_t r;
		pid_t pid;
		int p[2], st;

		if (strstr(argv[i], "grep")) {
			args[1] = "Cap[PE]";
			args[2] = "/proc/self/status";
		}
		if (pipe(p) < 0 || (pid = fork()) < 0) {
			tally_error(&t, "fork: %s", errno_name(errno));
			return tally_result(&t);
		}
		if (pid == 0) {
			dup2(p[1], 1);
			execv(argv[i], args);
			dprintf(1, "exec: %s", errno_name(errno));
			_exit(9);
		}
		close(p[1]);
		while ((r = read(p[0], out + used, sizeof(out) - 1 - used)) > 0)
			used += (size_t)r;
		close(p[0]);
		waitpid(pid, &st, 0);
		for (char *c = out; *c; c++)
			if (*c == '\n' || *c == '\t')
				*c = ' ';
		if (strcmp(out, "exec: EPERM") == 0)
			t.attempts++; /* the kernel's answer to capabilities it may not give */
		else if (WIFEXITED(st) && WEXITSTATUS(st) == 9)
			tally_error(&t, "%s: %s", argv[i], out);
		else if (strstr(out, "euid=0") ||
		         (strstr(out, "CapEff: ") && !strstr(out, "CapEff: 0000000000000000")))
			tally_escaped(&t, "%s: %s", argv[i], out);
		else {
			t.attempts++;
			tally_note(&t, "%s: %s", argv[i], out);
		}
	}
	return tally_result(&t);
}

struct ids {
	long nr;
	long a, b, c;
};

/* The ids of a child after the call: 1 when it is no longer who it was. */
static long change_ids(void *p)
{
	const struct ids *i = p;
	uid_t r0, e0, s0, r1, e1, s1;
	gid_t rg0, eg0, sg0, rg1, eg1, sg1;
	long r;

	getresuid(&r0, &e0, &s0);
	getresgid(&rg0, &eg0, &sg0);
	r = RAW(i->nr, i->a, i->b, i->c);
	if (i->nr == SYS_setfsuid || i->nr == SYS_setfsgid) {
		/* They never fail, but tell the present id. */
		long now = RAW(i->nr, -1);

		return now == i->a && i->a != (i->nr == SYS_setfsuid ? (long)e0 : (long)eg0)
		               ? 1
		               : -EPERM;
	}
	if (r < 0)
		return r;
	getresuid(&r1, &e1, &s1);
	getresgid(&rg1, &eg1, &sg1);
	if (i->nr == SYS_setgroups)
		return 1;
	return r0 != r1 || e0 != e1 || s0 != s1 || rg0 != rg1 || eg0 != eg1 || sg0 != sg1 ? 1
	                                                                                  : -EPERM;
}

static int cp_04(int argc, char **argv, char *detail, size_t n)
{
	static const long ids[] = { 0,     1,      2,      33,     999,       1001,
		                    65534, 100000, 200000, 524288, 0x7ffffffe };
	static const gid_t groups[] = { 0, 27, 999 };
	struct tally t;
	unsigned escaped = 0;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]) && escaped < 4; i++) {
		long id = ids[i];
		const struct ids calls[] = {
			{ SYS_setuid, id, 0, 0 },
			{ SYS_setgid, id, 0, 0 },
			{ SYS_setreuid, id, id, 0 },
			{ SYS_setregid, id, id, 0 },
			{ SYS_setresuid, id, id, id },
			{ SYS_setresgid, id, id, id },
			{ SYS_setresuid, -1, -1, id },
			{ SYS_setresgid, -1, -1, id },
			{ SYS_setfsuid, id, 0, 0 },
			{ SYS_setfsgid, id, 0, 0 },
			{ SYS_setgroups, 3, (long)groups, 0 },
		};

		if (id == (long)geteuid())
			continue;
		for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
			char what[48];
			int sig;
			long r = in_child(change_ids, (void *)&calls[k], &sig);

			snprintf(what, sizeof(what), "call %ld to id %ld", calls[k].nr, id);
			tally_expect(&t, what, r, EPERM, EINVAL);
			if (r >= 0)
				escaped++;
		}
	}
	return tally_result(&t);
}

/* The map as code sees it: host ids are not in it, but their number is. */
static int cp_05(int argc, char **argv, char *detail, size_t n)
{
	static const char *const maps[] = { "/proc/self/uid_map", "/proc/self/gid_map" };
	char text[512];
	struct tally t;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < 2; i++) {
		ssize_t r = try_read(maps[i], text, sizeof(text));

		if (r < 0) {
			tally_error(&t, "%s: %s", maps[i], errno_name((int)-r));
			continue;
		}
		for (char *l = strtok(text, "\n"); l; l = strtok(NULL, "\n")) {
			unsigned long in, out, len;

			if (sscanf(l, "%lu %lu %lu", &in, &out, &len) != 3) {
				tally_error(&t, "%s: %s", maps[i], l);
				continue;
			}
			t.attempts++;
			if (in == 0 || len != 1)
				tally_escaped(&t, "%s maps %lu, %lu ids", maps[i], in, len);
		}
		r = try_write(maps[i], "0 0 1\n", 6);
		if (r >= 0)
			tally_escaped(&t, "%s can be written", maps[i]);
	}
	return tally_result(&t);
}

static long set_caps(void *p)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	(void)p;
	memset(d, 0xff, sizeof(d));
	d[1].effective = d[1].permitted = d[1].inheritable = 0x1ff;
	if (RAW(SYS_capget, &h, d) < 0)
		return -ENOSYS;
	if (!d[0].permitted && !d[1].permitted) {
		/* Has nothing: ask for something. */
		d[0].effective = d[0].permitted = d[0].inheritable = 1u << CAP_SYS_ADMIN;
	}
	return RAW(SYS_capset, &h, d);
}

static long raise_ambient(void *p)
{
	(void)p;
	return RAW(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0);
}

static long drop_bound(void *p)
{
	(void)p;
	return RAW(SYS_prctl, PR_CAPBSET_DROP, CAP_SYS_PACCT);
}

static long set_securebits(void *p)
{
	(void)p;
	return RAW(SYS_prctl, PR_SET_SECUREBITS, 0);
}

/* Allowed to everybody on a plain host, and without effect for who has no capability. */
static long keep_caps(void *p)
{
	(void)p;
	return RAW(SYS_prctl, PR_SET_KEEPCAPS, 1);
}

static int cp_06(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	int sig;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	tally_expect(&t, "capset", in_child(set_caps, NULL, &sig), EPERM);
	tally_expect(&t, "PR_CAP_AMBIENT_RAISE", in_child(raise_ambient, NULL, &sig), EPERM);
	tally_expect(&t, "PR_CAPBSET_DROP", in_child(drop_bound, NULL, &sig), EPERM);
	tally_expect(&t, "PR_SET_SECUREBITS", in_child(set_securebits, NULL, &sig), EPERM);
	tally_note(&t, "keepcaps=%ld", in_child(keep_caps, NULL, &sig));
	return tally_result(&t);
}

static int cp_07(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	char text[256];
	ssize_t r;

	tally_init(&t, detail, n);
	for (long ring = -1; ring >= -5; ring--)
		if (ring != -4 || argc == 0)
			tally_expect(&t, "keyctl(GET_KEYRING_ID)", RAW(SYS_keyctl, 0, ring, 0),
			             ENOSYS, ENOKEY, EPERM);
	tally_expect(&t, "add_key", RAW(SYS_add_key, "user", "brig-probe", "x", 1, -1), ENOSYS,
	             EPERM);
	/* A key of the host, by its description. */
	tally_expect(&t, "request_key",
	             RAW(SYS_request_key, "user", argc > 0 ? argv[0] : "brig-probe", 0, 0), ENOSYS,
	             ENOKEY, EPERM);
	r = try_read("/proc/keys", text, sizeof(text));
	if (r > 0)
		tally_escaped(&t, "/proc/keys: %.40s", text);
	r = try_read("/proc/key-users", text, sizeof(text));
	tally_note(&t, "key-users=%s", r > 0 ? "readable" : r == 0 ? "empty" : errno_name((int)-r));
	return tally_result(&t);
}

struct persona {
	long value;
};

static long set_persona(void *p)
{
	return RAW(SYS_personality, ((struct persona *)p)->value);
}

static int cp_08(int argc, char **argv, char *detail, size_t n)
{
	static const long bad[] = { 0x0400000, 0x0040000, 0x0020000, 0x0100000, 0x0200000,
		                    0x0800000, 0x8000000, 0x0000008, 0x0060000 };
	struct persona query = { 0xffffffff };
	struct tally t;
	int sig;
	long r;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct persona p = { bad[i] };
		char what[48];

		snprintf(what, sizeof(what), "personality(%#lx)", bad[i]);
		tally_expect(&t, what, in_child(set_persona, &p, &sig), EPERM);
	}
	r = in_child(set_persona, &query, &sig);
	if (r < 0)
		tally_error(&t, "query: %s", errno_name((int)-r));
	else if (r != 0)
		tally_escaped(&t, "personality is %#lx", r);
	return tally_result(&t);
}

struct prctl_call {
	const char *name;
	long arg[5];
	bool allowed;
};

static long do_prctl(void *p)
{
	const long *a = ((struct prctl_call *)p)->arg;

	return RAW(SYS_prctl, a[0], a[1], a[2], a[3], a[4]);
}

static int cp_09(int argc, char **argv, char *detail, size_t n)
{
	struct prctl_call calls[] = {
		{ "PR_SET_MM", { 35, 6 /* START_BRK */, 4096 }, false },
		{ "PR_SET_MM_MAP", { 35, 14 }, false },
		{ "PR_SET_PTRACER", { 0x59616d61, -1 }, false },
		{ "PR_SET_TSC", { 26, 1 }, false },
		{ "PR_SCHED_CORE", { 62, 0, 0, 0, 0 }, false },
		{ "PR_SET_DUMPABLE", { 4, 0 }, false },
		{ "PR_SET_SECCOMP", { 22, 1 }, false },
		{ "PR_SET_MDWE", { 65, 1 }, false },
		{ "PR_SET_IO_FLUSHER", { 57, 1 }, false },
		{ "PR_SET_SYSCALL_USER_DISPATCH", { 59, 0 }, false },
		{ "PR_SET_SPECULATION_CTRL", { 53, 0, 2 }, false },
		{ "PR_MCE_KILL", { 33, 1, 1 }, false },
		{ "PR_SET_UNALIGN", { 6, 1 }, false },
		{ "PR_SET_CHILD_SUBREAPER", { 36, 1 }, true },
		{ "PR_SET_NAME", { 15, (long)"probe" }, true },
		{ "PR_SET_PDEATHSIG", { 1, 0 }, true },
	};
	struct tally t;
	int sig;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		long r = in_child(do_prctl, &calls[i], &sig);

		if (!calls[i].allowed)
			tally_expect(&t, calls[i].name, r, EPERM);
		else if (r < 0)
			tally_error(&t, "%s: %s", calls[i].name, errno_name((int)-r));
	}
	return tally_result(&t);
}

static int cp_10(int argc, char **argv, char *detail, size_t n)
{
	struct tally t;
	gid_t groups[64];
	char value[256];
	int count;

	(void)argc, (void)argv;
	tally_init(&t, detail, n);
	t.attempts++;
	count = getgroups(64, groups);
	if (count < 0)
		tally_error(&t, "getgroups: %s", errno_name(errno));
	for (int i = 0; i < count; i++)
		tally_escaped(&t, "group %u", (unsigned)groups[i]);
	if (read_status(&t) && field("Groups", value, sizeof(value)) && value[0])
		tally_escaped(&t, "Groups: %s", value);
	if (try_read("/etc/group", status, sizeof(status)) > 0)
		for (char *l = strtok(status, "\n"); l; l = strtok(NULL, "\n"))
			if (strncmp(l, "docker:", 7) == 0 || strncmp(l, "sudo:", 5) == 0 ||
			    strncmp(l, "kvm:", 4) == 0 || strncmp(l, "disk:", 5) == 0)
				tally_escaped(&t, "/etc/group has %s", l);
	return tally_result(&t);
}

const struct probe probes_cp[] = {
	{ "CP-01", cp_01 }, { "CP-02", cp_02 }, { "CP-03", cp_03 }, { "CP-04", cp_04 },
	{ "CP-05", cp_05 }, { "CP-06", cp_06 }, { "CP-07", cp_07 }, { "CP-08", cp_08 },
	{ "CP-09", cp_09 }, { "CP-10", cp_10 }, { NULL, NULL },
};
