# SPDX-License-Identifier: Apache-2.0
"""The runners of JavaScript alone, outside a box: run.cjs (one-shot) and warm.cjs (waiting)."""

import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest

RUNTIME = pathlib.Path(__file__).resolve().parents[2] / "runtime" / "node"
NODE = shutil.which("node") or shutil.which("nodejs")
ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"}
BOUND_S = 20
# The frame by which node calls the program: a tick with the runners, its own main file without.
ENTRY = re.compile(r"\n +at (?:node:internal/main/run_main_module|"
                   r"process\.processTicksAndRejections \(node:internal/process/task_queues)[^\n]*")


def drain(pipe, into):
    for chunk in iter(lambda: os.read(pipe.fileno(), 65536), b""):
        into.append(chunk)
    pipe.close()


class Warm:
    """One waiting node, and what came out of it."""

    def __init__(self, stdin=b"", blocking=True):
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(BOUND_S)
        theirs.setblocking(blocking)
        # As brig does: at 5. Node marks only low numbers for exec.
        argv = ["/bin/bash", "-c", 'fd=$0; exec 5<&$fd {fd}<&-; exec "$@"', str(theirs.fileno()),
                NODE, str(RUNTIME / "warm.cjs"), "5"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=ENV,
                                        pass_fds=[theirs.fileno()])
        theirs.close()
        self.process.stdin.write(stdin)
        self.process.stdin.close()
        self.frames, self.chunks, self.threads = [], ([], []), []
        for pipe, into in zip((self.process.stdout, self.process.stderr), self.chunks):
            self.threads.append(threading.Thread(target=drain, args=(pipe, into)))
            self.threads[-1].start()
        assert self.receive() == {"ready": True}

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        self.sock.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()

    def bytes(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                return None
            data += more
        return data

    def receive(self):
        head = self.bytes(4)
        return None if head is None else json.loads(self.bytes(struct.unpack("<I", head)[0]))

    def send(self, path, argv=(), env=()):
        body = json.dumps({"path": str(path), "argv": list(argv), "env": list(env)}).encode()
        self.sock.sendall(struct.pack("<I", len(body)) + body)

    def until_done(self):
        """All frames; the last is `done`, or R was closed without one."""
        while not self.frames or "done" not in self.frames[-1]:
            frame = self.receive()
            if frame is None:
                return None
            self.frames.append(frame)
        return self.frames[-1]["done"]

    def end(self):
        """Kills it like brig does after `done`; what was not flushed by then is lost."""
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        return [b"".join(chunks).decode() for chunks in self.chunks]


class Result:
    def __init__(self, done, frames, out, err):
        self.done, self.out, self.err = done, out, err
        self.outputs = [frame["output"] for frame in frames if "output" in frame]

    def __repr__(self):
        return "%r\n%r\nstdout: %s\nstderr: %s" % (self.done, self.outputs, self.out, self.err)


@pytest.fixture
def warm(tmp_path):
    def run(source, name="main.js", argv=(), env=(), **kwargs):
        (tmp_path / name).write_text(source)
        with Warm(**kwargs) as node:
            node.send(tmp_path / name, argv, env)
            done = node.until_done()
            return Result(done, node.frames, *node.end())
    return run


def plain(argv, cwd):
    done = subprocess.run([NODE] + argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=ENV, cwd=cwd, timeout=BOUND_S, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def comparable(err):
    """Without the entry frame, and without the line in node's own emit."""
    return re.sub(r"node:events:\d+:\d+", "node:events", ENTRY.sub("", err))


SAME = {
    "print": "console.log(1, {a: [1, 'x']}); console.error('err')",
    "commonjs": "console.log(typeof require, typeof exports, module.exports === this, "
                "arguments.length, __filename, __dirname, require.main === module, module.id, "
                "module.parent, Object.keys(require.cache), process.mainModule === module)",
    "return": "console.log(1); return; console.log(2)",
    "sloppy": "x = 1; var y = 2; console.log(x, globalThis.y, delete globalThis.x)",
    "strict": "'use strict';\ntry { undeclared = 1 } catch (e) { console.log(e.message) }\n1",
    "import()": "import('node:path').then(p => console.log(p.join('a', 'b')))",
    "import() of a file": "import('./lib.mjs').then(m => console.log(m.default))",
    "require of a file": "console.log(require('./lib.cjs'))",
    "module": "import fs from 'fs'; import x from './lib.mjs'; export default 1;\n"
              "console.log(typeof fs.statSync, x, typeof require, this, import.meta.url)",
    "await": "const x = await Promise.resolve(7);\nconsole.log(x, typeof require);\nx",
    "await for ever": "console.log(1); await new Promise(() => {})",
    "exit": "process.on('exit', c => console.log('exit', c)); process.exit(7)",
    "exit, no code": "process.exit()",
    "exit in a timer": "setTimeout(() => process.exit(3), 5); setInterval(() => {}, 1000)",
    "exitCode": "process.exitCode = 9",
    "exitCode in exit": "process.on('exit', () => { process.exitCode = 4 })",
    "exit above 255": "process.exit(258)",
    "events at the end": "let n = 0; process.on('beforeExit', c => { console.log('before', c);"
                         " if (n++ < 1) setTimeout(() => console.log('more'), 1) });"
                         "process.on('exit', c => console.log('exit', c))",
    "order": "setTimeout(() => console.log('timer'), 5); Promise.resolve().then(() =>"
             " console.log('promise')); process.nextTick(() => console.log('tick'));"
             "queueMicrotask(() => console.log('micro')); console.log('sync')",
    "pending i/o": "require('fs').readFile(__filename, (e, d) => console.log(d.length))",
    "throw": "function f() {\n  throw new TypeError('boom');\n}\nf();\n",
    "throw, one line": "null.x",
    "throw with more": "const e = new Error('a', {cause: new RangeError('b')}); e.code = 'E';\n"
                       "throw e",
    "throw elsewhere": "const e = new Error('made here');\n\nsetTimeout(() => { throw e }, 1)",
    "throw an object": "throw {a: 1}",
    "throw a DOMException": "function f() {\n  throw new DOMException('boom', 'AbortError');\n}\nf()",
    "throw by an abort": "AbortSignal.abort().throwIfAborted()",
    "throw by atob": "atob('%%%')",
    "throw by a clone": "structuredClone(() => {});\nconsole.log(1)\n",
    "throw a proxy": "throw new Proxy(new Error('p'), {})",
    "throw an inherited error": "function Mine(m) { Error.captureStackTrace(this, Mine); this.message"
                                " = m }\nrequire('util').inherits(Mine, Error);\nthrow new Mine('m')",
    "throw what has a stack": "throw {stack: 's'}",
    "throw what has a getter": "throw {get stack() { return 's' }}",
    "throw a function": "throw function f() {}",
    "rejection of a DOMException": "Promise.reject(new DOMException('a', 'AbortError'))",
    "throw in a worker": "const {Worker} = require('worker_threads'); new Worker('null.x', {eval: true})",
    "throw in the last value": "const a = 1\na.b.c",
    "throw in exit": "process.on('exit', () => { throw new Error('late') })",
    "throw after exit": "process.on('exit', () => { throw new Error('late') }); process.exit(0)",
    "throw own class": "class Mine extends Error {}\nthrow new Mine('m')",
    "throw and exit event": "process.on('exit', c => { console.log(c); process.exitCode = 5 });\n"
                            "throw new Error('x')",
    "rejection": "Promise.reject(new Error('lost'))",
    "rejection of a value": "Promise.reject(3)",
    "rejection in a module": "await 1;\nthrow new Error('lost')",
    "rejection handled": "process.on('unhandledRejection', e => console.log(e.message));"
                         "Promise.reject(new Error('seen'))",
    "exception handled": "process.on('uncaughtException', (e, o) => console.log(e.message, o));"
                         "setTimeout(() => console.log('on'), 2); throw new Error('seen')",
    "exception captured": "process.setUncaughtExceptionCaptureCallback(e => console.log(e.message));"
                          "throw new Error('seen')",
    "error event": "new (require('events'))().emit('error', new Error('x'))",
    "system error": "require('fs').readFileSync('/nowhere')",
    "syntax error": "let x = ;\n",
    "syntax error in a module": "import 'fs';\nlet x = ;\n",
    "missing module": "require('./nowhere')",
    "missing import": "import './nowhere.mjs'",
    "stack": "console.log(new Error('x').stack); process.on('exit', () =>"
             " console.log(new Error('y').stack))",
    "stack in a module": "import 'fs'; console.log(new Error('x').stack)",
    "hash bang": "#!/usr/bin/env node\nconsole.log(new Error('x').stack)",
    "globals": "console.log(Object.getOwnPropertyNames(globalThis).filter(n => n !== 'display'),"
               " process.execArgv, process.listenerCount('exit'), process.eventNames().filter("
               "n => n !== 'uncaughtExceptionMonitor'), process.emit ==="
               " require('events').prototype.emit)",
    "worker": "const {Worker} = require('worker_threads'); new Worker('process.exit(3)',"
              " {eval: true}).on('exit', c => console.log(c))",
    "functions as written": "function f(a) { return a }\nconsole.log(String(f))\nf",
    "own exit listener removed": "process.on('exit', () => console.log('never'));"
                                 "process.removeAllListeners()",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lib.cjs").write_text("module.exports = 'from cjs'\n")
    (tmp_path / "lib.mjs").write_text("export default 'from mjs'\n")
    return tmp_path


@pytest.mark.parametrize("name", SAME)
def test_same_as_node(folder, warm, name):
    """Both runners do what `node main.js` does, to the byte of stderr."""
    (folder / "main.js").write_text(SAME[name])
    status, out, err = plain([str(folder / "main.js")], folder)
    once = plain([str(RUNTIME / "run.cjs"), str(folder / "main.js")], folder)
    assert (once[0], ENTRY.sub("", once[1]), comparable(once[2])) == (
        status, ENTRY.sub("", out), comparable(err))
    result = warm(SAME[name])
    assert comparable(result.out) == comparable(out), result
    assert comparable(result.err) == comparable(err), result
    assert result.done["exit"] == status, result


def test_thrown_primitive(warm):
    """Node alone knows where it was thrown and does not tell: the rest is as node has it."""
    result = warm("throw 'text'")
    assert result.err.startswith("text\n(Use `node --trace-uncaught ...`"), result
    assert result.done["exit"] == 1
    assert result.done["error"]["type"] == "string" and result.done["error"]["line"] is None


VALUES = [
    ("1 + 1", "2"), ("1 + 1;", "2"), ("1 + 1; // end", "2"), ("'text'", "'text'"),
    ("const a = 1; a + 1", "2"), ("const a = 1\na + 1\n", "2"), ("let a = 1;a += 2", "3"),
    ("const a = 1\n\n// why\na ? 'y' : 'n'\n\n/* end */;", "'y'"), ("1, 2", "2"),
    ("function f() { return 5 } f()", "5"), ("if (true) { }\n[1, 2].map(x => x * 2)", "[ 2, 4 ]"),
    ("const f = () => { }\n(1)", "1"), ("const f = function (x) { return x }\n(1)", None),
    ("let a = 4\na++\n+a", "9"), ("let a = 4\na\n++a", "5"), ("const a = 6, g = 1\na /2/ g", "3"),
    ("if (1) /x/.test('x')", None), ("let a = `${`}`}`;\n`a${a}`", "'a}'"), ("[1]\n.length", "1"),
    ("const s = '// not';\ns.length // yes", "6"), ("var x = 1", None), ("undefined", None),
    ("void 0", None), ("null", "null"), ("if (1) { 5 }", None), ("for (;;) break", None),
    ("x: 5", None), ("function f() { }", None), ("class A { }", None), ("{ a: 1 }", None),
    ("({ a: 1 })", "{ a: 1 }"), ("(function () { })", "[Function (anonymous)]"),
    ("async function f() { }", None), ("() => 1", "[Function (anonymous)]"), ("", None),
    ("if (0) 1; else 2", None), ("do 1; while (0)", None), ("let\nx = 1", None),
    ("try { 1 } catch { 2 }", None), ("// only\n", None), ("'use strict'\nthis", "{}"),
    ("#!/bin/x\n1 + 1", "2"), ("\ufeff1 + 1", "2"), ("return 5", None), ("a = 1 <!-- x\n5", None),
    ("require('path').join('a', 'b')", "'a/b'"), ("typeof module", "'object'"), ("10n ** 2n", "100n"),
    ("new Map([[1, { a: 2 }]])", "Map(1) { 1 => { a: 2 } }"), ("arguments.length", "5"),
    ("const o = { b: { c: 3 } }\no?.b?.c", "3"), ("const if_ = 1;\nif_", "1"),
    ("let a = 1; switch (a) { case 1: 7 }", None), ("Symbol('s')", "Symbol(s)"),
    ("const x = await 41\nx + 1", "42"), ("await Promise.resolve('a')", "'a'"),
    ("const x = await 1; x ? 'y' : 'n'", "'y'"), ("import 'fs'\nawait 1", None),
]


@pytest.mark.parametrize("source, value", VALUES)
def test_value(warm, source, value):
    result = warm(source)
    assert result.done == {"exit": 0, "value": value, "error": None}, result
    assert result.outputs == ([] if value is None else [{"text/plain": value}]), result
    assert result.out == "" and result.err == "", result


@pytest.mark.parametrize("source", [
    "nowhere()", "let a = 1; nowhere(a)", "let a = 1\na.b.c", "'x'.y.z + 1", "[1,\n nowhere]",
    "let a; a = nowhere", "let a = 1\na = nowhere", "const a = 1 // c\nnowhere ? 1 : 2",
])
def test_value_leaves_positions(folder, warm, source):
    (folder / "main.js").write_text(source)
    err = plain([str(folder / "main.js")], folder)[2]
    result = warm(source)
    assert comparable(result.err) == comparable(err), result
    assert result.done["value"] is None


def test_value_in_parentheses_is_one_column_off(warm, folder):
    """The one visible trace, and the line that is shown is still the program's own."""
    result = warm("let a\na = a.b")
    assert "main.js:2:8)" in result.err and "\na = a.b\n" in result.err, result
    (folder / "main.js").write_text("let a\na = a.b")
    assert "main.js:2:7)" in plain([str(folder / "main.js")], folder)[2]


def test_value_is_bounded_and_guarded(warm):
    done = warm("'x'.repeat(1e6)").done
    assert len(done["value"]) == 65537 and done["value"].endswith("x…")
    bad = "({ [Symbol.for('nodejs.util.inspect.custom')]() { %s } })"
    assert warm(bad % "throw 1").done["value"] == "[cannot be shown]"
    assert warm(bad % "process.exit(3)").done == {"exit": 3, "value": None, "error": None}
    assert warm("'\\ud800'.padEnd(2)").done["exit"] == 0


def test_value_is_that_of_the_end(warm):
    """A promise shows what became of it."""
    source = "async function main() { await null; return 4 }\nmain()"
    assert warm(source).done["value"] == "Promise { 4 }"


def test_outputs(warm):
    result = warm("""
        display({ 'image/png': Buffer.from('png'), 'application/json': { a: [1, null] } });
        display(1, { b: 2 });
        display({ toMimeBundle() { return { 'text/html': '<b>' } } });
        display({ [Symbol.for('Jupyter.display')]() { return { 'text/markdown': '*' } } });
        display({ async toMimeBundle() { return { 'text/html': 'later' } } });
        console.log('printed');
        ({ toMimeBundle() { return { 'image/svg+xml': '<svg/>' } } })""")
    assert result.outputs[:5] == [
        {"image/png": "cG5n", "application/json": {"a": [1, None]}}, {"text/plain": "1"},
        {"text/plain": "{ b: 2 }"}, {"text/html": "<b>"}, {"text/markdown": "*"}], result
    assert result.outputs[5] == {"text/html": "later"}
    assert result.outputs[6]["image/svg+xml"] == "<svg/>" and "text/plain" in result.outputs[6]
    assert result.done["value"] == result.outputs[6]["text/plain"]


@pytest.mark.parametrize("method", [
    "toMimeBundle() { throw new Error('bad') }", "get toMimeBundle() { throw new Error('bad') }",
    "async toMimeBundle() { throw new Error('bad') }", "async toMimeBundle() { return null }",
    "toMimeBundle() { return 5 }", "toMimeBundle() { return new Proxy({}, { ownKeys() { throw 1 } }) }",
    "toMimeBundle() { return { get then() { throw 1 } } }",
])
def test_output_that_fails_is_text(warm, method):
    result = warm("class Thing { %s }\ndisplay(new Thing());\nconsole.log('on')" % method)
    assert result.outputs == [{"text/plain": "Thing {}"}], result
    assert (result.out, result.err, result.done["exit"]) == ("on\n", "", 0), result
    result = warm("class Thing { %s }\nnew Thing()" % method)
    assert result.outputs == [{"text/plain": "Thing {}"}], result
    assert result.done == {"exit": 0, "value": "Thing {}", "error": None}, result


def test_bundle_as_value(warm):
    result = warm("({ 'text/html': '<b>x</b>' })")
    assert result.outputs == [{"text/html": "<b>x</b>", "text/plain": "{ 'text/html': '<b>x</b>' }"}]
    assert result.done["value"] == "{ 'text/html': '<b>x</b>' }"
    assert warm("({ 'text/html': 'x', 'text/plain': 'y' })").outputs == [
        {"text/html": "x", "text/plain": "y"}]
    late = warm("class Late { async toMimeBundle() { return { 'text/html': 'x' } } }\nnew Late()")
    assert late.outputs == [{"text/plain": "Late {}"}]


def test_outputs_are_bounded(warm):
    result = warm("display({ 'text/html': 'x'.repeat(9 << 20) });"
                  "display({ 'application/json': 1n, 'text/plain': 'kept' });"
                  "for (let i = 0; i < 2000; i++) display(i); 5")
    assert result.outputs[0] == {"text/plain": "[text/html dropped]"}
    assert result.outputs[1] == {"text/plain": "kept"}
    assert len(result.outputs) == 1001 and result.done["value"] == "5"
    assert result.outputs[-1] == {"text/plain": "[further outputs are left out]"}  # brig keeps 1000, and says so


@pytest.mark.parametrize("source, kind, message, line", [
    ("\nthrow new TypeError('bad')", "TypeError", "bad", 2),
    ("class Mine extends Error {}\nthrow new Mine('m')", "Mine", "m", 2),
    ("const e = new Error('n'); e.name = 'Named'; throw e", "Named", "n", 1),
    ("\n\nlet x = ;", "SyntaxError", "Unexpected token ';'", 3),
    ("import 'fs';\nnull.x", "TypeError", "Cannot read properties of null (reading 'x')", 2),
    ("Promise.reject(new RangeError('r'))", "RangeError", "r", 1),
    ("throw new DOMException('boom', 'AbortError')", "AbortError", "boom", 1),
    ("throw new Proxy(new Error('p'), {})", "Error", "p", 1),
    ("const {Worker} = require('worker_threads'); new Worker('throw new RangeError(1)',"
     " {eval: true})", "RangeError", "1", None),
    ("throw { stack: 's' }", "Object", "{ stack: 's' }", None),
    ("throw { a: 1 }", "Object", "{ a: 1 }", None), ("throw null", "object", "null", None),
    ("throw Object.freeze(new Error('f'))", "Error", "f", 1),
    ("throw new Proxy(new Error('p'), { defineProperty() { throw 1 } })", None, None, None),
    ("const e = new Error('g'); Object.defineProperty(e, 'message', { get() { throw 1 } });"
     "throw e", "Error", "[cannot be shown]", None),
])
def test_error(warm, source, kind, message, line):
    result = warm(source)
    error = result.done["error"]
    assert result.done["exit"] == 1 and result.done["value"] is None, result
    assert kind is None or (error["type"], error["message"], error["line"]) == (
        kind, message, line), result
    assert error["traceback"] and error["traceback"] in result.err, result
    assert "warm.cjs" not in result.err and result.err.count("\nNode.js v") == 1, result


# Not Array.prototype.pop: node itself ends every callback with it.
SPOILED = [
    "JSON.stringify = JSON.parse = null", "Object.prototype.toJSON = () => { throw 1 }",
    "process.exit = process.reallyExit = process.abort = () => {}",
    "const fs = require('fs'); for (const k of Object.keys(fs)) try { fs[k] = null } catch {}",
    "const all = [Array, String, RegExp, Function, Map, Promise, Uint8Array, Buffer];"
    " const { ownKeys } = Reflect, { defineProperty } = Object; let i, j;"
    " const own = { constructor: 1, length: 1, pop: 1 };"
    " for (i = 0; i < all.length; i++) { const p = all[i].prototype, names = ownKeys(p);"
    " for (j = 0; j < names.length; j++) if (!own[names[j]])"
    " try { defineProperty(p, names[j], { value() { throw 1 } }) } catch {} }",
    "Array.prototype[Symbol.iterator] = null",
    "for (const k of ['Reflect', 'Object', 'String', 'Buffer', 'Symbol', 'Atomics', 'process',"
    " 'Math', 'URL', 'Error']) globalThis[k] = null",
    "const u = require('util'); u.inspect = u.types = null",
    "process.removeAllListeners()", "process.emit = process.emit",
    "process.on('exit', () => { process.removeAllListeners() })",
    "process.emit('exit', 0)", "process.listeners = process.on = process.listenerCount = null",
    "Object.defineProperty(Object.prototype, 'get', { value: 1 })",
    "Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = 0",
    "console.log = null; delete process.stdout; delete process.stderr",
]


@pytest.mark.parametrize("spoil", SPOILED)
def test_spoiled_program_is_done(warm, spoil):
    result = warm("%s;\n'value'" % spoil)
    assert result.done == {"exit": 0, "value": "'value'", "error": None}, result
    result = warm("const E = Error;\n%s;\nthrow new E('boom')" % spoil)
    assert result.done["exit"] == 1 and result.done["error"]["message"] == "boom", result
    assert "Node.js v" in result.err, result


def test_closed_descriptors(warm):
    """Without stderr there is `done`; without R there is at least the status."""
    close = "require('fs').closeSync(%s);"
    assert warm(close % 2 + "throw new Error('x')").done["error"]["message"] == "x"
    assert warm(close % 1 + "5").done["value"] == "5"
    with_r = "for (let i = 3; i < 100; i++) try { if (require('fs').fstatSync(i).isSocket())" \
             " require('fs').closeSync(i) } catch {}\nprocess.exit(6)"
    assert warm(with_r).done is None


def test_display_without_the_socket(tmp_path):
    (tmp_path / "main.js").write_text("require('fs').closeSync(5); display(1); process.exit(6)")
    with Warm() as node:
        node.send(tmp_path / "main.js")
        assert node.process.wait(BOUND_S) == 6


def test_output_is_flushed_before_done(warm):
    """More than a pipe holds, then the end in every way; the process is killed after `done`."""
    text = "process.stdout.write('x'.repeat(3e6)); process.stderr.write('y'.repeat(3e6));"
    for end in ("", "process.exit(0)", "setTimeout(() => process.exit(0), 1)", "await 1"):
        result = warm(text + end)
        assert result.done["exit"] == 0
        assert (len(result.out), len(result.err)) == (3000000, 3000000), end
    result = warm(text + "throw new Error('z'.repeat(1e5))")
    assert len(result.out) == 3000000 and result.err.count("z") >= 100000


def test_message(warm, tmp_path):
    source = "console.log(JSON.stringify([process.argv, process.env.A, process.env.B," \
             " process.env.LANG, require('child_process').execSync('echo $A') + '']))"
    result = warm(source, argv=["a b", "--x", "ü"], env=["A=1=2", "B=", "LANG=C"])
    assert json.loads(result.out) == [
        [os.path.realpath(NODE), str(tmp_path / "main.js"), "a b", "--x", "ü"],
        "1=2", "", "C", "1=2\n"]


@pytest.mark.parametrize("name", ["a.mjs", "a.cjs", "noext"])
def test_names(warm, name):
    module = name == "a.mjs"
    result = warm("console.log(typeof require);\n6", name=name)
    assert result.out == ("undefined\n" if module else "function\n")
    assert result.done == {"exit": 0, "value": "6", "error": None}


def test_stdin(warm):
    source = "let n = 0; process.stdin.on('data', d => n += d.length).on('end', () =>" \
             " console.log(n))"
    assert warm(source, stdin=b"x\ny\n").out == "4\n"
    assert warm("require('fs').readFileSync(0, 'utf8')", stdin=b"in").done["value"] == "'in'"


def test_children_do_not_hold_the_socket(warm):
    """Node makes what it inherited close-on-exec; only the runner itself has R."""
    links = "fs.readdirSync('/proc/self/fd').map(n => { try { return fs.readlinkSync(" \
            "'/proc/self/fd/' + n) } catch { return '' } }).filter(l => l.startsWith('socket'))"
    assert warm("const fs = require('fs'); %s.length" % links).done["value"] == "1"
    source = "require('child_process').execFileSync('sh', ['-c', 'ls /proc/$$/fd']) + ''"
    assert set(re.findall(r"\d+", warm(source).done["value"])) <= {"0", "1", "2", "10", "255"}


def test_idle_is_silent_and_free():
    with Warm() as node:
        stat = pathlib.Path("/proc/%d/stat" % node.process.pid)

        def ticks():
            return sum(int(n) for n in stat.read_text().rsplit(")", 1)[1].split()[11:13])
        time.sleep(0.2)
        before = ticks()
        time.sleep(1)
        assert ticks() == before
        assert node.chunks == ([], [])
        node.sock.shutdown(socket.SHUT_RDWR)
        assert node.process.wait(BOUND_S) == 0


def test_stays_after_done_for_a_moment(tmp_path):
    """brig ends the box before; whoever does not understand `done` is told by the status."""
    (tmp_path / "main.js").write_text("setTimeout(() => process.exit(5), 1)")
    with Warm() as node:
        node.send(tmp_path / "main.js")
        assert node.until_done()["exit"] == 5
        time.sleep(0.1)
        assert node.process.poll() is None
        assert node.process.wait(BOUND_S) == 5


def test_socket_that_does_not_block(warm):
    source = "for (let i = 0; i < 5; i++) display({ 'text/html': 'x'.repeat(1 << 20) })"
    result = warm(source, blocking=False)
    assert [len(o["text/html"]) for o in result.outputs] == [1 << 20] * 5
    assert result.done["exit"] == 0


def test_rehearsal_leaves_nothing(warm):
    """The program's first timer, module and hash are its own: two runs differ where they should."""
    source = "[Math.random(), require('crypto').randomUUID(), require('fs').readFileSync.name," \
             " require('fs').promises.readFile.name, Object.keys(require('module')._pathCache)]"
    first, second = warm(source).done["value"], warm(source).done["value"]
    assert first != second and "'readFileSync'" in first and "'readFile'" in first
    assert "warm.cjs" not in first and "run.cjs" not in first
