# SPDX-License-Identifier: Apache-2.0
"""RS: resource exhaustion. What a box may use is bounded, it ends with its own state, and others do
not notice.

The control of each probe is the same probe outside, bounded so that the host does not suffer: it
gets past the bound at which the box stopped it.

Without cgroups (mode user) brig watches resident memory and counts processes by RLIMIT_NPROC; kernel
memory and processor share are then not limited. Where that matters the receipt must say so.
"""
import contextlib
import glob
import json
import os
import resource
import signal
import subprocess
import threading
import time

import pytest

MIB = 1 << 20
NEIGHBOUR_S = 2.5   # a second run during any abuse, on a small machine
BRIG_RSS = 64 * MIB  # brig itself, whatever the code does
KERNEL_LOG_LINES = 200
HOLD_MS = 1000       # how long a probe keeps its memory; a watcher needs far less
ABUSE = "900ms"      # how long a probe abuses the host while a neighbour runs


def argv_of(brig, host, probe_id, *args, limit="10s", options=()):
    options = ["--timeout", limit, "--file", "%s:probe" % host.probe, *options]
    return brig.argv("shell", "-c", 'exec ./probe "$@"', options=options) + ["--", probe_id,
                                                                            *map(str, args)]


@contextlib.contextmanager
def abuse(brig, host, probe_id, *args, **kw):
    """A probe that is running in a box; killed at the end if it still is."""
    proc = brig.popen(argv_of(brig, host, probe_id, *args, **kw), stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        yield proc
    finally:
        proc.wait(timeout=30)


def neighbour(brig):
    """A second run, which must not suffer."""
    run = brig.run("shell", "echo neighbour")
    assert run.state == "finished" and run.stdout == "neighbour\n", run
    assert run.seconds < NEIGHBOUR_S, run
    return run.seconds


def stopped(verdict, *states):
    """The probe met a limit: it says so, or the box ended in one of these states."""
    assert verdict.blocked or (verdict.result == "silent" and verdict.run.state in states), verdict
    return verdict


def stopped_or_declared(verdict, layer, *states):
    """Like stopped(); but a layer that this host cannot enforce may be missing if the receipt says
    so."""
    row = verdict.run.layers[layer]
    if verdict.escaped and verdict.run.receipt["level_required"] == "degraded-ok":
        assert row["enforced"] is False and row["detail"], verdict
        return verdict
    return stopped(verdict, *states)


def timed_out(run, limit_ms, slack_ms=250):
    assert run.state == "timed_out" and run.status == 124, run
    assert limit_ms <= run.usage["wall_ms"] <= limit_ms + slack_ms, run


class Memory:
    """The largest resident size of a process while it lives."""

    def __init__(self, pid):
        self.pid, self.peak = pid, 0
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        with contextlib.suppress(OSError, ValueError):
            while True:
                with open("/proc/%d/status" % self.pid) as f:
                    fields = dict(line.split(":", 1) for line in f)
                if "VmHWM" not in fields:
                    return
                self.peak = max(self.peak, int(fields["VmHWM"].split()[0]) * 1024)
                time.sleep(0.005)


def slab_bytes():
    with open("/proc/meminfo") as f:
        fields = dict(line.split(":", 1) for line in f)
    return int(fields["Slab"].split()[0]) * 1024


def kernel_log_lines():
    """Numbers of the kernel's messages so far."""
    fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    lines = 0
    with contextlib.suppress(OSError):
        while True:
            try:
                os.read(fd, 8192)
            except BrokenPipeError:
                continue
            lines += 1
    os.close(fd)
    return lines


def wait_until(what, seconds=5.0):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() >= end:
            return False
        time.sleep(0.05)
    return True


# --- processes and memory -------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["fork", "setsid", "double", "vfork", "thread", "silent"])
def test_rs01_tasks(box, outside, kind):
    outside.escaped("RS-01", kind, 150)
    v = box.blocked("RS-01", kind, 150, options=["--pids", 100])
    assert "EAGAIN" in v.detail, v
    assert 80 <= int(v.detail.split()[1]) <= 100, v


@pytest.mark.alone
def test_rs01_bomb(brig, host):
    """Every kind at once. The box ends in time and a neighbour does not notice. How fast is said by
    the best of five, since other suites may share the machine. Without a cpu cgroup, as the receipt
    says, brig itself has to compete with 512 spinning tasks for the processor."""
    with abuse(brig, host, "RS-01", "bomb", limit=ABUSE, options=["--pids", 512]):
        neighbour(brig)
    argv = argv_of(brig, host, "RS-01", "bomb", limit="500ms", options=["--pids", 512])
    late = []
    while len(late) < 5 and (not late or min(late) > 250):
        run = brig.run_argv(argv)
        timed_out(run, 500, 2000)
        late.append(run.usage["wall_ms"] - 500)
    assert min(late) <= 250 or not run.layers["cpu_limit"]["enforced"], late


@pytest.mark.parametrize("kind", ["malloc", "shared", "cow", "threadfork", "brk", "stack", "sysv",
                                  "memfd", "tmpfs"])
def test_rs02_memory(box, outside, kind):
    """96 MiB where 32 are allowed: the box ends as oom, or the kernel refuses the kind at all. Pages
    of a memfd that nobody maps are seen by a memory cgroup alone; without one the receipt says so."""
    outside.escaped("RS-02", kind, 96, 0)
    v = box("RS-02", kind, 96, HOLD_MS, options=["--memory", "32M", "--disk", "256M"])
    if kind == "memfd" and box.mode == "user" and v.escaped:
        row = v.run.layers["memory_limit"]
        assert row["enforced"] is False and "memfd" in row["detail"], v
        return
    stopped(v, "oom", "disk_limit")
    if kind == "memfd" and box.mode == "root":
        assert v.run.state == "oom", v
    if v.run.state == "oom":
        assert v.run.status == 137, v
        assert v.run.seconds < 2, v


def test_rs02_page_cache_is_reclaimed(box, outside):
    outside.escaped("RS-02", "pagecache", 96, 0)
    v = box("RS-02", "pagecache", 96, 0, options=["--memory", "32M"])
    assert v.escaped and v.run.usage["peak_memory_bytes"] <= 32 * MIB, v


def test_rs02_neighbour(brig, host):
    with abuse(brig, host, "RS-02", "malloc", 96, 700, options=["--memory", "128M"]):
        neighbour(brig)
    free = brig.run("python", "x = b'x' * (24 << 20); print(len(x))", options=["--memory", "64M"])
    assert free.state == "finished", free


# Pipes of a user are capped by fs.pipe-user-pages-soft: outside, only root can exceed the limit.
@pytest.mark.parametrize("kind", [
    "tables", pytest.param("pipes", marks=pytest.mark.needs_root), "sockets", "vmas"])
def test_rs03_kernel_memory(box, outside, kind):
    outside.escaped("RS-03", kind, 96, 0)
    v = box("RS-03", kind, 96, 300, options=["--memory", "32M"])
    stopped_or_declared(v, "memory_limit", "oom")


@pytest.mark.alone
def test_rs03_dentries(brig, box, outside):
    """Negative entries of the shared /usr are the box's memory and are reclaimed within it."""
    outside.escaped("RS-03", "dentries", 16, 0)
    before = slab_bytes()
    v = box("RS-03", "dentries", 64, 0, options=["--memory", "16M"], limit="20s")
    assert v.escaped or v.run.state == "oom", v
    if brig.mode == "root":
        assert slab_bytes() - before < 48 * MIB


@pytest.mark.parametrize("kind, count", [
    ("epoll", 100), ("eventfd", 100), ("inotify", 100), ("timerfd", 100), ("socket", 100),
    ("netlink", 100), ("key", 100), ("mq", 8), ("flight", 100)])
def test_rs03_kernel_objects(box, outside, kind, count):
    outside.escaped("RS-03", kind, count)
    box.blocked("RS-03", kind, count, options=["--open-files", 64])


@pytest.mark.parametrize("probe_id, kind, count", [("RS-03", "inotify", 20), ("RS-22", "ptmx", 60)])
def test_rs03_what_the_kernel_counts_for_all(box, outside, probe_id, kind, count):
    """Numbers that boxes share with each other, or with whoever started brig: a box has a few, not the
    rest."""
    outside.escaped(probe_id, kind, count)
    box.blocked(probe_id, kind, count)


IN_FLIGHT = """
import array, os, socket, sys, time
pairs, some = [], array.array("i", [0] * 250)

def send(fds):
    pairs.append(socket.socketpair())
    pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])

try:
    for i in range(int(sys.argv[1])):
        send(some)
except OSError as error:
    print(error.strerror, flush=True)
time.sleep(float(sys.argv[2]))
"""


def test_rs03_descriptors_on_their_way(brig):
    """The kernel counts them for each user. An ordinary user's boxes are one user, and so is his brig."""
    few = brig.prefix + ["prlimit", "--nofile=1024:"]
    with subprocess.Popen(brig.argv("python", "-c", IN_FLIGHT, options=["--timeout", "4s"]) + ["--", "9", "3"],
                          stdout=subprocess.DEVNULL) as abuser:
        time.sleep(1)
        control = subprocess.run(few + ["/usr/bin/python3", "-c", IN_FLIGHT, "1", "0"], stdout=subprocess.PIPE, check=True)
        assert bool(control.stdout) == (brig.mode == "user"), control
        run = brig.run_argv(few + brig.argv("python", "-c", "print(1)")[len(brig.prefix):])
        assert run.stdout == "1\n" and abuser.poll() is None, run


def test_rs04_no_swap(brig, host):
    """The memory a box can have includes swap. This host's own group has no such bound."""
    def bounds(pid):
        with open("/proc/%d/cgroup" % pid) as f:
            paths = {line.strip().split(":", 2)[2] for line in f}
        found = {}
        for path in paths:
            for top in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
                for name in ("memory.memsw.limit_in_bytes", "memory.swap.max", "memory.swappiness"):
                    with contextlib.suppress(OSError), open(top + path + "/" + name) as f:
                        found.setdefault(path, {})[name] = f.read().strip()
        return found

    with abuse(brig, host, "RS-04", 8, 500, options=["--memory", "64M"]) as proc:
        boxed = [bounds(pid) for pid in host.descendants(proc.pid)]
    run = brig.run_argv(argv_of(brig, host, "RS-04", 8, 0))
    assert run.status == 0, run
    if brig.mode == "user":
        assert run.layers["no_swap"]["enforced"] is False and run.layers["no_swap"]["detail"], run
        return
    assert run.layers["no_swap"]["enforced"] is True, run

    def swapless(found):
        return any(values.get("memory.swap.max") == "0" or
                   values.get("memory.swappiness") == "0" or
                   values.get("memory.memsw.limit_in_bytes") == str(64 * MIB)
                   for values in found.values())
    assert not swapless(bounds(os.getpid()))
    assert any(swapless(found) for found in boxed), boxed


# --- disk -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_rs05_disk(box, outside, place):
    outside.escaped("RS-05", ".", 16)
    before = os.statvfs("/").f_bavail
    v = box.blocked("RS-05", place, 16, options=["--disk", "8M"])
    assert "ENOSPC" in v.detail, v
    assert before - os.statvfs("/").f_bavail < 512 * MIB // os.statvfs("/").f_frsize


@pytest.mark.parametrize("place", ["/", "/usr", "/etc", "/dev", "/proc"])
def test_rs05_no_upper_layer(box, place):
    """There is no writable layer over the root that could be filled."""
    v = box.blocked("RS-05", place, 16)
    assert any(e in v.detail for e in ("EROFS", "EACCES", "EPERM", "ENOENT")), v


@pytest.mark.parametrize("kind, count", [("files", 600), ("dirs", 600), ("symlinks", 600),
                                         ("links", 600), ("xattrs", 150)])
def test_rs06_inodes(box, outside, kind, count):
    outside.escaped("RS-06", kind, count)
    v = box.blocked("RS-06", kind, count, options=["--inodes", 200])
    assert any(e in v.detail for e in ("ENOSPC", "EPERM", "EOPNOTSUPP", "EACCES")), v


@pytest.mark.parametrize("kind, amount", [("sparse", 1 << 32), ("allocate", 16 * MIB),
                                          ("write", 4 * MIB)])
def test_rs07_file_size(box, outside, kind, amount):
    outside.escaped("RS-07", kind, amount)
    v = box.blocked("RS-07", kind, amount, options=["--file-size", "1M"])
    assert "EFBIG" in v.detail, v


def test_rs07_signal(box, outside):
    outside.escaped("RS-07", "signal", 4 * MIB)
    v = box("RS-07", "signal", 4 * MIB, options=["--file-size", "1M"])
    assert v.run.state == "killed" and v.run.signal == signal.SIGXFSZ and v.run.status == 153, v


def test_rs07_huge_sparse_file(box):
    v = box.blocked("RS-07", "sparse", (1 << 63) - 1, options=["--file-size", "1024G"])
    assert "EFBIG" in v.detail or "EINVAL" in v.detail, v


def test_rs07_blocks_count_not_size(box):
    """A hole costs nothing, what was punched out is free again, and what is allocated counts."""
    assert box("RS-07", "sparse", 512 * MIB, options=["--disk", "8M"]).escaped
    assert box("RS-07", "punch", 50, options=["--disk", "4M"]).escaped
    v = box.blocked("RS-07", "allocate", 16 * MIB, options=["--disk", "8M"])
    assert "ENOSPC" in v.detail, v


def test_rs08_write_storm(brig, box, outside, host):
    """No write of a box reaches a disk, so its storms are nobody else's."""
    outside.escaped("RS-08", 100)
    box.blocked("RS-08", 300)
    with abuse(brig, host, "RS-08", 800):
        neighbour(brig)


def test_rs09_files_of_one_process(box, outside):
    outside.escaped("RS-09", "file", 300)
    v = box.blocked("RS-09", "file", 300, options=["--open-files", 128])
    assert v.detail == "file: 125 of 300, EMFILE", v


@pytest.mark.alone
def test_rs09_files_in_total(box, outside):
    def open_files():
        with open("/proc/sys/fs/file-nr") as f:
            return int(f.read().split()[0])
    outside.escaped("RS-09", "total", 30, 50)
    before = open_files()
    box.blocked("RS-09", "total", 100, 100, options=["--open-files", 32, "--pids", 20])
    assert open_files() - before < 5000


# --- streams --------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["lines", "line", "nul", "invalid", "ansi"])
def test_rs10_flood(brig, host, outside, kind):
    outside.escaped("RS-10", kind, 2)
    size = 48 * MIB
    argv = argv_of(brig, host, "RS-10", kind, size // MIB, limit="20s", options=["--output", "64K"])
    with open(brig.path("flood.json", b""), "w+b") as out:
        proc = brig.popen(argv, stdout=out)
        memory = Memory(proc.pid)
        _, err = proc.communicate(timeout=30)
        out.seek(0)
        result = json.loads(out.read().decode())
    assert proc.returncode == 1 and err == b"", (proc.returncode, err[:300])
    assert memory.peak < BRIG_RSS, memory.peak
    assert result["state"] == "failed", result["state"]
    assert len(result["stderr"]) == 64 << 10 and \
        result["truncated"]["stderr"] == size - (64 << 10), result["truncated"]
    assert len(result["stdout"]) == 64 << 10 and result["truncated"]["stdout"] > size - (64 << 10)
    assert result["stdout"].endswith('no error"}\n'), "the tail is kept"


def test_rs10_neighbour(brig, host):
    with abuse(brig, host, "PK-01", "flood", 60000, limit=ABUSE):
        neighbour(brig)


@pytest.mark.parametrize("plain", [True, False], ids=["live", "json"])
def test_rs11_reader_stops(brig, host, plain):
    """Nobody reads brig's stdout while the code floods: memory stays bounded, the limit still ends
    the box, and a neighbour does not notice. There is no WebSocket yet; the pipe is its place."""
    argv = argv_of(brig, host, "PK-01", "flood", 60000, limit=ABUSE)
    if plain:
        argv.remove("--json")
    proc = brig.popen(argv, stderr=subprocess.DEVNULL)
    try:
        memory = Memory(proc.pid)
        time.sleep(0.4)
        neighbour(brig)

        def box_is_gone():
            return not any(name == "probe" for name, _ in host.descendants(proc.pid).values())
        assert wait_until(box_is_gone, 3), "the box lives on"
        assert memory.peak < BRIG_RSS, memory.peak
        while proc.stdout.read(MIB):
            pass
        assert proc.wait(timeout=5) == 124
    finally:
        proc.kill()
        proc.wait()
        proc.stdout.close()


@pytest.mark.parametrize("kind", ["drain", "close", "ignore", "byte"])
def test_rs12_stdin(brig, box, kind):
    """16 MiB that the code reads, or does not."""
    size = 16 * MIB
    data = brig.path("stdin", b"")
    os.truncate(data, size)
    v = box.blocked("RS-12", kind, options=["--stdin", data])
    assert v.detail == "read %d" % {"drain": size, "byte": 1}.get(kind, 0), v
    assert v.run.seconds < 5, v


# --- processor, signals, processes ----------------------------------------------------------------

@pytest.mark.alone
def test_rs13_share(box, outside):
    outside.escaped("RS-13", 4, 400, 35)
    v = box("RS-13", 4, 1000, 35, options=["--cpus", "0.2"])
    stopped_or_declared(v, "cpu_limit")


@pytest.mark.alone
def test_rs13_timeout_under_load(brig, host):
    """The best of three, since other suites may share the machine."""
    late = []
    while len(late) < 3 and (not late or min(late) > 50):
        run = brig.run_argv(argv_of(brig, host, "RS-13", 8, 60000, 0, limit="400ms"))
        timed_out(run, 400)
        late.append(run.usage["wall_ms"] - 400)
    assert min(late) <= 50, late
    with abuse(brig, host, "RS-13", 8, 60000, 0, limit=ABUSE):
        neighbour(brig)


def test_rs14_timers(box, outside):
    outside.escaped("RS-14", "timer", 3000)
    v = box.blocked("RS-14", "timer", 3000)
    assert "EAGAIN" in v.detail, v
    box.blocked("RS-14", "timerfd", 3000)


@pytest.mark.parametrize("kind", ["storm", "stop", "ignore", "block"])
def test_rs15_signals(brig, host, kind):
    """The control resists SIGTERM; the box ends all the same."""
    with subprocess.Popen([host.probe, "RS-15", kind, "5000"], stdout=subprocess.DEVNULL) as control:
        time.sleep(0.1)
        control.terminate()
        time.sleep(0.1)
        assert control.poll() is None
        control.kill()
    timed_out(brig.run_argv(argv_of(brig, host, "RS-15", kind, 60000, limit="300ms")), 300)


def test_rs16_stopped_box(brig, host, outside):
    assert outside("RS-16", 4, 5000, timeout=0.3).result == "silent"
    timed_out(brig.run_argv(argv_of(brig, host, "RS-16", 20, 60000, limit="500ms")), 500)


def test_rs16_stopped_from_outside(brig, host):
    """Everything of the box, init too, is stopped by somebody on the host."""
    proc = brig.popen(argv_of(brig, host, "PK-01", "sleep", 60000, limit="3s"))
    try:
        assert wait_until(lambda: any(n == "probe" for n, _ in host.descendants(proc.pid).values()))
        launcher = [p for p, (n, _) in host.descendants(proc.pid).items() if n == "brig-launch"]
        for top in launcher:
            for pid in host.descendants(top):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
        out, _ = proc.communicate(timeout=10)
    finally:
        proc.kill()
        proc.communicate()
    assert json.loads(out.decode())["state"] == "timed_out" and proc.returncode == 124


def test_rs17_orphans_are_reaped(box):
    v = box("RS-17", "orphans", 4000, options=["--pids", 32], limit="25s")
    assert v.escaped, v


def test_rs17_zombies(box, outside):
    outside.escaped("RS-17", "zombies", 150)
    v = box.blocked("RS-17", "zombies", 150, options=["--pids", 64])
    assert "EAGAIN" in v.detail and int(v.detail.split()[1]) <= 64, v


def test_rs18_daemons(brig, host, outside):
    outside.escaped("RS-18", 700)
    assert any(name == "probe" for name, _ in host.descendants().values()), "the control survives"
    wait_until(lambda: not any(n == "probe" and s != "Z" for n, s in host.descendants().values()))
    run = brig.run_argv(argv_of(brig, host, "RS-18", 20000))
    assert run.status == 1 and run.seconds < 3, run
    assert not any(n == "probe" and s != "Z" for n, s in host.descendants().values())


def test_rs19_uninterruptible(brig, host, outside):
    assert outside("RS-19", 5000, timeout=0.3).result == "silent"
    timed_out(brig.run_argv(argv_of(brig, host, "RS-19", 60000, limit="400ms")), 400)


@pytest.mark.needs_root
def test_rs20_init(box, outside):
    outside.escaped("RS-20")
    v = box.blocked("RS-20")
    assert v.run.state == "finished", v


def test_rs20_init_is_not_the_victim(box):
    """Memory runs out: the result still arrives."""
    v = box("RS-02", "cow", 256, HOLD_MS, options=["--memory", "32M"])
    assert v.run.state == "oom" and v.run.status == 137, v


REGEX = "import re; re.match('(a+)+$', 'a' * 64 + 'b')"
ZIP = ("import zlib; d = zlib.compress(bytes(1 << 20), 9); x = b''.join(zlib.decompress(d)"
       " for i in range(256)); print(len(x))")
NESTED = "import json; json.loads('[' * 1000000)"


@pytest.mark.parametrize("lang, code, state, status", [
    ("python", REGEX, "timed_out", 124),
    ("javascript", "/^(a+)+$/.test('a'.repeat(64) + 'b')", "timed_out", 124),
    ("python", ZIP, "oom", 137),
    ("python", NESTED, "failed", 1),
    ("javascript", "JSON.parse('['.repeat(1000000))", "failed", 1),
])
def test_rs21_bombs(brig, lang, code, state, status):
    run = brig.run(lang, code, options=["--memory", "128M"],
                   limit="600ms" if state == "timed_out" else "20s")
    assert (run.state, run.status) == (state, status), run


def test_rs21_control():
    """The bombs are bombs."""
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["/usr/bin/python3", "-c", REGEX], timeout=0.5, check=False)
    done = subprocess.run(["/usr/bin/python3", "-c", ZIP], stdout=subprocess.PIPE, check=True)
    assert int(done.stdout) == 256 * MIB


def test_rs22_terminals(brig, box, host, outside):
    outside.escaped("RS-22", "ptmx", 100)
    box.blocked("RS-22", "ptmx", 100, options=["--open-files", 64])
    with abuse(brig, host, "RS-22", "ptmx", 4096, 700):
        for fd in os.openpty():
            os.close(fd)


# --- many boxes -----------------------------------------------------------------------------------

@pytest.mark.alone
def test_rs23_hundred_boxes_at_their_limit(brig, host):
    """All run out of memory at the same time; each says so, and a neighbour in between does not
    notice. There is no admission control without a daemon: 429 is for later."""
    argv = argv_of(brig, host, "RS-02", "malloc", 64, 3000, limit="60s", options=["--memory", "16M"])
    procs = [brig.popen(argv) for _ in range(100)]
    try:
        run = brig.run("shell", "echo neighbour", limit="60s", timeout=60)
        assert run.state == "finished", run
        for proc in procs:
            out, err = proc.communicate(timeout=60)
            assert proc.returncode == 137 and json.loads(out.decode())["state"] == "oom", (out, err)
    finally:
        for proc in procs:
            proc.kill()
            proc.communicate()


SLABS = ("net_namespace", "mnt_cache", "pid_namespace")


def kernel_objects():
    """How many cgroups, namespaces and mounts the kernel has. It counts a whole slab that a processor
    works with as in use, however empty; asked to shrink a cache, it takes those back first."""
    with open("/proc/cgroups") as f:
        found = {line.split()[0]: int(line.split()[2]) for line in f if line[0] != "#"}
    for slab in SLABS:
        with contextlib.suppress(OSError), open(f"/sys/kernel/slab/{slab}/shrink", "w") as f:
            f.write("1")
    with contextlib.suppress(OSError), open("/proc/slabinfo") as f:
        found.update({line.split()[0]: int(line.split()[1]) for line in f
                      if line.split()[0] in SLABS})
    return found


@pytest.mark.alone
def test_rs24_start_storm(brig):
    """200 starts in quick succession. The kernel's objects return to where they were."""
    assert brig.run("shell", "true").state == "finished"
    before = kernel_objects()
    running = []
    for _ in range(200):
        running.append(brig.popen(brig.argv("shell", "-c", "true"), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL))
        if len(running) >= 8:
            assert running.pop(0).wait(timeout=30) == 0
    assert all(proc.wait(timeout=30) == 0 for proc in running)

    def grown():
        return {k: (v, before.get(k)) for k, v in kernel_objects().items() if v > before.get(k, 0) + 100}
    wait_until(lambda: not grown(), 20)
    assert not grown()


# --- network --------------------------------------------------------------------------------------

def test_rs25_connections(box, outside):
    outside.escaped("RS-25", "connections", 300)
    v = box.blocked("RS-25", "connections", 300, options=["--open-files", 128])
    assert "EMFILE" in v.detail, v


@pytest.mark.alone
@pytest.mark.parametrize("kind, count", [("churn", 5000), ("udp", 100000)])
def test_rs25_traffic_stays_inside(brig, box, host, outside, kind, count):
    def waiting():
        with open("/proc/net/sockstat") as f:
            return [int(line.split()[6]) for line in f if line.startswith("TCP:")][0]
    outside.escaped("RS-25", kind, 200)
    before = waiting()
    v = box("RS-25", kind, count, options=["--memory", "64M"])
    assert v.escaped or v.run.state == "oom", v
    assert waiting() - before < 500, "the box's connections are on the host"
    with abuse(brig, host, "RS-25", kind, 10 * count, limit=ABUSE):
        neighbour(brig)


FILL_SOCKETS = """
import socket, sys
kept = []

def fill(sock):
    sock.setblocking(False)
    try:
        while True:
            sock.send(b"x" * 1400)
    except OSError:
        kept.append(sock)

server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(300)
for i in range(60):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    sock.connect(server.getsockname())
    kept.append(server.accept()[0])
    fill(sock)
for i in range(400):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    end.bind(("127.0.0.1", 0))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect(end.getsockname())
    kept += [end, sock]
    for j in range(300):
        sock.send(b"x" * 1400)
with open("/proc/net/sockstat") as f:
    pages = [int(line.split()[-1]) for line in f if line.startswith(("TCP:", "UDP:"))]
print(sum(pages) * 4096 >> 20)
"""


@pytest.mark.alone
def test_rs25_socket_buffers_are_memory_of_the_box(brig):
    """The kernel's counters are the host's, so others may add to them."""
    control = subprocess.run(["/usr/bin/python3", "-c", FILL_SOCKETS], stdout=subprocess.PIPE, check=True)
    assert int(control.stdout) > 150
    run = brig.run("python", FILL_SOCKETS, options=["--memory", "64M"])
    if brig.mode == "user":
        assert "sockets" in run.layers["memory_limit"]["detail"], run
        return
    assert run.state == "oom" or (run.state == "finished" and int(run.stdout) < 64), run


def test_rs26_no_proxy(box, outside, canaries):
    """There is no egress proxy yet, so the whole of RS-26 is that nothing answers: not the usual
    proxy ports, nor a server that listens on the host's loopback."""
    port = canaries.tcp4.port
    outside.escaped("RS-26", port)
    canaries.forget()
    box.blocked("RS-26", port, canaries.tcp_any.port, 3128, 8080, 1080, 8118, 8888, 9050, 80, 443)
    canaries.check()


# --- the host's own affairs -----------------------------------------------------------------------

@pytest.mark.alone
def test_rs27_log_flood(brig, box, outside):
    outside.escaped("RS-27", 5)
    before = kernel_log_lines() if os.geteuid() == 0 else 0
    v = box.blocked("RS-27", 20000)
    assert v.run.raw_err == b"", v
    sigsys = "import ctypes, os\nfor i in range(200):\n    if os.fork() == 0:\n" \
             "        ctypes.CDLL(None).syscall(169, 0, 0, 0, 0)\n        os._exit(0)\n    os.wait()\n"
    run = brig.run("python", sigsys)
    assert run.state == "finished" and run.raw_err == b"", run
    if os.geteuid() == 0:
        assert kernel_log_lines() - before < KERNEL_LOG_LINES


@pytest.mark.parametrize("files", [3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 64, 128])
def test_rs28_few_descriptors(brig, files):
    """brig with hardly any descriptors (there is no daemon): it works or says that it cannot."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    run = brig.run("shell", "echo ran", preexec_fn=few)
    if run.state == "finished":
        assert run.status == 0 and run.stdout == "ran\n", run
        return
    assert files < 128 and run.status in (125, 126, 127), run
    assert run.stdout == "" and (run.error.get("cause") or run.raw_err), run


@pytest.mark.needs_root
def test_rs29_clock(box, outside):
    outside.escaped("RS-29")
    box.blocked("RS-29")


def test_rs29_deadlines_are_monotonic(brig, host):
    """No timer of brig or of its launcher is on the clock that an administrator may set."""
    proc = brig.popen(argv_of(brig, host, "PK-01", "sleep", 60000, limit="700ms"))
    clocks = set()
    try:
        time.sleep(0.4)
        for pid in [proc.pid, *host.descendants(proc.pid)]:
            for path in glob.glob("/proc/%d/fdinfo/*" % pid):
                with contextlib.suppress(OSError), open(path) as f:
                    clocks.update(line.split()[1] for line in f if line.startswith("clockid:"))
    finally:
        proc.communicate(timeout=10)
    assert proc.returncode == 124 and "0" not in clocks and "8" not in clocks, clocks


@pytest.mark.parametrize("kind", ["thp", "ksm"])
def test_rs30_huge_pages(box, outside, kind):
    outside.escaped("RS-30", kind, 16)
    box.blocked("RS-30", kind, 16)


@pytest.mark.alone
def test_rs31_crashes(brig, box, outside):
    outside.escaped("RS-31", 1)
    before = kernel_log_lines() if os.geteuid() == 0 else 0
    v = box.blocked("RS-31", 2000)
    assert v.detail == "2000 crashes, 0 dumps", v
    assert not glob.glob(os.path.join(brig.work, "core*"))
    assert not [f for f in v.run.json["files"]["created"] if "core" in f["path"]], v
    if os.geteuid() == 0:
        assert kernel_log_lines() - before < KERNEL_LOG_LINES


@pytest.mark.alone
def test_rs32_no_survivor(box, outside):
    """Only a child was too large, but the box is one: all of it ends, soon."""
    outside.escaped("RS-32", 1, "kill")
    v = box("RS-32", 96, options=["--memory", "32M"])
    assert v.result == "silent" and v.run.state == "oom" and v.run.status == 137, v
    assert v.run.usage["wall_ms"] < 900, v


def test_every_id_is_here():
    """The catalogue is complete: RS-01 to RS-32 each name at least one test."""
    with open(__file__) as f:
        text = f.read()
    assert [i for i in range(1, 33) if "def test_rs%02d" % i not in text] == []
