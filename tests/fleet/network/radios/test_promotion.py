"""Promotions of radios, added to transfers that were laid out from their end on."""

import numpy as np

from fleetsim.fleet.network.access import _with_promotions as with_promotions
from fleetsim.fleet.timeline import Timelines

# Two transfers of 4 bits: in one second each, and in two steps.
LAID_OUT = Timelines(
    edges_s=np.array([[5.0, 6.0, 6.0], [3.0, 4.0, 6.0]]),
    progress=np.array([[0.0, 4.0, 4.0], [0.0, 3.0, 4.0]]),
    power_w=np.array([[2.0, 0.0], [3.0, 1.0]]),
    num_segments=np.array([1, 2]),
    is_complete=np.array([True, True]),
)
ROWS, POWER_W = np.array([7, 9]), np.array([0.5, 0.25])


def test_a_promotion_is_a_first_segment_in_which_nothing_moves() -> None:
    ((rows, whole),) = with_promotions(ROWS, LAID_OUT, np.array([4.0, 1.0]), POWER_W)
    first, second = whole.row(0), whole.row(1)

    assert rows.tolist() == [7, 9]
    assert (first.edges_s.tolist(), first.progress.tolist()) == ([4.0, 5.0, 6.0], [0.0, 0.0, 4.0])
    assert (second.power_w.tolist(), second.start_s) == ([0.25, 3.0, 1.0], 1.0)
    assert whole.energy_until(np.array([np.inf, np.inf])).tolist() == [0.5 + 2.0, 0.5 + 3.0 + 2.0]


def test_radios_that_are_awake_are_left_as_they_were() -> None:
    awake, asleep = with_promotions(ROWS, LAID_OUT, np.array([5.0, 1.0]), POWER_W)

    assert (awake[0].tolist(), asleep[0].tolist()) == ([7], [9])
    assert awake[1].row(0).edges_s.tolist() == [5.0, 6.0]
    assert asleep[1].row(0).edges_s.tolist() == [1.0, 3.0, 4.0, 6.0]
