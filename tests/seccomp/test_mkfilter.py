# SPDX-License-Identifier: Apache-2.0
"""The table compiler: what it refuses, where it says so, and what it makes."""

import hashlib
import pathlib
import re
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MKFILTER = ROOT / "tools" / "mkfilter.py"
DEFAULT = ROOT / "policies" / "seccomp" / "default.tbl"
LAUNCHER = DEFAULT.with_name("launcher.tbl")
MAX_KNOWN = 469  # file_setattr, the last one of Linux 6.18

LD, AND, JA, JEQ, JGE, JSET, RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06


def mkfilter(*words):
    command = [sys.executable, str(MKFILTER), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compile_text(folder, text):
    table = folder / "bad.tbl"
    table.write_text(text)
    return mkfilter(table, folder / "out.h")


def program_of(header):
    rows = re.findall(r"\{(0x\w+), (\d+), (\d+), (0x\w+)\},", header)
    return [tuple(int(word, 0) for word in row) for row in rows]


def answer(program, nr, *args):
    """Runs a program on a native call; `args` are low words."""
    words = {0: nr, 4: 0xC000003E, **{16 + 8 * n: arg for n, arg in enumerate(args)}}
    pc = acc = 0
    while program[pc][0] != RET:
        code, yes, no, k = program[pc]
        pc += 1
        if code == LD:
            acc = words[k]
        elif code == AND:
            acc &= k
        elif code == JA:
            pc += k
        else:
            pc += yes if {JEQ: acc == k, JGE: acc >= k, JSET: acc & k}[code] else no
    return program[pc][3]


BAD_TABLES = {
    "repeated number": ("0 read allow\n\n0 write allow\n", 3, "repeats line 1"),
    "repeated name": ("0 read allow\n1 read allow\n", 2, "repeats line 1"),
    "unknown action": ("0 read allow\n1 write maybe\n", 2, "unknown action 'maybe'"),
    "unknown action in a clause": ("1 x\n\targ0 == 1 -> perhaps\n", 2, "unknown action"),
    "no number": ("read allow\n", 1, "expected 'NR name [ACTION]'"),
    "words after the action": ("0 read allow always\n", 1, "expected 'NR name [ACTION]'"),
    "number of the x32 range": ("1073741824 read allow\n", 1, "is above"),
    "missing else": ("# c\n1 x\n\targ0 == 1 -> allow\n2 y allow\n", 2, "no 'else -> ACTION'"),
    "missing else at the end": ("1 x\n\targ0 == 1 -> allow\n", 1, "no 'else -> ACTION'"),
    "missing action": ("1 x\n2 y allow\n", 1, "no 'else -> ACTION'"),
    "else alone": ("1 x\n\telse -> allow\n", 2, "'else' alone"),
    "clause after else": (
        "1 x\n\targ0 == 1 -> allow\n\telse -> eperm\n\targ0 == 2 -> allow\n",
        4, "complete already"),
    "clause after an action": ("1 x allow\n\targ0 == 1 -> eperm\n", 2, "complete already"),
    "clause before an entry": ("\targ0 == 1 -> allow\n", 1, "before the first entry"),
    "no arrow": ("1 x\n\targ0 == 1 allow\n", 2, "expected 'CONDITION -> ACTION'"),
    "order comparison": ("1 x\n\targ0 < 1 -> allow\n", 2, "bad condition"),
    "empty conjunction": ("1 x\n\targ0 == 1 && -> allow\n", 2, "bad condition"),
    "empty set": ("1 x\n\targ0 in {} -> allow\n", 2, "bad number"),
    "value twice": ("1 x\n\targ0 in {1, 0x1} -> allow\n", 2, "listed twice"),
    "no such argument": ("1 x\n\targ6 == 1 -> allow\n", 2, "no such argument"),
    "C octal": ("1 x\n\targ0 == 0755 -> allow\n", 2, "bad condition"),
    "high word": ("1 x\n\targ0 == 0x100000000 -> allow\n", 2, "low 32 bits"),
    "mask of 0": ("1 x\n\targ0 & 0 == 0 -> allow\n", 2, "mask of 0"),
    "value outside the mask": ("1 x\n\targ0 & 0xf == 16 -> allow\n", 2, "never equal"),
    "base after an entry": ("0 read allow\nbase default.tbl\n", 2, "before the first entry"),
    "no such base": ("base other.tbl\n0 read allow\n", 1, "No such file"),
    "a table as its own base": ("base bad.tbl\n0 read allow\n", 1, "has a base itself"),
    "nothing at all": ("# only a comment\n", 1, "no entries"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_table_is_refused_with_its_line(tmp_path, case):
    text, line, complaint = BAD_TABLES[case]
    result = compile_text(tmp_path, text)
    assert result.returncode == 1
    assert result.stderr.startswith(f"{tmp_path}/bad.tbl:{line}: ")
    assert complaint in result.stderr
    assert not (tmp_path / "out.h").exists()


def test_entries_replace_those_of_the_base(tmp_path):
    (tmp_path / "low.tbl").write_text("0 read allow\n1 write eperm\n2 open kill\n")
    assert compile_text(tmp_path, "base low.tbl\n1 write\n\targ0 == 1 -> allow\n\telse -> einval\n").returncode == 0
    program = program_of((tmp_path / "out.h").read_text())
    assert [answer(program, nr, 1) for nr in (0, 1, 2, 3)] == [0x7FFF0000, 0x7FFF0000, 0x80000000, 0x00050026]
    assert answer(program, 1, 2) == 0x00050016
    # What the base does not know, or by another name, is a slip of the pen.
    for line in ("3 close allow", "1 read allow"):
        result = compile_text(tmp_path, "base low.tbl\n" + line + "\n")
        assert result.returncode == 1 and "the base has no '" + line[:-6] in result.stderr, result


def test_first_clause_that_holds_decides(tmp_path):
    text = "7 x\n\targ0 == 1 -> eperm\n\targ0 in {1, 2} && arg1 & 3 != 0 -> ok\n\telse -> kill\n"
    assert compile_text(tmp_path, text).returncode == 0
    program = program_of((tmp_path / "out.h").read_text())
    assert answer(program, 7, 1, 1) == 0x00050001
    assert answer(program, 7, 2, 2) == 0x00050000
    assert answer(program, 7, 2, 4) == 0x80000000
    assert answer(program, 7, 3, 1) == 0x80000000
    assert answer(program, 6) == answer(program, 8) == 0x00050026


def test_far_targets_are_reached(tmp_path):
    """Rules that do not fit the reach of a conditional jump, in the search and in a rule."""
    values = ", ".join(str(2 * n) for n in range(300))
    rule = "\n\targ{} in {{{}}} -> allow\n\telse -> eperm\n"
    text = "".join(f"{2 * nr} x{nr}" + rule.format(nr % 5, values) for nr in range(150))
    assert compile_text(tmp_path, text).returncode == 0
    program = program_of((tmp_path / "out.h").read_text())
    assert any(code == JA for code, *_ in program)
    assert all(yes < 256 and no < 256 for _, yes, no, _ in program)
    for nr in range(0, 300, 2):
        for value in (0, 2, 300, 598, 599, 600):
            args = [value if n == nr // 2 % 5 else 1 for n in range(6)]
            good = value < 600 and value % 2 == 0
            assert answer(program, nr, *args) == (0x7FFF0000 if good else 0x00050001)
        assert answer(program, nr + 1, *[0] * 6) == 0x00050026


def test_too_long_program_is_refused(tmp_path):
    values = ", ".join(str(n) for n in range(5000))
    result = compile_text(tmp_path, f"1 x\n\targ0 in {{{values}}} -> allow\n\telse -> eperm\n")
    assert result.returncode == 1
    assert "the kernel takes 4096" in result.stderr


def test_header_states_the_hash_of_the_program(tmp_path):
    assert mkfilter(DEFAULT, tmp_path / "a.h", "--symbol", "some_filter").returncode == 0
    header = (tmp_path / "a.h").read_text()
    packed = b"".join(struct.pack("<HBBI", *row) for row in program_of(header))
    assert hashlib.sha256(packed).hexdigest() in header
    assert f"some_filter_len = {len(packed) // 8} " in header
    assert '#define some_filter_name "default"' in header


def test_output_is_reproducible(tmp_path):
    for name in ("a.h", "b.h"):
        assert mkfilter(DEFAULT, tmp_path / name).returncode == 0
    assert (tmp_path / "a.h").read_bytes() == (tmp_path / "b.h").read_bytes()


def test_default_table_names_every_known_number():
    numbers = {int(nr) for nr in re.findall(r"^(\d+)\s", DEFAULT.read_text(), re.MULTILINE)}
    assert numbers == {*range(337), *range(424, MAX_KNOWN + 1)}


@pytest.mark.parametrize("table", [DEFAULT, LAUNCHER], ids=lambda path: path.stem)
def test_tables_agree_with_the_system_header(table):
    result = mkfilter(table, "--check")
    assert result.returncode == 0, result.stderr


def test_check_names_what_differs(tmp_path):
    header = tmp_path / "unistd_64.h"
    header.write_text("#define __NR_read 1\n#define __NR_brand_new 600\n")
    result = mkfilter(DEFAULT, "--check", "--unistd", header)
    assert result.returncode == 1
    assert "'read' has number 0, the system says 1" in result.stderr
    assert "'brand_new' (600) is missing" in result.stderr


def test_missing_file_is_an_error(tmp_path):
    result = mkfilter(tmp_path / "none.tbl", tmp_path / "out.h")
    assert result.returncode == 1
    assert "none.tbl" in result.stderr
