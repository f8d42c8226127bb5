/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Moves what boxes will share of this process into huge pages: the interpreter's code and constants
 * as far as they fill some, and its larger pieces of data, which a fork and an exit then count
 * together instead of one small page after the other. What cannot be had is left as it is. Only
 * for a process with one thread.
 *
 * own_proc: our directory in a procfs, which tells where the data is; FD_NONE: not known.
 */
void huge_pages(int own_proc);
