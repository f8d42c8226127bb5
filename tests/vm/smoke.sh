#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Guest script that checks the virtual machine itself, without brig:
#     tests/vm/run --out OUTDIR --script tests/vm/smoke.sh
failed=0

check() { # TITLE COMMAND...
	local title=$1 start=${EPOCHREALTIME/./} status=0
	shift
	"$@" || status=$?
	[ $status = 0 ] || failed=1
	printf '%-4s %5d ms  %s\n' "$([ $status = 0 ] && echo ok || echo FAIL)" \
		$(((${EPOCHREALTIME/./} - start) / 1000)) "$title"
}

cat >/tmp/cgroups.py <<'END'
# Limits in a cgroup below our own, as root or in a delegated subtree.
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
own = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().split("::")[1]
keeper, job = own + "/keeper", own + "/job"

def put(path, text):
    with open(path, "w") as file:
        file.write(str(text))

def clone_into(group, action):
    """clone3 with CLONE_INTO_CGROUP; returns the child's wait status."""
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    args = (ctypes.c_uint64 * 11)(0x200000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, folder)
    pid = libc.syscall(ctypes.c_long(435), args, ctypes.c_size_t(88))
    if pid == 0:
        try:
            os._exit(action() or 0)
        except BaseException:
            os._exit(99)
    assert pid > 0, os.strerror(ctypes.get_errno())
    os.close(folder)
    return pid

def wait(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

os.mkdir(keeper)
for pid in open(own + "/cgroup.procs").read().split():
    put(keeper + "/cgroup.procs", pid)      # a group with controllers has no processes
put(own + "/cgroup.subtree_control", "+memory +pids +cpu")
os.mkdir(job)
put(job + "/memory.max", 64 << 20)
put(job + "/pids.max", 5)
put(job + "/cpu.max", "50000 100000")

def is_inside():
    return 0 if open("/proc/self/cgroup").read().strip().endswith("/job") else 1
assert wait(clone_into(job, is_inside)) == 0, "CLONE_INTO_CGROUP"

assert wait(clone_into(job, lambda: len(bytearray(256 << 20)) * 0)) == -9, "memory.max"
assert "oom_kill 1" in open(job + "/memory.events").read()

def forks():
    count = 0
    try:
        while count < 20:
            if os.fork() == 0:
                time.sleep(600)
            count += 1
    except BlockingIOError:
        pass
    return count
assert wait(clone_into(job, forks)) == 4, "pids.max"
assert "populated 1" in open(job + "/cgroup.events").read()
put(job + "/cgroup.kill", 1)
for _ in range(100):
    if "populated 0" in open(job + "/cgroup.events").read():
        break
    time.sleep(0.05)
os.rmdir(job)                               # fails unless all are dead
put(own + "/cgroup.subtree_control", "-memory -pids -cpu")
put(own + "/cgroup.procs", os.getpid())
for pid in open(keeper + "/cgroup.procs").read().split():
    put(own + "/cgroup.procs", pid)
os.rmdir(keeper)
END

overlay() { # in a user namespace, with the upper layer on ext4
	as-tester unshare -Urm sh -ec 'cd; mkdir -p low/folder up work both; touch low/folder/old
		mount -t overlay -o lowerdir=low,upperdir=up,workdir=work,userxattr overlay both
		rm -r both/folder; mkdir both/folder; echo 1 >both/new
		test ! -e both/folder/old && test -e low/folder/old && test ! -e low/new'
}

no_v1() {
	[ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] && ! grep -q ' - cgroup ' /proc/self/mountinfo &&
		! mount -t cgroup -o pids none /mnt 2>/dev/null
}

uname -r
echo "controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
echo "enabled:     $(cat /sys/fs/cgroup/cgroup.subtree_control)"
echo "lsm:         $(cat /sys/kernel/security/lsm)"
check "cgroup v2 only" no_v1
check "python, first start" /usr/bin/python3 -c 'print(1)'
echo "landlock:    ABI $(python3 -c 'import ctypes
print(ctypes.CDLL(None).syscall(444, None, 0, 1))')"
check "python" /usr/bin/python3 -c 'print(1)'
if [ -x /usr/bin/node ]; then
	check "node, first start" /usr/bin/node -e 'console.log(1)'
	check "node" /usr/bin/node -e 'console.log(1)'
fi
check "pytest" /usr/bin/python3 -m pytest --version
check "namespaces as tester" as-tester unshare -Urpfm --mount-proc true
check "overlayfs as tester" overlay
check "tester is tester" as-tester sh -c 'test "$(id -un):$(id -u)" = tester:1000 && touch ~/file'
check "/usr is read-only" sh -c '! touch /usr/x && ! mount -o remount,rw /usr' 2>/dev/null
check "loopback" python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0))
socket.create_connection(s.getsockname())'
check "only loopback" test "$(ls /sys/class/net)" = lo
check "randomness" python3 -c 'import os; os.getrandom(32, os.GRND_NONBLOCK)'
check "clone3 and limits as root" python3 /tmp/cgroups.py
check "clone3 and limits as tester" as-tester /usr/bin/python3 /tmp/cgroups.py
echo "smoke: $failed" >"$RESULTS/smoke.txt"
exit $failed
