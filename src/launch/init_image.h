/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The brig-init program, linked in as data (init_image.S). */
extern const unsigned char init_image[], init_image_end[];
#define init_image_len ((size_t)(init_image_end - init_image))
