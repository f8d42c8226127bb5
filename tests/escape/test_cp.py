# SPDX-License-Identifier: Apache-2.0
"""CP: credentials and capabilities."""
import contextlib
import ctypes
import os
import re
import shutil
import struct
import tempfile

import ablate
import pytest

LIBC = ctypes.CDLL(None, use_errno=True)
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
CAP_NET_RAW = 13


def test_cp_01_no_capability_in_any_set(box, outside):
    box.blocked("CP-01")
    outside.escaped("CP-01")


def test_cp_01_as_seen_from_outside(brig):
    with ablate.live_box(brig) as live:
        for pid, who in ((live.code, "code"), (live.init, "init")):
            st = ablate.status_of(pid)
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert int(st[name], 16) == 0, (who, name, st[name])


def test_cp_02_confined_by_flag_and_filter(box, outside):
    box.blocked("CP-02")
    outside.escaped("CP-02")


@pytest.mark.parametrize("lang, code", [
    ("python", "print(open('/proc/self/status').read())"),
    ("javascript", "console.log(require('fs').readFileSync('/proc/self/status', 'utf8'))"),
    ("shell", "cat /proc/self/status"),
])
def test_cp_02_in_every_language(brig, lang, code):
    run = brig.run(lang, code)
    st = dict(l.split(":\t", 1) for l in run.stdout.splitlines() if ":\t" in l)
    assert st.get("NoNewPrivs") == "1", run
    assert st.get("Seccomp") == "2", run
    assert int(st.get("Seccomp_filters", "0")) >= 1, run
    assert all(int(st[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")), run


@contextlib.contextmanager
def privileged_programs(host):
    """A setuid-root `id` and a `grep` with a file capability, where boxes see the host's files."""
    if not host.is_root:
        yield ["/usr/bin/id", "/usr/bin/grep"]
        return
    place = tempfile.mkdtemp(prefix="escape-", dir="/usr/local/lib")
    try:
        os.chmod(place, 0o755)
        ident, grep = os.path.join(place, "id"), os.path.join(place, "grep")
        shutil.copy("/usr/bin/id", ident)
        shutil.copy("/usr/bin/grep", grep)
        os.chmod(ident, 0o4755)
        caps = struct.pack("<5I", 0x02000001, 1 << CAP_NET_RAW, 0, 0, 0)  # revision 2, effective
        os.setxattr(grep, "security.capability", caps)
        yield [ident, grep]
    finally:
        shutil.rmtree(place)


def test_cp_03_programs_with_privilege_give_none(box, outside, host):
    with privileged_programs(host) as programs:
        v = box.blocked("CP-03", *programs)
        assert "uid=1000" in v.detail and "euid" not in v.detail, v
        if host.is_root:
            v = outside.escaped("CP-03", *programs, weak=NOBODY)
            assert "euid=0" in v.detail and "CapEff: 0000000000002000" in v.detail, v


def test_cp_04_no_other_id(box, outside, host):
    box.blocked("CP-04")
    if host.is_root:  # nobody else has a second id to go to
        outside.escaped("CP-04")


def maps_of(pid):
    found = []
    for name in ("uid_map", "gid_map"):
        with open("/proc/%d/%s" % (pid, name)) as f:
            found.append([tuple(map(int, l.split())) for l in f])
    return found


def test_cp_05_the_map_has_no_root(brig, box, outside, host):
    box.blocked("CP-05")
    outside.escaped("CP-05")
    with ablate.live_box(brig) as a, ablate.live_box(brig) as b:
        for live in (a, b):
            for mapping in maps_of(live.code):
                assert mapping, "no map at all"
                for inside, out, count in mapping:
                    assert inside != 0 and out != 0 and count == 1, mapping
        if brig.mode == "root":
            host_ids = [{out for _, out, _ in maps_of(l.code)[0]} for l in (a, b)]
            assert not host_ids[0] & host_ids[1], "two boxes share an id: %r" % host_ids
            with open("/etc/passwd") as f:
                users = {int(l.split(":")[2]) for l in f if l.count(":") >= 6}
            assert not users & (host_ids[0] | host_ids[1]), "a box has the id of a user"
            uids = {int(ablate.status_of(p)["Uid"].split()[1]) for p in (a.init, a.code, b.init, b.code)}
            assert len(uids) == 4 and 0 not in uids, uids


def test_cp_06_capabilities_cannot_be_asked_for(box, outside):
    v = box.blocked("CP-06")
    assert "keepcaps=-1" in v.detail, v
    outside.escaped("CP-06")


def test_cp_07_no_keyring_of_the_host(brig, box, outside):
    KEYCTL_UNLINK, USER_KEYRING = 9, -4
    name = b"canary-%d" % os.getpid()
    key = LIBC.syscall(248, b"user", name, b"secret", ctypes.c_size_t(6), ctypes.c_long(USER_KEYRING))
    assert key > 0, ctypes.get_errno()
    try:
        box.blocked("CP-07", name.decode())
        outside.escaped("CP-07", name.decode())
    finally:
        LIBC.syscall(250, KEYCTL_UNLINK, ctypes.c_long(key), ctypes.c_long(USER_KEYRING))


def test_cp_08_personality_is_plain(box, outside):
    box.blocked("CP-08")
    outside.escaped("CP-08")


def test_cp_09_prctl_changes_nobody_else(box, outside):
    box.blocked("CP-09")
    outside.escaped("CP-09")


def test_cp_10_no_groups_of_the_host(brig, box, outside, host):
    if os.getgroups() and not host.is_root:
        # Nobody drops groups without root: none of them has a name or a right in there.
        shown = set(re.findall(r"group (\d+)", box("CP-10").detail))
        assert shown <= {"1000", "65534"}, shown
    else:
        box.blocked("CP-10")
    outside.escaped("CP-10")
    if host.is_root:
        groups = ["setpriv", "--groups", "27,107", "--"]
        v = outside.escaped("CP-10", weak=groups)
        assert "group 27" in v.detail, v
    if brig.mode == "root":
        # brig's own groups do not come along.
        argv = ["setpriv", "--groups", "27,107", "--"] + brig.argv(
            "shell", "-c", "exec ./probe CP-10", options=["--file", host.probe + ":probe"])
        run = brig.run_argv(argv)
        assert '"result":"blocked"' in run.stdout, run


def test_cp_02_the_secure_bits_are_locked(brig):
    # The filter hides them, so it has to go for this look.
    v = ablate.WeakBox(brig, "seccomp")("CP-02")
    bits = int(v.detail.split("securebits=")[1].split(";")[0], 16)
    assert bits & 0xef == 0xef, "%#x" % bits
