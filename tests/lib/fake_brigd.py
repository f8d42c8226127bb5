# SPDX-License-Identifier: Apache-2.0
"""A daemon that is none: canned answers on a unix socket or on TCP, and what it was asked.

Each connection gets one answer and is closed. A handler takes a Request and gives bytes to send as
they are, or a list of what is sent one after the other: bytes, seconds to wait, functions that give
either when it is their turn.
"""
import json
import os
import socket
import threading
import time

PREFIX = "/api/v1"


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        self.path, _, self.query = target.partition("?")
        assert self.path.startswith(PREFIX), target
        self.path = self.path[len(PREFIX):]

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))

    @property
    def parameters(self):
        return dict(part.split("=", 1) for part in self.query.split("&") if part)

    def __repr__(self):
        return "%s %s?%s %r" % (self.method, self.path, self.query, self.body[:200])


def reply(status, body=b"", headers=(), kind="application/json", chunked=0):
    """The bytes of an answer; `chunked`: in pieces of that size."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode("utf-8")
    lines = ["HTTP/1.1 %d X" % status, "Content-Type: " + kind]
    lines += ["%s: %s" % pair for pair in headers]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
        pieces = [body[i:i + chunked] for i in range(0, len(body), chunked)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
    else:
        lines.append("Content-Length: %d" % len(body))
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def error(status, code, cause="it is so", remedy="", headers=()):
    return reply(status, {"error": {"code": code, "cause": cause, "remedy": remedy, "field": None}},
                 headers)


def events(*rows, end=True):
    """An answer of server-sent events: (name, value) pairs."""
    text = "".join("id: %d\nevent: %s\ndata: %s\n\n" % (i, name, json.dumps(value))
                   for i, (name, value) in enumerate(rows, 1))
    body = text.encode("utf-8")
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + (b"0\r\n\r\n" if end else b""))


class FakeBrigd:
    """Serves until closed. `answers`: (method, path) -> answer, or a function of the request."""

    def __init__(self, path=None):
        self.path, self.answers, self.asked = path, {}, []
        self.closed = False
        if path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.bind(str(path))
            os.chmod(path, 0o777)
            self.where = "unix:%s" % path
        else:
            self.socket = socket.create_server(("127.0.0.1", 0))
            self.where = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.socket.listen(16)
        self.threads = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def on(self, method, path, answer):
        self.answers[method, path] = answer
        return self

    def of(self, method, path=None):
        return [r for r in self.asked if r.method == method and path in (None, r.path)]

    def serve(self):
        while not self.closed:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.one, args=(connection,), daemon=True)
            self.threads.append(thread)
            thread.start()

    @staticmethod
    def read_request(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return None
            data += chunk
        head, body = data.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            chunk = connection.recv(65536)
            if not chunk:
                return None
            body += chunk
        method, target, _version = first.split(" ")
        return Request(method, target, headers, body)

    def one(self, connection):
        with connection:
            try:
                request = self.read_request(connection)
                if request is None:
                    return
                self.asked.append(request)
                answer = self.answers.get((request.method, request.path))
                if callable(answer):
                    answer = answer(request)
                elif answer is None:
                    answer = error(404, "not_found", "no such route")
                for piece in answer if isinstance(answer, list) else [answer]:
                    if callable(piece):
                        piece = piece()
                    if isinstance(piece, (int, float)):
                        time.sleep(piece)
                    elif piece is not None:
                        connection.sendall(piece)
            except OSError:
                pass

    def close(self):
        self.closed = True
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
        self.thread.join(10)
        for thread in self.threads:
            thread.join(10)
        if self.path:
            os.unlink(self.path)
