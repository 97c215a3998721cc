"""The figure of the fleet's batteries."""

import numpy as np
import pytest

from fleetsim.report.figures import batteries
from tests.report.drawn import line, x_of, y_of
from tests.report.rows import round_frame, round_row


def live_row(round_: int, **changes):
    fields = {
        "num_off": round_ - 1,
        "battery_low_fraction": 0.1,
        "battery_median_fraction": 0.5,
        "battery_high_fraction": 0.9,
        "num_eligible": 10 - round_,
    }
    return round_row(round_, finished_at_s=3600.0 * round_, **fields | changes)


def test_levels_and_clients_are_drawn_at_the_ends_of_rounds_in_hours():
    rounds = round_frame(*(live_row(k) for k in range(1, 5)))
    upper, lower = batteries.levels(rounds).axes
    (area,) = upper.collections
    heights = np.asarray(area.get_paths()[0].vertices, dtype=np.float64)[:, 1]

    assert x_of(line(upper, "median")) == [1.0, 2.0, 3.0, 4.0]
    assert y_of(line(upper, "median")) == [0.5] * 4
    assert (heights.min(), heights.max()) == (pytest.approx(0.1), pytest.approx(0.9))
    assert y_of(line(lower, "eligible and idle")) == [9.0, 8.0, 7.0, 6.0]
    assert y_of(line(lower, "off (empty)")) == [0.0, 1.0, 2.0, 3.0]
    assert lower.get_xlabel() == "virtual time (h)"
