# SPDX-License-Identifier: Apache-2.0
"""brig risk: what a person and a script get to see of the analysis."""
import json
import subprocess

import pytest

from conftest import BRIG


def risk(*args, stdin=""):
    return subprocess.run([BRIG, "risk", *args], input=stdin, capture_output=True, text=True,
                          timeout=30, check=False)


def test_level_rule_place_and_line_are_shown():
    run = risk("-c", "x = 1\nif x:\n    eval('2')\n")
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    assert lines[0] == "critical"
    assert any("py.exec.eval  3:5" in line for line in lines)
    assert any("eval('2')" in line for line in lines)


def test_the_language_comes_from_the_name_of_the_file(tmp_path):
    script = tmp_path / "a.sh"
    script.write_text("rm -rf /\n")
    assert risk(str(script)).stdout.startswith("critical")
    other = tmp_path / "a.js"
    other.write_text("console.log(1)\n")
    assert risk(str(other)).stdout.split()[0] in ("safe", "low")


def test_standard_input_is_a_program_too():
    assert risk("--lang", "shell", "-", stdin="echo hi\n").stdout.split()[0] in ("safe", "low")


def test_json_is_one_object():
    found = json.loads(risk("--json", "-c", "eval('1')").stdout)
    assert found["level"] == "critical" and found["complete"] is True
    first = found["findings"][0]
    assert first["rule"] == "py.exec.eval" and (first["line"], first["column"]) == (1, 1)


@pytest.mark.parametrize("level,status", [("critical", 1), ("low", 1)])
def test_fail_at_decides_the_exit_status(level, status):
    assert risk("--fail-at", level, "-c", "eval('1')").returncode == status
    assert risk("--fail-at", level, "-c", "x = 1").returncode == 0


def test_nothing_of_the_source_reaches_the_terminal():
    run = risk("-c", "eval('\x1b[31m\x07')")
    assert "\x1b" not in run.stdout and "\x07" not in run.stdout
    assert "\\x1b" in run.stdout


def test_a_long_line_is_cut():
    run = risk("-c", "x = '" + "a" * 5000 + "'; eval(x)")
    assert max(len(line) for line in run.stdout.splitlines()) < 300


@pytest.mark.parametrize("args", [(), ("--lang", "cobol", "-c", "x"), ("--fail-at", "huge", "-c", "x"),
                                  ("-c", "x", "file"), ("--nonsense",)])
def test_wrong_usage_is_told(args):
    run = risk(*args)
    assert run.returncode == 2 and "brig risk" in run.stderr and not run.stdout


def test_a_file_that_is_not_there():
    run = risk("/nonexistent/a.py")
    assert run.returncode == 125 and "a.py" in run.stderr


def test_the_rules_of_all_languages_can_be_read():
    assert risk("--check-rules").returncode == 0


def test_browser_actions():
    assert risk("--browser", "-c", "type password x").stdout.startswith("high")
    assert risk("--browser", "-c", "scroll down").stdout.startswith("low")
