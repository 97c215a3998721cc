"""The study file as executed, and the setup that the page of a study states."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import fleetsim
from fleetsim import bundled
from fleetsim.contracts import Progress
from fleetsim.scenario import load
from fleetsim.studies.display import Lines
from fleetsim.studies.result import StudyResult
from fleetsim.studies.run_process import ProgressSender, RunProgress
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import Study, load_study
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


def test_progress_is_told_twice_a_second_at_most():
    scenario = load("quickstart", ["stop.rounds=4"])
    sent: list[RunProgress] = []
    clock = SimpleNamespace(now_s=0.0)
    tell = ProgressSender("key", sent.append, lambda: clock.now_s)
    for number, now_s in enumerate((0.0, 0.4, 0.5, 0.9, 1.0), start=1):
        clock.now_s = now_s
        progress = Progress(number, float(number), None, 0.0, num_selected=1, num_delivered=1)
        tell(scenario, progress)

    assert [each.round for each in sent] == [1, 3, 5]
    assert sent[0] == RunProgress("key", 0.25, 1, 1.0, None)


def test_a_failed_run_that_is_repeated_is_not_shown_as_under_way_until_it_begins_again(tmp_path):
    printed: list[str] = []
    times_s = iter(range(0, 1000, 40))
    lines = Lines(printed.append, lambda: float(next(times_s)))
    first, second, *_ = loaded(tmp_path).runs
    updates = [RunProgress(one.key, 0.5, 3, 60.0, 0.25) for one in (first, second)]
    lines.begin(num_done=0, missing=[first, second])
    lines.started(first)
    lines.started(second)
    lines.progress(updates)
    lines.failed(first, "its process was ended", is_final=False)
    lines.progress(updates[1:])
    lines.progress(updates)

    shows = [f"{first.name}: round 3" in line for line in printed if "runs done" in line]
    assert shows == [True, False, True]
    assert all(f"{second.name}: round 3" in line for line in printed if "runs done" in line)


def test_lines_say_that_another_process_makes_a_run(tmp_path):
    shown: list[str] = []
    now_s = 0.0
    lines = Lines(shown.append, lambda: now_s)
    first = loaded(tmp_path).runs[0]

    lines.begin(num_done=0, missing=[first])
    lines.waiting(first)
    now_s = 40.0
    lines.progress([])

    assert "random, seed 1 is being made by another process" in shown[1]
    assert shown[2].startswith("0 of 1 runs done, 1 made by another process")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return loaded(
        tmp_path_factory.mktemp("study"),
        arms={"random": {}},
        vary={"server.cohort": [2, 3, 8]},
        primary={"metric": "joules"},
    )


@pytest.fixture(scope="module")
def result(study: Study, tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    home = tmp_path_factory.mktemp("home")
    executed(study, home)
    return StudyResult(study, home)


def test_levels_are_compared_with_the_best(result):
    joules = result.verdicts[result.verdicts["metric"] == "joules"]

    # More clients in as many rounds spend more.
    assert joules["arm"].tolist() == ["cohort=3", "cohort=8"]
    assert set(joules["baseline"]) == {"cohort=2"}
    assert (joules["ratio"] > 1.0).all()


def test_levels_are_compared_with_the_one_that_the_study_names(study, result):
    settings = study.settings.model_copy(update={"baseline_level": 8})
    named = StudyResult(replace(study, settings=settings), result.home)

    verdicts = named.verdicts
    joules = verdicts[verdicts["metric"] == "joules"]

    assert set(verdicts["baseline"]) == {"cohort=8"}
    assert (joules["ratio"] < 1.0).all()


def test_the_page_and_the_terminal_lead_with_the_primary_outcome(result, tmp_path):
    page = ParsedPage(result.write_report(tmp_path, formats=["svg"]))
    ((heading, table),) = result.terminal_tables()

    assert "Primary outcome, declared in the study file: joules" in page.words
    (answer,) = result.answers()
    assert answer.startswith("Fewest joules to the whole run: cohort=2")
    assert 0 < page.words.index(answer) < page.words.index("Setup")
    assert page.words.index("joules to the whole run (primary)") < page.words.index("rounds to the")
    assert (tmp_path / "figures" / "forest.svg").is_file()
    assert heading == "Costs for the whole run"
    assert [str(column.header) for column in table.columns] == [
        *("", "rounds", "seconds", "joules (primary)")
    ]
    best, *others = table.columns[3].cells
    assert best.startswith("1 (")
    assert all(float(str(other).split()[0]) > 1.0 for other in others)


def test_the_effect_is_drawn_in_proportion_to_the_levels(result, tmp_path):
    assert '"tickvals":[2.0,3.0,8.0]' in result.write_report(tmp_path).read_text("utf-8")
