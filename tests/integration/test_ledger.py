# SPDX-License-Identifier: Apache-2.0
"""`brig ledger`: the record as people and other programs see it."""
import importlib.util
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys

import pytest

from conftest import AS_USER, ROOT

BUILD = pathlib.Path(os.environ.get("BRIG_BUILD", ROOT / "build"))
FILL = str(BUILD / "tests" / "lib" / "ledger_fill")
CHECK = [sys.executable, str(ROOT / "tools" / "verify_ledger.py")]
ROWS = [
    ("body", "print(1)"),
    ("job1", "s1", "state", "received", "cli:0", '{"language":"python"}'),
    ("job1", "s1", "state", "decided", "brig", '{"verdict":"allow","why":"\u00e4"}'),
    (),
    ("body", "out \x1b]0;title\x07 \u202e end"),
    ("job1", "s1", "state", "finished", "brig", '{"exit": 0}'),
    ("job1", "s1", "file", "created", "brig", '{"path":"a \\"b\\"\\n","size":3,"sha256":null}'),
    (),
    ("job2", "s1", "file", "modified", "brig", '{"path":"a \\"b\\"\\n","size":4,"sha256":null}'),
    ("job2", "s1", "file", "deleted", "brig", '{"path":"c","size":0,"sha256":null}'),
    ("job3", "", "state", "received", "auto\u00adapprove", "{}"),
]
N = 7


class Record:
    """A state directory of one kind of user, and the command on it."""

    def __init__(self, brig, place):
        self.brig, self.dir = brig, place / "state"

    def fill(self, rows=ROWS):
        argv = ([] if self.brig.is_root or os.geteuid() else AS_USER) + [FILL, str(self.dir)]
        text = "".join("\t".join(row) + "\n" for row in rows)
        subprocess.run(argv, input=text.encode(), check=True)
        return self

    def __call__(self, *args, status=0):
        run = self.brig.command("ledger", *map(str, args), "--state-dir", self.dir)
        assert run.status == status, run
        return run.out.decode() if status in (0, 1) else run.text

    def meddle(self, sql):
        with sqlite3.connect(self.dir / "ledger.db") as db:
            db.executescript(sql)
        db.close()
        for name in os.listdir(self.dir):  # as root we may have made a new log
            os.chown(self.dir / name, os.stat(self.dir).st_uid, os.stat(self.dir).st_gid)


@pytest.fixture
def empty(brig, place):
    return Record(brig, place)


@pytest.fixture
def record(empty):
    return empty.fill()


def check(text, *args):
    run = subprocess.run(CHECK + list(args), input=text.encode(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False)
    return run.returncode, run.stdout.decode() + run.stderr.decode()


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


# --- looking --------------------------------------------------------------------------------------

def test_ls_is_newest_first(record):
    lines = record("ls").splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(N, 0, -1))
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}Z  job1  state received  cli:0", lines[-1])


@pytest.mark.parametrize("options, seqs", [
    (["--job", "job2"], [6, 5]), (["--session=s1"], [6, 5, 4, 3, 2, 1]), (["--kind", "file"], [6, 5, 4]),
    (["-n", "2"], [7, 6]), (["-n", "0"], [7, 6, 5, 4, 3, 2, 1]), (["--job", "job1", "--kind=file"], [4]),
    (["--job", "none"], []), (["--job", "' OR 1=1 --"], []),
], ids=lambda v: " ".join(map(str, v)))
def test_ls_filters(record, options, seqs):
    assert [row["seq"] for row in rows_of(record("ls", "--json", *options))] == seqs


def test_show_tells_the_story_of_an_execution(record):
    text = record("show", "job1")
    assert text.startswith("execution job1 of session s1, from 20")
    assert re.findall(r"#(\d+)  (\w+ \w+) by", text) == [
        ("1", "state received"), ("2", "state decided"), ("3", "state finished"), ("4", "file created")]
    assert "print(1)" not in text


def test_show_bodies_writes_control_characters_out(record):
    text = record("show", "job1", "--bodies")
    assert "| print(1)\n" in text and "\\x1b]0;title\\x07 \\u202e end" in text
    assert not set(text) & {"\x1b", "\x07", "\u202e"}


def test_show_one_row_as_json(record):
    shown = json.loads(record("show", 3, "--json", "--bodies"))
    assert [entry["row"]["seq"] for entry in shown] == [3]
    (digest, body), = shown[0]["bodies"].items()
    assert shown[0]["row"]["bodies"] == [digest]
    assert body == {"size": 22, "kept": 22, "text": "out \x1b]0;title\x07 \u202e end"}


def test_hidden_characters_of_words_are_written_out(record):
    assert "auto\\u00adapprove" in record("ls") and "auto\\u00adapprove" in record("show", "job3")


def test_what_is_not_there(record):
    assert "brig ledger ls" in record("show", "nobody", status=125)
    assert "session" in record("graph", "nobody", status=125)


def test_looking_makes_no_record(empty):
    for command in (["ls"], ["show", "1"], ["verify"], ["export"], ["graph", "s"],
                    ["prune", "--before", "1d", "--yes"]):
        assert "no record in" in empty(*command, status=125)
    assert not empty.dir.exists()


@pytest.mark.parametrize("args", [
    [], ["dance"], ["ls", "x"], ["ls", "--dot"], ["ls", "-n"], ["ls", "-n", "x"], ["show"], ["show", "a", "b"],
    ["verify", "--yes"], ["prune"], ["prune", "--before", "2026"], ["prune", "--before", "yesterday"],
    ["prune", "--before", "2026-02-31x"], ["prune", "--before", "-5d"],
    ["prune", "--before", "2026-02-30"], ["prune", "--before", "2025-02-29T00:00:00Z"], ["graph"], ["graph", "s", "--json", "--dot"],
    ["export", "--after", "-1"], ["--state-dir"],
], ids=" ".join)
def test_wrong_usage(brig, record, args):
    place = [] if args in ([], ["--state-dir"]) else ["--state-dir", record.dir]
    run = brig.command("ledger", *args, *place)
    assert run.status == 2 and run.out == b"" and "brig" in run.text, run


def test_help(brig):
    run = brig.command("ledger", "--help")
    assert run.status == 0 and b"prune" in run.out and run.err == b""


# --- verifying ------------------------------------------------------------------------------------

def test_sound(record):
    assert record("verify") == "sound: 7 rows (1 to 7), 2 bodies\n"
    assert json.loads(record("verify", "--json")) == {
        "sound": True, "rows": 7, "bodies": 2, "first_seq": 1, "last_seq": 7, "pruned": 0, "lost": 0,
        "bad_seq": 0, "why": None}


@pytest.mark.parametrize("sql, bad_seq", [
    ("UPDATE event SET detail='{\"verdict\":\"deny\"}' WHERE seq=2", 2), ("DELETE FROM event WHERE seq=3", 4),
    ("DELETE FROM event WHERE seq>5", 5), ("UPDATE body SET kept=x'00' WHERE id=1", 0),
], ids=["changed", "removed", "cut off", "body"])
def test_not_sound(record, sql, bad_seq):
    record.meddle(sql)
    report = json.loads(record("verify", "--json", status=1))
    assert not report["sound"] and report["bad_seq"] == bad_seq and report["why"]
    assert record("verify", status=1).startswith("NOT SOUND: ")


def test_a_record_that_cannot_be_opened_is_not_sound(record):
    (record.dir / "ledger.db").write_bytes(b"")
    assert "NOT SOUND" in record("verify", status=1)
    assert "ledger.db is empty" in record("ls", status=125)
    (record.dir / "ledger.db").unlink()
    assert "NOT SOUND" in record("verify", status=1)


def test_a_directory_that_others_may_write_is_refused(record):
    record.dir.chmod(0o777)
    assert "can be written by others" in record("verify", status=125)


@pytest.mark.needs_root
def test_root_reads_anybodys_record_and_leaves_it_to_him(brig_root, brig_user, place):
    theirs = Record(brig_user, place).fill()
    assert Record(brig_root, place)("verify")
    assert theirs("verify")


@pytest.mark.needs_root
def test_the_record_of_root_is_refused_to_others(brig_root, brig_user, place):
    ours = Record(brig_root, place).fill()
    place.chmod(0o755)
    (place / "state").chmod(0o755)
    assert "belongs to another user" in Record(brig_user, place)("ls", status=125)
    assert ours("verify")


# --- for others -----------------------------------------------------------------------------------

def test_export_can_be_checked_without_brig(record):
    text = record("export", "--jsonl")
    rows = rows_of(text)
    assert [row["seq"] for row in rows] == list(range(1, N + 1))
    assert rows[1]["detail"] == {"verdict": "allow", "why": "\u00e4"}
    assert check(text) == (0, "sound: 7 rows, the last is 7 with hash %s\n" % rows[-1]["hash"])


def test_export_from_the_middle(record):
    rows = rows_of(record("export"))
    text = record("export", "--after", 4)
    assert [row["seq"] for row in rows_of(text)] == [5, 6, 7]
    assert check(text, "--start", "4", rows[3]["hash"])[0] == 0
    assert check(text, "--start", "4", rows[2]["hash"])[0] == 1
    assert check(text)[0] == 1


def spoilt(text):
    """(what, text): every way to change an export that one can think of."""
    lines = text.splitlines(keepends=True)
    yield "line removed", "".join(lines[:2] + lines[3:])
    yield "first removed", "".join(lines[1:])
    yield "lines swapped", "".join([lines[1], lines[0]] + lines[2:])
    yield "line doubled", "".join(lines + lines[-1:])
    for i, line in enumerate(lines):
        for old, new in (('"time_us":1', '"time_us":2'), ('"job":"', '"job":"x'), ('"session":"', '"session":"x'),
                         ('"kind":"', '"kind":"x'), ('"name":"', '"name":"x'), ('"actor":"', '"actor":"x'),
                         ('"bodies":[', '"bodies":["00"' + ("," if '"bodies":["' in line else "")),
                         (',"detail":{', ',"detail":{ ')):
            yield "line %d, %s" % (i + 1, old), "".join(lines[:i] + [line.replace(old, new, 1)] + lines[i + 1:])


def test_a_changed_export_is_noticed(record):
    spec = importlib.util.spec_from_file_location("verify_ledger", CHECK[1])
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    text, n = record("export"), 0
    assert tool.verify(text.encode().splitlines(keepends=True))[0]
    for what, other in spoilt(text):
        assert other != text and not tool.verify(other.encode().splitlines(keepends=True))[0], what
        n += 1
    assert n == 4 + 8 * N
    assert check(text.replace("received", "refused"))[0] == 1


def test_graph(record):
    graph = json.loads(record("graph", "s1"))
    assert graph["session"] == "s1" and [e["id"] for e in graph["executions"]] == ["job1", "job2"]
    assert [(f["path"], f["exists"], f["changed_by"], f["size"]) for f in graph["files"]] == [
        ('a "b"\n', True, "job2", 4), ("c", False, "job2", 0)]
    assert [(e["execution"], e["change"], e["path"]) for e in graph["edges"]] == [
        ("job1", "created", 'a "b"\n'), ("job2", "modified", 'a "b"\n'), ("job2", "deleted", "c")]


def test_graph_as_dot(record):
    text = record("graph", "s1", "--dot")
    assert '\t"run:job1" -> "file:a \\"b\\"\\\\x0a" [label="created"];\n' in text
    assert text.startswith('digraph "session s1" {\n') and text.endswith("}\n")


NASTY = "a\x9b31mX\x85y\u202eb\u200bc\U000e0041d\u00e9"


@pytest.mark.parametrize("options", [[], ["--dot"]], ids=["json", "dot"])
def test_a_graph_does_not_steer_the_terminal(empty, options):
    """Names are the guest's: no C1 control, no change of direction, nothing that is not seen."""
    detail = json.dumps({"path": NASTY, "size": 1, "sha256": None}, ensure_ascii=False)
    text = empty.fill([("job1", "s1", "file", "created", "brig", detail)])("graph", "s1", *options)
    assert {c for c in text if not c.isascii()} == {"\u00e9"} and all(c.isprintable() or c in "\t\n" for c in text), text
    if options:
        assert '"file:a\\\\u009b31mX\\\\u0085y\\\\u202eb\\\\u200bc\\\\ue0041d\u00e9"' in text, text
    else:
        assert json.loads(text)["files"][0]["path"] == NASTY


# --- pruning --------------------------------------------------------------------------------------

def test_prune_asks_first(record):
    assert record("prune", "--before", "0s").startswith("7 rows would be removed")
    assert record("verify").startswith("sound: 7 rows")


def test_prune_leaves_what_is_young(record):
    assert record("prune", "--before", "1h", "--yes") == "0 rows removed\n"
    assert record("prune", "--before", "2020-01-01", "--yes") == "0 rows removed\n"
    assert record("verify").startswith("sound: 7 rows")


def test_prune(brig, record):
    assert record("prune", "--before", "0s", "--yes") == "7 rows removed\n"
    assert record("verify") == "sound: 1 rows (8 to 8), 0 bodies; 7 older rows were pruned\n"
    row, = rows_of(record("export"))
    assert row["kind"] == "prune" and row["detail"]["rows"] == 7 and row["actor"].startswith("cli:")
    record.fill()
    assert record("verify").startswith("sound: 8 rows (8 to 15), 2 bodies;")
    assert check(record("export"))[0] == 0


def test_a_false_stub_is_noticed(record):
    record("prune", "--before", "0s", "--yes")
    record.fill()
    record.meddle("DELETE FROM event WHERE seq=8;"
                  "UPDATE cut SET last_seq=8,last_hash=(SELECT last_hash FROM cut)")
    assert "not signed" in record("verify", status=1)


# --- the default place ----------------------------------------------------------------------------

def test_the_state_directory_of_the_environment(brig, record):
    argv = [] if brig.is_root or os.geteuid() else AS_USER
    run = brig.call(argv + ["env", "BRIG_STATE_DIR=%s" % record.dir, brig.path, "ledger", "verify"])
    assert run.status == 0 and run.out.startswith(b"sound: 7 rows"), run
