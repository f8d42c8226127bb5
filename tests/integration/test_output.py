# SPDX-License-Identifier: Apache-2.0
"""Output that cannot be written, or that nobody reads; the same in a box of its own, in a warm one
and in the daemon."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import signal
import stat
import subprocess
import sys
import time

import pytest

from conftest import descendants

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import BRIG, until  # noqa: E402

LEVEL = [] if os.geteuid() == 0 else ["--level", "degraded-ok"]
BOUND_S = 60
LOST = b"brig: the output could not be written: "
FLOOD = "import os\nwhile True: os.write(1, b'x\\n' * 2048)" # a terminal makes more of each line's end
CANCELLED, FAILED, TIMED_OUT = 130, 125, 124


@pytest.fixture(scope="module")
def daemon():
    with brigd.running() as d:
        yield d


@pytest.fixture(autouse=True)
def residue(subreaper):
    """In the place of conftest's: the daemon outlives a test."""
    with brigd.no_descriptors_left():
        yield


def at(daemon):
    """The tests' own policy is not for a daemon, which has its own."""
    env = dict(os.environ, BRIG_HOST="unix:%s" % daemon.socket)
    del env["BRIG_POLICY"]
    return env


class Way:
    """`brig run` as one of the three."""

    def __init__(self, name, daemon):
        self.options = ["--warm"] if name == "warm" else []
        self.env = at(daemon) if name == "daemon" else dict(os.environ, BRIG_HOST="none")
        if name == "daemon": # with one of its own it would not ask a daemon
            self.env.pop("BRIG_STATE_DIR", None)

    def argv(self, *args):
        return [BRIG, "run", *LEVEL, *self.options, *map(str, args)]

    @contextlib.contextmanager
    def start(self, *args, **more):
        with subprocess.Popen(self.argv(*args), env=self.env, stdin=subprocess.DEVNULL,
                              **{"stderr": subprocess.PIPE, **more}) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, *args, **more):
        return subprocess.run(self.argv(*args), env=self.env, stdin=subprocess.DEVNULL, timeout=BOUND_S,
                              check=False, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


@pytest.fixture(params=["cold", "warm", "daemon"])
def way(request, daemon):
    return Way(request.param, daemon)


@contextlib.contextmanager
def pipe(blocking=True):
    reader, writer = os.pipe()
    if not blocking:
        fcntl.fcntl(writer, fcntl.F_SETFL, fcntl.fcntl(writer, fcntl.F_GETFL) | os.O_NONBLOCK)
    with os.fdopen(reader, "rb") as r, os.fdopen(writer, "wb") as w:
        yield r, w


def state_of(pid):
    text = pathlib.Path("/proc/%d/stat" % pid).read_text()
    return text[text.rindex(")") + 2]


def seconds_of(pid):
    text = pathlib.Path("/proc/%d/stat" % pid).read_text()
    fields = text[text.rindex(")") + 2:].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# What cannot be written


@pytest.mark.parametrize("n", [1, 1000000])
def test_full_output_is_an_error(way, n):
    with open("/dev/full", "wb") as full:
        done = way.run("python", "-c", "print('x' * %d)" % n, stdout=full)
    assert done.returncode == FAILED and done.stderr == LOST + b"No space left on device\n", done


@pytest.mark.alone
@pytest.mark.needs_root
def test_full_disk_is_an_error(way, tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    try:
        with open(tmp_path / "out", "wb") as out:
            done = way.run("python", "-c", "print('x' * 1000000)", stdout=out)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert done.returncode == FAILED and LOST in done.stderr, done


def test_closed_output_is_an_error(way):
    done = way.run("shell", "-c", "echo x", preexec_fn=lambda: os.close(1), stdout=None)
    assert done.returncode == FAILED and done.stderr == LOST + b"Bad file descriptor\n", done


def test_closed_output_that_is_not_needed(way):
    done = way.run("shell", "-c", "exit 3", preexec_fn=lambda: os.close(1), stdout=None)
    assert (done.returncode, done.stderr) == (3, b""), done


@pytest.mark.parametrize("n", [1, 1000000])
@pytest.mark.parametrize("result", [[], ["--json"]], ids=["live", "json"])
def test_reader_that_is_gone_is_no_error(way, n, result):
    with pipe() as (reader, writer):
        reader.close()
        done = way.run("python", "-c", "print('x' * %d)" % n, *result, stdout=writer)
    assert (done.returncode, done.stderr) == (CANCELLED, b""), done


def test_full_standard_error_is_an_error(way):
    with open("/dev/full", "wb") as full:
        done = way.run("shell", "-c", "echo x >&2", stderr=full)
    assert done.returncode == FAILED, done


@pytest.mark.parametrize("args", [
    ["--help"], ["--version"], ["completion", "bash"], ["run", "--help"], ["pool", "--help"],
    ["ps", "--help"], ["ledger", "--help"], ["approvals", "--help"], ["batch", "--help"],
    ["risk", "-l", "shell", "-c", "true"], ["policy", "check", "strict"], ["policy", "show", "strict"],
    ["doctor"], ["approvals", "ls"],
], ids=" ".join)
def test_what_is_printed_must_arrive(args):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BRIG, *args], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, timeout=BOUND_S, check=False)
    assert done.returncode == FAILED and done.stderr.count(b"\n") == 1, done
    assert b"No space left on device" in done.stderr, done


@pytest.mark.parametrize("follow", [[], ["-f"]], ids=["logs", "follow"])
def test_logs_that_cannot_be_written(daemon, follow):
    env = at(daemon)
    run = Way("daemon", daemon).run("shell", "--json", "-c", "echo x")
    name = json.loads(run.stdout.decode())["execution_id"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BRIG, "logs", *follow, name], env=env, stdout=full, stderr=subprocess.PIPE,
                              timeout=BOUND_S, check=False)
    assert done.returncode == FAILED and done.stderr == LOST + b"No space left on device\n", done


@pytest.mark.parametrize("args", [["ps"], ["ps", "--json"], ["top", "--once"], ["wait", "--json"]], ids=" ".join)
def test_what_a_daemon_says_must_arrive(daemon, args):
    if "wait" in args:
        run = Way("daemon", daemon).run("shell", "--json", "-c", "echo x")
        args = args + [json.loads(run.stdout.decode())["execution_id"]]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BRIG, *args], env=at(daemon), stdout=full, stderr=subprocess.PIPE,
                              timeout=BOUND_S, check=False)
    assert done.returncode == FAILED and b"No space left on device" in done.stderr, done


def test_answers_of_a_batch_must_arrive():
    request = {"language": "shell", "code": "echo x", "level": "degraded-ok"}
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BRIG, "batch"], input=json.dumps(request).encode() + b"\n", stdout=full,
                              stderr=subprocess.PIPE, timeout=BOUND_S, check=False)
    assert done.returncode == FAILED and b"writing results failed: No space left" in done.stderr, done


def test_a_receipt_must_arrive(way):
    with open("/dev/full", "wb") as full:
        done = way.run("shell", "--receipt", "-c", "echo x", stderr=full)
    assert (done.returncode, done.stdout) == (FAILED, b"x\n"), done


# Readers that do not read


@pytest.mark.parametrize("options", [[], ["--output", "400K"], ["--output", "100K"]], ids=" ".join)
def test_all_arrives_through_a_pipe_that_does_not_block(way, options):
    code = "import sys; sys.stdout.write('x' * 299999 + '.')"
    with pipe(blocking=False) as (reader, writer):
        with way.start("python", "-c", code, *options, stdout=writer) as process:
            writer.close()
            time.sleep(1)
            out = reader.read()
            process.wait(timeout=BOUND_S)
            assert process.returncode == 0, process.stderr.read()
    if "100K" in options: # the beginning, and half of it again as the end
        mark = b"\n[brig: 146400 bytes of stdout dropped]\n"
        assert out == b"x" * 102400 + mark + b"x" * 51199 + b"."
    else:
        assert out == b"x" * 299999 + b"."


@pytest.mark.parametrize("blocking", [True, False], ids=["blocks", "does-not"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("result", [[], ["--json"]], ids=["live", "json"])
def test_a_signal_ends_waiting_for_a_reader(way, blocking, number, result):
    """The program is long over; only its output is left."""
    with pipe(blocking) as (_reader, writer):
        with way.start("python", "-c", "print('x' * 300000)", *result, stdout=writer) as process:
            time.sleep(2.5)
            assert process.poll() is None
            before = seconds_of(process.pid)
            time.sleep(0.5)
            assert state_of(process.pid) == "S" and seconds_of(process.pid) - before < 0.2
            process.send_signal(number)
            process.wait(timeout=5)
            assert process.returncode == CANCELLED, process.stderr.read()


def has_box(process):
    """The launcher of a warm run stays until brig is done; its box does not."""
    return "brig-init" in [name for _pid, name in descendants(process.pid)]


def test_a_terminal_that_nobody_reads_does_not_stretch_the_time(way):
    master, slave = pty.openpty()
    try:
        with way.start("python", "--timeout", "1s", "-c", FLOOD, stdout=slave) as process:
            os.close(slave)
            time.sleep(2)
            until(lambda: not has_box(process), "the box is gone", 8)
            with contextlib.suppress(OSError): # EIO: its other side is closed
                while os.read(master, 65536):
                    pass
            process.wait(timeout=BOUND_S)
            err = process.stderr.read()
    finally:
        os.close(master)
    assert process.returncode == TIMED_OUT and b"wall time" in err, err


def test_the_time_of_a_reader_is_not_the_programs(way):
    with pipe() as (reader, writer):
        with way.start("python", "--timeout", "1s", "-c", FLOOD, stdout=writer) as process:
            writer.close()
            time.sleep(3)
            reader.read()
            process.wait(timeout=BOUND_S)
            assert process.returncode == TIMED_OUT, process.stderr.read()


def test_a_terminal_that_nobody_reads_and_a_signal(way):
    """Both streams there: not even the message has room."""
    master, slave = pty.openpty()
    try:
        with way.start("python", "--timeout", "1s", "-c", FLOOD, stdout=slave, stderr=slave) as process:
            os.close(slave)
            time.sleep(3)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=5)
    finally:
        os.close(master)
    assert process.returncode == CANCELLED


def test_output_to_a_socket(way):
    import socket # pylint: disable=import-outside-toplevel
    ours, theirs = socket.socketpair()
    with ours, way.start("python", "-c", "print('x' * 999999)", stdout=theirs) as process:
        theirs.close()
        time.sleep(1)
        out = b""
        while True:
            data = ours.recv(65536)
            if not data:
                break
            out += data
        process.wait(timeout=BOUND_S)
    assert process.returncode == 0 and out == b"x" * 999999 + b"\n"


# Files of --out


def kinds(place):
    os.mkfifo(place / "fifo")
    os.symlink("nowhere", place / "dangling")
    os.symlink("/dev/null", place / "device")
    os.symlink("/proc/self/fd/1", place / "magic")
    os.mkdir(place / "directory")
    if os.geteuid() == 0:
        os.mknod(place / "node", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    return sorted(place.iterdir())


def test_out_replaces_only_regular_files(way, place):
    made = kinds(place)
    before = [os.lstat(path) for path in made]
    for path in made:
        with open(place / "log", "wb") as log:
            done = way.run("shell", "-c", "echo ran; echo new > x", "--out", "x:%s" % path, stdout=log)
        assert done.returncode == FAILED and path.name.encode() in done.stderr, (path, done)
        assert (place / "log").read_bytes() == b"", "it ran"
        (place / "log").unlink()
    assert [(s.st_ino, s.st_mode) for s in before] == [(s.st_ino, s.st_mode) for s in map(os.lstat, made)]
    assert sorted(place.iterdir()) == made


def test_out_looks_again_after_the_run(way, place):
    with way.start("shell", "-c", "echo up; sleep 2; echo new > x", "--out", "x:%s/f" % place,
                   stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        os.mkfifo(place / "f")
        _out, err = process.communicate(timeout=BOUND_S)
    assert process.returncode == FAILED and b"/f\" is not a regular file" in err, err
    assert [p.name for p in place.iterdir()] == ["f"] and stat.S_ISFIFO(os.lstat(place / "f").st_mode)


def test_out_replaces_files_and_links_to_files(way, place):
    for name in ("old", "target"):
        (place / name).write_text("old")
    (place / "link").symlink_to("target")
    for name in ("old", "link", "new"):
        done = way.run("shell", "-c", "echo new > x", "--out", "x:%s" % (place / name))
        assert done.returncode == 0 and (place / name).read_text() == "new\n", done
    assert (place / "target").read_text() == "old" and not (place / "link").is_symlink()


def test_out_that_fails_beside_the_output_limit(way, place):
    args = ["shell", "--output", "1K", "--out", "missing:%s/x" % place, "-c"]
    done = way.run(*args, "head -c 5000 /dev/zero")
    assert done.returncode == FAILED and b"missing" in done.stderr, done
    done = way.run(*args, "head -c 5000 /dev/zero", "--json")
    result = json.loads(done.stdout.decode())
    assert done.returncode == FAILED and result["state"] == "output_limit" and not result["success"], done
    assert "missing" in result["error"]["cause"], result
    done = way.run("shell", "--output", "1K", "-c", "head -c 5000 /dev/zero")
    assert done.returncode == 0 and b"output limit" in done.stderr, done


# Errors before anything runs


@pytest.mark.parametrize("options", [[], ["--warm"]], ids=["cold", "warm"])
def test_a_state_directory_for_everybody_is_denied(place, options):
    state = place / "state"
    state.mkdir()
    state.chmod(0o777)
    done = subprocess.run([BRIG, "run", *LEVEL, *options, "--json", "--host", "none", "--state-dir", state,
                           "shell", "-c", "echo ran"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=BOUND_S, check=False)
    result = json.loads(done.stdout.decode())
    assert (result["error"]["code"], done.returncode, result["stdout"]) == ("denied", 126, ""), done


def test_a_stop_while_the_box_is_made(brig):
    """Nothing of the program runs after Ctrl-C, also where brig waits for a box that shall wait."""
    proc = brig.start("python", "-c", "print('ran')\nwhile True: pass", "--warm", "--timeout", "20s")
    time.sleep(0.03)  # a box takes some hundred milliseconds: an interpreter is loaded first
    os.killpg(proc.pid, signal.SIGINT)
    out, err = proc.communicate(timeout=20)
    assert (proc.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("warm", [[], ["--warm"]], ids=["cold", "warm"])
@pytest.mark.parametrize("n, missing", [(1024, 0), (1030, 0), (1536, 0), (1537, 1), (12000, 10464)])
def test_what_is_shown_above_the_limit(brig, warm, n, missing):
    """The limit's worth live, what is missing, then the end: half of the limit. Nothing twice."""
    text = "".join(chr(97 + i % 26) for i in range(n))
    run = brig.plain("python", "-c", "print(%r, end='')" % text, "--output", "1K", *warm)
    mark = "\n[brig: %d bytes of stdout dropped]\n" % missing if missing else ""
    tail = text[1024 + missing:]
    assert run.out.decode() == text[:1024] + mark + tail


@pytest.mark.parametrize("warm", [[], ["--warm"]], ids=["cold", "warm"])
def test_a_limit_that_a_policy_lowered_is_the_limit(brig_user, place, warm):
    policy = place / "policy.yaml"
    policy.write_text("version: 1\nname: small\nextends: permissive\nfloor: { limits: { output: 1K } }\n")
    run = brig_user.plain("python", "-c", "print('x' * 18000, end='')", "--policy", policy, *warm)
    assert run.out.decode() == "x" * 1024 + "\n[brig: 16464 bytes of stdout dropped]\n" + "x" * 512, run
