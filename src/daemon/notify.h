/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the service manager is told (sd_notify(3)), and its watchdog. Without $NOTIFY_SOCKET
 * nothing happens. A message that cannot be sent is lost: the manager then goes by its time-outs.
 */

#include <stdint.h>

void notify_ready(void);
void notify_stopping(void);
void notify_reloading(void); /* notify_ready() ends it */
/* For people; control characters are masked, at most 200 bytes are sent. */
void notify_status(const char *text);
/* notify_alive() is expected at least this often; 0: no watchdog. Half of it is a good pace. */
uint64_t notify_watchdog_usec(void);
void notify_alive(void);
