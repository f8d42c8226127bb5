/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Moves the interpreter's code and constants into huge pages, as far as they fill some. A fork then
 * shares them by a few entries; without it each box's process finds every page of them anew. What
 * cannot be had is left as it is. Only for a process with one thread.
 */
void text_into_huge_pages(void);
