import math

import numpy as np
import pytest

from fleetsim.studies.statistics.comparison import compare
from fleetsim.studies.statistics.t_test import power_of_t_test

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
