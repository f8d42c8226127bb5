# SPDX-License-Identifier: Apache-2.0
"""What root alone can try is not collected for others: a test that never ran is not a skipped one."""
import os
import pathlib
import shutil
import tempfile

USER_ID = 12345  # whom root's tests become
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


def pytest_unconfigure(config):
    while STATE:
        shutil.rmtree(STATE.pop(), ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    if os.geteuid() == 0:
        return
    gone = [i for i in items if i.get_closest_marker("needs_root") or "brig_root" in i.fixturenames]
    config.hook.pytest_deselected(items=gone)
    items[:] = [i for i in items if i not in gone]


def pytest_terminal_summary(terminalreporter):
    if os.geteuid() != 0 and terminalreporter.stats.get("deselected"):
        terminalreporter.write_line("deselected tests need root: run the suite as root, too")
