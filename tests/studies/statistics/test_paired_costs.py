import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.studies.statistics.comparison import compare
from fleetsim.studies.statistics.paired_costs import (
    are_open,
    ordered_log_ratios,
    restricted_log_ratios,
)
from fleetsim.studies.statistics.t_test import power_of_t_test

LN2 = math.log(2.0)
PAIRS = st.lists(
    st.tuples(st.integers(1, 9), st.booleans(), st.integers(1, 9), st.booleans()), min_size=1
)

# Own cost, reached, baseline's cost, reached; then restricted, ordered (units of ln 2), open.
CASES = [
    ("both reached it", 4.0, True, 8.0, True, -1.0, -1.0, False),
    ("own did not, and had spent more", 8.0, False, 4.0, True, 1.0, math.inf, False),
    ("own did not, and ended early", 4.0, False, 8.0, True, 0.0, math.inf, True),
    ("the baseline did not, and had spent more", 4.0, True, 8.0, False, -1.0, -math.inf, False),
    ("the baseline did not, and ended early", 8.0, True, 4.0, False, 0.0, -math.inf, True),
    ("neither did", 4.0, False, 8.0, False, 0.0, 0.0, True),
]


@pytest.mark.parametrize(
    ("arm", "arm_reached", "base", "base_reached", "restricted", "ordered", "is_open"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_pair_is_compared_up_to_its_limit(
    arm, arm_reached, base, base_reached, restricted, ordered, is_open
):
    pair = np.array([arm]), np.array([arm_reached]), np.array([base]), np.array([base_reached])

    assert restricted_log_ratios(*pair) == pytest.approx([restricted * LN2], abs=1e-9)
    assert ordered_log_ratios(*pair) == pytest.approx([ordered * LN2], abs=1e-9)
    assert are_open(*pair).tolist() == [is_open]


def arrays_of(pairs):
    arm, arm_reached, base, base_reached = (np.array(column) for column in zip(*pairs, strict=True))
    return arm.astype(float), arm_reached, base.astype(float), base_reached


@given(PAIRS)
def test_the_arms_may_be_swapped(pairs):
    arm, arm_reached, base, base_reached = arrays_of(pairs)

    for log_ratios in (restricted_log_ratios, ordered_log_ratios):
        forth = log_ratios(arm, arm_reached, base, base_reached)
        back = log_ratios(base, base_reached, arm, arm_reached)

        assert (forth == -back).all()


@given(PAIRS)
def test_the_restricted_ratio_never_contradicts_the_order_of_a_pair(pairs):
    restricted = restricted_log_ratios(*arrays_of(pairs))
    ordered = ordered_log_ratios(*arrays_of(pairs))

    assert (restricted * np.sign(ordered) >= 0.0).all()
    assert (np.abs(restricted) <= np.abs(ordered)).all()
    assert (restricted[are_open(*arrays_of(pairs))] == 0.0).all()


def test_costs_that_differ_by_rounding_are_equal():
    reached = np.array([True])

    assert restricted_log_ratios(np.array([0.3]), reached, np.array([0.1 + 0.2]), reached) == [0.0]


ALL, NONE = np.ones(5, dtype=bool), np.zeros(5, dtype=bool)
COSTS = np.array([6.0, 8.0, 10.0, 12.0, 14.0])


def test_three_pairs_by_hand():
    # Ratios 1/2, 1, 2: mean log-ratio 0, standard deviation ln 2, standard error ln 2 / sqrt(3).
    reached = np.ones(3, dtype=bool)
    comparison = compare(
        np.array([2.0, 4.0, 8.0]), reached, np.array([4.0, 4.0, 4.0]), reached, seed=1
    )
    quantile = 0.95 * math.sqrt(2.0 / (1.0 - 0.95**2))

    assert comparison.ratio == pytest.approx(1.0)
    assert comparison.high == pytest.approx(math.exp(quantile * math.log(2.0) / math.sqrt(3.0)))
    assert comparison.low == pytest.approx(1.0 / comparison.high)
    assert (comparison.p_t, comparison.p_wilcoxon, comparison.p_sign) == pytest.approx((1, 1, 1))
    assert (comparison.num_pairs, comparison.num_wins, comparison.num_open) == (3, 1, 0)
    assert (comparison.is_restricted, comparison.num_more_seeds) == (False, None)


def test_the_seeds_needed_share_the_false_verdicts_among_the_arms():
    arm = COSTS * np.exp([-0.3, -0.1, -0.4, 0.1, -0.3])  # mean -0.2, standard deviation 0.2
    one, four = (
        compare(arm, ALL, COSTS, ALL, seed=1, num_arms=num).num_more_seeds for num in (1, 4)
    )

    assert one == 10 - 5  # the textbooks' 10 for an effect of 1
    assert four is not None
    assert power_of_t_test(1.0, 5 + four, 0.05 / 4) >= 0.8
    assert power_of_t_test(1.0, 4 + four, 0.05 / 4) < 0.8


def test_a_run_that_never_reached_it_counts_up_to_its_end():
    # The first pair: 12 / 6 until the end, an order beyond any number. The others: 1/2.
    arm = np.concatenate([[12.0], COSTS[1:] / 2.0])
    comparison = compare(arm, np.array([False, True, True, True, True]), COSTS, ALL, seed=1)

    assert comparison.ratio == pytest.approx(2.0 ** ((1 - 4) / 5))
    assert comparison.is_restricted
    assert (comparison.num_reached, comparison.num_baseline_reached) == (4, 5)
    assert (comparison.num_wins, comparison.p_sign) == (4, 0.375)
    # Four ties with the mean rank 2.5 against the largest, 5: sums up to 5 are 0, 4 of 2.5, 6 of 5
    # and the one of 5 alone, 12 of 32.
    assert comparison.p_wilcoxon == pytest.approx(2 * 12 / 32)


def test_equal_runs_are_no_evidence_and_have_no_spread():
    comparison = compare(COSTS, ALL, COSTS, ALL, seed=1)

    assert (comparison.ratio, comparison.low, comparison.high) == (1.0, 1.0, 1.0)
    assert (comparison.bca_low, comparison.bca_high) == (1.0, 1.0)
    assert (comparison.p_t, comparison.p_wilcoxon, comparison.p_sign) == (1.0, 1.0, 1.0)
    assert comparison.num_more_seeds is None


@pytest.mark.parametrize(("base_reached", "p_sign"), [(NONE, 1.0), (ALL, 0.0625)])
def test_an_arm_that_never_reached_it_and_ended_early_tells_no_ratio(base_reached, p_sign):
    comparison = compare(COSTS / 2.0, NONE, COSTS, base_reached, seed=1)

    assert np.isnan([comparison.ratio, comparison.low, comparison.p_t]).all()
    assert (comparison.num_open, comparison.num_wins, comparison.p_sign) == (5, 0, p_sign)


def test_one_pair_has_a_ratio_alone():
    comparison = compare(
        np.array([1.0]), np.array([True]), np.array([2.0]), np.array([True]), seed=1
    )

    assert comparison.ratio == pytest.approx(0.5)
    assert np.isnan([comparison.low, comparison.bca_low, comparison.p_t]).all()
    assert comparison.num_more_seeds is None
