/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What each fuzz_*.c defines: libFuzzer calls it, and so does replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
