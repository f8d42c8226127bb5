# SPDX-License-Identifier: Apache-2.0
"""Approvals from outside: what is not approved never runs, what is approved runs once and as shown.

The judge is what the code leaves: its output, a file fetched by --out, and rows in the ledger. Each
test has a state directory of its own. Expiry under a changed date (CF-12) is a unit test.
"""
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import termios
import time
import unicodedata

import pytest

from test_batch import start  # noqa: F401 (a fixture)

LIB = pathlib.Path(__file__).resolve().parents[1] / "lib"
ASK = LIB / "ask.yaml"
WAIT_S = 30
RAN = "echo ran"
CRITICAL = "rm -rf --no-preserve-root /"
NOTICE = re.compile(rb"approval ([0-9a-z]{26}) waits")


def until(condition, what, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("not in time: " + what)


class Asked:
    """A `brig run` whose question is known."""

    def __init__(self, desk, proc):
        self.desk, self.proc, self.err, self.id = desk, proc, b"", None

    def wait_asked(self):
        """The question is durable when the notice is there."""
        end = time.monotonic() + WAIT_S
        while not NOTICE.search(self.err):
            ready, _, _ = select.select([self.proc.stderr], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self.proc.stderr.fileno(), 65536) if ready else b""
            assert chunk, "nothing was asked: %r %r" % (self.err, ready and self.proc.stdout.read())
            self.err += chunk
        self.id = NOTICE.search(self.err).group(1).decode()
        return self

    def end(self):
        """(status, result) of the run."""
        out, err = self.proc.communicate(timeout=WAIT_S)
        self.err += err
        return self.proc.returncode, json.loads(out.decode())

    def expect(self, state, status):
        got, result = self.end()
        assert (result["state"], got) == (state, status), (result, self.err)
        return result

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.communicate()
        return self


class Desk:
    """One state directory: who asks there, who answers there, and what its ledger says."""

    def __init__(self, brig, place):
        self.brig, self.place, self.state, self.policy = brig, place, place / "state", ASK
        self.asked, self.n = [], 0

    def use(self, /, **approval):
        """Another policy: ask.yaml with other values of `approval`, or another file."""
        text = ASK.read_text()
        for key, value in approval.items():
            text, n = re.subn(r"(?m)^  %s: .*$" % key, "  %s: %s" % (key, value), text)
            assert n == 1, key
        return self.use_text(text)

    def use_text(self, text):
        self.n += 1
        self.policy = self.place / ("policy%d.yaml" % self.n)
        self.policy.write_text(text)
        self.policy.chmod(0o644)
        return self

    @property
    def options(self):
        return ["--policy", self.policy, "--state-dir", self.state]

    def run(self, code=RAN, *options, language="shell", **kw):
        return self.brig.run(language, "-c", code, *self.options, *options, **kw)

    def begin(self, code=RAN, *options, language="shell", **kw):
        proc = self.brig.start(language, "-c", code, *self.options, *options, json_result=True, **kw)
        self.asked.append(Asked(self, proc))
        return self.asked[-1]

    def ask(self, code=RAN, *options, **kw):
        return self.begin(code, *options, **kw).wait_asked()

    def ask_killed(self, code=RAN, *options, **kw):
        """A question whose asker is dead."""
        return self.ask(code, *options, **kw).kill()

    def approvals(self, *args, **kw):
        return self.brig.command("approvals", *args, "--state-dir", self.state, **kw)

    def answer(self, verb, asked, *options, status=0):
        done = self.approvals(verb, getattr(asked, "id", asked), *options)
        assert done.status == status, done
        return done

    def ls(self, *options):
        return self.approvals("ls", "--json", *options).result

    def look(self, asked):
        return self.approvals("show", getattr(asked, "id", asked), "--json").result

    def rows(self, name=None, job=None):
        done = self.brig.command("ledger", "export", "--state-dir", self.state)
        assert done.status == 0, done
        rows = [json.loads(line) for line in done.out.decode().splitlines()]
        return [r for r in rows if (not name or r["name"] == name) and (not job or r["job"] == job)]

    def names(self, job):
        return [r["name"] for r in self.rows(job=job) if r["kind"] == "state"]

    def verify(self):
        done = self.brig.command("ledger", "verify", "--state-dir", self.state)
        assert done.status == 0 and done.out.startswith(b"sound"), done

    def never_ran(self, job=None):
        assert not self.rows("running", job) and not self.rows("finished", job)
        self.verify()


@pytest.fixture
def desk(brig, place):
    yield from make_desk(brig, place)


@pytest.fixture
def root_desk(brig_root, place):
    yield from make_desk(brig_root, place)


@pytest.fixture
def user_desk(brig_user, place):
    """What does not depend on who runs it."""
    yield from make_desk(brig_user, place)


def make_desk(brig, place):
    one = Desk(brig, place)
    yield one
    for asked in one.asked:
        asked.kill()


def file_in(place, name, content):
    path = place / name
    path.write_bytes(content)
    path.chmod(0o644)
    return path


# --- CF-01: nothing without an answer -------------------------------------------------------------

def test_CF_01_an_allowed_run_runs_once(desk):
    asked = desk.ask("echo ran; echo made > made", "--out", "made:%s" % (desk.place / "made"))
    desk.answer("allow", asked)
    result = asked.expect("finished", 0)
    assert result["stdout"] == "ran\n" and (desk.place / "made").read_text() == "made\n"
    assert result["approval_id"] == asked.id and desk.look(asked)["state"] == "used"
    assert desk.names(result["execution_id"]) == [
        "received", "analysed", "decided", "waiting", "confirmed", "routed", "running", "finished"]
    desk.verify()


def test_CF_01_a_denied_run_never_runs(desk):
    asked = desk.ask("echo ran; echo made > made", "--out", "made:%s" % (desk.place / "made"))
    desk.answer("deny", asked, "--reason", "not today")
    result = asked.expect("denied", 126)
    assert "not today" in result["error"]["cause"] and result["error"]["code"] == "denied", result
    assert result["stdout"] == "" and not (desk.place / "made").exists()
    assert result["approval_id"] == asked.id and not result["receipt"]["verified"]
    assert desk.names(result["execution_id"])[-2:] == ["waiting", "denied"]
    desk.never_ran()


def test_CF_01_a_question_expires_to_a_denial(desk):
    asked = desk.use(expires="1s").ask()
    result = asked.expect("expired", 126)
    assert result["error"]["code"] == "expired" and result["stdout"] == "", result
    assert desk.look(asked)["state"] == "expired" and desk.ls() == []
    assert desk.names(result["execution_id"])[-2:] == ["waiting", "expired"]
    assert len(desk.rows("approval.expired")) == 1
    desk.never_ran()


def test_CF_01_while_nobody_answers_nothing_runs(user_desk):
    asked = user_desk.ask()
    with pytest.raises(subprocess.TimeoutExpired):
        asked.proc.wait(timeout=2.5)
    user_desk.never_ran()
    user_desk.answer("deny", asked)
    asked.expect("denied", 126)


def test_CF_01_the_policy_denies_without_a_question(desk):
    run = desk.run(CRITICAL, "--confirm", "approve")
    result = run.expect("denied", 126)
    assert "never" in result["error"]["cause"] and result["approval_id"] is None, run
    assert desk.ls("--all") == []
    desk.never_ran()


@pytest.mark.parametrize("how, state, status", [("approve", "finished", 0), ("deny", "denied", 126)])
def test_CF_01_answers_without_a_person(desk, how, state, status):
    result = desk.run(RAN, "--confirm", how).expect(state, status)
    assert result["stdout"] == ("ran\n" if how == "approve" else "")
    name = {"approve": "approval.allowed", "deny": "approval.denied"}[how]
    assert [r["actor"] for r in desk.rows(name)] == ["auto-" + how]


def test_CF_01_warm_boxes_wait_too(root_desk):
    asked = root_desk.ask(RAN, "--warm")
    root_desk.never_ran()
    root_desk.answer("allow", asked)
    assert asked.expect("finished", 0)["stdout"] == "ran\n"
    denied = root_desk.ask(RAN, "--warm")
    root_desk.answer("deny", denied)
    denied.expect("denied", 126)
    assert len(root_desk.rows("running")) == 1


# --- CF-02, CF-03: exactly what was shown ---------------------------------------------------------

def test_CF_02_a_file_changed_after_the_question_is_not_what_runs(desk):
    path = file_in(desk.place, "data", b"bound\n")
    script = file_in(desk.place, "script.sh", b"cat data\n")
    proc = desk.brig.start(script, "--file", "%s:data" % path, *desk.options, json_result=True)
    asked = Asked(desk, proc)
    desk.asked.append(asked)
    asked.wait_asked()
    file_in(desk.place, "data", b"swapped\n")
    file_in(desk.place, "script.sh", b"echo swapped\n")
    desk.answer("allow", asked)
    assert asked.expect("finished", 0)["stdout"] == "bound\n"


OTHERS = {
    "file": ["--file", "{place}/other:data"], "path": ["--file", "{place}/data:data2"],
    "file more": ["--file", "{place}/data:data", "--file", "{place}/data:more"],
    "memory": ["--memory", "300M"], "timeout": ["--timeout", "29s"], "args": ["--", "x"],
    "env": ["--env", "A=1"], "stdin": ["--stdin", "{place}/other"], "network": ["--network", "none"],
    "output": ["--output", "1M"], "pids": ["--pids", "50"], "tier": ["--tier", "jail"],
}


def test_CF_02_anything_else_has_another_digest_and_asks_again(user_desk):
    """A standing yes covers the very same request, and none that differs in one thing."""
    desk = user_desk
    file_in(desk.place, "data", b"one"), file_in(desk.place, "other", b"two")
    same = ["--file", "%s/data:data" % desk.place]
    first = desk.ask(RAN, *same)
    desk.answer("allow", first, "--for", "1h")
    first.expect("finished", 0)
    assert desk.run(RAN, *same).expect("finished", 0)["approval_id"] == first.id  # control
    seen = {desk.look(first)["digest"]}
    for what, options in OTHERS.items():
        options = [o.format(place=desk.place) for o in options]
        keep = [] if options[0] == "--file" else same
        asked = desk.ask_killed(RAN, *keep, *options)
        assert desk.look(asked)["digest"] not in seen, what
        seen.add(desk.look(asked)["digest"])
        desk.answer("deny", asked)
    file_in(desk.place, "data", b"changed")  # the same path with another content
    asked = desk.ask_killed(RAN, *same)
    assert desk.look(asked)["digest"] not in seen
    assert len(desk.rows("running")) == 2


def test_CF_03_an_approval_of_one_code_does_not_cover_another(desk):
    first = desk.ask_killed("echo A")
    desk.answer("allow", first)
    other = desk.ask_killed("echo B")
    assert other.id != first.id and desk.look(other)["digest"] != desk.look(first)["digest"]
    desk.never_ran()
    assert desk.run("echo A").expect("finished", 0)["stdout"] == "A\n"  # control


def test_CF_03_the_language_counts(user_desk):
    first = user_desk.ask_killed("print(1)", language="python")
    user_desk.answer("allow", first)
    user_desk.ask_killed("print(1)", language="javascript")
    user_desk.never_ran()


def test_CF_03_an_answer_for_another_digest_is_refused_and_recorded(desk):
    asked = desk.ask()
    digest = desk.look(asked)["digest"]
    other = hashlib.sha256(b"other").hexdigest()
    refused = desk.answer("allow", asked, "--digest", other, status=1)
    assert "another digest" in refused.text, refused
    rows = desk.rows("approval.refused")
    assert len(rows) == 1 and rows[0]["detail"]["approval"] == asked.id, rows
    assert desk.look(asked)["state"] == "waiting"
    desk.never_ran()
    desk.answer("allow", asked, "--digest", "xyz", status=2)
    desk.answer("allow", asked, "--digest", digest)
    asked.expect("finished", 0)


# --- CF-04: races ---------------------------------------------------------------------------------

def all_at_once(argvs):
    """Statuses of processes that wait for each other before they begin."""
    gate_r, gate_w = os.pipe()
    procs = [subprocess.Popen(["sh", "-c", 'read x; exec "$@" < /dev/null', "sh", *map(os.fspath, a)],
                              stdin=gate_r, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for a in argvs]
    os.close(gate_r)
    os.close(gate_w)  # the end of the file lets all of them go
    outs = [p.communicate(timeout=WAIT_S) for p in procs]
    return [p.returncode for p in procs], outs


def ask_many(desk, n):
    """Questions of a batch that died."""
    level = "standard" if desk.brig.is_root else "degraded-ok"
    lines = [json.dumps({"language": "shell", "code": "echo %d" % i, "level": level}) for i in range(n)]
    proc = subprocess.Popen(desk.brig.argv("batch", "--jobs", str(n), *desk.options), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        proc.stdin.write("\n".join(lines).encode() + b"\n")
        proc.stdin.flush()
        return until(lambda: (desk.state / "ledger.db").exists() and len(desk.ls()) == n and desk.ls(),
                     "%d questions" % n)
    finally:
        proc.kill()
        proc.communicate()


def test_CF_04_one_answer_wins(root_desk):
    """Four answers at once, in many rounds; the ledger has one decision and three refusals each."""
    desk, verbs, won = root_desk.use(pending=1000, expires="5m"), ["allow", "deny"] * 2, {}
    end = time.monotonic() + 15
    for asked in ask_many(desk, 300):
        statuses, outs = all_at_once([
            desk.brig.argv("approvals", v, asked["id"], "--state-dir", desk.state) for v in verbs])
        assert sorted(statuses) == [0, 1, 1, 1], (statuses, outs)
        won[asked["id"]] = {"allow": "allowed", "deny": "denied"}[verbs[statuses.index(0)]]
        if time.monotonic() > end and len(won) >= 20:
            break
    now = {a["id"]: a["state"] for a in desk.ls("--all")}
    assert {i: now[i] for i in won} == won
    decided = [r["detail"]["approval"] for r in desk.rows("approval.allowed") + desk.rows("approval.denied")]
    assert sorted(decided) == sorted(won)
    assert len(desk.rows("approval.refused")) == 3 * len(won)
    desk.never_ran()


def test_CF_04_one_allow_once_is_used_by_one_run(root_desk):
    desk, end, rounds = root_desk.use(pending=1000, expires="20s"), time.monotonic() + 8, 0
    while time.monotonic() < end or rounds < 3:
        code = "echo ran %d" % rounds
        asked = desk.ask_killed(code)
        desk.answer("allow", asked)
        runs = [desk.begin(code) for _ in range(4)]
        winner = until(lambda: [r for r in runs if r.proc.poll() is not None], "one runs")
        assert len(winner) == 1
        assert winner[0].expect("finished", 0)["approval_id"] == asked.id
        for run in set(runs) - set(winner):
            assert run.wait_asked().id != asked.id
            run.kill()
        rounds += 1
    assert len(desk.rows("running")) == len(desk.rows("finished")) == rounds
    assert len(desk.rows("approval.used")) == rounds
    desk.verify()


def test_CF_04_answer_against_expiry(user_desk):
    """Around the moment: either it was in time and runs, or it was not and does not."""
    desk = user_desk.use(expires="1s")
    ends = []
    for i in range(4):
        asked = desk.ask("echo %d" % i)
        time.sleep(0.7 + 0.1 * i)
        done = desk.approvals("allow", asked.id)
        status, result = asked.end()
        if done.status == 0 and result["state"] == "finished":
            assert status == 0 and result["stdout"] == "%d\n" % i
        else:
            assert result["state"] in ("expired", "denied") and status == 126, (done, result)
            assert result["error"] and result["error"]["cause"], result
        ends.append(result["state"])
    assert len(desk.rows("running")) == ends.count("finished")


# --- CF-05: once ----------------------------------------------------------------------------------

@pytest.mark.parametrize("first", ["allow", "deny"])
@pytest.mark.parametrize("second", ["allow", "deny"])
def test_CF_05_a_second_answer_is_refused(user_desk, first, second):
    desk = user_desk
    asked = desk.ask_killed()
    desk.answer(first, asked)
    refused = desk.answer(second, asked, status=1)
    assert "already" in refused.text, refused
    assert [r["detail"]["approval"] for r in desk.rows("approval.refused")] == [asked.id]
    assert desk.look(asked)["state"] == {"allow": "allowed", "deny": "denied"}[first]
    desk.never_ran()


def test_CF_05_an_answer_after_use_is_refused(desk):
    asked = desk.ask()
    desk.answer("allow", asked)
    asked.expect("finished", 0)
    for verb in ("allow", "deny", "revoke"):
        desk.answer(verb, asked, status=1)
    assert len(desk.rows("approval.refused")) >= 2 and desk.look(asked)["state"] == "used"
    again = desk.ask_killed()  # the use was the only one
    assert again.id != asked.id and len(desk.rows("running")) == 1


def test_CF_05_an_answer_after_expiry_is_refused(user_desk):
    desk = user_desk.use(expires="1s")
    asked = desk.ask_killed()
    until(lambda: desk.look(asked)["state"] == "expired", "expiry")
    refused = desk.answer("allow", asked, status=1)
    assert "expired" in refused.text and len(desk.rows("approval.refused")) == 1
    desk.never_ran()


def test_CF_05_an_answer_to_nothing(user_desk):
    user_desk.ask_killed()
    assert user_desk.approvals("allow", "nosuch").status == 2
    assert user_desk.approvals("allow", "").status == 2
    assert user_desk.approvals("allow").status == 2
    assert user_desk.ls()[0]["state"] == "waiting"


# --- CF-06: whoever asks dies ---------------------------------------------------------------------

def test_CF_06_the_answer_waits_for_the_next_run_and_is_used_once(desk):
    asked = desk.ask_killed()
    assert [a["id"] for a in desk.ls()] == [asked.id]
    desk.answer("allow", asked)
    result = desk.run().expect("finished", 0)
    assert result["stdout"] == "ran\n" and result["approval_id"] == asked.id
    again = desk.ask_killed()
    assert again.id != asked.id and len(desk.rows("running")) == 1
    desk.verify()


def test_CF_06_a_later_run_takes_the_waiting_question_over(desk):
    first = desk.ask_killed()
    second = desk.ask()
    assert second.id == first.id and len(desk.rows("approval.requested")) == 1
    desk.answer("allow", second)
    assert second.expect("finished", 0)["approval_id"] == first.id
    desk.run(RAN, "--confirm", "deny").expect("denied", 126)  # and all of it is used up
    old = [r["job"] for r in desk.rows("waiting")][0]
    assert desk.names(old)[-1] in ("lost", "expired", "cancelled") and "running" not in desk.names(old)


def test_CF_06_a_question_of_a_live_run_is_not_taken_over(user_desk):
    first, second = user_desk.ask(), user_desk.ask()
    assert first.id != second.id
    user_desk.answer("allow", first)
    first.expect("finished", 0)
    assert second.proc.poll() is None and user_desk.look(second)["state"] == "waiting"
    user_desk.answer("deny", second)
    second.expect("denied", 126)


def test_CF_06_another_session_does_not_take_it_over(user_desk):
    first = user_desk.ask_killed(RAN, "--session", "one")
    second = user_desk.ask_killed(RAN, "--session", "two")
    assert first.id != second.id
    user_desk.answer("allow", first)
    assert user_desk.ask_killed(RAN, "--session", "two").id == second.id  # nor the answer
    user_desk.never_ran()


def test_CF_06_after_expiry_the_question_is_over(user_desk):
    desk = user_desk.use(expires="1s")
    first = desk.ask_killed()
    until(lambda: desk.look(first)["state"] == "expired", "expiry")
    desk.answer("allow", first, status=1)
    assert desk.ask().id != first.id
    assert desk.names(desk.rows("waiting")[0]["job"])[-1] == "expired"


def test_CF_06_an_allow_that_nobody_used_in_time_is_over(user_desk):
    desk = user_desk.use(expires="2s")
    asked = desk.ask_killed()
    desk.answer("allow", asked)
    time.sleep(2.2)  # its time
    assert desk.ask_killed().id != asked.id
    desk.never_ran()


def test_CF_06_what_stands_no_longer_is_not_listed(user_desk):
    """An allow once that was not used in time does not stand, and its dead asker is no open job."""
    desk = user_desk.use(expires="2s")
    asked = desk.ask_killed()
    desk.answer("allow", asked)
    time.sleep(2.2)
    assert desk.ls() == []
    desk.run(RAN, "--confirm", "deny")  # whoever opens ends what is left
    assert desk.names(desk.rows("waiting")[0]["job"])[-1] != "waiting"


# --- CF-07: not from inside -----------------------------------------------------------------------

PROBE = """
import glob, os, subprocess, sys
places = %r
for p in places:
    for what in (p, os.path.join(p, 'ledger.db'), os.path.join(p, 'bell'), os.path.join(p, 'ledger.key')):
        try:
            os.stat(what)
            print('there', what)
        except OSError:
            pass
        try:
            if sys.argv[1:] == ['inside']:
                open(what, 'r+b').close()
                print('written', what)
        except OSError:
            pass
for pid in filter(str.isdigit, os.listdir('/proc')):
    for fd in glob.glob('/proc/%%s/fd/*' %% pid):
        try:
            if 'ledger' in os.readlink(fd) or 'bell' in os.readlink(fd):
                print('descriptor', fd)
        except OSError:
            pass
    try:
        if b'approvals' in open('/proc/%%s/cmdline' %% pid, 'rb').read():
            print('process', pid)
    except OSError:
        pass
for argv in (['brig', 'approvals', 'ls'], [%r, 'approvals', 'ls', '--state-dir', places[0]]):
    try:
        if subprocess.run(argv, stdout=-1, stderr=-1).returncode == 0:
            print('answers', argv)
    except OSError:
        pass
print('probed', os.environ.get('BRIG_STATE_DIR'))
"""


def test_CF_07_the_state_is_not_reachable_from_inside(desk):
    places = [os.fspath(desk.state), os.environ["BRIG_STATE_DIR"], "/var/lib/brig",
              os.path.expanduser("~/.local/state/brig")]
    code = PROBE % (places, os.fspath(desk.brig.path))
    asked = desk.ask(code, "--", "inside", language="python")
    control = subprocess.run(["python3", "-c", code], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "there %s\n" % (desk.state / "ledger.db") in control, control
    assert "answers" in control, control
    desk.answer("allow", asked)
    assert asked.expect("finished", 0)["stdout"] == "probed None\n"


def test_CF_07_the_shell_does_not_reach_it_either(desk):
    code = "ls %s; cat %s/ledger.db; %s approvals ls --state-dir %s; echo end" % (
        desk.state, desk.state, desk.brig.path, desk.state)
    asked = desk.ask(code)
    desk.answer("allow", asked)
    assert asked.expect("finished", 0)["stdout"] == "end\n"


# --- CF-08: what an approver sees -----------------------------------------------------------------

# Seen by nobody, or seen as something else; that is: every control, format and blank character.
HIDDEN = [chr(c) for c in range(1, 0x110000)
          if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zs", "Zl", "Zp") and chr(c) not in "\n\t "]
HIDDEN += list("\u115f\u1160\u3164\uffa0\u034f\u2800")  # letters and a symbol without a shape
HIDDEN = [c for c in HIDDEN if c not in "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891"
          "\u08e2\U000110bd\U000110cd"]  # format characters with a shape


def only_plain(text, allowed="\n\t "):
    """Fails when the text holds a hidden character."""
    bad = {c for c in text if c in set(HIDDEN) and c not in allowed}
    assert not bad, sorted("U+%04X" % ord(c) for c in bad)


def shown(desk, asked, *options):
    done = desk.approvals("show", asked.id, *options)
    assert done.status == 0 and done.err == b"", done
    return done.out.decode("utf-8")  # which must be possible


def test_CF_08_no_hidden_character_reaches_the_approver(user_desk):
    desk = user_desk
    code = ": " + "".join("a%sb" % c for c in HIDDEN if c != "\r")
    asked = desk.ask_killed(code)
    for options in ([], ["--all"]):
        text = shown(desk, asked, *options)
        only_plain(text)
        assert desk.look(asked)["digest"] in text
    assert "\\u202e" in text and "\\u200b" in text and "\\x1b" in text and "\\u009b" in text
    assert re.search(r"\d+ characters that cannot be seen", text), text
    assert desk.approvals("show", asked.id, "--raw").out.decode() == code


def test_CF_08_bytes_that_are_no_text(user_desk):
    desk = user_desk
    code = bytes(range(1, 256)) * 3 + b"\xed\xa0\x80\xc0\xaf\xf5\x80\x80\x80\xff"
    script = file_in(desk.place, "script.sh", b": <<'E'\n" + code + b"\nE\n")
    run = desk.brig.start(script, *desk.options, json_result=True)
    desk.asked.append(Asked(desk, run))
    asked = desk.asked[0].wait_asked().kill()
    only_plain(shown(desk, asked, "--all"))
    assert desk.approvals("show", asked.id, "--raw").out == script.read_bytes()


def test_CF_08_names_and_values_are_shown_plainly_too(user_desk):
    desk = user_desk
    dirty = "".join(c for c in HIDDEN)[:150] + "\n\r\x1b[2J\u202eevil\u2066"
    dirty = dirty.replace("/", "")
    file_in(desk.place, "data", b"x")
    asked = desk.ask_killed(RAN, "--env", "A=%s" % dirty, "--", dirty)
    text = shown(desk, asked)
    only_plain(text)
    assert "\\x1b[2J\\u202eevil" in text
    only_plain(desk.approvals("ls").out.decode())
    request = desk.look(asked)["request"]
    assert request["args"] == [dirty] and request["env"] == ["A=" + dirty]


@pytest.mark.parametrize("name", ["a\u202eb", "a\x1b[2Jb", "a\nb", "a\u200bb", "a\x9bb", "a\u2028b"])
def test_CF_08_sessions_files_and_reasons(user_desk, name):
    """A name is refused, or shown plainly."""
    desk = user_desk
    file_in(desk.place, "data", b"x")
    for options in (["--session", name], ["--file", "%s/data:%s" % (desk.place, name)], ["--label", name]):
        run = desk.begin(RAN, *options)
        until(lambda: desk.ls() or run.proc.poll() is not None, "a question or a refusal")
        run.kill()
        assert desk.ls() or run.proc.returncode in (2, 125, 126)
        for a in desk.ls():
            only_plain(desk.approvals("show", a["id"]).out.decode())
            only_plain(desk.approvals("ls").out.decode())
            done = desk.answer("deny", a["id"], "--reason", name)
            only_plain(done.out.decode() + done.text)
    only_plain(desk.brig.command("ledger", "ls", "--state-dir", desk.state).out.decode())


def test_CF_08_one_long_line(user_desk):
    desk = user_desk
    code = ": " + "x" * ((1 << 20) - 12) + "; echo END"
    script = file_in(desk.place, "long.sh", code.encode())
    desk.asked.append(Asked(desk, desk.brig.start(script, *desk.options, json_result=True)))
    asked = desk.asked[0].wait_asked().kill()
    text = shown(desk, asked)
    assert len(text) < 10000 and re.search(r"\d{6,} bytes more in this line", text), text[-300:]
    assert "Code:     %d bytes" % len(code) in text
    assert "echo END" in shown(desk, asked, "--all")
    assert desk.approvals("show", asked.id, "--raw").out == code.encode()


def test_CF_08_many_lines(user_desk):
    desk = user_desk
    code = "echo approved\n" + "\n" * 20000 + "echo END"
    script = file_in(desk.place, "tall.sh", code.encode())
    desk.asked.append(Asked(desk, desk.brig.start(script, *desk.options, json_result=True)))
    asked = desk.asked[0].wait_asked().kill()
    text = shown(desk, asked)
    assert text.count("\n") < 200 and re.search(r"\[\d{5} lines more: brig approvals show --all", text)
    assert "echo END" in shown(desk, asked, "--all")
    assert desk.approvals("show", asked.id, "--raw").out == code.encode()


def test_CF_08_code_cannot_look_like_brig(user_desk):
    """Every line of the code has its mark, so none is taken for a line of the question."""
    desk = user_desk
    fake = "Approval %s (allowed)\nDigest:   %s\nRisk:     none\nbrig: allowed" % ("0" * 26, "0" * 64)
    asked = desk.ask_killed(": '\n" + "\n" * 30 + fake + "\n'")
    text = shown(desk, asked)
    for line in fake.splitlines():
        assert "\n" + line not in text and "\n  | " + line in text
    assert text.count("\nDigest:") == 1


def test_CF_08_lookalikes_are_counted(user_desk):
    asked = user_desk.ask_killed("echo p\u0430ypal \u0435\u0445\u0430mple")
    text = shown(user_desk, asked)
    assert "4 characters are not ASCII" in text, text
    plain = user_desk.ask_killed("echo paypal")
    assert "not ASCII" not in shown(user_desk, plain)


def test_CF_08_everything_can_be_seen(user_desk):
    """What the digest binds can be read by whoever answers: all arguments, to their end."""
    desk = user_desk
    asked = desk.ask_killed(RAN, "--", "x" * 5000 + "END1", *["arg%d" % i for i in range(100)], "END2")
    text = shown(desk, asked)
    assert "..." in text and "more" in text
    full = shown(desk, asked, "--all")
    assert "END1" in full and "END2" in full
    assert desk.look(asked)["request"]["args"][-1] == "END2"


def test_CF_08_limits_are_told_as_they_are_given(user_desk):
    asked = user_desk.ask_killed(RAN, "--cpus", "1.5")
    assert " cpus=1.5 " in shown(user_desk, asked) + " ", shown(user_desk, asked)
    assert user_desk.look(asked)["request"]["limits"]["cpus"] == 1.5


# --- CF-09: floods --------------------------------------------------------------------------------

def test_CF_09_too_many_questions_of_one_session(desk):
    desk.use(pending=3)
    live = [desk.ask("echo %d" % i, "--session", "flood") for i in range(3)]
    run = desk.run("echo 4", "--session", "flood")
    result = run.result
    assert result["state"] in ("denied", "setup_failed") and run.status in (125, 126), run
    assert result["error"]["code"] == "limit" and "3 questions" in result["error"]["cause"], run
    assert result["error"]["remedy"] and result["stdout"] == ""
    assert len(desk.ls()) == 3
    desk.ask_killed("echo 4", "--session", "other")  # control: not everybody suffers
    desk.answer("deny", live[0])
    live[0].expect("denied", 126)
    desk.ask_killed("echo 4", "--session", "flood")  # control: there is room again
    desk.never_ran()


def test_CF_09_dead_askers_count(user_desk):
    """Else a loop that is killed each time would fill the approver's list."""
    desk = user_desk.use(pending=3)
    for i in range(3):
        desk.ask_killed("echo %d" % i)
    assert desk.run("echo 4").result["error"]["code"] == "limit"
    assert len(desk.ls()) == 3


# --- CF-10: how far a yes reaches -----------------------------------------------------------------

def test_CF_10_a_session(desk):
    asked = desk.ask(RAN, "--session", "one")
    desk.answer("allow", asked, "--session")
    asked.expect("finished", 0)
    for _ in range(2):
        again = desk.run(RAN, "--session", "one").expect("finished", 0)
        assert again["approval_id"] == asked.id
    assert desk.look(asked)["state"] == "allowed" and [a["id"] for a in desk.ls()] == [asked.id]
    ran = len(desk.rows("running"))
    for options in (["--session", "two"], [], ["--session", "one", "--memory", "300M"]):
        assert desk.ask_killed(RAN, *options).id != asked.id
    assert desk.ask_killed("echo other", "--session", "one").id != asked.id
    assert len(desk.rows("running")) == ran == 3
    assert len(desk.rows("approval.used")) == 3
    desk.verify()


def test_CF_10_a_session_that_is_revoked(user_desk):
    desk = user_desk
    asked = desk.ask(RAN, "--session", "one")
    desk.answer("allow", asked, "--session")
    asked.expect("finished", 0)
    desk.answer("revoke", asked)
    assert desk.ls() == [] and desk.look(asked)["state"] == "revoked"
    assert len(desk.rows("approval.revoked")) == 1
    assert desk.ask_killed(RAN, "--session", "one").id != asked.id
    desk.answer("revoke", asked, status=1)
    assert len(desk.rows("running")) == 1


def test_CF_10_no_session_no_yes_for_it(user_desk):
    asked = user_desk.ask_killed()
    assert user_desk.approvals("allow", asked.id, "--session").status in (1, 2)
    assert user_desk.look(asked)["state"] == "waiting"


def test_CF_10_for_a_time(desk):
    asked = desk.ask()
    desk.answer("allow", asked, "--for", "3s")
    begin = time.monotonic()
    asked.expect("finished", 0)
    ran = 1
    if time.monotonic() - begin < 2:
        assert desk.run(RAN, "--session", "any").expect("finished", 0)["approval_id"] == asked.id
        ran += 1
    entry = desk.look(asked)
    assert entry["remembered"] == "digest" and entry["until"]
    time.sleep(max(0, 3.1 - (time.monotonic() - begin)))
    assert desk.ask_killed().id != asked.id
    assert asked.id not in [a["id"] for a in desk.ls()]
    assert len(desk.rows("running")) == ran


def test_CF_10_for_a_time_revoked(user_desk):
    desk = user_desk
    asked = desk.ask()
    desk.answer("allow", asked, "--for", "10m")
    asked.expect("finished", 0)
    assert [a["id"] for a in desk.ls()] == [asked.id]
    desk.answer("revoke", asked)
    assert desk.ask_killed().id != asked.id


@pytest.mark.parametrize("remember, options", [
    ("nothing", ["--session"]), ("nothing", ["--for", "1s"]), ("session", ["--for", "1s"]),
    ("digest", ["--for", "61m"]), ("digest", ["--for", "1000d"])])
def test_CF_10_more_than_the_policy_permits_is_refused(user_desk, remember, options):
    desk = user_desk.use(remember=remember)
    asked = desk.ask(RAN, "--session", "one")
    done = desk.approvals("allow", asked.id, *options)
    assert done.status == (1 if "1000d" not in options else done.status) and done.status, done
    assert desk.look(asked)["state"] == "waiting"
    if done.status == 1:
        assert len(desk.rows("approval.refused")) == 1
    desk.never_ran()
    desk.answer("allow", asked)
    asked.expect("finished", 0)


@pytest.mark.parametrize("time_text", ["0", "0s", "-1s", "", "x", "1y", "99999999999999999999s"])
def test_CF_10_times_that_are_none(user_desk, time_text):
    asked = user_desk.ask_killed()
    done = user_desk.approvals("allow", asked.id, "--for", time_text)
    assert done.status in (1, 2), done
    assert user_desk.look(asked)["state"] == "waiting"
    user_desk.approvals("allow", asked.id, "--session", "--for", "1s")
    assert user_desk.look(asked)["state"] == "waiting"


# --- CF-11: not by oneself ------------------------------------------------------------------------

def test_CF_11_the_asker_cannot_allow(desk):
    asked = desk.use(self="false").ask()
    refused = desk.answer("allow", asked, status=1)
    assert "somebody else than the asker" in refused.text, refused
    assert len(desk.rows("approval.refused")) == 1
    desk.never_ran()
    desk.answer("deny", asked)
    asked.expect("denied", 126)


def test_CF_11_root_is_not_sent_to_root(root_desk):
    """For root's own question there is nobody else, and it is said what would help."""
    asked = root_desk.use(self="false").ask()
    refused = root_desk.answer("allow", asked, status=1)
    for text in (refused.text, asked.err.decode()):
        assert "nobody else can allow it on this machine" in text and "self: true" in text, text
        assert "as root" not in text and "root answers" not in text, text
    root_desk.answer("deny", asked)
    asked.expect("denied", 126)


def test_CF_11_a_user_is_sent_to_root(user_desk):
    asked = user_desk.use(self="false").ask()
    where = "--state-dir %s" % user_desk.state
    assert "as root with " + where in asked.err.decode(), asked.err
    assert "root answers with " + where in user_desk.answer("allow", asked, status=1).text
    user_desk.answer("deny", asked)
    asked.expect("denied", 126)


def test_CF_11_nor_without_a_person(desk):
    asked = desk.use(self="false").ask(RAN, "--confirm", "approve")
    assert desk.look(asked)["state"] == "waiting" and b"somebody else than the asker" in asked.err
    desk.never_ran()
    desk.answer("deny", asked)
    asked.expect("denied", 126)


def test_CF_11_another_user_answers(brig_root, user_desk):
    """Root answers an ordinary user's question, in that user's state directory, which stays his."""
    desk = user_desk.use(self="false")
    asked = desk.ask()
    done = brig_root.command("approvals", "allow", asked.id, "--state-dir", desk.state)
    assert done.status == 0, done
    assert asked.expect("finished", 0)["stdout"] == "ran\n"
    assert desk.rows("approval.allowed")[0]["actor"] == "cli:0"
    owners = {os.lstat(p).st_uid for p in desk.state.iterdir()}
    assert owners == {os.lstat(desk.state).st_uid}, owners
    desk.run(RAN, "--confirm", "deny").expect("denied", 126)  # and he can still use it
    desk.verify()


def test_CF_11_a_third_user_does_not(brig_user, root_desk):
    """Root's state is root's."""
    asked = root_desk.use(self="false").ask()
    done = brig_user.command("approvals", "allow", asked.id, "--state-dir", root_desk.state)
    assert done.status != 0 and root_desk.look(asked)["state"] == "waiting", done
    root_desk.never_ran()


@pytest.mark.needs_root
def test_CF_11_a_user_namespace_is_no_other_user(user_desk):
    """In one of his own he is root, to himself."""
    desk = user_desk.use(self="false")
    asked = desk.ask()
    argv = desk.brig.argv("approvals", "allow", asked.id, "--state-dir", desk.state)
    at = argv.index(os.fspath(desk.brig.path))
    done = desk.brig.call(argv[:at] + ["unshare", "--user", "--map-root-user"] + argv[at:])
    assert done.status != 0 and desk.look(asked)["state"] == "waiting", done
    desk.never_ran()


# --- CF-13: the box stays the box -----------------------------------------------------------------

def test_CF_13_the_floor_of_a_policy_wins(brig_user, place):
    """An ordinary user has no cgroups here: what the policy wants cannot be had, so nothing runs."""
    desk = Desk(brig_user, place).use_text(
        "version: 1\nname: firm\ndefault: allow\nfloor:\n  level: standard\n")
    run = desk.run(RAN, "--level", "degraded-ok")
    assert run.status in (125, 126) and run.result["stdout"] == "", run
    assert run.result["receipt"]["level_required"] == "standard", run
    weak = desk.use_text("version: 1\nname: weak\ndefault: allow\nfloor:\n  level: degraded-ok\n")
    assert weak.run(RAN, "--level", "degraded-ok").expect("finished", 0)["stdout"] == "ran\n"


def test_CF_13_an_approval_does_not_weaken_the_box(desk):
    """The layers of an approved run are those of a run that nobody was asked about."""
    asked = desk.ask()
    desk.answer("allow", asked)
    approved = asked.expect("finished", 0)["receipt"]
    free = desk.use_text((LIB / "allow.yaml").read_text()).run().expect("finished", 0)["receipt"]
    def enforced(receipt):
        return {l["name"]: (l["required"], l["enforced"]) for l in receipt["layers"]}
    assert enforced(approved) == enforced(free) and approved["verified"]
    assert approved["level_achieved"] == free["level_achieved"]


def test_CF_13_limits_of_the_floor_hold_for_what_is_approved(desk):
    floor = "  level: degraded-ok"
    desk.use_text(ASK.read_text().replace(floor, floor + "\n  limits: { timeout: 2s }"))
    asked = desk.ask("sleep 20", "--timeout", "20s")
    assert desk.look(asked)["request"]["limits"]["timeout_ms"] == 2000
    desk.answer("allow", asked)
    asked.expect("timed_out", 124)


@pytest.mark.parametrize("confirm", ["ask", "approve"])
def test_CF_13_without_a_record_nothing_is_approved(desk, confirm):
    run = desk.run(RAN, "--no-record", "--confirm", confirm)
    result = run.expect("denied", 126)
    assert "no record" in result["error"]["cause"] and result["stdout"] == ""
    free = desk.use_text((LIB / "allow.yaml").read_text()).run(RAN, "--no-record")
    assert free.expect("finished", 0)["stdout"] == "ran\n"  # control


def test_CF_13_a_yes_of_a_looser_policy_is_none_for_a_stricter_one(user_desk):
    """Who may answer, and for how long, is what the policy of the run says."""
    desk = user_desk
    asked = desk.ask()
    desk.answer("allow", asked, "--for", "1h")
    asked.expect("finished", 0)
    desk.use(self="false", remember="nothing")
    again = desk.ask_killed()
    assert again.id != asked.id and len(desk.rows("running")) == 1


@pytest.mark.parametrize("text", [
    "", "version: 2\n", "default: allow\n", "{", "version: 1\nname: x\ndefault: maybe\n"])
def test_CF_13_a_policy_that_cannot_be_read_runs_nothing(user_desk, text):
    run = user_desk.use_text(text).run()
    assert run.status not in (0, 1) and run.result["stdout"] == "" and run.result["error"]["cause"], run


# --- other code than was asked for ----------------------------------------------------------------

def test_CF_13_a_yes_that_was_written_into_the_database_is_none(root_desk):
    """With the file but without the key: it is not used, and not called sound."""
    asked = root_desk.ask()
    root_desk.answer("deny", asked.id)
    asked.expect("denied", 126)
    with contextlib.closing(sqlite3.connect(root_desk.state / "ledger.db")) as db, db:
        columns = [c[1] for c in db.execute("PRAGMA table_info(approval)")]
        row = dict(zip(columns, db.execute("SELECT * FROM approval").fetchone()))
        row.update(id="0" * 26, state=2, scope=2, created_us=1, expires_us=1 << 62, until_us=1 << 62,
                   until_boot=1 << 62, answered_by="cli:1000")
        db.execute("INSERT INTO approval VALUES(%s)" % ",".join("?" * len(row)), list(row.values()))
    verdict = root_desk.brig.command("ledger", "verify", "--state-dir", root_desk.state)
    assert verdict.status != 0 and b"does not know" in verdict.out, verdict
    root_desk.ask().kill()


def test_CF_10_a_session_that_was_allowed_survives_a_cut(user_desk):
    """Also when the time to answer the question is long over."""
    user_desk.use(expires="2s")
    asked = user_desk.ask(RAN, "--session", "s")
    user_desk.answer("allow", asked.id, "--session")
    asked.expect("finished", 0)
    for pause in (2.1, 0.01):
        time.sleep(pause)
        pruned = user_desk.brig.command("ledger", "prune", "--before", "0s", "--yes", "--state-dir", user_desk.state)
        assert pruned.status == 0, pruned
        sound = user_desk.brig.command("ledger", "verify", "--state-dir", user_desk.state)
        assert sound.status == 0, sound
        user_desk.run(RAN, "--session", "s").expect("finished", 0)


def test_CF_10_a_shorter_remember_for_counts_from_the_answer(user_desk):
    user_desk.use(remember="digest", remember_for="1h")
    asked = user_desk.ask()
    user_desk.answer("allow", asked.id, "--for", "1h")
    asked.expect("finished", 0)
    user_desk.run().expect("finished", 0)
    user_desk.use(remember="digest", remember_for="1s")
    time.sleep(1.2)
    user_desk.ask().kill()


def test_edited_code_runs_in_the_place_of_the_original(desk):
    edited = file_in(desk.place, "edited.sh", b"echo edited $1")
    asked = desk.ask("echo original $1", "--", "arg")
    before = desk.look(asked)["digest"]
    desk.answer("allow", asked, "--edit", edited)
    result = asked.expect("finished", 0)
    assert result["stdout"] == "edited arg\n" and result["approval_id"] == asked.id
    after = desk.look(asked)
    assert after["edited"] and after["digest"] != before and after["state"] == "used"
    assert after["code"] == "echo edited $1"
    received = desk.rows("received", result["execution_id"])
    assert [r["detail"]["code"] for r in received] == [
        hashlib.sha256(c).hexdigest() for c in (b"echo original $1", b"echo edited $1")]
    assert len(desk.rows("analysed", result["execution_id"])) == 2
    assert len(desk.rows("running")) == 1
    confirmed = desk.rows("confirmed", result["execution_id"])
    assert [r["detail"]["digest"] for r in confirmed] == [after["digest"]]
    assert desk.ask_killed("echo original $1", "--", "arg").id != asked.id
    desk.verify()


def test_a_policy_that_denies_the_edited_code_has_the_last_word(desk):
    edited = file_in(desk.place, "edited.sh", CRITICAL.encode())
    asked = desk.ask()
    desk.answer("allow", asked, "--edit", edited)
    result = asked.expect("denied", 126)
    assert "never" in result["error"]["cause"] and result["stdout"] == "", result
    desk.never_ran()


@pytest.mark.parametrize("content", [b"", b"a\0b", b"x" * ((1 << 20) + 1)], ids=["empty", "NUL", "long"])
def test_edited_code_that_is_none(user_desk, content):
    edited = file_in(user_desk.place, "edited.sh", content)
    asked = user_desk.ask()
    done = user_desk.approvals("allow", asked.id, "--edit", edited)
    assert done.status in (1, 2, 125) and done.err, done
    assert user_desk.look(asked)["state"] == "waiting"
    assert user_desk.approvals("show", asked.id, "--raw").out == RAN.encode()
    user_desk.answer("allow", asked)  # control: it is as it was
    assert asked.expect("finished", 0)["stdout"] == "ran\n"


# --- ends of a waiting run ------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_withdraws_the_question(desk, number):
    asked = desk.ask()
    pid = asked.proc.pid
    os.kill(pid, number)
    result = asked.expect("cancelled", 130)
    assert desk.look(asked)["state"] == "withdrawn" and desk.ls() == []
    assert desk.names(result["execution_id"])[-2:] == ["waiting", "cancelled"]
    assert len(desk.rows("approval.withdrawn")) == 1
    desk.answer("allow", asked, status=1)
    desk.never_ran()


def test_a_run_that_was_stopped_over_the_expiry_is_told_why(user_desk):
    """It was allowed in time, but the run came too late to use it."""
    desk = user_desk.use(expires="2s")
    asked = desk.ask()
    os.kill(asked.proc.pid, signal.SIGSTOP)
    desk.answer("allow", asked)
    time.sleep(2.2)
    os.kill(asked.proc.pid, signal.SIGCONT)
    status, result = asked.end()
    assert result["state"] in ("denied", "expired") and status == 126, result
    assert result["error"] and result["error"]["cause"], result
    desk.never_ran()


# --- the terminal ---------------------------------------------------------------------------------

class Terminal:
    """A `brig run` with a terminal of its own, and what is on its screen."""

    def __init__(self, desk, code=RAN, *options, typed=b""):
        self.desk, self.screen = desk, ""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        os.fchmod(slave, 0o666)
        if typed:
            os.write(self.master, typed)
        self.proc = subprocess.Popen(
            desk.brig.run_argv("shell", "-c", code, *desk.options, *options), stdin=slave, stdout=slave,
            stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        desk.asked.append(self)

    def read(self):
        """False at the end."""
        ready, _, _ = select.select([self.master], [], [], 0.1)
        try:
            chunk = os.read(self.master, 65536) if ready else None
        except OSError as error:
            assert error.errno == errno.EIO
            return False
        self.screen += (chunk or b"").decode("utf-8", "replace")
        return chunk != b""

    def see(self, text, times=1):
        end = time.monotonic() + WAIT_S
        while self.screen.count(text) < times and time.monotonic() < end and self.read():
            pass
        assert self.screen.count(text) >= times, self.screen
        return self

    def type(self, keys):
        os.write(self.master, keys.encode())
        return self

    def end(self):
        end = time.monotonic() + WAIT_S
        while self.read():
            assert time.monotonic() < end, self.screen
        return self.proc.wait(timeout=WAIT_S)

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        with contextlib.suppress(OSError):
            os.close(self.master)


QUESTION = "[v]iew all: "


def test_terminal_yes(desk):
    t = Terminal(desk).see(QUESTION).type("y\n")
    assert t.end() == 0 and "\nran\r" in t.screen, t.screen
    assert desk.rows("approval.allowed")[0]["detail"]["why"] == "at the terminal"


@pytest.mark.parametrize("keys", ["n\n", "\x04", "x\nn\n"], ids=["n", "end of file", "garbage first"])
def test_terminal_no(desk, keys):
    t = Terminal(desk).see(QUESTION).type(keys)
    assert t.end() == 126 and "\nran" not in t.screen, t.screen
    desk.never_ran()


NO_ANSWERS = ["yes\n", "\n", "Y\n", " y\n", "yy\n", "yn\n", "\x16\x00\n", "x" * 64 + "y\n", "x" * 128 + "y\n",
              "x" * 62 + "y\n", "y\x04\x04", "yx\x04"]


@pytest.mark.parametrize("keys", NO_ANSWERS, ids=[repr(k) if len(k) < 9 else "%d and y" % (len(k) - 2)
                                                  for k in NO_ANSWERS])
def test_terminal_other_keys_are_no_answer(user_desk, keys):
    """A yes is the letter alone on its line. Else it is asked again, or taken for a no."""
    t = Terminal(user_desk).see(QUESTION).type(keys)
    end = time.monotonic() + WAIT_S
    while t.screen.count(QUESTION) < 2 and time.monotonic() < end and t.read():
        pass
    if user_desk.ls():
        t.type("n\n")
    assert t.end() == 126, t.screen
    user_desk.never_ran()


def test_terminal_keys_before_the_question_are_no_answer(user_desk):
    t = Terminal(user_desk, typed=b"y\ny\ny\n").see(QUESTION)
    with pytest.raises(subprocess.TimeoutExpired):
        t.proc.wait(timeout=1.5)
    user_desk.never_ran()
    t.type("y\n")
    assert t.end() == 0


def test_terminal_view(user_desk):
    code = "\n".join("echo %d" % i for i in range(300))
    t = Terminal(user_desk, code).see(QUESTION)
    assert "lines more" in t.screen and "echo 299" not in t.screen
    t.type("v\n").see("echo 299").see(QUESTION, 2).type("n\n")
    assert t.end() == 126


def test_terminal_session_and_time(user_desk):
    desk = user_desk
    t = Terminal(desk, RAN, "--session", "one").see(QUESTION)
    assert "[s]" in t.screen and "[d]" in t.screen
    assert t.type("s\n").end() == 0
    assert desk.run(RAN, "--session", "one").expect("finished", 0)
    assert Terminal(desk, "echo other").see(QUESTION).type("d\n").end() == 0
    assert desk.run("echo other", "--session", "two").expect("finished", 0)
    assert [a["remembered"] for a in desk.ls()] == ["digest", "session"]


def test_terminal_offers_what_the_policy_permits(user_desk):
    desk = user_desk.use(remember="nothing")
    t = Terminal(desk, RAN, "--session", "one").see(QUESTION)
    assert "[s]" not in t.screen and "[d]" not in t.screen
    t.type("s\n").see(QUESTION, 2).type("d\n").see(QUESTION, 3)
    desk.never_ran()
    assert t.type("y\n").end() == 0


@pytest.mark.parametrize("verb, status", [("allow", 0), ("deny", 126)])
def test_terminal_answered_elsewhere(desk, verb, status):
    t = Terminal(desk).see(QUESTION)
    desk.answer(verb, desk.ls()[0]["id"])
    assert t.end() == status and "by cli:" in t.screen, t.screen
    assert len(desk.rows("running")) == (verb == "allow")


def test_terminal_ctrl_c(desk):
    t = Terminal(desk).see(QUESTION).type("\x03")
    assert t.end() == 130, t.screen
    assert desk.ls("--all")[0]["state"] == "withdrawn"
    desk.never_ran()


def test_terminal_of_one_who_may_not_answer(user_desk):
    desk = user_desk.use(self="false")
    t = Terminal(desk).see("somebody else").type("y\n")
    until(desk.ls, "the question")
    assert QUESTION not in t.screen and desk.ls()[0]["state"] == "waiting"
    desk.answer("deny", desk.ls()[0]["id"])
    assert t.end() == 126
    desk.never_ran()


# --- brig batch -----------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["approve", "deny"])
def test_batch_with_automatic_answers(desk, start, how):
    batch = start("--confirm", how, *desk.options)
    batch.refused = how == "deny"
    for code in ("echo 1", CRITICAL, "echo 2"):
        batch.ask("shell", code)
    results = batch.end()
    states = [r["state"] for r in results]
    assert states == (["finished", "denied", "finished"] if how == "approve" else ["denied"] * 3), results
    assert [r["stdout"] for r in results] == (["1\n", "", "2\n"] if how == "approve" else [""] * 3)
    ids = [r["approval_id"] for r in results]
    assert ids[0] and ids[2] and ids[0] != ids[2] and ids[1] is None, ids
    assert len(desk.rows("running")) == states.count("finished")
    desk.verify()


def test_batch_waits_for_some_and_goes_on_with_others(desk, start):
    """Only risky code is asked about: the rest does not wait for it."""
    desk.use_text(ASK.read_text().replace("default: confirm", "default: allow").replace("rules:", """rules:
  - name: ask-python
    match: { language: python }
    verdict: confirm"""))
    batch = start("--jobs", "2", *desk.options)
    batch.ask("python", "print('asked')")
    batch.ask("shell", "echo free")
    asked = until(desk.ls, "the question")
    until(lambda: desk.rows("finished"), "the other one")
    assert len(desk.rows("running")) == 1
    desk.answer("allow", asked[0]["id"])
    assert [batch.answer()["stdout"] for _ in range(2)] == ["asked\n", "free\n"]


@pytest.mark.parametrize("action, params", [("web_browsing", {"url": "http://example.com/"}),
                                            ("file_operation", {"path": "x"})])
def test_batch_actions_that_are_not_built_in(desk, start, action, params):
    desk.use_text((LIB / "allow.yaml").read_text())
    batch = start(*desk.options)
    batch.refused = True
    batch.send(json.dumps({"action": action, "params": params, "level": batch.level}).encode() + b"\n")
    result = batch.end()[0]
    assert result["error"]["code"] == "unsupported" and result["error"]["remedy"], result
    assert result["state"] not in ("finished", "running")
    desk.never_ran()
