# SPDX-License-Identifier: Apache-2.0
"""Files beside the code are judged like the code: none runs in the place of something harmless."""
import pytest

POLICY = """version: 1
name: careful
default: deny
floor: { level: degraded-ok }
rules:
  - name: no-high
    match: { risk: ">=high" }
    verdict: deny
    reason: of high risk
  - name: unclear
    match: { complete: false }
    verdict: deny
    reason: not understood
  - name: rest
    match: { risk: "<=medium" }
    verdict: allow
"""
PY = "import os\nos.system('echo evil')\n"
JS = "console.log(require('child_process').execSync('echo evil').toString())\n"
SH = "#!/bin/bash\neval \"$(echo echo evil)\"\n"
SITE = ".local/lib/python3.%d/site-packages/usercustomize.py"


@pytest.fixture
def careful(place):
    policy = place / "careful.yaml"
    policy.write_text(POLICY)
    policy.chmod(0o644)
    return ["--policy", policy, "--state-dir", place / "state"]


def placed(place, name, text, mode=0o644):
    path = place / "placed"
    path.write_text(text)
    path.chmod(mode)
    return ["--file", "%s:%s" % (path, name)]


@pytest.mark.parametrize("language, code, name, text, mode, options", [
    ("python", "import bisect", "bisect.py", PY, 0o644, []),
    ("javascript", "require('lodash')", "node_modules/lodash/index.js", JS, 0o644, []),
    ("javascript", "require('./x.txt')", "x.txt", JS, 0o644, []),
    ("shell", "grep x", "grep", SH, 0o755, ["--env", "PATH=/workspace:/bin"]),
    ("python", "print(1)", SITE % 11, PY, 0o644, ["--env", "HOME=/workspace"]),
    ("python", "import bisect", "bisect.pyc", "?", 0o644, []),
], ids=["module", "package", "any-name", "command", "usercustomize", "bytecode"])
def test_a_file_in_the_place_of_something_harmless_is_not_let_through(brig, place, careful, language, code, name, text,
                                                                     mode, options):
    run = brig.run(language, "-c", code, *careful, *options, *placed(place, name, text, mode))
    result = run.result
    assert result["state"] == "denied" and "evil" not in result["stdout"], run
    assert any(f["message"].split(":")[0].endswith(name[-10:]) for f in result["risk"]["findings"]), run


def test_ordinary_files_change_nothing(brig, place, careful):
    run = brig.run("python", "-c", "import helper; print(helper.f())", *careful,
                   *placed(place, "helper.py", "def f():\n    return 7\n"))
    result = run.result
    assert (result["state"], result["stdout"]) == ("finished", "7\n"), run
    assert result["risk"]["level"] == "medium" and result["risk"]["complete"], run
