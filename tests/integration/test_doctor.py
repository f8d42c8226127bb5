"""brig doctor: what it says must be so, and a host that lacks something must be told so.

The lacking hosts are made with deny_syscall (tests/lib), with mount namespaces and with nested user
namespaces; the host itself is not changed.
"""

import glob
import json
import os
import pathlib
import pty
import shutil
import subprocess
import time

import pytest

from conftest import BRIG, ROOT, Brig

BUILD = pathlib.Path(os.environ.get("BRIG_BUILD", pathlib.Path(ROOT) / "build"))
DENY = str(BUILD / "tests" / "lib" / "deny_syscall")
STATES = {"ok", "warn", "missing"}
ITEM_KEYS = {"id", "group", "title", "state", "found", "cost", "remedy", "layers"}
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


class Report:
    """One `brig doctor --json`."""

    def __init__(self, run):
        self.run = run
        self.status = run.status
        self.json = run.result
        self.items = {item["id"]: item for item in self.json["items"]}

    @property
    def level(self):
        return self.json["level"]

    def state(self, name):
        return self.items[name]["state"]

    def lacks(self, *names):
        for name in names:
            assert self.state(name) == "missing", self.items[name]
        return self


def doctor(*args, before=()):
    return Report(Brig.call([*before, BRIG, "doctor", "--json", *args]))


def denied(spec, *args):
    return doctor(*args, before=[DENY, spec, "--"])


def changed(script, *args):
    """The report in a mount namespace of its own, after the script ran there."""
    return doctor(*args, before=["unshare", "-m", "sh", "-ec", script + '; exec "$@"', "sh"])


def scratch_cgroups():
    return set(glob.glob("/sys/fs/cgroup/**/brig-probe-*", recursive=True))


@pytest.fixture(autouse=True)
def no_scratch_cgroups():
    """What comes and goes is that of another doctor, whose name is another."""
    yield
    end = time.monotonic() + 3
    left = scratch_cgroups()
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left &= scratch_cgroups()
    assert not left


# The report itself.


def test_an_installation_without_its_launcher_is_told(place):
    """With the program alone, and with a launcher that cannot be executed."""
    (place / "bin").mkdir()
    program = place / "bin" / "brig"
    shutil.copy(BRIG, program)
    launcher = place / "libexec" / "brig" / "brig-launch"
    for there in (False, True):
        if there:
            launcher.parent.mkdir(parents=True)
            launcher.touch(mode=0o644)
        report = Report(Brig.call([str(program), "doctor", "--json", "--level", "degraded-ok"]))
        report.lacks("launcher")
        assert (report.level, report.status) == ("none", 1)
        assert str(launcher)[:60] in report.items["launcher"]["found"]
        assert report.items["launcher"]["remedy"]
    assert doctor().state("launcher") == "ok"


def test_json_is_whole(brig):
    report = Report(brig.command("doctor", "--json"))
    assert set(report.json) == {"level", "standard", "strict", "missing_layers", "items"}
    assert report.level in {"strict", "standard", "degraded-ok", "none"}
    assert len(report.items) == len(report.json["items"]), "an id is used twice"
    for item in report.json["items"]:
        assert set(item) == ITEM_KEYS, item
        assert item["state"] in STATES and item["title"] and item["found"] and item["cost"], item
        assert item["state"] != "ok" or not item["remedy"], item


def test_levels_follow_from_the_layers(brig):
    report = Report(brig.command("doctor", "--json"))
    assert report.json["strict"] is (report.level == "strict")
    assert report.json["standard"] is (report.level in {"strict", "standard"})
    lost = {layer for item in report.json["items"] if item["state"] == "missing"
            for layer in item["layers"]}
    assert lost == set(report.json["missing_layers"])


def test_status_answers_for_standard_unless_told(brig):
    report = Report(brig.command("doctor", "--json"))
    assert report.status == (0 if report.json["standard"] else 1)
    strict = Report(brig.command("doctor", "--json", "--level", "strict"))
    assert strict.status == (0 if strict.json["strict"] else 1)
    degraded = Report(brig.command("doctor", "--json", "--level=degraded-ok"))
    assert degraded.status == (1 if degraded.level == "none" else 0)


@pytest.mark.needs_root
def test_nobody_gets_what_nobody_can_have():
    report = doctor(before=NOBODY)
    report.lacks("id_pair", "device_nodes")
    assert report.level in {"standard", "degraded-ok"}
    assert doctor("--level", "strict", before=NOBODY).status == 1


def test_table_names_every_item_and_the_level(brig):
    run = brig.command("doctor")
    text = run.out.decode("utf-8")
    assert "\033" not in text, "colours without a terminal"
    report = Report(brig.command("doctor", "--json"))
    for item in report.json["items"]:
        assert item["title"] in text
        if item["state"] != "ok":
            assert item["cost"] in text
    if report.level != "none":
        assert "The best level here is %s." % report.level in text


def on_terminal(env):
    master, slave = pty.openpty()
    child = subprocess.Popen([BRIG, "doctor"], stdout=slave, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, env=env)
    os.close(slave)
    text = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:
            break
        if not block:
            break
        text += block
    child.wait(timeout=30)
    os.close(master)
    return text


def test_colours_on_a_terminal_only_when_wanted():
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    assert b"\033[32mok" in on_terminal(env)
    assert b"\033" not in on_terminal(dict(env, NO_COLOR="1"))


@pytest.mark.parametrize("args", [["--nonsense"], ["word"], ["--level"], ["--level", "high"],
                                  ["--level="], ["--json=1"]])
def test_wrong_usage(brig_user, args):
    run = brig_user.command("doctor", *args)
    assert run.status == 2 and not run.out and b"brig doctor" in run.err, run


def test_help(brig_user):
    run = brig_user.command("doctor", "--help")
    assert run.status == 0 and b"--level" in run.out and not run.err, run


def test_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BRIG, "doctor"], stdout=full, stderr=subprocess.PIPE, timeout=30,
                              check=False)
    assert done.returncode == 125 and b"No space left" in done.stderr


# A host that lacks something (FC-01).


@pytest.mark.needs_root
@pytest.mark.parametrize("spec, item, level", [
    ("landlock_create_ruleset:ENOSYS", "landlock", "degraded-ok"),
    ("landlock_create_ruleset:EOPNOTSUPP", "landlock", "degraded-ok"),
    ("landlock_restrict_self:EPERM", "landlock", "degraded-ok"),
    ("seccomp:EPERM", "seccomp", "none"),
    ("openat2:ENOSYS", "openat2", "none"),
    ("pidfd_open:ENOSYS", "pidfd", "none"),
    ("pidfd_send_signal:ENOSYS", "pidfd", "none"),
    ("close_range:ENOSYS", "close_range", "none"),
    ("open_tree:ENOSYS", "mount_api", "none"),
    ("fsopen:ENOSYS", "mount_api", "none"),
    ("mount_setattr:ENOSYS", "mount_api", "none"),
    ("move_mount:EPERM", "mount_api", "none"),
    ("mount:EPERM", "mount_namespace", "none"),
    ("pivot_root:EPERM", "read_only_root", "none"),
    ("userns:EPERM", "user_namespace", "none"),
    ("userns:ENOSPC", "user_namespace", "none"),
    ("namespaces:EPERM", "user_namespace", "none"),
])
def test_missing_call_is_named_and_lowers_the_level(spec, item, level):
    report = denied(spec).lacks(item)
    assert report.level == level and report.status == 1
    assert report.items[item]["found"]


@pytest.mark.needs_root
def test_missing_keyring_costs_strict_only():
    report = denied("keyctl:EPERM", "--level", "strict").lacks("session_keyring")
    assert not report.json["strict"] and report.status == 1
    assert denied("keyctl:EPERM").status == doctor().status


@pytest.mark.needs_root
def test_without_clone3_the_time_namespace_is_lost():
    report = denied("clone3:ENOSYS").lacks("time_namespace")
    assert report.state("clone3") == "warn"
    assert not report.json["strict"]


def test_filter_around_us_is_blamed():
    for name in ("landlock", "landlock_scopes"):
        item = denied("landlock_create_ruleset:ENOSYS").items[name]
        assert "outer seccomp filter" in item["remedy"], item


def test_namespaces_switched_off_are_named():
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    report = doctor(before=["unshare", "-Ur", "sh", "-ec", script, "sh"]).lacks("user_namespace")
    assert report.items["user_namespace"]["found"] == "user.max_user_namespaces is 0"
    assert report.items["user_namespace"]["remedy"].startswith("sysctl -w user.max_user_namespaces=")


@pytest.mark.needs_root
def test_masked_proc_is_named():
    report = changed("mount -t tmpfs none /proc/fs").lacks("fresh_procfs", "namespace_limits")
    assert "masked" in report.items["fresh_procfs"]["found"]
    assert report.level == "none"


@pytest.mark.needs_root
def test_hidden_cgroups_are_not_used():
    report = changed("mount -t tmpfs none /sys/fs/cgroup")
    report.lacks("cgroup_mode", "cgroup_memory", "cgroup_pids", "cgroup_cpu", "cgroup_swap")
    assert report.level == "degraded-ok" and report.status == 1


def memory_mount():
    """Where limits on memory are set: the v1 hierarchy, else v2."""
    rows = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    for row in rows:
        if row[2] == "cgroup" and "memory" in row[3].split(","):
            return row[1]
    return next(row[1] for row in rows if row[2] == "cgroup2")


@pytest.mark.needs_root
def test_read_only_cgroups_are_named():
    point = memory_mount()
    report = changed("mount -o remount,bind,ro " + point).lacks("cgroup_memory", "cgroup_swap")
    assert report.items["cgroup_memory"]["remedy"] == "mount -o remount,rw " + point


@pytest.mark.needs_root
def test_interpreter_that_a_box_cannot_see_does_not_count(place):
    name = place / "python3"
    name.write_text("#!/bin/sh\n")
    name.chmod(0o755)
    report = changed("mount -t tmpfs none /usr/local/bin; ln -s %s /usr/local/bin/python3" % name)
    assert not report.items["python"]["found"].startswith("/usr/local/bin/")


# What it says is what a run does.


@pytest.mark.parametrize("level", ["strict", "standard"])
def test_run_agrees(brig, level):
    report = Report(brig.command("doctor", "--json"))
    run = brig.command("run", "shell", "-c", "exit 0", "--level", level)
    assert (run.status == 0) is report.json[level], (report.json, run)


def test_interrupt_leaves_nothing():
    """Signals wait until the scratch cgroups are gone."""
    for delay in (0.02, 0.08, 0.15):
        child = subprocess.Popen([BRIG, "doctor"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            child.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            child.terminate()
        child.wait(timeout=30)
        assert not scratch_cgroups()


def test_deny_syscall_checks_its_own_usage():
    for args in ([], ["mount:EPERM"], ["mount", "--", "true"], ["nosuch:EPERM", "--", "true"],
                 ["mount:EWHAT", "--", "true"], ["mount:EPERM", "--"]):
        assert subprocess.run([DENY, *args], stderr=subprocess.PIPE, check=False).returncode == 2
    assert subprocess.run([DENY, "mount:EPERM", "--", "sh", "-c", "exit 7"],
                          check=False).returncode == 7


def test_deny_syscall_denies_what_it_says_and_nothing_else():
    out = subprocess.run([DENY, "sethostname,setns:EIO", "--", "/usr/bin/python3", "-c",
                          "import os, socket\ntry:\n    socket.sethostname('x')\n"
                          "except OSError as error:\n    print(error.errno)"],
                         stdout=subprocess.PIPE, check=True).stdout
    assert json.loads(out) == 5


@pytest.mark.parametrize("pattern, state", [("core", "ok"), ("|/usr/bin/handler", "warn"), ("@/run/handler", "warn")])
@pytest.mark.needs_root
def test_who_gets_core_dumps(tmp_path, pattern, state):
    fake = tmp_path / "core_pattern"
    fake.write_text(pattern + "\n")
    report = changed("mount --bind %s /proc/sys/kernel/core_pattern" % fake)
    assert report.state("core_pattern") == state, report.items["core_pattern"]
