import math
from typing import Any

import numpy as np
import pytest

from fleetsim.selectors.afl.equations import choose, num_active, valuations


def chosen(values: Any, wanted: int, **changes: Any) -> Any:
    """A choice that leaves none out and draws all by valuation, unless changed."""
    valued = np.array(values, dtype=np.float64)
    draws = {name: np.ones(valued.size) for name in ("exponentials", "uniforms")}
    usual: dict[str, Any] = {
        "alpha_1": 0.0,
        "alpha_2": 1.0,
        "alpha_3": 0.0,
        "keys": np.arange(valued.size),
    }
    return choose(valued, wanted, **(draws | usual | changes))


def test_a_valuation_is_the_summed_loss_over_the_root_of_the_size():
    # Four samples of losses 1, 2, 3, 2: sum 8, over sqrt(4) is 4; one sample of loss 0.5: 0.5.
    assert valuations(np.array([4, 1]), np.array([2.0, 0.5])).tolist() == [4.0, 0.5]


def test_large_valuations_do_not_overflow():
    # The second arrives at E / e against 1: first if E < e.
    values = [5e4, 5e4 + 1.0]

    assert chosen(values, 1, exponentials=np.array([1.0, 2.7])).tolist() == [1]
    assert chosen(values, 1, exponentials=np.array([1.0, 2.8])).tolist() == [0]


def test_a_choice_by_hand():
    # Two of five are left out (0.4). With alpha_2 = ln 2 the others weigh 8, 16, 32. Arrivals E/w
    # of 2, 3, 4 are 1/8, 3/16 and 5/32, so 2 comes first and 4 second. One more (alpha_3 = 1/3 of
    # 3) is uniform among 0, 1, 3, of which 1 has the smallest number.
    found = chosen(
        [1.0, 2.0, 3.0, 4.0, 5.0],
        3,
        alpha_1=0.4,
        alpha_2=math.log(2.0),
        alpha_3=1 / 3,
        exponentials=np.array([0.01, 0.01, 1.0, 3.0, 5.0]),
        uniforms=np.array([0.5, 0.2, 0.1, 0.9, 0.1]),
    )

    assert found.tolist() == [2, 4, 1]


@pytest.mark.parametrize(
    ("wanted", "alpha_3", "active", "random"),
    # K = 5 and 0.1: 4.5 rounds to 4 + 1 or 5 + 0; 0.3 of 10 is 7 + 3 either way.
    [(5, 0.1, 4, 5), (10, 0.3, 7, 7), (10, 0.9, 1, 1), (7, 0.0, 7, 7), (7, 1.0, 0, 0)],
)
def test_one_part_of_the_cohort_is_rounded_down(wanted, alpha_3, active, random):
    assert num_active(wanted, alpha_3) == active
    assert num_active(wanted, alpha_3, "random") == random


def test_who_was_never_evaluated_is_only_drawn_uniformly():
    uniforms = np.array([0.9, 0.5, 0.1])

    assert chosen([-np.inf, 2.0, -np.inf], 2, uniforms=uniforms).tolist() == [1, 2]
    assert chosen([-np.inf] * 3, 2, uniforms=uniforms).tolist() == [2, 1]
