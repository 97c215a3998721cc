"""Examples of docs/own-data.md, executed; those of a library that is not installed are skipped."""

import importlib.util
import re
from pathlib import Path

import pytest

import fleetsim
from fleetsim.record.saved_run import Run

PAGE = Path(__file__).parents[1] / "docs" / "own-data.md"
MOST_LINES = 15
NEEDS = {
    "import datasets": "datasets",
    'dataset("mine.parquet"': "datasets",
    '"flwr-datasets"': "flwr_datasets",
}
"""Text of an example, and the library that it needs."""


def examples():
    for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S):
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

    exec(compile(code, str(PAGE), "exec"), names)  # an example of ours, not of a user

    assert len(code.splitlines()) <= MOST_LINES
    if "Waves" in names:
        assert fleetsim.check_plugin(names["Waves"]) == "dataset"
        names["run"] = fleetsim.run("quickstart", dataset=names["Waves"], stop__rounds=2)
    run = names["run"]
    assert isinstance(run, Run)
    assert len(run.rounds) == 2
    assert run.rounds.accuracy.notna().all()
