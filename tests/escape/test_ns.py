# SPDX-License-Identifier: Apache-2.0
"""NS: namespaces and the mount API."""
import contextlib
import ctypes
import os
import socket
import subprocess

import ablate
import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_RMID = 0o1000, 0


def test_ns_01_every_namespace_is_its_own(brig, box, outside):
    kinds = list(ablate.NAMESPACES)
    v = box("NS-01", *ablate.host_namespaces(kinds))
    if brig.mode == "user" and not v.run.layers["time_namespace"]["enforced"]:
        kinds.remove("time")  # said so in the receipt
    box.blocked("NS-01", *ablate.host_namespaces(kinds))
    outside.escaped("NS-01", *ablate.host_namespaces(kinds))


def test_ns_01_boxes_do_not_share_namespaces(brig):
    with ablate.live_box(brig) as a, ablate.live_box(brig) as b:
        for kind in ablate.NAMESPACES:
            if kind == "time" and brig.mode == "user":
                continue
            links = [os.readlink("/proc/%d/ns/%s" % (p, kind)) for p in (os.getpid(), a.code, b.code)]
            assert len(set(links)) == 3, (kind, links)


def test_ns_02_no_new_namespaces(box, outside):
    v = box.blocked("NS-02")
    assert "unshare=EPERM" in v.detail and "clone3=ENOSYS" in v.detail, v
    outside.escaped("NS-02")


def own_names(host):
    """For the controls: a user who is not root is root of his own host name, at least."""
    return () if host.is_root else ["unshare", "-Uru", "--"]


def test_ns_03_no_setns(box, outside, host):
    box.blocked("NS-03")
    outside.escaped("NS-03", weak=own_names(host))


def test_ns_04_no_mount_api(box, outside):
    v = box.blocked("NS-04")
    assert "statmount=ENOSYS" in v.detail and "listmount=ENOSYS" in v.detail, v
    assert "=EINVAL" not in v.detail, v
    outside.escaped("NS-04")


def test_ns_05_mounts_are_refused_without_the_filter(brig, outside):
    v = ablate.WeakBox(brig, "seccomp").blocked("NS-05")
    assert "mount(tmpfs)=EPERM" in v.detail, v
    outside.escaped("NS-05")


def test_ns_06_mounts_are_refused_with_capabilities(brig, outside):
    """What is kept is the bounding set: a program of a user other than root loses the others by exec."""
    weak = ablate.WeakBox(brig, "seccomp", "no_capabilities")
    assert weak("CP-01").escaped, "the capabilities are still gone"
    weak.blocked("NS-06")
    outside.escaped("NS-06")


LIMITS = r"""
import ctypes, os, sys
fd = os.open("/proc/%s/ns/user" % sys.argv[1], os.O_RDONLY)
if ctypes.CDLL(None, use_errno=True).setns(fd, 0) != 0:
    raise OSError(ctypes.get_errno(), "setns")
for kind in sys.argv[2:]:
    print(open("/proc/sys/user/max_%s_namespaces" % kind).read().strip())
"""


def test_ns_07_the_number_of_namespaces_is_zero(brig, box, outside):
    box.blocked("NS-07")
    # The limit alone holds, too.
    v = ablate.WeakBox(brig, "seccomp").blocked("NS-07")
    assert "unshare=ENOSPC" in v.detail, v
    assert ablate.WeakBox(brig, "seccomp", "no_new_namespaces")("NS-07").escaped
    outside.escaped("NS-07")
    with ablate.live_box(brig) as live:
        out = subprocess.run(["/usr/bin/python3", "-c", LIMITS, str(live.init), *ablate.NAMESPACES],
                             stdout=subprocess.PIPE, check=True).stdout
    assert out.decode().split() == ["0"] * len(ablate.NAMESPACES)


def test_ns_08_processes_of_the_host_cannot_be_signalled(box, outside):
    canary = subprocess.Popen(
        ["/usr/bin/python3", "-c", "import signal, time\n"
         "signal.signal(signal.SIGURG, lambda *a: exit(9))\nprint('up', flush=True)\ntime.sleep(60)"],
        stdout=subprocess.PIPE)
    try:
        assert canary.stdout.readline() == b"up\n"
        box.blocked("NS-08", canary.pid, "all")
        assert canary.poll() is None, "the canary was hit"
        outside.escaped("NS-08", canary.pid)
        assert canary.wait(5) is not None
    finally:
        canary.kill()
        canary.wait()
        canary.stdout.close()


@contextlib.contextmanager
def ipc_objects():
    key = 0x5ca90000 | (os.getpid() & 0xffff)
    name = b"/canary-%d" % os.getpid()
    ids = [LIBC.shmget(key, 4096, IPC_CREAT | 0o666), LIBC.semget(key, 1, IPC_CREAT | 0o666),
           LIBC.msgget(key, IPC_CREAT | 0o666)]
    queue = LIBC.mq_open(name, os.O_CREAT | os.O_RDWR, 0o666, None)
    try:
        assert min(ids) >= 0 and queue >= 0, (ids, queue, ctypes.get_errno())
        yield key, name.decode().lstrip("/")
    finally:
        LIBC.shmctl(ids[0], IPC_RMID, None)
        LIBC.semctl(ids[1], 0, IPC_RMID)
        LIBC.msgctl(ids[2], IPC_RMID, None)
        LIBC.close(queue)
        LIBC.mq_unlink(name)


def test_ns_09_no_ipc_objects_of_the_host(brig, box, outside):
    with ipc_objects() as (key, queue):
        v = box.blocked("NS-09", key, queue)
        assert "shmget=ENOSYS" in v.detail, v
        # The namespace alone holds, too.
        v = ablate.WeakBox(brig, "seccomp", "launcher_filter").blocked("NS-09", key, queue)
        assert "shmget=ENOENT" in v.detail, v
        outside.escaped("NS-09", key, queue)


def test_ns_10_the_host_name_stays(box, outside, host):
    before = socket.gethostname()
    v = box.blocked("NS-10")
    assert "nodename=brig" in v.detail, v
    outside.escaped("NS-10", weak=own_names(host))
    assert socket.gethostname() == before


@pytest.mark.needs_root
def test_ns_10_the_domain_name_stays_outside(brig, host):
    """Of whoever starts brig: here in a namespace with a name that is worth something."""
    named = ["unshare", "-u", "--", "sh", "-c", 'printf %s "$0" >/proc/sys/kernel/domainname && exec "$@"', "corp.test"]
    look = "cat /proc/sys/kernel/domainname"
    assert subprocess.run(named + ["sh", "-c", look], stdout=subprocess.PIPE, check=True).stdout == b"corp.test\n"
    run = brig.run_argv(named + brig.argv("shell", "-c", look))
    assert run.stdout == "(none)\n", run


def test_ns_11_no_cgroup_file_system(box, outside):
    box.blocked("NS-11")
    outside.escaped("NS-11")


NESTED = ["unshare -Ur true", "unshare -m true", "unshare -p -f true", "unshare -n true", "/usr/sbin/chroot / true",
          "nsenter -t 1 -m true", "nsenter -t 1 -U true", "setpriv --reuid 0 true"]


def test_ns_12_a_sandbox_in_the_box_fails_cleanly(brig, box, outside):
    commands = NESTED + (["bwrap --ro-bind / / true", "bwrap --unshare-all --ro-bind / / true"]
                         if os.path.exists("/usr/bin/bwrap") else [])
    code = "\n".join("%s >/dev/null 2>err; echo \"$? $(head -c 200 err | tr '\\n' ' ')\"" % c for c in commands)
    run = brig.run("shell", code)
    lines = run.stdout.splitlines()
    assert len(lines) == len(commands), run
    for command, line in zip(commands, lines):
        assert line.split()[0] not in ("0", "139", "134"), (command, line)
        assert "ermission" in line or "permitted" in line or "nvalid" in line or "such file" in line, \
            (command, line)
    box.blocked("NS-12")
    outside.escaped("NS-12")


def test_ns_12_brig_in_the_box_refuses(brig, host):
    launcher = os.path.join(os.path.dirname(os.path.dirname(host.brig)), "libexec", "brig", "brig-launch")
    run = brig.run("shell", "./bin/brig run shell -c 'echo NES''TED' --level degraded-ok; echo status=$?",
                   files={"bin/brig": host.brig, "libexec/brig/brig-launch": launcher})
    assert run.state == "finished", run
    assert "NESTED" not in run.stdout, run
    assert "status=125" in run.stdout or "status=126" in run.stdout, run


def test_ns_13_the_clocks_stay(box, outside):
    v = box.blocked("NS-13")
    assert "clock_settime=EPERM" in v.detail, v
    outside.escaped("NS-13")


@pytest.mark.parametrize("kind", ["net", "mnt", "pidfd", "socket"])
def test_ns_14_no_descriptor_leads_out(brig, box, outside, kind):
    with contextlib.ExitStack() as stack:
        if kind == "pidfd":
            fd = os.pidfd_open(os.getpid())
            stack.callback(os.close, fd)
        elif kind == "socket":
            pair = socket.socketpair()
            for s in pair:
                stack.callback(s.close)
            fd = pair[0].fileno()
        else:
            fd = os.open("/proc/self/ns/" + kind, os.O_RDONLY)
            stack.callback(os.close, fd)
        # brig itself has it; the box must not.
        box.blocked("NS-14", pass_fds=[fd])
        v = outside.escaped("NS-14", pass_fds=[fd])
        assert "fd %d is" % fd in v.detail, v
