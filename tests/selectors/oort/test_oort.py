import re
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.contracts import Outcome
from fleetsim.selectors.oort.selector import OortSettings, profiles
from tests.selectors.rounds import met, outcome_of, report_of

PAGE = Path(__file__).parents[3] / "docs" / "selectors.md"


def values(column: int) -> dict[str, str]:
    """A column of the table in docs/selectors.md that compares the published versions."""
    section = PAGE.read_text().split("| figure | here |", 1)[1]
    rows = re.findall(r"^\| (.+) \|$", section, re.M)
    cells = [row.split(" | ") for row in rows]
    return {row[0].split(":")[0]: row[column] for row in cells if len(row) == 5}


@pytest.mark.parametrize(("profile", "column"), [("oort_repo", 3), ("fedscale", 4)])
def test_profiles_have_the_values_of_the_table_in_the_docs(profile, column):
    table, settings = values(column), OortSettings(profile=profile)

    assert table["exploration"] == (
        f"{settings.exploration_fraction}, {settings.exploration_decay}, "
        f"{settings.exploration_min_fraction}"
    )
    assert float(table["clip"]) == settings.clip_fraction
    assert float(table["cut-off c"]) == settings.cut_off_fraction


@pytest.mark.parametrize("profile", profiles())
def test_a_profile_sets_what_is_not_given_and_one_kind_of_preferred_duration(profile):
    expected = profiles()[profile] | {"profile": profile, "clip_fraction": 0.5}
    settings = OortSettings(profile=profile, clip_fraction=0.5)

    assert {name: getattr(settings, name) for name in expected} == expected
    assert (settings.preferred_percentile is None) != (settings.preferred_duration_s is None)
    # Written out, they mean the same when they are read again.
    assert OortSettings.model_validate(settings.model_dump()) == settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"profile": "oort"}, "oort_repo"),
        ({"profile": "fedscale", "preferred_duration_s": 3.0}, "exclude each other; set one of"),
        (
            {"exploration_fraction": 0.4, "exploration_min_fraction": 0.5},
            "_min_fraction 0.5 is",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        OortSettings(**settings)


def test_stragglers_get_the_mean_utility_of_the_round_and_a_bound_on_their_duration():
    # Round 1: 0 and 1 deliver U = 20 and 40, mean 30, in 10 and 30 s; 2 was cut after 60 s, 3 was
    # lost after 3 s.
    _, selector = met(OortSettings(), (10,) * 5)
    first = [
        report_of(0, loss=2.0, duration_s=10.0),
        report_of(1, loss=4.0, duration_s=30.0),
        report_of(2, outcome=Outcome.CANCELLED, duration_s=60.0),
        report_of(3, outcome=Outcome.OFFLINE, duration_s=3.0),
    ]
    selector.observe(outcome_of(1, first))
    state = selector.state()

    np.testing.assert_array_equal(state["utility"], [20.0, 40.0, 30.0, 30.0, np.nan])
    np.testing.assert_array_equal(state["duration_s"], [10.0, 30.0, 60.0, 3.0, np.nan])
    assert state["preferred_s"] == 20.0  # of those that delivered

    # Round 2: 3 delivers U = 10 in 15 s, which replaces its bound; the bounds of 2 (25 s) and
    # of 1 (5 s) tell nothing new; both get the mean, 10.
    second = [
        report_of(2, outcome=Outcome.LATE, duration_s=25.0),
        report_of(3, loss=1.0, duration_s=15.0),
        report_of(1, outcome=Outcome.OFFLINE, duration_s=5.0),
    ]
    selector.observe(outcome_of(2, second))
    state = selector.state()

    np.testing.assert_array_equal(state["utility"], [20.0, 10.0, 10.0, 10.0, np.nan])
    np.testing.assert_array_equal(state["duration_s"], [10.0, 30.0, 60.0, 15.0, np.nan])
    assert state["last_round"].tolist() == [1, 2, 2, 2, 0]
