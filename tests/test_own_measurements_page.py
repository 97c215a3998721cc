"""The commands of docs/own-measurements.md, run as they stand."""

import re
import shlex
from pathlib import Path

import pytest

from fleetsim.fleet.traces.usage.files import read_trace

PAGE = Path(__file__).parents[1] / "docs" / "own-measurements.md"
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


def shell_blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def printed(command, tmp_path, monkeypatch):
    """Return the output of the commands of a block, in a folder with the files that it writes."""
    monkeypatch.chdir(tmp_path)

    def of(block: str) -> str:
        for name, text in FILE.findall(block):
            Path(name).write_text(text, encoding="utf-8")
        out: list[str] = []
        for line in FILE.sub("", block).splitlines():
            program, *words = shlex.split(line)
            assert program == "fleetsim"
            ended = command(*words)
            assert ended.code == 0, ended.err
            out.append(ended.out)
        return "".join(out)

    return of


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_a_network_of_ones_own_is_imported_as_the_page_says_and_run(printed, tmp_path):
    (block,) = (block for block in shell_blocks() if "--rate" in block)
    said = re.search(r"The import prints\n\n(( {4}.*\n)+)", PAGE.read_text("utf-8"))

    assert said is not None
    assert re.sub("(?m)^ {4}", "", said[1]) in printed(block)
    assert (tmp_path / "my-run" / "clients.parquet").exists()
    assert len(block.splitlines()) <= 15


def test_usage_of_ones_own_is_imported_as_states_and_as_intervals(printed, tmp_path):
    (block,) = (block for block in shell_blocks() if "--state" in block)
    text = printed(block)
    said = re.search(r"The first import prints .*:\n\n(( {4}.*\n)+)", PAGE.read_text("utf-8"))
    trace = read_trace(tmp_path / "my-people")
    own = slice(*trace.offsets[trace.user_ids.index("ann") :][:2].tolist())

    assert said is not None
    assert re.sub("(?m)^ {4}", "", said[1]) in text
    # Ann charges for 6 h, not for 16 h, and again for the median of both, 11 h.
    assert trace.lasts_s[own].sum() == 33 * 3600
    assert trace.lasts_s[own][trace.charging[own]].sum() == 17 * 3600
    assert trace.lasts_s[own][trace.unmetered[own]].sum() == 17 * 3600
    assert "1 rows overlap or touch one before them; joined to their union" in text
    assert {path.name for path in tmp_path.iterdir()} >= {"my-people", "my-nights"}


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_a_device_is_calibrated_and_run_as_the_page_says(printed, tmp_path):
    (block,) = (block for block in shell_blocks() if "device calibrate" in block)
    text = printed(block)

    assert "2 runs and 2 unknowns" in text
    assert "idle 1.5 W" in text
    assert "training 5 W above idle" in text
    assert (tmp_path / "my-phone-run" / "clients.parquet").exists()
