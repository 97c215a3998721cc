import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.contracts import Outcome
from fleetsim.selectors.oort.equations import (
    cut_off_pool,
    duration_at,
    exploration_pool,
    is_declining,
    num_exploited,
    paced_percentile,
    scaled,
    statistical_utility,
    system_penalty,
    utility,
)
from fleetsim.selectors.oort.selector import OortSettings, profiles
from tests.selectors.rounds import met, outcome_of, report_of

PAGE = Path(__file__).parents[3] / "docs" / "selectors" / "oort.md"


def values(column: int) -> dict[str, str]:
    """A column of the table in docs/selectors/oort.md that compares the published versions."""
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
        ({"exploration_fraction": 0.4, "exploration_min_fraction": 0.5}, "_min_fraction 0.5 is"),
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


UTILITIES = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=40)


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_statistical_utility_is_size_times_root_mean_square():
    # Losses 1, 3, 5 of three samples: rms = sqrt(35 / 3), U = 3 sqrt(35 / 3) = 10.246951.
    rms = math.sqrt((1 + 9 + 25) / 3)

    assert statistical_utility(array(3.0), array(rms)) == pytest.approx(array(10.246951))
    with pytest.raises(ValueError, match="not negative, got nan"):
        statistical_utility(array(10), array(math.nan))


def test_the_utilities_of_four_clients():
    # U = 10*2, 20*1, 30*.5, 40*.25 = 20, 20, 15, 10; round R = 5, 0.1 ln 5 = 0.160943791;
    # bonus with L = 1, 2, 4, 4: sqrt of .160943791, .080471896, .040235948 (twice)
    #                           = .401178, .283676, .200589, .200589
    # penalty with T = 20, alpha = 2 and t = 10, 40, 20, 5: 1, (20/40)^2 = .25, 1 (not slower), 1
    scores = utility(
        statistical_utility(array(10, 20, 30, 40), array(2.0, 1.0, 0.5, 0.25)),
        array(10.0, 40.0, 20.0, 5.0),
        np.array([1, 2, 4, 4]),
        round_=5,
        preferred_s=20.0,
        alpha=2.0,
    )

    assert scores == pytest.approx(array(20.401178, 5.070919, 15.200589, 10.200589), abs=1e-6)


def test_only_clients_known_to_be_slower_than_preferred_are_penalised():
    # T = 10, alpha = 1: 9 and 10 are in time, 20 pays one half, 40 three quarters.
    penalty = system_penalty(array(9.0, 10.0, 20.0, 40.0, math.nan), 10.0, 1.0)

    assert penalty.tolist() == [1.0, 1.0, 0.5, 0.25, 1.0]
    for no_preference in (math.nan, math.inf):
        assert system_penalty(array(5.0, 1e9), no_preference, 2.0).tolist() == [1.0, 1.0]
    assert system_penalty(array(1e6), 1.0, 0.0).tolist() == [1.0]


def test_quotas_round_down_and_fill_in_for_each_other():
    assert num_exploited(10, 0.9, 50, 50) == 1  # 1 - 0.9 is a little less than 0.1 in binary
    assert num_exploited(13, 0.2, 50, 50) == 10  # floor(10.4)
    assert num_exploited(10, 0.9, 50, 3) == 7  # only 3 to explore
    assert num_exploited(10, 0.2, 4, 50) == 4  # only 4 to exploit
    assert num_exploited(10, 0.2, 4, 3) == 4  # 7 there in all
    assert num_exploited(10, 0.9, 0, 50) == 0  # the first round


@given(UTILITIES, st.data(), st.floats(0.0, 1.0))
def test_the_pool_is_never_smaller_than_the_quota_and_holds_the_best(utilities, data, cut_off):
    quota = data.draw(st.integers(1, len(utilities)))
    scores = array(*utilities)
    pool = cut_off_pool(scores, quota, cut_off)
    outside = np.setdiff1d(np.arange(scores.size), pool)

    assert pool.size >= quota
    assert outside.size == 0 or scores[outside].max() < scores[pool].min()


def test_the_pacer_compares_two_windows():
    # W = 2: 5 + 4 against 3 + 5; 5 + 4 against 4 + 5; and one round short of two windows.
    assert is_declining(array(0, 5, 4, 3, 5), 2)
    assert not is_declining(array(5, 4, 4, 5), 2)
    assert not is_declining(array(9, 4, 1), 2)


def test_scaled_utilities_begin_a_little_above_zero_and_are_clipped():
    # Clip at rank 2 of 4: 40. Floor .999 * 10 = 9.99, stretch 1000 - 9.99 = 990.01.
    utilities = scaled(array(1000, 10, 40, 20), 0.5)

    assert utilities == pytest.approx(array(30.01, 0.01, 30.01, 10.01) / 990.01)


def test_scaling_equal_utilities_divides_by_no_less_than_a_ten_thousandth():
    # U = 5: (5 - 4.995) / (5 - 4.995) = 1. U = .01: (.01 - .00999) / .0001 = .1. U = 0: 0.
    assert scaled(array(5, 5), 0.95) == pytest.approx([1.0, 1.0])
    assert scaled(array(0.01), 0.95) == pytest.approx([0.1])
    assert scaled(array(0, 0), 0.95).tolist() == [0.0, 0.0]
    assert scaled(array(), 0.95).size == 0


@given(UTILITIES, st.floats(0.01, 1.0))
def test_scaled_utilities_lie_between_zero_and_one_in_the_same_order(utilities, fraction):
    scores = scaled(array(*utilities), fraction)

    assert scores.min() >= 0.0
    assert scores.max() <= 1.0 + 1e-12
    assert np.all(np.diff(scores[np.argsort(utilities, kind="stable")]) >= 0.0)


def test_the_preferred_duration_is_that_at_the_rank():
    # 20 durations of 1 to 20 s: 10 % is 0-based rank 2, 99 % is rank 19.
    durations_s = np.append(np.arange(20.0, 0.0, -1.0), math.nan)

    assert (duration_at(durations_s, 10.0), duration_at(durations_s, 99.0)) == (3.0, 20.0)
    assert duration_at(durations_s, 100.0) == math.inf
    assert math.isnan(duration_at(array(math.nan), 50.0))


def test_explorers_are_drawn_among_a_window_of_the_largest():
    weights, keys = array(5, 1, 3, 4, 3), array(0.1, 0.2, 0.9, 0.4, 0.5)

    assert exploration_pool(weights, 1, 2.5, keys).tolist() == [0, 3]
    assert exploration_pool(weights, 2, 1.5, keys).tolist() == [0, 3, 4]
    assert exploration_pool(weights, 1, 3.0, keys).tolist() == [0, 3, 4]
    assert exploration_pool(weights, 2, 5.0, keys).tolist() == [0, 3, 4, 2, 1]


@pytest.mark.parametrize(
    ("percentile", "achieved", "window", "expected"),
    [
        # 4 + 6 = 10 before; now 10.9 (9 % more: flat), 9.1 (flat), 12 (neither), 61 (5 times).
        (10.0, (4, 6, 5, 5.9), 2, 15.0),
        (10.0, (4, 6, 5, 4.1), 2, 15.0),
        (10.0, (4, 6, 6, 6), 2, 10.0),
        (30.0, (4, 6, 30, 31), 2, 25.0),
        # Between a step and a hundred; too few rounds.
        (98.0, (1, 1), 1, 100.0),
        (8.0, (1, 9), 1, 5.0),
        (8.0, (9, 1, 1), 2, 8.0),
    ],
)
def test_the_authors_pacer_moves_the_percentile(percentile, achieved, window, expected):
    assert paced_percentile(percentile, array(*achieved), window, 5.0) == expected
