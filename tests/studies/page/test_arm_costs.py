"""Costs to a target: plane, front, effects and ledgers, against values by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.studies.page import arm_costs, intervals


def costs(rows: list[tuple[str, str, int, str, float, bool]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["condition", "arm", "seed", "metric", "cost", "is_reached"])


def both(arm: str, seed: int, seconds: float, joules: float, *, reached: bool = True) -> list[Any]:
    return [
        ("", arm, seed, "seconds", seconds, reached),
        ("", arm, seed, "joules", joules, reached),
    ]


def test_an_arm_stands_at_the_geometric_mean_of_its_seeds():
    rows = [*both("a", 1, 10.0, 100.0), *both("a", 2, 40.0, 900.0), *both("b", 1, 5.0, 5000.0)]
    first, second = arm_costs.plane(costs(rows), ["a", "b"])

    assert (first.seconds.center, first.joules.center) == (20.0, 300.0)
    assert (first.seconds.low, first.seconds.high) == (10.0, 40.0)
    assert (first.num_reached, second.seconds.num_seeds) == (2, 1)
    assert first.is_on_front
    assert second.is_on_front


def test_an_arm_that_missed_the_target_in_a_seed_is_not_on_the_front():
    rows = [*both("a", 1, 10.0, 10.0), *both("b", 1, 1.0, 1.0, reached=False)]
    first, second = arm_costs.plane(costs(rows), ["a", "b"])

    assert (first.is_on_front, second.is_on_front) == (True, False)
    assert not second.is_complete


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12).map(
        lambda pairs: np.array(pairs, dtype=np.float64).reshape(-1, 2)
    )
)
def test_the_front_has_the_points_that_no_other_beats(points: np.ndarray):
    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        return one[0] <= other[0] and one[1] <= other[1] and tuple(one) != tuple(other)

    assert arm_costs.pareto(points) == {
        index
        for index, point in enumerate(points)
        if not any(beats(other, point) for other in points)
    }


def test_a_level_counts_each_seed_once_with_its_mean_over_other_keys():
    # At level x seed 1 has costs 1 and 4, so 2; seed 2 has 8: together sqrt(16) = 4.
    rows = [
        ("x, u", "a", 1, "joules", 1.0, True),
        ("x, v", "a", 1, "joules", 4.0, False),
        ("x, u", "a", 2, "joules", 8.0, True),
        ("y, u", "a", 1, "joules", 7.0, True),
    ]
    levels = pd.Series({"x, u": "x", "x, v": "x", "y, u": "y"})
    effects = arm_costs.effects(costs(rows), levels, ["x", "y", "z"], ["a", "b"])
    first, second = effects["a"]

    assert (list(effects), first.level, second.level) == (["a"], "x", "y")
    assert first.cost == intervals.Mean(4.0, 2.0, 8.0, 2)
    assert (first.num_reached, first.num_runs) == (2, 3)


def test_a_mean_ledger_counts_a_run_without_a_part_as_zero():
    entries = pd.DataFrame(
        [
            ("a", 1, "compute", "used", 10.0),
            ("a", 1, "compute", "late", 2.0),
            ("a", 1, "transmit", "used", 6.0),
            ("a", 2, "compute", "used", 20.0),
        ],
        columns=["arm", "seed", "component", "energy_outcome", "energy_j"],
    )
    joules = arm_costs.mean_ledger(entries, "component", ["b", "a"], ["transmit", "compute"])

    assert list(joules.columns) == ["transmit", "compute"]
    assert joules.to_dict("index")["a"] == {"transmit": 3.0, "compute": 16.0}


def test_an_interval_of_costs_is_that_of_their_logarithms():
    # Logs 0, 1, 2, 3, 4: mean 2, s = sqrt(2.5), t(.975, 4) = 2.776445: half width 1.96324.
    mean = intervals.geometric(np.exp(np.arange(5.0)))

    assert mean.center == pytest.approx(math.exp(2.0))
    assert math.log(mean.high) == pytest.approx(2.0 + 1.96324, abs=1e-5)
    assert math.log(mean.low) == pytest.approx(2.0 - 1.96324, abs=1e-5)
