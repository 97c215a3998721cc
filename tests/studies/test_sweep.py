"""A study of one arm, whose levels are compared."""

from dataclasses import replace

import pytest

from fleetsim.studies.result import StudyResult
from fleetsim.studies.study import Study
from tests.report.parsed_page import ParsedPage
from tests.studies.small_studies import executed, loaded


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
        *("", "rounds", "seconds", "joules (primary)"),
    ]
    best, *others = table.columns[3].cells
    assert best.startswith("1 (")
    assert all(float(str(other).split()[0]) > 1.0 for other in others)


def test_the_effect_is_drawn_in_proportion_to_the_levels(result, tmp_path):
    text = result.write_report(tmp_path).read_text("utf-8")

    assert '"tickvals":[2.0,3.0,8.0]' in text
