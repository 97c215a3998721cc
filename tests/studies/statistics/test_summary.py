import math

import numpy as np
import pytest
from scipy import stats

from fleetsim import rng
from fleetsim.studies.statistics.bootstrap import bca_interval
from fleetsim.studies.statistics.shares import survival_sentence, survival_share
from fleetsim.studies.statistics.summary import summarise
from fleetsim.studies.statistics.t_test import power_of_t_test, seeds_needed, t_interval, t_test

COSTS = np.array([4.0, 1.0, 7.0, 8.0])


def test_all_seeds_reached_it_and_everything_is_known():
    # Mean 20 / 4; squared deviations 1 + 16 + 4 + 9 = 30, over 3; median (4 + 7) / 2.
    summary = summarise(COSTS, np.ones(4, dtype=bool))

    assert (summary.num_seeds, summary.num_reached) == (4, 4)
    assert (summary.mean, summary.restricted_mean, summary.median) == (5.0, 5.0, 5.5)
    assert summary.std == pytest.approx(math.sqrt(10.0))
    assert summary.restricted_std == pytest.approx(math.sqrt(10.0))
    assert (summary.least, summary.most, summary.is_median_bound) == (1.0, 8.0, False)


def test_a_censored_run_leaves_no_mean_but_a_restricted_one():
    summary = summarise(COSTS, np.array([True, True, True, False]))

    assert np.isnan([summary.mean, summary.std, summary.most]).all()
    assert (summary.restricted_mean, summary.least) == (5.0, 1.0)


@pytest.mark.parametrize(
    ("is_reached", "median", "is_bound"),
    [
        # The end of the third run, 8, lies above both middle costs.
        ([True, True, True, False], 5.5, False),
        # Half of the runs: the upper middle cost is 7 or more.
        ([True, True, False, False], 5.5, True),
        # The run that ended at 1 may cost anything: the median is between 5.5 and (7 + 8) / 2.
        ([True, False, True, True], 5.5, True),
        ([False, False, False, False], 5.5, True),
    ],
)
def test_the_median_is_known_or_a_lower_bound(is_reached, median, is_bound):
    summary = summarise(COSTS, np.array(is_reached))

    assert (summary.median, summary.is_median_bound) == (median, is_bound)


def test_one_seed_has_no_spread():
    summary = summarise(np.array([3.0]), np.array([True]))

    assert (summary.mean, summary.median, summary.most) == (3.0, 3.0, 3.0)
    assert math.isnan(summary.std)


def test_three_pairs_by_hand():
    # Resampled means of (0, 0, 3) are 0, 1, 2, 3 with 8, 12, 6, 1 chances of 27.
    # Bias: Phi^-1(8/27 + half of 12/27) = Phi^-1(0.5185) = 0.046.
    # Acceleration: (-1 - 1 + 8) / (6 (1 + 1 + 4)^1.5) = 0.068.
    # Level 0.92, upper: z = 0.046 + 1.751 = 1.797; Phi(0.046 + z / (1 - 0.068 z)) = 0.982, beyond
    # the 26/27 = 0.963 of a mean up to 2, where the plain percentile 0.96 would end.
    # Level 0.80, upper: z = 1.328; Phi(0.046 + z / (1 - 0.068 z)) = 0.934, which is 2.
    # Lower ends: percentiles 0.064 and 0.137, less than 8/27.
    row = np.array([0.0, 0.0, 3.0])

    assert np.array(bca_interval(row, 1, 0.92)) == pytest.approx([0.0, 3.0])
    assert np.array(bca_interval(row, 1, 0.80)) == pytest.approx([0.0, 2.0])


def test_a_skewed_sample_has_the_interval_of_scipy():
    row = rng.stream(1, "test").exponential(1.0, 12)
    expected = stats.bootstrap(
        (row,), np.mean, n_resamples=100_000, method="BCa", random_state=rng.stream(2, "test")
    ).confidence_interval

    # The error of a percentile of 100,000 resamples is about 0.01 of the mean's standard error.
    assert np.array(bca_interval(row, 1, num_resamples=100_000)) == pytest.approx(
        [expected.low, expected.high], abs=0.05 * np.std(row) / np.sqrt(12)
    )


def test_each_row_has_an_interval_of_its_own():
    rows = rng.stream(1, "test").normal(0.0, 1.0, (2, 3, 6))
    low, high = bca_interval(rows, 1)

    assert low.shape == high.shape == (2, 3)
    assert (low[1, 2], high[1, 2]) == pytest.approx(bca_interval(rows[1, 2], 1), abs=1e-12)


def test_the_draws_have_an_address():
    row = rng.stream(1, "test").normal(0.0, 1.0, 6)

    assert bca_interval(row, 1) == bca_interval(row.copy(), 1)
    assert bca_interval(row, 1) != bca_interval(row, 2)


def test_two_pairs_have_no_interval_and_equal_ones_a_point():
    assert np.isnan(bca_interval(np.array([0.1, 0.2]), 1)).all()
    assert np.array(bca_interval(np.full(4, 0.1), 1)).tolist() == [0.1, 0.1]


def test_rows_are_those_of_scipy():
    rows = rng.stream(1, "test").normal(0.3, 1.0, (20, 7))
    expected = stats.ttest_1samp(rows, 0.0, axis=1)
    interval = expected.confidence_interval(0.9)

    assert t_test(rows) == pytest.approx(expected.pvalue)
    assert t_interval(rows, 0.9)[0] == pytest.approx(interval.low)
    assert t_interval(rows, 0.9)[1] == pytest.approx(interval.high)


def test_without_spread_the_interval_is_a_point_and_the_test_needs_zeros():
    # 0.1 three times: a sum of rounded numbers, whose spread must still be none.
    rows = np.array([[0.1] * 3, [0.0] * 3])
    low, high = t_interval(rows)

    assert low.tolist() == high.tolist() == [0.1, 0.0]
    assert np.isnan(t_test(rows)).tolist() == [True, False]
    assert t_test(rows)[1] == 1.0


def test_one_pair_has_neither_interval_nor_p_value():
    assert math.isnan(float(t_test(np.array([0.5]))))
    assert math.isnan(float(t_interval(np.array([0.5]))[0]))


# SciPy 1.13 divides by zero inside its noncentral t.
@pytest.mark.filterwarnings("ignore:divide by zero encountered in _nct:RuntimeWarning")
@pytest.mark.parametrize("effect", [0.0, 0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("num", [2, 3, 5, 20, 50])
@pytest.mark.parametrize("alpha", [0.05, 0.0125])
def test_the_power_is_that_of_the_noncentral_t(effect, num, alpha):
    critical, shift = stats.t.ppf(1.0 - alpha / 2.0, num - 1), effect * math.sqrt(num)
    above = stats.nct.sf(critical, num - 1, shift)
    # SciPy has NaN for a tail that is nearly 0.
    below = np.nan_to_num(stats.nct.cdf(-critical, num - 1, shift))

    assert power_of_t_test(effect, num, alpha) == pytest.approx(above + below, abs=2e-4)


# Sample sizes of the paired t-test in textbooks (two-sided 0.05, power 0.8).
@pytest.mark.parametrize(("effect", "num"), [(0.2, 199), (0.5, 34), (0.8, 15), (-0.5, 34)])
def test_the_number_of_seeds_is_the_textbooks(effect, num):
    assert seeds_needed(effect) == num


def test_a_small_effect_is_out_of_reach_and_a_huge_one_needs_few():
    assert seeds_needed(0.0) is None
    assert seeds_needed(0.01) is None
    # Two seeds: with 1 degree of freedom the bound is 12.7 |z|, nearly always below 30 sqrt(2).
    assert seeds_needed(30.0) == 2
    # A bound of 255 |z| lies above 42 with a chance of 0.87.
    assert seeds_needed(30.0, alpha=0.0025) == 3


def test_seventeen_of_twenty_four_by_hand():
    # z = 1.96: (17 + 1.9207) / (24 + 3.8415) = 0.6796;
    # 1.96 / 27.8415 sqrt(17 * 7 / 24 + 0.9604) = 0.0704 * 2.4327 = 0.1713.
    share = survival_share(17, 24)

    assert share.share == 17 / 24
    assert (share.low, share.high) == pytest.approx((0.5083, 0.8509), abs=2e-4)
    assert survival_sentence("oort", "random", share) == (
        "oort before random in 71 % [51, 85] of 24 plausible fleets."
    )


@pytest.mark.parametrize(("wins", "num"), [(0, 1), (1, 1), (0, 20), (20, 20), (3, 7)])
def test_the_interval_is_that_of_scipy(wins, num):
    expected = stats.binomtest(wins, num).proportion_ci(0.9, method="wilson")
    share = survival_share(wins, num, 0.9)

    assert (share.low, share.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
