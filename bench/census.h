/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What could be left behind: counted before and after. */

#include <stdbool.h>
#include <stdint.h>

/*  field         what                                       may grow by */
/* clang-format off */
#define CENSUS_TABLE(X)                                                                            \
	X(processes,    "processes below us",                    0)                                \
	X(fds,          "our descriptors",                       0)                                \
	X(launcher_fds, "descriptors of the launcher",           0)                                \
	X(mounts,       "mounts that we see",                    0)                                \
	X(launcher_mounts, "mounts that the launcher sees",      0)                                \
	X(groups,       "cgroups of boxes (everybody's)",        0)                                \
	X(netns,        "network namespaces with processes",     0)                                \
	X(rss,          "our memory, KiB resident",              1024)                             \
	X(launcher_rss, "the launcher's memory, KiB resident",   1024)
/* clang-format on */

struct census {
#define X(field, what, grow) uint64_t field;
	CENSUS_TABLE(X)
#undef X
};

void census_take(struct census *ret);
/* Has something grown more than it may? */
bool census_grew(const struct census *before, const struct census *after);
/* A table; marks what has grown. */
void census_print(const struct census *before, const struct census *after);
