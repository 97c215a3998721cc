"""States, rewards, updates and tables of AutoFL, worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest

from fleetsim.selectors.autofl.equations import (
    NUM_STATES,
    rewards,
    state_number,
)
from fleetsim.selectors.autofl.q_tables import QTables, Rewards

LEAST: dict[str, Any] = {
    "num_conv": 0,
    "num_fc": 0,
    "num_rc": 0,
    "batch_size": 1,
    "epochs": 1,
    "participants": 1,
    "cpu_percent": 0,
    "memory_percent": 0,
    "rate_mbit_per_s": 0,
    "coverage_percent": 10,
}
"""The first bin of every part: state 0."""
EXAMPLES: dict[str, tuple[list[float], list[int]]] = {
    "num_conv": ([9, 10, 19, 20, 29, 30, 100], [0, 1, 1, 2, 2, 3, 3]),
    "num_fc": ([9, 10, 200], [0, 1, 1]),
    "num_rc": ([4, 5, 9, 10], [0, 1, 1, 2]),
    "batch_size": ([7, 8, 31, 32], [0, 1, 1, 2]),
    "epochs": ([4.9, 5, 9, 10], [0, 1, 1, 2]),
    "participants": ([9, 10, 49, 50], [0, 1, 1, 2]),
    "cpu_percent": ([0, 0.1, 24.9, 25, 74, 75, 100], [0, 1, 1, 2, 2, 3, 3]),
    "memory_percent": ([0, 24, 25, 75, 100], [0, 1, 2, 3, 3]),
    "rate_mbit_per_s": ([39.9, 40, np.inf], [0, 1, 1]),
    "coverage_percent": ([0, 24.9, 25, 99.9, 100], [0, 0, 1, 1, 2]),
}
"""Values of each part and their bins."""
NUM_BINS = [bins[-1] + 1 for _, bins in EXAMPLES.values()]
STEPS = {part: math.prod(NUM_BINS[place + 1 :]) for place, part in enumerate(EXAMPLES)}
"""Distance of two neighbouring bins in the number of a state: the bins of all later parts."""


@pytest.mark.parametrize("part", EXAMPLES)
def test_every_part_has_the_bins_of_the_paper(part):
    values, bins = EXAMPLES[part]
    numbers = state_number(**LEAST | {part: np.array(values)})

    assert numbers.tolist() == [STEPS[part] * number for number in bins]


def test_the_last_bins_are_the_last_state():
    last = {part: values[-1] for part, (values, _) in EXAMPLES.items()}

    assert NUM_STATES == 4 * STEPS["num_conv"] == 62_208
    assert state_number(**last).tolist() == [62_207]


@pytest.mark.parametrize("part", LEAST)
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_what_is_no_quantity_has_no_state(part, value):
    with pytest.raises(ValueError, match=f"{part} must not be negative"):
        state_number(**LEAST | {part: value})


def test_rewards_by_hand():
    # 52 % after 50 %: 52 + 10 * 2 = 72, less 3 J of the cohort and the joules of each.
    local_j = np.array([2.0, 4.0])

    assert rewards(0.52, 0.5, local_j, 3.0) == pytest.approx([67.0, 65.0])
    # The other reading, alpha = 10 and beta = 100: 520 + 200.
    other = rewards(0.52, 0.5, local_j, 3.0, accuracy_weight=10.0, gain_weight=100.0)
    assert other == pytest.approx([715.0, 713.0])
    # With half a joule as unit 5 J and 7 J count as 10 and 14.
    assert rewards(0.52, 0.5, local_j, 3.0, unit_j=0.5) == pytest.approx([62.0, 58.0])
    # An accuracy that stays is no fall.
    assert rewards(0.5, 0.5, local_j, 3.0).tolist() == [45.0, 43.0]
    # After a fall all have what is missing to 100 per cent.
    assert rewards(0.25, 0.5, np.array([2.0, 400.0]), 201.0).tolist() == [-75.0, -75.0]


@pytest.mark.parametrize(("accuracy", "before"), [(1.1, 0.5), (0.5, np.nan)])
def test_accuracies_that_cannot_be_are_refused(accuracy, before):
    with pytest.raises(ValueError, match="accuracies must be in"):
        rewards(accuracy, before, np.array([1.0]), 1.0)


def rewards_of(*given):
    clients, rows, levels, reward = list(zip(*given, strict=True)) or [(), (), (), ()]
    return Rewards(
        np.array(clients, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.array(levels, dtype=np.int64),
        np.array(reward, dtype=np.float64),
    )


def learned(*given, next_rows, levels=2):
    tables = QTables(levels, learning_rate=0.5, discount=0.1)
    next_rows = np.array(next_rows, dtype=np.int64)
    tables.learn(rewards_of(*given), next_rows)
    return tables


def test_rows_are_learned_one_by_one_and_all_others_are_zeros():
    # Row 7, level 1: 0.5 * 10 = 5. Row 3, level 0, with row 7 next: 0.5 (20 + 0.1 * 5) = 10.25.
    # Row 7, level 1 again, with row 3 next: 5 + 0.5 (10 + 0.1 * 10.25 - 5) = 8.0125.
    tables = learned((0, 7, 1, 10.0), (1, 3, 0, 20.0), (0, 7, 1, 10.0), next_rows=[9, 7, 3])

    expected = [[0.0, 8.0125], [0.0, 0.0], [10.25, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert tables.values(np.array([7, 9, 3, 0, -1])) == pytest.approx(np.array(expected))
    assert tables.state()["rows"].tolist() == [3, 7]


def test_a_value_below_the_untried_level_leaves_the_next_state_at_zero():
    # Row 1 has -5 at level 0 and nothing at level 1: the best of it is 0.
    tables = learned((0, 1, 0, -10.0), (0, 2, 0, 8.0), next_rows=[9, 1])

    assert tables.values(np.array([1, 2])).tolist() == [[-5.0, 0.0], [4.0, 0.0]]


@pytest.mark.parametrize(
    "change",
    [
        {"rows": np.array([2, 2])},
        {"rows": np.array([-1, 2])},
        {"rows": np.array([1.0, 2.0])},
        {"rows": np.array([1])},
        {"values": np.zeros((2, 3))},
        {"values": np.array([[0.0, np.nan], [0.0, 0.0]])},
        {"values": np.zeros((2, 2), dtype=np.float32)},
    ],
)
def test_what_are_no_tables_is_refused(change):
    tables = QTables(2, learning_rate=0.5, discount=0.1)
    tables.restore({"rows": np.array([1, 2]), "values": np.ones((2, 2))})

    with pytest.raises(ValueError, match="rows must ascend"):
        tables.restore({"rows": np.array([3, 4]), "values": np.zeros((2, 2))} | change)
    assert tables.values(np.array([1, 2])).tolist() == [[1.0, 1.0]] * 2
