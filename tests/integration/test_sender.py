# SPDX-License-Identifier: Apache-2.0
"""brig-send, spoken to as brigd does; and webhooks and traces over it, without a daemon."""
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BRIG_BUILD", ROOT / "build"))
SEND = BUILD / "src" / "send" / "brig-send"
DRIVER = BUILD / "tests" / "lib" / "hook_driver"

HEAD = struct.Struct("=IIQII")
ANSWER = struct.Struct("=QII112s")
FRAME_MAX = 1 << 20
TRANSFERS_MAX = 64
WAIT_S = 40
LEAVE_S = WAIT_S / 4
SECRET = b"0123456789abcdef0123456789abcdef"


class Receiver:
    """An HTTP server whose `answer(n, request)` says what to do with the nth request (from 0)."""

    def __init__(self, answer=None, tls=None):
        self.answer = answer or (lambda n, request: 200)
        self.seen, self.lock = [], threading.Condition()
        self.open = threading.Event()  # held requests go on
        self.now = self.most = 0       # requests at once
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                receiver.handle(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = "http%s://127.0.0.1:%d/hook" % ("s" if tls else "", self.port)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def handle(self, handler):
        # The handler serves the next request of the connection, too.
        request = types.SimpleNamespace(
            path=handler.path, headers=handler.headers, time=time.monotonic(),
            body=handler.rfile.read(int(handler.headers.get("Content-Length", 0))))
        with self.lock:
            n = len(self.seen)
            self.seen.append(request)
            self.now += 1
            self.most = max(self.most, self.now)
            self.lock.notify_all()
        try:
            what = self.answer(n, request)
            if what == "hold":
                self.open.wait(WAIT_S)
                what = 200
        finally:
            with self.lock:
                self.now -= 1
        if what == "close":
            handler.close_connection = True
            return
        if what == "endless":
            self.endless(handler, request)
            return
        status, headers = what if isinstance(what, tuple) else (what, {})
        with contextlib.suppress(OSError):
            handler.send_response(status)
            for item in dict({"Content-Length": "0"}, **headers).items():
                handler.send_header(*item)
            handler.end_headers()

    @staticmethod
    def endless(handler, request):
        handler.close_connection = True
        request.sent, request.over = 0, False
        with contextlib.suppress(OSError):
            handler.send_response(200)
            handler.end_headers()
            while request.sent < 256 << 20:
                request.sent += handler.connection.send(b"x" * 65536)
        request.over = True

    def wait(self, n, seconds=WAIT_S):
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.seen) >= n, seconds), len(self.seen)
            return list(self.seen)

    def close(self):
        self.open.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver(residue):
    """Makes receivers; all are closed at the end."""
    made = []

    def make(*args, **kw):
        made.append(Receiver(*args, **kw))
        return made[-1]

    yield make
    for r in made:
        r.close()


def frame(url, body=b"", headers=(), ident=1, timeout_ms=20000):
    texts = b"".join(t.encode() + b"\0" for t in (url, *headers))
    return HEAD.pack(HEAD.size + len(texts) + len(body), timeout_ms, ident, len(headers),
                     len(body)) + texts + body


class Send:
    """One brig-send and its socket."""

    def __init__(self, env=None, user=None):
        drop = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(WAIT_S)
        # fd 3 by way of bash: Python's own low descriptors may be in the way.
        self.proc = subprocess.Popen(
            drop + ["/bin/bash", "-c", 'exec "$0" 3<&%d %d<&-' % (theirs.fileno(), theirs.fileno()), str(SEND)],
            pass_fds=[theirs.fileno()], env=dict({"PATH": os.environ["PATH"]}, **(env or {})), stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        theirs.close()

    def ask(self, *args, **kw):
        self.sock.sendall(frame(*args, **kw))

    def answer(self):
        data = b""
        while len(data) < ANSWER.size:
            chunk = self.sock.recv(ANSWER.size - len(data))
            assert chunk, "brig-send left"
            data += chunk
        ident, status, after, error = ANSWER.unpack(data)
        return ident, status, after, error.rstrip(b"\0").decode("ascii")

    def post(self, *args, **kw):
        self.ask(*args, **kw)
        return self.answer()[1:]

    def end(self, seconds):
        self.sock.close()
        return self.proc.wait(seconds)


@pytest.fixture
def send(residue):
    made = []

    def make(**kw):
        made.append(Send(**kw))
        return made[-1]

    yield make
    for s in made:
        s.sock.close()
        s.proc.communicate(timeout=WAIT_S)


def test_a_post_arrives_as_it_was_told(send, receiver):
    r = receiver(lambda n, request: 202)
    body = bytes(range(256)) * 16
    assert send().post(r.url, body, ["Content-Type: application/json", "Brig-X: y z"]) == (202, 0, "")
    (seen,) = r.seen
    assert seen.path == "/hook" and seen.body == body
    assert seen.headers["Content-Type"] == "application/json" and seen.headers["Brig-X"] == "y z"
    assert seen.headers["User-Agent"].startswith("brig/") and "Expect" not in seen.headers


def test_a_frame_of_the_largest_size_passes(send, receiver):
    r = receiver()
    body = b"x" * (FRAME_MAX - HEAD.size - len(r.url) - 1)
    assert send().post(r.url, body) == (200, 0, "")
    assert r.seen[0].body == body


def test_what_gets_no_answer_is_told_with_a_reason(send, receiver):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d/" % free.getsockname()[1]  # bound, but nobody listens
        status, after, error = send().post(url)
    assert (status, after) == (0, 0) and "connect" in error.lower()
    r = receiver(lambda n, request: "close")
    status, _, error = send().post(r.url)
    assert status == 0 and error
    r = receiver(lambda n, request: "hold")
    status, _, error = send().post(r.url, timeout_ms=300)
    assert status == 0 and "timed out" in error.lower()


def test_redirects_are_not_followed(send, receiver):
    other = receiver()
    r = receiver(lambda n, request: (307, {"Location": other.url}))
    assert send().post(r.url, b"x")[0] == 307
    assert len(r.seen) == 1 and not other.seen


def test_retry_after_is_passed_on(send, receiver):
    answers = [(429, {"Retry-After": "7"}), (503, {"Retry-After": "-1"}), (503, {})]
    r = receiver(lambda n, request: answers[n])
    s = send()
    assert [s.post(r.url)[:2] for _ in answers] == [(429, 7), (503, 0), (503, 0)]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:1/x",
                                 "dict://127.0.0.1:1/", "scp://127.0.0.1/x", "smtp://127.0.0.1/"])
def test_only_http_is_spoken(send, url):
    status, _, error = send().post(url, timeout_ms=3000)
    assert status == 0 and "disabled" in error


@pytest.mark.parametrize("url", ["", "http://", "\x01", "http://\x1b[31m/", "http://a:99999/", "x" * 4000])
def test_a_url_that_is_none_is_told_in_printable_words(send, url):
    status, _, error = send().post(url, timeout_ms=3000)
    assert status == 0 and error and all(" " <= c <= "~" for c in error)


def test_an_endless_answer_is_cut(send, receiver):
    r = receiver(lambda n, request: "endless")
    assert send().post(r.url) == (200, 0, "")
    end = time.monotonic() + WAIT_S
    while not r.seen[0].over and time.monotonic() < end:
        time.sleep(0.01)
    assert r.seen[0].over and r.seen[0].sent < 64 << 20  # what lay in the sockets, and no more


def test_a_certificate_that_nobody_vouches_for_is_refused(send, receiver, place):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", place / "key", "-out", place / "cert"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(place / "cert", place / "key")
    r = receiver(tls=tls)
    status, _, error = send().post(r.url, b"secret")
    assert status == 0 and "certificate" in error.lower(), error
    assert not r.seen
    # The server itself is good: who trusts the certificate gets through.
    trust = ssl.create_default_context(cafile=place / "cert")
    with socket.create_connection(("127.0.0.1", r.port)) as raw:
        with trust.wrap_socket(raw, server_hostname="127.0.0.1") as s:
            s.sendall(b"POST / HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
            assert b" 200 " in s.recv(4096)


def test_no_proxy_comes_from_the_environment(send, receiver):
    proxy, r = receiver(), receiver()
    at = "http://127.0.0.1:%d" % proxy.port
    env = {name: at for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")}
    assert send(env=env).post(r.url)[0] == 200
    assert len(r.seen) == 1 and not proxy.seen


def test_it_leaves_with_its_socket_whatever_is_under_way(send, receiver):
    r = receiver(lambda n, request: "hold")
    s = send()
    for i in range(TRANSFERS_MAX + 6):  # also while it reads nothing
        s.ask(r.url, ident=i, timeout_ms=60000)
    r.wait(TRANSFERS_MAX)
    assert s.end(LEAVE_S) == 0
    idle = send()
    assert idle.end(LEAVE_S) == 0


def test_at_most_64_at_once_and_the_others_follow(send, receiver):
    r = receiver(lambda n, request: "hold")
    s = send()
    n = TRANSFERS_MAX + 20
    for i in range(n):
        s.ask(r.url, ident=i)
    r.wait(TRANSFERS_MAX)
    time.sleep(0.3)  # would be enough for more
    assert len(r.seen) == TRANSFERS_MAX
    r.open.set()
    answers = sorted(s.answer()[:2] for _ in range(n))
    assert answers == [(i, 200) for i in range(n)]
    assert r.most == TRANSFERS_MAX


GOOD = frame("http://127.0.0.1:1/", b"body", ["A: b"])
BAD_FRAMES = {
    "size below the head": HEAD.pack(HEAD.size - 1, 1, 1, 0, 0),
    "size zero": HEAD.pack(0, 1, 1, 0, 0),
    "larger than the bound": HEAD.pack(FRAME_MAX + 1, 1, 1, 0, 0),
    "body beyond the frame": HEAD.pack(HEAD.size + 4, 1, 1, 0, 5) + b"a\0\0\0",
    "body of four gigabytes": HEAD.pack(HEAD.size + 4, 1, 1, 0, 0xffffffff) + b"a\0\0\0",
    "too many headers": HEAD.pack(HEAD.size + 4, 1, 1, 17, 0) + b"a\0\0\0",
    "headers that are not there": HEAD.pack(HEAD.size + 2, 1, 1, 4, 0) + b"a\0",
    "text after the last header": HEAD.pack(HEAD.size + 4, 1, 1, 0, 0) + b"a\0b\0",
    "no end of the url": HEAD.pack(HEAD.size + 4, 1, 1, 0, 2) + b"ab\0\0",
    "no url": HEAD.pack(HEAD.size, 1, 1, 0, 0),
    "no time": HEAD.pack(HEAD.size + 2, 0, 1, 0, 0) + b"a\0",
    "too much time": HEAD.pack(HEAD.size + 2, 600001, 1, 0, 0) + b"a\0",
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_wrong_frame_ends_it(send, name):
    s = send()
    s.sock.sendall(BAD_FRAMES[name])
    assert s.sock.recv(1) == b""
    assert s.proc.wait(WAIT_S) == 1


def test_frames_may_come_in_pieces(send):
    s = send()
    for i in range(0, len(GOOD), 7):
        s.sock.sendall(GOOD[i:i + 7])
        time.sleep(0.002)
    assert s.answer()[:2] == (1, 0)


def check_rights(pid):
    lines = pathlib.Path("/proc/%d/status" % pid).read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert os.stat("/proc/%d/mem" % pid).st_uid == 0  # not dumpable: its memory is root's
    limits = pathlib.Path("/proc/%d/limits" % pid).read_text().splitlines()
    (core,) = [line for line in limits if "core file" in line]
    assert core.split()[4:6] == ["0", "0"]
    return status


@pytest.mark.needs_root
def test_root_becomes_nobody(send, receiver):
    s = send()
    assert s.post(receiver().url)[0] == 200  # it is past its set-up
    status = check_rights(s.proc.pid)
    assert status["Uid"].split() == ["65534"] * 4 and status["Gid"].split() == ["65534"] * 4
    assert status["Groups"].strip() == "" and int(status["CapBnd"], 16) == 0


@pytest.mark.needs_root
def test_a_user_has_no_rights_either(send, receiver):
    s = send(user="12345")
    assert s.post(receiver().url)[0] == 200
    assert check_rights(s.proc.pid)["Uid"].split() == ["12345"] * 4


class Driver:
    """tests/lib/hook_driver.c"""

    def __init__(self, *args, program=SEND):
        self.logs, self.counted = [], []
        self.lock = threading.Condition()
        self.proc = subprocess.Popen([str(DRIVER), str(program), *map(str, args)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.proc.stdout:
            value = json.loads(line)
            with self.lock:
                (self.logs if "log" in value else self.counted).append(value)
                self.lock.notify_all()

    def tell(self, *words):
        self.proc.stdin.write("\t".join(map(str, words)).encode() + b"\n")
        self.proc.stdin.flush()

    def counts(self):
        with self.lock:
            n = len(self.counted)
            self.tell("counts")
            assert self.lock.wait_for(lambda: len(self.counted) > n, WAIT_S)
            return self.counted[n]

    def until(self, seconds=WAIT_S, **wanted):
        end = time.monotonic() + seconds
        while True:
            counts = self.counts()
            if all(counts[key] == value for key, value in wanted.items()):
                return counts
            assert time.monotonic() < end, (wanted, counts, self.logs)
            time.sleep(0.03)

    def sender_pid(self):
        children = pathlib.Path("/proc/%d/task/%d/children" % (self.proc.pid, self.proc.pid))
        (pid,) = children.read_text().split()
        return int(pid)

    def close(self):
        with contextlib.suppress(OSError):
            self.proc.stdin.close()
        status = self.proc.wait(WAIT_S)
        self.thread.join()
        self.proc.stdout.close()
        return status


@pytest.fixture
def driver(residue, receiver):
    made = []

    def make(*args, **kw):
        made.append(Driver(*args, **kw))
        return made[-1]

    yield make
    for d in made:
        assert d.close() == 0


@pytest.fixture
def secret(place):
    path = place / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


def check_signature(request, key=SECRET):
    """The whole receiver's side, as a user would write it."""
    fields = dict(part.split("=", 1) for part in request.headers["Brig-Signature"].split(","))
    mac = hmac.new(key, fields["t"].encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(mac, fields["v1"])
    assert abs(int(fields["t"]) - time.time()) < 120
    return int(fields["t"])


def test_a_question_is_delivered_and_signed(driver, receiver, secret):
    r = receiver()
    d = driver("hook", r.url, secret, 8, 5000)
    d.tell("approval", "approval.requested", "q1", '{"level":"high"}')
    d.until(delivered=1, queued=0)
    (seen,) = r.seen
    check_signature(seen)
    body = json.loads(seen.body)
    assert body["event"] == seen.headers["Brig-Event"] == "approval.requested"
    assert body["id"] == seen.headers["Brig-Delivery"] and len(body["id"]) == 32
    assert body["approval"]["id"] == "q1" and body["summary"] == {"level": "high"}
    assert seen.headers["Content-Type"] == "application/json"


def test_the_id_of_an_event_is_the_same_in_another_life(driver, receiver):
    r = receiver()
    for _ in range(2):
        d = driver("hook", r.url, "-", 8, 5000)
        d.tell("approval", "approval.requested", "q1", "")
        d.until(delivered=1)
    d.tell("approval", "approval.settled", "q1", "")
    d.until(delivered=2)
    ids = [s.headers["Brig-Delivery"] for s in r.seen]
    assert ids[0] == ids[1] != ids[2]
    assert all("Brig-Signature" not in s.headers for s in r.seen)


def test_the_end_of_a_run_is_delivered_without_its_output(driver, receiver):
    r = receiver()
    d = driver("hook", r.url, "-", 8, 5000)
    d.tell("executions", "run", 1)
    d.until(delivered=1)
    execution = json.loads(r.seen[0].body)["execution"]
    assert execution["execution_id"] == "run000000" and execution["state"] == "finished"
    assert execution["usage"]["wall_ms"] == 7 and b"the-output" not in r.seen[0].body
    assert r.seen[0].headers["Brig-Event"] == "execution.ended"


def test_failures_are_tried_again_later_and_later(driver, receiver, secret):
    r = receiver(lambda n, request: [500, 503, 200][n])
    d = driver("hook", r.url, secret, 8, 5000)
    d.tell("approval", "approval.requested", "q1", "")
    counts = d.until(delivered=1)
    assert counts["retried"] == 2 and counts["queued"] == 0
    a, b, c = r.seen
    assert b.time - a.time > 0.95 and c.time - b.time > 1.95
    assert len({s.headers["Brig-Delivery"] for s in r.seen}) == 1
    assert len({s.body for s in r.seen}) == 1
    times = [check_signature(s) for s in r.seen]
    assert times[0] < times[2]  # each attempt is signed when it is made


@pytest.mark.parametrize("first", ["hold", "close"])
def test_a_receiver_that_hangs_or_hangs_up_is_asked_again(driver, receiver, first):
    r = receiver(lambda n, request: first if n == 0 else 200)
    d = driver("hook", r.url, "-", 8, 300)
    d.tell("approval", "approval.requested", "q1", "")
    assert d.until(delivered=1)["retried"] == 1


@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_refusal_is_not_tried_again(driver, receiver, status):
    r = receiver(lambda n, request: status)
    d = driver("hook", r.url, "-", 8, 5000)
    d.tell("approval", "approval.requested", "q1", "")
    assert d.until(queued=0, refused=1)["retried"] == 0
    assert len(r.seen) == 1


def test_redirects_of_webhooks_are_not_followed(driver, receiver):
    other = receiver()
    r = receiver(lambda n, request: (302, {"Location": other.url}) if n == 0 else 200)
    d = driver("hook", r.url, "-", 8, 5000)
    d.tell("approval", "approval.requested", "q1", "")
    assert d.until(delivered=1)["retried"] == 1
    assert not other.seen


def test_a_receiver_that_says_when_is_asked_then(driver, receiver):
    r = receiver(lambda n, request: (429, {"Retry-After": "3"}) if n == 0 else 200)
    d = driver("hook", r.url, "-", 8, 5000)
    d.tell("approval", "approval.requested", "q1", "")
    d.until(delivered=1)
    assert r.seen[1].time - r.seen[0].time > 2.9


def test_the_last_attempt_is_the_last(driver, receiver):
    r = receiver(lambda n, request: 500)
    d = driver("hook", r.url + "?token=hidden", "-", 2, 5000)
    d.tell("approval", "approval.requested", "q1", "")
    assert d.until(queued=0)["given_up"] == 1
    assert len(r.seen) == 2
    (line,) = [value["log"] for value in d.logs]
    assert "HTTP 500" in line and "approval.requested" in line and "hidden" not in line


def test_when_brig_send_is_killed_nothing_is_lost(driver, receiver):
    held = threading.Event()

    def answer(n, request):
        if n < 4:
            held.set()
            return "hold"
        return 200

    r = receiver(answer)
    d = driver("hook", r.url, "-", 1, 30000)  # one attempt: it is the sender that sends again
    d.tell("executions", "run", 40)
    r.wait(4)
    os.kill(d.sender_pid(), signal.SIGKILL)
    counts = d.until(delivered=40, queued=0)
    assert counts["starts"] == 2 and counts["given_up"] == 0 and counts["waiting"] == 0
    assert len({s.headers["Brig-Delivery"] for s in r.seen}) == 40
    os.kill(d.sender_pid(), signal.SIGKILL)  # idle: it is started when it is needed
    d.tell("executions", "more", 1)
    assert d.until(delivered=41)["starts"] == 3


def test_a_brig_send_that_cannot_live_is_not_waited_for_ever(driver, receiver):
    d = driver("hook", receiver().url, "-", 1, 5000, program="/bin/false")
    d.tell("approval", "approval.requested", "q1", "")
    counts = d.until(queued=0)
    assert counts["given_up"] == 1 and counts["starts"] >= 3
    assert any("brig-send ended" in value["log"] for value in d.logs)


def test_a_full_queue_drops_the_oldest_ends_of_runs_and_keeps_questions(driver, receiver):
    r = receiver(lambda n, request: "hold")
    d = driver("hook", r.url, "-", 8, 60000)
    d.tell("executions", "first", 4)  # under way: these stay, so that the question waits
    d.tell("approval", "approval.requested", "old", "")
    d.tell("executions", "run", 2000)
    d.tell("approval", "approval.requested", "new", "")
    counts = d.counts()
    assert counts["queued"] == 1024 and counts["dropped"] == 2006 - 1024
    assert counts["waiting"] <= 4
    r.open.set()
    d.until(delivered=1024, queued=0)
    bodies = [json.loads(s.body) for s in r.seen]
    assert {b["approval"]["id"] for b in bodies if "approval" in b} == {"old", "new"}
    runs = sorted(b["execution"]["execution_id"] for b in bodies if "execution" in b)
    assert runs[-1000:] == ["run%06d" % i for i in range(1000, 2000)]


def test_questions_give_way_to_questions_only(driver, receiver):
    r = receiver(lambda n, request: "hold")
    d = driver("hook", r.url, "-", 8, 60000)
    for i in range(1030):
        d.tell("approval", "approval.requested", "q%d" % i, "")
    d.tell("executions", "run", 5)
    assert d.counts()["dropped"] == 6 + 5
    r.open.set()
    d.until(delivered=1024, queued=0)
    ids = {json.loads(s.body)["approval"]["id"] for s in r.seen}
    assert "q1029" in ids and "q0" in ids  # the first were under way


def test_what_is_told_again_while_it_waits_is_delivered_once(driver, receiver):
    r = receiver(lambda n, request: "hold")
    d = driver("hook", r.url, "-", 8, 60000)
    for _ in range(3):
        d.tell("approval", "approval.requested", "q1", "")
    assert d.counts()["queued"] == 1
    r.open.set()
    d.until(delivered=1, queued=0)


def test_a_dead_receiver_does_not_hold_up_another(driver, receiver):
    dead, good = receiver(lambda n, request: "hold"), receiver()
    d = driver("hook", dead.url, "-", 8, 60000, "hook", good.url, "-", 8, 5000)
    d.tell("executions", "run", 100)
    d.until(delivered=100, queued=100)
    assert len(good.seen) == 100 and len(dead.seen) == 4


def test_a_secret_that_others_can_read_stops_the_start(receiver, secret):
    secret.chmod(0o644)
    done = subprocess.run([str(DRIVER), str(SEND), "hook", "http://127.0.0.1:1/", str(secret), "8", "1"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=WAIT_S, check=False)
    assert done.returncode == 1 and b"others could know it" in done.stdout
    assert SECRET not in done.stdout


def spans_of(request):
    (resource,) = json.loads(request.body)["resourceSpans"]
    return resource["scopeSpans"][0]["spans"]


def test_a_run_is_one_trace(driver, receiver):
    r = receiver()
    d = driver("otlp", r.url[:-len("/hook")] + "/")
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    d.tell("jobs", 1, "00-%s-%s-01" % (trace, parent))
    d.tell("jobs", 1, "00-%s-%s-01x" % (trace, parent))
    d.until(spans=12, spans_queued=0)
    assert {s.path for s in r.seen} == {"/v1/traces"}
    spans = [span for s in r.seen for span in spans_of(s)]
    root, other = [span for span in spans if span["name"] == "brig.execute"]
    assert (root["traceId"], root["parentSpanId"]) == (trace, parent)
    assert other["traceId"] != trace and "parentSpanId" not in other
    children = [span for span in spans if span.get("parentSpanId") == root["spanId"]]
    assert [span["name"] for span in children] == ["analyse", "decide", "confirm", "route", "execute"]
    assert len({span["spanId"] for span in spans}) == 12
    for span in spans:
        assert abs(int(span["startTimeUnixNano"]) / 1e9 - time.time()) < 120
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    attributes = {a["key"]: a["value"] for a in root["attributes"]}
    assert attributes["brig.execution.id"] == {"stringValue": "the-job"}
    assert attributes["brig.risk.level"] == {"stringValue": "low"}


def test_spans_go_in_batches(driver, receiver):
    r = receiver()
    d = driver("otlp", r.url)
    d.tell("jobs", 50)
    d.until(spans=300, spans_queued=0)
    sizes = [len(spans_of(s)) for s in r.seen]
    assert sum(sizes) == 300 and max(sizes) == 64


def test_batches_are_tried_again_when_that_may_help(driver, receiver):
    r = receiver(lambda n, request: [503, 200, 400][n])
    d = driver("otlp", r.url)
    d.tell("jobs", 1)
    d.tell("flush")
    assert d.until(spans=6)["batches_retried"] == 1
    d.tell("jobs", 1)
    d.until(spans_dropped=6, spans_queued=0, spans=6)
    assert len(r.seen) == 3


def test_spans_beyond_the_queue_are_dropped_and_counted(driver, receiver):
    r = receiver(lambda n, request: "hold")
    d = driver("otlp", r.url)
    d.tell("jobs", 1000)
    counts = d.counts()
    assert counts["spans_queued"] <= 4096 + 4 * 64 and counts["spans_queued"] > 4000
    assert counts["spans_queued"] + counts["spans_dropped"] == 6000
    r.open.set()
    d.until(spans=counts["spans_queued"], spans_queued=0)
