# SPDX-License-Identifier: Apache-2.0
"""`brig pool`: what it shows, and what it refuses."""
import re

import pytest

LANGUAGES = ["python", "javascript", "shell"]


def pool(brig, *args):
    return brig.command("pool", *brig.level, "--size", "2", "--runs", "5", *args, timeout=60)


def test_json(brig):
    run = pool(brig, "--json")
    assert run.status == 0 and run.err == b"", run
    pools = run.result["pools"]
    assert [p["language"] for p in pools] == LANGUAGES
    for p in pools:
        assert p["ok"] is True and 0 <= p["ready"] <= 2 and p["failed"] == 0, p
        assert p["hits"] == 5 and p["misses"] == 0 and p["made"] >= 5, p
        assert p["fill_us"] > 0 and p["refill_us"] > 0
        for times in (p["warm_us"], p["bare_us"]):
            assert 0 < times["p50"] <= times["p95"] <= times["p99"], p


def test_table(brig):
    run = pool(brig)
    assert run.status == 0 and run.err == b"", run
    head, *rows = run.out.decode().splitlines()
    assert head.split()[:7] == ["language", "ready", "filled", "ms", "refill", "us", "hits"]
    assert [row.split()[0] for row in rows] == LANGUAGES
    for row in rows:
        assert re.match(r"\w+ +\d+ +[\d.]+ +\d+ +5 +0 +0 +\d+/\d+/\d+ +\d+/\d+/\d+ +[\d.]+$", row), row


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_language(brig, language):
    result = pool(brig, "--json", language).result
    assert [p["language"] for p in result["pools"]] == [language]


def test_an_alias_and_two_languages(brig):
    result = pool(brig, "--json", "py", "sh").result
    assert [p["language"] for p in result["pools"]] == ["python", "shell"]


@pytest.mark.parametrize("options", [
    ["--size"], ["--size", "0"], ["--size", "x"], ["--size", "-1"], ["--size", "4097"], ["--runs", "0"],
    ["--runs", "10001"], ["--runs"], ["--level"], ["--level", "none"], ["--what"], ["cobol"],
    ["--json", "python", "cobol"], ["-j"], [""],
], ids=" ".join)
def test_wrong_options(brig, options):
    run = brig.command("pool", *options)
    assert run.status == 2 and run.out == b"" and "brig pool --help" in run.text, run


def test_options_joined_and_named(brig):
    run = brig.command("pool", *brig.level, "--size=1", "--runs=1", "--json", "shell", timeout=60)
    assert run.status == 0 and run.result["pools"][0]["hits"] == 1, run
    for word, said in (("--size=x", "--size: a number from 1 to 4096"), ("--sise=2", "--sise=2: no such option"),
                       ("--json=1", "--json=1: takes no value"), ("cobol", "cobol: no language")):
        assert said in brig.command("pool", word).text


def test_help(brig):
    run = brig.command("pool", "--help")
    assert run.status == 0 and b"--size" in run.out and run.err == b"", run


def test_a_level_that_cannot_be_had(brig_user):
    run = brig_user.command("pool", "--level", "strict", "--size", "1", "--runs", "1", "--json", "shell")
    assert run.status == 125 and run.result["pools"][0]["ok"] is False, run
