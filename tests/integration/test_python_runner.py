# SPDX-License-Identifier: Apache-2.0
"""The runner of Python programs, alone: no box is around it.

`zygote.py run` is started like the interpreter itself. `zygote.py serve` gets a library that forks
on demand and waits for a message with descriptors, which is all that brig's own one does for it.
"""

import array
import ast
import base64
import importlib.util
import json
import os
import pathlib
import random
import re
import socket
import statistics
import struct
import subprocess
import time
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZYGOTE = ROOT / "runtime" / "python" / "zygote.py"
PYTHON = os.environ.get("BRIG_TEST_PYTHON", "/usr/bin/python3")
COMMAND = [PYTHON, "-I", "-B", "-u"]
VERSION = tuple(map(int, subprocess.run(
    COMMAND + ["-c", "import sys; print(*sys.version_info[:2])"],
    stdout=subprocess.PIPE, check=True).stdout.split()))
BOUND_S = 30


def environment(home):
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(home)}


def has_module(name):
    return subprocess.run(COMMAND + ["-c", "import " + name], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def frames(data):
    """All whole frames of a report."""
    found = []
    while data:
        (size,) = struct.unpack("<I", data[:4])
        assert len(data) >= 4 + size, "half a frame: %r" % data[:200]
        found.append(json.loads(data[4:4 + size].decode("utf-8")))
        data = data[4 + size:]
    return found


def is_complete(data):
    """Whether the last whole frame is `done`."""
    while len(data) >= 4:
        size = struct.unpack("<I", data[:4])[0]
        if len(data) < 4 + size:
            return False
        if data[4:4 + size].startswith(b'{"done"'):
            return True
        data = data[4 + size:]
    return False


def read_report(channel):
    """Reads up to `done`, or to the end when there is none."""
    channel.settimeout(BOUND_S)
    data = b""
    while not is_complete(data):
        more = channel.recv(1 << 20)
        if not more:
            break
        data += more
    return data


class Finished:
    """What a program left."""

    def __init__(self, status, out, err, report):
        self.status = status
        self.out = out.decode("utf-8", "surrogateescape")
        self.err = err.decode("utf-8", "surrogateescape")
        self.frames = frames(report)
        self.outputs = [frame["output"] for frame in self.frames if "output" in frame]
        self.done = self.frames[-1].get("done") if self.frames else None

    def __repr__(self):
        return "status %r\nstdout %.2000r\nstderr %.4000r\nframes %.4000r" % (
            self.status, self.out, self.err, self.frames)

    def expect(self, out="", status=0, value=None, err=None):
        """A `done` that agrees with the status of the process, and comes once."""
        assert self.done is not None, self
        assert [list(frame) for frame in self.frames].count(["done"]) == 1, self
        assert self.done["exit"] == self.status == status, self
        assert self.out == out and self.done["value"] == value, self
        assert err is None or self.err == err, self
        return self

    @property
    def error(self):
        return self.done["error"]


def place(folder, code):
    script = folder / "main.py"
    script.write_bytes(code if isinstance(code, bytes) else code.encode("utf-8"))
    return script


@pytest.fixture
def run(tmp_path):
    """Runs a program by `zygote.py run`."""
    def call(code, *arguments, stdin=b""):
        script = place(tmp_path, code)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = subprocess.Popen(
                    COMMAND + [ZYGOTE, "run", str(theirs.fileno()), script, *arguments],
                    stdin=subprocess.PIPE, stdout=open(tmp_path / "out", "wb"), cwd=tmp_path,
                    stderr=open(tmp_path / "err", "wb"), pass_fds=[theirs.fileno()],
                    env=environment(tmp_path))
            process.stdin.write(stdin)
            process.stdin.close()
            report = read_report(ours)
            # All output was written before `done`.
            out, err = (tmp_path / "out").read_bytes(), (tmp_path / "err").read_bytes()
        status = process.wait(BOUND_S)
        return Finished(status, out or (tmp_path / "out").read_bytes(), err, report)
    return call


@pytest.fixture
def bare(tmp_path):
    """Runs a program by the interpreter alone."""
    def call(code, *arguments, stdin=b""):
        return subprocess.run(COMMAND + [place(tmp_path, code), *arguments], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
                              env=environment(tmp_path), timeout=BOUND_S, check=False)
    return call


LIBRARY = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void hook_fn(void);

static int control = -1, hurry;

static int receive(int sock, void *data, size_t size, int *fds, int wanted)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
		struct cmsghdr align;
	} space = { { 0 } };
	struct iovec part = { data, size };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes,
		              .msg_controllen = sizeof(space.bytes) };
	int n = (int)recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	if (n > 0 && (!head || head->cmsg_len != CMSG_LEN(sizeof(int) * (size_t)wanted)))
		return -1;
	if (n > 0)
		memcpy(fds, CMSG_DATA(head), sizeof(int) * (size_t)wanted);
	return n;
}

long brig_wait(char *buf, size_t size)
{
	struct stat st;
	int fds[4], n;
	long word = 0;

	if (send(control, "r", 1, MSG_NOSIGNAL) != 1)
		return -1;
	n = receive(control, buf, size - 32, fds, 4);
	if (n <= 0)
		return n;
	for (int i = 0; i < 3; i++) {
		dup2(fds[i], i);
		close(fds[i]);
		fstat(i, &st);
		word |= (long)(S_ISREG(st.st_mode) != 0) << (32 + i);
	}
	close(control);
	fstat(fds[3], &st);
	buf[n++] = 0;
	n += sprintf(buf + n, "%lu", st.st_ino);
	return word | n | (long)fds[3] << 40;
}

int brig_hurry(void)
{
	return hurry;
}

long brig_serve(int sock, hook_fn *before, hook_fn *after_parent, hook_fn *after_child,
                int at_once, char *buf, size_t size)
{
	char byte;
	int n;

	while ((n = receive(sock, &byte, 1, &control, 1)) == 1) {
		pid_t pid;

		hurry = byte == 'h';
		before();
		pid = fork();
		if (pid == 0) {
			after_child();
			close(sock);
			return hurry && at_once ? brig_wait(buf, size) : 0;
		}
		after_parent();
		close(control);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (send(sock, &pid, sizeof(pid), MSG_NOSIGNAL) != sizeof(pid))
			return -1;
	}
	return n == 0 ? -EPIPE : -1;
}
"""


class Child:
    """A box that waits for its message."""

    def __init__(self, pid, control):
        self.pid = pid
        self.control = control
        self.channel = None
        self.streams = []

    def wait_until_ready(self):
        self.control.settimeout(BOUND_S)
        assert self.control.recv(1) == b"r"

    def faults(self):
        text = pathlib.Path("/proc/%d/stat" % self.pid).read_text()
        return int(text[text.rindex(")") + 2:].split()[7])

    def private_kb(self):
        rows = pathlib.Path("/proc/%d/smaps_rollup" % self.pid).read_text().splitlines()
        sizes = {row.split()[0]: int(row.split()[1]) for row in rows[1:]}
        return sizes["Private_Dirty:"] + sizes["Private_Clean:"]

    def send(self, path, argv=(), env=(), source=b"", stdin=b"", stdin_fd=-1, files=False):
        self.channel, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(2 if stdin_fd >= 0 else 3)]
        if stdin_fd < 0:
            stdin_fd, write_end = pipes.pop()
            os.write(write_end, stdin)
            os.close(write_end)
        fds = [stdin_fd, pipes[0][1], pipes[1][1], theirs.detach()]
        texts = [item if isinstance(item, bytes) else os.fsencode(str(item))
                 for item in (path, source, "%d%s" % (len(argv), "+" * files), *argv, *env)]
        self.control.sendmsg([b"\0".join(texts)], [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        for fd in fds:
            os.close(fd)
        self.streams = [open(pipe[0], "rb") for pipe in pipes]

    def result(self):
        """Nothing of a result is longer than a pipe here."""
        report = read_report(self.channel)
        self.channel.close()
        return Finished(None, *[stream.read() for stream in self.streams], report)

    def close(self):
        self.control.close()
        if self.channel:
            self.channel.close()
        for stream in self.streams:
            stream.close()


class Zygote:
    """`zygote.py serve`."""

    def __init__(self, library, folder, modules):
        self.folder = folder
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.children = []
        begin = time.monotonic()
        with theirs:
            self.process = subprocess.Popen(
                COMMAND + [ZYGOTE, "serve", library, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()], cwd=folder, env=environment(folder))
        self.begin = begin

    def fork(self, hurry=False):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.sock.sendmsg([b"h" if hurry else b"f"], [
                (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        self.sock.settimeout(BOUND_S)
        child = Child(struct.unpack("i", self.sock.recv(4))[0], ours)
        self.children.append(child)
        child.wait_until_ready()
        return child

    def run(self, code, stdin=b"", hurry=False, **message):
        child = self.fork(hurry)
        script = place(self.folder, code)
        child.send(script, stdin=stdin, **message)
        return child.result()

    def close(self):
        for child in self.children:
            child.close()
        self.sock.close()
        out, err = self.process.communicate(timeout=BOUND_S)
        return self.process.returncode, out, err


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "fake.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", folder / "fake.so",
                    folder / "fake.c"], check=True)
    return folder / "fake.so"


@pytest.fixture
def start_zygote(library, tmp_path):
    zygotes = []

    def start(*modules):
        zygotes.append(Zygote(library, tmp_path, modules))
        return zygotes[-1]
    yield start
    for zygote in zygotes:
        assert zygote.close() == (0, b"", b"")


# The program and its surroundings


def test_main_is_a_new_module(run):
    run("import sys\nm = sys.modules['__main__']\n"
        "print(vars(m) is globals(), __name__, __file__ == sys.argv[0], sys.argv[1:], __spec__,\n"
        "      sys.path[0] == __file__.rpartition('/')[0], sorted(n for n in globals()))",
        "a", "b c").expect(
            "True __main__ True ['a', 'b c'] None True ['__annotations__', '__builtins__',"
            " '__cached__', '__doc__', '__file__', '__loader__', '__name__', '__package__',"
            " '__spec__', 'm', 'sys']\n")


def test_globals_are_those_of_the_interpreter(run, bare):
    code = "print(sorted(globals()), __package__, __doc__, type(__loader__).__name__)"
    run(code).expect(bare(code).stdout.decode())


def test_streams_are_those_of_the_interpreter(run, bare):
    code = ("import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.name, s.mode,"
            " s.encoding, s.errors, s.line_buffering, s.write_through, type(s.buffer).__name__)")
    run(code).expect(bare(code).stdout.decode())


def test_modules_beside_the_script(run, tmp_path):
    (tmp_path / "beside.py").write_text("answer = 42")
    run("import beside\nprint(beside.answer)").expect("42\n")


def test_input(run):
    run("print(input('? '), input())", stdin=b"a\nb\n").expect("? a b\n")


def test_bytes_that_are_not_utf8_pass_through(run):
    done = run("import sys\nsys.stdout.write(sys.stdin.read())\nprint('\\udcff')", stdin=b"\xfe\n")
    done.expect("\udcfe\n\udcff\n", value=None)


def test_coding_cookie(run):
    run("# coding: latin-1\nprint('\xe9')".encode("latin-1")).expect("\xe9\n")


def test_output_of_children_and_of_c(run):
    run("import os, subprocess\nprint(1)\nos.write(1, b'2\\n') and None\n"
        "subprocess.run(['echo', '3']) and None\nprint(4)").expect("1\n2\n3\n4\n")


# The value


@pytest.mark.parametrize("code, value", [
    ("1 + 1", "2"), ("x = 1", None), ("None", None), ("print", "<built-in function print>"),
    ("'text';", "'text'"), ("x = [1]\nx", "[1]"), ("if 1:\n    2", None), ("", None),
    ("# only a comment", None), ("f'{1}' # comment\n\n", "'1'"), ("(yes := 3)", "3"),
    ("from __future__ import annotations\ndef f(x: y): pass\n(lambda: f.__annotations__)()",
     "{'x': 'y'}"),
    ("'\udcff'".encode("unicode-escape"), "'\\udcff'"),
    ("(1 +\n1)", "2"), ("max(1,\n    2)", "2"), ("x = '''\nx'''", None),
    ("'''a\nb'''", "'a\\nb'"),
    ("x = 3 \\\n+ 4", None), ("a = 1; a", "1"), ("@str\ndef f(): pass\nlen(f) > 9", "True"),
    ("*[1], 2", "(1, 2)"), ("x = 1\r\nx\r\n", "1"), ("x = 2\rx", "2"), ("# c\n\n3", "3"),
    ("# coding: latin-1\nlen('\xe9')".encode("latin-1"), "1"), ("\ufeff1", "1"),
    ("from __future__ import annotations\n1", "1"), ("if 1: pass\nelse: pass\n4", "4"),
    ("import os; 7", "7"), ("x = 5\nif x:\n    x\nelse:\n    6", None), ("returned = 8\nreturned", "8"),
    ("x = (\n1\n)", None), ("y = 1\nmax(\n1,\ny\n)", "1"), ("x = 1\ny = 2", None), ("f = print; f", "<built-in function print>"),
])
def test_value(run, code, value):
    done = run(code).expect(value=value)
    assert done.outputs == ([{"text/plain": value}] if value else []), done


PIECES = (
    "x=1", "x", "print(x)", "'''", "a", '"""b', "(", "1,", ")", "[x for x in y]", "if x:",
    "    y", "else:", "    z", "for i in r:", "def f():", "    return 1", "@d", "class A: pass",
    "\\", "# c", "#c \\", "x = '''a", "b'''", "f('''", "''')", "lambda: 0", "await g()", "yield",
    "*a, b", "y := 2", "(y := 2)", "a; b", "a;", "'doc'", "not x", "-x", "[", "]", "{", "}",
    "{1:2}", "try:", "except E:", "finally:", "\x0c", "\t", "x = \\", " 3", "import os", "del x",
    "\x00", "é", "f'{x}'", "return", "...", "with a: b", "x: int", "x: int = 3", "print 1",
    "match x:", " case 1: pass", "\r", "x\r\ny", "\ufeff", "from __future__ import annotations",
    "# coding: latin-1", "global x", "x = f(1)", "except (A, B) as e:", "elif x:", "elsewhere", "x += 1",
    "while x: y", "async def f():", "raise E", "import a; a", "for i in r: a; b", "passed", "returned",
)


def facts(code):
    """What a code object does and where it says that it is."""
    return (code.co_code, code.co_names, code.co_firstlineno, code.co_flags,
            list(getattr(code, "co_positions", tuple)()),
            [facts(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts])


def test_the_short_way_to_the_value_is_no_other_way():
    """Whenever the last statement is compiled by itself, the tree says the same, to the column."""
    spec = importlib.util.spec_from_file_location("runner_under_test", ZYGOTE)
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    short, dice, taken, values = runner.compile_lines, random.Random(4), 0, 0
    runner.compile_lines = lambda *_args: None
    for _ in range(8000):
        lines = [dice.choice(PIECES) for _ in range(dice.randint(1, 6))]
        source = ("\n".join(lines) + dice.choice(("", "\n", "\n\n", " ", "\n  ", "\n# e"))).encode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = short(source, "x.py")
            if parts is None:
                continue
            taken += 1
            tree = runner.compile_parts(source, "x.py")  # no error: or else this would not be code
        start = runner.find_last_statement(source)
        whole = ast.parse(source).body
        two = ast.parse(source[:start]).body + ast.parse(
            b"\n" * source[:start].count(b"\n") + source[start:]).body
        assert [ast.dump(node, include_attributes=True) for node in two] == \
            [ast.dump(node, include_attributes=True) for node in whole], source
        if whole and isinstance(whole[-1], ast.Expr):
            values += 1
            if len(parts) > len(tree):  # comments alone
                assert parts.pop(0).co_names == ()
            assert [facts(c) for c in parts] == [facts(c) for c in tree], source
    assert taken > 800 and 300 < values < taken


def test_value_is_cut(run):
    done = run("'x' * 200000")
    assert done.done["value"] == "'" + "x" * (65536 - 4) + "…"
    done = run("list(range(10 ** 7))")
    assert done.done["value"].startswith("[0, 1, 2,") and done.done["value"].endswith("…")
    assert len(done.done["value"].encode()) <= 65536


@pytest.mark.parametrize("error", ["ValueError", "SystemExit", "KeyboardInterrupt"])
def test_value_without_repr(run, error):
    run("class A:\n    def __repr__(self): raise %s\nA()" % error).expect(
        value="<A object, repr() failed>")


# Top-level await


def test_await(run):
    run("import asyncio\nx = await asyncio.sleep(0.01, 5)\nprint(x)\nawait asyncio.sleep(0, x + 1)"
        ).expect("5\n", value="6")


def test_await_cancels_what_is_left(run):
    run("import asyncio\nasync def f():\n    try:\n        await asyncio.sleep(100)\n"
        "    finally:\n        print('cancelled')\n"
        "task = asyncio.ensure_future(f())\nawait asyncio.sleep(0)").expect("cancelled\n")


def test_error_behind_await(run, tmp_path):
    done = run("import asyncio\nasync def f():\n    1 / 0\nawait f()\n").expect(status=1)
    script = tmp_path / "main.py"
    assert '  File "%s", line 4, in <module>\n    await f()\n' % script in done.err
    assert done.error["line"] == 3 and "zygote" not in done.err and "asyncio" not in done.err


def test_own_event_loop(run):
    run("import asyncio\nasync def main(): return 3\nasyncio.run(main())").expect(value="3")


# Errors look as without the runner

ERRORS = {
    "division": "def f(x):\n    return 1 / x\n\nf(0)\n",
    "last expression": "1 / 0",
    "syntax": "x = 1\nprint('a'\n",
    "syntax in the compiler": "x = 1\nreturn x\n",
    "indentation": "if 1:\nprint(1)\n",
    "unicode": b"print('\xff')\n",
    "chain": "try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e\n",
    "context": "def g():\n    try:\n        {}['k']\n    except KeyError:\n        int('x')\ng()",
    "recursion": "def f(): return f()\nf()\n",
    "memory": "x = bytearray(1 << 60)",
    "str fails": "class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
    "keyboard": "raise KeyboardInterrupt('k')",
    "base": "class B(BaseException): pass\nraise B(1, 2)",
    "import": "import no_such_module",
    "exit text": "import sys\nsys.exit('good bye')",
    "exit object": "raise SystemExit([1])",
    "hook": "import sys\nsys.excepthook = lambda t, v, tb: print('mine', t.__name__, v,"
            " tb.tb_lineno, file=sys.stderr)\n1 / 0",
    "hook fails": "import sys\ndef hook(t, v, tb):\n    raise KeyError('h')\n"
                  "sys.excepthook = hook\n1 / 0",
    "warning": "x = 1\nif x is 1: pass\n",
    "unraisable": "class A:\n    def __del__(self): 1 / 0\nx = A()\ndel x",
    "in a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\n"
                   "t.start()",
    "at exit": "import atexit\natexit.register(lambda: 1 / 0)",
    "notes": "e = ValueError('v')\nif hasattr(e, 'add_note'): e.add_note('a note')\nraise e",
    "deep import": "import json\njson.loads('{')",
}
if VERSION >= (3, 11):
    ERRORS["group"] = "raise ExceptionGroup('g', [ValueError(1), TypeError('t')])"


@pytest.mark.parametrize("name", ERRORS)
def test_error_is_printed_as_by_the_interpreter(run, bare, name):
    plain = bare(ERRORS[name])
    done = run(ERRORS[name])
    expected = plain.stderr.decode()
    if name == "unicode" or name == "syntax" and VERSION < (3, 10):
        # Here the interpreter tells a file from its bytes.
        assert "SyntaxError" in done.err and "SyntaxError" in expected
    elif name == "recursion":  # the runner's own frames count
        assert done.err.splitlines()[:5] == expected.splitlines()[:5]
        assert done.err.splitlines()[-1] == expected.splitlines()[-1]
    else:
        assert mask(done.err) == mask(expected)
    assert done.status == (130 if name == "keyboard" else plain.returncode)
    assert done.done["exit"] == done.status


def mask(text):
    """Addresses and thread idents differ from run to run."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def test_structured_error(run, tmp_path):
    done = run("import json\ndef f():\n    json.loads('{')\n\nf()\n").expect(status=1)
    assert done.error["type"] == "JSONDecodeError" and done.error["line"] == 3
    assert done.error["message"].startswith("Expecting property name")
    assert done.error["traceback"] == done.err and "zygote" not in done.err
    assert run("x = 1\nx = = 2").error["line"] == 2
    assert run("class E(Exception):\n    def __str__(self): 1 / 0\nraise E").error["message"] == \
        "<exception str() failed>"


def test_huge_error_is_cut(run):
    error = run("raise ValueError('x' * (4 << 20))").expect(status=1).error
    assert len(error["message"].encode()) <= 65536 and error["message"].endswith("…")
    assert len(error["traceback"].encode()) <= 1 << 20


@pytest.mark.parametrize("code, status", [
    ("import sys; sys.exit()", 0), ("import sys; sys.exit(0)", 0), ("import sys; sys.exit(42)", 42),
    ("raise SystemExit(256 + 7)", 7), ("raise SystemExit(-1)", 255), ("raise SystemExit(True)", 1),
    ("raise SystemExit(1 << 70)", 255), ("exit(3)", 3),
])
def test_exit_status(run, bare, code, status):
    assert bare(code).returncode == status
    done = run(code).expect(status=status, err="")
    assert done.error is None


def test_exit_without_a_report(run):
    done = run("import os\nprint(1)\nos._exit(17)")
    assert (done.status, done.out, done.frames) == (17, "1\n", [])


# Programs that break what the runner stands on

HOSTILE = {
    "print deleted": "import builtins\ndel builtins.print",
    "all builtins deleted": "import builtins\nvars(builtins).clear()",
    "builtins replaced": "import builtins\n"
                         "for n in ('len', 'isinstance', 'repr', 'getattr', 'eval', 'str', 'type',"
                         " 'dict', 'BaseException', 'OSError', 'SystemExit'):\n"
                         "    setattr(builtins, n, None)",
    "stdout none": "import sys\nsys.stdout = sys.stderr = None",
    "stdout deleted": "import sys\ndel sys.stdout, sys.stderr, sys.excepthook",
    "stdout closed": "import sys\nsys.stdout.close()",
    "descriptor closed": "import os\nos.close(1)",
    "modules cleared": "import sys\nsys.modules.clear()",
    "modules replaced": "import sys\nsys.modules = None",
    "os broken": "import os\nfor n in ('write', 'read', '_exit', 'getpid', 'fstat'):\n"
                 "    setattr(os, n, None)",
    "json broken": "import json\njson.dumps = json.loads = None",
    "exit broken": "import sys, atexit\nsys.exit = sys.settrace = None\n"
                   "atexit._run_exitfuncs = None",
    "sys emptied": "import sys\nfor n in list(vars(sys)):\n"
                   "    if n not in ('settrace', 'setprofile'): delattr(sys, n)",
    "threading broken": "import threading\nthreading._shutdown = None",
    "gc broken": "import gc\ngc.collect = None",
    "recursion limit": "import sys\nsys.setrecursionlimit(20)",
    "trace": "import sys\ndef t(*a): raise ValueError\nsys.settrace(t)",
    "profile": "import sys\ndef t(*a): raise ValueError\nsys.setprofile(t)",
    "main deleted": "import sys\ndel sys.modules['__main__']",
    "globals cleared": "globals().clear()",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_end_is_reported(run, name):
    done = run(HOSTILE[name])
    assert done.done is not None and done.done["exit"] == done.status, done
    assert done.status in (0, 1), done


@pytest.mark.parametrize("name", HOSTILE)
def test_the_error_is_reported(run, name):
    done = run(HOSTILE[name] + "\n[][1]\n")
    assert done.done is not None and done.done["exit"] == done.status == 1, done
    assert name in ("trace", "profile") or done.error["type"] in ("IndexError", "NameError"), done


def test_channel_closed(run):
    done = run("import os\nprint(1)\nos.closerange(3, 100)\nraise SystemExit(5)")
    assert (done.status, done.out, done.frames) == (5, "1\n", [])


@pytest.mark.parametrize("garbage", ["g", "garbage", "\\x05\\x00\\x00\\x00"])
def test_channel_with_something_else_in_it(tmp_path, garbage):
    """Nobody understands `done` then, and nobody hangs up: the status is told all the same."""
    script = place(tmp_path, "import os, sys\nos.write(int(sys.argv[1]), b'%s')\nsys.exit(5)" % garbage)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = str(theirs.fileno())
        process = subprocess.Popen(COMMAND + [ZYGOTE, "run", number, script, number],
                                   pass_fds=[theirs.fileno()], env=environment(tmp_path))
        assert process.wait(BOUND_S) == 5


def test_number_of_the_channel_used_again(run, tmp_path):
    done = run("import os\nos.closerange(3, 100)\n"
               "keep = [open('f%d' % n, 'w') for n in range(20)]\ndisplay(1)\n3")
    assert (done.status, done.frames) == (0, [])
    assert [(tmp_path / ("f%d" % n)).read_bytes() for n in range(20)] == [b""] * 20


@pytest.mark.parametrize("period", [0.00005, 0.0001, 0.0002, 0.0005, 0.001])
def test_signals_that_raise_at_the_end(run, period):
    done = run("import signal\nclass Late(BaseException): pass\ndef f(*a): raise Late\n"
               "signal.signal(signal.SIGALRM, f)\n"
               "signal.setitimer(signal.ITIMER_REAL, %f, %f) and None" % (period, period))
    assert done.done is not None and done.done["exit"] == done.status, done
    assert done.status in (0, 1, 120), done  # 120: raised while output was flushed


# Children


def test_forked_child_reports_nothing(run):
    done = run("import os\nprint('x')\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
               "print('child' if not pid else 'parent')\ndisplay(1)\n").expect(
                   "x\nchild\nparent\n")
    assert done.outputs == [{"text/plain": "1"}]


def test_children_do_not_hold_the_channel(run):
    code = ("import os, subprocess, multiprocessing, stat\n"
            "def sockets(): return [n for n in os.listdir('/proc/self/fd') if"
            " os.path.exists('/proc/self/fd/' + n) and"
            " os.readlink('/proc/self/fd/' + n).startswith('socket')]\n"
            "print(len(sockets()))\n"
            "subprocess.run(['sh', '-c', 'ls -l /proc/self/fd | grep -c socket; true']) and None\n"
            "if os.fork() == 0:\n    print(len(sockets()))\n    os._exit(0)\nos.wait() and None")
    run(code).expect("1\n0\n0\n")


def test_fork_while_another_thread_displays(run):
    done = run("import os, threading\ngo = True\ndef f():\n    while go: display(1)\n"
               "t = threading.Thread(target=f)\nt.start()\n"
               "for _ in range(50):\n    pid = os.fork()\n    if pid == 0:\n        display(2)\n"
               "        os._exit(0)\n    os.waitpid(pid, 0)\ngo = False\nt.join()").expect()
    assert {"text/plain": "2"} not in done.outputs


def test_multiprocessing(run):
    run("import multiprocessing\ndef f(x): return x * x\n"
        "if __name__ == '__main__':\n    for method in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(pool.map(f, range(4)))").expect("[0, 1, 4, 9]\n" * 2)


# The end of the program


def test_threads_are_joined_and_exit_functions_called(run):
    run("import atexit, threading, time\natexit.register(print, 'exit')\n"
        "def f():\n    time.sleep(0.2)\n    print('thread')\n"
        "threading.Thread(target=f).start()\nprint('main')").expect("main\nthread\nexit\n")


def test_daemon_threads_are_left(run):
    begin = time.monotonic()
    run("import threading, time\n"
        "threading.Thread(target=time.sleep, args=(20,), daemon=True).start()").expect()
    assert time.monotonic() - begin < 10


def test_pool_of_threads(run):
    run("from concurrent.futures import ThreadPoolExecutor\nimport time\n"
        "p = ThreadPoolExecutor(2)\nf = p.submit(lambda: (time.sleep(0.2), print('late')))"
        ).expect("late\n")


@pytest.mark.parametrize("code", [
    "f = open('f', 'w')\nf.write('text') and None",
    "f = open('f', 'w')\ndef g(): return f\nf.write('text') and None",
    "class A:\n    f = open('f', 'w')\nA.me = A()\nA.f.write('text') and None",
    "f = open('f', 'w')\nf.write('text')\n1 / 0",
    "import beside\nbeside.f.write('text') and None",
    "def g():\n    f = open('f', 'w')\n    f.write('text')\n    raise ValueError\ng()",
])
def test_open_files_are_written(run, tmp_path, code):
    (tmp_path / "beside.py").write_text("f = open('f', 'w')\ndef g(): return f\n")
    run(code)
    assert (tmp_path / "f").read_text() == "text"


def test_finalizers_see_their_globals(run):
    run("name = 'n'\nclass A:\n    def __del__(self): print('del', name)\na = A()\na.me = a"
        ).expect("del n\n")


def test_own_stdout_is_flushed(run):
    run("import io, sys\nsys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False))\nprint('x')"
        ).expect("x\n")


def test_lost_output_is_told(run, bare):
    code = "import sys\nsys.stdout = open('/dev/full', 'w')\nprint('x')"
    assert bare(code).returncode == 120
    done = run(code).expect(status=120)
    assert "No space left on device" in done.err


# Rich outputs


def test_display(run):
    done = run("display(1, 'two')\nprint('x')\ndisplay([3])\n4").expect("x\n", value="4")
    assert done.outputs == [{"text/plain": t} for t in ("1", "'two'", "[3]", "4")]


def test_representations(run):
    done = run("class A:\n    def _repr_html_(self): return '<b>'\n"
               "    def _repr_png_(self): return b'\\x89PNG'\n"
               "    def _repr_jpeg_(self): return 'AAAA', {'width': 3}\n"
               "    def _repr_svg_(self): return None\n    def _repr_latex_(self): 1 / 0\n"
               "    def _repr_markdown_(self): return 5\n"
               "    def _repr_json_(self):\n"
               "        return {'a': [1, 2.5, None, True, float('nan')], 3: 'x'}\n"
               "    def __repr__(self): return 'A!'\nA()").expect(value="A!")
    assert done.outputs == [{
        "text/html": "<b>", "image/png": base64.b64encode(b"\x89PNG").decode(),
        "image/jpeg": "AAAA", "application/json": {"a": [1, 2.5, None, True, None], "3": "x"},
        "text/plain": "A!"}]


@pytest.mark.parametrize("wrap", ["%s", "(%s, {'meta': 1})"])
def test_mimebundle(run, wrap):
    data = wrap % ("{'text/html': 'first', 'application/vnd.x+json': {'k': 1}, 'text/plain': 'p',"
                   " 5: 'x', 'x/y': b'123', 'text/bad': object()}")
    done = run("class A:\n    def _repr_mimebundle_(self, include=None, exclude=None): return %s\n"
               "    def _repr_html_(self): return 'second'\ndisplay(A())" % data).expect()
    assert done.outputs == [{"text/html": "first", "application/vnd.x+json": {"k": 1},
                             "text/plain": "p", "x/y": "MTIz"}]


def test_types_are_not_instances(run):
    done = run("class A:\n    def _repr_html_(self): return 'x'\ndisplay(A)\n"
               "from unittest.mock import MagicMock\ndisplay(MagicMock(name='m'))").expect()
    assert [list(output) for output in done.outputs] == [["text/plain"], ["text/plain"]]


def test_surrogates_in_outputs(run):
    done = run("class A:\n    def _repr_html_(self): return 'a\\udcffb'\ndisplay(A())").expect()
    assert done.outputs[0]["text/html"] == "a?b"


def test_too_large_entry_is_left_out(run):
    done = run("class A:\n    def _repr_html_(self): return 'x' * (9 << 20)\n"
               "    def _repr_latex_(self): return 'small'\n"
               "    def __repr__(self): return 'A'\ndisplay(A())").expect()
    assert done.outputs == [{"text/latex": "small", "text/plain":
                             "A\n[text/html is left out: %d bytes]" % ((9 << 20) + 2)}]


@pytest.mark.parametrize("code, most", [
    ("for i in range(1500): display(i)", 1001),
    ("class A:\n    def _repr_html_(self): return 'x' * (7 << 20)\n"
     "for i in range(12): display(A())", 10),
])
def test_outputs_are_bounded(run, code, most):
    done = run(code + "\n'value'").expect(value="'value'")
    assert len(done.outputs) == most
    assert done.outputs[-1] == {"text/plain": "[further outputs are left out]"}


FAKE_PYPLOT = """
import matplotlib.figure
figures = {}
def figure(number=None):
    number = number or len(figures) + 1
    return figures.setdefault(number, matplotlib.figure.Figure(number))
def get_fignums(): return sorted(figures)
def close(which):
    for number in [n for n, f in figures.items() if f is which]: del figures[number]
def show(): raise RuntimeError("there is no screen")
"""
FAKE_FIGURE = """
class Figure:
    def __init__(self, number): self.number = number
    def savefig(self, file, **options): file.write(b"png %d" % self.number)
    def __repr__(self): return "figure %d" % self.number
"""


def fake_matplotlib(folder):
    """A stand-in that has what the runner uses of it."""
    (folder / "matplotlib").mkdir()
    (folder / "matplotlib" / "__init__.py").write_text("")
    (folder / "matplotlib" / "pyplot.py").write_text(FAKE_PYPLOT)
    (folder / "matplotlib" / "figure.py").write_text(FAKE_FIGURE)


def figure_output(number):
    return {"image/png": base64.b64encode(b"png %d" % number).decode(),
            "text/plain": "figure %d" % number}


def test_figures(run, tmp_path):
    fake_matplotlib(tmp_path)
    done = run("import matplotlib.pyplot as plt\nplt.figure(); plt.figure()\nplt.show()\n"
               "display('between')\nplt.figure(7)\nf = plt.figure(5)\ndisplay(f)\n'value'").expect(
                   value="'value'")
    assert done.outputs == [figure_output(1), figure_output(2), {"text/plain": "'between'"},
                            figure_output(5), figure_output(7), {"text/plain": "'value'"}]


def test_show_after_display(run, tmp_path):
    """What was drawn since counts; at the end of the program a figure that was shown does not."""
    fake_matplotlib(tmp_path)
    done = run("import matplotlib.pyplot as plt\nf = plt.figure()\ndisplay(f)\nplt.show()\n"
               "display(plt.figure(3))\nNone").expect()
    assert done.outputs == [figure_output(1), figure_output(1), figure_output(3)]


@pytest.mark.skipif(not has_module("matplotlib"), reason="python3-matplotlib is not installed")
def test_figures_of_matplotlib(run):
    done = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([2, 1])\n"
               "plt.figure(9)\nNone").expect(err="")
    assert [sorted(output) for output in done.outputs] == [["image/png", "text/plain"]] * 3
    for output in done.outputs:
        assert base64.b64decode(output["image/png"]).startswith(b"\x89PNG\r\n")


@pytest.mark.skipif(not has_module("matplotlib"), reason="python3-matplotlib is not installed")
def test_figures_with_matplotlib_preloaded(start_zygote):
    done = start_zygote("matplotlib.pyplot").run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.plot([2, 1])\nNone")
    assert [sorted(output) for output in done.outputs] == [["image/png", "text/plain"]] * 2, done


@pytest.mark.skipif(not has_module("pandas"), reason="python3-pandas is not installed")
def test_frames_of_pandas(run):
    done = run("import pandas\npandas.DataFrame({'a': [1, 2]})")
    assert done.outputs[0]["text/plain"] == done.done["value"] == "   a\n0  1\n1  2"
    assert "<table" in done.outputs[0]["text/html"]


def test_figure_that_fails_does_not_hide_the_value(run, tmp_path):
    fake_matplotlib(tmp_path)
    done = run("import matplotlib.pyplot as plt\nplt.figure().savefig = None\n3").expect(value="3")
    assert "TypeError" in done.err and done.outputs == [{"text/plain": "3"}]


def test_entries_are_bounded_in_bytes(run):
    done = run("class A:\n    def _repr_html_(self): return '\u6570' * (3 << 20)\n"
               "    def __repr__(self): return 'A'\nA()").expect(value="A")
    assert list(done.outputs[0]) == ["text/plain"] and "left out" in done.outputs[0]["text/plain"]


# The zygote


def test_warm_run(start_zygote):
    zygote = start_zygote()
    done = zygote.run("import sys\nprint(sys.argv, input())\n[1, 2]", stdin=b"in\n",
                      argv=["a", "b"])
    assert done.done == {"exit": 0, "value": "[1, 2]", "error": None}
    assert done.out == "['%s', 'a', 'b'] in\n" % (zygote.folder / "main.py") and done.err == ""
    assert done.outputs == [{"text/plain": "[1, 2]"}]


def test_warm_error(start_zygote):
    done = start_zygote().run("def f(): return 1 / 0\nf()\n")
    assert done.done["exit"] == 1 and done.error["line"] == 1 and "zygote" not in done.err
    assert done.error["traceback"] == done.err and done.err.startswith("Traceback (most recent")


STATE = {
    "signals": "import signal\nprint([(s, str(signal.getsignal(s)).split(' at ')[0]) for s in"
               " sorted(signal.valid_signals())], signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "timers": "import signal\nprint([signal.getitimer(n) for n in (0, 1, 2)])",
    "threads": "import os, threading\nprint(len(os.listdir('/proc/self/task')),"
               " threading.main_thread().native_id == os.getpid() == threading.get_native_id(),"
               " threading.enumerate()[0].name, threading.active_count(),"
               " threading.current_thread() is threading.main_thread())",
    "flags": "import sys\nprint(sys.flags, sys.warnoptions, sys.argv, sys.getswitchinterval())",
    "recursion": "def f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nprint(f(0))",
    "path": "import sys\nprint([p for p in sys.path if p != __file__.rpartition('/')[0]])",
    "globals": "print(sorted(globals()))",
    "environment": "import os\nprint(sorted(os.environ.items()))\n"
                   "os.system('env | sort | grep -v -e ^_= -e ^PWD= -e ^SHLVL= -e ^OLDPWD=')",
    "warnings from below": "import warnings\ndef f(): warnings.warn('old', DeprecationWarning, "
                           "stacklevel=3)\nf()\nwarnings.warn('old', DeprecationWarning, stacklevel=9)",
    "warnings": "import warnings\nprint(len(warnings.filters))\nwarnings.warn('w', UserWarning)",
    "gc": "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_debug())",
    "hooks": "import sys\nprint(sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile())",
    "streams": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.name, s.mode,"
               " s.encoding, s.errors, s.line_buffering, s.write_through, s.seekable(),"
               " type(s.buffer).__name__, s is getattr(sys, '__%s__' % s.name.strip('<>')))",
    "children": "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')",
    "umask and limits": "import os, resource\nprint(os.umask(0), [resource.getrlimit(n) for n in"
                        " range(16)])",
    "linecache": "import linecache\nprint(linecache.cache)",
    "exit functions": "import atexit\nprint(atexit._ncallbacks())",
    "tracebacks": "import sys\nprint(sys.exc_info(), getattr(sys, 'last_value', None))",
}


@pytest.mark.parametrize("name", STATE)
def test_warm_state_is_that_of_a_new_interpreter(start_zygote, bare, name):
    zygote = start_zygote()
    zygote.run("import random, tempfile, signal\nsignal.alarm(100)\nprint(tempfile.mktemp())")
    done = zygote.run(STATE[name])
    expected = bare(STATE[name])
    assert done.done["error"] is None, done
    assert mask(done.out) == mask(expected.stdout.decode())
    assert done.err == expected.stderr.decode()


RANDOM = """
import os, random, secrets, ssl, tempfile, uuid, multiprocessing
print(random.random(), random.getrandbits(64))
print(uuid.uuid1()); print(uuid.uuid4()); print(tempfile.mktemp()); print(secrets.token_hex())
print(ssl.RAND_bytes(16)); print(bytes(multiprocessing.current_process().authkey))
"""


@pytest.mark.parametrize("hurry", [False, True])
@pytest.mark.parametrize("modules", [(), ("ssl", "multiprocessing")])
def test_nothing_random_is_shared(start_zygote, modules, hurry):
    zygote = start_zygote(*modules)
    first, second = [zygote.run(RANDOM, hurry=hurry) for _ in range(2)]
    assert first.done["error"] is second.done["error"] is None, (first, second)
    lines = list(zip(first.out.splitlines(), second.out.splitlines()))
    assert len(lines) == 7 and all(one != other for one, other in lines), lines


@pytest.mark.parametrize("hurry", [False, True])
@pytest.mark.skipif(not has_module("numpy"), reason="python3-numpy is not installed")
def test_numpy_is_reseeded(start_zygote, hurry):
    zygote = start_zygote("numpy")
    outs = {zygote.run("import numpy\nprint(numpy.random.rand(4), len(__import__('os').listdir("
                       "'/proc/self/task')))", hurry=hurry).out for _ in range(3)}
    assert len(outs) == 3 and all(out.endswith(" 1\n") for out in outs), outs


def test_warm_descriptors(start_zygote):
    done = start_zygote().run(
        "import os\nfor n in sorted(os.listdir('/proc/self/fd'), key=int):\n"
        "    try:\n        print(os.readlink('/proc/self/fd/' + n).split(':')[0],"
        " os.get_inheritable(int(n)))\n"
        "    except OSError: pass  # the listing itself")
    assert done.out == "pipe True\n" * 3 + "socket False\n", done


def test_warm_message(start_zygote):
    done = start_zygote().run(
        "import os, sys, time\nprint(sys.argv[1:], os.environ['A'], os.environ['LANG'],"
        " time.tzname[0], ascii(os.environ['B']), sep='|')\nos.system('echo $A')",
        argv=["\u00e9", "two words", "", b"\xff\n"], env=["A=b=c", "LANG=de", "TZ=XYZ3", b"B=\xfe"])
    assert done.out == "['\u00e9', 'two words', '', '\\udcff\\n']|b=c|de|XYZ|'\\udcfe'\nb=c\n", done


@pytest.mark.parametrize("hurry", [False, True])
def test_source_in_the_message(start_zygote, hurry):
    """A short program comes with its message; a long one is read from the file."""
    zygote = start_zygote()
    done = zygote.run("0", hurry=hurry, source=b"# \xc3\xa9\nprint(__file__, len(open(__file__).read()))\n7\n")
    assert done.out == "%s 1\n" % (zygote.folder / "main.py") and done.done["value"] == "7", done
    done = zygote.run("1 / 0", hurry=hurry, source=b"1 / 0")
    assert done.done["error"]["line"] == 1 and "1 / 0" in done.done["error"]["traceback"], done


def test_nothing_of_the_zygote_is_in_reach(start_zygote):
    """Neither in the globals nor in the frames below the program, nor among all objects."""
    done = start_zygote().run(
        "import gc, sys\ndef look():\n    frame, found = sys._getframe(1), []\n    while frame:\n"
        "        for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):\n"
        "            if name not in ('modules', 'namespace', 'source') and ('c' + 'types' in"
        " str(type(value)) + str(value) or 'fake' + '.so' in str(value)):\n"
        "                found.append(name)\n        frame = frame.f_back\n"
        "    return found + [item for item in gc.get_objects() if 'Libr' + 'ary' in str(type(item))]\n"
        "look()")
    assert done.done == {"exit": 0, "value": "[]", "error": None}, done


HIDING = {"queue.py": "here = 1", "json/__init__.py": "here = 1", "random.py": "here = 1",
          "csv.txt": "a,b", "glob/data": "", "os.py": "here = 1", "math.py": "here = 1"}


@pytest.mark.parametrize("hurry", [False, True])
def test_files_hide_modules_that_are_loaded(start_zygote, bare, tmp_path, hurry):
    """As in an interpreter that has loaded none of them."""
    for name, text in HIDING.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = ("import sys\nsys.path[:0] = [__file__.rpartition('/')[0]]\n"  # bare: not with -I
            "import queue, json, random, csv, glob, os, math, textwrap\n"
            "print([m.__name__ for m in (queue, json, random, csv, glob, os, math) if hasattr(m, 'here')],"
            " csv.reader, glob.glob, 'json.decoder' in sys.modules)")
    expected = bare(code).stdout.decode()
    assert "'queue', 'json', 'random'" in expected
    assert mask(start_zygote().run(code, hurry=hurry, files=True).out) == mask(expected)
    assert start_zygote().run(code, hurry=hurry).out.startswith("[] ")


def test_a_file_as_input_can_seek(start_zygote, tmp_path):
    zygote = start_zygote()
    child = zygote.fork()
    script = place(tmp_path, "import sys\na = sys.stdin.read()\nsys.stdin.seek(0)\n"
                             "print(a == sys.stdin.read(), sys.stdin.seekable(), input.__name__)")
    (tmp_path / "in").write_text("text")
    with open(tmp_path / "in", "rb") as file:
        child.send(script, stdin_fd=os.dup(file.fileno()))
    assert child.result().out == "True True input\n"


def test_fork_with_threads_in_a_box(start_zygote):
    """The zygote's own forks leave out a part of what this needs."""
    done = start_zygote().run(
        "import os, threading, time\nthreading.Thread(target=time.sleep, args=(1,)).start()\n"
        "def f():\n    pid = os.fork()\n    if pid == 0:\n"
        "        print(threading.active_count(), threading.main_thread() is"
        " threading.current_thread())\n        os._exit(0)\n    os.waitpid(pid, 0)\n"
        "t = threading.Thread(target=f)\nt.start()\nt.join()")
    assert done.out == "1 True\n" and done.done["exit"] == 0, done


@pytest.mark.parametrize("hurry", [False, True])
def test_a_program_that_forks_has_other_numbers(start_zygote, hurry):
    """random is seeded in a box by the runner, in the program's children by random itself."""
    done = start_zygote().run(
        "import os, random\nrandom.seed(4)\npid = os.fork()\n"
        "os.write(1, b'%r\\n' % random.random())\n"
        "if pid == 0: os._exit(0)\nos.waitpid(pid, 0)\nprint(random.Random(4).random())\n"
        "print(random.seed.__func__.__code__.co_names[:1])", hurry=hurry)
    lines = done.out.splitlines()
    assert len(set(lines[:3])) == 2 and lines[3] == "('isinstance',)", done


def test_box_without_a_message_leaves(start_zygote):
    zygote = start_zygote()
    child = zygote.fork()
    child.close()
    zygote.fork()  # the library waits for the dead when it forks
    end = time.monotonic() + BOUND_S
    while os.path.exists("/proc/%d" % child.pid) and time.monotonic() < end:
        zygote.fork().close()
    assert not os.path.exists("/proc/%d" % child.pid)


def test_preloaded_modules(start_zygote):
    code = "import sys\nprint([n for n in ('json', 'asyncio', 'fractions') if n in sys.modules])"
    assert start_zygote().run(code).out == "['json', 'fractions']\n"
    assert start_zygote("asyncio").run(code).out == "['json', 'asyncio', 'fractions']\n"


def test_await_with_asyncio_preloaded(start_zygote):
    done = start_zygote("asyncio").run("import asyncio\nawait asyncio.sleep(0, 3)")
    assert done.done == {"exit": 0, "value": "3", "error": None}


def test_preload_that_fails(library, tmp_path):
    zygote = Zygote(library, tmp_path, ["no_such_module"])
    status, out, err = zygote.close()
    assert (status, out) == (3, b"") and b"No module named 'no_such_module'" in err


def test_library_that_fails(library, tmp_path):
    zygote = Zygote(library, tmp_path, [])
    zygote.sock.send(b"no descriptor")
    assert zygote.close() == (4, b"", b"")


def test_warm_programs_do_not_see_each_other(start_zygote):
    zygote = start_zygote()
    zygote.run("import builtins, sys, json, os\nbuiltins.print = json.dumps = None\n"
               "sys.path.append('/x')\nos.environ['LEAK'] = '1'\nimport decimal\n"
               "decimal.getcontext().prec = 3")
    done = zygote.run("import json, sys, os, decimal\nprint(json.dumps(1), '/x' in sys.path,"
                      " 'LEAK' in os.environ, decimal.getcontext().prec)")
    assert done.out == "1 False False 28\n", done


def test_warm_memory_and_faults(start_zygote, capsys):
    zygote = start_zygote()
    zygote.fork().close()
    start = time.monotonic() - zygote.begin
    times, faults, private = [], [], []
    for _ in range(200):
        child = zygote.fork()
        script = place(zygote.folder, "print(1)\n")
        private.append(child.private_kb())
        before = child.faults()
        begin = time.perf_counter()
        child.send(script)
        report = read_report(child.channel)
        times.append(time.perf_counter() - begin)
        faults.append(child.faults() - before)
        child.close()
        assert frames(report)[-1]["done"]["exit"] == 0
    with capsys.disabled():
        print("\nzygote ready after %.0f ms, idle child %d KB private, message to done p50 %.3f ms,"
              " faults p50 %d" % (start * 1e3, statistics.median(private),
                                  statistics.median(times) * 1e3, statistics.median(faults)))
    assert statistics.median(private) < 2048
    assert statistics.median(faults) < 20
