import math

import numpy as np
import pytest
from scipy import stats

from fleetsim.studies.statistics.t_test import power_of_t_test, seeds_needed


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
