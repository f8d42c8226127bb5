#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Add up test results and print the closing line `N passed, N failed, N skipped`.

    tools/test_totals.py [--no-skips] NAME:STATUS:JUNIT.xml ...
    tools/test_totals.py --self-test

NAME is for people, STATUS is the exit status of the runner, JUNIT.xml its log.  A log that
is missing or unreadable, a runner that failed without a failed test in its log, and a runner
that ran nothing each count as one failure.  meson 1.0 writes a test that timed out or crashed
half-way into its JUnit log as passed, so testlog.json beside the log is consulted too.
With --no-skips (or BRIG_MUST_WORK=1) a skipped test counts as failed.

Exit status: 0 when something passed and nothing failed, else 1.
"""

import json
import os
import sys
import tempfile
import xml.etree.ElementTree as ET

GOOD = ("OK", "EXPECTEDFAIL", "SKIP")


def programs_gone_wrong(junit):
    """The names of meson's test programs with a bad result, by testlog.json."""
    log = junit[:-len(".junit.xml")] + ".json" if junit.endswith(".junit.xml") else ""
    if not os.path.isfile(log):
        return []
    with open(log, encoding="utf-8", errors="replace") as lines:
        results = [json.loads(line) for line in lines if line.strip()]
    return [result["name"] for result in results if result["result"] not in GOOD]


def read_log(junit):
    """Return {"passed": [...], "failed": [...], "skipped": [...]}, each a list of names."""
    found = {"passed": [], "failed": [], "skipped": []}
    suspects = {}
    for suite in ET.parse(junit).getroot().iter("testsuite"):
        for case in suite.findall("testcase"):
            name = "%s %s" % (case.get("classname", ""), case.get("name", ""))
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                kind = "failed"
            elif skip is not None:
                kind = "skipped"
                why = (skip.get("message") or "").strip()
                name += " (%s)" % why if why else ""
            else:
                kind = "passed"
            found[kind].append(name)
            # The program that ran this case: its own suite, or the case itself.
            for program in (suite.get("name", "").partition(".")[2], case.get("name", "")):
                suspects.setdefault(program, []).append((kind, name))
    for program in programs_gone_wrong(junit):
        cases = suspects.get(program, [])
        if any(kind == "failed" for kind, _ in cases):
            continue
        if len(cases) == 1 and cases[0][0] == "passed":
            found["passed"].remove(cases[0][1])
        found["failed"].append(program + " (crashed, timed out or ended early)")
    return found


def total(entries, no_skips, out=sys.stdout):
    """Report every entry, print the closing line, return the exit status."""
    passed = failed = skipped = 0
    for entry in entries:
        name, status, junit = entry.split(":", 2)
        try:
            found = read_log(junit)
        except (OSError, ET.ParseError, ValueError, KeyError) as error:
            found = {"passed": [], "failed": ["no usable log: %s" % error], "skipped": []}
        if not any(found.values()):
            found["failed"].append("nothing ran")
        if status != "0" and not found["failed"]:
            found["failed"].append("the runner ended with status " + status)
        if no_skips:
            found["failed"] += ["skipped: " + test for test in found["skipped"]]
            found["skipped"] = []
        for test in found["failed"]:
            print("FAILED  %s: %s" % (name, test), file=out)
        for test in found["skipped"]:
            print("skipped %s: %s" % (name, test), file=out)
        passed += len(found["passed"])
        failed += len(found["failed"])
        skipped += len(found["skipped"])
    if not entries:
        print("FAILED  nothing ran", file=out)
        failed += 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped), file=out)
    return 0 if passed and not failed else 1


def self_test():
    good = '<testsuites><testsuite name="p"><testcase name="a"/></testsuite></testsuites>'
    bad = ('<testsuites><testsuite name="p"><testcase name="a"/><testcase name="b"><failure/>'
           '</testcase><testcase name="c"><skipped/></testcase></testsuite></testsuites>')
    tap = '<testsuites><testsuite name="p.a"><testcase name="1"/></testsuite></testsuites>'
    skip = '<testsuites><testsuite><testcase name="c"><skipped/></testcase></testsuite></testsuites>'
    cases = [   # name, junit, json, runner's status, no_skips, exit status, closing line
        ("all good", good, None, "0", False, 0, "1 passed, 0 failed, 0 skipped"),
        ("one of each", bad, None, "1", False, 1, "1 passed, 1 failed, 1 skipped"),
        ("a skip is a failure", bad, None, "1", True, 1, "1 passed, 2 failed, 0 skipped"),
        ("only skips", skip, None, "0", False, 1, "0 passed, 0 failed, 1 skipped"),
        ("runner failed", good, None, "1", False, 1, "1 passed, 1 failed, 0 skipped"),
        ("nothing ran", "<testsuites/>", None, "0", False, 1, "0 passed, 1 failed, 0 skipped"),
        ("cut off", "<testsuites", None, "0", False, 1, "0 passed, 1 failed, 0 skipped"),
        ("timeout", good, '{"name": "a", "result": "TIMEOUT"}', "1", False, 1,
         "0 passed, 1 failed, 0 skipped"),
        ("crash after a passed case", tap, '{"name": "a", "result": "ERROR"}', "1", False, 1,
         "0 passed, 1 failed, 0 skipped"),
    ]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        junit = os.path.join(folder, "testlog.junit.xml")
        report = os.path.join(folder, "report")
        for name, xml, log, status, no_skips, want, line in cases:
            with open(junit, "w", encoding="utf-8") as file:
                file.write(xml)
            with open(os.path.join(folder, "testlog.json"), "w", encoding="utf-8") as file:
                file.write((log or "") + "\n")
            with open(report, "w", encoding="utf-8") as file:
                got = total(["t:%s:%s" % (status, junit)], no_skips, file)
            with open(report, encoding="utf-8") as file:
                last = file.read().splitlines()[-1]
            if (got, last) != (want, line):
                print("self-test: %s: got %d, %r" % (name, got, last))
                wrong += 1
        with open(report, "w", encoding="utf-8") as file:
            wrong += total([], False, file) != 1
            wrong += total(["t:0:%s/absent" % folder], False, file) != 1
    print("self-test: %d wrong" % wrong)
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    no_skips = os.environ.get("BRIG_MUST_WORK", "") not in ("", "0")
    if arguments and arguments[0] == "--no-skips":
        no_skips = True
        arguments = arguments[1:]
    for entry in arguments:
        if entry.count(":") < 2:
            sys.exit("usage: test_totals.py [--no-skips] NAME:STATUS:JUNIT.xml ...")
    return total(arguments, no_skips)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
