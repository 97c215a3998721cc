"""Every bundled study: its file, its worlds, and a shortened form of it."""

from functools import cache

import pytest

from fleetsim import bundled
from fleetsim.catalogue import listing
from fleetsim.scenario import scenario_warnings
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.run_tables import tables_of
from fleetsim.studies.settings import WHOLE_RUN, StudySettings
from fleetsim.studies.study import Study, load_study
from tests.studies.small_studies import executed

NAMES = bundled.names("studies")
OWN = [name for name in NAMES if not name.startswith("papers/")]
SHORT = ('overrides."stop.rounds"=2', "seeds=[1]")
ON_DIGITS = (
    'overrides."task.dataset"={kind: digits}',
    'overrides."task.partition"={kind: dirichlet, alpha: 1.0, min_samples: 2}',
)
"""Overrides for studies whose data must be fetched. Digits keep their partition: weights of
selectors hold for certain clients."""
EXPECTED = (
    "so the paper's theorem 2 does not promise that beliefs converge",
    "no rate of a transformer's matrix products",
)
"""Warnings of a paper's own settings, and of its network on phones that nobody timed with it."""


@cache
def bundled_study(name: str) -> Study:
    """Return a bundled study, which takes half a second to load."""
    return load_study(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_study_asks_a_question_and_warns_of_nothing(name):
    study = bundled_study(name)

    assert study.settings.name == name.removeprefix("papers/")
    assert study.settings.question.endswith("?")
    # Loading has compared the worlds of the arms.
    assert name not in OWN or not study.settings.different_worlds
    warnings = {
        line
        for scenario in study.cells.values()
        for line in scenario_warnings(scenario, train=True)
    }
    assert all(any(known in line for known in EXPECTED) for line in warnings)


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_a_short_form_of_a_bundled_study_runs(name, tmp_path):
    is_on_digits = bundled_study(name).runs[0].scenario.task.dataset.kind == "digits"
    changes = SHORT if is_on_digits else (*SHORT, *ON_DIGITS)
    study, store = load_study(name, changes), RunStore(tmp_path)

    assert executed(study, store.home).failures == {}
    tables = tables_of(study, store)
    # The last row of a buffered server holds the tasks that it cancels at the end.
    assert tables.runs["rounds"].between(2, 3).all()
    assert tables.runs["energy_j"].gt(0).all()
    # Two rounds are too few for the targets: every cost is that of the whole run.
    has_target = tables.costs["target"] != WHOLE_RUN
    assert not tables.costs[has_target]["is_reached"].any()
    spent = tables.costs[tables.costs["metric"] == "joules"].groupby(["condition", "arm"])["cost"]
    whole = tables.runs.groupby(["condition", "arm"])["energy_j"]
    assert spent.max().to_dict() == spent.min().to_dict() == whole.sum().to_dict()


def test_the_example_of_the_page_on_studies_has_every_key_and_loads(tmp_path):
    page = (bundled.folder("studies").parent / "docs" / "studies.md").read_text("utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    path = tmp_path / "my-deadlines.yaml"
    path.write_text(example, encoding="utf-8")

    study = load_study(path)

    assert (len(study.arms), len(study.conditions), len(study.runs)) == (3, 4, 60)
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row in StudySettings.model_fields] == list(
        StudySettings.model_fields
    )


def test_studies_are_listed_with_their_questions():
    rows = listing("studies").rows

    assert [name for name, _ in rows] == NAMES
    assert ("quick", bundled_study("quick").settings.question) in rows
