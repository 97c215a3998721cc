import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.record.measures.comprehensive_score import comprehensive_score

budgets = st.floats(0.1, 1e3)
spent = st.floats(0.0, 1e4)
exponents = st.floats(0.0, 4.0)


@given(spent, spent, budgets, budgets, exponents, exponents)
def test_the_score_is_the_printed_formula(latency_s, energy_j, budget_s, budget_j, a, b):
    printed = 0.5
    if budget_s < latency_s:
        printed *= (budget_s / latency_s) ** a
    if budget_j < energy_j:
        printed *= (budget_j / energy_j) ** b
    score = comprehensive_score(
        np.array([0.5]),
        np.array([latency_s]),
        np.array([energy_j]),
        budget_s=budget_s,
        budget_j=budget_j,
        latency_penalty=a,
        energy_penalty=b,
    )

    assert score[0] == pytest.approx(printed)


@pytest.mark.parametrize("budgets", [(0.0, 1.0), (1.0, -1.0)])
def test_budgets_must_be_above_zero(budgets):
    with pytest.raises(ValueError, match=r"must be above 0, got (0\.0|-1\.0)"):
        comprehensive_score(
            np.ones(1), np.ones(1), np.ones(1), budget_s=budgets[0], budget_j=budgets[1]
        )
