"""Every limit, reached on purpose: the code sees the documented error, the result its own state."""

import pytest

MIB = 1024 * 1024
OWN_INODES = 16  # brig's own directories and files may be on top

FILL_FILE = """
with open("/workspace/fill", "wb", buffering=0) as f:
    block = b"x" * 65536
    while True:
        if f.write(block) != len(block):
            f.write(block)
"""

FORK_UNTIL_REFUSED = """
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        count += 1
except OSError as error:
    print(count, error.errno == __import__("errno").EAGAIN, flush=True)
os._exit(0)
"""

THREADS_UNTIL_REFUSED = """
import os, threading, time
threading.stack_size(64 * 1024)
count = 0
try:
    while count < 1000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        count += 1
except RuntimeError:
    print(count, True, flush=True)
os._exit(0)
"""

OPEN_UNTIL_REFUSED = """
import errno, os
count = 0
try:
    while count < 100000:
        os.open("/dev/null", os.O_RDONLY)
        count += 1
except OSError as error:
    os.write(1, b"%d %s" % (count, errno.errorcode[error.errno].encode()))
"""

SPIN = """
import time
end = time.monotonic() + %s
while time.monotonic() < end:
    pass
"""


# Time


@pytest.mark.alone
@pytest.mark.parametrize("language, code", [
    ("shell", "sleep 60"),
    ("python", "while True: pass"),
    ("javascript", "for (;;);"),
    ("shell", "trap '' TERM INT HUP; while :; do sleep 60; done"),
    ("shell", "kill -STOP $$; echo never"),
])
def test_wall_time(brig, language, code):
    result = brig.run(language, "-c", code, "--timeout", "400ms").expect(
        "timed_out", 124, exit_code=None)
    assert 400 <= result["usage"]["wall_ms"] <= 900, result["usage"]
    assert result["error"]["code"] == "limit" and "wall time" in result["error"]["cause"], result


def test_wall_time_keeps_what_was_written(brig):
    brig.shell("echo before; sleep 60", "--timeout", "500ms").expect(
        "timed_out", 124, stdout="before\n")


def test_wall_time_ends_what_the_main_process_left(brig):
    """The box dies with the main process, so background children do not hold the run."""
    run = brig.shell("(sleep 60 &) ; setsid sleep 60 & echo done", "--timeout", "20s")
    run.expect("finished", 0, stdout="done\n")
    assert run.elapsed < 5


@pytest.mark.alone
def test_processor_time(brig):
    run = brig.python(SPIN % 60, "--cpu-time", "1s", "--timeout", "20s")
    result = run.expect("timed_out", 124)
    assert result["error"]["code"] == "limit", result
    assert "processor" in result["error"]["cause"] or "cpu" in result["error"]["cause"].lower()
    assert run.elapsed < 4, run.elapsed


@pytest.mark.alone
def test_processor_time_counts_all_processes(brig):
    """Eight processes share one second; per process it would take eight."""
    code = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"
    run = brig.shell(code, "--cpu-time", "1s", "--timeout", "6s", "--cpus", "2")
    run.expect("timed_out", 124)
    assert run.elapsed < 4, run.elapsed


@pytest.mark.alone
def test_processor_share(brig):
    run = brig.python(SPIN % 1.5, "--cpus", "0.25", "--timeout", "20s")
    usage = run.expect("finished", 0)["usage"]
    share = usage["cpu_ms"] / usage["wall_ms"]
    if brig.is_root:
        assert 0.1 < share < 0.4, usage
        assert run.layer("cpu_limit")["enforced"] is True
    else:
        assert run.layer("cpu_limit")["enforced"] is False
        assert run.layer("cpu_limit")["detail"]


# Memory


@pytest.mark.parametrize("language, code", [
    ("python", "x = b'x' * (400 << 20); print('survived')"),
    ("python", "import mmap; m = mmap.mmap(-1, 400 << 20); m.write(b'x' * (40 << 20))\n"
               "while True: m.write(b'x' * (4 << 20))"),
    ("python", "keep = []\nwhile True: keep.append(b'x' * (4 << 20))"),
    ("javascript", "const keep = []; for (;;) keep.push(Buffer.alloc(4 << 20, 1));"),
    ("shell", "x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo survived"),
])
def test_memory(brig, language, code):
    result = brig.run(language, "-c", code, "--memory", "64M", "--timeout", "20s").expect(
        "oom", 137, stdout="")
    assert result["error"]["code"] == "limit" and "memory" in result["error"]["cause"], result
    assert result["usage"]["peak_memory_bytes"] > 32 * MIB, result["usage"]


def test_memory_of_all_processes_together(brig):
    code = """
import os, time
for i in range(8):
    if os.fork() == 0:
        x = bytearray(os.urandom(1 << 20)) * 24
        time.sleep(60)
time.sleep(60)
"""
    run = brig.python(code, "--memory", "96M", "--timeout", "20s")
    run.expect("oom", 137)
    assert run.elapsed < 10


def test_shared_memory_counts_once(brig):
    """Forty processes with the same 40 MiB are not 1600."""
    code = """
import mmap, os, time
m = mmap.mmap(-1, 40 << 20)
for i in range(0, 40 << 20, 4096):
    m[i] = 1
main = os.getpid()
pids = [os.fork() for _ in range(40) if os.getpid() == main]
if os.getpid() != main:
    sum(m[i] for i in range(0, 40 << 20, 4096))
    time.sleep(0.5)
    os._exit(0)
print(sum(os.waitpid(pid, 0)[1] for pid in pids))
"""
    brig.python(code, "--memory", "400M").expect("finished", 0, stdout="0\n")


def test_memory_below_the_limit_is_fine(brig):
    brig.python("x = b'x' * (24 << 20); print(len(x) >> 20)", "--memory", "96M").expect(
        "finished", 0, stdout="24\n")


@pytest.mark.parametrize("where", ["/tmp", "/workspace", "/dev/shm"])
def test_files_count_as_memory(brig, where):
    code = "head -c 300M /dev/zero > %s/fill" % where
    run = brig.shell(code, "--memory", "64M", "--disk", "512M", "--timeout", "20s")
    assert run.result["state"] in ("oom", "disk_limit"), run
    assert run.result["error"]["code"] == "limit", run


# Counts


@pytest.mark.parametrize("code", [FORK_UNTIL_REFUSED, THREADS_UNTIL_REFUSED],
                         ids=["processes", "threads"])
def test_processes(brig, code):
    result = brig.python(code, "--pids", "20").expect("finished", 0)
    count, refused = result["stdout"].split()
    assert 17 <= int(count) <= 19 and refused == "True", result
    assert result["usage"]["pids_peak"] <= 21  # init is one; 0 where nobody counts


def test_shell_sees_the_process_limit(brig):
    result = brig.shell("for i in $(seq 30); do sleep 20 & done; echo end", "--pids", "8",
                        "--timeout", "1s").result
    assert "Resource temporarily unavailable" in result["stderr"], result


@pytest.mark.parametrize("limit", [16, 64, 1024])
def test_open_files(brig, limit):
    brig.python(OPEN_UNTIL_REFUSED, "--open-files", str(limit)).expect(
        "finished", 0, stdout="%d EMFILE" % (limit - 3))


# Disk


def test_file_size_error(brig):
    code = """
import errno, os
with open("big", "wb", buffering=0) as f:
    try:
        while True:
            f.write(b"x" * 65536)
    except OSError as error:
        print(errno.errorcode[error.errno], os.path.getsize("big"))
"""
    brig.python(code, "--file-size", "1M").expect("finished", 0, stdout="EFBIG 1048576\n")


def test_file_size_signal(brig):
    """Python ignores SIGXFSZ; a program with the default action dies of it."""
    code = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n" + FILL_FILE
    brig.python(code, "--file-size", "1M").expect("killed", 153, signal=25, exit_code=None)


def test_file_size_of_a_sparse_file(brig):
    brig.shell("truncate -s 2M big || echo refused; truncate -s 1M small && echo ok",
               "--file-size", "1M").expect("finished", 0, stdout="refused\nok\n")


def test_disk(brig):
    result = brig.python(FILL_FILE, "--disk", "1M").expect("disk_limit", 1, exit_code=1)
    assert "No space left on device" in result["stderr"], result
    assert result["error"]["code"] == "limit" and "disk" in result["error"]["cause"], result


def test_disk_is_one_for_all_places(brig):
    code = "for d in /tmp /workspace /dev/shm; do head -c 400K /dev/zero > $d/f || exit 1; done"
    brig.shell(code, "--disk", "1M").expect("disk_limit", 1)
    brig.shell(code, "--disk", "2M").expect("finished", 0)


def test_disk_can_be_freed(brig):
    code = "for i in 1 2 3 4 5; do head -c 700K /dev/zero > f && rm f || exit 1; done; echo ok"
    brig.shell(code, "--disk", "1M").expect("finished", 0, stdout="ok\n")


def test_inodes(brig):
    code = "for i in $(seq 200); do : > f$i || exit 1; done"
    result = brig.shell(code, "--inodes", "100").expect("disk_limit", 1)
    assert "No space left on device" in result["stderr"], result
    assert 60 < len(result["files"]["created"]) <= 100 + OWN_INODES


# Output


@pytest.mark.parametrize("stream, other", [("stdout", "stderr"), ("stderr", "stdout")])
def test_output_keeps_head_and_tail(brig, stream, other):
    count = 20000
    code = ("import sys\nfor i in range(%d): sys.%s.write('%%07d\\n' %% i)\n" % (count, stream))
    produced = "".join("%07d\n" % i for i in range(count))
    result = brig.python(code, "--output", "4K").expect("output_limit", 0, exit_code=0)
    kept = result[stream]
    assert result["error"]["code"] == "limit" and "output" in result["error"]["cause"], result
    assert 2048 <= len(kept) <= 4096
    assert result["truncated"] == {stream: len(produced) - len(kept), other: 0}
    cut = next(i for i, (a, b) in enumerate(zip(kept, produced)) if a != b)
    assert cut >= 1024 and len(kept) - cut >= 1024, "head %d tail %d" % (cut, len(kept) - cut)
    assert produced.endswith(kept[cut:])


@pytest.mark.parametrize("size", [4095, 4096, 4097])
def test_output_at_the_limit(brig, size):
    result = brig.shell("head -c %d /dev/zero | tr '\\0' x" % size, "--output", "4K").expect(
        "output_limit" if size > 4096 else "finished", 0)
    assert len(result["stdout"]) + result["truncated"]["stdout"] == size
    assert len(result["stdout"]) == min(size, 4096)


def test_output_streams_are_separate(brig):
    code = "head -c 100K /dev/zero | tr '\\0' o; head -c 50K /dev/zero | tr '\\0' e >&2"
    result = brig.shell(code, "--output", "8K").expect("output_limit", 0)
    for stream, size in (("stdout", 102400), ("stderr", 51200)):
        assert len(result[stream]) + result["truncated"][stream] == size


def test_output_of_binary_is_counted_in_bytes(brig):
    """Each invalid byte becomes one character; the count of what was dropped is of bytes."""
    result = brig.shell("head -c 10000 /dev/zero | tr '\\0' '\\377'", "--output", "4K").result
    assert set(result["stdout"]) == {"\ufffd"}
    assert len(result["stdout"]) + result["truncated"]["stdout"] == 10000


# What the result says about use


def test_usage(brig):
    code = ("import time\nwhile time.process_time() < 0.3: pass\n"
            "x = b'x' * (40 << 20)\nprint('x')")
    usage = brig.python(code).expect("finished", 0)["usage"]
    assert 300 <= usage["wall_ms"] < 10000
    assert 300 <= usage["cpu_ms"] < 3000
    assert usage["peak_memory_bytes"] > 40 * MIB
    if brig.is_root:
        assert 1 <= usage["pids_peak"] <= 4


def test_degraded_limits_are_in_the_receipt(brig_user):
    run = brig_user.shell("true")
    missing = [row for row in run.result["receipt"]["layers"] if not row["enforced"]]
    assert "cpu_limit" in [row["name"] for row in missing]
    assert all(row["detail"] and not row["required"] for row in missing), missing
