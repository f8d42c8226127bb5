# SPDX-License-Identifier: Apache-2.0
"""What the API does when it is asked rightly: executions, approvals, the record and the rest."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.parse

import jsonschema
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import API, ASK, ID, NO_ID, STATUS_KEYS, request_bytes, until  # noqa: E402

DOCUMENT, OPERATIONS = brigd.operations()
RESULT_KEYS = {
    "execution_id", "state", "success", "exit_code", "signal", "stdout", "stderr", "outputs",
    "value", "error", "files", "usage", "truncated", "tier", "risk", "approval_id", "receipt",
}
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon():
    with brigd.running() as d:
        d.token("one", "run")
        d.token("two", "run,read")
        yield d


@pytest.fixture(scope="module")
def asking():
    """Whatever is asked for waits for a person."""
    with brigd.running(policy=ASK) as d:
        d.token("asker", "run")
        d.token("both", "run,approve")
        d.token("first", "approve")
        d.token("second", "approve")
        yield d


@pytest.fixture(autouse=True)
def residue(subreaper):
    """In the place of conftest's: the daemons outlive a test, and are looked after when they stop."""
    with brigd.no_descriptors_left():
        yield


# --- the schemas are true -------------------------------------------------------------------------

def schema(name):
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/components/schemas/" + name,
            "components": DOCUMENT["components"]}


def valid(name, value):
    checker = jsonschema.Draft202012Validator(schema(name))
    wrong = sorted(checker.iter_errors(value), key=str)
    assert not wrong, (name, [e.message for e in wrong[:3]], json.dumps(value)[:2000])
    return value


def success_of(method, path):
    """Name of the schema of a route's success, None when it is no JSON."""
    for m, p, operation in OPERATIONS:
        if (m, p) == (method, path):
            for status, response in operation["responses"].items():
                content = response.get("content", {})
                if status.startswith("2") and "application/json" in content:
                    return content["application/json"].get("schema", {}).get("$ref", "").rpartition("/")[2] or None
    return None


def test_every_answer_is_as_described(daemon, asking):
    which = daemon.submit()
    daemon.result(which)
    held = asking.submit("echo ran", "shell")
    approval = asking.waiting(held)
    paths = {"/executions/{id}": which, "/approvals/{id}": approval}
    seen = 0
    for method, path, _ in OPERATIONS:
        name = success_of(method, path)
        if method != "GET" or not name or path in ("/openapi.json", "/approvals/ws"):
            continue
        d = asking if path.startswith("/approvals") else daemon
        valid(name, d.get(path.replace("{id}", paths.get(path, NO_ID))).expect(200).json)
        seen += 1
    assert seen >= 12, seen
    asking.delete("/executions/" + held).expect(200)
    asking.result(held)


def valid_for(method, path, value):
    return valid(success_of(method, path), value)


def test_the_description_is_the_same_everywhere(daemon):
    assert daemon.get("/openapi.json").expect(200).json == DOCUMENT
    assert DOCUMENT["openapi"].startswith("3.1")


def test_the_checker_can_fail():
    """The control of the tests above."""
    with pytest.raises(AssertionError):
        valid("Result", {"state": "finished"})


# --- results --------------------------------------------------------------------------------------

@pytest.mark.parametrize("language, code", [("python", "print(6*7)"), ("javascript", "console.log(6*7)"),
                                            ("shell", "echo $((6*7))")])
def test_a_request_in_a_result_out(daemon, language, code):
    result = valid("Result", daemon.execute(code, language))
    assert set(result) == RESULT_KEYS and result["stdout"] == "42\n" and result["success"] is True
    assert result["state"] == "finished" and result["receipt"]["verified"] is True
    assert re.fullmatch(ID, result["execution_id"])


def test_a_result_is_that_of_the_command(daemon):
    """The same keys, in the same order, all the way down."""
    def keys(value):
        if isinstance(value, dict):
            return [(k, keys(v)) for k, v in value.items()]
        return None
    here = daemon.execute("print(1)")
    done = subprocess.run(daemon.drop + [brigd.BRIG, "run", "python", "-c", "print(1)", "--json", "--level",
                                         daemon.level, "--policy", str(brigd.ALLOW), "--no-record"],
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=True)
    assert keys(here) == keys(json.loads(done.stdout.decode()))


@pytest.mark.parametrize("code, fields, state", [
    ("raise SystemExit(3)", {}, "failed"), ("1/0", {}, "failed"),
    ("import time\ntime.sleep(60)", {"timeout_ms": 300}, "timed_out"),
    ("import os\nos.kill(os.getpid(), 11)", {}, "killed"),
    ("print('x' * 5000)", {"limits": {"output_bytes": 1024}}, None),
])
def test_how_code_ends_is_no_error_of_the_api(daemon, code, fields, state):
    result = valid("Result", daemon.execute(code, **fields))
    assert state is None or result["state"] == state, result


def test_a_denied_run_is_a_result(asking):
    result = valid("Result", asking.execute("rm -rf --no-preserve-root /", "shell"))
    assert result["state"] == "denied" and result["error"]["code"] == "denied", result


@pytest.mark.parametrize("fields", [{"tier": "docker"}, {"action": "web_browsing"}])
def test_what_nobody_can_do_is_told(daemon, fields):
    request = daemon.request(**fields)
    if "action" in fields:
        request = dict(fields, params={"url": "http://x/"})
    reply = daemon.post("/execute", request).expect((200, 422))
    if reply.status == 200:
        valid("Result", reply.json)
        assert reply.json["success"] is False and reply.json["error"]["code"] == "unsupported", reply
    else:
        reply.refused(422, "unsupported")


def test_everything_of_a_request_reaches_the_code(daemon):
    code = ("import sys, os, json\nprint(json.dumps([sys.argv[1:], os.environ['NAME'], sys.stdin.read(), "
            "open('d/f').read(), sorted(os.listdir('d')), list(open('d/b', 'rb').read())]))")
    result = daemon.execute(code, args=["a b", "\u00e9\U0001f600"], env={"NAME": "\u4e2d\u6587"},
                            stdin="in\n", files=[{"path": "d/f", "content": "\u00fc"},
                                                 {"path": "d/b", "content_base64": "AP+A"},
                                                 {"path": "d/\u540d \U0001f600", "content": ""}])
    assert json.loads(result["stdout"]) == [
        ["a b", "\u00e9\U0001f600"], "\u4e2d\u6587", "in\n", "\u00fc",
        ["b", "f", "\u540d \U0001f600"], [0, 255, 128]], result


def test_files_with_other_names_come_back(daemon):
    result = daemon.execute("open('\u00e9 \U0001f600\\n', 'w').write('x')")
    assert [f["path"] for f in result["files"]["created"]] == ["\u00e9 \U0001f600\n"], result


def test_a_large_body(daemon):
    """15 MiB of input, as one body and in chunks."""
    data = "x" * (15 * MIB)
    code = "import sys, hashlib\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    want = hashlib.sha256(data.encode()).hexdigest() + "\n"
    assert daemon.execute(code, stdin=data)["stdout"] == want
    body = json.dumps(daemon.request(code, stdin=data)).encode()
    with daemon.connect() as wire:
        wire.send(b"POST /api/v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(body), 60000):
            part = body[i:i + 60000]
            wire.send(b"%x\r\n%s\r\n" % (len(part), part))
        wire.send(b"0\r\n\r\n")
        assert wire.reply().expect(200).json["stdout"] == want


def test_output_of_10_MB(daemon):
    result = daemon.execute("import sys\nfor i in range(100): sys.stdout.write('%02d' % i * 50000)")
    assert result["stdout"] == "".join("%02d" % i * 50000 for i in range(100)), len(result["stdout"])


def test_a_client_that_only_ended_its_own_side_gets_the_answer(daemon):
    with daemon.connect() as wire:
        wire.send(request_bytes("POST", API + "/execute", daemon.request("import time; time.sleep(0.5); print(1)")))
        wire.sock.shutdown(socket.SHUT_WR)
        assert wire.reply().expect(200).json["stdout"] == "1\n"


# --- under way ------------------------------------------------------------------------------------

def test_a_run_is_accepted_then_waited_for(daemon):
    reply = daemon.post("/executions", daemon.request("import time; time.sleep(1); print(7)"))
    status = valid("Status", reply.expect(202).json)
    assert set(status) == STATUS_KEYS and status["done"] is False, status
    assert status["state"] in ("received", "running") and status["language"] == "python"
    which = status["execution_id"]
    assert reply.header("location") == "%s/executions/%s" % (API, which), reply
    assert valid("Result", daemon.result(which))["stdout"] == "7\n"
    assert daemon.result(which, wait_ms=0)["execution_id"] == which, "it can be asked for again"


def test_waiting_has_an_end(daemon):
    begin = time.monotonic()
    which = daemon.post("/executions?wait=300", daemon.request(SLEEP)).expect(202).json["execution_id"]
    status = daemon.get("/executions/%s?wait=300" % which).expect(200).json
    assert status["done"] is False and time.monotonic() - begin >= 0.6
    daemon.delete("/executions/" + which).expect(200)
    daemon.result(which)


def test_a_short_run_needs_no_second_question(daemon):
    reply = daemon.post("/executions?wait=30000", daemon.request()).expect(200)
    assert valid("Result", reply.json)["stdout"] == "42\n" and reply.header("location"), reply


def test_many_wait_for_one(daemon):
    which = daemon.submit("import time; time.sleep(1); print(1)")
    with concurrent.futures.ThreadPoolExecutor(10) as threads:
        results = list(threads.map(lambda _: daemon.result(which), range(10)))
    assert all(r == results[0] for r in results) and results[0]["stdout"] == "1\n"


def test_the_list_is_newest_first_and_in_pages(daemon):
    ids = [daemon.submit("echo 1", "shell", token=daemon.token("one")) for _ in range(7)]
    for which in ids:
        daemon.result(which)
    page = valid("StatusList", daemon.get("/executions?limit=3", token=daemon.token("one")).expect(200).json)
    assert [e["execution_id"] for e in page["executions"]] == ids[:3:-1] and page["next"], page
    seen = [e["execution_id"] for e in page["executions"]]
    while page["next"]:
        page = daemon.get("/executions?limit=3&after=" + page["next"], token=daemon.token("one")).expect(200).json
        seen += [e["execution_id"] for e in page["executions"]]
        assert len(seen) < 1000
    assert seen[:7] == ids[::-1] and len(seen) == len(set(seen))
    for entry in page["executions"]:
        assert set(entry) == STATUS_KEYS and entry["done"] is True and entry["state"] == "finished", entry


def test_the_list_by_state(daemon):
    which = daemon.submit(SLEEP)
    daemon.reach(which, "running")
    running = daemon.get("/executions?state=running").expect(200).json["executions"]
    assert which in [e["execution_id"] for e in running] and {e["state"] for e in running} == {"running"}
    assert not daemon.get("/executions?state=waiting").expect(200).json["executions"]
    daemon.delete("/executions/" + which).expect(200)
    daemon.result(which)
    gone = daemon.get("/executions?state=cancelled").expect(200).json["executions"]
    assert which in [e["execution_id"] for e in gone]


def test_a_client_that_goes_away_ends_nothing(daemon):
    """By a reset, in the middle of the answer's wait; the run and its record are whole."""
    key = "gone-%d" % time.monotonic_ns()
    with daemon.connect() as wire:
        wire.send(request_bytes("POST", API + "/execute", daemon.request("import time; time.sleep(1); print(5)"),
                                [("Idempotency-Key", key)]))
        time.sleep(0.3)
        wire.abort()
    reply = daemon.post("/execute", daemon.request("import time; time.sleep(1); print(5)"),
                        headers=[("Idempotency-Key", key)]).expect(200)
    assert reply.json["stdout"] == "5\n" and reply.header("brig-replayed") == "true", reply
    assert daemon.states(reply.json["execution_id"])[-1] == "finished"


# --- output ---------------------------------------------------------------------------------------

def output(daemon, which, **query):
    text = "&".join("%s=%s" % pair for pair in query.items())
    return daemon.get("/executions/%s/output?%s" % (which, text)).expect(200)


def test_output_is_bytes_by_offset(daemon):
    code = "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 40)\nsys.stderr.write('err')"
    which = daemon.submit(code)
    daemon.result(which)
    whole = bytes(range(256)) * 40
    reply = output(daemon, which, stream="stdout", offset=0)
    assert reply.body == whole and reply.header("content-type") == "application/octet-stream"
    assert reply.header("brig-next-offset") == str(len(whole)) and reply.header("brig-done") == "true", reply
    assert reply.header("brig-dropped") == "0", reply
    for offset in (1, 255, 10000, len(whole) - 1, len(whole)):
        reply = output(daemon, which, stream="stdout", offset=offset)
        assert reply.body == whole[offset:] and reply.header("brig-next-offset") == str(len(whole))
    assert output(daemon, which, stream="stderr").body == b"err"
    assert output(daemon, which).body == whole, "stdout and 0 by default"
    assert output(daemon, which, offset=len(whole) + 5).body == b""
    daemon.get("/executions/%s/output?stream=stdlog" % which).refused(400, "invalid")


def test_output_grows_while_it_runs(daemon):
    which = daemon.submit("import time\nfor i in range(5):\n print(i, flush=True)\n time.sleep(0.3)")
    got, offset, turns = b"", 0, 0
    while True:
        reply = output(daemon, which, stream="stdout", offset=offset)
        got, offset = got + reply.body, int(reply.header("brig-next-offset"))
        turns += bool(reply.body)
        if reply.header("brig-done") == "true":
            break
        time.sleep(0.1)
    assert got == b"0\n1\n2\n3\n4\n" and offset == len(got) and turns >= 2, (got, turns)


def whole_output(daemon, which, stream="stdout"):
    """(bytes, how many were dropped in between), as a client reads them."""
    got, offset, dropped = b"", 0, 0
    for _ in range(1000):
        reply = output(daemon, which, stream=stream, offset=offset)
        got, offset = got + reply.body, int(reply.header("brig-next-offset"))
        dropped += int(reply.header("brig-dropped"))
        if reply.header("brig-done") == "true":
            return got, dropped
        time.sleep(0 if reply.body else 0.05)
    raise AssertionError("it has no end")


def test_output_that_was_dropped_is_counted(daemon):
    code = "import sys\nsys.stdout.write('a' * 3000 + 'b' * 100000 + 'c' * 3000)"
    which = daemon.submit(code, limits={"output_bytes": 4096})
    result = daemon.result(which)
    got, dropped = whole_output(daemon, which)
    # More may be kept than the result shows, never less.
    assert 0 < dropped <= result["truncated"]["stdout"], (dropped, result["truncated"])
    assert len(got) + dropped == 106000 and got.startswith(b"aaa") and got.endswith(b"ccc"), got


def test_output_of_10_MB_in_pieces(daemon):
    which = daemon.submit("import sys\nfor i in range(100): sys.stdout.write('%02d' % i * 50000)")
    daemon.result(which)
    assert whole_output(daemon, which) == ("".join("%02d" % i * 50000 for i in range(100)).encode(), 0)


# --- events of an execution -----------------------------------------------------------------------

def test_events_tell_the_whole_run(daemon):
    which = daemon.submit("import time, sys\nprint('a', flush=True)\ntime.sleep(0.4)\nprint('\u00e9', flush=True)\n"
                          "sys.stderr.write('e')")
    wire, events = daemon.stream("/executions/%s/events" % which)
    with wire:
        seen = list(events)
    assert [int(e.id) for e in seen] == list(range(1, len(seen) + 1)), [e.id for e in seen]
    assert seen[-1].name == "result" and valid("Result", seen[-1].data)["stdout"] == "a\n\u00e9\n"
    states = [e.data["state"] for e in seen if e.name == "state"]
    assert states and states[-1] in ("running", "finished") and all(
        set(e.data) == STATUS_KEYS for e in seen if e.name == "state"), seen
    for stream, want in (("stdout", "a\n\u00e9\n"), ("stderr", "e")):
        parts = [e.data for e in seen if e.name == "output" and e.data["stream"] == stream]
        assert "".join(p["text"] for p in parts) == want, parts
        offset = 0
        for part in parts:
            assert part["offset"] == offset, parts
            offset += len(part["text"].encode())
    assert {e.name for e in seen} == {"state", "output", "result"}


def test_events_go_on_where_they_were(daemon):
    which = daemon.submit("import time\nfor i in range(4):\n print(i, flush=True)\n time.sleep(0.2)")
    wire, events = daemon.stream("/executions/%s/events" % which)
    with wire:
        first = [next(events) for _ in range(2)]
    daemon.result(which)
    for query, headers in (("?after=2", ()), ("", [("Last-Event-ID", "2")])):
        wire, events = daemon.stream("/executions/%s/events%s" % (which, query), headers=headers)
        with wire:
            rest = list(events)
        assert [int(e.id) for e in first + rest] == list(range(1, 3 + len(rest)))
        assert rest[-1].name == "result" and rest[-1].data["stdout"] == "0\n1\n2\n3\n"
        text = "".join(e.data["text"] for e in first + rest if e.name == "output")
        assert text == "0\n1\n2\n3\n", text


def test_state_events_are_the_same_live_and_later():
    """What it was then, not what it is now."""
    def states(events):
        return [(e.id, e.data["state"], e.data["done"]) for e in events if e.name == "state"]
    with brigd.running(policy=ASK) as d:
        which = d.submit("import time; time.sleep(0.5)")
        approval = d.waiting(which)
        wire, events = d.stream("/executions/%s/events" % which)
        with wire:
            d.answer(approval).expect(200)
            live = states(events)
        d.result(which)
        wire, events = d.stream("/executions/%s/events" % which)
        with wire:
            assert states(events) == live
    assert live[0][1] == "waiting" and live[-1][1] == "running", live
    assert not any(done for _, _, done in live), live


def test_events_of_what_is_over_are_the_same_again(daemon):
    which = daemon.submit("print(1)")
    daemon.result(which)
    twice = []
    for _ in range(2):
        wire, events = daemon.stream("/executions/%s/events" % which)
        with wire:
            twice.append(list(events))
    assert twice[0] == twice[1] and twice[0][-1].name == "result"
    last = twice[0][-1].id
    wire, events = daemon.stream("/executions/%s/events?after=%s" % (which, last))
    with wire:
        assert list(events) == []


def test_bytes_that_are_no_text_are_marked_in_events(daemon):
    which = daemon.submit("import sys\nsys.stdout.buffer.write(b'a\\xffb')")
    wire, events = daemon.stream("/executions/%s/events" % which)
    with wire:
        text = "".join(e.data["text"] for e in events if e.name == "output")
    assert text == "a\ufffdb"


def test_characters_are_whole_in_events(daemon):
    """Wherever the pieces of the output are cut."""
    text = "x" + "\u00e9" * 100000 + "\u4e2d" * 50000
    which = daemon.submit("import sys\nsys.stdout.write('x' + '\u00e9' * 100000 + '\u4e2d' * 50000)")
    for _ in range(2):  # live, and again
        wire, events = daemon.stream("/executions/%s/events" % which)
        with wire:
            got = "".join(e.data["text"] for e in events if e.name == "output")
        assert got == text, [(i, got[i:i + 3]) for i in range(len(got)) if got[i] == "\ufffd"][:3]


def test_a_character_written_in_two_parts_is_one(daemon):
    which = daemon.submit("import os, time\nos.write(1, b'\\xc3')\ntime.sleep(0.5)\nos.write(1, b'\\xa9')")
    wire, events = daemon.stream("/executions/%s/events" % which)
    with wire:
        got = list(events)
    assert "".join(e.data["text"] for e in got if e.name == "output") == "\u00e9"
    assert got[-1].data["stdout"] == "\u00e9"


def test_events_of_much_output_have_all_of_it(daemon):
    """More than waits for a slow reader; this one is not slow."""
    which = daemon.submit("import sys\nfor i in range(60): sys.stdout.write('%02d' % i * 50000)")
    want = "".join("%02d" % i * 50000 for i in range(60))
    for _ in range(2):  # live, and again
        wire, events = daemon.stream("/executions/%s/events" % which)
        with wire:
            seen = list(events)
        assert "".join(e.data["text"] for e in seen if e.name == "output") == want
        assert seen[-1].name == "result" and seen[-1].data["stdout"] == want


@pytest.mark.parametrize("limits", [{}, {"output_bytes": 4096}])
def test_an_event_says_the_same_whenever_it_is_read(daemon, limits):
    which = daemon.submit("import time, sys\nfor c in 'abcd':\n sys.stdout.write(c * 2000)\n sys.stdout.flush()\n"
                          " time.sleep(0.2)", limits=limits)
    seen = []
    for _ in range(2):
        wire, events = daemon.stream("/executions/%s/events" % which)
        with wire:
            seen.append({e.id: e for e in events if e.name == "output"})
    assert seen[0] == seen[1]


def test_several_see_the_same_events(daemon):
    which = daemon.submit("import time\nfor i in range(5):\n print(i, flush=True)\n time.sleep(0.1)")
    streams = [daemon.stream("/executions/%s/events" % which) for _ in range(5)]
    try:
        seen = [[(e.id, e.name, e.data) for e in events] for _, events in streams]
    finally:
        for wire, _ in streams:
            wire.close()
    assert all(s[-1] == seen[0][-1] for s in seen)
    for s in seen:
        assert "".join(d["text"] for _, n, d in s if n == "output") == "0\n1\n2\n3\n4\n"


# --- cancelling -----------------------------------------------------------------------------------

def test_cancel_while_it_runs(daemon):
    which = daemon.submit(SLEEP)
    daemon.reach(which, "running")
    until(lambda: output(daemon, which).body == b"begun\n", "it runs")
    status = valid("Status", daemon.delete("/executions/" + which).expect(200).json)
    assert status["execution_id"] == which
    result = daemon.result(which)
    assert result["state"] == "cancelled" and result["success"] is False and result["stdout"] == "begun\n"


def test_cancel_what_is_over_changes_nothing(daemon):
    which = daemon.submit("print(1)")
    before = daemon.result(which)
    for _ in range(2):
        status = daemon.delete("/executions/" + which).expect(200).json
        assert status["done"] is True and status["state"] == "finished", status
    assert daemon.result(which) == before


def test_cancel_while_a_person_is_asked(asking):
    which = asking.submit("echo ran", "shell")
    approval = asking.waiting(which)
    assert asking.status(which)["state"] == "waiting"
    asking.delete("/executions/" + which).expect(200)
    assert asking.result(which)["state"] == "cancelled"
    assert asking.get("/approvals/" + approval).expect(200).json["state"] == "withdrawn"
    asking.answer(approval).refused((409, 410))
    assert "running" not in asking.states(which)


def test_cancel_twice_and_at_once(daemon):
    ids = [daemon.submit(SLEEP) for _ in range(6)]
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        got = list(threads.map(lambda i: daemon.delete("/executions/" + i).status, ids * 4))
    assert set(got) == {200}
    assert [daemon.result(i)["state"] for i in ids] == ["cancelled"] * 6


def test_cancel_ends_the_wait_of_others(daemon):
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        which = daemon.submit(SLEEP)
        waits = threads.submit(daemon.result, which)
        time.sleep(0.3)
        daemon.delete("/executions/" + which).expect(200)
        assert waits.result(30)["state"] == "cancelled"


# --- idempotency ----------------------------------------------------------------------------------

def test_the_same_key_is_the_same_run(daemon):
    key = [("Idempotency-Key", "same")]
    one = daemon.post("/execute", daemon.request("import random; print(random.random())"), headers=key).expect(200)
    two = daemon.post("/execute", daemon.request("import random; print(random.random())"), headers=key).expect(200)
    assert one.json == two.json and one.header("brig-replayed") is None
    assert two.header("brig-replayed") == "true", two
    three = daemon.post("/executions", daemon.request("import random; print(random.random())"), headers=key)
    assert three.expect(200).json["execution_id"] == one.json["execution_id"]


def test_the_same_key_for_something_else_is_a_conflict(daemon):
    key = [("Idempotency-Key", "one-thing")]
    daemon.execute("print(1)", headers=key)
    rows = len(daemon.rows(name="received"))
    for other in (daemon.request("print(2)"), daemon.request("print(1)", timeout_ms=5000),
                  daemon.request("print(1)", args=["x"])):
        daemon.post("/execute", other, headers=key).refused(409, "conflict")
        daemon.post("/executions", other, headers=key).refused(409, "conflict")
    assert len(daemon.rows(name="received")) == rows


def test_a_key_in_the_body_and_in_the_header(daemon):
    one = daemon.execute("print(1)", idempotency_key="in-the-body")
    two = daemon.execute("print(1)", idempotency_key="in-the-body", headers=[("Idempotency-Key", "in-the-body")])
    three = daemon.execute("print(1)", headers=[("Idempotency-Key", "in-the-body")])
    assert one["execution_id"] == two["execution_id"] == three["execution_id"]
    daemon.post("/execute", daemon.request("print(1)", idempotency_key="a"),
                headers=[("Idempotency-Key", "b")]).refused(400, "invalid")


@pytest.mark.parametrize("key", ["", " ", "x" * 129, "a b", "\u00e9"])
def test_a_key_has_a_form(daemon, key):
    daemon.post("/execute", daemon.request("print(1)"), headers=[("Idempotency-Key", key)]).refused(400, "invalid")


def test_two_keys_are_one_too_many(daemon):
    daemon.post("/execute", daemon.request("print(1)"),
                headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "a")]).refused(400)


def test_keys_are_everybodys_own(daemon):
    key = [("Idempotency-Key", "shared")]
    one = daemon.execute("print(1)", token=daemon.token("one"), headers=key)
    two = daemon.execute("print(2)", token=daemon.token("two"), headers=key)
    assert one["stdout"] == "1\n" and two["stdout"] == "2\n"


def test_AP_19_fifty_at_once_with_one_key_are_one_run(daemon):
    code = "import random, time; time.sleep(0.3); print(random.random())"
    body, key = daemon.request(code), [("Idempotency-Key", "fifty")]
    def post(i):
        path = "/execute" if i % 2 else "/executions?wait=30000"
        return daemon.post(path, body, headers=key).expect(200).json
    with concurrent.futures.ThreadPoolExecutor(50) as threads:
        results = list(threads.map(post, range(50)))
    ids = {r["execution_id"] for r in results}
    assert len(ids) == 1 and all(r == results[0] for r in results)
    which = ids.pop()
    digest = hashlib.sha256(code.encode()).hexdigest()
    received = [r for r in daemon.rows(name="received") if r["detail"].get("code") == digest]
    assert [r["job"] for r in received] == [which], "more than one was received"
    assert daemon.states(which).count("running") == 1


def test_AP_19_a_key_holds_over_a_restart():
    d = brigd.Daemon(tcp=False)
    try:
        d.start()
        key = [("Idempotency-Key", "kept")]
        one = d.execute("import random; print(random.random())", headers=key)
        plain = d.submit("print(8)")
        d.result(plain)
        d.stop()
        d.start()
        reply = d.post("/execute", d.request("import random; print(random.random())"), headers=key).expect(200)
        assert reply.json == one and reply.header("brig-replayed") == "true", reply
        d.post("/execute", d.request("print(0)"), headers=key).refused(409, "conflict")
        assert d.result(plain, wait_ms=0)["stdout"] == "8\n"
        d.verify()
        d.stop()
    finally:
        d.clean()


def test_AP_19_what_ran_when_it_died_is_lost_and_runs_no_second_time():
    d = brigd.Daemon(tcp=False)
    try:
        d.start()
        key = [("Idempotency-Key", "died")]
        which = d.submit(SLEEP, headers=key)
        d.reach(which, "running")
        d.kill()
        d.start()
        assert d.result(which)["state"] == "lost"
        reply = d.post("/execute", d.request(SLEEP), headers=key).expect(200)
        assert reply.json["execution_id"] == which and reply.json["state"] == "lost", reply
        assert len(d.rows(name="running")) == 1
        d.verify()
        d.stop()
    finally:
        d.clean()


# --- overload -------------------------------------------------------------------------------------

def test_overload_is_told_at_once_and_nothing_is_started():
    config = {"limits": {"running": 2, "queue": 3}}
    with brigd.running(config=config) as d:
        held = [d.submit(SLEEP) for _ in range(5)]
        def boxes():
            shapes = d.get("/pool").expect(200).json["shapes"]
            return sum(x["running"] for x in shapes), sum(x["queued"] for x in shapes)
        until(lambda: boxes() == (2, 3), "two run, three wait")
        received = len(d.rows(name="received"))
        for path in ("/execute", "/executions"):
            begin = time.monotonic()
            reply = d.post(path, d.request("print('never')"))
            reply.refused(429, "busy")
            assert int(reply.header("retry-after")) >= 1 and time.monotonic() - begin < 5, reply
        assert len(d.rows(name="received")) == received and boxes() == (2, 3)
        d.get("/health").expect(200)
        d.delete("/executions/" + held[0]).expect(200)
        d.result(held[0])
        until(lambda: boxes() == (2, 2), "the next begins")
        for which in held[1:]:
            d.delete("/executions/" + which).expect(200)
        assert {d.result(i)["state"] for i in held} == {"cancelled"}
        assert d.execute("print(1)")["stdout"] == "1\n"
        metrics = d.get("/metrics").expect(200).body.decode()
        assert re.search(r'brig_rejected_total\{why="busy"\} 2\b', metrics), metrics


def test_who_waits_for_a_person_takes_no_place():
    """Not for a moment: all that have asked are counted as they are now."""
    with brigd.running(policy=ASK, config={"limits": {"running": 1, "queue": 1}}) as d:
        held = []
        for _ in range(8):
            held.append(d.submit("echo never", "shell"))
            d.reach(held[-1], "waiting")
        for which in held:
            d.delete("/executions/" + which).expect(200)


def test_many_at_once_all_have_their_own_answer(daemon):
    with concurrent.futures.ThreadPoolExecutor(24) as threads:
        results = list(threads.map(lambda i: daemon.execute("echo %d" % i, "shell")["stdout"], range(120)))
    assert results == ["%d\n" % i for i in range(120)]


# --- approvals ------------------------------------------------------------------------------------

def ask(d, code="echo ran", language="shell", **kw):
    which = d.submit(code, language, **kw)
    return which, d.waiting(which)


def test_an_allowed_run_runs(asking):
    which, approval = ask(asking)
    listed = asking.get("/approvals").expect(200).json["approvals"]
    assert approval in [a["id"] for a in listed]
    detail = valid("ApprovalDetail", asking.get("/approvals/" + approval).expect(200).json)
    assert detail["code"] == "echo ran" and detail["state"] == "waiting" and detail["job"] == which
    assert detail["summary"], detail
    answered = asking.answer(approval, token=asking.token("first"), reason="looks good").expect(200).json
    assert answered["state"] in ("allowed", "used") and answered["answered_by"].startswith("token:first#"), answered
    result = asking.result(which)
    assert result["stdout"] == "ran\n" and result["approval_id"] == approval
    assert asking.get("/approvals/" + approval).expect(200).json["state"] == "used"
    assert approval not in [a["id"] for a in asking.get("/approvals").expect(200).json["approvals"]]
    assert approval in [a["id"] for a in asking.get("/approvals?all=true").expect(200).json["approvals"]]


def test_a_denied_run_does_not(asking):
    which, approval = ask(asking, "echo no")
    asking.answer(approval, "deny", token=asking.token("first"), reason="not today").expect(200)
    result = asking.result(which)
    assert result["state"] == "denied" and "not today" in result["error"]["cause"], result
    assert "running" not in asking.states(which)


def test_nothing_runs_before_the_answer(asking):
    which, approval = ask(asking, "echo later")
    time.sleep(1)
    assert asking.status(which)["state"] == "waiting" and "running" not in asking.states(which)
    asking.answer(approval, "deny").expect(200)
    asking.result(which)


def test_an_answer_is_given_once(asking):
    which, approval = ask(asking, "echo once")
    asking.answer(approval, token=asking.token("first")).expect(200)
    asking.result(which)
    for decision in ("allow", "deny"):
        asking.answer(approval, decision, token=asking.token("second")).refused(409, "conflict")
    assert asking.states(which).count("running") == 1


def test_many_answers_at_once_are_one(asking):
    for _ in range(3):
        which, approval = ask(asking, "echo race")
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            got = list(threads.map(lambda i: asking.answer(
                approval, "deny" if i % 2 else "allow", token=asking.token("first" if i % 4 < 2 else "second")).status,
                range(16)))
        assert got.count(200) == 1 and set(got) <= {200, 409}, got
        state = asking.result(which)["state"]
        decision = "deny" if got.index(200) % 2 else "allow"
        assert state == {"allow": "finished", "deny": "denied"}[decision]


def test_nobody_approves_his_own(asking):
    """Also where the policy lets a person answer himself: a token never."""
    which, approval = ask(asking, "echo self", token=asking.token("both"))
    reply = asking.answer(approval, token=asking.token("both"))
    assert reply.refused(403)["code"] in ("forbidden", "denied"), reply
    assert asking.status(which)["state"] == "waiting"
    with asking.ws("/approvals/ws", token=asking.token("both")) as ws:
        ws.send({"type": "answer", "ref": "1", "id": approval, "decision": "allow"})
        m = ws.until(lambda m: m["type"] in ("answered", "error"))
        assert m["type"] == "error" and m["error"]["code"] in ("forbidden", "denied"), m
    assert asking.status(which)["state"] == "waiting"
    asking.answer(approval, token=asking.token("second")).expect(200)
    assert asking.result(which)["stdout"] == "self\n"


def test_who_only_runs_sees_the_questions_of_his_own(asking):
    which, approval = ask(asking, "echo mine", token=asking.token("asker"))
    other, others = ask(asking, "echo hidden")
    mine = asking.token("asker")
    assert [a["id"] for a in asking.get("/approvals", token=mine).expect(200).json["approvals"]] == [approval]
    asking.get("/approvals/" + approval, token=mine).expect(200)
    asking.get("/approvals/" + others, token=mine).refused(404, "not_found")
    for method, body in (("POST", {"decision": "allow"}), ("DELETE", None)):
        asking.ask(method, "/approvals/" + approval, body, token=mine).refused(403, "forbidden")
    assert asking.status(which, token=mine)["approval_id"] == approval
    for one, question in ((which, approval), (other, others)):
        asking.answer(question, "deny").expect(200)
        asking.result(one)


def test_an_answer_for_another_digest_is_refused(asking):
    which, approval = ask(asking, "echo digest")
    digest = asking.get("/approvals/" + approval).expect(200).json["digest"]
    asking.answer(approval, digest="0" * 64).refused(409, "conflict")
    asking.answer(approval, digest="nonsense").refused(400, "invalid")
    asking.answer(approval, digest=digest).expect(200)
    assert asking.result(which)["stdout"] == "digest\n"


def test_other_code_may_be_put_in_its_place(asking):
    which, approval = ask(asking, "echo asked")
    answered = asking.answer(approval, code="echo edited").expect(200).json
    assert answered["edited"] is True, answered
    assert asking.result(which)["stdout"] == "edited\n"


def test_edited_code_is_judged_again(asking):
    which, approval = ask(asking, "echo harmless")
    asking.answer(approval, code="rm -rf --no-preserve-root /").expect((200, 400, 403, 409))
    result = until(lambda: asking.get("/executions/" + which).json if asking.status(which).get("done") is not False
                   else None, "it is over")
    assert result["state"] == "denied", result
    assert "running" not in asking.states(which)


def test_a_yes_may_be_remembered_and_taken_back(asking):
    code = "echo remembered"
    which, approval = ask(asking, code)
    asking.answer(approval, scope="digest", remember_ms=600000).expect(200)
    asking.result(which)
    assert asking.execute(code, "shell")["stdout"] == "remembered\n", "asked again"
    taken = asking.delete("/approvals/" + approval).expect(200)
    assert taken.json["state"] == "revoked", taken
    which, again = ask(asking, code)
    assert again != approval
    asking.answer(again, "deny").expect(200)
    asking.result(which)
    asking.delete("/approvals/" + again).refused(409, "conflict")


@pytest.mark.parametrize("fields", [
    {}, {"decision": "perhaps"}, {"decision": None}, {"decision": "allow", "scope": "forever"},
    {"decision": "allow", "scope": "digest", "remember_ms": 0}, {"decision": "allow", "scope": "digest", "remember_ms": -1},
    {"decision": "allow", "remember_ms": "1h"}, {"decision": "allow", "extra": 1}, {"decision": "allow", "code": ""},
    {"decision": "allow", "code": 1}, {"decision": "allow", "reason": 1}, {"decision": "allow", "reason": "x" * 5000},
    {"decision": "allow", "digest": 1}, {"decision": "deny", "code": "echo 1"}, {"decision": "deny", "scope": "session"},
], ids=str)
def test_a_wrong_answer_is_none(asking, fields):
    which, approval = ask(asking, "echo wrong")
    asking.post("/approvals/" + approval, fields).refused(400, "invalid")
    assert asking.status(which)["state"] == "waiting"
    asking.delete("/executions/" + which).expect(200)
    asking.result(which)


def test_what_is_not_there_cannot_be_answered(asking):
    asking.answer(NO_ID).refused(404, "not_found")
    asking.delete("/approvals/" + NO_ID).refused(404, "not_found")
    asking.get("/approvals/" + NO_ID).refused(404, "not_found")


def test_looking_holds_no_lock():
    """Also where nothing was recorded yet and the daemon is idle: the command works beside it."""
    with brigd.running(tcp=False) as d:
        time.sleep(3)  # else what it does at its start would end a group that was left open
        for method, path, body in (
                ("GET", "/approvals/" + NO_ID, None), ("DELETE", "/approvals/" + NO_ID, None), ("GET", "/approvals", None),
                ("POST", "/approvals/" + NO_ID, {"decision": "deny"}), ("GET", "/executions/" + NO_ID, None),
                ("GET", "/ready", None), ("POST", "/policy/check", {"language": "shell", "code": "echo 1"})):
            d.ask(method, path, body).expect((200, 404))
            assert d.brig("run", "shell", "-c", "echo 1", "--policy", brigd.ALLOW, "--level", d.level) == "1\n"


def test_a_question_expires(asking, tmp_path):
    policy = tmp_path / "soon.yaml"
    policy.write_text(ASK.read_text().replace("expires: 60s", "expires: 1s"))
    policy.chmod(0o644)
    with brigd.running(policy=policy) as d:
        with d.ws("/approvals/ws") as ws:
            which, approval = ask(d)
            result = d.result(which)
            assert result["state"] == "expired" and result["error"]["code"] == "expired", result
            d.answer(approval).refused(410, "expired")
            settled = ws.until(lambda m: m["type"] == "settled")
            assert settled["approval"]["state"] == "expired", settled
        d.verify()


def test_several_approvers_see_the_same(asking):
    """The first valid answer wins; all are told, the one who was late with an error as well."""
    with asking.ws("/approvals/ws", token=asking.token("first")) as one, \
            asking.ws("/approvals/ws", token=asking.token("second")) as two:
        assert one.message()["actor"].startswith("token:first#")
        assert two.message()["actor"].startswith("token:second#")
        which, approval = ask(asking, "echo seen", token=asking.token("asker"))
        for ws in (one, two):
            m = ws.until(lambda m: m["type"] == "request" and m["approval"]["id"] == approval)
            assert m["code"] == "echo seen" and m["summary"], m
            assert m["approval"]["asker"].startswith("token:asker#"), m
            valid("Approval", m["approval"])
        one.send({"type": "answer", "ref": "any thing", "id": approval, "decision": "allow"})
        answered = one.until(lambda m: m["type"] == "answered")
        assert answered["ref"] == "any thing" and answered["approval"]["id"] == approval, answered
        two.send({"type": "answer", "ref": "2", "id": approval, "decision": "deny"})
        seen = {}
        while len(seen) < 2:
            m = two.message()
            if m["type"] in ("settled", "error"):
                seen[m["type"]] = m
        assert seen["settled"]["approval"]["answered_by"].startswith("token:first#")
        assert seen["error"]["ref"] == "2" and seen["error"]["error"]["code"] == "conflict", seen
        assert one.until(lambda m: m["type"] == "settled")["approval"]["id"] == approval
    assert asking.result(which)["stdout"] == "seen\n"


def test_who_comes_later_sees_what_waits(asking):
    which, approval = ask(asking, "echo waits")
    with asking.ws("/approvals/ws") as ws:
        assert ws.message()["type"] == "hello"
        m = ws.until(lambda m: m["type"] == "request" and m["approval"]["id"] == approval)
        assert m["code"] == "echo waits"
        asking.answer(approval, "deny").expect(200)  # by HTTP, seen by WebSocket
        m = ws.until(lambda m: m["type"] == "settled" and m["approval"]["id"] == approval)
        assert m["approval"]["state"] == "denied"
    asking.result(which)


def test_the_command_may_answer_as_well(asking):
    with asking.ws("/approvals/ws") as ws:
        which, approval = ask(asking, "echo by command")
        done = subprocess.run(asking.drop + [brigd.BRIG, "approvals", "allow", approval, "--state-dir",
                                             str(asking.state)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=asking.environment(), timeout=60, check=False)
        assert done.returncode == 0, done
        assert asking.result(which)["stdout"] == "by command\n"
        ws.until(lambda m: m["type"] == "settled" and m["approval"]["id"] == approval)


def test_one_who_waits_for_the_result_waits_for_the_answer(asking):
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        run = threads.submit(asking.execute, "echo patient", "shell")
        def question():
            return [a["id"] for a in asking.get("/approvals").json["approvals"]
                    if asking.get("/approvals/" + a["id"]).json["code"] == "echo patient"]
        asking.answer(until(question, "a question")[0]).expect(200)
        assert run.result(40)["stdout"] == "patient\n"


def test_questions_survive_a_restart():
    """They are answered or withdrawn, never left open for what no longer runs."""
    d = brigd.Daemon(policy=ASK, tcp=False)
    try:
        d.start()
        which, approval = ask(d, headers=[("Idempotency-Key", "k")])
        d.kill()
        d.start()
        state = d.get("/approvals/" + approval).expect(200).json["state"]
        if state == "waiting":
            d.answer(approval, "deny").expect(200)
        assert d.result(which)["state"] in ("lost", "denied", "expired", "cancelled")
        assert not d.rows(name="running")
        d.verify()
        d.stop()
    finally:
        d.clean()


# --- the record, live and kept --------------------------------------------------------------------

def test_events_of_everything_as_they_come(daemon):
    wire, events = daemon.stream("/events")
    with wire:
        which = daemon.submit("print(1)")
        seen = []
        while not seen or seen[-1].data["name"] != "finished":
            e = next(events)
            if e.data["job"] == which:
                seen.append(e)
    assert [e.data["name"] for e in seen][0] == "received" and all(int(e.id) == e.data["seq"] for e in seen)
    rows = [r for r in daemon.rows(job=which)]
    assert [e.data for e in seen] == rows, "the record says something else"


@pytest.mark.parametrize("how", ["after", "header"])
def test_events_resume_by_id(daemon, how):
    rows = daemon.rows()
    cut = rows[len(rows) // 2]["seq"]
    query, headers = ("?after=%d" % cut, ()) if how == "after" else ("", [("Last-Event-ID", str(cut))])
    wire, events = daemon.stream("/events" + query, headers=headers)
    with wire:
        seen = [next(events) for _ in rows if _["seq"] > cut]
    assert [int(e.id) for e in seen] == [r["seq"] for r in rows if r["seq"] > cut]


def test_events_by_job_kind_and_name(daemon):
    which = daemon.submit("print(1)")
    daemon.result(which)
    want = daemon.rows(job=which)
    for query, rows in (("job=" + which, want), ("job=%s&name=running" % which,
                                                 [r for r in want if r["name"] == "running"]),
                        ("job=%s&kind=state" % which, [r for r in want if r["kind"] == "state"])):
        wire, events = daemon.stream("/events?after=0&" + query)
        with wire:
            assert [next(events).data for _ in rows] == rows, query


def test_events_by_websocket(daemon):
    with daemon.ws("/events?name=received") as ws:
        which = daemon.submit("print(1)")
        m = ws.message()
        assert m["job"] == which and m["name"] == "received", m
        daemon.result(which)
    with daemon.ws("/events?after=0&job=" + which) as ws:
        rows = daemon.rows(job=which)
        assert [ws.message() for _ in rows] == rows


def test_rows_of_another_process_are_seen_live(daemon):
    """The command writes to the same record."""
    wire, events = daemon.stream("/events?name=finished")
    with wire:
        done = subprocess.run(daemon.drop + [brigd.BRIG, "run", "shell", "-c", "echo 1", "--json", "--level",
                                             daemon.level, "--policy", str(brigd.ALLOW), "--state-dir",
                                             str(daemon.state)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              env=daemon.environment(), timeout=60, check=True)
        which = json.loads(done.stdout.decode())["execution_id"]
        assert next(events).data["job"] == which


def test_the_ledger_is_read_in_pages(daemon):
    for _ in range(3):
        daemon.execute("echo 1", "shell")
    whole = daemon.rows()
    page = valid("LedgerRows", daemon.get("/ledger?limit=5").expect(200).json)
    assert len(page["rows"]) == 5 and page["next"] == page["rows"][-1]["seq"], page["next"]
    seen = list(page["rows"])
    while page["next"] is not None:
        page = daemon.get("/ledger?limit=100&after=%d" % page["next"]).expect(200).json
        seen += page["rows"]
    assert seen == whole
    job = whole[-1]["job"]
    assert daemon.get("/ledger?job=" + job).expect(200).json["rows"] == [r for r in whole if r["job"] == job]
    assert {r["name"] for r in daemon.get("/ledger?name=running").json["rows"]} == {"running"}
    assert daemon.get("/ledger?session=nobody").expect(200).json == {"rows": [], "next": None}


def test_the_ledger_is_sound_and_can_be_checked_without_brig(daemon):
    report = valid("LedgerReport", daemon.verify())
    reply = daemon.get("/ledger/export").expect(200)
    assert report["rows"] <= len(reply.body.splitlines())
    done = subprocess.run([sys.executable, str(brigd.ROOT / "tools" / "verify_ledger.py")], input=reply.body,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    assert done.returncode == 0, done
    names = daemon.brig("ledger", "export")
    assert names.splitlines()[:20] == reply.body.decode().splitlines()[:20]


def test_who_asked_is_in_the_record(daemon):
    one = daemon.token("one")
    mine = "token:one#" + one.split("_")[1][:8]  # the beginning of the id, which is no secret
    for token, actor in ((one, mine), (None, "uid:%d" % os.geteuid())):
        which = daemon.submit("echo 1", "shell", token=token)
        daemon.result(which)
        assert daemon.rows(job=which, name="received")[0]["actor"] == actor
        assert daemon.get("/executions").json["executions"][0]["caller"] == actor


def made_anew(d, name, *options):
    """Another token of that name."""
    d.brig("token", "rm", name)
    d.tokens.pop(name)
    return d.token(name, *options)


def test_a_token_made_anew_is_another_caller(daemon):
    """Its runs, its output, its keys: nothing of the old one's is there."""
    old = daemon.token("twice")
    key = [("Idempotency-Key", "the-same")]
    which = daemon.submit("echo old", "shell", token=old, headers=key)
    daemon.result(which, token=old)
    new = made_anew(daemon, "twice")
    assert new != old
    daemon.get("/executions/" + which, token=new).refused(404)
    daemon.get("/executions/%s/output" % which, token=new).refused(404)
    daemon.delete("/executions/" + which, token=new).refused(404)
    assert daemon.get("/executions", token=new).json["executions"] == []
    again = daemon.ask("POST", "/executions?wait=20000", daemon.request("echo old", "shell"), token=new,
                       headers=key).expect(200)
    assert again.header("brig-replayed") is None and again.json["execution_id"] != which, again
    assert daemon.get("/executions/" + which).expect(200).json["stdout"] == "old\n"


def test_a_token_made_anew_does_not_see_the_old_questions(asking):
    which, approval = ask(asking, "echo whose", token=asking.token("again"))
    new = made_anew(asking, "again")
    asking.get("/approvals/" + approval, token=new).refused(404)
    assert asking.get("/approvals", token=new).json["approvals"] == []
    asking.delete("/executions/" + which).expect(200)


def test_a_token_made_anew_does_not_approve_for_the_old_one(asking):
    which, approval = ask(asking, "echo sly", token=asking.token("sly", "run,approve"))
    new = made_anew(asking, "sly", "run,approve")
    asking.post("/approvals/" + approval, {"decision": "allow"}, token=new).refused(403)
    asking.delete("/executions/" + which).expect(200)


def test_a_policy_knows_a_token_by_its_name(tmp_path):
    policy = tmp_path / "named.yaml"
    policy.write_text("version: 1\nname: named\ndefault: allow\nfloor:\n  level: degraded-ok\nrules:\n  - name: not-me\n"
                      "    match: { caller: \"token:banned\" }\n    verdict: deny\n"
                      "    reason: not this one\n")
    tmp_path.chmod(0o755)
    with brigd.running(policy=policy, tcp=False) as d:
        assert d.execute("print(1)", token=d.token("banned"))["state"] == "denied"
        assert d.execute("print(1)", token=d.token("banned-not"))["state"] == "finished"


# --- labels and files ------------------------------------------------------------------------------

def test_labels_of_a_request_are_judged(tmp_path):
    policy = tmp_path / "labels.yaml"
    policy.write_text("version: 1\nname: labels\ndefault: allow\nfloor:\n  level: degraded-ok\nrules:\n  - name: no-prod\n"
                      "    match: { label: prod }\n    verdict: deny\n    reason: not there\n")
    tmp_path.chmod(0o755)
    with brigd.running(policy=policy, tcp=False) as d:
        assert d.execute("print(1)", labels=["blue", "prod"])["state"] == "denied"
        assert d.execute("print(1)", labels=["blue"])["state"] == "finished"
        assert d.post("/policy/check", d.request(labels=["prod"])).json["decision"]["verdict"] == "deny"
        d.post("/execute", d.request(labels=["x"] * 17)).refused(400, "invalid", "labels")
        d.post("/execute", d.request(labels=["a\nb"])).refused(400, "invalid", "labels[0]")


LEAVES = ("import os\nopen('made.bin', 'wb').write(bytes(range(256)))\nopen('given', 'w').write('new')\n"
          "os.mkdir('d')\nopen('d/a b', 'w').write('deep')\nopen('empty', 'w').close()\n"
          "os.symlink('/etc/passwd', 'link')\nopen('sparse', 'wb').truncate(1 << 30)\n")


def files_of(d, which, path, **kw):
    return d.get("/executions/%s/files?path=%s" % (which, urllib.parse.quote(path)), **kw)


def test_files_that_were_asked_for(daemon):
    request = daemon.request(LEAVES, files=[{"path": "given", "content": "old"},
                                            {"path": "same", "content": "same"}])
    done = daemon.post("/execute?files=true", request).expect(200).json
    which = done["execution_id"]
    assert done["state"] == "finished" and {"path": "given", "size": 3} in done["files"]["modified"], done
    reply = files_of(daemon, which, "made.bin").expect(200)
    assert reply.body == bytes(range(256))
    assert reply.header("content-type") == "application/octet-stream"
    assert reply.header("content-disposition") == "attachment"
    assert files_of(daemon, which, "given").expect(200).body == b"new"
    assert files_of(daemon, which, "d/a b").expect(200).body == b"deep"
    assert files_of(daemon, which, "empty").expect(200).body == b""
    files_of(daemon, which, "link").refused(404)
    files_of(daemon, which, "sparse").refused(413)
    for path in ("same", "d", "nothing", "../made.bin", "/etc/passwd"):
        files_of(daemon, which, path).refused(404)
    daemon.get("/executions/%s/files" % which).refused(400)
    files_of(daemon, which, "given", token=daemon.token("stranger")).refused(404)


def test_files_are_not_kept_unless_asked_for(daemon):
    done = daemon.execute("open('x', 'w').write('y')")
    assert done["files"]["created"], done
    assert "files=true" in files_of(daemon, done["execution_id"], "x").refused(404)["remedy"]
    daemon.post("/execute?files=maybe", daemon.request()).refused(400, "invalid", "files")


def test_files_are_there_at_the_end_and_not_before(daemon):
    which = daemon.ask("POST", "/executions?files=true", daemon.request(
        "open('x', 'w').write('y')\nimport time; time.sleep(30)")).expect(202).json["execution_id"]
    daemon.reach(which, "running")
    files_of(daemon, which, "x").refused(409)
    daemon.delete("/executions/" + which).expect(200)
    daemon.result(which)
    assert files_of(daemon, which, "x").status in (200, 404)  # it may not have come so far


def test_of_too_many_bytes_some_files_find_no_room(daemon):
    code = "for n in 'abc': open(n, 'wb').write(n.encode() * (30 << 20))"
    which = daemon.post("/execute?files=true", daemon.request(code)).expect(200).json["execution_id"]
    got = [files_of(daemon, which, n) for n in "abc"]
    assert sorted(r.status for r in got) == [200, 200, 413], got
    assert all(len(r.body) == 30 << 20 for r in got if r.status == 200)


def test_a_large_request_is_read_aside(daemon):
    """In a thread: what is wrong with it is told as ever, and keys count."""
    files = [{"path": "f%d" % i, "content": "x" * 100000} for i in range(20)]
    key = [("Idempotency-Key", "large-%d" % time.time_ns())]
    first = daemon.execute("import os; print(len(os.listdir()))", files=files, headers=key)
    assert first["stdout"] == "21\n", first
    second = daemon.ask("POST", "/execute", daemon.request("import os; print(len(os.listdir()))", files=files),
                        headers=key).expect(200)
    assert second.header("brig-replayed") == "true"
    assert second.json["execution_id"] == first["execution_id"]
    daemon.post("/execute", daemon.request(files=files, nonsense=1)).refused(400)
    daemon.post("/execute", b"[" + b" " * 200000).refused(400)
    with daemon.connect() as w:  # leaves before it is read: nothing happens
        w.send(brigd.request_bytes("POST", API + "/execute", daemon.request(files=files)))
    assert daemon.execute("print(1)")["stdout"] == "1\n"


# --- the rest -------------------------------------------------------------------------------------

def test_risk(daemon):
    bad = daemon.post("/risk/assess", {"language": "shell", "code": "rm -rf /"}).expect(200).json
    good = daemon.post("/risk/assess", {"language": "python", "code": "print(1)"}).expect(200).json
    for assessed in (bad, good):
        valid_for("POST", "/risk/assess", assessed)
    assert bad["level"] == "critical" and bad["findings"] and good["level"] == "safe" and not good["findings"]
    for body in ({}, {"language": "shell"}, {"code": "x"}, {"language": "x", "code": "y"}, {"language": "shell",
                 "code": "x", "y": 1}):
        daemon.post("/risk/assess", body).refused(400, "invalid")


def test_policy(daemon, asking):
    policies = valid("PolicyShow", asking.get("/policy").expect(200).json)["policies"]
    assert policies[-1]["name"] == "ask-all" or policies[0]["name"] == "ask-all", policies
    rows, waiting = len(asking.rows()), asking.get("/approvals").json
    for body, verdict in ((asking.request("echo 1", "shell"), "confirm"),
                          (asking.request("rm -rf --no-preserve-root /", "shell"), "deny")):
        checked = valid_for("POST", "/policy/check", asking.post("/policy/check", body).expect(200).json)
        assert checked["decision"]["verdict"] == verdict, checked
    assert len(asking.rows()) == rows and asking.get("/approvals").json == waiting
    assert daemon.post("/policy/check", daemon.request()).expect(200).json["decision"]["verdict"] == "allow"


def test_pool_doctor_capabilities_health(daemon):
    daemon.execute("print(1)")
    pool = valid("Pool", daemon.get("/pool").expect(200).json)
    assert "python" in [s["language"] for s in pool["shapes"]], pool
    doctor = daemon.get("/doctor").expect(200).json
    done = subprocess.run(daemon.drop + [brigd.BRIG, "doctor", "--json"], stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert set(doctor) == set(json.loads(done.stdout.decode()))
    capabilities = valid("Capabilities", daemon.get("/capabilities").expect(200).json)
    assert {"python", "javascript", "shell"} <= set(map(str, capabilities["languages"])) or all(
        word in json.dumps(capabilities["languages"]) for word in ("python", "javascript", "shell"))
    assert valid("Health", daemon.get("/health").expect(200).json)["status"] == "ok"
    daemon.get("/ready").expect(200)


def metrics_of(daemon):
    """{name: {labels: value}}; anything that is not the text form 0.0.4 fails."""
    reply = daemon.get("/metrics").expect(200)
    assert reply.header("content-type").startswith("text/plain"), reply
    assert "version=0.0.4" in reply.header("content-type"), reply
    text = reply.body.decode("utf-8")
    assert text.endswith("\n")
    types, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram"), line
            types[name] = kind
        elif line.startswith("# HELP "):
            assert re.fullmatch(r"# HELP [a-z_]+ \S.*", line), line
        else:
            m = re.fullmatch(r'([a-z_]+)(\{([a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*)\})? ([0-9.e+-]+|\+Inf|NaN)', line)
            assert m, line
            base = re.sub(r"_(bucket|sum|count)$", "", m[1])
            assert m[1] in types or types.get(base) == "histogram", line
            series = values.setdefault(m[1], {})
            assert (m[3] or "") not in series, line
            series[m[3] or ""] = float(m[4])
    return types, values


def test_metrics_are_what_prometheus_reads(daemon):
    daemon.execute("print(1)")
    types, one = metrics_of(daemon)
    assert all(name.startswith(("brig_", "process_")) for name in types)
    for name in [n for n, kind in types.items() if kind == "histogram"]:
        buckets = [(float(re.search(r'le="([^"]+)"', k)[1].replace("+Inf", "inf")), v)
                   for k, v in one[name + "_bucket"].items()]
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), name
        assert [v for _, v in buckets] == sorted(v for _, v in buckets), name
        assert buckets[-1][1] == one[name + "_count"][""] and one[name + "_sum"][""] >= 0, name
    for _ in range(3):
        daemon.execute("print(1)")
    _, two = metrics_of(daemon)
    def total(values, name, part=""):
        return sum(v for k, v in values.get(name, {}).items() if part in k)
    assert total(two, "brig_executions_total", 'state="finished"') == total(
        one, "brig_executions_total", 'state="finished"') + 3
    assert total(two, "brig_run_seconds_count") == total(one, "brig_run_seconds_count") + 3
    for name in [n for n, kind in types.items() if kind == "counter"]:
        for labels, value in one.get(name, {}).items():
            assert two[name][labels] >= value, (name, labels)


def test_keep_alive_serves_everything(daemon):
    with daemon.connect() as wire:
        for i in range(20):
            assert daemon.post("/execute", daemon.request("echo %d" % i, "shell"), wire=wire).expect(
                200).json["stdout"] == "%d\n" % i
            daemon.get("/executions?limit=1", wire=wire).expect(200)
            assert daemon.post("/execute", b"{}", wire=wire).status == 400


def test_curl_as_in_the_manual(daemon):
    done = subprocess.run(["curl", "-s", "--max-time", "60", "--unix-socket", str(daemon.socket),
                           "http://localhost/api/v1/execute", "-H", "Content-Type: application/json", "-d",
                           json.dumps(daemon.request())], stdout=subprocess.PIPE, timeout=90, check=True)
    assert json.loads(done.stdout.decode())["stdout"] == "42\n"


def test_traceparent_is_accepted(daemon):
    for value in ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "nonsense", "00-" + "0" * 32 + "-x-01"):
        assert daemon.execute("echo 1", "shell", headers=[("traceparent", value)])["success"]


def test_nothing_is_left_after_all_this(daemon, asking):
    """Connections, runs and questions of the tests above are gone."""
    for d in (daemon, asking):
        until(lambda: not d.get("/executions?state=running").json["executions"], "nothing runs")
        until(lambda: d.fds() < 400, "descriptors are closed")
        d.verify()
        assert "error" not in [line.split()[0] for line in d.logged.splitlines() if line.strip()]
