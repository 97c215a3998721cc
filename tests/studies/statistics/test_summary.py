import math

import numpy as np
import pytest

from fleetsim.studies.statistics.summary import summarise

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
