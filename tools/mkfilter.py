#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compile a syscall policy table into a classic BPF program for seccomp.

The grammar of a table is stated at the head of policies/seccomp/default.tbl.

    mkfilter.py INPUT.tbl OUTPUT.h --symbol seccomp_default [--table TABLE.h]
    mkfilter.py INPUT.tbl --check [--unistd HEADER]

Shape of the program: a head (architecture, x32), a binary search over ranges of
syscall numbers with equal outcome, the argument rules (equal rules are emitted once),
the return instructions.  Every jump in classic BPF goes forward by at most 255 for a
conditional one; farther targets are reached over an unconditional jump put next to it.

Every comparison of an argument reads its low 32 bits.  The compiler has no way to
express the high word, because the kernel truncates int arguments: a filter that looked
at the high word could be bypassed with garbage there.
"""

import argparse
import errno
import functools
import hashlib
import itertools
import pathlib
import re
import struct
import sys
from typing import NamedTuple, Tuple

AUDIT_ARCH_X86_64 = 0xC000003E
X32_SYSCALL_BIT = 0x40000000
WORD = 0xFFFFFFFF
MAX_NUMBER = 4095
MAX_INSTRUCTIONS = 4096
MAX_BRANCH = 255
UNISTD = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"

LD, AND, JA, JEQ, JGE, JSET, RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06

RET_ERRNO = 0x00050000
ACTIONS = {
    "allow": 0x7FFF0000,
    "kill": 0x80000000,
    "ok": RET_ERRNO,
    "eperm": RET_ERRNO | errno.EPERM,
    "enosys": RET_ERRNO | errno.ENOSYS,
    "einval": RET_ERRNO | errno.EINVAL,
    "eafnosupport": RET_ERRNO | errno.EAFNOSUPPORT,
    "enoprotoopt": RET_ERRNO | errno.ENOPROTOOPT,
}
UNKNOWN = "enosys"


class TableError(Exception):
    """A table that is refused; the text starts with file:line."""


class Term(NamedTuple):
    arg: int
    mask: int
    negate: bool
    values: Tuple[int, ...]


class Clause(NamedTuple):
    terms: Tuple[Term, ...]
    action: str


class Rule(NamedTuple):
    """What happens to a syscall: the first clause that holds, else `action`."""

    clauses: Tuple[Clause, ...]
    action: str


class Entry(NamedTuple):
    nr: int
    name: str
    rule: Rule


# ---- parsing ---------------------------------------------------------------------------

ENTRY = re.compile(r"(\d+)\s+([a-z_][a-z0-9_]*)(?:\s+(\w+))?")
CLAUSE = re.compile(r"(.+?)\s*->\s*(\w+)")
NUMBER = r"(?:0x[0-9a-f]+|0o[0-7]+|0|[1-9][0-9]*)"
TERM = re.compile(
    rf"arg(\d+)(?:\s*&\s*({NUMBER}))?\s*(?:(==|!=)\s*({NUMBER})|in\s*\{{([^{{}}]*)\}})"
)


class Draft:
    """An entry whose argument rule is still being read."""

    def __init__(self, line, nr, name, action):
        self.line, self.nr, self.name, self.action = line, nr, name, action
        self.closed = action is not None
        self.clauses = []

    def entry(self):
        return Entry(self.nr, self.name, Rule(tuple(self.clauses), self.action))


class Parser:
    def __init__(self, path):
        self.path = path
        self.line = 0
        self.drafts = []
        self.base = {}

    def fail(self, text, line=None):
        raise TableError(f"{self.path}:{line or self.line}: {text}")

    def parse(self, text):
        for self.line, raw in enumerate(text.splitlines(), 1):
            body = raw.split("#", 1)[0].rstrip()
            if not body:
                continue
            if body[0].isspace():
                self.read_clause(body.strip())
            elif body.startswith("base "):
                self.read_base(body[5:].strip())
            else:
                self.read_entry(body)
        self.close()
        if not self.drafts:
            self.fail("the table has no entries", 1)
        changed = {draft.nr: draft.entry() for draft in self.drafts}
        return sorted({**self.base, **changed}.values())

    def read_base(self, name):
        """The entries of another table, of which this one says what is different."""
        if self.drafts or self.base:
            self.fail("'base' stands once, before the first entry")
        path = pathlib.Path(self.path).parent / name
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            self.fail(f"base: {path}: {error.strerror}")
        if path.resolve() == pathlib.Path(self.path).resolve() or re.search(r"(?m)^base ", text):
            self.fail(f"base: {path} has a base itself")
        self.base = {entry.nr: entry for entry in Parser(path).parse(text)}

    def close(self):
        if self.drafts and not self.drafts[-1].closed:
            draft = self.drafts[-1]
            self.fail(f"'{draft.name}' has no 'else -> ACTION'", draft.line)

    def read_entry(self, body):
        self.close()
        match = ENTRY.fullmatch(body)
        if not match:
            self.fail(f"expected 'NR name [ACTION]', found '{body}'")
        nr, name, action = int(match[1]), match[2], match[3]
        if nr > MAX_NUMBER:
            self.fail(f"number {nr} is above {MAX_NUMBER}")
        for other in self.drafts:
            if other.nr == nr or other.name == name:
                self.fail(f"'{nr} {name}' repeats line {other.line} ('{other.nr} {other.name}')")
        if self.base and (nr not in self.base or self.base[nr].name != name):
            self.fail(f"the base has no '{nr} {name}'")
        self.drafts.append(Draft(self.line, nr, name, action and self.action(action)))

    def read_clause(self, body):
        if not self.drafts:
            self.fail("a clause before the first entry")
        draft = self.drafts[-1]
        if draft.closed:
            self.fail(f"'{draft.name}' is complete already; nothing may follow")
        match = CLAUSE.fullmatch(body)
        if not match:
            self.fail(f"expected 'CONDITION -> ACTION', found '{body}'")
        action = self.action(match[2])
        if match[1] != "else":
            terms = tuple(self.term(part.strip()) for part in match[1].split("&&"))
            draft.clauses.append(Clause(terms, action))
            return
        if not draft.clauses:
            self.fail("'else' alone: write the action behind the name")
        draft.action, draft.closed = action, True

    def action(self, word):
        if word not in ACTIONS:
            self.fail(f"unknown action '{word}' (known: {', '.join(ACTIONS)})")
        return word

    def term(self, text):
        match = TERM.fullmatch(text)
        if not match:
            self.fail(f"bad condition '{text}'")
        arg, mask, operator, single, several = match.groups()
        mask = self.number(mask) if mask else WORD
        words = [single] if operator else several.split(",")
        values = tuple(self.number(word.strip()) for word in words)
        if int(arg) > 5:
            self.fail(f"no such argument: arg{arg}")
        if not mask:
            self.fail("a mask of 0 selects nothing")
        if len(set(values)) != len(values):
            self.fail("a value is listed twice")
        for value in values:
            if value & ~mask:
                self.fail(f"{value:#x} can never equal a value masked with {mask:#x}")
        return Term(int(arg), mask, operator == "!=", values)

    def number(self, word):
        if not re.fullmatch(NUMBER, word):
            self.fail(f"bad number '{word}'")
        value = int(word, 0)
        if value > WORD:
            self.fail(f"{word} does not fit the low 32 bits")
        return value


# ---- code generation -------------------------------------------------------------------


class Instruction:
    """`yes` and `no` are labels; a jump without condition uses `yes` alone."""

    def __init__(self, code, k, yes=None, no=None):
        self.code, self.k, self.yes, self.no = code, k, yes, no


class Program:
    """A list of instructions and labels (strings), in order."""

    def __init__(self):
        self.items = []
        self.pool = 0
        self.returns = {}
        self.fresh = (f"L{n}" for n in itertools.count())

    def label(self, name=None):
        name = name or next(self.fresh)
        self.items.append(name)

    def op(self, *fields):
        self.items.append(Instruction(*fields))

    def result(self, action):
        """The label of a return instruction in the pool that comes next."""
        return self.returns.setdefault(action, f"return {action} {self.pool}")

    def flush_returns(self):
        for action, label in self.returns.items():
            self.label(label)
            self.op(RET, ACTIONS[action])
        self.returns = {}
        self.pool += 1


class Span(NamedTuple):
    """Syscall numbers from `first` to the next span's, all with the same target label."""

    first: int
    target: str


def emit_head(program):
    kill, load, search = program.result("kill"), next(program.fresh), next(program.fresh)
    program.op(LD, 4)
    program.op(JEQ, AUDIT_ARCH_X86_64, load, kill)
    program.label(load)
    program.op(LD, 0)
    program.op(JGE, X32_SYSCALL_BIT, kill, search)
    program.label(search)


def make_spans(entries, target_of):
    """Cover 0 … 0x3fffffff; a number that the table does not name is unknown."""
    rules = {entry.nr: entry.rule for entry in entries}
    spans = []
    for nr in range(max(rules) + 2):
        target = target_of(rules.get(nr, Rule((), UNKNOWN)))
        if not spans or spans[-1].target != target:
            spans.append(Span(nr, target))
    return tuple(spans)


def is_island(spans):
    """One number between two spans that agree: a single equality test decides."""
    return (len(spans) == 3 and spans[0].target == spans[2].target
            and spans[1].first + 1 == spans[2].first)


@functools.lru_cache(maxsize=None)
def plan_split(spans):
    """(comparisons needed, index to split at), looking only near the middle."""
    if len(spans) == 1:
        return 0, 0
    if is_island(spans):
        return 1, 0
    middle = len(spans) // 2
    near = [m for m in (middle, middle - 1, middle + 1) if 0 < m < len(spans)]
    return min((1 + plan_split(spans[:m])[0] + plan_split(spans[m:])[0], m) for m in near)


def emit_search(program, spans):
    if is_island(spans):
        program.op(JEQ, spans[1].first, spans[1].target, spans[0].target)
        return
    split = plan_split(spans)[1]
    halves = spans[:split], spans[split:]
    low, high = (h[0].target if len(h) == 1 else next(program.fresh) for h in halves)
    program.op(JGE, halves[1][0].first, high, low)
    for half, label in zip(halves, (low, high)):
        if len(half) > 1:
            program.label(label)
            emit_search(program, half)


def emit_term(program, term, passed, failed, loaded):
    """Returns what the accumulator holds afterwards: (arg, mask)."""
    bits = term.mask != WORD and term.values == (0,)
    want = (term.arg, WORD if bits else term.mask)
    if not loaded or loaded[0] != term.arg or want[1] & ~loaded[1]:
        program.op(LD, 16 + 8 * term.arg)
        loaded = (term.arg, WORD)
    if loaded != want:
        program.op(AND, term.mask)
    if term.negate != bits:
        passed, failed = failed, passed
    if bits:
        program.op(JSET, term.mask, passed, failed)
        return want
    for value in term.values[:-1]:
        following = next(program.fresh)
        program.op(JEQ, value, passed, following)
        program.label(following)
    program.op(JEQ, term.values[-1], passed, failed)
    return want


def emit_clause(program, clause, failed, loaded):
    """Returns the accumulator at `failed`, or None where the ways there differ."""
    states = set()
    for index, term in enumerate(clause.terms):
        last = index == len(clause.terms) - 1
        passed = program.result(clause.action) if last else next(program.fresh)
        loaded = emit_term(program, term, passed, failed, loaded)
        states.add(loaded)
        if not last:
            program.label(passed)
    return loaded if len(states) == 1 else None


def emit_rule(program, rule, label):
    loaded = None
    for index, clause in enumerate(rule.clauses):
        last = index == len(rule.clauses) - 1
        failed = program.result(rule.action) if last else next(program.fresh)
        program.label(label)
        loaded = emit_clause(program, clause, failed, loaded)
        label = failed


def place(items):
    """The address of each label."""
    address, labels = 0, {}
    for item in items:
        if isinstance(item, str):
            labels[item] = address
        else:
            address += 1
    return labels


def far_side(item, behind, labels):
    """The side of a conditional jump that is out of reach, or None."""
    for side in ("yes", "no"):
        target = getattr(item, side)
        if item.code != JA and target and behind - labels[target] > MAX_BRANCH:
            return side
    return None


def bridge(program):
    """Give each branch that is too far an unconditional jump of its own, right behind it.

    Goes from the end to the start and counts positions from the end, where they are final.
    """
    result, behind, labels = [], 0, {}
    for item in reversed(program.items):
        if isinstance(item, str):
            labels[item] = behind
            result.append(item)
            continue
        while far_side(item, behind, labels):
            side, island = far_side(item, behind, labels), next(program.fresh)
            result += [Instruction(JA, 0, getattr(item, side)), island]
            setattr(item, side, island)
            behind += 1
            labels[island] = behind
        result.append(item)
        behind += 1
    program.items = result[::-1]


def resolve(item, address, labels):
    """One instruction as (code, jt, jf, k)."""
    yes, no = (labels[side] - address - 1 if side else 0 for side in (item.yes, item.no))
    assert yes >= 0 and no >= 0, "a jump backwards"
    return (JA, 0, 0, yes) if item.code == JA else (item.code, yes, no, item.k)


def compile_table(entries):
    program = Program()
    rules = {}

    def target_of(rule):
        if not rule.clauses:
            return program.result(rule.action)
        return rules.setdefault(rule, f"rule {len(rules)}")

    emit_head(program)
    emit_search(program, make_spans(entries, target_of))
    program.flush_returns()
    for rule, label in rules.items():
        emit_rule(program, rule, label)
    program.flush_returns()
    bridge(program)
    labels = place(program.items)
    code = [item for item in program.items if not isinstance(item, str)]
    return [resolve(item, address, labels) for address, item in enumerate(code)]


# ---- output ----------------------------------------------------------------------------


def render_program(code, symbol, name):
    packed = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
    rows = "\n".join(f"\t{{0x{c:02x}, {t}, {f}, 0x{k:08x}}}," for c, t, f, k in code)
    return f"""/* SPDX-License-Identifier: Apache-2.0 */
/* Made by mkfilter.py from {name}.tbl; do not edit. */
#pragma once

#include <linux/filter.h>

#define {symbol}_name "{name}"

/* SHA-256 of the program as struct sock_filter, little-endian. */
#define {symbol}_sha256 \\
\t"{hashlib.sha256(packed).hexdigest()}"

enum {{ {symbol}_len = {len(code)} }};

static const struct sock_filter {symbol}[{symbol}_len] = {{
{rows}
}};
"""


def render_term(term):
    values = ", ".join(f"0x{value:x}" for value in term.values)
    return (f"{{{term.arg}, {str(term.negate).lower()}, 0x{term.mask:x}, {len(term.values)},"
            f" (const uint32_t[]){{{values}}}}}")


def render_clause(clause):
    terms = ", ".join(render_term(term) for term in clause.terms)
    return (f"{{0x{ACTIONS[clause.action]:08x}, {len(clause.terms)},"
            f" (const struct policy_term[]){{{terms}}}}}")


def render_entry(entry):
    rule = entry.rule
    head = f'\t{{{entry.nr}, "{entry.name}", 0x{ACTIONS[rule.action]:08x}, {len(rule.clauses)}, '
    if not rule.clauses:
        return head + "NULL},"
    clauses = ",\n".join(f"\t\t{render_clause(clause)}" for clause in rule.clauses)
    return f"{head}(const struct policy_clause[]){{\n{clauses}}}}},"


def render_table(entries, symbol, name):
    rows = "\n".join(render_entry(entry) for entry in entries)
    return f"""/* SPDX-License-Identifier: Apache-2.0 */
/* Made by mkfilter.py from {name}.tbl; do not edit. */
#pragma once

#include "policy.h"

enum {{ {symbol}_table_len = {len(entries)} }};

static const struct policy_rule {symbol}_table[{symbol}_table_len] = {{
{rows}
}};
"""


def check_numbers(entries, path, header):
    """Complaints about names and numbers that the system header knows otherwise."""
    system = {name: int(nr) for name, nr in re.findall(r"#define __NR_(\w+) (\d+)", header)}
    table = {entry.name: entry.nr for entry in entries}
    for name, nr in system.items():
        if name not in table:
            yield f"{path}: '{name}' ({nr}) is missing"
        elif table[name] != nr:
            yield f"{path}: '{name}' has number {table[name]}, the system says {nr}"


def read_options(argv):
    parser = argparse.ArgumentParser(description="Compile a syscall policy table.")
    parser.add_argument("input", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path, nargs="?")
    parser.add_argument("--symbol", default="seccomp_default")
    parser.add_argument("--table", type=pathlib.Path, metavar="HEADER")
    parser.add_argument("--check", action="store_true", help="compare with the system header")
    parser.add_argument("--unistd", type=pathlib.Path, default=UNISTD)
    options = parser.parse_args(argv)
    if not options.output and not options.check:
        parser.error("nothing to do: give OUTPUT.h or --check")
    return options


def run(options):
    entries = Parser(options.input).parse(options.input.read_text(encoding="utf-8"))
    code, name = compile_table(entries), options.input.stem
    if len(code) > MAX_INSTRUCTIONS:
        raise TableError(f"{options.input}: {len(code)} instructions; the kernel takes "
                         f"{MAX_INSTRUCTIONS}")
    if options.check:
        header = pathlib.Path(options.unistd).read_text(encoding="utf-8")
        complaints = list(check_numbers(entries, options.input, header))
        if complaints:
            raise TableError("\n".join(complaints))
    if options.output:
        options.output.write_text(render_program(code, options.symbol, name), encoding="utf-8")
    if options.table:
        options.table.write_text(render_table(entries, options.symbol, name), encoding="utf-8")


def main(argv=None):
    try:
        run(read_options(argv))
    except (TableError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
