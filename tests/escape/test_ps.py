# SPDX-License-Identifier: Apache-2.0
"""PS: procfs, sysfs, devices, terminals."""
import glob
import os
import shutil
import signal
import subprocess
import time

import pytest

WEAK_MOUNTS = ["unshare", "-m", "--"] if os.geteuid() == 0 else ["unshare", "-Urm", "--"]
SETTINGS = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname", "kernel/panic",
            "kernel/randomize_va_space", "kernel/shmmax", "vm/overcommit_memory", "fs/file-max",
            "net/ipv4/ip_forward", "net/ipv4/ip_unprivileged_port_start", "user/max_user_namespaces",
            "user/max_net_namespaces", "user/max_mnt_namespaces")


def settings():
    found = {}
    for name in SETTINGS:
        try:
            with open("/proc/sys/" + name) as f:
                found[name] = f.read()
        except OSError as e:
            found[name] = e.errno
    return found


def test_PS_01_machine_state_is_masked(box, outside):
    box.blocked("PS-01")
    outside.escaped("PS-01")


def test_PS_02_settings_cannot_be_written(box, outside):
    before = settings()
    box.blocked("PS-02")
    assert settings() == before
    outside.escaped("PS-02")
    assert settings() == before


def test_PS_02_settings_cannot_be_written_by_a_shell(brig):
    before = settings()
    code = ("for f in %s; do echo 7 2>/dev/null > /proc/sys/$f && echo WROTE $f; done;"
            "echo b 2>/dev/null > /proc/sysrq-trigger && echo WROTE sysrq; exit 0" % " ".join(SETTINGS))
    run = brig.run("shell", code)
    assert run.status == 0 and run.stdout == "", run
    assert settings() == before


def test_PS_03_only_own_processes(box, outside):
    pids = [p for p in (os.getpid(), os.getppid()) if p > 100]
    assert pids
    box.blocked("PS-03", *pids)
    outside.escaped("PS-03", *pids)


def test_PS_04_nothing_of_init(box, outside):
    box.blocked("PS-04")
    outside.escaped("PS-04")


def test_PS_05_own_text_is_not_a_way_out(box, outside, host, lower):
    before = host.sha256(lower.file)
    box.blocked("PS-05", lower.file)
    outside.escaped("PS-05", lower.file)
    assert host.sha256(lower.file) == before


def test_PS_06_own_settings(box, outside, brig, mode):
    run = brig.run("shell", "cat /proc/self/oom_score_adj")
    assert run.status == 0, run
    start = int(run.stdout)
    # Without privilege the kernel lets a process go back to where brig itself started.
    floor = start if mode == "root" else int(open("/proc/self/oom_score_adj").read())
    assert start >= floor
    box.blocked("PS-06", floor - 1 if floor > -1000 else -1001)
    outside.escaped("PS-06", floor - 1)


def test_PS_07_mounts_and_cgroup_tell_nothing(box, outside, host, canaries, work):
    box.blocked("PS-07", host.root, work, canaries.name, "/sys/fs/cgroup", "upperdir=", "box-", "docker")
    outside.escaped("PS-07", "/sys/fs/cgroup")


def test_PS_08_own_network_only(box, outside, canaries):
    args = [canaries.abstract_name, canaries.tcp4.port]
    box.blocked("PS-08", *args)
    box.blocked("PS-08", *args, options=["--network", "none"])
    outside.escaped("PS-08", *args)


def test_PS_09_what_may_be_known(brig):
    # A documented leak: kernel version, CPUs and memory. Nothing that names the host.
    code = ("for f in cpuinfo meminfo stat loadavg uptime version; do cat /proc/$f 2>/dev/null; done;"
            "uname -n; hostname 2>/dev/null; exit 0")
    run = brig.run("shell", code)
    assert run.status == 0, run
    name = os.uname().nodename
    if len(name) > 3:
        assert name not in run.stdout
    assert run.stdout.split("\n")[-2] == "brig", run
    assert brig.run("javascript", "console.log(os = require('os').cpus().length > 0)").stdout == "true\n"


def test_PS_10_no_sysfs(box, outside):
    box.blocked("PS-10")
    outside.escaped("PS-10")


def test_PS_11_no_other_filesystems(box, outside):
    box.blocked("PS-11")
    outside.escaped("PS-11", weak=WEAK_MOUNTS)


def test_PS_12_exact_devices(box, outside):
    box.blocked("PS-12")
    outside.escaped("PS-12")


def test_PS_13_no_other_devices(box, outside):
    box.blocked("PS-13")
    outside.escaped("PS-13")


def test_PS_14_no_terminal_injection(box, outside):
    box.blocked("PS-14")
    outside.escaped("PS-14", "own")


def test_PS_14_brig_on_a_terminal(box, brig):
    """brig's own stdin and stderr are a terminal; the box gets none of it."""
    master, slave = os.openpty()
    try:
        box.blocked("PS-14", stdin=slave, stderr=slave, start_new_session=True)
        box.blocked("FD-03", stdin=slave, stderr=slave, start_new_session=True)
        box.blocked("FD-12", stdin=slave, stderr=slave, start_new_session=True)
    finally:
        os.close(master)
        os.close(slave)


def test_PS_15_stdio_opened_anew(box, outside, brig):
    box.blocked("PS-15")
    path = brig.path("input", "line\n")
    with open(path, "r+") as f:  # a regular file as brig's stdin does not become the box's
        box.blocked("PS-15", stdin=f)
    with open(path) as f:
        assert f.read() == "line\n"
    outside.escaped("PS-15")


def test_PS_16_own_terminals_only(box, outside):
    pairs = [os.openpty() for _ in range(3)]
    try:
        number = os.path.basename(os.ttyname(pairs[-1][1]))
        assert int(number) >= 1
        box.blocked("PS-16", number)
        outside.escaped("PS-16", number)
    finally:
        for pair in pairs:
            for fd in pair:
                os.close(fd)


def core_files(*places):
    return [p for place in places for p in glob.glob(os.path.join(place, "core*")) if os.path.isfile(p)]


@pytest.mark.alone
def test_PS_17_no_core_file(brig, host, work):
    run = brig.run("shell", "exec ./probe PS-17", files={"probe": host.probe})
    assert run.signal == signal.SIGSEGV and run.status == 128 + signal.SIGSEGV, run
    assert run.stdout in ("core limit 0\n", "core limit 1\n"), run
    run = brig.run("shell", "ulimit -c unlimited; (./probe PS-17); ls; exit 0", files={"probe": host.probe})
    assert run.status == 0 and "core\n" not in run.stdout and "core." not in run.stdout, run
    assert not core_files(work, os.getcwd(), os.path.dirname(host.brig))


@pytest.mark.alone
def test_PS_17_no_core_handler_of_the_host(brig, host, work):
    """A core_pattern that is a pipe starts a program as root of the host; rlimits of 0 do not stop it."""
    if not host.is_root:  # only root can set the pattern; the file half is above
        run = brig.run("shell", "grep core /proc/self/limits")
        assert run.stdout.split()[4:6] in (["0", "0"], ["1", "1"]), run
        return
    name = "crash" + os.path.basename(work)[-8:]
    log = os.path.join(work, "dumped")
    handler = brig.path("handler", "#!/bin/sh\ncase $1 in %s*) echo $1 >> %s;; esac\ncat >/dev/null\n"
                        % (name, log), 0o755)
    crash = os.path.join(work, name)
    shutil.copy(host.probe, crash)
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read()
    try:
        with open("/proc/sys/kernel/core_pattern", "w") as f:
            f.write("|%s %%e" % handler)
        # A limit of exactly 1 stops handlers; code must not get back to 0, which does not.
        for first in ("", "ulimit -c 0 2>/dev/null; ", "ulimit -Sc 0 2>/dev/null; ", "ulimit -c unlimited 2>/dev/null; ",
                      "prlimit --core=0:0 --pid $$ 2>/dev/null; "):
            run = brig.run("shell", first + "exec ./%s PS-17" % name, files={name: crash})
            assert run.signal == signal.SIGSEGV, run
        time.sleep(0.2)
        dumped = os.path.exists(log)
        subprocess.call([crash, "PS-17"], stdout=subprocess.DEVNULL, cwd=work)
        deadline = time.monotonic() + 2
        while not os.path.exists(log) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert os.path.exists(log), "positive control: the handler did not run"
        assert not dumped, "a crash in the box started the host's core handler"
    finally:
        with open("/proc/sys/kernel/core_pattern", "w") as f:
            f.write(pattern)


def test_PS_18_namespaces_cannot_be_climbed(box, outside, host):
    box.blocked("PS-18")
    # Without root, the control needs a namespace that it owns.
    outside.escaped("PS-18", weak=[] if host.is_root else ["unshare", "-Urn", "--"])
