/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The launcher's own filter (policies/seccomp/launcher.tbl). It is loaded before the first order,
 * so init, zygotes and code are born with it; what a plan says comes on top and takes nothing away.
 */

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch/box.h"
#include "seccomp_launcher.h"

int launcher_confine(struct err *err)
{
	struct sock_fprog prog = {
		.len = seccomp_launcher_len,
		.filter = (struct sock_filter *)seccomp_launcher,
	};

	/* An ordinary user may load a filter only so; and nothing that we execute gains anything.
	 */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, ERR_SETUP, errno, "PR_SET_NO_NEW_PRIVS of the launcher");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_set(err, ERR_SETUP, errno, "load the launcher's own seccomp filter");
	return 0;
}
