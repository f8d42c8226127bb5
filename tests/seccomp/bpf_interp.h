/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreter for the part of classic BPF that seccomp programs use, with coverage marks.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

enum bpf_mark {
	BPF_MARK_RUN = 1,
	BPF_MARK_TRUE = 2,
	BPF_MARK_FALSE = 4,
};

struct bpf_program {
	const struct sock_filter *code;
	size_t len;
	uint8_t *marks; /* one per instruction, enum bpf_mark; NULL for none; caller's */
};

/*
 * Runs the program on a call.  Returns 0 and the program's answer, or -EINVAL for an
 * instruction outside the subset, a load outside of seccomp_data, or a jump past the end.
 */
int bpf_run(const struct bpf_program *program, const struct seccomp_data *call,
            uint32_t *ret_answer);

/* Instructions never run, and sides of conditional jumps never taken, by the marks so far. */
size_t bpf_uncovered(const struct bpf_program *program, size_t *ret_sides);
