"""Shared helpers of the integration tests.

Every test that takes the fixture `brig` runs twice when the suite is started by root: once as root
and once as an ordinary user without delegated cgroups. After each test the host must look as it did
before: no process, cgroup, mount or temporary directory may be left.
"""

import ctypes
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRIG = os.environ.get("BRIG", str(ROOT / "out" / "bin" / "brig"))
USER_ID = int(os.environ["BRIG_TEST_UID"])
AS_USER = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups",
           "env", "BRIG_STATE_DIR=" + os.environ["BRIG_TEST_USER_STATE"]]
MODES = ["root", "user"] if os.geteuid() == 0 else ["user"]
RUN_BOUND_S = 60
RESIDUE_GRACE_S = 3.0

RESULT_KEYS = {
    "execution_id", "state", "success", "exit_code", "signal", "stdout", "stderr", "outputs",
    "value", "error", "files", "usage", "truncated", "tier", "risk", "approval_id", "receipt",
}


class Run:
    """One finished call of brig."""

    def __init__(self, argv, status, out, err, elapsed):
        self.argv = argv
        self.status = status
        self.out = out
        self.err = err
        self.elapsed = elapsed

    def __repr__(self):
        return "%r -> %d\nstdout: %.2000r\nstderr: %.2000r" % (
            self.argv, self.status, self.out, self.err)

    @property
    def result(self):
        """The one JSON object on stdout; anything else there fails the test."""
        try:
            return json.loads(self.out.decode("utf-8"))
        except ValueError as error:
            raise AssertionError("stdout is not one JSON object: %s\n%r" % (error, self))

    @property
    def text(self):
        return self.err.decode("utf-8", "replace")

    def expect(self, state, status, **expected):
        """Checks the end state, the exit status and any other key; gives the result."""
        result = self.result
        assert set(result) == RESULT_KEYS, self
        assert result["state"] == state, self
        assert self.status == status, self
        assert result["success"] is (state == "finished"), self
        for key, value in expected.items():
            assert result[key] == value, (key, self)
        return result

    def layer(self, name):
        return {row["name"]: row for row in self.result["receipt"]["layers"]}[name]


class Brig:
    """The command as one kind of user would call it."""

    path = BRIG

    def __init__(self, mode):
        self.mode = mode

    @property
    def is_root(self):
        return self.mode == "root"

    @property
    def level(self):
        """What this user can have: without cgroups the standard level is refused."""
        return [] if self.is_root else ["--level", "degraded-ok"]

    def argv(self, *args):
        drop = AS_USER if not self.is_root and os.geteuid() == 0 else []
        return drop + [self.path] + [os.fspath(arg) for arg in args]

    def run_argv(self, *args, options=()):
        """`brig run` with the level and the options put before any `--`."""
        args = list(args)
        cut = args.index("--") if "--" in args else len(args)
        warm = ["--warm"] if os.environ.get("BRIG_TEST_WARM") else []
        return self.argv("run", *args[:cut], *self.level, *warm, *options, *args[cut:])

    @staticmethod
    def call(argv, stdin=b"", timeout=RUN_BOUND_S, **kwargs):
        begin = time.monotonic()
        done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=timeout, check=False, **kwargs)
        return Run(argv, done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    def command(self, *args, **kwargs):
        """Exactly these arguments."""
        return self.call(self.argv(*args), **kwargs)

    def plain(self, *args, **kwargs):
        """`brig run` without --json."""
        return self.call(self.run_argv(*args), **kwargs)

    def run(self, *args, **kwargs):
        """`brig run --json`."""
        return self.call(self.run_argv(*args, options=["--json"]), **kwargs)

    def python(self, code, *args, **kwargs):
        return self.run("python", "-c", code, *args, **kwargs)

    def shell(self, code, *args, **kwargs):
        return self.run("shell", "-c", code, *args, **kwargs)

    def javascript(self, code, *args, **kwargs):
        return self.run("javascript", "-c", code, *args, **kwargs)

    def start(self, *args, json_result=False, **kwargs):
        """A `brig run` that is still going, in its own process group."""
        argv = self.run_argv(*args, options=["--json"] if json_result else [])
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True, **kwargs)


def descendants(root):
    """Every live process below a pid. Zombies count: somebody did not wait."""
    children = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = pathlib.Path(stat).read_bytes()
        except OSError:
            continue
        pid = int(text.split(b" ", 1)[0])
        fields = text[text.rindex(b")") + 2:].split()
        name = text[text.index(b"(") + 1:text.rindex(b")")].decode("utf-8", "replace")
        children.setdefault(int(fields[1]), []).append((pid, name))
    found, todo = [], [root]
    while todo:
        for pid, name in children.get(todo.pop(), []):
            found.append((pid, name))
            todo.append(pid)
    return found


def box_cgroups():
    """Cgroups of boxes in which nothing runs: leftovers. Those with tasks may be another suite's."""
    empty = set()
    for path in glob.glob("/sys/fs/cgroup/**/brig/box-*", recursive=True):
        try:
            if not pathlib.Path(path, "cgroup.procs").read_text().strip():
                empty.add(path)
        except OSError:
            pass
    return empty


def host_mounts():
    return set(pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def host_temps():
    """But for the state directories of test runs, of which another may begin at any time."""
    return {path for where in ("/tmp/brig-*", "/run/brig*", "/var/tmp/brig*")
            for path in glob.glob(where) if not path.startswith("/tmp/brig-state-")}


class Residue:
    """What a run may leave behind, compared with the moment of creation."""

    def __init__(self):
        self.before = self.look()

    @staticmethod
    def look():
        return {
            "processes": set(descendants(os.getpid())),
            "cgroups": box_cgroups(),
            "mounts": host_mounts(),
            "temporary files": host_temps(),
            "descriptors": set(os.listdir("/proc/self/fd")),
        }

    def left(self):
        reap()
        now = self.look()
        return {kind: sorted(now[kind] - self.before[kind])
                for kind in now if now[kind] - self.before[kind]}

    def check(self, grace=RESIDUE_GRACE_S):
        """Fails when something is still there after the grace time."""
        end = time.monotonic() + grace
        left = self.left()
        while left and time.monotonic() < end:
            time.sleep(0.05)
            now = self.left()  # what comes and goes belongs to somebody else
            left = {kind: [item for item in items if item in now.get(kind, [])]
                    for kind, items in left.items()}
            left = {kind: items for kind, items in left.items() if items}
        for pid, _name in left.get("processes", []):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        reap()
        assert not left, "left behind: %r" % left


def reap():
    """Waits for orphans that came to us; the children of subprocess are waited for by it."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


@pytest.fixture(scope="session", autouse=True)
def subreaper():
    """Orphans of a run come to this process, where descendants() sees them."""
    pr_set_child_subreaper = 36
    assert ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0


@pytest.fixture(autouse=True)
def residue(subreaper):
    """After each test the host is as it was."""
    seen = Residue()
    yield seen
    seen.check()


@pytest.fixture(params=MODES)
def brig(request):
    return Brig(request.param)


@pytest.fixture
def brig_root():
    """For what only a privileged brig enforces. The suite is started by root in CI."""
    assert os.geteuid() == 0, "this test needs root"
    return Brig("root")


@pytest.fixture
def brig_user():
    """For what is the same for everybody, or special for an ordinary user."""
    return Brig("user")


@pytest.fixture
def place():
    """A host directory that both kinds of user can write. Kept out of pytest's 0700 tree."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="it-brig-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)
