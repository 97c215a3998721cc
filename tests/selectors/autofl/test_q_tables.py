"""Rows of Q-tables: learned in order, kept through a state, and no more than were rewarded."""

import numpy as np
import pytest

from fleetsim.selectors.autofl.q_tables import QTables, Rewards


def rewards_of(*given):
    clients, rows, levels, reward = list(zip(*given, strict=True)) or [(), (), (), ()]
    return Rewards(
        np.array(clients, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.array(levels, dtype=np.int64),
        np.array(reward, dtype=np.float64),
    )


def learned(*given, next_rows, levels=2):
    tables = QTables(levels)
    next_rows = np.array(next_rows, dtype=np.int64)
    tables.learn(rewards_of(*given), next_rows, learning_rate=0.5, discount=0.1)
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
    tables = QTables(2)
    tables.restore({"rows": np.array([1, 2]), "values": np.ones((2, 2))})

    with pytest.raises(ValueError, match="rows must ascend"):
        tables.restore({"rows": np.array([3, 4]), "values": np.zeros((2, 2))} | change)
    assert tables.values(np.array([1, 2])).tolist() == [[1.0, 1.0]] * 2
