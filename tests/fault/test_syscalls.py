# SPDX-License-Identifier: Apache-2.0
"""Every system call on the way to the user's program fails, one at a time.

A clean run under `inject` (inject.c) tells which calls brig, the launcher, the box's set-up (later
its init) and the code's process make before the user's program exists. Then each of them is made to
fail. Whatever happens, either no user code runs and brig says so, or the box is as tight as in the
clean run. The tracer sees the program's execve, so "no user code" does not rest on brig's word.

The default run takes every call once, each with the next of the errnos; of a call that a process
makes more than SPREAD times, a spread. BRIG_FAULT_FULL=1 (make fault-full) takes every call with every
errno, in some ten minutes. BRIG_FAULT_REPORT=FILE appends one line of JSON per injection.
"""

import collections
import ctypes
import errno
import glob
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRIG = os.environ.get("BRIG", str(ROOT / "out" / "bin" / "brig"))
BUILD = os.environ.get("BRIG_BUILD", str(ROOT / "build"))
INJECT = os.path.join(BUILD, "tests", "fault", "inject")
FULL = os.environ.get("BRIG_FAULT_FULL", "") not in ("", "0")
REPORT = os.environ.get("BRIG_FAULT_REPORT")

PROCESSES = ["brig", "launcher", "box", "code"]
BRIG_ITSELF, LAUNCHER, BOX, CODE = range(4)
ERRNOS = [errno.EPERM, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.EAGAIN, errno.EINTR,
          errno.ENOSYS, errno.EINVAL]
SPREAD = 100        # of one call of one process, in the default run
RETURN_S = 12       # in which brig must return, whatever fails
GONE_S = 2          # in which everything of a run must be gone
STALE_S = 10        # a cgroup without tasks is taken for a leftover after this time
# They cannot fail, or do not return.
NEVER_FAIL = {"getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "umask",
              "exit", "exit_group", "rt_sigreturn", "set_tid_address", "restart_syscall",
              "rt_sigaction", "rt_sigprocmask"} # these two: not with the arguments they get here

pytestmark = pytest.mark.needs_root # an ordinary user's box has no cgroup to check


def call_names():
    """{number: name} of the system calls, from the kernel's header."""
    text = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
                          check=True, stdout=subprocess.PIPE).stdout.decode()
    return {int(nr): name for name, nr in re.findall(r"#define __NR_(\w+) (\d+)\n", text)}


NAMES = call_names()
NUMBERS = {name: nr for nr, name in NAMES.items()}


# --- the box as the code sees it ------------------------------------------------------------------

# Only builtins: a fork would cost time in a thousand runs. What is printed must be the same in every
# box of one request.
VIEW = r"""
echo "$1"
umask; pwd; ulimit -a; export -p
echo /proc/self/fd/* /dev/* /*
while read -r l; do case $l in
    Uid*|Gid*|Groups*|Cap*|NoNewPrivs*|Seccomp*|THP*|NStgid*|NSsid*|Sig[BI]*) ;; *) continue;;
    esac; echo "$l"
done < /proc/self/status
while read -r id parent dev root point options rest; do echo "mount $point $options ${rest#*- }"
done < /proc/self/mountinfo
for f in /proc/sys/user/max_*_namespaces /proc/sys/kernel/hostname /proc/self/oom_score_adj \
    /proc/self/cgroup; do
    while read -r l; do echo "$f $l"; done < $f
done
read -r a b < /proc/net/if_inet6; echo "loopback $a"
while read -r l; do echo "limit $l"; done < /proc/self/limits
for f in /usr/x /x /dev/x /etc/x /proc/sys/x; do (: > $f) 2>/dev/null && echo "writable $f"; done
for f in /workspace/x /tmp/x /dev/shm/x; do (: > $f) 2>/dev/null || echo "not writable $f"; done
:
"""
# A failure of these is no hole, and brig goes on without them.
OPTIONAL_LINES = ("THP_enabled", "/proc/self/oom_score_adj")
# What a box without an optional layer shows instead: the host's nodes, bound one by one; the limits of
# the box's user namespace itself, which hold below it too.
WITHOUT = {"own_device_nodes": ("mount /dev",), "locked_mounts": ("/proc/sys/user/max_",)}
# One more is no harm.
MASK = re.compile(r"mount /proc/\S+ ro,\S+ tmpfs none ")


def view_of(stdout, token):
    """What the program printed, without what differs from box to box."""
    lines = stdout.replace(token, "TOKEN").splitlines()
    return [re.sub(r"\b(uid|gid)=\d+", r"\1=", line) for line in lines]


# --- running ----------------------------------------------------------------------------------------

class Outcome:
    """One run with one fault."""

    def __init__(self, point, status, out, err, seconds, report, token):
        self.point, self.status, self.out, self.err = point, status, out, err
        self.seconds, self.report, self.token = seconds, report, token
        self.fired = [line for line in report if line[0] == "fire"]
        self.execs = sum(line[0] == "exec" for line in report)
        try:
            self.result = json.loads(out)
        except ValueError:
            self.result = None

    @property
    def after_go(self):
        """Was the box released when the fault came? Init waits for the code's end all the while."""
        waits = self.point[:2] == (BOX, NUMBERS["wait4"])
        return bool(self.fired) and (self.fired[0][3] == "go" or waits)

    @property
    def state(self):
        return self.result and self.result["state"]

    @property
    def cause(self):
        return ((self.result or {}).get("error") or {}).get("cause") or ""

    @property
    def stdout(self):
        return (self.result or {}).get("stdout") or ""

    def __repr__(self):
        return "%s -> status %s, state %s, %d exec, fired %s, %.1f s\n  cause: %s\n  stderr: %.500s" % (
            self.point, self.status, self.state, self.execs, self.fired, self.seconds, self.cause,
            self.err.strip())


class Point(collections.namedtuple("Point", "process call nth action")):
    """Where and how: process and call are numbers, action an errno or "kill" or "none"."""

    def __str__(self):
        action = errno.errorcode.get(self.action, self.action)
        return "%s %s#%d %s" % (PROCESSES[self.process], NAMES.get(self.call, self.call), self.nth,
                                action)


NOTHING = Point(0, 0, 0, "none")


def descendants():
    """{pid: state} of everything below this process; orphans come to it (see the fixture world)."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = pathlib.Path(path).read_text(errors="replace")
        except OSError:
            continue
        state, parent = text[text.rindex(")") + 2:].split()[:2]
        parents[int(path.split("/")[2])] = (int(parent), state)
    found, todo = {}, [os.getpid()]
    while todo:
        above = todo.pop()
        for pid, (parent, state) in parents.items():
            if parent == above:
                found[pid] = state
                todo.append(pid)
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            pass
    except ChildProcessError:
        pass


def wait_for_end(seconds):
    """Reaps orphans until no process is below this one; gives those that stay."""
    end = time.monotonic() + seconds
    while True:
        reap()
        if not any(pathlib.Path(path).read_text() for path in glob.glob("/proc/self/task/*/children")):
            return {} # nor grandchildren: they would have come to us
        if time.monotonic() > end:
            return descendants()
        time.sleep(0.002)


class World:
    """What was there before, and the names of the cgroups that our launchers made: there may be other
    suites' boxes beside ours."""

    def __init__(self):
        self.names = set()
        own = {line.split(":", 2)[2].rstrip("/")
               for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()}
        self.parents = [top + path + "/brig" for path in own | {""}
                        for top in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*")]]
        self.known = set() # leftovers that were reported
        self.mounts = self.look_at_mounts()
        self.fds = os.listdir("/proc/self/fd")

    def boxes(self):
        """{cgroup of a box: its tasks}"""
        found = {}
        for parent in self.parents:
            names = set(os.listdir(parent)) if os.path.isdir(parent) else set()
            for path in [os.path.join(parent, name) for name in names & self.names]:
                try:
                    found[path] = pathlib.Path(path, "cgroup.procs").read_text().split()
                except OSError: # it is just being removed
                    pass
        return found

    @staticmethod
    def look_at_mounts():
        return pathlib.Path("/proc/self/mountinfo").read_text()

    def residue(self, stale_groups=False):
        """What a run left behind; {} is right. Groups without tasks may be left by a killed one."""
        left = {"processes": wait_for_end(GONE_S)}
        left["cgroups"] = {path: tasks for path, tasks in self.boxes().items()
                           if path not in self.known and (tasks or not stale_groups)}
        self.known.update(left["cgroups"])
        if self.look_at_mounts() != self.mounts:
            left["mounts"] = self.look_at_mounts()
        if len(os.listdir("/proc/self/fd")) != len(self.fds):
            left["descriptors"] = os.listdir("/proc/self/fd")
        for pid in left["processes"]:
            try:
                os.kill(pid, signal.SIGKILL) # the next test shall not find them
            except OSError:
                pass
        return {what: things for what, things in left.items() if things}

    def remove_boxes(self):
        for path in self.boxes():
            try:
                os.rmdir(path)
            except OSError:
                pass


@pytest.fixture(scope="module")
def world():
    pr_set_child_subreaper = 36
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0
    reap()
    seen = World()
    yield seen
    seen.remove_boxes()
    libc.prctl(pr_set_child_subreaper, 0, 0, 0, 0)


def argv_of(token, options=()):
    return [BRIG, "run", "shell", "-c", VIEW, "--json", "--no-record", "--timeout", "5s", *options, "--", token]


class Traced:
    """A brig with a fault in it. Its report is complete when the tracer has ended, after all others."""

    def __init__(self, world, point, argv):
        self.world, self.point = world, point
        fd, self.report = tempfile.mkstemp(prefix="fault-")
        os.close(fd)
        self.proc = subprocess.Popen([INJECT, self.report, *map(str, point), "--", *argv],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE)

    def finish(self):
        """brig's stdout, stderr and the tracer's lines; brig must return in time."""
        try:
            out, err = self.proc.communicate(timeout=RETURN_S)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.communicate()
            raise AssertionError("brig did not return in %d s" % RETURN_S) from None
        finally:
            left = wait_for_end(GONE_S)
            lines = [line.split() for line in pathlib.Path(self.report).read_text().splitlines()]
            os.unlink(self.report)
            self.world.names.update(line[1] for line in lines if line[0] == "box")
        assert left or (lines and lines[-1] == ["end"]), "the tracer failed"
        return out.decode(errors="replace"), err.decode(errors="replace"), lines


def run(world, point, options=()):
    """Runs brig with a fault. What it says is judged elsewhere."""
    token = secrets.token_hex(8)
    begin = time.monotonic()
    traced = Traced(world, point, argv_of(token, options))
    out, err, lines = traced.finish()
    return Outcome(point, traced.proc.returncode, out, err, time.monotonic() - begin, lines, token)


# --- judging ------------------------------------------------------------------------------------

def require_no_code(o):
    """No user code ran, and brig says that and why."""
    assert o.execs == 0, "FAIL-OPEN: user code ran: %r" % o
    assert o.token not in o.stdout and o.token not in o.err, "FAIL-OPEN: %r" % o
    if o.result is None and o.point in LOADER:
        assert o.status != 0, o # the dynamic linker has its own ways to give up
        return "did not load"
    if o.result is None: # the call that should have written it
        assert o.point.process == BRIG_ITSELF and o.status == 125, o
        assert o.err.strip(), "brig died without a word: %r" % o
        return "no result"
    # A launcher that dies just after the go takes the box along before it is a program.
    states = ("setup_failed", "rejected") + (("lost",) if o.point.process == LAUNCHER else ())
    assert o.state in states, o
    assert o.status in (125, 126), o
    assert o.cause.strip(), "no step is named: %r" % o
    assert not o.result["success"], o
    return "refused" if o.status == 126 else o.state


def require_same_box(o, clean):
    """User code ran, in a box as tight as the clean one, and the result is the whole truth."""
    assert o.execs == 1, o
    assert o.state == "finished" and o.status == 0 and o.cause == "", o
    receipt = o.result["receipt"]
    assert receipt["verified"] is True, o
    assert receipt["level_achieved"] in ("standard", "strict"), o
    # locked_mounts is made at level strict only
    missing = [l["name"] for l in receipt["layers"]
               if not l["enforced"] and l["name"] != "locked_mounts"]
    assert not [l["name"] for l in receipt["layers"] if l["required"] and not l["enforced"]], o
    want, have = view_of(clean.stdout, clean.token), view_of(o.stdout, o.token)
    changed = ["-" + line for line in set(want) - set(have)] + [
        "+" + line for line in set(have) - set(want) if not MASK.match(line)]
    expected = OPTIONAL_LINES + tuple(p for layer in missing for p in WITHOUT.get(layer, ()))
    changed = [line for line in changed if not line[1:].startswith(expected)]
    assert not changed, "FAIL-OPEN: not the same box: %r\n%s" % (o, "\n".join(sorted(changed)))
    assert have.count("TOKEN") == 1, o
    if missing:
        return "ran without " + ",".join(missing)
    return "ran"


def require_ended(o):
    """The fault came after the release: code may have run, once; a result that is not the whole
    truth is no success."""
    assert o.execs <= 1, o
    assert o.status in (125, 126, 127, 137), o
    assert o.cause.strip() or o.err.strip(), o
    assert not (o.result and o.result["success"]), o
    return "ended after the release"


ANY = set(ERRNOS)
AGAIN = {errno.EINTR} # and the call is made again
OLD = {errno.ENOSYS}  # and the C library, or brig, uses an older call
# Calls without which a box is as good. Everything else that fails before the release ends the run.
OPTIONAL = {
    BRIG_ITSELF: {
        "close": ANY, "munmap": ANY, "brk": ANY,
        "mmap": ANY, "getrandom": ANY,            # malloc has other ways
        "access": ANY, "readlink": ANY,           # is the interpreter here, or at the next place?
        "newfstatat": ANY,                        # a mask more; or a layer that is then not claimed
        "prlimit64": ANY,                         # posix_spawn's guess of the highest descriptor
        "clock_gettime": ANY,                     # processor time of the analysis: its wall clock is left
        "sysinfo": ANY,                           # how much memory the C library's qsort may take
        "sched_getaffinity": ANY, "sched_setaffinity": ANY, # where a child begins
        "read": AGAIN, "poll": AGAIN, "sendmsg": AGAIN, "recvmsg": AGAIN | {errno.EAGAIN},
        "clone3": OLD,
    },
    LAUNCHER: {
        "close": ANY, "munmap": ANY,
        "close_range": ANY,                       # posix_spawn then closes one by one
        "fcntl": ANY,                             # marks for exec what was opened so already
        "read": ANY,                              # the end of a file that was read
        "open": ANY,                              # its own cgroup's name, which root does not need
        "openat": ANY, "write": ANY,              # usage
        "prctl": ANY,                             # its own memory, which only root could look at
        "getrandom": ANY,                         # where to look for a free slot first
        "mkdirat": ANY, "mknodat": ANY, "symlinkat": ANY, "fsopen": ANY, "fsconfig": ANY,
        "fsmount": ANY,                           # own device nodes: the host's are bound instead
        "clone3": OLD | {errno.EINVAL},           # no time namespace then
        "statfs": ANY,                            # mountinfo is read instead
        "getdents64": ANY, "newfstatat": ANY, "fstat": ANY, "mmap": ANY,
        "brk": ANY,                               # the sweep of what dead launchers left
        "pipe2": OLD, "faccessat2": OLD,
        "poll": AGAIN, "sendmsg": AGAIN, "recvmsg": AGAIN,
    },
    BOX: {
        "close": ANY, "fcntl": ANY,
        "open": ANY, "dup2": ANY,                 # init's I/O counters
        "keyctl": ANY,                            # own keyring: optional, and not claimed
        "sched_getaffinity": ANY, "sched_setaffinity": ANY, # where a child begins
        "prctl": {errno.EINVAL},                  # that is how the last capability shows
        "socket": {errno.EINVAL},                 # the C library tries without flags
        "read": AGAIN, "sendto": AGAIN, "wait4": AGAIN, "dup3": OLD, "pipe2": OLD,
    },
    CODE: {
        "close": ANY, "fcntl": ANY,
        "openat": ANY, "write": ANY,              # oom_score_adj
        "prctl": ANY,                             # huge pages
        "read": AGAIN,
        "sendmsg": AGAIN, "prlimit64": OLD, "dup3": OLD,
    },
}


def judge(o, clean):
    """Names the outcome, or fails."""
    if o.execs == 0 and not (o.after_go and o.point.process != CODE):
        return require_no_code(o)
    # brig may have said go before it heard that the launcher died: the box was verified by then.
    unheard = o.point.process == LAUNCHER and o.state == "lost"
    if (o.after_go or unheard) and o.status != 0:
        return require_ended(o)
    verdict = require_same_box(o, clean)
    if o.fired and not o.after_go and o.point not in LOADER and o.point not in LOOKS:
        errnos = OPTIONAL[o.point.process].get(NAMES[o.point.call], ())
        assert o.point.action in errnos, "the failure was ignored: %r" % o
    return verdict


# --- the record ---------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def clean(world):
    """A run in which nothing fails, with its record."""
    o = run(world, NOTHING)
    require_same_box(o, o)
    assert not world.residue()
    return o


def record():
    """[(process, call, nth)] in their order; read once, while the tests are collected."""
    if os.geteuid() != 0 or not os.path.exists(INJECT) or not os.path.exists(BRIG):
        return []
    with tempfile.TemporaryDirectory(prefix="fault-") as place:
        report = os.path.join(place, "report")
        subprocess.run([INJECT, report, *map(str, NOTHING), "--", *argv_of("token")], check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = ""
        end = time.monotonic() + RETURN_S
        while not text.endswith("end\n") and time.monotonic() < end:
            time.sleep(0.01)
            text = pathlib.Path(report).read_text()
    counts, calls = collections.Counter(), []
    for line in text.splitlines():
        if line.startswith("call "):
            key = tuple(map(int, line.split()[1:]))
            counts[key] += 1
            calls.append(key + (counts[key],))
    return calls


class Loader(set):
    """The calls of brig before its main(): the dynamic linker unmaps its cache last."""

    def __init__(self, calls):
        own = [c for c in calls if c[0] == BRIG_ITSELF]
        ends = [i for i, c in enumerate(own) if NAMES.get(c[1]) == "munmap"]
        super().__init__(own[:ends[0] + 1] if ends else [])

    def __contains__(self, point):
        return set.__contains__(self, tuple(point[:3]))


class Looks(Loader):
    """How busy the processors are (sys/spread.c): read after the mask of a child, which moves if
    one has nothing to do. Without the answer it stays."""

    def __init__(self, calls):
        super().__init__([])
        looking = set()
        for c in calls:
            name = NAMES.get(c[1])
            if name == "sched_getaffinity":
                looking.add(c[0])
            elif name not in ("open", "openat", "fcntl", "read", "close"):
                looking.discard(c[0])
            elif c[0] in looking:
                self.add(c)


RECORD = record()
LOADER = Loader(RECORD)
LOOKS = Looks(RECORD)
COUNTS = collections.Counter(c[:2] for c in RECORD)
# The launcher removes a group before the release only when it sweeps up after one that was killed, which
# another run of tests may have left just now.
FAILING = {key: n for key, n in COUNTS.items() if NAMES.get(key[1]) not in NEVER_FAIL
           and (key[0], NAMES.get(key[1])) != (LAUNCHER, "unlinkat")}


def spread(n, most):
    """At most `most` of 1..n, with the first, the last, and the rest evenly between."""
    if n <= most:
        return list(range(1, n + 1))
    return sorted({1 + i * (n - 1) // (most - 1) for i in range(most)})


def points_of(process, call):
    n = FAILING[process, call]
    if FULL:
        return [Point(process, call, nth, e) for nth in range(1, n + 1) for e in ERRNOS]
    turn = process + call # so that the calls made once do not all meet the same errno
    return [Point(process, call, nth, ERRNOS[(turn + i) % len(ERRNOS)])
            for i, nth in enumerate(spread(n, SPREAD))]


def note(o, verdict):
    if REPORT:
        with open(REPORT, "a") as f:
            json.dump({"process": PROCESSES[o.point.process], "call": NAMES.get(o.point.call),
                       "nth": o.point.nth, "action": errno.errorcode.get(o.point.action, o.point.action),
                       "fired": bool(o.fired), "after_go": o.after_go, "verdict": verdict,
                       "cause": o.cause, "status": o.status, "seconds": round(o.seconds, 3)}, f)
            f.write("\n")


def check_points(world, points, judge_one, stale_groups=False):
    """Runs all of them, so that one bug does not hide another."""
    wrong = []
    for point in points:
        o, verdict = None, "WRONG"
        try:
            o = run(world, point)
            left = world.residue(stale_groups)
            verdict = judge_one(o)
            assert not left, "left behind: %r\n%r" % (left, o)
        except AssertionError as error:
            wrong.append("%s: %s" % (point, error))
        if o:
            note(o, "WRONG" if wrong and wrong[-1].startswith(str(point)) else verdict)
    assert not wrong, "\n\n".join(wrong)


# --- the tests ----------------------------------------------------------------------------------

def test_record_is_complete(clean):
    """The four processes and the calls that make a box are in the record."""
    for process, calls in {
            BRIG_ITSELF: ["memfd_create", "sendmsg", "recvmsg", "sendto"],
            LAUNCHER: ["clone3", "mkdirat", "mknodat", "fchown"],
            BOX: ["mount", "move_mount", "mount_setattr", "open_tree", "pivot_root", "umount2",
                  "setresuid", "unshare", "keyctl", "sethostname", "clone"],
            CODE: ["setresuid", "setresgid", "dup2", "prlimit64", "capset", "close_range", "prctl",
                   "landlock_restrict_self", "seccomp", "recvmsg", "execve"]}.items():
        for call in calls:
            assert COUNTS[process, NUMBERS[call]] > 0, (PROCESSES[process], call)
    assert clean.execs == 1


@pytest.mark.parametrize("process,call", sorted(FAILING),
                         ids=["%s-%s" % (PROCESSES[p], NAMES.get(c, c)) for p, c in sorted(FAILING)])
def test_one_call_fails(world, clean, process, call):
    """Fails closed, cleanly and in time, whichever call of this name it is."""
    check_points(world, points_of(process, call), lambda o: judge(o, clean))


def test_output_that_cannot_be_read(world, clean):
    """The reads after the release: what is lost of the output is no success. How many come before it
    depends on how many sockets the machine has just now (/proc/net/unix)."""
    read, seen = NUMBERS["read"], []

    def judge_read(o):
        seen.append(judge(o, clean))
        return seen[-1]

    nth = COUNTS[BRIG_ITSELF, read]
    while "ended after the release" not in seen and len(seen) < 100:
        nth += 1
        check_points(world, [Point(BRIG_ITSELF, read, nth, errno.EIO)], judge_read)
    assert "ended after the release" in seen, seen


def test_fault_that_never_comes(world, clean):
    """Positive control: the tracer itself disturbs nothing."""
    o = run(world, Point(BOX, NUMBERS["mount"], 100000, errno.EPERM))
    assert not o.fired
    assert require_same_box(o, clean) == "ran"
    assert not world.residue()


def test_harness_notices_fail_open(world, clean):
    """Negative controls: a run of user code, a weaker box, a leak are all seen."""
    with pytest.raises(AssertionError, match="FAIL-OPEN"):
        require_no_code(clean)
    for options in (["--open-files", "99"], ["--network", "none"], ["--env", "A=1"], ["--pids", "7"]):
        with pytest.raises(AssertionError, match="not the same box"):
            require_same_box(run(world, NOTHING, options), clean)
    sleeper = subprocess.Popen(["sleep", "60"])
    box = glob.glob("/sys/fs/cgroup/*/brig")[:1] or ["/sys/fs/cgroup/pids/brig"]
    box = os.path.join(box[0], "box-fault-%d" % os.getpid())
    os.makedirs(box)
    world.names.add(os.path.basename(box))
    try:
        left = world.residue()
        assert sleeper.pid in left["processes"] and box in left["cgroups"], left
    finally:
        sleeper.kill()
        sleeper.wait()
        os.rmdir(box)


# --- death by SIGKILL -------------------------------------------------------------------------------

def kill_points(process, most):
    calls = [c for c in RECORD if c[0] == process]
    return [Point(*calls[nth - 1], "kill") for nth in spread(len(calls), most)]


def judge_killed(o, clean):
    """Somebody died: user code ran at most once, and brig, when it lives, does not call it success."""
    assert o.execs <= 1 and o.out.count(o.token) <= 1, o
    if not o.fired: # a loop took fewer turns
        return "not reached"
    if o.point.process == BRIG_ITSELF:
        assert o.status == -signal.SIGKILL, o
        return "brig killed"
    if o.execs == 0 and not o.after_go:
        return require_no_code(o)
    if o.after_go and o.status == 0: # all was over when it died
        return require_same_box(o, clean)
    assert o.status not in (0, 2) and o.state in ("setup_failed", "lost", "killed"), o
    return "killed after the release"


@pytest.mark.alone
@pytest.mark.parametrize("process,most", [(BRIG_ITSELF, 24), (LAUNCHER, 48), (BOX, 24), (CODE, 16)],
                         ids=PROCESSES)
def test_killed_at_any_call(world, clean, process, most):
    """Nothing of the box survives, and the next runs clean up what the dead could not."""
    try:
        points = kill_points(process, most)
        assert len(points) >= most // 2
        check_points(world, points, lambda o: judge_killed(o, clean), stale_groups=True)
        sweep(world, clean)
    finally:
        world.remove_boxes()


def sweep(world, clean):
    """Groups of the dead are left alone while they are young, and removed when they are not."""
    young = {path for path in world.boxes() if time.time() - os.stat(path).st_mtime < STALE_S / 2}
    require_same_box(run(world, NOTHING), clean)
    assert young <= set(world.boxes())
    old = time.time() - STALE_S - 1
    for path in world.boxes():
        os.utime(path, (old, old))
    require_same_box(run(world, NOTHING), clean)
    assert not world.boxes()


def only_child(pid):
    children = pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()
    assert len(children) == 1, children
    return int(children[0])


@pytest.mark.alone
@pytest.mark.parametrize("victim", range(4), ids=PROCESSES)
def test_killed_while_code_runs(world, clean, victim):
    """Whoever dies takes the box along."""
    traced = Traced(world, NOTHING, [BRIG, "run", "shell", "--no-record", "-c", "echo ready; exec sleep 60"])
    try:
        assert traced.proc.stdout.readline() == b"ready\n"
        pids = [traced.proc.pid]
        for _ in range(3):
            pids.append(only_child(pids[-1]))
        os.kill(pids[victim], signal.SIGKILL)
        killed = time.monotonic()
    finally:
        traced.finish()
    assert time.monotonic() - killed < GONE_S
    assert traced.proc.returncode != 0
    try:
        assert not world.residue(stale_groups=True)
        sweep(world, clean)
    finally:
        world.remove_boxes()
