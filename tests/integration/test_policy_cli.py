# SPDX-License-Identifier: Apache-2.0
"""`brig policy`: what people use to write a policy and to see what it does. Nothing is run."""
import json
import pathlib

import pytest

CASES = pathlib.Path(__file__).resolve().parents[1] / "cases" / "policy"
HEAD = "version: 1\n"


@pytest.fixture
def policy(brig, place):
    """policy(text) writes a file that this user can read; gives its path."""
    def write(text, name="p.yaml"):
        path = place / name
        path.write_text(text)
        path.chmod(0o644)
        return path
    return write


def lines(run):
    return run.out.decode().splitlines()


# --- show, check ----------------------------------------------------------------------------------

def test_show_gives_the_text_that_load_reads(brig, policy):
    assert lines(brig.command("policy", "show")) == ["strict", "permissive"]
    for name in "strict", "permissive":
        shown = brig.command("policy", "show", name)
        assert shown.status == 0 and b"name: %s\n" % name.encode() in shown.out
        built_in, copy = (brig.command("policy", "check", what) for what in
                          (name, policy(shown.out.decode())))
        assert built_in.status == copy.status == 0, copy
        assert built_in.out.split()[-1] == copy.out.split()[-1], "the digests differ"


def test_check_names_line_column_and_key(brig, policy):
    path = policy(HEAD + "floor:\n  level: none\n")
    run = brig.command("policy", "check", path, "strict")
    assert run.status == 1
    assert run.text == ("%s:3:10: floor.level: no such value \"none\"; it is one of strict, standard, "
                        "degraded-ok\n" % path)
    assert lines(run)[0].startswith("strict: ok: policy strict, 5 rules, 0 warnings")


def test_check_warns_and_fails_only_when_asked_to(brig, policy):
    path = policy(HEAD + "rules:\n  - { name: a, match: {}, verdict: deny }\n"
                         "  - { name: b, match: { risk: high }, verdict: confirm }\n")
    run = brig.command("policy", "check", path)
    assert run.status == 0
    assert lines(run)[0] == ("%s:4: warning: b: never decides: all it matches is decided by a (line 3) "
                             "before it" % path)
    assert brig.command("policy", "check", "--strict", path).status == 1
    assert brig.command("policy", "check", "--strict", "strict").status == 0


def test_check_warns_of_a_file_that_all_can_write(brig, policy):
    path = policy(brig.command("policy", "show", "strict").out.decode())
    path.chmod(0o666)
    run = brig.command("policy", "check", "--strict", path)
    assert run.status == 1 and "everyone on this host can write it" in lines(run)[0]


@pytest.mark.parametrize("args", [
    [], ["lint"], ["check"], ["check", "--all"], ["explain"], ["explain", "-c", "1", "x.py"],
    ["explain", "a.py", "b.py"], ["explain", "--lang"], ["explain", "--lang", "cobol", "-c", "1"],
    ["explain", "--level", "none", "-c", "1"], ["explain", "--color", "x.py"], ["test"],
    ["test", "--x"], ["show", "lenient"], ["show", "strict", "x"],
], ids=" ".join)
def test_wrong_usage(brig, args):
    run = brig.command("policy", *args)
    assert run.status == 2 and run.out == b"" and run.text.startswith("brig policy: "), run


def test_help(brig):
    run = brig.command("policy", "--help")
    assert run.status == 0 and b"usage: brig policy check" in run.out and run.err == b""


# --- explain --------------------------------------------------------------------------------------

def explain(brig, *args, **kw):
    run = brig.command("policy", "explain", "--json", *args, **kw)
    assert run.status == 0, run
    return json.loads(run.out.decode())


def test_explain_says_why_for_every_rule(brig):
    got = explain(brig, "-p", "strict", "-l", "python", "-c", "print(1)")
    assert [(r["rule"], r["matched"], r["decides"]) for r in got["rules"]] == [
        ("no-critical-shell", False, False), ("ask-when-critical", False, False),
        ("ask-when-high", False, False), ("ask-when-unclear", False, False),
        ("allow-the-rest", True, True)]
    assert got["rules"][0]["why"] == "language is python, not shell"
    assert got["decision"] == {"verdict": "allow", "policy": "strict", "rule": "allow-the-rest",
                               "reason": "nothing of high risk was found"}
    assert got["bounds"]["level"] == "standard" and got["bounds"]["network"] == "loopback"
    assert got["approval"] == {"expires_ms": 600000, "remember": "session", "remember_ms": 3600000,
                               "self": False, "pending": 16}


def test_explain_shows_what_was_found(brig):
    got = explain(brig, "-p", "strict", "-l", "shell", "-c", "rm -rf /")
    assert got["risk"]["level"] == "critical" and got["risk"]["findings"]
    assert got["decision"]["rule"] == "no-critical-shell"
    run = brig.command("policy", "explain", "-p", "strict", "-l", "shell", "-c", "rm -rf /")
    assert lines(run)[0] == "risk: critical (shell)"
    assert "  => deny     no-critical-shell: language shell, risk critical" in lines(run), run
    assert "decision: deny by no-critical-shell: critical shell commands are not run" in lines(run)


def test_explain_takes_the_policy_that_a_run_would(brig, monkeypatch):
    monkeypatch.delenv("BRIG_POLICY", raising=False)
    assert explain(brig, "-l", "py", "-c", "1")["policy"] == "permissive"
    monkeypatch.setenv("BRIG_POLICY", "strict")
    assert explain(brig, "-l", "py", "-c", "1")["policy"] == "strict"
    assert explain(brig, "-p", "permissive", "-l", "py", "-c", "1")["policy"] == "permissive"


def test_explain_takes_a_file_or_standard_input(brig, policy):
    assert explain(brig, "-p", "strict", policy("print(1)\n", "a.py"))["decision"]["verdict"] == "allow"
    assert explain(brig, "-p", "strict", "-l", "js", "-", stdin=b"1 + 1")["decision"]["verdict"] == "allow"
    run = brig.command("policy", "explain", "-", stdin=b"1")
    assert run.status == 1 and "--lang" in run.text


def test_explain_with_all_that_a_rule_may_ask_for(brig, policy):
    path = policy(HEAD + "floor: { limits: { timeout: 5s } }\nrules:\n  - name: all\n    match: {"
                  " language: python, network: none, level: strict, tier: jail, tool: 'web_*',"
                  " caller: 'token:*', label: prod, action: code_execution }\n    verdict: confirm\n")
    options = ["--network=none", "--level", "strict", "--tier", "jail", "--tool", "web_get",
               "--caller", "token:x", "--label", "blue", "--label", "prod"]
    got = explain(brig, "-p", path, "-l", "py", "-c", "1", *options)
    assert got["decision"]["rule"] == "all" and got["bounds"]["limits"]["timeout_ms"] == 5000
    for i in range(1, len(options), 2):  # without any one of them it is another answer
        less = options[:i] + options[i + 2:]
        if "prod" in less and "blue" not in less:
            continue  # that label asks for nothing
        rule = explain(brig, "-p", path, "-l", "py", "-c", "1", *less)["decision"]["rule"]
        assert rule == "default", less
    text = brig.command("policy", "explain", "-p", path, "-l", "py", "-c", "1", *options)
    assert "request: tightened: timeout" in lines(text), text


def test_explain_with_a_policy_that_is_not_there(brig):
    run = brig.command("policy", "explain", "-p", "/no/where", "-l", "py", "-c", "1")
    assert run.status == 1 and run.out == b"" and "/no/where" in run.text


# --- test -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", sorted(CASES.glob("*.cases.yaml")), ids=lambda p: p.name)
def test_the_cases(brig, path, place):
    for file in CASES.glob("*.yaml"):  # where this user can read them
        (place / file.name).write_bytes(file.read_bytes())
        (place / file.name).chmod(0o644)
    run = brig.command("policy", "test", place / path.name)
    assert run.status == 0 and run.text == "", run
    assert "not ok" not in run.out.decode() and lines(run)[-1].endswith(" 0 failed")


def test_a_case_that_fails_says_what_came(brig, policy):
    path = policy("policy: strict\ncases:\n  - { name: asks, risk: high, expect: confirm }\n"
                  "  - { name: runs, risk: high, expect: allow }\n"
                  "  - { name: rule, risk: low, expect: allow, rule: other }\n")
    run = brig.command("policy", "test", path)
    assert run.status == 1
    assert [l for l in lines(run) if not l.startswith("#")] == [
        "ok 1 - asks", "not ok 2 - runs", "not ok 3 - rule", "1..3"]
    assert "confirm by ask-when-high, not allow" in run.out.decode()
    assert "allow by allow-the-rest, not allow by other" in run.out.decode()


@pytest.mark.parametrize("text, message", [
    ("", ":1:1: the file is empty"),
    ("policy: strict\n", "cases is missing"),
    ("policy: strict\ncases: []\nmore: 1\n", ":3:1: more: no such key; it is one of policy, cases"),
    ("policy: nowhere.yaml\ncases: []\n", "nowhere.yaml"),
    ("policy: strict\ncases: [{ risk: low, expect: allow }]\n", "cases[0]: name is missing"),
    ("policy: strict\ncases: [{ name: a, risk: low }]\n", "expect: it is one of"),
    ("policy: strict\ncases: [{ name: a, expect: allow }]\n", "without code it needs risk"),
    ("policy: strict\ncases: [{ name: a, risk: low, code: x, expect: allow }]\n", "not both"),
    ("policy: strict\ncases: [{ name: a, risk: low, expect: allow, verdict: x }]\n", "no such key"),
    ("policy: strict\ncases: []\n", ""),
], ids=range(10))
def test_cases_that_are_wrong_fail(brig, policy, text, message):
    run = brig.command("policy", "test", policy(text))
    assert run.status == 1 and message in run.text, run


def test_the_name_of_a_policy_is_meant_from_the_folder_of_the_cases(brig, policy, place):
    policy(HEAD + "default: confirm\n", "mine.yaml")
    path = policy("policy: mine.yaml\ncases: [{ name: a, risk: low, expect: confirm }]\n")
    run = brig.command("policy", "test", path, cwd="/")
    assert run.status == 0, run
