from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.contracts import Outcome
from fleetsim.selectors.oort import OortSelector, OortSettings
from tests.selectors.rounds import met, outcome_of, report_of, view_of

EXPLOIT_ALL = {"exploration_fraction": 0.0, "exploration_min_fraction": 0.0}


def ready(num_samples=(10,) * 6, *, cohort=2, seed=7, **settings):
    """A fleet of 10 samples each, unless said otherwise, and a selector that met it."""
    return met(OortSettings(**settings), num_samples, cohort=cohort, seed=seed)


def observe(selector, round_, losses, duration_s=10.0):
    """Let a selector observe a round in which these clients delivered these losses, in 10 s."""
    reports = [report_of(c, loss=loss, duration_s=duration_s) for c, loss in losses.items()]
    selector.observe(outcome_of(round_, reports))


# --- exploring and exploiting ---------------------------------------------------------------------


def test_the_first_round_explores_only_in_proportion_to_samples():
    # One wanted of n = 10, 30, 60: P = .1, .3, .6; 4 standard errors of 2000 seeds.
    exact = np.array([0.1, 0.3, 0.6])
    counts = np.zeros(3)
    for seed in range(2000):
        fleet, selector = ready((10, 30, 60), cohort=1, seed=seed)
        counts[selector.select(view_of(fleet))] += 1

    assert np.all(np.abs(counts / 2000 - exact) < 4 * np.sqrt(exact * (1 - exact) / 2000))


def test_exploration_may_be_uniform():
    # P(the client of 998 samples) is .998 by size and 1/3 uniformly; 300 seeds.
    chosen = []
    for seed in range(300):
        fleet, selector = ready((1, 1, 998), cohort=1, seed=seed, exploration_weights="uniform")
        chosen.append(int(selector.select(view_of(fleet))[0]))

    assert abs(chosen.count(2) / 300 - 1 / 3) < 4 * math.sqrt(1 / 3 * 2 / 3 / 300)


def test_a_cohort_is_the_exploited_and_then_the_explorers():
    # Round 2 of 20 wanted: epsilon .882, floor(.118 * 20) = 2 exploited, 18 explorers.
    fleet, selector = ready((10,) * 60, cohort=20)
    explored = selector.select(view_of(fleet)).tolist()
    observe(selector, 1, dict.fromkeys(explored, 1.0))
    chosen = selector.select(view_of(fleet, round_=2)).tolist()

    assert len(explored) == len(chosen) == 20
    assert set(chosen[:2]) <= set(explored)
    assert not set(chosen[2:]) & set(explored)


def test_too_few_explored_are_made_up_for_by_explorers_and_the_reverse():
    # 4 wanted, all to be exploited; only 1 of the 6 is explored, so 3 explorers come along.
    fleet, selector = ready(cohort=4, **EXPLOIT_ALL)
    observe(selector, 1, {2: 1.0})
    chosen = selector.select(view_of(fleet, round_=2)).tolist()

    assert chosen[0] == 2
    assert len(chosen) == 4

    # 4 wanted, none to be exploited; only 1 of the 6 is unexplored, so 3 are exploited.
    fleet, selector = ready(cohort=4, exploration_fraction=1.0, exploration_decay=1.0)
    observe(selector, 1, dict.fromkeys([0, 1, 2, 4, 5], 1.0))
    chosen = selector.select(view_of(fleet, round_=2)).tolist()

    assert chosen[3] == 3
    assert len(chosen) == 4


def test_unavailable_clients_neither_count_nor_come():
    fleet, selector = ready(cohort=2, **EXPLOIT_ALL)
    observe(selector, 1, {0: 9.0, 1: 1.0, 2: 9.0})
    chosen = selector.select(view_of(fleet, round_=2, candidates=[1, 4])).tolist()

    assert chosen == [1, 4]


def test_exploitation_draws_from_the_pool_in_proportion_to_utility():
    # U = 10 * (10, 8, 5, 1) and c = .7: the largest is 100, the cut-off 70 (bonuses are below
    # .3), so the pool is {0, 1}; 0 comes with P = 100 / 180 = .556, +- 4 standard errors.
    fleet, selector = ready((10,) * 4, cohort=1, cut_off_fraction=0.7, **EXPLOIT_ALL)
    observe(selector, 1, {0: 10.0, 1: 8.0, 2: 5.0, 3: 1.0})
    chosen = [int(selector.select(view_of(fleet, round_=r))[0]) for r in range(2, 2002)]

    assert set(chosen) == {0, 1}
    assert abs(chosen.count(0) / 2000 - 100 / 180) < 4 * math.sqrt(0.556 * 0.444 / 2000)


def test_equal_utilities_are_exploited_equally_often():
    # 2 of 4 wanted: 1/2 each; 4 standard errors of 1000 rounds are .063.
    fleet, selector = ready((10,) * 4, cohort=2, **EXPLOIT_ALL)
    observe(selector, 1, dict.fromkeys(range(4), 0.0))
    counts = np.zeros(4)
    for round_ in range(2, 1002):
        counts[selector.select(view_of(fleet, round_=round_))] += 1

    assert np.all(np.abs(counts / 1000 - 0.5) < 4 * math.sqrt(0.25 / 1000))


def test_a_client_slower_than_preferred_leaves_the_pool():
    # T = 10 s, U = 10, 12, 10. 1 needs 20 s: 12 * (10/20)^2 = 3 < .95 * 10. With T = 20 s it
    # would be the best: .95 * 12 = 11.4 > 10.
    def pool(preferred_s: float) -> set[int]:
        fleet, selector = ready(
            (10,) * 3, cohort=1, preferred_duration_s=preferred_s, **EXPLOIT_ALL
        )
        reports = [
            report_of(0, loss=1.0, duration_s=10.0),
            report_of(1, loss=1.2, duration_s=20.0),
            report_of(2, loss=1.0, duration_s=9.0),
        ]
        selector.observe(outcome_of(1, reports))
        return {int(selector.select(view_of(fleet, round_=r))[0]) for r in range(2, 40)}

    assert pool(10.0) == {0, 2}
    assert pool(20.0) == {1}


def test_an_outlier_counts_as_the_clipped_utility():
    # U = 1000 once and 10 for 39 others: clipped at 0-based rank floor(.95 * 40) = 38, that is 10,
    # so all 40 are in the pool; unclipped it would be the outlier alone.
    fleet, selector = ready((10,) * 40, cohort=1, **EXPLOIT_ALL)
    observe(selector, 1, {client: 100.0 if client == 7 else 1.0 for client in range(40)})
    chosen = {int(selector.select(view_of(fleet, round_=r))[0]) for r in range(2, 52)}

    assert len(chosen) > 20


def test_an_unexplored_client_known_to_be_slow_is_penalised():
    # Client 0 was given up after 100 s, T = 10 s: weights 10 * (10/100)^2 = .1 and 10, so it comes
    # first in .0099 of the rounds, 2 of 200 expected; without the penalty in half of them.
    fleet, selector = ready((10, 10), cohort=1, preferred_duration_s=10.0)
    selector.observe(outcome_of(1, [report_of(0, outcome=Outcome.LATE, duration_s=100.0)]))
    chosen = [int(selector.select(view_of(fleet, round_=r))[0]) for r in range(2, 202)]

    assert chosen.count(0) < 12


# --- what a round teaches -------------------------------------------------------------------------


def test_reports_become_utilities_durations_and_the_first_preference():
    # U = |B| rms: 10 * 2 = 20 and 40 * .5 = 20; T is the median of 30 and 70 s.
    _, selector = ready((10, 40, 5))
    reports = [
        report_of(0, loss=2.0, num_samples=10, duration_s=30.0),
        report_of(1, loss=0.5, num_samples=40, duration_s=70.0),
    ]
    selector.observe(outcome_of(1, reports))
    state = selector.state()

    np.testing.assert_array_equal(state["utility"], [20.0, 20.0, np.nan])
    np.testing.assert_array_equal(state["duration_s"], [30.0, 70.0, np.nan])
    assert state["last_round"].tolist() == [1, 1, 0]
    assert state["preferred_s"] == 50.0


def test_stragglers_get_the_mean_utility_of_the_round_and_a_bound_on_their_duration():
    # Round 1: 0 and 1 deliver U = 20 and 40, mean 30, in 10 and 30 s; 2 was cut after 60 s, 3 was
    # lost after 3 s.
    _, selector = ready((10,) * 5, cohort=2)
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


def test_stragglers_count_as_explored():
    fleet, selector = ready((10,) * 4, cohort=2, **EXPLOIT_ALL)
    reports = [report_of(0, loss=1.0), report_of(1, outcome=Outcome.LATE, duration_s=10.0)]
    selector.observe(outcome_of(1, reports))

    assert set(selector.select(view_of(fleet, round_=2)).tolist()) == {0, 1}


def test_a_round_in_which_all_failed_explores_no_client():
    fleet, selector = ready((10,) * 3, cohort=3)
    selector.observe(outcome_of(1, [report_of(c, outcome=Outcome.LATE) for c in range(3)]))
    state = selector.state()

    assert np.isnan(state["utility"]).all()
    assert math.isnan(state["preferred_s"])
    assert state["num_selected"].tolist() == [1, 1, 1]
    assert sorted(selector.select(view_of(fleet, round_=2)).tolist()) == [0, 1, 2]


def test_a_round_without_anybody_teaches_nothing():
    _, selector = ready(preferred_duration_s=5.0)
    before = selector.state()
    selector.observe(outcome_of(1, []))
    after = selector.state()

    for name, column in before.items():
        np.testing.assert_array_equal(column, after[name])


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_an_answer_without_a_finite_loss_teaches_only_the_duration(loss):
    _, selector = ready((10,) * 2)
    observe(selector, 1, {0: loss}, duration_s=8.0)
    state = selector.state()

    assert np.isnan(state["utility"]).all()
    assert state["duration_s"][0] == 8.0


# --- the pacer ------------------------------------------------------------------------------------


def preferences(selector: OortSelector, achieved: list[float]) -> list[float]:
    """T after each round in which client 0, of 10 samples, delivers these utilities."""
    seen = []
    for round_, utility in enumerate(achieved, start=1):
        observe(selector, round_, {0: utility / 10})
        seen.append(float(selector.state()["preferred_s"]))
    return seen


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        # W = 2. Round 4: 50 + 40 > 30 + 20; round 6: 50 < 70; round 8: 30 + 40 > 10 + 10.
        ("window", [100, 100, 100, 130, 130, 130, 130, 160]),
        # Also round 5: 40 + 30 > 20 + 30, and round 7: 20 + 30 = 40 + 10, no decline.
        ("round", [100, 100, 100, 130, 160, 160, 160, 190]),
    ],
)
def test_the_pacer_relaxes_when_two_windows_decline(every, expected):
    _, selector = ready(
        preferred_duration_s=100.0, pacer_step_s=30.0, pacer_window_rounds=2, pacer_every=every
    )

    assert preferences(selector, [50, 40, 30, 20, 30, 40, 10, 10]) == expected


def test_by_default_the_step_is_the_preference_of_the_beginning():
    # W = 1, all durations 10 s: T = 10, then + 10 with every decline.
    _, selector = ready(pacer_window_rounds=1)

    assert preferences(selector, [50, 40, 30, 30]) == [10, 20, 30, 30]


# --- the blacklist --------------------------------------------------------------------------------


def barred(**settings):
    """Who is not chosen though all are wanted: asked 5, 4, 3, 2, 2, 1, 1, 1, 1, 1 times."""
    fleet, selector = ready((10,) * 10, cohort=10, **EXPLOIT_ALL, **settings)
    for round_, asked in enumerate([10, 5, 3, 2, 1], start=1):
        observe(selector, round_, dict.fromkeys(range(asked), 1.0))
    return set(range(10)) - set(selector.select(view_of(fleet, round_=6)).tolist())


def test_no_client_is_barred_by_default():
    assert barred() == set()


def test_who_was_asked_too_often_is_barred_up_to_a_share_of_the_fleet():
    assert barred(max_selections=3) == {0, 1, 2}
    assert barred(max_selections=4) == {0, 1}
    assert barred(max_selections=1) == {0, 1, 2}  # 30 % of 10
    one_of_two = barred(max_selections=2, max_blacklist_fraction=0.4)
    assert one_of_two in ({0, 1, 2, 3}, {0, 1, 2, 4})


def test_a_floor_above_the_start_is_refused():
    with pytest.raises(ValidationError, match=r"exploration_min_fraction 0\.5"):
        OortSettings(exploration_fraction=0.4, exploration_min_fraction=0.5)


# --- the rules of the published implementations ---------------------------------------------------


def test_scaled_utilities_leave_the_bonus_its_weight():
    # U = 100, 101, 102. As they are, .99 * 102.x admits 101 and 102 whatever the bonus. Scaled to
    # (U - 99.9) / 2.1 they are .05, .52, 1; the bonus sqrt(.1 ln 1000 / L) of client 0, last asked
    # in round 1, is .83 and that of the others, asked in round 900, .03: .88 against .55 and 1.03.
    def pool(scale: bool) -> set[int]:
        fleet, selector = ready(
            (10,) * 3, cohort=1, scale_utilities=scale, cut_off_fraction=0.8, **EXPLOIT_ALL
        )
        selector.observe(outcome_of(1, [report_of(0, loss=10.0)]))
        selector.observe(outcome_of(900, [report_of(1, loss=10.1), report_of(2, loss=10.2)]))
        return {int(selector.select(view_of(fleet, round_=r))[0]) for r in range(1000, 1040)}

    assert pool(True) == {0, 2}
    assert pool(False) == {0, 1, 2}


def test_the_preferred_duration_may_be_a_percentile_of_all_known():
    # 10, 20, 30 and 40 s: rank floor(4 * .5) = 2; then 5 s come and 40 become 90: 5 10 20 30 90.
    _, selector = ready((10,) * 5, preferred_percentile=50.0)
    first = [report_of(c, loss=1.0, duration_s=10.0 * (c + 1)) for c in range(3)]
    first.append(report_of(3, outcome=Outcome.LATE, duration_s=40.0))
    selector.observe(outcome_of(1, first))
    assert selector.state()["preferred_s"] == 30.0

    second = [report_of(4, loss=1.0, duration_s=5.0), report_of(3, loss=1.0, duration_s=90.0)]
    selector.observe(outcome_of(2, second))
    assert selector.state()["preferred_s"] == 20.0


@pytest.mark.parametrize(
    ("second", "percentile"),
    [
        (1.05, 55.0),  # within 10 %: flat
        (3.0, 50.0),  # neither
        (7.0, 45.0),  # five times as much or more
    ],
)
def test_the_percentile_is_paced_by_the_exploited(second, percentile):
    # Windows of 1 round; client 0 is exploited with U = 10 and then 10 * second; what explorers
    # deliver (client 1, 90 and 900) does not count.
    fleet, selector = ready(
        (10,) * 9,
        cohort=2,
        preferred_percentile=50.0,
        pacer_window_rounds=1,
        exploration_fraction=0.5,
        exploration_decay=1.0,
    )
    selector.observe(outcome_of(1, [report_of(0, loss=1.0)]))
    for round_, loss, explored in ((2, 1.0, 9.0), (3, second, 90.0)):
        chosen = selector.select(view_of(fleet, round_=round_, candidates=[0, round_ + 2]))
        assert chosen.tolist() == [0, round_ + 2]
        reports = [report_of(0, loss=loss), report_of(round_ + 2, loss=explored)]
        selector.observe(outcome_of(round_, reports))
        if round_ == 2:
            # From nothing to 10 is a jump; start anew from 50.
            state = selector.state()
            state["percentile"] = np.array(50.0)
            selector.restore(state)

    assert selector.state()["achieved"].tolist() == pytest.approx([10.0, 10.0 * second])
    assert selector.state()["percentile"] == percentile


def test_explorers_may_be_drawn_among_the_largest_only():
    # 2 wanted, among the 2 * 2 largest of 10.
    chosen = set()
    for seed in range(40):
        fleet, selector = ready(range(1, 11), cohort=2, seed=seed, exploration_window=2.0)
        chosen |= set(selector.select(view_of(fleet)).tolist())

    assert chosen == {6, 7, 8, 9}
