/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "sys/landlock.h"
#include "sys/uapi/landlock.h"

#define ABI_MAX 7

static int bits(uint64_t v)
{
	return __builtin_popcountll(v);
}

Test(landlock, without_an_abi_there_are_no_rights)
{
	cr_expect(landlock_fs_rights(0) == 0);
	cr_expect(landlock_fs_rights(-1) == 0);
}

Test(landlock, each_abi_has_the_rights_of_the_one_before)
{
	for (int abi = 2; abi <= ABI_MAX; abi++)
		cr_expect((landlock_fs_rights(abi) & landlock_fs_rights(abi - 1)) ==
		                  landlock_fs_rights(abi - 1),
		          "ABI %d", abi);
}

Test(landlock, each_abi_adds_what_the_kernel_added)
{
	static const int counts[ABI_MAX + 1] = { 0, 13, 14, 15, 15, 16, 16, 16 };

	for (int abi = 0; abi <= ABI_MAX; abi++)
		cr_expect(bits(landlock_fs_rights(abi)) == counts[abi], "ABI %d: %d rights", abi,
		          bits(landlock_fs_rights(abi)));
	cr_expect(!(landlock_fs_rights(1) & LL_FS_REFER) && landlock_fs_rights(2) & LL_FS_REFER);
	cr_expect(!(landlock_fs_rights(2) & LL_FS_TRUNCATE));
	cr_expect(landlock_fs_rights(3) & LL_FS_TRUNCATE);
	cr_expect(!(landlock_fs_rights(4) & LL_FS_IOCTL_DEV));
	cr_expect(landlock_fs_rights(5) & LL_FS_IOCTL_DEV);
	cr_expect(landlock_fs_rights(99) == landlock_fs_rights(ABI_MAX));
}

/* The kernel knows every right of each ABI up to its own, and takes the ruleset. */
Test(landlock, a_ruleset_of_each_abi_that_the_kernel_has_can_be_made)
{
	int has = landlock_abi();

	if (has < 1)
		cr_skip_test("the kernel has no Landlock");
	for (int abi = 1; abi <= MIN2(has, ABI_MAX); abi++) {
		for (int deny = 0; deny < 2; deny++) {
			CLEANUP_FD int fd = landlock_create(abi, deny);

			cr_expect(fd >= 0, "ABI %d: %d", abi, fd);
			cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		}
	}
}

Test(landlock, an_abi_without_rights_is_refused)
{
	if (landlock_abi() < 1)
		cr_skip_test("the kernel has no Landlock");
	cr_expect(landlock_create(0, false) == -ENOMSG);
}

Test(landlock, errata_exist_only_with_the_abi_that_tells_them)
{
	if (landlock_abi() < 7)
		cr_expect(landlock_errata() == 0);
	else
		cr_expect(landlock_errata() >= 0);
}

Test(landlock, rights_of_directories_on_a_file_are_masked)
{
	CLEANUP_FD int rules = landlock_create(landlock_abi(), true);
	CLEANUP_FD int file = open("/dev/null", O_PATH | O_CLOEXEC);
	CLEANUP_FD int dir = open("/usr", O_PATH | O_CLOEXEC);

	if (rules < 0)
		cr_skip_test("the kernel has no Landlock");
	cr_expect(landlock_allow(rules, file, landlock_fs_rights(landlock_abi())) == 0);
	cr_expect(landlock_allow(rules, dir, landlock_fs_rights(landlock_abi())) == 0);
	cr_expect(landlock_allow(rules, FD_NONE, LL_FS_READ_FILE) == -EBADF);
	cr_expect(landlock_allow(rules, dir, UINT64_C(1) << 63) == -EINVAL);
}

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

/* May list and read below /usr, and nothing else. */
static int enter(bool deny_tcp)
{
	CLEANUP_FD int rules = landlock_create(landlock_abi(), deny_tcp);
	CLEANUP_FD int dir = open("/usr", O_PATH | O_CLOEXEC);

	if (rules < 0 || dir < 0)
		return -1;
	if (landlock_allow(rules, dir, LL_FS_READ_FILE | LL_FS_READ_DIR) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return landlock_enforce(rules);
}

static bool opens(const char *path, int flags)
{
	CLEANUP_FD int fd = open(path, flags | O_CLOEXEC);

	return fd >= 0;
}

static int enter_and_look(void)
{
	if (enter(false) < 0)
		return 100;
	if (!opens("/usr", O_RDONLY | O_DIRECTORY))
		return 1;
	if (opens("/etc/passwd", O_RDONLY) || errno != EACCES)
		return 2;
	if (opens("/", O_RDONLY | O_DIRECTORY))
		return 3;
	if (opens("/dev/null", O_WRONLY))
		return 4;
	if (mkdir("/tmp/brig-landlock-test", 0700) == 0)
		return 5;
	return 0;
}

Test(landlock, what_no_rule_allows_is_denied)
{
	if (landlock_abi() < 1)
		cr_skip_test("the kernel has no Landlock");
	cr_expect(in_child(enter_and_look) == 0);
}

static bool binds_tcp(void)
{
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET };

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
}

static int enter_and_bind(void)
{
	return enter(false) < 0 ? 100 : binds_tcp() ? 0 : 1;
}

static int enter_and_bind_denied(void)
{
	return enter(true) < 0 ? 100 : binds_tcp() ? 1 : 0;
}

Test(landlock, tcp_is_denied_only_when_asked)
{
	if (landlock_abi() < 4)
		cr_skip_test("the kernel's Landlock knows no network");
	cr_expect(in_child(enter_and_bind) == 0);
	cr_expect(in_child(enter_and_bind_denied) == 0);
}

static int enter_and_signal(void)
{
	if (enter(false) < 0)
		return 100;
	if (kill(getppid(), 0) == 0 || errno != EPERM)
		return 1;
	return kill(getpid(), 0) == 0 ? 0 : 2;
}

Test(landlock, signals_stay_inside)
{
	if (landlock_abi() < 6)
		cr_skip_test("the kernel's Landlock knows no scopes");
	cr_expect(in_child(enter_and_signal) == 0);
}

static int enter_without_no_new_privs(void)
{
	CLEANUP_FD int rules = landlock_create(landlock_abi(), false);

	if (rules < 0 || setresuid(65534, 65534, 65534) < 0)
		return 100;
	return landlock_enforce(rules) == -EPERM ? 0 : 1;
}

Test(landlock, no_new_privs_comes_first)
{
	if (landlock_abi() < 1 || geteuid() != 0)
		cr_skip_test("needs Landlock and root");
	cr_expect(in_child(enter_without_no_new_privs) == 0);
}
