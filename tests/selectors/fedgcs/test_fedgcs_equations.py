"""Equations of FedGCS on numbers that can be computed by hand."""

import numpy as np
import pytest

from fleetsim.selectors.fedgcs.equations import min_max, scores

TEN = {"budget_s": 10.0, "budget_j": 10.0}


def one_score(performance, seconds, joules, **more):
    arrays = (np.array([x]) for x in (performance, seconds, joules))
    return scores(*arrays, **TEN | more).item()


@pytest.mark.parametrize(
    ("seconds", "joules", "exponents", "expected"),
    [
        (10.0, 10.0, {}, 0.8),
        (5.0, 1.0, {}, 0.8),
        (20.0, 10.0, {}, 0.2),
        (10.0, 40.0, {}, 0.05),
        (20.0, 40.0, {}, 0.0125),
        (20.0, 40.0, {"latency_exponent": 1.0}, 0.8 / 2 / 16),
        (20.0, 40.0, {"energy_exponent": 0.0}, 0.8 / 4),
    ],
)
def test_a_score_is_the_performance_less_penalties_on_what_exceeds_a_budget(
    seconds, joules, exponents, expected
):
    """(10 / 20)^2 = 1/4 and (10 / 40)^2 = 1/16; within the budget there is no bonus."""
    assert one_score(0.8, seconds, joules, **exponents) == pytest.approx(expected)


def test_extreme_costs_give_a_score_and_no_warning():
    assert one_score(0.8, 1e300, 0.0) == 0.0
    assert one_score(0.8, 5.0, 5.0, budget_s=5e-324, budget_j=1e300) == 0.0


def test_normalisation_is_over_the_range_of_the_values():
    assert min_max(np.array([3.0, 1.0, 5.0, 2.0])).tolist() == [0.5, 0.0, 1.0, 0.25]
    assert min_max(np.array([4.0, 4.0])).tolist() == [0.0, 0.0]
    assert min_max(np.empty(0)).size == 0
