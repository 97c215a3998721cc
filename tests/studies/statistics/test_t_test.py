import math

import numpy as np
import pytest
from scipy import stats

from fleetsim import rng
from fleetsim.studies.statistics.t_test import t_interval, t_test


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
