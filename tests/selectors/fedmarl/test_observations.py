"""States of FedMarl's agents: by hand, and the same on fleets of another scale."""

import math
from typing import Any

import numpy as np
import pytest

from fleetsim.selectors.fedmarl.observations import agent_states, relative

THREE: dict[str, Any] = {
    "loss": np.array([2.0, 1.0, 4.0]),
    "probe_s": np.array([10.0, 30.0, 20.0]),
    "upload_s": np.array([np.nan, 4.0, 1.0]),
    "num_uploads": np.array([0, 5, 2]),
    "num_samples": np.array([100, 50, 100]),
    "round_": 11,
    "num_rounds": 44,
}


def test_states_by_hand():
    two = math.log(2.0)
    expected = [
        # Uploads of 4 s and 1 s: their median is 2 s, in logarithms.
        [0.0, -two, 0.0, 0.0, 0.0, 0.25],
        [-two, math.log(1.5), two, 0.5, -two, 0.25],
        [two, 0.0, -two, 0.2, 0.0, 0.25],
    ]

    np.testing.assert_allclose(agent_states(**THREE), expected, atol=1e-7)


@pytest.mark.parametrize("factor", [1e-6, 0.5, 1000.0])
def test_a_fleet_that_is_slower_or_larger_has_the_same_states(factor):
    scaled = {key: THREE[key] * factor for key in ("loss", "probe_s", "upload_s", "num_samples")}

    np.testing.assert_allclose(
        agent_states(**THREE | scaled), agent_states(**THREE), rtol=1e-5, atol=1e-6
    )


def test_the_first_round_and_those_after_the_last_one_planned():
    first = agent_states(**THREE | {"round_": 1, "num_uploads": np.zeros(3, dtype=np.int64)})
    late = agent_states(**THREE | {"round_": 90})

    assert first[:, 3].tolist() == [0.0, 0.0, 0.0]
    assert late[:, 5].tolist() == [1.0, 1.0, 1.0]


def test_what_is_not_known_says_nothing_and_extremes_are_limited():
    assert relative(np.full(3, np.nan)).tolist() == [0.0, 0.0, 0.0]
    assert relative(np.zeros(2)).tolist() == [0.0, 0.0]
    assert relative(np.array([])).tolist() == []
    assert relative(np.array([np.inf, 1.0, 1e300, 0.0, 1.0])).tolist() == [0.0, 0.0, 3.0, -3.0, 0.0]
