import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.studies.statistics.paired_costs import (
    are_open,
    ordered_log_ratios,
    restricted_log_ratios,
)

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
