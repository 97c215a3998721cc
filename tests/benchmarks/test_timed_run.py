"""Timed runs of fleetsim's command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def timed_run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.timed_run", str(tmp_path / "times.json")]
    return subprocess.run(
        [*command, *arguments, "--out", str(tmp_path / "run")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_every_round_is_timed_and_the_steps_of_used_work_are_counted(tmp_path):
    done = timed_run(tmp_path, "quickstart", "--set", "stop.rounds=3")
    times = json.loads((tmp_path / "times.json").read_text(encoding="utf-8"))

    assert done.returncode == 0, done.stderr
    ends = times["round_ended_at_s"]
    assert times["began_at_s"] < ends[0] < ends[1] < ends[2]
    assert 0 < times["training_s"][0] < times["training_s"][-1] < ends[-1] - times["began_at_s"]
    assert 0 < times["evaluation_s"][0] < times["evaluation_s"][-1]
    assert 0 < times["num_steps"][0] < times["num_steps"][1] < times["num_steps"][2]
    assert 0 < times["accuracy"] <= 1
    assert (tmp_path / "run" / "report.html").is_file()
