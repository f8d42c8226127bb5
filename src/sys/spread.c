/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/spread.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "sys/file.h"

/* "0.20 0.18 0.12 RUNNABLE/ALL LAST": no more runnable than processors, the two of us counted? */
static int some_idle(unsigned long processors)
{
	char text[128];
	const char *p = text;

	if (file_read(AT_FDCWD, "/proc/loadavg", text, sizeof(text)) < 0)
		return 0;
	for (int i = 0; i < 3 && p; i++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p && strtoul(p, NULL, 10) <= processors;
}

void spread_child(pid_t pid)
{
	cpu_set_t all, others;
	int here = sched_getcpu();

	if (here < 0 || sched_getaffinity(pid, sizeof(all), &all) < 0)
		return;
	others = all;
	CPU_CLR((unsigned)here, &others);
	if (CPU_COUNT(&others) == 0 || !some_idle((unsigned long)CPU_COUNT(&all)))
		return;
	if (sched_setaffinity(pid, sizeof(others), &others) < 0)
		return;
	/* It has moved; the right to come back is given back at once. */
	(void)sched_setaffinity(pid, sizeof(all), &all);
}
