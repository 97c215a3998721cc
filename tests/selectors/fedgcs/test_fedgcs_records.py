"""Records of selections: their scores, division, orders and state."""

import numpy as np
import pytest

from fleetsim.selectors.fedgcs.records import NO_RECORDS, SelectionRecords

FOUR = SelectionRecords.of(
    [[5, 1], [2], [1, 2, 7], [9]], [0.5, 0.6, 0.7, 0.9], [10.0, 20.0, 10.0, 40.0], [1.0, 1.0, 2, 1]
)


def test_records_can_be_joined_chosen_and_left_out():
    joined = FOUR + FOUR.chosen(np.array([3, 0]))

    assert [selection.tolist() for selection in joined.selections[3:]] == [[9], [9], [5, 1]]
    assert joined.performance[3:].tolist() == [0.9, 0.9, 0.5]
    assert joined.latency_s[3:].tolist() == [40.0, 40.0, 10.0]
    assert joined.clients.tolist() == [1, 2, 5, 7, 9]
    is_known = np.arange(10) != 7
    assert [s.tolist() for s in FOUR.within(is_known).selections] == [[5, 1], [2], [9]]
    assert len(NO_RECORDS.within(is_known)) == 0


@pytest.mark.parametrize(("num", "fraction", "held"), [(2, 0.5, 0), (3, 0.1, 1), (40, 0.1, 4)])
def test_a_share_of_the_records_is_held_out(num, fraction, held):
    records = SelectionRecords.of([[i] for i in range(num)], *np.ones((3, num)))
    rows, held_out = records.split(fraction, seed=3)

    assert held_out.size == held
    assert sorted([*rows.tolist(), *held_out.tolist()]) == list(range(num))
    assert records.split(0.0, seed=3)[1].size == 0


def test_each_selection_comes_in_many_orders():
    long = SelectionRecords.of([list(range(8)), [3, 1]], *np.ones((3, 2)))
    orders, row = long.orders(25, 0)

    assert row.tolist() == [0] * 25 + [1] * 25
    assert all(sorted(order.tolist()) == list(range(8)) for order in orders[:25])
    assert len({tuple(order.tolist()) for order in orders[:25]}) > 20
    assert {tuple(order.tolist()) for order in orders[25:]} == {(3, 1), (1, 3)}


def test_without_shuffles_each_comes_as_it_was_selected():
    orders, row = FOUR.orders(0, 0)

    assert [order.tolist() for order in orders] == [[5, 1], [2], [1, 2, 7], [9]]
    assert row.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("selection", "numbers", "message"),
    [
        ([1, 1], (1.0, 1.0, 1.0), "distinct clients"),
        ([], (1.0, 1.0, 1.0), "sizes of selections must be positive, got 0"),
        ([3, -1], (1.0, 1.0, 1.0), "clients must not be negative, got -1"),
        ([1], (-1.0, 1.0, 1.0), "performance must be finite"),
        ([1], (1.0, np.nan, 1.0), "latency_s must be finite"),
        ([1], (1.0, 1.0, np.inf), "energy_j must be finite"),
    ],
)
def test_a_record_that_cannot_be_is_refused(selection, numbers, message):
    with pytest.raises(ValueError, match=message):
        SelectionRecords.of([selection], *([number] for number in numbers))
