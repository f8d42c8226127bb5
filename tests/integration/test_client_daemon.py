# SPDX-License-Identifier: Apache-2.0
"""The same commands with a daemon and without: what a person sees must not tell which it was."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import brigd  # noqa: E402
from brigd import ALLOW, ASK, BRIG, ID, until  # noqa: E402
from test_client import on_terminal  # noqa: E402

LEVEL = [] if os.geteuid() == 0 else ["--level", "degraded-ok"]
BOUND_S = 90


@pytest.fixture(scope="module")
def daemon():
    with brigd.running() as d:
        yield d


@pytest.fixture(scope="module")
def asking():
    with brigd.running(policy=ASK) as d:
        yield d


@pytest.fixture(autouse=True)
def residue(subreaper):
    """In the place of conftest's: the daemons outlive a test, and are looked after when they stop."""
    with brigd.no_descriptors_left():
        yield


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("BRIG")}
    env.update(more)
    return env


def at(daemon, tcp=False):
    return "http://%s" % daemon.tcp_host if tcp else "unix:%s" % daemon.socket


def call(*args, stdin=b"", env=None, **more):
    return subprocess.run([BRIG, *map(str, args)], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=BOUND_S, check=False,
                          env=env or environment(**more))


def there(daemon, *args, stdin=b"", **more):
    return call(*args, stdin=stdin, BRIG_HOST=at(daemon), **more)


def here(*args, stdin=b""):
    return call(*args, stdin=stdin, env=dict(os.environ, BRIG_HOST="none", BRIG_POLICY=str(ALLOW)))


def run_args(*args):
    args = list(args)
    cut = args.index("--") if "--" in args else len(args)
    return ["run", *args[:cut], *LEVEL, *args[cut:]]


# The same as embedded

CASES = {
    "output and status": ["shell", "-c", "echo out; echo err >&2; exit 3"],
    "nothing": ["shell", "-c", ":"],
    "bytes": ["python", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 50)"],
    "a character in two pieces": ["python", "-c", "import sys,time; w=sys.stdout.buffer; w.write(b'\\xc3');"
                                  "w.flush(); time.sleep(0.3); w.write(b'\\xa4\\n')"],
    "slow output": ["shell", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"],
    "no newline at the end": ["shell", "-c", "printf x"],
    "an exception": ["python", "-c", "raise ValueError('x')"],
    "a signal": ["shell", "-c", "kill -SEGV $$"],
    "a timeout": ["shell", "-c", "echo a; sleep 60", "--timeout", "1s"],
    "arguments and variables": ["python", "-c", "import sys,os; print(sys.argv[1:], os.environ['A'])",
                                "--env", "A=b c", "--", "x", "--y", "ä"],
    "javascript": ["javascript", "-c", "console.log(6*7)"],
    "a wrong limit": ["python", "-c", "1", "--pids", "99999999"],
    "no network": ["shell", "-c", "cat /proc/net/dev | wc -l", "--network", "none"],
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_the_same_in_the_daemon(daemon, case):
    wanted, got = here(*run_args(*CASES[case])), there(daemon, *run_args(*CASES[case]))
    assert (got.returncode, got.stdout, got.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_files_and_standard_input_get_there(daemon, place):
    data = bytes(range(256))
    (place / "a").write_bytes(data)
    (place / "in").write_text("from stdin\n")
    args = run_args("shell", "-c", "sha256sum sub/a | cut -c1-64; cat", "--file", "%s:sub/a" % (place / "a"),
                    "--stdin", place / "in")
    got = there(daemon, *args)
    assert got.stdout == here(*args).stdout and got.stdout.endswith(b"from stdin\n"), got


def test_files_come_out(daemon, place):
    args = run_args("shell", "-c", "echo one > a; mkdir d; head -c 300000 /dev/zero > 'd/b c'; exit 3",
                    "--out", "a:%s/a" % place, "--out", "d/b c:%s/b" % place)
    for where in (lambda *a: there(daemon, *a), here):
        run = where(*args)
        assert run.returncode == 3, run
        assert (place / "a").read_bytes() == b"one\n" and (place / "b").stat().st_size == 300000
        (place / "a").unlink()
        (place / "b").unlink()


@pytest.mark.parametrize("code", ["true", "ln -s /etc/passwd x", "mkdir x"])
def test_a_file_that_does_not_come_out_is_an_error(daemon, place, code):
    args = run_args("shell", "-c", code, "--out", "x:%s/x" % place)
    for where in (lambda *a: there(daemon, *a), here):
        run = where(*args)
        assert run.returncode == 125 and b"x" in run.stderr, run
        run = where(*args, "--json")
        told = json.loads(run.stdout)
        assert run.returncode == 125 and told["state"] == "finished" and told["success"] is False, run
        assert told["error"]["cause"] and set(told["error"]) == {"code", "cause", "remedy"}, told
    assert not list(place.iterdir())


def test_labels_get_there(place):
    policy = place / "labels.yaml"
    policy.write_text("version: 1\nname: labels\ndefault: allow\nfloor:\n  level: degraded-ok\nrules:\n"
                      "  - name: no-prod\n    match: { label: prod }\n    verdict: deny\n    reason: no\n")
    with brigd.running(policy=policy, tcp=False) as d:
        assert there(d, *run_args("shell", "-c", "echo 1", "--label", "blue")).returncode == 0
        run = there(d, *run_args("shell", "-c", "echo 1", "--label", "blue", "--label", "prod"))
        assert run.returncode == 126 and b"no-prod" in run.stderr, run


def test_json_has_the_same_keys(daemon):
    args = run_args("python", "-c", "print(1)", "--json")
    wanted, got = (json.loads(f.stdout.decode()) for f in (here(*args), there(daemon, *args)))
    assert list(got) == list(wanted) and got["stdout"] == "1\n" and got["receipt"]["verified"]


def test_the_receipt_has_the_same_keys(daemon):
    args = run_args("python", "-c", "1", "--receipt")
    wanted, got = (json.loads(f.stderr.decode()) for f in (here(*args), there(daemon, *args)))
    assert list(got) == list(wanted)
    assert [l["name"] for l in got["layers"]] == [l["name"] for l in wanted["layers"]]


@pytest.mark.parametrize("seconds", [0, 1])
def test_output_over_the_limit_has_beginning_and_end(daemon, seconds):
    code = "seq 1 20000; sleep %d; seq 20001 40000; echo last" % seconds
    got = there(daemon, *run_args("shell", "-c", code, "--output", "16K"))
    out = got.stdout.decode()
    found = re.search(r"\n\[brig: (\d+) bytes of stdout dropped\]\n", out)
    assert out.startswith("1\n2\n3\n") and out.endswith("\n40000\nlast\n") and found, out[-200:]
    total = len("".join("%d\n" % i for i in range(1, 40001))) + len("last\n")
    assert len(out) - len(found.group(0)) + int(found.group(1)) == total


def test_output_comes_while_it_runs(daemon):
    proc = subprocess.Popen([BRIG, *run_args("shell", "-c", "echo first; sleep 30; echo second")],
                            env=environment(BRIG_HOST=at(daemon)), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    begin = time.monotonic()
    assert proc.stdout.readline() == b"first\n" and time.monotonic() - begin < 25
    proc.send_signal(signal.SIGINT)
    proc.communicate(timeout=BOUND_S)
    assert proc.returncode == 130


def test_ctrl_c_ends_the_run_in_the_daemon(daemon):
    proc = subprocess.Popen([BRIG, *run_args("shell", "-c", "echo up; sleep 120", "--json")],
                            env=environment(BRIG_HOST=at(daemon)), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    until(lambda: b"running" in there(daemon, "ps").stdout, "it runs")
    proc.send_signal(signal.SIGINT)
    out, err = proc.communicate(timeout=BOUND_S)
    assert proc.returncode == 130 and json.loads(out.decode())["state"] == "cancelled", (out, err)
    assert there(daemon, "ps").stdout == b"nothing runs\n"


def test_a_reader_that_leaves_ends_the_run(daemon):
    script = '"$0" "$@" | head -n 1'
    done = subprocess.run(["sh", "-c", script, BRIG, *run_args("shell", "-c", "yes", "--timeout", "60s")],
                          env=environment(BRIG_HOST=at(daemon)), stdout=subprocess.PIPE, timeout=BOUND_S,
                          check=False)
    assert done.stdout == b"y\n"
    until(lambda: there(daemon, "ps").stdout == b"nothing runs\n", "the run has ended")


# Who may


def test_over_tcp_with_a_token(daemon):
    token = daemon.token("client", "run")
    args = run_args("python", "-c", "print(6*7)")
    got = call(*args, BRIG_HOST=at(daemon, tcp=True), BRIG_TOKEN=token)
    assert (got.returncode, got.stdout) == (0, b"42\n"), got
    got = call(*args, BRIG_HOST=at(daemon, tcp=True))
    assert got.returncode == 126 and b"BRIG_TOKEN" in got.stderr, got
    got = call(*args, BRIG_HOST=at(daemon, tcp=True), BRIG_TOKEN=token[:-1] + ("0" if token[-1] != "0" else "1"))
    assert got.returncode == 126 and token[:-1].encode() not in got.stderr, got


def test_a_token_sees_its_own_runs_only(daemon):
    token = daemon.token("loner", "run")
    env = {"BRIG_HOST": at(daemon, tcp=True), "BRIG_TOKEN": token}
    there(daemon, *run_args("shell", "-c", ":"))
    assert call("ps", "-a", **env).stdout == b"no executions\n"
    call(*run_args("shell", "-c", ":"), **env)
    assert len(json.loads(call("ps", "-a", "--json", **env).stdout.decode())) == 1


# Approvals


def asked(daemon, *options):
    proc = subprocess.Popen([BRIG, *run_args("shell", "-c", "echo ran", *options)], stdin=subprocess.DEVNULL,
                            env=environment(BRIG_HOST=at(daemon)), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True)
    line = proc.stderr.readline()
    found = re.search(rb"approval (%s) waits" % ID.encode(), line)
    assert found, line
    return proc, found.group(1).decode()


@pytest.mark.parametrize("verb,status,out", [("allow", 0, b"ran\n"), ("deny", 126, b"")])
def test_a_second_terminal_answers(asking, verb, status, out):
    proc, approval = asked(asking)
    assert approval.encode() in there(asking, "approvals", "ls").stdout
    shown = there(asking, "approvals", "show", approval[:10]).stdout
    assert b"  | echo ran" in shown and b"ask-all" in shown, shown
    assert there(asking, "approvals", "show", "--raw", approval).stdout == b"echo ran"
    done = there(asking, "approvals", verb, approval[:10], "--reason", "because")
    assert done.returncode == 0 and done.stdout.startswith(approval.encode()), done
    got, err = proc.communicate(timeout=BOUND_S)
    assert (proc.returncode, got) == (status, out), err
    again = there(asking, "approvals", verb, approval)
    assert again.returncode == 1 and again.stderr.startswith(b"brig: "), again


def test_approvals_look_the_same_with_the_daemon_and_without(asking):
    proc, approval = asked(asking)
    own = environment(BRIG_HOST="none")
    for args in (["ls"], ["ls", "--json"], ["show", approval], ["show", "--all", approval],
                 ["show", "--json", approval]):
        remote = there(asking, "approvals", *args)
        local = call("approvals", *args, "--state-dir", asking.state, env=own)
        assert remote.returncode == local.returncode == 0, (remote, local)
        if "--json" in args:
            assert json.loads(remote.stdout.decode()) == json.loads(local.stdout.decode())
        else:
            assert remote.stdout == local.stdout
    there(asking, "approvals", "deny", approval)
    proc.communicate(timeout=BOUND_S)


def test_a_terminal_is_asked(asking):
    argv = [BRIG, *run_args("shell", "-c", "echo r''an $((6*7))")]
    code, seen = on_terminal(argv, environment(BRIG_HOST=at(asking)), [(b"Run it?", b"y\n")], bound=BOUND_S)
    assert code == 0 and b"ran 42" in seen and b"by uid:" in seen, seen
    code, seen = on_terminal(argv, environment(BRIG_HOST=at(asking)), [(b"Run it?", b"n\n")], bound=BOUND_S)
    assert code == 126 and b"ran 42" not in seen, seen


@pytest.mark.parametrize("how", ["approve", "deny"])
def test_who_answers_is_not_the_callers_to_choose(asking, how):
    """Else a yes that nobody gave would be recorded as the caller's."""
    before = asking.rows()
    got = there(asking, *run_args("shell", "-c", "echo ran", "--confirm", how))
    assert got.returncode == 126 and b"--confirm: not in a daemon" in got.stderr, got
    assert not got.stdout and asking.rows() == before


def test_statuses_of_answers(asking):
    """1: refused; 2: there is none; 126: the token does not count, as of brig ps."""
    proc, approval = asked(asking)
    asker = asking.token("asker", "run,read,approve")
    own = asking.waiting(asking.submit("echo mine", "shell", token=asker))
    for token, words, status, text in (
            (asking.token("reader", "read"), ["allow", approval], 1, b"scope approve"),
            (asker, ["allow", own], 1, b"asked for itself"), (asker, ["allow", "zzzz"], 2, b"no approval"),
            ("brig_000000000000_no", ["ls"], 126, b"valid token")):
        got = there(asking, "approvals", *words, BRIG_TOKEN=token)
        assert got.returncode == status and text in got.stderr, got
    for each in (approval, own):
        assert there(asking, "approvals", "deny", each).returncode == 0
    proc.communicate(timeout=BOUND_S)


def test_an_edited_run_is_the_edited_one(asking, place):
    (place / "new").write_text("echo edited")
    proc, approval = asked(asking)
    done = there(asking, "approvals", "allow", approval, "--edit", place / "new")
    assert done.returncode == 0, done
    assert proc.communicate(timeout=BOUND_S)[0] == b"edited\n"


def test_ctrl_c_withdraws_what_waits(asking):
    proc, approval = asked(asking)
    proc.send_signal(signal.SIGINT)
    proc.communicate(timeout=BOUND_S)
    assert proc.returncode == 130
    assert approval.encode() not in there(asking, "approvals", "ls").stdout


# ps, logs, wait, cancel, top, serve


def start_one(daemon, code):
    before = {e["execution_id"] for e in json.loads(there(daemon, "ps", "-a", "--json").stdout.decode())}
    done = daemon.submit(code, "shell")
    execution = done["execution_id"] if isinstance(done, dict) else done
    assert execution not in before
    return execution


def test_logs_and_wait_and_cancel(daemon):
    execution = start_one(daemon, "printf 'a\\377b\\n'; echo err >&2; sleep 60; echo never")
    until(lambda: there(daemon, "logs", execution[:12]).stdout == b"a\xffb\n", "its output")
    assert there(daemon, "logs", "--stderr", execution).stdout == b"err\n"
    waiter = subprocess.Popen([BRIG, "wait", execution[:12]], env=environment(BRIG_HOST=at(daemon)))
    follower = subprocess.Popen([BRIG, "logs", "-f", execution], env=environment(BRIG_HOST=at(daemon)),
                                stdout=subprocess.PIPE)
    assert there(daemon, "cancel", execution[:12]).stdout == execution.encode() + b"\n"
    assert waiter.wait(BOUND_S) == 130
    assert follower.communicate(timeout=BOUND_S)[0] == b"a\xffb\n" and follower.returncode == 0
    assert there(daemon, "logs", execution).stdout == b"a\xffb\n"
    assert there(daemon, "wait", execution).returncode == 130


def test_wait_has_the_status_of_the_run(daemon):
    execution = start_one(daemon, "exit 17")
    assert there(daemon, "wait", execution).returncode == 17
    got = there(daemon, "wait", "--json", execution)
    assert json.loads(got.stdout.decode())["exit_code"] == 17


def test_what_is_not_there_is_said(daemon):
    for command in ("logs", "wait", "cancel"):
        got = there(daemon, command, brigd.NO_ID)
        assert got.returncode == 125 and b"no such execution" in got.stderr, got


def test_top_shows_the_pool(daemon):
    there(daemon, *run_args("python", "-c", "1"))
    value = json.loads(there(daemon, "top", "--once", "--json").stdout.decode())
    assert value["ended"] >= 1 and "python" in {s["language"] for s in value["pool"]["shapes"]}
    assert b"POOL" in there(daemon, "top", "--once").stdout


def test_serve_is_brigd(place):
    got = call("serve", "--version")
    assert got.returncode == 0 and got.stdout.startswith(b"brigd "), got
    got = call("serve", "--nonsense")
    assert got.returncode != 0 and b"nonsense" in got.stderr, got


# A daemon that goes away


def test_a_daemon_that_is_killed_is_told_with_the_id(place):
    d = brigd.Daemon()
    try:
        d.start()
        proc = subprocess.Popen([BRIG, *run_args("shell", "-c", "echo up; sleep 60")],
                                env=environment(BRIG_HOST=at(d)), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        assert proc.stdout.readline() == b"up\n"
        d.kill()
        _out, err = proc.communicate(timeout=BOUND_S)
        assert proc.returncode == 125 and re.search(rb"brig wait " + ID.encode(), err), err
    finally:
        d.clean()
        brigd.reap_orphans()


def test_a_daemon_that_comes_back_tells_what_became_of_it(place):
    d = brigd.Daemon()
    try:
        d.start()
        proc = subprocess.Popen([BRIG, *run_args("shell", "-c", "echo up; sleep 60")],
                                env=environment(BRIG_HOST=at(d)), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
        assert proc.stdout.readline() == b"up\n"
        d.kill()
        d.start()
        _out, err = proc.communicate(timeout=BOUND_S)
        assert proc.returncode == 125 and b"died while it ran" in err, err
        d.stop()
    finally:
        d.clean()
        brigd.reap_orphans()


def test_a_policy_of_the_environment_is_not_for_a_daemon(daemon):
    got = there(daemon, *run_args("shell", "-c", "echo ran"), BRIG_POLICY="strict")
    assert (got.returncode, got.stdout) == (126, b"") and b"BRIG_POLICY" in got.stderr, got


@pytest.mark.parametrize("port", ["0", "65536", "99999", "99999999999999999999"])
def test_a_port_that_is_none(port):
    got = call("ps", "--host", "http://127.0.0.1:" + port)
    assert got.returncode == 2 and b"port" in got.stderr, got


@pytest.mark.parametrize("time", ["0", "0s"])
def test_no_time_is_not_all_time(asking, time):
    which = asking.submit("echo ran", "shell")
    got = there(asking, "approvals", "allow", asking.waiting(which), "--for", time)
    assert got.returncode == 2 and b"--for" in got.stderr, got
    asking.delete("/executions/" + which).expect(200)


def test_to_look_does_not_make_a_state_directory(tmp_path):
    place = tmp_path / "none"
    got = call("approvals", "ls", "--host", "none", "--state-dir", place)
    assert (got.returncode, got.stdout) == (0, b"nothing waits, nothing stands\n"), got
    got = call("approvals", "ls", "--host", "unix:%s/no.sock" % tmp_path)
    assert got.returncode not in (0, 1) and got.stdout == b"", got
    got = call("approvals", "show", "x", "--host", "none", "--state-dir", place)
    assert got.returncode == 2 and b"no record" in got.stderr and not place.exists(), got
