/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A process, named so that a later process can tell whether it is still there. */

#include <stdbool.h>

#define BOOT_ID_SIZE 40
#define OWNER_SIZE   128

/* Of this boot of the machine. */
const char *boot_id(void);
/*
 * This process holds the lock of its state directory, so every other daemon that its files name is
 * gone, in whatever pid namespace it was. Before the first owner_self().
 */
void owner_is_daemon(void);
/* "pid start-time boot pid-namespace" of the caller; of a daemon a mark, too. */
void owner_self(char ret[OWNER_SIZE]);
/* True only when that is certain: another pid namespace cannot be judged from here. */
bool owner_is_gone(const char *owner);
/* Are ids here those of the machine? In a user namespace anybody can be anybody. */
bool ids_are_real(void);
