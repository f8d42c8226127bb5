/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/landlock.h"

#include <stddef.h>
#include <sys/stat.h>

#include "sys/syscalls.h"
#include "sys/uapi/landlock.h"

#define RIGHTS_OF_FILES                                                                            \
	(LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_READ_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)

static int ask(unsigned flag)
{
	int r = sys_ret(syscall(SYS_landlock_create_ruleset, NULL, 0, flag));

	return r < 0 ? 0 : r;
}

int landlock_abi(void)
{
	return ask(LL_CREATE_RULESET_VERSION);
}

int landlock_errata(void)
{
	return ask(LL_CREATE_RULESET_ERRATA);
}

uint64_t landlock_fs_rights(int abi)
{
	uint64_t rights = (LL_FS_MAKE_SYM << 1) - 1;

	if (abi < 1)
		return 0;
	if (abi >= 2)
		rights |= LL_FS_REFER;
	if (abi >= 3)
		rights |= LL_FS_TRUNCATE;
	if (abi >= 5)
		rights |= LL_FS_IOCTL_DEV;
	return rights;
}

int landlock_create(int abi, bool deny_tcp)
{
	struct ll_ruleset_attr attr = { .handled_access_fs = landlock_fs_rights(abi) };
	size_t size = sizeof(attr.handled_access_fs);

	if (abi >= 4) {
		size = offsetof(struct ll_ruleset_attr, scoped);
		if (deny_tcp)
			attr.handled_access_net = LL_NET_BIND_TCP | LL_NET_CONNECT_TCP;
	}
	if (abi >= 6) {
		size = sizeof(attr);
		attr.scoped = LL_SCOPE_ABSTRACT_UNIX_SOCKET | LL_SCOPE_SIGNAL;
	}
	return sys_ret(syscall(SYS_landlock_create_ruleset, &attr, size, 0));
}

int landlock_allow(int ruleset_fd, int path_fd, uint64_t rights)
{
	struct ll_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = path_fd };
	struct stat st;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &=
			RIGHTS_OF_FILES; /* the kernel refuses the others on a file */
	return sys_ret(syscall(SYS_landlock_add_rule, ruleset_fd, LL_RULE_PATH_BENEATH, &rule, 0));
}

int landlock_enforce(int ruleset_fd)
{
	return sys_ret(syscall(SYS_landlock_restrict_self, ruleset_fd, 0));
}
