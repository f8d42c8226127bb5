"""Many boxes, one after the other and at once: none fails and nothing accumulates.

`make soak` sets BRIG_SOAK_N to 10000; the default keeps an ordinary run short.
"""

import os
import subprocess
import time

SEQUENTIAL = int(os.environ.get("BRIG_SOAK_N", "200"))
AT_ONCE = int(os.environ.get("BRIG_SOAK_AT_ONCE", "200" if SEQUENTIAL >= 10000 else "50"))
BOUND_S = 60


def test_slow_boxes_one_after_the_other(brig, residue):
    count = SEQUENTIAL if brig.is_root else max(SEQUENTIAL // 4, 1)
    slow = 0.0
    for i in range(count):
        run = brig.plain("shell", "-c", "echo %d" % i)
        assert (run.status, run.out, run.err) == (0, b"%d\n" % i, b""), run
        slow = max(slow, run.elapsed)
        if i % 100 == 0:
            residue.check()
    assert slow < 5, "one of the runs took %.2f s" % slow


def test_slow_boxes_at_once(brig):
    """Each ends well, sees only itself, and the whole takes a bounded time."""
    code = "sleep 0.2; ls /workspace | wc -l; echo $$ > /tmp/mark; ls /tmp | wc -l; exit %d"
    begin = time.monotonic()
    runs = [brig.start("shell", "-c", code % (i % 200)) for i in range(AT_ONCE)]
    try:
        for i, process in enumerate(runs):
            out, err = process.communicate(timeout=BOUND_S)
            assert (process.returncode, out, err) == (i % 200, b"1\n1\n", b""), i
    except subprocess.TimeoutExpired:
        for process in runs:
            process.kill()
        raise
    assert time.monotonic() - begin < BOUND_S
