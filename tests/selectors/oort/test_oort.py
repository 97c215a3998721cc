import numpy as np
import pytest
from pydantic import ValidationError

from fleetsim.contracts import Outcome
from fleetsim.selectors.oort.selector import OortSettings
from tests.selectors.rounds import met, outcome_of, report_of


def test_stragglers_get_the_mean_utility_of_the_round_and_a_bound_on_their_duration():
    # Round 1: 0 and 1 deliver U = 20 and 40, mean 30, in 10 and 30 s; 2 was cut after 60 s, 3 was
    # lost after 3 s.
    _, selector = met(OortSettings(), (10,) * 5)
    first = [
        report_of(0, loss=2.0, duration_s=10.0),
        report_of(1, loss=4.0, duration_s=30.0),
        report_of(2, outcome=Outcome.CANCELLED, duration_s=60.0),
        report_of(3, outcome=Outcome.OFFLINE, duration_s=3.0),
    ]
    selector.observe(outcome_of(1, first))
    state = selector.state()

    np.testing.assert_array_equal(state["utility"], [20.0, 40.0, 30.0, 30.0, np.nan])
    np.testing.assert_array_equal(state["duration_s"], [10.0, 30.0, 60.0, 3.0, np.nan])
    assert state["preferred_s"] == 20.0  # of those that delivered

    # Round 2: 3 delivers U = 10 in 15 s, which replaces its bound; the bounds of 2 (25 s) and
    # of 1 (5 s) tell nothing new; both get the mean, 10.
    second = [
        report_of(2, outcome=Outcome.LATE, duration_s=25.0),
        report_of(3, loss=1.0, duration_s=15.0),
        report_of(1, outcome=Outcome.OFFLINE, duration_s=5.0),
    ]
    selector.observe(outcome_of(2, second))
    state = selector.state()

    np.testing.assert_array_equal(state["utility"], [20.0, 10.0, 10.0, 10.0, np.nan])
    np.testing.assert_array_equal(state["duration_s"], [10.0, 30.0, 60.0, 15.0, np.nan])
    assert state["last_round"].tolist() == [1, 2, 2, 2, 0]


def test_a_floor_above_the_start_is_refused():
    with pytest.raises(ValidationError, match=r"exploration_min_fraction 0\.5"):
        OortSettings(exploration_fraction=0.4, exploration_min_fraction=0.5)
