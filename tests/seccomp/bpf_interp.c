/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instruction after the other; every jump goes forward, so that a run always ends.
 * Anything that the kernel's checker would refuse is an error here, never a guess.
 */
#include "bpf_interp.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_branch(const struct sock_filter *insn)
{
	return BPF_CLASS(insn->code) == BPF_JMP && BPF_OP(insn->code) != BPF_JA;
}

static void mark(const struct bpf_program *program, size_t pc, enum bpf_mark what)
{
	if (program->marks)
		program->marks[pc] |= (uint8_t)what;
}

static int load(const struct seccomp_data *call, uint32_t offset, uint32_t *ret_word)
{
	if (offset % sizeof(*ret_word) != 0 || offset > sizeof(*call) - sizeof(*ret_word))
		return -EINVAL;
	memcpy(ret_word, (const char *)call + offset, sizeof(*ret_word));
	return 0;
}

static int branch(const struct sock_filter *insn, uint32_t acc, bool *ret_taken)
{
	switch (insn->code) {
	case BPF_JMP | BPF_JEQ | BPF_K:
		*ret_taken = acc == insn->k;
		return 0;
	case BPF_JMP | BPF_JGE | BPF_K:
		*ret_taken = acc >= insn->k;
		return 0;
	case BPF_JMP | BPF_JSET | BPF_K:
		*ret_taken = (acc & insn->k) != 0;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Instructions other than jumps and returns: those that change the accumulator. */
static int compute(const struct sock_filter *insn, const struct seccomp_data *call, uint32_t *acc)
{
	switch (insn->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		return load(call, insn->k, acc);
	case BPF_ALU | BPF_AND | BPF_K:
		*acc &= insn->k;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Carries out the instruction at *pc and moves *pc on. */
static int step(const struct bpf_program *program, const struct seccomp_data *call, size_t *pc,
                uint32_t *acc)
{
	const struct sock_filter *insn = &program->code[*pc];
	bool taken = false;
	int r;

	if (insn->code == (BPF_JMP | BPF_JA)) {
		*pc += (size_t)insn->k + 1;
		return 0;
	}
	if (!is_branch(insn)) {
		r = compute(insn, call, acc);
		*pc += 1;
		return r;
	}
	r = branch(insn, *acc, &taken);
	mark(program, *pc, taken ? BPF_MARK_TRUE : BPF_MARK_FALSE);
	*pc += (size_t)(taken ? insn->jt : insn->jf) + 1;
	return r;
}

int bpf_run(const struct bpf_program *program, const struct seccomp_data *call,
            uint32_t *ret_answer)
{
	uint32_t acc = 0;
	size_t pc = 0;

	while (pc < program->len) {
		int r;

		mark(program, pc, BPF_MARK_RUN);
		if (program->code[pc].code == (BPF_RET | BPF_K)) {
			*ret_answer = program->code[pc].k;
			return 0;
		}
		r = step(program, call, &pc, &acc);
		if (r < 0)
			return r;
	}
	return -EINVAL;
}

size_t bpf_uncovered(const struct bpf_program *program, size_t *ret_sides)
{
	size_t missing = 0, sides = 0;

	for (size_t pc = 0; pc < program->len; pc++) {
		uint8_t marks = program->marks[pc];

		missing += !(marks & BPF_MARK_RUN);
		if (!is_branch(&program->code[pc]))
			continue;
		sides += !(marks & BPF_MARK_TRUE);
		sides += !(marks & BPF_MARK_FALSE);
	}
	*ret_sides = sides;
	return missing;
}
