"""The study file as executed, and the setup that the page of a study states."""

import shutil
from pathlib import Path

import pytest

import fleetsim
from fleetsim import bundled
from fleetsim.studies.result import StudyResult
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from fleetsim.studies.study_setup import setup_block
from tests.report.parsed_page import ParsedPage
from tests.studies.small_studies import AtOnce, executed, loaded, written

VARIED = {
    "scenario": "mine.yaml",
    "prices": "my-prices.yaml",
    "arms": {"random": {}, "oort": {"server.selector": {"kind": "oort", "clip_fraction": 0.5}}},
    "baseline": "oort",
    "vary": {
        "server.cohort": [3, 4],
        "hour": {"noon": {"fleet.usage.starts_at_s": 43200}, "night": {}},
    },
}


def test_the_file_as_executed_plans_the_same_runs_from_another_folder(tmp_path, monkeypatch):
    home = tmp_path / "mine"
    home.mkdir()
    shutil.copy(bundled.folder("scenarios") / "quickstart.yaml", home / "mine.yaml")
    shutil.copy(bundled.folder("prices") / "aws-us-east-1.yaml", home / "my-prices.yaml")
    written(home, **VARIED)
    monkeypatch.chdir(home)
    study = load_study("small.yaml", ["seeds=[4, 5]"])
    path = tmp_path / "study.yaml"
    path.write_text(study.to_yaml(), "utf-8")
    monkeypatch.chdir(tmp_path)
    again = load_study(path)
    block = setup_block(again, RunStore(tmp_path))
    (table,) = block.tables.values()

    assert [run.key for run in again.runs] == [run.key for run in study.runs]
    assert again.settings == study.settings
    assert block.facts["scenario"] == [str(home / "mine.yaml")]
    assert block.facts["people"] == [
        f"trace people-week, starts_at_s {start_s}" for start_s in (43200, 68400)
    ]
    assert list(table.rows) == [
        ("all runs", "fleet.size: 12; server.cohort: 3; stop.rounds: 2"),
        ("random", "none"),
        ("oort (baseline)", "server.selector: {kind: 'oort', clip_fraction: 0.5}"),
        ("conditions", "server.cohort: 3 or 4"),
        ("hour = noon", "fleet.usage.starts_at_s: 43200"),
        ("hour = night", "none"),
    ]


def test_the_page_of_runs_made_before_states_all_that_was_simulated(tmp_path: Path):
    study = loaded(tmp_path, seeds=[1])
    file = tmp_path / "studies" / "small" / "study.yaml"
    with pytest.raises(KeyboardInterrupt):
        executed(study, tmp_path, AtOnce(KeyboardInterrupt()))
    assert file.read_text() == study.to_yaml()  # also of a study that has not ended
    executed(study, tmp_path)
    file.unlink()  # as an older fleetsim left it
    page = ParsedPage(StudyResult(study, tmp_path).write_report())
    facts = setup_block(study, RunStore(tmp_path)).facts

    assert file.read_text() == study.to_yaml()
    assert {"href": "study.yaml"} in page.all("a")
    # 64 pixels, two layers of 200, 10 classes: 64*200+200 + 200*200+200 + 200*10+10.
    assert facts["parameters"] == ["55,210 trained"]
    assert [line.split(", ")[1] for line in facts["server"]] == ["cohort 3", "cohort 5"]
    assert f"fleetsim {fleetsim.__version__}" in facts["versions"][0]
    for words in (
        "random (baseline) none",
        "cohort of 5 server.cohort: 5",
        *(value for values in facts.values() for value in values),
        " ".join(study.to_yaml().split()),
    ):
        assert words in page.words
