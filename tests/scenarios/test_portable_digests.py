"""Digests in the portable mode, which lie in the repository, on the processor of this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fleetsim
from fleetsim.host import numerics
from tests.kernels.cpu.test_numerical_platform import needs_v3
from tests.scenarios.portable_digests import CASES, FILE


@needs_v3
@pytest.mark.slow
def test_portable_runs_have_the_digests_in_the_repository():
    """The promise is for one operating system and one set of versions; others are skipped."""
    kept = {name: value for name, value in os.environ.items() if name not in numerics.DECIDING}
    done = subprocess.run(
        [sys.executable, "-m", "tests.scenarios.portable_digests"],
        env={**kept, "FLEETSIM_NUMERICS": "portable"},
        cwd=Path(fleetsim.__file__).parents[1],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    here, recorded = json.loads(done.stdout), json.loads(FILE.read_text(encoding="utf-8"))
    others = {
        name: (recorded["features"].get(name), value)
        for name, value in here["features"].items()
        if value != recorded["features"].get(name)
    }
    if others:
        pytest.skip(f"the digests are of other versions: {others}")

    assert set(here["digests"]) == set(CASES)
    assert here["digests"] == recorded["digests"]
