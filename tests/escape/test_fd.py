# SPDX-License-Identifier: Apache-2.0
"""FD: descriptors and the state a program starts with."""
import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

LIST_PYTHON = ("import os\nd = '/proc/self/fd/'\n"  # the listing's own descriptor is gone by the second look
               "print(*sorted(int(f) for f in os.listdir(d) if os.path.lexists(d + f)))")
LIST_SHELL = "cd /proc/self/fd; echo *"  # the glob's own directory is closed before echo prints
LIST_NODE = ("const fs = require('fs'); for (const f of fs.readdirSync('/proc/self/fd')) {"
             "let t = 'gone'; try { t = fs.readlinkSync('/proc/self/fd/' + f) } catch (e) {} "
             "console.log(f, t) }")
# What Node.js itself opens before user code.
NODE_OWN = re.compile(r"(gone|anon_inode:\[(eventpoll|eventfd|io_uring)\]|pipe:\[\d+\]|/dev/null)$")


# A warm box's interpreter has its report beside them, and gives it to no child.
WARM = bool(os.environ.get("BRIG_TEST_WARM"))
OWN = ["0", "1", "2"] + ["3"] * WARM
if WARM:
    NODE_OWN = re.compile(NODE_OWN.pattern[:-1] + r"|socket:\[\d+\]$")


@contextlib.contextmanager
def many_fds(n):
    fds = [os.open("/etc/passwd" if i % 2 else "/", os.O_RDONLY) for i in range(n)]
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def check_languages(brig, **kw):
    run = brig.run("python", LIST_PYTHON, **kw)
    assert run.status == 0 and run.stdout.split() == OWN, run
    run = brig.run("shell", LIST_SHELL, **kw)
    # bash keeps the script itself on 255; it is close-on-exec and a file of the workspace.
    assert run.status == 0 and set(run.stdout.split()) - {"255"} <= {"0", "1", "2", "3"}, run
    run = brig.run("javascript", LIST_NODE, **kw)
    assert run.status == 0, run
    for line in run.stdout.splitlines():
        fd, target = line.split(" ", 1)
        assert NODE_OWN.match(target), "fd %s is %s" % (fd, target)
    assert len(run.stdout.splitlines()) < 40, run


def test_FD_01_three_descriptors(box, outside):
    box.blocked("FD-01")
    with many_fds(1) as fds:
        outside.escaped("FD-01", pass_fds=fds)


def test_FD_01_three_descriptors_in_every_language(brig):
    check_languages(brig)


def test_FD_01_three_descriptors_on_every_path(brig):
    script = brig.path("list.py", LIST_PYTHON)
    run = brig.run_argv(brig.argv(script))
    assert run.stdout.split() == OWN, run
    run = brig.run_argv(brig.argv("-", options=["--lang", "python"]), input=LIST_PYTHON)
    assert run.stdout.split() == OWN, run
    run = brig.run("python", LIST_PYTHON, options=["--stdin", script])
    assert run.stdout.split() == OWN, run
    run = brig.run("python", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r], "
                   "close_fds=False)" % LIST_PYTHON)
    assert run.stdout.split() == ["0", "1", "2"], run


def test_FD_02_five_hundred_inherited_descriptors(box, brig):
    with many_fds(500) as fds:
        box.blocked("FD-01", pass_fds=fds)
        check_languages(brig, pass_fds=fds)


def test_FD_02_closed_stdio(brig):
    """brig started without stdin and stderr must not hand out a file of its own as such."""
    def close():
        os.close(0)
        os.close(2)
    run = brig.run("python", LIST_PYTHON, preexec_fn=close)
    assert run.stdout.split() == OWN, run


def test_FD_03_kinds_of_stdio(box, outside, mode):
    seen = [box.blocked("FD-03") for _ in range(2)]
    inodes = [set(v.detail.split("; ")) for v in seen]
    assert seen[0].result == "refused" or not inodes[0] & inodes[1], "pipes are shared between runs"
    outside.escaped("FD-03")


def test_FD_04_no_socket_to_send_descriptors_to(box, outside):
    box.blocked("FD-04")
    a, b = socket.socketpair()
    with a, b:
        outside.escaped("FD-04", pass_fds=[a.fileno()])


def fd_counts(host):
    found = {}
    for pid, (name, _) in host.descendants().items():
        if name.startswith("brig"):
            with contextlib.suppress(OSError):
                found[pid] = (name, len(os.listdir("/proc/%d/fd" % pid)))
    return found


def test_FD_04_brig_keeps_its_descriptors(brig, host):
    code = ("import socket, array, time\nt = time.time() + 1.5\nn = 0\n"
            "while time.time() < t:\n"
            "  a, b = socket.socketpair()\n"
            "  for i in range(3):\n"
            "    try: a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1] * 200))])\n"
            "    except OSError: break\n"
            "    n += 1\n"
            "  a.close(); b.close()\nprint(n > 10)")
    proc = brig.popen(brig.argv("python", "-c", code))
    counts = []
    deadline = time.monotonic() + 10
    while proc.poll() is None and time.monotonic() < deadline:
        counts.append(fd_counts(host))
        time.sleep(0.1)
    out, err = proc.communicate(timeout=10)
    assert proc.returncode == 0 and b'"stdout":"True\\n"' in out.replace(b'": "', b'":"'), (out, err)
    steady = [c for c in counts[4:-3] if c]
    assert steady, "brig was not seen running"
    assert all(c == steady[0] for c in steady), steady


def test_FD_05_no_forged_credentials(box, outside):
    box.blocked("FD-05", 1000)
    outside.escaped("FD-05")


def test_FD_06_descriptors_in_flight_are_bounded(box, outside, brig):
    box.blocked("FD-06", 4096, limit="10s")
    assert brig.run("shell", "echo fine").stdout == "fine\n"
    outside.escaped("FD-06", 4096, weak=["sh", "-c", 'ulimit -n "$(ulimit -Hn)"; exec "$@"', "sh"])


@pytest.mark.parametrize("code", [
    "exec 0<&- 1>&- 2>&-; exit 7",
    "exec 0<&- 1>&- 2>&- 3>&-; exec /bin/sh -c 'exit 7'",
    "exec 0<&- 1>&- 2>&-; (sleep 0.1; exit 3) & wait; exit 7",
    "exec 0</dev/null 1>/dev/full 2>&1; echo x; exit 7",
])
def test_FD_07_closed_stdio(brig, code):
    run = brig.run("shell", code)
    assert run.status == 7 and run.exit_code == 7 and run.state == "failed", run
    assert run.stdout == "" and run.seconds < 5, run


def test_FD_07_closing_everything_from_python(brig):
    run = brig.run("python", "import os\nprint('before', flush=True)\nos.closerange(0, 1024)\n"
                   "for i in range(5):\n  try: os.close(3)\n  except OSError: pass\nos._exit(7)")
    assert run.exit_code == 7 and run.stdout == "before\n", run


@pytest.mark.parametrize("code", [
    "sleep 60 & echo hi",
    "setsid sleep 60 & echo hi",
    "(setsid sh -c 'sleep 60; sleep 60' &) ; echo hi; exit 0",
    "trap '' HUP TERM; (trap '' HUP TERM; while :; do sleep 1; done) & echo hi",
])
def test_FD_08_a_child_keeps_stdout(brig, code):
    run = brig.run("shell", code, limit="30s")
    assert run.status == 0 and run.stdout == "hi\n", run
    assert run.seconds < 3, run


def brig_programs(host):
    libexec = os.path.join(os.path.dirname(os.path.dirname(host.brig)), "libexec", "brig")
    return [host.brig] + [os.path.join(libexec, n) for n in sorted(os.listdir(libexec))]


def test_FD_09_programs_cannot_be_overwritten(box, outside, host, tmp_path):
    before = {p: host.sha256(p) for p in brig_programs(host)}
    box.blocked("FD-09")
    assert {p: host.sha256(p) for p in before} == before
    copy = str(tmp_path / "copy")
    shutil.copy(host.probe, copy)
    outside.escaped("FD-09", copy)


def test_FD_10_any_program_is_confined(box, outside, brig):
    box.blocked("FD-10")
    outside.escaped("FD-10")
    show = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t' | tr '\\n' ' '"
    want = "CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2 "
    for how in ("sh -c \"$S\"", "/lib64/ld-linux-x86-64.so.2 /bin/sh -c \"$S\"", "cp /bin/sh /tmp/x; /tmp/x -c \"$S\"",
                "printf '#!/usr/bin/env sh\\n%s\\n' \"$S\" > s; chmod +x s; ./s"):
        run = brig.run("shell", "export S=%s; %s" % (_quote(show), how))
        assert run.stdout == want, (how, run)


def _quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _pidns(pid):
    with contextlib.suppress(OSError):
        return os.readlink("/proc/%d/ns/pid" % pid)
    return None


def _parent(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def test_FD_11_nobody_joins_the_box(brig, host):
    """Every process of the box descends from its init; the host's processes stay outside."""
    own = os.readlink("/proc/self/ns/pid")
    proc = brig.popen(brig.argv("shell", "-c", "for i in 1 2 3 4 5 6; do sleep 0.1; done"))
    inits, samples = set(), 0
    while proc.poll() is None:
        table = {pid: _pidns(pid) for pid in host.descendants()}
        for pid, ns in table.items():
            if ns in (None, own):
                continue
            with contextlib.suppress(OSError):
                parent = _parent(pid)
                if table.get(parent, own) == own:
                    inits.add(pid)
                else:
                    assert table[parent] == ns, "a process with a parent in another box"
                samples += 1
        time.sleep(0.02)
    out, err = proc.communicate(timeout=10)
    assert proc.returncode == 0, (out, err)
    assert samples > 3
    assert len(inits) == 1, "processes came into the box from outside: %s" % inits


def spoil():
    """A process state that nobody should inherit."""
    for s in (signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM, signal.SIGCHLD})
    os.umask(0)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_FD_12_nothing_of_the_callers_state(box, outside):
    box.blocked("FD-12")
    box.blocked("FD-12", preexec_fn=spoil)
    v = outside.escaped("FD-12", preexec_fn=spoil)
    for what in ("blocked signals", "ignored signals", "umask 0", "timer"):
        assert what in v.detail, v


def test_FD_12_limits_are_the_documented_ones(brig):
    code = "sed -n 's/^Max core file size *\\([^ ]*\\) .*/\\1/p' /proc/self/limits; ulimit -Hn; ulimit -n; ulimit -Hl; ulimit -Hr; ulimit -Hq; nice"

    def lower_limits():
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 23))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 1 << 16))
    run = brig.run("shell", code, options=["--open-files", "200"])
    core, hard, soft, _, rtprio, queue, nice = run.stdout.split()
    assert core in ("0", "1") and hard == soft == "200" and rtprio == "0" and queue == "0" and nice == "0", run
    again = brig.run("shell", code, options=["--open-files", "200"], preexec_fn=lower_limits)
    assert again.status == 0 and again.stdout.split()[:3] == [core, "200", "200"], again


def test_FD_12_a_signal_reaches_the_default_action(brig):
    run = brig.run("shell", "kill -PIPE $$; echo survived", preexec_fn=spoil)
    assert run.signal == signal.SIGPIPE and run.stdout == "", run


def test_FD_12_ignored_signals_of_the_caller_do_not_confuse_brig(brig):
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGALRM):
        run = brig.run("shell", "exit 7", preexec_fn=lambda: signal.signal(number, signal.SIG_IGN))
        assert run.status == 7 and run.exit_code == 7, (number, run)


def test_FD_positive_control_of_the_leak_check(host):
    """The leak check itself has teeth: it finds an orphan of an orphan."""
    subprocess.check_call(["sh", "-c", "(setsid sleep 5 &)"])
    deadline = time.monotonic() + 2
    found = []
    while not found and time.monotonic() < deadline:
        found = [p for p, (n, _) in host.descendants().items() if n == "sleep"]
    assert found
    for pid in found:
        os.kill(pid, signal.SIGKILL)
