# SPDX-License-Identifier: Apache-2.0
"""What a death at any moment, a full disk or a broken state directory leave behind.

The box cannot write outside, so the judges of "the code ran" are what brig's process printed and the
ledger; its rows are read by `brig ledger` and, for the jobs under way, from the database itself.
"""
import errno
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from test_approvals import LIB, make_desk, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
INJECT = os.path.join(os.environ.get("BRIG_BUILD", str(ROOT / "build")), "tests", "fault", "inject")
FINAL = {"finished", "lost", "denied", "expired", "cancelled", "failed"}
WAIT_S = 30


def call_numbers():
    text = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
                          check=True, stdout=subprocess.PIPE).stdout.decode()
    return {name: int(nr) for name, nr in re.findall(r"#define __NR_(\w+) (\d+)\n", text)}


NUMBERS = call_numbers()
NAMES = {nr: name for name, nr in NUMBERS.items()}


@pytest.fixture
def desk(brig, place):
    yield from make_desk(brig, place)


@pytest.fixture
def user_desk(brig_user, place):
    yield from make_desk(brig_user, place)


@pytest.fixture
def root_desk(brig_root, place):
    yield from make_desk(brig_root, place)


def allow(desk):
    return desk.use_text((LIB / "allow.yaml").read_text())


def open_jobs(desk):
    path = desk.state / "ledger.db"
    if not path.exists():
        return []
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=WAIT_S)
    try:
        return db.execute("SELECT id, state, owner FROM open_job").fetchall()
    except sqlite3.OperationalError as error:
        assert "no such table" in str(error)
        return []
    finally:
        db.close()


def jobs(desk):
    """{job: its states, oldest first}"""
    found = {}
    for row in desk.rows():
        if row["kind"] == "state":
            found.setdefault(row["job"], []).append(row["name"])
    return found


def check_states(desk, waiting=()):
    """Every job is over, or waits and may; none ran twice, none finished without having run."""
    for job, states in jobs(desk).items():
        assert states.count("running") <= 1 and states.count("finished") <= 1, states
        assert "finished" not in states or "running" in states, states
        assert states[0] == "received" and sum(s in FINAL for s in states) <= 1, states
        assert states[-1] in FINAL or (states[-1] == "waiting" and job in waiting), (job, states)
    assert {j for j, _, _ in open_jobs(desk)} <= set(waiting), open_jobs(desk)
    desk.verify()


# --- death by SIGKILL -----------------------------------------------------------------------------

class Killed:
    """One `brig run` under the tracer, killed as it enters the nth call of a name."""

    def __init__(self, desk, call, nth, token, *options, action="kill"):
        report = desk.place / "report"
        if report.exists():
            report.unlink()
        argv = desk.brig.run_argv("shell", "-c", "echo " + token, *desk.options, *options)
        at = argv.index(os.fspath(desk.brig.path))
        inject = [INJECT, os.fspath(report), "0", str(call), str(nth), action, "--"]
        done = subprocess.run(argv[:at] + inject + argv[at:], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S, check=False)
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        until(lambda: report.exists() and report.read_text().endswith("end\n"), "the end of the tracer")
        self.report = [line.split() for line in report.read_text().splitlines()]
        self.fired = any(line[0] == "fire" for line in self.report)
        self.execs = sum(line[0] == "exec" for line in self.report)
        self.token = token

    @property
    def printed(self):
        return self.out.count(self.token.encode())


def recorded(desk, *options):
    """[(call, nth)] of brig itself, up to the code's start."""
    counts, calls = {}, []
    for line in Killed(desk, 0, 1, "record", *options, action="none").report:
        if line[0] == "call" and line[1] == "0":
            call = int(line[2])
            counts[call] = counts.get(call, 0) + 1
            calls.append((call, counts[call]))
    return calls, counts


def spread(items, most):
    if len(items) <= most:
        return items
    return [items[i * (len(items) - 1) // (most - 1)] for i in range(most)]


def states_of(desk, token):
    """Of the job whose code has this token; empty when it died before its first row."""
    digest = hashlib.sha256(b"echo " + token.encode()).hexdigest()
    ids = {r["job"] for r in desk.rows("received") if r["detail"]["code"] == digest}
    assert len(ids) <= 1, ids
    return desk.names(ids.pop()) if ids else []


def check_killed(desk, killed):
    """The next run cleans up; then the ledger says what became of the dead one."""
    assert killed.status == -signal.SIGKILL or not killed.fired, killed.err
    assert killed.printed <= 1 and killed.execs <= 1
    desk.run("echo next", "--confirm", "approve").expect("finished", 0)
    check_states(desk, waiting=[a["job"] for a in desk.ls()])
    states = states_of(desk, killed.token)
    if killed.execs:
        assert "running" in states, "code ran without a record of its start"
    else:
        assert "finished" not in states, states
    used = [r["detail"]["approval"] for r in desk.rows("approval.used")]
    assert len(used) == len(set(used))


WRITES = ["pwrite64", "write", "fcntl", "fdatasync", "fsync", "ftruncate", "openat", "close", "recvmsg",
          "sendmsg", "sendto", "poll", "munmap", "read", "wait4"]


def after_start(desk, counts, most, *options):
    """Points after the code began: the same calls, further on, until one is not reached."""
    for name in WRITES:
        if name not in NUMBERS:
            continue
        for i in range(1, most + 1):
            nth = counts.get(NUMBERS[name], 0) + i
            killed = Killed(desk, NUMBERS[name], nth, "late-%s-%d" % (name, i), *options)
            yield killed
            if not killed.fired:
                break


@pytest.mark.parametrize("options", [[], ["--confirm", "approve"]], ids=["allowed", "asked"])
def test_CR_killed_at_many_calls(user_desk, options):
    desk = user_desk.use(pending=1000) if options else allow(user_desk)
    desk.run("echo first", "--confirm", "approve").expect("finished", 0)
    calls, counts = recorded(desk, *options)
    assert len(calls) > 50
    fired = 0
    for i, (call, nth) in enumerate(spread(calls, 45)):
        killed = Killed(desk, call, nth, "early-%d" % i, *options)
        check_killed(desk, killed)
        fired += killed.fired
    for killed in after_start(desk, counts, 4, *options):
        check_killed(desk, killed)
        fired += killed.fired
    assert fired > 30
    ends = {states[-1] for states in jobs(desk).values()}
    assert {"finished", "lost"} <= ends <= {"finished", "lost", "waiting"}, ends


def test_CR_killed_while_the_state_is_made(user_desk):
    desk = allow(user_desk)
    calls, _ = recorded(desk)
    for i, (call, nth) in enumerate(spread(calls, 30)):
        shutil.rmtree(desk.state)
        killed = Killed(desk, call, nth, "new-%d" % i)
        check_killed(desk, killed)
    desk.verify()


def test_CR_killed_while_the_code_runs(user_desk):
    """It is lost: nobody knows how far it came, and it is not run again."""
    desk = allow(user_desk)
    run = desk.begin("echo begun; sleep 60")
    until(lambda: desk.state.exists() and (desk.state / "ledger.db").exists() and desk.rows("running"),
          "the code's start")
    job = desk.rows("running")[0]["job"]
    run.kill()
    desk.run("echo next").expect("finished", 0)
    assert desk.names(job)[-2:] == ["running", "lost"]
    assert desk.rows("lost", job)[0]["actor"] == "recovery"
    desk.run("echo next").expect("finished", 0)
    assert desk.names(job).count("lost") == 1 and len(desk.rows("running")) == 3
    check_states(desk)


def test_CR_a_live_run_is_not_taken_for_a_dead_one(user_desk):
    desk = allow(user_desk)
    run = desk.begin("sleep 1.5; echo done")
    until(lambda: (desk.state / "ledger.db").exists() and desk.rows("running"), "the code's start")
    job = desk.rows("running")[0]["job"]
    desk.run("echo next").expect("finished", 0)
    os.kill(run.proc.pid, signal.SIGSTOP)
    desk.run("echo next").expect("finished", 0)
    os.kill(run.proc.pid, signal.SIGCONT)
    assert run.expect("finished", 0)["stdout"] == "done\n"
    assert desk.names(job)[-2:] == ["running", "finished"]
    check_states(desk)


def test_CR_killed_while_it_waits(user_desk):
    desk = user_desk
    asked = desk.ask_killed()
    job = desk.rows("waiting")[0]["job"]
    desk.run("echo other", "--confirm", "approve").expect("finished", 0)
    check_states(desk, waiting=[job])
    assert desk.names(job)[-1] == "waiting"
    desk.answer("deny", asked)
    desk.run("echo other 2", "--confirm", "approve").expect("finished", 0)
    assert desk.names(job)[-1] == "denied"
    check_states(desk)


def test_CR_batch_killed(user_desk):
    desk = allow(user_desk)
    request = {"language": "shell", "code": "echo a; sleep 30", "level": "degraded-ok"}
    line = json.dumps(request).encode() + b"\n"
    proc = subprocess.Popen(desk.brig.argv("batch", "--jobs", "3", *desk.options), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    proc.stdin.write(line * 6)
    proc.stdin.flush()
    until(lambda: (desk.state / "ledger.db").exists() and len(desk.rows("running")) >= 3, "three runs")
    proc.kill()
    proc.communicate()
    desk.run("echo next").expect("finished", 0)
    check_states(desk)
    assert [s[-1] for s in jobs(desk).values()].count("lost") >= 3


# --- the state directory --------------------------------------------------------------------------

def refused(run, *words):
    """No user code ran, and it is said why and what to do."""
    result = run.result
    assert run.status in (125, 126) and result["state"] == "setup_failed", run
    assert result["stdout"] == "" and not result["receipt"]["verified"], run
    error = result["error"]
    assert error["cause"] and error["remedy"], run
    for word in words:
        assert word in error["cause"] + " " + error["remedy"], (word, run)


@pytest.fixture
def small(root_desk):
    """A state directory on a file system of 1 MiB."""
    desk = allow(root_desk)
    desk.state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "brig-test", desk.state], check=True)
    yield desk
    subprocess.run(["umount", desk.state], check=True)


def fill(desk, leave=0):
    """All space but so many bytes."""
    with open(desk.state / "filler", "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC
        f.truncate(max(0, f.tell() - leave))


@pytest.mark.alone
def test_CR_no_space_at_all(small):
    fill(small)
    refused(small.run(), "space")
    os.unlink(small.state / "filler")
    assert small.run().expect("finished", 0)["stdout"] == "ran\n"
    small.verify()


@pytest.mark.alone
def test_CR_no_space_left(small):
    """At every size: refused before the code, or carried out; never neither and never unsaid."""
    small.run().expect("finished", 0)
    ends = []
    for pages in list(range(0, 16, 2)) + [20, 30, 40]:
        fill(small, pages * 4096)
        run = small.run()
        result = run.result
        if result["state"] == "finished":
            assert result["stdout"] == "ran\n" and (run.status == 0) == (result["error"] is None), run
        else:
            refused(run, "space")
        ends.append((result["state"], run.status))
        os.unlink(small.state / "filler")
        small.run().expect("finished", 0)
        check_states(small)
    assert ends[0][0] == "setup_failed", ends


@pytest.mark.alone
def test_CR_read_only(small):
    small.run().expect("finished", 0)
    rows = len(small.rows())
    subprocess.run(["mount", "-o", "remount,ro", small.state], check=True)
    refused(small.run())
    subprocess.run(["mount", "-o", "remount,rw", small.state], check=True)
    small.run().expect("finished", 0)
    assert len(small.rows()) == 2 * rows


def test_CR_a_directory_that_may_not_be_written(user_desk):
    desk = allow(user_desk)
    desk.run().expect("finished", 0)
    modes = {p: p.stat().st_mode & 0o7777 for p in [desk.state, *desk.state.iterdir()]}
    for path in modes:
        path.chmod(0o500 if path.is_dir() else 0o400)
    refused(desk.run())
    for path, mode in modes.items():
        path.chmod(mode)
    desk.run().expect("finished", 0)
    desk.verify()


@pytest.mark.needs_root
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_CR_a_directory_of_somebody_else(user_desk, mode):
    desk = allow(user_desk)
    desk.state.mkdir()
    desk.state.chmod(mode)  # root's
    refused(desk.run())
    assert list(desk.state.iterdir()) == []


def test_CR_a_directory_that_others_may_write(desk):
    allow(desk).run().expect("finished", 0)
    (desk.state / "ledger.db").chmod(0o666)
    refused(desk.run())
    (desk.state / "ledger.db").chmod(0o600)
    desk.run().expect("finished", 0)


def garbage(path):
    path.write_bytes(os.urandom(50000))


def empty(path):
    path.write_bytes(b"")


def cut(path):
    with open(path, "r+b") as f:
        f.truncate(5000)


def head_of_another(path):
    with open(path, "r+b") as f:
        f.write(b"Not a database at all.\0")


@pytest.mark.parametrize("harm", [garbage, empty, cut, head_of_another])
def test_CR_a_ledger_that_is_none(desk, harm):
    allow(desk).run().expect("finished", 0)
    harm(desk.state / "ledger.db")
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (desk.state / name).unlink()
    refused(desk.run())
    assert desk.approvals("ls").status not in (0, -signal.SIGSEGV)


def test_CR_a_ledger_of_a_newer_version(desk):
    allow(desk).run().expect("finished", 0)
    db = sqlite3.connect(desk.state / "ledger.db")
    db.execute("PRAGMA user_version=99")
    db.commit()
    db.close()
    refused(desk.run(), "99", "newer")
    done = desk.approvals("ls")
    assert done.status == 125 and "newer" in done.text, done


def test_CR_without_a_record_it_runs_all_the_same(desk):
    """Control for the refusals: it is the record that is missing, not the box."""
    allow(desk).run().expect("finished", 0)
    garbage(desk.state / "ledger.db")
    assert desk.run("echo ran", "--no-record").expect("finished", 0)["stdout"] == "ran\n"


# --- many processes -------------------------------------------------------------------------------

@pytest.mark.parametrize("new", [False, True], ids=["old", "new"])
def test_CR_twenty_at_once(desk, new):
    """`new`: all of them want to make the state directory."""
    allow(desk)
    if not new:
        desk.run().expect("finished", 0)
    runs = [desk.begin("echo %d" % i) for i in range(20)]
    assert [r.expect("finished", 0)["stdout"] for r in runs] == ["%d\n" % i for i in range(20)]
    assert len(desk.rows("finished")) == 20 + (not new)
    check_states(desk)


def test_CR_somebody_holds_the_ledger(user_desk):
    """A process that stopped within a group: the others say so after a while, and run nothing."""
    desk = allow(user_desk)
    desk.run().expect("finished", 0)
    db = sqlite3.connect(desk.state / "ledger.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    run = desk.run()
    refused(run, "another process has held the ledger")
    assert run.elapsed < WAIT_S
    db.execute("ROLLBACK")
    db.close()
    desk.run().expect("finished", 0)
    check_states(desk)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace stops it at the right moment")
@pytest.mark.parametrize("nth", [2, 10])
def test_CR_stopped_within_a_group(user_desk, nth):
    """At the second write the file's lock table is made, at the tenth a group is written."""
    desk = allow(user_desk)
    desk.run().expect("finished", 0)
    argv = desk.brig.run_argv("shell", "-c", "echo stopped", *desk.options)
    at = argv.index(os.fspath(desk.brig.path))
    tracer = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e",
              "inject=pwrite64:signal=STOP:when=%d" % nth]
    proc = subprocess.Popen(argv[:at] + tracer + argv[at:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stopped = None
    try:
        stopped = until(lambda: stopped_child(proc.pid), "the stop")
        refused(desk.run(), "another process has held the ledger")
        os.kill(stopped, signal.SIGCONT)
        out, _ = proc.communicate(timeout=WAIT_S)
        assert out == b"stopped\n" and proc.returncode == 0
    finally:
        if proc.poll() is None and stopped:
            os.kill(stopped, signal.SIGKILL)
        proc.kill()
        proc.communicate()
    desk.run().expect("finished", 0)
    check_states(desk)


def stopped_child(pid):
    try:
        children = pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()
        for child in children:
            stat = pathlib.Path("/proc/%s/stat" % child).read_text()
            if stat.rpartition(")")[2].split()[0] in "Tt" and holds_still(child):
                return int(child)
    except OSError:
        pass
    return None


def holds_still(pid):
    """A stop by the tracer at a call is over at once; the one we wait for stays."""
    before = pathlib.Path("/proc/%s/stat" % pid).read_text()
    time.sleep(0.5)
    return pathlib.Path("/proc/%s/stat" % pid).read_text() == before
