# SPDX-License-Identifier: Apache-2.0
"""brigd for tests: started on a state directory of its own, spoken to byte by byte.

Nothing here forgives: an answer that is not HTTP, a stream without its end or a daemon that leaves
something behind is an AssertionError.
"""
import base64
import collections
import contextlib
import glob
import hashlib
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

LIB = pathlib.Path(__file__).resolve().parent
ROOT = LIB.parents[1]
BRIG = os.environ.get("BRIG", str(ROOT / "out" / "bin" / "brig"))
BRIGD = os.environ.get("BRIGD", str(pathlib.Path(BRIG).with_name("brigd")))
SANITIZED = os.path.exists(BRIGD) and b"__asan_" in pathlib.Path(BRIGD).read_bytes()
ALLOW, ASK = LIB / "allow.yaml", LIB / "ask.yaml"
API = "/api/v1"
USER_ID = int(os.environ.get("BRIG_TEST_UID", "12345"))
WAIT_S = 40          # for anything that must come; a busy machine with sanitizers is slow
ID = "[0-9a-hjkmnp-tv-z]{26}"
NO_ID = "0" * 26     # of the right form, and nobody's
WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KNOWN = set()        # children that are waited for by whoever started them
STATUS_KEYS = {"execution_id", "state", "done", "language", "caller", "created", "approval_id",
               "session_id"}


def until(condition, what, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "not in time: " + what
        time.sleep(0.02)


def as_user(uid=USER_ID):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]


def free_port():
    """Nobody's at the moment, nor the kernel's to give to the next that connects somewhere."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(max(low - 20000, 1024), low), 100):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("0.0.0.0", port))
            return port
    raise AssertionError("no port is free")


# --- HTTP -----------------------------------------------------------------------------------------

class Closed(Exception):
    """The other side ended the connection where more was due."""


class Reply:
    """One answer. Header names are in lower case."""

    def __init__(self, status, headers, body, chunked=False):
        self.status, self.headers, self.body, self.chunked = status, headers, body, chunked

    def __repr__(self):
        return "%d %r %.1500r" % (self.status, self.headers, self.body)

    def header(self, name, default=None):
        values = [v for n, v in self.headers if n == name.lower()]
        assert len(values) <= 1, "%s comes %d times" % (name, len(values))
        return values[0] if values else default

    @property
    def json(self):
        try:
            return json.loads(self.body.decode("utf-8"))
        except ValueError as error:
            raise AssertionError("not JSON: %s: %r" % (error, self))

    def expect(self, status=200):
        wanted = status if isinstance(status, (tuple, list, set, range)) else (status,)
        assert self.status in wanted, self
        return self

    @property
    def error(self):
        """The error, which has exactly the documented form."""
        assert self.status >= 400, self
        assert self.header("content-type", "").split(";")[0] == "application/json", self
        whole = self.json
        assert isinstance(whole, dict) and set(whole) == {"error"}, self
        error = whole["error"]
        assert set(error) == {"code", "cause", "remedy", "field"}, self
        assert isinstance(error["code"], str) and error["code"], self
        assert isinstance(error["cause"], str) and error["cause"], self
        assert isinstance(error["remedy"], str), self
        assert error["field"] is None or isinstance(error["field"], str), self
        return error

    def refused(self, status, code=None, field=None):
        error = self.expect(status).error
        assert code is None or error["code"] == code, self
        assert field is None or error["field"] == field, self
        return error


Event = collections.namedtuple("Event", "id name data")


class Wire:
    """A connection that sends any bytes and reads answers."""

    def __init__(self, sock, timeout=WAIT_S):
        self.sock, self.rest = sock, b""
        sock.settimeout(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def abort(self):
        """Ends it by a reset where the protocol has one."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def try_send(self, data):
        """For data that the other side may refuse before it has all of it."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def more(self):
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed("after %.200r" % self.rest)
        self.rest += data

    def line(self):
        while b"\r\n" not in self.rest:
            self.more()
        line, self.rest = self.rest.split(b"\r\n", 1)
        return line

    def exactly(self, n):
        parts, have = [self.rest], len(self.rest)
        while have < n:
            self.rest = b""
            self.more()
            parts.append(self.rest)
            have += len(self.rest)
        whole = b"".join(parts)
        self.rest = whole[n:]
        return whole[:n]

    def head(self):
        """Status line and headers of an answer."""
        words = self.line().split(b" ", 2)
        assert words[0] in (b"HTTP/1.1", b"HTTP/1.0") and len(words) >= 2, words
        headers = []
        while True:
            line = self.line()
            if not line:
                return int(words[1]), headers
            name, colon, value = line.partition(b":")
            assert colon and name == name.strip(), line
            headers.append((name.decode("ascii").lower(), value.strip().decode("utf-8")))

    def chunk(self):
        """b"" at the end."""
        size = int(self.line().split(b";")[0], 16)
        data = self.exactly(size)
        assert self.exactly(2) == b"\r\n"
        return data

    def reply(self, method="GET"):
        status, headers = self.head()
        while status == 100:
            status, headers = self.head()
        table = dict(headers)
        if method == "HEAD" or status in (101, 204, 304):
            return Reply(status, headers, b"")
        if table.get("transfer-encoding") == "chunked":
            body = b"".join(iter(self.chunk, b""))
            return Reply(status, headers, body, chunked=True)
        if "content-length" in table:
            return Reply(status, headers, self.exactly(int(table["content-length"])))
        return Reply(status, headers, self.to_end())

    def to_end(self):
        """All that comes until the connection is over."""
        with contextlib.suppress(Closed):
            while True:
                self.more()
        data, self.rest = self.rest, b""
        return data

    def is_over(self, seconds=WAIT_S):
        """Ends within that time, whatever else it says before."""
        end, limit = time.monotonic() + seconds, self.sock.gettimeout()
        try:
            while True:
                self.sock.settimeout(max(0.01, end - time.monotonic()))
                try:
                    if not self.sock.recv(1 << 16):
                        return True
                except (ConnectionResetError, BrokenPipeError):
                    return True
                except (TimeoutError, socket.timeout):
                    return False
                if time.monotonic() > end:
                    return False
        finally:
            self.sock.settimeout(limit)

    def events(self):
        """Server-sent events of an answer whose head was read; ends with the stream."""
        text = b""
        for data in iter(self.chunk, b""):
            text += data
            while b"\n\n" in text:
                block, text = text.split(b"\n\n", 1)
                fields = {}
                for line in block.split(b"\n"):
                    if line.startswith(b":") or not line:
                        continue
                    name, _, value = line.partition(b":")
                    value = value[1:] if value.startswith(b" ") else value
                    name = name.decode()
                    assert name in ("id", "event", "data", "retry"), block
                    fields[name] = fields[name] + b"\n" + value if name in fields else value
                if "data" in fields:
                    yield Event(fields["id"].decode() if "id" in fields else None,
                                fields.get("event", b"message").decode(),
                                json.loads(fields["data"].decode("utf-8")))
        assert not text.strip(), "half an event: %r" % text


def request_bytes(method, path, body=None, headers=(), host="localhost", kind="application/json"):
    """A correct request. `body`: bytes, or what becomes JSON; host or kind None: not sent."""
    lines = ["%s %s HTTP/1.1" % (method, path)]
    if host is not None:
        lines.append("Host: " + host)
    if body is not None:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines.append("Content-Length: %d" % len(body))
        if kind is not None and not any(n.lower() == "content-type" for n, _ in headers):
            lines.append("Content-Type: " + kind)
    lines += ["%s: %s" % pair for pair in headers]
    return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + (body or b"")


# --- WebSocket ------------------------------------------------------------------------------------

TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0
Frame = collections.namedtuple("Frame", "fin rsv opcode payload")


def ws_headers(key="dGhlIHNhbXBsZSBub25jZQ=="):
    return [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key)]


def ws_frame(payload=b"", opcode=TEXT, fin=True, rsv=0, masked=True, length=None):
    """A frame as a client sends it; `length`: another than the payload's, in 8 bytes."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    mask = 0x80 if masked else 0
    if length is not None:
        size = struct.pack("!BQ", mask | 127, length)
    elif len(payload) < 126:
        size = struct.pack("!B", mask | len(payload))
    elif len(payload) < 1 << 16:
        size = struct.pack("!BH", mask | 126, len(payload))
    else:
        size = struct.pack("!BQ", mask | 127, len(payload))
    if not masked:
        return bytes([first]) + size + payload
    key = b"\x37\xfa\x21\x3d"
    pad = (key * (len(payload) // 4 + 1))[:len(payload)]
    mixed = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(
        len(payload), "big") if payload else b""
    return bytes([first]) + size + key + mixed


class WebSocket:
    """A client after a correct handshake."""

    def __init__(self, wire):
        self.wire = wire

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()

    def send(self, value):
        self.wire.send(ws_frame(json.dumps(value).encode()))

    def frame(self):
        first, size = self.wire.exactly(2)
        assert not size & 0x80, "a server must not mask"
        size &= 0x7f
        if size >= 126:
            size = int.from_bytes(self.wire.exactly(2 if size == 126 else 8), "big")
        return Frame(bool(first & 0x80), first >> 4 & 7, first & 15, self.wire.exactly(size))

    def message(self):
        """The next one, as JSON; pings are answered on the way."""
        text = b""
        while True:
            f = self.frame()
            assert f.rsv == 0, f
            if f.opcode == PING:
                self.wire.send(ws_frame(f.payload, PONG))
            elif f.opcode == CLOSE:
                raise Closed("close %r" % f.payload)
            elif f.opcode != PONG:
                text += f.payload
                if f.fin:
                    return json.loads(text.decode("utf-8"))

    def until(self, wanted):
        """The next message for which wanted(message) holds; others are passed over."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            m = self.message()
            if wanted(m):
                return m
        raise AssertionError("no such message")

    def closed_with(self):
        """The code of the close frame (None: the connection just ended)."""
        try:
            while True:
                f = self.frame()
                if f.opcode == CLOSE:
                    return int.from_bytes(f.payload[:2], "big") if f.payload else 1005
        except Closed:
            return None


# --- the daemon -----------------------------------------------------------------------------------

class Daemon:
    """A brigd on its own state directory, with a unix socket and (by default) a TCP port."""

    def __init__(self, user=False, policy=ALLOW, config=None, tcp=True, args=(), env=None,
                 place=None, wrapper=()):
        self.user = user or os.geteuid() != 0
        self.own_place = place is None
        self.place = pathlib.Path(place or tempfile.mkdtemp(prefix="it-brigd-"))
        self.place.chmod(0o755)
        self.state, self.socket = self.place / "state", self.place / "brigd.sock"
        if not self.state.exists():
            self.state.mkdir(mode=0o700)
        self.drop = as_user() if user and os.geteuid() == 0 else []
        if self.drop:
            os.chown(self.state, USER_ID, USER_ID)
            os.chown(self.place, USER_ID, USER_ID)
        self.port = free_port() if tcp else None
        self.config, self.policy, self.args = config or {}, policy, list(args)
        self.env, self.wrapper, self.proc = env or {}, list(wrapper), None
        self.log = self.place / "log"
        self.tokens, self.errors = {}, []
        self.mounts, self.temps = host_mounts(), host_temps()

    # .. life

    def argv(self):
        argv = [BRIGD, "--state-dir", str(self.state)]
        if self.config is not None:
            path = self.place / "brigd.yaml"
            path.write_text(json.dumps(self.config))  # JSON is YAML
            path.chmod(0o644)
            argv += ["--config", str(path)]
        if self.policy:
            argv += ["--policy", str(self.policy)]
        argv += ["--socket", str(self.socket)]
        if self.port:
            argv += ["--listen", "127.0.0.1:%d" % self.port]
        return self.drop + self.wrapper + argv + [str(a) for a in self.args]

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("BRIG_", "BRIGD_"))}
        env.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8")  # else memory seems to grow
        return dict(env, **self.env)

    def start(self, ready=True, **kw):
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(self.argv(), stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=log, env=self.environment(), **kw)
        KNOWN.add(self.proc.pid)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self):
        def is_ready():
            assert self.proc.poll() is None, "it ended: %d\n%s" % (self.proc.returncode, self.logged)
            try:
                return self.get("/ready").status == 200
            except (OSError, Closed):
                return False
        until(is_ready, "ready\n" + self.logged)

    @property
    def logged(self):
        return self.log.read_text("utf-8", "replace")

    @property
    def pid(self):
        return self.proc.pid

    def stop(self, status=0, number=signal.SIGTERM, seconds=WAIT_S):
        """Ends it as an operator does, and looks for what it left."""
        mine = {pid for pid, _ in descendants(self.pid)}
        if self.proc.poll() is None:
            self.proc.send_signal(number)
        try:
            got = self.wait(seconds)
        except AssertionError:
            self.kill()
            raise
        assert got == status, "status %d\n%s" % (got, self.logged)
        assert not self.socket.exists() or self.wrapper, "the socket is still there"
        until(lambda: not [p for p in mine if alive(p)], "its processes are gone", 10)
        gone(empty_cgroups, set(), "cgroups")
        gone(host_mounts, self.mounts, "mounts")
        gone(host_temps, self.temps, "temporary files")
        for bad in ("AddressSanitizer", "LeakSanitizer", "runtime error:"):
            assert bad not in self.logged, self.logged[-6000:]

    def wait(self, seconds=WAIT_S):
        """Its status. Orphans come to the tests' process, which has to wait for them."""
        end = time.monotonic() + seconds
        while self.proc.poll() is None:
            assert time.monotonic() < end, "it does not end\n" + self.logged[-4000:]
            reap_orphans()
            time.sleep(0.02)
        reap_orphans()
        return self.proc.returncode

    def kill(self):
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.wait()

    def clean(self):
        self.kill()
        if self.own_place:
            shutil.rmtree(self.place, ignore_errors=True)

    # .. how it is

    def status_kb(self, key):
        for line in pathlib.Path("/proc/%d/status" % self.pid).read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1])
        raise AssertionError(key)

    def rss(self):
        """Bytes; always 0 under the sanitizers, which keep what is freed: there it says nothing."""
        return 0 if SANITIZED else self.status_kb("VmRSS") << 10

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    # .. tokens

    def brig(self, *args, status=0):
        done = subprocess.run(self.drop + [BRIG, *map(str, args), "--state-dir", str(self.state)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment(), timeout=60,
                              check=False)
        assert done.returncode == status, done
        return done.stdout.decode()

    def token(self, name, scope="run", *options):
        """The text of a token; made when there is none of that name."""
        if name not in self.tokens:
            text = self.brig("token", "new", name, "--scope", scope, *options).strip()
            assert text.startswith("brig_") and "\n" not in text, text
            self.tokens[name] = text
        return self.tokens[name]

    def admin(self):
        return self.token("admin", "admin")

    # .. connections

    def connect(self, tcp=False, source=None, timeout=WAIT_S):
        if tcp:
            address = ("127.0.0.1", self.port)
            sock = socket.create_connection(address, timeout, (source, 0) if source else None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            try:
                sock.connect(str(self.socket))
            except OSError:
                sock.close()
                raise
        return Wire(sock, timeout)

    @property
    def tcp_host(self):
        return "127.0.0.1:%d" % self.port

    def ask(self, method, path, body=None, token=None, tcp=False, headers=(), wire=None, source=None,
            raw=False, timeout=WAIT_S, **kw):
        """One request and its answer. `path` is below /api/v1 unless raw."""
        headers = list(headers) + ([("Authorization", "Bearer " + token)] if token else [])
        kw.setdefault("host", self.tcp_host if tcp else "localhost")
        data = request_bytes(method, path if raw else API + path, body, headers, **kw)
        own = wire is None
        wire = wire or self.connect(tcp, source, timeout)
        try:
            if not wire.try_send(data) and not body:
                raise Closed("while sending")
            reply = wire.reply(method)
        finally:
            if own:
                wire.close()
        if reply.status >= 400:
            self.errors.append(reply)
        return reply

    def get(self, path, **kw):
        return self.ask("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.ask("POST", path, body, **kw)

    def delete(self, path, **kw):
        return self.ask("DELETE", path, **kw)

    def stream(self, path, token=None, tcp=False, headers=(), **kw):
        """(wire, its events) of a stream; the caller closes the wire."""
        headers = list(headers) + ([("Authorization", "Bearer " + token)] if token else [])
        wire = self.connect(tcp)
        try:
            wire.send(request_bytes("GET", API + path, None, headers,
                                    self.tcp_host if tcp else "localhost"))
            status, got = wire.head()
            table = dict(got)
            if status != 200:
                body = wire.exactly(int(table.get("content-length", 0)))
                raise AssertionError("no stream: %r" % Reply(status, got, body))
            assert table["content-type"].split(";")[0] == "text/event-stream", got
            assert table["transfer-encoding"] == "chunked", got
        except BaseException:
            wire.close()
            raise
        return wire, wire.events()

    def ws_try(self, path, token=None, tcp=False, headers=None, more=(), host=None, wire=None):
        """(wire, the answer to the handshake)."""
        headers = list(ws_headers() if headers is None else headers) + list(more)
        if token:
            headers.append(("Authorization", "Bearer " + token))
        wire = wire or self.connect(tcp)
        try:
            wire.send(request_bytes("GET", API + path, None, headers, host or (
                self.tcp_host if tcp else "localhost")))
            return wire, wire.reply()
        except BaseException:
            wire.close()
            raise

    def ws(self, path, **kw):
        key = base64.b64encode(os.urandom(16)).decode()
        wire, reply = self.ws_try(path, headers=ws_headers(key), **kw)
        try:
            reply.expect(101)
            accept = base64.b64encode(hashlib.sha1(key.encode() + WS_GUID).digest()).decode()
            assert reply.header("sec-websocket-accept") == accept, reply
            assert reply.header("upgrade", "").lower() == "websocket", reply
            assert reply.header("sec-websocket-extensions") is None, reply
        except BaseException:
            wire.close()
            raise
        return WebSocket(wire)

    # .. what they are for

    @property
    def level(self):
        """Without cgroups of its own a user's daemon cannot give more."""
        return "degraded-ok" if self.user else "standard"

    def request(self, code="print(6*7)", language="python", **fields):
        return dict({"language": language, "code": code, "level": self.level}, **fields)

    def execute(self, code="print(6*7)", language="python", token=None, headers=(), tcp=False,
                timeout=WAIT_S, **fields):
        """The result of a run that is waited for."""
        return self.post("/execute", self.request(code, language, **fields), token=token,
                         headers=headers, tcp=tcp, timeout=timeout).expect(200).json

    def submit(self, code="print(6*7)", language="python", token=None, headers=(), tcp=False,
               **fields):
        """The id of a run that is under way."""
        reply = self.post("/executions", self.request(code, language, **fields), token=token,
                          headers=headers, tcp=tcp).expect((200, 202))
        return reply.json["execution_id"]

    def result(self, which, token=None, wait_ms=WAIT_S * 1000):
        """Of an execution that ends by itself."""
        got = self.get("/executions/%s?wait=%d" % (which, wait_ms), token=token,
                       timeout=wait_ms / 1000 + WAIT_S).expect(200).json
        assert "exit_code" in got, got
        return got

    def status(self, which, token=None):
        return self.get("/executions/" + which, token=token).expect(200).json

    def reach(self, which, state, token=None):
        return until(lambda: self.status(which, token)["state"] == state or None, "state " + state)

    def waiting(self, which):
        """The approval that an execution waits for."""
        return until(lambda: self.status(which).get("approval_id"), "an approval")

    def answer(self, approval, decision="allow", token=None, **fields):
        return self.post("/approvals/" + approval, dict({"decision": decision}, **fields),
                         token=token)

    def rows(self, **query):
        """Of the ledger, all of them."""
        rows, after = [], 0
        while after is not None:
            reply = self.get("/ledger/export?after=%s" % after).expect(200)
            rows += [json.loads(line) for line in reply.body.decode().splitlines()]
            after = reply.header("brig-next")
        return [r for r in rows if all(r[k] == v for k, v in query.items())]

    def states(self, which):
        return [r["name"] for r in self.rows(job=which, kind="state")]

    def verify(self):
        report = self.get("/ledger/verify").expect(200).json
        assert report["ok"] is True, report
        return report


def host_mounts():
    return set(pathlib.Path("/proc/self/mountinfo").read_text().splitlines())


def host_temps():
    """But for the state directories of test runs."""
    return {path for where in ("/tmp/brig-*", "/run/brig*", "/var/tmp/brig*")
            for path in glob.glob(where) if not path.startswith("/tmp/brig-state-")}


def empty_cgroups():
    """Of boxes in which nothing runs: those with tasks may be another suite's."""
    empty = set()
    for path in glob.glob("/sys/fs/cgroup/**/brig/box-*", recursive=True):
        with contextlib.suppress(OSError):
            if not pathlib.Path(path, "cgroup.procs").read_text().strip():
                empty.add(path)
    return empty


def gone(look, before, what):
    """All that is there now goes; what comes later belongs to somebody else."""
    left = look() - before
    end = time.monotonic() + 10
    while left:
        assert time.monotonic() < end, "left behind: %s %r" % (what, sorted(left))
        time.sleep(0.02)
        left &= look()


@contextlib.contextmanager
def no_descriptors_left():
    """For tests that share a daemon, whose processes come and go while they run."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    until(lambda: set(os.listdir("/proc/self/fd")) <= before, "descriptors are closed", 3)


def alive(pid):
    with contextlib.suppress(OSError):
        text = pathlib.Path("/proc/%d/stat" % pid).read_text()
        return text.rpartition(")")[2].split()[0] not in "ZX"
    return False


def descendants(root):
    """(pid, name) of every process below one."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = pathlib.Path(path).read_bytes()
            name = text[text.index(b"(") + 1:text.rindex(b")")].decode("utf-8", "replace")
            parent = int(text[text.rindex(b")") + 2:].split()[1])
            children.setdefault(parent, []).append((int(text.split(b" ", 1)[0]), name))
    found, todo = [], [root]
    while todo:
        for pid, name in children.get(todo.pop(), []):
            found.append((pid, name))
            todo.append(pid)
    return found


def reap_orphans():
    """Waits for dead processes that came to this one when their parents died."""
    for pid, _ in [d for d in descendants(os.getpid()) if d[0] not in KNOWN]:
        with contextlib.suppress(OSError, ValueError):
            text = pathlib.Path("/proc/%d/stat" % pid).read_text()
            state, parent = text.rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                os.waitpid(pid, os.WNOHANG)


def operations():
    """(method, path, operation) of every route, from the daemon's own description of itself."""
    done = subprocess.run([BRIGD, "--openapi"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=True)
    document = json.loads(done.stdout.decode("utf-8"))
    found = []
    for path, item in document["paths"].items():
        path = path[len(API):] if path.startswith(API) else path
        for method, operation in item.items():
            if method in ("get", "put", "post", "delete", "patch", "head", "options", "trace"):
                found.append((method.upper(), path, operation))
    return document, found


@contextlib.contextmanager
def running(**kw):
    """A daemon that is stopped at the end, and must end well."""
    d = Daemon(**kw)
    try:
        d.start()
        yield d
        d.stop()
    finally:
        d.clean()


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes what brigd tells."""
    got = []

    def do_POST(self):
        self.got.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def hook_server():
    """A webhook's address; what comes there is in Hook.got."""
    Hook.got.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield "http://127.0.0.1:%d/" % server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
