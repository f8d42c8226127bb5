# SPDX-License-Identifier: Apache-2.0
"""Runs in boxes that waited: forked from an interpreter, yet like a program of its own.

All runs of a test come from one pool; after each bad end the pool goes on.
"""
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest

from test_batch import Batch, children, launcher_of, start, zygote_of  # noqa: F401 (start: fixture)

NEXT = {"python": ("print('next')", "next\n"), "javascript": ("console.log('next')", "next\n"),
        "shell": ("echo next", "next\n")}


def ends(batch, language, code, **fields):
    """The result of a run that ends badly; the two after it must be fine."""
    result = batch.run(language, code, **fields)
    for _ in range(2):
        assert batch.good(language, NEXT[language][0]) == NEXT[language][1]
    return result


# --- hygiene of the fork --------------------------------------------------------------------------

DRAWS = """
import os, random, secrets, tempfile, uuid, ssl, multiprocessing
import numpy
print(random.random(), random.getrandbits(64), secrets.token_hex(8), uuid.uuid1(), uuid.uuid4(),
      tempfile.mkstemp()[1], tempfile.mkdtemp(), ssl.RAND_bytes(8).hex(), os.urandom(8).hex(),
      numpy.random.random(), numpy.random.randint(1 << 60), numpy.random.default_rng().random(),
      random.SystemRandom().random(), bytes(multiprocessing.current_process().authkey).hex())
"""


@pytest.mark.parametrize("preload", [[], ["numpy", "ssl", "multiprocessing", "numpy.random"]],
                         ids=["default", "preloaded"])
def test_no_two_boxes_draw_the_same(start, preload):  # noqa: F811
    batch = start("--jobs", 2, *[word for name in preload for word in ("--preload", name)])
    drawn = [batch.good("python", DRAWS).split() for _ in range(12)]
    for column in zip(*drawn):
        assert len(set(column)) == len(drawn), column


def test_no_two_children_of_a_program_draw_the_same(start):  # noqa: F811
    """The hooks for fork that are switched off in the zygote are on again in the box."""
    code = ("import os, random, threading\nthreading.Thread(target=lambda: None).start()\n"
            "for _ in range(8):\n    if os.fork() == 0:\n"
            "        os.write(1, b'%s %d\\n' % (repr(random.random()).encode(), threading.active_count()))\n"
            "        os._exit(0)\n    os.wait()")
    lines = start().good("python", code).splitlines()
    assert len(lines) == len(set(lines)) == 8 and {l.split()[1] for l in lines} == {"1"}


HUGE_PAGES = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 1) and os.path.exists(
    "/sys/kernel/mm/transparent_hugepage")
MOVED = """
import ctypes, sys
moved = 0
for line in open("/proc/self/maps"):
    place, rights, _, _, inode = line.split()[:5]
    first, last = [int(end, 16) for end in place.split("-")]
    if rights == "r-xp" and inode == "0" and "[" not in line:
        image = open(sys.executable, "rb").read()
        base = min(int(l.split("-")[0], 16) for l in open("/proc/self/maps"))
        moved += ctypes.string_at(first, last - first) == image[first - base:last - base]
print(moved)
"""


def test_the_code_of_the_interpreter_is_what_is_in_its_file(start):  # noqa: F811
    """It is moved into huge pages, where there are some; a box writes to none of them."""
    batch = start()
    assert batch.good("python", MOVED) == "%d\n" % HUGE_PAGES
    write = ("import ctypes\naddress = ctypes.cast(ctypes.pythonapi.PyLong_FromLong, ctypes.c_void_p)\n"
             "ctypes.memset(address.value, 0, 1)")
    assert batch.run("python", write)["signal"] == signal.SIGSEGV
    assert batch.good("python", "print(int('5'))") == "5\n"


NAMED = """
large = 0
for line in open("/proc/self/maps"):
    place, rights, _, _, inode = line.split()[:5]
    first, last = [int(end, 16) for end in place.split("-")]
    large += rights == "rw-p" and int(inode) != 0 and last - first >= 1 << 19
print(large)
"""
GROW = """
import ctypes, gc
kept = [[i] for i in range(200000)]
blocks = [ctypes.create_string_buffer(n) for n in range(1000, 200000, 997)]
assert sum(x[0] for x in kept) == 199999 * 100000 and all(len(b) == n for b, n in zip(
    blocks, range(1000, 200000, 997)))
del kept, blocks
gc.collect()
print(len([bytes(4096) for _ in range(5000)]))
"""


def test_the_data_of_the_interpreter_is_moved_and_whole(start):  # noqa: F811
    """Into huge pages, which are no file's any more; the heap goes on growing and shrinking."""
    plain = int(subprocess.check_output(["/usr/bin/python3", "-c", NAMED]))
    batch = start()
    assert plain and int(batch.good("python", NAMED)) == (0 if HUGE_PAGES else plain)
    for _ in range(3):
        assert batch.good("python", GROW) == "5000\n"


FINALIZERS = """
class Thing:
    def __init__(self, name): self.name = name
    def __del__(self): print("freed", self.name)
def use(): return plain, held
plain = Thing("a global")
held = [Thing("in a cycle")]; held.append(held)
file = open("/workspace/left", "w"); file.write("written"); file.cycle = lambda: file
"""


@pytest.mark.parametrize("name", [None, "other.py"])
def test_the_end_of_a_program_frees_what_it_holds(start, name):  # noqa: F811
    """As the interpreter does, whatever the script's name is."""
    batch = start()
    fields = {"name": name} if name else {}
    result = batch.run("python", FINALIZERS, **fields)
    assert sorted(result["stdout"].splitlines()) == ["freed a global", "freed in a cycle"], result
    assert [f["size"] for f in result["files"]["created"]] == [7], result["files"]


STATE = """
import gc, json, os, signal, sys, threading, time
def depth(n):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
print(json.dumps({
    "threads": [threading.active_count(), len(os.listdir("/proc/self/task")),
                threading.main_thread().native_id == os.getpid()],
    "timers": [signal.getitimer(i)[0] for i in range(3)],
    "handlers": sorted(int(s) for s in signal.valid_signals()
                       if signal.getsignal(s) not in (signal.SIG_DFL, signal.SIG_IGN)),
    "ignored": sorted(int(s) for s in signal.valid_signals() if signal.getsignal(s) == signal.SIG_IGN),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "environment": sorted(os.environ), "argv": sys.argv, "main": sorted(vars(sys.modules["__main__"])),
    "pids": [os.getppid(), os.getpid() == os.getsid(0)],
    "gc": gc.isenabled(), "trace": [sys.gettrace(), sys.getprofile()],
    "recursion": depth(0), "switch": sys.getswitchinterval(),
    "cpu": time.process_time() < 1, "zone": time.tzname, "encoding": sys.stdout.encoding,
    "atexit": __import__("atexit")._ncallbacks(), "signals": int(
        [l for l in open("/proc/self/status") if l.startswith("SigIgn")][0].split()[1], 16),
}, sort_keys=True))
"""


def test_a_warm_program_starts_as_a_cold_one(start, brig):  # noqa: F811
    """No thread, timer, handler, name or setting of the zygote's."""
    cold = brig.call(brig.argv("run", "python", "-c", STATE, *brig.level)).out
    batch = start("--jobs", 1)
    for _ in range(3):
        assert json.loads(batch.good("python", STATE)) == json.loads(cold)


def test_no_descriptor_of_the_zygote_or_the_launcher(start):  # noqa: F811
    batch = start("--jobs", 1)
    batch.good("python", "1")
    foreign = set()
    for pid in (launcher_of(batch), zygote_of(batch)):  # brig has the streams of a box that waits
        for fd in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(FileNotFoundError):  # the launcher is making a network just now
                target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                if target.startswith(("socket:", "pipe:")):
                    foreign.add(target)
    assert foreign
    mine = batch.good("python", "import os\nfor f in range(1024):\n    try:\n"
                      "        print(os.readlink('/proc/self/fd/%d' % f))\n    except OSError: pass").split()
    assert len(mine) == 4 and not set(mine) & foreign, mine


def test_the_zygote_runs_no_code_of_a_user(start):  # noqa: F811
    """It has the state it had, whatever the boxes do: no new descriptor, thread or child."""
    batch = start("--jobs", 1)
    batch.good("python", "1")
    time.sleep(0.5)

    def state(pid):
        with open("/proc/%d/status" % pid) as f:
            rows = [l for l in f if l.startswith(("Threads", "Sig", "Cap", "Uid"))]
        return sorted(os.listdir("/proc/%d/fd" % pid)), rows, children(pid)
    zygote = zygote_of(batch)
    before = state(zygote)
    for code in ("import threading, time; threading.Thread(target=time.sleep, args=[0.2]).start()",
                 "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", "open('/tmp/x', 'w')",
                 "import os; os.fork()", "import sys; sys.modules.clear()", "import os; os.kill(0, 9)"):
        batch.run("python", code)
    time.sleep(0.5)
    assert zygote_of(batch) == zygote and state(zygote) == before


@pytest.mark.alone
def test_the_clock_starts_with_the_run(start):  # noqa: F811
    """A box that waited for three seconds has its whole second."""
    batch = start("--jobs", 1)
    for language, code in (("python", "import time\nwhile True: time.sleep(0.01)"),
                           ("shell", "while :; do sleep 0.01; done"),
                           ("javascript", "setInterval(() => 0, 10)")):
        batch.good(language, NEXT[language][0])
        time.sleep(3)
        begin = time.monotonic()
        result = batch.run(language, code, timeout_ms=1000)
        took = time.monotonic() - begin
        assert result["state"] == "timed_out", result
        assert 1000 <= result["usage"]["wall_ms"] < 1500 and 1.0 <= took < 1.5, (took, result["usage"])


@pytest.mark.alone
def test_time_goes_on_in_a_box_that_waits(start):  # noqa: F811
    batch = start("--jobs", 1)
    batch.good("python", "1")
    time.sleep(2)
    before = time.time()
    told = json.loads(batch.good("python", "import json, time; print(json.dumps([time.time(), time.monotonic(), "
                                 "time.process_time()]))"))
    assert before - 0.1 <= told[0] <= time.time() + 0.1 and told[2] < 1


@pytest.mark.alone
def test_the_usage_is_the_runs_own(start):  # noqa: F811
    batch = start("--jobs", 1)
    batch.good("python", "1")
    time.sleep(1)
    usage = batch.run("python", "import time\nend = time.process_time() + 0.5\n"
                      "while time.process_time() < end: pass")["usage"]
    assert 400 <= usage["cpu_ms"] < 1200 and 450 <= usage["wall_ms"] < 5000, usage
    usage = batch.run("python", "1")["usage"]
    assert usage["cpu_ms"] < 200 and usage["wall_ms"] < 500, usage


def test_what_was_read_and_written_is_counted(start):  # noqa: F811
    code = "open('/tmp/x', 'wb').write(bytes(100000))\nprint('y' * 50000)\nx = open('/tmp/x', 'rb').read()"
    usage = start("--jobs", 1).run("python", code)["usage"]
    assert 150000 <= usage["written_bytes"] < 200000 and 100000 <= usage["read_bytes"] < 200000, usage
    assert usage["pids_peak"] >= 1 and usage["peak_memory_bytes"] > 100000, usage


def test_init_reaps_orphans(start):  # noqa: F811
    code = ("import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        if os.fork() == 0:\n"
            "            time.sleep(0.1)\n        os._exit(0)\n    os.wait()\n"
            "time.sleep(0.5)\nprint(len([p for p in os.listdir('/proc') if p.isdigit()]))")
    assert start().good("python", code, limits={"pids": 50}) == "1\n"


# --- ends -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("code, number", [
    ("import os; os.kill(os.getpid(), 9)", signal.SIGKILL),
    ("import os; os.kill(os.getpid(), 15)", signal.SIGTERM),
    ("import os; os.abort()", signal.SIGABRT),
    ("import ctypes; ctypes.string_at(0)", signal.SIGSEGV),
    ("import signal; signal.raise_signal(signal.SIGALRM)", signal.SIGALRM),
    ("import signal; signal.setitimer(signal.ITIMER_REAL, 0.05); signal.pause()", signal.SIGALRM),
    ("import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)", signal.SIGINT),
    ("import os, sys; sys.stdout.write('kept'); os.kill(os.getpid(), 9)", signal.SIGKILL),
], ids=["kill", "term", "abort", "segfault", "alarm", "itimer", "int", "kill with output"])
def test_a_program_that_a_signal_ends(start, code, number):  # noqa: F811
    result = ends(start("--jobs", 1), "python", code)
    assert (result["state"], result["signal"], result["exit_code"]) == ("killed", number, None), result
    assert not result["success"] and result["usage"]["wall_ms"] < 5000


@pytest.mark.parametrize("language, code", [
    ("javascript", "process.kill(process.pid, 'SIGKILL')"), ("javascript", "process.abort()"),
    ("shell", "kill -9 $$"), ("shell", "kill -TERM $$; sleep 1"),
])
def test_a_program_in_another_language_that_a_signal_ends(start, language, code):  # noqa: F811
    result = ends(start("--jobs", 1), language, code)
    assert result["state"] == "killed" and result["signal"] in (6, 9, 15), result


@pytest.mark.parametrize("code, status", [
    ("import sys; sys.exit(3)", 3), ("import os; os._exit(4)", 4), ("1 / 0", 1), ("raise SystemExit", 0),
    ("import sys, threading; threading.Thread(target=sys.exit).start()", 0),
    ("import os; os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", 5), ("def", 1),
])
def test_a_program_that_ends_by_itself(start, code, status):  # noqa: F811
    result = ends(start("--jobs", 1), "python", code)
    assert result["exit_code"] == status and result["success"] is (status == 0), result
    assert result["state"] == ("finished" if status == 0 else "failed")


MEMORY = {"python": "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))",
          "javascript": "const x = []\nfor (;;) x.push(Buffer.alloc(1 << 20, 1))",
          "shell": "head -c 1G /dev/zero | tail -c 1G > /dev/null"}


@pytest.mark.parametrize("language", list(MEMORY))
@pytest.mark.parametrize("limits", [{}, {"memory_bytes": 128 << 20}], ids=["waiting", "fresh"])
def test_a_program_that_takes_all_memory(start, brig, language, limits):  # noqa: F811
    result = ends(start("--jobs", 1), language, MEMORY[language], limits=limits, timeout_ms=20000)
    if language == "shell":  # tail is killed, and the shell lives on to tell
        assert result["state"] in ("oom", "failed"), result
        assert result["state"] == "oom" or not brig.is_root, result
    else:
        assert result["state"] == "oom" and not result["success"], result


def test_a_fork_bomb(start):  # noqa: F811
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    batch = start("--jobs", 1)
    begin = time.monotonic()
    result = ends(batch, "python", code, timeout_ms=1500)
    assert result["state"] == "timed_out" and time.monotonic() - begin < 15, result
    result = ends(batch, "shell", "f() { f | f & }; f; sleep 1", timeout_ms=3000)
    assert result["state"] in ("timed_out", "finished", "failed", "killed"), result


@pytest.mark.parametrize("language, code", [
    ("python", "import time; time.sleep(60)"), ("python", "while True: pass"), ("shell", "sleep 60"),
    ("python", "import os, time\nif os.fork(): time.sleep(60)\nwhile True: pass"),
    ("python", "import signal, time\nfor s in signal.valid_signals():\n    try: signal.signal(s, signal.SIG_IGN)\n"
               "    except (OSError, ValueError): pass\ntime.sleep(60)"),
    ("javascript", "for (;;);"), ("javascript", "await new Promise(r => setTimeout(r, 60000))"),
])
def test_a_program_that_does_not_end(start, language, code):  # noqa: F811
    result = ends(start("--jobs", 1), language, code, timeout_ms=500)
    assert result["state"] == "timed_out" and 500 <= result["usage"]["wall_ms"] < 1500, result


@pytest.mark.parametrize("language, code", [
    ("python", "while True: print('x' * 1000)"), ("shell", "yes"),
    ("javascript", "const fs = require('fs'); for (;;) fs.writeSync(2, 'x'.repeat(1000))"),
])
def test_a_flood_of_output(start, language, code):  # noqa: F811
    result = ends(start("--jobs", 1), language, code, timeout_ms=1000, limits={"output_bytes": 10000})
    assert result["state"] == "timed_out", result["state"]
    kept, dropped = (result[k] for k in ("stdout", "truncated"))
    assert len(kept) + len(result["stderr"]) <= 10000 and sum(dropped.values()) > 100000, dropped


def test_a_full_disk(start):  # noqa: F811
    code = "with open('/tmp/f', 'wb', 0) as f:\n    while True: f.write(bytes(65536))"
    result = ends(start("--jobs", 1), "python", code, limits={"disk_bytes": 1 << 20})
    assert result["state"] == "disk_limit", result


def test_a_daemon_is_gone_with_its_run(start):  # noqa: F811
    """In a session of its own, without streams; the fixture `residue` looks once more."""
    batch = start("--jobs", 1)
    code = ("import ctypes, os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
            "        for f in range(3): os.close(f)\n        ctypes.CDLL(None).prctl(15, b'brig-daemon', 0, 0, 0)\n"
            "        time.sleep(60)\n    os._exit(0)\nos.wait()\ntime.sleep(0.5)\nprint('parent')")
    batch.good("python", "1")  # there are boxes
    batch.ask("python", code)
    time.sleep(0.3)
    assert daemons(batch), "the control: it is seen while the run lasts"
    assert batch.answer()["stdout"] == "parent\n"
    end = time.monotonic() + 2
    while daemons(batch):
        assert time.monotonic() < end, "it lives on"
        time.sleep(0.01)
    assert batch.good("python", "print(1)") == "1\n"


def daemons(batch):
    found, todo = [], [batch.proc.pid]
    while todo:
        for pid in children(todo.pop()):
            todo.append(pid)
            try:
                with open("/proc/%d/comm" % pid) as f:
                    found += [pid] if f.read() == "brig-daemon\n" else []
            except OSError:
                pass
    return found


# --- what a program writes to the report ----------------------------------------------------------

WRITES = {
    "python": "import os\nfor n in range(3, 20):\n    try:\n"
              "        if os.readlink('/proc/self/fd/%%d' %% n).startswith('socket'): os.write(n, b'%s')\n"
              "    except OSError: pass\nprint('on')\nraise SystemExit(7)",
    "javascript": "require('fs').writeSync(5, Buffer.from('%s', 'latin1')); display(1);"
                  "console.log('on'); process.exit(7)",
}


@pytest.mark.parametrize("garbage", ["g", "garbage", "\\x09\\x00\\x00\\x00", "\\x02\\x00\\x00\\x00[]"])
@pytest.mark.parametrize("language", WRITES)
def test_a_report_that_nobody_can_read(start, language, garbage):  # noqa: F811
    """Without `done` the end of the process decides, and comes soon."""
    result = ends(start(), language, WRITES[language] % garbage)
    assert (result["state"], result["exit_code"], result["stdout"]) == ("failed", 7, "on\n"), result
    assert result["usage"]["wall_ms"] < 5000, result


# --- modules ---------------------------------------------------------------------------------------

def test_a_file_hides_a_loaded_module(brig, place):
    """In a warm box as in a cold one."""
    (place / "queue.py").write_text("here = 1\n")
    code = "import queue, json\nprint(hasattr(queue, 'here'), hasattr(json, 'here'))"
    for warm in ([], ["--warm"]):
        run = brig.run("python", "-c", code, "--file", "%s:queue.py" % (place / "queue.py"), *warm)
        assert run.expect("finished", 0)["stdout"] == "True False\n", run


MATPLOTLIB = ("import matplotlib.pyplot as plt, os\nplt.plot([1, 2])\nplt.title('a')\n"
              "plt.savefig('/tmp/x.png')\nprint(os.path.getsize('/tmp/x.png') > 1000)\nplt.close()")


@pytest.mark.parametrize("preload", [[], ["--preload", "matplotlib.pyplot"]], ids=["import", "preload"])
def test_matplotlib_draws(start, preload):  # noqa: F811
    """Debian's has its settings in /etc, and fontconfig has; both want to write to a folder."""
    batch = start(*preload)
    for _ in range(2):
        assert batch.good("python", MATPLOTLIB) == "True\n"
    assert batch.end() == [] and batch.errors == ""


# --- how it ended ----------------------------------------------------------------------------------

@pytest.mark.parametrize("limits", [["--timeout", "500ms"], ["--cpu-time", "1s"]], ids=["wall", "cpu"])
def test_a_run_that_brig_ended_died_of_no_signal(brig, limits):
    for warm in ([], ["--warm"]):
        run = brig.run("python", "-c", "while True: pass", *limits, *warm)
        assert (run.result["state"], run.result["signal"]) == ("timed_out", None), run


# --- brig run --warm ------------------------------------------------------------------------------

@pytest.mark.parametrize("language, code", [
    ("python", "import sys\nprint(sys.argv[1:], sys.stdin.read())\nsys.exit(3)"),
    ("javascript", "console.log(process.argv.slice(2), require('fs').readFileSync(0, 'utf8')); process.exit(3)"),
    ("shell", "echo \"$@\" \"$(cat)\"; exit 3"),
])
def test_run_warm_is_run(brig, language, code):
    runs = [brig.run(language, "-c", code, "--stdin", "-", *warm, "--", "a", "b c", stdin=b"data")
            for warm in ([], ["--warm"])]
    cold, warm = (run.expect("failed", 3) for run in runs)
    assert cold["stdout"] == warm["stdout"] and "data" in warm["stdout"]
    assert warm["receipt"]["verified"] is True and warm["receipt"]["level_achieved"] == \
        cold["receipt"]["level_achieved"]
    assert [(l["name"], l["required"], l["enforced"]) for l in cold["receipt"]["layers"]] == \
        [(l["name"], l["required"], l["enforced"]) for l in warm["receipt"]["layers"]]


def test_run_warm_refuses_what_run_refuses(brig_user):
    for warm in ([], ["--warm"]):
        run = brig_user.command("run", *warm, "--json", "python", "-c", "print(1)")
        assert run.status == 126 and run.result["stdout"] == "", run


def test_a_batch_refuses_too(brig_user):
    batch = Batch(brig_user)
    try:
        result = batch.run("python", "print(1)", level="standard")
        assert result["state"] not in ("finished", "failed") and result["stdout"] == "", result
        assert result["error"]["cause"] and batch.end() == [] and batch.proc.returncode == 1
    finally:
        batch.stop()
