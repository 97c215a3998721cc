from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.record.measures.comprehensive_score import comprehensive_score


def test_scores_by_hand():
    # Budgets 100 s and 50 J. On budget .9; 200 s cost (1/2)^2, 150 J (1/3)^2, both their product.
    scores = comprehensive_score(
        np.full(4, 0.9),
        np.array([100.0, 200.0, 10.0, 200.0]),
        np.array([50.0, 5.0, 150.0, 150.0]),
        budget_s=100.0,
        budget_j=50.0,
    )

    assert scores == pytest.approx([0.9, 0.225, 0.1, 0.025])


def test_the_exponents_are_those_of_each_budget():
    scores = comprehensive_score(
        np.ones(2),
        np.array([4.0, 1.0]),
        np.array([1.0, 4.0]),
        budget_s=2.0,
        budget_j=2.0,
        latency_penalty=1.0,
        energy_penalty=3.0,
    )

    assert scores.tolist() == [0.5, 0.125]


@given(st.floats(0.0, 1e4), st.floats(0.0, 1e4), st.floats(0.1, 1e3), st.floats(0.1, 1e3))
def test_the_score_is_the_printed_formula(latency_s, energy_j, budget_s, budget_j):
    printed = 0.5
    if budget_s < latency_s:
        printed *= (budget_s / latency_s) ** 2
    if budget_j < energy_j:
        printed *= (budget_j / energy_j) ** 2
    score = comprehensive_score(
        np.array([0.5]),
        np.array([latency_s]),
        np.array([energy_j]),
        budget_s=budget_s,
        budget_j=budget_j,
    )

    assert score[0] == pytest.approx(printed)


@pytest.mark.parametrize("budgets", [(0.0, 1.0), (1.0, -1.0)])
def test_budgets_must_be_above_zero(budgets):
    with pytest.raises(ValueError, match=r"must be above 0, got (0\.0|-1\.0)"):
        comprehensive_score(
            np.ones(1), np.ones(1), np.ones(1), budget_s=budgets[0], budget_j=budgets[1]
        )
