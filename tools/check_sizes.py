#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the length of C files and functions; print the median length of a function.

    tools/check_sizes.py [ROOT]
    tools/check_sizes.py --self-test

A function counts from the first line of its signature to its closing brace.  The code is
formatted by clang-format, so that a function's braces, and only they, stand alone in column 0.
"""

import os
import re
import statistics
import sys
import tempfile

FUNCTION_LINES = 100
FILE_LINES = 800
FOLDERS = ["src", "include", "tests", "runtime"]

# Files that are one long table: path -> why it is long.
TABLES = {}

NAME = re.compile(r"(\w+)[ \t]*\(")


def functions(lines):
    """Yield (name, first line, length) for each function in `lines`."""
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            first = start
            while first > 0 and lines[first - 1] and lines[first - 1][0] not in "}#/*" \
                    and not lines[first - 1].startswith(" *") and not lines[first - 1].endswith(";"):
                first -= 1
            match = NAME.search(" ".join(lines[first:start]))
            yield (match.group(1) if match else "?"), first + 1, number - first + 1
            start = None


def check(root, out=sys.stdout):
    """Return the number of files seen and of things that are too long."""
    lengths = []
    files = wrong = 0
    for top in FOLDERS:
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            subfolders.sort()
            for name in sorted(names):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    lines = file.read().splitlines()
                files += 1
                if len(lines) > FILE_LINES and path not in TABLES:
                    wrong += 1
                    print("%s: %d lines, at most %d" % (path, len(lines), FILE_LINES), file=out)
                for function, first, length in functions(lines):
                    if path.startswith("src/"):
                        lengths.append(length)
                    if length > FUNCTION_LINES:
                        wrong += 1
                        print("%s:%d: %s() has %d lines, at most %d"
                              % (path, first, function, length, FUNCTION_LINES), file=out)
    print("sizes: %d files; %d functions in src, median %g lines, longest %d; %d too long"
          % (files, len(lengths), statistics.median(lengths or [0]), max(lengths or [0]), wrong),
          file=out)
    return files, wrong


def self_test():
    def source(body):
        return "/* c */\n\nstatic int\nf(int a,\n  int b)\n{\n" + "\ta++;\n" * body + "}\n"

    cases = [   # text, how many things are too long
        (source(FUNCTION_LINES - 5), 0),
        (source(FUNCTION_LINES - 4), 1),
        (source(10) + "\nint x;\n" * 390, 0),
        ("int x;\n" * FILE_LINES, 0),
        ("int x;\n" * (FILE_LINES + 1), 1),
        (source(FILE_LINES), 2),
        ("static const int table[] = {\n" + "\t1,\n" * 200 + "};\n", 0),
    ]
    failures = 0
    for number, (text, wanted) in enumerate(cases):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "src", "base"))
            with open(os.path.join(root, "src/base/a.c"), "w", encoding="utf-8") as file:
                file.write(text)
            with open(os.devnull, "w", encoding="utf-8") as null:
                files, wrong = check(root, null)
            if files != 1 or wrong != wanted:
                print("self-test: case %d: %d too long, not %d" % (number, wrong, wanted))
                failures += 1
    print("self-test: %d of %d verdicts wrong" % (failures, len(cases)))
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    here = os.path.dirname(os.path.realpath(__file__))
    files, wrong = check(arguments[0] if arguments else os.path.dirname(here))
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
