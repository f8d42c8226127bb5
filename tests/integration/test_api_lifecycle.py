# SPDX-License-Identifier: Apache-2.0
"""brigd from its start to its end: settings, lock, reload, drain (AP-29), systemd."""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import ALLOW, API, Closed, request_bytes, until  # noqa: E402

MODES = ["root", "user"] if os.geteuid() == 0 else ["user"]
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
DENY = "version: 1\nname: deny-all\ndefault: deny\nfloor:\n  level: degraded-ok\n"


def call(*args, status=0, **kw):
    done = subprocess.run([brigd.BRIGD, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False, **kw)
    assert done.returncode == status, done
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture
def daemon():
    """Not started yet; whatever the test leaves of it is ended."""
    d = brigd.Daemon()
    yield d
    d.clean()


@pytest.fixture(params=MODES)
def anybodys(request):
    d = brigd.Daemon(user=request.param == "user")
    yield d
    d.clean()


# --- settings -------------------------------------------------------------------------------------

def test_help_and_version():
    assert "--socket" in call("--help") and re.search(r"brigd \d+\.\d+", call("--version"))


def test_check_config_shows_what_would_hold(tmp_path):
    path = tmp_path / "brigd.yaml"
    path.write_text("limits: {running: 7, queue: 11}\ndrain: 5s\nlog: {level: debug}\n")
    text = call("--config", path, "--check-config", "--state-dir", tmp_path / "state")
    assert re.search(r"running: +7\b", text) and re.search(r"queue: +11\b", text), text
    assert "debug" in text and not (tmp_path / "state").exists(), text
    again = tmp_path / "again.yaml"
    again.write_text(text)
    said = call("--config", again, "--check-config")
    assert said.replace("again.yaml", "brigd.yaml") == text, "what is printed can be read"


@pytest.mark.parametrize("text", [
    "limits: {runnning: 7}\n", "limits: {running: 0}\n", "limits: {running: -1}\n", "limits: {running: lots}\n",
    "limits: {running: 99999999999999999999}\n", "nonsense: 1\n", "limits: []\n", "- x\n", "limits: {running: 1, running: 2}\n",
    "drain: 5 parsecs\n", "listen: {tcp: '127.0.0.1:1'}\n", "log: {level: loud}\n", "confirm: perhaps\n", "{", "a: &x 1\nb: *x\n",
    "hosts: ['a b']\n", "listen: {socket_mode: '0999'}\n",
])
def test_check_config_refuses(tmp_path, text):
    path = tmp_path / "brigd.yaml"
    path.write_text(text)
    said = call("--config", path, "--check-config", status=2)
    assert re.search(r"brigd\.yaml:\d+(:\d+)?:", said), said
    d = brigd.Daemon(tcp=False, place=tmp_path)
    d.config = None
    d.args = ["--config", path]
    d.start(ready=False)
    assert d.wait() == 2 and not d.socket.exists(), d.logged


@pytest.mark.parametrize("args", [["--nonsense"], ["x"], ["--config"], ["--config", "/nonexistent"], ["--listen", "x"],
                                  ["--log-level", "loud"], ["--policy", "/nonexistent"], ["--socket", "/tmp/" + "x" * 200]])
def test_wrong_flags_are_refused(tmp_path, args):
    done = subprocess.run([brigd.BRIGD, "--state-dir", str(tmp_path / "state"), *(
        [] if "--socket" in args else ["--socket", str(tmp_path / "s")]), *args], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode > 0 and done.stderr.strip(), done
    assert not (tmp_path / "s").exists()


def test_flags_win_over_the_environment_and_that_over_the_file(daemon):
    daemon.config = {"listen": {"socket": str(daemon.place / "file.sock")}, "limits": {"running": 3}}
    daemon.env = {"BRIGD_SOCKET": str(daemon.place / "environment.sock")}
    text = subprocess.run(daemon.argv() + ["--check-config"], env=daemon.environment(), stdout=subprocess.PIPE,
                          timeout=60, check=True).stdout.decode()
    assert str(daemon.socket) in text and "environment.sock" not in text and "file.sock" not in text
    argv = [a for a in daemon.argv() if a not in ("--socket", str(daemon.socket))]
    text = subprocess.run(argv + ["--check-config"], env=daemon.environment(), stdout=subprocess.PIPE,
                          timeout=60, check=True).stdout.decode()
    assert "environment.sock" in text and "file.sock" not in text


# --- one daemon for one state directory -----------------------------------------------------------

def test_it_starts_serves_and_ends(anybodys):
    d = anybodys.start()
    assert d.execute("print(6*7)")["stdout"] == "42\n"
    assert d.get("/health", tcp=True, token=d.admin()).status == 200
    assert d.execute("console.log(1)", "javascript")["stdout"] == "1\n"
    d.verify()
    d.stop()


def test_a_second_one_is_refused(anybodys):
    d = anybodys.start()
    two = brigd.Daemon(tcp=False, place=d.place, user=d.drop != [])
    two.socket, two.log = d.place / "two.sock", d.place / "two.log"
    two.start(ready=False)
    assert two.wait() not in (0, None) and str(d.pid) in two.logged, two.logged
    assert not two.socket.exists()
    assert d.execute("print(1)")["stdout"] == "1\n"
    d.stop()


def test_a_socket_that_is_used_is_not_taken(daemon, tmp_path):
    daemon.start()
    other = brigd.Daemon(tcp=False, place=tmp_path)
    other.socket = daemon.socket
    other.start(ready=False)
    assert other.wait() not in (0, None), other.logged
    daemon.get("/health").expect(200)
    daemon.stop()


def test_after_a_kill_it_starts_again(anybodys):
    """The socket is still there, and what ran is told as lost."""
    d = anybodys.start()
    which = d.submit(SLEEP)
    d.reach(which, "running")
    mine = {pid for pid, _ in brigd.descendants(d.pid)}
    d.kill()
    assert d.socket.exists() and mine
    until(lambda: not [p for p in mine if brigd.alive(p)], "its processes are gone", 10)
    d.start()
    assert d.result(which)["state"] == "lost" and d.execute("print(1)")["stdout"] == "1\n"
    d.verify()
    d.stop()


def test_a_file_in_the_place_of_the_socket_is_left_alone(daemon):
    daemon.socket.write_text("precious")
    daemon.start(ready=False)
    assert daemon.wait() not in (0, None), daemon.logged
    assert daemon.socket.read_text() == "precious"


def test_a_state_directory_of_others_is_refused(daemon):
    daemon.state.chmod(0o777)
    daemon.start(ready=False)
    with contextlib.suppress(AssertionError):
        daemon.wait(3)
    if daemon.proc.poll() is None:  # it may also make it its own
        assert daemon.state.stat().st_mode & 0o077 == 0, "served from a directory that all may write"
        daemon.wait_ready()
        daemon.stop()
    else:
        assert daemon.proc.returncode > 0


# --- reload ---------------------------------------------------------------------------------------

def test_sighup_reads_the_policy_again(daemon):
    policy = daemon.place / "policy.yaml"
    policy.write_text(ALLOW.read_text())
    policy.chmod(0o644)
    daemon.policy = policy
    daemon.start()
    held = daemon.submit("import time\ntime.sleep(2)\nprint('well')")
    daemon.reach(held, "running")
    policy.write_text(DENY)
    assert daemon.execute("print(1)")["state"] == "finished", "not before it is told"
    daemon.proc.send_signal(signal.SIGHUP)
    until(lambda: daemon.execute("print(1)")["state"] == "denied", "the new policy holds")
    assert [p["name"] for p in daemon.get("/policy").json["policies"]][-1:] == ["deny-all"]
    assert daemon.result(held)["stdout"] == "well\n", "what ran goes on"
    policy.write_text("version: 1\nnonsense: 1\n")
    daemon.proc.send_signal(signal.SIGHUP)
    until(lambda: "nonsense" in daemon.logged, "it says what is wrong")
    assert daemon.execute("print(1)")["state"] == "denied", "the old one stays"
    policy.write_text(ALLOW.read_text())
    daemon.proc.send_signal(signal.SIGHUP)
    until(lambda: daemon.execute("print(1)")["state"] == "finished", "and can be mended")
    daemon.stop()


def test_many_sighups_do_no_harm(daemon):
    daemon.start()
    for _ in range(30):
        daemon.proc.send_signal(signal.SIGHUP)
    assert daemon.execute("print(1)")["stdout"] == "1\n"
    daemon.stop()


# --- the end --------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_AP_29_what_runs_is_finished_and_nothing_new_begins(daemon, number):
    daemon.start()
    with concurrent.futures.ThreadPoolExecutor(1) as threads, daemon.connect() as kept, daemon.connect() as asks:
        daemon.get("/health", wire=kept).expect(200)
        daemon.get("/health", wire=asks).expect(200)
        run = threads.submit(daemon.execute, "import time\ntime.sleep(3)\nprint('whole')")
        until(lambda: daemon.rows(name="running"), "it runs")
        daemon.proc.send_signal(number)
        until(lambda: "drain" in daemon.logged.lower() or "stop" in daemon.logged.lower() or
              not can_connect(daemon), "it was told")
        time.sleep(0.2)
        reply = daemon.post("/execute", daemon.request("print('never')"), wire=kept)
        assert reply.refused(503, "unavailable"), reply
        with contextlib.suppress(Closed, BrokenPipeError):
            daemon.get("/ready", wire=asks).expect(503)
        assert run.result(40)["stdout"] == "whole\n"
    daemon.stop()
    rows = daemon.brig("ledger", "export")
    assert rows.count('"name":"running"') == 1 and "never" not in rows


def can_connect(d):
    try:
        d.connect().close()
        return True
    except OSError:
        return False


def test_AP_29_the_wait_has_an_end(daemon):
    daemon.config = {"drain": "1s"}
    daemon.start()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        run = threads.submit(daemon.execute, SLEEP)
        until(lambda: daemon.rows(name="running"), "it runs")
        begin = time.monotonic()
        daemon.stop()
        assert time.monotonic() - begin < 20
        with contextlib.suppress(Closed, OSError):
            assert run.result(10)["state"] in ("cancelled", "lost")
    daemon.start()
    daemon.verify()
    names = [r["name"] for r in daemon.rows(kind="state")]
    assert names[-1] in ("finished", "cancelled", "lost", "failed"), names
    daemon.stop()


def test_AP_29_a_second_signal_ends_it_at_once(daemon):
    daemon.config = {"drain": "60s"}
    daemon.start()
    which = daemon.submit(SLEEP)
    daemon.reach(which, "running")
    mine = {pid for pid, _ in brigd.descendants(daemon.pid)}
    begin = time.monotonic()
    daemon.proc.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert daemon.proc.poll() is None, "it waits for what runs"
    daemon.proc.send_signal(signal.SIGTERM)
    daemon.wait(20)
    assert time.monotonic() - begin < 20
    until(lambda: not [p for p in mine if brigd.alive(p)], "its processes are gone", 10)
    brigd.gone(brigd.empty_cgroups, set(), "cgroups")
    daemon.start()
    assert daemon.result(which)["state"] in ("cancelled", "lost")
    daemon.verify()
    daemon.stop()


def test_AP_29_no_half_answer_under_load(daemon):
    """Every answer is whole, or there is none; every run that was answered for is in the record."""
    daemon.start()
    data = request_bytes("POST", API + "/execute", daemon.request("echo whole", "shell"))
    done, halves, stop = [], [], threading.Event()

    def go_on():
        while not stop.is_set():
            try:
                wire = daemon.connect()
            except OSError:
                return
            with wire:
                try:
                    while not stop.is_set():
                        if not wire.try_send(data):
                            break
                        reply = wire.reply()
                        done.append((reply.status, reply.json))
                        if reply.header("connection") == "close":
                            break
                except Closed as e:
                    if "after b''" not in str(e):
                        halves.append(str(e))
                except OSError:
                    pass

    threads = [threading.Thread(target=go_on) for _ in range(8)]
    for t in threads:
        t.start()
    until(lambda: len([1 for s, _ in done if s == 200]) > 30, "there is load")
    daemon.stop()
    stop.set()
    for t in threads:
        t.join(30)
        assert not t.is_alive()
    assert not halves, halves[:3]
    assert {s for s, _ in done} <= {200, 503, 429}, {s for s, _ in done}
    assert all(j["stdout"] == "whole\n" for s, j in done if s == 200)
    daemon.start()
    daemon.verify()
    received = {r["job"] for r in daemon.rows(name="received")}
    ended = {r["job"] for r in daemon.rows(kind="state") if r["name"] in ("finished", "cancelled", "failed", "lost")}
    assert {j["execution_id"] for s, j in done if s == 200} <= ended and received == ended
    daemon.stop()


def test_AP_29_streams_are_ended_not_cut(daemon):
    daemon.start()
    wire, events = daemon.stream("/events")
    with wire, daemon.ws("/approvals/ws") as ws:
        daemon.execute("echo 1", "shell")
        daemon.proc.send_signal(signal.SIGTERM)
        list(events)  # ends with the last chunk, else Closed
        assert ws.closed_with() == 1001
    daemon.stop()


def test_AP_29_one_who_waits_for_a_person_is_told(daemon):
    daemon.policy, daemon.config = brigd.ASK, {"drain": "2s"}
    daemon.start()
    which = daemon.submit("echo ran", "shell")
    approval = daemon.waiting(which)
    begin = time.monotonic()
    daemon.stop()
    assert time.monotonic() - begin < 20
    daemon.start()
    state = daemon.get("/approvals/" + approval).expect(200).json["state"]
    assert state in ("withdrawn", "waiting", "expired"), state
    assert not daemon.rows(name="running")
    daemon.verify()
    daemon.stop()


def test_AP_29_a_run_that_was_just_allowed_is_under_way(daemon):
    daemon.policy, daemon.config = brigd.ASK, {"drain": "2s"}
    daemon.start()
    which = daemon.submit("sleep 30; echo ran", "shell")
    daemon.answer(daemon.waiting(which)).expect(200)
    until(lambda: daemon.status(which)["state"] == "running", "the run")
    daemon.stop()
    daemon.start()
    assert daemon.result(which)["state"] == "cancelled"
    daemon.verify()
    daemon.stop()


def test_AP_29_a_yes_at_the_end_is_for_the_next_daemon(daemon):
    """Or for this one, if it has not heard the signal yet; but never for nobody."""
    daemon.policy, daemon.config = brigd.ASK, {"drain": "20s"}
    daemon.start()
    which = daemon.submit("sleep 1; echo ran", "shell")
    approval = daemon.waiting(which)
    daemon.proc.send_signal(signal.SIGTERM)
    time.sleep(0.25)
    daemon.brig("approvals", "allow", approval, "--host", "none")
    daemon.stop()
    daemon.start()
    assert daemon.result(which)["stdout"] == "ran\n"
    assert len(daemon.rows(name="running")) == 1
    daemon.verify()
    daemon.stop()


def test_a_no_while_no_daemon_runs_is_told(daemon):
    daemon.policy = brigd.ASK
    daemon.start()
    which = daemon.submit("echo ran", "shell")
    approval = daemon.waiting(which)
    daemon.kill()
    daemon.brig("approvals", "deny", approval, "--reason", "because", "--host", "none")
    daemon.start()
    got = daemon.result(which)
    assert (got["state"], got["error"]["code"]) == ("denied", "denied"), got
    daemon.verify()
    daemon.stop()


def test_it_ends_at_once_when_nothing_runs(daemon):
    daemon.start()
    daemon.execute("print(1)")
    with daemon.connect() as idle, daemon.connect() as half:
        half.send(b"POST /api/v1/execute HTTP/1.1\r\nHost: localhost\r\n")
        begin = time.monotonic()
        daemon.stop()
        assert time.monotonic() - begin < 12, "it waited for idle connections"
        assert idle.is_over(5)


# --- systemd --------------------------------------------------------------------------------------

ACTIVATE = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(16)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="brigd.socket")
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_it_takes_the_socket_of_systemd(daemon):
    daemon.port = None
    given = daemon.place / "given.sock"
    daemon.wrapper = [sys.executable, "-c", ACTIVATE, str(given)]
    daemon.socket, own = given, daemon.socket
    daemon.config = {"listen": {"socket": "none"}}
    full = daemon.argv()
    i = full.index("--socket")
    daemon.argv = lambda: full[:i] + full[i + 2:]
    daemon.start()
    assert daemon.execute("print(1)")["stdout"] == "1\n"
    text = pathlib.Path("/proc/%d/environ" % daemon.pid).read_bytes()
    assert b"LISTEN_FDS" in text  # the control: it was started so
    result = daemon.execute("import os\nprint([k for k in os.environ if k.startswith('LISTEN')])")
    assert result["stdout"] == "[]\n"
    daemon.stop()
    assert given.exists() and not own.exists(), "the socket is not its own to remove"
    given.unlink()


class Notified:
    """What a service manager hears."""

    def __init__(self, address):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(address)
        self.sock.settimeout(brigd.WAIT_S)

    def until(self, word):
        end, seen = time.monotonic() + brigd.WAIT_S, []
        while time.monotonic() < end:
            lines = self.sock.recv(65536).decode().split("\n")
            seen += lines
            if word in lines:
                return lines
        raise AssertionError(seen)


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_told(daemon, abstract):
    name = "@brigd-test-%d" % os.getpid() if abstract else str(daemon.place / "notify")
    heard = Notified("\0" + name[1:] if abstract else name)
    try:
        daemon.env = {"NOTIFY_SOCKET": name}
        daemon.start(ready=False)
        heard.until("READY=1")
        daemon.get("/ready").expect(200)  # at once
        daemon.proc.send_signal(signal.SIGHUP)
        lines = heard.until("RELOADING=1")
        assert any(re.fullmatch(r"MONOTONIC_USEC=\d+", line) for line in lines), lines
        heard.until("READY=1")
        result = daemon.execute("import os\nprint('NOTIFY_SOCKET' in os.environ)")
        assert result["stdout"] == "False\n"
        daemon.proc.send_signal(signal.SIGTERM)
        heard.until("STOPPING=1")
        daemon.stop()
    finally:
        heard.sock.close()


def test_the_watchdog_is_fed(daemon):
    name = str(daemon.place / "notify")
    heard = Notified(name)
    try:
        daemon.env = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "2000000"}
        daemon.start(ready=False)
        heard.until("READY=1")
        for _ in range(2):
            heard.until("WATCHDOG=1")
        daemon.stop()
    finally:
        heard.sock.close()


# --- when the host is short of something ----------------------------------------------------------

def test_a_log_that_nobody_reads_stops_nothing(daemon):
    daemon.args = ["--log-level", "debug"]
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, True)
        daemon.log.touch()
        daemon.proc = subprocess.Popen(daemon.argv(), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                                       env=daemon.environment())
        brigd.KNOWN.add(daemon.proc.pid)
        os.close(writer)
        writer = None
        daemon.wait_ready()
        with daemon.connect() as wire:
            for _ in range(3000):
                daemon.get("/executions/x", wire=wire).expect(404)
        os.close(reader)
        reader = None
        assert daemon.execute("print(1)")["stdout"] == "1\n"
        daemon.stop()
    finally:
        for fd in (reader, writer):
            if fd is not None:
                os.close(fd)


def test_out_of_descriptors_it_waits_and_recovers(daemon):
    daemon.wrapper = ["prlimit", "--nofile=200:200"]
    daemon.start()
    daemon.execute("echo 1", "shell")
    wires = []
    try:
        for _ in range(400):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(2)
            wires.append(sock)
            try:
                sock.connect(str(daemon.socket))
            except OSError:
                break
        assert len(wires) > 100
        time.sleep(0.5)
        cpu = daemon_cpu(daemon)
        time.sleep(1)
        assert daemon_cpu(daemon) - cpu < 0.5, "it spins"
    finally:
        for sock in wires:
            sock.close()
    until(lambda: daemon.get("/health").status == 200, "it serves again")
    assert until(lambda: daemon.execute("echo 1", "shell"), "a run")["stdout"] == "1\n"
    daemon.stop()


def daemon_cpu(d):
    words = pathlib.Path("/proc/%d/stat" % d.pid).read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_idle_it_does_nothing(daemon):
    daemon.start()
    daemon.execute("print(1)")
    time.sleep(1.5)
    cpu = daemon_cpu(daemon)
    time.sleep(2)
    assert daemon_cpu(daemon) - cpu < 0.3
    daemon.stop()


def test_a_launcher_that_died_is_replaced(daemon):
    daemon.start()
    daemon.execute("print(1)")
    launchers = [pid for pid, name in brigd.descendants(daemon.pid) if name == "brig-launch"]
    assert launchers
    for pid in launchers:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: daemon.execute("print(2)")["stdout"] == "2\n", "it runs again")
    daemon.stop()
