# SPDX-License-Identifier: Apache-2.0
"""What brigd keeps when its surroundings are odd: another pid namespace, an unreaped predecessor, a
full disk, a stranger that holds the record, executions that come out of order.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import until  # noqa: E402
from test_daemon_crash import Mortal, all_gone  # noqa: E402

FILL = os.path.join(os.environ.get("BRIG_BUILD", str(brigd.ROOT / "build")), "tests", "lib",
                    "ledger_fill")


@pytest.fixture
def daemon():
    d = Mortal()
    yield d
    d.clean()


# --- whose predecessor is dead, though that cannot be seen ----------------------------------------

class Contained(Mortal):
    """In a pid namespace of its own, as its first process."""

    def __init__(self, **kw):
        super().__init__(wrapper=["unshare", "-pf", "--mount-proc"], **kw)

    @property
    def inner(self):
        return until(lambda: [p for p, n in brigd.descendants(self.pid) if n == "brigd"], "brigd")[0]

    def end(self, number):
        mine = {pid for pid, _ in brigd.descendants(self.pid)}
        os.kill(self.inner, number)
        self.wait()
        all_gone(mine)

    def clean(self):
        if self.proc and self.proc.poll() is None:
            self.end(signal.SIGKILL)
        super().clean()


def age_cgroups():
    """Those of a launcher that died with its namespace: the next removes what is old."""
    left = brigd.empty_cgroups()
    time.sleep(1)  # others' that are being made are not empty for so long
    for path in left & brigd.empty_cgroups():
        with contextlib.suppress(OSError):
            os.utime(path, (0, 0))


@contextlib.contextmanager
def other_namespace():
    """Somebody else's, or the next would get the number of the one that is gone."""
    with subprocess.Popen(["unshare", "-pf", "--mount-proc", "--kill-child", "sleep", "100"]) as proc:
        brigd.KNOWN.add(proc.pid)
        until(lambda: brigd.descendants(proc.pid), "its first process")
        yield
        proc.kill()


def leave_two(d):
    """A run under way and a question."""
    run = d.submit("sleep 60", "shell")
    d.reach(run, "running")
    asked = d.submit("print(6*7)")
    return run, asked, d.waiting(asked)


def check_two(d, run, asked, approval):
    """The one is lost; the other is answered and runs."""
    assert d.result(run)["state"] == "lost"
    assert d.status(asked)["state"] == "waiting"
    d.answer(approval).expect(200)
    assert d.result(asked)["stdout"] == "42\n"
    d.check()


@pytest.mark.alone
@pytest.mark.needs_root
def test_next_daemon_in_another_pid_namespace_recovers():
    d = Contained()
    try:
        d.start()
        left = leave_two(d)
        d.end(signal.SIGKILL)
        age_cgroups()
        with other_namespace():
            d.start()
        check_two(d, *left)
        d.end(signal.SIGTERM)
    finally:
        d.clean()


def test_predecessor_that_nobody_waited_for_is_dead(daemon):
    daemon.start()
    left = leave_two(daemon)
    mine = {pid for pid, _ in brigd.descendants(daemon.pid)}
    old = daemon.proc  # not waited for until the end
    os.kill(old.pid, signal.SIGKILL)
    until(lambda: not brigd.alive(old.pid), "its death")
    all_gone(mine)
    assert pathlib.Path("/proc/%d/stat" % old.pid).exists()
    daemon.start()
    check_two(daemon, *left)
    old.wait()
    daemon.stop()


def test_kept_row_of_a_live_process_is_listed_by_its_state(daemon):
    """Of another process that is alive, as far as anybody can tell."""
    daemon.start()
    job = daemon.submit("true", "shell")
    daemon.result(job)
    daemon.stop()
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with contextlib.closing(sqlite3.connect(str(daemon.state / "ledger.db"))) as db:
        db.execute("UPDATE kept SET state = '', result = NULL, owner = ?",
                   ("1 1 %s pid:[1]" % boot,))
        db.commit()
    daemon.start()
    assert daemon.status(job)["state"] == "received"
    listed = daemon.get("/executions?state=received").expect(200).json["executions"]
    assert [e["execution_id"] for e in listed] == [job]
    assert not daemon.get("/executions?state=finished").expect(200).json["executions"]
    daemon.stop()


# --- whose record cannot be written ---------------------------------------------------------------

def fill(path):
    """All that is free, to the last byte."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as f:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * size)


@pytest.fixture
def small_disk(tmp_path):
    """A daemon whose state directory is a file system of its own."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "tmpfs", str(state)], check=True)
    d = Mortal(place=tmp_path)
    yield d
    d.clean()
    subprocess.run(["umount", str(state)], check=True)


@pytest.mark.alone
@pytest.mark.needs_root
def test_end_that_met_a_full_disk_is_recorded_later(small_disk):
    d = small_disk.start()
    d.run("warm")
    job = d.submit("sleep 2; echo end", "shell")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        plain = pool.submit(d.execute, "sleep 2", "shell")
        d.reach(job, "running")
        until(lambda: d.get("/pool").json["shapes"][0]["running"] == 2, "the other")
        fill(d.state / "ballast")
        told = d.result(job)
        assert plain.result()["state"] == "finished"
    assert told["state"] == "finished" and told["error"]["cause"].startswith("record: ")
    d.post("/execute", d.request("echo no", "shell")).refused(503, "unavailable")
    assert d.logged.count("record: ") == 1, d.logged
    (d.state / "ballast").unlink()
    until(lambda: d.states(job)[-1] == "finished", "the row")
    until(lambda: all(s[-1] == "finished" for s in d.jobs().values()), "the other's row")
    d.run("again")
    assert "record: executions are recorded again" in d.logged
    d.check()
    d.stop()
    d.start()
    kept = d.result(job)
    assert kept["state"] == "finished" and kept["stdout"] == "end\n" and kept["error"] is None
    d.check()
    d.stop()


@pytest.mark.alone
@pytest.mark.needs_root
def test_what_was_accepted_is_known_though_its_run_could_not_be_recorded(small_disk):
    """The yes comes past the daemon, which then finds no room for the row of the run."""
    small_disk.policy = brigd.ASK
    d = small_disk.start()
    job = d.submit("echo ran", "shell")
    approval = d.waiting(job)
    d.reach(job, "waiting")
    os.kill(d.pid, signal.SIGSTOP)
    try:
        d.brig("approvals", "allow", approval, "--host", "none")
        fill(d.state / "ballast")
    finally:
        os.kill(d.pid, signal.SIGCONT)
    told = d.result(job)
    assert (told["state"], told["stdout"]) == ("setup_failed", ""), told
    assert d.status(job)["state"] == "setup_failed"
    (d.state / "ballast").unlink()
    d.stop()


@contextlib.contextmanager
def held(d):
    """Another process within a group."""
    db = sqlite3.connect(str(d.state / "ledger.db"), isolation_level=None, timeout=30)
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


@pytest.mark.parametrize("seconds", [2, 8])
def test_end_while_somebody_holds_the_record(daemon, seconds):
    """A short while is waited for; after a longer one the caller is told, and the row follows."""
    daemon.start()
    daemon.run("warm")
    job = daemon.submit("sleep 0.5; echo end", "shell")
    daemon.reach(job, "running")
    with held(daemon):
        time.sleep(seconds)
        told = daemon.status(job)
        assert told["state"] == ("running" if seconds < 5 else "finished")
    told = daemon.result(job)
    assert told["state"] == "finished" and told["stdout"] == "end\n"
    assert (told["error"] is None) == (seconds < 5), told
    until(lambda: daemon.states(job)[-1] == "finished", "the row")
    daemon.stop()
    daemon.start()
    assert daemon.result(job)["state"] == "finished"
    daemon.check()
    daemon.stop()


def test_daemon_goes_on_while_somebody_holds_the_record(daemon):
    daemon.start()
    daemon.run("warm")
    asked = daemon.submit("print(6*7)")
    approval = daemon.waiting(asked)
    slowest = {}

    def timed(what, *args, **kw):
        begin = time.monotonic()
        reply = daemon.ask(what, *args, **kw)
        slowest[args[0]] = max(slowest.get(args[0], 0), time.monotonic() - begin)
        return reply

    with held(daemon):
        for _ in range(5):
            refused = timed("POST", "/execute", daemon.request("true", "shell"))
            refused.refused(503, "unavailable")
            assert refused.header("retry-after") == "1"
            refused = timed("POST", "/approvals/" + approval, {"decision": "allow"})
            refused.refused(503, "unavailable")
            timed("GET", "/ready").expect(503)
            timed("GET", "/health").expect(200)
            timed("GET", "/approvals").expect((200, 503))
            timed("GET", "/executions").expect(200)
        assert max(slowest.values()) < 1, slowest
        assert daemon.status(asked)["state"] == "waiting"
    daemon.answer(approval).expect(200)
    assert daemon.result(asked)["stdout"] == "42\n"
    daemon.run("again")
    daemon.check()
    daemon.stop()


# --- lists ----------------------------------------------------------------------------------------

def listed(d, limit):
    """The ids of all pages."""
    ids, after = [], ""
    while after is not None:
        page = d.get("/executions?limit=%d%s" % (limit, after and "&after=" + after)).expect(200).json
        ids += [e["execution_id"] for e in page["executions"]]
        after = page["next"]
    return ids


@pytest.mark.parametrize("path", ["/execute", "/executions"])
def test_list_has_what_was_overtaken_while_it_was_read(daemon, path):
    """A large request is parsed in a thread, and small ones that came later are linked first."""
    daemon.start()
    daemon.run("warm")
    large = daemon.request("true", "shell", files=[
        {"path": "f%d" % i, "content": "x" * (1 << 20)} for i in range(10)])
    made = set()

    def post(body):
        reply = daemon.post(path, body).expect((200, 202))
        made.add(reply.json["execution_id"])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            posts = [pool.submit(post, large) for _ in range(2)]
            while not all(p.done() for p in posts):
                post(daemon.request("true", "shell"))
                time.sleep(0.02)
            for p in posts:
                p.result()
    for limit in (3, 1000):
        ids = listed(daemon, limit)
        assert len(ids) == len(set(ids)) and made <= set(ids), made - set(ids)
    if path == "/executions":
        until(lambda: not [e for e in daemon.get("/pool").json["shapes"] if e["running"]], "the ends")
        before = listed(daemon, 7)
        daemon.stop()
        daemon.start()
        assert listed(daemon, 7) == [i for i in before if i in made]
    daemon.stop()


def newest(d, after):
    reply = d.get("/ledger/export?after=%d" % after).expect(200)
    return int(json.loads(reply.body.splitlines()[-1])["seq"])


def test_events_are_told_once_while_another_process_writes(daemon):
    daemon.start()
    daemon.run("warm")
    writer = subprocess.Popen([FILL, str(daemon.state)], stdin=subprocess.PIPE)
    brigd.KNOWN.add(writer.pid)
    over = threading.Event()

    def write():
        while not over.is_set():
            writer.stdin.write(b"j\ts\tfile\tx\ta\t{}\n\n" * 20)
            writer.stdin.flush()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        after = 1
        for _ in range(6):
            with contextlib.ExitStack() as stack:
                # Many: the last of them reads what was written while the first ones did.
                streams = [daemon.stream("/events?after=%d" % after) for _ in range(30)]
                for wire, _ in streams:
                    stack.callback(wire.close)
                for _, events in streams:
                    seen = [int(next(events).id) for _ in range(400)]
                    assert seen == list(range(after + 1, after + 401)), seen
            after = newest(daemon, after) - 50
    finally:
        over.set()
        thread.join()
        writer.stdin.close()
        assert writer.wait() == 0
    daemon.stop()


# --- smaller things -------------------------------------------------------------------------------

def test_body_above_the_quota_of_a_minute_is_too_large_for_ever(daemon):
    daemon.start()
    token = daemon.token("small", "run", "--bytes-per-minute", "1K")
    reply = daemon.post("/execute", daemon.request("#" * 2000, "shell"), token=token)
    reply.refused(413, "limit")
    assert reply.header("retry-after") is None
    daemon.execute("true", "shell", token=token)
    reply = daemon.post("/execute", daemon.request("#" * 940, "shell"), token=token)
    reply.refused(429, "busy")
    daemon.stop()


def test_delete_of_anothers_run_is_not_found_on_disk_either(daemon):
    daemon.start()
    mine, other = daemon.token("mine", "run"), daemon.token("other", "run,read")
    job = daemon.submit("true", "shell", token=mine)
    daemon.result(job, token=mine)
    daemon.delete("/executions/" + job, token=other).refused(404)
    daemon.stop()
    daemon.start()
    daemon.delete("/executions/" + job, token=other).refused(404)
    daemon.get("/executions/" + job, token=other).expect(200)
    daemon.delete("/executions/" + job, token=mine).expect(200)
    daemon.delete("/executions/" + job, token=daemon.admin()).expect(200)
    daemon.stop()


def test_broken_tokens_are_logged_once(daemon):
    daemon.start()
    token = daemon.token("one", "run")
    path = daemon.state / "tokens.json"
    good = path.read_bytes()
    path.write_bytes(b"nonsense")
    for _ in range(4):
        daemon.get("/executions", token=token).expect((401, 429))
        time.sleep(0.15)
    assert daemon.logged.count("tokens.json") == 1, daemon.logged
    path.write_bytes(good)
    until(lambda: daemon.get("/executions", token=token).status == 200, "the tokens")
    assert daemon.logged.count("the tokens can be read again") == 1, daemon.logged
    daemon.stop()


def metric(d, name):
    return float(re.search(r"^%s (\S+)$" % name, d.get("/metrics").body.decode(), re.M).group(1))


def test_reload_bounds_the_pool_and_waits_are_measured(daemon):
    daemon.config = {"limits": {"running": 4}}
    daemon.start()
    daemon.run("warm")
    (daemon.place / "brigd.yaml").write_text(json.dumps({"limits": {"running": 1}}))
    daemon.proc.send_signal(signal.SIGHUP)
    until(lambda: daemon.get("/capabilities").json["running_max"] == 1, "the new settings")
    count, waited = metric(daemon, "brig_claim_seconds_count"), metric(daemon, "brig_claim_seconds_sum")
    jobs = [daemon.submit("sleep 1", "shell") for _ in range(3)]
    daemon.reach(jobs[0], "running")
    assert [daemon.status(j)["state"] for j in jobs[1:]] == ["queued", "queued"]
    for job in jobs:
        daemon.result(job)
    assert metric(daemon, "brig_claim_seconds_count") == count + 3
    assert metric(daemon, "brig_claim_seconds_sum") > waited + 2.5
    assert metric(daemon, "brig_queue_seconds_sum") > 2.5
    daemon.stop()
