# SPDX-License-Identifier: Apache-2.0
"""FS: the filesystem as the code sees it."""
import contextlib
import os
import stat
import subprocess
import threading
import time

import pytest

WRITABLE = ("/workspace", "/tmp", "/dev/shm")
TOP = ("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "workspace")
ETC = {"passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "alternatives", "ld.so.cache"}
ETC |= {name for name in ("matplotlibrc", "fonts") if os.path.exists("/etc/" + name)}
# Leaves its own root for a directory outside of it, as CVE-2024-21626 did.
UNREACHABLE = ("import os,sys; fd=os.open('/',0); os.chroot(os.path.dirname(sys.argv[1])); os.fchdir(fd);"
               "os.execv('/probe', ['probe']+sys.argv[2:])")
PYTHON = "/usr/bin/python3"


def weak_mounts():
    """A mount namespace to play in."""
    return ["unshare", "-m", "--"] if os.geteuid() == 0 else ["unshare", "-Urm", "--"]


def canary_paths(canaries):
    return list(canaries.files) + [canaries.unix_path]


def test_FS_01_exact_manifest(box, outside, brig, canaries):
    dev = os.stat("/").st_dev
    args = [canaries.name, "%d:%d" % (os.major(dev), os.minor(dev))]
    args += [n for n in TOP if n in ("dev", "etc", "proc", "tmp", "usr", "workspace")
             or os.path.lexists("/" + n)]
    box.blocked("FS-01", *args, limit="20s")
    outside.escaped("FS-01", *args)
    run = brig.run("python", "import os; print(*os.listdir('/etc'), sep='\\n')")
    warm = {"brig"} if os.environ.get("BRIG_TEST_WARM") else set()  # the runners
    assert set(run.stdout.split()) == ETC | warm, run


def test_FS_02_host_files_do_not_exist(box, outside, host, canaries):
    v = box.blocked("FS-02", host.brig, host.root, *canary_paths(canaries))
    canaries.check(v.run)
    outside.escaped("FS-02", *canary_paths(canaries))


def test_FS_02_host_files_do_not_exist_for_python(brig, canaries):
    code = ("import sys\nfor p in sys.argv[1:]:\n"
            "  try: print('ESCAPED', p, open(p).read())\n  except FileNotFoundError: pass\nprint('done')")
    run = brig.run("python", code, args=["/etc/shadow", "/root", "/home", *canary_paths(canaries)])
    assert run.stdout == "done\n", run
    canaries.check(run)


def test_FS_03_system_files_cannot_be_changed(box, outside, host, lower, tmp_path):
    victims = {"/usr/bin": "/usr/bin/env", "/usr/lib": "/usr/lib/os-release", "/bin": "/bin/sh",
               "/lib": "/lib/x86_64-linux-gnu/libc.so.6", "/etc": "/etc/passwd",
               "/etc/alternatives": "/etc/ld.so.cache", "/": "/usr/bin/env"}
    before = {f: (host.sha256(f), os.stat(f).st_mode) for f in [lower.file, *victims.values()]}
    names = sorted(os.listdir(lower.dir))
    args = ["-%s:%s" % v for v in victims.items()]
    args.append(("%s:%s" if lower.planted else "-%s:%s") % (lower.dir, lower.file))
    box.blocked("FS-03", *args)
    assert {f: (host.sha256(f), os.stat(f).st_mode) for f in before} == before
    assert sorted(os.listdir(lower.dir)) == names
    (tmp_path / "file").write_text("x")
    outside.escaped("FS-03", "%s:%s" % (tmp_path, tmp_path / "file"))
    assert not (tmp_path / "file").exists()


def test_FS_04_no_setid_files(box, outside, host, work, tmp_path):
    places = (work, "/tmp", "/dev/shm", "/var/tmp")
    before = host.setid_files(*places)
    box.blocked("FS-04", *WRITABLE)
    assert host.setid_files(*places) <= before
    outside.escaped("FS-04", str(tmp_path))


def test_FS_04_results_carry_no_special_bits(brig, work):
    out = os.path.join(work, "result")
    run = brig.run("shell", "echo x > r; chmod 0777 r; chmod 6777 r; chmod u+s r; exit 0", outs={"r": out})
    assert run.status == 0, run
    st = os.lstat(out)
    assert stat.S_ISREG(st.st_mode) and not st.st_mode & 0o7000, oct(st.st_mode)
    assert not os.listxattr(out)


def test_FS_05_no_device_nodes(box, outside, tmp_path):
    box.blocked("FS-05", *WRITABLE)
    outside.escaped("FS-05", str(tmp_path))


def test_FS_06_root_is_the_top(box, outside, canaries):
    v = box.blocked("FS-06", *canary_paths(canaries))
    canaries.check(v.run)
    outside.escaped("FS-06", *canary_paths(canaries))


def test_FS_07_magic_links_stay_inside(box, outside, canaries):
    v = box.blocked("FS-07", *canary_paths(canaries))
    canaries.check(v.run)
    outside.escaped("FS-07", *canary_paths(canaries))


def test_FS_08_cwd_is_the_workspace(box, outside):
    box.blocked("FS-08", "/workspace")
    prefix = [] if os.geteuid() == 0 else ["unshare", "-Ur", "--"]
    v = outside.escaped("FS-08", "/workspace", weak=prefix + [PYTHON, "-c", UNREACHABLE])
    assert "unreachable" in v.detail


def test_FS_08_brig_started_in_a_deleted_directory(box, brig, work):
    gone = os.path.join(work, "gone")
    os.mkdir(gone)
    brig.own(gone)

    def leave():
        os.chdir(gone)
        os.rmdir(gone)
    v = box("FS-08", "/workspace", preexec_fn=leave, cwd=None)
    assert v.blocked or v.run.error.get("cause"), v


def test_FS_09_the_box_cannot_mount(box, outside):
    box.blocked("FS-09")
    outside.escaped("FS-09", weak=weak_mounts())


@pytest.mark.alone
def test_FS_09_host_mounts_do_not_appear(brig, host, lower):
    if not host.is_root:  # the host half needs a mount on the host; the box half is above
        assert brig.run("shell", "wc -l < /proc/self/mountinfo").status == 0
        return
    inner = os.path.join(lower.dir, "inner")
    os.mkdir(inner)
    code = ("n=$(wc -l < /proc/self/mountinfo); for i in $(seq 20); do [ -e %s/seen ] && echo SEEN;"
            "[ $n = $(wc -l < /proc/self/mountinfo) ] || echo CHANGED; sleep 0.1; done" % inner)
    try:
        subprocess.check_call(["mount", "--bind", lower.dir, lower.dir])
        subprocess.check_call(["mount", "--make-shared", lower.dir])
        proc = brig.popen(brig.argv("shell", "-c", code))
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and not any(n == "sleep" for n, _ in host.descendants().values()):
            time.sleep(0.02)
        subprocess.check_call(["mount", "-t", "tmpfs", "none", inner])
        open(os.path.join(inner, "seen"), "w").close()
        out, err = proc.communicate(timeout=20)
        assert proc.returncode == 0 and b"SEEN" not in out and b"CHANGED" not in out, (out, err)
        # Positive control: a mount namespace that does follow the host.
        assert subprocess.check_output(
            ["unshare", "-m", "--propagation", "unchanged", "ls", inner]) == b"seen\n"
    finally:
        for path in (inner, lower.dir):
            subprocess.call(["umount", path], stderr=subprocess.DEVNULL)
        os.rmdir(inner)


def hidden_texts(host, canaries, work):
    """What must not be in the box's list of mounts."""
    return [host.root, work, canaries.name, "upperdir=", "lowerdir=", "/sys/fs/cgroup", "/box-", "/home",
            "docker", "oldroot"]


def test_FS_10_mountinfo_tells_nothing(box, outside, host, canaries, work):
    box.blocked("FS-10", *hidden_texts(host, canaries, work))
    outside.escaped("FS-10", "/sys/fs/cgroup")


def test_FS_11_overlay_names_mean_nothing(box, outside):
    box.blocked("FS-11")
    outside.escaped("FS-11")


def test_FS_12_exec_by_profile(box, outside, tmp_path):
    box.blocked("FS-12", "/dev/shm")
    outside.escaped("FS-12", str(tmp_path))
    for place in ("/workspace", "/tmp"):  # programs may be built and run there
        v = box("FS-12", place)
        assert v.escaped or v.result == "refused", v


def test_FS_13_no_links_across_mounts(box, outside, lower, tmp_path):
    links = os.stat(lower.file).st_nlink  # a profiler may have made one
    box.blocked("FS-13", lower.file, "/workspace", "/", "/usr", "/etc", "/dev", "/proc", lower.dir)
    (tmp_path / "file").write_text("x")
    outside.escaped("FS-13", tmp_path / "file", tmp_path, tmp_path)
    assert os.stat(lower.file).st_nlink == links


def test_FS_14_no_file_handles(box, outside):
    box.blocked("FS-14")
    outside.escaped("FS-14")


ODD_NAMES = r"""
import errno, os
b = os.fsencode
for name in (b"n" * 255, b"\xff\xfe", b"new\nline", b"\x1b[31mred\x1b[0m", b"tab\t", b"-rf", b" ", b"\x7f",
             b"quote\"", b"back\\slash", "\u202egnp.exe".encode(), b"*", b"$(id)", b"..."):
    open(name, "w").close()
try:
    open(b"n" * 256, "w")
    print("256 ESCAPED")
except OSError as e:
    assert e.errno == errno.ENAMETOOLONG
path = b"/workspace/" + b"/".join([b"d" * 255] * 15)
os.makedirs(path)
long = path + b"/" + b"x" * (4095 - len(path) - 1)
open(long, "w").close()
try:
    open(long + b"x", "w")
    print("4096 ESCAPED")
except OSError as e:
    assert e.errno == errno.ENAMETOOLONG
os.chdir("/workspace")
depth = 0
os.mkdir("deep"); os.chdir("deep")
try:
    for depth in range(100000):
        os.mkdir("d"); os.chdir("d")
except OSError as e:
    assert e.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM), e
print("done", depth)
"""


# Landlock looks at every parent, so going down costs the square of the depth: 5,000 is deep enough for a
# recursion on the host to show and quick enough here.
def test_FS_15_odd_names_and_deep_trees(brig):
    run = brig.run("python", ODD_NAMES, options=["--inodes", "5000", "--memory", "512M"], limit="20s")
    assert run.status == 0 and run.stdout.startswith("done "), run
    assert int(run.stdout.split()[1]) > 1000, run
    assert b"\x1b" not in run.raw_out and b"\xff" not in run.raw_out
    assert run.json is not None and run.seconds < 15, run.seconds


def test_FS_16_symlink_loops(brig, work):
    code = ("ln -s self self; ln -s b a; ln -s a b; ln -s /workspace/loop/x loop; echo x > l0;"
            "for i in $(seq 60); do ln -s l$((i-1)) l$i; done;"
            "for p in self a loop l60; do cat $p 2>/dev/null && echo FOLLOWED; done; cat l10; exit 0")
    run = brig.run("shell", code)
    assert run.status == 0 and run.stdout == "x\n", run
    assert run.seconds < 5
    for name in ("self", "a", "loop", "l60", "l10"):
        out = os.path.join(work, "out-" + name)
        run = brig.run("shell", code, outs={name: out})
        assert run.seconds < 5 and not os.path.islink(out), run
        assert not os.path.exists(out), run  # links are not followed, nor copied as links
        assert run.status != 0 and (run.error or run.raw_err.strip()), run


def test_FS_17_no_lasting_or_sharing_ioctls(box, outside):
    box.blocked("FS-17", 8 << 30)
    outside.escaped("FS-17", 1 << 16)


def test_FS_18_no_notice_of_the_host(box, outside, lower):
    stop = threading.Event()

    def touch():
        while not stop.wait(0.05):
            with open(lower.file, "rb") as f:
                f.read(1)
            if lower.planted:
                with open(os.path.join(lower.dir, "new"), "w"):
                    pass
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(lower.dir, "new"))
    thread = threading.Thread(target=touch)
    thread.start()
    try:
        outside.escaped("FS-18", lower.dir, 2000)
        box.blocked("FS-18", lower.dir, 500)
    finally:
        stop.set()
        thread.join()


SERVE = """
import os, socket, subprocess, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
server.listen(8)
server.setblocking(False)
done = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE)
try:
    server.accept()
    print("reached", done.stdout)
except BlockingIOError:
    print("nobody", done.stdout)
"""
CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect("/usr/local/src/s.sock")
except OSError as error:
    print(error.strerror)
"""


def test_FS_06_no_socket_below_usr(brig):
    """A read-only mount does not stop a connection; a world-writable socket of the host would answer."""
    script = "mount -t tmpfs none /usr/local/src && chmod 755 /usr/local/src && exec \"$@\""
    serve = weak_mounts() + ["sh", "-c", script, "sh", PYTHON, "-c", SERVE, "/usr/local/src/s.sock"]

    def said(argv):
        return subprocess.run(serve + argv, stdout=subprocess.PIPE, check=True, timeout=30).stdout.decode()
    assert said([PYTHON, "-c", CONNECT]).startswith("reached")
    if os.geteuid() != 0:  # brig does not start in a namespace that maps one id; root's suite tries both
        return
    for options in ([], ["--level", "strict", "--network", "none"] if brig.mode == "root" else ["--network", "none"]):
        text = said(brig.argv("python", "-c", CONNECT, options=options))
        assert text.startswith("nobody") and "Permission denied" in text, text


def test_FS_18_times_of_device_nodes(brig):
    """Without root the nodes are the host's: data goes through them, and they stay as they are."""
    code = "import os\nfor name in ('null', 'tty', 'zero'):\n" \
           "    try: os.utime('/dev/' + name, (1, 1))\n    except OSError as e: print(e.strerror)\n" \
           "print(os.write(os.open('/dev/null', os.O_WRONLY), b'four'), len(os.read(os.open('/dev/zero', 0), 3)))"
    run = brig.run("python", code)
    assert run.stdout.endswith("4 3\n"), run
    if brig.mode == "user":
        assert run.stdout.startswith("Read-only file system\n" * 3), run
    assert all(os.stat("/dev/" + name).st_mtime != 1 for name in ("null", "tty", "zero"))
