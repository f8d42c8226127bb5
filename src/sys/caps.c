/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

#include "sys/syscalls.h"

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT           47
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif

#define CAPS_POSSIBLE 64 /* the sets are 64 bits wide */

int caps_drop_bounding(void)
{
	for (int cap = 0; cap < CAPS_POSSIBLE; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL && cap > 0)
			return 0; /* past the kernel's last capability */
		return -errno;
	}
	return 0;
}

int caps_drop_all(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	if (prctl(PR_SET_SECUREBITS,
	          SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
	                  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
	                  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
	          0, 0, 0) < 0)
		return -errno;
	return sys_ret(syscall(SYS_capset, &header, none));
}

int caps_keep_over_exec(const int *caps, size_t n)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (size_t i = 0; i < n; i++)
		data[caps[i] / 32].inheritable |= 1u << caps[i] % 32;
	if (syscall(SYS_capset, &head, data) < 0)
		return -errno;
	for (size_t i = 0; i < n; i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, caps[i], 0, 0) < 0)
			return -errno;
	return 0;
}
