# SPDX-License-Identifier: Apache-2.0
"""Requests of a wrong form, size or pace (AP-09 to AP-14, AP-17, AP-18, AP-22, AP-27, AP-30).

Whatever comes in, the answer is a 4xx in the documented form, or the end of the connection; the
daemon goes on serving others, and nothing runs.
"""
import contextlib
import gzip
import json
import pathlib
import re
import select
import socket
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import (  # noqa: E402
    API, BINARY, CLOSE, CONTINUATION, NO_ID, PING, PONG, TEXT, Closed, request_bytes, until, ws_frame)

DOCUMENT, OPERATIONS = brigd.operations()
MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon():
    with brigd.running() as d:
        d.admin()
        yield d


@pytest.fixture(scope="module")
def impatient():
    """Small bounds, so that they are met within a test."""
    limits = {"header_timeout": "1s", "idle": "2s", "body_rate": "16KiB", "write_timeout": "2s",
              "per_peer": 40, "connections": 200, "stream": "64KiB", "ws_ping": "1s"}
    with brigd.running(config={"limits": limits}) as d:
        d.admin()
        yield d


@pytest.fixture(autouse=True)
def residue(subreaper):
    """In the place of conftest's: the daemons outlive a test, and are looked after when they stop."""
    with brigd.no_descriptors_left():
        yield


@pytest.fixture(autouse=True)
def still_well(request):
    """After each test the daemon answers, and nothing has run that should not."""
    yield
    for name in ("daemon", "impatient"):
        if name in request.fixturenames:
            d = request.getfixturevalue(name)
            assert d.proc.poll() is None, d.logged[-4000:]
            d.get("/health").expect(200)


# --- AP-09: WebSocket frames ----------------------------------------------------------------------

CLOSES = {
    "unmasked": (ws_frame(b"{}", masked=False), {1002}),
    "unmasked ping": (ws_frame(b"", PING, masked=False), {1002}),
    "rsv1": (ws_frame(b"{}", rsv=4), {1002}), "rsv2": (ws_frame(b"{}", rsv=2), {1002}),
    "rsv3": (ws_frame(b"{}", rsv=1), {1002}), "rsv of a ping": (ws_frame(b"", PING, rsv=4), {1002}),
    "fragmented ping": (ws_frame(b"", PING, fin=False), {1002}),
    "fragmented close": (ws_frame(b"\x03\xe8", CLOSE, fin=False), {1002}),
    "long ping": (ws_frame(b"x" * 126, PING), {1002}),
    "long close": (ws_frame(b"\x03\xe8" + b"x" * 124, CLOSE), {1002}),
    "length of 63 bits and one": (ws_frame(length=1 << 63), {1002, 1009}),
    "all bits of the length": (ws_frame(length=(1 << 64) - 1), {1002, 1009}),
    "length of 62 bits": (ws_frame(b"x" * 10, length=1 << 62), {1009}),
    "length above the bound": (ws_frame(b"x" * 10, length=MIB + 1), {1009}),
    "long by fragments": (ws_frame(b"x" * 600000, fin=False) +
                          ws_frame(b"x" * 600000, CONTINUATION), {1009}),
    "continuation of nothing": (ws_frame(b"{}", CONTINUATION), {1002}),
    "text within a text": (ws_frame(b"{", fin=False) + ws_frame(b"}"), {1002}),
    "binary": (ws_frame(b"{}", BINARY), {1003}),
    "not UTF-8": (ws_frame(b"\"\xff\xfe\""), {1007}), "overlong": (ws_frame(b"\"\xc0\xaf\""), {1007}),
    "surrogate": (ws_frame(b"\"\xed\xa0\x80\""), {1007}),
    "half a character at the end": (ws_frame(b"\"\xe2\x82"), {1007}),
    "not UTF-8, split": (ws_frame(b"\"\xe2", fin=False) + ws_frame(b"\x28\xa1\"", CONTINUATION), {1007}),
    "close of one byte": (ws_frame(b"\x03", CLOSE), {1002}),
    "reason not UTF-8": (ws_frame(b"\x03\xe8\xff", CLOSE), {1007, 1002}),
}
CLOSES.update({"opcode %x" % op: (ws_frame(b"", op), {1002}) for op in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)})
CLOSES.update({"close code %d" % code: (ws_frame(code.to_bytes(2, "big"), CLOSE), {1002})
               for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)})


@pytest.mark.parametrize("name", list(CLOSES))
def test_AP_09_a_wrong_frame_closes(daemon, name):
    data, codes = CLOSES[name]
    for path in ("/approvals/ws", "/events"):
        with daemon.ws(path) as ws:
            ws.wire.try_send(data)
            assert ws.closed_with() in codes, path


def test_AP_09_a_peer_that_does_not_close_is_closed(daemon):
    with daemon.ws("/approvals/ws") as ws:
        ws.wire.send(ws_frame(b"{}", masked=False))
        assert ws.closed_with() == 1002 and ws.wire.is_over()


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1011, 3000, 4999])
def test_AP_09_a_right_close_is_answered(daemon, code):
    with daemon.ws("/approvals/ws") as ws:
        ws.wire.send(ws_frame(code.to_bytes(2, "big") + b"bye", CLOSE))
        assert ws.closed_with() in (code, 1000) and ws.wire.is_over()


def test_AP_09_an_empty_close_is_answered(daemon):
    with daemon.ws("/approvals/ws") as ws:
        ws.wire.send(ws_frame(b"", CLOSE))
        assert ws.closed_with() in (1000, 1005) and ws.wire.is_over()


def pongs(ws, n):
    seen = []
    while len(seen) < n:
        f = ws.frame()
        if f.opcode == PONG:
            seen.append(f.payload)
    return seen


def test_AP_09_pings_are_answered_also_within_a_message(daemon):
    with daemon.ws("/approvals/ws") as ws:
        for payload in (b"", b"x", b"\x00\xff" * 62):
            ws.wire.send(ws_frame(payload, PING))
            assert pongs(ws, 1) == [payload]
        ws.wire.send(ws_frame(b'{"type":', fin=False) + ws_frame(b"mid", PING) +
                     ws_frame(b'"answer","ref":"r"}', CONTINUATION))
        assert pongs(ws, 1) == [b"mid"]
        assert ws.until(lambda m: m["type"] == "error")["ref"] == "r"


def test_AP_09_a_flood_of_pings_costs_nothing(daemon):
    """Nobody takes the answers: it is bounded by what the kernel holds, and others are served."""
    before = daemon.rss()
    with daemon.ws("/approvals/ws") as ws:
        ws.wire.sock.settimeout(1)
        data = ws_frame(b"x" * 125, PING) * 1000
        with contextlib.suppress(OSError):
            for _ in range(100):
                ws.wire.sock.sendall(data)
        daemon.get("/health").expect(200)
        assert daemon.rss() - before < 16 * MIB


def test_AP_09_many_small_fragments_are_one_message(daemon):
    before = daemon.rss()
    n = 200000
    with daemon.ws("/approvals/ws") as ws:
        body = b'{"type":"nonsense","ref":"' + b"x" * n + b'"}'
        one = [ws_frame(bytes([c]), CONTINUATION, fin=False) for c in range(256)]
        data = ws_frame(body[:1], TEXT, fin=False) + b"".join(one[c] for c in body[1:-1]) + \
            ws_frame(body[-1:], CONTINUATION)
        if ws.wire.try_send(data):
            with contextlib.suppress(Closed):  # it may also have had enough
                ws.until(lambda m: m["type"] == "error")
        assert daemon.rss() - before < 64 * MIB


def test_AP_09_compression_is_not_agreed_to(daemon):
    offer = [("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")]
    wire, reply = daemon.ws_try("/approvals/ws", more=offer)
    with wire:
        assert reply.status == 101 and reply.header("sec-websocket-extensions") is None, reply


BAD_MESSAGES = [b"", b" ", b"nonsense", b"[]", b"1", b"null", b'"x"', b"{", b"{}", b'{"type":1}', b'{"type":null}',
                b'{"type":"dance"}', b'{"type":"answer"}', b'{"type":"answer","id":1,"decision":"allow"}',
                b'{"type":"answer","id":"%s","decision":"perhaps"}' % NO_ID.encode(),
                b'{"type":"answer","id":"%s","decision":"allow"}' % NO_ID.encode(),
                b'{"type":"answer","id":"../x","decision":"allow"}',
                b'{"type":"answer","id":"%s","decision":"allow","extra":1}' % NO_ID.encode(),
                b'{"type":"answer","id":"a","id":"b","decision":"allow"}',
                b'{"type":"answer","id":"%s","decision":"allow","remember_ms":-1}' % NO_ID.encode(),
                b'{"type":"answer","type":"answer"}', b"[" * 5000, b'{"type":"answer","ref":' + b"[" * 500]


def test_AP_09_a_wrong_message_is_an_error_and_no_more(daemon):
    with daemon.ws("/approvals/ws") as ws:
        assert ws.message()["type"] == "hello"
        for data in BAD_MESSAGES:
            ws.wire.send(ws_frame(data))
            m = ws.message()
            assert m["type"] == "error" and set(m["error"]) == {"code", "cause", "remedy", "field"}, (data, m)


# --- AP-10: smuggling -----------------------------------------------------------------------------

RUN = b'{"language":"shell","code":"echo smuggled"}'
SECOND = (b"POST /api/v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
          b"Content-Length: %d\r\n\r\n" % len(RUN)) + RUN
HEAD = b"Host: localhost\r\nContent-Type: application/json\r\n"
ASSESS = b'{"language":"shell","code":"echo 1"}'
N = b"%d" % len(ASSESS)
POST = b"POST /api/v1/risk/assess HTTP/1.1\r\n" + HEAD
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /api/v1/health HTTP/1.1\r\n"

SMUGGLED = {
    "length and chunked": POST + b"Content-Length: " + N + b"\r\n" + CHUNKED + b"0\r\n\r\n" + SECOND,
    "chunked and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SECOND,
    "two lengths": POST + b"Content-Length: " + N + b"\r\nContent-Length: 5\r\n\r\n" + ASSESS + SECOND,
    "two equal lengths": POST + b"Content-Length: " + N + b"\r\nContent-Length: " + N + b"\r\n\r\n" + ASSESS + SECOND,
    "list of lengths": POST + b"Content-Length: " + N + b", " + N + b"\r\n\r\n" + ASSESS + SECOND,
    "length with sign": POST + b"Content-Length: +" + N + b"\r\n\r\n" + ASSESS + SECOND,
    "negative length": POST + b"Content-Length: -1\r\n\r\n" + ASSESS + SECOND,
    "length in hex": POST + b"Content-Length: 0x24\r\n\r\n" + ASSESS + SECOND,
    "length with blank": POST + b"Content-Length: 3 6\r\n\r\n" + ASSESS + SECOND,
    "length with letter": POST + b"Content-Length: " + N + b"a\r\n\r\n" + ASSESS + SECOND,
    "no number": POST + b"Content-Length: \r\n\r\n" + ASSESS + SECOND,
    "length of 2^64": POST + b"Content-Length: 18446744073709551652\r\n\r\n" + ASSESS + SECOND,
    "space before colon": POST + b"Content-Length : " + N + b"\r\n\r\n" + ASSESS + SECOND,
    "TE with space": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE xchunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE identity": POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SECOND,
    "TE chunked, identity": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SECOND,
    "TE gzip, chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE quoted": POST + b"Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + SECOND,
    "TE with control": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SECOND,
    "TE folded": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + SECOND,
    "chunk size negative": POST + CHUNKED + b"-1\r\n" + SECOND,
    "chunk size 0x": POST + CHUNKED + b"0x24\r\n" + ASSESS + b"\r\n0\r\n\r\n" + SECOND,
    "chunk size plus": POST + CHUNKED + b"+24\r\n" + ASSESS + b"\r\n0\r\n\r\n" + SECOND,
    "chunk size blank": POST + CHUNKED + b" 24\r\n" + ASSESS + b"\r\n0\r\n\r\n" + SECOND,
    "chunk size huge": POST + CHUNKED + b"fffffffffffffffff\r\n" + ASSESS + b"\r\n0\r\n\r\n" + SECOND,
    "chunk size none": POST + CHUNKED + b"\r\n" + ASSESS + b"\r\n0\r\n\r\n" + SECOND,
    "chunk without end": POST + CHUNKED + b"24\r\n" + ASSESS + b"xx0\r\n\r\n" + SECOND,
    "fold": GET + b"Host: localhost\r\nX-A: b\r\n c\r\n\r\n",
    "fold first": GET + b" Host: localhost\r\n\r\n",
    "name with space": GET + b"Host: localhost\r\nX A: b\r\n\r\n",
    "name with tab": GET + b"Host: localhost\r\nX\tA: b\r\n\r\n",
    "name with control": GET + b"Host: localhost\r\nX\x01A: b\r\n\r\n",
    "name empty": GET + b"Host: localhost\r\n: b\r\n\r\n",
    "no colon": GET + b"Host: localhost\r\nnonsense\r\n\r\n",
    "NUL in a name": GET + b"Host: localhost\r\nX\x00A: b\r\n\r\n",
    "NUL in a value": GET + b"Host: localhost\r\nX-A: a\x00b\r\n\r\n",
    "NUL in the host": GET + b"Host: localhost\x00.evil.com\r\n\r\n",
    "CR in a value": GET + b"Host: localhost\r\nX-A: a\rb\r\n\r\n",
    "only LF": GET.replace(b"\r", b"") + b"Host: localhost\n\n",
    "LF in a head": GET + b"Host: localhost\nX-A: b\r\n\r\n",
    "version 0.9": b"GET /api/v1/health\r\n\r\n",
    "version 0.9 spelt out": b"GET /api/v1/health HTTP/0.9\r\nHost: localhost\r\n\r\n",
    "version 2.0": b"GET /api/v1/health HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "version 1.10": b"GET /api/v1/health HTTP/1.10\r\nHost: localhost\r\n\r\n",
    "version in small letters": b"GET /api/v1/health http/1.1\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /api/v1/health \r\nHost: localhost\r\n\r\n",
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2 + b"\r\n\r\n",
    "method in small letters": b"get /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "blank in the path": b"GET /api/v1/health x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tab in the line": b"GET\t/api/v1/health\tHTTP/1.1\r\nHost: localhost\r\n\r\n",
    "NUL in the path": b"GET /api/v1/health\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "CR in the path": b"GET /api/v1/health\rX HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "CRLF in the path": b"GET /api/v1/health\r\nX-Evil: 1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bytes in the path": b"GET /api/v1/h\xffealth HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "long line": b"GET /api/v1/health?x=" + b"y" * MIB + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "long header": GET + b"Host: localhost\r\nX-A: " + b"y" * MIB + b"\r\n\r\n",
    "long name": GET + b"Host: localhost\r\n" + b"y" * MIB + b": x\r\n\r\n",
    "many headers": GET + b"Host: localhost\r\n" + b"X-A: b\r\n" * 100000 + b"\r\n",
    "long method": b"G" * 100000 + b" / HTTP/1.1\r\n\r\n",
    "header without end": GET + b"Host: localhost\r\nX-A: b" * 5000,
    "nothing but blanks": b" " * 100000, "lines and no more": b"\r\n" * 50000, "zeros": bytes(100000),
}


def answers(daemon, data, seconds=15):
    """(statuses, whether it closed) of raw bytes; the connection is not ended from here."""
    with daemon.connect(timeout=seconds) as wire:
        wire.try_send(data)
        got = []
        try:
            while True:
                got.append(wire.reply().status)
                wire.sock.settimeout(min(seconds, 4))
        except Closed:
            return got, True
        except (TimeoutError, socket.timeout):
            return got, False


# Some of these are a matter of taste: a server may read them as what they are meant to be, as long as
# it does not see two requests.
TOLERABLE = {"lines and no more", "method in small letters", "bytes in the path"}


@pytest.mark.parametrize("name", list(SMUGGLED))
def test_AP_10_a_wrong_form_is_refused(daemon, name):
    ran = len(daemon.rows(name="received"))
    got, closed = answers(daemon, SMUGGLED[name])
    assert len(got) <= 1 and all(400 <= s < 500 or s == 505 for s in got), got
    assert closed or name in TOLERABLE and got, "the connection stays open"
    assert len(daemon.rows(name="received")) == ran, "something ran"


def test_AP_10_pipelined_requests_are_answered_in_order(daemon):
    """The control: more than one request in one connection, each of a right form."""
    data = b"".join(request_bytes("POST", API + "/risk/assess", {"language": "shell", "code": "echo %d" % i})
                    + request_bytes("GET", API + "/executions/" + NO_ID)
                    + request_bytes("GET", API + "/health") for i in range(20))
    with daemon.connect() as wire:
        wire.send(data)
        assert [wire.reply().status for _ in range(60)] == [200, 404, 200] * 20


def test_AP_10_chunked_bodies_are_read(daemon):
    """The control of the chunks: one byte each, upper and lower case, an extension, a trailer."""
    for chunks in ([ASSESS], [bytes([c]) for c in ASSESS], [ASSESS[:10], ASSESS[10:]]):
        body = b"".join(b"%X\r\n%s\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
        with daemon.connect() as wire:
            for part in (POST + CHUNKED, body, GET + b"Host: localhost\r\n\r\n"):
                wire.send(part)
            assert [wire.reply().status, wire.reply().status] == [200, 200]


def test_AP_10_a_body_where_none_belongs_is_no_second_request(daemon):
    ran = len(daemon.rows(name="received"))
    for method, path in (("GET", "/health"), ("GET", "/executions"), ("DELETE", "/executions/" + NO_ID)):
        data = request_bytes(method, API + path, SECOND)
        got, _ = answers(daemon, data + b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n", 10)
        assert 1 <= len(got) <= 2 and 200 not in got[1:], got
    assert len(daemon.rows(name="received")) == ran, "something ran"


def test_AP_10_keep_alive_is_kept_over_errors(daemon):
    with daemon.connect() as wire:
        for _ in range(30):
            daemon.get("/nothing", wire=wire).refused(404)
            daemon.post("/risk/assess", b"{", wire=wire).refused(400)
            daemon.get("/health", wire=wire).expect(200)


# --- AP-11: pace ----------------------------------------------------------------------------------

def slow_down(wire, parts, seconds):
    """Sends the parts with pauses; how long until the other side had enough (None: never)."""
    begin = time.monotonic()
    wire.sock.settimeout(0.2)
    for part in parts:
        if time.monotonic() - begin > seconds:
            return None
        if not wire.try_send(part):
            return time.monotonic() - begin
        try:
            while True:
                if not wire.sock.recv(65536):
                    return time.monotonic() - begin
        except (TimeoutError, socket.timeout):
            continue
        except ConnectionResetError:
            return time.monotonic() - begin
    return None


def drip(data, n=1):
    return [data[i:i + n] for i in range(0, len(data), n)]


SLOW = {
    "nothing": [b""] * 500,
    "the line": drip(GET * 50),
    "headers": [GET + b"Host: localhost\r\n"] + [b"X-A: b\r\n"] * 500,
    "a header": [GET + b"Host: localhost\r\nX-A: "] + [b"b"] * 500,
    "body": [request_bytes("POST", API + "/execute", b"x" * 100000)[:-100000]] + [b"x"] * 500,
    "no body": [request_bytes("POST", API + "/execute", b"x" * 100000)[:-100000]] + [b""] * 500,
    "chunks": [POST + CHUNKED] + [b"1\r\nx\r\n"] * 500,
    "handshake": drip(request_bytes("GET", API + "/approvals/ws", None, brigd.ws_headers())) * 5,
    "after an answer": [GET + b"Host: localhost\r\n\r\n"] + [b""] * 500,
}


@pytest.mark.parametrize("name", list(SLOW))
def test_AP_11_the_slow_are_closed(impatient, name):
    """Bounds are 1 s for headers, 2 s idle, 16 KiB/s for bodies after 5 s; others are served."""
    with impatient.connect() as wire:
        took = slow_down(wire, SLOW[name], 30)
        assert took is not None and took < 25, took
    assert impatient.get("/health").status == 200


def test_AP_11_a_reader_that_takes_nothing_is_closed(impatient):
    """A large answer that nobody reads costs a connection for a bounded time only."""
    which = impatient.submit("print('x' * 9000000)")
    impatient.result(which)
    with impatient.connect() as wire:
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.send(request_bytes("GET", "%s/executions/%s/output" % (API, which)))
        assert not is_hung_up(wire, 0.5), "the control: it is there"
        until(lambda: is_hung_up(wire, 0), "the connection is given up")


def is_hung_up(wire, seconds):
    """The other side has closed a unix connection, whatever has not been read of it."""
    poll = select.poll()
    poll.register(wire.sock, select.POLLHUP)
    return bool(poll.poll(seconds * 1000))


def streams_open(daemon):
    """What the daemon counts as open event streams."""
    text = daemon.get("/metrics").expect(200).body.decode()
    return int(re.search(r"^brig_http_streams (\d+)$", text, re.M).group(1))


def test_AP_11_a_stream_that_nobody_reads_is_ended(impatient):
    """…and what it would have been sent is bounded. (The pool grows meanwhile: descriptors say nothing.)"""
    rss = impatient.rss()
    wire, _ = impatient.stream("/events?after=0")
    with wire:
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert streams_open(impatient) == 1, "the control: it is there"
        end = time.monotonic() + 60
        while streams_open(impatient) and time.monotonic() < end:
            for _ in range(20):
                impatient.execute("echo 1", "shell")
        assert streams_open(impatient) == 0, "it is still there"
        assert is_hung_up(wire, 1), "and its connection is closed"
    assert impatient.rss() - rss < 64 * MIB


def test_AP_11_a_websocket_that_is_silent_is_dropped(impatient):
    with impatient.ws("/approvals/ws") as ws:
        assert ws.wire.is_over(30)  # it never answers a ping


def test_AP_11_a_websocket_that_answers_pings_stays(impatient):
    """The control."""
    with impatient.ws("/approvals/ws") as ws:
        ws.wire.sock.settimeout(6)
        with pytest.raises((TimeoutError, socket.timeout, StopIteration)):
            end = time.monotonic() + 5
            while True:
                f = ws.frame()
                if f.opcode == PING:
                    ws.wire.send(ws_frame(f.payload, PONG))
                assert f.opcode != CLOSE, f
                if time.monotonic() > end:
                    raise StopIteration


def test_AP_11_one_peer_has_its_share_and_others_theirs(impatient):
    """40 of one address at once; the rest is turned away, another address is served."""
    wires = []
    try:
        for _ in range(80):
            wires.append(impatient.connect(tcp=True, source="127.0.0.9"))
        time.sleep(0.3)
        data = request_bytes("GET", API + "/health", None, [("Authorization", "Bearer " + impatient.admin())],
                             impatient.tcp_host)
        served = 0
        for wire in wires:
            with contextlib.suppress(Closed, OSError):
                if wire.try_send(data) and wire.reply().status == 200:
                    served += 1
        assert 0 < served <= 40, served
        impatient.get("/health", tcp=True, token=impatient.admin(), source="127.0.0.10").expect(200)
    finally:
        for wire in wires:
            wire.close()


def test_AP_11_a_thousand_idle_connections_are_no_burden(daemon):
    rss = daemon.rss()
    wires = []
    try:
        for _ in range(1000):
            wires.append(daemon.connect())
        for wire in wires[::10]:
            wire.send(b"GET /api/v1/hea")
        daemon.get("/health").expect(200)
        assert daemon.rss() - rss < 1000 * 48 * 1024
    finally:
        for wire in wires:
            wire.close()
    until(lambda: daemon.fds() < 300, "they are closed")


# --- AP-12: bodies --------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [1 << 40, (1 << 63) - 1, 17 * MIB, (256 << 20) + 1])
def test_AP_12_a_body_that_is_too_large_is_not_read(daemon, size):
    rss = daemon.rss()
    for path in ("/execute", "/risk/assess"):
        with daemon.connect() as wire:
            wire.send(b"POST /api/v1%s HTTP/1.1\r\n" % path.encode() + HEAD + b"Content-Length: %d\r\n\r\n" % size)
            wire.reply().refused(413, "limit")
            assert wire.is_over()
    assert daemon.rss() - rss < 8 * MIB


def test_AP_12_it_is_refused_before_it_is_asked_for(daemon):
    with daemon.connect() as wire:
        wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n")
        assert wire.head()[0] == 413


def test_AP_12_what_is_expected_is_asked_for(daemon):
    """The control."""
    with daemon.connect() as wire:
        wire.send(POST + b"Expect: 100-continue\r\nContent-Length: " + N + b"\r\n\r\n")
        assert wire.head()[0] == 100
        wire.send(ASSESS)
        assert wire.reply().status == 200


def test_AP_12_chunks_without_end_are_ended(daemon):
    """The refusal comes when the bound is met, not when the body is over; then the end."""
    rss, chunk = daemon.rss(), b"10000\r\n" + b" " * 65536 + b"\r\n"
    for path in ("/risk/assess", "/execute"):
        with daemon.connect() as wire:
            wire.send(b"POST /api/v1%s HTTP/1.1\r\n" % path.encode() + HEAD + CHUNKED)
            sent = 0
            while not select.select([wire.sock], [], [], 0)[0] and wire.try_send(chunk):
                sent += len(chunk)
                assert sent < 64 * MIB, "it goes on reading"
            assert wire.reply().status == 413
            end = time.monotonic() + 20
            while wire.try_send(chunk):
                assert time.monotonic() < end, "it goes on taking"
    assert daemon.rss() - rss < 64 * MIB


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x-gzip"])
def test_AP_12_packed_bodies_are_not_unpacked(daemon, coding):
    bomb = gzip.compress(ASSESS.ljust(10 * MIB))
    daemon.post("/risk/assess", bomb, headers=[("Content-Encoding", coding)]).refused((400, 415))


def test_AP_12_many_parts_are_not_counted(daemon):
    parts = b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n" * 4000 + b"--x--\r\n"
    daemon.post("/execute", parts, kind="multipart/form-data; boundary=x").refused(415)


@pytest.mark.parametrize("body", [b"[" * 100000, b'{"a":' * 30000, b"[" * 50000 + b"]" * 50000,
                                  b'{"env":' + b"[" * 40 + b"]" * 40 + b"}",
                                  b"[" + b"1," * 100000 + b"1]", b'{"code":"' + b"\\u0041" * 300000],
                         ids=range(6))
def test_AP_12_depth_and_number_are_bounded(daemon, body):
    for path in ("/execute", "/policy/check", "/executions"):
        daemon.post(path, body).refused(400, "invalid")


# --- AP-13: JSON ----------------------------------------------------------------------------------

BAD_JSON = [
    b"", b" ", b"{", b"}", b"[]", b"null", b"true", b"1", b'"x"', b"{}", b"{}{}", b"{} x", b"\xef\xbb\xbf{}",
    b'{"language":"shell"}', b'{"code":"echo 1"}', b"{'language':'shell','code':'echo 1'}",
    b'{"language":"shell","code":"echo 1",}', b'{"language":"shell","code":"echo 1"}x',
    b'{"language":"shell","code":"echo 1"}{"language":"shell","code":"echo 2"}',
    b'{"language":"shell","language":"shell","code":"echo 1"}',
    b'{"language":"shell","code":"echo 1","code":"echo 2"}',
    b'{"language":"shell","code":"echo 1","co\\u0064e":"echo 2"}',
    b'{"language":"shell","code":"echo 1","__proto__":{}}', b'{"language":"shell","code":"echo 1","constructor":1}',
    b'{"language":"shell","code":"echo 1","Language":"python"}', b'{"language":"shell","code":null}',
    b'{"language":"shell","code":NaN}', b'{"language":"shell","code":"echo 1","timeout_ms":NaN}',
    b'{"language":"shell","code":"echo 1","timeout_ms":Infinity}', b'{"language":"shell","code":"echo 1","timeout_ms":01}',
    b'{"language":"shell","code":"echo 1","timeout_ms":1e400}', b'{"language":"shell","code":"echo 1","timeout_ms":1e3}',
    b'{"language":"shell","code":"echo 1","timeout_ms":1000.0}', b'{"language":"shell","code":"echo 1","timeout_ms":0x10}',
    b'{"language":"shell","code":"echo 1","timeout_ms":99999999999999999999999999}',
    b'{"language":"shell","code":"echo \\ud800"}', b'{"language":"shell","code":"echo \\udc00\\ud800"}',
    b'{"language":"shell","code":"echo \\u0000"}', b'{"language":"shell","code":"echo \x01"}',
    b'{"language":"shell","code":"echo \xff"}', b'{"language":"shell","code":"echo \xc0\x80"}',
    b'{"language":"shell","code":"echo \xed\xa0\x80"}', b'{"language":"shell","code":"\\x41"}',
    b'{"language":"shell","code":"echo 1"/*c*/}', b'{"language":"shell","code":"echo 1","env":{"A":"1","A":"2"}}',
    b'{"language":"shell","code":"echo 1","limits":{"pids":1,"pids":2}}', b'{"language":"sh\\u0065ll\\u0000","code":"1"}',
    b'{"language":"shell\\n","code":"1"}', b'{"language":"SHELL","code":"1"}', b'{"language":"ruby","code":"1"}',
    '{"language":"shell","code":"echo 1"}'.encode("utf-16"), '{"language":"shell","code":"echo 1"}'.encode("utf-32"),
]


@pytest.mark.parametrize("path", ["/execute", "/executions", "/policy/check"])
def test_AP_13_only_strict_json_is_taken(daemon, path):
    rows = len(daemon.rows())
    with daemon.connect() as wire:
        for body in BAD_JSON:
            reply = daemon.post(path, body, wire=wire)
            assert reply.status == 400 and reply.error["code"] == "invalid", (body, reply)
    assert len(daemon.rows()) == rows, "something was recorded"


def test_AP_13_every_field_is_named_when_it_is_wrong(daemon):
    for fields, field in (({"timeout_ms": 0}, "timeout_ms"), ({"limits": {"pids": -1}}, "limits.pids"),
                          ({"env": {"A": 1}}, "env.A"), ({"files": [{"path": "../x", "content": ""}]}, "files[0].path"),
                          ({"nonsense": 1}, "nonsense"), ({"args": ["a", 1]}, "args[1]")):
        daemon.post("/execute", daemon.request(**fields)).refused(400, "invalid", field)


# --- AP-14: paths ---------------------------------------------------------------------------------

PATHS = [
    "//api/v1/health", "/api//v1/health", "/api/v1//health", "/api/v1/health/", "/api/v1/./health",
    "/api/v1/x/../health", "/api/v1/../v1/health", "/api/v1/%68ealth", "/api/v1%2fhealth", "/api%2Fv1/health",
    "/api/v1/health%00", "/api/v1/health%2f", "/api/v1/health;x=1", "/api/v1/health;", "/api/v1/health%3f",
    "/api/v1/health%20", "/api/v1/health.", "/api/v1/health.json", "/API/v1/health", "/api/V1/health",
    "/api/v1/Health", "/api/v1/HEALTH", "/api/v1/health\\", "/api\\v1\\health", "/api/v1/health#x", "/api/v1/",
    "/api/v1", "/api", "/", "/health", "/api/v1/executions//", "/api/v1/executions/%2e%2e/health",
    "/api/v1/executions/../health", "/api/v1/executions/..%2fhealth", "/api/v1/executions/%s/../../health" % NO_ID,
    "/api/v1/executions/%s/" % NO_ID, "/api/v1/executions/%s//output" % NO_ID, "/api/v1/%e2%80%8bhealth",
    "/api/v1/health%0d%0aX-A:b", "/api/v1/..%252fhealth", "/api/v1/health/..", "/api/v1/.", "/api/v1/approvals/ws/",
    "/api/v1/{id}", "/api/v1/executions/{id}", "/api/v1/executions/*", "/" + "a" * 8000, "/" + "a/" * 4000,
]


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p[:50])
def test_AP_14_a_path_has_one_spelling(daemon, path):
    reply = daemon.ask("GET", path, raw=True)
    assert reply.status in (400, 404, 414, 431), reply
    reply = daemon.ask("GET", path, raw=True, tcp=True)
    assert reply.status in (400, 401, 414, 429, 431), reply


# --- AP-17, AP-18: values -------------------------------------------------------------------------

NUMBERS = [-1, 0, 1 << 32, 1 << 53, 1 << 63, 1 << 64, 1e308, 1.5, "1", "", None, True, [], {}, "NaN", "1e3"]
LIMITS = ["timeout_ms", "memory_bytes", "cpus", "cpu_ms", "pids", "open_files", "file_bytes", "disk_bytes",
          "inodes", "output_bytes"]


@pytest.mark.parametrize("limit", LIMITS)
def test_AP_17_no_limit_is_without_a_bound(daemon, limit):
    with daemon.connect() as wire:
        for value in NUMBERS:
            if limit == "cpus" and value == 1.5:
                continue
            if limit in ("file_bytes", "memory_bytes", "disk_bytes") and value == 1 << 32:
                continue  # within the range of these
            fields = {limit: value} if limit == "timeout_ms" else {"limits": {limit: value}}
            reply = daemon.post("/execute", daemon.request("echo 1", "shell", **fields), wire=wire)
            error = reply.refused(400, "invalid")
            if not isinstance(value, int) or value < 1 << 63:  # which JSON itself cannot hold
                assert limit in (error["field"] or ""), (value, reply)


QUERIES = ["-1", "1e3", "NaN", "0x10", " 1", "1 ", "+1", "1.0", "18446744073709551616", "9" * 40, "one", "%00",
           "1%00", "1&%s=2", "\u0661", "1;2", "--1"]


@pytest.mark.parametrize("path, name", [
    ("/executions", "limit"), ("/executions/%s" % NO_ID, "wait"), ("/executions/%s/output" % NO_ID, "offset"),
    ("/executions/%s/events" % NO_ID, "after"), ("/ledger", "after"), ("/ledger", "limit"), ("/events", "after")])
def test_AP_17_numbers_in_the_query(daemon, path, name):
    for value in QUERIES:
        value = value.replace("%s", name)
        quoted = value.replace("\u0661", "%D9%A1").replace(" ", "%20").replace("+", "%2B")
        reply = daemon.get("%s?%s=%s" % (path, name, quoted))
        assert reply.status in (400, 404) if NO_ID in path else reply.status == 400, (value, reply)
        reply.error


def test_AP_17_numbers_of_a_post(daemon):
    rows = len(daemon.rows())
    for value in QUERIES:
        quoted = value.replace("%s", "wait").replace("\u0661", "%D9%A1").replace(" ", "%20").replace("+", "%2B")
        daemon.post("/executions?wait=" + quoted, daemon.request()).refused(400, "invalid")
    assert len(daemon.rows()) == rows


@pytest.mark.parametrize("query", ["?nonsense=1", "?limit=1&limit=2", "?limit", "?limit=", "?limit=0",
                                   "?limit=1001", "?state=dancing", "?state=%ff", "?state=%", "?state=%4", "?state=%zz", "?after=nonsense"])
def test_AP_17_other_parameters_are_refused(daemon, query):
    daemon.get("/executions" + query).refused(400, "invalid")


def test_AP_17_a_list_has_one_row_at_least(daemon):
    for path in ("/executions", "/ledger"):
        assert "from 1 to 1000" in daemon.get(path + "?limit=0").refused(400, "invalid")["cause"]
        daemon.get(path + "?limit=1").expect(200)


def test_AP_18_nuls_are_refused(daemon):
    for fields in ({"args": ["a\0b"]}, {"env": {"A": "a\0b"}}, {"env": {"A\0": "b"}}, {"name": "a\0.sh"},
                   {"session_id": "a\0b"}, {"files": [{"path": "a\0b", "content": ""}]}, {"language": "shell\0"},
                   {"code": "echo\0 1"}, {"idempotency_key": "a\0"}, {"tools": ["a\0"]}):
        daemon.post("/execute", dict(daemon.request("echo 1", "shell"), **fields)).refused(400, "invalid")


META = ["$(id)", "`id`", "; id", "| id", "&& id", "\n id \n", "'", '"', "\\", "*", "~", "$HOME", "-c", "--help", "",
        " ", "\t", "%s%n", "\u202e\u200b", "\U0001f600", "${IFS}", "!!", "#", "<(id)", "\x1b[31m", "\x7f"]


def test_AP_18_nothing_is_read_by_a_shell(daemon):
    code = "import sys, os, json\nprint(json.dumps([sys.argv[1:], os.environ['META']]))"
    result = daemon.execute(code, args=META, env={"META": "".join(META)})
    assert json.loads(result["stdout"]) == [META, "".join(META)], result
    for language in META[:12]:
        daemon.post("/execute", {"language": language, "code": "1"}).refused(400, "invalid")


# --- AP-22, AP-27: what answers say and how -------------------------------------------------------

def test_AP_27_no_answer_is_for_a_browser(daemon):
    evil = "<script>alert(1)</script>"
    which = daemon.submit("print(%r)" % evil)
    daemon.result(which)
    for method, path, _ in OPERATIONS:
        if path in ("/events", "/executions/{id}/events"):
            continue
        body = {"language": evil, "code": evil} if method == "POST" else None
        for query in ("", "?x=" + evil.replace("<", "%3C").replace(">", "%3E")):
            reply = daemon.ask(method, path.replace("{id}", which) + query, body)
            assert reply.header("x-content-type-options") == "nosniff", (path, reply)
            assert "sandbox" in reply.header("content-security-policy", ""), (path, reply)
            assert reply.header("cache-control") == "no-store", (path, reply)
            kind = reply.header("content-type", "").split(";")[0]
            assert kind in ("application/json", "application/octet-stream", "text/plain",
                            "application/jsonl", "application/x-ndjson"), (path, reply)
            assert reply.header("server") is None and reply.header("x-powered-by") is None, reply
    reply = daemon.get("/executions/%s/output" % which).expect(200)
    assert reply.header("content-type") == "application/octet-stream", reply
    assert reply.header("content-disposition", "").startswith("attachment"), reply
    assert reply.body.decode() == evil + "\n"


# --- AP-30: every operation and every wrong type --------------------------------------------------

WRONG = [None, True, False, 0, -1, 1.5, 1 << 70, "", "x", "\u0000", "x" * 70000, [], [[]], [None], {}, {"": ""},
         {"x": {"y": []}}]


def at(ref):
    node = DOCUMENT
    for part in ref.lstrip("#/").split("/"):
        node = node[part]
    return node


def properties(schema):
    """Names of the fields of a body's schema."""
    while "$ref" in schema:
        schema = at(schema["$ref"])
    names = dict(schema.get("properties", {}))
    for part in schema.get("allOf", []) + schema.get("oneOf", []) + schema.get("anyOf", []):
        names.update(properties(part))
    return names


def no_5xx(reply, *what):
    assert reply.status < 500, what + (reply,)
    if reply.status >= 400:
        reply.error


GOOD = {"Request": {"language": "shell", "code": "echo 1"}, "Answer": {"decision": "deny"},
        "RiskInput": {"language": "shell", "code": "echo 1"}}


@pytest.mark.parametrize("method, path, operation", [o for o in OPERATIONS if "requestBody" in o[2]],
                         ids=[o[2]["operationId"] for o in OPERATIONS if "requestBody" in o[2]])
def test_AP_30_wrong_types_in_bodies(daemon, method, path, operation):
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    names = properties(schema)
    assert names, "a body without fields"
    good = dict(GOOD.get(schema.get("$ref", "").rpartition("/")[2], {}))
    wire = daemon.connect()
    try:
        for value in WRONG:
            bodies = [value] + [dict(good, **{name: value}) for name in names]
            bodies += [dict(good, limits={key: value}) for key in LIMITS[1:]] if "limits" in names else []
            bodies += [{name: value for name in names}]
            for body in bodies:
                reply = daemon.ask(method, path.replace("{id}", NO_ID), json.dumps(body).encode(), wire=wire)
                no_5xx(reply, path, body)
                if reply.header("connection") == "close":
                    wire.close()
                    wire = daemon.connect()
    finally:
        wire.close()


TEXTS = ["", "x", "-1", "0", "99999999999999999999", "%00", "%ff", "null", "true", "[]", "x" * 5000, "%", "a=b",
         "..%2f..", "%27%20OR%201=1--", "1.5"]


@pytest.mark.parametrize("method, path, operation", OPERATIONS, ids=[o[2]["operationId"] for o in OPERATIONS])
def test_AP_30_wrong_values_in_queries_and_headers(daemon, method, path, operation):
    def call(target, headers=()):
        headers = list(headers)
        if method == "GET" and path in ("/events", "/executions/{id}/events", "/approvals/ws"):
            with daemon.connect() as wire:
                wire.send(request_bytes(method, API + target, None, headers))
                status, got = wire.head()
                assert status < 500, (target, status)
            return
        body = b'{"language":"shell"}' if method == "POST" else None
        no_5xx(daemon.ask(method, target, body, headers=headers), target, headers)

    base = path.replace("{id}", NO_ID)
    names = [p.get("name") or at(p["$ref"])["name"] for p in operation.get("parameters", [])
             if (p if "in" in p else at(p["$ref"]))["in"] == "query"]
    for value in TEXTS:
        for name in names + ["nonsense"]:
            call("%s?%s=%s" % (base, name, value))
        if "{id}" in path:
            call(path.replace("{id}", value.replace("/", "")))
        for name in ("Idempotency-Key", "Last-Event-ID", "traceparent", "Accept", "If-None-Match", "Range"):
            call(base, [(name, value)])


def test_AP_22_errors_tell_nothing_of_the_inside(daemon, impatient):
    """After all the tests above: of every refusal that was seen."""
    seen = daemon.errors + impatient.errors
    assert len(seen) > 1000
    inside = [str(brigd.ROOT), str(daemon.place), "/proc/", "/usr/", "/var/", "/home/", "/root", "0x7f", "0x5",
              ".c:", "errno", "sqlite", "jansson", "microhttpd", "segfault", "brig_" + "0", daemon.admin(),
              "pid %d" % daemon.pid, "/tmp/"]
    for reply in seen:
        shown = reply.body.decode("utf-8").lower()
        for word in inside:
            assert word.lower() not in shown, (word, reply)
        assert len(reply.body) < 4096 and "<html" not in shown, reply
