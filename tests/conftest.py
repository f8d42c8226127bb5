# SPDX-License-Identifier: Apache-2.0
"""What root alone can try is not collected for others: a test that never ran is not a skipped one.

Several runs of the tests may share the machine. Those that are given the same file by BRIG_TEST_TURNS
take turns where they must: a test marked `alone` waits until no other runs, and holds them up. Each
such run has an ordinary user of its own (BRIG_TEST_UID), since the kernel counts for each user.
"""
import fcntl
import os
import pathlib
import shutil
import tempfile

import pytest

os.environ.setdefault("BRIG_TEST_UID", "12345")
USER_ID = int(os.environ["BRIG_TEST_UID"])  # whom root's tests become
STATE = []


def make_state():
    """State directories of the whole run, away from the machine's own; as small as the runs leave them."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="brig-state-"))
    base.chmod(0o755)
    STATE.append(base)
    for name, uid in (("own", os.geteuid()), ("user", USER_ID)):
        (base / name).mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(base / name, uid, uid)
    os.environ["BRIG_STATE_DIR"] = str(base / "own")
    os.environ["BRIG_TEST_USER_STATE"] = str(base / ("user" if os.geteuid() == 0 else "own"))


make_state()  # before the other conftest.py files are read
# What the tests run is hostile on purpose: no policy may come between it and the box.
os.environ["BRIG_POLICY"] = str(pathlib.Path(__file__).parent / "lib" / "allow.yaml")


def pytest_addoption(parser):
    parser.addoption("--warm", action="store_true",
                     help="every `brig run` in a box that waited for it (brig run --warm)")


def pytest_configure(config):
    if config.getoption("--warm"):
        os.environ["BRIG_TEST_WARM"] = "1"
    config.addinivalue_line("markers", "needs_root: the test, or its positive control, needs root")
    config.addinivalue_line("markers", "alone: the test looks at the whole machine, changes it, measures "
                                       "time closely, or leaves for a while what others take for a leak")


def pytest_unconfigure(config):
    while STATE:
        shutil.rmtree(STATE.pop(), ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    if os.geteuid() == 0:
        return
    gone = [i for i in items if i.get_closest_marker("needs_root") or "brig_root" in i.fixturenames]
    config.hook.pytest_deselected(items=gone)
    items[:] = [i for i in items if i not in gone]


class Turns:
    """Any number of ordinary tests at a time, or one that is alone. Whoever waits for his turn keeps the
    gate, so that those who come later do not go before him."""

    def __init__(self, path):
        self.files = [os.open(path + end, os.O_RDWR | os.O_CREAT, 0o600) for end in ("", ".gate")]
        self.alone = False

    def take(self, alone):
        turn, gate = self.files
        if alone and self.alone:
            return  # kept from the test before
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(turn, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        self.alone = alone

    def give(self, next_alone):
        if self.alone and next_alone:
            return
        fcntl.flock(self.files[0], fcntl.LOCK_UN)
        self.alone = False


TURNS = Turns(os.environ["BRIG_TEST_TURNS"]) if os.environ.get("BRIG_TEST_TURNS") else None


def is_alone(item):
    return item is not None and item.get_closest_marker("alone") is not None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Set-up and clean-up, also those of a whole file, are part of a test's turn."""
    if TURNS:
        TURNS.take(is_alone(item))
    yield
    if TURNS:
        TURNS.give(is_alone(nextitem))


def pytest_terminal_summary(terminalreporter):
    if os.geteuid() != 0 and terminalreporter.stats.get("deselected"):
        terminalreporter.write_line("deselected tests need root: run the suite as root, too")
