# SPDX-License-Identifier: Apache-2.0
"""A shell that waited in its box is like the one that would have been started for the script."""
import time

import pytest

from test_batch import start  # noqa: F401 (fixture)

EVERY_BYTE = "".join(map(chr, range(1, 128))) + "\u00e9\u20ac\U0001f6a2"

# Everything that a script can ask its shell about itself. What differs between any two runs is left
# out: times, numbers of processes, random numbers; BASH_ARGC only ever counts with extdebug.
STATE = r"""
echo "0=$0 n=$# args=$* last=$_ flags=$- status=$? line=$LINENO level=$SHLVL pid=$$ parent=$PPID bg=$!"
echo "source=${BASH_SOURCE[*]} of ${#BASH_SOURCE[@]} function=${FUNCNAME[*]} command=$BASH_COMMAND"
echo "subshell=$BASH_SUBSHELL pid=$BASHPID env=${BASH_ENV-unset} text=${BASH_EXECUTION_STRING-unset}"
caller; echo "caller $?"
declare -p | grep -vE '^declare [-a-zA-Z]+ (_|BASH_ARGC|BASHPID|EPOCH[A-Z]*|S?RANDOM|SECONDS|PIPESTATUS)(=|$)' | sort
declare -F; alias; trap; shopt; set -o; hash; jobs; umask; pwd; ulimit -n; ulimit -u
ls -l /proc/self/fd | sed 's/.*:.. //' | sed 's/\[.*//'
env | sort
return 3; echo "return $?"
nosuchcommand; echo "not found $?"
[[ $0 == "${BASH_SOURCE[0]}" ]] && echo main
cat
"""
ENDS = {
    "nothing": "", "status": "exit 7", "last": "false", "signal": "kill -TERM $$", "syntax": "echo a\nif then\n",
    "unbound": "set -u\necho $nothing\necho b", "errexit": "set -e\nfalse\necho b",
    "exit trap": "trap 'echo bye; exit 4' EXIT\nexit 3", "exec": "exec echo replaced",
    "exec fails": "exec /nothing", "no newline": "echo a", "heredoc": "cat <<X\n$0\nX",
    "read": "read a; echo \"<$a>\"; cat", "background": "sleep 0.01 & wait; echo $?",
    "crlf": "echo a\r\n", "own text": 'tail -n 1 "$0"; # end\n# last',
}


def both(brig, batch, code, **fields):
    """The results of a new shell and of one that waited."""
    warm = batch.run("shell", code, **fields)
    options = [word for entry in fields.get("env", {}).items() for word in ("--env", "%s=%s" % entry)]
    options += ["--stdin", "-", "--", *fields.get("args", [])]
    cold = brig.run("shell", "-c", code, *options, stdin=fields.get("stdin", "").encode()).result
    return [{key: result[key] for key in ("state", "exit_code", "signal", "stdout", "stderr", "files")}
            for result in (cold, warm)]


@pytest.mark.parametrize("fields", [
    {}, {"args": ["a", "", "b c", "it's", "--", "-x", EVERY_BYTE]}, {"stdin": "one\ntwo"},
    {"env": {"A": "b c", "QUOTE": "it's", "EMPTY": "", "ALL": EVERY_BYTE, "PATH": "/usr/bin", "HOME": "/workspace"}},
    {"env": {"LANG": "C", "TZ": "UTC", "USER": "x", "TMPDIR": "/dev/shm"}},
    {"env": {"POSIXLY_CORRECT": "1"}}, {"env": {"RANDOM": "3", "SHLVL": "5"}},
    {"env": {"TERM": "x", "LC_ALL": "C"}},
], ids=lambda fields: "-".join(["".join(fields)] + list(fields.get("env", {}))) or "plain")
def test_state_is_that_of_a_new_shell(brig, start, fields):  # noqa: F811
    cold, warm = both(brig, start(), STATE, **fields)
    assert warm["stdout"].splitlines() == cold["stdout"].splitlines() and warm == cold
    assert len(cold["stdout"].splitlines()) > 100  # the script has told what it was asked for


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_ends_like_a_new_shell(brig, start, code):  # noqa: F811
    cold, warm = both(brig, start(), code, stdin="x\ny")
    assert warm == cold


def test_a_script_of_another_name(brig, start):  # noqa: F811
    batch = start()
    result = batch.run("shell", "echo $0 $1 $K; exit 2", name="other one.sh", args=["a"], env={"K": "v"})
    assert (result["stdout"], result["exit_code"]) == ("/workspace/other one.sh a v\n", 2)


def test_many_words(start):  # noqa: F811
    """The message is read byte by byte, and has no end that anybody meets."""
    batch = start()
    words = ["w%d" % i + "x" * 90 for i in range(200)]
    assert batch.good("shell", 'echo $# "${200}" "${#LONG}"', args=words, env={"LONG": "y" * 30000}) == \
        "200 %s 30000\n" % words[-1]


def test_nothing_leads_back(start):  # noqa: F811
    """The socket that brought the run is closed before the script, here and over there."""
    batch = start()
    out = batch.good("shell", "ls -l /proc/$$/fd; : >&5 || echo closed; test -r /etc/brig/wait.sh && "
                              "! echo x >> /etc/brig/wait.sh && echo read-only")
    assert "socket:" not in out and out.endswith("closed\nread-only\n"), out


def test_the_time_that_it_waited_is_not_the_script_s(start):  # noqa: F811
    batch = start()
    batch.good("shell", "true")  # the next box waits from now on
    time.sleep(2.2)
    assert batch.good("shell", "echo $SECONDS") in ("0\n", "1\n")


def test_two_shells_draw_different_numbers(start):  # noqa: F811
    batch = start("--jobs", 4)
    drawn = [batch.good("shell", "echo $RANDOM$RANDOM $SRANDOM") for _ in range(8)]
    assert len(set(drawn)) == 8
