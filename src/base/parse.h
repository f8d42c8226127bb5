/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Strict parsers: the whole string or -EINVAL; out of range is -ERANGE; *ret only on success. */
int parse_u64(const char *s, uint64_t *ret);
/* "250ms", "5s", "2m", "1h"; a bare number is seconds. */
int parse_duration_ms(const char *s, uint64_t *ret_ms);
/* "4096", "64K", "256M", "1G" (powers of 1024; "KiB", "MB" and the like are accepted). */
int parse_size(const char *s, uint64_t *ret_bytes);
/* "0.5", "2", "1.25": thousandths. */
int parse_milli(const char *s, uint64_t *ret_milli);
