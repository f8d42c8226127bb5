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
import struct
import subprocess
import termios
import threading
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

    def use(self, **approval):
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
    procs = [subprocess.Popen(["sh", "-c", 'read x <&%d; exec "$@"' % gate_r, "sh", *map(os.fspath, a)],
                              pass_fds=[gate_r], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for a in argvs]
    os.close(gate_r)
    os.close(gate_w)  # the end of the file lets all of them go
    outs = [p.communicate(timeout=WAIT_S) for p in procs]
    return [p.returncode for p in procs], outs


def test_CF_04_one_answer_wins(root_desk):
    """Six answers at once, in many rounds; the ledger has one decision and five refusals each."""
    desk, end, rounds = root_desk.use(pending=1000), time.monotonic() + 12, 0
    wins = {"allow": 0, "deny": 0}
    while time.monotonic() < end or rounds < 5:
        asked = desk.ask_killed("echo %d" % rounds)
        verbs = ["allow", "deny"] * 3
        statuses, outs = all_at_once([desk.brig.argv("approvals", v, asked.id, "--state-dir", desk.state)
                                      for v in verbs])
        assert sorted(statuses) == [0, 1, 1, 1, 1, 1], (statuses, outs)
        won = verbs[statuses.index(0)]
        wins[won] += 1
        assert desk.look(asked)["state"] == {"allow": "allowed", "deny": "denied"}[won]
        rounds += 1
    decided = desk.rows("approval.allowed") + desk.rows("approval.denied")
    assert len({r["detail"]["approval"] for r in decided}) == len(decided) == rounds
    assert len(desk.rows("approval.refused")) == 5 * rounds
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
