# SPDX-License-Identifier: Apache-2.0
"""`brig token`: the tokens of the daemon as people and other programs see them."""
import hashlib
import json
import os
import re
import subprocess
import time

import pytest

from conftest import USER_ID

FORM = re.compile(r"brig_([0-9a-hjkmnp-tv-z]{12})_[0-9a-hjkmnp-tv-z]{32}\n")


class Store:
    """A state directory of one kind of user, and the command on it."""

    def __init__(self, brig, place):
        self.brig, self.dir = brig, place / "state"
        self.file = self.dir / "tokens.json"

    def argv(self, *args):
        return self.brig.argv("token", *map(str, args), "--state-dir", self.dir)

    def __call__(self, *args, status=0):
        run = self.brig.call(self.argv(*args))
        assert run.status == status, run
        return run

    def new(self, name, scope="run", *args):
        return self("new", name, "--scope", scope, *args).out.decode()

    def ls(self):
        return json.loads(self("ls", "--json").out.decode())

    def refused(self, *args, status=2):
        """The complaint: what is wrong and, in a line of its own, what to do."""
        run = self(*args, status=status)
        assert not run.out, run
        what, remedy = run.text.splitlines()
        assert what.startswith("brig: ") and remedy.startswith("      "), run
        return run.text


@pytest.fixture
def tokens(brig, place):
    return Store(brig, place)


def test_a_new_token_is_printed_once_and_kept_as_a_digest(tokens):
    run = tokens("new", "ci", "--scope", "run,read")
    text = run.out.decode()
    assert FORM.fullmatch(text)
    assert "only time" in run.text and text.strip() not in run.text
    kept = tokens.file.read_text()
    assert text.strip() not in kept and text.strip()[18:] not in kept
    assert hashlib.sha256(text.strip().encode()).hexdigest() in kept


def test_ls_shows_what_was_given(tokens):
    text = tokens.new("ci", "read,run", "--expires", "30d", "--rate", 5, "--concurrent", 2,
                      "--bytes-per-minute", "64M")
    tokens.new("console", "approve")
    first, second = tokens.ls()
    assert first.pop("created") and first.pop("expires") > time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    assert first == {"id": FORM.fullmatch(text).group(1), "name": "ci", "scopes": ["run", "read"],
                     "expired": False, "runs_per_s": 5, "concurrent": 2, "bytes_per_min": 64 << 20}
    assert second["expires"] is None and second["runs_per_s"] is None and second["scopes"] == ["approve"]
    shown = tokens("ls").out.decode()
    assert "run,read" in shown and "5/s 2 at a time" in shown and "never" in shown
    assert text.strip() not in shown


def test_ls_of_nothing(tokens):
    assert tokens("ls").out == b"no tokens\n"
    assert tokens.ls() == []


def test_new_json_has_the_token(tokens):
    made = json.loads(tokens("new", "ci", "--scope", "admin", "--json").out.decode())
    assert FORM.fullmatch(made["token"] + "\n").group(1) == made["id"]
    assert made["scopes"] == ["admin"] and "token" not in tokens.ls()[0]


def test_rm_takes_a_name_or_an_id(tokens):
    for name in ("a", "b", "c"):
        tokens.new(name)
    tokens("rm", "a")
    tokens("rm", tokens.ls()[0]["id"])
    assert [row["name"] for row in tokens.ls()] == ["c"]
    assert "brig token ls" in tokens.refused("rm", "a")


def test_a_name_that_is_taken_is_refused(tokens):
    tokens.new("ci")
    assert "brig token rm ci" in tokens.refused("new", "ci", "--scope", "run", status=1)
    assert len(tokens.ls()) == 1


def test_an_expired_token_is_shown_as_such_and_its_name_stays_taken(tokens):
    tokens.new("ci", "run", "--expires", "100ms")
    end = time.monotonic() + 30
    while not tokens.ls()[0]["expired"] and time.monotonic() < end:
        time.sleep(0.05)
    assert tokens.ls()[0]["expired"] and " expired " in tokens("ls").out.decode()
    tokens.refused("new", "ci", "--scope", "run", status=1)


@pytest.mark.parametrize("args", [
    ("new", "ci"), ("new", "ci", "--scope", "root"), ("new", "ci", "--scope", ""),
    ("new", "ci", "--scope", "run, read"), ("new", "a b", "--scope", "run"),
    ("new", "", "--scope", "run"), ("new", "x" * 49, "--scope", "run"), ("new", ".", "--scope", "run"),
    ("new", "ci", "--scope", "run", "--rate", "0"), ("new", "ci", "--scope", "run", "--rate", "-1"),
    ("new", "ci", "--scope", "run", "--rate", "1e3"), ("new", "ci", "--scope", "run", "--rate", "4294967297"),
    ("new", "ci", "--scope", "run", "--rate", "1000001"), ("new", "ci", "--scope", "run", "--concurrent", "0"),
    ("new", "ci", "--scope", "run", "--bytes-per-minute", "0"),
    ("new", "ci", "--scope", "run", "--bytes-per-minute", "2048G"),
    ("new", "ci", "--scope", "run", "--expires", "0"), ("new", "ci", "--scope", "run", "--expires", "d"),
    ("new", "ci", "--scope", "run", "--expires", "3651d"),
    ("new", "ci", "--scope", "run", "--expires", "213503982334602d"),
    ("new", "ci", "--scope", "run", "--expires", "-1d"), ("new", "ci", "--scope", "run", "--expires", "never"),
    ("new", "--scope", "run"), ("new", "a", "b", "--scope", "run"), ("new", "ci", "--scope"),
    ("ls", "x"), ("ls", "--scope", "run"), ("rm",), ("rm", "a", "--json"), ("frob",), ("frob", "x"),
    ("new", "ci", "--scope", "run", "--what"),
], ids=lambda args: " ".join(args)[:50])
def test_wrong_usage_makes_nothing(brig_user, place, args):
    tokens = Store(brig_user, place)
    tokens.refused(*args)
    assert not tokens.file.exists()


def test_help_goes_to_stdout(brig_user):
    run = brig_user.command("token", "--help")
    assert run.status == 0 and b"brig token rm ci" in run.out and not run.text
    assert brig_user.command("token").status == 2


def test_many_at_the_same_time_lose_nothing(tokens):
    tokens.new("first")
    procs = [subprocess.Popen(tokens.argv("new", "n%d" % i, "--scope", "run"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for i in range(8)]
    texts = [proc.communicate(timeout=60)[0].decode() for proc in procs]
    assert all(proc.returncode == 0 for proc in procs) and len(set(texts)) == 8
    assert {row["name"] for row in tokens.ls()} == {"first"} | {"n%d" % i for i in range(8)}
    assert sorted(os.listdir(tokens.dir)) == ["tokens.json", "tokens.lock"]


def test_one_name_is_given_to_one_of_many(tokens):
    procs = [subprocess.Popen(tokens.argv("new", "ci", "--scope", "run"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for _ in range(4)]
    texts = [proc.communicate(timeout=60)[0].decode() for proc in procs]
    assert sorted(proc.returncode for proc in procs) == [0, 1, 1, 1]
    assert len([text for text in texts if text]) == 1 and len(tokens.ls()) == 1


def test_files_and_directory_are_the_owners_alone(tokens):
    tokens.new("ci")
    assert tokens.dir.stat().st_mode & 0o7777 == 0o700
    for name in os.listdir(tokens.dir):
        assert (tokens.dir / name).stat().st_mode & 0o7777 == 0o600, name


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o601])
def test_a_file_that_others_can_use_is_refused_and_left_alone(tokens, mode):
    tokens.new("ci")
    before = tokens.file.read_bytes()
    tokens.file.chmod(mode)
    for args in (("ls",), ("new", "b", "--scope", "run"), ("rm", "ci")):
        assert "chmod" in tokens.refused(*args, status=125)
    assert tokens.file.read_bytes() == before


def test_a_file_that_was_edited_is_refused_and_left_alone(tokens):
    tokens.new("ci")
    edited = tokens.file.read_text().replace('"run"', '"admin"')
    tokens.file.write_text(edited)
    for args in (("ls",), ("new", "b", "--scope", "run"), ("rm", "ci")):
        assert "changed after it was written" in tokens.refused(*args, status=125)
    assert tokens.file.read_text() == edited


def test_a_directory_of_another_user_is_refused(brig_root, brig_user, place):
    """Else root would leave a file there that its owner's daemon does not take."""
    Store(brig_user, place).new("ci")
    assert "uid %d" % USER_ID in Store(brig_root, place).refused("new", "b", "--scope", "run", status=125)
    assert Store(brig_user, place).ls()[0]["name"] == "ci"


def test_a_token_that_could_not_be_shown_is_not_kept(tokens):
    with open("/dev/full", "wb") as full:
        run = subprocess.run(tokens.argv("new", "ci", "--scope", "run"), stdout=full,
                             stderr=subprocess.PIPE, check=False)
    assert run.returncode == 125
    assert tokens.ls() == []
