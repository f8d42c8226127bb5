# SPDX-License-Identifier: Apache-2.0
"""LL: Landlock."""
import contextlib
import ctypes
import json
import os
import subprocess

import ablate
import pytest

# Joins namespaces of a process, does something there, says "up" and stays.
JOIN = r"""
import ctypes, os, socket, sys, time
what, pid = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
fds = [os.open("/proc/%d/ns/%s" % (pid, k), os.O_RDONLY) for k in sys.argv[3].split(",")]
for fd in fds:
    if libc.setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
if what == "listen":
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + sys.argv[4]); s.listen(8)
else:
    # The code's uid before the box can see us: only the domain may stand between.
    os.setresgid(1000, 1000, 1000); os.setresuid(1000, 1000, 1000)
    if os.fork() != 0:
        os.wait(); os._exit(0)
print("up", flush=True); time.sleep(20)
"""


DOMAIN = ["landlock", "landlock_scopes"]


@contextlib.contextmanager
def intruder(what, pid, kinds, *args):
    """A process of the host in some namespaces of a box, but not in its Landlock domain."""
    proc = subprocess.Popen(["/usr/bin/python3", "-c", JOIN, what, str(pid), kinds, *args],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        # Whoever is seen in a box may end with it before a word: its trace is in the probe's report.
        assert proc.stdout.readline() == b"up\n" or what == "stay"
        yield proc
    finally:
        for pid in ablate.below(proc.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        proc.kill()
        proc.wait()
        proc.stdout.close()


def run_with_intruder(brig, host, without, probe_args, what, kinds, *args):
    """Runs a probe that waits for an intruder; returns its verdict and its report."""
    if without:
        argv = ablate.weak_argv(brig, without, *probe_args)
    else:
        argv = brig.argv("shell", "-c", 'exec ./probe "$@"',
                         options=["--timeout", "10s", "--file", host.probe + ":probe"]) + ["--", *probe_args]
    proc = brig.popen(argv)
    try:
        live = ablate.wait_for_code(proc, "probe")
        with intruder(what, live.init, kinds, *args):
            out, _ = proc.communicate(timeout=20)
    finally:
        if proc.poll() is None:
            proc.kill()
        if not proc.stdout.closed:
            proc.communicate()
    return ablate.said_in(json.loads(out.decode()))


def test_ll_01_rules_hold_without_the_filter(brig, box, outside):
    box.blocked("LL-01")
    ablate.WeakBox(brig, "seccomp").blocked("LL-01")
    # What the rules add to the mounts: without them a write below /proc succeeds.
    assert ablate.WeakBox(brig, "landlock")("LL-01").escaped
    outside.escaped("LL-01")


def test_ll_02_no_abstract_socket_outside_of_the_domain(brig, box, outside, canaries, host):
    v = box.blocked("LL-02", canaries.abstract_name)
    assert "connect=ECONNREFUSED" in v.detail, v  # the network namespace
    outside.escaped("LL-02", canaries.abstract_name)
    canaries.forget()
    # A listener in the box's own network namespace, out of its domain.
    name = "intruder-%d" % os.getpid()
    kinds = "net" if host.is_root else "user,net"
    said = run_with_intruder(brig, host, [], ["LL-02", name, "wait"], "listen", kinds, name)
    assert said[0] == "blocked" and "connect=EPERM" in said[1], said
    said = run_with_intruder(brig, host, DOMAIN, ["LL-02", name, "wait"], "listen", kinds, name)
    assert said[0] == "escaped" and "connect=ok" in said[1], said


def test_ll_03_no_signal_outside_of_the_domain(brig, outside, host):
    said = run_with_intruder(brig, host, [], ["LL-03", "wait"], "stay", "user,pid")
    assert said[0] == "blocked" and "refused=1" in said[1], said
    said = run_with_intruder(brig, host, DOMAIN, ["LL-03", "wait"], "stay", "user,pid")
    assert said[0] == "escaped", said
    outside.escaped("LL-03", os.getpid())


def test_ll_03_init_cannot_be_signalled(brig):
    run = brig.run("python", "import os\nfor s in (0, 9, 15, 19):\n try: os.kill(1, s); print('sent', s)\n"
                   " except PermissionError: print('no')")
    assert run.stdout == "no\n" * 4, run


def test_ll_04_tcp_is_denied_without_a_network(brig, box, outside):
    v = box.blocked("LL-04", options=["--network", "none"])
    assert "bind=EACCES" in v.detail and "connect=EACCES" in v.detail, v
    # With loopback both work, in the box.
    v = box("LL-04")
    assert "bind=ok" in v.detail and "connect=ok" in v.detail, v
    outside.escaped("LL-04")


@pytest.mark.parametrize("a, b", [("/workspace", "/tmp"), ("/tmp", "/workspace"), ("/tmp", "/dev/shm")])
def test_ll_05_files_stay_in_their_hierarchy(box, outside, tmp_path, a, b):
    box.blocked("LL-05", a, b)
    for name in "ab":
        (tmp_path / name).mkdir()
    outside.escaped("LL-05", tmp_path / "a", tmp_path / "b")


# --- LL-06: older kernels -------------------------------------------------------------------------

def kernel_abi():
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)


def with_abi(brig, host, abi, *args, level):
    argv = brig.argv(*args, level=False, options=["--level", level])
    return brig.run_argv([host.probe, "LL-06", "abi", str(abi)] + argv)


def test_ll_06_code_cannot_make_domains(box, outside):
    box.blocked("LL-06")
    outside.escaped("LL-06")


def test_ll_06_each_version_is_enforced_or_refused(brig, host):
    level = "degraded-ok" if brig.mode == "user" else "standard"
    for abi in range(1, kernel_abi() + 1):
        run = with_abi(brig, host, abi, "shell", "-c",
                       "echo token; (echo x > /proc/self/comm) 2>&1 | grep -c 'denied'", level=level)
        if run.refused:
            assert "andlock" in run.error["cause"] and run.stdout == "", run
            continue
        assert run.state == "finished" and run.stdout == "token\n1\n", run
        assert run.layers["landlock"]["enforced"] is True, run
        assert str(abi) in run.layers["landlock"]["detail"], run
        assert run.layers["landlock_scopes"]["enforced"] is (abi >= 6), run


def test_ll_06_strict_needs_the_scopes(brig, host):
    for abi in (1, 5):
        run = with_abi(brig, host, abi, "shell", "-c", "echo token", level="strict")
        assert run.refused and run.stdout == "", run
        if brig.mode == "root":
            assert "andlock" in run.error["cause"], run


def test_ll_06_no_landlock_at_all(brig, host):
    deny = os.path.join(host.build, "tests", "lib", "deny_syscall")
    for errno in ("ENOSYS", "EOPNOTSUPP"):
        shim = [deny, "landlock_create_ruleset:" + errno, "--"]
        if brig.mode == "root":
            run = brig.run_argv(shim + brig.argv("shell", "-c", "echo token"))
            assert run.refused and run.error["code"] == "unsupported", run
            assert "andlock" in run.error["cause"] and run.stdout == "", run
        run = brig.run_argv(shim + brig.argv("shell", "-c", "echo token", level=False,
                                             options=["--level", "degraded-ok"]))
        assert run.state == "finished" and run.stdout == "token\n", run
        assert run.layers["landlock"]["enforced"] is False, run
        assert run.layers["seccomp"]["enforced"] is True, run
        assert run.receipt["level_achieved"] == "degraded-ok", run
