# SPDX-License-Identifier: Apache-2.0
"""What root alone can try is not collected for others: a test that never ran is not a skipped one."""
import os


def pytest_addoption(parser):
    parser.addoption("--warm", action="store_true",
                     help="every `brig run` in a box that waited for it (brig run --warm)")


def pytest_configure(config):
    if config.getoption("--warm"):
        os.environ["BRIG_TEST_WARM"] = "1"
    config.addinivalue_line("markers", "needs_root: the test, or its positive control, needs root")


def pytest_collection_modifyitems(config, items):
    if os.geteuid() == 0:
        return
    gone = [i for i in items if i.get_closest_marker("needs_root") or "brig_root" in i.fixturenames]
    config.hook.pytest_deselected(items=gone)
    items[:] = [i for i in items if i not in gone]


def pytest_terminal_summary(terminalreporter):
    if os.geteuid() != 0 and terminalreporter.stats.get("deselected"):
        terminalreporter.write_line("deselected tests need root: run the suite as root, too")
