# SPDX-License-Identifier: Apache-2.0
"""What a death of brigd or of one of its helpers at any moment leaves (CR-*).

The box cannot write outside, so the judges of "the code ran" are the ledger, which has a row before
each run, and what the daemon answers: an answer once given is given again, by this daemon and by the
next. Clients ask again with the same idempotency key until they know. BRIG_KILLS=1000 makes the
random kills a long test.
"""
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import API, Closed, Hook, request_bytes, until  # noqa: E402

KILLS = int(os.environ.get("BRIG_KILLS", "25"))
SEED = int(os.environ.get("BRIG_KILL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
READY_S = 2.0        # half of the starts; a busy machine may be slow now and then
READY_MOST_S = 20.0
SLEEP = "echo begun; sleep 60"
FINAL = {"finished", "lost", "denied", "expired", "cancelled", "failed"}
STATE_FILES = {"bell", "brigd.lock", "ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.head",
               "ledger.key", "tokens.json"}
# Shell runs at once, Python after a person was asked.
MIXED = """version: 1
name: mixed
default: allow
floor: { level: degraded-ok }
approval: { expires: %s, self: true, pending: 64 }
rules:
  - name: asked
    match: { language: python }
    verdict: confirm
    reason: a person decides
"""


class Mortal(brigd.Daemon):
    """A brigd that is killed and started again."""

    def __init__(self, expires="10m", **kw):
        super().__init__(tcp=False, **kw)
        self.policy = self.place / "policy.yaml"
        self.policy.write_text(MIXED % expires)
        self.policy.chmod(0o644)
        self.starts = []

    def again(self):
        begin = time.monotonic()
        self.start()
        self.starts.append(time.monotonic() - begin)
        assert self.starts[-1] < READY_MOST_S, self.starts
        return self

    def die(self, *also):
        """kill -9 of it (and of others, at the same moment): all that was its own goes."""
        mine = {pid for pid, _ in brigd.descendants(self.pid)}
        for pid in (self.pid, *also):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()
        all_gone(mine)

    def helpers(self, name):
        return [pid for pid, n in brigd.descendants(self.pid) if n == name and parent(pid) == self.pid]

    @property
    def launcher(self):
        return until(lambda: self.helpers("brig-launch"), "a launcher")[0]

    def jobs(self):
        """{job: its states, oldest first}"""
        found = collections.OrderedDict()
        for row in self.rows(kind="state"):
            found.setdefault(row["job"], []).append(row["name"])
        return found

    def offline_rows(self):
        """The record while no daemon runs."""
        return [json.loads(line) for line in self.brig("ledger", "export").splitlines()]

    def check(self, waiting=()):
        """The record is whole; every job is over, or waits and may; none ran twice."""
        self.verify()
        for job, states in self.jobs().items():
            assert states.count("running") <= 1 and sum(s in FINAL for s in states) <= 1, states
            assert "finished" not in states or "running" in states, states
            assert states[-1] in FINAL or (states[-1] == "waiting" and job in waiting), (job, states)
        assert set(os.listdir(self.state)) <= STATE_FILES, os.listdir(self.state)

    def run(self, word):
        assert self.execute("echo " + word, "shell")["stdout"] == word + "\n"


def parent(pid):
    with contextlib.suppress(OSError):
        text = pathlib.Path("/proc/%d/stat" % pid).read_text()
        return int(text.rpartition(")")[2].split()[1])
    return None


def all_gone(pids, seconds=10):
    def left():
        brigd.reap_orphans()
        return [p for p in pids if brigd.alive(p)]
    until(lambda: not left(), "its processes are gone", seconds)
    brigd.reap_orphans()


def sweep(d):
    """
    Cgroups of a launcher that was killed are removed by the next one, when they are ten seconds old;
    here their date is put back instead.
    """
    left = brigd.empty_cgroups()
    time.sleep(1)  # others' that are being made are not empty for so long
    for path in left & brigd.empty_cgroups():
        with contextlib.suppress(OSError):
            os.utime(path, (0, 0))
    d.die()
    d.again()
    d.run("swept")


@pytest.fixture
def daemon():
    d = Mortal()
    yield d
    d.clean()


# --- random kills under load ----------------------------------------------------------------------

class Order:
    """One request with a key, however often it is sent."""

    def __init__(self, number, kind, pause):
        self.kind, self.key, self.word = kind, "key-%d" % number, "word-%d" % number
        self.id = self.result = None
        tail = {"slow": "; sleep 0.3", "cancel": "; sleep 20"}.get(kind, "")
        self.language = "python" if kind.startswith("ask") else "shell"
        self.code = "print('%s')" % self.word if self.language == "python" else "echo " + self.word + tail
        self.sync, self.pause = kind in ("sync", "slow", "ask-sync"), pause

    @property
    def digest(self):
        return hashlib.sha256(self.code.encode()).hexdigest()

    def saw(self, reply):
        """Whatever is said about it agrees with what was said before."""
        got = reply.json
        assert self.id in (None, got["execution_id"]), (self.id, reply)
        self.id = got["execution_id"]
        if "exit_code" not in got:
            assert self.result is None, "it had a result: %r then %r" % (self.result, got)
            return
        assert self.result in (None, got), "another result: %r then %r" % (self.result, got)
        self.result = got
        self.check_result()

    def check_result(self):
        r = self.result
        allowed = {"finished", "lost"}
        if self.kind == "cancel":
            allowed |= {"cancelled"}
        if self.language == "python":
            allowed |= {"denied"}
        assert r["state"] in allowed, (self.kind, r)
        assert r["stdout"] == self.word + "\n" if r["state"] == "finished" else r["stdout"] in (
            "", self.word + "\n"), r


class Crowd:
    """Clients that go on until they have an answer; they stand still while `open` is not set."""

    KINDS = ["sync", "sync", "async", "async", "slow", "ask", "ask-sync", "cancel"]

    def __init__(self, daemon, clients):
        self.d, self.orders, self.failures = daemon, [], []
        self.open, self.last, self.over = threading.Event(), threading.Event(), threading.Event()
        self.lock, self.busy = threading.Lock(), 0
        self.threads = [threading.Thread(target=self.guard, args=(self.client, i)) for i in range(clients)]
        self.threads.append(threading.Thread(target=self.guard, args=(self.approver, clients)))

    def __enter__(self):
        self.open.set()
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.open.set()
        self.last.set()
        for t in self.threads[:-1]:
            t.join(brigd.WAIT_S)
        self.over.set()
        self.threads[-1].join(brigd.WAIT_S)

    def guard(self, what, i):
        try:
            what(random.Random(SEED + i))
        except BaseException as error:  # told by the test
            self.failures.append("%s: %s" % (type(error).__name__, str(error)[:3000]))

    def halt(self):
        """After the daemon's death: nobody is on the way any more."""
        self.open.clear()

    def still(self):
        until(lambda: self.busy == 0, "requests end with the daemon")

    def once(self, method, path, body=None, headers=()):
        """A reply, or None: ask again."""
        self.open.wait()
        with self.lock:
            if not self.open.is_set():
                return None
            self.busy += 1
        try:
            reply = self.d.ask(method, path, body, headers=headers)
        except (OSError, Closed):
            return None
        finally:
            with self.lock:
                self.busy -= 1
        assert reply.status < 500 or reply.status == 503, reply
        return None if reply.status in (429, 503) else reply

    def ask(self, *args, **kw):
        while True:
            reply = self.once(*args, **kw)
            if reply:
                return reply
            if self.over.is_set():
                raise StopIteration
            time.sleep(0.01)

    def client(self, rng):
        with contextlib.suppress(StopIteration):
            while not self.last.is_set():
                with self.lock:
                    order = Order(len(self.orders), rng.choice(self.KINDS), rng.uniform(0, 0.4))
                    self.orders.append(order)
                self.carry_out(order)
                assert order.result, order.__dict__

    def post(self, order):
        return self.ask("POST", "/execute" if order.sync else "/executions",
                        self.d.request(order.code, order.language), headers=[("Idempotency-Key", order.key)])

    def carry_out(self, order):
        order.saw(self.post(order).expect((200, 202)))
        if order.kind == "cancel" and not order.result:
            time.sleep(order.pause)
            self.ask("DELETE", "/executions/" + order.id).expect(200)
        while not order.result:
            order.saw(self.ask("GET", "/executions/%s?wait=2000" % order.id).expect(200))

    def approver(self, rng):
        with contextlib.suppress(StopIteration):
            while not self.over.is_set():
                for a in self.ask("GET", "/approvals").expect(200).json["approvals"]:
                    decision = "deny" if rng.random() < 0.1 else "allow"
                    self.ask("POST", "/approvals/" + a["id"], {"decision": decision}).expect((200, 409, 410))
                time.sleep(rng.uniform(0, 0.3))


def check_standing(d):
    """Right after a start, before anybody asks: nothing runs."""
    d.verify()
    for e in d.get("/executions?limit=1000").expect(200).json["executions"]:
        assert e["done"] or e["state"] == "waiting" or e["approval_id"], e


def check_orders(crowd):
    """What was told is told again; the record has one job for each key, and it ran once at most."""
    d = crowd.d
    jobs, rows = d.jobs(), d.rows(kind="state")
    received, was = {}, {}
    for row in rows:
        if row["name"] == "received":
            received.setdefault(row["detail"]["code"], []).append(row["job"])
        if row["actor"] == "recovery":
            was[row["job"]] = row["detail"]["was"]
    ends = collections.Counter()
    for o in crowd.orders:
        made = received.get(o.digest, [])
        assert len(made) <= 1, "%s is %d jobs" % (o.key, len(made))
        if not o.result:
            continue  # the crowd was sent home
        assert made == [o.id], (o.key, o.id, made)
        states = jobs[o.id]
        assert states.count("running") <= 1, states
        assert o.result["state"] not in ("finished",) or "running" in states, states
        assert o.result["state"] != "lost" or was[o.id] != "waiting", (o.kind, states)
        o.saw(d.get("/executions/" + o.id).expect(200))
        again = crowd.post(o).expect(200)
        assert again.header("brig-replayed") == "true", again
        o.saw(again)
        ends[o.kind, o.result["state"]] += 1
    return ends


@pytest.mark.alone
def test_CR_02_random_kills_under_load(daemon):
    print("\nBRIG_KILL_SEED=%d" % SEED)
    rng = random.Random(SEED)
    daemon.again()
    with Crowd(daemon, 6) as crowd:
        for i in range(KILLS):
            time.sleep(rng.choice([rng.uniform(0, 0.15), rng.uniform(0.1, 1.2)]))
            assert not crowd.failures, crowd.failures[0]
            crowd.halt()
            daemon.die()
            crowd.still()
            daemon.again()
            if i % 5 == 4:  # during recovery, and then again
                daemon.die()
                daemon.start(ready=False)
                time.sleep(rng.uniform(0, 0.08))
                daemon.die()
                daemon.again()
            check_standing(daemon)
            crowd.open.set()
        n = len(crowd.orders)
        until(lambda: len(crowd.orders) > n + 12 or crowd.failures, "the load goes on")
    assert not crowd.failures, crowd.failures[0]
    assert not [t for t in crowd.threads if t.is_alive()]
    until(lambda: not daemon.get("/executions?state=running").json["executions"], "all is over")
    ends = check_orders(crowd)
    starts = sorted(daemon.starts)
    print("%d kills, %d orders, ready after %.3f s (median), %.3f s (worst); %s" % (
        KILLS, len(crowd.orders), starts[len(starts) // 2], starts[-1],
        ", ".join("%s %s: %d" % (*k, n) for k, n in sorted(ends.items()))))
    assert starts[len(starts) // 2] < READY_S, starts
    assert {s for _, s in ends} >= {"finished", "lost"}, "the kills hit nothing: %r" % ends
    waiting = [a["job"] for a in daemon.get("/approvals").json["approvals"]]
    daemon.check(waiting)
    daemon.stop()


# --- questions outlive the daemon -----------------------------------------------------------------

def ask(d, word, language="python"):
    """(execution, approval) of a run that waits for a person."""
    which = d.submit("print('%s')" % word, language)
    return which, d.waiting(which)


def test_CR_a_question_survives_and_its_run_keeps_its_id(daemon):
    daemon.again()
    which, approval = ask(daemon, "asked")
    for _ in range(3):
        daemon.die()
        daemon.again()
        assert daemon.status(which)["state"] == "waiting" and daemon.waiting(which) == approval
        assert [a["id"] for a in daemon.get("/approvals").json["approvals"]] == [approval]
    daemon.answer(approval).expect(200)
    assert daemon.result(which)["stdout"] == "asked\n"
    daemon.die()
    daemon.again()
    assert daemon.result(which)["stdout"] == "asked\n"
    states = daemon.states(which)
    assert states.count("running") == 1 and states[-1] == "finished", states
    assert len(daemon.rows(name="approval.used")) == 1
    daemon.check()
    daemon.stop()


def test_CR_a_waiting_client_finds_its_run_again_by_the_key(daemon):
    daemon.again()
    headers, body = [("Idempotency-Key", "k")], daemon.request("print('asked')")
    with daemon.connect() as wire:
        wire.send(request_bytes("POST", API + "/execute", body, headers))
        approval = until(lambda: daemon.get("/approvals").json["approvals"], "a question")[0]["id"]
        daemon.die()
        assert wire.is_over(5)
    daemon.again()
    with daemon.connect() as wire:
        wire.send(request_bytes("POST", API + "/execute", body, headers))
        time.sleep(0.2)
        daemon.answer(approval).expect(200)
        reply = wire.reply().expect(200)
    assert reply.json["stdout"] == "asked\n" and reply.header("brig-replayed") == "true"
    assert daemon.states(reply.json["execution_id"]).count("running") == 1
    assert len(daemon.rows(name="received")) == 1
    daemon.check()
    daemon.stop()


def test_CR_the_key_may_be_in_the_body(daemon):
    """As the one before; it is the same promise."""
    daemon.again()
    body = daemon.request("print('asked')", idempotency_key="k")
    with daemon.connect() as wire:
        wire.send(request_bytes("POST", API + "/execute", body))
        approval = until(lambda: daemon.get("/approvals").json["approvals"], "a question")[0]["id"]
        daemon.die()
    daemon.again()
    with daemon.connect(timeout=10) as wire:
        wire.send(request_bytes("POST", API + "/execute", body))
        time.sleep(0.2)
        daemon.answer(approval).expect(200)
        reply = wire.reply().expect(200)
    assert "exit_code" in reply.json and reply.json["stdout"] == "asked\n", reply
    daemon.check()
    daemon.stop()


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_CR_an_answer_while_no_daemon_runs_is_honoured(daemon, decision):
    daemon.again()
    which, approval = ask(daemon, "asked")
    daemon.die()
    daemon.brig("approvals", decision, approval, "--host", "none")
    assert not [r for r in daemon.offline_rows() if r["name"] == "running"]
    daemon.again()
    result = daemon.result(which)
    if decision == "allow":
        assert result["state"] == "finished" and result["stdout"] == "asked\n", result
    else:
        assert result["state"] == "denied" and result["stdout"] == "", result
    assert daemon.states(which).count("running") == (decision == "allow")
    daemon.die()
    daemon.again()
    assert daemon.result(which) == result
    daemon.check()
    daemon.stop()


def test_CR_a_question_that_expired_meanwhile_is_expired():
    d = Mortal(expires="2s")
    try:
        d.again()
        which, approval = ask(d, "asked")
        d.die()
        time.sleep(2.5)
        d.again()
        assert d.result(which)["state"] == "expired"
        assert d.get("/approvals/" + approval).expect(200).json["state"] == "expired"
        d.answer(approval).expect(410)
        assert "running" not in d.states(which)
        d.check()
        d.stop()
    finally:
        d.clean()


def test_CR_an_answered_question_is_not_lost_with_the_daemon(daemon):
    """The kill comes right after the answer, so at any point between it and the run."""
    daemon.again()
    for i in range(8):
        which, approval = ask(daemon, "asked-%d" % i)
        daemon.answer(approval).expect(200)
        time.sleep(0.004 * i)
        daemon.die()
        daemon.again()
        result, states = daemon.result(which), daemon.states(which)
        assert states.count("running") == 1, states
        assert result["state"] in ("finished", "lost"), result
        assert result["state"] == "lost" or result["stdout"] == "asked-%d\n" % i
        assert daemon.rows(name="approval.used", job=which) != []
    daemon.check()
    daemon.stop()


def test_CR_a_policy_that_changed_meanwhile_asks_anew_or_ends_it(daemon):
    """The old question was about another thing: what would run now was not approved."""
    daemon.again()
    which, approval = ask(daemon, "asked")
    daemon.die()
    daemon.policy.write_text((MIXED % "10m").replace("floor: {", "floor: { limits: { memory: 64M },"))
    daemon.again()
    daemon.answer(approval)
    time.sleep(0.5)
    assert "running" not in daemon.states(which)
    result = daemon.result(which, wait_ms=2000)
    assert result["state"] in ("lost", "denied", "expired", "cancelled"), result
    daemon.check()
    daemon.stop()


@pytest.mark.parametrize("how", ["restart", "reload"])
def test_CR_a_policy_that_denies_by_now_has_the_last_word(daemon, how):
    """A yes to an old question does not outweigh it."""
    daemon.again()
    which, approval = ask(daemon, "asked")
    if how == "restart":
        daemon.die()
    daemon.policy.write_text((MIXED % "10m").replace("verdict: confirm", "verdict: deny"))
    if how == "restart":
        daemon.again()
    else:
        old = daemon.get("/policy").json["policies"][0]["digest"]
        daemon.proc.send_signal(signal.SIGHUP)
        until(lambda: daemon.get("/policy").json["policies"][0]["digest"] != old, "the new policy")
    daemon.answer(approval).expect(200)
    result = daemon.result(which, wait_ms=5000)
    assert result["state"] == "denied" and "asked" in str(result["error"]), result
    states = daemon.states(which)
    assert "running" not in states and states[-2:] == ["decided", "denied"], states
    daemon.check()
    daemon.stop()


# --- others die -----------------------------------------------------------------------------------

@pytest.mark.alone
def test_CR_15_the_launcher_dies(daemon):
    """What ran is told as ended with an error; what comes after runs."""
    daemon.again()
    daemon.run("before")
    fds = []
    for _ in range(6):
        which, old = daemon.submit(SLEEP, "shell"), daemon.launcher
        daemon.reach(which, "running")
        boxes = {pid for pid, _ in brigd.descendants(old)}
        os.kill(old, signal.SIGKILL)
        result = daemon.result(which)
        assert result["state"] not in ("finished", "timed_out", "cancelled") and not result["success"], result
        assert result["error"] and result["error"]["cause"], result
        all_gone(boxes)
        until(lambda: daemon.execute("echo after", "shell")["stdout"] == "after\n", "it runs again")
        assert daemon.launcher != old and daemon.proc.poll() is None
        fds.append(daemon.fds())
    assert fds[-1] <= max(fds[:2]) + 12, "descriptors of the dead stay: %r" % fds
    assert daemon.states(which).count("running") == 1
    daemon.check()
    sweep(daemon)
    daemon.stop()


@pytest.mark.alone
def test_CR_15_the_launcher_dies_under_load(daemon):
    daemon.again()
    daemon.run("before")
    states = collections.Counter()

    def work(i):
        for n in range(25):
            r = daemon.execute("echo %d-%d" % (i, n), "shell")
            assert r["state"] != "finished" or r["stdout"] == "%d-%d\n" % (i, n), r
            assert r["state"] == "finished" or r["error"]["cause"], r
            states[r["state"]] += 1

    failures = []
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    hook, threading.excepthook = threading.excepthook, lambda a: failures.append(repr(a.exc_value))
    try:
        for t in threads:
            t.start()
        for _ in range(4):
            time.sleep(0.15)
            with contextlib.suppress(ProcessLookupError, AssertionError):
                os.kill(daemon.launcher, signal.SIGKILL)
        for t in threads:
            t.join(60)
    finally:
        threading.excepthook = hook
    assert not failures, failures[0]
    print("\n", dict(states))
    assert sum(states.values()) == 100 and states["finished"] > 50, states
    assert set(states) <= {"finished", "lost", "setup_failed"}, states
    # The last kill may be news to the daemon still: boxes that waited died with their launcher.
    brigd.until(lambda: daemon.execute("echo after", "shell")["stdout"] == "after\n", "it runs again")
    daemon.check()
    sweep(daemon)
    daemon.stop()


def zygotes(d):
    return [p for p, n in brigd.descendants(d.launcher) if n.startswith("python") and parent(p) == d.launcher]


def test_CR_15_a_zygote_dies(daemon):
    """Python boxes come from it; JavaScript's are started one by one."""
    daemon.policy = brigd.ALLOW
    daemon.again()
    for i in range(3):
        assert daemon.execute("print(%d)" % i)["stdout"] == "%d\n" % i
        for pid in until(lambda: zygotes(daemon), "a zygote"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for _ in range(20):  # a few may be told that their box could not be made
        r = daemon.execute("print(6*7)")
        if r["state"] == "finished":
            break
        assert r["state"] in ("setup_failed", "lost") and r["error"]["cause"], r
        time.sleep(0.2)
    for _ in range(20):
        assert daemon.execute("print(6*7)")["stdout"] == "42\n"
    daemon.check()
    daemon.stop()


def test_CR_15_all_boxes_die(daemon):
    """Those that wait are replaced; the one that runs is told as killed or lost."""
    daemon.again()
    daemon.run("before")
    which = daemon.submit(SLEEP, "shell")
    until(lambda: daemon.get("/executions/%s/output?stream=stdout" % which).body, "it runs in a box")
    for pid, name in brigd.descendants(daemon.pid):
        if name == "brig-init":
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    result = daemon.result(which)
    assert result["state"] not in ("finished", "timed_out") and not result["success"], result
    until(lambda: daemon.execute("echo after", "shell")["stdout"] == "after\n", "it runs again")
    daemon.check()
    daemon.stop()


@pytest.fixture
def hook():
    with brigd.hook_server() as url:
        yield url


def test_CR_15_the_sender_dies(daemon, hook):
    daemon.config = {"webhooks": [{"url": hook, "events": ["executions"]}]}
    daemon.again()
    for i in range(3):
        daemon.run("told-%d" % i)
        until(lambda: len(Hook.got) > i, "it is told")
        for pid in until(lambda: daemon.helpers("brig-send"), "a sender"):
            os.kill(pid, signal.SIGKILL)
        assert daemon.proc.poll() is None
    daemon.run("last")
    until(lambda: len(Hook.got) >= 4, "another one sends")
    daemon.check()
    daemon.stop()


@pytest.mark.alone
def test_CR_03_daemon_and_launcher_die_at_once(daemon):
    """Nobody is left to clean up but the kernel, and the next daemon."""
    daemon.again()
    for _ in range(4):
        which = daemon.submit(SLEEP, "shell")
        daemon.reach(which, "running")
        daemon.die(daemon.launcher)
        daemon.again()
        assert daemon.result(which)["state"] == "lost"
        daemon.run("after")
    daemon.check()
    sweep(daemon)
    daemon.stop()


def test_CR_14_stopped_for_a_while(daemon):
    daemon.again()
    daemon.run("before")
    quick, slow = daemon.submit("sleep 1; echo quick", "shell"), daemon.submit("sleep 5; echo slow", "shell")
    daemon.reach(slow, "running")
    os.kill(daemon.pid, signal.SIGSTOP)
    time.sleep(3)
    os.kill(daemon.pid, signal.SIGCONT)
    assert daemon.result(quick)["stdout"] == "quick\n" and daemon.result(slow)["stdout"] == "slow\n"
    daemon.run("after")
    daemon.check()
    daemon.stop()


# --- two of them, others' things ------------------------------------------------------------------

def test_CR_05_a_second_one_changes_nothing(daemon):
    """Neither the lock nor the jobs of the first are touched, not even by many."""
    daemon.again()
    which = daemon.submit("sleep 2; echo well", "shell")
    daemon.reach(which, "running")
    for i in range(5):
        two = brigd.Daemon(tcp=False, place=daemon.place)
        two.socket, two.log = daemon.place / "two.sock", daemon.place / ("log-%d" % i)
        two.start(ready=False)
        assert two.wait() not in (0, None) and str(daemon.pid) in two.logged, two.logged
    assert daemon.result(which)["stdout"] == "well\n"
    daemon.check()
    daemon.die()  # the lock goes with its holder
    daemon.again()
    daemon.stop()


def test_CR_05_a_command_beside_it_ends_nothing_of_it(daemon):
    """`brig` on the same directory recovers what is orphaned; what the daemon has is not."""
    daemon.again()
    which = daemon.submit("sleep 1; echo well", "shell")
    waits, approval = ask(daemon, "asked")
    daemon.reach(which, "running")
    daemon.brig("run", "shell", "-c", "echo beside", "--host", "none", "--policy", daemon.policy,
               "--level", daemon.level)
    assert daemon.result(which)["stdout"] == "well\n"
    daemon.answer(approval).expect(200)
    assert daemon.result(waits)["stdout"] == "asked\n"
    daemon.check()
    daemon.stop()


@pytest.mark.alone
@pytest.mark.needs_root
def test_CR_04_a_foreign_process_in_a_cgroup_like_ours_lives(daemon):
    base = [p for p in ("/sys/fs/cgroup/pids/brig", "/sys/fs/cgroup/brig") if os.path.isdir(os.path.dirname(p))]
    daemon.again()
    daemon.run("before")  # the folder is there
    where = next(pathlib.Path(p) for p in base if os.path.isdir(p)) / "box-7"
    other = subprocess.Popen(["sleep", "300"])
    brigd.KNOWN.add(other.pid)
    try:
        where.mkdir()
        (where / "cgroup.procs").write_text(str(other.pid))
        os.utime(where, (0, 0))
        daemon.die(daemon.launcher)
        daemon.again()
        for i in range(10):
            daemon.run("after-%d" % i)
        os.kill(daemon.launcher, signal.SIGKILL)
        until(lambda: daemon.execute("echo x", "shell")["stdout"] == "x\n", "it runs again")
        sweep(daemon)
        daemon.stop()
        assert other.poll() is None, "somebody else's process was killed"
        assert str(other.pid) in (where / "cgroup.procs").read_text().split(), "or moved"
    finally:
        other.kill()
        other.wait()
        until(lambda: not (where / "cgroup.procs").read_text().strip(), "it is empty")
        where.rmdir()


# --- killed at a call -----------------------------------------------------------------------------

POINTS = [("pwrite64", n) for n in (1, 4, 9, 14, 19, 26, 35, 50)] + \
         [("fdatasync", n) for n in (1, 2, 3)] + \
         [("sendmsg", n) for n in (1, 2, 4, 7, 10)] + \
         [("epoll_ctl", n) for n in (3, 8, 14, 25)] + \
         [("write", n) for n in (1, 3, 6, 10)]


class Traced(Mortal):
    """Its first life ends as it enters the nth such call."""

    def __init__(self, call, nth):
        super().__init__()
        self.wrapper = ["strace", "-D", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
                        "-e", "inject=%s:signal=KILL:when=%d" % (call, nth)]

    def try_start(self):
        """False: it died before it was ready."""
        self.start(ready=False)
        try:
            self.wait_ready()
            return True
        except AssertionError:
            assert self.proc.returncode == -signal.SIGKILL, self.logged
            return False
        finally:
            self.wrapper = []


class Scenario:
    """A run, a kept run, a question with its answer, a cancelled run; stops where the daemon dies."""

    def __init__(self, d):
        self.d, self.orders = d, [Order(0, "sync", 0), Order(1, "async", 0), Order(2, "ask", 0), Order(3, "cancel", 0)]

    def post(self, o):
        reply = self.d.post("/execute" if o.sync else "/executions", self.d.request(o.code, o.language),
                            headers=[("Idempotency-Key", o.key)])
        o.saw(reply.expect((200, 202)))

    def carry_out(self, o):
        self.post(o)
        if o.kind == "ask" and not o.result:
            approval = until(lambda: self.d.status(o.id).get("approval_id") or self.is_done(o), "a question")
            if approval is not True:
                self.d.answer(approval).expect((200, 409))
        if o.kind == "cancel" and not o.result:
            self.d.delete("/executions/" + o.id).expect(200)
        if not o.result:
            o.saw(self.d.get("/executions/%s?wait=30000" % o.id))

    def is_done(self, o):
        return self.d.status(o.id).get("done", True)

    def play(self):
        for o in self.orders:
            self.carry_out(o)


@pytest.mark.parametrize("call,nth", POINTS, ids=["%s-%d" % p for p in POINTS])
def test_CR_01_killed_at_a_call(call, nth):
    d = Traced(call, nth)
    try:
        scenario, died = Scenario(d), not d.try_start()
        if not died:
            try:
                scenario.play()
            except (Closed, OSError):
                died = True
            if not died and d.proc.poll() is None:
                with contextlib.suppress(Closed, OSError):
                    d.get("/health")
        d.die() if d.proc.poll() is None else d.wait()
        all_gone({pid for pid, _ in brigd.descendants(os.getpid())} - {d.pid} - brigd.KNOWN)
        d.again()
        check_standing(d)
        scenario.play()
        for o in scenario.orders:
            scenario.post(o)  # the same once more
            states = d.states(o.id)
            assert o.result and states.count("running") <= 1, (o.kind, states)
            assert len([r for r in d.rows(name="received") if r["detail"]["code"] == o.digest]) == 1
        d.check()
        d.stop()
    finally:
        d.clean()


def test_CR_01_the_points_are_reached():
    """The control: a daemon that plays the whole scenario passes most of them."""
    d = Mortal()
    counts = d.place / "counts"
    d.wrapper = ["strace", "-D", "-qq", "-o", str(counts), "-e", "trace=" + ",".join({c for c, _ in POINTS})]
    try:
        d.again()
        Scenario(d).play()
        d.die()
        seen = collections.Counter(line.split("(")[0] for line in counts.read_text().splitlines())
        reached = [(c, n) for c, n in POINTS if seen[c] >= n]
        print("\n", dict(seen))
        assert len(reached) >= len(POINTS) * 2 // 3, (seen, sorted(set(POINTS) - set(reached)))
    finally:
        d.clean()


# --- a disk that is full, or cannot be written (CR-08) --------------------------------------------

@pytest.fixture
def small():
    """A daemon whose state is on a disk of its own."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="it-brigd-"))
    (place / "state").mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "none", str(place / "state")], check=True)
    d = Mortal(place=place)
    try:
        yield d
    finally:
        d.clean()
        subprocess.run(["umount", str(place / "state")], check=True)
        shutil.rmtree(place)


def fill(d):
    """Not a byte is left, also not in the pages that the record has already."""
    with open(d.state / "filler", "ab", buffering=0) as f:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * size)


def until_refused(d, most=3000):
    """The record takes some more rows until it has to grow. (the refusal, words that ran)"""
    ran = []
    for i in range(most):
        reply = d.post("/execute", d.request("echo full-%d" % i, "shell"))
        if reply.status != 200:
            return reply, ran
        if reply.json["state"] != "finished":
            return reply, ran
        ran.append("full-%d" % i)
        fill(d)
    raise AssertionError("it never minded")


@pytest.mark.alone
@pytest.mark.needs_root
def test_CR_08_no_space(small):
    d = small.again()
    d.run("before")
    fill(d)
    reply, ran = until_refused(d)
    reply.refused(503, "unavailable")
    for path in ("/execute", "/executions"):
        d.post(path, d.request("echo never", "shell"), headers=[("Idempotency-Key", "k" + path[4:5])]).refused(503)
    d.get("/health").expect(200)
    until(lambda: d.get("/ready").status == 503, "it says that it cannot", 10)
    (d.state / "filler").unlink()
    until(lambda: d.get("/ready").status == 200, "it says that it can again", 20)
    d.run("after")
    got = d.post("/execute", d.request("echo again", "shell"), headers=[("Idempotency-Key", "k")]).expect(200)
    assert got.json["stdout"] == "again\n", "a refused request has not used its key"
    codes = {r["detail"]["code"] for r in d.rows(name="received")}
    assert hashlib.sha256(b"echo never").hexdigest() not in codes
    assert all(hashlib.sha256(b"echo " + w.encode()).hexdigest() in codes for w in ran), "answered, not recorded"
    assert len(d.rows(name="running")) == len(ran) + 3 == len(d.rows(name="finished"))
    d.check()
    d.die()
    d.again()
    d.check()
    d.stop()


@pytest.mark.alone
@pytest.mark.needs_root
def test_CR_08_no_space_while_it_runs(small):
    """Its result is told, and that it is not recorded; after a restart it is lost, not forgotten."""
    d = small.again()
    which = d.submit("sleep 3; echo well", "shell")
    d.reach(which, "running")
    fill(d)
    until_refused(d)
    result = d.result(which)
    assert result["stdout"] == "well\n" and result["error"], result
    (d.state / "filler").unlink()
    d.run("after")
    d.verify()
    d.die()
    d.again()
    assert d.result(which)["state"] in ("lost", "finished") and d.states(which).count("running") == 1
    d.check()
    d.stop()


@pytest.mark.alone
@pytest.mark.needs_root
def test_CR_08_killed_without_space(small):
    """It starts or says why not; when there is space again it starts, and the record is whole."""
    d = small.again()
    which = d.submit(SLEEP, "shell")
    d.reach(which, "running")
    fill(d)
    until_refused(d)
    d.die()
    d.start(ready=False)
    until(lambda: d.proc.poll() is not None or d.socket.exists() and can_ask(d), "it starts or ends")
    assert d.proc.poll() != 0, d.logged
    if d.proc.poll() is None:
        assert d.post("/execute", d.request("echo never", "shell")).status == 503
        d.die()
    else:
        assert "brigd:" in d.logged and d.proc.returncode > 0, d.logged
    (d.state / "filler").unlink()
    d.again()
    assert d.result(which)["state"] == "lost"
    d.run("after")
    d.check()
    d.stop()


def can_ask(d):
    try:
        return d.get("/health").status == 200
    except (OSError, Closed):
        return False


@pytest.mark.alone
@pytest.mark.needs_root
def test_CR_08_read_only(small):
    d = small.again()
    d.run("before")
    d.die()
    subprocess.run(["mount", "-o", "remount,ro", str(d.state)], check=True)
    try:
        d.start(ready=False)
        until(lambda: d.proc.poll() is not None or can_ask(d), "it starts or ends")
        if d.proc.poll() is None:
            assert d.get("/ready").status == 503
            assert d.post("/execute", d.request("echo never", "shell")).status == 503
            d.die()
        else:
            assert d.proc.returncode > 0 and "brigd:" in d.logged, d.logged
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(d.state)], check=True)
    d.again()
    d.run("after")
    d.check()
    d.stop()
