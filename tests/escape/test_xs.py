# SPDX-License-Identifier: Apache-2.0
"""XS: one run sees nothing of another, in boxes of one pool.

`brig batch` is kept running and asked line by line, so that the runs of a test share the pool, the
launcher and the zygote. What a run leaves behind (a *trace*) is written by GUEST; the same GUEST
looks for it. In one box it must find every trace, which is the positive control; in another box
none. Sizes of the catalogue that take hours (10^4 members, 10^5 claims) are smaller here.
"""
import contextlib
import ctypes
import json
import os
import re
import secrets
import select
import signal
import subprocess
import threading
import time

import pytest

PYTHON = "/usr/bin/python3"  # which every user may execute
ANSWER_S = 40  # for one line of brig batch, on a busy machine
NOT_CARRIED_OUT = ("rejected", "setup_failed", "lost", "cancelled")

# python GUEST plant|look|hold|both TOKEN
GUEST = r'''
import ctypes, fcntl, json, os, resource, signal, socket, sys, time
what, TOKEN = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
number = int(TOKEN[:6], 16)
held = []

class files:
    places = "/tmp", "/workspace", "/dev/shm"
    def plant():
        for place in files.places:
            with open(place + "/" + TOKEN, "w") as f:
                f.write(TOKEN)
    def look():
        return any(TOKEN in os.listdir(place) for place in files.places)

class process:
    def plant():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                libc.prctl(15, TOKEN[:15].encode(), 0, 0, 0)
                time.sleep(60)
            os._exit(0)
        os.wait()
        time.sleep(0.05)
    def look():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if open("/proc/%s/comm" % pid).read().strip() == TOKEN[:15]:
                    return True
            except OSError:
                pass
        return False

class abstract_socket:
    def plant():
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind("\0" + TOKEN)
        held[-1].listen(9)
    def look():
        if TOKEN in open("/proc/net/unix").read():
            return True
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex("\0" + TOKEN) == 0

class tcp_port:
    address = "127.0.0.1", 20000 + number % 10000
    def plant():
        held.append(socket.socket())
        held[-1].bind(tcp_port.address)
        held[-1].listen(9)
    def look():
        with socket.socket() as s:
            return s.connect_ex(tcp_port.address) == 0

class network_counters:
    def plant():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(7):
                s.sendto(b"x" * 999, ("127.0.0.1", 9))
    def look():
        lo = [l.split() for l in open("/proc/net/dev") if l.split()[0] == "lo:"][0]
        return int(lo[1]) > 7 * 999

class terminal:
    def plant():
        held.append(os.openpty())
    def look():
        return len(os.listdir("/dev/pts")) > 1  # ptmx

class environment:
    def plant():
        os.environ[TOKEN] = TOKEN
    def look():
        libc.getenv.restype = ctypes.c_char_p
        return TOKEN in os.environ or libc.getenv(TOKEN.encode()) is not None

class interpreter:
    def plant():
        import builtins, collections
        sys.modules[TOKEN] = builtins
        builtins.planted = collections.planted = json.planted = TOKEN
        sys.path.append("/" + TOKEN)
    def look():
        import builtins, collections
        return TOKEN in sys.modules or "/" + TOKEN in sys.path or any(
            hasattr(m, "planted") for m in (builtins, collections, json))

class directory_and_umask:
    def plant():
        os.chdir("/tmp")
        os.umask(0o123)
    def look():
        mask = os.umask(0)
        os.umask(mask)
        return mask == 0o123 or os.getcwd() == "/tmp"

class resource_limit:
    def plant():
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77))
    def look():
        return 77 in resource.getrlimit(resource.RLIMIT_NOFILE)

class signals:
    def plant():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    def look():
        return (signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL or
                signal.SIGUSR2 in signal.pthread_sigmask(signal.SIG_BLOCK, []))

class timer:
    def plant():
        signal.setitimer(signal.ITIMER_REAL, 1000)
    def look():
        return signal.getitimer(signal.ITIMER_REAL)[0] != 0

class priority:
    def plant():
        os.nice(3)
    def look():
        return os.nice(0) != 0

class process_numbers:
    def plant():
        for _ in range(60):
            if os.fork() == 0:
                os._exit(0)
            os.wait()
    def look():
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid > 50

class descriptor:
    def plant():
        held.append(open("/tmp/held-" + TOKEN, "w"))
    def look():
        return any(TOKEN in os.readlink("/proc/self/fd/" + f) for f in os.listdir("/proc/self/fd")
                   if os.path.lexists("/proc/self/fd/" + f))

class lock_on_root:
    """The root of all boxes of a pool is one file system."""
    places = "/", "/etc", "/etc/passwd", "/etc/brig", "/etc/brig/zygote.py", "/dev", "/proc"
    kind = fcntl.LOCK_EX | fcntl.LOCK_NB
    def plant():
        for place in filter(os.path.exists, lock_on_root.places):
            held.append(os.open(place, os.O_RDONLY))
            fcntl.flock(held[-1], lock_on_root.kind)
    def look():
        for place in filter(os.path.exists, lock_on_root.places):
            fd = os.open(place, os.O_RDONLY)
            try:
                fcntl.flock(fd, lock_on_root.kind)
            except BlockingIOError:
                return True
            finally:
                os.close(fd)
        return False

class lock_on_device(lock_on_root):
    places = "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/shm", "/dev/pts", "/tmp"
    def plant():
        for place in lock_on_device.places:
            held.append(os.open(place, os.O_RDONLY))
            fcntl.flock(held[-1], lock_on_root.kind)
    def look():
        for place in lock_on_device.places:
            fd = os.open(place, os.O_RDONLY)
            try:
                fcntl.flock(fd, lock_on_root.kind)
            except BlockingIOError:
                return True
            finally:
                os.close(fd)
        return False

TRACES = [c for c in list(globals().values()) if isinstance(c, type)]
# Those of the process itself are gone with it; no other process could see them anyway.
ONLY_AFTER = {environment, interpreter, directory_and_umask, resource_limit, signals, timer,
              priority, process_numbers, descriptor, terminal, network_counters}
WATCHED = [t for t in TRACES if t not in ONLY_AFTER and sys.argv[3:] in ([], [t.__name__])]

def plant(traces):
    for trace in traces:
        trace.plant()

def look(traces):
    return sorted(trace.__name__ for trace in traces if trace.look())

result = {"traces": sorted(t.__name__ for t in TRACES), "seen": []}
if what == "both":
    plant(TRACES)
    result["seen"] = look(TRACES)
elif what == "plant":
    plant(TRACES)
elif what == "look":
    result["seen"] = look(TRACES)
elif what == "hold":
    plant(WATCHED)
    result["from"] = time.time()
    time.sleep(2.5)
    result["to"] = time.time()
elif what == "watch":
    seen, end = set(), time.time() + 1.2
    result["at"] = []
    while time.time() < end:
        result["at"].append(time.time())
        seen.update(look(WATCHED))
        time.sleep(0.1)
    result["seen"] = sorted(seen)
print(json.dumps(result))
os._exit(0) if what != "look" else None
'''

# Everything a program can find out about how it was started.
MANIFEST = r'''
import ctypes, json, os, resource, signal, stat, sys, threading
def lines(path, *names):
    return [l.strip() for l in open(path) if l.startswith(names)]
def tree(top):
    found = {}
    for folder, dirs, files in os.walk(top):
        for name in dirs + files:
            s = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = [s.st_mode, s.st_uid, s.st_gid, s.st_size, s.st_nlink]
    return found
def limit(number):
    try:
        return resource.getrlimit(number)
    except OSError as error:
        return error.errno
fds = [int(f) for f in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + f)]
mask = os.umask(0)
os.umask(mask)
print(json.dumps({
    "fds": [f for f in fds if not os.readlink("/proc/self/fd/%d" % f).startswith("socket:")],
    "stdio": [stat.S_IFMT(os.fstat(f).st_mode) for f in (0, 1, 2)],
    "flags": [lines("/proc/self/fdinfo/%d" % f, "flags") for f in (0, 1, 2)],
    "environment": sorted(os.environ.items()),
    "argv": sys.argv,
    "cwd": os.getcwd(), "umask": mask,
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "status": lines("/proc/self/status", "SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd", "Cap",
                    "NoNewPrivs", "Seccomp", "Threads", "CoreDumping", "Umask", "THP_enabled",
                    "Cpus_allowed_list", "Speculation"),
    "threads": threading.active_count(),
    "timers": [signal.getitimer(i) for i in range(3)],
    "rlimits": {n: limit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), os.getppid()],
    "nice": os.nice(0), "scheduler": os.sched_getscheduler(0),
    "oom_score_adj": open("/proc/self/oom_score_adj").read(),
    "timerslack": ctypes.CDLL(None).prctl(30, 0, 0, 0, 0),
    "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
    "host": os.uname().nodename,
    "files": [tree(top) for top in ("/workspace", "/tmp", "/dev")],
    "root": sorted(os.listdir("/")),
}, sort_keys=True))
'''

FORGE = r'''
import json, os, sys, time
names = ["/proc/self/fd/" + f for f in os.listdir("/proc/self/fd")]
fd, = [int(os.path.basename(n)) for n in names
       if os.path.lexists(n) and os.readlink(n).startswith("socket:")]
def frame(data):
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return len(data).to_bytes(4, "little") + data
def send(data):
    while data:
        data = data[os.write(fd, data[:1 << 20]):]
'''


def orphans(but):
    """Dead children of this process that it did not start."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % pid) as f:
            state, parent = f.read().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid() and int(pid) != but:
                yield int(pid)


class Batch:
    """One `brig batch` that is asked line by line."""

    def __init__(self, brig, program, *options, **kw):
        self.mode = brig.mode
        self.proc = brig.popen(brig.prefix + [program, "batch", *map(str, options)],
                               stdin=subprocess.PIPE, **kw)
        self.bytes, self.refused = b"", False

    def ask(self, language, code, **fields):
        request = dict({"language": language, "code": code}, **fields)
        if self.mode == "user":
            request.setdefault("level", "degraded-ok")
        self.proc.stdin.write(json.dumps(request).encode() + b"\n")
        self.proc.stdin.flush()

    def line(self, seconds=ANSWER_S):
        end = time.monotonic() + seconds
        while b"\n" not in self.bytes:
            ready, _, _ = select.select([self.proc.stdout], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self.proc.stdout.fileno(), 1 << 20) if ready else b""
            assert chunk, "no answer; stderr: %r" % (self.proc.stderr.read() if ready else "late")
            self.bytes += chunk
        line, self.bytes = self.bytes.split(b"\n", 1)
        return line

    def answer(self, seconds=ANSWER_S):
        result = json.loads(self.line(seconds).decode())
        self.refused |= result["state"] in NOT_CARRIED_OUT
        return result

    def run(self, language, code, **fields):
        self.ask(language, code, **fields)
        return self.answer()

    def good(self, language, code, **fields):
        """The standard output of a run that must succeed."""
        result = self.run(language, code, **fields)
        assert result["state"] == "finished", result
        return result["stdout"]

    def guest(self, what, token):
        return json.loads(self.good("python", GUEST, args=[what, token]))

    def close(self):
        """Exit status, after all answers."""
        with contextlib.suppress(OSError):
            self.proc.stdin.close()
        self.proc.stdin = None  # else communicate() would flush it
        end = time.monotonic() + ANSWER_S
        try:
            rest, errors = self._rest(end)
        finally:
            self.stop()
        self.errors = errors.decode()
        assert not rest and not self.bytes, "answers without a request: %r" % rest
        return self.proc.returncode

    def _rest(self, end):
        """Orphans come to this process, not to the host's init, so it does what that would do."""
        while True:
            try:
                return self.proc.communicate(timeout=0.1)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < end, "it does not end"
                for pid in orphans(self.proc.pid):
                    os.waitpid(pid, os.WNOHANG)

    def stop(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        for f in filter(None, (self.proc.stdin, self.proc.stdout, self.proc.stderr)):
            with contextlib.suppress(OSError):
                f.close()


@pytest.fixture
def start(brig, host):
    """start(options…) begins a batch; at the end of the test it must leave by itself, with the
    status that its answers ask for."""
    begun = []

    def begin(*options, **kw):
        begun.append(Batch(brig, host.brig, *options, **kw))
        return begun[-1]
    yield begin
    try:
        for batch in begun:
            if batch.proc.stdin:
                assert batch.close() == (1 if batch.refused else 0), batch.errors
    finally:
        for batch in begun:
            batch.stop()


def tree_of(host, batch, ready=0):
    """{host pid: (name, real uid, parent)} of everything below a batch; waits for so many inits."""
    end = time.monotonic() + 10
    while True:
        found = {}
        for pid in host.descendants(batch.proc.pid):
            with contextlib.suppress(OSError), open("/proc/%d/status" % pid) as f:
                status = dict(l.rstrip("\n").split(":\t", 1) for l in f if ":\t" in l)
                found[pid] = (status["Name"], int(status["Uid"].split()[0]), int(status["PPid"]))
        if sum(name == "brig-init" for name, _, _ in found.values()) >= ready:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.02)


# --- what one run leaves --------------------------------------------------------------------------

def test_XS_01_a_trace_is_found_in_its_own_box(start):
    """The positive control of the tests below."""
    found = start().guest("both", secrets.token_hex(16))
    assert found["seen"] == found["traces"] and len(found["traces"]) > 12, found


def test_XS_01_nothing_of_a_run_is_in_the_next_ones(start):
    batch = start("--jobs", 1)
    for _ in range(3):  # in boxes that waited meanwhile, and in those made afterwards (XS-11, XS-15)
        token = secrets.token_hex(16)
        batch.guest("plant", token)
        for _ in range(3):
            assert batch.guest("look", token)["seen"] == []


def watch(start, *trace):
    """What one run sees of another that holds its traces at the same time."""
    batch, token = start("--jobs", 2), secrets.token_hex(16)
    batch.good("python", "1")
    batch.ask("python", GUEST, args=["hold", token, *trace])
    time.sleep(0.3)
    batch.ask("python", GUEST, args=["watch", token, *trace])
    held, watched = batch.answer(), batch.answer()
    assert held["state"] == watched["state"] == "finished", (held, watched)
    held, watched = json.loads(held["stdout"]), json.loads(watched["stdout"])
    assert [t for t in watched["at"] if held["from"] < t < held["to"]], "they did not overlap"
    return watched["seen"]


@pytest.mark.parametrize("trace", ["files", "process", "abstract_socket", "tcp_port"])
def test_XS_01_two_boxes_at_a_time_do_not_see_each_other(start, trace):
    assert watch(start, trace) == []


def test_XS_10_a_lock_on_a_device_is_not_seen(start, mode):
    # An ordinary user's boxes have the host's device nodes; see own_device_nodes in the receipt.
    assert watch(start, "lock_on_device") == (["lock_on_device"] if mode == "user" else [])


def test_XS_10_a_lock_on_the_root_is_the_one_thing_seen(start):
    """All boxes of a pool have one root, in one file system: a known limit, stated in SECURITY.md.
    Boxes that live at the same time see such a lock of each other, and nothing else of it."""
    assert watch(start, "lock_on_root") == ["lock_on_root"]


KEPT_OBJECTS = r'''
import ctypes, json, sys
libc, key = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
name = b"/brig-%d" % key
calls = {"shm": (libc.shmget, key, 4096, 0o1600), "queue": (libc.msgget, key, 0o1600),
         "semaphore": (libc.semget, key, 1, 0o1600), "mq": (libc.syscall, 240, name[1:], 0o102, 0o600, None),
         "key": (libc.syscall, 248, b"user", name, b"x", 1, -2)}
made = {k: c[0](*c[1:]) for k, c in calls.items()}
print(json.dumps(sorted(k for k, v in made.items() if v >= 0)))
for remove, what in ((libc.shmctl, "shm"), (libc.msgctl, "queue")):
    made[what] >= 0 and remove(made[what], 0, None)
made["semaphore"] >= 0 and libc.semctl(made["semaphore"], 0, 0)
made["mq"] >= 0 and libc.syscall(241, name[1:])
made["key"] >= 0 and libc.syscall(250, 21, made["key"])
'''


def test_XS_01_objects_that_outlive_a_process_cannot_be_made(start):
    """System V and POSIX queues, keys. In a namespace of its own each, should the filter fail."""
    key = str(secrets.randbelow(1 << 30) + 1)
    control = subprocess.run([PYTHON, "-c", KEPT_OBJECTS, key], stdout=subprocess.PIPE, check=True)
    assert json.loads(control.stdout) == ["key", "mq", "queue", "semaphore", "shm"]
    batch = start("--jobs", 1)
    for _ in range(2):
        assert json.loads(batch.good("python", KEPT_OBJECTS, args=[key])) == []


SCAN = r'''
import re
MARK = bytes(reversed(b"-kram-sx"))
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
    for line in maps:
        if line.split()[1][0] != "r" or "[v" in line:
            continue
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        mem.seek(begin)
        try:
            data = mem.read(end - begin)
        except OSError:
            continue
        found.update(re.findall(MARK + rb"[0-9a-f]{32}", data))
        del data
print(len(found))
'''


@pytest.mark.parametrize("way", ["code", "args", "env", "stdin", "file"])
def test_XS_05_no_secret_of_a_run_is_in_the_memory_of_the_next(start, way):
    batch, secret = start("--jobs", 1), "xs-mark-" + secrets.token_hex(16)
    fields = {"code": {}, "args": {"args": [secret]}, "env": {"env": {"SECRET": secret}},
              "stdin": {"stdin": secret}, "file": {"files": [{"path": "f", "content": secret}]}}[way]
    take = {"code": "import sys", "args": "import sys; kept = sys.argv[1]",
            "env": "import os; kept = os.environ['SECRET']",
            "stdin": "import sys; kept = sys.stdin.read()", "file": "kept = open('f').read()"}[way]
    take += "; kept = %r\n" % secret if way == "code" else "\n"
    assert int(batch.good("python", take + SCAN, **fields)) >= 1  # the control
    for _ in range(3):
        assert batch.good("python", SCAN) == "0\n"


def test_XS_05_nothing_of_brigs_own_environment(start, brig):
    """Neither in the environment nor in the memory, also not of what was forked or inherited."""
    secret = "xs-mark-" + secrets.token_hex(16)
    control = subprocess.run([PYTHON, "-c", SCAN], env={"S": secret, "PATH": "/usr/bin:/bin"},
                             stdout=subprocess.PIPE, check=True)
    assert int(control.stdout) >= 1
    read, write = os.pipe()
    batch = start("--jobs", 1, env={"XS_SECRET": secret, "PYTHONPATH": "/" + secret,
                                    "NODE_OPTIONS": "--title=" + secret, "BASH_ENV": "/" + secret},
                  pass_fds=[read, write])
    os.close(read)
    os.close(write)
    for _ in range(2):
        assert batch.good("python", SCAN) == "0\n"
    for language, code in (("shell", "env; tr '\\0' '\\n' < /proc/$$/environ; echo /proc/$$/fd/*"),
                           ("javascript", "console.log(process.env, process.title, process.argv)")):
        assert secret not in batch.good(language, code)
    assert batch.good("shell", "true; cd /proc/self/fd; for f in *; do readlink $f; done | grep -c pipe"
                      ).strip() in ("3", "4")  # its own three, and that of the last command


USE = "b = bytearray(120 << 20)\nimport time\nend = time.process_time() + 0.4\n" \
      "while time.process_time() < end: pass\nprint('x' * 3000000)"


def test_XS_05_a_run_does_not_pay_for_the_one_before(start, mode):
    batch = start("--jobs", 1)
    for _ in range(2):
        big, small = batch.run("python", USE)["usage"], batch.run("python", "print(1)")["usage"]
        assert big["cpu_ms"] > 300 and (big["written_bytes"] > 2900000 or mode == "user"), big
        assert big["peak_memory_bytes"] > 120 << 20 or mode == "user", big
        assert small["cpu_ms"] < 100 and small["written_bytes"] < 10000, small
        assert small["peak_memory_bytes"] < 60 << 20 and small["wall_ms"] < 1000, small


def test_XS_05_a_box_serves_one_run_and_is_gone(start, host):
    batch = start("--jobs", 1)
    name = "served" + secrets.token_hex(4)
    for _ in range(3):
        batch.ask("python", "import ctypes, time\nctypes.CDLL(None).prctl(15, b'%s', 0, 0, 0)\n"
                  "time.sleep(1.5)" % name)
        serving, end = [], time.monotonic() + 5
        while not serving and time.monotonic() < end:
            serving = [(pid, parent) for pid, (n, _, parent) in tree_of(host, batch).items() if n == name]
        assert len(serving) == 1, serving
        assert batch.answer()["state"] == "finished"
        end = time.monotonic() + 2
        while set(serving[0]) & set(host.descendants(batch.proc.pid)):
            assert time.monotonic() < end, "the box is still there after its run"
            time.sleep(0.01)


# --- members --------------------------------------------------------------------------------------

def test_XS_02_boxes_have_ids_of_their_own(start, host, mode):
    batch = start("--jobs", 6)
    for _ in range(6):
        batch.ask("python", "import time; time.sleep(1.5)")
    time.sleep(1)
    found = tree_of(host, batch)
    ids = [uid for name, uid, parent in found.values() if found.get(parent, ("",))[0] == "brig-init"]
    for _ in range(6):
        assert batch.answer()["state"] == "finished"
    assert len(ids) >= 6, found
    if mode == "root":
        assert len(set(ids)) == len(ids) and min(ids) > 65535, ids
    else:  # has only one; the receipt says that separate_init_uid is missing
        assert set(ids) == {host.user_id if host.is_root else os.getuid()}


NAMESPACES = "import os, json, time\nprint(json.dumps({n: os.readlink('/proc/self/ns/' + n) " \
             "for n in os.listdir('/proc/self/ns')}))\ntime.sleep(1)"


def test_XS_12_no_namespace_is_shared(start, host):
    """Time too: a lock on its inode would be a channel. More boxes at a time than there are networks
    in store; and the zygote, which is where the launcher is, is in none of theirs."""
    batch, n = start("--jobs", 10), 10
    batch.good("python", "1")
    for i in range(n):
        batch.ask("python", NAMESPACES, network="none" if i % 3 == 2 else "loopback")
    found = tree_of(host, batch)
    zygotes = [pid for pid, (name, _, parent) in found.items()
               if name == "python3" and found.get(parent, ("",))[0] == "brig-launch"]
    home = {os.readlink("/proc/%d/ns/net" % pid) for pid in zygotes}
    seen = [json.loads(batch.answer()["stdout"]) for _ in range(n)]
    seen.append({name: os.readlink("/proc/self/ns/" + name) for name in seen[0]})
    assert len(seen[0]) >= 8
    for name in seen[0]:
        assert len({s[name] for s in seen}) == n + 1, (name, seen)
    assert home and home.isdisjoint({s["net"] for s in seen}), (home, seen)


@pytest.mark.parametrize("level", ["default", "strict"])
def test_XS_03_a_warm_box_is_as_a_cold_one(start, brig, mode, level):
    if mode == "user" and level == "strict":
        assert start("--jobs", 1).run("python", "1", level="strict")["state"] != "finished"
        return
    options = ["--level", level] if level == "strict" else []
    cold = json.loads(brig.run("python", MANIFEST, options=options, level=level != "strict").stdout)
    batch = start("--jobs", 1)
    fields = {"level": level} if level == "strict" else {}
    for name in ("RLIMIT_NOFILE", "RLIMIT_OFILE"):  # one more, for the report
        cold["rlimits"][name] = [n + 1 for n in cold["rlimits"][name]]
    for _ in range(3):
        warm = json.loads(batch.good("python", MANIFEST, **fields))
        for key in cold:
            assert warm[key] == cold[key], key


def test_XS_03_nothing_is_inherited_from_who_started_brig(start, brig, tmp_path):
    """Ignored and blocked signals, limits, umask, directory. (The priority is: that is its use.)"""
    def spoil():
        os.umask(0o777)
        for s in (signal.SIGUSR1, signal.SIGCHLD, signal.SIGALRM, signal.SIGTTOU, signal.SIGQUIT):
            signal.signal(s, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT])
        ctypes.CDLL(None).prctl(29, 77777, 0, 0, 0)  # PR_SET_TIMERSLACK
    keys = ("status", "umask", "rlimits", "cwd", "fds", "environment", "timerslack", "processes", "files")
    normal = json.loads(start("--jobs", 1).good("python", MANIFEST))
    spoilt = json.loads(start("--jobs", 1, preexec_fn=spoil).good("python", MANIFEST))
    control = subprocess.run([PYTHON, "-c", MANIFEST.replace("/workspace", "/nowhere")
                              .replace('"/tmp", "/dev"', '"/nowhere"')], preexec_fn=spoil,
                             cwd="/", stdout=subprocess.PIPE, check=True)
    control = json.loads(control.stdout)
    assert control["umask"] == 0o777 and control["status"] != normal["status"]
    assert control["timerslack"] == 77777
    assert {k: spoilt[k] for k in keys} == {k: normal[k] for k in keys}


RANDOM = {
    "python": "import os, random, secrets, ssl, tempfile, uuid\nprint(random.random(), "
              "random.SystemRandom().random(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), "
              "next(tempfile._get_candidate_names()), uuid.uuid4(), uuid.uuid1(), os.urandom(8).hex(), "
              "__import__('numpy').random.random(), __import__('numpy').random.default_rng().random())",
    "javascript": "const c = require('crypto'); console.log(Math.random(), c.randomUUID(), "
                  "c.randomBytes(8).toString('hex'), crypto.getRandomValues(new Uint32Array(2)).join(''))",
    "shell": "echo $SRANDOM $(mktemp -u) $(head -c 8 /dev/urandom | od -An -tx8)",
}


@pytest.mark.parametrize("language, members", [("python", 150), ("javascript", 25), ("shell", 60)])
def test_XS_04_no_two_members_draw_the_same(start, language, members):
    """What is drawn first. numpy is loaded in the zygote, where it is seeded."""
    batch = start("--jobs", 4, "--preload", "numpy", "--preload", "ssl", "--preload", "numpy.random")
    columns, asked = {}, 0
    for n in range(members):
        while asked < min(n + 4, members):
            batch.ask(language, RANDOM[language], timeout_ms=60000)
            asked += 1
        result = batch.answer()
        assert result["state"] == "finished", result
        for i, word in enumerate(result["stdout"].split()):
            columns.setdefault(i, []).append(word)
    assert len(columns) >= 3
    for i, words in columns.items():
        assert len(words) == members and len(set(words)) == members, (i, sorted(words)[:20])


def test_XS_04_the_hash_seed_is_the_zygotes(start):
    """Known and documented: shared by the boxes of one zygote, unlike any other zygote's."""
    seeds = []
    for _ in range(2):
        batch = start("--jobs", 1)
        seeds.append({batch.good("python", "print(hash('x'))") for _ in range(3)})
        assert len(seeds[-1]) == 1
    assert seeds[0] != seeds[1]


def test_XS_06_every_member_is_given_once(start):
    """And every answer has its own run's data only (XS-13)."""
    batch, n = start("--jobs", 16), 300
    tokens = [secrets.token_hex(16) for _ in range(n)]
    code = "import sys\nopen('/tmp/once', 'x')\nprint(sys.argv[1], sys.stdin.read())\nsys.argv[1]"
    writer = threading.Thread(target=lambda: [
        batch.ask("python", code, args=[t], stdin=t, timeout_ms=60000) for t in tokens])
    writer.start()
    lines = [batch.line().decode() for _ in range(n)]
    writer.join()
    results = [json.loads(line) for line in lines]
    for token, line, result in zip(tokens, lines, results):
        assert result["state"] == "finished", result
        assert result["stdout"] == "%s %s\n" % (token, token) and result["value"] == repr(token)
        assert set(re.findall(r"\b[0-9a-f]{32}\b", line)) == {token}
    assert len({r["execution_id"] for r in results}) == n
    assert batch.close() == 0 and batch.errors == ""


@pytest.mark.parametrize("language", ["python", "javascript", "shell"])
@pytest.mark.parametrize("victim", ["init", "code"])
def test_XS_07_a_member_that_died_is_not_given(start, host, language, victim):
    batch = start("--jobs", 1)
    code = {"python": "print(1)", "javascript": "console.log(1)", "shell": "echo 1"}[language]
    batch.good(language, code)
    for _ in range(2):
        found = tree_of(host, batch, ready=1)
        time.sleep(0.5)  # it is warm
        found = tree_of(host, batch, ready=1)
        inits = [pid for pid, row in found.items() if row[0] == "brig-init"]
        codes = [pid for pid, row in found.items() if row[2] in inits]
        assert inits and codes, found
        for pid in inits if victim == "init" else codes:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        assert batch.good(language, code) == "1\n"


NO_REAPER = r'''
import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come here, and stay
for i in range(int(sys.argv[1])):
    p = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    p.stdin.write(sys.argv[2].encode() + b"\n")
    p.stdin.flush()
    p.stdout.readline()
    time.sleep(i % 4 / 4000)
    p.stdin.close()  # while the next box is being made
    try:
        p.wait(5)
    except subprocess.TimeoutExpired:
        p.kill()
        sys.exit("it hangs")
print("ended")
'''


def test_XS_07_the_end_does_not_wait_for_a_stranger(brig, host):
    """A process that the zygote leaves in a half-made box is reaped by brig's own programs: in a
    container the first process may be one that never does."""
    request = {"language": "python", "code": "1", "level": "degraded-ok"}
    done = subprocess.run([*brig.prefix, PYTHON, "-c", NO_REAPER, "120", json.dumps(request),
                           host.brig, "batch", "--jobs", "1"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.stdout == b"ended\n", done.stderr[-300:]


# --- policy ---------------------------------------------------------------------------------------

HOG = "b = bytearray(100 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n" \
      "import time\ntime.sleep(0.5)\nprint('had it')"
FORKS = "import os\nn = 0\ntry:\n    while n < 60:\n        if os.fork() == 0:\n            " \
        "import time; time.sleep(5)\n        n += 1\nexcept OSError: pass\nprint(n)"
OPEN = "import os\nn = 0\ntry:\n    while n < 500:\n        os.open('/dev/null', 0); n += 1\n" \
       "except OSError: pass\nprint(n)"
WRITE = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nf = open('/tmp/f', 'wb', 0)\n" \
        "n = 0\ntry:\n    while n < 1 << 20: n += f.write(bytes(4096))\nexcept OSError: pass\nprint(n)"
LOOPBACK = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ntry:\n" \
           "    print(s.sendto(b'x', ('127.0.0.1', 9)))\nexcept OSError as e: print(-e.errno)"


@pytest.mark.parametrize("code, fields, least, most", [
    (FORKS, {"limits": {"pids": 10}}, 60, 9),
    (OPEN, {"limits": {"open_files": 32}}, 500, 31),
    (WRITE, {"limits": {"file_bytes": 65536}}, 1 << 20, 65536),
    (WRITE, {"limits": {"disk_bytes": 131072}}, 1 << 20, 131072),
    (LOOPBACK, {"network": "none"}, 1, -1),
], ids=["pids", "open_files", "file_bytes", "disk_bytes", "network"])
def test_XS_08_a_waiting_box_with_more_is_not_given(start, code, fields, least, most):
    """least: what a default box allows; most: what the asked-for one may."""
    batch = start("--jobs", 1)
    for _ in range(2):
        assert int(batch.good("python", code)) >= least
        assert int(batch.good("python", code, **fields)) <= most


def test_XS_08_nor_one_with_more_memory(start):
    batch = start("--jobs", 1)
    for _ in range(2):
        assert batch.good("python", HOG) == "had it\n"
        result = batch.run("python", HOG, limits={"memory_bytes": 64 << 20})
        assert result["state"] == "oom" and result["stdout"] == "", result


def test_XS_08_nor_one_with_less(start):
    """The first request decides what waits; a later one with larger limits gets them."""
    batch = start("--jobs", 1)
    small = {"limits": {"memory_bytes": 64 << 20, "pids": 10}}
    for _ in range(2):
        assert int(batch.good("python", FORKS, **small)) <= 9
        assert int(batch.good("python", FORKS)) == 60
        assert batch.good("python", HOG) == "had it\n"


def test_XS_08_nor_one_of_a_weaker_level(start, mode):
    batch = start("--jobs", 1)
    first = batch.run("python", "print(1)")
    strict = batch.run("python", "print(1)", level="strict")
    if mode == "user":
        assert first["state"] == "finished" and strict["state"] != "finished", strict
        assert batch.close() == 1
        return
    layers = [{l["name"]: l["enforced"] for l in r["receipt"]["layers"]} for r in (first, strict)]
    assert not layers[0]["locked_mounts"] and layers[1]["locked_mounts"], strict
    assert strict["receipt"]["level_achieved"] == "strict" and strict["receipt"]["verified"]


# --- the shared root ------------------------------------------------------------------------------

DAMAGE = r'''
import os, sys
OWN = "/tmp", "/workspace"
done = []
def attempt(name, action, *args):
    try:
        action(*args)
        done.append(name)
    except OSError:
        pass
def write(path):
    with open(path, "r+b", 0) as f:
        f.write(f.read(1))
for top in sys.argv[1:]:
    for path in [top] + [os.path.join(top, n) for n in sorted(os.listdir(top))[:40]]:
        if os.path.islink(path) or path in OWN:
            continue
        if os.path.isfile(path):
            attempt("write " + path, write, path)
            attempt("cut " + path, lambda p: os.truncate(p, os.path.getsize(p)), path)
        else:
            attempt("make " + path, lambda p: os.close(os.open(p + "/new", os.O_CREAT)), path)
            attempt("mkdir " + path, os.mkdir, path + "/dir")
            attempt("rename " + path, os.rename, path + "/new", path + "/newer")
        attempt("chmod " + path, os.chmod, path, os.stat(path).st_mode & 0o7777)
        attempt("times " + path, os.utime, path, (1, 1))
        attempt("label " + path, os.setxattr, path, "user.x", b"x")
print(len(done), *done[:9])
'''
LOOK = r'''
import hashlib, os, sys
h = hashlib.sha256()
for top in sys.argv[1:]:
    for path in [top] + [os.path.join(top, n) for n in sorted(os.listdir(top))]:
        if path in ("/tmp", "/workspace", "/proc", "/dev"):  # mounted for each box
            continue
        s = os.lstat(path)
        h.update(repr((path, s.st_ino, s.st_mode, s.st_nlink, s.st_size, s.st_atime_ns, s.st_mtime_ns,
                       s.st_ctime_ns, os.path.isfile(path) and open(path, "rb").read())).encode())
print(h.hexdigest())
'''
SHARED = ["/", "/etc", "/etc/brig", "/usr", "/usr/bin"]


def test_XS_09_the_root_cannot_be_changed_for_others(start, host):
    """All boxes of a pool have one root, in one file system, with the runner in it."""
    batch, python = start("--jobs", 1), os.path.realpath("/usr/bin/python3")
    before = host.sha256(python), os.stat(python).st_mtime_ns
    control = batch.good("python", "import os; os.mkdir('d'); open('d/f', 'w').close()\n" + DAMAGE,
                         args=["/workspace/d"])
    assert int(control.split()[0]) >= 8, control
    look = batch.good("python", LOOK, args=SHARED[:3])
    for _ in range(2):
        assert batch.good("python", DAMAGE, args=SHARED) == "0\n"
        assert batch.good("python", LOOK, args=SHARED[:3]) == look
    assert (host.sha256(python), os.stat(python).st_mtime_ns) == before


# --- descriptors, control, report -----------------------------------------------------------------

FDS = ("import os\nd = '/proc/self/fd/'\nprint(*sorted(os.readlink(d + f).split(':')[0] "
       "for f in os.listdir(d) if os.path.lexists(d + f)))")
CHILD_FDS = ("import subprocess\nprint(subprocess.run(['/bin/sh', '-c', 'cd /proc/self/fd; echo *'], "
             "close_fds=False, stdout=subprocess.PIPE).stdout.decode())")


def test_XS_05_a_program_has_its_streams_and_the_report_only(start):
    batch = start("--jobs", 1)
    for _ in range(2):
        assert batch.good("python", FDS) == "pipe pipe pipe socket\n"
        assert set(batch.good("python", CHILD_FDS).split()) <= {"0", "1", "2", "3"}  # 3: the glob's
        forked = "import os\npid = os.fork()\nif pid:\n    os.wait()\nelse:\n    "
        assert batch.good("python", forked + FDS.replace("\n", "\n    ")) == "pipe pipe pipe\n"
        shell = batch.good("shell", "cd /proc/self/fd; echo *").split()
        assert set(shell) - {"255"} <= {"0", "1", "2", "3"}, shell
        kinds = batch.good("javascript", "const fs = require('fs'), d = '/proc/self/fd/'\n"
                           "for (const f of fs.readdirSync(d)) try { console.log(fs.readlinkSync(d + f)) }"
                           " catch (e) {}").split()
        assert sum(k.startswith("socket:") for k in kinds) <= 1, kinds
        assert not [k for k in kinds if not re.match(r"(socket|pipe|anon_inode):|/dev/null$", k)], kinds


CONTROL = r'''
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
got = []
target = int(__import__("sys").argv[1])
def attempt(name, result):
    if result >= 0:
        got.append(name)
def read(path):
    try:
        os.listdir(path) if path.endswith("/fd") else open(path, "rb").read(1)
        return 0
    except OSError:
        return -1
for name in ("fd", "environ", "mem", "maps", "io", "stack"):
    attempt(name, read("/proc/%d/%s" % (target, name)))
pidfd = libc.syscall(434, target, 0)
attempt("pidfd_getfd", libc.syscall(438, pidfd, 3, 0) if pidfd >= 0 else -1)
attempt("ptrace", libc.ptrace(16, target, 0, 0))
attempt("signal", libc.kill(target, 19))
attempt("limits", libc.prlimit(target, 7, None, ctypes.create_string_buffer(16)))
print(json.dumps(got))
'''


def test_XS_05_the_control_socket_is_out_of_reach(start):
    batch = start("--jobs", 1)
    assert json.loads(batch.good("python", CONTROL, args=["1"])) == []
    victim = subprocess.Popen(["sleep", "60"])
    try:
        control = subprocess.run([PYTHON, "-c", CONTROL, str(victim.pid)], stdout=subprocess.PIPE,
                                 check=True)
    finally:
        victim.kill()
        victim.wait()
    assert {"fd", "environ", "maps", "ptrace", "signal"} <= set(json.loads(control.stdout)), control


def beside(batch, code, **fields):
    """Runs hostile code and an innocent program at the same time; the answer to the first."""
    token = secrets.token_hex(16)
    batch.good("python", "1")
    batch.ask("python", FORGE + code, timeout_ms=4000, **fields)
    batch.ask("python", "import sys, time\ntime.sleep(0.7)\nprint(sys.argv[1])\nsys.argv[1]", args=[token])
    hostile, other = batch.line(), batch.answer()
    assert other["state"] == "finished" and other["stdout"] == token + "\n", other
    assert other["value"] == repr(token) and other["outputs"] == [{"text/plain": repr(token)}], other
    assert batch.good("python", "print('next')") == "next\n"
    return json.loads(hostile.decode())


def test_XS_05_a_forged_end_is_the_forgers_own(start):
    done = 'send(frame({"done": {"exit": 7, "value": "forged", "error": None}}))\ntime.sleep(60)'
    result = beside(start("--jobs", 2), done)
    assert (result["state"], result["exit_code"], result["value"]) == ("failed", 7, "forged"), result
    assert result["usage"]["wall_ms"] < 3000


def test_XS_05_who_forged_an_end_does_not_outlive_it(start, host):
    """Its result is out, and the pool has nothing to do: the box must not wait for the next request."""
    named = FORGE + 'import ctypes\nctypes.CDLL(None).prctl(15, b"forger", 0, 0, 0)\n'
    batch = start("--jobs", 1)

    def seen_is(wanted):
        end = time.monotonic() + 1
        while ("forger" in [name for name, _, _ in tree_of(host, batch).values()]) != wanted:
            assert time.monotonic() < end, wanted
    batch.good("python", "1")
    batch.ask("python", named + "time.sleep(2)")  # the control: a run that lasts is seen
    seen_is(True)
    assert batch.answer()["state"] == "finished"
    batch.ask("python", named + 'send(frame({"done": {"exit": 0, "value": None, "error": None}}))\nwhile True: pass')
    assert batch.answer()["state"] == "finished"
    seen_is(False)


def test_XS_05_a_forged_end_does_not_hide_a_kill(start):
    """How the process really ended counts, when it ended."""
    done = 'send(frame({"done": {"exit": 0, "value": "forged", "error": None}}))\nos.kill(os.getpid(), 9)'
    result = beside(start("--jobs", 2), done)
    assert result["state"] in ("finished", "killed") and result["success"] is (result["state"] == "finished")


@pytest.mark.parametrize("data", [
    'b"\\xff" * 100000', 'frame(b"no JSON")', 'frame(b"[" * 100000)', 'b"\\x10\\0\\0\\0half"',
    'frame({"ready": True}) * 9', 'frame({"done": 1})', 'frame({"output": 1}) * 2000',
    'frame({"done": {"exit": "x", "value": {}, "error": []}})',
    'frame(b\'{"done": {"exit": 0}, "done": {"exit": 1}}\')', 'frame(b"\\xff\\xfe{}")',
    'frame({"id": 1, "box": 2, "kind": "ENDED", "execution_id": "0" * 26, "state": "finished"})',
    '(64 << 20).to_bytes(4, "little") + b"x" * (100 << 20)', 'b"\\xff\\xff\\xff\\xff" * 100',
])
def test_XS_05_garbage_in_the_report_harms_its_sender_only(start, data):
    result = beside(start("--jobs", 2), "print('said', flush=True)\nsend(%s)" % data)
    assert result["state"] in ("finished", "failed", "timed_out", "killed"), result
    assert result["stdout"] == "said\n" and len(result["outputs"]) <= 1000
    assert re.match(r"[0-9a-hjkmnp-tv-z]{26}$", result["execution_id"]) and "0" * 26 not in result["execution_id"]


def test_XS_05_a_report_that_is_closed_early(start):
    batch = start("--jobs", 2)
    for code in ("os.close(fd)", "import socket; socket.socket(fileno=os.dup(fd)).shutdown(2)",
                 "os.dup2(os.open('/dev/null', 2), fd)"):
        result = beside(batch, code + "\nprint('on')\nsys.exit(3)")
        assert (result["state"], result["exit_code"], result["stdout"]) == ("failed", 3, "on\n"), result


def peak_of(batch):
    with open("/proc/%d/status" % batch.proc.pid) as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1)) << 10


def test_XS_05_a_report_cannot_fill_brigs_memory(start, mode):
    """A box has a limit; what it makes brig hold must have one of that order, too. 8 MB of small
    values are sent, one eighth of a frame's largest size."""
    batch = start("--jobs", 2)
    batch.good("python", "1")
    before = peak_of(batch)
    beside(batch, "send(frame(b'{\"output\":{\"a\":[' + b'[],' * 2666666 + b'[]]}}'))")
    assert peak_of(batch) - before < 64 << 20, "%d MiB" % (peak_of(batch) - before >> 20)


def test_XS_05_an_output_cannot_make_the_answer_unreadable(start):
    """beside() parses it as a client in Python would."""
    nested = "send(frame(b'{\"output\":{\"a\":' + b'[' * 1800 + b']' * 1800 + b'}}'))"
    assert beside(start("--jobs", 2), nested)["state"] in ("finished", "timed_out")


FLOOD = r'''
for i in range(6):
    if os.fork() == 0:
        while True:
            os.write(1 + i % 2, b"x" * 65536)
for i in range(3):
    if os.fork() == 0:
        n = 0
        while True:
            n = (n + 1) % 300
            try:
                os.makedirs("/workspace/%d/%d/a/b/c" % (i, n)); os.rename("/workspace/%d" % i, "/workspace/x%d" % i)
            except OSError:
                pass
time.sleep(0.3)
send(frame({"done": {"exit": 0, "value": None, "error": None}}))
time.sleep(60)
'''


def test_XS_05_a_flood_after_the_forged_end_keeps_nobody_waiting(start):
    batch = start("--jobs", 2)
    for _ in range(3):
        begin = time.monotonic()
        result = beside(batch, FLOOD, limits={"output_bytes": 65536})
        assert len(result["stdout"]) <= 65536 and len(result["stderr"]) <= 65536, result["truncated"]
        assert time.monotonic() - begin < 6


def test_XS_05_huge_output_is_bounded(start):
    batch = start("--jobs", 2)
    batch.good("python", "1")
    before = peak_of(batch)
    for language, code in (("python", "import os\nfor _ in range(3000): os.write(1, b'x' * 100000)"),
                           ("shell", "head -c 300000000 /dev/zero"),
                           ("javascript", "const b = Buffer.alloc(1e6)\n"
                            "for (let i = 0; i < 300; i++) require('fs').writeSync(1, b)")):
        result = batch.run(language, code, limits={"output_bytes": 1 << 20})
        assert result["state"] == "output_limit" and len(result["stdout"]) <= 1 << 20, result["state"]
        assert result["truncated"]["stdout"] >= 298000000
    assert peak_of(batch) - before < 64 << 20


def test_XS_14_brig_itself_is_as_it_was(start):
    """No id, limit, directory or descriptor of a run sticks to the process that serves them all."""
    batch = start("--jobs", 2)
    proc = "/proc/%d/" % batch.proc.pid

    def state():
        with open(proc + "status") as f:
            rows = [l for l in f if l.startswith(("Uid", "Gid", "Groups", "Cap", "SigB", "SigI", "SigC", "Threads",
                                                   "Umask"))]
        return (rows, os.readlink(proc + "cwd"), os.readlink(proc + "root"), os.listdir(proc + "task"),
                {n: os.readlink(proc + "ns/" + n) for n in os.listdir(proc + "ns")})
    batch.good("python", "1")
    before = state()
    for i in range(30):
        batch.ask("python", "open('f', 'w').write('x')", files=[{"path": "d/g", "content": "y"}])
    for i in range(30):
        assert batch.answer()["state"] == "finished"
    end, fds = time.monotonic() + 5, 999
    while fds > 80 and time.monotonic() < end:  # a box that waits has three, prepared eighteen
        time.sleep(0.1)
        fds = len(os.listdir(proc + "fd"))
    assert state() == before and fds <= 80
