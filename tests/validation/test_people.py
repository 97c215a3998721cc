"""Two counts of a trace, on people worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.validation import people

WEEK_S = 7 * 86_400
# a is eligible from 22:00 on Sunday to 02:00 on Monday, and for half an hour on Monday at 12; its
# load is 0.5 in that half hour. b is online, and nothing else, for all of the week.
STATES = """\
user,t_s,online,charging,unmetered,load
a,0,1,1,1,0
a,7200,1,0,1,0
a,43200,1,1,1,0.5
a,45000,0,1,0,0
a,597600,1,1,1,0
b,0,1,0,0,0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "states.csv").write_text(STATES)
    (tmp_path / "users.csv").write_text(f"user,span_s\na,{WEEK_S}\nb,{WEEK_S}\n")
    return tmp_path


def test_both_counts_are_those_by_hand(folder: Path) -> None:
    states = people._states_of(folder / "states.csv")
    trace = read_trace(folder)
    eligible = np.zeros(24)
    # of two people and seven days: hours 0, 1, 22 and 23 once, half of hour 12 once
    eligible[[0, 1, 22, 23]], eligible[12] = 1 / 14, 0.5 / 14

    for by_hour in (people._counted_by_hour(states), people._simulated_by_hour(trace)):
        assert by_hour["eligible"] == pytest.approx(eligible)
        assert by_hour["charging"].sum() == pytest.approx((2 + (597_600 - 43_200) / 3600 + 2) / 14)
        assert by_hour["unmetered"].sum() == pytest.approx((12.5 + 2) / 14)
    for lengths in (people._counted_intervals_s(states), people._simulated_intervals_s(trace)):
        assert sorted(lengths.tolist()) == [1800.0, 14_400.0]
    for load in (people._counted_load(states), people._simulated_load(trace)):
        assert load == pytest.approx(0.5 * 1800 / (2 * WEEK_S))
