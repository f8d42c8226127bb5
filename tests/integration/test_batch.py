# SPDX-License-Identifier: Apache-2.0
"""`brig batch`: requests line by line, answers in order, from boxes that waited."""
import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time

import pytest

ANSWER_S = 40
NOT_CARRIED_OUT = ("rejected", "setup_failed", "lost", "cancelled")
PRINT = {"python": "print(%d)", "javascript": "console.log(%d)", "shell": "echo %d"}


def orphans(but):
    """Dead children of this process that it did not start."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % pid) as f:
            state, parent = f.read().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid() and int(pid) != but:
                yield int(pid)


class Batch:
    """One `brig batch` that is asked line by line, so that its runs share pool and zygote."""

    def __init__(self, brig, *options, **kw):
        self.level = "standard" if brig.is_root else "degraded-ok"
        self.errors, self.bytes = "", b""
        self.refused = False  # an answer said so; then the status is 1
        self.proc = subprocess.Popen(brig.argv("batch", *map(str, options)), stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def line_of(self, language, code, **fields):
        request = dict({"language": language, "code": code, "level": self.level}, **fields)
        return json.dumps(request).encode() + b"\n"

    def send(self, data):
        self.proc.stdin.write(data)
        self.proc.stdin.flush()

    def ask(self, language, code, **fields):
        self.send(self.line_of(language, code, **fields))

    def answer(self, seconds=ANSWER_S):
        end = time.monotonic() + seconds
        while b"\n" not in self.bytes:
            ready, _, _ = select.select([self.proc.stdout], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self.proc.stdout.fileno(), 1 << 20) if ready else b""
            assert chunk, "no answer: %s" % ("the end" if ready else "late")
            self.bytes += chunk
        line, self.bytes = self.bytes.split(b"\n", 1)
        result = json.loads(line.decode())
        self.refused |= result["state"] in NOT_CARRIED_OUT
        return result

    def run(self, language, code, **fields):
        self.ask(language, code, **fields)
        return self.answer()

    def good(self, language, code, **fields):
        result = self.run(language, code, **fields)
        assert result["state"] == "finished" and result["success"], result
        return result["stdout"]

    def end(self):
        """All answers that are left, when it has ended; its status is in proc.returncode."""
        if self.proc.stdin:
            with contextlib.suppress(OSError):
                self.proc.stdin.close()
            self.proc.stdin = None  # else communicate() would flush it
        limit = time.monotonic() + ANSWER_S
        while True:
            try:
                out, err = self.proc.communicate(timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                assert time.monotonic() < limit, "it does not end"
                for pid in orphans(self.proc.pid):  # they come here, not to the host's init
                    os.waitpid(pid, os.WNOHANG)
        self.errors = err.decode()
        rest, self.bytes = self.bytes + out, b""
        return [json.loads(l.decode()) for l in rest.splitlines()]

    def stop(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        for f in filter(None, (self.proc.stdin, self.proc.stdout, self.proc.stderr)):
            with contextlib.suppress(OSError):
                f.close()


@pytest.fixture
def start(brig):
    """start(options…) begins a batch. One that the test has not ended must end by itself, with the
    status that its answers ask for."""
    begun = []

    def begin(*options, **kw):
        begun.append(Batch(brig, *options, **kw))
        return begun[-1]
    yield begin
    try:
        for batch in begun:
            if batch.proc.returncode is None:
                assert batch.end() == [], batch.errors
                assert batch.proc.returncode == (1 if batch.refused else 0), batch.errors
    finally:
        for batch in begun:
            batch.stop()


def children(pid):
    """{pid: command line} of the live children."""
    found = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/stat" % other) as f:
                state, parent = f.read().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                with open("/proc/%s/cmdline" % other, "rb") as f:
                    found[int(other)] = f.read()
    return found


def launcher_of(batch):
    pids = list(children(batch.proc.pid))
    assert len(pids) == 1, pids
    return pids[0]


def zygote_of(batch):
    pids = [p for p, line in children(launcher_of(batch)).items() if b"zygote.py\0serve" in line]
    assert len(pids) == 1, pids
    return pids[0]


# --- input ----------------------------------------------------------------------------------------

def test_answers_come_in_the_order_of_the_requests(start):
    batch = start("--jobs", 4)
    for i in range(12):
        batch.ask("python", "import time; time.sleep(%g); print(%d)" % (0.4 if i % 4 == 0 else 0, i))
    assert [batch.answer()["stdout"] for _ in range(12)] == ["%d\n" % i for i in range(12)]


def test_three_languages_in_one_batch(start):
    batch = start("--jobs", 3)
    for i in range(12):
        language = list(PRINT)[i % 3]
        batch.ask(language, PRINT[language] % i)
    assert [batch.answer()["stdout"] for _ in range(12)] == ["%d\n" % i for i in range(12)]


@pytest.mark.parametrize("data, answers", [
    (b"", 0), (b"\n \n\t\r\n\n", 0), (b"%(good)s", 1), (b"%(good)s\n", 1), (b"\n\n%(good)s\r\n\n  ", 1),
    (b"%(good)s\n%(good)s", 2), (b"  %(good)s  \n", 1),
], ids=["empty", "blank", "no newline", "newline", "blank between", "last without", "spaces"])
def test_lines_that_are_blank_or_not_ended(start, data, answers):
    batch = start()
    batch.send(data.replace(b"%(good)s", batch.line_of("python", "print(1)").strip()))
    results = batch.end()
    assert [r["stdout"] for r in results] == ["1\n"] * answers and batch.proc.returncode == 0


@pytest.mark.parametrize("bad", [
    b"x", b"[]", b"null", b"{}", b'{"language":"cobol","code":"1"}', b'{"language":"python"}', b"\xff\xfe",
    b'{"language":"python","code":"1","level":"none"}', b'{"language":"python","code":"1","more":1}',
    b'{"language":"python","code":"1"', b'{"language":"python","code":"1"} {}', b"\0", b"{" * 10000,
])
def test_a_bad_line_is_refused_and_the_rest_goes_on(start, bad):
    batch = start("--jobs", 2)
    good = batch.line_of("python", "print(1)")
    batch.send(good + bad + b"\n" + good)
    results = batch.end()
    assert [r["state"] for r in results] == ["finished", "rejected", "finished"], results
    assert results[1]["error"]["cause"] and results[1]["execution_id"] and not results[1]["success"]
    assert batch.proc.returncode == 1


def test_the_longest_code(start):
    """1 MiB, read from a file, in each language."""
    batch = start("--jobs", 1)
    for language, comment in (("python", "#"), ("javascript", "//"), ("shell", "#")):
        code = PRINT[language] % 7 + "\n" + comment
        code += "x" * ((1 << 20) - len(code))
        assert batch.good(language, code) == "7\n"
        assert batch.run(language, code + "x")["state"] == "rejected"
    assert batch.end() == [] and batch.proc.returncode == 1


LINE_MAX = 128 << 20


@pytest.mark.parametrize("pad", ["x", " "], ids=["text", "blanks"])
@pytest.mark.parametrize("extra", [0, 1, 5 << 20], ids=["longest", "too long", "far too long"])
def test_the_longest_line(start, extra, pad):
    """It may be refused; what follows it, in the same breath, is not. No byte is looked at twice."""
    batch = start("--jobs", 2)
    good = batch.line_of("shell", "echo 1")
    line = b" " * (LINE_MAX + extra) if pad == " " else b'{"language":"shell","code":"%s"}' % (
        b"x" * (LINE_MAX + extra - len(b'{"language":"shell","code":""}')))
    assert len(line) == LINE_MAX + extra
    begin = time.monotonic()
    batch.send(good + line + b"\n" + good + good)
    results = batch.end()
    refused = ["rejected"] if pad == "x" or extra > 0 else []  # else it is blank
    assert [r["state"] for r in results] == ["finished"] + refused + ["finished"] * 2, results
    assert not refused or results[1]["error"]["cause"], results
    assert time.monotonic() - begin < 10


def test_a_line_too_long_that_never_ends(start):
    batch = start()
    batch.send(batch.line_of("shell", "echo 1") + b"x" * (LINE_MAX + 100))
    assert [r["state"] for r in batch.end()] == ["finished", "rejected"]


def test_requests_from_a_file(brig, start, place):
    line = b'{"language":"shell","code":"echo $1","args":["%d"],"level":"degraded-ok"}\n'
    path = place / "requests"
    path.write_bytes(b"".join(line % i for i in range(5)))
    path.chmod(0o644)
    batch = start(path)
    assert [r["stdout"] for r in batch.end()] == ["%d\n" % i for i in range(5)]
    missing = start(place / "missing")
    assert missing.end() == [] and missing.proc.returncode == 125 and "missing" in missing.errors


@pytest.mark.parametrize("options", [
    ["--jobs"], ["--jobs", "0"], ["--jobs", "1025"], ["-j", "-1"], ["-j", "2x"], ["--no-such"], ["a", "b"],
    ["--preload"], ["-x"], ["--jobs="],
], ids=" ".join)
def test_wrong_options(brig, options):
    run = brig.command("batch", *options)
    assert run.status == 2 and run.out == b"" and "brig batch --help" in run.text, run


def test_options_joined_and_named(brig):
    run = brig.call(brig.argv("batch", "--jobs=2", "--stats"), stdin=b"")
    assert run.status == 0 and run.out == b"", run
    for word, said in (("--jobs=x", "--jobs: a number from 1 to 1024"), ("--jbos=2", "--jbos=2: no such option"),
                       ("--stats=1", "--stats=1: takes no value"), ("--preload", "--preload: needs a value")):
        assert said in brig.command("batch", word).text


def test_help(brig):
    run = brig.command("batch", "--help")
    assert run.status == 0 and b"--jobs" in run.out and run.err == b"", run


def test_a_module_that_cannot_be_preloaded(start):
    batch = start("--preload", "no_such_module")
    batch.ask("python", "print(1)")
    batch.ask("shell", "echo 2")
    results = batch.end()
    assert [r["state"] for r in results] == ["setup_failed", "finished"], results
    assert results[0]["error"]["cause"] and "no_such_module" in batch.errors and batch.proc.returncode == 1


def test_a_preloaded_module_is_there(start):
    code = "import sys; print('numpy' in sys.modules); import numpy; print(numpy.arange(4).sum())"
    assert start("--preload", "numpy").good("python", code) == "True\n6\n"
    assert start().good("python", code) == "False\n6\n"


# --- requests -------------------------------------------------------------------------------------

ECHO = {
    "python": "import os, sys\nprint(sys.argv[1:], os.environ.get('NAME'), sys.stdin.read(), "
              "open('d/f').read(), sorted(os.listdir()))",
    "javascript": "const fs = require('fs')\nconsole.log(process.argv.slice(2), process.env.NAME, "
                  "fs.readFileSync(0, 'utf8'), fs.readFileSync('d/f', 'utf8'), fs.readdirSync('.').sort())",
    "shell": "echo \"$@\" \"$NAME\" \"$(cat)\" \"$(cat d/f)\" *",
}


@pytest.mark.parametrize("language", list(ECHO))
def test_everything_of_a_request_reaches_its_own_run(start, language):
    batch = start("--jobs", 3)
    for i in range(9):
        batch.ask(language, ECHO[language], args=["arg%d" % i, "a b"], env={"NAME": "env%d" % i},
                  stdin="in%d" % i, files=[{"path": "d/f", "content": "file%d" % i}])
    for i in range(9):
        result = batch.answer()
        assert result["state"] == "finished", result
        for part in ("arg%d", "env%d", "in%d", "file%d"):
            assert part % i in result["stdout"], result["stdout"]
        for j in set(range(9)) - {i}:
            assert "%d" % j not in result["stdout"], result["stdout"]
    bare = batch.run(language, ECHO[language])
    assert "env" not in bare["stdout"] and "file" not in bare["stdout"]


@pytest.mark.parametrize("language", list(PRINT))
@pytest.mark.parametrize("character", ["a", "\u00e9", "\x01"], ids=["plain", "two bytes", "escaped"])
def test_long_arguments(start, language, character):
    """As many bytes as a request may have."""
    batch = start("--jobs", 1)
    count = {"python": "import sys\nprint(len(sys.argv), len(sys.argv[1]))",
             "javascript": "console.log(process.argv.length - 1, process.argv[2].length)",
             "shell": "echo $(($# + 1)) ${#1}"}[language]
    word = character * (60000 // len(character.encode()))
    assert batch.good(language, count, args=[word] * 8) == "9 %d\n" % len(word)


def test_files_that_a_run_made_are_told(start):
    batch = start("--jobs", 1)
    for i in range(3):
        result = batch.run("shell", "echo x > made%d; rm gone; echo y > kept" % i, files=[
            {"path": "gone", "content": "1"}, {"path": "kept", "content": "1"}])
        assert [f["path"] for f in result["files"]["created"]] == ["made%d" % i], result
        assert [f["path"] for f in result["files"]["modified"]] == ["kept"]
        assert [f["path"] for f in result["files"]["deleted"]] == ["gone"]


@pytest.mark.parametrize("language", list(PRINT))
def test_limits_of_the_second_request_hold_at_once(start, language):
    """It comes before anything is warm, and no box like it waits."""
    batch = start("--jobs", 4)
    code = PRINT[language] % 1
    batch.send(b"".join(batch.line_of(language, code, **fields) for fields in (
        {}, {"limits": {"memory_bytes": 256 << 20}}, {"limits": {"pids": 50}}, {})))
    results = [batch.answer() for _ in range(4)]
    assert [r["state"] for r in results] == ["finished"] * 4, results
    details = [{l["name"]: l["detail"] for l in r["receipt"]["layers"]} for r in results]
    if batch.level == "standard":
        assert "268435456" in details[1]["memory_limit"] and "536870912" in details[0]["memory_limit"]
        assert "536870912" in details[3]["memory_limit"]


def test_300_requests_at_16_jobs(start):
    batch, n = start("--jobs", 16, "--stats"), 300
    writer = threading.Thread(target=lambda: [
        batch.ask("python", "print(%d)" % i, timeout_ms=60000) for i in range(n)])
    writer.start()
    results = [batch.answer() for _ in range(n)]
    writer.join()
    assert [r["stdout"] for r in results] == ["%d\n" % i for i in range(n)]
    assert all(r["state"] == "finished" and r["receipt"]["verified"] for r in results)
    assert batch.end() == [] and batch.proc.returncode == 0
    assert " 0 failed" in batch.errors, batch.errors


# --- ends -----------------------------------------------------------------------------------------

SLEEPER = "import subprocess, time\nsubprocess.Popen(['sleep', '60'])\ntime.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_what_runs(start, number):
    batch = start("--jobs", 3)
    batch.good("python", "1")
    for _ in range(3):
        batch.ask("python", SLEEPER)
    time.sleep(0.6)
    begin = time.monotonic()
    batch.proc.send_signal(number)
    results = batch.end()
    assert [r["state"] for r in results] == ["cancelled"] * 3 and batch.proc.returncode == 130
    assert time.monotonic() - begin < 5


def test_after_sigkill_nothing_is_left(start):
    """The fixture `residue` looks for processes, cgroups and mounts."""
    batch = start("--jobs", 3)
    batch.good("python", "1")
    for language, code in (("python", SLEEPER), ("shell", "sleep 60 & sleep 61"),
                           ("javascript", "setTimeout(() => 0, 60000)")):
        batch.ask(language, code)
    time.sleep(0.8)
    batch.proc.kill()
    assert batch.end() == [] and batch.proc.returncode == -signal.SIGKILL


def test_a_reader_that_went_away_ends_it(start):
    batch = start("--jobs", 2)
    batch.good("python", "1")
    batch.proc.stdout.close()
    batch.proc.stdout = open(os.devnull, "rb")
    batch.ask("python", "print(1)")
    begin = time.monotonic()
    batch.end()
    assert batch.proc.returncode in (125, 130) and time.monotonic() - begin < 10


def test_a_slow_reader_does_not_stretch_the_wall_time(start):
    """Nobody takes the first answer, which is larger than a pipe; the second run has one second."""
    batch = start("--jobs", 2)
    batch.good("python", "1")
    batch.ask("python", "print('x' * 3000000)")
    batch.ask("python", "import time\ntime.sleep(30)", timeout_ms=1000)
    time.sleep(4)
    assert len(batch.answer()["stdout"]) == 3000001
    late = batch.answer()
    assert late["state"] == "timed_out" and 1000 <= late["usage"]["wall_ms"] < 2500, late["usage"]


def test_a_launcher_that_died_is_told(start):
    """Every request under way has an answer; none says that the program did well."""
    batch = start("--jobs", 3)
    batch.good("python", "1")
    for _ in range(3):
        batch.ask("python", SLEEPER)
    time.sleep(0.6)
    os.kill(launcher_of(batch), signal.SIGKILL)
    results = batch.end()
    assert batch.proc.returncode in (1, 125), batch.proc.returncode
    assert [r["state"] for r in results] == ["lost"] * 3, results


def test_a_zygote_that_died_is_replaced(start):
    batch = start("--jobs", 2, "--stats")
    batch.good("python", "1")
    for i in range(2):
        old = zygote_of(batch)
        os.kill(old, signal.SIGKILL)
        for k in range(4):
            assert batch.good("python", "print(%d)" % k) == "%d\n" % k
        assert zygote_of(batch) != old


def test_a_zygote_that_died_with_an_order_unread_is_replaced(start):
    """Its socket says "reset" then, not "closed"; the launcher meets that before it hears of the
    end, for the order lies there already when it goes on."""
    batch = start("--jobs", 2)
    batch.good("python", "1")
    launcher, old = launcher_of(batch), zygote_of(batch)
    os.kill(old, signal.SIGSTOP)
    other = {"limits": {"memory_bytes": 128 << 20}}  # no box that waits will do
    batch.ask("python", "print(0)", **other)
    time.sleep(0.3)
    os.kill(launcher, signal.SIGSTOP)
    batch.ask("python", "print(1)", **other)
    time.sleep(0.3)
    os.kill(old, signal.SIGKILL)
    os.kill(launcher, signal.SIGCONT)
    assert [batch.answer()["stdout"] for _ in range(2)] == ["0\n", "1\n"]


def test_a_zygote_that_died_and_other_limits(start):
    batch = start("--jobs", 2)
    batch.good("python", "1")
    os.kill(zygote_of(batch), signal.SIGKILL)
    for _ in range(2):
        assert batch.good("python", "print(1)", limits={"memory_bytes": 128 << 20}) == "1\n"


def test_a_run_survives_its_zygote(start):
    batch = start("--jobs", 1)
    batch.good("python", "1")
    batch.ask("python", "import time; time.sleep(1); print(7)")
    time.sleep(0.4)
    os.kill(zygote_of(batch), signal.SIGKILL)
    assert batch.answer()["stdout"] == "7\n"


FORGE = "import os, struct\ndef send(b): os.write(3, struct.pack('<I', len(b)) + b)\n"


@pytest.mark.parametrize("frame", ['{"output":{},"x":[1]}', '{"a:b":1,"output":{"text/plain":"x"}}'])
def test_a_forged_frame_cannot_break_the_answer(start, frame):
    """answer() reads it as a client does."""
    result = start().run("python", FORGE + "send(b'%s')\nprint(1)" % frame)
    assert (result["stdout"], result["outputs"], result["error"]) == ("1\n", [], None), result


SHOWN = "class Shown:\n    def _repr_json_(self): return %s\ndisplay(Shown())\n"


@pytest.mark.parametrize("value", ["2**70", "list(range(200000))", "{1: 1, '1': 2}", "{'a\\0': 1}"])
def test_an_output_that_is_too_much_is_one_output(start, value):
    batch = start()
    result = batch.run("python", SHOWN % value + "display('kept')\n42")
    assert (result["state"], result["value"]) == ("finished", "42"), result
    assert result["error"]["code"] == "limit" and len(result["outputs"]) == 2, result
    result = batch.run("python", SHOWN % value + "1/0")
    assert (result["state"], result["error"]["type"]) == ("failed", "ZeroDivisionError"), result


def test_outputs_that_are_too_many_are_told_in_javascript_too(start):
    result = start().run("javascript", "for (let i = 0; i < 1500; i++) display(i);\n42")
    assert (len(result["outputs"]), result["value"]) == (1000, "42"), result
    assert result["error"]["code"] == "limit", result


def test_a_warning_comes_once(start):
    result = start().run("python", "def same(f): return f\n@same\ndef f(): return 1 is 1\n")
    assert result["stderr"].count("SyntaxWarning") == 1, result
