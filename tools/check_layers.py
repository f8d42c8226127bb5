#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that a file under src/ includes only headers of its own or of lower layers.

    tools/check_layers.py [ROOT]
    tools/check_layers.py --self-test

Changing a table below is a decision about the architecture, not a repair.
"""

import fnmatch
import os
import re
import sys
import tempfile

# Lowest first. Layers on one line are siblings and do not see each other.
ORDER = [
    ["base"],
    ["sys"],
    ["model"],
    ["net"],
    ["auth"],
    ["risk", "policy", "ledger"],
    ["confirm"],
    ["route"],
    ["exec"],
    ["pool"],
    ["workspace"],
    ["session"],
    ["tools"],
    ["pipeline"],
    ["api"],
    ["daemon"],
]

# Programs that stand beside the order: all they may include, as patterns of paths below src/.
BESIDE = {
    "launch": ["base/*", "sys/*", "model/plan*.h", "model/layer.h", "model/launch_msg.h",
               "launch/*"],
    "send": ["base/*", "sys/*", "model/send_msg.h", "send/*"],
    "cli": ["base/*", "model/*", "sys/probe.h", "sys/socket_path.h", "net/*", "auth/*", "risk/*", "policy/*", "ledger/*", "confirm/*",
            "route/*", "exec/*", "pool/*", "pipeline/*", "cli/*"],
    "lib": ["base/*", "model/*", "net/*", "pool/*", "pipeline/*", "lib/*", "brig/brig.h"],
}

# Single exceptions: (file, header) pairs, with a reason beside each.
EXCEPTIONS = set()

# Headers the build generates, by name.  They hold data and belong to no layer.
GENERATED = ["seccomp_*.h", "*_gen.h", "*_generated.h", "version.h"]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
RANK = {layer: rank for rank, layers in enumerate(ORDER) for layer in layers}


def allowed(layer, header):
    """May a file of `layer` include `header`, a path below src/?  Returns a reason or None."""
    if layer in BESIDE:
        if any(fnmatch.fnmatchcase(header, pattern) for pattern in BESIDE[layer]):
            return None
        return "%s may include only %s" % (layer, " ".join(BESIDE[layer]))
    other = header.split("/")[0]
    if other == layer:
        return None
    if other in BESIDE:
        return "%s is a program; nothing includes its headers" % other
    if RANK[other] < RANK[layer]:
        return None
    return "%s is not below %s" % (other, layer)


def check_file(source, path):
    """Yield (line, header, reason) for every include of src/`path` that breaks the order."""
    layer = path.split("/")[0]
    with open(os.path.join(source, path), encoding="utf-8") as file:
        text = file.read()
    if layer not in RANK and layer not in BESIDE:
        yield 1, path, "layer %s is not in the table of tools/check_layers.py" % layer
        return
    for match in INCLUDE.finditer(text):
        header = os.path.normpath(match.group(1))
        line = text.count("\n", 0, match.start()) + 1
        beside = os.path.join(os.path.dirname(path), header)
        if (path, header) in EXCEPTIONS or header.startswith("brig/"):
            continue
        if header.startswith(".."):
            yield line, header, "write the path from src/"
            continue
        if header.split("/")[0] not in RANK and header.split("/")[0] not in BESIDE:
            if os.path.isfile(os.path.join(source, beside)):
                continue
            if any(fnmatch.fnmatchcase(os.path.basename(header), name) for name in GENERATED):
                continue
            yield line, header, "neither beside the file, nor in a known layer, nor generated"
            continue
        reason = allowed(layer, header)
        if reason:
            yield line, header, reason


def check(root, quiet=False):
    """Return how many files were looked at and how many includes are wrong."""
    source = os.path.join(root, "src")
    files = wrong = 0
    for folder, subfolders, names in os.walk(source):
        subfolders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), source)
            if not name.endswith((".c", ".h")) or "/" not in path:
                continue
            files += 1
            for line, header, reason in check_file(source, path):
                wrong += 1
                if not quiet:
                    print('src/%s:%d: includes "%s": %s' % (path, line, header, reason))
    return files, wrong


def self_test():
    cases = [   # file, what it includes, is it wrong
        ("base/a.c", "base/b.h", False),
        ("sys/a.c", "base/b.h", False),
        ("base/a.c", "sys/b.h", True),
        ("model/a.h", "exec/b.h", True),
        ("policy/a.c", "risk/b.h", True),
        ("exec/a.c", "route/b.h", False),
        ("route/a.c", "exec/b.h", True),
        ("sys/a.c", "sys/uapi/b.h", False),
        ("launch/a.c", "model/plan_wire.h", False),
        ("launch/a.c", "model/request.h", True),
        ("launch/a.c", "exec/b.h", True),
        ("cli/a.c", "sys/probe.h", False),
        ("cli/a.c", "sys/mount.h", True),
        ("cli/a.c", "pipeline/b.h", False),
        ("cli/a.c", "daemon/b.h", True),
        ("exec/a.c", "launch/b.h", True),
        ("exec/a.c", "../base/b.h", True),
        ("exec/a.c", "unheard/of.h", True),
        ("unheard/a.c", "base/b.h", True),
        ("launch/a.c", "seccomp_default.h", False),
    ]
    failures = 0
    for path, header, wanted in cases:
        with tempfile.TemporaryDirectory() as root:
            file = os.path.join(root, "src", path)
            os.makedirs(os.path.dirname(file))
            with open(file, "w", encoding="utf-8") as out:
                out.write('#include <stdio.h>\n#  include "%s"\n' % header)
            files, wrong = check(root, quiet=True)
            if files != 1 or bool(wrong) != wanted:
                print("self-test: %s including %s: wrong verdict" % (path, header))
                failures += 1
    print("self-test: %d of %d verdicts wrong" % (failures, len(cases)))
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    here = os.path.dirname(os.path.realpath(__file__))
    files, wrong = check(arguments[0] if arguments else os.path.dirname(here))
    print("layers: %d files, %d wrong includes" % (files, wrong))
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
