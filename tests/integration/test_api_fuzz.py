# SPDX-License-Identifier: Apache-2.0
"""Random callers of the API, as many sequences as BRIG_API_FUZZ_N says (500)."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stress"))
import api_fuzz  # noqa: E402


def test_random_callers_find_no_hole_and_leave_nothing():
    seed = int(os.environ.get("BRIG_API_FUZZ_SEED", "20260131"))
    counts = api_fuzz.run(int(os.environ.get("BRIG_API_FUZZ_N", "500")), seed)
    assert counts[200] > 100 and counts[400] > 20 and counts[404] > 10, counts  # it did reach something
