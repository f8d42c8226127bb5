#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Guest script of `make check-vm`: brig's tests on a machine with cgroup v2 only, as
# root in the folder of the checkout.  Every step runs; any failure fails the script.
# The reports come back in OUTDIR/results.
export BRIG=$PROJECT/out/bin/brig BRIG_BUILD=$PROJECT/build PYTHONDONTWRITEBYTECODE=1
failed=()

step() { # COMMAND...
	local start=$SECONDS status=0
	printf '== %s\n' "$*"
	"$@" || status=$?
	echo "== exit status $status after $((SECONDS - start)) s"
	[ $status = 0 ] || failed+=("$* (exit status $status)")
}

run_json() { # COMMAND...: it must succeed, print JSON, and have printed 1 in the jail
	local text
	text=$("$@") || return
	printf '%s\n' "$text"
	/usr/bin/python3 -c 'import json, sys
result = json.loads(sys.argv[1])
sys.exit(result["success"] is not True or result["stdout"].strip() != "1")' "$text"
}

if [ ! -x "$BRIG" ]; then
	echo "jail.sh: no $BRIG in this checkout: build brig first"
	exit 1
fi

step "$BRIG" doctor
step run_json "$BRIG" run python -c 'print(1)' --json
# An ordinary user with a delegated cgroup, which the suites do not have.
step run_json as-tester "$BRIG" run python -c 'print(1)' --json --level degraded-ok

# What differs with the hierarchy: limits, their end states, the namespaces and ids around them, and
# what is left afterwards. The other suites are the same on any host and too slow for an emulator.
# Not CP-03 and CP-10: their controls need a writable /usr and groups, which the guest has not.
# faulthandler_timeout: the console log of a hung guest names the test.
step /usr/bin/python3 -m pytest -q -ra -p no:cacheprovider --color=no --durations=10 \
	-o faulthandler_timeout=120 --junit-xml="$RESULTS/junit.xml" \
	tests/integration/test_limits.py tests/escape/test_cp.py tests/escape/test_ns.py \
	-k "${VM_TESTS:-root and not slow and not cp_03 and not cp_10}"

if [ ${#failed[@]} -gt 0 ]; then
	printf 'jail.sh: FAILED: %s\n' "${failed[@]}"
	exit 1
fi
echo "jail.sh: all passed"
