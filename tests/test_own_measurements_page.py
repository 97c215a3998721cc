"""The commands of docs/own-measurements.md, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "own-measurements.md"


def shell_blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def printed(block: str, folder: Path) -> str:
    """Output of the commands of a block, run in a folder."""
    called = f'fleetsim() {{ "{sys.executable}" -m fleetsim.cli "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-e", "-c", called + block],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PAGE.parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_network_of_ones_own_is_imported_as_the_page_says_and_run(tmp_path):
    (block,) = (block for block in shell_blocks() if "--rate" in block)
    said = re.search(r"The import prints\n\n(( {4}.*\n)+)", PAGE.read_text("utf-8"))

    assert said is not None
    assert re.sub("(?m)^ {4}", "", said[1]) in printed(block, tmp_path)
    assert (tmp_path / "my-run" / "clients.parquet").exists()
    assert len(block.splitlines()) <= 15


def test_usage_of_ones_own_is_imported_as_states_and_as_intervals(tmp_path):
    (block,) = (block for block in shell_blocks() if "--state" in block)
    text = printed(block, tmp_path)

    assert "4 rows of 2 users read" in text
    assert "1 rows overlap or touch one before them; joined to their union" in text
    assert {path.name for path in tmp_path.iterdir()} >= {"my-people", "my-nights"}


def test_a_device_is_calibrated_and_run_as_the_page_says(tmp_path):
    (block,) = (block for block in shell_blocks() if "device calibrate" in block)
    text = printed(block, tmp_path)

    assert "2 runs and 2 unknowns" in text
    assert "idle 1.5 W" in text
    assert "training 5 W above idle" in text
    assert (tmp_path / "my-phone-run" / "clients.parquet").exists()
