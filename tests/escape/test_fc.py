# SPDX-License-Identifier: Apache-2.0
"""FC: whatever is missing or goes wrong, code runs in the whole box or does not run."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import ablate
import pytest

TOKEN = "ran-7e91"
# Split, so that an echo of the request is not taken for the code having run.
CODE = "echo ran-'7e91'; echo ran-'7e91' > trace; grep -h '^Seccomp:\\|^NoNewPrivs:\\|^CapEff:' /proc/self/status"
CONFINED = {"Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"}
EVERYWHERE = ["user_namespace", "mount_namespace", "pid_namespace", "network_namespace", "ipc_namespace",
              "uts_namespace", "cgroup_namespace", "read_only_root", "proc_masks", "no_new_namespaces",
              "rlimits", "no_capabilities", "no_new_privs", "launcher_filter", "seccomp"]


def deny_argv(host, argv, *specs):
    """Puts deny_syscall in front of brig itself, behind what changes the user."""
    i = argv.index(host.brig)
    deny = os.path.join(host.build, "tests", "lib", "deny_syscall")
    return argv[:i] + [deny, *specs, "--"] + argv[i:]


def traced_argv(brig, level=True, options=()):
    trace = brig.path("trace")
    if os.path.exists(trace):
        os.unlink(trace)
    return brig.argv("shell", "-c", CODE, level=level,
                     options=["--timeout", "10s", "--out", "trace:" + trace, *options])


def check_whole_or_nothing(brig, run, reason=None):
    """True if the code ran, in a whole box; False if it did not and brig said why."""
    trace = brig.path("trace")
    if run.state in ("finished", "failed") and run.json["exit_code"] is not None:
        assert run.state == "finished" and TOKEN in run.stdout, run
        assert set(run.stdout.splitlines()) == CONFINED | {TOKEN}, run
        assert run.receipt["verified"] is True, run
        for name in EVERYWHERE:
            assert run.layers[name]["enforced"] is True, (name, run)
        for name, layer in run.layers.items():
            assert layer["enforced"] or not layer["required"], (name, run)
        return True
    assert TOKEN not in run.raw_out.decode() and not os.path.exists(trace), run
    assert run.status in (125, 126), run
    said = run.error.get("cause") or run.raw_err.decode(errors="replace")
    assert said.strip(), run
    if reason:
        assert re.search(reason, json.dumps(run.error) + run.raw_err.decode(errors="replace"), re.I), run
    return False


def test_fc_01_the_control_runs(brig):
    assert check_whole_or_nothing(brig, brig.run_argv(traced_argv(brig)))


# Feature → what is refused, whether brig can do without, and what its reason must name.
FEATURES = {
    "user namespaces": (["userns:EPERM"], False, "namespace"),
    "user namespaces, used up": (["userns:ENOSPC"], False, "namespace"),
    "all namespaces": (["namespaces:EPERM"], False, "namespace"),
    "unshare": (["unshare:EPERM"], None, "namespace|unshare"),
    "seccomp": (["seccomp:ENOSYS"], False, "seccomp"),
    "seccomp, refused": (["seccomp:EINVAL"], False, "seccomp"),
    "clone3": (["clone3:ENOSYS"], True, None),
    "clone3, refused": (["clone3:EPERM"], None, "namespace|clone|start .*brig-launch"),
    "openat2": (["openat2:ENOSYS"], None, "openat2|open|not implemented"),
    "pidfd_open": (["pidfd_open:ENOSYS"], True, None),
    "pidfd_open and clone3": (["pidfd_open:ENOSYS", "clone3:ENOSYS"], None, "pidfd|clone|namespace|not impl"),
    "close_range": (["close_range:ENOSYS"], None, "close_range"),
    "new mount API": (["open_tree,move_mount,fsopen,fsconfig,fsmount,mount_setattr:ENOSYS"], None, "mount|tree|fsopen"),
    "mount_setattr": (["mount_setattr:ENOSYS"], None, "mount"),
    "pivot_root": (["pivot_root:EPERM"], False, "pivot"),
    "keyrings": (["keyctl:ENOSYS"], None, "keyring"),
    "capset": (["capset:EPERM"], False, "capabilit"),
    "memfd": (["memfd_create:ENOSYS"], None, "memfd"),
}


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_fc_01_a_feature_is_absent(brig, host, feature):
    specs, can, reason = FEATURES[feature]
    ran = check_whole_or_nothing(brig, brig.run_argv(deny_argv(host, traced_argv(brig), *specs)), reason)
    assert can is None or ran is can, "ran: %s" % ran
    # Asking for less does not give up what every level needs.
    argv = traced_argv(brig, level=False, options=["--level", "degraded-ok"])
    ran = check_whole_or_nothing(brig, brig.run_argv(deny_argv(host, argv, *specs)), reason)
    assert can is None or ran is can, "ran: %s" % ran


def test_fc_01_no_cgroups(brig, host):
    if brig.mode == "user":
        run = brig.run_argv(traced_argv(brig, level=False))
        assert run.status == 126 and run.error["code"] == "unsupported", run
        assert check_whole_or_nothing(brig, run, "cgroup") is False
        assert "degraded-ok" in run.error["remedy"], run
        return
    # Root on a host without a cgroup file system.
    argv = ["unshare", "-m", "--", "sh", "-c",
            "umount -l /sys/fs/cgroup && exec \"$@\"", "sh"] + traced_argv(brig)
    run = brig.run_argv(argv)
    assert check_whole_or_nothing(brig, run, "cgroup") is False and run.status == 126, run
    argv = argv[:6] + ["sh"] + traced_argv(brig, level=False, options=["--level", "degraded-ok"])
    run = brig.run_argv(argv)
    assert check_whole_or_nothing(brig, run) and run.layers["memory_limit"]["enforced"] is False, run


def test_fc_01_read_only_cgroups(brig):
    if brig.mode == "user":
        # No right to write is what an ordinary user has anyway.
        run = brig.run_argv(traced_argv(brig, level=False, options=["--level", "standard"]))
        assert check_whole_or_nothing(brig, run, "cgroup") is False and run.status == 126, run
        return
    script = "for m in $(awk '$5 ~ \"^/sys/fs/cgroup/\" {print $5}' /proc/self/mountinfo); do " \
             "mount -o remount,bind,ro $m; done; exec \"$@\""
    run = brig.run_argv(["unshare", "-m", "--", "sh", "-c", script, "sh"] + traced_argv(brig))
    assert check_whole_or_nothing(brig, run, "cgroup") is False and run.status == 126, run


# --- FC-02 ----------------------------------------------------------------------------------------

NS_LAYERS = {"user": "user_namespace", "mnt": "mount_namespace", "pid": "pid_namespace",
             "net": "network_namespace", "ipc": "ipc_namespace", "uts": "uts_namespace",
             "cgroup": "cgroup_namespace", "time": "time_namespace"}


def read_all(path):
    with open(path) as f:
        return f.read()


def cgroup_value(pid, controller, name):
    """A file of the cgroup that a process is in, by way of the host's mounts."""
    for line in read_all("/proc/%d/cgroup" % pid).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") or controllers == "":
            base = "/sys/fs/cgroup" if controllers == "" else "/sys/fs/cgroup/" + controllers
            full = base + path + "/" + name
            if os.path.exists(full):
                return read_all(full).strip()
    return None


def facts_of(live):
    code = "/proc/%d/" % live.code
    facts = {
        "status": ablate.status_of(live.code), "init": ablate.status_of(live.init),
        "ns": {k: os.stat(code + "ns/" + k).st_ino for k in NS_LAYERS},
        "uid_map": read_all(code + "uid_map").split(),
        "cgroup": read_all(code + "cgroup"), "limits": read_all(code + "limits"),
        "mounts": [l.split() for l in read_all(code + "mountinfo").splitlines()],
        "memory": cgroup_value(live.code, "memory", "memory.limit_in_bytes")
        or cgroup_value(live.code, "memory", "memory.max"),
        "pids": cgroup_value(live.code, "pids", "pids.max"),
        "quota": cgroup_value(live.code, "cpu", "cpu.cfs_quota_us"),
        "period": cgroup_value(live.code, "cpu", "cpu.cfs_period_us"),
        "oom": read_all(code + "oom_score_adj").strip(),
    }
    return facts


def test_fc_02_the_receipt_is_true(brig, host):
    proc = brig.popen(brig.argv("shell", "-c", "exec sleep 0.8",
                                options=["--memory", "96M", "--pids", "33", "--cpus", "0.5", "--open-files", "77"]))
    live = ablate.wait_for_code(proc, "sleep")
    facts = facts_of(live)
    out, err = proc.communicate(timeout=20)
    result = json.loads(out.decode())
    layers = {l["name"]: l for l in result["receipt"]["layers"]}
    said = {name: l["enforced"] for name, l in layers.items()}
    st, init = facts["status"], facts["init"]

    assert result["receipt"]["verified"] is True
    for kind, layer in NS_LAYERS.items():
        own = os.stat("/proc/self/ns/" + kind).st_ino
        assert said[layer] == (facts["ns"][kind] != own), (layer, facts["ns"])
        if said[layer]:
            assert str(facts["ns"][kind]) in layers[layer]["detail"], layers[layer]
    own = int(ablate.status_of(os.getpid())["Seccomp_filters"])
    assert said["seccomp"] and st["Seccomp"] == "2" and int(st["Seccomp_filters"]) == own + 2
    assert said["launcher_filter"] and int(init["Seccomp_filters"]) == own + 1
    assert said["no_new_privs"] and st["NoNewPrivs"] == "1" and init["NoNewPrivs"] == "1"
    for s in (st, init):
        assert all(int(s[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert said["no_capabilities"]
    assert said["separate_init_uid"] == (st["Uid"] != init["Uid"])
    assert st["Groups"].strip() in ("", st["Gid"].split()[0])
    assert "0" not in facts["uid_map"][0::3] and "0" not in facts["uid_map"][1::3], facts["uid_map"]
    assert said["rlimits"] and re.search(r"Max open files +77 +77", facts["limits"])
    # One byte: no file can be that small, and unlike 0 it also holds a piped handler of the host back.
    assert re.search(r"Max core file size +[01] +[01] ", facts["limits"])
    root = [m for m in facts["mounts"] if m[4] == "/"]
    assert said["read_only_root"] and len(root) == 1 and "ro" in root[0][5].split(","), root
    assert said["proc_masks"] and any(m[4].startswith("/proc/") for m in facts["mounts"])
    assert all("nosuid" in m[5].split(",") for m in facts["mounts"]), facts["mounts"]
    boxed = "/brig/box-" in facts["cgroup"]
    for name in ("memory_limit", "pids_limit", "cpu_limit"):
        assert said[name] == boxed == (brig.mode == "root"), (name, facts["cgroup"])
    if boxed:
        assert facts["memory"] == str(96 << 20) and facts["pids"] == "34", facts
        assert int(facts["quota"]) * 2 == int(facts["period"]), facts
    # The level follows from the layers and nothing else.
    required = [n for n, l in layers.items() if l["required"]]
    assert all(said[n] for n in required), (required, said)
    if not all(said.values()):
        assert result["receipt"]["level_achieved"] != "strict", result["receipt"]
    if not boxed:
        assert result["receipt"]["level_achieved"] == "degraded-ok", result["receipt"]


def test_fc_02_the_receipt_names_the_filter(brig):
    runs = [brig.run("shell", "true"), brig.run("python", "pass")]
    profiles = {r.receipt["seccomp_profile"] for r in runs}
    assert len(profiles) == 1 and re.match(r"^(sha256:)?[0-9a-f]{64}$", profiles.pop()), runs


# --- FC-03, FC-04 ---------------------------------------------------------------------------------

BAD = [["--no-seccomp"], ["--unsafe"], ["--privileged"], ["--without", "seccomp"], ["--disable", "landlock"],
       ["--level", "none"], ["--level", ""], ["--level", "STANDARD"], ["--level"], ["--network", "host"],
       ["--network", "all"], ["--memory", "0"], ["--memory", "-1"], ["--memory", "1Z"], ["--memory", "unlimited"],
       ["--timeout", "0"], ["--timeout", "-1s"], ["--timeout", "nan"], ["--pids", "0"], ["--pids", "max"],
       ["--cpus", "0"], ["--cpus", "inf"], ["--open-files", "0"], ["--disk", "0"], ["--inodes", "0"],
       ["--output", "0"], ["--file-size", "0"], ["--cpu-time", "0"], ["--env", "=x"], ["--env", "A"],
       ["--env", "A B=1"], ["--file", "/etc/hostname"], ["--file", "/etc/hostname:../x"],
       ["--file", "/etc/hostname:/etc/x"], ["--lang", "cobol"], ["--leve", "strict"], ["--user", "0"],
       ["--cap-add", "SYS_ADMIN"], ["--seccomp", "unconfined"], ["--mount", "/:/x"], ["-v", "/:/x"],
       ["--memory", "99999999999999999999"], ["--timeout", "1e400s"]]


@pytest.mark.parametrize("bad", BAD, ids=[" ".join(b) for b in BAD])
def test_fc_03_what_brig_does_not_know_it_refuses(brig, bad):
    if bad == ["--level"]:
        argv = traced_argv(brig, level=False) + bad
    else:
        argv = traced_argv(brig, level=bad[0] != "--level", options=bad)
    run = brig.run_argv(argv)
    assert run.status == 2, run
    assert TOKEN not in run.raw_out.decode() and not os.path.exists(brig.path("trace")), run
    assert run.error.get("cause") or run.raw_err.strip(), run


def weakening_environment(names=("SECCOMP", "LANDLOCK", "LEVEL", "UNSAFE", "DEBUG", "CAPS", "NAMESPACES", "CGROUP",
                                 "VERIFY", "NETWORK", "LAYERS", "WITHOUT", "REQUIRED", "DEGRADED")):
    env = {}
    for name in names:
        env.update({"BRIG_" + name: "0", "BRIG_NO_" + name: "1", "BRIG_DISABLE_" + name: "1"})
    env.update({"BRIG_LEVEL": "degraded-ok", "BRIG_LAUNCH": "/bin/false", "BRIG_LAUNCHER": "/bin/false",
                "BRIG_LIBEXEC": "/tmp", "BRIG_PROFILE": "none", "BRIG_CONFIG": "/dev/null", "BRIG_ALLOW_DEGRADED": "1"})
    return env


def test_fc_04_no_variable_weakens(brig):
    plain = brig.run_argv(traced_argv(brig))
    assert check_whole_or_nothing(brig, plain)
    run = brig.run_argv(traced_argv(brig), env=weakening_environment())
    assert check_whole_or_nothing(brig, run)
    for name, layer in plain.layers.items():
        assert run.layers[name]["enforced"] == layer["enforced"], name
        assert run.layers[name]["required"] == layer["required"], name
    assert run.receipt["level_required"] == plain.receipt["level_required"]
    if brig.mode == "user":
        # Nor does one lower the level that was not asked to be lower.
        run = brig.run_argv(traced_argv(brig, level=False), env=weakening_environment())
        assert run.status == 126 and check_whole_or_nothing(brig, run, "cgroup") is False


@pytest.mark.parametrize("entry", ["LD_PRELOAD=/workspace/x.so", "LD_AUDIT=/workspace/x.so", "LD_LIBRARY_PATH=/workspace",
                                   "BRIG_LEVEL=none", "BASH_ENV=/workspace/env", "GLIBC_TUNABLES=glibc.malloc.check=3"])
def test_fc_04_no_variable_of_the_code_weakens(brig, entry):
    run = brig.run_argv(traced_argv(brig, options=["--env", entry]))
    if run.status == 2:
        assert TOKEN not in run.raw_out.decode()
    else:
        assert check_whole_or_nothing(brig, run)


def test_fc_04_another_launcher_is_not_taken(brig, host):
    fake = "#!/bin/sh\necho taken > %s\n" % brig.path("taken")
    for place in ("libexec/brig/brig-launch", "bin/brig-launch", "brig-launch", "libexec/brig-launch"):
        brig.path(place, fake, 0o755)
        for top, dirs, _ in os.walk(brig.work):
            for d in dirs:
                brig.own(os.path.join(top, d))
    os.makedirs(brig.path("bin"), exist_ok=True)
    link = brig.path("bin/brig")
    os.symlink(host.brig, link)
    env = {"PATH": "%s:%s:/usr/bin:/bin" % (brig.path("bin"), brig.work)}
    argv = traced_argv(brig)
    i = argv.index(host.brig)
    for first in (host.brig, link, "brig"):
        shutil.rmtree(brig.path("trace"), ignore_errors=True)
        run = brig.run_argv(argv[:i] + ["sh", "-c", 'exec "$0" "$@"', first] + argv[i + 1:], env=env)
        assert not os.path.exists(brig.path("taken")), (first, run)
        assert check_whole_or_nothing(brig, run), run
        os.unlink(brig.path("trace"))


# --- FC-05 ----------------------------------------------------------------------------------------

def test_fc_05_the_weak_box_shows_and_is_not_installed(brig, host):
    # What is left out is missing to whoever looks.
    said = ablate.WeakBox(brig, "seccomp", "launcher_filter")("CP-02")
    assert said.escaped and "Seccomp=0" in said.detail, said
    layers = {l["name"]: l["enforced"] for l in said.receipt["layers"]}
    assert not layers["seccomp"] and not layers["launcher_filter"], said.receipt
    assert said.receipt["level_achieved"] == "none", said.receipt
    # And nobody gets it from an installation.
    installed = os.path.dirname(os.path.dirname(host.brig))
    for top, _, names in os.walk(installed):
        assert not [n for n in names if "weak" in n], (top, names)
        for name in names:
            with open(os.path.join(top, name), "rb") as f:
                assert b"--without" not in f.read(), name


def test_fc_05_the_ablation_matrix_is_made(brig):
    """`make ablate`, for one layer and an attack that needs two, and one that this layer stops."""
    argv = [sys.executable, ablate.__file__, "--layers", "proc_masks", "--ids", "NS-02,PS-01"]
    clean = {k: v for k, v in os.environ.items() if k not in ("BRIG_POLICY", "BRIG_STATE_DIR")}
    run = subprocess.run(argv + (["--user"] if brig.mode == "user" else []), env=clean, timeout=60,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = run.stdout.decode()
    rows = {line.split()[0]: line.split()[-2:] for line in text.splitlines()[:3] if line.split()}
    assert run.returncode == 0 and "verdict: 0 findings" in text, text
    assert rows["proc_masks"] == [".", "E"] and text.splitlines()[1].split()[-2:] == [".", "."], text



# --- FC-06 ----------------------------------------------------------------------------------------

# Only root of something may make namespaces.
AS_ROOT = "-" if os.geteuid() == 0 else "-Ur"


def nested(*script):
    """An argv prefix: a mount namespace of its own, changed by a script."""
    return ["unshare", AS_ROOT + "m", "--propagation", "private", "--", "sh", "-c", " && ".join(script) + ' && exec "$@"', "sh"]


PLACES = {
    "part of /proc is covered": nested("mount -t tmpfs none /proc/sys/kernel"),
    "a file of /proc is covered": nested("mount --bind /dev/null /proc/interrupts"),
    "/proc is read-only": nested("mount -o remount,bind,ro /proc"),
    "/proc is absent": nested("mount -t tmpfs none /proc"),
    "/sys is absent": nested("mount -t tmpfs none /sys"),
    "/dev is nearly empty": nested("mount -t tmpfs none /dev", "touch /dev/null"),
    "/tmp is read-only": nested("mount --bind /tmp /tmp", "mount -o remount,bind,ro /tmp"),
    "no new privileges": ["setpriv", "--no-new-privs", "--"],
    "no CAP_SYS_ADMIN": ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all", "--"],
    "no capability": ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--"],
    "root of a user namespace": ["unshare", "-Ur", "--"],
    "no namespaces left": ["unshare", "-Ur", "--", "sh", "-c",
                           'for f in /proc/sys/user/max_*_namespaces; do echo 0 > $f; done; exec "$@"', "sh"],
    "another pid namespace": ["unshare", AS_ROOT + "pf", "--mount-proc", "--"],
    "a stale /proc": ["unshare", AS_ROOT + "pf", "--"],
    "file descriptors are scarce": ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh"],
    "processes are scarce": ["bash", "-c", 'ulimit -u 1; exec "$@"', "sh"],
    "no address space": ["sh", "-c", 'ulimit -v 20000; exec "$@"', "sh"],
    "no stack": ["sh", "-c", 'ulimit -s 256; exec "$@"', "sh"],
    "closed stdio": ["sh", "-c", 'exec "$@" <&- 2>&-', "sh"],
    "bubblewrap": ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--"],
    "bubblewrap, user namespace": ["bwrap", "--unshare-user", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                                   "--unshare-pid", "--unshare-ipc", "--"],
}


def in_place(argv, host, prefix):
    """What needs root comes before the change of user, the rest behind it."""
    if prefix[0] == "unshare" and not prefix[1].startswith("-U"):
        return prefix + argv
    i = argv.index(host.brig)
    return argv[:i] + prefix + argv[i:]


@pytest.mark.parametrize("place", sorted(PLACES))
def test_fc_06_in_a_narrow_place_it_is_whole_or_nothing(brig, host, place):
    run = brig.run_argv(in_place(traced_argv(brig), host, PLACES[place]))
    assert run.json is not None, run  # else the place was not made, or brig crashed
    if not check_whole_or_nothing(brig, run):
        argv = traced_argv(brig, level=False, options=["--level", "degraded-ok"])
        check_whole_or_nothing(brig, brig.run_argv(in_place(argv, host, PLACES[place])))


# --- FC-07 ----------------------------------------------------------------------------------------

def launcher_of(proc, live):
    path = ablate.status_of(live.init)["PPid"]
    assert int(path) in ablate.below(proc.pid)
    return int(path)


def alive(pid):
    st = ablate.status_of(pid)
    return st is not None and not st["State"].startswith("Z")


def wait_gone(pids, seconds=2.0):
    deadline = time.monotonic() + seconds
    while any(alive(p) for p in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return [p for p in pids if alive(p)]


@pytest.mark.parametrize("victim", ["brig", "launcher", "init", "code"])
def test_fc_07_whoever_is_killed_the_box_ends(brig, victim):
    proc = brig.popen(brig.argv("shell", "-c", "sleep 31 & exec sleep 30", options=["--timeout", "25s"]))
    try:
        live = ablate.wait_for_code(proc, "sleep")
        launcher = launcher_of(proc, live)
        pids = [launcher, live.init, live.code] + ablate.below(live.code)
        os.kill({"brig": proc.pid, "launcher": launcher, "init": live.init, "code": live.code}[victim],
                signal.SIGKILL)
        out, err = proc.communicate(timeout=10)
        assert wait_gone(pids) == []
    finally:
        if proc.poll() is None:
            proc.kill()
            proc.communicate()
    if victim == "brig":
        return
    result = json.loads(out.decode())
    assert result["success"] is False and result["state"] != "finished", result
    assert proc.returncode not in (0, None), result


@pytest.mark.parametrize("victim", ["launcher", "init", "code"])
def test_fc_07_a_stopped_process_does_not_hold_the_box(brig, victim):
    proc = brig.popen(brig.argv("shell", "-c", "exec sleep 30", options=["--timeout", "1s"]))
    stopped = None
    try:
        live = ablate.wait_for_code(proc, "sleep")
        launcher = launcher_of(proc, live)
        stopped = {"launcher": launcher, "init": live.init, "code": live.code}[victim]
        os.kill(stopped, signal.SIGSTOP)
        if victim == "launcher":
            # It has to be let go to clean up, but the code ends in time without it.
            assert wait_gone([live.code], 4.0) == []
            os.kill(stopped, signal.SIGCONT)
        out, err = proc.communicate(timeout=10)
        assert wait_gone([launcher, live.init, live.code]) == []
    finally:
        if stopped and alive(stopped):
            os.kill(stopped, signal.SIGCONT)
        if proc.poll() is None:
            proc.kill()
            proc.communicate()
    assert json.loads(out.decode())["state"] == "timed_out" and proc.returncode == 124, out


def test_fc_07_killed_at_any_moment_of_the_start(brig):
    code = "echo up; exec sleep 30"
    for i in range(24):
        proc = brig.popen(brig.argv("shell", "-c", code, options=["--timeout", "20s"]))
        time.sleep(i * 0.0015)
        seen = ablate.below(proc.pid)
        target = proc.pid if i % 2 == 0 or not seen else seen[0]
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            proc.communicate(timeout=10)
        finally:
            if proc.poll() is None:
                proc.kill()
                proc.communicate()
    # That nothing is left is checked after every test.


def kernel_children(pid):
    """Quick enough to follow a start: one small file instead of all of /proc."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def stop_before_the_word(proc):
    """Stops brig when the code's process has just been forked; that process, or None if late."""
    while proc.poll() is None:
        for launcher in kernel_children(proc.pid):
            for init in kernel_children(launcher):
                for code in kernel_children(init):
                    os.kill(proc.pid, signal.SIGSTOP)
                    time.sleep(0.05)
                    name = (ablate.status_of(code) or {}).get("Name")
                    return code if name == "brig-launch" else None
    return None


def test_fc_07_nothing_runs_before_the_check(brig):
    """brig is stopped before it has looked at the box: the code must wait for its word."""
    for attempt in range(40):
        proc = brig.popen(traced_argv(brig))
        try:
            code = stop_before_the_word(proc)
            if code is None:
                continue
            time.sleep(0.5)
            assert ablate.status_of(code)["Name"] == "brig-launch", "the code ran without a check"
            os.kill(proc.pid, signal.SIGCONT)
            out, _ = proc.communicate(timeout=10)
            assert TOKEN in out.decode(), out
            return
        finally:
            if proc.poll() is None:
                os.kill(proc.pid, signal.SIGCONT)
                proc.kill()
            proc.communicate()
    raise AssertionError("the code never waited")


# --- FC-08 ----------------------------------------------------------------------------------------

FAULTS = ["mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
          "mount_setattr", "mknodat", "mkdirat", "symlinkat", "openat", "pipe2", "socketpair", "sendmsg", "dup3",
          "memfd_create", "setresuid", "setresgid", "setgroups", "setsid", "sethostname", "fchdir", "fcntl", "prctl",
          "prlimit64", "capset", "keyctl", "close_range", "seccomp", "landlock_create_ruleset", "landlock_add_rule",
          "landlock_restrict_self", "clone", "clone3", "unshare", "ioctl", "socket", "pidfd_send_signal", "execveat",
          "openat2"]


@pytest.mark.parametrize("error", ["EPERM", "ENOMEM", "EIO"])
def test_fc_08_a_fault_in_any_step(brig, host, error):
    if brig.mode == "user":
        # deny_syscall sets no_new_privs, and what an ordinary user may do stays as it is.
        faults = [f for f in FAULTS if f not in ("setgroups",)]
    else:
        faults = FAULTS
    ran, refused = [], []
    for fault in faults:
        run = brig.run_argv(deny_argv(host, traced_argv(brig), "%s:%s" % (fault, error)))
        if run.json is None:
            # brig itself could not even begin (it needs openat to load its libraries).
            assert run.status != 0 and TOKEN not in run.raw_out.decode(), (fault, run)
            assert not os.path.exists(brig.path("trace")), (fault, run)
            refused.append(fault)
            continue
        try:
            whole = check_whole_or_nothing(brig, run)
        except AssertionError as e:
            raise AssertionError("%s:%s: %s" % (fault, error, e))
        (ran if whole else refused).append(fault)
    # The test has teeth: what every box needs was among the refused.
    for fault in ("seccomp", "pivot_root", "capset"):
        assert fault in refused, (ran, refused)


@pytest.mark.parametrize("fault", ["pidfd_send_signal:ENOSYS", "pidfd_send_signal:EPERM", "pidfd_open:ENOSYS"])
def test_fc_08_the_timeout_holds_on_a_host_without(brig, host, fault):
    """A box that brig cannot end must not be begun."""
    argv = brig.argv("shell", "-c", "exec sleep 6", options=["--timeout", "1s"])
    run = brig.run_argv(deny_argv(host, argv, fault))
    if run.status in (125, 126) and run.state == "setup_failed":
        assert run.error["cause"], run
        return
    assert run.state == "timed_out" and run.status == 124 and run.seconds < 4, run
