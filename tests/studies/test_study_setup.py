"""The study file as executed, and the setup that the page of a study states."""

import shutil
from pathlib import Path

import pytest

import fleetsim
from fleetsim import bundled
from fleetsim.schema import strict_yaml
from fleetsim.studies.result import StudyResult
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from fleetsim.studies.study_setup import setup_block
from tests.report.parsed_page import ParsedPage
from tests.studies.small_studies import AtOnce, executed, loaded, written

VARIED = {
    "scenario": "mine.yaml",
    "prices": "my-prices.yaml",
    "overrides": {"fleet.size": 12, "stop.rounds": 2},
    "arms": {"random": {}, "oort": {"server.selector": {"kind": "oort", "clip_fraction": 0.5}}},
    "baseline": "oort",
    "vary": {
        "server.cohort": [3, 4],
        "hour": {"noon": {"fleet.usage.starts_at_s": 43200}, "night": {}},
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a scenario and prices of the user's own, which a study names from there."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for kind, name, file in (
        ("scenarios", "quickstart", "mine.yaml"),
        ("prices", "aws-us-east-1", "my-prices.yaml"),
    ):
        shutil.copy(bundled.folder(kind) / f"{name}.yaml", folder / file)
    return folder


def test_the_file_as_executed_makes_the_same_runs_from_another_folder(home, tmp_path, monkeypatch):
    file = written(home, **VARIED)
    monkeypatch.chdir(home)
    study = load_study(file.name, ["seeds=[4, 5]"])
    path = tmp_path / "study.yaml"
    path.write_text(study.to_yaml(), "utf-8")
    monkeypatch.chdir(tmp_path)
    again = load_study(path)

    assert [run.key for run in again.runs] == [run.key for run in study.runs]
    assert [run.name for run in again.runs] == [run.name for run in study.runs]
    assert again.settings == study.settings
    assert again.to_yaml() == study.to_yaml()
    assert strict_yaml.read(path).data["scenario"] == str(home / "mine.yaml")


def test_an_interrupted_study_has_its_file_already(tmp_path):
    study = loaded(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        executed(study, tmp_path, AtOnce(KeyboardInterrupt()))

    assert (tmp_path / "studies" / "small" / "study.yaml").read_text() == study.to_yaml()


def test_the_page_of_runs_made_before_states_all_that_was_simulated(tmp_path):
    study = load_study(written(tmp_path), ['overrides."task.partition.alpha"=0.25', "seeds=[1]"])
    executed(study, tmp_path)
    file = tmp_path / "studies" / "small" / "study.yaml"
    file.unlink()  # as an older fleetsim left it
    page = ParsedPage(StudyResult(study, tmp_path).write_report())
    facts = setup_block(study, RunStore(tmp_path)).facts

    assert file.read_text() == study.to_yaml()
    assert {"href": "study.yaml"} in page.all("a")
    # 64 pixels, two layers of 200, 10 classes: 64*200+200 + 200*200+200 + 200*10+10.
    assert facts["parameters"] == ["55,210 trained"]
    assert facts["cohort"] == ["3, over-commitment 1.25", "5, over-commitment 1.25"]
    assert facts["partition"] == ["dirichlet, alpha 0.25, min_samples 5, when_short redraw"]
    assert facts["seeds"] == ["1"]
    assert f"fleetsim {fleetsim.__version__}" in facts["versions"][0]
    for words in (
        "Does a larger cohort take longer?",
        "all runs fleet.size: 12; server.cohort: 3; stop.rounds: 2; task.partition.alpha: 0.25",
        "random (baseline) none",
        "cohort of 5 server.cohort: 5",
        *(value for values in facts.values() for value in values),
        " ".join(study.to_yaml().split()),
    ):
        assert words in page.words


def test_a_study_without_complete_runs_states_what_it_plans(home):
    study = loaded(home, **VARIED)
    block = setup_block(study, RunStore(home))
    (_, table), *_ = block.tables

    assert not block.facts.keys() & {"parameters", "versions", "platform"}
    assert block.facts["people"] == [
        "trace people-week, starts_at_s 43200",
        "trace people-week, starts_at_s 68400",
    ]
    assert list(table.rows) == [
        ("all runs", "fleet.size: 12; stop.rounds: 2"),
        ("random", "none"),
        ("oort (baseline)", "server.selector: {kind: 'oort', clip_fraction: 0.5}"),
        ("conditions", "server.cohort: 3 or 4"),
        ("hour = noon", "fleet.usage.starts_at_s: 43200"),
        ("hour = night", "none"),
    ]
