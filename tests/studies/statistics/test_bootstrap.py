import numpy as np
import pytest
from scipy import stats

from fleetsim import rng
from fleetsim.studies.statistics.bootstrap import bca_interval


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
