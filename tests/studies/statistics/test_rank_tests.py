import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fleetsim import rng
from fleetsim.studies.statistics.rank_tests import least_p, sign_test, signed_rank_test
from fleetsim.studies.statistics.verdict import holm

INF = math.inf


@given(
    st.lists(st.sampled_from([-INF, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, INF]), min_size=1, max_size=8)
)
def test_the_signed_rank_test_is_a_share_of_all_signs(difference):
    ranks = stats.rankdata(np.abs(difference))
    kept = [rank for rank, d in zip(ranks, difference, strict=True) if d != 0.0]
    seen = sum(rank for rank, d in zip(ranks, difference, strict=True) if d > 0.0)
    middle = sum(kept) / 2.0
    sums = [
        sum(rank for rank, is_positive in zip(kept, signs, strict=True) if is_positive)
        for signs in itertools.product([False, True], repeat=len(kept))
    ]
    as_far = [abs(total - middle) >= abs(seen - middle) for total in sums]

    assert signed_rank_test(np.array(difference)) == pytest.approx(np.mean(as_far))


@pytest.mark.parametrize("num", [5, 12, 40])
def test_without_ties_it_is_that_of_scipy(num):
    difference = rng.stream(1, "test", num).normal(0.3, 1.0, num)

    assert signed_rank_test(difference) == pytest.approx(
        stats.wilcoxon(difference, method="exact").pvalue
    )


@pytest.mark.parametrize(
    ("difference", "p"),
    [
        # One of five against the others: 2 (1 + 5) / 2^5.
        ([-1.0, -2.0, -9.0, -4.0, 3.0], 0.375),
        ([-1.0, -2.0, -9.0, -4.0, 0.0], 2 / 16),
        ([0.0, 0.0], 1.0),
        ([INF] * 6, 2 / 64),
    ],
)
def test_the_sign_test_by_hand(difference, p):
    assert sign_test(np.array(difference)) == pytest.approx(p)


@pytest.mark.parametrize("num", range(1, 9))
def test_no_p_value_is_less_than_that_of_equal_signs(num):
    difference = -np.arange(1.0, num + 1.0)

    assert signed_rank_test(difference) == sign_test(difference) == least_p(num)


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        # 3 * 0.01; 2 * 0.02; 1 * 0.03, but not less than 0.04.
        ([0.03, 0.01, 0.02], [0.04, 0.03, 0.04]),
        ([0.6, 0.7], [1.0, 1.0]),
        # Families one by one.
        ([[0.9, 0.4], [0.5, 0.01]], [[0.9, 0.8], [0.5, 0.02]]),
        # A missing value stays missing, and does not count.
        ([math.nan, 0.02, 0.03], [math.nan, 0.04, 0.04]),
        ([], []),
    ],
)
def test_p_values_are_adjusted_by_hand(p, adjusted):
    assert holm(np.array(p)) == pytest.approx(np.array(adjusted), nan_ok=True)
