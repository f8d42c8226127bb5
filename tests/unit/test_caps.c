/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/caps.h"

/* Runs in a child, for there is no way back. */
static int in_child(int (*call)(void))
{
	pid_t child = fork();
	int status;

	cr_assert(child >= 0);
	if (child == 0)
		_exit(call());
	cr_assert(waitpid(child, &status, 0) == child);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool may_drop(void)
{
	return prctl(PR_CAPBSET_READ, 8 /* CAP_SETPCAP */, 0, 0, 0) == 1 && geteuid() == 0;
}

/* 0 when all five sets are empty, else the number of the first that is not. */
static int sets_left(void)
{
	static const char *const names[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:",
		                             "CapAmb:" };
	FILE *f = fopen("/proc/thread-self/status", "re");
	unsigned seen = 0;
	char line[256];
	int left = 0;

	if (!f)
		return 100;
	while (fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < ELEMENTSOF(names); i++) {
			if (!str_has_prefix(line, names[i]))
				continue;
			seen++;
			if (!strstr(line, "0000000000000000") && !left)
				left = (int)i + 1;
		}
	}
	(void)fclose(f);
	return seen == ELEMENTSOF(names) ? left : 101;
}

static int drop_and_look(void)
{
	return caps_drop_bounding() < 0 || caps_drop_all() < 0 ? 102 : sets_left();
}

Test(caps, all_five_sets_are_empty)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(sets_left) != 0, "there was nothing to drop");
	cr_expect(in_child(drop_and_look) == 0);
}

/* With the bits locked even uid 0 executing a program gets nothing back. */
static int drop_and_check_bits(void)
{
	int bits;

	if (caps_drop_all() < 0)
		return 102;
	bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	if ((bits & 0xef) != 0xef) /* all but KEEP_CAPS itself, which is locked at 0 */
		return 1;
	return prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) == 0 ? 2 : 0;
}

Test(caps, the_secure_bits_are_locked)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(drop_and_check_bits) == 0);
}

static int drop_and_try(void)
{
	if (caps_drop_all() < 0)
		return 102;
	if (sethostname("never", 5) == 0 || errno != EPERM)
		return 1;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0) == 0 ? 2 : 0;
}

Test(caps, root_without_capabilities_may_do_nothing)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(drop_and_try) == 0);
}

static int drop_and_exec(void)
{
	if (caps_drop_all() < 0)
		return 102;
	(void)execl("/bin/sh", "sh", "-c", "grep -q 'CapEff:.*0000000000000000' /proc/self/status",
	            (char *)NULL);
	return 103;
}

Test(caps, a_program_run_by_root_gets_nothing_back)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(drop_and_exec) == 0);
}

static int drop_twice(void)
{
	if (caps_drop_all() < 0)
		return 102;
	/* Nothing is left to drop with; that is told and not taken for success. */
	return caps_drop_all() == -EPERM ? 0 : 1;
}

Test(caps, without_the_right_to_drop_it_fails)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(drop_twice) == 0);
}

/* ---- keeping some over exec ------------------------------------------------------------ */

/* One in each half of the sets. */
static const int kept[] = { CAP_SYS_ADMIN, CAP_AUDIT_READ };

/* A user that is not root and has the capabilities, as in a user namespace of its own. */
static int become_user(bool with_caps)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (prctl(PR_SET_KEEPCAPS, with_caps, 0, 0, 0) < 0 || setresuid(65534, 65534, 65534) < 0)
		return -1;
	if (syscall(SYS_capget, &head, data) < 0)
		return -1;
	data[0].effective = data[0].permitted;
	data[1].effective = data[1].permitted;
	return (int)syscall(SYS_capset, &head, data);
}

/* The effective set of a program that is executed now must be exactly this. */
static int exec_and_compare(const char *mask)
{
	char script[128];

	(void)snprintf(script, sizeof(script), "grep -q '^CapEff:.%s$' /proc/self/status", mask);
	(void)execl("/bin/sh", "sh", "-c", script, (char *)NULL);
	return 103;
}

static int keep_and_exec(void)
{
	if (become_user(true) < 0)
		return 102;
	if (caps_keep_over_exec(kept, ELEMENTSOF(kept)) < 0)
		return 104;
	return exec_and_compare("0000002000200000");
}

static int keep_none_and_exec(void)
{
	if (become_user(true) < 0)
		return 102;
	if (caps_keep_over_exec(kept, 0) < 0)
		return 104;
	return exec_and_compare("0000000000000000");
}

Test(caps, the_kept_ones_and_no_others_survive_an_exec)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(keep_and_exec) == 0);
	cr_expect(in_child(keep_none_and_exec) == 0);
}

static int keep_without_having(void)
{
	if (become_user(false) < 0)
		return 102;
	return caps_keep_over_exec(kept, ELEMENTSOF(kept)) == -EPERM ? 0 : 1;
}

static int keep_what_may_not_be_raised(void)
{
	if (become_user(true) < 0 ||
	    prctl(PR_SET_SECUREBITS, 1 << 6 /* NO_CAP_AMBIENT_RAISE */, 0, 0, 0) < 0)
		return 102;
	return caps_keep_over_exec(kept, ELEMENTSOF(kept)) == -EPERM ? 0 : 1;
}

Test(caps, what_nobody_has_cannot_be_kept)
{
	if (!may_drop())
		cr_skip_test("needs root");
	cr_expect(in_child(keep_without_having) == 0);
	cr_expect(in_child(keep_what_may_not_be_raised) == 0);
}
