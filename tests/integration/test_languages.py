"""Each language behaves as its users expect."""

import json

import pytest

# Python


def test_python_traceback_names_file_and_line(brig):
    result = brig.python("def f():\n    return 1 / 0\n\nf()\n").expect("failed", 1, exit_code=1)
    assert 'main.py", line 4, in <module>' in result["stderr"]
    assert 'main.py", line 2, in f' in result["stderr"]
    assert "ZeroDivisionError: division by zero" in result["stderr"]


def test_python_syntax_error(brig):
    result = brig.python("print('x'\n").expect("failed", 1, stdout="")
    assert "SyntaxError" in result["stderr"] and "main.py" in result["stderr"]


@pytest.mark.parametrize("code, status, state", [
    ("import sys; sys.exit()", 0, "finished"),
    ("import sys; sys.exit(0)", 0, "finished"),
    ("import sys; sys.exit(42)", 42, "failed"),
    ("import sys; sys.exit('message')", 1, "failed"),
    ("import os; os._exit(17)", 17, "failed"),
    ("raise SystemExit(3)", 3, "failed"),
    ("raise KeyboardInterrupt", 130, "killed"),
])
def test_python_exit(brig, code, status, state):
    run = brig.python(code)
    run.expect(state, status)


def test_python_input(brig, place):
    (place / "in").write_text("Ada\n36\n")
    brig.python("name = input(); age = int(input('age? ')); print(name, age + 1)",
                "--stdin", place / "in").expect("finished", 0, stdout="age? Ada 37\n")


def test_python_input_at_the_end(brig):
    result = brig.python("input()").expect("failed", 1)
    assert "EOFError" in result["stderr"]


def test_python_is_utf8(brig):
    code = ("import sys, locale\nprint('größe 数 😀', sys.stdout.encoding.lower(),"
            " sys.getfilesystemencoding())\nopen('ü', 'w').write('ö'); print(open('ü').read())")
    brig.python(code).expect("finished", 0, stdout="größe 数 😀 utf-8 utf-8\nö\n")


def test_python_imports_a_placed_module(brig, place):
    (place / "mod.py").write_text("def answer(): return 42\n")
    brig.python("import mod, pkg.sub; print(mod.answer(), pkg.sub.answer())",
                "--file", "%s:mod.py" % (place / "mod.py"),
                "--file", "%s:pkg/sub.py" % (place / "mod.py")).expect(
                    "finished", 0, stdout="42 42\n")


def test_python_main_guard_argv_and_file(brig):
    code = ("import sys\nif __name__ == '__main__':\n"
            "    print(sys.argv[1:], __file__, sys.executable)")
    brig.python(code, "--", "a").expect(
        "finished", 0, stdout="['a'] /workspace/main.py /usr/bin/python3\n")


@pytest.mark.parametrize("code, out", [
    ("import threading as t; x = []; y = [t.Thread(target=x.append, args=(i,)) for i in range(8)]\n"
     "[z.start() for z in y]; [z.join() for z in y]; print(sorted(x))",
     "[0, 1, 2, 3, 4, 5, 6, 7]\n"),
    ("import subprocess as s; print(s.run(['sh', '-c', 'echo $0; exit 3']).returncode)",
     "sh\n3\n"),
    ("import multiprocessing as m\nif __name__ == '__main__':\n"
     "    with m.Pool(2) as p: print(p.map(abs, [-1, 2, -3]))", "[1, 2, 3]\n"),
    ("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\n"
     "print(asyncio.run(f()))", "5\n"),
    ("import sqlite3; c = sqlite3.connect('x.db'); c.execute('create table t(a)');"
     " c.execute('insert into t values(7)'); c.commit(); print(list(c.execute('select*from t')))",
     "[(7,)]\n"),
    ("import tempfile, os; f = tempfile.NamedTemporaryFile(); print(os.path.dirname(f.name))",
     "/tmp\n"),
    ("import ctypes, ssl, decimal, zoneinfo, hashlib; print(hashlib.sha256(b'').hexdigest()[:8])",
     "e3b0c442\n"),
    ("import random, uuid, secrets, time; time.time(); print(len(str(uuid.uuid4())))", "36\n"),
    ("import shutil, os; os.makedirs('a/b'); open('a/b/c','w').close(); os.chmod('a/b/c', 0o700);"
     " shutil.copytree('a', 'd'); shutil.rmtree('a'); print(os.listdir('d/b'))", "['c']\n"),
], ids=["threads", "subprocess", "multiprocessing", "asyncio", "sqlite", "tempfile", "modules",
        "random", "files"])
def test_python_library(brig, code, out):
    brig.python(code).expect("finished", 0, stdout=out, stderr="")


def test_python_output_is_complete_when_it_crashes(brig):
    brig.python("import sys, os\nprint('a' * 70000, end='')\nsys.stdout.flush()\nos.abort()").expect(
        "killed", 134, stdout="a" * 70000, signal=6, exit_code=None)


# JavaScript


def test_javascript_commonjs(brig):
    code = "const fs = require('fs'); const {join} = require('node:path');" \
           "console.log(typeof fs.readFileSync, join('a', 'b'), typeof module, typeof __dirname)"
    brig.javascript(code).expect("finished", 0, stdout="function a/b object string\n")


def test_javascript_esm(brig):
    code = "import { join } from 'node:path';\nimport fs from 'fs';\n" \
           "console.log(join('a', 'b'), typeof fs.readFileSync, typeof import.meta.url);\n" \
           "export const x = 1;\n"
    brig.javascript(code).expect("finished", 0, stdout="a/b function string\n")


def test_javascript_top_level_await(brig):
    code = "const x = await new Promise(r => setTimeout(() => r(7), 20));\nconsole.log(x);\n"
    brig.javascript(code).expect("finished", 0, stdout="7\n")


def test_javascript_words_that_look_like_modules(brig):
    """A CommonJS program that only mentions import and await stays CommonJS."""
    code = "// import x from 'y'\nconst s = `\nimport a from 'b';\nawait x\n`;\n" \
           "require('fs'); console.log(s.length > 0, typeof require);\n"
    brig.javascript(code).expect("finished", 0, stdout="true function\n")


def test_javascript_requires_a_placed_file(brig, place):
    (place / "lib.js").write_text("exports.answer = () => 42;\n")
    (place / "lib.mjs").write_text("export const answer = () => 43;\n")
    files = ["--file", "%s:lib.js" % (place / "lib.js"), "--file", "%s:lib.mjs" % (place / "lib.mjs")]
    brig.javascript("console.log(require('./lib').answer())", *files).expect(
        "finished", 0, stdout="42\n")
    brig.javascript("import { answer } from './lib.mjs'; console.log(answer())", *files).expect(
        "finished", 0, stdout="43\n")
    brig.javascript("import('./lib.mjs').then(m => console.log(m.answer()))", *files).expect(
        "finished", 0, stdout="43\n")


def test_javascript_uncaught_error(brig):
    result = brig.javascript("function f() {\n  throw new TypeError('boom');\n}\nf();\n").expect(
        "failed", 1)
    assert "TypeError: boom" in result["stderr"] and "main.js:2" in result["stderr"], result


def test_javascript_unhandled_rejection(brig):
    result = brig.javascript("Promise.reject(new Error('lost'))").expect("failed", 1)
    assert "lost" in result["stderr"]


def test_javascript_syntax_error(brig):
    result = brig.javascript("let x = ;\n").expect("failed", 1, stdout="")
    assert "SyntaxError" in result["stderr"] and "main.js" in result["stderr"]


@pytest.mark.parametrize("code, status", [
    ("process.exit(7)", 7), ("process.exitCode = 9", 9), ("process.exit()", 0)])
def test_javascript_exit(brig, code, status):
    brig.javascript(code).expect("failed" if status else "finished", status)


def test_javascript_argv(brig):
    result = brig.javascript("console.log(JSON.stringify(process.argv))", "--", "a b", "--x").expect(
        "finished", 0)
    assert json.loads(result["stdout"]) == ["/usr/bin/node", "/workspace/main.js", "a b", "--x"]


def test_javascript_stdin(brig, place):
    (place / "in").write_text("x\ny\n")
    code = "let n = 0; process.stdin.on('data', d => n += d.length)" \
           ".on('end', () => console.log(n))"
    brig.javascript(code, "--stdin", place / "in").expect("finished", 0, stdout="4\n")


def test_javascript_utf8_and_large_output(brig):
    code = "process.stdout.write('ü😀'.repeat(50000)); console.error('数')"
    brig.javascript(code).expect("finished", 0, stdout="ü😀" * 50000, stderr="数\n")


@pytest.mark.parametrize("code, out", [
    ("const {Worker} = require('worker_threads'); new Worker("
     "'require(\"worker_threads\").parentPort.postMessage(5)', {eval: true})"
     ".on('message', m => console.log(m))", "5\n"),
    ("console.log(require('child_process').execSync('echo sub').toString().trim())", "sub\n"),
    ("const h = require('http'); const s = h.createServer((q, r) => r.end('hi')).listen(0, "
     "'127.0.0.1', () => h.get(s.address(), r => r.on('data', d => {console.log(String(d));"
     " s.close(); process.exit()})))", "hi\n"),
    ("console.log(require('crypto').createHash('sha256').digest('hex').slice(0, 8))",
     "e3b0c442\n"),
    ("setTimeout(() => console.log('late'), 50)", "late\n"),
    ("require('fs').promises.writeFile('f', 'x').then(() =>"
     " console.log(require('fs').statSync('f').size))", "1\n"),
], ids=["worker", "child", "http", "crypto", "timer", "files"])
def test_javascript_library(brig, code, out):
    brig.javascript(code).expect("finished", 0, stdout=out, stderr="")


# Shell


@pytest.mark.parametrize("code, status, out", [
    ("printf 'b\\na\\n' | sort | tr a-z A-Z", 0, "A\nB\n"),
    ("set -e; false; echo never", 1, ""),
    ("set -euo pipefail; false | true; echo never", 1, ""),
    ("set -u; echo $absent", 1, ""),
    ("cat <<END\na $((1 + 1))\nEND\ncat <<'END'\n$x\nEND\n", 0, "a 2\n$x\n"),
    ("cat <<< 'here string'", 0, "here string\n"),
    ("a=(one 'two words' three); echo ${#a[@]} \"${a[1]}\"", 0, "3 two words\n"),
    ("declare -A m=([k]=v); echo ${m[k]}; [[ abc == a* ]] && echo match", 0, "v\nmatch\n"),
    ("diff <(echo a) <(echo a) && echo same", 0, "same\n"),
    ("f() { local x=$1; return $((x + 1)); }; f 4; echo $?; exit 6", 6, "5\n"),
    ("trap 'echo bye' EXIT; exit 3", 3, "bye\n"),
    ("sleep 0.05 & wait $!; echo $?", 0, "0\n"),
    ("(exit 5) || echo $?", 0, "5\n"),
    ("for f in *; do echo \"$f\"; done", 0, "main.sh\n"),
    ("echo x | { read -r v; echo \"got $v\"; }", 0, "got x\n"),
    ("timeout 0.1 sleep 5; echo $?", 0, "124\n"),
    ("exec 3> f; echo three >&3; exec 3>&-; cat f", 0, "three\n"),
    ("printf '#!/bin/sh\\necho script\\n' > s; chmod +x s; ./s", 0, "script\n"),
    ("exit 256", 0, ""),
    ("exit -1", 255, ""),
])
def test_shell(brig, code, status, out):
    brig.shell(code).expect("failed" if status else "finished", status, stdout=out)


def test_shell_error_names_file_and_line(brig):
    result = brig.shell("true\nno-such-command\n").expect("failed", 127)
    assert "main.sh: line 2: no-such-command: command not found" in result["stderr"], result


def test_shell_syntax_error(brig):
    result = brig.shell("if true; then\n").expect("failed", 2)
    assert "syntax error" in result["stderr"]


def test_shell_reads_stdin(brig, place):
    (place / "in").write_text("1\n2\n3\n")
    brig.shell("s=0; while read -r n; do s=$((s + n)); done; echo $s", "--stdin",
               place / "in").expect("finished", 0, stdout="6\n")


def test_shell_script_is_not_read_from_stdin(brig):
    """A command that reads stdin does not eat the rest of the script."""
    brig.shell("cat\necho after\n").expect("finished", 0, stdout="after\n")


@pytest.mark.parametrize("tool", [
    "awk 'BEGIN { print 6 * 7 }'", "echo 41 | sed s/1/2/", "expr 6 \\* 7", "seq 42 | tail -n 1",
    "echo 42 | grep -o 42", "printf 42 | xargs", "python3 -c 'print(42)'",
    "node -e 'console.log(42)'", "echo 42 | tee f | cat", "mkdir d && cd d && echo 42",
    "find . -name main.sh -exec echo 42 ';'", "tar c main.sh | tar t >/dev/null && echo 42",
    "echo 42 | gzip | gzip -d", "mktemp -d >/dev/null && echo 42",
])
def test_shell_tools(brig, tool):
    brig.shell(tool).expect("finished", 0, stdout="42\n")
