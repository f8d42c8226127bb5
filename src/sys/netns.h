/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The caller's network namespace. 0 or -errno. */
int netns_loopback_up(void);
