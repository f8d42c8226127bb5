# SPDX-License-Identifier: Apache-2.0
"""brig as a client, against a daemon of canned answers: what it asks, what it makes of what comes.

Nothing here runs code: what runs is what the fake daemon says. The real one is in
test_client_daemon.py.
"""
import base64
import json
import os
import pathlib
import pty
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import USER_ID

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from fake_brigd import FakeBrigd, error, events, reply  # noqa: E402

ID = "0123456789abcdefghjkmnpqrs"
OTHER = "0123456789zzzzzzzzzzzzzzzz"
APPROVAL = "zyxwvtsrqpnmkjhgfedcba9876"
BOUND_S = 60
TOKEN = "brig_0123456789ab_secretsecretsecretsecret"


def result(state="finished", exit_code=0, stdout="", stderr="", **fields):
    value = {"execution_id": ID, "state": state, "success": state == "finished",
             "exit_code": exit_code, "signal": None, "stdout": stdout, "stderr": stderr,
             "outputs": [], "value": None, "error": None,
             "files": {"created": [], "modified": [], "deleted": [], "truncated": False},
             "usage": {}, "truncated": {"stdout": 0, "stderr": 0}, "tier": "jail", "risk": None,
             "approval_id": None, "receipt": {"verified": True, "layers": []}}
    value.update(fields)
    return value


def status(state="running", done=False, execution=ID, **fields):
    value = {"execution_id": execution, "state": state, "done": done, "language": "python",
             "caller": "uid:0", "created": "2026-01-01T00:00:00Z", "approval_id": None,
             "session_id": None}
    value.update(fields)
    return value


def approval(state="waiting", **fields):
    value = {"id": APPROVAL, "state": state, "digest": "ab" * 32, "job": ID, "session": None,
             "asker": "uid:0", "created": "2026-01-01T00:00:00Z",
             "expires": "2036-01-01T00:00:00Z", "may_remember": "digest", "self": True,
             "edited": False, "remembered": "nothing", "until": None, "answered_by": None,
             "reason": None}
    value.update(fields)
    return value


DETAIL = dict(approval(), code="echo the code\n", summary={
    "action": "code_execution", "language": "shell", "tier": "jail", "level": "standard",
    "network": "none", "limits": {"pids": 3}, "decision": {"policy": "p", "rule": "r", "reason": "why"},
    "risk": {"level": "low", "why": "", "findings": []}})


def output(data, following=None, done=True, dropped=0):
    return reply(200, data, kind="application/octet-stream",
                 headers=[("Brig-Next-Offset", len(data) if following is None else following),
                          ("Brig-Done", "true" if done else "false"), ("Brig-Dropped", dropped)])


def later(condition, *rows, head=True):
    """Events that come when the condition holds; without `head` the whole answer does."""
    def wait():
        end = time.monotonic() + 10
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)
        return 0

    first, rest = events(*rows).split(b"\r\n\r\n", 1)
    return [first + b"\r\n\r\n", wait, rest] if head else [wait, first + b"\r\n\r\n" + rest]


class Client:
    """The command, told where the fake daemon is."""

    def __init__(self, brig, fake):
        self.brig, self.fake = brig, fake

    def environment(self, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith("BRIG")}
        env.update({"BRIG_HOST": self.fake.where, "BRIG_STATE_DIR": os.environ["BRIG_STATE_DIR"]})
        env.update(extra)
        return {k: v for k, v in env.items() if v is not None}

    def __call__(self, *args, stdin=b"", env=None, **kw):
        return self.brig.call([self.brig.path, *map(str, args)], stdin=stdin, timeout=BOUND_S,
                              env=self.environment(**(env or {})), **kw)

    def python(self, code="1", *args, **kw):
        return self("run", "python", "-c", code, *args, **kw)


@pytest.fixture
def fake(place):
    server = FakeBrigd(place / "s")
    yield server
    server.close()


@pytest.fixture
def client(brig_user, fake):
    return Client(brig_user, fake)


# What is sent


def test_the_request_says_what_the_options_say(client, fake, place):
    (place / "data").write_bytes(b"\x00\xff\n")
    (place / "data").chmod(0o755)
    fake.on("POST", "/executions", reply(200, result()))
    run = client("run", "--lang", "python", "-", "--timeout", "5s", "--memory", "64M", "--cpus", "0.5",
                 "--env", "A=b=c", "--session", "s1", "--network", "none", "--level", "degraded-ok",
                 "--file", "%s:in/data" % (place / "data"), "--", "first", "zwölf",
                 stdin="print('ä\\n')".encode())
    assert run.status == 0, run
    asked = fake.of("POST")[0]
    assert asked.json == {
        "language": "python", "code": "print('ä\\n')", "level": "degraded-ok", "tier": "auto",
        "network": "none", "session_id": "s1", "timeout_ms": 5000,
        "limits": {"memory_bytes": 64 << 20, "cpus": 0.5}, "args": ["first", "zwölf"],
        "env": {"A": "b=c"},
        "files": [{"path": "in/data", "executable": True,
                   "content_base64": base64.b64encode(b"\x00\xff\n").decode()}]}
    assert asked.headers["content-type"] == "application/json"
    assert len(asked.headers["idempotency-key"]) >= 16
    assert asked.headers["host"] == "localhost"
    assert "authorization" not in asked.headers


def test_two_runs_have_two_keys(client, fake):
    fake.on("POST", "/executions", reply(200, result()))
    client.python()
    client.python()
    assert len({r.headers["idempotency-key"] for r in fake.of("POST")}) == 2


def test_the_token_of_the_environment_is_sent(client, fake):
    fake.on("POST", "/executions", reply(200, result()))
    assert client.python(env={"BRIG_TOKEN": TOKEN}).status == 0
    assert fake.asked[0].headers["authorization"] == "Bearer " + TOKEN


def test_the_token_of_a_file_is_sent(client, fake, place):
    (place / "token").write_text(TOKEN + "\n")
    (place / "token").chmod(0o600)
    fake.on("POST", "/executions", reply(200, result()))
    assert client.python(env={"BRIG_TOKEN_FILE": str(place / "token")}).status == 0
    assert fake.asked[0].headers["authorization"] == "Bearer " + TOKEN


def test_a_token_file_that_others_can_read_is_refused(client, fake, place):
    (place / "token").write_text(TOKEN)
    (place / "token").chmod(0o644)
    run = client.python(env={"BRIG_TOKEN_FILE": str(place / "token")})
    assert run.status == 2 and "chmod 600" in run.text and TOKEN not in run.text, run
    assert not fake.asked


@pytest.mark.parametrize("token", ["a b", "x\r\nX-Evil: 1", "x" * 100, "ä"])
def test_what_is_no_token_is_not_sent_and_not_shown(client, fake, token):
    run = client.python(env={"BRIG_TOKEN": token})
    assert run.status == 2 and "BRIG_TOKEN" in run.text and token not in run.text, run
    assert not fake.asked


def test_over_tcp_the_host_header_names_the_port(brig_user):
    server = FakeBrigd().on("POST", "/executions", reply(200, result(stdout="tcp\n")))
    try:
        run = Client(brig_user, server).python()
        assert (run.status, run.out) == (0, b"tcp\n"), run
        assert server.asked[0].headers["host"] == server.where[len("http://"):]
    finally:
        server.close()


# What comes back


def test_a_result_at_once_is_shown_as_embedded_would(client, fake):
    fake.on("POST", "/executions", reply(200, result("failed", 3, "out\n", "err\n")))
    run = client.python()
    assert (run.status, run.out, run.err) == (3, b"out\n", b"err\n"), run


def test_json_is_the_line_that_the_daemon_gave(client, fake):
    body = json.dumps(result(stdout="ä\n"), ensure_ascii=False).encode()
    fake.on("POST", "/executions", reply(200, body))
    run = client.python("1", "--json")
    assert (run.status, run.out) == (0, body + b"\n"), run


def test_receipt_goes_to_standard_error(client, fake):
    fake.on("POST", "/executions", reply(200, result()))
    run = client.python("1", "--receipt")
    assert json.loads(run.err.decode()) == {"verified": True, "layers": []}, run


@pytest.mark.parametrize("state,code,more,wanted", [
    ("finished", 0, {}, 0), ("failed", 7, {}, 7), ("timed_out", None, {}, 124),
    ("killed", None, {"signal": 11}, 139), ("oom", None, {}, 137), ("cancelled", None, {}, 130),
    ("denied", None, {"error": {"code": "denied", "cause": "no", "remedy": ""}}, 126),
    ("expired", None, {}, 126), ("lost", None, {}, 125),
    ("setup_failed", None, {"error": {"code": "unsupported", "cause": "x", "remedy": ""}}, 126),
    ("setup_failed", None, {"error": {"code": "setup_failed", "cause": "x", "remedy": ""}}, 125),
    ("finished", 0, {"error": {"code": "io", "cause": "x", "remedy": ""}}, 125),
    ("failed", 1, {"error": {"code": "exception", "cause": "ValueError: x", "remedy": ""}}, 1),
])
def test_exit_status_is_that_of_an_embedded_run(client, fake, state, code, more, wanted):
    fake.on("POST", "/executions", reply(200, result(state, code, **more)))
    run = client.python()
    assert run.status == wanted, run
    assert ("brig:" in run.text) == (more.get("error", {}).get("code", "exception") != "exception"), run


def test_live_output_comes_before_the_result(client, fake):
    fake.on("POST", "/executions", reply(202, status()))
    fake.on("GET", "/executions/%s/events" % ID, lambda r: [
        events(("state", status()), ("output", {"stream": "stdout", "offset": 0, "text": "one\n"}),
               end=False), 0.05,
        events(("output", {"stream": "stderr", "offset": 0, "text": "two\n"}),
               ("output", {"stream": "stdout", "offset": 4, "text": "three\n"}),
               ("result", result("failed", 5, "one\nthree\n", "two\n"))).split(b"\r\n\r\n", 1)[1]])
    run = client.python()
    assert (run.status, run.out, run.err) == (5, b"one\nthree\n", b"two\n"), run


def test_bytes_that_are_no_text_are_fetched_as_they_are(client, fake):
    data = bytes(range(256)) * 3
    text = data.decode("utf-8", "replace")
    fake.on("POST", "/executions", reply(202, status()))
    fake.on("GET", "/executions/%s/events" % ID,
            events(("output", {"stream": "stdout", "offset": 0, "text": text}),
                   ("result", result(stdout=text))))
    fake.on("GET", "/executions/%s/output" % ID,
            lambda r: output(data[int(r.parameters["offset"]):], len(data)))
    run = client.python()
    assert (run.status, run.out) == (0, data), run


def test_bytes_of_a_result_at_once_are_fetched_too(client, fake):
    data = b"\xff\xfe" * 1000
    fake.on("POST", "/executions", reply(200, result(stdout=data.decode("utf-8", "replace"))))
    fake.on("GET", "/executions/%s/output" % ID,
            lambda r: output(data[int(r.parameters["offset"]):][:700],
                             min(int(r.parameters["offset"]) + 700, len(data))))
    assert client.python().out == data


def test_what_was_dropped_is_said_where_it_is_missing(client, fake):
    fake.on("POST", "/executions",
            reply(200, result("output_limit", 0, "headtail", truncated={"stdout": 90, "stderr": 0})))
    fake.on("GET", "/executions/%s/output" % ID, lambda r: {
        "0": output(b"head", 4, False), "4": output(b"tail", 98, True, dropped=90),
        "98": output(b"", 98)}[r.parameters["offset"]])
    assert client.python().out == b"head\n[brig: 90 bytes of stdout dropped]\ntail"


def test_events_that_break_off_are_resumed_after_the_last(client, fake):
    rows = [("output", {"stream": "stdout", "offset": 0, "text": "a"}),
            ("output", {"stream": "stdout", "offset": 1, "text": "b"}),
            ("result", result(stdout="ab"))]

    def watch(request):
        after = int(request.headers.get("last-event-id", 0))
        if after == 0:
            return events(rows[0], end=False)
        return events(*[("x", {})] * after, *rows[after:])

    fake.on("POST", "/executions", reply(202, status()))
    fake.on("GET", "/executions/%s/events" % ID, watch)
    fake.on("GET", "/executions/" + ID, reply(200, status()))
    run = client.python()
    assert (run.status, run.out) == (0, b"ab"), run
    assert [r.headers.get("last-event-id") for r in fake.of("GET", "/executions/%s/events" % ID)] == [None, "1"]


def test_events_without_a_result_end_with_the_result_itself(client, fake):
    fake.on("POST", "/executions", reply(202, status()))
    fake.on("GET", "/executions/%s/events" % ID, events(("state", status())))
    fake.on("GET", "/executions/" + ID, reply(200, result(stdout="late\n")))
    run = client.python()
    assert (run.status, run.out) == (0, b"late\n"), run


def test_a_daemon_that_is_lost_is_told_with_the_id(client, fake):
    fake.on("POST", "/executions", reply(202, status()))
    fake.on("GET", "/executions/%s/events" % ID, events(end=False))
    fake.on("GET", "/executions/" + ID, lambda r: b"")
    run = client.python()
    assert run.status == 125 and "brig wait %s" % ID in run.text, run


# What goes wrong


def test_a_named_daemon_that_is_not_there_is_an_error(client, fake, place):
    run = client.python("1", "--host", "unix:%s" % (place / "nobody"))
    assert run.status == 125 and "no daemon answers" in run.text and "brig serve" in run.text, run
    assert not run.out


def test_a_socket_that_nobody_listens_on_is_an_error(client, place):
    path = place / "dead"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
    run = client.python(env={"BRIG_HOST": "unix:%s" % path})
    assert run.status == 125 and "no daemon answers" in run.text, run


@pytest.mark.parametrize("host", ["", "ftp://x", "unix:relative", "http://", "http://a b:1", "http://h:x",
                                  "http://h:1/path", "http://[::1:70", "unix:/" + "x" * 200, "https://h"])
def test_a_place_that_is_none_is_wrong_usage(client, fake, host):
    run = client.python("1", "--host=" + host, env={"BRIG_HOST": None}) if host else \
        client("ps", "--host")
    assert run.status in (2, 126) and not run.out and not fake.asked, run
    assert "brig:" in run.text


def test_host_none_runs_here(client, fake):
    run = client.python("print('here')", "--host", "none", "--level", "degraded-ok")
    assert (run.status, run.out) == (0, b"here\n"), run
    assert not fake.asked


@pytest.mark.parametrize("option", [["--policy", "strict"], ["--no-record"],
                                    ["--state-dir", "/tmp/never"],
                                    ["--confirm", "approve"], ["--confirm", "deny"]])
def test_what_a_daemon_cannot_do_is_refused_when_one_is_named(client, fake, option):
    run = client.python("1", *option)
    assert run.status == 126 and option[0] in run.text and "--host none" in run.text, run
    assert not fake.asked


def test_code_that_is_not_utf8_is_refused_when_a_daemon_is_named(client, fake):
    run = client("run", "--lang", "shell", "-", stdin=b"echo \xff")
    assert run.status == 2 and "code: is not UTF-8" in run.text, run
    assert not fake.asked


def test_an_error_is_shown_with_its_remedy(client, fake):
    fake.on("POST", "/executions", error(400, "invalid", "limits.pids: too many", "give fewer"))
    run = client.python()
    assert (run.status, run.err) == (2, b"brig: limits.pids: too many\n      give fewer\n"), run


def test_an_error_of_a_json_run_is_a_result(client, fake):
    fake.on("POST", "/executions", error(400, "invalid", "limits.pids: too many", "give fewer"))
    run = client.python("1", "--json")
    assert run.status == 2 and run.result["state"] == "rejected", run
    assert run.result["error"]["cause"] == "limits.pids: too many"


def test_without_a_token_that_counts_it_is_refused(client, fake):
    fake.on("POST", "/executions", error(401, "unauthorized", "no token"))
    run = client.python(env={"BRIG_TOKEN": TOKEN})
    assert run.status == 126 and "BRIG_TOKEN" in run.text and TOKEN not in run.text, run


def test_texts_of_errors_are_masked(client, fake):
    fake.on("POST", "/executions", error(400, "invalid", "\x1b[2J\u202egone", "\x1b]0;x\x07"))
    run = client.python()
    assert b"\x1b" not in run.err and b"\\x1b[2J\\u202egone" in run.err, run


def test_a_busy_daemon_is_asked_again_when_it_says(client, fake):
    left = [error(429, "busy", headers=[("Retry-After", 1)])] * 2 + [reply(200, result(stdout="ok\n"))]
    fake.on("POST", "/executions", lambda r: left.pop(0))
    run = client.python()
    assert (run.status, run.out) == (0, b"ok\n") and run.elapsed >= 2, run
    assert len({r.headers["idempotency-key"] for r in fake.of("POST")}) == 1


def test_a_daemon_that_stays_busy_is_given_up(client, fake):
    fake.on("POST", "/executions", error(429, "busy", "too much", headers=[("Retry-After", 1)]))
    run = client.python()
    assert run.status == 125 and "too much" in run.text, run
    assert len(fake.of("POST")) == 4


def test_a_connection_that_breaks_is_made_once_more_with_the_same_key(client, fake):
    left = [b"HTTP/1.1 200 OK\r\nContent-Le", reply(200, result(stdout="ok\n"))]
    fake.on("POST", "/executions", lambda r: left.pop(0))
    run = client.python()
    assert (run.status, run.out) == (0, b"ok\n"), run
    keys = [r.headers["idempotency-key"] for r in fake.of("POST")]
    assert len(keys) == 2 and len(set(keys)) == 1


BROKEN = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Type: appl",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"exec",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n{}",
    "no last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
    "a chunk without an end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n",
    "a size that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a size of many digits": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "another encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a header without a name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "a NUL in the head": b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
    "a huge header": b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200000 + b"\r\n\r\n",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"A: bcdefgh\r\n" * 20000 + b"\r\n",
    "a length beyond all bounds": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
    "a status that is none": b"HTTP/1.1 2x0 OK\r\n\r\n",
    "no JSON": reply(200, b"<html>\x1b[2J</html>"),
    "JSON of another kind": reply(200, b"[1,2,3]"),
    "JSON that is no result": reply(200, {"hello": 1}),
    "a result of no state": reply(200, {"execution_id": ID, "state": "x"}),
    "nested too deeply": reply(200, b"[" * 100000),
    "an id that is a path": reply(202, status(execution="../../../../../../../../etc")),
    "an error that is no JSON": reply(500, b"\x1b[2Joops"),
    "a redirection": reply(302, b"", [("Location", "http://example.com/")]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_answer_that_is_broken_is_told_and_nothing_else(client, fake, what):
    fake.on("POST", "/executions", lambda r: BROKEN[what])
    run = client.python()
    assert run.status == 125 and run.text.startswith("brig: ") and not run.out, run
    assert b"\x1b" not in run.err and run.elapsed < BOUND_S / 2, run


@pytest.mark.parametrize("answer", [
    reply(200, result(stdout="ok\n"), chunked=1), reply(200, result(stdout="ok\n"), chunked=7),
    b"HTTP/1.1 100 Continue\r\n\r\n" + reply(200, result(stdout="ok\n")),
    reply(200, result(stdout="ok\n")).replace(b"\r\n", b"\n"),
    b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(result(stdout="ok\n")).encode(),
    reply(200, result(stdout="ok\n"), chunked=100).replace(b"\r\n0\r\n\r\n", b"\r\n0;x=y\r\nTrailer: z\r\n\r\n"),
    reply(200, result(stdout="ok\n"), [("CONTENT-LANGUAGE", "de"), ("X-Empty", "")]),
], ids=["chunks of 1", "chunks of 7", "continue", "bare newlines", "until the end", "trailer", "headers"])
def test_every_form_of_an_answer_is_understood(client, fake, answer):
    fake.on("POST", "/executions", answer)
    run = client.python()
    assert (run.status, run.out) == (0, b"ok\n"), run


def test_an_answer_in_small_pieces_is_put_together(client, fake):
    data = reply(200, result(stdout="ok\n"), chunked=50)
    fake.on("POST", "/executions", lambda r: [x for i in range(0, len(data), 40)
                                             for x in (data[i:i + 40], 0.005)])
    assert client.python().out == b"ok\n"


def test_a_silent_daemon_is_given_up_in_time(client, fake):
    fake.on("POST", "/executions", lambda r: [3.0])
    run = client.python(env={"BRIG_TIMEOUT": "300ms"})
    assert run.status == 125 and "silent" in run.text and run.elapsed < 2.5, run


# Approvals


def test_a_run_that_waits_says_so_and_goes_on_when_it_is_answered(client, fake):
    fake.on("POST", "/executions", reply(202, status("waiting", approval_id=APPROVAL)))
    fake.on("GET", "/approvals/" + APPROVAL, reply(200, DETAIL))
    fake.on("GET", "/executions/%s/events" % ID,
            lambda r: [0.3, events(("state", status("running")), ("result", result(stdout="ok\n")))])
    run = client.python()
    assert (run.status, run.out) == (0, b"ok\n"), run
    assert "approval %s waits" % APPROVAL in run.text and "2036-01-01" in run.text


@pytest.mark.parametrize("http,code,exit_status", [
    (403, "forbidden", 1), (403, "denied", 1), (409, "conflict", 1), (410, "expired", 1),
    (401, "unauthorized", 126), (404, "not_found", 2), (500, "internal", 125)])
def test_status_of_an_answer_that_does_not_count(client, fake, http, code, exit_status):
    fake.on("GET", "/approvals", reply(200, {"approvals": [approval()]}))
    fake.on("GET", "/approvals/" + APPROVAL, reply(200, DETAIL))
    fake.on("POST", "/approvals/" + APPROVAL, error(http, code))
    run = client("approvals", "allow", APPROVAL)
    assert run.status == exit_status and "it is so" in run.text, run


def test_who_may_not_see_approvals_is_told_that_it_waits(client, fake):
    fake.on("POST", "/executions", reply(202, status("waiting", approval_id=APPROVAL)))
    fake.on("GET", "/approvals/" + APPROVAL, error(403, "forbidden"))
    fake.on("GET", "/executions/%s/events" % ID, lambda r: [0.2, events(("result", result()))])
    run = client.python()
    assert run.status == 0 and "approval %s waits" % APPROVAL in run.text, run


def on_terminal(argv, env, keys, bound=20):
    """Runs it on a terminal of its own; `keys`: what to type when a text is seen."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, env)
    seen, end = b"", time.monotonic() + bound
    keys = list(keys)
    while time.monotonic() < end:
        ready, _, _ = select.select([fd], [], [], 0.1)
        if ready:
            try:
                chunk = os.read(fd, 65536)
            except OSError:
                break
            if not chunk:
                break
            seen += chunk
        if keys and keys[0][0] in seen:
            os.write(fd, keys.pop(0)[1])
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen


def test_at_a_terminal_the_question_is_put_there(client, fake):
    answered = []
    fake.on("POST", "/executions", reply(202, status("waiting", approval_id=APPROVAL)))
    fake.on("GET", "/approvals/" + APPROVAL,
            lambda r: reply(200, dict(DETAIL, state="used", answered_by="uid:0") if answered else DETAIL))
    fake.on("POST", "/approvals/" + APPROVAL,
            lambda r: answered.append(r.json) or reply(200, approval("allowed")))

    fake.on("GET", "/executions/%s/events" % ID, lambda r: later(
        lambda: answered, ("state", status("running")),
        ("output", {"stream": "stdout", "offset": 0, "text": "ran\n"}),
        ("result", result(stdout="ran\n"))))
    argv = [client.brig.path, "run", "shell", "-c", "echo ran"]
    code, seen = on_terminal(argv, client.environment(), [(b"Run it?", b"y\n")])
    assert code == 0 and b"echo the code" in seen and b"ran" in seen and b"allowed by uid:0" in seen, seen
    assert answered == [{"decision": "allow", "scope": "once", "reason": "at the terminal",
                         "digest": "ab" * 32}]


def test_approvals_are_listed(client, fake):
    fake.on("GET", "/approvals", reply(200, {"approvals": [approval(asker="\x1b[31m")]}))
    run = client("approvals", "ls")
    assert run.status == 0 and APPROVAL.encode() in run.out and b"\x1b" not in run.out, run
    run = client("approvals", "ls", "--json")
    assert [a["id"] for a in run.result] == [APPROVAL], run


def test_an_approval_is_found_by_its_beginning(client, fake):
    fake.on("GET", "/approvals", reply(200, {"approvals": [approval()]}))
    fake.on("GET", "/approvals/" + APPROVAL, reply(200, DETAIL))
    fake.on("POST", "/approvals/" + APPROVAL, reply(200, approval("allowed")))
    fake.on("DELETE", "/approvals/" + APPROVAL, reply(200, approval("revoked")))
    assert b"echo the code" in client("approvals", "show", APPROVAL[:5]).out
    assert client("approvals", "show", "--raw", APPROVAL[:5]).out == b"echo the code\n"
    assert client("approvals", "show", "--json", APPROVAL[:5]).result["request"]["limits"] == {"pids": 3}
    run = client("approvals", "allow", APPROVAL[:5], "--for", "10m", "--reason", "fine")
    assert run.out == b"%s: allowed, once\n" % APPROVAL.encode(), run
    assert fake.of("POST")[0].json == {"decision": "allow", "scope": "digest", "remember_ms": 600000,
                                       "reason": "fine"}
    assert client("approvals", "revoke", APPROVAL).out == b"%s: revoked\n" % APPROVAL.encode()
    assert client("approvals", "show", "nope").status == 2


def test_an_answer_that_comes_too_late_is_refused(client, fake):
    fake.on("GET", "/approvals", reply(200, {"approvals": [approval()]}))
    fake.on("POST", "/approvals/" + APPROVAL, error(409, "conflict", "answered already"))
    run = client("approvals", "deny", APPROVAL)
    assert run.status == 1 and "answered already" in run.text, run
    assert len(fake.of("POST")) == 1


# Ctrl-C


@pytest.mark.parametrize("head", [True, False])
def test_ctrl_c_cancels_and_waits_for_the_end(client, fake, head):
    cancelled = []
    fake.on("POST", "/executions", reply(202, status()))
    fake.on("GET", "/executions/" + ID, reply(200, status()))
    fake.on("GET", "/executions/%s/events" % ID,
            lambda r: later(lambda: cancelled, ("result", result("cancelled", None)), head=head))
    fake.on("DELETE", "/executions/" + ID, lambda r: cancelled.append(r) or reply(200, status()))
    proc = subprocess.Popen([client.brig.path, "run", "python", "-c", "1"], env=client.environment(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 15
    while not fake.of("GET") and time.monotonic() < end:
        time.sleep(0.02)
    proc.send_signal(signal.SIGINT)
    out, err = proc.communicate(timeout=20)
    assert proc.returncode == 130 and len(cancelled) == 1, (proc.returncode, out, err)


def test_a_reader_that_goes_away_cancels_the_run(client, fake):
    fake.on("POST", "/executions", reply(202, status()))
    cancelled = []

    def watch(_request):
        # More than a pipe holds: writing it must find out that nobody reads.
        texts = [{"stream": "stdout", "offset": i * 60000, "text": "y\n" * 30000} for i in range(5)]
        first = events(*(("output", text) for text in texts), end=False)
        return [first, 4, events(("result", result("cancelled", None))).split(b"\r\n\r\n", 1)[1]]

    fake.on("GET", "/executions/%s/events" % ID, watch)
    fake.on("DELETE", "/executions/" + ID, lambda r: cancelled.append(r) or reply(200, status()))
    proc = subprocess.Popen([client.brig.path, "run", "python", "-c", "1"], env=client.environment(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    proc.stdout.read(1)
    proc.stdout.close()
    proc.stderr.read()
    proc.stderr.close()
    assert proc.wait(20) == 130 and len(cancelled) == 1


# ps, logs, wait, cancel, top


LIST = {"executions": [status(), status("waiting", execution=OTHER, caller="\x1b[2Jx"),
                       status("finished", True, execution="a" * 26)], "next": None}


def test_ps_shows_what_runs_and_with_a_all(client, fake):
    fake.on("GET", "/executions", reply(200, LIST))
    run = client("ps")
    assert run.status == 0 and b"\x1b" not in run.out, run
    rows = [line.split()[0] for line in run.out.decode().splitlines()]
    assert rows == ["ID", ID, OTHER]
    assert b"a" * 26 in client("ps", "-a").out
    assert [e["execution_id"] for e in client("ps", "-a", "--json").result] == [ID, OTHER, "a" * 26]


def test_ps_turns_the_pages(client, fake):
    fake.on("GET", "/executions", lambda r: reply(200, {
        "executions": [status(execution=OTHER if "after" in r.parameters else ID)],
        "next": None if "after" in r.parameters else "17"}))
    assert len(client("ps", "--json").result) == 2
    assert fake.asked[1].parameters["after"] == "17"


def test_ps_says_when_there_is_nothing(client, fake):
    fake.on("GET", "/executions", reply(200, {"executions": [], "next": None}))
    assert client("ps").out == b"nothing runs\n"


def test_logs_gives_the_bytes(client, fake):
    data = b"\x00\xff" * 5
    fake.on("GET", "/executions", reply(200, LIST))
    fake.on("GET", "/executions/" + ID, reply(200, status()))
    fake.on("GET", "/executions/%s/output" % ID,
            lambda r: output(data[int(r.parameters["offset"]):], len(data), False))
    run = client("logs", ID[:11])
    assert (run.status, run.out) == (0, data), run
    assert {r.parameters["stream"] for r in fake.of("GET", "/executions/%s/output" % ID)} == {"stdout"}
    client("logs", "--stderr", ID)
    assert fake.asked[-1].parameters["stream"] == "stderr"


def test_logs_of_one_that_is_over_come_from_its_result(client, fake):
    fake.on("GET", "/executions/" + ID, reply(200, result(stdout="kept\n", stderr="no\n")))
    assert client("logs", ID).out == b"kept\n"
    assert client("logs", "--stderr", ID).out == b"no\n"


def test_logs_follow_to_the_end(client, fake):
    fake.on("GET", "/executions/" + ID, reply(200, status()))
    fake.on("GET", "/executions/%s/events" % ID,
            events(("output", {"stream": "stdout", "offset": 0, "text": "a\n"}),
                   ("output", {"stream": "stderr", "offset": 0, "text": "no\n"}),
                   ("result", result(stdout="a\nb\n"))))
    run = client("logs", "-f", ID)
    assert (run.status, run.out, run.err) == (0, b"a\nb\n", b""), run


def test_a_beginning_of_two_ids_is_refused(client, fake):
    fake.on("GET", "/executions", reply(200, LIST))
    run = client("logs", "01234")
    assert run.status == 2 and "the beginning of 2" in run.text, run
    run = client("cancel", "zzz")
    assert run.status == 125 and "brig ps -a" in run.text, run


@pytest.mark.parametrize("bad", ["../x", "A", "", "x/y", "0" * 40])
def test_an_id_that_is_none_is_never_part_of_a_path(client, fake, bad):
    assert client("logs", bad).status != 0
    assert not fake.of("GET", "/executions/" + bad)


def test_wait_ends_as_the_run_did(client, fake):
    left = [reply(200, status()), reply(200, result("failed", 9))]
    fake.on("GET", "/executions/" + ID, lambda r: left.pop(0))
    assert client("wait", ID).status == 9
    fake.on("GET", "/executions/" + ID, reply(200, result()))
    run = client("wait", "--json", ID, ID)
    assert run.status == 0 and len(run.out.splitlines()) == 2, run


def test_cancel_goes_on_after_one_that_is_not_there(client, fake):
    fake.on("DELETE", "/executions/" + ID, reply(200, status("cancelled", True)))
    fake.on("DELETE", "/executions/" + OTHER, error(404, "not_found", "no such execution"))
    run = client("cancel", OTHER, ID)
    assert run.status == 125 and run.out == ID.encode() + b"\n", run
    assert "no such execution" in run.text


METRICS = b"""# HELP brig_executions_total x
brig_executions_total{state="finished",language="python"} 40
brig_executions_total{state="failed",language="shell"} 2
brig_executions_totally 7
brig_rejected_total{why="busy"} 3
"""


def test_top_shows_runs_boxes_and_totals(client, fake):
    fake.on("GET", "/executions", reply(200, LIST))
    fake.on("GET", "/pool", reply(200, {"shapes": [{"language": "python", "ready": 4, "hits": 17}]}))
    fake.on("GET", "/metrics", reply(200, METRICS, kind="text/plain"))
    run = client("top", "--once")
    assert run.status == 0 and b"2 under way, 42 ended, 3 turned away" in run.out, run
    assert b"\x1b" not in run.out and b"python" in run.out
    value = client("top", "--once", "--json").result
    assert (value["ended"], value["rejected"], value["ended_per_s"]) == (42, 3, None)
    assert len(value["executions"]) == 2 and value["pool"]["shapes"][0]["ready"] == 4


def test_top_works_without_the_metrics(client, fake):
    fake.on("GET", "/executions", reply(200, LIST))
    fake.on("GET", "/pool", reply(200, {"shapes": []}))
    run = client("top", "--once")
    assert run.status == 0 and b"ended" not in run.out, run


# Which daemon


def test_without_a_daemon_it_runs_here(brig_user, place):
    env = {k: v for k, v in os.environ.items() if not k.startswith("BRIG")}
    env.update(BRIG_STATE_DIR=str(place / "state"), XDG_RUNTIME_DIR=str(place))
    run = brig_user.call([brig_user.path, "run", "python", "-c", "print(1)", "--level", "degraded-ok"],
                         env=env)
    assert (run.status, run.out) == (0, b"1\n"), run


def as_user(brig_user, args, env, place):
    uid = str(USER_ID)
    argv = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"] if os.geteuid() == 0 else []
    argv += ["env", "-u", "BRIG_POLICY", "-u", "BRIG_STATE_DIR", "HOME=%s" % place]
    return brig_user.call(argv + ["%s=%s" % i for i in env.items()] + [brig_user.path, *map(str, args)])


@pytest.fixture
def near(place):
    """A daemon at the user's default socket."""
    (place / "brig").mkdir()
    (place / "brig").chmod(0o777)
    server = FakeBrigd(place / "brig" / "brigd.sock")
    server.on("POST", "/executions", reply(200, result(stdout="daemon\n")))
    yield server
    server.close()


def test_the_default_daemon_is_taken_when_it_answers(brig_user, near, place):
    run = as_user(brig_user, ["run", "python", "-c", "1"], {"XDG_RUNTIME_DIR": place}, place)
    assert (run.status, run.out) == (0, b"daemon\n"), run


@pytest.mark.parametrize("options,env", [
    (["--no-record"], {}), (["--policy", "permissive"], {}), (["--host", "none"], {}),
    (["--confirm", "approve"], {}), ([], {"BRIG_HOST": "none"}), ([], {"BRIG_POLICY": "permissive"})])
def test_who_names_a_record_or_a_policy_runs_here(brig_user, near, place, options, env):
    env = dict(env, XDG_RUNTIME_DIR=place)
    run = as_user(brig_user, ["run", "shell", "-c", "echo here; echo > x", "--level", "degraded-ok",
                              *options], env, place)
    assert run.out == b"here\n", run
    assert not near.asked


def test_code_that_is_not_utf8_runs_here(brig_user, near, place):
    (place / "a.sh").write_bytes(b"echo \xff")
    run = as_user(brig_user, ["run", place / "a.sh", "--level", "degraded-ok"],
                  {"XDG_RUNTIME_DIR": place}, place)
    assert (run.status, run.out) == (0, b"\xff\n"), run
    assert not near.of("POST")


@pytest.mark.needs_root
@pytest.mark.parametrize("named", [False, True], ids=["default", "named"])
def test_a_default_socket_that_is_out_of_reach_is_nobodys(brig_user, place, named):
    """Su leaves XDG_RUNTIME_DIR of whoever called it. Who names such a socket is told."""
    (place / "root").mkdir(mode=0o700)
    os.chown(place, USER_ID, USER_ID)
    env = {"XDG_RUNTIME_DIR": place / "root"}
    if named:
        env["BRIG_HOST"] = "unix:%s" % (place / "root" / "brig" / "brigd.sock")
    run = as_user(brig_user, ["run", "shell", "-c", "echo here", "--level", "degraded-ok"], env, place)
    if named:
        assert run.status == 125 and "Permission denied" in run.text, run
    else:
        assert (run.status, run.out) == (0, b"here\n"), run


@pytest.mark.needs_root
def test_a_default_daemon_of_somebody_else_is_refused(brig_user, place):
    (place / "brig").mkdir()
    (place / "brig").chmod(0o777)
    listener = subprocess.Popen(
        ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "/usr/bin/python3", "-c",
         "import socket,os,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
         "os.chmod(sys.argv[1], 0o777); s.listen(); print('up', flush=True); s.accept(); s.accept()",
         str(place / "brig" / "brigd.sock")], stdout=subprocess.PIPE)
    try:
        assert listener.stdout.readline() == b"up\n"
        run = as_user(brig_user, ["run", "python", "-c", "1"], {"XDG_RUNTIME_DIR": place}, place)
        assert run.status == 126 and "another user's" in run.text and "--host" in run.text, run
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()


# Help and completion


@pytest.mark.parametrize("command", ["ps", "logs", "wait", "cancel", "top", "serve", "completion"])
def test_help_has_an_example(brig_user, command):
    run = brig_user.command(command, "--help")
    assert run.status == 0 and b"Example" in run.out and b"Usage: brig " + command.encode() in run.out


@pytest.mark.parametrize("command", ["ps", "logs", "wait", "cancel", "top"])
def test_wrong_usage_is_status_2(brig_user, command):
    run = brig_user.command(command, "--nonsense")
    assert run.status == 2 and run.text == (
        'brig: --nonsense: no such option\n      see "brig %s --help"\n' % command), run


@pytest.mark.parametrize("words, wrong", [
    ("ps x", "x: one word too many"), ("top x", "x: one word too many"),
    ("logs", "ID: is missing"), ("logs a b", "b: one word too many"),
    ("wait", "ID: is missing"), ("cancel", "ID: is missing"),
    ("ps --host", "--host: needs a value"), ("ps --json=1", "--json=1: takes no value"),
    ("ps " + "--x" * 40, "%.60s: no such option" % ("--x" * 40)),
    ("approvals", "COMMAND: is missing"), ("approvals frob", "frob: no such command"),
    ("approvals ls x", "x: one word too many"), ("approvals show", "ID: is missing"),
    ("approvals show a b", "b: one word too many"), ("approvals ls -x", "-x: no such option"),
    ("token", "COMMAND: is missing"), ("token frob --scope run", "frob: no such command"),
    ("token ls --scope run", "--scope: not for this command"), ("token rm", "NAME: is missing"),
    ("token rm a --json", "--json: not for this command"),
])
def test_wrong_usage_names_the_word(brig_user, words, wrong):
    run = brig_user.command(*words.split())
    assert (run.status, run.out) == (2, b""), run
    assert run.text == 'brig: %s\n      see "brig %s --help"\n' % (wrong, words.split()[0]), run


@pytest.mark.parametrize("command", ["ps", "top", "approvals ls"])
def test_a_value_may_be_joined(brig_user, place, command):
    run = brig_user.command(*command.split(), "--host=unix:%s/none.sock" % place)
    assert run.status == 125 and "none.sock" in run.text and "option" not in run.text, run


def bash_words(brig, *words):
    script = ". <(%s completion bash); COMP_WORDS=(%s); COMP_CWORD=%d; _brig; echo ${COMPREPLY[@]}" % (
        brig.path, " ".join("'%s'" % w for w in words), len(words) - 1)
    env = dict(os.environ, PATH="%s:%s" % (os.path.dirname(brig.path), os.environ["PATH"]))
    return subprocess.run(["bash", "-c", script], env=env, stdout=subprocess.PIPE, check=True,
                          timeout=BOUND_S).stdout.decode().split()


def test_bash_completes_commands_and_options(brig_user):
    assert bash_words(brig_user, "brig", "ba") == ["batch"]
    assert "--timeout" in bash_words(brig_user, "brig", "run", "--ti")
    assert set(bash_words(brig_user, "brig", "completion", "")) == {"bash", "zsh", "fish"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_written_for(brig_user, shell):
    run = brig_user.command("completion", shell)
    assert run.status == 0 and b"brig" in run.out
    assert brig_user.command("completion").status == 2
