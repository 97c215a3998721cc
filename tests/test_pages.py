"""Examples of docs/python.md, executed."""

import doctest
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

import fleetsim
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.record.saved_run import Run

PYTHON = Path(__file__).parents[1] / "docs" / "python.md"


def test_the_examples_of_the_page_are_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    result = doctest.testfile(str(PYTHON), module_relative=False)

    assert result.attempted >= 15
    assert result.failed == 0
    assert list(tmp_path.iterdir()) == []


OWN_DATA = Path(__file__).parents[1] / "docs" / "own-data.md"
MOST_LINES = 15
NEEDS = {
    "import datasets": "datasets",
    'dataset("mine.parquet"': "datasets",
    '"flwr-datasets"': "flwr_datasets",
}
"""Text of an example, and the library that it needs."""


def examples():
    for title, section in re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)", OWN_DATA.read_text(), re.M | re.S
    ):
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", section, re.S), start=1):
            yield pytest.param(code, id=f"{title} {number}")


def test_every_form_has_an_example():
    assert len(list(examples())) == 8


@pytest.mark.slow
@pytest.mark.parametrize("code", list(examples()))
def test_an_example_runs(code, tmp_path, monkeypatch):
    for text, library in NEEDS.items():
        if text in code and importlib.util.find_spec(library) is None:
            pytest.skip(f"needs the library {library}; pip install 'fleetsim[hf,flwr-datasets]'")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    exec(compile(code, str(OWN_DATA), "exec"), names)  # an example of ours, not of a user

    assert len(code.splitlines()) <= MOST_LINES
    if "Waves" in names:
        assert fleetsim.check_plugin(names["Waves"]) == "dataset"
        names["run"] = fleetsim.run("quickstart", dataset=names["Waves"], stop__rounds=2)
    run = names["run"]
    assert isinstance(run, Run)
    assert len(run.rounds) == 2
    assert run.rounds.accuracy.notna().all()


DOCS = Path(__file__).parents[1] / "docs"
TRACES = DOCS / "how-to" / "import-traces.md"
CALIBRATION = DOCS / "own-measurements.md"
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


def shell_block(page: Path, word: str) -> str:
    """Return the one shell block of a page that has a word."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    return str(block)


@pytest.fixture
def printed(command, tmp_path, monkeypatch):
    """Return the output of the commands of a block, in a folder with the files that it writes."""
    monkeypatch.chdir(tmp_path)

    def of(block: str) -> str:
        for name, text in FILE.findall(block):
            Path(name).write_text(text, encoding="utf-8")
        out: list[str] = []
        for line in FILE.sub("", block).replace("\\\n", "").splitlines():
            program, *words = shlex.split(line)
            assert program == "fleetsim"
            ended = command(*words)
            assert ended.code == 0, ended.err
            out.append(ended.out)
        return "".join(out)

    return of


def test_usage_of_ones_own_is_imported_as_states_and_as_intervals(printed, tmp_path):
    text = printed(shell_block(TRACES, "--state"))
    trace = read_trace(tmp_path / "my-people")
    ann = slice(*trace.offsets[trace.user_ids.index("ann") :][:2].tolist())

    # Ann charges for 6 h, not for 16 h, and again for the median of both, 11 h.
    assert trace.lasts_s[ann].sum() == 33 * 3600
    assert trace.lasts_s[ann][trace.charging[ann]].sum() == 17 * 3600
    assert trace.lasts_s[ann][trace.unmetered[ann]].sum() == 17 * 3600
    assert "1 rows overlap or touch one before them; joined to their union" in text
    assert {path.name for path in tmp_path.iterdir()} >= {"my-people", "my-nights"}


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_a_device_is_calibrated_and_run_as_the_page_says(printed, tmp_path):
    text = printed(shell_block(CALIBRATION, "device calibrate"))

    assert "2 runs and 2 unknowns" in text
    assert "idle 1.5 W" in text
    assert "training 5 W above idle" in text
    assert (tmp_path / "my-phone-run" / "clients.parquet").exists()
