#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the layers of a box away one at a time and runs the critical attacks against what is left.

Every critical attack must still be blocked when any one layer is missing, except where that layer
is the only possible one (ONLY_LAYER, with the reason). And every removed layer must let at least one
attack through: otherwise the attacks prove nothing about it (SILENT, with the reason).

    ablate.py [--user] [--layers a,b] [--ids FS-01,NS-02]

The box is made by weakrun, a program of the tests that brig is not linked with.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BRIG_BUILD", os.path.join(ROOT, "build"))
BRIG = os.environ.get("BRIG", os.path.join(ROOT, "out", "bin", "brig"))
WEAKRUN = os.path.join(BUILD, "tests", "escape", "weakrun")
PROBE = os.path.join(BUILD, "tests", "escape", "probe")
TABLE = os.path.join(ROOT, "policies", "seccomp", "default.tbl")

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
N_NATIVE = 512 + 64

# --- for the tests as well ------------------------------------------------------------------------


def weak_argv(brig, layers, probe_id, *args, options=()):
    """The command that runs a probe in a box without some layers."""
    full = brig.argv("shell", "-c", 'exec ./probe "$@"',
                     options=["--timeout", "20s", "--file", PROBE + ":probe", *options])
    i = full.index(BRIG)
    return full[:i] + [WEAKRUN, "--without", ",".join(layers)] + full[i + 1:] + ["--", probe_id, *map(str, args)]


def said_in(result):
    """The verdict in a result of brig, and why if there is none."""
    for line in reversed((result.get("stdout") or "").splitlines()):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            return said["result"], said["detail"]
    why = (result.get("error") or {}).get("cause") or ""
    state = result.get("state")
    return ("failed" if state == "setup_failed" and why else "silent"), "%s: %s" % (state, why)


class Answer:
    """What a probe said in a weak box."""

    def __init__(self, result, detail, receipt):
        self.result, self.detail, self.receipt = result, detail, receipt
        self.blocked, self.escaped = result == "blocked", result == "escaped"

    def __repr__(self):
        return "Answer(%s: %s)" % (self.result, self.detail)


class WeakBox:
    """A box without some layers: box("NS-04", args…)."""

    def __init__(self, brig, *layers):
        self.brig, self.layers = brig, layers

    def __call__(self, probe_id, *args, options=(), **kw):
        proc = self.brig.popen(weak_argv(self.brig, self.layers, probe_id, *args, options=options), **kw)
        try:
            out, err = proc.communicate(timeout=40)
        finally:
            if proc.poll() is None:
                proc.kill()
                proc.communicate()
        try:
            result = json.loads(out.decode())
        except ValueError:
            return Answer("silent", "status %d: %s" % (proc.returncode, err.decode(errors="replace")), {})
        return Answer(*said_in(result), result["receipt"])

    def blocked(self, probe_id, *args, **kw):
        said = self(probe_id, *args, **kw)
        if not said.blocked:
            raise AssertionError("%s without %s: %r" % (probe_id, ", ".join(self.layers), said))
        return said


def host_namespaces(kinds=NAMESPACES):
    return [os.readlink("/proc/self/ns/" + k) for k in kinds]


def status_of(pid):
    """/proc/PID/status as a dictionary, or None."""
    try:
        with open("/proc/%d/status" % pid) as f:
            return dict(l.rstrip("\n").split(":\t", 1) for l in f if ":\t" in l)
    except (OSError, ValueError):
        return None


def parent_of(pid):
    return int(status_of(pid)["PPid"])


def children_of(pid):
    found = []
    for p in os.listdir("/proc"):
        if p.isdigit():
            with contextlib.suppress(OSError, ValueError):
                with open("/proc/%s/stat" % p) as f:
                    text = f.read()
                if int(text[text.rindex(")") + 2:].split()[1]) == pid:
                    found.append(int(p))
    return found


def below(pid):
    """All processes below one, nearest first."""
    found = children_of(pid)
    for p in found:
        found.extend(children_of(p))
    return found


class Live:
    """A box that is running: brig's process, the host's pids of its init and of its code."""

    def __init__(self, proc, init, code):
        self.proc, self.init, self.code = proc, init, code


@contextlib.contextmanager
def live_box(brig, code="exec sleep 30", name="sleep", lang="shell", options=(), argv=None):
    """Starts a box and waits until its code runs under the name; kills it at the end."""
    if argv is None:
        argv = brig.argv(lang, "-c", code, options=["--timeout", "40s", *options])
    proc = brig.popen(argv)
    try:
        yield wait_for_code(proc, name)
    finally:
        if proc.poll() is None:
            proc.kill()
        proc.communicate()


def wait_for_code(proc, name, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        inside = {}
        for pid in below(proc.pid):
            st = status_of(pid)
            ids = (st or {}).get("NSpid", "").split()
            if len(ids) > 1:
                inside[int(ids[-1])] = (pid, st)
        for number, (pid, st) in sorted(inside.items()):
            if number > 1 and st.get("Name") == name and 1 in inside:
                return Live(proc, inside[1][0], pid)
        if proc.poll() is not None:
            break
        time.sleep(0.005)
    proc.kill()
    out, err = proc.communicate()
    raise AssertionError("no box appeared: status %s\n%r\n%r" % (proc.returncode, out[-1500:], err[-1500:]))


# --- the policy -----------------------------------------------------------------------------------

LETTERS = {"allow": "a", "eperm": "p", "enosys": "n", "einval": "i", "eafnosupport": "f",
           "enoprotoopt": "o", "ok": "0", "kill": "k"}
TERM = re.compile(r"arg(\d)(?:\s*&\s*(\w+))?\s*(==|!=|in)\s*(\{[^}]*\}|\w+)$")


def _number(text):
    return int(text, 0)


def _holds(condition, args):
    for term in condition.split("&&"):
        m = TERM.match(term.strip())
        if not m:
            raise ValueError("cannot read the term %r" % term)
        value = args[int(m.group(1))] & 0xffffffff
        if m.group(2):
            value &= _number(m.group(2))
        values = [_number(v) for v in m.group(4).strip("{}").split(",")]
        if (value in values) == (m.group(3) == "!="):
            return False
    return True


def read_policy(path=TABLE):
    """{number: (name, [(condition or None, action)])}"""
    policy, entry = {}, None
    with open(path) as f:
        for raw in f:
            line = raw.split("#", 1)[0].rstrip()
            if not line:
                continue
            if line[0].isspace():
                condition, action = [p.strip() for p in line.split("->")]
                entry[1].append((None if condition == "else" else condition, action))
                continue
            parts = line.split()
            entry = (parts[1], [(None, parts[2])] if len(parts) == 3 else [])
            policy[int(parts[0])] = entry
    return policy


def answer(policy, nr, args=(0,) * 6):
    """The policy's action for a call; a number it does not list is enosys."""
    for condition, action in policy.get(nr, ("", [(None, "enosys")]))[1]:
        if condition is None or _holds(condition, args):
            return action
    raise ValueError("%d has no else" % nr)


def wanted_letters(policy):
    """One letter per number, for probe SC-01."""
    letters = [LETTERS[answer(policy, nr)] for nr in range(N_NATIVE)]
    for nr in (335, 336):  # uretprobe, uprobe: see the table
        letters[nr] = "u"
    return "".join(letters)


# --- the matrix -----------------------------------------------------------------------------------

# Attack → how to start it. The critical ones of the groups that a probe can try from inside.
CRITICAL = ["FS-01", "FS-02", "FS-04", "FS-06", "PS-01", "PS-02", "PS-04", "PS-10", "PS-12", "FD-01", "FD-02",
            "FD-09", "NS-01", "NS-02", "NS-04", "CP-01", "CP-02", "SC-01", "SC-02", "SC-04", "SC-05", "SC-06",
            "SC-07", "SC-08", "SC-09", "SC-10", "SC-11"]
# Not critical; they show what a layer is good for.
WITNESSES = ["NS-07", "NS-09", "CP-07", "LL-01", "LL-03", "LL-04", "SC-22"]

_VIEW = "the test is about this layer's own effect"
ONLY_LAYER = {
    ("SC-01", "seccomp"): _VIEW,
    ("CP-01", "no_capabilities"): _VIEW,
    ("FS-04", "seccomp"): "making a box takes openat2, whose mode no filter can see; the mount stays nosuid, "
                          "and the files die with the box",
}
ONLY_LAYER[("PS-01", "proc_masks")] = (
    "one file of procfs can be hidden by a mount only: subset=pid would take cpuinfo, meminfo and sys with it, "
    "which runtimes read; the worst of the files ask for a capability as well")
for _kind in ("user", "mount", "pid", "network", "ipc", "uts", "cgroup", "time"):
    ONLY_LAYER[("NS-01", _kind + "_namespace")] = _VIEW

# No box comes about without these.
NEEDED = {"user_namespace", "mount_namespace", "pid_namespace"}

# weakrun takes these out of the plan, but they are put in place all the same: their rows would show
# the whole box. They are not run.
NOT_REMOVABLE = {
    "separate_init_uid": "init keeps its uid",
    "disk_quota": "the size of the writable file system stays",
    "landlock_scopes": "part of the Landlock domain; LL-02 and LL-03 take the whole domain away",
    "memory_limit": "the cgroup keeps its limit", "no_swap": "the cgroup keeps its limit",
    "pids_limit": "the cgroup keeps its limit", "cpu_limit": "the cgroup keeps its limit",
}
# No attack of this list gets through without them: about these layers a run proves nothing.
SILENT = {
    "no_new_namespaces": "behind the filter; NS-07 takes both away and gets through",
    "locked_mounts": "behind the filter, Landlock and the lack of capabilities",
    "read_only_root": "file permissions and Landlock refuse the same writes",
    "no_new_privs": "the launcher has it, and so has all that it makes",
    "launcher_filter": "behind the box's own filter; without both SC-06 to SC-10 get through",
    "own_keyring": "behind the filter, which refuses keyctl, add_key and request_key",
    "rlimits": "no attack here exhausts anything",
    "own_device_nodes": "a covert channel between boxes, which no attack here tries",
    "network": "without it loopback stays down: less, not more",
}


class Attacks:
    """How each attack is started: its arguments name things of the host that it must not find."""

    def __init__(self, work):
        self.canary = os.path.join(work, "canary-" + secrets.token_hex(6))
        with open(self.canary, "w") as f:
            f.write(secrets.token_hex(16))
        self.fds = [os.open("/", os.O_RDONLY) for _ in range(100)]

    def arguments(self, attack):
        outside = [self.canary, "/etc/shadow", BRIG]
        dev = os.stat("/").st_dev
        top = ["bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "workspace"]
        always = ["dev", "etc", "proc", "tmp", "usr", "workspace"]
        table = {
            "FS-01": [os.path.basename(self.canary), "%d:%d" % (os.major(dev), os.minor(dev))] +
                     [n for n in top if n in always or os.path.lexists("/" + n)],
            "FS-02": outside,
            "FS-04": ["/workspace", "/tmp", "/dev/shm"],
            "FS-06": outside,
            "NS-01": host_namespaces(),
            "NS-09": ["0x5ca9e001", "brig-ablate"],
            "SC-01": [wanted_letters(read_policy())],
        }
        return table.get(attack, [])

    def run(self, box, attack):
        if attack == "FD-02":
            return box("FD-01", pass_fds=self.fds)
        return box(attack, *self.arguments(attack), options=["--network", "none"] if attack == "LL-04" else [])


def probe_ids(probe):
    out = subprocess.run([probe, "--list"], stdout=subprocess.PIPE, check=True)
    return out.stdout.decode().split()


def layers_of(brig):
    """The layers that hold in an ordinary box, as its receipt names them."""
    run = brig.run("shell", "true")
    assert run.state == "finished", run
    return [l["name"] for l in run.receipt["layers"] if l["enforced"] and l["name"] not in NOT_REMOVABLE]


SHORT = {"blocked": ".", "escaped": "E", "error": "?", "refused": "-", "failed": "-", "silent": "!"}


def matrix(attacks, brig, box_type, ids, layers, out=print):
    """Runs everything; returns {(id, layer): result} with layer None for the whole box."""
    cells, notes = {}, []
    width = max(len(l) for l in layers + ["(all in place)"])
    out("%-*s  %s" % (width, "without", " ".join(ids)))
    for layer in [None] + layers:
        row = []
        for i, probe_id in enumerate(ids):
            if i > 1 and {cells[a, layer] for a in ids[:i]} <= {"failed", "refused"}:
                cells[probe_id, layer] = "failed"  # the set-up ends before it knows the attack
                row.append(SHORT["failed"].center(len(probe_id)))
                continue
            v = attacks.run(WeakBox(brig, layer) if layer else box_type(brig), probe_id)
            result = v.result
            cells[probe_id, layer] = result
            row.append(SHORT.get(result, "!").center(len(probe_id)))
            if result != "blocked":
                notes.append("%s without %s: %s: %s" % (probe_id, layer, result, v.detail[:160]))
        out("%-*s  %s" % (width, layer or "(all in place)", " ".join(row)))
    out("\n. blocked   E escaped   ? blocked with an unusual errno   - no box   ! no answer\n")
    for note in notes:
        out("  " + note)
    return cells


def verdict(cells, layers):
    """What is wrong with the matrix; empty when the box and the tests are as they should be."""
    wrong = []
    for (probe_id, layer), result in sorted(cells.items(), key=str):
        if probe_id not in CRITICAL:
            continue
        if layer is None and result != "blocked":
            wrong.append("%s is not blocked by the whole box: %s" % (probe_id, result))
        elif result == "escaped" and (probe_id, layer) not in ONLY_LAYER:
            wrong.append("%s is blocked by %s alone" % (probe_id, layer))
        elif result == "silent" or (result in ("failed", "refused") and layer not in NEEDED):
            wrong.append("%s without %s gave no answer" % (probe_id, layer))
    for layer in layers:
        results = [r for (_, l), r in cells.items() if l == layer]
        if "escaped" in results or layer in SILENT:
            continue
        if set(results) <= {"refused", "failed"}:
            if layer not in NEEDED:
                wrong.append("no box without %s" % layer)
            continue
        wrong.append("no attack gets through without %s: the tests say nothing about it" % layer)
    return wrong


@contextlib.contextmanager
def tests_environment():
    """State directories and policy of a test run, as pytest would have made them."""
    spec = importlib.util.spec_from_file_location("tests_conftest", os.path.join(ROOT, "tests", "conftest.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        yield
    finally:
        module.pytest_unconfigure(None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--user", action="store_true", help="as an ordinary user")
    parser.add_argument("--layers", default="", help="instead of all that a receipt names")
    parser.add_argument("--ids", default="")
    opts = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import conftest

    if not os.access(WEAKRUN, os.X_OK):
        print("ablate: %s is missing: build the tests first" % WEAKRUN, file=sys.stderr)
        return 2
    known = probe_ids(PROBE) + ["FD-02"]  # FD-01 again, started with many descriptors
    ids = opts.ids.split(",") if opts.ids else [i for i in CRITICAL + WITNESSES if i in known]
    missing = [i for i in CRITICAL if i not in known]
    start = time.monotonic()
    with tests_environment(), tempfile.TemporaryDirectory(prefix="ablate-" + secrets.token_hex(3)) as work:
        os.chmod(work, 0o755)
        mode = "user" if opts.user or os.geteuid() != 0 else "root"
        brig = conftest.Brig(mode, work)
        layers = opts.layers.split(",") if opts.layers else layers_of(brig)
        cells = matrix(Attacks(work), brig, conftest.Box, ids, layers)
    wrong = verdict(cells, layers)
    alone = sorted(k for k in ONLY_LAYER if cells.get(k) == "escaped")
    print("\nOne layer by design:")
    for probe_id, layer in alone:
        print("  %s, %s: %s" % (probe_id, layer, ONLY_LAYER[probe_id, layer]))
    print("No attack gets through without these, so nothing is proved about them:")
    for layer in [l for l in layers if l in SILENT]:
        print("  %s: %s" % (layer, SILENT[layer]))
    print("Not taken away:")
    for layer, why in sorted(NOT_REMOVABLE.items()):
        print("  %s: %s" % (layer, why))
    wrong += ["%s has no probe" % i for i in missing]
    print("\n%d attacks, %d layers, %.0f s" % (len(ids), len(layers), time.monotonic() - start))
    for w in wrong:
        print("WRONG: " + w)
    critical = {i for i in ids if i in CRITICAL}
    single = {i for i, _ in alone}
    print("verdict: %d findings; of %d critical attacks %d rest on one layer for some reason above, %d do not" %
          (len(wrong), len(critical), len(single & critical), len(critical - single)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
