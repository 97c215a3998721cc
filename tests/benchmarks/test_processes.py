"""Watching a command and all that it starts."""

import os
import sys
from pathlib import Path

import pytest

from benchmarks.processes import FinishedCommand, run

CHILD = "x = bytearray(80_000_000)\nimport time; time.sleep(1.2)"
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], start_new_session=True)
print("started")
sys.exit(child.wait() + 3)
"""


def watched(tmp_path: Path, code: str, timeout_s: float = 60.0) -> FinishedCommand:
    return run(
        [sys.executable, "-c", code],
        environment=dict(os.environ),
        folder=tmp_path,
        log=tmp_path / "log",
        timeout_s=timeout_s,
    )


@pytest.mark.slow
def test_memory_and_output_and_exit_code_are_those_of_all_processes(tmp_path):
    result = watched(tmp_path, PARENT)

    # The child alone holds 76 MiB, in a session of its own.
    assert 76.0 < max(sample.memory_mib for sample in result.samples) < 200.0
    assert (tmp_path / "log").read_text(encoding="utf-8") == "started\n"
    assert result.returncode == 3
    assert 1.2 < result.ended_at_s - result.started_at_s < 30.0


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_ended(tmp_path):
    result = watched(tmp_path, "import time; time.sleep(600)", timeout_s=0.5)

    assert result.returncode is None
    assert result.ended_at_s - result.started_at_s < 30.0
