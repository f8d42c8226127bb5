"""The command line of `brig run`: what goes in, what comes out, and what is refused."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

MIB = 1024 * 1024
CODE_MAX = 1 * MIB
CANCEL_AFTER_S = 0.4
CANCELLED = 130  # whatever asked for it
BOUND_S = 60

USAGE_KEYS = {
    "wall_ms", "cpu_ms", "peak_memory_bytes", "pids_peak", "read_bytes", "written_bytes",
}
RECEIPT_KEYS = {
    "level_required", "level_achieved", "verified", "image", "launcher", "seccomp_profile",
    "layers",
}
LAYER_KEYS = {"name", "required", "enforced", "detail"}


def source_of_size(size):
    """A Python program of exactly so many bytes that prints `ran`."""
    program = b"print('ran')\n#"
    return program + b"x" * (size - len(program))


def refused(run, *words):
    """A request that is wrong: status 2, state rejected, an error that names the thing."""
    result = run.expect("rejected", 2)
    assert result["error"]["code"] == "invalid", run
    for word in words:
        assert word.lower() in result["error"]["cause"].lower(), (word, run)
    assert result["exit_code"] is None, run
    assert result["stdout"] == "", run
    return result


# Where the code comes from


@pytest.mark.parametrize("language, code", [
    ("python", "print('hello')"),
    ("py", "print('hello')"),
    ("python3", "print('hello')"),
    ("javascript", "console.log('hello')"),
    ("js", "console.log('hello')"),
    ("node", "console.log('hello')"),
    ("shell", "echo hello"),
    ("sh", "echo hello"),
    ("bash", "echo hello"),
])
def test_code_option_with_every_name_of_a_language(brig, language, code):
    brig.run(language, "-c", code).expect("finished", 0, stdout="hello\n", stderr="",
                 exit_code=0, signal=None, error=None)


@pytest.mark.parametrize("name, code", [
    ("hello.py", "print('hello')"),
    ("hello.js", "console.log('hello')"),
    ("hello.mjs", "import 'node:fs'; console.log('hello')"),
    ("hello.sh", "echo hello"),
])
def test_file_language_by_extension(brig, place, name, code):
    script = place / name
    script.write_text(code)
    brig.run(script).expect("finished", 0, stdout="hello\n")


def test_file_without_extension_needs_a_language(brig, place):
    script = place / "program"
    script.write_text("print('hello')")
    refused(brig.run(script), "language")
    brig.run(script, "--lang", "python").expect("finished", 0, stdout="hello\n")


def test_file_keeps_its_name(brig, place):
    script = place / "my program.py"
    script.write_text("import sys; print(sys.argv[0].rsplit('/', 1)[-1])")
    brig.run(script).expect("finished", 0, stdout="my program.py\n")


def test_unicode_name_and_code(brig, place):
    script = place / "größe-数-😀.py"
    script.write_text("naïve = 'größe 数 😀'\nprint(naïve)\nraise ValueError(naïve)\n",
                      encoding="utf-8")
    result = brig.run(script).expect("failed", 1, stdout="größe 数 😀\n")
    assert "größe-数-😀.py" in result["stderr"]
    assert "ValueError: größe 数 😀" in result["stderr"]


def test_code_on_stdin(brig):
    brig.run("-", "--lang", "python", stdin=b"print('from stdin')").expect("finished", 0,
                 stdout="from stdin\n")


def test_code_on_stdin_needs_a_language(brig):
    run = brig.run("-", stdin=b"print(1)")
    assert run.status == 2, run
    assert "lang" in (run.out.decode() + run.text).lower(), run


def test_crlf_python_runs(brig, place):
    script = place / "dos.py"
    script.write_bytes(b"x = 1\r\nif x:\r\n    print('crlf')\r\n")
    brig.run(script).expect("finished", 0, stdout="crlf\n")


@pytest.mark.parametrize("language, code", [
    ("python", b"print('bom')"), ("javascript", b"console.log('bom')")])
def test_byte_order_mark(brig, place, language, code):
    script = place / "bom"
    script.write_bytes(b"\xef\xbb\xbf" + code + b"\n")
    brig.run(script, "--lang", language).expect("finished", 0, stdout="bom\n")


def test_code_of_the_largest_size(brig, place):
    script = place / "large.py"
    script.write_bytes(source_of_size(CODE_MAX))
    brig.run(script).expect("finished", 0, stdout="ran\n")


def test_code_one_byte_too_large(brig, place):
    script = place / "large.py"
    script.write_bytes(source_of_size(CODE_MAX + 1))
    refused(brig.run(script), "large.py", str(CODE_MAX))


def test_code_on_stdin_too_large(brig):
    refused(brig.run("-", "--lang", "python", stdin=source_of_size(CODE_MAX + 1)), "code")


def test_code_with_nul(brig, place):
    script = place / "nul.py"
    script.write_bytes(b"print('a')\0print('b')\n")
    refused(brig.run(script), "nul")


@pytest.mark.parametrize("args, stdin", [
    (["python", "-c", ""], b""), (["-", "--lang", "python"], b"")])
def test_empty_code(brig, args, stdin):
    refused(brig.run(*args, stdin=stdin), "code")


def test_unknown_language_names_the_known_ones(brig):
    run = brig.run("cobol", "-c", "DISPLAY 'HI'.")
    assert run.status == 2, run
    said = run.out.decode() + run.text
    for name in ("cobol", "python", "javascript", "shell"):
        assert name in said, run


def test_file_that_does_not_exist(brig, place):
    run = brig.run(place / "absent.py")
    assert run.status in (2, 125), run
    assert "absent.py" in run.out.decode() + run.text, run
    assert "No such file" in run.out.decode() + run.text, run


def test_unreadable_file(brig_user, place):
    script = place / "secret.py"
    script.write_text("print('secret')")
    script.chmod(0)
    run = brig_user.run(script)
    assert run.status in (2, 125), run
    assert "secret.py" in run.out.decode() + run.text, run
    assert "ermission denied" in run.out.decode() + run.text, run


def test_directory_as_file(brig, place):
    run = brig.run(place, "--lang", "python")
    assert run.status in (2, 125), run
    assert place.name in run.out.decode() + run.text, run


# What the code is given


def test_arguments_after_the_dashes(brig):
    args = ["one", "two words", "", "--json", "-c", "--", "ünï", "$HOME", "a\nb"]
    result = brig.python("import sys, json; print(json.dumps(sys.argv[1:]))", "--", *args).expect("finished", 0)
    assert json.loads(result["stdout"]) == args


@pytest.mark.parametrize("language, code", [
    ("shell", 'printf "%s|" "$@"'),
    ("javascript", "process.stdout.write(process.argv.slice(2).map(a => a + '|').join(''))"),
])
def test_arguments_in_the_other_languages(brig, language, code):
    brig.run(language, "-c", code, "--", "a b", "-x", "").expect("finished", 0,
                 stdout="a b|-x||")


def test_environment(brig):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    result = brig.python(code, "--env", "A=1", "--env", "B=x=y z", "--env", "C=").expect("finished", 0)
    env = json.loads(result["stdout"])
    assert (env["A"], env["B"], env["C"]) == ("1", "x=y z", "")
    assert env["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert env["HOME"] == "/tmp" and env["TMPDIR"] == "/tmp" and env["LANG"] == "C.UTF-8"


def test_environment_of_the_host_stays_outside(brig):
    env = dict(os.environ, BRIG_TEST_SECRET="s3cret")
    result = brig.shell("env; cat /proc/self/environ", env=env).expect("finished", 0)
    assert "s3cret" not in result["stdout"]


@pytest.mark.parametrize("entry", ["NOVALUE", "=x", "1A=x", "A B=x", "A-B=x"])
def test_bad_environment_names(brig, entry):
    run = brig.shell("true", "--env", entry)
    assert run.status == 2, run


def test_stdin_file(brig, place):
    data = place / "in.txt"
    data.write_bytes("zwölf\n".encode() * 1000)
    brig.shell("wc -c", "--stdin", data).expect("finished", 0,
                 stdout="%d\n" % data.stat().st_size)


def test_stdin_is_empty_without_the_option(brig):
    brig.shell("wc -c", stdin=b"not for the box").expect("finished", 0, stdout="0\n")


def test_stdin_that_nobody_reads(brig, place):
    data = place / "in.bin"
    data.write_bytes(b"x" * (8 * MIB))
    brig.shell("echo done", "--stdin", data).expect("finished", 0, stdout="done\n")


def test_stdin_file_too_large(brig, place):
    data = place / "in.bin"
    data.write_bytes(b"")
    os.truncate(data, 16 * MIB + 1)
    refused(brig.shell("true", "--stdin", data), "in.bin", str(16 * MIB))


def test_stdin_file_that_does_not_exist(brig, place):
    run = brig.shell("true", "--stdin", place / "absent")
    assert run.status in (2, 125), run
    assert "absent" in run.out.decode() + run.text, run


def test_files_are_placed(brig, place):
    (place / "data.txt").write_text("payload")
    tool = place / "tool.sh"
    tool.write_text("#!/bin/sh\necho tool ran\n")
    tool.chmod(0o755)
    result = brig.shell("cat data.txt deep/er/data.txt /workspace/abs.txt; ./tool; ls -l data.txt",
                   "--file", "%s:data.txt" % (place / "data.txt"),
                   "--file", "%s:deep/er/data.txt" % (place / "data.txt"),
                   "--file", "%s:/workspace/abs.txt" % (place / "data.txt"),
                   "--file", "%s:tool" % tool).expect("finished", 0)
    assert result["stdout"].startswith("payload" * 3 + "tool ran\n-rw"), result
    assert (place / "data.txt").read_text() == "payload"


@pytest.mark.parametrize("target", ["../x", "a/../../x", "/etc/x", "/tmp/x", "", ".", "a//b",
                                    "/workspace/../etc/x"])
def test_file_outside_the_workspace(brig, place, target):
    (place / "data").write_text("x")
    run = brig.shell("true", "--file", "%s:%s" % (place / "data", target))
    assert run.status == 2, run


def test_file_that_does_not_exist_is_not_placed(brig, place):
    run = brig.shell("true", "--file", "%s:x" % (place / "absent"))
    assert run.status in (2, 125), run
    assert "absent" in run.out.decode() + run.text, run


def test_output_file_comes_out(brig, place):
    payload = bytes(range(256)) * 1000
    code = "open('r.bin', 'wb').write(bytes(range(256)) * 1000)"
    brig.python(code, "--out", "r.bin:%s" % (place / "r.bin")).expect("finished", 0)
    assert (place / "r.bin").read_bytes() == payload
    assert not (place / "r.bin").stat().st_mode & 0o7000


def test_output_file_of_a_failed_run_comes_out(brig, place):
    brig.shell("echo part > r; exit 3", "--out", "r:%s" % (place / "r")).expect("failed", 3)
    assert (place / "r").read_text() == "part\n"


def test_output_file_that_the_code_did_not_write(brig, place):
    run = brig.shell("true", "--out", "r:%s" % (place / "r"))
    assert "r" in run.out.decode() + run.text and run.status == 125, run
    assert not (place / "r").exists()


@pytest.mark.parametrize("target", ["nodir/r", "/proc/r", "/sys/r"])
def test_output_file_that_cannot_be_made_is_told_before_the_run(brig, place, target):
    run = brig.shell("echo ran; echo part > r", "--out", "r:%s" % (place / target))
    assert run.status == 125 and b"ran" not in run.out and target in run.out.decode() + run.text, run
    assert not list(place.iterdir())


def test_two_output_files_of_one_name(brig, place):
    run = brig.shell("echo a > a; echo b > b", "--out", "a:%s" % (place / "r"), "--out", "b:%s" % (place / "r"))
    assert run.status == 2 and not (place / "r").exists(), run


def test_output_file_that_is_a_link_out(brig, place):
    run = brig.shell("ln -s /etc/passwd r; ln -s /proc/self/environ e",
                     "--out", "r:%s" % (place / "r"), "--out", "e:%s" % (place / "e"))
    assert run.status == 125, run
    assert not (place / "r").exists() and not (place / "e").exists()


@pytest.mark.parametrize("source", ["../x", "/etc/passwd", "a/../../etc/passwd"])
def test_output_file_outside_the_workspace(brig, place, source):
    run = brig.shell("true", "--out", "%s:%s" % (source, place / "r"))
    assert run.status == 2, run
    assert not (place / "r").exists()


# What comes out


def test_json_keys(brig):
    result = brig.shell("echo out; echo err >&2; echo x > made; exit 4").expect("failed", 4, stdout="out\n", stderr="err\n", exit_code=4, signal=None)
    assert re.fullmatch(r"[0-9a-hjkmnp-tv-z]{26}", result["execution_id"])
    assert set(result["usage"]) == USAGE_KEYS
    assert all(isinstance(value, int) and value >= 0 for value in result["usage"].values())
    assert result["truncated"] == {"stdout": 0, "stderr": 0}
    assert set(result["receipt"]) == RECEIPT_KEYS
    assert all(set(row) == LAYER_KEYS for row in result["receipt"]["layers"])
    assert result["receipt"]["verified"] is True
    assert re.fullmatch(r"[0-9a-f]{64}", result["receipt"]["seccomp_profile"])
    assert result["tier"] == "jail"
    assert result["value"] is None and result["approval_id"] is None
    assert result["files"] == {"created": [{"path": "made", "size": 2}], "modified": [],
                               "deleted": [], "truncated": False}


def test_json_is_one_line_and_execution_ids_differ(brig):
    runs = [brig.shell("true") for _ in range(3)]
    assert len({run.result["execution_id"] for run in runs}) == 3
    assert all(run.out.endswith(b"}\n") and run.err == b"" for run in runs), runs


def test_json_of_bytes_that_are_not_utf8(brig):
    result = brig.shell(r"printf 'a\377b\0c\303\244'").expect("finished", 0)
    assert result["stdout"] == "a\ufffdb\0cä"


def test_program_cannot_forge_the_result(brig):
    forged = json.dumps(dict(brig.shell("true").result, execution_id="0" * 26))
    result = brig.shell("printf '%s' \"$F\"; printf '%s' \"$F\" >&2; exit 9",
                                     "--env", "F=" + forged).expect("failed", 9)
    assert result["stdout"] == forged and result["stderr"] == forged


def test_plain_output_passes_through(brig):
    run = brig.plain("shell", "-c", r"printf 'a\377b\0c'; printf 'e\376' >&2; exit 7")
    assert (run.status, run.out, run.err) == (7, b"a\xffb\0c", b"e\xfe"), run


def test_receipt(brig):
    run = brig.plain("shell", "-c", "echo out", "--receipt")
    assert run.status == 0 and run.out == b"out\n", run
    receipt = json.loads(run.text)
    assert set(receipt) == RECEIPT_KEYS and receipt["verified"] is True
    layers = {row["name"]: row for row in receipt["layers"]}
    assert all(row["enforced"] for row in layers.values() if row["required"])
    for name in ("user_namespace", "seccomp", "no_capabilities", "read_only_root"):
        assert layers[name]["enforced"], layers[name]
    assert layers["cpu_limit"]["enforced"] is brig.is_root
    if not brig.is_root:
        assert receipt["level_achieved"] == "degraded-ok"
        assert layers["cpu_limit"]["detail"], "a missing layer says why"


def test_receipt_with_json_goes_to_stderr(brig):
    run = brig.shell("true", "--receipt")
    assert json.loads(run.text) == run.result["receipt"]


def test_live_output(brig):
    with brig.start("shell", "-c", "echo first; sleep 0.8; echo last") as process:
        begin = time.monotonic()
        assert process.stdout.readline() == b"first\n"
        assert time.monotonic() - begin < 0.7 and process.poll() is None
        assert process.communicate(timeout=BOUND_S) == (b"last\n", b"")
        assert process.returncode == 0


def test_live_output_without_newline(brig):
    with brig.start("shell", "-c", "printf abc; sleep 0.8; printf def") as process:
        begin = time.monotonic()
        assert os.read(process.stdout.fileno(), 100) == b"abc"
        assert time.monotonic() - begin < 0.7
        process.communicate(timeout=BOUND_S)


def test_reader_that_goes_away(brig):
    """`brig run … | head -1`: the run ends soon and nothing is left."""
    with brig.start("shell", "-c", "yes", "--timeout", "6s") as process:
        process.stdout.readline()
        process.stdout.close()
        begin = time.monotonic()
        process.wait(timeout=BOUND_S)
        assert time.monotonic() - begin < 3
        process.stderr.read()


def test_closed_standard_descriptors(brig):
    argv = ["sh", "-c", 'exec "$0" "$@" <&- 2>&-'] + brig.run_argv("shell", "-c", "echo ok")
    run = brig.call(argv)
    assert (run.status, run.out) == (0, b"ok\n"), run


def test_result_that_cannot_be_written(brig):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(brig.run_argv("shell", "-c", "echo x", options=["--json"]),
                              stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                              timeout=BOUND_S, check=False)
    assert done.returncode == 125 and b"written" in done.stderr, done


# Cancelling


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", [False, True], ids=["process", "group"])
def test_cancel(brig, number, group):
    code = "trap '' INT TERM HUP; echo started; while :; do sleep 0.1; done"
    with brig.start("shell", "-c", code, json_result=True) as process:
        time.sleep(CANCEL_AFTER_S)
        (os.killpg if group else os.kill)(process.pid, number)
        begin = time.monotonic()
        out, _err = process.communicate(timeout=BOUND_S)
        assert time.monotonic() - begin < 1.0
    result = json.loads(out.decode())
    assert result["state"] == "cancelled" and result["success"] is False
    assert result["stdout"] == "started\n"
    assert process.returncode == CANCELLED


def test_cancel_without_json(brig, residue):
    with brig.start("python", "-c", "import time; print('up', flush=True); time.sleep(60)") as run:
        assert run.stdout.readline() == b"up\n"
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=BOUND_S)
    assert run.returncode == CANCELLED
    residue.check(grace=1.0)


# Exit statuses


@pytest.mark.parametrize("code, state, status, number", [
    ("exit 0", "finished", 0, None),
    ("exit 1", "failed", 1, None),
    ("exit 124", "failed", 124, None),
    ("exit 255", "failed", 255, None),
    ("kill -TERM $$", "killed", 143, 15),
    ("kill -KILL $$", "killed", 137, 9),
    ("no-such-command-here", "failed", 127, None),
    ("/etc/passwd", "failed", 126, None),
])
def test_exit_status_is_the_programs(brig, code, state, status, number):
    result = brig.shell(code).expect(state, status, signal=number)
    assert result["exit_code"] == (None if number else status)


def test_timeout_status(brig):
    brig.shell("sleep 30", "--timeout", "300ms").expect("timed_out", 124)
    assert brig.plain("shell", "-c", "sleep 30", "--timeout", "300ms").status == 124


def test_out_of_memory_status(brig):
    code = "x = b'x' * (400 << 20)"
    brig.python(code, "--memory", "64M").expect("oom", 137)


def test_level_that_cannot_be_met(brig_user):
    """Without cgroups the default level is refused before any code runs."""
    run = brig_user.command("run", "shell", "-c", "echo ran", "--json")
    assert run.status == 126, run
    result = run.result
    assert result["error"]["code"] == "unsupported" and result["stdout"] == "", run
    assert result["error"]["remedy"], run
    run = brig_user.command("run", "shell", "-c", "echo ran", "--level", "strict")
    assert run.status == 126 and run.out == b"", run


def test_levels_of_root(brig_root):
    for level in ("strict", "standard", "degraded-ok"):
        run = brig_root.shell("echo ran", "--level", level)
        run.expect("finished", 0, stdout="ran\n")
        assert run.result["receipt"]["level_required"] == level


def test_interpreter_that_is_not_installed(brig_root, place):
    """In a mount namespace whose /usr/bin has no node; brig names the package to install."""
    (place / "upper").mkdir()
    (place / "work").mkdir()
    hide = ("mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=%s/upper,workdir=%s/work "
            "/usr/bin && rm -f /usr/bin/node /usr/bin/nodejs && exec \"$@\"" % (place, place))
    argv = ["unshare", "-m", "sh", "-c", hide, "sh"]
    argv += brig_root.run_argv("javascript", "-c", "console.log(1)", options=["--json"])
    run = brig_root.call(argv)
    assert run.status == 125, run
    assert run.result["error"]["code"] == "not_found", run
    assert "nodejs" in json.dumps(run.result["error"]), run
    assert run.result["state"] in ("setup_failed", "rejected"), run


def test_missing_launcher(brig, place):
    """A copy of brig without its launcher says so and runs nothing."""
    alone = place / "brig"
    shutil.copy(brig.path, alone)
    alone.chmod(0o755)
    argv = [str(alone) if arg == brig.path else arg
            for arg in brig.run_argv("shell", "-c", "echo ran")]
    run = brig.call(argv)
    assert run.status == 125 and run.out == b"", run
    assert "brig-launch" in run.text, run


# Wrong use


@pytest.mark.parametrize("option, value", [
    (option, value)
    for option, values in {
        "--timeout": ["0", "-1", "-1s", "301s", "1000h", "x", "", "1.5.5s", "0x10",
                      "99999999999999999999"],
        "--memory": ["0", "-1", "1M", "65G", "x", "16EB", "18446744073709551616"],
        "--cpus": ["0", "-0.5", "0.001", "257", "one", "nan", "inf", "1e1"],
        "--cpu-time": ["0", "-1", "999ms", "25h"],
        "--pids": ["0", "-1", "4097", "1K", "1.5"],
        "--open-files": ["0", "15", "16385", "-1"],
        "--file-size": ["0", "4095", "-1", "1025G"],
        "--disk": ["0", "65535", "-1", "65G"],
        "--inodes": ["0", "63", "4194305"],
        "--output": ["0", "1023", "-1", "257M"],
    }.items() for value in values])
def test_limits_out_of_range(brig_user, option, value):
    """The same for every user, so one mode is enough."""
    run = brig_user.shell("true", option, value)
    assert run.status == 2, run
    assert option.lstrip("-") in (run.out.decode() + run.text).replace("_", "-"), run


@pytest.mark.parametrize("option, value", [
    ("--timeout", "300s"), ("--timeout", "5m"), ("--timeout", "3"), ("--memory", "33554432"),
    ("--memory", "64MiB"), ("--cpus", "0.01"), ("--cpus", "256"), ("--cpu-time", "24h"),
    ("--cpu-time", "1000ms"), ("--pids", "4096"), ("--open-files", "16"),
    ("--open-files", "16384"), ("--file-size", "4096"), ("--file-size", "1024G"),
    ("--disk", "64K"), ("--disk", "64G"), ("--inodes", "64"), ("--inodes", "4194304"),
    ("--output", "1K"), ("--output", "256M"),
])
def test_limits_at_the_ends_of_their_range(brig, option, value):
    brig.shell("echo ok", option, value).expect("finished", 0, stdout="ok\n")


@pytest.mark.parametrize("args", [
    ["run"],
    ["run", "python"],
    ["run", "python", "-c"],
    ["run", "python", "-c", "1", "--no-such-option"],
    ["run", "python", "-c", "1", "stray"],
    ["run", "python", "-c", "1", "--level", "none"],
    ["run", "python", "-c", "1", "--network", "host"],
    ["run", "python", "-c", "1", "--file", "nocolon"],
    ["run", "python", "-c", "1", "--out", "nocolon"],
    ["run", "python", "-c", "1", "--timeout"],
    ["run", "python", "-c", "1", "--timeout", "1s", "--lang", "cobol"],
    [],
])
def test_wrong_use(brig_user, args):
    run = brig_user.command(*args)
    assert run.status == 2, run
    assert run.out == b"" and run.err, run


def test_unknown_command_suggests(brig):
    run = brig.command("rnu")
    assert run.status == 2 and b"rnu" in run.err and b"run" in run.err.replace(b"rnu", b""), run


def test_unknown_option_is_named(brig):
    run = brig.command("run", "python", "-c", "1", "--memmory", "64M")
    assert run.status == 2 and b"--memmory" in run.err, run


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"]])
def test_help(brig, args):
    run = brig.command(*args)
    assert run.status == 0 and b"run" in run.out and b"Usage" in run.out and not run.err, run


def test_help_of_run_names_every_option(brig):
    run = brig.command("run", "--help")
    assert run.status == 0 and not run.err, run
    for option in ("-c", "--lang", "--json", "--timeout", "--memory", "--cpus", "--cpu-time",
                   "--pids", "--open-files", "--file-size", "--disk", "--inodes", "--output",
                   "--env", "--stdin", "--file", "--out", "--level", "--network", "--receipt"):
        assert re.search(r"(?<![-\w])%s(?![-\w])" % option, run.out.decode()), (option, run)


def test_version(brig):
    run = brig.command("--version")
    assert run.status == 0 and re.fullmatch(r"brig \d+\.\d+\.\d+\n", run.out.decode()), run


# The box, as far as it is part of the command's promise


def test_box_as_documented(brig):
    code = "id -un; id -u; id -g; hostname; pwd; echo $HOME; cat /etc/hostname; ls /workspace"
    brig.shell(code).expect("finished", 0,
                 stdout="sandbox\n1000\n1000\nbrig\n/workspace\n/tmp\nbrig\nmain.sh\n")


@pytest.mark.parametrize("network, status", [("loopback", 0), ("none", 1)])
def test_network(brig, network, status):
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=5)
client.sendall(b"ping")
print(server.accept()[0].recv(4).decode())
"""
    run = brig.python(code, "--network", network)
    assert run.status == status, run
    assert run.result["stdout"] == ("" if status else "ping\n"), run


def test_runs_do_not_see_each_other(brig):
    brig.shell("echo x > /tmp/mark; echo x > /workspace/mark; echo x > /dev/shm/m").expect("finished", 0)
    brig.shell("ls -A /tmp /dev/shm").expect("finished", 0, stdout="/dev/shm:\n\n/tmp:\n")


def test_works_from_a_directory_that_is_gone(brig, place):
    gone = place / "gone"
    gone.mkdir()
    argv = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone)]
    run = brig.call(argv + brig.run_argv("shell", "-c", "pwd"), cwd="/")
    assert (run.status, run.out) == (0, b"/workspace\n"), run


def test_users_are_not_in_each_others_way(brig_user, brig):
    """What a run of one kind of user leaves behind, if anything, does not hinder the other."""
    for user in (brig_user, brig, brig_user):
        user.shell("echo ok").expect("finished", 0, stdout="ok\n")
