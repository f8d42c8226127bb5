#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random callers of the API: right and wrong calls, cancels, answers, resumes, disconnects.

    tests/stress/api_fuzz.py [-n SEQUENCES] [-s SEED] [-j CALLERS]

A sequence is some calls of one caller that remember what they made. Whatever is called, there is no
5xx but the documented 503, each error has its form, and at the end nothing is left: no run, no
descriptor, no process, no cgroup; memory has a bound, the ledger is sound, and every execution in it
began and ended once. The seed that is printed gives the same calls again.
"""
import argparse
import collections
import contextlib
import json
import pathlib
import random
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import API, NO_ID, Closed, request_bytes, until, ws_frame  # noqa: E402

FINAL = {"finished", "denied", "expired", "cancelled", "failed", "lost"}
BOXES = 3    # that wait in the pool may be more than before, at most 20 descriptors each
CALL_S = 60  # no answer is later, but for streams

# Python is asked about, shell code with "refuse" in it is denied, the rest runs.
POLICY = """
version: 1
name: fuzz
default: allow
floor:
  level: degraded-ok
approval: { expires: 20s, remember: digest, remember_for: 1h, self: true, pending: 64 }
rules:
  - name: ask
    match: { language: python }
    verdict: confirm
  - name: never
    match: { risk: critical }
    verdict: deny
"""

VALUES = [None, True, 0, -1, 1.5, 1 << 64, "", "x", "\0", "\u202e", "\ud7ff", "x" * 5000, [], [[]], {}, {"a": 1}, "1s",
          "allow", NO_ID]
QUERIES = ["wait", "limit", "after", "state", "offset", "stream", "all", "job", "kind", "name", "session", "nonsense"]
TEXTS = ["", "0", "1", "-1", "5", "99999999999999999999", "x", "true", "stdout", "stderr", "running", "%00", "%ff", "%", "a%20b",
         "state", "received", NO_ID]


class Caller:
    """One client; what it does depends on its numbers and on nothing else."""

    def __init__(self, daemon, rng, token, approver, counts):
        self.d, self.rng, self.token, self.approver, self.counts = daemon, rng, token, approver, counts
        self.ids, self.approvals, self.wire, self.last = [], [], None, ""

    # .. the ground

    def check(self, reply):
        self.counts[reply.status] += 1
        assert reply.status < 500 or reply.status == 503, (self.last, reply)
        if reply.status >= 400:
            reply.error
        if reply.status == 429:
            assert int(reply.header("retry-after")) >= 1, reply
        return reply

    def call(self, method, path, body=None, headers=(), token=None, **kw):
        self.last = "%s %s %.300r" % (method, path, body)
        keep = self.rng.random() < 0.7
        if keep and self.wire is None:
            self.wire = self.d.connect(timeout=CALL_S)
        try:
            reply = self.d.ask(method, path, body, headers=headers, token=token or self.token,
                               wire=self.wire if keep else None, timeout=CALL_S, **kw)
        except (Closed, BrokenPipeError):
            assert keep, self.last  # only a connection that was kept may be over
            self.drop()
            self.counts["closed"] += 1
            return None
        except OSError:
            self.drop()
            raise
        if keep and (reply.header("connection") or "").lower() == "close":
            self.drop()
        return self.check(reply)

    def drop(self):
        if self.wire:
            self.wire.close()
            self.wire = None

    def which(self):
        return self.rng.choice(self.ids) if self.ids and self.rng.random() < 0.9 else NO_ID

    def approval(self):
        if self.approvals and self.rng.random() < 0.9:
            return self.rng.choice(self.approvals)
        return NO_ID

    def learn(self, reply):
        if reply is not None and reply.status in (200, 202):
            got = reply.json
            if got.get("execution_id") and len(self.ids) < 200:
                self.ids.append(got["execution_id"])
            if got.get("approval_id"):
                self.approvals.append(got["approval_id"])

    # .. what is asked

    def request(self):
        rng = self.rng
        language, code = rng.choice([
            ("shell", "echo %d" % rng.randrange(1000)), ("shell", "exit %d" % rng.randrange(9)),
            ("shell", "sleep 0.%d" % rng.randrange(5)), ("shell", "sleep 30"), ("shell", "head -c 100000 /dev/zero"),
            ("shell", "cat; echo $#; ls"), ("shell", "rm -rf --no-preserve-root /"), ("shell", "kill -9 $$"),
            ("javascript", "console.log(%d)" % rng.randrange(9)), ("python", "print(%d)" % rng.randrange(9)),
            ("python", "1/0"), ("python", "import time; time.sleep(30)")])
        request = self.d.request(code, language, timeout_ms=rng.choice([200, 2000, 5000]))
        for field, value in (("args", ["a", "b c"]), ("env", {"A": "b"}), ("stdin", "in" * rng.randrange(50)),
                             ("files", [{"path": "f%d" % rng.randrange(3), "content": "x"}]), ("network", "none"),
                             ("limits", {"output_bytes": 2048}), ("session_id", "s%d" % rng.randrange(3))):
            if rng.random() < 0.15:
                request[field] = value
        return request

    def spoilt(self, request):
        """The request with something wrong in it, as bytes."""
        rng = self.rng
        how = rng.randrange(5)
        if how == 0:
            request[rng.choice(list(request) + ["nonsense", "limits", "files", "env"])] = rng.choice(VALUES)
        data = json.dumps(request).encode()
        if how == 1:
            data = data[:rng.randrange(len(data))]
        elif how == 2:
            i = rng.randrange(len(data))
            data = data[:i] + bytes([rng.randrange(256)]) + data[i + 1:]
        elif how == 3:
            data = data + data
        elif how == 4:
            data = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        return data

    def keys(self):
        if self.rng.random() < 0.3:
            return [("Idempotency-Key", "key%d" % self.rng.randrange(6))]
        return []

    def do_execute(self):
        request = self.request()
        if request["language"] == "python":  # a person is asked: that would be a long wait
            return self.do_submit(request)
        request["timeout_ms"] = min(request["timeout_ms"], 2000)
        return self.learn(self.call("POST", "/execute", request, self.keys()))

    def do_submit(self, request=None):
        wait = self.rng.choice(["", "?wait=0", "?wait=50", "?wait=300"])
        self.learn(self.call("POST", "/executions" + wait, request or self.request(), self.keys()))

    def do_wrong_body(self):
        path = self.rng.choice(["/execute", "/executions", "/policy/check", "/risk/assess"])
        if path == "/execute":  # it might be right after all, and wait for a person
            path = "/executions"
        self.learn(self.call("POST", path, self.spoilt(self.request()), self.keys()))

    def do_look(self):
        which = self.which()
        path = self.rng.choice(["", "", "?wait=100", "/output", "/output?stream=stderr&offset=1", "/output?offset=50000"])
        self.learn(self.call("GET", "/executions/%s%s" % (which, path)) if "output" not in path else None)
        if "output" in path:
            self.call("GET", "/executions/%s%s" % (which, path))

    def do_list(self):
        self.call("GET", self.rng.choice(["/executions", "/executions?limit=3", "/executions?state=running",
                                          "/executions?state=waiting&limit=1", "/executions?after=" + self.which()]))

    def do_cancel(self):
        self.call("DELETE", "/executions/" + self.which())

    def do_approvals(self):
        reply = self.call("GET", self.rng.choice(["/approvals", "/approvals?all=true"]), token=self.approver)
        if reply is not None and reply.status == 200:
            self.approvals += [a["id"] for a in reply.json["approvals"][:20]]
            self.approvals = self.approvals[-60:]

    def do_answer(self):
        rng = self.rng
        body = {"decision": rng.choice(["allow", "allow", "deny"])}
        for field, value in (("scope", rng.choice(["once", "session", "digest"])), ("remember_ms", 60000),
                             ("reason", "why not"), ("digest", "0" * 64), ("code", "print('edited')")):
            if rng.random() < 0.12:
                body[field] = value
        if rng.random() < 0.15:
            body[rng.choice(list(body) + ["nonsense"])] = rng.choice(VALUES)
        token = rng.choice([self.approver, self.approver, self.token])
        self.call("POST", "/approvals/" + self.approval(), body, token=token)

    def do_revoke(self):
        self.call("DELETE", "/approvals/" + self.approval(), token=self.approver)

    def do_get(self):
        path = self.rng.choice(["/health", "/ready", "/pool", "/metrics", "/policy", "/capabilities", "/openapi.json",
                                "/ledger?limit=20", "/ledger?kind=approval&limit=5", "/approvals/" + self.approval(),
                                "/nothing", "/executions/x/y", "/executions/" + "x" * 70])
        self.call("GET", path, token=self.approver)

    def do_wrong_query(self):
        path = self.rng.choice(["/executions", "/executions/" + self.which(), "/executions/%s/output" % self.which(),
                                "/ledger", "/approvals", "/pool", "/health"])
        query = "&".join("%s=%s" % (self.rng.choice(QUERIES), self.rng.choice(TEXTS))
                         for _ in range(self.rng.randrange(1, 3)))
        if "wait=9" not in query:
            self.call("GET", "%s?%s" % (path, query), token=self.approver)

    def do_wrong_method(self):
        self.call(self.rng.choice(["PUT", "PATCH", "OPTIONS", "BREW"]), self.rng.choice(["/execute", "/health", "/x"]))

    def do_leave(self):
        """Goes away in the middle of something."""
        data = request_bytes("POST", API + self.rng.choice(["/execute", "/executions"]), self.request(),
                             [("Authorization", "Bearer " + self.token)])
        cut = self.rng.choice([len(data), len(data), self.rng.randrange(1, len(data))])
        with self.d.connect(timeout=CALL_S) as wire:
            with contextlib.suppress(OSError):
                wire.send(data[:cut])
                if self.rng.random() < 0.5:
                    time.sleep(self.rng.random() * 0.05)
                if self.rng.random() < 0.3:
                    wire.sock.shutdown(socket.SHUT_RDWR)
            wire.abort()

    def do_noise(self):
        data = bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(1, 300)))
        with self.d.connect(timeout=CALL_S) as wire:
            wire.try_send(self.rng.choice([data, b"GET " + data, b"GET /api/v1/health HTTP/1.1\r\n" + data]) + b"\r\n\r\n")
            if self.rng.random() < 0.5:
                wire.sock.settimeout(0.2)
                with contextlib.suppress(OSError):
                    wire.sock.recv(4096)

    def do_stream(self):
        """Some events of a run or of everything; perhaps on from where it was."""
        path = self.rng.choice(["/executions/%s/events" % self.which(), "/events", "/events?after=0",
                                "/events?kind=state&after=5"])
        after = 0
        for _ in range(self.rng.choice([1, 1, 2])):
            headers = [("Last-Event-ID", str(after))] if after else []
            headers.append(("Authorization", "Bearer " + self.approver))
            with self.d.connect(timeout=CALL_S) as wire:
                wire.send(request_bytes("GET", API + path, None, headers))
                status, got = wire.head()
                self.counts[status] += 1
                assert status in (200, 400, 404, 429, 503), (path, status)
                if status != 200:
                    return
                wire.sock.settimeout(0.3)
                with contextlib.suppress(OSError, Closed):
                    for n, event in enumerate(wire.events()):
                        assert event.id is None or int(event.id) > after, (path, after, event)
                        after = int(event.id or after)
                        if n > self.rng.randrange(30):
                            break
                if self.rng.random() < 0.3:
                    wire.abort()

    def do_websocket(self):
        path = self.rng.choice(["/approvals/ws", "/approvals/ws", "/events?after=0"])
        wire, reply = self.d.ws_try(path, token=self.approver)
        with wire:
            self.counts[reply.status] += 1
            assert reply.status in (101, 429, 503), reply
            wire.sock.settimeout(0.3)
            ws = brigd.WebSocket(wire)
            with contextlib.suppress(OSError, Closed):
                for _ in range(self.rng.randrange(1, 6)):
                    how = self.rng.randrange(6)
                    if how < 3:
                        ws.send({"type": "answer", "ref": self.rng.choice(VALUES), "id": self.approval(),
                                 "decision": self.rng.choice(["allow", "deny", "x", 1])})
                    elif how == 3:
                        wire.send(ws_frame(bytes(self.rng.randrange(256) for _ in range(30)),
                                           self.rng.randrange(16), self.rng.random() < 0.8, self.rng.choice([0, 0, 4])))
                    elif how == 4:
                        wire.send(ws_frame(b"x", brigd.PING))
                    m = ws.message()
                    if path.startswith("/approvals"):
                        assert m["type"] in ("hello", "request", "settled", "answered", "error"), m
                        if m["type"] == "request":
                            self.approvals.append(m["approval"]["id"])
            if self.rng.random() < 0.5:
                wire.abort()

    WEIGHTS = {
        "execute": 10, "submit": 12, "wrong_body": 8, "look": 12, "list": 3, "cancel": 8, "approvals": 4, "answer": 10,
        "revoke": 2, "get": 4, "wrong_query": 4, "wrong_method": 1, "leave": 5, "noise": 3, "stream": 3, "websocket": 3}

    def sequence(self):
        names = list(self.WEIGHTS)
        for _ in range(self.rng.randrange(2, 9)):
            name = self.rng.choices(names, [self.WEIGHTS[n] for n in names])[0]
            self.counts["calls"] += 1
            getattr(self, "do_" + name)()
        if self.rng.random() < 0.2:
            self.drop()
        for which in self.ids[:-8]:  # does not wait for what nobody will ask for again
            self.check(self.d.delete("/executions/" + which, token=self.token))
        self.ids = self.ids[-8:]


def settle(d):
    """Ends all that is still there."""
    def rest():
        return [e["execution_id"] for state in ("received", "waiting", "running")
                for e in d.get("/executions?state=%s&limit=100" % state).expect(200).json["executions"]]
    def none_left():
        left = rest()
        for which in left:
            d.delete("/executions/" + which).expect((200, 404))
        return not left
    until(none_left, "nothing is under way", 60)


def check_record(d):
    d.verify()
    names = collections.defaultdict(list)
    for row in d.rows(kind="state"):
        names[row["job"]].append(row["name"])
    for job, states in names.items():
        assert states[0] == "received", (job, states)
        # Code that an approver put in its place goes the whole way once more.
        assert all(before == "waiting" for before, s in zip(states, states[1:]) if s == "received"), (job, states)
        assert states.count("running") <= 1, (job, states)
        assert len([s for s in states if s in FINAL]) == 1 and states[-1] in FINAL, (job, states)
    return len(names)


def run(sequences, seed, callers=4, say=lambda text: None):
    """Raises when something is wrong; gives the counts of what was answered."""
    counts, failures = collections.Counter(), []
    policy = pathlib.Path(brigd.tempfile.mkdtemp(prefix="it-fuzz-")) / "policy.yaml"
    policy.write_text(POLICY)
    policy.parent.chmod(0o755)
    pool = {"min": 1, "max": 2, "idle": "2s"}  # so that it is soon as small as before
    config = {"limits": {"running": 8, "queue": 64},
              "pool": {language: pool for language in ("python", "javascript", "shell")}}
    try:
        with brigd.running(policy=policy, config=config) as d:
            tokens = [(d.token("caller%d" % i, "run"), d.token("approver%d" % i, "approve,read"))
                      for i in range(callers)]
            for language, code in (("shell", "echo 1"), ("javascript", "1"), ("python", "1")):
                which = d.submit(code, language)
                if language == "python":
                    d.answer(d.waiting(which)).expect(200)
                d.result(which)
            time.sleep(1)
            fds, rss = d.fds(), d.rss()
            left, lock = iter(range(sequences)), threading.Lock()

            def go_on(i):
                # Each sequence has its own numbers, whichever of the callers comes to it.
                caller = Caller(d, random.Random(), *tokens[i], counts)
                try:
                    while not failures:
                        with lock:
                            n = next(left, None)
                        if n is None:
                            return
                        caller.rng.seed("%d/%d" % (seed, n))
                        caller.sequence()
                except BaseException as error:  # noqa: BLE001 (told below, by the main thread)
                    failures.append((n, caller.last, error))
                finally:
                    caller.drop()

            threads = [threading.Thread(target=go_on, args=(i,)) for i in range(callers)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            if failures:
                n, last, error = failures[0]
                raise AssertionError("seed %d, sequence %d, %s: %r\n%s" % (
                    seed, n, last, error, d.logged[-2000:])) from error
            settle(d)
            jobs = check_record(d)
            until(lambda: d.fds() <= fds + BOXES * 20, "descriptors are closed (%d before, %d now)" % (fds, d.fds()))
            grown = d.rss() - rss
            # Kept results and a full pool have their bounds; beyond those nothing may stay.
            assert grown < (192 << 20), "memory grew by %d MiB" % (grown >> 20)
            say("%d sequences, %d calls, %d executions, %d MiB more, answers: %s" % (
                sequences, counts["calls"], jobs, grown >> 20,
                ", ".join("%s: %d" % (k, v) for k, v in sorted(counts.items(), key=str) if k != "calls")))
    finally:
        brigd.shutil.rmtree(policy.parent, ignore_errors=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=500, help="sequences")
    parser.add_argument("-s", type=int, default=None, help="seed")
    parser.add_argument("-j", type=int, default=4, help="callers at once")
    args = parser.parse_args()
    seed = args.s if args.s is not None else random.SystemRandom().randrange(1 << 32)
    print("seed %d" % seed, flush=True)
    run(args.n, seed, args.j, print)


if __name__ == "__main__":
    main()
