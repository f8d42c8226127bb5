#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long GET /health takes while runs do their worst.

    BRIGD=out/bin/brigd tests/stress/health.py [--seconds N] [--clients N] [--keep] [ABUSE...]

Starts a brigd of its own for each kind of abuse. Two clients repeat the abusive run, and /health is
asked every 20 ms over a connection of its own by a process that does not wait for a processor if that
can be had. Exit status 1 when a p99 is above 20 ms.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import brigd  # noqa: E402

EVERY_S = 0.02
BOUND_MS = 20.0
RUN_MS = 2000

RICH = """
class H:
    def __init__(self, text): self.text = text
    def _repr_html_(self): return self.text
class J(H):
    def _repr_mimebundle_(self, include=None, exclude=None): return {'application/json': self.text}
"""

ABUSE = {
    "idle": None,
    "hello": {"code": "print('hello')"},
    "flood": {"code": "while True: print('x' * 1000000)"},
    "flood-both": {"language": "shell", "code": "yes & yes >&2 & wait"},
    "escapes": {"code": "import sys\nwhile True: sys.stdout.buffer.write(b'\\x01' * 1000000)"},
    "short-flood": {"code": "print('x' * 30000000)"},
    "files": {"code": "for i in range(65000): open('/workspace/f%d' % i, 'w').close()",
              "timeout_ms": 20000},
    "dirs": {"code": "import os\nfor i in range(250):\n for j in range(250):\n"
                     "  os.makedirs('/workspace/d%d/e%d' % (i, j))", "timeout_ms": 20000},
    "disk": {"code": "f = open('/workspace/big', 'wb')\nfor _ in range(400): f.write(b'x' * 1000000)",
             "limits": {"memory_bytes": 1 << 30}},
    "placed": {"code": "pass", "files": [{"path": "f%d" % i, "content": "x" * 500000}
                                         for i in range(20)]},
    "outputs": {"code": RICH + "for _ in range(999): display(H('x' * 60000))"},
    "one-output": {"code": RICH + "for _ in range(6): display(H('x' * 10000000))"},
    "values": {"code": RICH + "for _ in range(40): display(J([0] * 99000))"},
    "forks": {"language": "shell", "code": "f() { f | f & }; f; sleep 5"},
    "memory": {"code": "a = []\nwhile True: a.append(bytearray(1 << 20))"},
    "processors": {"code": "import os\nfor _ in range(50):\n  if os.fork() == 0:\n    while True: pass\n"
                           "while True: pass"},
    "orphans": {"language": "shell", "code": "(while :; do echo xxxxxxxxxxxxxxxx; done) & exit 0"},
}


def request(name):
    r = dict(ABUSE[name])
    r.setdefault("language", "python")
    r.setdefault("timeout_ms", RUN_MS)
    return json.dumps(r).encode()


def abuse(d, name, stop, keep, ends):
    while not stop.is_set():
        with d.connect() as w:
            path = "/executions?wait=300000" if keep else "/execute"
            reply = w.send(brigd.request_bytes("POST", brigd.API + path, request(name))).reply()
        state = reply.json.get("state") if reply.status == 200 else reply.status
        ends[state] = ends.get(state, 0) + 1


def probe(path, seconds):
    """In a process of its own: sends, waits, notes."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.settimeout(60)
    ask = brigd.request_bytes("GET", brigd.API + "/health")
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        s.sendall(ask)
        text = b""
        while b'"ok"' not in text:
            more = s.recv(4096)
            if not more:
                raise SystemExit("closed: %r" % text)
            text += more
        took = time.monotonic() - begin
        times.append(took * 1000)
        time.sleep(max(0.0, EVERY_S - took))
    print(json.dumps(times))


def lag(d):
    text = d.get("/metrics").expect().body.decode()
    for line in text.splitlines():
        if "lag" in line and not line.startswith("#"):
            return float(line.split()[-1]) * 1000
    return 0.0


def measure(name, args):
    ends, stop = {}, threading.Event()
    d = brigd.Daemon(tcp=False)
    try:
        d.start()
        clients = [threading.Thread(target=abuse, args=(d, name, stop, args.keep, ends))
                   for _ in range(args.clients if ABUSE[name] else 0)]
        for c in clients:
            c.start()
        time.sleep(0.3)
        lag(d)
        out = subprocess.run([sys.executable, __file__, "--probe", str(d.socket), "--seconds",
                              str(args.seconds)], stdout=subprocess.PIPE, check=True).stdout
        times, worst = sorted(json.loads(out)), lag(d)
        stop.set()
        for c in clients:
            c.join(60)
    finally:
        d.clean()
    at = lambda q: times[min(len(times) - 1, int(len(times) * q))]
    print("%-12s %5d  p50 %6.2f  p99 %7.2f  max %7.2f ms   longest turn %7.2f ms   %s" % (
        name, len(times), at(0.5), at(0.99), times[-1], worst, ends), flush=True)
    return at(0.99)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--clients", type=int, default=2)
    p.add_argument("--keep", action="store_true", help="executions whose results are kept on disk")
    p.add_argument("--probe")
    p.add_argument("abuse", nargs="*")
    args = p.parse_args()
    if args.probe:
        return probe(args.probe, args.seconds)
    late = [n for n in args.abuse or ABUSE if measure(n, args) > BOUND_MS]
    if late:
        print("above %g ms: %s" % (BOUND_MS, ", ".join(late)))
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
