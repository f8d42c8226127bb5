# SPDX-License-Identifier: Apache-2.0
"""Harness of the escape tests.

An attack is a *probe* (probe.c). The same probe runs in the box, where it must be blocked, and
outside, where it must succeed: a probe that cannot succeed anywhere proves nothing. Whether the
host was touched is judged here, from outside, by canaries. After every test nothing may be left.
"""
import contextlib
import ctypes
import glob
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import types

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIG = os.environ.get("BRIG", os.path.join(ROOT, "out", "bin", "brig"))
BUILD = os.environ.get("BRIG_BUILD", os.path.join(ROOT, "build"))
PROBE = os.path.join(BUILD, "tests", "escape", "probe")

USER_ID = int(os.environ.get("BRIG_TEST_UID", "12345"))
IS_ROOT = os.geteuid() == 0
MODES = ["root", "user"] if IS_ROOT else ["user"]
PATIENCE = 2.0  # seconds in which everything of a run must be gone
PR_SET_CHILD_SUBREAPER = 36
STANDING_MOUNTS = {}  # those of the host when the suite began


def pytest_configure(config):
    # Orphans of a run come to this process instead of init, so that a leak is always found.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")
    STANDING_MOUNTS.update(_mounts())


# --- running brig ---------------------------------------------------------------------------------

class Run:
    """One `brig run`: its exit status, its own stderr, and the parsed result (None if it gave none)."""

    def __init__(self, argv, status, out, err, seconds):
        self.argv, self.status, self.raw_out, self.raw_err = argv, status, out or b"", err or b""
        self.seconds = seconds
        try:
            self.json = json.loads(self.raw_out.decode())
        except ValueError:
            self.json = None

    def _get(self, key, default=None):
        return (self.json or {}).get(key, default)

    @property
    def state(self):
        return self._get("state")

    @property
    def stdout(self):
        return self._get("stdout") or ""

    @property
    def stderr(self):
        return self._get("stderr") or ""

    @property
    def exit_code(self):
        return self._get("exit_code")

    @property
    def signal(self):
        return self._get("signal")

    @property
    def error(self):
        return self._get("error") or {}

    @property
    def usage(self):
        return self._get("usage") or {}

    @property
    def receipt(self):
        return self._get("receipt") or {}

    @property
    def layers(self):
        return {l["name"]: l for l in self.receipt.get("layers", [])}

    @property
    def refused(self):
        """brig declined to run the code and said why."""
        why = self.error.get("cause") or self.raw_err.decode(errors="replace")
        return self.status == 126 and bool(why.strip())

    @property
    def rejected(self):
        """brig found the request itself bad and said why."""
        why = self.error.get("cause") or self.raw_err.decode(errors="replace")
        return self.status == 2 and bool(why.strip())

    def __repr__(self):
        def clip(b):
            s = b.decode(errors="replace") if isinstance(b, bytes) else str(b)
            return s if len(s) < 3000 else s[:1500] + " … " + s[-1500:]
        return "Run(status=%s, %.2fs)\n  argv: %s\n  stdout: %s\n  stderr: %s" % (
            self.status, self.seconds, clip(" ".join(map(str, self.argv))), clip(self.raw_out),
            clip(self.raw_err))


class Brig:
    """Runs brig as root or, in mode "user", as an ordinary user who may get a degraded box."""

    def __init__(self, mode, work):
        self.mode, self.work = mode, work

    @property
    def prefix(self):
        if self.mode == "user" and IS_ROOT:
            return ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--",
                    "env", "BRIG_STATE_DIR=" + os.environ["BRIG_TEST_USER_STATE"]]
        return []

    def argv(self, *args, options=(), level=True):
        """`brig run` with this mode's options; args are LANG, FILE, -c CODE and so on."""
        extra = ["--level", "degraded-ok"] if self.mode == "user" and level else []
        extra += ["--warm"] if os.environ.get("BRIG_TEST_WARM") else []
        return self.prefix + [BRIG, "run", *args, "--json", *extra, *map(str, options)]

    def popen(self, argv, **kw):
        """Starts an argv; stdout and stderr are pipes unless told otherwise."""
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
               "BRIG_POLICY": os.environ["BRIG_POLICY"], "BRIG_STATE_DIR": os.environ["BRIG_STATE_DIR"]}
        env.update(kw.pop("env", None) or {})
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("cwd", self.work)
        return subprocess.Popen(argv, env=env, **kw)

    def run_argv(self, argv, input=None, timeout=30, **kw):
        """Runs an argv to its end and parses the JSON result."""
        if input is not None:
            kw["stdin"] = subprocess.PIPE
            input = input.encode() if isinstance(input, str) else input
        start = time.monotonic()
        proc = self.popen(argv, **kw)
        try:
            out, err = proc.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            proc.kill()
            out, err = proc.communicate()
            pytest.fail("brig did not return within %s s: %s\n%s" % (timeout, argv, err[-2000:]))
        return Run(argv, proc.returncode, out, err, time.monotonic() - start)

    def run(self, lang, code, args=(), files=None, outs=None, options=(), limit="10s", level=True, **kw):
        """Runs code. files: {box path: host path}; outs: {box path: host path}; options: more brig
        options; limit: --timeout; env: brig's own environment, not the box's; further keywords go
        to Popen."""
        opts = ["--timeout", limit] if limit else []
        for box_path, host_path in (files or {}).items():
            opts += ["--file", "%s:%s" % (host_path, box_path)]
        for box_path, host_path in (outs or {}).items():
            opts += ["--out", "%s:%s" % (box_path, host_path)]
        argv = self.argv(lang, "-c", code, options=opts + list(options), level=level)
        return self.run_argv(argv + (["--", *map(str, args)] if args else []), **kw)

    def path(self, name, data=None, mode=0o644):
        """A path in the run's own directory on the host, optionally with content, owned by the user."""
        path = os.path.join(self.work, name)
        if data is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data.encode() if isinstance(data, str) else data)
            os.chmod(path, mode)
            self.own(path)
        return path

    def own(self, path):
        """Gives a path to the user brig runs as."""
        if self.mode == "user" and IS_ROOT:
            os.chown(path, USER_ID, USER_ID, follow_symlinks=False)


# --- running probes -------------------------------------------------------------------------------

class Verdict:
    """What a probe said; `run` is the brig run it came from (None outside)."""

    def __init__(self, result, detail, run=None):
        self.result, self.detail, self.run = result, detail, run

    @property
    def blocked(self):
        return self.result == "blocked"

    @property
    def escaped(self):
        return self.result == "escaped"

    def __repr__(self):
        return "Verdict(%s: %s)\n  %r" % (self.result, self.detail, self.run)


def parse_verdict(text, run=None):
    """The probe's line is the last line of stdout that is JSON with a result."""
    for line in reversed(text.splitlines()):
        try:
            v = json.loads(line)
        except ValueError:
            continue
        if isinstance(v, dict) and "result" in v and "id" in v:
            return Verdict(v["result"], v["detail"], run)
    return Verdict("silent", "the probe printed no verdict", run)


class Box:
    """box("FS-02", args…, **options of Brig.run) runs a probe as the box's main process."""

    def __init__(self, brig):
        self.brig, self.mode = brig, brig.mode

    def __call__(self, probe_id, *args, files=None, code='exec ./probe "$@"', **kw):
        run = self.brig.run("shell", code, args=[probe_id, *args],
                            files=dict({"probe": PROBE}, **(files or {})), **kw)
        if run.refused:
            return Verdict("refused", run.error.get("cause", ""), run)
        return parse_verdict(run.stdout, run)

    def blocked(self, probe_id, *args, **kw):
        """Runs a probe and requires that it was blocked. An unprivileged brig may refuse, with a
        reason, to run at all; nothing else will do."""
        v = self(probe_id, *args, **kw)
        if not v.blocked and not (self.mode == "user" and v.result == "refused"):
            pytest.fail("%s: %r" % (probe_id, v))
        return v


def run_outside(probe_id, *args, weak=(), timeout=30, cwd=None, **kw):
    prefix = list(weak)
    if not IS_ROOT and not prefix:
        prefix = ["unshare", "-Ur", "--"]
    proc = subprocess.Popen(prefix + [PROBE, probe_id, *map(str, args)], cwd=cwd or "/",
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    try:
        out, err = proc.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        proc.kill()
        out, err = proc.communicate()
        return Verdict("silent", "timed out outside: %r %r" % (out[-500:], err[-500:]))
    v = parse_verdict(out.decode(errors="replace"))
    if v.result == "silent":
        v.detail = "status %s, stderr %r" % (proc.returncode, err[-500:])
    return v


# --- fixtures -------------------------------------------------------------------------------------

@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def work(mode):
    """A directory on the host that brig's user owns and others may read."""
    path = tempfile.mkdtemp(prefix="escape-")
    os.chmod(path, 0o755)
    if mode == "user" and IS_ROOT:
        os.chown(path, USER_ID, USER_ID)
    yield path
    left = [name for name in os.listdir(path) if ".brig-" in name]  # of --out
    shutil.rmtree(path, ignore_errors=True)
    assert not left, "left behind: %r" % left


@pytest.fixture
def brig(mode, work):
    return Brig(mode, work)


@pytest.fixture
def box(brig):
    return Box(brig)


@pytest.fixture
def outside(tmp_path):
    """The positive control: the same probe without a box (weak: an argv prefix that makes a
    purpose-made weak environment). Its `escaped` method requires success. The default cwd is a
    scratch directory."""
    def run(probe_id, *args, **kw):
        kw.setdefault("cwd", str(tmp_path))
        return run_outside(probe_id, *args, **kw)

    def escaped(probe_id, *args, **kw):
        v = run(probe_id, *args, **kw)
        assert v.escaped, "positive control of %s: %r" % (probe_id, v)
        return v
    run.escaped = escaped
    return run


# --- canaries -------------------------------------------------------------------------------------

class Listener:
    """A socket on the host that nobody may reach; counts who did."""

    def __init__(self, family, address, kind=socket.SOCK_STREAM):
        self.hits = []
        self.sock = socket.socket(family, kind)
        self.sock.bind(address)
        if kind != socket.SOCK_DGRAM:
            self.sock.listen(16)
        self.address = self.sock.getsockname()
        self.port = self.address[1] if family in (socket.AF_INET, socket.AF_INET6) else None
        self.kind = kind
        self.stop = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        self.sock.settimeout(0.1)
        while not self.stop:
            try:
                if self.kind == socket.SOCK_DGRAM:
                    self.hits.append(self.sock.recvfrom(512))
                else:
                    conn, peer = self.sock.accept()
                    self.hits.append(peer or "peer")
                    conn.close()
            except socket.timeout:
                continue
            except OSError:
                return

    def close(self):
        self.stop = True
        self.thread.join()
        self.sock.close()


class Canaries:
    """Things on the host that a box must neither see nor change."""

    PLACES = ("/root", "/home", "/var/lib", "/run", "/srv", "/opt", "/etc", "/mnt", "/var/tmp", "/dev/shm",
              "/tmp")

    def __init__(self):
        self.token = secrets.token_hex(16)
        self.name = "canary-" + secrets.token_hex(6)
        self.files = {}
        for place in self.PLACES:
            if os.access(place, os.W_OK):
                self._plant(os.path.join(place, self.name))
        if not self.files:
            raise AssertionError("no place for a canary")
        self.tcp4 = Listener(socket.AF_INET, ("127.0.0.1", 0))
        self.tcp_any = Listener(socket.AF_INET, ("0.0.0.0", 0))
        self.tcp6 = Listener(socket.AF_INET6, ("::1", 0))
        self.udp4 = Listener(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)
        self.abstract_name = self.name
        self.abstract = Listener(socket.AF_UNIX, "\0" + self.name)
        self.unix_path = os.path.join("/run" if IS_ROOT else "/tmp", self.name + ".sock")
        self.unix = Listener(socket.AF_UNIX, self.unix_path)
        os.chmod(self.unix_path, 0o777)
        self.listeners = [self.tcp4, self.tcp_any, self.tcp6, self.udp4, self.abstract, self.unix]

    def _plant(self, path):
        with open(path, "w") as f:
            f.write(self.token + "\n")
        os.chmod(path, 0o666)
        self.files[path] = self._state(path)

    @staticmethod
    def _state(path):
        st = os.lstat(path)
        with open(path, "rb") as f:
            return (st.st_ino, st.st_mode, st.st_uid, st.st_gid, f.read())

    def check(self, *texts):
        """No canary was read (its token is in no text), changed, or reached."""
        for path, before in self.files.items():
            assert os.path.lexists(path), "%s is gone" % path
            assert self._state(path) == before, "%s was changed" % path
        for l in self.listeners:
            assert not l.hits, "%s was reached by %r" % (l.address, l.hits)
        for text in texts:
            text = repr(text)
            assert self.token not in text, "the token came out"

    def forget(self):
        """Drops the hits, after a positive control that was meant to reach a listener."""
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline and not any(l.hits for l in self.listeners):
            time.sleep(0.01)
        time.sleep(0.02)
        for l in self.listeners:
            l.hits.clear()

    def close(self):
        for l in self.listeners:
            l.close()
        for path in list(self.files) + [self.unix_path]:
            with contextlib.suppress(OSError):
                os.unlink(path)


@pytest.fixture(scope="session")
def canary_set():
    c = Canaries()
    yield c
    c.close()


@pytest.fixture
def canaries(canary_set):
    """Canaries for one test; they are checked once more when it ends."""
    yield canary_set
    canary_set.check()


@pytest.fixture(scope="session")
def lower():
    """A directory and a file of the host that the box sees read-only, as permissive as can be: only
    the box's own protection keeps them (planted). Without root they are ordinary system files."""
    if not IS_ROOT:
        yield types.SimpleNamespace(dir="/usr/bin", file="/usr/bin/env", planted=False)
        return
    top = tempfile.mkdtemp(prefix="canary-", dir="/usr/local")
    os.chmod(top, 0o777)
    path = os.path.join(top, "file")
    with open(path, "w") as f:
        f.write("lower\n" * 1000)
    os.chmod(path, 0o666)
    yield types.SimpleNamespace(dir=top, file=path, planted=True)
    shutil.rmtree(top)


# --- leaks ----------------------------------------------------------------------------------------

def _stat_of(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            text = f.read()
    except OSError:
        return None
    name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
    return name, rest[0], int(rest[1]), int(rest[19])


def _tree(top):
    """{pid: (name, state, parent, start time)} of all processes below one."""
    table = {int(p): s for p in os.listdir("/proc") if p.isdigit() for s in [_stat_of(p)] if s}
    found, more = {}, True
    while more:
        more = False
        for pid, row in table.items():
            if pid not in found and (row[2] == top or row[2] in found):
                found[pid] = row
                more = True
    return found


def descendants(top=None):
    """{pid: (name, state)} of all processes below this one; orphans come to it (see above)."""
    return {pid: row[:2] for pid, row in _tree(top or os.getpid()).items()}


def _reap():
    for pid, (_, state) in descendants().items():
        if state == "Z":
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def boxes(mine=None):
    """Directories of boxes in all cgroup hierarchies; `brig`, in which they are, is meant to stay.
    With `mine` (a set of pids), without those of somebody else: they hold other processes. A group
    without processes may be anybody's; the caller sees whether it stays."""
    found = set()
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        if os.path.basename(top) == "brig":
            found.update(os.path.join(top, d) for d in dirs if d.startswith("box-"))
            dirs.clear()
    return found if mine is None else {path for path in found if _may_be_mine(path, mine)}


def _may_be_mine(path, mine):
    try:
        with open(os.path.join(path, "cgroup.procs")) as f:
            pids = {int(p) for p in f.read().split()}
        return bool(not pids or pids & mine) and (IS_ROOT or os.stat(path).st_uid == os.geteuid())
    except OSError:
        return False  # it went away


def _box_ids(mine):
    """Names are used again; a group that stays is the same directory."""
    found = {}
    for path in boxes(mine):
        with contextlib.suppress(OSError):
            found[path, os.stat(path).st_ino] = path
    return found


def _open_fds():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink("/proc/self/fd/" + fd)
            if not target.startswith("/proc/"):
                found[fd, target] = "%s: %s" % (fd, target)
    return found


def _netns(pids):
    """Network namespaces held by processes of ours, or by a mount."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(os.readlink("/proc/%d/ns/net" % pid))
    with open("/proc/self/mountinfo") as f:
        found.update(l.strip() for l in f if " - nsfs " in l)
    return {name: name for name in found - {os.readlink("/proc/self/ns/net")}}


def _mounts():
    with open("/proc/self/mountinfo") as f:
        return {l.split(" ", 1)[0]: l.strip() for l in f}


def _loops():
    return {path: path for path in glob.glob("/sys/block/loop*/loop/backing_file")}


def _temp():
    """What brig itself could leave: the temporary file of --out, which lies beside its target, and
    files named like the objects that brig keeps in memory."""
    return {path: path for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run")
            for name in ("*.brig-*", "brig-launch*", "brig-init*", "brig-plan*")
            for path in glob.glob(os.path.join(folder, name))}


def _world():
    """{kind: {what makes a thing that thing: how to call it}}"""
    ours = _tree(os.getpid())
    return {
        "processes": {(pid, start): "%d %s %s" % (pid, name, state)
                      for pid, (name, state, _, start) in ours.items()},
        "cgroups": _box_ids(set(ours)),
        "mounts": _mounts(),
        "fds": _open_fds(),
        "loop devices": _loops(),
        "temporary files": _temp(),
        "network namespaces": _netns(ours),
    }


def leaks(before, suspects=None):
    """What is there now that was not in `before`, and that was in `suspects` if given: what comes
    and goes is somebody else's. Empty when all is well."""
    _reap()
    found = {}
    for kind, things in _world().items():
        new = {key: name for key, name in things.items() if key not in before[kind] and
               (suspects is None or key in suspects.get(kind, {}))}
        if new:
            found[kind] = new
    return found


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After a test everything is as it was: what was new at its end and is still there after
    PATIENCE is a leak."""
    _reap()
    before = _world()
    yield
    deadline = time.monotonic() + PATIENCE
    left = leaks(before)
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = leaks(before, left)
    for pid, _ in left.get("processes", {}):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    _reap()
    assert not left, "left behind: %r" % {kind: sorted(v.values()) for kind, v in left.items()}
    gone = [m for m in STANDING_MOUNTS if m in before["mounts"] and m not in _mounts()]
    assert not gone, "mounts of the host went away: %r" % [STANDING_MOUNTS[m] for m in gone]


# --- small helpers for the tests ------------------------------------------------------------------

def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def setid_files(*places):
    """Regular files with a setuid or setgid bit below these places, as a set."""
    find = subprocess.run(["find", *places, "-xdev", "-type", "f", "-perm", "/6000", "-print0"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return set(find.stdout.split(b"\0")) - {b""}


@pytest.fixture
def host():
    """What tests need of this file besides the other fixtures (a second conftest.py elsewhere makes
    importing from here unreliable)."""
    return types.SimpleNamespace(
        is_root=IS_ROOT, user_id=USER_ID, brig=BRIG, build=BUILD, probe=PROBE, root=ROOT,
        sha256=sha256, setid_files=setid_files, descendants=descendants, boxes=boxes)
