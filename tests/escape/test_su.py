# SPDX-License-Identifier: Apache-2.0
"""SU: attacks before the code runs, by names and contents that set-up has to handle; and after it, when
results are taken out."""
import ctypes
import itertools
import json
import os
import shutil
import socket
import stat
import subprocess
import threading
import time

import pytest

AT_FDCWD = -100
RENAME_EXCHANGE = 2
LISTING = "import os\nprint(sorted(os.listdir('/workspace')))"


def renameat2(a, b):
    return ctypes.CDLL(None, use_errno=True).renameat2(AT_FDCWD, a.encode(), AT_FDCWD, b.encode(),
                                                       RENAME_EXCHANGE)


def clean_failure(run, statuses=(2, 125, 126)):
    """brig said no and why, and the code did not run."""
    said = run.error.get("cause") or run.raw_err.decode(errors="replace").strip()
    return run.status in statuses and bool(said) and "RAN" not in run.stdout


# --- SU-01, SU-02: names -------------------------------------------------------------------------

BAD_NAMES = ["", ".", "..", "/", "../x", "../../x", "a/../x", "a/../../x", "./../x", "a/..", "a/.", "..//x",
             "/etc/passwd", "/etc/resolv.conf", "/dev/null", "/dev/shm/x", "/dev/pts/x", "/proc/self/x",
             "/proc/1/cwd/x", "/tmp/x", "/usr/bin/x", "/x", "/workspace", "/workspace/", "/workspace/..",
             "/workspace/../etc/x", "/workspace/../../x", "/workspacex/y", "/workspace/../workspace/../x",
             "x" * 256, "/".join(["d" * 200] * 30), "/".join(["d"] * 3000)]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda n: repr(n)[:40])
def test_SU_01_bad_box_paths_are_refused(brig, name, canaries):
    source = brig.path("source", "data")
    run = brig.run("shell", "echo RAN", files={name: source})
    assert clean_failure(run), run
    assert run.status == 2, run


@pytest.mark.parametrize("name", ["a//b", "./a", "a/", "-rf", "new\nline", "\x1b[2J", "*", "$(id)", "a b", "...",
                                  "..x", "x..", "a/...", "~", "\u202ex", "/workspace/sub/file"],
                         ids=lambda n: repr(n))
def test_SU_01_odd_box_paths_stay_inside(brig, name):
    source = brig.path("source", "data-of-file")
    code = "grep -rlsZ data-of-file /workspace /tmp /dev/shm | tr -dc '\\0' | wc -c"  # the script is one
    run = brig.run("shell", code, files={name: source})
    assert clean_failure(run) or (run.status == 0 and run.stdout.strip() == "2"), run
    assert b"\x1b" not in run.raw_out and b"\x1b" not in run.raw_err


def test_SU_01_conflicts_are_refused(brig):
    source = brig.path("source", "echo OTHER; echo RAN")
    for files in (["main.sh"], ["/workspace/main.sh"], ["main.sh/x"], ["a", "a"], ["a", "a/b"], ["a/b", "a"]):
        opts = [o for f in files for o in ("--file", "%s:%s" % (source, f))]
        run = brig.run("shell", "echo RAN", options=opts)
        assert clean_failure(run), (files, run)


# --- SU-02: sources that are not plain files -------------------------------------------------------

def special_sources(brig):
    """{what: path} of things that are no regular file."""
    found = {"fifo": brig.path("fifo"), "socket": brig.path("sock"), "directory": brig.path("dir"),
             "device": "/dev/zero", "terminal": "/dev/tty", "absent": brig.path("absent"),
             "pseudo device": "/dev/random"}
    os.mkfifo(found["fifo"])
    os.chmod(found["fifo"], 0o666)
    os.mkdir(found["directory"])
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(found["socket"])
    for what in ("fifo", "directory", "device", "absent"):
        link = brig.path("link-to-" + what)
        os.symlink(found[what], link)
        found["link to " + what] = link
    loop = brig.path("loop")
    os.symlink(loop, loop)
    found["loop"] = loop
    return found


def test_SU_02_special_sources_are_refused(brig):
    for what, path in special_sources(brig).items():
        run = brig.run("shell", "echo RAN", files={"x": path}, timeout=10)
        assert clean_failure(run) and run.seconds < 3, (what, run)


def test_SU_02_special_scripts_and_stdin_are_refused(brig):
    for what, path in special_sources(brig).items():
        run = brig.run_argv(brig.argv(path, options=["--lang", "shell", "--timeout", "3s"]), timeout=10)
        assert clean_failure(run) and run.seconds < 3, (what, run)
    for what in ("directory", "absent", "loop"):
        run = brig.run("shell", "echo RAN", options=["--stdin", brig.path(what[:3] if what == "directory" else what)])
        assert clean_failure(run), (what, run)


def test_SU_02_a_link_gives_its_target_or_nothing(brig):
    target = brig.path("target", "content")
    link = brig.path("link")
    os.symlink(target, link)
    run = brig.run("shell", "[ -L x ] && echo LINK; cat x", files={"x": link})
    assert clean_failure(run) or run.stdout == "content", run


def test_SU_02_unreadable_sources_are_refused(brig, mode, host):
    secret = brig.path("secret", "secret-content", 0o000)
    if host.is_root:
        os.chown(secret, 0, 0)
    run = brig.run("shell", "cat x", files={"x": secret})
    if mode == "user":
        assert clean_failure(run) and "secret-content" not in repr(run.json), run
    else:  # root may read it
        assert run.status == 0 and run.stdout == "secret-content", run


def test_SU_02_the_box_gets_copies(brig, host):
    source = brig.path("source", "before", 0o666)
    run = brig.run("shell", "echo after > x; chmod 777 x; rm -f x; ln -s /etc/passwd x; echo $?",
                   files={"x": source})
    assert run.status == 0, run
    with open(source) as f:
        assert f.read() == "before"
    assert stat.S_IMODE(os.lstat(source).st_mode) == 0o666 and os.lstat(source).st_nlink == 1


# --- SU-03, SU-05, SU-07: the tree that set-up built -----------------------------------------------

def test_SU_03_procfs_is_fresh(brig):
    code = ("import ctypes, os\n"
            "lines = [l.split() for l in open('/proc/self/mountinfo')]\n"
            "print([l[4] for l in lines if l[l.index('-') + 1] == 'proc' and l[3] == '/'])\n"
            "print(os.stat('/proc').st_ino, int(os.readlink('/proc/self')) == os.getpid())\n"
            "print([l[4] for l in lines if l[l.index('-') + 1] == 'sysfs'])")
    run = brig.run("python", code)
    # Of a shared root there is an empty one below it.
    mounts = ["/proc"] * (2 if os.environ.get("BRIG_TEST_WARM") else 1)
    assert run.stdout == "%r\n1 True\n[]\n" % mounts, run


def test_SU_05_masks_are_null_devices_or_empty(brig):
    code = (
        "import os, stat\n"
        "for l in open('/proc/self/mountinfo'):\n"
        "  p = l.split()[4]\n"
        "  if not p.startswith('/proc/'): continue\n"
        "  try: st = os.stat(p)\n"
        "  except OSError: continue\n"
        "  if stat.S_ISCHR(st.st_mode): ok = st.st_rdev == os.makedev(1, 3)\n"
        "  elif stat.S_ISDIR(st.st_mode):\n"
        "    ro = 'ro' in l.split()[5].split(',')\n"
        "    try: ok = ro and (not os.listdir(p) or l.split(' - ')[1].startswith('proc '))\n"
        "    except OSError: ok = True\n"
        "  else:\n"
        "    try: ok = open(p).read() == ''\n"
        "    except OSError: ok = True\n"
        "  if not ok: print('BAD', l)\n"
        "st = os.stat('/dev/null')\n"
        "print(stat.S_ISCHR(st.st_mode) and st.st_rdev == os.makedev(1, 3))\n")
    run = brig.run("python", code)
    assert run.stdout == "True\n", run


@pytest.mark.alone
def test_SU_07_the_workspace_is_new(brig, host, work):
    """Whatever brig's own directory is, the box's is a fresh one without further mounts."""
    code = LISTING + ("\nprint([l.split()[4] for l in open('/proc/self/mountinfo') "
                      "if l.split()[4].startswith('/workspace')], os.path.islink('/workspace'))")
    brig.path("here", "x")
    link = brig.path("link")
    os.symlink(work, link)
    want = "['main.py']\n['/workspace'] False\n"
    assert brig.run("python", code, cwd=link).stdout == want
    if host.is_root:
        inner = brig.path("mnt")
        os.mkdir(inner)
        subprocess.check_call(["mount", "-t", "tmpfs", "none", inner])
        try:
            assert brig.run("python", code, cwd=inner).stdout == want
        finally:
            subprocess.check_call(["umount", inner])


# --- SU-04: races ---------------------------------------------------------------------------------

def test_SU_04_sources_swapped_during_setup(brig):
    """100 starts while the directory of the source changes places with others."""
    good, fifo, loop = brig.path("d"), brig.path("e"), brig.path("f")
    for path in (good, fifo, loop):
        os.mkdir(path)
        brig.own(path)
    brig.path("d/file", "good")
    os.mkfifo(os.path.join(fifo, "file"))
    os.chmod(os.path.join(fifo, "file"), 0o666)
    os.symlink("/proc/self/fd/0", os.path.join(loop, "file"))
    stop = threading.Event()

    def swap():
        for other in itertools.cycle((fifo, loop)):
            if stop.is_set():
                return
            renameat2(good, other)
            renameat2(good, other)
            renameat2(good, other)
            time.sleep(0.001)
            renameat2(good, other)
            time.sleep(0.001)
    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = {"good": 0, "refused": 0}
    try:
        for _ in range(100):
            run = brig.run("shell", "cat x", files={"x": os.path.join(good, "file")}, timeout=10)
            if run.status == 0:
                assert run.stdout in ("good", ""), run  # "": fd 0 of brig, which is /dev/null
                outcomes["good"] += 1
            else:
                assert clean_failure(run), run
                outcomes["refused"] += 1
    finally:
        stop.set()
        thread.join()
    assert outcomes["good"] > 0, outcomes


# --- SU-06: programs ------------------------------------------------------------------------------

# A program whose interpreter is /proc/self/exe: one PT_INTERP and one PT_LOAD header.
ELF_INTERP = r"""
import os, struct
interp = b"/proc/self/exe\0"
off = 64 + 2 * 56
ident = b"\x7fELF\x02\x01\x01" + bytes(9)
head = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x400000 + off, 64, 0, 0, 64, 56, 2, 0, 0, 0)
ph = struct.pack("<IIQQQQQQ", 3, 4, off, 0x400000 + off, 0, len(interp), len(interp), 1)
ph += struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0, off + 64, off + 64, 4096)
open("elf", "wb").write(head + ph + interp + bytes(64))
open("script", "w").write("#!/proc/self/exe\nx\n")
open("nested", "w").write("#!/proc/1/exe\nx\n")
for name in ("elf", "script", "nested"):
    os.chmod(name, 0o755)
    pid = os.fork()
    if pid == 0:
        os.close(1)
        os.close(2)
        try: os.execv("./" + name, [name])
        except OSError: os._exit(99)
    os.waitpid(pid, 0)
print("done")
"""


def programs(host):
    libexec = os.path.join(os.path.dirname(os.path.dirname(host.brig)), "libexec", "brig")
    names = [host.brig, host.probe, "/usr/bin/python3", "/usr/bin/node", "/bin/bash", "/bin/sh"]
    names += [os.path.join(libexec, n) for n in os.listdir(libexec)]
    return {n: host.sha256(n) for n in names if os.path.exists(n)}


def test_SU_06_interpreters_that_point_back(brig, host):
    before = programs(host)
    run = brig.run("python", ELF_INTERP)
    assert run.status == 0 and run.stdout == "done\n", run
    assert programs(host) == before


def test_SU_06_programs_cannot_be_written(box, outside, host, tmp_path):
    before = programs(host)
    box.blocked("SU-06")
    assert programs(host) == before
    copy = str(tmp_path / "copy")
    shutil.copy(host.probe, copy)
    outside.escaped("SU-06", copy)


# --- SU-08: where the code starts -----------------------------------------------------------------

SHOW_CWD = "import os; print(os.getcwd(), os.readlink('/proc/self/cwd'))"
AT_WORKSPACE = "/workspace /workspace\n"


def test_SU_08_the_directory_cannot_be_chosen(brig):
    for name in ("--cwd", "--workdir", "--chdir", "-C"):
        run = brig.run("python", SHOW_CWD, options=[name, "/proc/1/cwd"])
        assert clean_failure(run) and run.status == 2, run
    for cwd in ("/", "/proc/self/fd", "/dev", brig.work):
        assert brig.run("python", SHOW_CWD, cwd=cwd).stdout == AT_WORKSPACE
    run = brig.run("python", SHOW_CWD, env={"PWD": "/proc/self/fd/7", "OLDPWD": "/proc/1/cwd"})
    assert run.stdout == AT_WORKSPACE, run
    with_env = brig.run("python", SHOW_CWD, options=["--env", "PWD=/proc/self/fd/7"])
    assert clean_failure(with_env) or with_env.stdout == AT_WORKSPACE, with_env


@pytest.mark.parametrize("name", ["-c.py", "new\nline.py", "\x1b[2J.py", "...py", "x" * 252 + ".py", "a b.py",
                                  "$(id).py", "\u202e.py", ";id;.py"], ids=lambda n: repr(n)[:20])
def test_SU_08_names_of_scripts(brig, name):
    path = brig.path(name, SHOW_CWD)
    run = brig.run_argv(brig.argv(path))
    assert clean_failure(run) or run.stdout == AT_WORKSPACE, run
    assert b"\x1b" not in run.raw_out and b"\x1b" not in run.raw_err


def test_SU_08_scripts_by_descriptor(brig):
    path = brig.path("script.py", SHOW_CWD)
    with open(path) as f:
        run = brig.run_argv(brig.argv("/proc/self/fd/%d" % f.fileno(), options=["--lang", "python"]),
                            pass_fds=[f.fileno()])
    assert clean_failure(run) or run.stdout == AT_WORKSPACE, run


# --- SU-09: environment ---------------------------------------------------------------------------

INJECTED = {
    "LD_PRELOAD": "/tmp/evil.so", "LD_LIBRARY_PATH": "/tmp", "LD_AUDIT": "/tmp/evil.so", "PYTHONSTARTUP": "/tmp/e.py",
    "PYTHONPATH": "/tmp", "PYTHONHOME": "/tmp", "NODE_OPTIONS": "--require /tmp/e.js", "BASH_ENV": "/tmp/e.sh",
    "ENV": "/tmp/e.sh", "IFS": "/", "GCONV_PATH": "/tmp", "HTTP_PROXY": "http://x", "https_proxy": "http://x",
    "ALL_PROXY": "http://x", "GLIBC_TUNABLES": "glibc.malloc.check=3", "BASH_FUNC_ls%%": "() { echo evil; }",
    "SHELLOPTS": "xtrace", "PS4": "$(id)", "MALLOC_TRACE": "/tmp/x", "LOCPATH": "/tmp",
}
SHOW_ENV = "import json, os\nprint(json.dumps(dict(os.environ)))"


@pytest.mark.parametrize("name", sorted(INJECTED))
def test_SU_09_reserved_names_are_refused(brig, name):
    run = brig.run("shell", "echo RAN", options=["--env", "%s=%s" % (name, INJECTED[name])])
    assert clean_failure(run) and run.status == 2, run
    assert name.split("%")[0] in (run.error.get("cause") or run.raw_err.decode()), run


def test_SU_09_the_callers_environment_stays_outside(brig):
    env = {k: v for k, v in INJECTED.items() if k not in ("LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "MALLOC_TRACE")}
    env["SECRET_TOKEN"] = "host-secret"
    run = brig.run("python", SHOW_ENV, env=env)
    assert run.status == 0, run
    found = json.loads(run.stdout)
    assert found.pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # Python's own
    assert found == {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TMPDIR": "/tmp",
                     "USER": "sandbox"}, run
    for lang, code in (("python", "print(open('/proc/self/environ').read())"), ("shell", "env; cat /proc/*/environ"),
                       ("javascript", "console.log(process.env)")):
        run = brig.run(lang, code, env=env)
        assert "host-secret" not in repr(run.json) and "/tmp/e." not in repr(run.json), run


@pytest.mark.parametrize("entry", ["=x", "NAME", "", "1A=x", "A B=x", "A-B=x", "\u00e9=x", "A\n=x"], ids=repr)
def test_SU_09_bad_names_are_refused(brig, entry):
    run = brig.run("shell", "echo RAN", options=["--env", entry])
    assert clean_failure(run) and run.status == 2, run


def test_SU_09_values_are_kept_as_they_are(brig):
    values = {"A": "b=c", "B": "", "C": "new\nline", "D": "\x1b[31m", "E": "$(id) `id` %s"}
    opts = [o for kv in values.items() for o in ("--env", "%s=%s" % kv)]
    run = brig.run("python", "import os\nprint([os.environ[k] for k in 'ABCDE'])", options=opts)
    assert run.stdout == "%r\n" % [values[k] for k in "ABCDE"], run


# --- SU-10: sizes ---------------------------------------------------------------------------------

def test_SU_10_many_and_long_arguments(brig):
    show = "import sys; print(len(sys.argv) - 1, sum(map(len, sys.argv[1:])))"
    for args in (["x"] * 10000, ["y" * 130000], ["z" * 120000] * 9, ["w" * 60000] * 5, ["a"] * 500):
        run = brig.run("python", show, args=args)
        want = "%d %d\n" % (len(args), sum(map(len, args)))
        assert clean_failure(run) or (run.status == 0 and run.stdout == want), run
    assert run.status == 0, run  # 500 short ones are nothing special


def test_SU_10_large_environment(brig):
    for n, size in ((1, 130000), (9, 110000), (2000, 10), (10, 10000)):
        opts = [o for i in range(n) for o in ("--env", "V%d=%s" % (i, "x" * size))]
        run = brig.run("python", "import os; print(sum(k[0] == 'V' for k in os.environ))", options=opts)
        assert clean_failure(run) or (run.status == 0 and run.stdout == "%d\n" % n), run
    assert run.status == 0, run


def test_SU_10_large_code_and_many_files(brig):
    code = "#" + "x" * (1 << 20) + "\nprint('big')\n"
    run = brig.run_argv(brig.argv("-", options=["--lang", "python"]), input=code)
    assert clean_failure(run) or run.stdout == "big\n", run
    run = brig.run_argv(brig.argv("-", options=["--lang", "python"]), input="#" * (64 << 20))
    assert clean_failure(run), run
    source = brig.path("s", "x")
    run = brig.run("shell", "ls f | wc -l", files={"f/%d" % i: source for i in range(1000)})
    assert clean_failure(run) or run.stdout == "1000\n", run
    sparse = brig.path("sparse", "")
    os.truncate(sparse, 1 << 40)
    run = brig.run("shell", "echo RAN", files={"x": sparse}, timeout=10)
    assert clean_failure(run), run


# --- results: what the box made must not lead brig astray ------------------------------------------

HOSTILE_RESULTS = {
    "link to a file": "ln -s /etc/passwd r",
    "link to the host": "ln -s %(canary)s r",
    "link upwards": "ln -s ../../../../../..%(canary)s r",
    "link to procfs": "ln -s /proc/self/root%(canary)s r",
    "link to init": "ln -s /proc/1/environ r",
    "dangling link": "ln -s nowhere r",
    "fifo": "mkfifo r",
    "directory": "mkdir r",
    "absent": "true",
    "linked parent": None,
}


@pytest.mark.parametrize("what", sorted(HOSTILE_RESULTS))
def test_SU_02_hostile_results_are_refused(brig, canaries, what):
    canary = next(iter(canaries.files))
    code, name = HOSTILE_RESULTS[what], "r"
    if what == "linked parent":
        code, name = "ln -s %s d" % os.path.dirname(canary), "d/" + os.path.basename(canary)
    elif "%" in code:
        code = code % {"canary": canary}
    out = brig.path("out")
    run = brig.run("shell", code + "; exit 0", outs={name: out}, timeout=10)
    assert not os.path.lexists(out), run
    assert run.status != 0 and (run.error.get("cause") or run.raw_err.strip()), run
    assert run.seconds < 5
    canaries.check(run)


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "/proc/self/environ", "a/../../etc/passwd", "/", "",
                                  "/workspace/../etc/passwd", "."], ids=repr)
def test_SU_02_bad_result_paths_are_refused(brig, name):
    out = brig.path("out")
    run = brig.run("shell", "echo RAN; mkdir a", outs={name: out})
    assert clean_failure(run) and run.status == 2, run
    assert not os.path.lexists(out)


def test_SU_02_results_are_bounded_and_do_not_follow_host_links(brig, canaries):
    out = brig.path("out")
    run = brig.run("shell", "truncate -s 1T r; exit 0", outs={"r": out}, options=["--file-size", "2T"], timeout=20)
    assert run.seconds < 10, run
    if os.path.lexists(out):
        assert os.lstat(out).st_size <= 1 << 32 and os.lstat(out).st_blocks < 1 << 20, run
    else:
        assert run.status != 0 and (run.error.get("cause") or run.raw_err.strip()), run
    canary = next(iter(canaries.files))
    link = brig.path("link")
    os.symlink(canary, link)
    brig.run("shell", "echo overwritten > r", outs={"r": link})
    canaries.check()


def test_SU_02_results_swapped_while_they_are_taken(brig, canaries):
    """A background process exchanges the result with a link until the box dies."""
    canary = next(iter(canaries.files))
    code = ("import ctypes, os\nopen('r', 'w').write('good')\nos.symlink(%r, 'l')\n"
            "c = ctypes.CDLL(None)\n"
            "if os.fork() == 0:\n"
            "  while True: c.renameat2(-100, b'r', -100, b'l', 2)\n"
            "import time; time.sleep(0.05)" % canary)
    for i in range(10):
        out = brig.path("out%d" % i)
        run = brig.run("python", code, outs={"r": out}, timeout=10)
        if os.path.lexists(out):
            assert not os.path.islink(out), run
            with open(out) as f:
                assert f.read() == "good", run
        else:
            assert run.status != 0, run
        canaries.check(run)
